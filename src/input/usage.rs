//! What the search for definitions needs to know about an object's global symbols, in one byte for each.
//!
//! The search goes through all globals of an object, and through some of them many times. It is serial. The
//! symbols themselves are in the input files, 24 bytes each, and most have left the processor's cache when
//! the search comes to them. These bytes stay in the cache.

use crate::elf::{Sym, consts as elf};
use zerocopy::byteorder::ByteOrder;

/// What an object does with the name of a global.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SymbolUse {
    /// The object defines the name.
    Definition,
    /// The object defines the name, but any other definition of an object prevails over this one.
    WeakDefinition,
    /// The object defines the name as a common block.
    Common,
    /// The object refers to the name, and any object or library may define it.
    Reference,
    /// As [`Self::Reference`], but weak: the name may stay undefined.
    WeakReference,
    /// The object refers to the name, and only another object may define it: the visibility is not
    /// `STV_DEFAULT`.
    ConstrainedReference,
    /// As [`Self::ConstrainedReference`], but weak: the name may stay undefined.
    WeakConstrainedReference,
}

impl SymbolUse {
    /// The usage that an entry of an object's symbol table expresses.
    #[inline]
    pub fn of<E: ByteOrder>(symbol: &Sym<E>) -> SymbolUse {
        if !symbol.is_undefined() {
            return match (symbol.is_common(), symbol.is_weak()) {
                (true, _) => SymbolUse::Common,
                (false, true) => SymbolUse::WeakDefinition,
                (false, false) => SymbolUse::Definition,
            };
        }
        match (symbol.visibility() != elf::STV_DEFAULT, symbol.is_weak()) {
            (false, false) => SymbolUse::Reference,
            (false, true) => SymbolUse::WeakReference,
            (true, false) => SymbolUse::ConstrainedReference,
            (true, true) => SymbolUse::WeakConstrainedReference,
        }
    }

    /// Whether the object refers to the name without defining it.
    #[inline]
    pub fn is_reference(self) -> bool {
        !matches!(self, SymbolUse::Definition | SymbolUse::WeakDefinition | SymbolUse::Common)
    }
}
