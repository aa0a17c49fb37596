//! Gives sections, segments and headers their places in the file.
//!
//! The system maps whole pages of the file into memory, so a loaded segment must stand at a file offset that
//! equals its address modulo the page size:
//!
//! ```text
//! address 0x401a30, page size 0x1000     offset 0x1a30 will do, offset 0x1800 will not
//! ```
//!
//! Loaded segments come first, each at the next such offset. Then come sections that are not loaded, and last
//! the section header table.

use crate::chunks::align::round_up;
use crate::chunks::{Chunk, Layout, Segment};
use crate::elf::consts as elf;
use crate::elf::is_alloc;
use crate::ids::ChunkId;
use crate::phase::{FilePlan, FileSection};
use parallel::ParallelSort;

/// Bytes of an ELF-64 file header.
pub const FILE_HEADER_SIZE: u64 = 64;
/// Bytes of an ELF-64 program header.
pub const PROGRAM_HEADER_SIZE: u64 = 56;
/// Bytes of an ELF-64 section header.
pub const SECTION_HEADER_SIZE: u64 = 64;

/// Bytes of the file header and `count` program headers.
pub fn headers_size(count: usize) -> u64 {
    if count == 0 { FILE_HEADER_SIZE } else { FILE_HEADER_SIZE + PROGRAM_HEADER_SIZE * count as u64 }
}

/// The first offset at or behind `offset` that equals `address` modulo `align`; `None` if there is none.
pub fn congruent(offset: u64, address: u64, align: u64) -> Option<u64> {
    let align = align.max(1);
    let behind = (address % align + align - offset % align) % align;
    offset.checked_add(behind)
}

/// Gives each section its file offset, and segments their places in the file. `sections` are those of the
/// layout's chunks. A section that is not allocated may have another size there than in memory, because it
/// was compressed. With `own_pages`, no loaded segment shares a page of the file with another one. `None` if
/// the file would not fit 64 bits.
pub fn assign(
    layout: &Layout<'_>,
    sections: &mut [FileSection<'_>],
    section_headers: bool,
    own_pages: bool,
) -> Option<FilePlan> {
    let mut cursor = layout.headers_size;
    let apart = are_apart(&layout.segments);
    let mut filler = Filler { layout, apart, places: vec![None; sections.len()], sections };
    let mut segments = layout.segments.clone();
    for row in filling_order(&segments) {
        let segment = &mut segments[row];
        if own_pages && cursor > layout.headers_size {
            cursor = round_up(cursor, segment.align)?;
        }
        cursor = filler.load(segment, cursor)?;
    }
    cursor = filler.rest(&segments, cursor)?;
    let mut plan = FilePlan { segments, size: cursor, ..FilePlan::default() };
    if section_headers {
        plan.append_section_headers(sections.len())?;
    }
    others(layout, sections, &mut plan.segments);
    Some(plan)
}

/// The same for a separate debug file, from which no segment is loaded. `segments` are those of the output:
/// their addresses stay, and only notes have bytes. `None` if the file would not fit 64 bits.
pub fn assign_debug_file(
    layout: &Layout<'_>,
    sections: &mut [FileSection<'_>],
    mut segments: Vec<Segment>,
) -> Option<FilePlan> {
    let mut cursor = layout.headers_size;
    for section in sections.iter_mut() {
        let is_there = section.file_size() > 0;
        section.offset = if is_there { round_up(cursor, section.align)? } else { cursor };
        cursor = section.offset.checked_add(section.file_size())?;
    }
    for segment in &mut segments {
        match segment.p_type {
            elf::PT_NOTE => span(layout, sections, segment),
            elf::PT_PHDR => {}
            elf::PT_LOAD if segment.file_header => segment.file_size = layout.headers_size,
            _ => (segment.offset, segment.file_size) = (segment.address % segment.align.max(1), 0),
        }
    }
    let mut plan = FilePlan { segments, size: cursor, ..FilePlan::default() };
    plan.append_section_headers(sections.len())?;
    Some(plan)
}

impl FilePlan {
    /// Appends headers for so many sections and the null section. `None` if the file would not fit 64 bits.
    fn append_section_headers(&mut self, sections: usize) -> Option<()> {
        self.section_headers_offset = round_up(self.size, 8)?;
        self.section_header_count = sections as u32 + 1;
        let bytes = SECTION_HEADER_SIZE * u64::from(self.section_header_count);
        self.size = self.section_headers_offset.checked_add(bytes)?;
        Some(())
    }
}

/// Gives out offsets from the start of the file to its end.
struct Filler<'f, 'l, 's> {
    layout: &'f Layout<'l>,
    /// Whether no section is in two loaded segments.
    apart: bool,
    sections: &'f mut [FileSection<'s>],
    /// By chunk: the offset that belongs to its address, once it has one. Zeros may begin before that offset.
    places: Vec<Option<u64>>,
}

