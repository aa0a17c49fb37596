//! Flags of symbols: how they are bound, and the entries that they need in the tables that the linker makes.

use crate::ids::SymbolId;
use bitflags::bitflags;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU16, Ordering};

bitflags! {
    /// How a symbol is bound and used. `settle_symbols` decides most of it, `collect_garbage` adds
    /// what depends on liveness.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct SymbolFlags: u16 {
        /// The dynamic linker binds the symbol at run time: a library defines it, or another module may
        /// preempt our definition. Everything else is bound at link time.
        const IMPORTED = 1 << 0;
        /// Other modules may bind to this output's definition.
        const EXPORTED = 1 << 1;
        /// A number, in no section (also an undefined symbol that nobody else defines, which is 0).
        const ABSOLUTE = 1 << 2;
        /// Undefined, and weak everywhere: its value is 0 unless it is [`Self::IMPORTED`].
        const UNDEFINED_WEAK = 1 << 3;
        /// `STT_FUNC` or `STT_GNU_IFUNC`.
        const FUNCTION = 1 << 4;
        /// `STT_GNU_IFUNC`, defined in this output.
        const IFUNC = 1 << 5;
        /// `STT_TLS`.
        const TLS = 1 << 6;
        /// Defined in a section that is discarded (COMDAT loser, `/DISCARD/`) or collected, or a common block
        /// that nothing refers to (`--gc-sections`).
        const DISCARDED = 1 << 7;
        /// Undefined, and references to it are reported.
        const UNDEFINED = 1 << 8;
        /// A live section refers to its name, or it is a root (`--gc-sections`).
        const LIVE = 1 << 9;
        /// `STT_SECTION` of an object. An addend to it may lead anywhere in the section.
        const SECTION = 1 << 10;
        /// `_GLOBAL_OFFSET_TABLE_`, of the linker: a reference to it asks for a GOT.
        const GOT_BASE = 1 << 11;
    }
}

bitflags! {
    /// What relocations need of the tables that the linker makes.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Needs: u16 {
        /// An address that `.got` must hold.
        const GOT = 1 << 0;
        /// A call goes through the PLT.
        const PLT = 1 << 1;
        /// The PLT entry is the symbol's address in this program.
        const CANONICAL_PLT = 1 << 2;
        /// The library's data is copied into this program.
        const COPY = 1 << 3;
        /// A GOT slot with the offset from the thread pointer.
        const GOT_TP = 1 << 4;
        /// A GOT pair for `__tls_get_addr`.
        const TLS_GD = 1 << 5;
        /// A TLS descriptor.
        const TLS_DESC = 1 << 6;
        /// A dynamic relocation names it.
        const DYNSYM = 1 << 7;
        /// The needs that concern the symbol of a relocation.
        const OF_SYMBOL = 0xff;
        /// The base of the GOT must have an address.
        const GOT_BASE = 1 << 8;
        /// The GOT pair of this module.
        const TLS_MODULE = 1 << 9;
        /// The output cannot be loaded after program start (`DF_STATIC_TLS`).
        const STATIC_TLS = 1 << 10;
        /// The needs that concern the link as a whole.
        const OF_LINK = 0x700;
    }
}

/// The needs of each symbol while many threads gather them. They only set bits, so the result does
/// not depend on the order in which threads come to a symbol.
pub struct GatheredNeeds(Vec<AtomicU16>);

impl GatheredNeeds {
    /// A table of `symbols` symbols without needs.
    pub fn new(symbols: usize) -> Self {
        GatheredNeeds((0..symbols).into_par_iter().map(|_| AtomicU16::new(0)).collect())
    }

    /// Adds needs of a symbol. It reads first: most of the time they are there, and a cache line that
    /// is only read stays shared between processors.
    #[inline]
    pub fn add(&self, id: SymbolId, needs: Needs) {
        let known = &self.0[id.index()];
        if known.load(Ordering::Relaxed) & needs.bits() != needs.bits() {
            known.fetch_or(needs.bits(), Ordering::Relaxed);
        }
    }

    /// The needs of each symbol, by [`SymbolId`].
    pub fn into_needs(self) -> Vec<Needs> {
        self.0.into_iter().map(|needs| Needs::from_bits_retain(needs.into_inner())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathered_needs_add_up_for_each_symbol() {
        let gathered = GatheredNeeds::new(3);
        gathered.add(SymbolId(1), Needs::GOT);
        gathered.add(SymbolId(1), Needs::PLT | Needs::GOT);
        assert_eq!(gathered.into_needs(), [Needs::empty(), Needs::GOT | Needs::PLT, Needs::empty()]);
    }
}
