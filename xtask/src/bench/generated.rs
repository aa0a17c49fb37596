//! Generated links: hundreds to thousands of small objects that look like compiled C++, written directly.
//!
//! Every object holds functions in sections of their own, which call each other, functions of other objects and
//! inline functions (COMDAT groups of code and constant, defined in several objects each); mergeable strings with
//! many repeats; an unwind table; and an address table of all its functions. The program calls every function and
//! sums what they return, so a wrong relocation shows in what it prints.

use std::path::Path;

use anyhow::Result;
use object::write::{Comdat, Object, Relocation, SectionId, Symbol, SymbolId, SymbolSection};
use object::{
    Architecture, BinaryFormat, ComdatKind, Endianness, RelocationFlags, SectionFlags, SectionKind,
    SymbolFlags, SymbolKind, SymbolScope, elf,
};

use super::case::{Case, link_line, must_run};
use super::generated_program::{FUNCTIONS, Function, Program, variable};

/// Writes `count` objects and a main program into `folder`.
pub fn prepare(folder: &Path, count: u64) -> Result<Case> {
    std::fs::create_dir_all(folder.join("objects"))?;
    std::fs::write(folder.join("main.c"), include_str!("programs/generated_main.c"))?;
    must_run(folder, "gcc", &["-O2", "-c", "main.c"].map(String::from))?;
    let program = Program { objects: count };
    let mut names = vec!["main.o".to_string()];
    for number in 0..count {
        let name = format!("objects/{number:05}.o");
        std::fs::write(folder.join(&name), ObjectWriter::new(program, number).write()?)?;
        names.push(name);
    }
    let link = link_line(folder, "gcc", &names)?;
    let expected = format!("functions {} sum {}\n", count * FUNCTIONS, program.sum());
    let mut case = Case::new(link, &[], &[&expected]);
    case.objects = Some(names.len());
    Ok(case)
}

/// Writes one object of the program.
struct ObjectWriter {
    program: Program,
    number: u64,
    object: Object<'static>,
    strings: SectionId,
    unwind: SectionId,
    table: SectionId,
}

impl ObjectWriter {
    fn new(program: Program, number: u64) -> Self {
        let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        object.add_file_symbol(format!("unit_{number:05}.cpp").into_bytes());
        let mut section = |name: &str, kind| object.add_section(vec![], name.as_bytes().to_vec(), kind);
        let strings = section(".rodata.str1.1", SectionKind::ReadOnlyString);
        let unwind = section(".eh_frame", SectionKind::ReadOnlyData);
        let table = section("function_table", SectionKind::Data);
        let comment = section(".comment", SectionKind::OtherString);
        let stack = section(".note.GNU-stack", SectionKind::Other);
        object.section_mut(unwind).flags =
            SectionFlags::Elf { sh_type: elf::SHT_X86_64_UNWIND, sh_flags: elf::SHF_ALLOC };
        object.section_mut(stack).flags =
            SectionFlags::Elf { sh_type: elf::SHT_PROGBITS, sh_flags: elf::SectionFlags(0) };
        object.append_section_data(comment, b"\0generated\0", 1);
        ObjectWriter { program, number, object, strings, unwind, table }
    }

    fn write(mut self) -> Result<Vec<u8>> {
        self.object.append_section_data(self.unwind, &COMMON_INFORMATION, 8);
        self.define_variable();
        for function in self.program.inline_functions(self.number) {
            self.define_inline(function)?;
        }
        for index in 0..FUNCTIONS {
            let function = Function::Ordinary { object: self.number, index };
            let section = self.add_section(&format!(".text.{}", function.name()), SectionKind::Text);
            self.define(function, section, None)?;
            let entry = self.object.append_section_data(self.table, &[0; 8], 8);
            let symbol = self.reference(&function.name());
            self.relocate(self.table, entry, symbol, 0, elf::R_X86_64_64)?;
        }
        Ok(self.object.write()?)
    }

    fn add_section(&mut self, name: &str, kind: SectionKind) -> SectionId {
        self.object.add_section(vec![], name.as_bytes().to_vec(), kind)
    }

    fn define_variable(&mut self) {
        let (name, value) = variable(self.number);
        let section = self.add_section(&format!(".data.{name}"), SectionKind::Data);
        self.object.append_section_data(section, &value.to_le_bytes(), 4);
        self.add_symbol(&name, SymbolKind::Data, section, 4, false);
    }

    /// A group of code and a read-only constant, named by the function.
    fn define_inline(&mut self, function: Function) -> Result<()> {
        let name = function.name();
        let text = self.add_section(&format!(".text.{name}"), SectionKind::Text);
        let constant = self.add_section(&format!(".rodata.{name}"), SectionKind::ReadOnlyData);
        self.object.append_section_data(constant, &function.constant().to_le_bytes(), 4);
        let symbol = self.define(function, text, Some(constant))?;
        let sections = vec![text, constant];
        self.object.add_comdat(Comdat { kind: ComdatKind::Any, symbol, sections });
        Ok(())
    }

