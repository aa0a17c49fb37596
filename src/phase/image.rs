//! The last phase: file offsets, sizes and names as section headers show them.
//!
//! `make_image` makes it, once it knows how much the compressed sections shrink. The addresses are those of
//! [`Placed`]. Names, types and sizes here are those after compression.

use super::{Placed, builds_on};
use crate::arch::Target;
use crate::chunks::{Chunk, Segment};
use crate::elf::consts as elf;
use crate::ids::{ChunkId, SectionId};
use crate::tables::section_names::SectionNames;
use std::ops::Range;

/// The file, before its bytes are written.
pub struct Image<'a, T: Target> {
    /// The phase before: addresses.
    pub placed: Placed<'a, T>,
    /// The sections of the file as their headers show them, by [`ChunkId`]. The chunks behind them are in a
    /// separate debug file ([`crate::chunks::Layout::apart`]).
    pub file_sections: Vec<FileSection<'a>>,
    /// Contents of the sections that are compressed, by [`ChunkId`]; `None` for all others.
    pub compressed: Vec<Option<Vec<u8>>>,
    /// Contents of `.shstrtab`.
    pub names: SectionNames,
    /// Program headers, the place of the section header table, and the file's size.
    pub file: FilePlan,
}

builds_on!(['a, T: Target] Image<'a, T>, placed: Placed<'a, T>);

/// An output section in the file.
#[derive(Clone, Debug)]
pub struct FileSection<'a> {
    /// The name in its header. The old GNU form of compression turns `.debug_info` into `.zdebug_info`.
    pub name: &'a [u8],
    /// `SHT_*`.
    pub sh_type: u32,
    /// `SHF_*`.
    pub flags: u64,
    /// Alignment in bytes.
    pub align: u64,
    /// The size in bytes: in the file, or for `SHT_NOBITS` in memory.
    pub size: u64,
    /// Offset in the file, in bytes.
    pub offset: u64,
}

impl<'a> FileSection<'a> {
    /// The row of an uncompressed section, with offset 0 until `file_offsets` assigns one.
    pub fn of(chunk: &Chunk<'a>) -> Self {
        let Chunk { name, sh_type, flags, align, size, .. } = *chunk;
        FileSection { name, sh_type, flags, align, size, offset: 0 }
    }

    /// The size in the file, in bytes: 0 for `SHT_NOBITS`.
    #[inline]
    pub fn file_size(&self) -> u64 {
        if self.sh_type == elf::SHT_NOBITS { 0 } else { self.size }
    }

    /// The bytes of the file that it takes.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.file_size())
    }
}

/// The parts of the file other than sections.
#[derive(Clone, Default, Debug)]
pub struct FilePlan {
    /// Program headers in their order.
    pub segments: Vec<Segment>,
    /// File offset of the section header table; 0 if there is none.
    pub section_headers_offset: u64,
    /// The number of section headers, including the null one.
    pub section_header_count: u32,
    /// Size of the whole file, in bytes.
    pub size: u64,
}

/// The shortest hole, in bytes.
const HOLE: u64 = 1 << 20;

impl<T: Target> Image<'_, T> {
    /// The gaps of at least [`HOLE`] bytes between sections, in file order. Large alignments and scripts of
    /// firmware make them. No hole includes headers, neither those at the file's start nor the section
    /// headers behind the last section. In a mapped output, nothing may touch a hole: even a read makes the
    /// file system allocate its blocks.
    pub fn holes(&self) -> Vec<Range<u64>> {
        let ranges = self.file_sections.iter().map(FileSection::range);
        let taken = ranges.filter(|range| !range.is_empty()).map(|range| (range.start, range.end)).collect();
        holes_between(taken, HOLE.max(self.layout.headers_size), self.file.size)
    }

    /// The size of a section, in bytes. The tables of symbols and names get their sizes after the layout: the
    /// size of their output section, which holds nothing else.
    pub fn section_size(&self, id: SectionId) -> u64 {
        let row = self.synthetic_row(id);
        match row.filter(|&row| self.synthetics.section(row).kind.is_about_file()) {
            Some(_) => {
                let chunk = self.layout.chunk_with(id);
                chunk.and_then(|chunk| self.section_of(chunk)).map_or(0, |section| section.size)
            }
            None => self.placed.section_size(id),
        }
    }

    fn section_of(&self, chunk: ChunkId) -> Option<&FileSection<'_>> {
        self.file_sections.get(chunk.index())
    }
}

/// The gaps of at least [`HOLE`] bytes between ranges of a file, each with its end, behind `end` and before
/// `size`.
fn holes_between(mut taken: Vec<(u64, u64)>, mut end: u64, size: u64) -> Vec<Range<u64>> {
    taken.sort_unstable();
    let mut holes = Vec::new();
    for (start, next) in taken {
        if start > end && start - end >= HOLE && start < size {
            holes.push(end..start);
        }
        end = end.max(next);
    }
    holes
}