impl Filler<'_, '_, '_> {
    /// Places a loaded segment in the file. Returns the first offset for the next segment.
    fn load(&mut self, segment: &mut Segment, cursor: u64) -> Option<u64> {
        let chunks = &self.layout.chunks;
        let held = self.layout.order.get(segment.positions()).unwrap_or_default();
        let Some(first) = held.first().map(|id| &chunks[id.index()]) else {
            if segment.file_header || segment.program_headers {
                let start = if segment.file_header { 0 } else { FILE_HEADER_SIZE };
                segment.offset = start;
                // No section gives this segment its address, which must fit its offset. A script may give
                // it a load address of its own.
                if segment.load_address == segment.address {
                    segment.load_address += start;
                }
                segment.address += start;
                segment.file_size = cursor - start;
                segment.memory_size = cursor - start;
            }
            return Some(cursor);
        };
        let (first_address, load_address) = (first.address, first.load_address);
        let overlaid = self.apart && is_overlaid(self.layout, segment);
        let base = match self.places[held[0].index()] {
            Some(place) => place,
            None => congruent(cursor, first_address, segment.align)?,
        };
        let headers = segment.file_header || segment.program_headers;
        let zeros = !headers && held.iter().all(|id| chunks[id.index()].file_size() == 0);
        let start = segment_start(segment, base, cursor, zeros);
        segment.offset = start;
        segment.address = if zeros { first_address } else { first_address.wrapping_sub(base - start) };
        let shift = segment.load_address.wrapping_sub(load_address);
        segment.load_address = if shift == 0 {
            load_address.wrapping_sub(first_address.wrapping_sub(segment.address))
        } else {
            segment.load_address
        };
        let mut file_end = if headers { self.layout.headers_size } else { base };
        let mut memory_end = first_address;
        for id in held {
            let index = id.index();
            let chunk = &chunks[index];
            // A section that is not allocated may be in a separate debug file, and not in this one.
            if !is_alloc(chunk.flags) {
                continue;
            }
            let section = &mut self.sections[index];
            let distance = if overlaid {
                chunk.load_address.checked_sub(load_address)
            } else {
                chunk.address.checked_sub(first_address)
            };
            let Some(distance) = distance else {
                // Its load address is behind the first chunk's, and its address is before it. No segment can
                // express that. Its contents go among sections that are not loaded; zeros take no place.
                if section.file_size() == 0 {
                    section.offset = file_end;
                    self.places[index] = Some(file_end);
                }
                continue;
            };
            if !chunk.takes_address_space() {
                // A `PT_TLS` that has only zeros begins here, at the offset that belongs to its address. So
                // do the segment's own zeros, even if the segment, having no bytes, begins a page before
                // them.
                section.offset = base.checked_add(chunk.address.wrapping_sub(first_address))?;
                self.places[index] = Some(section.offset);
                continue;
            }
            let place = base.checked_add(distance)?;
            if self.places[index].replace(place).is_none() {
                section.offset = place;
            }
            if section.file_size() > 0 {
                file_end = file_end.max(place.checked_add(section.file_size())?);
            }
            memory_end = memory_end.max(memory_end_of(chunk)?);
        }
        self.empty_behind(held, file_end, if zeros { cursor } else { file_end });
        segment.file_size = if zeros { 0 } else { file_end.saturating_sub(start) };
        segment.memory_size = memory_end.wrapping_sub(segment.address).max(segment.file_size);
        // A segment that has only zeros takes no room in the file, so the next segment may use the offset.
        Some(if segment.file_size == 0 { cursor } else { file_end.max(cursor) })
    }

    /// Lets `SHT_NOBITS` sections behind the last bytes of a segment begin where the bytes end, whatever
    /// their alignment is, as in GNU ld, gold, lld and mold, and after `objcopy`. Empty sections do so, too.
    /// In a segment without bytes, they begin where the bytes of the segment before end, so that they do not
    /// lie behind the end of the file.
    fn empty_behind(&mut self, held: &[ChunkId], file_end: u64, filled_end: u64) {
        for id in held {
            let chunk = &self.layout.chunks[id.index()];
            if !is_alloc(chunk.flags) || !chunk.takes_address_space() {
                continue;
            }
            let section = &mut self.sections[id.index()];
            if section.file_size() == 0 {
                let end = if section.sh_type == elf::SHT_NOBITS { file_end } else { filled_end };
                section.offset = section.offset.min(end);
            }
        }
    }

    /// Places the sections that no loaded segment holds, given these segments. Returns the end.
    fn rest(&mut self, loads: &[Segment], mut cursor: u64) -> Option<u64> {
        let rows = self.sections.iter_mut().enumerate().filter(|(index, _)| self.places[*index].is_none());
        for (index, section) in rows {
            let chunk = &self.layout.chunks[index];
            let unloaded = is_alloc(chunk.flags) && !self.layout.segments.is_empty();
            let around = load_around(loads, chunk).filter(|_| unloaded);
            section.offset = match around {
                Some(load) => offset_in(self.layout, &self.places, load, chunk.address)?,
                None if unloaded => congruent(cursor, chunk.address, section.align)?,
                None => round_up(cursor, section.align)?,
            };
            if section.sh_type != elf::SHT_NOBITS {
                cursor = section.offset.checked_add(section.file_size())?;
            }
        }
        Some(cursor)
    }
}

