//! x86-64 (System V psABI, AMD64 supplement).

mod landing_pads;
mod plt;
mod relax;
mod relocs;
mod tail;
mod target;

pub use relax::Edit;
pub use relocs::{Family, Field};

/// The machine.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct X86_64;
