//! Writes the relocatable objects that linkers get: functions, calls, groups, and `.sframe` sections of any
//! form, those included that no assembler writes yet.
//!
//! No assembler takes part, so a case's inputs have the same bytes everywhere.

use super::blob::{self, Blob, Edition, SIZE, abi};
use crate::machine::Machine;
use crate::model::{Group, Object, Place, Relocation, Section, Symbol};
use object::elf;
use sframe_format::write::Function;

/// A call in a function: the offset of its relocated field from the instruction, the relocation's type, its
/// addend, and the bytes.
struct Call {
    field: u64,
    kind: u32,
    addend: i64,
    bytes: &'static [u8],
}

fn call_of(machine: Machine) -> Call {
    match machine {
        Machine::X86_64 => {
            Call { field: 1, kind: elf::R_X86_64_PLT32, addend: -4, bytes: &[0xe8, 0, 0, 0, 0] }
        }
        Machine::Aarch64 => {
            Call { field: 0, kind: elf::R_AARCH64_CALL26, addend: 0, bytes: &[0, 0, 0, 0x94] }
        }
        Machine::S390x => {
            Call { field: 2, kind: elf::R_390_PLT32DBL, addend: 2, bytes: &[0xc0, 0xe5, 0, 0, 0, 0] }
        }
    }
}

/// Instructions that do nothing, up to a return.
fn code_of(machine: Machine, size: usize) -> Vec<u8> {
    let (nothing, ret): (&[u8], &[u8]) = match machine {
        Machine::X86_64 => (&[0x90], &[0xc3]),
        Machine::Aarch64 => (&[0x1f, 0x20, 0x03, 0xd5], &[0xc0, 0x03, 0x5f, 0xd6]),
        Machine::S390x => (&[0x07, 0x07], &[0x07, 0xfe]),
    };
    let mut bytes: Vec<u8> = nothing.iter().copied().cycle().take(size).collect();
    let at = size - ret.len();
    bytes[at..].copy_from_slice(ret);
    bytes
}

/// How an `.sframe` section refers to text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By the section symbol of the text, as assemblers do.
    Section,
    /// By the function's own symbol.
    Function,
}

/// An `.sframe` section to be added to a file.
#[derive(Clone, Debug)]
pub struct Frames {
    functions: Vec<String>,
    edition: Edition,
    name: String,
    kind: u32,
    align: u64,
    flags: u64,
    link: bool,
    group: bool,
    by: By,
    bytes: Option<Blob>,
}

impl Frames {
    /// Frames of functions, as the newest assembler writes them, but for the number of sections.
    pub fn of(functions: &[&str]) -> Self {
        Frames {
            functions: functions.iter().map(|name| (*name).into()).collect(),
            edition: Edition::V3,
            name: ".sframe".into(),
            kind: sframe_format::SHT_GNU_SFRAME,
            align: 8,
            flags: elf::SHF_ALLOC.into(),
            link: false,
            group: false,
            by: By::Section,
            bytes: None,
        }
    }

    /// In another version, with the section type of its producers.
    #[must_use]
    pub fn edition(mut self, edition: Edition) -> Self {
        (self.edition, self.kind) = (edition, edition.section_type());
        self
    }

    /// In a section of another name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// In a section of another type.
    #[must_use]
    pub fn kind(mut self, kind: u32) -> Self {
        self.kind = kind;
        self
    }

    /// Linked to the text of the first function (`SHF_LINK_ORDER`).
    #[must_use]
    pub fn linked(mut self) -> Self {
        self.link = true;
        self
    }

    /// A member of the first function's group.
    #[must_use]
    pub fn grouped(mut self) -> Self {
        self.group = true;
        self
    }

    /// With references by another kind of symbol.
    #[must_use]
    pub fn by(mut self, by: By) -> Self {
        self.by = by;
        self
    }

    /// With other bytes. Its fields are those of the functions, in their order.
    #[must_use]
    pub fn bytes(mut self, bytes: Blob) -> Self {
        self.bytes = Some(bytes);
        self
    }
}

