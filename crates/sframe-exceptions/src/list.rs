//! FDEs of a section that nothing sorts, one after the other (LSB, "The .eh_frame section").

use core::ptr::read_unaligned;

use crate::search_table::{encoding, width};

/// `DW_EH_PE_pcrel`, `DW_EH_PE_textrel`, `DW_EH_PE_datarel` and `DW_EH_PE_indirect`.
const FROM_PLACE: u8 = 0x10;
const FROM_TEXT: u8 = 0x20;
const FROM_DATA: u8 = 0x30;
const INDIRECT: u8 = 0x80;

/// What relative pointers count from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origins {
    /// The text.
    pub text: u64,
    /// The data.
    pub data: u64,
}

/// An FDE, and the code that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Where it is.
    pub fde: *const u8,
    /// The address of the code.
    pub start: u64,
    /// Its bytes.
    pub size: u64,
}

/// The FDEs from `at` to the zero word that ends them. FDEs of rare forms, and of code that is not in the
/// program any more, are passed over.
///
/// # Safety
/// Such a list is there, and stays while it is read.
pub unsafe fn fdes(at: *const u8, origins: Origins) -> impl Iterator<Item = Listed> {
    let mut at = at;
    core::iter::from_fn(move || {
        loop {
            // SAFETY: as the caller says; the word before tells how long a record is.
            unsafe {
                let record = at;
                let length = read_unaligned(record.cast::<u32>());
                if length == 0 || length >= 0xffff_fff0 {
                    return None;
                }
                at = record.add(4 + length as usize);
                if let Some(listed) = read(record, origins) {
                    return Some(listed);
                }
            }
        }
    })
}

/// # Safety
/// A record of a list is there.
unsafe fn read(record: *const u8, origins: Origins) -> Option<Listed> {
    // SAFETY: as the caller says.
    unsafe {
        let to_cie = read_unaligned(record.add(4).cast::<u32>()) as usize;
        if to_cie == 0 {
            return None;
        }
        let encoding = encoding(record.add(4).sub(to_cie))?;
        let width = width(encoding)?;
        let place = record.add(8);
        let number = |at: *const u8, signed: bool| match (width, signed) {
            (2, false) => read_unaligned(at.cast::<u16>()).into(),
            (2, true) => i64::from(read_unaligned(at.cast::<i16>())) as u64,
            (4, false) => read_unaligned(at.cast::<u32>()).into(),
            (4, true) => i64::from(read_unaligned(at.cast::<i32>())) as u64,
            _ => read_unaligned(at.cast::<u64>()),
        };
        let value = number(place, encoding & 8 != 0);
        // Linkers write 0 for code that they dropped.
        if value == 0 || encoding & INDIRECT != 0 {
            return None;
        }
        let origin = match encoding & 0x70 {
            0 => 0,
            FROM_PLACE => place as u64,
            FROM_TEXT => origins.text,
            FROM_DATA => origins.data,
            _ => return None,
        };
        Some(Listed { fde: record, start: origin.wrapping_add(value), size: number(place.add(width), false) })
    }
}
