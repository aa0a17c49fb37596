//! Objects of a link: sections, groups, relocations and symbols as the fuzzer's bytes choose them, or one that an assembler
//! wrote.

use crate::sections::{self, Contents, FDE_ADDRESS, TEMPLATES};
use crate::write::{self, Bytes, Machine, Section, Symbol};
use arbitrary::{Result, Unstructured};
use object::elf;

/// Most sections without those of relocations, most relocations of one, most global symbols.
const SECTIONS: usize = 6;
const RELOCATIONS: usize = 4;
const GLOBALS: usize = 7;

/// Names that link to each other, and those that mean something to a linker.
const NAMES: [&str; 18] = [
    "f",
    "g",
    "h",
    "main",
    "_start",
    "f@V1",
    "f@@V2",
    "g@@V1",
    "__start_frames",
    "__stop_frames",
    "__wrap_f",
    "__real_f",
    "_GLOBAL_OFFSET_TABLE_",
    "__tls_get_addr",
    "__ehdr_start",
    "_end",
    "_ZN1a1bEv",
    "",
];

/// Real objects with SFrame, for each machine.
macro_rules! fixtures {
    ($machine:literal: $($name:literal),*) => {
        &[$(include_bytes!(concat!("../../../tests/fixtures/sframe/", $name, ".", $machine, ".o"))),*]
    };
}
const X86_64: &[&[u8]] = fixtures!("x86_64":
    "v3-gas2.47/demo", "v3-gas2.47/main", "v3-gas2.47/inl", "v3-gas2.47/inl2", "v2-gas2.44/demo", "v1-gas2.40/demo",
    "crafted-v3/comdat", "crafted-v3/linkorder", "crafted-v3/multi", "crafted-v3/share", "crafted-v3/overlay");
const AARCH64: &[&[u8]] = fixtures!("aarch64":
    "v3-gas2.47/demo", "v3-gas2.47/main", "v3-gas2.47/inl", "v3-gas2.47/inl2", "v2-gas2.44/demo",
    "crafted-v3/comdatlo", "crafted-v3/share", "crafted-v3/overlay");
const S390X: &[&[u8]] = fixtures!("s390x":
    "v3-gas2.47/demo", "v3-gas2.47/main", "v3-gas2.47/inl", "v3-gas2.47/inl2",
    "crafted-v3/comdat", "crafted-v3/linkorder", "crafted-v3/multi", "crafted-v3/share", "crafted-v3/overlay");

/// The bytes of an object.
pub fn described(from: &mut Unstructured<'_>, machine: Machine) -> Result<Vec<u8>> {
    if from.ratio(1, 3)? {
        let fixtures = match machine {
            Machine::X86_64 => X86_64,
            Machine::Aarch64 => AARCH64,
            Machine::S390x => S390X,
        };
        return Ok(from.choose(fixtures)?.to_vec());
    }
    let mut object = Object { machine, sections: Vec::new(), contents: Vec::new(), symbols: Vec::new() };
    for _ in 0..from.int_in_range(1..=SECTIONS)? {
        let template = from.choose(&TEMPLATES)?;
        let (section, contents) = sections::section(from, machine, template)?;
        object.sections.push(section);
        object.contents.push(contents);
    }
    object.symbols(from)?;
    for number in 0..object.contents.len() {
        object.relocations(from, number)?;
    }
    object.order(from)?;
    if from.ratio(1, 3)? {
        object.group(from)?;
    }
    Ok(write::object(machine, &object.sections, &object.symbols))
}

struct Object {
    machine: Machine,
    /// The described ones first, then those of relocations and groups.
    sections: Vec<Section>,
    contents: Vec<Contents>,
    symbols: Vec<Symbol>,
}

