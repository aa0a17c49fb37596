//! Options for `.sframe`.

use crate::config::{SFrameFromEhFrame, SFrameIndex, SFrameMode, SFrameVersion};
use crate::spec::{OptionSpec, flag, optional, value};
use crate::values::word;

pub(super) static OPTIONS: &[OptionSpec] = &[
    value(
        &["sframe"],
        "MODE",
        "What becomes of .sframe inputs: concat (default), merge or discard",
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
    flag(&["discard-sframe"], "As --sframe=discard", |state| {
        state.config.sframe.mode = SFrameMode::Discard;
    }),
    optional(
        &["sframe-index"],
        "FORMAT",
        "Index recognised inputs: v3 (default) puts one sorted .sframe_idx in their place, compact makes .sframe_compact, overlay a sorted index before them",
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
    flag(&["no-sframe-index"], "Make no index (default)", |state| state.config.sframe.index = None),
    value(
        &["sframe-from-eh-frame"],
        "WHICH",
        "Derive SFrame from .eh_frame: all functions, or those missing",
        |state, which| {
            let words = [("all", SFrameFromEhFrame::All), ("missing", SFrameFromEhFrame::Missing)];
            state.config.sframe.from_eh_frame = Some(word(which, &words)?);
            Ok(())
        },
    ),
    flag(&["sframe-split"], "Take .sframe inputs that cover several text sections apart", |state| {
        state.config.sframe.split = true;
    }),
    flag(&["no-sframe-split"], "Leave them as they are (default)", |state| {
        state.config.sframe.split = false;
    }),
    value(&["sframe-version"], "N", "SFrame version to write: 3 (default) or 2", |state, version| {
        state.config.sframe.version = word(version, &[("2", SFrameVersion::V2), ("3", SFrameVersion::V3)])?;
        Ok(())
    }),
    flag(
        &["sframe-share"],
        "Share identical rows between functions (default unless -r: GNU ld cannot link such objects)",
        |state| state.pending.sframe_share = Some(true),
    ),
    flag(&["no-sframe-share"], "Write every function's rows for themselves (default with -r)", |state| {
        state.pending.sframe_share = Some(false);
    }),
    flag(
        &["sframe-plt"],
        "Describe the linker's own PLTs and veneers (default in index and merge mode)",
        |state| {
            state.pending.sframe_plt = Some(true);
        },
    ),
    flag(&["no-sframe-plt"], "Do not describe them", |state| {
        state.pending.sframe_plt = Some(false);
    }),
    flag(&["print-sframe"], "Print what became of .sframe inputs, and why", |state| {
        state.config.sframe.print = true;
    }),
];
