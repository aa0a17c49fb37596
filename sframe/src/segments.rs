//! What only the program headers of a linked file lead to. Tools may remove section headers
//! (`strip --strip-section-headers`), and the loader never reads them; SFrame, the table in place of
//! `.eh_frame`, and `.eh_frame` itself are still found as a running program finds them.

use crate::ranges::joined;
use object::elf;
use object::read::elf::ProgramHeader;
use object::{Endian as _, Endianness};
use sframe_format::Endian;
use sframe_format::derive::{eh_frame_size, eh_frame_start};
use std::ops::Range;

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

    /// `.eh_frame_hdr`, and `.eh_frame`, to which it leads.
    pub fn eh_frame(&self) -> Option<[Placed<'data>; 2]> {
        let header @ (bytes, at) = self.of(elf::PT_GNU_EH_FRAME).next()?;
        let endian = if self.endian.is_big_endian() { Endian::Big } else { Endian::Little };
        let address = eh_frame_start(endian, bytes, at)?;
        let inside = |&(data, start): &Placed<'_>| address.wrapping_sub(start) < data.len() as u64;
        let (data, start) = self.of(elf::PT_LOAD).find(inside)?;
        let data = &data[(address - start) as usize..];
        Some([header, (&data[..eh_frame_size(endian, data, address, Some(header))], address)])
    }
}
