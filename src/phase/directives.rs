//! What scripts and lists say about symbols, which needs no object.
//!
//! `read_scripts` makes it, with the lists of `read_versions` and the orders of `read_orders`. The layout
//! that scripts describe is not here: it is a [`crate::plan::LayoutPlan`], which later passes refine.

use super::{Session, builds_on};
use crate::input::ordering::OrderFiles;
use crate::script::version::{VersionMatcher, VersionScript};
use crate::symbols::NameList;
use std::path::PathBuf;

/// The scripts and lists that options name.
pub struct Directives<'a> {
    /// The phase before: command line, sink and store.
    pub session: Session<'a>,
    /// The entry symbol's name; empty if there is none.
    pub entry: Vec<u8>,
    /// Symbols to which expressions and `EXTERN` of scripts refer. Archives are searched for them.
    pub script_references: Vec<&'a [u8]>,
    /// Scripts and lists that options name, in the order in which they were opened.
    pub script_paths: Vec<PathBuf>,
    /// Version scripts, `VERSION` commands and lists of names.
    pub lists: Lists,
    /// Orders of sections and calls, from ordering files.
    pub orders: OrderFiles,
}

builds_on!(['a] Directives<'a>, session: Session<'a>);

/// Version scripts and lists of symbol names.
#[derive(Default)]
pub struct Lists {
    /// All version scripts, one after another.
    pub version_script: VersionScript,
    /// `version_script`, compiled to one look-up for each name.
    pub version_matcher: VersionMatcher,
    /// Names that `--dynamic-list` and related options export.
    pub dynamic: Option<NameList>,
    /// Whether `--dynamic-list` or one of `--dynamic-list-data`, `-cpp-new` and `-cpp-typeinfo` was given.
    /// Then symbols that no such list names bind inside the output, as with `-Bsymbolic`.
    pub dynamic_is_exclusive: bool,
    /// `--retain-symbols-file`: the symbols that stay in the symbol table, in addition to those that the
    /// output itself needs.
    pub retained: Option<NameList>,
}
