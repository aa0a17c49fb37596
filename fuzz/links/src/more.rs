//! Adds further parts to a described object: more groups, more call frames, debug sections, and compressed or
//! compact forms of its tables and contents.
//!
//! The bytes that choose these parts come after those that describe the link, and if the bytes end, the parts
//! are left out. So inputs that were kept before these parts existed still mean the same.

use crate::sections::Contents;
use crate::{compact, frames, object, packed};
use ::object::elf;
use arbitrary::{Result, Unstructured};
use ld_compare::machine::Machine;
use ld_compare::model::{Object, Place, Section, Symbol};

/// The most additional groups, and the most additional debug sections.
const GROUPS: usize = 3;
const DEBUG: usize = 3;

/// Names and flags of debug sections.
const DEBUG_SECTIONS: [(&str, u32); 6] = [
    (".debug_info", 0),
    (".debug_abbrev", 0),
    (".debug_line", 0),
    (".debug_loclists", 0),
    (".debug_str", elf::SHF_MERGE | elf::SHF_STRINGS),
    (".debug_line_str", elf::SHF_MERGE | elf::SHF_STRINGS),
];

/// Returns true once in this many times, and never after the end of the bytes.
pub fn now_and_then(from: &mut Unstructured<'_>, times: usize) -> Result<bool> {
    Ok(from.int_in_range(1..=times)? == times)
}

/// The bytes of an object that was changed; `None` if it stays as it is.
pub fn changed(
    from: &mut Unstructured<'_>,
    machine: Machine,
    object: &mut Object,
) -> Result<Option<Vec<u8>>> {
    if !now_and_then(from, 2)? {
        return Ok(None);
    }
    for row in 0..object.sections.len() {
        if object.sections[row].name == ".eh_frame" && now_and_then(from, 2)? {
            let (data, relocations) = frames::several(from, machine, object)?;
            let section = &mut object.sections[row];
            section.size = data.len() as u64;
            (section.data, section.relocations) = (data, relocations);
        }
    }
    if now_and_then(from, 2)? {
        for _ in 0..from.int_in_range(1..=DEBUG)? {
            debug_section(from, machine, object)?;
        }
    }
    if now_and_then(from, 3)? {
        for _ in 0..from.int_in_range(1..=GROUPS)? {
            object::group(from, object)?;
        }
    }
    if now_and_then(from, 2)? {
        packed::some(from, machine, &mut object.sections)?;
    }
    let mut bytes = object.write();
    if now_and_then(from, 2)? {
        compact::some(from, &mut bytes, object.big)?;
    }
    Ok(Some(bytes))
}

/// Adds a section of debug information and its symbol. Compression usually makes the section shorter.
fn debug_section(from: &mut Unstructured<'_>, machine: Machine, object: &mut Object) -> Result<()> {
    let (name, flags) = *from.choose(&DEBUG_SECTIONS)?;
    let length = from.int_in_range(0..=16)?;
    let part = from.bytes(from.len().min(length))?;
    let mut data = part.repeat(from.int_in_range(0..=12)?);
    if flags & elf::SHF_STRINGS != 0 {
        data.push(0);
    }
    let row = object.sections.len();
    object.sections.push(Section {
        name: name.into(),
        kind: elf::SHT_PROGBITS,
        flags: flags.into(),
        align: 1 << from.int_in_range(0..=3)?,
        entry_size: u64::from(flags & elf::SHF_STRINGS != 0),
        size: data.len() as u64,
        data,
        ..Section::default()
    });
    object.symbols.push(Symbol {
        name: String::new(),
        place: Place::Section(row),
        value: 0,
        size: 0,
        binding: elf::STB_LOCAL,
        kind: elf::STT_SECTION,
        other: 0,
    });
    object.sections[row].relocations = object::relocations(from, machine, object, row, Contents::Bytes)?;
    Ok(())
}
