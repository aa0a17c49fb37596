//! The global offset table: `.got` and `.got.plt`. [`crate::relocs::slots`] defines what each word contains.

use super::synthesis::{Create, Grow, Size, Synthesis, Write};
use crate::arch::Target;
use crate::elf::consts as elf;
use crate::phase::{Extent, Placed};
use crate::relocs::address;
use crate::relocs::slots::{self, Before};
use crate::tables::section::{Kind, SyntheticSection, WORD, WRITABLE};
use zerocopy::byteorder::U64;

/// `.got`. Static programs have one, too, for `STT_GNU_IFUNC`.
pub fn got<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            (!link.config.is_relocatable()).then(|| section(Kind::Got, b".got")).into()
        }),
        size: Size::Needed(|link| Extent { size: u64::from(link.slots.got_words) * WORD, align: WORD }),
        grow: Grow::Never,
        write: Write::Bytes(|link, _, out| write(link, out)),
    }
}

/// `.got.plt`.
pub fn got_plt<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            (!link.config.is_relocatable()).then(|| section(Kind::GotPlt, b".got.plt")).into()
        }),
        size: Size::Needed(|link| Extent { size: link.slots.got_plt_words * WORD, align: WORD }),
        grow: Grow::Never,
        write: Write::Bytes(|link, _, out| write_plt(link, out)),
    }
}

fn section(kind: Kind, name: &'static [u8]) -> SyntheticSection<'static> {
    SyntheticSection::new(kind, name, elf::SHT_PROGBITS, WRITABLE, WORD).entries(WORD)
}

/// Writes `.got`.
fn write<T: Target>(link: &Placed<'_, T>, out: &mut [u8]) {
    if T::GOT_RESERVED > 0 {
        store::<T>(out, 0, address::of_synthetic(link, Kind::Dynamic));
    }
    slots::for_all_words(link, &mut |row, word| {
        let value = match word.relocation.map(|relocation| relocation.before) {
            None | Some(Before::Content) => slots::number(link, row, word.content),
            Some(Before::Schema(schema)) => schema,
            Some(Before::Nothing) => return,
        };
        store::<T>(out, word.index.number().into(), value);
    });
}

/// Writes `.got.plt`. It begins with words that are reserved for the dynamic linker, the first with the
/// address of `.dynamic`, unless these are in `.got`. Then, for each entry of `.plt`, comes the address of
/// its lazy half.
fn write_plt<T: Target>(link: &Placed<'_, T>, out: &mut [u8]) {
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
