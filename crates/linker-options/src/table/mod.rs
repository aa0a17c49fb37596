//! The table of all options, one file for each heading of `--help`.

mod compatibility;
mod dynamic;
mod find;
mod inputs;
mod layout;
pub mod refused;
mod reports;
mod sframe;
mod strip;
mod symbols;
mod unwind;

use super::spec::OptionGroup;
pub use find::{all, completions, find, find_prefix, find_refused};

/// All options, in the order of `--help`.
pub static GROUPS: &[OptionGroup] = &[
    OptionGroup { title: "Output and inputs", options: inputs::OPTIONS },
    OptionGroup { title: "Symbols", options: symbols::OPTIONS },
    OptionGroup { title: "Dynamic linking", options: dynamic::OPTIONS },
    OptionGroup { title: "Layout", options: layout::OPTIONS },
    OptionGroup { title: "Collection, stripping and relocations", options: strip::OPTIONS },
    OptionGroup { title: "SFrame", options: sframe::OPTIONS },
    OptionGroup { title: "Unwind table", options: unwind::OPTIONS },
    OptionGroup { title: "Messages and reports", options: reports::OPTIONS },
    OptionGroup { title: "Accepted, with no effect", options: compatibility::OPTIONS },
];
