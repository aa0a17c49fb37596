//! Reports undefined symbols: one message for all references of objects to a symbol, and one for each library
//! that refers to a symbol which no module defines or which the program does not export.

use crate::arch::Target;
use crate::cli::Report;
use crate::decision::site::Reference;
use crate::diag::{Code, Diagnostic, Severity};
use crate::elf::consts as elf;
use crate::ids::{FileId, SymbolId};
use crate::input::SharedFile;
use crate::input::object::{FileName, SymbolPlace};
use crate::input::shared::NeededLibraries;
use crate::input::source_lines::{PlaceRole, SourceLines, referenced_more};
use crate::phase::{Bound, Inputs, Live, Resolved, SectionState};
use crate::symbols::versions::split;
use crate::symbols::{Definition, MentionedBy, SymbolFlags, start_stop};
use hashbrown::{HashMap, HashSet};
use parallel::{IntoParallel, ParallelSlice};
use std::sync::OnceLock;

/// The largest number of references that one message shows.
const MAX_SHOWN: usize = 3;
/// Number of undefined symbols for which the linker looks for a misspelling. Each search reads all names.
const MAX_SUGGESTIONS: usize = 16;

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
/// libraries need.
pub fn report<T: Target>(link: &Live<'_, T>, references: &[Vec<Reference>], needed: &NeededLibraries<'_>) {
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
    let mut lines = SourceLines::default();
    for (row, (first, count, shown)) in found.iter().enumerate() {
        let mut diagnostic = describe(link, &mut lines, first.symbol, *count, shown);
        if row < MAX_SUGGESTIONS && link.globals.contains(first.symbol) {
            diagnostic = with_hints(link, first.symbol, needed, diagnostic);
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

fn with_hints<T: Target>(
    link: &Live<'_, T>,
    id: SymbolId,
    needed: &NeededLibraries<'_>,
    mut diagnostic: Diagnostic,
) -> Diagnostic {
    let name = link.globals.names[id.index()];
    if set_of(link, name).is_some() {
        return diagnostic;
    }
    if let Some(note) = discarded_definition(link, id) {
        return diagnostic.note(note);
    }
    if let Some(path) = needed.definitions.get(name) {
        return diagnostic.help(format!(
            "{path} defines it, but is there only because another library needs it: name it on the command line"
        ));
    }
    if name.starts_with(b"_ZTV") {
        diagnostic = diagnostic.help(
            "the vtable is where the class's first virtual function that is neither inline nor pure is \
             defined: it may be missing",
        );
    }
    let Some(Similar { likeness, name, place }) = similar(link, name) else { return diagnostic };
    let text = link.name_text(name);
    match likeness {
        Likeness::Case | Likeness::Edit => diagnostic.note(format!("did you mean: {text}{place}")),
        Likeness::Version => {
            let text = String::from_utf8_lossy(name);
            diagnostic.note(format!("only the hidden version {text} exists{place}"))
        }
        Likeness::Plain | Likeness::Mangled => {
            diagnostic.help(format!("declare it as extern \"C\": {text} exists{place}"))
        }
    }
}

/// A note about a definition in a discarded group whose prevailing copy lacks it. `None`: there is no such
/// definition.
fn discarded_definition<T: Target>(link: &Live<'_, T>, id: SymbolId) -> Option<String> {
    link.objects.iter().find_map(|object| {
        let row = object.globals.iter().position(|&global| global == id)?;
        let SymbolPlace::Section(section) = object.symbol_place(object.first_global as usize + row) else {
            return None;
        };
        let place = object.section_id(section);
        if !link.sections.is(place, SectionState::DISCARDED_BY_GROUP) {
            return None;
        }
        let entry = link.groups.of_section(object.id, section)?;
        let winner = &link.objects.get(entry.prevailing.index())?.name;
        Some(format!(
            "defined in the discarded section {} of {}; its group {} prevails in {winner}, without it",
            object.section_name_lossy(section as usize),
            object.name,
            link.name_text(entry.group.signature),
        ))
    })
}

/// A definition whose name resembles an undefined symbol.
struct Similar<'a> {
    likeness: Likeness,
    name: &'a [u8],
    /// Where it is defined, for the end of a sentence.
    place: String,
}

/// How a defined name resembles an undefined one, with the most probable case first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    /// The undefined name is the mangled form (C++) of the defined one.
    Plain,
    /// The defined name is the undefined one with a version.
    Version,
    /// Only capital letters differ.
    Case,
    /// One letter or the order of two differs.
    Edit,
    /// The defined name is the mangled form of the undefined one.
    Mangled,
}

/// The defined name that the source most probably means.
fn similar<'a, T: Target>(link: &Resolved<'a, T>, name: &[u8]) -> Option<Similar<'a>> {
    let is_defined = |id: SymbolId| link.definition(id) != Definition::Undefined;
    let names = &link.globals.names;
    let plain = plain_name(name);
    let of_globals = (0..names.len()).into_par_iter().with_min_len(4096).filter_map(|row| {
        let likeness = likeness(name, plain, names[row])?;
        is_defined(SymbolId::from_index(row)).then_some((likeness, None, row))
    });
    // A name that only libraries define is no global (`find_library_definitions`).
    let of_libraries = link.shared.par_iter().flat_map_iter(|library| {
        (0..library.symbols.len()).filter_map(|row| {
            let likeness = likeness(name, plain, library.symbol_name(row))?;
            library.is_plain_definition(row).then_some((likeness, Some(library.id), row))
        })
    });
    let (likeness, library, row) = of_globals.min().into_iter().chain(of_libraries.min()).min()?;
    Some(match library.map(|library| &link.shared[library.index()]) {
        None => {
            Similar { likeness, name: names[row], place: definition_place(link, SymbolId::from_index(row)) }
        }
        Some(library) => {
            Similar { likeness, name: library.symbol_name(row), place: defined_in(library.name) }
        }
    })
}

