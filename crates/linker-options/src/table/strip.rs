//! Options that leave symbols and sections out of the output, and for relocations.

use crate::config::{CompressDebug, CompressMethod, CompressSections, Discard, GdbIndexVersion, Icf, Strip};
use crate::spec::{OptionSpec, Reach, flag, optional, value};
use crate::values::{number, path, shown, word};

pub(super) static OPTIONS: &[OptionSpec] = &[
    flag(&["gc-sections"], "Leave out sections that nothing refers to", |state| {
        state.config.gc.enabled = true;
    }),
    flag(&["no-gc-sections"], "Keep sections that nothing refers to (default)", |state| {
        state.config.gc.enabled = false;
    }),
    optional(
        &["print-gc-sections"],
        "FILE",
        "List the sections that --gc-sections leaves out, into FILE if it is given",
        |state, file| {
            state.config.gc.print = Some(file.map_or_else(|| "-".into(), path));
            Ok(())
        },
    )
    .reaches(Reach::Writes),
    flag(
        &["no-print-gc-sections"],
        "Do not list the sections that --gc-sections leaves out (default)",
        |state| {
            state.config.gc.print = None;
        },
    ),
    value(
        &["why-live"],
        "PATTERN",
        "Print what keeps each symbol that matches PATTERN alive under --gc-sections",
        |state, pattern| {
            state.config.gc.why_live.push(pattern.to_vec());
            Ok(())
        },
    ),
    flag(&["gc-keep-exported"], "Keep the sections of exported symbols under --gc-sections", |state| {
        state.config.gc.keep_exported = true;
    }),
    value(
        &["icf"],
        "LEVEL",
        "Fold equal sections into one: none (default), safe (only where no address is compared) or all",
        |state, level| {
            let levels = [("none", Icf::None), ("safe", Icf::Safe), ("all", Icf::All)];
            state.config.icf.level = word(level, &levels)?;
            Ok(())
        },
    ),
    flag(&["no-icf"], "Do not fold equal sections (default)", |state| state.config.icf.level = Icf::None),
    optional(
        &["print-icf-sections"],
        "FILE",
        "List the sections that --icf folds, into FILE if it is given",
        |state, file| {
            state.config.icf.print = Some(file.map_or_else(|| "-".into(), path));
            Ok(())
        },
    )
    .reaches(Reach::Writes),
    flag(&["no-print-icf-sections"], "Do not list the sections that --icf folds (default)", |state| {
        state.config.icf.print = None;
    }),
    value(&["keep-unique"], "SYMBOL", "Never fold the section of SYMBOL under --icf", |state, symbol| {
        state.config.icf.keep_unique.push(symbol.to_vec());
        Ok(())
    }),
    flag(
        &["ignore-data-address-equality"],
        "With --icf=all, also fold read-only data whose addresses may be compared",
        |state| state.config.icf.ignore_data_addresses = true,
    ),
    flag(&["s", "strip-all"], "Leave out debug sections and the symbol table", |state| {
        state.config.strip.strip = Strip::All;
    }),
    flag(&["S", "strip-debug"], "Leave out debug sections", |state| {
        state.config.strip.strip = Strip::Debug;
    }),
    flag(&["x", "discard-all"], "Leave local symbols out of the symbol table", |state| {
        state.config.strip.discard = Discard::All;
    }),
    flag(
        &["X", "discard-locals"],
        "Leave temporary local symbols (.L names) out of the symbol table",
        |state| {
            state.config.strip.discard = Discard::Locals;
        },
    ),
    flag(&["discard-none"], "Keep all local symbols in the symbol table", |state| {
        state.config.strip.discard = Discard::None;
    }),
    value(
        &["compress-debug-sections"],
        "FORMAT[:LEVEL]",
        "Compress debug sections in FORMAT: none, zlib, zlib-gabi, zlib-gnu or zstd",
        |state, format| {
            let formats = [
                ("none", CompressDebug::None),
                ("zlib", CompressDebug::Zlib),
                ("zlib-gabi", CompressDebug::Zlib),
                ("zlib-gnu", CompressDebug::ZlibGnu),
                ("zstd", CompressDebug::Zstd),
            ];
            state.config.strip.compress_debug = compression(format, &formats)?;
            Ok(())
        },
    ),
    value(
        &["compress-sections"],
        "PATTERN=FORMAT[:LEVEL]",
        "Compress matching output sections that are not loaded: none, zlib or zstd; the last match counts",
        |state, text| {
            state.config.strip.compress_sections.push(compress_sections(text)?);
            Ok(())
        },
    ),
    optional(
        &["gdb-index"],
        "VERSION",
        "Make .gdb_index, in which gdb looks up names and addresses: 7 (default), or 9, which also names the main function, for gdb 15 and later",
        |state, version| {
            let versions = [("7", GdbIndexVersion::Seven), ("9", GdbIndexVersion::Nine)];
            let version = version.map(|version| word(version, &versions)).transpose()?;
            state.config.strip.gdb_index = Some(version.unwrap_or_default());
            Ok(())
        },
    ),
    flag(&["no-gdb-index"], "Make no .gdb_index (default)", |state| {
        state.config.strip.gdb_index = None;
    }),
    flag(&["debug-names"], "Join the name indexes (.debug_names) of all objects into one", |state| {
        state.config.strip.debug_names = true;
    }),
    flag(
        &["no-debug-names"],
        "Leave the name indexes (.debug_names) as compilers made them (default)",
        |state| {
            state.config.strip.debug_names = false;
        },
    ),
    optional(
        &["separate-debug-file"],
        "FILE",
        "Write debug sections to FILE (default: OUTPUT.dbg), in the background once the output is there; debuggers find it by .gnu_debuglink",
        |state, file| {
            state.config.strip.separate_debug = Some(path(file.unwrap_or_default()));
            Ok(())
        },
    )
    .reaches(Reach::Writes),
    flag(&["no-separate-debug-file"], "Keep debug sections in the output (default)", |state| {
        state.config.strip.separate_debug = None;
    }),
    flag(&["q", "emit-relocs"], "Keep the relocations in the output of a final link", |state| {
        state.config.relocations.emit = true;
    }),
    flag(
        &["relax"],
        "Replace instructions by shorter or cheaper ones that reach their targets too (default)",
        |state| {
            state.config.relocations.relax = true;
        },
    ),
    flag(&["no-relax"], "Leave instructions as the compiler wrote them, but for TLS models", |state| {
        state.config.relocations.relax = false;
    }),
    flag(
        &["branch-to-branch"],
        "Let branches to branches go to where these lead (x86-64, AArch64)",
        |state| state.config.relocations.branch_to_branch = true,
    ),
    flag(
        &["no-branch-to-branch"],
        "Let branches go where the compiler sends them (default)",
        |state| state.config.relocations.branch_to_branch = false,
    ),
    flag(
        &["optimize-bb-jumps"],
        "Take jumps away that lead to the section behind them, for clang's -fbasic-block-sections (x86-64)",
        |state| state.config.relocations.drop_jumps = true,
    ),
    flag(&["no-optimize-bb-jumps"], "Leave all jumps at the ends of sections (default)", |state| {
        state.config.relocations.drop_jumps = false;
    }),
    flag(
        &["apply-dynamic-relocs"],
        "Store the values of dynamic relocations in the sections that they apply to",
        |state| {
            state.config.relocations.apply_dynamic = Some(true);
        },
    ),
    flag(&["no-apply-dynamic-relocs"], "Store zeros where dynamic relocations apply", |state| {
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
    flag(&["no-fix-cortex-a53-843419"], "Do not work around Cortex-A53 erratum 843419 (default)", |state| {
        state.config.relocations.fix_cortex_a53_843419 = false;
    }),
    flag(&["fix-cortex-a53-835769"], "Work around Cortex-A53 erratum 835769", |state| {
        state.config.relocations.fix_cortex_a53_835769 = true;
    }),
    flag(&["no-fix-cortex-a53-835769"], "Do not work around Cortex-A53 erratum 835769 (default)", |state| {
        state.config.relocations.fix_cortex_a53_835769 = false;
    }),
    flag(&["pic-veneer"], "Make veneers that run at any address", |state| {
        state.config.relocations.pic_veneer = true;
    }),
    flag(&["s390-pgste"], "Mark the executable with PT_S390_PGSTE", |state| {
        state.config.properties.s390_pgste = true;
    }),
];

fn compress_sections(text: &[u8]) -> Result<CompressSections, String> {
    let malformed = || format!("'{}' is not of the form PATTERN=FORMAT[:LEVEL]", shown(text));
    // Splits at the last `=`: a pattern may hold one, a format does not.
    let equals = memchr::memrchr(b'=', text).ok_or_else(malformed)?;
    let (pattern, rest) = (&text[..equals], &text[equals + 1..]);
    let formats =
        [("none", CompressDebug::None), ("zlib", CompressDebug::Zlib), ("zstd", CompressDebug::Zstd)];
    Ok(CompressSections { pattern: pattern.to_vec(), compression: compression(rest, &formats)? })
}

/// Reads `FORMAT[:LEVEL]`.
fn compression(text: &[u8], formats: &[(&str, CompressDebug)]) -> Result<CompressMethod, String> {
    let (format, level) = match memchr::memchr(b':', text) {
        Some(colon) => (&text[..colon], Some(number(&text[colon + 1..])?)),
        None => (text, None),
    };
    let format = word(format, formats)?;
    match (format, level) {
        (CompressDebug::None, Some(_)) => return Err("nothing is compressed, so there is no level".into()),
        // zstd uses its highest level for any level beyond it; zlib refuses such levels.
        (CompressDebug::Zlib | CompressDebug::ZlibGnu, Some(level @ 10..)) => {
            return Err(format!("zlib has the levels 0 to 9, not {level}"));
        }
        _ => {}
    }
    Ok(CompressMethod { format, level: level.map(|level| level.min(u8::MAX.into()) as u8) })
}
