//! Options that other linkers have, that build systems pass, and that change nothing here.

use crate::cli::spec::Effect::{IgnoredFlag, IgnoredOptional, IgnoredPrefix, IgnoredValue};
use crate::cli::spec::{OptionSpec, ignored};

pub(super) static OPTIONS: &[OptionSpec] = &[
    ignored(&["plugin", "plugin-opt"], "Compiler plugin and its options", IgnoredValue),
    ignored(&["plugin-save-temps"], "Files of the compiler plugin", IgnoredFlag),
    ignored(&["flto", "flto-partition", "fuse-ld"], "Options of the compiler driver", IgnoredOptional),
    ignored(&["fno-lto"], "Option of the compiler driver", IgnoredFlag),
    ignored(&["lto-", "lto=", "thinlto-", "save-temps"], "Options for LTO", IgnoredPrefix),
    ignored(&["fat-lto-objects", "no-fat-lto-objects", "disable-verify"], "Options for LTO", IgnoredFlag),
    ignored(&["opt-remarks-with-hotness"], "Remarks of LTO", IgnoredFlag),
    ignored(
        &[
            "opt-remarks-filename",
            "opt-remarks-format",
            "opt-remarks-passes",
            "opt-remarks-hotness-threshold",
        ],
        "Remarks of LTO",
        IgnoredValue,
    ),
    ignored(&["mllvm"], "Options for LLVM", IgnoredValue),
    ignored(&["no-icf", "print-icf-sections", "no-print-icf-sections"], "Nothing is folded", IgnoredFlag),
    ignored(&["no-gdb-index"], "No .gdb_index is made", IgnoredFlag),
    ignored(&["strip-discarded", "no-strip-discarded"], "Discarded sections have no symbols", IgnoredFlag),
    ignored(&["call-graph-profile-sort"], "Functions are not reordered", IgnoredOptional),
    ignored(
        &["no-call-graph-profile-sort", "warn-symbol-ordering", "no-warn-symbol-ordering"],
        "Functions are not reordered",
        IgnoredFlag,
    ),
    ignored(
        &["warn-backrefs", "no-warn-backrefs"],
        "Archives are searched in order, so no reference resolves backwards",
        IgnoredFlag,
    ),
    ignored(&["warn-backrefs-exclude"], "Archives that --warn-backrefs leaves out", IgnoredValue),
    ignored(&["g", "Qy", "qmagic"], "Old Unix options", IgnoredFlag),
    ignored(&["G", "gpsize"], "Size of small data", IgnoredValue),
    ignored(&["a", "assert", "Y"], "Old Unix options", IgnoredValue),
    ignored(
        &["keep-memory", "no-keep-memory", "reduce-memory-overheads"],
        "Trade memory for time",
        IgnoredFlag,
    ),
    ignored(&["max-cache-size", "hash-size", "stub-group-size"], "Sizes of tables", IgnoredValue),
    ignored(
        &["mmap-output-file", "no-mmap-output-file", "map-whole-files", "no-map-whole-files"],
        "How files are read and written",
        IgnoredFlag,
    ),
    ignored(
        &["fork", "no-fork", "detach", "no-detach", "quick-exit", "no-quick-exit"],
        "How the process runs and ends",
        IgnoredFlag,
    ),
    ignored(
        &["copy-dt-needed-entries", "no-copy-dt-needed-entries", "add-needed", "no-add-needed"],
        "Libraries that libraries need are never linked by themselves",
        IgnoredFlag,
    ),
    ignored(
        &["ld-generated-unwind-info", "no-ld-generated-unwind-info"],
        "Unwind information of PLTs",
        IgnoredFlag,
    ),
    ignored(&["ctf-variables", "no-ctf-variables"], "Compact C type format", IgnoredFlag),
    ignored(&["ctf-share-types"], "Compact C type format", IgnoredValue),
    ignored(
        &[
            "warn-alternate-em",
            "warn-section-align",
            "warn-constructors",
            "warn-multiple-gp",
            "warn-ifunc-textrel",
            "no-warn-ifunc-textrel",
        ],
        "Warnings about what does not occur here",
        IgnoredFlag,
    ),
    ignored(
        &["accept-unknown-input-arch", "no-accept-unknown-input-arch", "link-mapless", "no-link-mapless"],
        "Inputs of unknown kinds",
        IgnoredFlag,
    ),
    ignored(
        &[
            "enable-linker-version",
            "disable-linker-version",
            "disable-multiple-abs-defs",
            "force-exe-suffix",
            "traditional-format",
        ],
        "Old behaviour of GNU ld",
        IgnoredFlag,
    ),
    ignored(
        &["gnu-tls-tag", "no-gnu-tls-tag", "gnu2-tls-tag", "no-gnu2-tls-tag"],
        "Version tags for TLS",
        IgnoredFlag,
    ),
    ignored(&["no-enum-size-warning", "no-wchar-size-warning"], "Warnings of AArch64", IgnoredFlag),
    ignored(
        &["branch-to-branch", "no-branch-to-branch", "optimize-bb-jumps", "no-optimize-bb-jumps"],
        "Optimizations of branches",
        IgnoredFlag,
    ),
    ignored(
        &["ignore-data-address-equality", "ignore-function-address-equality"],
        "Licence for optimizations",
        IgnoredFlag,
    ),
];
