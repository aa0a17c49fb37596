//! Finds FDEs by `.eh_frame_hdr` (LSB, "The .eh_frame_hdr section"), for programs in which no other
//! unwinder's look-up could do it: a static program has only ours.
//!
//! Linkers write one form: a sorted table of pairs of four bytes, counted from the section's start. Other
//! forms are not searched.

use core::ptr::read_unaligned;

/// `DW_EH_PE_udata4`, and `DW_EH_PE_datarel | DW_EH_PE_sdata4`.
const COUNT: u8 = 0x03;
const PAIRS: u8 = 0x3b;

/// The sorted table of an `.eh_frame_hdr`.
#[derive(Clone, Copy)]
pub struct Pairs {
    header: *const u8,
    first: *const u8,
    count: usize,
}

impl Pairs {
    /// The table of a header. `None`: it has another form.
    ///
    /// # Safety
    /// `header` is the `.eh_frame_hdr` of a module that stays loaded.
    pub unsafe fn of(header: *const u8) -> Option<Self> {
        // SAFETY: as the caller says; the forms of the fields are checked before they are read.
        unsafe {
            let [version, pointer, count, table] = read_unaligned(header.cast::<[u8; 4]>());
            let skipped = width(pointer)?;
            if (version, count, table) != (1, COUNT, PAIRS) {
                return None;
            }
            let count = read_unaligned(header.add(4 + skipped).cast::<u32>()) as usize;
            Some(Self { header, first: header.add(8 + skipped), count })
        }
    }

    /// A function's address, and that of its FDE.
    pub fn get(&self, row: usize) -> Option<[u64; 2]> {
        if row >= self.count {
            return None;
        }
        // SAFETY: the table has this row.
        let pair = unsafe { read_unaligned(self.first.add(row * 8).cast::<[i32; 2]>()) };
        Some(pair.map(|distance| (self.header as u64).wrapping_add_signed(distance.into())))
    }
}

/// The FDE for an address, and the address of its function.
///
/// # Safety
/// `header` is the `.eh_frame_hdr` of a loaded module, with the `.eh_frame` that it describes.
pub unsafe fn find(header: *const u8, pc: u64) -> Option<(*const u8, u64)> {
    // SAFETY: as the caller says.
    let pairs = unsafe { Pairs::of(header) }?;
    let (mut low, mut high) = (0, pairs.count);
    while low < high {
        let middle = low + (high - low) / 2;
        let starts_before = pairs.get(middle)?[0] <= pc;
        (low, high) = if starts_before { (middle + 1, high) } else { (low, middle) };
    }
    let [start, fde] = pairs.get(low.checked_sub(1)?)?;
    let fde = fde as *const u8;
    // SAFETY: as the caller says.
    (pc.wrapping_sub(start) < unsafe { size_of_code(fde) }?).then_some((fde, start))
}

/// Bytes of code that an FDE covers.
///
/// # Safety
/// `fde` is an FDE of a loaded `.eh_frame`.
unsafe fn size_of_code(fde: *const u8) -> Option<u64> {
    // SAFETY: as the caller says.
    unsafe {
        let to_cie = read_unaligned(fde.add(4).cast::<u32>()) as usize;
        let encoding = encoding(fde.add(4).sub(to_cie))?;
        let width = width(encoding)?;
        let size = fde.add(8 + width);
        Some(match width {
            2 => read_unaligned(size.cast::<u16>()).into(),
            4 => read_unaligned(size.cast::<u32>()).into(),
            _ => read_unaligned(size.cast::<u64>()),
        })
    }
}

/// How the FDEs of a CIE encode addresses.
///
/// # Safety
/// `cie` is a CIE of a loaded `.eh_frame`.
pub(crate) unsafe fn encoding(cie: *const u8) -> Option<u8> {
    // SAFETY: as the caller says.
    unsafe {
        let mut at = cie.add(8);
        let mut next = || {
            let byte = *at;
            at = at.add(1);
            byte
        };
        let version = next();
        if !matches!(version, 1 | 3) {
            return None;
        }
        let letters = cie.add(9);
        let mut count = 0;
        while next() != 0 {
            count += 1;
        }
        let mut skip_number = || while next() & 0x80 != 0 {};
        skip_number();
        skip_number();
        // The column of the return address is a byte in version 1.
        skip_number();
        if count == 0 || *letters != b'z' {
            return Some(0);
        }
        skip_number();
        for letter in 1..count {
            match *letters.add(letter) {
                b'R' => return Some(next()),
                b'L' => _ = next(),
                b'P' => {
                    let skipped = width(next())?;
                    (0..skipped).for_each(|_| _ = next());
                }
                b'S' | b'B' | b'G' => {}
                _ => return None,
            }
        }
        Some(0)
    }
}

/// Bytes of an encoded pointer.
pub(crate) fn width(encoding: u8) -> Option<usize> {
    match encoding & 0xf {
        0 | 4 | 0xc => Some(8),
        2 | 0xa => Some(2),
        3 | 0xb => Some(4),
        _ => None,
    }
}
