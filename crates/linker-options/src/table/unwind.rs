//! Options for the table that stands for `.eh_frame`.

use crate::config::{UnwindRuntime, UnwindTableMode};
use crate::spec::{OptionSpec, value};
use crate::values::{path, word};

pub(super) static OPTIONS: &[OptionSpec] = &[
    value(
        &["unwind-table"],
        "MODE",
        "Make a compact unwind table: replace (instead of .eh_frame), add (beside it) or none (default)",
        |state, mode| {
            let modes = [
                ("replace", Some(UnwindTableMode::Replace)),
                ("add", Some(UnwindTableMode::Add)),
                ("none", None),
            ];
            state.config.unwind.table = word(mode, &modes)?;
            Ok(())
        },
    ),
    value(
        &["unwind-debug-frame"],
        "WHAT",
        "What becomes of frames that leave .eh_frame: keep (default) has them in .debug_frame, drop nowhere",
        |state, what| {
            state.config.unwind.debug_frame = word(what, &[("keep", true), ("drop", false)])?;
            Ok(())
        },
    ),
    value(
        &["unwind-runtime"],
        "WHO",
        "Who unwinds by the table: libgcc with hooks (default), a full unwinder that is linked in, or the program that loads the library",
        |state, who| {
            let words = [
                ("hooks", UnwindRuntime::Hooks),
                ("program", UnwindRuntime::Program),
                ("full", UnwindRuntime::Full),
            ];
            state.config.unwind.runtime = word(who, &words)?;
            Ok(())
        },
    ),
    value(
        &["unwind-runtime-archive"],
        "FILE",
        "Take the look-ups from this archive, not from the one that is installed with the linker",
        |state, file| {
            state.config.unwind.archive = Some(path(file));
            Ok(())
        },
    ),
];
