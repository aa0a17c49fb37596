//! What only the program headers of a linked file lead to. Tools may remove section headers
//! (`strip --strip-section-headers`), and the loader never reads them; SFrame, the table in place of
//! `.eh_frame`, and `.eh_frame` itself are still found as a running program finds them.

use crate::ranges::joined;
use object::elf;
use object::read::elf::ProgramHeader;
use object::{Endian, Endianness};
use std::ops::Range;

/// `DW_EH_PE_pcrel | DW_EH_PE_sdata4`: all linkers encode the pointer to `.eh_frame` in this way.
const RELATIVE_4: u8 = 0x1b;

/// Bytes of a file, and their address.
pub type Placed<'data> = (&'data [u8], u64);

/// The segments of a file.
pub struct Segments<'a, 'data> {
    /// The program headers.
    pub all: &'a [elf::ProgramHeader64<Endianness>],
    /// The file.
    pub bytes: &'data [u8],
    /// Its byte order.
    pub endian: Endianness,
}

impl<'a, 'data: 'a> Segments<'a, 'data> {
    /// The segments of a type.
    pub fn of(&self, kind: u32) -> impl Iterator<Item = Placed<'data>> + use<'a, 'data> {
        let Segments { all, bytes, endian } = *self;
        all.iter()
            .filter(move |segment| segment.p_type(endian) == kind)
            .filter_map(move |segment| Some((segment.data(endian, bytes).ok()?, segment.p_vaddr(endian))))
    }

    /// The addresses of code.
    pub fn code(&self) -> Vec<Range<u64>> {
        let Segments { all, endian, .. } = *self;
        let is_code = |segment: &&elf::ProgramHeader64<Endianness>| {
            segment.p_type(endian) == elf::PT_LOAD && segment.p_flags(endian) & elf::PF_X != 0
        };
        let range = |segment: &elf::ProgramHeader64<Endianness>| {
            segment.p_vaddr(endian)..segment.p_vaddr(endian).saturating_add(segment.p_memsz(endian))
        };
        joined(all.iter().filter(is_code).map(range).collect())
    }

    /// `.eh_frame_hdr`, and `.eh_frame`, to which it leads (LSB, "Exception Frames").
    pub fn eh_frame(&self) -> Option<[Placed<'data>; 2]> {
        let (header, at) = self.of(elf::PT_GNU_EH_FRAME).next()?;
        let [1, RELATIVE_4, _, _, a, b, c, d, ..] = *header else { return None };
        let distance = self.endian.read_i32([a, b, c, d]);
        let address = at.wrapping_add(4).wrapping_add_signed(distance.into());
        let inside = |&(data, start): &Placed<'_>| address.wrapping_sub(start) < data.len() as u64;
        let (data, start) = self.of(elf::PT_LOAD).find(inside)?;
        // No segment ends with it.
        let data = &data[(address - start) as usize..];
        Some([(header, at), (&data[..records(data, self.endian)], address)])
    }
}

/// The length of the records at the start of `data`, with the zero that ends them. A length that leads out
/// of `data` is no record's.
fn records(data: &[u8], endian: Endianness) -> usize {
    let mut end = 0;
    while let Some(&length) = data[end..].first_chunk::<4>() {
        match endian.read_u32(length) as usize {
            0 => return end + 4,
            length if length <= data.len() - end - 4 => end += 4 + length,
            _ => break,
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_end_with_a_zero_or_before_what_is_none() {
        let record = |length: u32, rest: &[u8]| [&length.to_le_bytes()[..], rest].concat();
        let records = |parts: &[Vec<u8>]| records(&parts.concat(), Endianness::Little);
        assert_eq!(records(&[]), 0);
        assert_eq!(records(&[record(2, b"ab"), record(0, b""), record(1, b"c")]), 10);
        assert_eq!(records(&[record(2, b"ab"), record(9, b"c")]), 6);
        assert_eq!(records(&[record(2, b"ab"), b"xy".to_vec()]), 6);
        assert_eq!(records(&[record(u32::MAX, b"")]), 0);
    }
}
