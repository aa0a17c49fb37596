//! A file that may take part in the link, and the steps of the search that decides.

use crate::input::object::FileName;
use std::path::Path;

/// A file that may take part, not yet parsed.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    /// Name for messages.
    pub name: FileName<'a>,
    /// The whole file or member.
    pub bytes: &'a [u8],
    /// Whether it is a shared library and not an object.
    pub shared: bool,
    /// For shared libraries: `--as-needed`.
    pub as_needed: bool,
    /// For shared libraries: `--copy-dt-needed-entries`.
    pub copies_needs: bool,
    /// For shared libraries: the library was found in a search directory, so the dynamic linker looks for its
    /// file name. If the command line gives a path, the path is kept (GNU ld's rule).
    pub searched: bool,
    /// `--just-symbols`.
    pub just_symbols: bool,
    /// `--exclude-libs` names its archive.
    pub hide_symbols: bool,
    /// Its part in link-time optimization.
    pub role: Role,
    /// Its place in the system's files; `None` if the linker made the file itself.
    pub origin: Option<Origin<'a>>,
}

/// A file's part in link-time optimization.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Role {
    /// As it was opened. It may hold intermediate code about which no plugin was asked yet.
    #[default]
    Opened,
    /// LLVM bitcode, which only a plugin can read.
    Bitcode,
    /// An archive member of intermediate code that no plugin takes. [`Candidate::bytes`] is a stand-in object
    /// with the symbols that the archive's index gives.
    Unclaimed,
    /// Machine code: no plugin claimed it, or a plugin made it.
    Code,
    /// A plugin claimed it, with this number of the claim. [`Candidate::bytes`] is a stand-in object with the
    /// symbols that the plugin gave ([`crate::input::placeholder`]).
    Claimed(u32),
    /// It takes no further part, because its intermediate code was compiled or because no index names its
    /// symbols.
    Spent,
}

/// The place of a file in the system's files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin<'a> {
    /// The file. For a member, it is the archive, unless the archive is thin.
    pub path: &'a Path,
    /// Offset of the contents in the file, in bytes.
    pub offset: u64,
}

/// One step of the search for definitions, in order. Ranges are rows of [`super::Opened::files`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// A file that is always taken.
    File(u32),
    /// An archive, or the objects of one `--start-lib`: the link takes a member if it defines a wanted
    /// symbol.
    Members(std::ops::Range<u32>),
    /// A group: the search repeats this many of the next steps until a round takes no file.
    Group(u32),
}
