//! Options of other linkers that this linker accepts and ignores, because the output is right without them.
//!
//! If somebody would miss an option's effect, the option is in [`super::refused`] instead. The text of each
//! option says why the output is right without it.

use crate::spec::Effect::{IgnoredFlag, IgnoredOptional, IgnoredPrefix, IgnoredValue};
use crate::spec::{OptionSpec, Reach, ignored};

pub(super) static OPTIONS: &[OptionSpec] = &[
    ignored(
        &["flto", "flto-partition", "fuse-ld"],
        "An option of the compiler driver, which has already carried it out",
        IgnoredOptional,
    ),
    ignored(&["fno-lto"], "An option of the compiler driver, which has already carried it out", IgnoredFlag),
    ignored(
        &["lto-", "lto=", "no-lto-", "thinlto-"],
        "Steers the compiler inside lld; a plugin has options of its own (-plugin-opt)",
        IgnoredPrefix,
    )
    .reaches(Reach::Writes),
    ignored(
        &["save-temps"],
        "Keeps files of the compiler inside lld; a plugin has options of its own (-plugin-opt)",
        IgnoredOptional,
    ),
    ignored(
        &["fat-lto-objects", "no-fat-lto-objects", "disable-verify"],
        "Steers fat objects; a plugin takes their intermediate code, else their machine code is linked",
        IgnoredFlag,
    ),
    ignored(
        &["opt-remarks-with-hotness"],
        "Steers remarks of the compiler inside lld; a plugin has options of its own (-plugin-opt)",
        IgnoredFlag,
    ),
    ignored(
        &[
            "opt-remarks-filename",
            "opt-remarks-format",
            "opt-remarks-passes",
            "opt-remarks-hotness-threshold",
        ],
        "Steers remarks of the compiler inside lld; a plugin has options of its own (-plugin-opt)",
        IgnoredValue,
    )
    .reaches(Reach::Writes),
    ignored(
        &["strip-discarded"],
        "Leaves out symbols of discarded sections, as this linker always does",
        IgnoredFlag,
    ),
    ignored(
        &["warn-backrefs", "no-warn-backrefs"],
        "Steers warnings about references to earlier archives, which a search in order never resolves",
        IgnoredFlag,
    ),
    ignored(&["warn-backrefs-exclude"], "Names archives that --warn-backrefs does not report", IgnoredValue),
    ignored(&["g", "Qy", "qmagic"], "An option of old Unix systems, which GNU ld ignores too", IgnoredFlag),
    ignored(&["G", "gpsize"], "Sets the size of small data, which these machines do not have", IgnoredValue),
    ignored(&["assert"], "An option of old Unix systems, which GNU ld ignores too", IgnoredValue),
    ignored(
        &["keep-memory", "no-keep-memory", "reduce-memory-overheads"],
        "Trades memory for time, which changes no output",
        IgnoredFlag,
    ),
    ignored(
        &["max-cache-size", "hash-size", "stub-group-size"],
        "Sets the size of a table inside the linker, which changes no output",
        IgnoredValue,
    ),
    ignored(
        &["mmap-output-file", "no-mmap-output-file", "map-whole-files", "no-map-whole-files"],
        "Steers how files are read and written, which changes no output",
        IgnoredFlag,
    ),
    ignored(
        &["no-ctf-variables"],
        "Adds no variables to sections of compact C types (.ctf), as this linker never does",
        IgnoredFlag,
    ),
    ignored(
        &["warn-alternate-em", "warn-constructors", "warn-multiple-gp"],
        "Steers a warning about something that does not occur here",
        IgnoredFlag,
    ),
    ignored(
        &["accept-unknown-input-arch", "no-accept-unknown-input-arch"],
        "Steers inputs of an unknown machine, but every ELF input names its machine",
        IgnoredFlag,
    ),
    ignored(
        &["traditional-format"],
        "Asks for the format of a system's own linker, of which ELF has only one",
        IgnoredFlag,
    ),
    ignored(
        &["no-gnu-tls-tag"],
        "Adds no version for calls of __tls_get_addr, which only code of 32 bits needs",
        IgnoredFlag,
    ),
    ignored(
        &["no-enum-size-warning", "no-wchar-size-warning"],
        "Turns off a warning that this linker does not have",
        IgnoredFlag,
    ),
    ignored(
        &["long-plt", "secure-plt", "no-ctors-in-init-array"],
        "An option for another machine or an old compiler, which lld ignores too",
        IgnoredFlag,
    ),
    ignored(
        &["ignore-function-address-equality"],
        "Permits an optimization that makes functions' addresses differ, but does not demand it",
        IgnoredFlag,
    ),
];
