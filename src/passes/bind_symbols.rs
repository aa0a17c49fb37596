//! Decides for each symbol whether the output imports it, exports it, or binds it inside itself.
//!
//! After this pass, globals and locals have all flags that later passes ask for (imported, function, TLS,
//! absolute, …). Garbage collection only adds to them: `DISCARDED` for symbols of collected sections and
//! common blocks, and `LIVE` for names that live sections refer to. It also settles again `__start_NAME` of
//! collected sections.

use crate::arch::Target;
use crate::cli::{OutputMode, Report, Symbolic};
use crate::elf::consts as elf;
use crate::ids::{SectionId, SymbolId};
use crate::input::ObjectFile;
use crate::input::object::SymbolPlace;
use crate::input::sframe::is_input;
use crate::phase::{Bound, Inputs, Matched, Resolved, SectionState, SectionStates, split_locals};
use crate::relocs::undefined;
use crate::rows::filled;
use crate::symbols::{Definition, LinkerSymbolOrigin, MentionedBy, Reserved, SymbolFlags};
use hashbrown::HashSet;
use parallel::{IntoParallel, ParallelSlice};

/// Sets the flags of all symbols. With `--gc-sections`, also returns the sections that define the globals:
/// here the definitions are in the cache, and marking needs the sections for most of its edges.
pub fn run<'a, T: Target>(
    matched: Matched<'a, T>,
    sections: &SectionStates,
) -> (Bound<'a, T>, DefiningSections) {
    let mut defining_sections = DefiningSections::default();
    if matched.config.gc.enabled {
        defining_sections.0 = filled(SectionId::NONE, matched.globals.len());
    }
    let symbols = flags(&matched, sections, &mut defining_sections);
    (Bound { matched, symbols }, defining_sections)
}

/// The home of each global: the section of an object that defines it. Empty without `--gc-sections`.
#[derive(Default)]
pub struct DefiningSections(Vec<SectionId>);

impl DefiningSections {
    /// The defining sections of all globals.
    pub fn of<T: Target>(link: &Resolved<'_, T>) -> Self {
        DefiningSections(link.globals.ids().map(|id| home(link, id)).collect())
    }

    /// The section of an object that defines a global; `None` if there is none.
    #[inline]
    pub fn of_global(&self, id: SymbolId) -> Option<SectionId> {
        self.0.get(id.index()).copied().filter(|section| section.is_some())
    }
}

#[inline]
fn home<T: Target>(link: &Resolved<'_, T>, id: SymbolId) -> SectionId {
    link.symbol_section(id).map_or(SectionId::NONE, |(section, _)| section)
}

/// Globals that one job settles.
const BLOCK: usize = 1024;

fn flags<T: Target>(
    link: &Matched<'_, T>,
    sections: &SectionStates,
    defining_sections: &mut DefiningSections,
) -> Vec<SymbolFlags> {
    let mut symbols: Vec<SymbolFlags> =
        (0..link.symbol_count).into_par_iter().map(|_| SymbolFlags::empty()).collect();
    let (globals, locals) = symbols.split_at_mut(link.globals.len());
    let unreported = undefined::unreported(link);
    let mut defining_sections: Vec<&mut [SectionId]> = defining_sections.0.chunks_mut(BLOCK).collect();
    defining_sections.resize_with(globals.len().div_ceil(BLOCK), Default::default);
    globals.par_chunks_mut(BLOCK).zip(defining_sections).enumerate().for_each(
        |(block, (flags, defining_sections))| {
            let ids = || (block * BLOCK..).map(|row| SymbolId(row as u32));
            for (flags, id) in flags.iter_mut().zip(ids()) {
                *flags = global_flags(link, sections, &unreported, id);
            }
            for (section, id) in defining_sections.iter_mut().zip(ids()) {
                *section = home(link, id);
            }
        },
    );
    let own = split_locals(locals, &link.objects);
    // An undefined local symbol stays undefined, because no other file can define it.
    let reports = !link.config.is_relocatable() && link.config.undefined.in_objects != Report::Ignore;
    link.objects.par_iter().zip(own).for_each(|(object, own)| {
        for (index, flags) in own.iter_mut().enumerate().take(object.first_global as usize).skip(1) {
            *flags = definition_flags(object, index, sections);
            if reports && object.symbol_place(index) == SymbolPlace::Undefined {
                *flags |= SymbolFlags::UNDEFINED;
            }
        }
    });
    symbols
}

