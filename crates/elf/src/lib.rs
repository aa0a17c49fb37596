//! ELF structures as they lie in files.
//!
//! Only this crate and `arch/` know about byte order. Every structure is generic over it, and fields are
//! converted when they are read or stored. So a view of a mapped file costs nothing.

pub mod consts;
pub mod notes;
pub mod types;

pub use types::*;

/// Whether a section takes memory in the running program.
#[inline]
pub fn is_alloc(flags: u64) -> bool {
    flags & consts::SHF_ALLOC != 0
}
