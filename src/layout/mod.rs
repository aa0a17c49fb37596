//! Output sections, segments and addresses.

use crate::ids::{ChunkId, SectionId};

/// An output section.
#[derive(Clone, Debug, Default)]
pub struct Chunk<'a> {
    /// Name.
    pub name: &'a [u8],
    /// `SHT_*`.
    pub sh_type: u32,
    /// `SHF_*`.
    pub flags: u64,
    /// Size of an entry in bytes, 0 if items disagree.
    pub entsize: u64,
    /// Alignment in bytes.
    pub align: u64,
    /// Virtual address.
    pub address: u64,
    /// Load address.
    pub load_address: u64,
    /// File offset.
    pub file_offset: u64,
    /// Size in memory, in bytes.
    pub size: u64,
    /// Index in the section header table, 0 if it has no header.
    pub header_index: u32,
    /// Input and synthetic sections that it holds, in order of address.
    pub items: Vec<SectionId>,
}

/// What layout settled.
#[derive(Default)]
pub struct Layout<'a> {
    /// Output sections, in the order of the section header table.
    pub chunks: Vec<Chunk<'a>>,
}

impl Layout<'_> {
    /// Address of the TLS segment, 0 if there is none.
    pub fn tls_start(&self) -> u64 {
        0
    }

    /// The allocated output section that holds an address.
    pub fn chunk_at(&self, address: u64) -> Option<ChunkId> {
        let holds = |chunk: &Chunk<'_>| {
            crate::link::is_alloc(chunk.flags) && address.wrapping_sub(chunk.address) < chunk.size
        };
        self.chunks.iter().position(holds).map(ChunkId::from_index)
    }

    /// The output section of this name.
    pub fn find(&self, name: &[u8]) -> Option<ChunkId> {
        self.chunks.iter().position(|chunk| chunk.name == name).map(ChunkId::from_index)
    }
}
