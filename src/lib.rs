//! sframe-ld: an ELF linker as a library.
//!
//! [`link()`] runs one link. It is re-entrant: no globals, no process exit, no printing. Files come
//! in through a trait, and messages go out as values ([`diag`]). `pipeline.rs` lists the passes;
//! `DESIGN.md` lists the modules, lowest first, and says what each owns.
pub mod arch;
pub mod chunks;
pub mod debug_index;
pub mod decision;
pub mod frames;
pub mod ids;
pub mod input;
pub mod layout;
pub mod merge;
pub mod output;
pub mod passes;
pub mod phase;
pub mod pipeline;
pub mod plan;
pub mod region;
pub mod relocs;
pub mod report_files;
pub mod reports;
mod rows;
pub mod sframe;
pub mod sframe_output;
pub mod symbols;
pub mod synth;
pub mod tables;
mod threads;
pub mod timing;

pub use diagnostics as diag;
pub use elf;
pub use linker_options as cli;
pub use linker_script as script;
pub use pipeline::{Memory, link, link_in_steps};
