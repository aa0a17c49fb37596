//! Decides which objects are claimed, and reads their symbols for the linker.

use elf::consts as elf;
use linker_plugin::{Binding, Symbol, SymbolKind, Visibility};
use sframe::wrap::candidate::is_candidate;
use sframe_ld::arch::machine;
use sframe_ld::cli::Machine;
use sframe_ld::input::group::groups;
use sframe_ld::input::object::{FileName, SymbolPlace};
use sframe_ld::input::sframe::is_input;
use sframe_ld::input::{ObjectFile, object::section_headers};
use std::path::Path;
use zerocopy::byteorder::{BigEndian, ByteOrder, LittleEndian};

/// Sections whose pieces form one function together with the pieces in start-up files, so their order among
/// all inputs matters.
const PIECES: [&[u8]; 2] = [b".init", b".fini"];

/// Whether a file is a start-up file, which compilers place around all others: `crt1.o`, `Scrt1.o`,
/// `crtbeginS.o`, `crtn.o`.
pub fn is_start_up(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let letters = name.iter().take_while(|byte| b"gMrS".contains(byte)).count();
    name.ends_with(b".o") && name[letters..].starts_with(b"crt")
}

/// An object that should be split.
pub struct Splittable {
    /// Its machine.
    pub machine: Machine,
    /// Its global symbols.
    pub symbols: Vec<Symbol>,
}

impl Splittable {
    /// Reads an object; `None` if it has nothing to split or is for link-time optimization. The linker itself
    /// reports malformed objects.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if !is_candidate(bytes) {
            return None;
        }
        match bytes.get(5)? {
            &elf::ELFDATA2MSB => read::<BigEndian>(bytes),
            _ => read::<LittleEndian>(bytes),
        }
    }
}

fn read<E: ByteOrder>(bytes: &[u8]) -> Option<Splittable> {
    let (header, _) = section_headers::<E>(bytes).ok()?;
    let big_endian = header.e_ident.get(5) == Some(&elf::ELFDATA2MSB);
    let machine = machine::from_elf((header.e_machine.get(), big_endian))?;
    let object = ObjectFile::<E>::parse(FileName { path: "", member: None }, bytes).ok()?;
    let sections = 1..object.headers.len();
    let wanted = sections.clone().any(|index| is_monolithic(&object, index));
    let pieces = sections.into_iter().any(|index| PIECES.contains(&object.section_name(index)));
    (wanted && !pieces).then(|| Splittable { machine, symbols: symbols(&object) })
}

/// Whether a section of frames may cover several text sections. A section with `SHF_LINK_ORDER` covers one.
fn is_monolithic<E: ByteOrder>(object: &ObjectFile<'_, E>, index: usize) -> bool {
    let header = &object.headers[index];
    is_input(object, index) && header.sh_size.get() > 0 && header.sh_flags.get() & elf::SHF_LINK_ORDER == 0
}

fn symbols<E: ByteOrder>(object: &ObjectFile<'_, E>) -> Vec<Symbol> {
    let mut signatures: Vec<Option<&[u8]>> = vec![None; object.headers.len()];
    for group in groups(object).0.iter().filter(|group| group.is_comdat()) {
        for &member in &group.members {
            signatures[member as usize] = Some(group.signature);
        }
    }
    let first = object.first_global as usize;
    (first..object.symbols.len())
        .filter(|&index| !object.symbol_name(index).is_empty())
        .map(|index| symbol(object, index, &signatures))
        .collect()
}

fn symbol<E: ByteOrder>(object: &ObjectFile<'_, E>, index: usize, signatures: &[Option<&[u8]>]) -> Symbol {
    let raw = &object.symbols[index];
    let place = object.symbol_place(index);
    let binding = match (place, raw.is_weak()) {
        (SymbolPlace::Undefined, false) => Binding::Reference,
        (SymbolPlace::Undefined, true) => Binding::WeakReference,
        (SymbolPlace::Common, _) => Binding::Common,
        (_, false) => Binding::Definition,
        (_, true) => Binding::WeakDefinition,
    };
    let section = match place {
        SymbolPlace::Section(section) => section as usize,
        _ => 0,
    };
    let empty = object.headers.get(section).is_some_and(|header| header.sh_type.get() == elf::SHT_NOBITS);
    let kind = match raw.kind() {
        elf::STT_FUNC | elf::STT_GNU_IFUNC => SymbolKind::Function,
        elf::STT_OBJECT | elf::STT_TLS | elf::STT_COMMON if empty => SymbolKind::ZeroVariable,
        elf::STT_OBJECT | elf::STT_TLS | elf::STT_COMMON => SymbolKind::Variable,
        _ => SymbolKind::Unknown,
    };
    Symbol {
        name: object.symbol_name(index).to_vec(),
        version: None,
        binding,
        visibility: match raw.visibility() {
            elf::STV_PROTECTED => Visibility::Protected,
            elf::STV_INTERNAL => Visibility::Internal,
            elf::STV_HIDDEN => Visibility::Hidden,
            _ => Visibility::Default,
        },
        kind,
        size: raw.st_size.get(),
        comdat: signatures.get(section).copied().flatten().map(<[u8]>::to_vec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_around_all_others_are_known_by_their_names() {
        for name in
            ["crt1.o", "Scrt1.o", "gcrt1.o", "grcrt1.o", "rcrt1.o", "Mcrt1.o", "/x/crtbeginS.o", "crtn.o"]
        {
            assert!(is_start_up(Path::new(name)), "{name}");
        }
        for name in ["main.o", "crt1.c", "xcrt1.o", "libcrt.a", "grant.o"] {
            assert!(!is_start_up(Path::new(name)), "{name}");
        }
    }
}
