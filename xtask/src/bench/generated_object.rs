//! Writes one little-endian relocatable ELF object, laid out as GNU as does it: each relocation section
//! directly follows the section that it applies to and is a member of the same group, and local symbols come
//! first (gABI, sections and symbol table).

use std::collections::HashMap;
use std::collections::hash_map::Entry;

pub const ALLOCATED: u64 = 0x2;
pub const WRITABLE: u64 = 0x1;
pub const EXECUTABLE: u64 = 0x4;
pub const MERGED_STRINGS: u64 = 0x10 | 0x20;
const INFO_LINK: u64 = 0x40;
const IN_GROUP: u64 = 0x200;

const PROGBITS: u32 = 1;
const SYMBOL_TABLE: u32 = 2;
const STRING_TABLE: u32 = 3;
const RELA: u32 = 4;
const GROUP: u32 = 17;
const UNWIND: u32 = 0x7000_0001;
const COMDAT: u32 = 1;

/// `e_machine` of the objects.
pub const X86_64: u16 = 62;
pub const AARCH64: u16 = 183;

/// Relocation types (x86-64 psABI, section 4.4).
pub const R_64: u32 = 1;
pub const R_PC32: u32 = 2;
pub const R_PLT32: u32 = 4;
pub const R_32: u32 = 10;
pub const R_REX_GOTPCRELX: u32 = 42;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SymbolKind {
    Untyped = 0,
    Data = 1,
    Function = 2,
    Section = 3,
    File = 4,
}

#[derive(Clone, Copy)]
pub struct SectionId(usize);

/// The number of a symbol among the local ones or among the global ones.
#[derive(Clone, Copy)]
pub enum SymbolId {
    Local(usize),
    Global(usize),
}

struct Section {
    name: String,
    flags: u64,
    alignment: u64,
    data: Vec<u8>,
    relocations: Vec<(u64, SymbolId, u32, i64)>,
    symbol: Option<SymbolId>,
    /// The signature of the group that contains the section.
    group: Option<SymbolId>,
}

struct Symbol {
    name: String,
    kind: SymbolKind,
    weak: bool,
    section: Option<SectionId>,
    value: u64,
    size: u64,
}

pub struct ObjectFile {
    machine: u16,
    sections: Vec<Section>,
    locals: Vec<Symbol>,
    globals: Vec<Symbol>,
    global_numbers: HashMap<String, usize>,
}

impl ObjectFile {
    pub fn new(machine: u16, source: &str) -> Self {
        let mut object = ObjectFile {
            machine,
            sections: vec![],
            locals: vec![],
            globals: vec![],
            global_numbers: HashMap::new(),
        };
        object.add_local(source, SymbolKind::File, None, 0);
        object
    }

    pub fn add_section(
        &mut self,
        name: &str,
        flags: u64,
        alignment: u64,
        group: Option<SymbolId>,
    ) -> SectionId {
        let (data, relocations) = (vec![], vec![]);
        self.sections.push(Section {
            name: name.into(),
            flags,
            alignment,
            data,
            relocations,
            symbol: None,
            group,
        });
        SectionId(self.sections.len() - 1)
    }

    /// Adds `data` at the section's end and returns its offset.
    pub fn append(&mut self, section: SectionId, data: &[u8]) -> u64 {
        let section = &mut self.sections[section.0];
        let offset = section.data.len() as u64;
        section.data.extend_from_slice(data);
        offset
    }

    /// The size of the section so far, in bytes.
    pub fn size(&self, section: SectionId) -> u64 {
        self.sections[section.0].data.len() as u64
    }

    pub fn relocate(&mut self, section: SectionId, offset: u64, symbol: SymbolId, kind: u32, addend: i64) {
        self.sections[section.0].relocations.push((offset, symbol, kind, addend));
    }

    fn add_local(
        &mut self,
        name: &str,
        kind: SymbolKind,
        section: Option<SectionId>,
        value: u64,
    ) -> SymbolId {
        self.locals.push(Symbol { name: name.into(), kind, weak: false, section, value, size: 0 });
        SymbolId::Local(self.locals.len() - 1)
    }

    /// A local symbol without a type, as compilers define them for constants.
    pub fn add_label(&mut self, name: &str, section: SectionId, value: u64) -> SymbolId {
        self.add_local(name, SymbolKind::Untyped, Some(section), value)
    }

    pub fn section_symbol(&mut self, section: SectionId) -> SymbolId {
        if let Some(symbol) = self.sections[section.0].symbol {
            return symbol;
        }
        let symbol = self.add_local("", SymbolKind::Section, Some(section), 0);
        self.sections[section.0].symbol = Some(symbol);
        symbol
    }

