//! The phase that knows the addresses of sections, and of what the linker and scripts define.
//!
//! Each round of the layout makes one. If a section must grow because of it, the round is over, and the next
//! round makes another one. The last one is that of the output.

use super::{Contents, builds_on};
use crate::arch::Target;
use crate::chunks::{Layout, LinkerValue};
use crate::ids::{ChunkId, SectionId};
use crate::tables::section::Kind;

/// Output sections and segments, and the place of each section.
pub struct Geometry<'a, T: Target> {
    /// The phase before: sections with their sizes.
    pub contents: Contents<'a, T>,
    /// Output sections, segments, and places of sections.
    pub layout: Layout<'a>,
    /// Places of linker-defined symbols, by their rows.
    pub linker_values: Vec<LinkerValue>,
    /// Addresses of the tables.
    pub addresses: Addresses,
}

builds_on!(['a, T: Target] Geometry<'a, T>, contents: Contents<'a, T>);

/// The addresses of the tables, and of the TLS segment. 0 for a table that the output does not have.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Addresses {
    /// `.got`.
    pub got: u64,
    /// `.got.plt`.
    pub got_plt: u64,
    /// The address of `_GLOBAL_OFFSET_TABLE_`, from which GOT-relative offsets count.
    pub got_base: u64,
    /// The words reserved for the dynamic linker at the head of `.got.plt` or `.got` (`DT_PLTGOT`).
    pub reserved: u64,
    /// `.plt`.
    pub plt: u64,
    /// `.plt.got`.
    pub plt_got: u64,
    /// `.plt.sec`.
    pub plt_sec: u64,
    /// Copies of libraries' data.
    pub copy_data: u64,
    /// Copies of libraries' read-only data.
    pub copy_relro: u64,
    /// Start of the TLS segment.
    pub tls_start: u64,
    /// The thread pointer, as an address in the initialisation image.
    pub thread_pointer: u64,
}

impl Addresses {
    /// The addresses in a layout.
    pub fn of<T: Target>(contents: &Contents<'_, T>, layout: &Layout<'_>) -> Self {
        let table = |kind: Kind| {
            let row = contents.synthetics.find(kind);
            row.map_or(0, |row| layout.section_address(contents.synthetic_id(row)))
        };
        let (got, got_plt, tls) = (table(Kind::Got), table(Kind::GotPlt), layout.tls);
        Addresses {
            got,
            got_plt,
            got_base: if T::GOT_SYMBOL_IN_GOT_PLT { got_plt } else { got },
            reserved: if T::GOT_PLT_RESERVED > 0 { got_plt } else { got },
            plt: table(Kind::Plt),
            plt_got: table(Kind::PltGot),
            plt_sec: table(Kind::PltSec),
            copy_data: table(Kind::CopyData),
            copy_relro: table(Kind::CopyRelro),
            tls_start: tls.start,
            thread_pointer: T::thread_pointer(tls.start, tls.size, tls.align.max(1)),
        }
    }
}

impl<T: Target> Geometry<'_, T> {
    /// The output section that holds the synthetic section of a kind, if it is in the output.
    pub fn chunk_of(&self, kind: Kind) -> Option<ChunkId> {
        self.layout.chunk_with(self.synthetic_id(self.synthetics.find(kind)?))
    }

    /// The output section that has a section's contents. All contents of an absorbed section are in one
    /// output section.
    pub fn output_chunk(&self, id: SectionId) -> Option<ChunkId> {
        self.layout.chunk_with(self.final_section(id)?)
    }

    /// Address of a section; 0 if it is not in the output.
    #[inline]
    pub fn section_address(&self, id: SectionId) -> u64 {
        self.layout.section_address(id)
    }

    /// The address of the piece or record at an offset of an absorbed section; 0 if it is not in the output.
    pub fn absorbed_address(&self, id: SectionId, offset: u64) -> u64 {
        match self.absorbed_place(id, offset) {
            Some((section, offset)) if self.layout.chunk_with(section).is_some() => {
                self.section_address(section).wrapping_add(offset)
            }
            _ => 0,
        }
    }
}