impl Object {
    /// A symbol of each section, a local one, and global ones.
    fn symbols(&mut self, from: &mut Unstructured<'_>) -> Result<()> {
        for section in 1..=self.contents.len() as u16 {
            self.symbols.push(Symbol { info: elf::STT_SECTION, section, ..Symbol::default() });
        }
        let local = Symbol { name: ".L0".into(), section: 1, ..Symbol::default() };
        self.symbols.push(local);
        for _ in 0..from.int_in_range(0..=GLOBALS)? {
            let symbol = self.global(from)?;
            self.symbols.push(symbol);
        }
        Ok(())
    }

    fn global(&self, from: &mut Unstructured<'_>) -> Result<Symbol> {
        let mut symbol = Symbol { name: (*from.choose(&NAMES)?).into(), ..Symbol::default() };
        let binding =
            *from.choose(&[elf::STB_GLOBAL, elf::STB_GLOBAL, elf::STB_WEAK, elf::STB_GNU_UNIQUE])?;
        let mut kind =
            *from.choose(&[elf::STT_NOTYPE, elf::STT_FUNC, elf::STT_OBJECT, elf::STT_GNU_IFUNC])?;
        symbol.section = match from.int_in_range(0..=9)? {
            0 => elf::SHN_ABS,
            1 => elf::SHN_COMMON,
            2..=4 => elf::SHN_UNDEF,
            _ => 1 + from.choose_index(self.contents.len())? as u16,
        };
        if let Some(section) = usize::from(symbol.section).checked_sub(1).and_then(|at| self.sections.get(at))
            && section.flags & u64::from(elf::SHF_TLS) != 0
        {
            kind = elf::STT_TLS;
        }
        if symbol.section != elf::SHN_UNDEF {
            symbol.value = from.int_in_range(0..=16)?;
            symbol.size = from.int_in_range(0..=16)?;
        }
        if symbol.section == elf::SHN_COMMON {
            (symbol.value, kind) = (8, elf::STT_OBJECT);
        }
        symbol.info = binding << 4 | kind;
        symbol.other = if from.ratio(1, 4)? { from.int_in_range(0..=3)? } else { 0 };
        Ok(symbol)
    }

    /// The relocations of a section, in one of their own.
    fn relocations(&mut self, from: &mut Unstructured<'_>, number: usize) -> Result<()> {
        let mut bytes = Bytes::new(self.machine);
        let size = self.sections[number].bytes.len() as u64;
        if self.contents[number] == Contents::CallFrames {
            let symbol = 1 + from.choose_index(self.contents.len())? as u64;
            bytes.number(FDE_ADDRESS, 8).number(symbol << 32 | relative(self.machine), 8).number(0, 8);
        } else if ![Contents::Nothing, Contents::Note].contains(&self.contents[number]) && size > 0 {
            for _ in 0..from.int_in_range(0..=RELOCATIONS)? {
                let kind = kind(from, self.machine)?;
                let symbol = from.int_in_range(0..=self.symbols.len() as u64)?;
                let far = from.ratio(1, 16)?;
                let last = if far { size } else { size.saturating_sub(8) / 8 };
                let at = from.int_in_range(0..=last)?;
                let at = if far { at } else { 8 * at };
                let addend = if from.ratio(1, 16)? { from.arbitrary()? } else { from.int_in_range(0..=12)? };
                bytes.number(at, 8).number(symbol << 32 | kind, 8).number(addend, 8);
            }
        }
        if bytes.bytes.is_empty() {
            return Ok(());
        }
        let link = self.described_and_added() + 1;
        self.sections.push(Section {
            name: format!(".rela{}", self.sections[number].name),
            kind: elf::SHT_RELA,
            flags: elf::SHF_INFO_LINK.into(),
            link,
            info: number as u32 + 1,
            alignment: 8,
            entry_size: 24,
            bytes: bytes.bytes,
            size: None,
        });
        // The symbol table stands behind all sections, and each that is added moves it.
        self.relink();
        Ok(())
    }

    fn described_and_added(&self) -> u32 {
        self.sections.len() as u32
    }