/// A function in a file.
struct Placed {
    name: String,
    section: usize,
    offset: u64,
    symbol: usize,
    group: Option<usize>,
    frames: Function,
}

/// An object under construction.
pub struct File {
    machine: Machine,
    object: Object,
    functions: Vec<Placed>,
    /// Section symbols, by section.
    section_symbols: Vec<(usize, usize)>,
}

impl File {
    /// An object without functions.
    pub fn new(machine: Machine) -> Self {
        let dialect = machine.dialect();
        let note = Section {
            name: ".note.GNU-stack".into(),
            kind: elf::SHT_PROGBITS,
            align: 1,
            ..Section::default()
        };
        let object = Object {
            machine: dialect.number,
            big: machine == Machine::S390x,
            flags: 0,
            os_abi: 0,
            sections: vec![note],
            symbols: Vec::new(),
            groups: Vec::new(),
        };
        File { machine, object, functions: Vec::new(), section_symbols: Vec::new() }
    }

    fn symbol(&mut self, name: &str, place: Place, value: u64, size: u64, bits: (u8, u8)) -> usize {
        let (binding, kind) = bits;
        self.object.symbols.push(Symbol { name: name.into(), place, value, size, binding, kind, other: 0 });
        self.object.symbols.len() - 1
    }

    /// A global function in a section of its own.
    #[must_use]
    pub fn function(self, name: &str) -> Self {
        self.function_in(&format!(".text.{name}"), name)
    }

    /// A global function in a section, behind those that are there already.
    #[must_use]
    pub fn function_in(self, section: &str, name: &str) -> Self {
        let frames = blob::function(abi(self.machine), name);
        self.add(section, name, elf::STB_GLOBAL, frames)
    }

    /// A global function with other rows, in a section of its own.
    #[must_use]
    pub fn function_with(self, name: &str, frames: Function) -> Self {
        self.add(&format!(".text.{name}"), name, elf::STB_GLOBAL, frames)
    }

    /// A weak function, in a section of its own that is a COMDAT group of its name.
    #[must_use]
    pub fn comdat(self, name: &str) -> Self {
        let frames = blob::function(abi(self.machine), name);
        let mut file = self.add(&format!(".text.{name}"), name, elf::STB_WEAK, frames);
        let Some(function) = file.functions.last_mut() else { return file };
        function.group = Some(file.object.groups.len());
        file.object.sections[function.section].flags |= u64::from(elf::SHF_GROUP);
        let (signature, members) = (function.symbol, vec![function.section]);
        file.object.groups.push(Group { signature, flags: elf::GRP_COMDAT, members });
        file
    }

    fn add(mut self, section: &str, name: &str, binding: u8, frames: Function) -> Self {
        let found = self.object.sections.iter().position(|row| row.name == section);
        let row = found.unwrap_or_else(|| {
            self.object.sections.push(Section {
                name: section.into(),
                kind: elf::SHT_PROGBITS,
                flags: u64::from(elf::SHF_ALLOC | elf::SHF_EXECINSTR),
                align: 16,
                ..Section::default()
            });
            self.object.sections.len() - 1
        });
        let code = code_of(self.machine, frames.size.max(SIZE) as usize);
        let text = &mut self.object.sections[row];
        let offset = text.data.len() as u64;
        text.data.extend(&code);
        text.size = text.data.len() as u64;
        let bits = (binding, elf::STT_FUNC);
        // The symbol may be known already from a call.
        let known = self.object.symbols.iter().position(|symbol| symbol.name == name);
        let symbol = known.unwrap_or_else(|| self.symbol(name, Place::Undefined, 0, 0, bits));
        let entry = &mut self.object.symbols[symbol];
        (entry.place, entry.value, entry.size) = (Place::Section(row), offset, code.len() as u64);
        (entry.binding, entry.kind) = bits;
        self.functions.push(Placed { name: name.into(), section: row, offset, symbol, group: None, frames });
        self
    }