/// The order in which loaded segments get places in the file: that of the program headers, except that
/// segments which share sections follow one another, in the order of their first sections. So if any section
/// of a segment has its place already, the first section has, and the others follow at the distances of their
/// addresses.
fn filling_order(segments: &[Segment]) -> Vec<usize> {
    let mut loads: Vec<usize> =
        (0..segments.len()).filter(|&row| segments[row].p_type == elf::PT_LOAD).collect();
    loads.par_sort_by_key(|&row| (segments[row].first, segments[row].end));
    let mut chains: Vec<Vec<usize>> = Vec::new();
    let mut chain_end = 0;
    for row in loads {
        match chains.last_mut() {
            Some(chain) if segments[row].first < chain_end => chain.push(row),
            _ => chains.push(vec![row]),
        }
        chain_end = chain_end.max(segments[row].end);
    }
    chains.sort_by_key(|chain| chain.iter().copied().min());
    chains.concat()
}

/// Whether no two loaded segments hold the same section.
pub fn are_apart(segments: &[Segment]) -> bool {
    let loads = segments.iter().filter(|segment| segment.p_type == elf::PT_LOAD && !segment.is_empty());
    let mut held: Vec<(u32, u32)> = loads.map(|segment| (segment.first, segment.end)).collect();
    held.sort_unstable();
    held.windows(2).all(|pair| pair[0].1 <= pair[1].0)
}

