//! Generated links: hundreds to thousands of small objects that look like compiled C++. They are written
//! directly, without a compiler.
//!
//! Every object contains functions in sections of their own. They call each other, functions of other objects
//! and inline functions (COMDAT groups of code and a constant; several objects define each). Every object
//! also has mergeable strings with many repeats, an unwind table, and a table with the addresses of all its
//! functions. The program calls every function and sums the results, so a wrong relocation changes its
//! output.

use std::path::Path;

use super::case::{Case, link_line, must_run};
use super::generated_object::{
    ALLOCATED, EXECUTABLE, MERGED_STRINGS, ObjectFile, R_32, R_64, R_PC32, R_PLT32, R_REX_GOTPCRELX,
    SectionId, SymbolId, SymbolKind, WRITABLE, X86_64,
};
use super::generated_program::{Function, Program, mix, variable};
use anyhow::Result;

/// The number of symbols and relocations in all objects, and the objects' size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub symbols: u64,
    pub relocations: u64,
    pub bytes: u64,
}

/// Writes the objects of a program, including the main one, into `folder`.
pub fn prepare(folder: &Path, program: Program) -> Result<(Case, Counts)> {
    std::fs::create_dir_all(folder.join("objects"))?;
    std::fs::write(folder.join("main.c"), include_str!("programs/generated_main.c"))?;
    let depth = format!("-DDEPTH={}", program.depth);
    must_run(folder, "gcc", &["-O2", &depth, "-c", "main.c"].map(String::from))?;
    let mut names = vec!["main.o".to_string()];
    let mut counts = Counts::default();
    for number in 0..program.objects {
        let name = format!("objects/{number:05}.o");
        let object = ObjectWriter::new(program, number).finish();
        let bytes = object.write();
        std::fs::write(folder.join(&name), &bytes)?;
        counts.symbols += object.symbol_count();
        counts.relocations += object.relocation_count();
        counts.bytes += bytes.len() as u64;
        names.push(name);
    }
    let link = link_line(folder, "gcc", &names)?;
    let expected = format!("functions {} sum {}\n", program.objects * program.functions, program.sum());
    let mut case = Case::new(link, &[], &[&expected]);
    case.objects = Some(names.len());
    Ok((case, counts))
}

/// How many different names of types occur in debug information.
const SHARED_TYPES: u64 = 50_000;

/// Writes one object of the program.
struct ObjectWriter {
    program: Program,
    number: u64,
    object: ObjectFile,
    strings: SectionId,
    unwind: SectionId,
    table: SectionId,
    /// `.debug_info` and `.debug_str`, if the program has debug information.
    debug: Option<[SectionId; 2]>,
}

impl ObjectWriter {
    fn new(program: Program, number: u64) -> Self {
        let mut object = ObjectFile::new(X86_64, &format!("unit_{number:05}.cpp"));
        let strings = object.add_section(".rodata.str1.1", ALLOCATED | MERGED_STRINGS, 1, None);
        let unwind = object.add_section(".eh_frame", ALLOCATED, 8, None);
        let table = object.add_section("function_table", ALLOCATED | WRITABLE, 8, None);
        let comment = object.add_section(".comment", MERGED_STRINGS, 1, None);
        object.add_section(".note.GNU-stack", 0, 1, None);
        object.append(comment, b"\0generated\0");
        object.append(unwind, &COMMON_INFORMATION);
        let debug = (program.debug > 0).then(|| {
            let strings = object.add_section(".debug_str", MERGED_STRINGS, 1, None);
            [object.add_section(".debug_info", 0, 1, None), strings]
        });
        ObjectWriter { program, number, object, strings, unwind, table, debug }
    }

