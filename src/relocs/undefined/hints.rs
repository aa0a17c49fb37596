//! What may be wrong where a symbol is undefined, and what helps: notes and advice for its message.

use crate::arch::Target;
use crate::decision::site::Reference;
use crate::diag::Diagnostic;
use crate::elf::consts as elf;
use crate::ids::{FileId, SymbolId};
use crate::input::object::{FileName, SymbolPlace};
use crate::input::shared::NeededLibraries;
use crate::input::{ObjectFile, SharedFile};
use crate::phase::{Inputs, Live, Resolved, SectionState};
use crate::symbols::Definition;
use hashbrown::HashMap;
use parallel::{IntoParallel, ParallelSlice};

/// Number of undefined symbols for which the linker looks for a reason. Each search reads all names.
const MAX_SUGGESTIONS: usize = 16;

/// Finds the first archive member that defines a name and was not taken, because it stands before the object
/// that needs the name. Each of some names comes with that object.
pub type FindLeftOut<'f, 'a> = &'f dyn Fn(&[(&'a [u8], FileId)]) -> HashMap<&'a [u8], FileName<'a>>;

/// What is known of undefined symbols beside their references.
pub struct Hints<'h, 'a> {
    needed: &'h NeededLibraries<'a>,
    left_out: HashMap<&'a [u8], FileName<'a>>,
    /// How many symbols may still get hints.
    left: usize,
    /// A message has said that the C++ library is missing, or it is there.
    has_runtime: bool,
}

impl<'h, 'a> Hints<'h, 'a> {
    /// Prepares hints for the symbols of these references, in this order.
    pub fn new<T: Target>(
        link: &Live<'a, T>,
        needed: &'h NeededLibraries<'a>,
        undefined: impl Iterator<Item = Reference>,
        left_out: FindLeftOut<'_, 'a>,
    ) -> Self {
        let undefined = undefined.take(MAX_SUGGESTIONS).filter(|first| link.globals.contains(first.symbol));
        let needs = |first: Reference| {
            Some((link.globals.names[first.symbol.index()], link.section_file(first.section)?))
        };
        let names: Vec<(&[u8], FileId)> = undefined.filter_map(needs).collect();
        let has_runtime = link.shared.iter().any(|library| is_runtime(library.soname));
        Hints { needed, left_out: left_out(&names), left: MAX_SUGGESTIONS, has_runtime }
    }

    /// Adds what is known to the message about a symbol. `first` is the first reference to it.
    pub fn add<T: Target>(
        &mut self,
        link: &Live<'_, T>,
        first: &Reference,
        diagnostic: Diagnostic,
    ) -> Diagnostic {
        let Some(left) = self.left.checked_sub(1).filter(|_| link.globals.contains(first.symbol)) else {
            return diagnostic;
        };
        self.left = left;
        if let Some(note) = discarded_definition(link, first.symbol) {
            return diagnostic.note(note);
        }
        let name = link.globals.names[first.symbol.index()];
        if is_of_look_ups(link, first) {
            return diagnostic.help(
                "what --unwind-table=replace links in needs a C library that has it: name one, or, where nothing \
                 throws or asks for stacks, give --unwind-table=none",
            );
        }
        if let Some(path) = self.needed.definitions.get(name) {
            return diagnostic.help(format!(
                "{path} defines it, but is there only because another library needs it: name it on the command line"
            ));
        }
        if let Some(member) = self.left_out.get(name) {
            return diagnostic.help(out_of_order(link, member, first));
        }
        if let Some(object) = local_definition(link, name) {
            return diagnostic.note(format!("{object} defines it for itself alone: a local symbol (static)"));
        }
        if let Some(library) = local_version(link, name) {
            return diagnostic
                .note(format!("{library} defines it for itself alone: its version index is 0 (local)"));
        }
        let diagnostic = self.with_advice(name, diagnostic);
        with_similar(link, name, diagnostic)
    }

    /// Adds advice that depends on the name alone.
    fn with_advice(&mut self, name: &[u8], diagnostic: Diagnostic) -> Diagnostic {
        if name.starts_with(b"_ZTV") && !is_of_runtime(name) {
            return diagnostic.help(
                "the vtable is where the class's first virtual function that is neither inline nor pure is \
                 defined: it may be missing",
            );
        }
        if name == b"main" {
            return diagnostic
                .help("a program begins with main: name the file that defines it, or link with -shared");
        }
        if is_of_runtime(name) && !std::mem::replace(&mut self.has_runtime, true) {
            return diagnostic.help(
                "it is part of the C++ library: link with the C++ compiler (g++, clang++), or name that library \
                 behind the files that need it (-lstdc++, -lc++)",
            );
        }
        diagnostic
    }
}

/// Whether a reference is one of what an unwind table needs at run time, which people have not written.
fn is_of_look_ups<T: Target>(link: &Live<'_, T>, reference: &Reference) -> bool {
    let unwind = &link.config.unwind;
    let hook = unwind.runtime_symbols().first().filter(|_| unwind.links_runtime());
    let definer = hook.and_then(|name| link.globals.lookup(name.as_bytes())).map(|id| link.definition(id));
    matches!(definer, Some(Definition::Object { file, .. }) if link.section_file(reference.section) == Some(file))
}