/// Whether sections of a segment share addresses, as sections of an overlay do if a script puts them into one
/// segment. Then their load addresses decide where they stand in the file and in the segment.
pub fn is_overlaid(layout: &Layout<'_>, segment: &Segment) -> bool {
    let (chunks, held) = (&layout.chunks, layout.order.get(segment.positions()).unwrap_or_default());
    let has_bytes = |chunk: &&Chunk<'_>| is_alloc(chunk.flags) && chunk.file_size() > 0;
    let held = || held.iter().map(|id| &chunks[id.index()]).filter(has_bytes);
    let shift = |chunk: &Chunk<'_>| chunk.load_address.wrapping_sub(chunk.address);
    if held().all(|chunk| held().next().map(shift) == Some(shift(chunk))) {
        return false;
    }
    let mut ranges: Vec<(u64, u64)> =
        held().map(|chunk| (chunk.address, chunk.address.saturating_add(chunk.size))).collect();
    ranges.sort_unstable();
    ranges.windows(2).any(|pair| pair[1].0 < pair[0].1)
}

/// The loaded segment around `.tbss`, which has an address among loaded sections and takes no room there.
/// `None` for other sections.
fn load_around<'s>(segments: &'s [Segment], chunk: &Chunk<'_>) -> Option<&'s Segment> {
    if chunk.sh_type != elf::SHT_NOBITS || chunk.takes_address_space() {
        return None;
    }
    let holds = |load: &&Segment| {
        load.p_type == elf::PT_LOAD && chunk.address.wrapping_sub(load.address) <= load.memory_size
    };
    // The end of one segment may be the start of the next one. Then the page belongs to the next one.
    segments.iter().rfind(holds)
}

/// The offset that belongs to an address in a loaded segment. A `PT_TLS` of only `.tbss` has it, so that it
/// is congruent, too. A segment without bytes may begin pages before its sections' own offsets.
fn offset_in(layout: &Layout<'_>, places: &[Option<u64>], load: &Segment, address: u64) -> Option<u64> {
    let first = layout.order.get(load.positions()).and_then(<[ChunkId]>::first);
    let (offset, start) = match first.filter(|_| load.file_size == 0) {
        Some(id) => (places[id.index()]?, layout.chunks[id.index()].address),
        None => (load.offset, load.address),
    };
    offset.checked_add(address.wrapping_sub(start))
}

/// The offset at which a loaded segment begins, if its first section stands at `base`. `zeros` tells that it
/// has no bytes.
fn segment_start(segment: &Segment, base: u64, cursor: u64, zeros: bool) -> u64 {
    if segment.file_header {
        0
    } else if segment.program_headers {
        FILE_HEADER_SIZE
    } else if zeros && base > cursor {
        // The segment reads no bytes, so it takes the first offset that is congruent to its address. Offset 0
        // would say that it holds the headers.
        match base % segment.align.max(1) {
            0 => segment.align,
            rest => rest,
        }
    } else {
        base
    }
}

/// Sets places and sizes of segments that lie in other segments or in none.
fn others(layout: &Layout<'_>, sections: &[FileSection<'_>], segments: &mut [Segment]) {
    let holds_headers = |segment: &&Segment| {
        segment.p_type == elf::PT_LOAD && (segment.file_header || segment.program_headers)
    };
    // Where the start of the file is in memory, or would be.
    let headers_at = segments.iter().find(holds_headers).map(|segment| {
        let start = |address: u64| address.wrapping_sub(segment.offset);
        (start(segment.address), start(segment.load_address))
    });
    let count = segments.len() as u64;
    for index in 0..segments.len() {
        let mut segment = segments[index];
        match segment.p_type {
            elf::PT_LOAD | elf::PT_GNU_STACK => continue,
            elf::PT_PHDR => {
                let (address, load_address) = headers_at.unwrap_or_default();
                segment.offset = FILE_HEADER_SIZE;
                segment.address = address.wrapping_add(FILE_HEADER_SIZE);
                segment.load_address = load_address.wrapping_add(FILE_HEADER_SIZE);
                segment.file_size = PROGRAM_HEADER_SIZE * count;
                segment.memory_size = segment.file_size;
            }
            elf::PT_GNU_RELRO if segment.memory_size != 0 => relro(layout, sections, segments, &mut segment),
            _ => span(layout, sections, &mut segment),
        }
        segments[index] = segment;
    }
}

/// The address up to which a segment needs memory for a chunk. An empty chunk needs none: it may stand pages
/// behind the others, where the next segment begins. `None` if the chunk does not fit the address space.
fn memory_end_of(chunk: &Chunk<'_>) -> Option<u64> {
    if chunk.size == 0 { Some(0) } else { chunk.address.checked_add(chunk.size) }
}