    fn finish(mut self) -> ObjectFile {
        self.define_variable();
        for function in self.program.inline_functions(self.number) {
            self.define_inline(function);
        }
        for index in 0..self.program.functions {
            let function = Function::Ordinary { object: self.number, index };
            let name = function.name();
            let section = self.object.add_section(&format!(".text.{name}"), ALLOCATED | EXECUTABLE, 16, None);
            self.define(function, section, None);
            let entry = self.object.append(self.table, &[0; 8]);
            let symbol = self.object.global(&name);
            self.object.relocate(self.table, entry, symbol, R_64, 0);
        }
        self.object
    }

    fn define_variable(&mut self) {
        let (name, value) = variable(self.number);
        let section = self.object.add_section(&format!(".data.{name}"), ALLOCATED | WRITABLE, 4, None);
        self.object.append(section, &value.to_le_bytes());
        self.object.define(&name, SymbolKind::Data, false, section);
    }

    /// Defines a group with the code and the read-only constant of an inline function; the function's name is
    /// its signature.
    fn define_inline(&mut self, function: Function) {
        let name = function.name();
        let group = Some(self.object.global(&name));
        let text = self.object.add_section(&format!(".text.{name}"), ALLOCATED | EXECUTABLE, 16, group);
        let constant = self.object.add_section(&format!(".rodata.{name}"), ALLOCATED, 4, group);
        self.object.append(constant, &function.constant().to_le_bytes());
        self.define(function, text, Some(constant));
    }

    /// Writes the body of `function` into `section`, with its unwind information. An inline function is weak
    /// and reads its `constant` from a section of its group. The others have it in an instruction.
    fn define(&mut self, function: Function, section: SectionId, constant: Option<SectionId>) {
        let text = self.string_label(&function.text());
        let (variable, _) = variable(self.program.variable_object(function));
        let variable = self.object.global(&variable);
        let mut code = Code::default();
        code.bytes(&[0x53, 0x55, 0x89, 0xfd]); // push rbx; push rbp; mov ebp, edi
        code.relative(&[0x48, 0x8d, 0x05], text, R_PC32); // lea rax, text
        code.bytes(&[0x0f, 0xb6, 0x18]); // movzx ebx, byte [rax]
        if let Some(constant) = constant {
            code.relative(&[0x03, 0x1d], self.object.section_symbol(constant), R_PC32); // add ebx, [constant]
        } else {
            code.bytes(&[0x81, 0xc3]); // add ebx, constant
            code.bytes(&function.constant().to_le_bytes());
        }
        code.relative(&[0x48, 0x8b, 0x05], variable, R_REX_GOTPCRELX); // mov rax, variable@GOT
        code.bytes(&[0x03, 0x18]); // add ebx, [rax]
        let mut calls = Code::default();
        for callee in self.program.callees(function) {
            calls.bytes(&[0x8d, 0x7d, 0xff]); // lea edi, [rbp - 1]
            calls.relative(&[0xe8], self.object.global(&callee.name()), R_PLT32); // call callee
            calls.bytes(&[0x01, 0xc3]); // add ebx, eax
        }
        code.bytes(&[0x85, 0xed, 0x0f, 0x84]); // test ebp, ebp; jz past the calls
        code.bytes(&(calls.bytes.len() as u32).to_le_bytes());
        code.append(calls);
        code.bytes(&[0x89, 0xd8, 0x5d, 0x5b, 0xc3]); // mov eax, ebx; pop rbp; pop rbx; ret
        self.object.append(section, &code.bytes);
        for place in code.places {
            self.object.relocate(section, place.offset, place.symbol, place.kind, -4);
        }
        self.add_unwind(section, code.bytes.len());
        self.describe(function, section);
        self.object.define(&function.name(), SymbolKind::Function, constant.is_some(), section);
    }