    /// Leads relocations and groups to the symbol table.
    fn relink(&mut self) {
        let table = self.described_and_added() + 1;
        for section in &mut self.sections {
            if [elf::SHT_RELA, elf::SHT_GROUP].contains(&section.kind) {
                section.link = table;
            }
        }
    }

    /// Sections whose order is that of another, as `.sframe` of one text section is.
    fn order(&mut self, from: &mut Unstructured<'_>) -> Result<()> {
        let described = self.contents.len();
        for number in 0..described {
            if from.ratio(1, 8)? {
                self.sections[number].flags |= u64::from(elf::SHF_LINK_ORDER);
                self.sections[number].link = from.int_in_range(0..=described as u32)?;
            }
        }
        Ok(())
    }

    /// A group of some sections with their relocations.
    fn group(&mut self, from: &mut Unstructured<'_>) -> Result<()> {
        let mut bytes = Bytes::new(self.machine);
        bytes.number(from.int_in_range(0..=1)?, 4);
        for number in 0..self.sections.len() {
            let owner = self.sections[number].info as usize;
            let with_owner = self.sections[number].kind == elf::SHT_RELA
                && self.sections.get(owner.wrapping_sub(1)).is_some_and(in_group);
            if with_owner || number < self.contents.len() && from.ratio(1, 3)? {
                self.sections[number].flags |= u64::from(elf::SHF_GROUP);
                bytes.number(number as u64 + 1, 4);
            }
        }
        self.sections.push(Section {
            name: ".group".into(),
            kind: elf::SHT_GROUP,
            info: from.int_in_range(1..=self.symbols.len() as u32)?,
            alignment: 4,
            entry_size: 4,
            bytes: bytes.bytes,
            ..Section::default()
        });
        self.relink();
        Ok(())
    }
}

fn in_group(section: &Section) -> bool {
    section.flags & u64::from(elf::SHF_GROUP) != 0
}

/// The relocation of 4 bytes relative to their place.
fn relative(machine: Machine) -> u64 {
    u64::from(match machine {
        Machine::X86_64 => elf::R_X86_64_PC32,
        Machine::Aarch64 => elf::R_AARCH64_PREL32,
        Machine::S390x => elf::R_390_PC32,
    })
}

/// Relocation types that need no certain instruction.
const X86_64_DATA: [u32; 8] = [
    elf::R_X86_64_64,
    elf::R_X86_64_PC32,
    elf::R_X86_64_PLT32,
    elf::R_X86_64_GOTPCREL,
    elf::R_X86_64_32,
    elf::R_X86_64_PC64,
    elf::R_X86_64_GOTOFF64,
    elf::R_X86_64_SIZE64,
];
const AARCH64_DATA: [u32; 5] = [
    elf::R_AARCH64_ABS64,
    elf::R_AARCH64_PREL32,
    elf::R_AARCH64_PREL64,
    elf::R_AARCH64_ABS32,
    elf::R_AARCH64_PREL16,
];
const S390X_DATA: [u32; 7] = [
    elf::R_390_64,
    elf::R_390_PC32,
    elf::R_390_PLT32DBL,
    elf::R_390_PC32DBL,
    elf::R_390_GOTENT,
    elf::R_390_PC64,
    elf::R_390_GOTOFF64,
];

/// A relocation type, most times one that fits any bytes.
fn kind(from: &mut Unstructured<'_>, machine: Machine) -> Result<u64> {
    if from.ratio(7, 8)? {
        let data: &[u32] = match machine {
            Machine::X86_64 => &X86_64_DATA,
            Machine::Aarch64 => &AARCH64_DATA,
            Machine::S390x => &S390X_DATA,
        };
        return Ok((*from.choose(data)?).into());
    }
    match machine {
        Machine::X86_64 => from.int_in_range(0..=51),
        Machine::Aarch64 if from.ratio(1, 2)? => from.int_in_range(257..=315),
        Machine::Aarch64 => from.int_in_range(512..=573),
        Machine::S390x => from.int_in_range(0..=66),
    }
}
