//! The objects of a link. The fuzzer's bytes choose sections, groups, relocations and symbols, or an object
//! from an assembler.

use crate::sections::{self, Contents, FDE_ADDRESS, TEMPLATES};
use arbitrary::{Result, Unstructured};
use ld_compare::machine::Machine;
use ld_compare::model::{Group, Object, Place, Relocation, Symbol};
use object::elf;

/// The most sections without relocation sections, the most relocations of one section, and the most global
/// symbols.
const SECTIONS: usize = 6;
const RELOCATIONS: usize = 4;
const GLOBALS: usize = 7;

/// Names that refer to each other, and names that mean something to a linker.
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

/// An object as the description has it.
pub enum Described {
    /// An object from an assembler.
    Fixture(&'static [u8]),
    /// An object that the fuzzer made; it may still change.
    Made(Object),
}

impl Described {
    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Described::Fixture(bytes) => bytes.to_vec(),
            Described::Made(object) => object.write(),
        }
    }
}

/// An object.
pub fn described(from: &mut Unstructured<'_>, machine: Machine) -> Result<Described> {
    if from.ratio(1, 3)? {
        let fixtures = match machine {
            Machine::X86_64 => X86_64,
            Machine::Aarch64 => AARCH64,
            Machine::S390x => S390X,
        };
        return Ok(Described::Fixture(from.choose(fixtures)?));
    }
    let mut object = Object {
        machine: machine.dialect().number,
        big: machine == Machine::S390x,
        flags: 0,
        os_abi: 0,
        sections: Vec::new(),
        symbols: Vec::new(),
        groups: Vec::new(),
    };
    let mut contents = Vec::new();
    for _ in 0..from.int_in_range(1..=SECTIONS)? {
        let template = from.choose(&TEMPLATES)?;
        object.sections.push(sections::section(from, machine, template)?);
        contents.push(template.contents);
    }
    symbols(from, &mut object)?;
    for (row, contents) in contents.into_iter().enumerate() {
        object.sections[row].relocations = relocations(from, machine, &object, row, contents)?;
    }
    order(from, &mut object)?;
    if from.ratio(1, 3)? {
        group(from, &mut object)?;
    }
    Ok(Described::Made(object))
}

/// A symbol for each section, a local symbol, and global symbols.
fn symbols(from: &mut Unstructured<'_>, object: &mut Object) -> Result<()> {
    let local = |name: &str, row, kind| Symbol {
        name: name.into(),
        place: Place::Section(row),
        value: 0,
        size: 0,
        binding: elf::STB_LOCAL,
        kind,
        other: 0,
    };
    object.symbols.extend((0..object.sections.len()).map(|row| local("", row, elf::STT_SECTION)));
    object.symbols.push(local(".L0", 0, elf::STT_NOTYPE));
    for _ in 0..from.int_in_range(0..=GLOBALS)? {
        let symbol = global(from, object)?;
        object.symbols.push(symbol);
    }
    Ok(())
}

fn global(from: &mut Unstructured<'_>, object: &Object) -> Result<Symbol> {
    let name = (*from.choose(&NAMES)?).into();
    let binding = *from.choose(&[elf::STB_GLOBAL, elf::STB_GLOBAL, elf::STB_WEAK, elf::STB_GNU_UNIQUE])?;
    let mut kind = *from.choose(&[elf::STT_NOTYPE, elf::STT_FUNC, elf::STT_OBJECT, elf::STT_GNU_IFUNC])?;
    let place = match from.int_in_range(0..=9)? {
        0 => Place::Absolute,
        1 => Place::Common,
        2..=4 => Place::Undefined,
        _ => Place::Section(from.choose_index(object.sections.len())?),
    };
    let (mut value, mut size) = (0, 0);
    if place != Place::Undefined {
        value = from.int_in_range(0..=16)?;
        size = from.int_in_range(0..=16)?;
    }
    match place {
        Place::Section(row) if object.sections[row].flags & u64::from(elf::SHF_TLS) != 0 => {
            kind = elf::STT_TLS;
        }
        Place::Common => (value, kind) = (8, elf::STT_OBJECT),
        _ => {}
    }
    let other = if from.ratio(1, 4)? { from.int_in_range(0..=3)? } else { 0 };
    Ok(Symbol { name, place, value, size, binding, kind, other })
}

