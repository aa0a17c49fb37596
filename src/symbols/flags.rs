//! Flags of symbols: how each is bound, and which entries it needs in the tables that the linker makes.

use crate::ids::SymbolId;
use bitflags::bitflags;
use parallel::IntoParallel;
use std::sync::atomic::{AtomicU16, Ordering};

bitflags! {
    /// How a symbol is bound and used. `bind_symbols` sets most flags; `collect_garbage` adds those that
    /// depend on liveness.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct SymbolFlags: u16 {
        /// The dynamic linker binds the symbol at run time: a library defines it, or another module may
        /// preempt our definition. Everything else is bound at link time.
        const IMPORTED = 1 << 0;
        /// Other modules may bind to this output's definition.
        const EXPORTED = 1 << 1;
        /// Its value is a number, not a place in a section. An undefined symbol that the dynamic linker does
        /// not bind is the number 0.
        const ABSOLUTE = 1 << 2;
        /// It is undefined, and weak in all objects. Its value is 0 unless it is [`Self::IMPORTED`].
        const UNDEFINED_WEAK = 1 << 3;
        /// `STT_FUNC` or `STT_GNU_IFUNC`.
        const FUNCTION = 1 << 4;
        /// `STT_GNU_IFUNC`, defined in this output.
        const IFUNC = 1 << 5;
        /// `STT_TLS`.
        const TLS = 1 << 6;
        /// Its definition is not in the output: its section was discarded (with its COMDAT group, or by
        /// `/DISCARD/`) or collected, or it is a common block that nothing refers to (`--gc-sections`).
        const DISCARDED = 1 << 7;
        /// It is undefined, and the linker reports references to it.
        const UNDEFINED = 1 << 8;
        /// A live section refers to it by name, or it is a root (`--gc-sections`).
        const LIVE = 1 << 9;
        /// It is `STT_SECTION` in an object. An addend may lead anywhere in its section.
        const SECTION = 1 << 10;
        /// It is the linker's `_GLOBAL_OFFSET_TABLE_`. A reference to it needs a GOT to be there.
        const GOT_BASE = 1 << 11;
    }
}

bitflags! {
    /// What relocations need in the tables that the linker makes.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Needs: u16 {
        /// A GOT slot with the symbol's address.
        const GOT = 1 << 0;
        /// A PLT entry, which a call goes through.
        const PLT = 1 << 1;
        /// A PLT entry that is the symbol's address in this program.
        const CANONICAL_PLT = 1 << 2;
        /// A copy of the library's data in this program.
        const COPY = 1 << 3;
        /// A GOT slot with the symbol's offset from the thread pointer.
        const GOT_TP = 1 << 4;
        /// Two GOT slots for `__tls_get_addr`: the module and the offset.
        const TLS_GD = 1 << 5;
        /// A TLS descriptor.
        const TLS_DESC = 1 << 6;
        /// A row of `.dynsym`, because a dynamic relocation names the symbol.
        const DYNSYM = 1 << 7;
        /// A GOT slot with the symbol's address as a signed pointer.
        const SIGNED_GOT = 1 << 11;
        /// A TLS descriptor of signed pointers.
        const SIGNED_TLS_DESC = 1 << 12;
        /// All needs that concern the symbol of a relocation.
        const OF_SYMBOL = 0x18ff;
        /// A GOT, because a relocation refers to its base.
        const GOT_BASE = 1 << 8;
        /// Two GOT slots for `__tls_get_addr`, for this module as a whole.
        const TLS_MODULE = 1 << 9;
        /// The mark that the output cannot be loaded after program start (`DF_STATIC_TLS`).
        const STATIC_TLS = 1 << 10;
        /// All needs that concern the link as a whole.
        const OF_LINK = 0x700;
    }
}

/// The needs of each symbol while many threads gather them. Threads only set bits, so the order in which they
/// come to a symbol does not matter.
pub struct AtomicNeeds(Vec<AtomicU16>);

impl AtomicNeeds {
    /// A table of `symbols` symbols that need nothing yet.
    pub fn new(symbols: usize) -> Self {
        AtomicNeeds((0..symbols).into_par_iter().map(|_| AtomicU16::new(0)).collect())
    }

    /// Adds needs of a symbol. Most of the time they are set already. So it reads first, because a cache line
    /// that is only read stays shared between processors.
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
        let gathered = AtomicNeeds::new(3);
        gathered.add(SymbolId(1), Needs::GOT);
        gathered.add(SymbolId(1), Needs::PLT | Needs::GOT);
        assert_eq!(gathered.into_needs(), [Needs::empty(), Needs::GOT | Needs::PLT, Needs::empty()]);
    }
}
