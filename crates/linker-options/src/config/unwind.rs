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
    /// An unwinder in libgcc's place, which is linked into the program with the look-ups.
    Full,
}

impl UnwindOptions {
    /// Whether look-ups are linked into the output, or a whole unwinder.
    pub fn links_runtime(&self) -> bool {
        self.table == Some(UnwindTableMode::Replace) && self.runtime != UnwindRuntime::Program
    }

    /// The symbols of what is linked in that shared libraries must find. The first one takes it out of its
    /// archive.
    pub fn runtime_symbols(&self) -> &'static [&'static str] {
        let (hooks, all) = (3, RUNTIME_SYMBOLS);
        if self.runtime == UnwindRuntime::Full { all } else { all.get(..hooks).unwrap_or_default() }
    }
}

/// By this name, the C library of a static program has what a hook stands in front of.
pub const BEHIND_A_HOOK: &str = "__dl_iterate_phdr";

/// The hooks of libgcc and the dynamic linker, then what stands for libgcc.
const RUNTIME_SYMBOLS: &[&str] = &[
    "_Unwind_Find_FDE",
    "_dl_find_object",
    "dl_iterate_phdr",
    "_Unwind_Backtrace",
    "_Unwind_DebugHook",
    "_Unwind_DeleteException",
    "_Unwind_FindEnclosingFunction",
    "_Unwind_ForcedUnwind",
    "_Unwind_GetCFA",
    "_Unwind_GetDataRelBase",
    "_Unwind_GetGR",
    "_Unwind_GetIP",
    "_Unwind_GetIPInfo",
    "_Unwind_GetLanguageSpecificData",
    "_Unwind_GetRegionStart",
    "_Unwind_GetTextRelBase",
    "_Unwind_RaiseException",
    "_Unwind_Resume",
    "_Unwind_Resume_or_Rethrow",
    "_Unwind_SetGR",
    "_Unwind_SetIP",
];
