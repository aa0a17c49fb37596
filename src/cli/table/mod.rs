//! The table of all options.

mod compatibility;
mod dynamic;
mod inputs;
mod layout;
mod refused;
mod reports;
mod sframe;
mod strip;
mod symbols;

use super::config::{Machine, Report};
use super::spec::OptionGroup;
pub use refused::{REFUSED, REFUSED_WORDS};

/// All options, in the order of `--help`.
pub static GROUPS: &[OptionGroup] = &[
    OptionGroup { title: "Output and inputs", options: inputs::OPTIONS },
    OptionGroup { title: "Symbols", options: symbols::OPTIONS },
    OptionGroup { title: "Dynamic linking", options: dynamic::OPTIONS },
    OptionGroup { title: "Layout", options: layout::OPTIONS },
    OptionGroup { title: "Collection, stripping and relocations", options: strip::OPTIONS },
    OptionGroup { title: "SFrame", options: sframe::OPTIONS },
    OptionGroup { title: "Messages and reports", options: reports::OPTIONS },
    OptionGroup { title: "Accepted and without effect", options: compatibility::OPTIONS },
];

/// Names of `-m` and the machines that they name.
pub static EMULATIONS: &[(&str, Machine)] = &[
    ("elf_x86_64", Machine::X86_64),
    ("aarch64linux", Machine::AArch64),
    ("aarch64elf", Machine::AArch64),
    ("elf64_s390", Machine::S390x),
];

/// BFD's names of the formats that we write and the machines that they name.
pub static TARGETS: &[(&str, Machine)] = &[
    ("elf64-x86-64", Machine::X86_64),
    ("elf64-littleaarch64", Machine::AArch64),
    ("elf64-s390", Machine::S390x),
];

/// Words of the `-z …-report=` kind.
pub static REPORT_WORDS: &[(&str, Report)] =
    &[("none", Report::Ignore), ("warning", Report::Warning), ("error", Report::Error)];
