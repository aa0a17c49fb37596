//! What is left out of the output, and relocations.

use crate::cli::config::{CompressDebug, Discard, Strip};
use crate::cli::spec::{OptionSpec, flag, optional, value};
use crate::cli::values::word;

pub(super) static OPTIONS: &[OptionSpec] = &[
    flag(&["gc-sections"], "Leave out sections that nothing refers to", |state| {
        state.config.gc.enabled = true;
    }),
    flag(&["no-gc-sections"], "Keep all sections (default)", |state| {
        state.config.gc.enabled = false;
    }),
    flag(&["print-gc-sections"], "List the sections that --gc-sections leaves out", |state| {
        state.config.gc.print = true;
    }),
    flag(&["no-print-gc-sections"], "Do not list them (default)", |state| {
        state.config.gc.print = false;
    }),
    flag(&["gc-keep-exported"], "Keep exported symbols alive under --gc-sections", |state| {
        state.config.gc.keep_exported = true;
    }),
    flag(&["s", "strip-all"], "Leave out debug sections and the symbol table", |state| {
        state.config.strip.strip = Strip::All;
    }),
    flag(&["S", "strip-debug"], "Leave out debug sections", |state| {
        state.config.strip.strip = state.config.strip.strip.max(Strip::Debug);
    }),
    flag(&["x", "discard-all"], "Leave out local symbols", |state| {
        state.config.strip.discard = Discard::All;
    }),
    flag(&["X", "discard-locals"], "Leave out temporary local symbols", |state| {
        state.config.strip.discard = Discard::Locals;
    }),
    flag(&["discard-none"], "Keep all local symbols", |state| {
        state.config.strip.discard = Discard::None;
    }),
    value(
        &["compress-debug-sections"],
        "FORMAT",
        "Compress debug sections: none, zlib, zlib-gabi, zlib-gnu or zstd",
        |state, format| {
            let formats = [
                ("none", CompressDebug::None),
                ("zlib", CompressDebug::Zlib),
                ("zlib-gabi", CompressDebug::Zlib),
                ("zlib-gnu", CompressDebug::ZlibGnu),
                ("zstd", CompressDebug::Zstd),
            ];
            state.config.strip.compress_debug = word(format, &formats)?;
            Ok(())
        },
    ),
    flag(&["q", "emit-relocs"], "Keep relocations in the output", |state| {
        state.config.relocations.emit = true;
    }),
    flag(&["relax"], "Edit instructions where a shorter form reaches (default)", |state| {
        state.config.relocations.relax = true;
    }),
    flag(&["no-relax"], "Do not edit instructions", |state| {
        state.config.relocations.relax = false;
    }),
    flag(&["apply-dynamic-relocs"], "Write the values of dynamic relocations into sections", |state| {
        state.config.relocations.apply_dynamic = Some(true);
    }),
    flag(&["no-apply-dynamic-relocs"], "Leave the places of dynamic relocations zero", |state| {
        state.config.relocations.apply_dynamic = Some(false);
    }),
    optional(
        &["fix-cortex-a53-843419"],
        "MODE",
        "Work around Cortex-A53 erratum 843419 (full, adr or adrp)",
        |state, mode| {
            word(mode.unwrap_or(b"full"), &[("full", ()), ("adr", ()), ("adrp", ())])?;
            state.config.relocations.fix_cortex_a53_843419 = true;
            Ok(())
        },
    ),
    flag(&["no-fix-cortex-a53-843419"], "Do not (default)", |state| {
        state.config.relocations.fix_cortex_a53_843419 = false;
    }),
    flag(&["fix-cortex-a53-835769"], "Work around Cortex-A53 erratum 835769", |state| {
        state.config.relocations.fix_cortex_a53_835769 = true;
    }),
    flag(&["no-fix-cortex-a53-835769"], "Do not (default)", |state| {
        state.config.relocations.fix_cortex_a53_835769 = false;
    }),
    flag(&["pic-veneer"], "Make position independent veneers", |state| {
        state.config.relocations.pic_veneer = true;
    }),
    flag(&["s390-pgste"], "Mark the executable with PT_S390_PGSTE", |state| {
        state.config.properties.s390_pgste = true;
    }),
];
