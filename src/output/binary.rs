//! `--oformat=binary`: the bytes that a loader would put into memory, from the lowest load address
//! on, and nothing else. Gaps between sections are zeros.
//!
//! The file is made as ELF first, in memory: what sections hold does not depend on the format.

use crate::arch::Target;
use crate::elf::consts as elf;
use crate::layout::Chunk;
use crate::link::Link;

/// Sections with bytes that are loaded.
fn loaded<'l, 'a, T: Target>(link: &'l Link<'a, T>) -> impl Iterator<Item = &'l Chunk<'a>> {
    link.layout.chunks.iter().filter(|c| c.flags & u64::from(elf::SHF_ALLOC) != 0 && c.file_size() > 0)
}

/// Size of the image in bytes, which starts at the lowest load address.
pub fn size<T: Target>(link: &Link<'_, T>) -> u64 {
    let end = loaded(link).map(|c| c.load_address.saturating_add(c.file_size())).max().unwrap_or(0);
    end - start(link).min(end)
}

fn start<T: Target>(link: &Link<'_, T>) -> u64 {
    loaded(link).map(|c| c.load_address).min().unwrap_or(0)
}

/// Copies loaded sections from the ELF file to their places in the image, which has [`size`] bytes.
pub fn write<T: Target>(link: &Link<'_, T>, file: &[u8], image: &mut [u8]) {
    let start = start(link);
    for chunk in loaded(link) {
        let (from, size) = (chunk.file_offset as usize, chunk.file_size() as usize);
        let to = (chunk.load_address - start) as usize;
        let place = image.get_mut(to..).and_then(|rest| rest.get_mut(..size));
        // Overlaps of sections were reported with the layout.
        if let (Some(place), Some(bytes)) = (place, file.get(from..).and_then(|rest| rest.get(..size))) {
            place.copy_from_slice(bytes);
        }
    }
}