    /// A frame description entry for the function that fills `section`.
    fn add_unwind(&mut self, section: SectionId, size: usize) {
        let mut entry = vec![];
        entry.extend(28_u32.to_le_bytes()); // length
        entry.extend([0; 4]); // distance to the common information, below
        entry.extend([0; 4]); // start, by relocation
        entry.extend((size as u32).to_le_bytes());
        entry.push(0); // no augmentation data
        entry.extend([0x41, 0x0e, 0x10, 0x83, 0x02]); // advance 1; CFA offset 16; rbx at CFA-16
        entry.extend([0x41, 0x0e, 0x18, 0x86, 0x03]); // advance 1; CFA offset 24; rbp at CFA-24
        entry.resize(32, 0);
        let offset = self.object.size(self.unwind);
        entry[4..8].copy_from_slice(&(offset as u32 + 4).to_le_bytes());
        self.object.append(self.unwind, &entry);
        let symbol = self.object.section_symbol(section);
        self.object.relocate(self.unwind, offset + 8, symbol, R_PC32, 0);
    }

    /// Adds a record of debug information for the function that fills `section`: its address, its name, the
    /// name of a type that many share, and bytes that neither compression nor merging can shorten.
    fn describe(&mut self, function: Function, section: SectionId) {
        let Some([info, strings]) = self.debug else { return };
        let seed = mix(function.constant().into(), 9);
        let name = self.object.append(strings, format!("{}\0", function.name()).as_bytes());
        let type_name = format!("std::vector<generated::type_{:x}>\0", seed % SHARED_TYPES);
        let type_name = self.object.append(strings, type_name.as_bytes());
        let (address, strings) = (self.object.section_symbol(section), self.object.section_symbol(strings));
        let record = self.object.append(info, &[0; 16]);
        self.object.relocate(info, record, address, R_64, 0);
        self.object.relocate(info, record + 8, strings, R_32, name as i64);
        self.object.relocate(info, record + 12, strings, R_32, type_name as i64);
        let rest = self.program.debug / (self.program.functions + self.program.inline_functions) / 8 - 2;
        let words: Vec<u8> = (0..rest).flat_map(|word| mix(seed, word).to_le_bytes()).collect();
        self.object.append(info, &words);
    }

    /// A local symbol for a string, as compilers define them.
    fn string_label(&mut self, text: &str) -> SymbolId {
        let value = self.object.append(self.strings, format!("{text}\0").as_bytes());
        self.object.add_label(&format!(".LC{value}"), self.strings, value)
    }
}

/// Common information entry: version 1, "zR", data alignment -8, return address column 16, addresses
/// relative, in 4 bytes.
const COMMON_INFORMATION: [u8; 24] =
    [20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0];

/// Machine code that is being written.
#[derive(Default)]
struct Code {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

/// A 4-byte field at the end of its instruction, relative to that end.
struct Place {
    offset: u64,
    symbol: SymbolId,
    kind: u32,
}

impl Code {
    fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn relative(&mut self, opcode: &[u8], symbol: SymbolId, kind: u32) {
        self.bytes(opcode);
        self.places.push(Place { offset: self.bytes.len() as u64, symbol, kind });
        self.bytes(&[0; 4]);
    }

    fn append(&mut self, other: Code) {
        let start = self.bytes.len() as u64;
        self.bytes.extend(other.bytes);
        self.places
            .extend(other.places.into_iter().map(|place| Place { offset: start + place.offset, ..place }));
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn generated_objects_link_and_print_the_sum() {
        for program in [Program::usual(5), Program::large(3)] {
            let folder = tempfile::tempdir().unwrap();
            let (case, _) = prepare(folder.path(), program).unwrap();
            case.save(folder.path()).unwrap();
            let link = ["@link.args", "-o", "output"];
            let status = Command::new("ld").args(link).current_dir(folder.path()).status().unwrap();
            assert!(status.success());
            assert_eq!(case.check(folder.path(), &folder.path().join("output")), Ok(()));
        }
    }

    #[test]
    fn an_object_is_the_same_every_time() {
        let write = |number| ObjectWriter::new(Program::usual(7), number).finish().write();
        assert_eq!(write(3), write(3));
        assert_ne!(write(3), write(4));
    }
}
