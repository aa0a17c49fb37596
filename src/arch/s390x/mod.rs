//! s390x (z/Architecture ELF ABI supplement; big-endian).
//!
//! Instructions compute addresses in halfwords, so code reaches even addresses only. Thread-local sequences
//! keep their offsets in literal pools, apart from the instructions that use them. Markers (`R_390_TLS_LOAD`,
//! `_GDCALL`, `_LDCALL`) point out these instructions, and the linker rewrites literal and instruction by the
//! same facts.

mod plt;
mod relax;
mod relocs;
mod target;

pub use relax::Edit;
pub use relocs::{Family, Field};

/// The machine.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct S390x;