    /// Writes the body of `function` into `section`, with its unwind information. Inline functions are weak and read
    /// their `constant` from a section of their group; the others hold it in an instruction.
    fn define(
        &mut self,
        function: Function,
        section: SectionId,
        constant: Option<SectionId>,
    ) -> Result<SymbolId> {
        let text = self.string_symbol(&function.text());
        let (variable, _) = variable(self.program.variable_object(function));
        let variable = self.reference(&variable);
        let mut code = Code::default();
        code.bytes(&[0x53, 0x55, 0x89, 0xfd]); // push rbx; push rbp; mov ebp, edi
        code.relative(&[0x48, 0x8d, 0x05], text, elf::R_X86_64_PC32); // lea rax, text
        code.bytes(&[0x0f, 0xb6, 0x18]); // movzx ebx, byte [rax]
        if let Some(constant) = constant {
            code.relative(&[0x03, 0x1d], self.object.section_symbol(constant), elf::R_X86_64_PC32); // add ebx, [constant]
        } else {
            code.bytes(&[0x81, 0xc3]); // add ebx, constant
            code.bytes(&function.constant().to_le_bytes());
        }
        code.relative(&[0x48, 0x8b, 0x05], variable, elf::R_X86_64_REX_GOTPCRELX); // mov rax, variable@GOT
        code.bytes(&[0x03, 0x18]); // add ebx, [rax]
        let mut calls = Code::default();
        for callee in self.program.callees(function) {
            let callee = self.reference(&callee.name());
            calls.bytes(&[0x8d, 0x7d, 0xff]); // lea edi, [rbp - 1]
            calls.relative(&[0xe8], callee, elf::R_X86_64_PLT32); // call callee
            calls.bytes(&[0x01, 0xc3]); // add ebx, eax
        }
        code.bytes(&[0x85, 0xed, 0x0f, 0x84]); // test ebp, ebp; jz past the calls
        code.bytes(&(calls.bytes.len() as u32).to_le_bytes());
        code.append(calls);
        code.bytes(&[0x89, 0xd8, 0x5d, 0x5b, 0xc3]); // mov eax, ebx; pop rbp; pop rbx; ret
        self.object.append_section_data(section, &code.bytes, 16);
        for place in code.places {
            self.relocate(section, place.offset, place.symbol, -4, place.kind)?;
        }
        self.add_unwind(section, code.bytes.len())?;
        Ok(self.add_symbol(
            &function.name(),
            SymbolKind::Text,
            section,
            code.bytes.len() as u64,
            constant.is_some(),
        ))
    }

    /// A frame description entry for the function that fills `section`.
    fn add_unwind(&mut self, section: SectionId, size: usize) -> Result<()> {
        let offset = self.object.section(self.unwind).data().len() as u64;
        let mut entry = vec![];
        entry.extend(28_u32.to_le_bytes()); // length
        entry.extend((offset as u32 + 4).to_le_bytes()); // distance to the common information
        entry.extend([0; 4]); // start, by relocation
        entry.extend((size as u32).to_le_bytes());
        entry.push(0); // no augmentation data
        entry.extend([0x41, 0x0e, 0x10, 0x83, 0x02]); // advance 1; CFA offset 16; rbx at CFA-16
        entry.extend([0x41, 0x0e, 0x18, 0x86, 0x03]); // advance 1; CFA offset 24; rbp at CFA-24
        entry.resize(32, 0);
        self.object.append_section_data(self.unwind, &entry, 1);
        let symbol = self.object.section_symbol(section);
        self.relocate(self.unwind, offset + 8, symbol, 0, elf::R_X86_64_PC32)
    }

    /// A local symbol for a string, as compilers make them.
    fn string_symbol(&mut self, text: &str) -> SymbolId {
        let value = self.object.append_section_data(self.strings, format!("{text}\0").as_bytes(), 1);
        self.object.add_symbol(Symbol {
            name: format!(".LC{value}").into_bytes(),
            value,
            size: 0,
            kind: SymbolKind::Data,
            scope: SymbolScope::Compilation,
            weak: false,
            section: SymbolSection::Section(self.strings),
            flags: SymbolFlags::None,
        })
    }

    /// The symbol called `name`, undefined unless it is defined already (or later).
    fn reference(&mut self, name: &str) -> SymbolId {
        if let Some(symbol) = self.object.symbol_id(name.as_bytes()) {
            return symbol;
        }
        self.object.add_symbol(Symbol {
            name: name.as_bytes().to_vec(),
            value: 0,
            size: 0,
            kind: SymbolKind::Unknown,
            scope: SymbolScope::Unknown,
            weak: false,
            section: SymbolSection::Undefined,
            flags: SymbolFlags::None,
        })
    }

    /// Defines `name` as the whole of `section`.
    fn add_symbol(
        &mut self,
        name: &str,
        kind: SymbolKind,
        section: SectionId,
        size: u64,
        weak: bool,
    ) -> SymbolId {
        let id = self.reference(name);
        let symbol = self.object.symbol_mut(id);
        symbol.size = size;
        symbol.kind = kind;
        symbol.scope = SymbolScope::Dynamic;
        symbol.weak = weak;
        symbol.section = SymbolSection::Section(section);
        id
    }

    fn relocate(
        &mut self,
        section: SectionId,
        offset: u64,
        symbol: SymbolId,
        addend: i64,
        r_type: elf::RelocationType,
    ) -> Result<()> {
        let flags = RelocationFlags::Elf { r_type };
        Ok(self.object.add_relocation(section, Relocation { offset, symbol, addend, flags })?)
    }
}

/// Common information entry: version 1, "zR", data alignment -8, return address 16, addresses relative in 4 bytes.
const COMMON_INFORMATION: [u8; 24] =
    [20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0];

/// Machine code under construction.
#[derive(Default)]
struct Code {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

/// A 4-byte field relative to the end of its instruction, which is where it ends.
struct Place {
    offset: u64,
    symbol: SymbolId,
    kind: elf::RelocationType,
}

impl Code {
    fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn relative(&mut self, opcode: &[u8], symbol: SymbolId, kind: elf::RelocationType) {
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