    /// A call in a function that is there, at its 12th byte or behind its last call.
    #[must_use]
    pub fn call(mut self, from: &str, to: &str) -> Self {
        let known = self.object.symbols.iter().position(|symbol| symbol.name == to);
        let symbol = known
            .unwrap_or_else(|| self.symbol(to, Place::Undefined, 0, 0, (elf::STB_GLOBAL, elf::STT_NOTYPE)));
        let call = call_of(self.machine);
        let function = self.functions.iter().find(|function| function.name == from).expect("a caller");
        let text = &mut self.object.sections[function.section];
        let inside = text.relocations.iter().filter(|row| row.offset >= function.offset).count();
        let at = function.offset as usize + 12 + 8 * inside;
        text.data[at..at + call.bytes.len()].copy_from_slice(call.bytes);
        let (offset, kind) = (at as u64 + call.field, call.kind);
        text.relocations.push(Relocation { offset, symbol: Some(symbol), kind, addend: call.addend });
        self
    }

    /// An instruction that loads a function's address from the GOT (x86-64), at a function's 20th byte.
    #[must_use]
    pub fn got_load(mut self, from: &str, to: &str) -> Self {
        let symbol = self.object.symbols.iter().position(|symbol| symbol.name == to);
        let Some(function) = self.functions.iter().find(|function| function.name == from) else {
            return self;
        };
        let text = &mut self.object.sections[function.section];
        let at = function.offset as usize + 20;
        text.data[at..at + 7].copy_from_slice(&[0x48, 0x8b, 0x05, 0, 0, 0, 0]);
        let offset = at as u64 + 3;
        text.relocations.push(Relocation { offset, symbol, kind: elf::R_X86_64_GOTPCREL, addend: -4 });
        self
    }

    fn section_symbol(&mut self, section: usize) -> usize {
        if let Some((_, symbol)) = self.section_symbols.iter().find(|(row, _)| *row == section) {
            return *symbol;
        }
        let symbol = self.symbol("", Place::Section(section), 0, 0, (elf::STB_LOCAL, elf::STT_SECTION));
        self.section_symbols.push((section, symbol));
        symbol
    }

    /// An `.sframe` section for functions that are there.
    #[must_use]
    pub fn frames(mut self, frames: Frames) -> Self {
        let find = |name: &String| self.functions.iter().position(|function| function.name == *name);
        let rows: Vec<usize> = frames.functions.iter().filter_map(find).collect();
        let functions: Vec<Function> = rows.iter().map(|&row| self.functions[row].frames.clone()).collect();
        let abi = abi(self.machine);
        let written = frames.bytes.unwrap_or_else(|| blob::blob(abi, frames.edition, &functions));
        let kind = abi.start_relocation(frames.edition.version());
        let mut relocations = Vec::new();
        for (&offset, &row) in written.fields.iter().zip(&rows) {
            let (section, place, own) =
                (self.functions[row].section, self.functions[row].offset, self.functions[row].symbol);
            let (symbol, addend) = match frames.by {
                By::Section => (self.section_symbol(section), place as i64),
                By::Function => (own, 0),
            };
            relocations.push(Relocation { offset, symbol: Some(symbol), kind, addend });
        }
        let first = rows.first().map(|&row| &self.functions[row]);
        let link = first.filter(|_| frames.link).map(|function| function.section);
        let group = first.filter(|_| frames.group).and_then(|function| function.group);
        let bit = |on: bool, flag: u32| if on { u64::from(flag) } else { 0 };
        let flags =
            frames.flags | bit(link.is_some(), elf::SHF_LINK_ORDER) | bit(group.is_some(), elf::SHF_GROUP);
        let size = written.bytes.len() as u64;
        self.object.sections.push(Section {
            name: frames.name,
            kind: frames.kind,
            flags,
            align: frames.align,
            entry_size: 0,
            data: written.bytes,
            size,
            link,
            relocations,
        });
        if let Some(group) = group {
            let member = self.object.sections.len() - 1;
            self.object.groups[group].members.push(member);
        }
        self
    }

    /// The bytes of the object.
    pub fn write(&self) -> Vec<u8> {
        self.object.write()
    }
}
