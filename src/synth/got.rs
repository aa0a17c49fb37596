//! The global offset table: `.got` and `.got.plt`. [`crate::relocs::slots`] defines the content of
//! each word.

use crate::arch::Target;
use crate::phase::Placed;
use crate::relocs::{address, slots};
use crate::tables::section::Kind;
use zerocopy::byteorder::U64;

/// Writes `.got`.
pub fn write<T: Target>(link: &Placed<'_, T>, out: &mut [u8]) {
    if T::GOT_RESERVED > 0 {
        store::<T>(out, 0, address::of_synthetic(link, Kind::Dynamic));
    }
    slots::for_all_words(link, |row, word| {
        if word.relocation.is_none_or(|relocation| relocation.in_place) {
            store::<T>(out, word.index.number().into(), slots::number(link, row, word.content));
        }
    });
}

/// Writes `.got.plt`: the dynamic linker's reserved words (unless they are in `.got`), the first of
/// them the address of `.dynamic`, and for each entry of `.plt` the address of its lazy half.
pub fn write_plt<T: Target>(link: &Placed<'_, T>, out: &mut [u8]) {
    if T::GOT_PLT_RESERVED > 0 && T::GOT_RESERVED == 0 {
        store::<T>(out, 0, address::of_synthetic(link, Kind::Dynamic));
    }
    for index in 0..link.slots.plt {
        let target = T::lazy_target(address::plt_entry(link, index), &link.plt_shape);
        store::<T>(out, T::GOT_PLT_RESERVED + u64::from(index), target);
    }
}

fn store<T: Target>(out: &mut [u8], word: u64, value: u64) {
    let start = word as usize * 8;
    if let Some(out) = out.get_mut(start..start + 8) {
        out.copy_from_slice(&U64::<T::E>::new(value).to_bytes());
    }
}
