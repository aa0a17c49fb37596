//! Options for the tables that the dynamic linker reads, and for notes.

use crate::config::{BuildId, HashStyle};
use crate::spec::{OptionSpec, Reach, flag, optional, value};
use crate::state::State;
use crate::values::{Outcome, hex_bytes, number, path, percent_decode, shown, word};
use crate::z;
use diagnostics::{Code, Diagnostic};

pub(super) static OPTIONS: &[OptionSpec] = &[
    value(&["soname", "h"], "NAME", "Name of the shared library", |state, name| {
        state.config.dynamic.soname = Some(name.to_vec());
        Ok(())
    }),
    value(
        &["rpath-link"],
        "DIRS",
        "Look in DIRS for libraries that libraries need, to check what they leave undefined",
        |state, directories| {
            let directories = directories.split(|&byte| byte == b':').filter(|text| !text.is_empty());
            state.pending.rpath_link.extend(directories.map(<[u8]>::to_vec));
            Ok(())
        },
    )
    .reaches(Reach::Reads),
    value(&["rpath"], "DIR", "Let the dynamic linker look for libraries in DIR", |state, directory| {
        state.config.dynamic.rpath.push(directory.to_vec());
        Ok(())
    }),
    value(&["dynamic-linker", "I"], "FILE", "Path of the dynamic linker", |state, file| {
        state.config.dynamic.dynamic_linker = Some(path(file));
        state.config.dynamic.no_dynamic_linker = false;
        Ok(())
    }),
    flag(&["no-dynamic-linker"], "Name no dynamic linker", |state| {
        state.config.dynamic.no_dynamic_linker = true;
    }),
    value(&["hash-style"], "STYLE", "Symbol hash tables: sysv, gnu or both", |state, style| {
        let both = HashStyle { sysv: true, gnu: true };
        let sysv = HashStyle { sysv: true, gnu: false };
        let gnu = HashStyle { sysv: false, gnu: true };
        state.config.dynamic.hash_style = word(style, &[("sysv", sysv), ("gnu", gnu), ("both", both)])?;
        Ok(())
    }),
    flag(&["enable-new-dtags"], "Write DT_RUNPATH (default)", |state| {
        state.config.dynamic.new_dtags = true;
    }),
    flag(&["disable-new-dtags"], "Write DT_RPATH", |state| {
        state.config.dynamic.new_dtags = false;
    }),
    flag(&["eh-frame-hdr"], "Make .eh_frame_hdr", |state| {
        state.config.dynamic.eh_frame_hdr = true;
    }),
    flag(&["no-eh-frame-hdr"], "Make no .eh_frame_hdr (default)", |state| {
        state.config.dynamic.eh_frame_hdr = false;
    }),
    flag(&["ld-generated-unwind-info"], "Describe PLTs in .eh_frame (default)", |state| {
        state.config.dynamic.plt_unwind_info = true;
    }),
    flag(&["no-ld-generated-unwind-info"], "Leave PLTs out of .eh_frame", |state| {
        state.config.dynamic.plt_unwind_info = false;
    }),
    optional(
        &["build-id"],
        "STYLE",
        "Make a build-id: sha1 (default), md5, uuid, fast, none or 0xHEX",
        build_id,
    ),
    flag(&["no-build-id"], "Make no build-id", |state| {
        state.config.notes.build_id = BuildId::None;
    }),
    optional(
        &["package-metadata"],
        "JSON",
        "Make .note.package with JSON, percent-encoded",
        |state, text| {
            let text = text.filter(|text| !text.is_empty());
            state.config.notes.package_metadata = text.map(percent_decode).transpose()?;
            Ok(())
        },
    ),
    value(
        &["pack-dyn-relocs"],
        "FORMAT",
        "Pack dynamic relocations: relr, android, android+relr or none",
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
    flag(&["use-android-relr-tags"], "Number RELR as old Android releases do", |state| {
        state.config.relocations.android_relr_tags = true;
    }),
    flag(&["no-use-android-relr-tags"], "Number RELR as the gABI does (default)", |state| {
        state.config.relocations.android_relr_tags = false;
    }),
    value(
        &["f", "auxiliary"],
        "NAME",
        "DT_AUXILIARY: filter of this library, if there is one",
        |state, name| {
            state.config.dynamic.auxiliary.push(name.to_vec());
            Ok(())
        },
    ),
    value(&["F", "filter"], "NAME", "DT_FILTER: filter of this library", |state, name| {
        state.config.dynamic.filter.push(name.to_vec());
        Ok(())
    }),
    value(&["audit"], "NAME", "DT_AUDIT: audit library", |state, name| {
        state.config.dynamic.audit.push(name.to_vec());
        Ok(())
    }),
    value(
        &["P", "depaudit"],
        "NAME",
        "DT_DEPAUDIT: audit library of those that link with the output",
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
                .ok_or_else(|| format!("{count} entries are too many, at most 65536 can be left free"))?;
            Ok(())
        },
    ),
    flag(
        &["Bgroup"],
        "DF_1_GROUP: look symbols up in the library's own group, and report undefined ones",
        |state| {
            state.config.dynamic.group = true;
            state.pending.report_in_objects = Some(true);
        },
    ),
    value(&["z"], "WORD", "One of the words below", z::apply),
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
        (b"uuid", _) => Some(BuildId::Uuid),
        _ => None,
    };
    match chosen {
        Some(chosen) => state.config.notes.build_id = chosen,
        // GNU ld goes on without a note, and build systems rely on it.
        None => state.report(
            Diagnostic::warning(
                Code::BadOption,
                format!("unrecognized --build-id style '{}' ignored", shown(style)),
            )
            .at(state.place())
            .help("the styles are sha1, md5, uuid, fast, none and 0xHEX"),
        ),
    }
    Ok(())
}
