//! Opens the inputs that are named by path, and lists the members of archives among them, with many threads.
//!
//! Most of the time goes to the system: a file is opened and mapped, and the header of each member is on a
//! page that no one has touched, or in a file of its own. The walk then finds all of this done.

use crate::cli::{Config, InputFormat, InputSource as Named, InputSpec};
use crate::input::archive::{self, Member};
use crate::input::sniff::{FileKind, file_kind};
use crate::input::store::{InputSource, InputStore};
use rayon::prelude::*;
use std::collections::HashSet;
use std::io;
use std::path::Path;

/// The members of an archive, or the fault in it.
pub(super) type Members<'a> = Result<Vec<Member<'a>>, String>;

/// A file with its members, if it is an archive that has been listed.
pub(super) struct Contents<'a> {
    /// The whole file.
    pub bytes: &'a [u8],
    /// The members of a listed archive.
    pub members: Option<Members<'a>>,
}

impl<'a> From<&'a [u8]> for Contents<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Contents { bytes, members: None }
    }
}

/// Files that one job opens at most: archives take much longer than objects.
const MOST_FILES: usize = 16;

/// Opens the inputs that are named by path. `None` for those that only the walk can open.
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
    let open = |(position, input): (usize, &InputSpec)| {
        let Named::File(path) = &input.source else { return None };
        let read = source.read(path).map(|bytes| {
            let mut contents = Contents::from(store.keep_file(bytes));
            let is_taken_as_it_is = input.state.format == InputFormat::Binary;
            let is_archive =
                || matches!(file_kind(contents.bytes), FileKind::Archive | FileKind::ThinArchive);
            if !is_taken_as_it_is && !repeated.contains(&position) && is_archive() {
                contents.members = Some(archive::members(path, contents.bytes, source, store));
            }
            contents
        });
        Some(read)
    };
    inputs.par_iter().enumerate().with_max_len(MOST_FILES).map(open).collect()
}

/// The positions of archives that an input before them names already: as a rule they are not listed again.
fn repeated_archives(inputs: &[InputSpec]) -> HashSet<usize> {
    let mut seen: HashSet<&Path> = HashSet::new();
    let archives = inputs.iter().enumerate().filter_map(|(position, input)| match &input.source {
        Named::File(path) => Some((position, path.as_path()))
            .filter(|(_, path)| path.extension().is_some_and(|extension| extension == "a")),
        _ => None,
    });
    archives.filter(|(_, path)| !seen.insert(path)).map(|(position, _)| position).collect()
}
