//! The result of the layout: output sections with their addresses, and segments.
//!
//! File offsets are not here. They depend on the sizes of compressed sections, which `make_image` finds out
//! ([`crate::phase::Image`]).

pub mod align;
pub mod memory;

use crate::ids::{ChunkId, RegionId, SectionId};
use memory::Region;

/// An output section.
#[derive(Clone, Debug)]
pub struct Chunk<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// `SHT_*`.
    pub sh_type: u32,
    /// `SHF_*`.
    pub flags: u64,
    /// The size of an entry in bytes; 0 if items disagree.
    pub entsize: u64,
    /// Alignment in bytes.
    pub align: u64,
    /// Virtual address.
    pub address: u64,
    /// Load address.
    pub load_address: u64,
    /// Size in memory, in bytes.
    pub size: u64,
    /// The `MEMORY` region that it is in.
    pub region: RegionId,
    /// Input and synthetic sections that it holds, in order of address.
    pub items: Vec<SectionId>,
    /// With `SHF_LINK_ORDER`, an input section. `sh_link` names its output section.
    pub link_order: Option<SectionId>,
    /// Fill patterns for gaps, in the order of their offsets. Before the first one, gaps have the default of
    /// the machine (code) or zeros.
    pub fills: Vec<Fill>,
    /// Bytes that the script writes, in the order of their offsets.
    pub data: Vec<Data>,
}

impl Default for Chunk<'_> {
    fn default() -> Self {
        Chunk {
            name: b"",
            sh_type: 0,
            flags: 0,
            entsize: 0,
            align: 1,
            address: 0,
            load_address: 0,
            size: 0,
            region: RegionId::DEFAULT,
            items: Vec::new(),
            link_order: None,
            fills: Vec::new(),
            data: Vec::new(),
        }
    }
}

impl Chunk<'_> {
    /// The bytes that it takes in the file: its size, or none for `SHT_NOBITS`.
    #[inline]
    pub fn file_size(&self) -> u64 {
        if self.sh_type == crate::elf::consts::SHT_NOBITS { 0 } else { self.size }
    }

    /// Whether it takes addresses in the program's memory: it is allocated, and it is not `.tbss`, which is
    /// only a template for each thread's block.
    #[inline]
    pub fn takes_address_space(&self) -> bool {
        let zeros = self.sh_type == crate::elf::consts::SHT_NOBITS;
        crate::elf::is_alloc(self.flags) && !(zeros && self.is_thread_local())
    }

    /// Whether it is a part of the TLS template.
    pub fn is_thread_local(&self) -> bool {
        self.flags & crate::elf::consts::SHF_TLS != 0
    }
}

/// A fill pattern. It is repeated in gaps from `offset` to the next fill's offset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fill {
    /// Offset in the output section, in bytes.
    pub offset: u64,
    /// The pattern; empty for the default.
    pub pattern: Vec<u8>,
}

/// The bytes of `BYTE`, `QUAD`, `ASCIZ` and similar statements, in the output's byte order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Data {
    /// Offset in the output section, in bytes.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A program header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// `PT_*`.
    pub p_type: u32,
    /// `PF_*`.
    pub flags: u32,
    /// File offset of its first byte.
    pub offset: u64,
    /// Virtual address.
    pub address: u64,
    /// Load address.
    pub load_address: u64,
    /// Bytes in the file.
    pub file_size: u64,
    /// Bytes in memory.
    pub memory_size: u64,
    /// Alignment in bytes.
    pub align: u64,
    /// Position in [`Layout::order`] of the first chunk that it holds.
    pub first: u32,
    /// Position behind the last chunk that it holds; `first` if it holds none.
    pub end: u32,
    /// Whether it starts with the file header.
    pub file_header: bool,
    /// Whether it holds the program headers.
    pub program_headers: bool,
}

impl Segment {
    /// Positions in [`Layout::order`] of the chunks that it holds.
    pub fn positions(&self) -> std::ops::Range<usize> {
        self.first as usize..self.end as usize
    }

    /// Whether it holds no chunk: the headers alone, or nothing in the file.
    pub fn is_empty(&self) -> bool {
        self.first == self.end
    }
}

