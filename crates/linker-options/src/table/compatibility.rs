//! Options of other linkers that are accepted and have no effect, because the output is right without.
//!
//! An option whose effect would be missed is in [`super::refused`]. The text of each option says why the
//! output is right without it.

use crate::spec::Effect::{IgnoredFlag, IgnoredOptional, IgnoredPrefix, IgnoredValue};
use crate::spec::{OptionSpec, Reach, ignored};

pub(super) static OPTIONS: &[OptionSpec] = &[
    ignored(&["flto", "flto-partition", "fuse-ld"], "Options of the compiler driver", IgnoredOptional),
    ignored(&["fno-lto"], "Option of the compiler driver", IgnoredFlag),
    ignored(
        &["lto-", "lto=", "no-lto-", "thinlto-", "save-temps"],
        "How lld compiles intermediate code; a plugin has options of its own (-plugin-opt)",
        IgnoredPrefix,
    )
    .reaches(Reach::Writes),
    ignored(
        &["fat-lto-objects", "no-fat-lto-objects", "disable-verify"],
        "A plugin takes the intermediate code of fat objects; without one, their machine code is linked",
        IgnoredFlag,
    ),
    ignored(
        &["opt-remarks-with-hotness"],
        "Remarks of the compiler inside lld; a plugin has options of its own (-plugin-opt)",
        IgnoredFlag,
    ),
    ignored(
        &[
            "opt-remarks-filename",
            "opt-remarks-format",
            "opt-remarks-passes",
            "opt-remarks-hotness-threshold",
        ],
        "Remarks of the compiler inside lld; a plugin has options of its own (-plugin-opt)",
        IgnoredValue,
    )
    .reaches(Reach::Writes),
    ignored(&["mllvm"], "Options for LLVM, which compiles nothing here", IgnoredValue).reaches(Reach::Runs),
    ignored(&["strip-discarded"], "Discarded sections have no symbols", IgnoredFlag),
    ignored(
        &["warn-backrefs", "no-warn-backrefs"],
        "Archives are searched in order, so no reference resolves backwards",
        IgnoredFlag,
    ),
    ignored(&["warn-backrefs-exclude"], "Archives that --warn-backrefs leaves out", IgnoredValue),
    ignored(
        &["g", "Qy", "qmagic"],
        "Options of old Unix systems, without meaning in GNU ld too",
        IgnoredFlag,
    ),
    ignored(&["G", "gpsize"], "Size of small data, which these machines do not have", IgnoredValue),
    ignored(&["a", "assert"], "Options of old Unix systems, without meaning in GNU ld too", IgnoredValue),
    ignored(
        &["keep-memory", "no-keep-memory", "reduce-memory-overheads"],
        "Trade memory for time, which changes no output",
        IgnoredFlag,
    ),
    ignored(
        &["max-cache-size", "hash-size", "stub-group-size"],
        "Sizes of tables, which change no output",
        IgnoredValue,
    ),
    ignored(
        &["mmap-output-file", "no-mmap-output-file", "map-whole-files", "no-map-whole-files"],
        "How files are read and written, which changes no output",
        IgnoredFlag,
    ),
    ignored(&["no-ctf-variables"], "Sections of compact C types get no variables", IgnoredFlag),
    ignored(
        &["warn-alternate-em", "warn-constructors", "warn-multiple-gp", "no-warn-ifunc-textrel"],
        "Warnings about what does not occur here",
        IgnoredFlag,
    ),
    ignored(
        &["accept-unknown-input-arch", "no-accept-unknown-input-arch"],
        "Every ELF input says for which machine it is",
        IgnoredFlag,
    ),
    ignored(&["link-mapless"], "Archives are read without their symbol map", IgnoredFlag),
    ignored(&["disable-linker-version"], "LINKER_VERSION in a script writes nothing", IgnoredFlag),
    ignored(&["no-gnu-tls-tag", "no-gnu2-tls-tag"], "No versions are added for TLS descriptors", IgnoredFlag),
    ignored(&["no-enum-size-warning", "no-wchar-size-warning"], "There are no such warnings", IgnoredFlag),
    ignored(
        &["no-branch-to-branch", "no-optimize-bb-jumps"],
        "Branches are not shortened or removed",
        IgnoredFlag,
    ),
    ignored(
        &["no-execute-only", "no-xosegment", "no-separate-debug-file", "fortran-common"],
        "It is always so",
        IgnoredFlag,
    ),
    ignored(
        &["long-plt", "secure-plt", "no-ctors-in-init-array"],
        "Options for other machines and old compilers, without meaning in lld too",
        IgnoredFlag,
    ),
    ignored(
        &["ignore-function-address-equality"],
        "It permits an optimization and asks for none",
        IgnoredFlag,
    ),
];
