//! The part of a symbol that the search for definitions looks at, in a byte.
//!
//! The search goes through all globals of an object, some of them many times, one after the other. Symbols
//! lie in the inputs, 24 bytes each, and most have left the processor's cache by then; these bytes stay.

use crate::elf::{Sym, consts as elf};
use zerocopy::byteorder::ByteOrder;

/// What an object does with the name of a global.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Usage {
    /// It defines it.
    Definition,
    /// It defines it as a common block.
    Common,
    /// It refers to it, and anything may define it.
    Reference,
    /// The same, and nothing need define it.
    WeakReference,
    /// It refers to it, and only another object may define it: the visibility is not the default one.
    ConstrainedReference,
    /// The same, and nothing need define it.
    WeakConstrainedReference,
}

impl Usage {
    /// The usage that a symbol of an object tells.
    #[inline]
    pub fn of<E: ByteOrder>(symbol: &Sym<E>) -> Usage {
        if !symbol.is_undefined() {
            return if symbol.is_common() { Usage::Common } else { Usage::Definition };
        }
        match (symbol.visibility() != elf::STV_DEFAULT, symbol.is_weak()) {
            (false, false) => Usage::Reference,
            (false, true) => Usage::WeakReference,
            (true, false) => Usage::ConstrainedReference,
            (true, true) => Usage::WeakConstrainedReference,
        }
    }

    /// Whether it is a reference alone.
    #[inline]
    pub fn is_reference(self) -> bool {
        !matches!(self, Usage::Definition | Usage::Common)
    }
}
