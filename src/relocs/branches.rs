//! Finds the destinations of branches: their targets, or thunks if the targets are out of reach.

use super::address;
use crate::arch::Target;
use crate::arch::thunk::Reach;
use crate::ids::SymbolId;
use crate::phase::{Arranged, Geometry, Located};
use crate::symbols::SymbolFlags;
use crate::tables::pools::{Destination, Purpose};

/// Address of a branch's target. `None`: the symbol is undefined or discarded. Such a branch never runs, or
/// the linker has already reported it.
#[inline]
pub fn target<T: Target>(link: &Located<'_, T>, destination: Destination) -> Option<u64> {
    target_by(link, destination, |symbol| address::value(link, symbol))
}

/// [`target`] where the layout is not final: `value` gives the address of a symbol.
#[inline]
pub fn target_by<T: Target>(
    link: &Geometry<'_, T>,
    (symbol, addend): Destination,
    value: impl FnOnce(SymbolId) -> u64,
) -> Option<u64> {
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
    Some(value(symbol).wrapping_add_signed(addend))
}

/// Address of a thunk for a branch at `place` that does not reach its target. `None`: no thunk is within
/// reach.
pub fn redirect<T: Target>(
    link: &Arranged<'_, T>,
    destination: Destination,
    place: u64,
    reach: Reach,
) -> Option<u64> {
    let thunk = link.thunks.find(Purpose::of(reach, destination), place, T::THUNKS?.of(reach))?;
    Some(link.thunks.address(thunk))
}
