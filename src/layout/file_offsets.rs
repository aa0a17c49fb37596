//! Where everything stands in the file.
//!
//! Loaded segments come first, each at an offset that equals its address modulo the page size, so
//! that the file can be mapped; then what is not loaded; the section header table comes last.

use super::size::round_up;
use super::{Chunk, Layout, Segment};
use crate::elf::consts as elf;
use crate::elf::is_alloc;
use crate::ids::ChunkId;

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

/// The first offset at or behind `offset` that equals `address` modulo `align`. `None` if there
/// is none.
pub fn congruent(offset: u64, address: u64, align: u64) -> Option<u64> {
    let align = align.max(1);
    let behind = (address % align + align - offset % align) % align;
    offset.checked_add(behind)
}

/// Settles file offsets, section header numbers and the sizes of segments. Sizes of chunks that
/// are not allocated may have changed since addresses were settled. With `own_pages`, no loaded
/// segment shares a page of the file with another. Gives whether it all fits 64 bits.
pub fn assign(layout: &mut Layout<'_>, section_headers: bool, own_pages: bool) -> bool {
    try_assign(layout, section_headers, own_pages).is_some()
}

fn try_assign(layout: &mut Layout<'_>, section_headers: bool, own_pages: bool) -> Option<()> {
    let mut cursor = layout.headers_size;
    let mut done = vec![false; layout.chunks.len()];
    for segment in layout.segments.iter_mut().filter(|segment| segment.p_type == elf::PT_LOAD) {
        if own_pages && cursor > layout.headers_size {
            cursor = round_up(cursor, segment.align)?;
        }
        cursor = load(&mut layout.chunks, &layout.order, segment, cursor, &mut done)?;
    }
    for (chunk, _) in layout.chunks.iter_mut().zip(done).filter(|(_, done)| !done) {
        let unloaded = is_alloc(chunk.flags) && !layout.segments.is_empty();
        let start = if unloaded {
            congruent(cursor, chunk.address, chunk.align)?
        } else {
            round_up(cursor, chunk.align)?
        };
        chunk.file_offset = start;
        if chunk.file_size() > 0 || chunk.sh_type != elf::SHT_NOBITS {
            cursor = start.checked_add(chunk.file_size())?;
        }
    }
    for (index, chunk) in layout.chunks.iter_mut().enumerate() {
        chunk.header_index = index as u32 + 1;
    }
    layout.section_headers_offset = 0;
    layout.section_header_count = 0;
    if section_headers {
        layout.section_headers_offset = round_up(cursor, 8)?;
        layout.section_header_count = layout.chunks.len() as u32 + 1;
        let bytes = SECTION_HEADER_SIZE * u64::from(layout.section_header_count);
        cursor = layout.section_headers_offset.checked_add(bytes)?;
    }
    layout.file_size = cursor;
    others(layout);
    Some(())
}