/// Whether a library is a C++ library, by its name.
fn is_runtime(soname: &[u8]) -> bool {
    soname.starts_with(b"libstdc++.so") || soname.starts_with(b"libc++.so")
}

/// Whether a C++ library defines names like this: those of the namespace `std` and of the ABI, and `new` and
/// `delete`. Three functions with the ABI's prefix are the C library's.
fn is_of_runtime(name: &[u8]) -> bool {
    const OF_C: [&[u8]; 3] = [b"__cxa_atexit", b"__cxa_finalize", b"__cxa_thread_atexit_impl"];
    const MANGLED: [&[u8]; 8] = [b"St", b"NSt", b"NKSt", b"nw", b"na", b"dl", b"da", b"N10__cxxabiv1"];
    let starts = |name: &[u8]| MANGLED.iter().any(|prefix| name.starts_with(prefix));
    if let Some(rest) = name.strip_prefix(b"_Z") {
        let of_type = [b"TV", b"TI", b"TS"].iter().find_map(|kind| rest.strip_prefix(&kind[..]));
        // The types of the language itself have short names.
        return starts(rest) || of_type.is_some_and(|rest| starts(rest) || rest.len() == 1);
    }
    name == b"__gxx_personality_v0" || name.starts_with(b"__cxa_") && !OF_C.contains(&name)
}

/// What helps if an archive was searched before a file asked for its member.
fn out_of_order<T: Target>(link: &Inputs<'_, T>, member: &FileName<'_>, first: &Reference) -> String {
    let behind = link.locate(first.section).map_or("the files that need it", |(object, _)| object.name.path);
    format!(
        "{member} defines it, but no file before {archive} on the command line needs it: \
         name {archive} behind {behind}, or put both between --start-group and --end-group",
        archive = member.path
    )
}

/// The first object that defines a local symbol of this name.
fn local_definition<'a, T: Target>(link: &Live<'a, T>, name: &[u8]) -> Option<FileName<'a>> {
    let defines = |(row, object): (usize, &ObjectFile<'a, T::E>)| {
        let locals = 1..(object.first_global as usize).min(object.symbols.len());
        let is_it = |&index: &usize| {
            object.symbol_name(index) == name
                && matches!(object.symbol_place(index), SymbolPlace::Section(_))
                && matches!(object.symbols[index].kind(), elf::STT_NOTYPE | elf::STT_FUNC | elf::STT_OBJECT)
        };
        locals.into_iter().find(is_it).map(|_| row)
    };
    link.objects.par_iter().enumerate().filter_map(defines).min().map(|row| link.objects[row].name)
}

/// The first library that defines a symbol of this name with the version index 0. Other linkers leave such
/// symbols where a version script makes a name local.
fn local_version<'a, T: Target>(link: &Live<'a, T>, name: &[u8]) -> Option<FileName<'a>> {
    let defines = |library: &&SharedFile<'a, T::E>| {
        let is_it = |index: usize| {
            library.symbol_version(index).index == 0
                && !library.symbols[index].is_undefined()
                && library.symbol_name(index) == name
        };
        (1..library.symbols.len()).any(is_it)
    };
    link.shared.iter().find(defines).map(|library| library.name)
}

/// Adds the defined name that the source most probably means.
fn with_similar<T: Target>(link: &Live<'_, T>, name: &[u8], diagnostic: Diagnostic) -> Diagnostic {
    let Some(Similar { likeness, name, place }) = similar(link, name) else { return diagnostic };
    let text = link.name_text(name);
    match likeness {
        Likeness::Same => diagnostic.help(format!(
            "{text} exists{place}, but the reference binds only inside the output: declare it with default visibility"
        )),
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
pub fn discarded_definition<T: Target>(link: &Live<'_, T>, id: SymbolId) -> Option<String> {
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
    /// A library defines the very name, and a reference that is not of default visibility cannot bind to it.
    Same,
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
    if candidate == name {
        Some(Likeness::Same)
    } else if plain == Some(candidate) {
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

/// Where a symbol is defined, for the end of a sentence.
pub fn definition_place<T: Target>(link: &Resolved<'_, T>, id: SymbolId) -> String {
    match link.definition(id) {
        Definition::Object { file, .. } => defined_in(link.objects[file.index()].name),
        Definition::Shared { library, .. } => defined_in(link.shared[library.index()].name),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_of_runtime, is_one_edit_apart, plain_name};

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

    #[test]
    fn names_of_the_runtime_are_told_from_those_of_programs() {
        for name in [
            "_ZNSt8ios_base4InitC1Ev",
            "_ZSt4cout",
            "_ZNKSt9exception4whatEv",
            "_Znwm",
            "_ZdlPvm",
            "_ZTVN10__cxxabiv117__class_type_infoE",
            "_ZTISt9exception",
            "_ZTIi",
            "__cxa_throw",
            "__gxx_personality_v0",
        ] {
            assert!(is_of_runtime(name.as_bytes()), "{name}");
        }
        for name in
            ["_ZN1n1WC1Ei", "_ZTVN1n1WE", "_ZTI1W", "_Z4mainv", "__cxa_atexit", "main", "_Z", "_ZTV", ""]
        {
            assert!(!is_of_runtime(name.as_bytes()), "{name}");
        }
    }
}