/// Makes a segment reach from its first chunk to the end of its last one.
///
/// Chunks that are not loaded are nowhere in memory. If a segment also holds loaded chunks, they do not
/// count. If it holds only such chunks, only its place in the file is right, so it needs no memory, as in GNU
/// ld.
fn span(layout: &Layout<'_>, sections: &[FileSection<'_>], segment: &mut Segment) {
    let held = layout.order.get(segment.positions()).unwrap_or_default();
    let is_loaded = |id: &&ChunkId| is_alloc(layout.chunks[id.index()].flags);
    let loaded = held.iter().any(|id| is_loaded(&id));
    let is_here = |id: &&ChunkId| id.index() < sections.len();
    let counted = || held.iter().filter(is_here).filter(|id| !loaded || is_loaded(id));
    let Some(id) = counted().next() else { return };
    let (first, start) = (&layout.chunks[id.index()], sections[id.index()].offset);
    segment.offset = start;
    segment.address = first.address;
    segment.load_address = first.load_address;
    let (mut file_end, mut memory_end) = (start, first.address);
    for id in counted() {
        let chunk = &layout.chunks[id.index()];
        // A script may put other sections between thread-local ones. They are no part of the TLS template.
        if segment.p_type == elf::PT_TLS && chunk.flags & elf::SHF_TLS == 0 {
            continue;
        }
        let section = &sections[id.index()];
        if section.file_size() > 0 {
            file_end = file_end.max(section.range().end);
        }
        if loaded && (chunk.takes_address_space() || segment.p_type == elf::PT_TLS) {
            memory_end = memory_end.max(memory_end_of(chunk).unwrap_or(u64::MAX));
        }
    }
    segment.file_size = file_end - start;
    segment.memory_size = memory_end - first.address;
    if loaded && segment.p_type != elf::PT_TLS {
        segment.memory_size = segment.memory_size.max(segment.file_size);
    }
}

