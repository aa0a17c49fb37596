//! AArch64, little-endian (ELF and System V ABI for the Arm 64-bit Architecture).

mod instructions;
mod plt;
mod relax;
mod relocs;
mod target;
mod thunks;

pub use relax::Edit;
pub use relocs::{Family, Field};

/// The machine.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct AArch64;
