//! The phase that knows the addresses of symbols.

use super::{Geometry, builds_on};
use crate::arch::Target;

/// Sections and symbols with their addresses.
pub struct Located<'a, T: Target> {
    /// The phase before: addresses of sections.
    pub geometry: Geometry<'a, T>,
    /// The addresses of globals and locals, by [`crate::ids::SymbolId`]. A TLS symbol has its address in the
    /// initialisation image. A library's symbol has the address of its copy or its canonical PLT entry.
    /// Without either it has 0, and so do undefined symbols. An `STT_GNU_IFUNC` of this output has the
    /// address of its resolver.
    pub values: Vec<u64>,
}

builds_on!(['a, T: Target] Located<'a, T>, geometry: Geometry<'a, T>);
