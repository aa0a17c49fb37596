//! `-b binary`: any file as an object.

use crate::cli::Machine;
use object::write::{Object, StandardSection, Symbol, SymbolSection};
use object::{BinaryFormat, SymbolFlags, SymbolKind, SymbolScope};

/// An object with these bytes in `.data`, and the symbols `_binary_NAME_start`, `_binary_NAME_end` and
/// `_binary_NAME_size`. As in GNU ld, NAME is the path with `_` in place of everything but letters and
/// digits.
pub fn wrap(path: &str, bytes: &[u8], machine: Machine) -> Vec<u8> {
    let (architecture, endianness) = crate::arch::machine::object_format(machine);
    let mut object = Object::new(BinaryFormat::Elf, architecture, endianness);
    let section = object.section_id(StandardSection::Data);
    object.append_section_data(section, bytes, 1);
    let stem: String = path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let size = bytes.len() as u64;
    let places = [
        ("start", 0, SymbolSection::Section(section)),
        ("end", size, SymbolSection::Section(section)),
        ("size", size, SymbolSection::Absolute),
    ];
    for (suffix, value, section) in places {
        object.add_symbol(Symbol {
            name: format!("_binary_{stem}_{suffix}").into_bytes(),
            value,
            size: 0,
            kind: SymbolKind::Label,
            scope: SymbolScope::Dynamic,
            weak: false,
            section,
            flags: SymbolFlags::None,
        });
    }
    // Writing to memory fails only if a size does not fit the format.
    object.write().unwrap_or_default()
}