    /// The global symbol called `name`. It is undefined until a section defines it.
    pub fn global(&mut self, name: &str) -> SymbolId {
        let next = self.globals.len();
        match self.global_numbers.entry(name.into()) {
            Entry::Occupied(entry) => SymbolId::Global(*entry.get()),
            Entry::Vacant(entry) => {
                entry.insert(next);
                let (kind, section) = (SymbolKind::Untyped, None);
                self.globals.push(Symbol {
                    name: name.into(),
                    kind,
                    weak: false,
                    section,
                    value: 0,
                    size: 0,
                });
                SymbolId::Global(next)
            }
        }
    }

    /// Defines the global symbol called `name`; it covers the whole of `section`.
    pub fn define(&mut self, name: &str, kind: SymbolKind, weak: bool, section: SectionId) {
        let SymbolId::Global(number) = self.global(name) else { return };
        let size = self.sections[section.0].data.len() as u64;
        let symbol = &mut self.globals[number];
        (symbol.kind, symbol.weak, symbol.section, symbol.size) = (kind, weak, Some(section), size);
    }

    /// Number of entries in the symbol table, without the null one.
    pub fn symbol_count(&self) -> u64 {
        (self.locals.len() + self.globals.len()) as u64
    }

    pub fn relocation_count(&self) -> u64 {
        self.sections.iter().map(|section| section.relocations.len() as u64).sum()
    }

    pub fn write(&self) -> Vec<u8> {
        let mut file = File::default();
        let groups = self.groups();
        // Section numbers must be known before anything refers to them: first the null section, then the
        // groups, then the rest.
        let mut numbers = vec![];
        let mut next = 1 + groups.len() as u32;
        for section in &self.sections {
            numbers.push(next);
            next += if section.relocations.is_empty() { 1 } else { 2 };
        }
        let symbol_table = next;
        for (signature, members) in &groups {
            let mut data = COMDAT.to_le_bytes().to_vec();
            for &member in members {
                data.extend(numbers[member].to_le_bytes());
                if !self.sections[member].relocations.is_empty() {
                    data.extend((numbers[member] + 1).to_le_bytes());
                }
            }
            let header = Header { kind: GROUP, alignment: 4, entry_size: 4, ..Header::default() };
            file.add(
                ".group",
                Header { link: symbol_table, info: self.symbol_number(*signature), ..header },
                &data,
            );
        }
        for (section, &number) in self.sections.iter().zip(&numbers) {
            self.write_section(&mut file, section, number, symbol_table);
        }
        self.write_symbols(&mut file, &numbers, symbol_table);
        file.finish(self.machine)
    }

    /// The signature and the members of every group, in the order of first members.
    fn groups(&self) -> Vec<(SymbolId, Vec<usize>)> {
        let mut groups: Vec<(SymbolId, Vec<usize>)> = vec![];
        for (number, section) in self.sections.iter().enumerate() {
            let Some(signature) = section.group else { continue };
            let same =
                |group: &&mut (SymbolId, _)| self.symbol_number(group.0) == self.symbol_number(signature);
            match groups.iter_mut().find(same) {
                Some((_, members)) => members.push(number),
                None => groups.push((signature, vec![number])),
            }
        }
        groups
    }

    fn write_section(&self, file: &mut File, section: &Section, number: u32, symbol_table: u32) {
        let group = if section.group.is_some() { IN_GROUP } else { 0 };
        let kind = if section.name == ".eh_frame" { UNWIND } else { PROGBITS };
        let entry_size = u64::from(section.flags & MERGED_STRINGS != 0);
        let header =
            Header { kind, flags: section.flags | group, alignment: section.alignment, ..Header::default() };
        file.add(&section.name, Header { entry_size, ..header }, &section.data);
        if section.relocations.is_empty() {
            return;
        }
        let mut data = vec![];
        for &(offset, symbol, kind, addend) in &section.relocations {
            data.extend(offset.to_le_bytes());
            data.extend(kind.to_le_bytes());
            data.extend(self.symbol_number(symbol).to_le_bytes());
            data.extend(addend.to_le_bytes());
        }
        let header = Header { kind: RELA, flags: INFO_LINK | group, alignment: 8, entry_size: 24, ..header };
        file.add(
            &format!(".rela{}", section.name),
            Header { link: symbol_table, info: number, ..header },
            &data,
        );
    }

