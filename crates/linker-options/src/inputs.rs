//! The inputs of a link in command-line order.
//!
//! Some options hold for the inputs that follow them: `--as-needed`, `-Bstatic`, `--whole-archive`,
//! `--start-lib`, `--start-group`, `-b`. Each input carries a copy of their state, so no later pass needs to
//! know how these options override each other.

use std::path::PathBuf;

/// One input of the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputSpec {
    /// The file, library or script.
    pub source: InputSource,
    /// The positional options that hold for it.
    pub state: InputState,
    /// The argument as written (`-lm`, `foo.o`), for messages.
    pub argument: String,
}

/// The name of an input: a path, or a library to search for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputSource {
    /// A path as given. The bytes of the file tell whether it is an object, an archive, a shared library or a
    /// script.
    File(PathBuf),
    /// `-lNAME`: `libNAME.so` or `libNAME.a` in the search directories.
    Library(Vec<u8>),
    /// `-l:NAME`: the file `NAME` in the search directories.
    ExactLibrary(Vec<u8>),
}

/// The positional options that hold for one input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct InputState {
    /// `--as-needed`: a shared library gets `DT_NEEDED` only if it is used.
    pub as_needed: bool,
    /// `--copy-dt-needed-entries`: the libraries that a shared library needs take part too.
    pub copies_needs: bool,
    /// `-Bstatic`, `-static`: `-l` does not look at shared libraries.
    pub static_only: bool,
    /// `--whole-archive`: every member of an archive is taken.
    pub whole_archive: bool,
    /// Between `--start-lib` and `--end-lib`: an object is taken only if it is needed, like a
    /// member of an archive. Inputs of one such pair share a number, counted from 0.
    pub lib: Option<u32>,
    /// Between `--start-group` and `--end-group`: archives are searched again until nothing new
    /// is found. Inputs of one group share a number, counted from 0; they follow each other.
    pub group: Option<u32>,
    /// `-b`.
    pub format: InputFormat,
    /// `--just-symbols`: only the addresses of its symbols are taken.
    pub just_symbols: bool,
}

/// `-b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum InputFormat {
    /// ELF, archive or script.
    #[default]
    Elf,
    /// Any bytes. They become `.data`, with the symbols `_binary_NAME_start`, `_end` and `_size`.
    Binary,
}
