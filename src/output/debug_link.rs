//! The checksum by which debuggers know the file of `--separate-debug-file`.
//!
//! `.gnu_debuglink` of the output has the CRC-32 of the whole debug file, but the output is to run before the
//! debug file exists. So the checksum is chosen first, and the debug file then ends with four bytes that give
//! it this checksum:
//!
//! ```text
//! state after n bytes:  s(n + 1) = TABLE[low byte of s(n) ^ byte] ^ s(n) >> 8
//! ```
//!
//! The high byte of a state tells which entry of the table made it, since all entries have different high
//! bytes. So the state four bytes before the end can be computed from the wanted one, and the four bytes lead
//! to it. The checksum is made from the build-id, or from a hash of the output where it has none, so that the
//! debug file of another build does not pass for this one's.

use crate::arch::Target;
use crate::phase::Image;
use crate::synth::debug_link::CHECKSUM_SIZE;
use crate::tables::section::Kind;
use flate2::Crc;
use zerocopy::byteorder::U32;

/// Bytes at the end of the debug file that give it its checksum.
pub const CLOSING_SIZE: u64 = 4;

/// Writes the checksum into the output, which is finished otherwise, and returns it. It is that of what tells
/// the output from others.
pub fn write<T: Target>(link: &Image<'_, T>, file: &mut [u8], identifier: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(identifier);
    let place = place(link).and_then(|place| file.get_mut(place..)?.get_mut(..CHECKSUM_SIZE));
    if let Some(out) = place {
        out.copy_from_slice(&U32::<T::E>::new(crc.sum()).to_bytes());
    }
    crc.sum()
}

/// File offset of the checksum; `None` if a script discards the section.
fn place<T: Target>(link: &Image<'_, T>) -> Option<usize> {
    let id = link.synthetic_id(link.synthetics.find(Kind::DebugLink)?);
    let section = &link.file_sections[link.chunk_of(Kind::DebugLink)?.index()];
    let end = section.offset + link.layout.offset_of(id) + link.section_size(id);
    Some(end as usize - CHECKSUM_SIZE)
}

/// Gives a file this checksum by its last bytes.
pub fn close(file: &mut [u8], checksum: u32) {
    let Some((rest, closing)) = file.split_last_chunk_mut::<{ CLOSING_SIZE as usize }>() else { return };
    let mut crc = Crc::new();
    crc.update(rest);
    *closing = (before(!checksum) ^ !crc.sum()).to_le_bytes();
}

/// The state from which four bytes of zeros lead to this one.
fn before(mut state: u32) -> u32 {
    for _ in 0..CLOSING_SIZE {
        let high = (state >> 24) as u8;
        let byte = (0..=u8::MAX).find(|&byte| (entry(byte) >> 24) as u8 == high).unwrap_or_default();
        state = (state ^ entry(byte)) << 8 | u32::from(byte);
    }
    state
}

/// The entry of CRC-32's table for a byte.
fn entry(byte: u8) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    (0..8).fold(byte.into(), |state: u32, _| state >> 1 ^ if state & 1 == 0 { 0 } else { POLYNOMIAL })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_bytes_give_any_checksum() {
        for checksum in [0, 1, 0xffff_ffff, 0x1234_5678, 0xcbf4_3926] {
            for length in [0, 1, 9, 1000] {
                let mut file: Vec<u8> = (0..length + 4).map(|n| (n * 7) as u8).collect();
                let before = file[..length].to_vec();
                close(&mut file, checksum);
                let mut crc = Crc::new();
                crc.update(&file);
                assert_eq!(crc.sum(), checksum);
                assert_eq!(file[..length], before);
            }
        }
    }
}
