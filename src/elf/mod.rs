//! ELF structures as they lie in files.
//!
//! Only this module and `arch/` know of byte order: every structure is generic over it, fields
//! convert when they are read or stored, and a view into a mapped file costs nothing.

pub mod notes;
pub mod types;

pub use object::elf as consts;
pub use types::*;