/// Lays a loaded segment into the file; gives where the next one may start.
fn load(
    chunks: &mut [Chunk<'_>],
    order: &[ChunkId],
    segment: &mut Segment,
    cursor: u64,
    done: &mut [bool],
) -> Option<u64> {
    let held = order.get(segment.positions()).unwrap_or_default();
    let headers_end = |cursor: u64| {
        let start = if segment.file_header { 0 } else { FILE_HEADER_SIZE };
        (start, cursor)
    };
    let Some(first) = held.first().map(|id| &chunks[id.index()]) else {
        if segment.file_header || segment.program_headers {
            let (start, end) = headers_end(cursor);
            segment.offset = start;
            segment.file_size = end - start;
            segment.memory_size = end - start;
        }
        return Some(cursor);
    };
    let (first_address, load_address) = (first.address, first.load_address);
    let base = segment_base(chunks, held, segment, cursor)?;
    let start = if segment.file_header {
        0
    } else if segment.program_headers {
        FILE_HEADER_SIZE
    } else {
        base
    };
    segment.offset = start;
    segment.address = first_address.wrapping_sub(base - start);
    let shift = segment.load_address.wrapping_sub(load_address);
    segment.load_address =
        if shift == 0 { load_address.wrapping_sub(base - start) } else { segment.load_address };
    let mut file_end = if segment.file_header || segment.program_headers { cursor } else { base };
    let mut memory_end = first_address;
    for id in held {
        let index = id.index();
        let chunk = &mut chunks[index];
        if !is_alloc(chunk.flags) || done[index] {
            continue;
        }
        let Some(distance) = chunk.address.checked_sub(first_address) else {
            // It is loaded behind the first one but lies before it: no segment can do that. Contents go where what
            // is not loaded goes, zeros stand nowhere.
            if chunk.file_size() == 0 {
                chunk.file_offset = file_end;
                done[index] = true;
            }
            continue;
        };
        let offset = base.checked_add(distance)?;
        chunk.file_offset = offset;
        done[index] = true;
        if !chunk.takes_address_space() {
            continue;
        }
        if chunk.file_size() > 0 {
            file_end = file_end.max(offset.checked_add(chunk.file_size())?);
        }
        memory_end = memory_end.max(chunk.address.checked_add(chunk.size)?);
    }
    segment.file_size = file_end.saturating_sub(start);
    segment.memory_size = memory_end.wrapping_sub(segment.address).max(segment.file_size);
    // Zeros alone take no room: the next segment may use the offset.
    Some(if segment.file_size == 0 { cursor } else { file_end.max(cursor) })
}

/// Where in the file a segment of these chunks starts. One of zeros alone reads nothing there, so its offset need not
/// lie behind the end of what the file holds so far.
fn segment_base(chunks: &[Chunk<'_>], held: &[ChunkId], segment: &Segment, cursor: u64) -> Option<u64> {
    let first = chunks.get(held.first()?.index())?;
    let base = congruent(cursor, first.address, segment.align)?;
    let zeros = !segment.file_header
        && !segment.program_headers
        && held.iter().all(|id| chunks[id.index()].file_size() == 0);
    let inside = base.checked_sub(segment.align).filter(|_| zeros && base > cursor);
    Some(inside.unwrap_or(base))
}

/// Sizes of the segments that lie in others or in none.
fn others(layout: &mut Layout<'_>) {
    let header = layout.segments.iter().find(|segment| segment.p_type == elf::PT_LOAD && segment.file_header);
    let headers_at = header.map(|segment| (segment.address, segment.load_address));
    layout.headers_address = headers_at.map(|(address, _)| address);
    let count = layout.segments.len() as u64;
    for index in 0..layout.segments.len() {
        let mut segment = layout.segments[index];
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
            elf::PT_GNU_RELRO if segment.memory_size != 0 => relro(layout, &mut segment),
            _ => span(&layout.chunks, &layout.order, &mut segment),
        }
        layout.segments[index] = segment;
    }
}

/// From the first chunk to the end of the last.
fn span(chunks: &[Chunk<'_>], order: &[ChunkId], segment: &mut Segment) {
    let held = order.get(segment.positions()).unwrap_or_default();
    let Some(first) = held.first().map(|id| &chunks[id.index()]) else { return };
    segment.offset = first.file_offset;
    segment.address = first.address;
    segment.load_address = first.load_address;
    let mut file_end = first.file_offset;
    let mut memory_end = first.address;
    for chunk in held.iter().map(|id| &chunks[id.index()]) {
        file_end = file_end.max(chunk.file_offset.saturating_add(chunk.file_size()));
        if is_alloc(chunk.flags) && (chunk.takes_address_space() || segment.p_type == elf::PT_TLS) {
            memory_end = memory_end.max(chunk.address.saturating_add(chunk.size));
        } else if !is_alloc(chunk.flags) {
            continue;
        }
    }
    segment.file_size = file_end - first.file_offset;
    segment.memory_size = memory_end - first.address;
    if segment.p_type != elf::PT_TLS {
        segment.memory_size = segment.memory_size.max(segment.file_size);
    }
}

/// The read-only part reaches to a page boundary; where nothing follows, the loaded segment that
/// holds it is made to reach as far, since the system maps whole pages anyway.
fn relro(layout: &mut Layout<'_>, segment: &mut Segment) {
    let memory_size = segment.memory_size;
    span(&layout.chunks, &layout.order, segment);
    // It may end inside an output section: only the head of `.got.plt` is protected where the
    // rest is written lazily.
    segment.memory_size = memory_size;
    let end = segment.address.saturating_add(segment.memory_size);
    let holder = layout.segments.iter_mut().find(|load| {
        load.p_type == elf::PT_LOAD && segment.address.wrapping_sub(load.address) < load.memory_size
    });
    let Some(load) = holder else { return };
    load.memory_size = load.memory_size.max(end - load.address);
    let file_end = load.offset.saturating_add(load.file_size);
    segment.file_size = segment.memory_size.min(file_end.saturating_sub(segment.offset));
}

/// The template of thread-local storage, from its segment.
pub fn tls_template(segments: &[Segment]) -> super::TlsTemplate {
    segments.iter().find(|segment| segment.p_type == elf::PT_TLS).map_or_else(Default::default, |segment| {
        super::TlsTemplate { start: segment.address, size: segment.memory_size, align: segment.align }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(sh_type: u32, flags: u32, address: u64, size: u64) -> Chunk<'static> {
        Chunk {
            sh_type,
            flags: flags.into(),
            align: 16,
            address,
            load_address: address,
            size,
            ..Chunk::default()
        }
    }

    fn segment(first: u32, last: u32, align: u64) -> Segment {
        Segment { p_type: elf::PT_LOAD, align, first, last, ..Segment::default() }
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
                Segment { file_header: true, program_headers: true, ..segment(0, 0, 0x1000) },
                Segment { load_address: 0x401230, ..segment(1, 2, 0x1000) },
            ],
            headers_size: headers_size(2),
            order: (0..4).map(ChunkId).collect(),
            ..Layout::default()
        };
        layout.segments[0].load_address = 0x400200;
        assert!(assign(&mut layout, true, false));
        let offsets: Vec<u64> = layout.chunks.iter().map(|chunk| chunk.file_offset).collect();
        assert_eq!(offsets, [0x200, 0x230, 0x240, 0x240]);
        let first = layout.segments[0];
        assert_eq!(
            (first.offset, first.address, first.file_size, first.memory_size),
            (0, 0x400000, 0x230, 0x230)
        );
        let second = layout.segments[1];
        assert_eq!((second.offset, second.file_size, second.memory_size), (0x230, 0x10, 0x5010));
        assert_eq!(layout.headers_address, Some(0x400000));
        assert_eq!(layout.section_headers_offset, 0x248);
        assert_eq!(layout.section_header_count, 5);
    }

    #[test]
    fn congruence() {
        assert_eq!(congruent(0x123, 0x401000, 0x1000), Some(0x1000));
        assert_eq!(congruent(0x123, 0x401123, 0x1000), Some(0x123));
        assert_eq!(congruent(0x124, 0x401123, 0x1000), Some(0x1123));
        assert_eq!(congruent(u64::MAX, 0, 0x1000), None);
        assert_eq!(congruent(5, 77, 0), Some(5));
    }
}