/// The relocations of a section.
pub fn relocations(
    from: &mut Unstructured<'_>,
    machine: Machine,
    object: &Object,
    row: usize,
    contents: Contents,
) -> Result<Vec<Relocation>> {
    let mut all = Vec::new();
    let size = object.sections[row].data.len() as u64;
    if contents == Contents::CallFrames {
        let symbol = Some(from.choose_index(object.sections.len())?);
        all.push(Relocation { offset: FDE_ADDRESS, symbol, kind: relative(machine), addend: 0 });
    } else if ![Contents::Nothing, Contents::Note].contains(&contents) && size > 0 {
        for _ in 0..from.int_in_range(0..=RELOCATIONS)? {
            let kind = kind(from, machine)?;
            let symbol = from.int_in_range(0..=object.symbols.len())?.checked_sub(1);
            let far = from.ratio(1, 16)?;
            let last = if far { size } else { size.saturating_sub(8) / 8 };
            let at = from.int_in_range(0..=last)?;
            let offset = if far { at } else { 8 * at };
            let addend = if from.ratio(1, 16)? { from.arbitrary()? } else { from.int_in_range(0..=12)? };
            all.push(Relocation { offset, symbol, kind, addend });
        }
    }
    Ok(all)
}

/// Sections whose order follows another section, as the `.sframe` of one text section does; now and then, of
/// no section.
fn order(from: &mut Unstructured<'_>, object: &mut Object) -> Result<()> {
    let count = object.sections.len();
    for section in &mut object.sections {
        // readelf complains about arrays of functions with link order, but not about a .ctors, from which
        // such an array is made.
        if from.ratio(1, 8)? && section.name != ".ctors" {
            section.flags |= u64::from(elf::SHF_LINK_ORDER);
            section.link = from.int_in_range(0..=count)?.checked_sub(1);
        }
    }
    Ok(())
}

/// A group of some sections with their relocations.
pub fn group(from: &mut Unstructured<'_>, object: &mut Object) -> Result<()> {
    let flags = from.int_in_range(0..=1)?;
    let mut members = Vec::new();
    for (row, section) in object.sections.iter_mut().enumerate() {
        if from.ratio(1, 3)? {
            section.flags |= u64::from(elf::SHF_GROUP);
            members.push(row);
        }
    }
    let signature = from.choose_index(object.symbols.len())?;
    object.groups.push(Group { signature, flags, members });
    Ok(())
}

/// The 4-byte relocation relative to its place.
pub fn relative(machine: Machine) -> u32 {
    match machine {
        Machine::X86_64 => elf::R_X86_64_PC32,
        Machine::Aarch64 => elf::R_AARCH64_PREL32,
        Machine::S390x => elf::R_390_PC32,
    }
}

/// Relocation types that do not need a certain instruction.
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

/// A relocation type; most of the time one that fits any bytes.
fn kind(from: &mut Unstructured<'_>, machine: Machine) -> Result<u32> {
    if from.ratio(7, 8)? {
        let data: &[u32] = match machine {
            Machine::X86_64 => &X86_64_DATA,
            Machine::Aarch64 => &AARCH64_DATA,
            Machine::S390x => &S390X_DATA,
        };
        return Ok(*from.choose(data)?);
    }
    match machine {
        Machine::X86_64 => from.int_in_range(0..=51),
        Machine::Aarch64 if from.ratio(1, 2)? => from.int_in_range(257..=315),
        Machine::Aarch64 => from.int_in_range(512..=573),
        Machine::S390x => from.int_in_range(0..=66),
    }
}
