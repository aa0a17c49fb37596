//! Reports undefined symbols: one message for all references of objects to a symbol, and one for each library
//! that refers to a symbol which no module defines or which the program does not export.

pub mod hints;

use crate::arch::Target;
use crate::cli::Report;
use crate::decision::site::Reference;
use crate::diag::{Code, Diagnostic, Severity};
use crate::elf::Sym;
use crate::elf::consts as elf;
use crate::ids::{FileId, SymbolId};
use crate::input::SharedFile;
use crate::input::shared::NeededLibraries;
use crate::input::source_lines::{PlaceRole, SourceLines, referenced_more};
use crate::phase::{Bound, Inputs, Live, Resolved};
use crate::symbols::versions::split;
use crate::symbols::{Definition, MentionedBy, SymbolFlags, start_stop};
use hashbrown::{HashMap, HashSet};
use hints::{FindLeftOut, Hints, definition_place};
use parallel::ParallelSlice;
use std::sync::OnceLock;
use zerocopy::byteorder::ByteOrder;

/// The largest number of references that one message shows.
const MAX_SHOWN: usize = 3;

/// Whether the linker reports references to a global that nothing defines. `unreported` is the result of
/// [`unreported`].
pub fn is_reported<T: Target>(link: &Resolved<'_, T>, unreported: &HashSet<&[u8]>, id: SymbolId) -> bool {
    !link.config.is_relocatable()
        && link.mentions(id).contains(MentionedBy::STRONG_REFERENCE)
        && severity(link, id) != Report::Ignore
        && !unreported.contains(link.globals.names[id.index()])
}

/// Whether an undefined global is `name@VERSION`. A dynamic linker looks for a version only in the library
/// that the version table names beside it, and no library of this link is that one.
pub fn names_a_version<T: Target>(link: &Inputs<'_, T>, id: SymbolId) -> bool {
    let name = link.globals.names.get(id.index()).copied().unwrap_or_default();
    split(name).is_some_and(|(_, version)| !version.is_empty())
}

/// Whether objects mention an undefined weak global only as definitions that were discarded with their
/// groups. The group that prevails was made differently and lacks it, and what refers to it, such as a
/// vtable, gets 0.
pub fn has_lost_definition<T: Target>(link: &Resolved<'_, T>, id: SymbolId) -> bool {
    let (mentions, of_references) =
        (link.mentions(id), MentionedBy::REFERENCE | MentionedBy::STRONG_REFERENCE);
    !link.config.is_relocatable()
        && mentions.contains(MentionedBy::IN_OBJECT)
        && !mentions.intersects(of_references)
        && link.definition(id) == Definition::Undefined
}

/// The names of `--ignore-unresolved-symbol`.
pub fn unreported<'l, T: Target>(link: &'l Inputs<'_, T>) -> HashSet<&'l [u8]> {
    link.config.undefined.ignored.iter().map(Vec::as_slice).collect()
}

/// How the linker reports undefined references of objects. No other module can define a symbol with other
/// than default visibility, so it is an error even where undefined symbols are allowed.
fn severity<T: Target>(link: &Resolved<'_, T>, id: SymbolId) -> Report {
    if visibility(link, id) != elf::STV_DEFAULT {
        return Report::Error;
    }
    link.config.undefined.in_objects
}

/// The visibility (`STV_*`) of a global, from all files that mention it. A local symbol has default
/// visibility.
fn visibility<T: Target>(link: &Resolved<'_, T>, id: SymbolId) -> u8 {
    link.definitions.visibility.get(id.index()).copied().unwrap_or(elf::STV_DEFAULT)
}

/// Reports the references that the scan found, in file order. `needed` are the libraries that the link's
/// libraries need. `left_out` finds members that were not taken.
pub fn report<'a, T: Target>(
    link: &Live<'a, T>,
    references: &[Vec<Reference>],
    needed: &NeededLibraries<'a>,
    left_out: FindLeftOut<'_, 'a>,
) {
    let mut rows: HashMap<SymbolId, usize> = HashMap::new();
    let mut found: Vec<(Reference, u64, Vec<Reference>)> = Vec::new();
    for &reference in references.iter().flatten() {
        let row = *rows.entry(reference.symbol).or_insert_with(|| {
            found.push((reference, 0, Vec::new()));
            found.len() - 1
        });
        let (_, count, shown) = &mut found[row];
        *count += 1;
        if shown.len() < MAX_SHOWN {
            shown.push(reference);
        }
    }
    let ignored = unreported(link);
    found.retain(|(first, ..)| {
        !has_lost_definition(link, first.symbol)
            || !ignored.contains(link.globals.names[first.symbol.index()])
                && hints::discarded_definition(link, first.symbol).is_some()
    });
    let mut lines = SourceLines::default();
    let mut hints = Hints::new(link, needed, found.iter().map(|(first, ..)| *first), left_out);
    for (first, count, shown) in &found {
        let mut diagnostic = describe(link, &mut lines, first.symbol, *count, shown);
        if set_of(link, link.globals.names.get(first.symbol.index()).copied().unwrap_or_default()).is_none() {
            diagnostic = hints.add(link, first, diagnostic);
        }
        let (file, section) =
            link.locate(first.section).map_or((u32::MAX, 0), |(object, index)| (object.id.0, index));
        link.sink.report_recoverable(diagnostic.ordered(file, section, first.offset));
    }
}

