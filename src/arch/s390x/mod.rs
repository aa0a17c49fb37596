//! s390x (z/Architecture ELF ABI supplement; big-endian).
//!
//! Addresses are computed in halfwords, so code can reach even addresses only. The thread-local
//! sequences keep their offsets in literal pools, apart from the instructions that use them:
//! markers (`R_390_TLS_LOAD`, `_GDCALL`, `_LDCALL`) say which those are, and both are rewritten
//! by the same facts.

mod plt;
mod relax;
mod relocs;
mod target;

pub use relax::Edit;
pub use relocs::{Family, Field};

/// The machine.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct S390x;
