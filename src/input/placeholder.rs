//! An object that takes the place of a file of intermediate code. It has only symbols: those that a plugin or
//! the index of an archive gives.
//!
//! The search for definitions, section groups and versions treat it like any object. The link drops it before
//! any pass asks for contents.

use crate::cli::Machine;
use crate::elf::consts as elf;
use linker_plugin::{Binding, Symbol, SymbolKind, Visibility};
use object::write::{Comdat, Object, SectionId, Symbol as Written, SymbolId, SymbolSection};
use object::{BinaryFormat, ComdatKind, SectionKind, SymbolFlags, SymbolKind as WrittenKind, SymbolScope};
use std::collections::HashMap;

/// The bytes of such an object. Its globals are the symbols, in their order. Each COMDAT signature has a
/// group with one section, which holds the group's definitions.
pub fn write(symbols: &[Symbol], machine: Machine) -> Vec<u8> {
    let (architecture, endianness) = crate::arch::machine::object_format(machine);
    let mut object = Object::new(BinaryFormat::Elf, architecture, endianness);
    let mut plain = None;
    let mut groups: HashMap<&[u8], SectionId> = HashMap::new();
    for symbol in symbols {
        let place = match (symbol.binding, &symbol.comdat) {
            (Binding::Reference | Binding::WeakReference, _) => SymbolSection::Undefined,
            (Binding::Common, _) => SymbolSection::Common,
            (_, Some(key)) => {
                let group = groups.entry(key).or_insert_with(|| add_group(&mut object, key));
                SymbolSection::Section(*group)
            }
            _ => SymbolSection::Section(*plain.get_or_insert_with(|| add_section(&mut object))),
        };
        add_symbol(&mut object, symbol, place);
    }
    // Writing to memory fails only if a size does not fit the format.
    object.write().unwrap_or_default()
}

/// Adds a section for definitions.
fn add_section(object: &mut Object<'_>) -> SectionId {
    let section = object.add_section(Vec::new(), b"intermediate code".to_vec(), SectionKind::Text);
    object.append_section_data(section, &[0], 1);
    section
}

/// Adds a group of one section. Its signature is a local symbol, which is known by its name.
fn add_group(object: &mut Object<'_>, key: &[u8]) -> SectionId {
    let section = add_section(object);
    let signature = add(object, key.to_vec(), SymbolSection::Section(section), 0, (elf::STB_LOCAL, 0, 0));
    object.add_comdat(Comdat { kind: ComdatKind::Any, symbol: signature, sections: vec![section] });
    section
}

fn add_symbol(object: &mut Object<'_>, symbol: &Symbol, place: SymbolSection) {
    let name = match &symbol.version {
        Some(version) => [&symbol.name[..], b"@", version].concat(),
        None => symbol.name.clone(),
    };
    let binding = match symbol.binding {
        Binding::WeakDefinition | Binding::WeakReference => elf::STB_WEAK,
        _ => elf::STB_GLOBAL,
    };
    let kind = match symbol.kind {
        SymbolKind::Function => elf::STT_FUNC,
        SymbolKind::Variable | SymbolKind::ZeroVariable => elf::STT_OBJECT,
        SymbolKind::Unknown if symbol.binding == Binding::Common => elf::STT_OBJECT,
        SymbolKind::Unknown => elf::STT_NOTYPE,
    };
    let visibility = match symbol.visibility {
        Visibility::Default => elf::STV_DEFAULT,
        Visibility::Protected => elf::STV_PROTECTED,
        Visibility::Internal => elf::STV_INTERNAL,
        Visibility::Hidden => elf::STV_HIDDEN,
    };
    add(object, name, place, symbol.size, (binding, kind, visibility));
}

fn add(
    object: &mut Object<'_>,
    name: Vec<u8>,
    section: SymbolSection,
    size: u64,
    (binding, kind, visibility): (u8, u8, u8),
) -> SymbolId {
    object.add_symbol(Written {
        name,
        // The alignment of a common block. Only the compiler knows the real one.
        value: u64::from(section == SymbolSection::Common),
        size,
        kind: WrittenKind::Label,
        scope: if binding == elf::STB_LOCAL { SymbolScope::Compilation } else { SymbolScope::Dynamic },
        weak: binding == elf::STB_WEAK,
        section,
        flags: SymbolFlags::Elf { st_info: binding << 4 | kind, st_other: visibility },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::ObjectFile;
    use crate::input::group::groups;
    use crate::input::object::{FileName, SymbolPlace};
    use zerocopy::byteorder::{BigEndian, LittleEndian};

    fn symbol(name: &str, binding: Binding, comdat: Option<&str>) -> Symbol {
        Symbol {
            name: name.into(),
            version: None,
            binding,
            visibility: Visibility::Hidden,
            kind: SymbolKind::Function,
            size: 7,
            comdat: comdat.map(Into::into),
        }
    }

    #[test]
    fn globals_are_the_symbols_in_their_order() {
        let symbols = [
            symbol("used", Binding::Reference, None),
            symbol("C1", Binding::WeakDefinition, Some("C5")),
            symbol("main", Binding::Definition, None),
            symbol("C2", Binding::WeakDefinition, Some("C5")),
            symbol("block", Binding::Common, None),
        ];
        let bytes = write(&symbols, Machine::X86_64);
        let name = FileName { path: "a.o", member: None };
        let object = ObjectFile::<LittleEndian>::parse(name, &bytes).unwrap();
        let first = object.first_global as usize;
        let globals = first..object.symbols.len();
        let names: Vec<_> = globals.map(|index| object.symbol_name(index)).collect();
        assert_eq!(names, [&b"used"[..], b"C1", b"main", b"C2", b"block"]);
        assert!(object.symbols[first + 1].is_weak());
        assert_eq!(object.symbol_place(first), SymbolPlace::Undefined);
        assert_eq!(object.symbol_place(first + 1), object.symbol_place(first + 3));
        assert_eq!(object.symbol_place(first + 4), SymbolPlace::Common);
        assert_eq!(object.symbols[first + 2].visibility(), elf::STV_HIDDEN);
        let (groups, findings) = groups(&object);
        assert!(findings.is_empty(), "{findings:?}");
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].signature, b"C5");
        assert_eq!(SymbolPlace::Section(groups[0].members[0]), object.symbol_place(first + 1));
    }

    #[test]
    fn very_many_groups_fit() {
        let names: Vec<String> = (0..40_000).map(|number| format!("f{number}")).collect();
        let symbols: Vec<Symbol> =
            names.iter().map(|name| symbol(name, Binding::WeakDefinition, Some(name))).collect();
        let bytes = write(&symbols, Machine::S390x);
        let name = FileName { path: "a.o", member: None };
        let object = ObjectFile::<BigEndian>::parse(name, &bytes).unwrap();
        let last = object.symbols.len() - 1;
        assert!(matches!(object.symbol_place(last), SymbolPlace::Section(section) if section > 0xff00));
        assert_eq!(groups(&object).0.len(), 40_000);
    }
}