/// Why there is no `__start_NAME` or `__stop_NAME` although there are sections NAME, and what helps.
fn no_set<T: Target>(link: &Live<'_, T>, name: &[u8], section: &[u8]) -> String {
    let (name, section) = (String::from_utf8_lossy(name), String::from_utf8_lossy(section));
    if link.start_stop_is_collected(&link.sections, name.as_bytes()) {
        "all sections of that name were collected or discarded; -z nostart-stop-gc lets the reference keep them, \
         SHF_GNU_RETAIN or KEEP one of them"
            .to_owned()
    } else {
        format!(
            "the script puts the sections `{section}` into output sections of other names: \
             assign {name} there, or write an output section `{section}`"
        )
    }
}

fn describe<T: Target>(
    link: &Live<'_, T>,
    lines: &mut SourceLines,
    id: SymbolId,
    count: u64,
    shown: &[Reference],
) -> Diagnostic {
    if has_lost_definition(link, id) {
        return with_places(link, lines, count, shown, lost_definition(link, id));
    }
    let is_lost = link.symbol_flags(id).contains(SymbolFlags::IMPORTED) && names_a_version(link, id);
    let warns = !is_lost && severity(link, id) == Report::Warning;
    let gravity = if warns { Severity::Warning } else { Severity::Error };
    let name = link.globals.names.get(id.index()).copied().unwrap_or_default();
    let set = set_of(link, name);
    let visibility = match visibility(link, id) {
        // `-z start-stop-visibility` made `__start_NAME` protected, not the source.
        elf::STV_PROTECTED if set.is_some() => "",
        elf::STV_HIDDEN => "hidden ",
        elf::STV_INTERNAL => "internal ",
        elf::STV_PROTECTED => "protected ",
        _ => "",
    };
    let message = format!("undefined {visibility}symbol: {}", link.symbol_text(id));
    let mut diagnostic = Diagnostic::new(gravity, Code::UndefinedSymbol, message);
    if !name.is_empty() {
        diagnostic = diagnostic.about(name);
    }
    if let Some(section) = set {
        diagnostic = diagnostic.help(no_set(link, name, section));
    }
    with_places(link, lines, count, shown, diagnostic)
}

/// The warning about a symbol of which [`has_lost_definition`] tells.
fn lost_definition<T: Target>(link: &Live<'_, T>, id: SymbolId) -> Diagnostic {
    let symbol = link.symbol_text(id);
    let message = format!("the only definition of {symbol} was discarded with its group");
    Diagnostic::warning(Code::DiscardedReference, message)
        .about(link.globals.names.get(id.index()).copied().unwrap_or_default())
        .help(
            "the files hold different definitions of what the group is about, and only one of them counts: \
             compile both from one source, with the same compiler and options",
        )
}

/// Adds the places of some of the references to a message about them.
fn with_places<T: Target>(
    link: &Live<'_, T>,
    lines: &mut SourceLines,
    count: u64,
    shown: &[Reference],
    mut diagnostic: Diagnostic,
) -> Diagnostic {
    let shown = if link.config.diagnostics.warn_once { &shown[..shown.len().min(1)] } else { shown };
    for reference in shown {
        diagnostic = link
            .describe_source(lines, PlaceRole::Referenced, reference.section, reference.offset)
            .into_iter()
            .fold(diagnostic, Diagnostic::note);
    }
    let more = count.saturating_sub(shown.len() as u64);
    if more > 0 {
        diagnostic = diagnostic.note(referenced_more(more));
    }
    diagnostic
}

/// The name of the sections whose bounds the symbol stands for, if the link has such sections.
fn set_of<'n, T: Target>(link: &Live<'_, T>, name: &'n [u8]) -> Option<&'n [u8]> {
    start_stop(name).filter(|section| link.identifier_sections.contains_key(section))
}