    /// The number in the symbol table: first the null symbol, then the local ones, then the global ones.
    fn symbol_number(&self, symbol: SymbolId) -> u32 {
        match symbol {
            SymbolId::Local(number) => 1 + number as u32,
            SymbolId::Global(number) => (1 + self.locals.len() + number) as u32,
        }
    }

    fn write_symbols(&self, file: &mut File, numbers: &[u32], symbol_table: u32) {
        let mut names = vec![0];
        let mut data = vec![0; 24];
        let locals = self.locals.iter().map(|symbol| (symbol, 0));
        let globals = self.globals.iter().map(|symbol| (symbol, if symbol.weak { 2 } else { 1 }));
        for (symbol, binding) in locals.chain(globals) {
            let name = if symbol.name.is_empty() { 0 } else { names.len() as u32 };
            if name != 0 {
                names.extend(symbol.name.bytes().chain([0]));
            }
            let absolute = if symbol.kind == SymbolKind::File { 0xfff1 } else { 0 };
            let section = symbol.section.map_or(absolute, |section| numbers[section.0] as u16);
            data.extend(name.to_le_bytes());
            data.extend([binding << 4 | symbol.kind as u8, 0]);
            data.extend(section.to_le_bytes());
            data.extend(symbol.value.to_le_bytes());
            data.extend(symbol.size.to_le_bytes());
        }
        let header = Header { kind: SYMBOL_TABLE, alignment: 8, entry_size: 24, ..Header::default() };
        let (link, info) = (symbol_table + 1, 1 + self.locals.len() as u32);
        file.add(".symtab", Header { link, info, ..header }, &data);
        file.add(".strtab", Header { kind: STRING_TABLE, alignment: 1, ..Header::default() }, &names);
    }
}

/// The fields of a section header that do not depend on where the section is.
#[derive(Clone, Copy, Default)]
struct Header {
    kind: u32,
    flags: u64,
    link: u32,
    info: u32,
    alignment: u64,
    entry_size: u64,
}

/// A file that is being written: the contents of sections so far, and their headers.
#[derive(Default)]
struct File {
    contents: Vec<u8>,
    headers: Vec<u8>,
    names: Vec<u8>,
    count: u16,
}

const FILE_HEADER_SIZE: usize = 64;
const SECTION_HEADER_SIZE: u16 = 64;

impl File {
    fn add(&mut self, name: &str, header: Header, data: &[u8]) {
        if self.count == 0 {
            self.names.push(0);
            self.headers.extend([0; SECTION_HEADER_SIZE as usize]);
            self.count = 1;
        }
        self.align(header.alignment.max(1) as usize);
        let offset = FILE_HEADER_SIZE + self.contents.len();
        self.contents.extend_from_slice(data);
        self.headers.extend((self.names.len() as u32).to_le_bytes());
        self.headers.extend(header.kind.to_le_bytes());
        let words = [header.flags, 0, offset as u64, data.len() as u64];
        words.iter().for_each(|word| self.headers.extend(word.to_le_bytes()));
        self.headers.extend(header.link.to_le_bytes());
        self.headers.extend(header.info.to_le_bytes());
        self.headers.extend(header.alignment.to_le_bytes());
        self.headers.extend(header.entry_size.to_le_bytes());
        self.names.extend(name.bytes().chain([0]));
        self.count += 1;
    }

    fn align(&mut self, alignment: usize) {
        // The file header's size is a multiple of every alignment in use.
        self.contents.resize(self.contents.len().next_multiple_of(alignment), 0);
    }

    fn finish(mut self, machine: u16) -> Vec<u8> {
        let mut names = self.names.clone();
        names.extend(b".shstrtab\0");
        self.add(".shstrtab", Header { kind: STRING_TABLE, alignment: 1, ..Header::default() }, &names);
        self.align(8);
        let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        let relocatable = 1_u16;
        file.extend(relocatable.to_le_bytes());
        file.extend(machine.to_le_bytes());
        file.extend(1_u32.to_le_bytes());
        let headers_offset = (FILE_HEADER_SIZE + self.contents.len()) as u64;
        [0, 0, headers_offset].iter().for_each(|word: &u64| file.extend(word.to_le_bytes()));
        file.extend(0_u32.to_le_bytes());
        let halves = [FILE_HEADER_SIZE as u16, 0, 0, SECTION_HEADER_SIZE, self.count, self.count - 1];
        halves.iter().for_each(|half| file.extend(half.to_le_bytes()));
        file.extend(self.contents);
        file.extend(self.headers);
        file
    }
}
