//! Opens the libraries that libraries need: for `-rpath-link`, and for messages about undefined symbols.
//!
//! A library that is opened only because another one needs it takes no part in the link: no symbol binds to
//! it, and the output does not name it. But its symbols are there at run time. So the linker can tell whether
//! a library's own undefined symbols will be found, and which library an object's undefined symbol would
//! need. Without the option, the linker opens such libraries only when a symbol of an object or a library
//! turns out to be undefined: other links would read them for nothing.
//!
//! The directories are searched in GNU ld's order: those of `-rpath-link`, of `-rpath`, of the needing
//! library itself (`DT_RUNPATH`, `DT_RPATH`), and the machine's own. A library chooses both how many
//! libraries it needs and how many directories it names, so their product has a limit ([`MAX_LOOK_UPS`]).

use crate::arch::Target;
use crate::cli::Config;
use crate::input::object::FileName;
use crate::input::shared::NeededLibraries;
use crate::input::store::InputStore;
use crate::input::{InputSource, SharedFile, sniff};
use crate::phase::{Inputs, Resolved};
use hashbrown::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use zerocopy::byteorder::ByteOrder;

/// The linker looks for needed libraries in at most so many directories, all together. After that, it acts as
/// if no directory had them. A large desktop program needs some 300 libraries, each with few directories.
const MAX_LOOK_UPS: usize = 1 << 20;

/// A needed library's name, and the directories of the library that needs it.
type Wanted<'a> = (&'a [u8], Rc<[PathBuf]>);

/// With `-rpath-link`: opens the libraries and lists their symbols.
pub fn run<'a, T: Target>(inputs: &Inputs<'a, T>, source: &dyn InputSource) -> NeededLibraries<'a> {
    if inputs.config.search.rpath_link.is_empty() {
        return NeededLibraries::default();
    }
    open_all(inputs, source, |_| true, defines)
}

/// The libraries that those need which the output loads, for symbols that libraries lack. With `-rpath-link`
/// they are known already.
pub fn of_loaded<'a, T: Target>(link: &Resolved<'a, T>, source: &dyn InputSource) -> NeededLibraries<'a> {
    if !link.config.search.rpath_link.is_empty() {
        return NeededLibraries::default();
    }
    open_all(link, source, |index| link.definitions.loaded_libraries[index], defines)
}

/// Whether a symbol is there for other modules, in whatever version.
fn defines<E: ByteOrder>(library: &SharedFile<'_, E>, index: usize) -> bool {
    let symbol = &library.symbols[index];
    !symbol.is_undefined() && !symbol.is_local()
}

/// The needed libraries for a message about an undefined symbol of an object, with the symbols that it could
/// bind to.
pub fn for_messages<'a, T: Target>(inputs: &Inputs<'a, T>, source: &dyn InputSource) -> NeededLibraries<'a> {
    open_all(inputs, source, |_| true, SharedFile::is_plain_definition)
}

/// Opens what the libraries need that `takes` accepts by their numbers, and lists those symbols that `counts`
/// accepts.
fn open_all<'a, T: Target>(
    inputs: &Inputs<'a, T>,
    source: &dyn InputSource,
    takes: impl Fn(usize) -> bool,
    counts: impl Fn(&SharedFile<'a, T::E>, usize) -> bool,
) -> NeededLibraries<'a> {
    let mut needed = NeededLibraries::default();
    let named: HashSet<&[u8]> = inputs.shared.iter().map(|library| library.soname).collect();
    let mut wanted: Vec<Wanted> = Vec::new();
    let taken = inputs.shared.iter().enumerate().filter(|&(index, _)| takes(index));
    taken.for_each(|(_, library)| want(library, &mut wanted));
    // Libraries may need each other in circles, so each is opened once.
    let (mut next, mut left) = (0, MAX_LOOK_UPS);
    while let Some((name, own)) = wanted.get(next) {
        next += 1;
        if named.contains(name) || needed.found.contains(name) {
            continue;
        }
        let Some(rest) = left.checked_sub(1 + own.len()) else { break };
        left = rest;
        let Some(library) = open(inputs, source, name, own) else { continue };
        needed.found.insert(name);
        for index in (1..library.symbols.len()).filter(|&index| counts(&library, index)) {
            needed.definitions.entry(library.symbol_name(index)).or_insert(library.name.path);
        }
        want(&library, &mut wanted);
    }
    needed
}

fn open<'a, T: Target>(
    inputs: &Inputs<'a, T>,
    source: &dyn InputSource,
    name: &'a [u8],
    own: &[PathBuf],
) -> Option<SharedFile<'a, T::E>> {
    let (path, bytes) = find::<T>(inputs.config, source, inputs.store, name, own)?;
    let name_of_file = FileName { path: inputs.store.keep_str(&path.to_string_lossy()), member: None };
    SharedFile::parse(name_of_file, bytes, name, T::SYSV_HASH_ENTRY).ok()
}

/// Lists the libraries that a library needs, with its own search directories.
fn want<'a, E: ByteOrder>(library: &SharedFile<'a, E>, wanted: &mut Vec<Wanted<'a>>) {
    let own: Rc<[PathBuf]> = own_directories(library).into();
    wanted.extend(library.needed.iter().map(|&name| (name, Rc::clone(&own))));
}

/// The directories in which a library's own needs are searched for (`DT_RUNPATH`, `DT_RPATH`).
pub fn own_directories<E: ByteOrder>(library: &SharedFile<'_, E>) -> Vec<PathBuf> {
    let path = std::path::Path::new(library.name.path);
    let origin = match path.parent() {
        Some(folder) if folder != "" => folder.as_os_str().as_bytes(),
        _ => b".",
    };
    let directories = library.run_paths.iter().flat_map(|list| list.split(|&byte| byte == b':'));
    directories.map(|directory| expand_origin(directory, origin)).collect()
}

/// `$ORIGIN` and `${ORIGIN}` stand for the library's own directory.
fn expand_origin(directory: &[u8], origin: &[u8]) -> PathBuf {
    for word in [&b"$ORIGIN"[..], b"${ORIGIN}"] {
        if let Some(rest) = directory.strip_prefix(word) {
            return OsStr::from_bytes(&[origin, rest].concat()).into();
        }
    }
    OsStr::from_bytes(directory).into()
}

/// Finds a needed library: the first shared library of that name for this link's machine. Returns its path
/// and its bytes. `own` has the directories of the library that needs it.
pub fn find<'a, T: Target>(
    config: &Config,
    source: &dyn InputSource,
    store: &'a InputStore,
    name: &[u8],
    own: &[PathBuf],
) -> Option<(PathBuf, &'a [u8])> {
    let search = &config.search;
    let run_paths = config.dynamic.rpath.iter().flat_map(|list| list.split(|&byte| byte == b':'));
    let run_paths = run_paths.map(|directory| OsStr::from_bytes(directory).into());
    let default = crate::arch::machine::library_directories(T::MACHINE, search.sysroot.as_deref());
    let name = OsStr::from_bytes(name);
    let directories = search.rpath_link.iter().cloned().chain(run_paths).chain(own.iter().cloned());
    let paths = directories.chain(default).map(|directory| directory.join(name));
    paths.filter(|path| source.exists(path)).find_map(|path| {
        let bytes = store.keep_file(source.read(&path).ok()?);
        let machine = sniff::machine(bytes).and_then(crate::arch::machine::from_elf);
        let fits = machine == Some(T::MACHINE) && sniff::file_kind(bytes) == sniff::FileKind::Shared;
        fits.then_some((path, bytes))
    })
}
