//! Decides for each symbol whether it is imported, exported or bound inside the output.
//!
//! After this pass the flags of a symbol that later passes ask for (imported, function, TLS,
//! absolute, …) are set, for globals and for locals; later passes only add `LIVE` and the `NEEDS_*`
//! bits.

use crate::arch::Target;
use crate::cli::{OutputMode, Symbolic};
use crate::elf::consts as elf;
use crate::ids::SymbolId;
use crate::input::ObjectFile;
use crate::input::object::SymbolPlace;
use crate::phase::{Bound, Inputs, Matched, Resolved, SectionState, SectionStates};
use crate::symbols::{Definition, Mentions, SymbolFlags, flag};
use rayon::prelude::*;

/// Sets the flags of all symbols.
pub fn run<'a, T: Target>(matched: Matched<'a, T>) -> Bound<'a, T> {
    let symbols = SymbolFlags::new(matched.symbol_count);
    let bound = Bound { matched, symbols };
    let link = &bound;
    (0..link.globals.len() as u32).into_par_iter().with_min_len(1024).for_each(|row| {
        let id = SymbolId(row);
        let bits = global_bits(link, id);
        if bits != 0 {
            link.symbols.set(id, bits);
        }
    });
    link.objects.par_iter().for_each(|object| {
        for index in 1..object.first_global {
            let bits = definition_bits(object, index as usize, &link.sections);
            if bits != 0 {
                link.symbols.set(SymbolId(object.first_local + index), bits);
            }
        }
    });
    bound
}

/// The flags by the symbol's own definition.
#[inline]
fn definition_bits<E: zerocopy::byteorder::ByteOrder>(
    object: &ObjectFile<'_, E>,
    index: usize,
    sections: &SectionStates,
) -> u32 {
    let Some(symbol) = object.symbols.get(index) else { return 0 };
    let mut bits = type_bits(symbol.kind());
    if symbol.kind() == elf::STT_GNU_IFUNC {
        bits |= flag::IFUNC;
    }
    match object.symbol_place(index) {
        SymbolPlace::Absolute => bits |= flag::ABSOLUTE,
        SymbolPlace::Section(section) => {
            let discarded = SectionState::DISCARDED_BY_GROUP | SectionState::DISCARDED_BY_SCRIPT;
            if sections.get(object.section_id(section)).intersects(discarded) {
                bits |= flag::DISCARDED;
            }
        }
        _ => {}
    }
    bits
}

fn type_bits(kind: u8) -> u32 {
    match kind {
        elf::STT_FUNC | elf::STT_GNU_IFUNC => flag::FUNCTION,
        elf::STT_TLS => flag::TLS,
        _ => 0,
    }
}

fn global_bits<T: Target>(link: &Resolved<'_, T>, id: SymbolId) -> u32 {
    let visibility = link.definitions.visibility[id.index()];
    match link.definition(id) {
        Definition::Undefined => undefined_bits(link, id, visibility),
        Definition::Shared { library, symbol } => {
            let library = &link.shared[library.index()];
            flag::IMPORTED | type_bits(library.symbols[symbol as usize].kind())
        }
        Definition::Object { file, symbol } => {
            let object = &link.objects[file.index()];
            let bits = definition_bits(object, symbol as usize, &link.sections);
            let source = &object.symbols[symbol as usize];
            let unique = source.binding() == elf::STB_GNU_UNIQUE;
            let exemption = Exemption { unique, listed: is_listed(link, id, source.kind()) };
            bits | export_bits(link, id, bits, visibility, object.hide_symbols, exemption)
        }
        Definition::Linker(row) => {
            let symbol = &link.linker_symbols[row as usize];
            let bits = if symbol.fixed { flag::ABSOLUTE } else { 0 };
            let exemption = Exemption { unique: false, listed: is_listed(link, id, elf::STT_NOTYPE) };
            bits | export_bits(link, id, bits, visibility, symbol.hidden, exemption)
        }
    }
}

/// The flags of an undefined symbol: imported if the dynamic linker may resolve it; otherwise a
/// weak one is 0, and any other is reported by another pass.
fn undefined_bits<T: Target>(link: &Resolved<'_, T>, id: SymbolId, visibility: u8) -> u32 {
    let mentions = link.mentions(id);
    if !mentions.contains(Mentions::IN_OBJECT) {
        return 0;
    }
    let weak = !mentions.contains(Mentions::STRONG_REFERENCE);
    let may_be_imported =
        link.is_dynamic() && visibility == elf::STV_DEFAULT && link.versions.words[id.index()] != 0;
    let imported = may_be_imported
        && match link.config.mode {
            OutputMode::Shared => link.config.undefined.dynamic_undefined_weak != Some(false) || !weak,
            _ => !weak || link.config.undefined.dynamic_undefined_weak.unwrap_or(!link.shared.is_empty()),
        };
    let mut bits = if weak { flag::UNDEFINED_WEAK } else { 0 };
    if imported {
        bits |= flag::IMPORTED;
    } else if weak {
        bits |= flag::ABSOLUTE;
    }
    bits
}

/// Properties of a definition that make it exported and preemptible against other options.
#[derive(Clone, Copy)]
struct Exemption {
    /// `STB_GNU_UNIQUE`.
    unique: bool,
    /// A dynamic list names it.
    listed: bool,
}

/// Whether `--dynamic-list` or one of its kin names a definition of type `kind` (`STT_*`).
fn is_listed<T: Target>(link: &Inputs<'_, T>, id: SymbolId, kind: u8) -> bool {
    let data = matches!(kind, elf::STT_OBJECT | elf::STT_COMMON);
    (data && link.config.symbols.dynamic_list_data)
        || link.lists.dynamic.as_ref().is_some_and(|list| list.contains(link.globals.names[id.index()]))
}

/// Whether a definition of this output is visible to other modules, and whether they may take its
/// place.
fn export_bits<T: Target>(
    link: &Resolved<'_, T>,
    id: SymbolId,
    flags: u32,
    visibility: u8,
    hidden: bool,
    Exemption { unique, listed }: Exemption,
) -> u32 {
    let version = link.versions.words[id.index()];
    if !link.is_dynamic()
        || hidden
        || flags & flag::DISCARDED != 0
        || matches!(visibility, elf::STV_HIDDEN | elf::STV_INTERNAL)
        || version == elf::VER_NDX_LOCAL
    {
        return 0;
    }
    let symbols = &link.config.symbols;
    let exported = match link.config.mode {
        OutputMode::Shared => true,
        _ => symbols.export_dynamic || link.mentions(id).contains(Mentions::IN_SHARED) || listed || unique,
    };
    if !exported {
        return 0;
    }
    let mut bits = flag::EXPORTED;
    if visibility == elf::STV_PROTECTED {
        return bits | flag::PROTECTED;
    }
    let function = flags & flag::FUNCTION != 0;
    let weak = link.is_weak_definition(id);
    let symbolic = match symbols.symbolic {
        Symbolic::No => link.lists.dynamic_is_exclusive,
        Symbolic::All => true,
        Symbolic::Functions => function,
        Symbolic::NonWeak => !weak,
        Symbolic::NonWeakFunctions => function && !weak,
    };
    if link.config.mode == OutputMode::Shared && (!symbolic || listed || unique) {
        bits |= flag::IMPORTED;
    }
    bits
}