/// Reports undefined symbols of the shared libraries that the output loads. Either no module defines the
/// symbol in the required version, or the program defines it and does not export it. The linker does not
/// judge a library with a `DT_NEEDED` that it has not seen, because that library may define the symbol. Nor
/// does it report a symbol that a library outside of the link will bring, as in GNU ld: `open_needed` opens
/// these where something is amiss.
pub fn report_shared<'a, T: Target>(link: &Bound<'a, T>, open_needed: impl FnOnce() -> NeededLibraries<'a>) {
    let policy = link.config.undefined.in_shared_libraries;
    if policy == Report::Ignore || link.config.is_relocatable() {
        return;
    }
    let found = unmet_in_shared(link);
    if found.is_empty() {
        return;
    }
    let outside = open_needed();
    let gravity = if policy == Report::Warning { Severity::Warning } else { Severity::Error };
    for Finding { library, index, id, unmet } in found {
        let name = link.globals.names[id.index()];
        let finding = match unmet {
            Unmet::Undefined if outside.definitions.contains_key(name) => continue,
            Unmet::Undefined => {
                let message = format!("undefined reference: {}", link.symbol_text(id));
                Diagnostic::new(gravity, Code::UndefinedSymbol, message)
                    .help("--allow-shlib-undefined leaves it to the dynamic linker")
            }
            Unmet::Version(version) => other_version(link, id, version, gravity),
            Unmet::NotExported(definer) => not_exported(link, id, definer, gravity),
        };
        let note = format!("referenced by {}", library.name);
        let place = finding.about(name).note(note).ordered(u32::MAX, library.id.0, index as u64);
        link.sink.report_recoverable(place);
    }
}

/// A symbol that a library of the link will not find.
struct Finding<'l, 'a, E: ByteOrder> {
    library: &'l SharedFile<'a, E>,
    /// Its index in the library.
    index: usize,
    id: SymbolId,
    unmet: Unmet<'a>,
}

/// The symbols that no module of the link defines for its libraries.
fn unmet_in_shared<'l, 'a, T: Target>(link: &'l Bound<'a, T>) -> Vec<Finding<'l, 'a, T::E>> {
    let mut present: HashSet<&[u8]> = link.shared.iter().map(|library| library.soname).collect();
    present.extend(&link.needed_libraries.found);
    let unreported = unreported(link);
    let library_definitions = LibraryDefinitions::default();
    let of_library = |(library, &is_loaded): (&'l SharedFile<'a, T::E>, &bool)| {
        let is_judged = is_loaded && library.needed.iter().all(|needed| present.contains(needed));
        let symbols = if is_judged { library.symbols } else { &[] };
        let of_symbol = |(index, symbol): (usize, &Sym<T::E>)| {
            let id = *library.globals.get(index)?;
            if !symbol.is_undefined() || symbol.is_weak() || symbol.is_local() || !id.is_some() {
                return None;
            }
            let unmet = unmet(link, &library_definitions, library, index, id)?;
            let is_wanted = !unreported.contains(link.globals.names[id.index()]);
            is_wanted.then_some(Finding { library, index, id, unmet })
        };
        symbols.iter().enumerate().skip(1).filter_map(of_symbol).collect::<Vec<_>>()
    };
    link.shared.par_iter().zip(&link.definitions.loaded_libraries).flat_map_iter(of_library).collect()
}

/// Why a library will not find a symbol.
enum Unmet<'a> {
    /// No module defines it.
    Undefined,
    /// Libraries define it, but none in this version.
    Version(&'a [u8]),
    /// The program defines it in this object, but does not export it.
    NotExported(FileId),
}

/// Definitions of the link's libraries, collected on first use.
#[derive(Default)]
struct LibraryDefinitions<'a> {
    /// Whether a library defines a global.
    by_id: OnceLock<Vec<bool>>,
    /// Names with versions. Globals do not contain old versions, because only references with the same
    /// version bind to these.
    by_version: OnceLock<HashSet<(&'a [u8], &'a [u8])>>,
    /// The names of `by_version`, in whatever version.
    by_name: OnceLock<HashSet<&'a [u8]>>,
}

impl<'a> LibraryDefinitions<'a> {
    fn has<T: Target>(&self, link: &Bound<'a, T>, id: SymbolId) -> bool {
        let list = || {
            let mut defined = vec![false; link.globals.len()];
            for library in &link.shared {
                for (&id, symbol) in library.globals.iter().zip(library.symbols) {
                    if id.is_some() && !symbol.is_undefined() {
                        defined[id.index()] = true;
                    }
                }
            }
            defined
        };
        self.by_id.get_or_init(list)[id.index()]
    }

