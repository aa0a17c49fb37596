//! Destinations of branches: their targets, or thunks if targets are out of reach.

use super::address;
use crate::arch::Target;
use crate::phase::Placed;
use crate::symbols::SymbolFlags;
use crate::tables::pools::{Destination, Purpose};

/// Address that a branch goes to; `None` for undefined and discarded symbols: branches to them are never
/// executed, or already reported.
#[inline]
pub fn target<T: Target>(link: &Placed<'_, T>, (symbol, addend): Destination) -> Option<u64> {
    let flags = link.symbol_flags(symbol);
    if flags.contains(SymbolFlags::DISCARDED) {
        return None;
    }
    let in_library = flags.intersects(SymbolFlags::IMPORTED | SymbolFlags::IFUNC);
    if in_library || flags.contains(SymbolFlags::ABSOLUTE) {
        let entry = address::plt(link, symbol);
        if in_library || entry != 0 {
            return (entry != 0).then(|| entry.wrapping_add_signed(addend));
        }
    }
    if flags.intersects(SymbolFlags::UNDEFINED | SymbolFlags::UNDEFINED_WEAK) {
        return None;
    }
    Some(address::value(link, symbol).wrapping_add_signed(addend))
}

/// Address of the thunk for a branch at address `place` that does not reach its destination; `None` if there
/// is none within reach.
pub fn redirect<T: Target>(link: &Placed<'_, T>, destination: Destination, place: u64) -> Option<u64> {
    let spec = T::THUNKS?;
    let thunk = link.thunks.find(Purpose::Call(destination), place, spec.reach)?;
    Some(link.thunks.address(thunk))
}
