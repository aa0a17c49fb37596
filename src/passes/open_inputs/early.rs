//! Opens the inputs that are named by path, and lists the members of archives among them, with many threads.
//!
//! To open a file, the system has to map it and to read in the pages with the members' headers; for a thin
//! archive, it has to open each member. A thread mostly waits for this, so many threads do it before the walk
//! needs the files.

use crate::cli::{Config, InputFormat, InputSource as Named, InputSpec};
use crate::input::archive::{self, Member};
use crate::input::sniff::{FileKind, file_kind, machine};
use crate::input::store::{InputSource, InputStore};
use parallel::ParallelSlice;
use std::collections::HashSet;
use std::io;
use std::path::Path;

/// The members of an archive, or the fault in it.
pub(super) type Members<'a> = Result<Vec<Member<'a>>, String>;

/// A file, with its members if it is an archive and has been listed.
pub(super) struct Contents<'a> {
    /// The whole file.
    pub bytes: &'a [u8],
    /// What it is.
    pub kind: FileKind,
    /// The machine that its header names, which is read beside the other files, too.
    pub machine: Option<(u16, bool)>,
    /// The members of a listed archive.
    pub members: Option<Members<'a>>,
}

impl<'a> From<&'a [u8]> for Contents<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Contents { bytes, kind: file_kind(bytes), machine: machine(bytes), members: None }
    }
}

/// One job opens at most so many files: archives take much longer than objects.
const MAX_FILES: usize = 16;

/// From so many files on, small ones are copied.
const MANY: usize = 1000;

/// Opens the inputs that are named by path. Returns them by position, with `None` for inputs that the walk
/// must open: libraries, and all inputs under `--remap-inputs`.
pub(super) fn open<'a>(
    config: &Config,
    inputs: &[InputSpec],
    source: &dyn InputSource,
    store: &'a InputStore,
) -> Vec<Option<io::Result<Contents<'a>>>> {
    if !config.search.remap.is_empty() {
        return inputs.iter().map(|_| None).collect();
    }
    let repeated = repeated_archives(inputs);
    let are_many = inputs.len() >= MANY;
    let open = |(position, input): (usize, &InputSpec)| {
        let Named::File(path) = &input.source else { return None };
        let read = if are_many { source.read_one_of_many(path) } else { source.read_named(path) };
        let read = read.map(|bytes| {
            let mut contents = Contents::from(store.keep_file(bytes));
            let is_taken_as_it_is = input.state.format == InputFormat::Binary;
            let is_archive = matches!(contents.kind, FileKind::Archive | FileKind::ThinArchive);
            if !is_taken_as_it_is && !repeated.contains(&position) && is_archive {
                contents.members = Some(archive::members(path, contents.bytes, source, store));
            }
            contents
        });
        Some(read)
    };
    inputs.par_iter().enumerate().with_max_len(MAX_FILES).map(open).collect()
}

/// The positions of archives (`.a`) that an earlier input names, too. Mostly, the walk uses the members of
/// the earlier one.
fn repeated_archives(inputs: &[InputSpec]) -> HashSet<usize> {
    let mut seen: HashSet<&Path> = HashSet::new();
    let archives = inputs.iter().enumerate().filter_map(|(position, input)| match &input.source {
        Named::File(path) => Some((position, path.as_path()))
            .filter(|(_, path)| path.extension().is_some_and(|extension| extension == "a")),
        _ => None,
    });
    archives.filter(|(_, path)| !seen.insert(path)).map(|(position, _)| position).collect()
}
