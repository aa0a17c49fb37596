//! Options for `.sframe`.

use crate::config::{SFrameFromEhFrame, SFrameIndex, SFrameMode, SFrameVersion};
use crate::spec::{OptionSpec, flag, optional, value};
use crate::values::word;

pub(super) static OPTIONS: &[OptionSpec] = &[
    value(
        &["sframe"],
        "MODE",
        "Choose what becomes of .sframe inputs: concat (default), merge (one sorted table) or discard",
        |state, mode| {
            let modes = [
                ("concat", SFrameMode::Concat),
                ("merge", SFrameMode::Merge),
                ("discard", SFrameMode::Discard),
            ];
            state.config.sframe.mode = word(mode, &modes)?;
            Ok(())
        },
    ),
    flag(&["discard-sframe"], "Same as --sframe=discard", |state| {
        state.config.sframe.mode = SFrameMode::Discard;
    }),
    optional(
        &["sframe-index"],
        "FORMAT",
        "Replace .sframe inputs by an index (v3, the default, or compact), or put one before them (overlay)",
        |state, format| {
            let formats = [
                ("v3", SFrameIndex::V3),
                ("compact", SFrameIndex::Compact),
                ("overlay", SFrameIndex::Overlay),
            ];
            state.config.sframe.index = Some(word(format.unwrap_or(b"v3"), &formats)?);
            Ok(())
        },
    ),
    flag(&["no-sframe-index"], "Make no index of .sframe inputs (default)", |state| {
        state.config.sframe.index = None
    }),
    value(
        &["sframe-from-eh-frame"],
        "WHICH",
        "Derive SFrame from .eh_frame, for all functions, or for those that no input describes (missing)",
        |state, which| {
            let words = [("all", SFrameFromEhFrame::All), ("missing", SFrameFromEhFrame::Missing)];
            state.config.sframe.from_eh_frame = Some(word(which, &words)?);
            Ok(())
        },
    ),
    flag(
        &["sframe-split"],
        "Split .sframe inputs that describe several text sections, one part for each",
        |state| {
            state.config.sframe.split = true;
        },
    ),
    flag(&["no-sframe-split"], "Do not split .sframe inputs (default)", |state| {
        state.config.sframe.split = false;
    }),
    value(&["sframe-version"], "N", "Write SFrame version 3 (default) or 2", |state, version| {
        state.config.sframe.version = word(version, &[("2", SFrameVersion::V2), ("3", SFrameVersion::V3)])?;
        Ok(())
    }),
    flag(
        &["sframe-share"],
        "Share identical rows between functions (default without -r; GNU ld cannot link such objects)",
        |state| state.pending.sframe_share = Some(true),
    ),
    flag(&["no-sframe-share"], "Write the rows of each function separately (default with -r)", |state| {
        state.pending.sframe_share = Some(false);
    }),
    flag(
        &["sframe-plt"],
        "Describe the linker's own PLTs and veneers in SFrame (default with --sframe-index, --sframe=merge)",
        |state| {
            state.pending.sframe_plt = Some(true);
        },
    ),
    flag(&["no-sframe-plt"], "Do not describe the linker's own PLTs and veneers in SFrame", |state| {
        state.pending.sframe_plt = Some(false);
    }),
    flag(&["print-sframe"], "Print what became of each .sframe input, and why", |state| {
        state.config.sframe.print = true;
    }),
];