/// How a candidate resembles a name. `plain` is the function's name if `name` is mangled.
fn likeness(name: &[u8], plain: Option<&[u8]>, candidate: &[u8]) -> Option<Likeness> {
    if plain == Some(candidate) {
        Some(Likeness::Plain)
    } else if candidate.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&b'@')) {
        Some(Likeness::Version)
    } else if candidate.eq_ignore_ascii_case(name) {
        Some(Likeness::Case)
    } else if name.len() > 3 && is_one_edit_apart(candidate, name) {
        Some(Likeness::Edit)
    } else if plain_name(candidate) == Some(name) {
        Some(Likeness::Mangled)
    } else {
        None
    }
}

/// The function's name in a mangled name (`f` in `_Z1fi`), unless it is in a namespace or class.
fn plain_name(name: &[u8]) -> Option<&[u8]> {
    let rest = name.strip_prefix(b"_Z")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let length: usize = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    rest.get(digits..digits.checked_add(length)?)
}

/// Whether the names differ by one letter (missing, added or replaced) or by two exchanged neighbours.
fn is_one_edit_apart(a: &[u8], b: &[u8]) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if long.len() - short.len() > 1 {
        return false;
    }
    let same = short.iter().zip(long).take_while(|(x, y)| x == y).count();
    if long.len() > short.len() {
        return short[same..] == long[same + 1..];
    }
    match (&short[same..], &long[same..]) {
        ([], _) => false,
        ([_, rest_a @ ..], [_, rest_b @ ..]) if rest_a == rest_b => true,
        ([a, b, rest_a @ ..], [c, d, rest_b @ ..]) => a == d && b == c && rest_a == rest_b,
        _ => false,
    }
}

fn defined_in(file: FileName<'_>) -> String {
    format!(" (defined in {file})")
}

fn definition_place<T: Target>(link: &Resolved<'_, T>, id: SymbolId) -> String {
    match link.definition(id) {
        Definition::Object { file, .. } => defined_in(link.objects[file.index()].name),
        Definition::Shared { library, .. } => defined_in(link.shared[library.index()].name),
        _ => String::new(),
    }
}

/// Reports undefined symbols of the shared libraries that the output loads. Either no module defines the
/// symbol in the required version, or the program defines it and does not export it. The linker does not
/// judge a library with a `DT_NEEDED` that it has not seen, because that library may define the symbol.
pub fn report_shared<T: Target>(link: &Bound<'_, T>) {
    let policy = link.config.undefined.in_shared_libraries;
    if policy == Report::Ignore || link.config.is_relocatable() {
        return;
    }
    let mut present: HashSet<&[u8]> = link.shared.iter().map(|library| library.soname).collect();
    present.extend(&link.needed_libraries.found);
    let unreported = unreported(link);
    let gravity = if policy == Report::Warning { Severity::Warning } else { Severity::Error };
    let loaded = &link.definitions.loaded_libraries;
    let library_definitions = LibraryDefinitions::default();
    link.shared.par_iter().zip(loaded).filter(|(_, loaded)| **loaded).for_each(|(library, _)| {
        if !library.needed.iter().all(|needed| present.contains(needed)) {
            return;
        }
        for (index, symbol) in library.symbols.iter().enumerate().skip(1) {
            let Some(&id) = library.globals.get(index) else { break };
            if !symbol.is_undefined() || symbol.is_weak() || symbol.is_local() || !id.is_some() {
                continue;
            }
            let Some(unmet) = unmet(link, &library_definitions, library, index, id) else { continue };
            if unreported.contains(link.globals.names[id.index()]) {
                continue;
            }
            let finding = match unmet {
                Unmet::Undefined => {
                    let message = format!("undefined reference: {}", link.symbol_text(id));
                    Diagnostic::new(gravity, Code::UndefinedSymbol, message)
                        .help("--allow-shlib-undefined leaves it to the dynamic linker")
                }
                Unmet::Version(version) => other_version(link, id, version, gravity),
                Unmet::NotExported(definer) => not_exported(link, id, definer, gravity),
            };
            link.sink.report_recoverable(
                finding
                    .about(link.globals.names[id.index()])
                    .note(format!("referenced by {}", library.name))
                    .ordered(u32::MAX, library.id.0, index as u64),
            );
        }
    });
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

#[cfg(test)]
mod tests {
    use super::{is_one_edit_apart, plain_name};

    #[test]
    fn names_one_edit_apart_are_similar() {
        for (a, b) in [("print", "prnt"), ("print", "pprint"), ("print", "pront"), ("print", "pritn")] {
            assert!(is_one_edit_apart(a.as_bytes(), b.as_bytes()), "{a} {b}");
            assert!(is_one_edit_apart(b.as_bytes(), a.as_bytes()), "{b} {a}");
        }
        for (a, b) in [("print", "print"), ("print", "prnit_"), ("print", "pr"), ("", "")] {
            assert!(!is_one_edit_apart(a.as_bytes(), b.as_bytes()), "{a} {b}");
        }
    }

    #[test]
    fn plain_names_are_those_of_functions_in_no_scope() {
        assert_eq!(plain_name(b"_Z4areai"), Some(&b"area"[..]));
        assert_eq!(plain_name(b"_ZN1a1bEv"), None);
        assert_eq!(plain_name(b"_Z99x"), None);
        assert_eq!(plain_name(b"area"), None);
    }
}