/// The chunks in order of load address. Those that are not allocated come last. If two have one address, the
/// one that takes no room in the file comes second, unless both are empty.
pub fn order_of(chunks: &[Chunk<'_>]) -> Vec<ChunkId> {
    let template = TemplateContents::new(chunks);
    let mut order: Vec<ChunkId> = (0..chunks.len()).map(ChunkId::from_index).collect();
    order.sort_by_cached_key(|id| {
        let chunk = &chunks[id.index()];
        if !crate::elf::is_alloc(chunk.flags) {
            return (true, 0, 0, false, 0);
        }
        let zeros = chunk.sh_type == crate::elf::consts::SHT_NOBITS;
        let load_address =
            if zeros && chunk.is_thread_local() { template.load_address(chunk) } else { chunk.load_address };
        let behind = zeros && !chunk.is_thread_local() && chunk.size > 0;
        (false, load_address, chunk.address, behind, if zeros { 0 } else { chunk.size })
    });
    order
}

/// Addresses and load addresses of the thread-local chunks with contents, in order of address.
struct TemplateContents(Vec<(u64, u64)>);

impl TemplateContents {
    fn new(chunks: &[Chunk<'_>]) -> Self {
        let contents = chunks.iter().filter(|chunk| chunk.is_thread_local() && chunk.takes_address_space());
        let mut contents: Vec<_> = contents.map(|chunk| (chunk.address, chunk.load_address)).collect();
        contents.sort_unstable();
        TemplateContents(contents)
    }

    /// The load address at which thread-local zeros would follow the contents. A script may give them another
    /// one. But nothing of them is loaded, and they are a part of the template wherever that is loaded.
    fn load_address(&self, zeros: &Chunk<'_>) -> u64 {
        let behind = self.0.partition_point(|&(address, _)| address <= zeros.address);
        let before = behind.checked_sub(1).map(|at| self.0[at]);
        before.map_or(zeros.load_address, |(address, load)| load.wrapping_add(zeros.address - address))
    }
}

/// The thread-local storage template.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TlsTemplate {
    /// Address of its first byte.
    pub start: u64,
    /// Bytes in memory, including `.tbss`.
    pub size: u64,
    /// Alignment in bytes; 0 if there is no template.
    pub align: u64,
}

/// The places of sections, in parallel vectors indexed by [`SectionId`].
#[derive(Default)]
pub struct Places {
    /// The output section; `None` for sections outside the output.
    pub chunk: Vec<Option<ChunkId>>,
    /// The offset in the output section, in bytes. Absorbed sections have none.
    pub offset: Vec<u64>,
}

/// A layout, as a round of `lay_out` makes it.
#[derive(Default)]
pub struct Layout<'a> {
    /// Output sections, in the order of the section header table.
    pub chunks: Vec<Chunk<'a>>,
    /// Output section and offset of each section.
    pub places: Places,
    /// The chunks in order of load address, those that are not allocated last. Scripts may place sections in
    /// any order, but program headers go by addresses.
    pub order: Vec<ChunkId>,
    /// Program headers in their order.
    pub segments: Vec<Segment>,
    /// The `MEMORY` regions as the layout left them, in the order of
    /// [`LayoutPlan::memory`](crate::plan::LayoutPlan::memory).
    pub regions: Vec<Region>,
    /// The TLS template.
    pub tls: TlsTemplate,
    /// Bytes of the file header and the room for program headers.
    pub headers_size: u64,
    /// Address of the file header, if it is loaded.
    pub headers_address: Option<u64>,
    /// How many chunks, all of them at the end, go to a separate debug file and not to the output.
    pub apart: usize,
}

/// The place of a linker-defined symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkerValue {
    /// The output section whose index the symbol has in the symbol table; `None` for absolute symbols.
    pub chunk: Option<ChunkId>,
    /// Address or number.
    pub value: u64,
}

impl Layout<'_> {
    /// How many chunks the output itself has.
    pub fn own_chunks(&self) -> usize {
        self.chunks.len() - self.apart
    }

    /// The output section that holds a section; `None` if it is not in the output.
    #[inline]
    pub fn chunk_with(&self, id: SectionId) -> Option<ChunkId> {
        self.places.chunk[id.index()]
    }

    /// Offset of a section in its output section, in bytes.
    #[inline]
    pub fn offset_of(&self, id: SectionId) -> u64 {
        self.places.offset[id.index()]
    }

    /// Address of a section; 0 if it is not in the output.
    #[inline]
    pub fn section_address(&self, id: SectionId) -> u64 {
        let Some(chunk) = self.chunk_with(id) else { return 0 };
        self.chunks[chunk.index()].address.wrapping_add(self.offset_of(id))
    }

    /// The allocated output section that holds an address.
    pub fn chunk_at(&self, address: u64) -> Option<ChunkId> {
        let holds = |chunk: &Chunk<'_>| {
            crate::elf::is_alloc(chunk.flags) && address.wrapping_sub(chunk.address) < chunk.size
        };
        self.chunks.iter().position(holds).map(ChunkId::from_index)
    }

    /// The output section of this name.
    pub fn find(&self, name: &[u8]) -> Option<ChunkId> {
        self.chunks.iter().position(|chunk| chunk.name == name).map(ChunkId::from_index)
    }

    /// The chunks that a segment holds.
    pub fn chunks_of(&self, segment: &Segment) -> impl Iterator<Item = ChunkId> + use<'_> {
        self.order.get(segment.positions()).unwrap_or_default().iter().copied()
    }

    /// The first segment of a type.
    pub fn segment(&self, p_type: u32) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.p_type == p_type)
    }
}