    fn versions<T: Target>(&self, link: &Bound<'a, T>) -> &HashSet<(&'a [u8], &'a [u8])> {
        let list = || {
            let of = |library: &SharedFile<'a, T::E>| {
                let defined =
                    (1..library.symbols.len()).filter(|&index| !library.symbols[index].is_undefined());
                let named = |index| {
                    (library.symbol_name(index), library.version_name(library.symbol_version(index).index))
                };
                defined.map(named).collect::<Vec<_>>()
            };
            link.shared.iter().flat_map(of).collect()
        };
        self.by_version.get_or_init(list)
    }

    fn has_version<T: Target>(&self, link: &Bound<'a, T>, name: &[u8], version: &[u8]) -> bool {
        self.versions(link).contains(&(name, version))
    }

    /// Whether a library defines the name in any version: a reference without one binds to old versions, too.
    fn has_name<T: Target>(&self, link: &Bound<'a, T>, name: &[u8]) -> bool {
        let list = || self.versions(link).iter().map(|&(name, _)| name).collect();
        self.by_name.get_or_init(list).contains(name)
    }
}

/// Why the dynamic linker will find no definition for the undefined symbol `index` of a library. `None`: it
/// will find one.
fn unmet<'a, T: Target>(
    link: &Bound<'a, T>,
    library_definitions: &LibraryDefinitions<'a>,
    library: &SharedFile<'a, T::E>,
    index: usize,
    id: SymbolId,
) -> Option<Unmet<'a>> {
    let name = link.globals.names[id.index()];
    let version = library.version_name(library.symbol_version(index).index);
    let has_version = || !version.is_empty() && library_definitions.has_version(link, name, version);
    let hides = |id| {
        let flags = link.symbol_flags(id);
        !link.config.is_shared() && !flags.intersects(SymbolFlags::EXPORTED | SymbolFlags::DISCARDED)
    };
    let unmet = match link.definition(id) {
        Definition::Undefined => Unmet::Undefined,
        // The program does not export its definition, but another library's definition satisfies the
        // reference.
        Definition::Object { file, .. } if hides(id) && !library_definitions.has(link, id) => {
            Unmet::NotExported(file)
        }
        Definition::Shared { library: definer, symbol }
            if !library.takes(index, &link.shared[definer.index()], symbol) =>
        {
            Unmet::Version(version)
        }
        _ => return None,
    };
    let has_name = || version.is_empty() && library_definitions.has_name(link, name);
    let is_met = link.needed_libraries.definitions.contains_key(name)
        || has_version()
        || matches!(unmet, Unmet::NotExported(_)) && has_name()
        || version.is_empty() && is_wrapped(link, name);
    (!is_met).then_some(unmet)
}

/// Whether `--wrap` redirects references to this name to another name that is defined. As in GNU ld, that
/// satisfies references of libraries, too, although the dynamic linker looks for the name itself.
fn is_wrapped<T: Target>(link: &Resolved<'_, T>, name: &[u8]) -> bool {
    let is_defined = |id| link.definition(id) != Definition::Undefined;
    link.config.symbols.wrap.iter().any(|wrapped| wrapped == name)
        && link.globals.lookup(&[b"__wrap_", name].concat()).is_some_and(is_defined)
}

fn other_version<T: Target>(
    link: &Bound<'_, T>,
    id: SymbolId,
    version: &[u8],
    gravity: Severity,
) -> Diagnostic {
    let (symbol, version) = (link.symbol_text(id), String::from_utf8_lossy(version));
    let message = format!("undefined reference: {symbol}@{version}");
    let place = definition_place(link, id);
    Diagnostic::new(gravity, Code::UndefinedSymbol, message)
        .note(format!("there is another version of {symbol}{place}"))
        .help("link the release of the library that the reference was made with, or a newer one")
        .help("--allow-shlib-undefined leaves it to the dynamic linker")
}

fn not_exported<T: Target>(
    link: &Bound<'_, T>,
    id: SymbolId,
    definer: FileId,
    gravity: Severity,
) -> Diagnostic {
    let reason = match visibility(link, id) {
        elf::STV_HIDDEN => "hidden",
        elf::STV_INTERNAL => "internal",
        _ => "local",
    };
    let message = format!("a shared library refers to the {reason} symbol {}", link.symbol_text(id));
    Diagnostic::new(gravity, Code::UndefinedSymbol, message)
        .note(format!("defined in {}", link.objects[definer.index()].name))
        .help("export it: default visibility, not local in the version script, not under --exclude-libs")
        .help("--allow-shlib-undefined links all the same, and the program may not start")
}
