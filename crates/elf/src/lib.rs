//! ELF structures as they lie in files.
//!
//! Only this module and `arch/` know of byte order: every structure is generic over it, fields
//! convert when they are read or stored, and a view into a mapped file costs nothing.

pub mod notes;
pub mod types;

pub use object::elf as consts;
pub use types::*;

/// Whether a section takes room in the program's memory.
#[inline]
pub fn is_alloc(flags: u64) -> bool {
    flags & u64::from(consts::SHF_ALLOC) != 0
}