/// Places `PT_GNU_RELRO`. It reaches to a page boundary, because the system protects whole pages. If no
/// section follows, it even reaches behind the end of its loaded segment.
fn relro(layout: &Layout<'_>, sections: &[FileSection<'_>], segments: &[Segment], segment: &mut Segment) {
    let memory_size = segment.memory_size;
    span(layout, sections, segment);
    // It may end inside an output section: with lazy binding, only the head of `.got.plt` is protected.
    segment.memory_size = memory_size;
    let holder = segments.iter().find(|load| {
        load.p_type == elf::PT_LOAD && segment.address.wrapping_sub(load.address) < load.memory_size
    });
    let Some(load) = holder else { return };
    let file_end = load.offset.saturating_add(load.file_size);
    segment.file_size = segment.memory_size.min(file_end.saturating_sub(segment.offset));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(sh_type: u32, flags: u64, address: u64, size: u64) -> Chunk<'static> {
        Chunk { sh_type, flags, align: 16, address, load_address: address, size, ..Chunk::default() }
    }

    fn segment(first: u32, end: u32, align: u64) -> Segment {
        Segment { p_type: elf::PT_LOAD, align, first, end, ..Segment::default() }
    }

    #[test]
    fn offsets_equal_addresses_modulo_the_page() {
        let alloc = elf::SHF_ALLOC;
        let mut layout = Layout {
            chunks: vec![
                chunk(elf::SHT_PROGBITS, alloc, 0x400200, 0x30),
                chunk(elf::SHT_PROGBITS, alloc, 0x401230, 0x10),
                chunk(elf::SHT_NOBITS, alloc, 0x401240, 0x5000),
                chunk(elf::SHT_PROGBITS, 0, 0, 7),
            ],
            segments: vec![
                Segment { file_header: true, program_headers: true, ..segment(0, 1, 0x1000) },
                Segment { load_address: 0x401230, ..segment(1, 3, 0x1000) },
            ],
            headers_size: headers_size(2),
            order: (0..4).map(ChunkId::new).collect(),
            ..Layout::default()
        };
        layout.segments[0].load_address = 0x400200;
        let mut sections: Vec<FileSection<'_>> = layout.chunks.iter().map(FileSection::of).collect();
        let plan = assign(&layout, &mut sections, true, false).unwrap();
        let offsets: Vec<u64> = sections.iter().map(|section| section.offset).collect();
        assert_eq!(offsets, [0x200, 0x230, 0x240, 0x240]);
        let first = plan.segments[0];
        assert_eq!(
            (first.offset, first.address, first.file_size, first.memory_size),
            (0, 0x400000, 0x230, 0x230)
        );
        let second = plan.segments[1];
        assert_eq!((second.offset, second.file_size, second.memory_size), (0x230, 0x10, 0x5010));
        assert_eq!(plan.section_headers_offset, 0x248);
        assert_eq!(plan.section_header_count, 5);
    }

    #[test]
    fn zeros_begin_where_bytes_end() {
        let alloc = elf::SHF_ALLOC;
        let layout = Layout {
            chunks: vec![
                chunk(elf::SHT_PROGBITS, alloc, 0x401230, 0x11),
                chunk(elf::SHT_NOBITS, alloc, 0x401300, 0x50),
                chunk(elf::SHT_NOBITS, alloc, 0x408340, 0x50),
                chunk(elf::SHT_NOBITS, alloc, 0x408400, 0x50),
            ],
            segments: vec![segment(0, 2, 0x1000), segment(2, 4, 0x1000)],
            headers_size: 0x200,
            order: (0..4).map(ChunkId::new).collect(),
            ..Layout::default()
        };
        let mut sections: Vec<FileSection<'_>> = layout.chunks.iter().map(FileSection::of).collect();
        let plan = assign(&layout, &mut sections, true, false).unwrap();
        let offsets: Vec<u64> = sections.iter().map(|section| section.offset).collect();
        assert_eq!(offsets, [0x230, 0x241, 0x340, 0x340]);
        let places: Vec<_> = plan.segments.iter().map(|s| (s.offset, s.file_size, s.memory_size)).collect();
        assert_eq!(places, [(0x230, 0x11, 0x120), (0x340, 0, 0x110)]);
        assert_eq!(plan.section_headers_offset, 0x248);
    }

    #[test]
    fn segments_that_share_sections_share_their_bytes() {
        let at = |address| chunk(elf::SHT_PROGBITS, elf::SHF_ALLOC, address, 0x10);
        let layout = Layout {
            chunks: vec![at(0x1000), at(0x2000), at(0x3000), at(0x8000)],
            segments: vec![segment(1, 3, 0x1000), segment(3, 4, 0x1000), segment(0, 2, 0x1000)],
            headers_size: 0x200,
            order: (0..4).map(ChunkId::new).collect(),
            ..Layout::default()
        };
        let mut sections: Vec<FileSection<'_>> = layout.chunks.iter().map(FileSection::of).collect();
        let plan = assign(&layout, &mut sections, true, false).unwrap();
        let offsets: Vec<u64> = sections.iter().map(|section| section.offset).collect();
        assert_eq!(offsets, [0x1000, 0x2000, 0x3000, 0x4000]);
        let places: Vec<_> = plan.segments.iter().map(|s| (s.address, s.offset, s.file_size)).collect();
        assert_eq!(places, [(0x2000, 0x2000, 0x1010), (0x8000, 0x4000, 0x10), (0x1000, 0x1000, 0x1010)]);
    }

    #[test]
    fn congruent_offsets_are_the_next_ones() {
        assert_eq!(congruent(0x123, 0x401000, 0x1000), Some(0x1000));
        assert_eq!(congruent(0x123, 0x401123, 0x1000), Some(0x123));
        assert_eq!(congruent(0x124, 0x401123, 0x1000), Some(0x1123));
        assert_eq!(congruent(u64::MAX, 0, 0x1000), None);
        assert_eq!(congruent(5, 77, 0), Some(5));
    }
}
