//! Procedure linkage tables.
//!
//! `.plt` holds the entries that are bound lazily, or at start-up with `-z now`: each has a word in
//! `.got.plt` and a jump-slot relocation. `.plt.got` holds those whose function has a word in
//! `.got` anyway, and those of local `STT_GNU_IFUNC` functions. With protection against stray
//! branches, `.plt.sec` holds what is called and `.plt` only what binds lazily.

use crate::arch::Target;
use crate::arch::target::{PltEntry, PltShape};
use crate::ids::SymbolId;
use crate::link::Link;
use crate::relocs::address;
use crate::synth::DynamicRow;

/// The shape of this link's tables.
pub fn shape<'l, T: Target>(link: &'l Link<'_, T>) -> &'l PltShape {
    &link.relocations.plt_shape
}

/// Address that calls of a symbol go to, and its address in this program if the entry is
/// canonical. 0 if it has no entry.
#[inline]
pub fn address<T: Target>(link: &Link<'_, T>, id: SymbolId) -> u64 {
    address::row(link, id).map_or(0, |row| entry_address(link, row))
}

/// Address of a row's entry; 0 if it has none.
pub fn entry_address<T: Target>(link: &Link<'_, T>, row: &DynamicRow) -> u64 {
    let (shape, at) = (shape(link), &link.relocations.addresses);
    if row.plt_got != u32::MAX {
        return at.plt_got.wrapping_add(u64::from(row.plt_got) * shape.direct_entry);
    }
    match row.plt {
        u32::MAX => 0,
        plt if shape.split => at.plt_sec.wrapping_add(u64::from(plt) * shape.direct_entry),
        plt => lazy_address(at.plt, plt, shape),
    }
}

fn lazy_address(plt: u64, index: u32, shape: &PltShape) -> u64 {
    plt.wrapping_add(shape.header).wrapping_add(u64::from(index) * shape.entry)
}

/// Address of the word in `.got.plt` of an entry of `.plt`.
pub fn slot_address<T: Target>(link: &Link<'_, T>, index: u32) -> u64 {
    link.relocations.addresses.got_plt.wrapping_add((T::GOT_PLT_RESERVED + u64::from(index)) * 8)
}

/// What an entry of `.plt` is made of.
pub fn entry<T: Target>(link: &Link<'_, T>, index: u32) -> PltEntry {
    let plt = link.relocations.addresses.plt;
    PltEntry { plt, entry: lazy_address(plt, index, shape(link)), slot: slot_address(link, index), index }
}

/// Sizes of `.plt`, `.plt.sec` and `.plt.got` in bytes.
pub fn sizes<T: Target>(link: &Link<'_, T>) -> (u64, u64, u64) {
    let shape = shape(link);
    let (lazy, direct) = (u64::from(link.relocations.plt_count), u64::from(link.relocations.plt_got_count));
    let plt = if lazy == 0 { 0 } else { shape.header + lazy * shape.entry };
    let sec = if shape.split { lazy * shape.direct_entry } else { 0 };
    (plt, sec, direct * shape.direct_entry)
}

/// Writes `.plt`.
pub fn write<T: Target>(link: &Link<'_, T>, out: &mut [u8]) {
    let shape = shape(link);
    let Some((header, entries)) = out.split_at_mut_checked(shape.header as usize) else { return };
    let at = &link.relocations.addresses;
    T::write_plt_header(header, at.plt, at.reserved, shape);
    for (index, out) in entries.chunks_exact_mut(shape.entry as usize).enumerate() {
        T::write_plt_entry(out, entry(link, index as u32), shape);
    }
}

/// Writes `.plt.sec`.
pub fn write_sec<T: Target>(link: &Link<'_, T>, out: &mut [u8]) {
    let (shape, start) = (shape(link), link.relocations.addresses.plt_sec);
    for (index, out) in out.chunks_exact_mut(shape.direct_entry as usize).enumerate() {
        let address = start.wrapping_add(index as u64 * shape.direct_entry);
        T::write_plt_direct(out, address, slot_address(link, index as u32), shape);
    }
}

/// Writes `.plt.got`.
pub fn write_got<T: Target>(link: &Link<'_, T>, out: &mut [u8]) {
    let (shape, at) = (shape(link), &link.relocations.addresses);
    for row in link.synthetics.rows.iter().filter(|row| row.plt_got != u32::MAX) {
        let start = u64::from(row.plt_got) * shape.direct_entry;
        let word = if row.resolved != u32::MAX { row.resolved } else { row.got };
        let slot = at.got.wrapping_add(u64::from(word) * 8);
        let end = start + shape.direct_entry;
        if let Some(out) = out.get_mut(start as usize..end as usize) {
            T::write_plt_direct(out, at.plt_got.wrapping_add(start), slot, shape);
        }
    }
}
