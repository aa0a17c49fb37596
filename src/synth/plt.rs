//! Procedure linkage tables.
//!
//! `.plt` holds the entries that are bound lazily, or at start-up with `-z now`: each has a word in
//! `.got.plt` and a jump-slot relocation. `.plt.got` holds those whose function has a word in
//! `.got` anyway, and those of local `STT_GNU_IFUNC` functions. With protection against stray
//! branches, calls go to `.plt.sec`, and `.plt` holds only the lazy halves.

use crate::arch::Target;
use crate::phase::Placed;
use crate::relocs::address;

/// Writes `.plt`.
pub fn write<T: Target>(link: &Placed<'_, T>, out: &mut [u8]) {
    let shape = &link.plt_shape;
    let Some((header, entries)) = out.split_at_mut_checked(shape.header as usize) else { return };
    let at = &link.addresses;
    T::write_plt_header(header, at.plt, at.reserved, shape);
    for (index, out) in entries.chunks_exact_mut(shape.entry as usize).enumerate() {
        T::write_plt_entry(out, address::plt_entry(link, index as u32), shape);
    }
}

/// Writes `.plt.sec`.
pub fn write_sec<T: Target>(link: &Placed<'_, T>, out: &mut [u8]) {
    let (shape, start) = (&link.plt_shape, link.addresses.plt_sec);
    for (index, out) in out.chunks_exact_mut(shape.direct_entry as usize).enumerate() {
        let address = start.wrapping_add(index as u64 * shape.direct_entry);
        T::write_plt_direct(out, address, address::plt_slot(link, index as u32), shape);
    }
}

/// Writes `.plt.got`.
pub fn write_got<T: Target>(link: &Placed<'_, T>, out: &mut [u8]) {
    let (shape, at) = (&link.plt_shape, &link.addresses);
    for row in &link.rows {
        let (Some(entry), Some(word)) = (row.plt_got, row.resolved.or(row.got)) else { continue };
        let start = u64::from(entry.number()) * shape.direct_entry;
        let slot = address::got_word(link, word);
        let end = start + shape.direct_entry;
        if let Some(out) = out.get_mut(start as usize..end as usize) {
            T::write_plt_direct(out, at.plt_got.wrapping_add(start), slot, shape);
        }
    }
}
