//! Options for the tables that the dynamic linker reads, and for notes.

use crate::config::{BuildId, HashStyle};
use crate::spec::{OptionSpec, Reach, flag, optional, value};
use crate::state::State;
use crate::values::{MEMORY_TAG_MODES, Outcome, hex_bytes, number, path, percent_decode, shown, word};
use crate::z;
use diagnostics::{Code, Diagnostic};

pub(super) static OPTIONS: &[OptionSpec] = &[
    value(&["soname", "h"], "NAME", "Set the name of the shared library (DT_SONAME)", |state, name| {
        state.config.dynamic.soname = Some(name.to_vec());
        Ok(())
    }),
    value(
        &["rpath-link"],
        "DIRS",
        "Search DIRS for libraries that other libraries need, to check which symbols those leave undefined",
        |state, directories| {
            let directories = directories.split(|&byte| byte == b':').filter(|text| !text.is_empty());
            state.pending.rpath_link.extend(directories.map(<[u8]>::to_vec));
            Ok(())
        },
    )
    .reaches(Reach::Reads),
    value(&["rpath"], "DIR", "Let the dynamic linker search DIR for libraries", |state, directory| {
        state.config.dynamic.rpath.push(directory.to_vec());
        Ok(())
    }),
    value(
        &["dynamic-linker", "I"],
        "FILE",
        "Run the output with the dynamic linker FILE (PT_INTERP)",
        |state, file| {
            state.config.dynamic.dynamic_linker = Some(path(file));
            state.config.dynamic.no_dynamic_linker = false;
            Ok(())
        },
    ),
    flag(&["no-dynamic-linker"], "Name no dynamic linker in the output (no PT_INTERP)", |state| {
        state.config.dynamic.no_dynamic_linker = true;
    }),
    value(
        &["hash-style"],
        "STYLE",
        "Make hash tables of dynamic symbols in STYLE: sysv, gnu, both or none",
        |state, style| {
            let both = HashStyle { sysv: true, gnu: true };
            let sysv = HashStyle { sysv: true, gnu: false };
            let gnu = HashStyle { sysv: false, gnu: true };
            let none = HashStyle { sysv: false, gnu: false };
            let styles = [("sysv", sysv), ("gnu", gnu), ("both", both), ("none", none)];
            state.config.dynamic.hash_style = word(style, &styles)?;
            Ok(())
        },
    ),
    flag(
        &["gnu2-tls-tag"],
        "Let code with TLS descriptors (x86-64) run only with a C library that keeps registers in them",
        |state| state.config.dynamic.tls_desc_version = Some(true),
    ),
    flag(&["no-gnu2-tls-tag"], "Let code with TLS descriptors run with every C library", |state| {
        state.config.dynamic.tls_desc_version = Some(false);
    }),
    flag(&["enable-new-dtags"], "Write the directories of -rpath as DT_RUNPATH (default)", |state| {
        state.config.dynamic.new_dtags = true;
    }),
    flag(&["disable-new-dtags"], "Write the directories of -rpath as DT_RPATH", |state| {
        state.config.dynamic.new_dtags = false;
    }),
    flag(
        &["eh-frame-hdr"],
        "Make .eh_frame_hdr, a table in which unwinders look up records of .eh_frame",
        |state| {
            state.config.dynamic.eh_frame_hdr = true;
        },
    ),
    flag(&["no-eh-frame-hdr"], "Make no .eh_frame_hdr (default)", |state| {
        state.config.dynamic.eh_frame_hdr = false;
    }),
    flag(&["ld-generated-unwind-info"], "Describe PLTs in .eh_frame (default)", |state| {
        state.config.dynamic.plt_unwind_info = true;
    }),
    flag(&["no-ld-generated-unwind-info"], "Do not describe PLTs in .eh_frame", |state| {
        state.config.dynamic.plt_unwind_info = false;
    }),
    optional(
        &["build-id"],
        "STYLE",
        "Make a build-id note of STYLE: sha1 (default), sha256, md5, uuid, fast, none or 0xHEX",
        build_id,
    ),
    flag(&["no-build-id"], "Make no build-id note", |state| {
        state.config.notes.build_id = BuildId::None;
    }),
    value(
        &["android-memtag-mode"],
        "MODE",
        "The same as -z memtag-mode=MODE with --android-memtag-note",
        |state, mode| {
            state.config.notes.memory_tags.mode = word(mode, MEMORY_TAG_MODES)?;
            state.config.notes.memory_tags.note = state.config.notes.memory_tags.mode.is_some();
            Ok(())
        },
    ),
    flag(&["android-memtag-heap"], "The same as -z memtag-heap", |state| {
        state.config.notes.memory_tags.heap = true;
    }),
    flag(&["android-memtag-stack"], "The same as -z memtag-stack", |state| {
        state.config.notes.memory_tags.stack = true;
    }),
    flag(
        &["android-memtag-note"],
        "With -z memtag-mode: tell Android of memory tagging by a note, too",
        |state| state.config.notes.memory_tags.note = true,
    ),
    flag(&["no-android-memtag-note"], "Make no note of memory tagging (default)", |state| {
        state.config.notes.memory_tags.note = false;
    }),
    optional(
        &["package-metadata"],
        "JSON",
        "Make .note.package with the text JSON, which may have percent-encoded bytes",
        |state, text| {
            let text = text.filter(|text| !text.is_empty());
            state.config.notes.package_metadata = text.map(percent_decode);
            Ok(())
        },
    ),
    value(
        &["pack-dyn-relocs"],
        "FORMAT",
        "Pack dynamic relocations in FORMAT: relr, android, android+relr or none",
        |state, format| {
            let formats = [
                ("relr", (true, false)),
                ("android", (false, true)),
                ("android+relr", (true, true)),
                ("none", (false, false)),
            ];
            let packing = &mut state.config.relocations;
            (packing.pack_relative, packing.pack_android) = word(format, &formats)?;
            Ok(())
        },
    ),
    flag(
        &["use-android-relr-tags"],
        "Write the dynamic tags of RELR with the numbers of old Android releases",
        |state| {
            state.config.relocations.android_relr_tags = true;
        },
    ),
    flag(
        &["no-use-android-relr-tags"],
        "Write the dynamic tags of RELR with the gABI's numbers (default)",
        |state| {
            state.config.relocations.android_relr_tags = false;
        },
    ),
    value(
        &["f", "auxiliary"],
        "NAME",
        "Make the output a filter of the library NAME, if that is there at run time (DT_AUXILIARY)",
        |state, name| {
            state.config.dynamic.auxiliary.push(name.to_vec());
            Ok(())
        },
    ),
    value(
        &["F", "filter"],
        "NAME",
        "Make the output a filter of the library NAME (DT_FILTER)",
        |state, name| {
            state.config.dynamic.filter.push(name.to_vec());
            Ok(())
        },
    ),
    value(
        &["audit"],
        "NAME",
        "Let the library NAME audit the output at run time (DT_AUDIT)",
        |state, name| {
            state.config.dynamic.audit.push(name.to_vec());
            Ok(())
        },
    ),
    value(
        &["P", "depaudit"],
        "NAME",
        "Let the library NAME audit the output's dependencies at run time (DT_DEPAUDIT)",
        |state, name| {
            state.config.dynamic.depaudit.push(name.to_vec());
            Ok(())
        },
    ),
    value(
        &["spare-dynamic-tags"],
        "N",
        "Leave room for N entries in .dynamic (default 5)",
        |state, count| {
            let count = number(count)?;
            state.config.dynamic.spare_tags = u32::try_from(count)
                .ok()
                .filter(|&count| count <= 65536)
                .ok_or_else(|| format!("{count} entries are too many; at most 65536 can be left free"))?;
            Ok(())
        },
    ),
    flag(
        &["Bgroup"],
        "Resolve symbols only in the library's own group (DF_1_GROUP), and report undefined ones",
        |state| {
            state.config.dynamic.group = true;
            state.pending.report_in_objects = Some(true);
        },
    ),
    value(&["z"], "WORD", "Apply one of the words of -z, which have a list of their own", z::apply),
];

fn build_id(state: &mut State<'_>, style: Option<&[u8]>) -> Outcome {
    let style = style.unwrap_or(b"sha1");
    let hex = style.strip_prefix(b"0x").or_else(|| style.strip_prefix(b"0X"));
    let chosen = match (style, hex) {
        (_, Some(digits)) => Some(BuildId::Hex(hex_bytes(digits)?)),
        (b"none", _) => Some(BuildId::None),
        (b"fast", _) => Some(BuildId::Fast),
        (b"md5", _) => Some(BuildId::Md5),
        (b"sha1" | b"tree", _) => Some(BuildId::Sha1),
        (b"sha256", _) => Some(BuildId::Sha256),
        (b"uuid", _) => Some(BuildId::Uuid),
        _ => None,
    };
    match chosen {
        Some(chosen) => state.config.notes.build_id = chosen,
        // GNU ld goes on without the build-id, and build systems rely on that.
        None => state.report(
            Diagnostic::warning(
                Code::BadOption,
                format!("unrecognized --build-id style '{}' ignored", shown(style)),
            )
            .at(state.place())
            .help("the styles are sha1, sha256, md5, uuid, fast, none and 0xHEX"),
        ),
    }
    Ok(())
}