/// The flags that follow from the symbol's own definition.
#[inline]
fn definition_flags<E: zerocopy::byteorder::ByteOrder>(
    object: &ObjectFile<'_, E>,
    index: usize,
    sections: &SectionStates,
) -> SymbolFlags {
    let Some(symbol) = object.symbols.get(index) else { return SymbolFlags::empty() };
    let mut flags = type_flags(symbol.kind());
    if symbol.kind() == elf::STT_GNU_IFUNC {
        flags |= SymbolFlags::IFUNC;
    }
    match object.symbol_place(index) {
        SymbolPlace::Absolute => flags |= SymbolFlags::ABSOLUTE,
        SymbolPlace::Section(section) => {
            let discarded = SectionState::DISCARDED_BY_GROUP | SectionState::DISCARDED_BY_SCRIPT;
            let state = sections.get(object.section_id(section));
            // Symbols in SFrame inputs have no place in the output if the linker's own section replaces these
            // inputs.
            let replaced = state.contains(SectionState::ABSORBED) && is_input(object, section as usize);
            if state.intersects(discarded) || replaced {
                flags |= SymbolFlags::DISCARDED;
            }
        }
        _ => {}
    }
    flags
}

fn type_flags(kind: u8) -> SymbolFlags {
    match kind {
        elf::STT_FUNC | elf::STT_GNU_IFUNC => SymbolFlags::FUNCTION,
        elf::STT_TLS => SymbolFlags::TLS,
        elf::STT_SECTION => SymbolFlags::SECTION,
        _ => SymbolFlags::empty(),
    }
}

/// The flags of a global. `unreported` has the names of [`undefined::unreported`].
pub fn global_flags<T: Target>(
    link: &Resolved<'_, T>,
    sections: &SectionStates,
    unreported: &HashSet<&[u8]>,
    id: SymbolId,
) -> SymbolFlags {
    let visibility = link.definitions.visibility[id.index()];
    match link.definition(id) {
        Definition::Undefined => {
            let mut flags = undefined_flags(link, id, visibility);
            // Without a library that has the version, the dynamic linker finds no definition, so even a weak
            // symbol cannot be left to it.
            let lost = flags.contains(SymbolFlags::IMPORTED) && undefined::names_a_version(link, id);
            flags.set(SymbolFlags::UNDEFINED, lost || undefined::is_reported(link, unreported, id));
            flags
        }
        Definition::Shared { library, symbol } => {
            let library = &link.shared[library.index()];
            SymbolFlags::IMPORTED | type_flags(library.symbols[symbol as usize].kind())
        }
        Definition::Object { file, symbol } => {
            let object = &link.objects[file.index()];
            let flags = definition_flags(object, symbol as usize, sections);
            let source = &object.symbols[symbol as usize];
            let unique = source.binding() == elf::STB_GNU_UNIQUE;
            let exemption = Exemption { unique, version: false, kind: source.kind() };
            flags | export_flags(link, id, flags, visibility, object.hide_symbols, exemption)
        }
        Definition::Linker(row) => {
            let symbol = &link.linker_symbols[row as usize];
            let mut flags = if symbol.fixed { SymbolFlags::ABSOLUTE } else { SymbolFlags::empty() };
            flags |= type_flags(symbol.kind);
            flags.set(SymbolFlags::IFUNC, symbol.kind == elf::STT_GNU_IFUNC);
            let got = LinkerSymbolOrigin::Reserved(Reserved::GlobalOffsetTable);
            flags.set(SymbolFlags::GOT_BASE, symbol.origin == got);
            let version = symbol.origin == LinkerSymbolOrigin::Version;
            let exemption = Exemption { unique: false, version, kind: elf::STT_NOTYPE };
            flags | export_flags(link, id, flags, visibility, symbol.hidden, exemption)
        }
    }
}

