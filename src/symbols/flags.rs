//! Symbol flags: how the dynamic linker sees each symbol, and which GOT, PLT and TLS entries it needs.
//!
//! Each symbol has one atomic word. Parallel passes only set bits, so the result does not depend on the order in
//! which threads come to a symbol.

use crate::ids::SymbolId;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bits of [`SymbolFlags`].
pub mod flag {
    /// The dynamic linker binds the symbol at run time: a library defines it, or another module may
    /// preempt our definition. Everything else is bound at link time.
    pub const IMPORTED: u32 = 1 << 3;
    /// In `.dynsym` as a definition of this output.
    pub const EXPORTED: u32 = 1 << 4;
    /// A number, in no section (also an undefined weak symbol, which is 0).
    pub const ABSOLUTE: u32 = 1 << 5;
    /// Undefined, and weak everywhere: its value is 0 unless it is [`IMPORTED`].
    pub const UNDEFINED_WEAK: u32 = 1 << 6;
    /// `STT_FUNC` or `STT_GNU_IFUNC`.
    pub const FUNCTION: u32 = 1 << 7;
    /// `STT_GNU_IFUNC`, defined in this output.
    pub const IFUNC: u32 = 1 << 8;
    /// `STT_TLS`.
    pub const TLS: u32 = 1 << 9;
    /// Defined in a section that is discarded (COMDAT loser, `/DISCARD/`) or collected.
    pub const DISCARDED: u32 = 1 << 10;
    /// Referred to from a live section, or a root (`--gc-sections`).
    pub const LIVE: u32 = 1 << 11;
    /// Local definition with `STV_PROTECTED`.
    pub const PROTECTED: u32 = 1 << 12;
    /// Undefined: the scan of relocations sets it and reports the references.
    pub const UNDEFINED: u32 = 1 << 13;
    /// An address that `.got` must hold.
    pub const NEEDS_GOT: u32 = 1 << 16;
    /// A call goes through the PLT.
    pub const NEEDS_PLT: u32 = 1 << 17;
    /// The PLT entry is the symbol's address in this program.
    pub const NEEDS_CANONICAL_PLT: u32 = 1 << 18;
    /// The library's data is copied into this program.
    pub const NEEDS_COPY: u32 = 1 << 19;
    /// A GOT slot with the offset from the thread pointer.
    pub const NEEDS_GOT_TP: u32 = 1 << 20;
    /// A GOT pair for `__tls_get_addr`.
    pub const NEEDS_TLS_GD: u32 = 1 << 21;
    /// A TLS descriptor.
    pub const NEEDS_TLS_DESC: u32 = 1 << 22;
    /// A dynamic relocation names it.
    pub const NEEDS_DYNSYM: u32 = 1 << 23;
    /// All bits for which `number_rows` makes a `DynamicRow`.
    pub const NEEDS: u32 = 0xff << 16;
}

/// Bits of [`flag`], for globals and locals, by [`SymbolId`].
#[derive(Default)]
pub struct SymbolFlags(Vec<AtomicU32>);

impl SymbolFlags {
    /// Flags of so many symbols, all clear.
    pub fn new(symbols: usize) -> Self {
        SymbolFlags((0..symbols).into_par_iter().map(|_| AtomicU32::new(0)).collect())
    }

    /// Number of symbols.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The flags of a symbol.
    #[inline]
    pub fn flags(&self, id: SymbolId) -> u32 {
        self.0[id.index()].load(Ordering::Relaxed)
    }

    /// Sets flags. Tests first: most of the time they are set, and a cache line that is only
    /// read stays shared between processors.
    #[inline]
    pub fn set(&self, id: SymbolId, bits: u32) {
        let flags = &self.0[id.index()];
        if flags.load(Ordering::Relaxed) & bits != bits {
            flags.fetch_or(bits, Ordering::Relaxed);
        }
    }

    /// Clears flags.
    pub fn clear(&self, id: SymbolId, bits: u32) {
        self.0[id.index()].fetch_and(!bits, Ordering::Relaxed);
    }
}
