//! Writes relocatable objects, valid or not: every field of a header is the caller's.

use object::elf;

/// The machines of links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Machine {
    X86_64,
    Aarch64,
    S390x,
}

impl Machine {
    pub const ALL: [Machine; 3] = [Machine::X86_64, Machine::Aarch64, Machine::S390x];

    pub fn emulation(self) -> &'static str {
        match self {
            Machine::X86_64 => "elf_x86_64",
            Machine::Aarch64 => "aarch64linux",
            Machine::S390x => "elf64_s390",
        }
    }

    fn number(self) -> u16 {
        match self {
            Machine::X86_64 => elf::EM_X86_64,
            Machine::Aarch64 => elf::EM_AARCH64,
            Machine::S390x => elf::EM_S390,
        }
    }
}

/// Bytes in a machine's order.
pub struct Bytes {
    machine: Machine,
    pub bytes: Vec<u8>,
}

impl Bytes {
    pub fn new(machine: Machine) -> Bytes {
        Bytes { machine, bytes: Vec::new() }
    }

    /// The lowest `size` bytes of a number.
    pub fn number(&mut self, value: u64, size: usize) -> &mut Bytes {
        match self.machine {
            Machine::S390x => self.bytes.extend(&value.to_be_bytes()[8 - size..]),
            Machine::X86_64 | Machine::Aarch64 => self.bytes.extend(&value.to_le_bytes()[..size]),
        }
        self
    }

    fn numbers(&mut self, values: &[(u64, usize)]) {
        for &(value, size) in values {
            self.number(value, size);
        }
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }
}

/// A section header and its contents.
#[derive(Clone, Default)]
pub struct Section {
    pub name: String,
    pub kind: u32,
    pub flags: u64,
    pub link: u32,
    pub info: u32,
    pub alignment: u64,
    pub entry_size: u64,
    pub bytes: Vec<u8>,
    /// `sh_size`, where it is not that of the bytes.
    pub size: Option<u64>,
}

/// A symbol table's entry.
#[derive(Clone, Default)]
pub struct Symbol {
    pub name: String,
    pub info: u8,
    pub other: u8,
    pub section: u16,
    pub value: u64,
    pub size: u64,
}

/// The bytes of an object: these sections from index 1, then `.symtab`, `.strtab` and `.shstrtab`. The first symbol is added,
/// local ones come first.
pub fn object(machine: Machine, sections: &[Section], symbols: &[Symbol]) -> Vec<u8> {
    let mut out = Bytes::new(machine);
    out.bytes.resize(64, 0);
    let mut names = vec![0];
    let mut strings = vec![0];
    let count = sections.len() as u32;
    let locals = symbols.iter().filter(|symbol| symbol.info >> 4 == elf::STB_LOCAL).count() as u32 + 1;
    let mut table = Bytes::new(machine);
    table.bytes.resize(24, 0);
    for symbol in symbols {
        let name = place(&mut strings, &symbol.name);
        table.numbers(&[(name, 4), (symbol.info.into(), 1), (symbol.other.into(), 1)]);
        table.numbers(&[(symbol.section.into(), 2), (symbol.value, 8), (symbol.size, 8)]);
    }
    let of = |name: &str, kind, bytes: Vec<u8>| Section {
        name: name.into(),
        kind,
        alignment: 1,
        bytes,
        ..Section::default()
    };
    let symtab = of(".symtab", elf::SHT_SYMTAB, table.bytes);
    let symtab = Section { link: count + 2, info: locals, alignment: 8, entry_size: 24, ..symtab };
    let mut headers = Bytes::new(machine);
    headers.bytes.resize(64, 0);
    let mut write = |section: &Section, name: u64| {
        out.align();
        headers.numbers(&[(name, 4), (section.kind.into(), 4), (section.flags, 8), (0, 8)]);
        let size = section.size.unwrap_or(section.bytes.len() as u64);
        headers.numbers(&[(out.bytes.len() as u64, 8), (size, 8), (section.link.into(), 4)]);
        headers.numbers(&[(section.info.into(), 4), (section.alignment, 8), (section.entry_size, 8)]);
        out.bytes.extend(&section.bytes);
    };
    for section in sections {
        write(section, place(&mut names, &section.name));
    }
    write(&symtab, place(&mut names, ".symtab"));
    write(&of(".strtab", elf::SHT_STRTAB, strings), place(&mut names, ".strtab"));
    let name = place(&mut names, ".shstrtab");
    write(&of(".shstrtab", elf::SHT_STRTAB, names), name);
    out.align();
    let at = out.bytes.len() as u64;
    out.bytes.extend(headers.bytes);
    let header = file_header(machine, at, count + 4);
    out.bytes[..64].copy_from_slice(&header);
    out.bytes
}

/// Adds a name to a string table, and gives its offset.
fn place(strings: &mut Vec<u8>, name: &str) -> u64 {
    let at = strings.len() as u64;
    strings.extend(name.as_bytes());
    strings.push(0);
    at
}

fn file_header(machine: Machine, sections_at: u64, count: u32) -> Vec<u8> {
    let order = if machine == Machine::S390x { elf::ELFDATA2MSB } else { elf::ELFDATA2LSB };
    let mut header = Bytes::new(machine);
    header.bytes.extend([0x7f, b'E', b'L', b'F', elf::ELFCLASS64, order, elf::EV_CURRENT, 0]);
    header.bytes.resize(16, 0);
    header.numbers(&[(elf::ET_REL.into(), 2), (machine.number().into(), 2), (1, 4), (0, 8), (0, 8)]);
    header.numbers(&[(sections_at, 8), (0, 4), (64, 2), (0, 2), (0, 2), (64, 2)]);
    header.numbers(&[(count.into(), 2), (u64::from(count) - 1, 2)]);
    header.bytes
}