/// The flags of an undefined symbol. It is imported if the dynamic linker may resolve it. Otherwise it is 0
/// at every load address, and the link may report one that is not weak.
fn undefined_flags<T: Target>(link: &Resolved<'_, T>, id: SymbolId, visibility: u8) -> SymbolFlags {
    let mentions = link.mentions(id);
    if !mentions.contains(MentionedBy::IN_OBJECT) {
        return SymbolFlags::empty();
    }
    let weak = !mentions.contains(MentionedBy::STRONG_REFERENCE);
    let may_be_imported =
        link.is_dynamic() && visibility == elf::STV_DEFAULT && link.versions.words[id.index()] != 0;
    let imported = may_be_imported
        && match link.config.mode {
            OutputMode::Shared => link.config.undefined.dynamic_undefined_weak != Some(false) || !weak,
            // An executable is linked last, so a symbol that is missing now is missing at run time, too.
            // There are two exceptions: a library may turn up later that defines a weak symbol, and a library
            // of this link may refer to the symbol, and will find it there.
            _ if weak => link.config.undefined.dynamic_undefined_weak.unwrap_or(!link.shared.is_empty()),
            _ => mentions.contains(MentionedBy::IN_SHARED),
        };
    let mut flags = if weak { SymbolFlags::UNDEFINED_WEAK } else { SymbolFlags::empty() };
    if imported {
        flags |= SymbolFlags::IMPORTED;
    } else {
        flags |= SymbolFlags::ABSOLUTE;
    }
    flags
}

/// Properties of a definition that leave it preemptible in a shared library in spite of `-Bsymbolic`.
#[derive(Clone, Copy)]
struct Exemption {
    /// `STB_GNU_UNIQUE`.
    unique: bool,
    /// It is the symbol of a version. Executables export it, too, as what a dynamic list names.
    version: bool,
    /// Its type (`STT_*`), by which [`is_listed`] judges.
    kind: u8,
}

/// Whether `--dynamic-list` or a related option names a definition of type `kind` (`STT_*`).
fn is_listed<T: Target>(link: &Inputs<'_, T>, id: SymbolId, kind: u8) -> bool {
    let data = matches!(kind, elf::STT_OBJECT | elf::STT_COMMON);
    (data && link.config.symbols.dynamic_list_data)
        || link.lists.dynamic.as_ref().is_some_and(|list| list.contains(link.globals.names[id.index()]))
}

/// [`SymbolFlags::EXPORTED`] if other modules see a definition of this output. If they may preempt it, also
/// [`SymbolFlags::IMPORTED`].
fn export_flags<T: Target>(
    link: &Resolved<'_, T>,
    id: SymbolId,
    flags: SymbolFlags,
    visibility: u8,
    hidden: bool,
    Exemption { unique, version: of_version, kind }: Exemption,
) -> SymbolFlags {
    let version = link.versions.words[id.index()];
    if !link.is_dynamic()
        || hidden
        || flags.contains(SymbolFlags::DISCARDED)
        || matches!(visibility, elf::STV_HIDDEN | elf::STV_INTERNAL)
        || version == elf::VER_NDX_LOCAL
    {
        return SymbolFlags::empty();
    }
    let symbols = &link.config.symbols;
    // Asked last: it looks for the name.
    let listed = || of_version || is_listed(link, id, kind);
    let exported = match link.config.mode {
        OutputMode::Shared => true,
        _ => symbols.export_dynamic || link.mentions(id).contains(MentionedBy::IN_SHARED) || listed(),
    };
    if !exported {
        return SymbolFlags::empty();
    }
    if visibility == elf::STV_PROTECTED {
        return SymbolFlags::EXPORTED;
    }
    let function = flags.contains(SymbolFlags::FUNCTION);
    let weak = link.is_weak_definition(id);
    // An exclusive list binds all symbols that it does not name, whatever else an option binds.
    let symbolic = link.lists.dynamic_is_exclusive
        || match symbols.symbolic {
            Symbolic::No => false,
            Symbolic::All => true,
            Symbolic::Functions => function,
            Symbolic::NonWeak => !weak,
            Symbolic::NonWeakFunctions => function && !weak,
        };
    if link.config.mode == OutputMode::Shared && (!symbolic || unique || listed()) {
        return SymbolFlags::EXPORTED | SymbolFlags::IMPORTED;
    }
    SymbolFlags::EXPORTED
}
