//! The part of the configuration about the table that stands for `.eh_frame`.

use std::path::PathBuf;

/// The unwind table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnwindOptions {
    /// `--unwind-table=`: whether there is one, and whether `.eh_frame` loses what it says.
    pub table: Option<UnwindTableMode>,
    /// `--unwind-debug-frame=keep` (default): what leaves `.eh_frame` goes into a `.debug_frame` that is not
    /// loaded.
    pub debug_frame: bool,
    /// `--unwind-runtime=`: who looks frames up in the table.
    pub runtime: UnwindRuntime,
    /// `--unwind-runtime-archive=`: the archive with the look-ups. `None`: the one that is installed.
    pub archive: Option<PathBuf>,
}

impl Default for UnwindOptions {
    fn default() -> Self {
        UnwindOptions { table: None, debug_frame: true, runtime: UnwindRuntime::Hooks, archive: None }
    }
}

/// `--unwind-table=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnwindTableMode {
    /// A table in addition to `.eh_frame`.
    Add,
    /// A table instead of the FDEs that it can stand for.
    Replace,
}

/// `--unwind-runtime=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnwindRuntime {
    /// Look-ups for libgcc, which are linked into the program.
    Hooks,
    /// The look-ups of the program that loads this library.
    Program,
    /// An unwinder in the program.
    Full,
}

impl UnwindOptions {
    /// Whether the output gets look-ups.
    pub fn links_hooks(&self) -> bool {
        self.table == Some(UnwindTableMode::Replace) && self.runtime == UnwindRuntime::Hooks
    }
}
