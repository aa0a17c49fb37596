//! Writes the bytes of the output: copies and relocates every section, in its place.
//!
//! The file is cut into separate regions, one for each output section, and these into regions for the
//! sections that they hold. Any thread may fill any region. A section is copied and relocated in one go,
//! while its bytes are in the processor's cache. The build-id is made of the regions' digests, so where they
//! begin must not depend on the number of threads.

use crate::arch::Target;
use crate::chunks::Chunk;
use crate::cli::OutputFormat;
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::frames::terminators;
use crate::ids::{ChunkId, SectionId};
use crate::input::SectionClass;
use crate::output::file::OutputFile;
use crate::output::headers;
use crate::passes::find_unused_pads;
use crate::phase::{Image, Placed, SectionState};
use crate::region::{Before, Region};
use crate::relocs;
use crate::sframe_output;
use crate::synth;
use crate::tables::section::Kind;
use parallel::{IntoParallel, ParallelSort, join};
use std::io;

/// Fills the whole file except the build-id, which depends on the rest.
///
/// # Errors
/// The system's error.
pub fn run<T: Target>(image: &Image<'_, T>, file: &mut OutputFile) -> io::Result<()> {
    let mut slices = slices(image, file.region());
    let tables = TableSlices::take(image, &mut slices);
    join(
        || tables.write(image),
        || {
            slices.into_par_iter().for_each(|(id, out)| match &image.compressed[id.index()] {
                Some(packed) => out.store(packed),
                None => write_chunk(image, id, out),
            })
        },
    );
    file.end_of_regions()?;
    // No region has the index of `.sframe`, so the build-id counts it as it is in the end, and the blobs
    // behind it as they were before: what changes in them follows from the rest.
    sframe_output::overlay::finish(image, file.bytes());
    if image.config.output_format == OutputFormat::Elf {
        headers::write(image, file.bytes());
    }
    Ok(())
}

type Slice<'f> = (ChunkId, Region<'f>);

/// The parts of the file that belong to output sections.
fn slices<'f, T: Target>(image: &Image<'_, T>, mut rest: Region<'f>) -> Vec<Slice<'f>> {
    let sections = &image.file_sections;
    let mut order: Vec<usize> =
        (0..sections.len()).filter(|&index| sections[index].file_size() > 0).collect();
    order.par_sort_by_key(|&index| sections[index].offset);
    let mut position = 0u64;
    let mut slices = Vec::with_capacity(order.len());
    for index in order {
        let section = &sections[index];
        let gap = section.offset.checked_sub(position);
        let Some(gap) = gap.filter(|gap| gap.saturating_add(section.file_size()) <= rest.len()) else {
            image.sink.report(Diagnostic::error(
                Code::Internal,
                format!(
                    "output section {} at file offset {:#x} overlaps the one before it or the end of the file",
                    String::from_utf8_lossy(section.name),
                    section.offset
                ),
            ));
            return Vec::new();
        };
        rest.take_first(gap);
        slices.push((ChunkId::from_index(index), rest.take_first(section.file_size())));
        position = section.range().end;
    }
    slices
}

/// The slices of the tables that are not written section by section.
struct TableSlices<'f> {
    names: Region<'f>,
    symbols: synth::symtab::Tables<'f>,
}

impl<'f> TableSlices<'f> {
    /// Takes the slices of these tables out of `slices`.
    fn take<T: Target>(image: &Image<'_, T>, slices: &mut Vec<Slice<'f>>) -> Self {
        let mut take = |kind: Kind| -> Region<'f> {
            let Some(chunk) = image.chunk_of(kind) else { return Region::default() };
            match slices.iter().position(|(id, _)| *id == chunk) {
                Some(index) => slices.swap_remove(index).1,
                None => Region::default(),
            }
        };
        let names = take(Kind::ShStrTab);
        let symbols = synth::symtab::Tables {
            symbols: take(Kind::SymTab),
            strings: take(Kind::StrTab),
            extended: take(Kind::SymTabShndx),
        };
        TableSlices { names, symbols }
    }

    /// Writes the names of sections, and the symbol table together with its strings.
    fn write<T: Target>(self, image: &Image<'_, T>) {
        self.names.fill(|names| {
            let size = names.len().min(image.names.bytes.len());
            names[..size].copy_from_slice(&image.names.bytes[..size]);
        });
        synth::symtab::write(image, self.symbols);
    }
}

/// Fills one output section.
pub fn write_chunk<T: Target>(link: &Placed<'_, T>, id: ChunkId, out: Region<'_>) {
    let chunk = &link.layout.chunks[id.index()];
    if chunk.data.is_empty() {
        return write_items(link, chunk, &chunk.items, 0, out);
    }
    out.fill(|out| {
        write_items(link, chunk, &chunk.items, 0, Region::of_memory(out));
        for data in &chunk.data {
            let place = out.get_mut(data.offset as usize..).and_then(|rest| rest.get_mut(..data.bytes.len()));
            if let Some(place) = place {
                place.copy_from_slice(&data.bytes);
            }
        }
    });
}

/// One job writes at most so many items and bytes in one piece. So few bytes stay in the processor's cache.
const MAX_ITEMS: usize = 4096;
const MAX_BYTES: u64 = 256 << 10;

/// Fills `out`, which starts at offset `base` of the chunk, with `items` and the gaps between them.
fn write_items<T: Target>(
    link: &Placed<'_, T>,
    chunk: &Chunk<'_>,
    items: &[SectionId],
    base: u64,
    mut out: Region<'_>,
) {
    let is_own = |item: &SectionId| link.synthetic_row(*item).is_some();
    if let [own] = items
        && is_own(own)
    {
        return write_own(link, chunk, *own, base, out);
    }
    if items.len() >= 2 && (items.len() > MAX_ITEMS || out.len() > MAX_BYTES || items.iter().any(is_own)) {
        let middle = items.len() / 2;
        let split = link.layout.offset_of(items[middle]).max(base);
        let left = out.take_first(split - base);
        join(
            || write_items(link, chunk, &items[..middle], base, left),
            || write_items(link, chunk, &items[middle..], split, out),
        );
        return;
    }
    out.fill_all(|out, before| write_run(link, chunk, items, base, out, before));
}

/// Fills `out`, which starts at offset `base` of the chunk, with a section of the linker's own and the gaps
/// around it.
fn write_own<T: Target>(
    link: &Placed<'_, T>,
    chunk: &Chunk<'_>,
    item: SectionId,
    base: u64,
    mut out: Region<'_>,
) {
    let start = link.layout.offset_of(item).max(base);
    out.take_first(start - base).fill(|out| fill_gap::<T>(chunk, base, out, Before::Zeros));
    let size = link.section_size(item);
    // An empty section may still be here, because a script names it.
    if size > 0 {
        synth::kinds::write(link, item, out.take_first(size));
    }
    out.fill(|out| fill_gap::<T>(chunk, start + size, out, Before::Zeros));
}

/// Fills `out`, which starts at offset `base` of the chunk, with sections of objects, one after the other. It
/// writes every byte, but for zeros where zeros are before.
fn write_run<T: Target>(
    link: &Placed<'_, T>,
    chunk: &Chunk<'_>,
    items: &[SectionId],
    base: u64,
    out: &mut [u8],
    before: Before,
) {
    let mut position = base;
    let end = base + out.len() as u64;
    for (place, &item) in items.iter().enumerate() {
        let start = link.layout.offset_of(item);
        let size = link.section_size(item);
        fill_gap::<T>(chunk, position, slice_of(out, base, position, start.saturating_sub(position)), before);
        write_section(link, item, slice_of(out, base, start, size), before);
        position = start + size;
        if stays_whole_before_others(link, chunk, item)
            && let Some((object, index)) = link.locate(item)
        {
            let next = items.get(place + 1).map_or(end, |&next| link.layout.offset_of(next));
            // It takes the zeros behind the section for the end of all records.
            clear(slice_of(out, base, position, next.saturating_sub(position)), before);
            let out = slice_of(out, base, start, next.saturating_sub(start));
            terminators::join(&link.frames.files[object.id.index()], index, out);
        }
    }
    fill_gap::<T>(chunk, position, slice_of(out, base, position, end.saturating_sub(position)), before);
}

/// Whether a section has call frame information, and other such sections follow it in one section of
/// relocatable output.
fn stays_whole_before_others<T: Target>(link: &Placed<'_, T>, chunk: &Chunk<'_>, item: SectionId) -> bool {
    link.config.is_relocatable()
        && link.class_of(item).contains(SectionClass::EH_FRAME)
        && chunk.fills.is_empty()
        && chunk.items.last() != Some(&item)
}

/// The bytes `start..start + size` of the chunk, as far as they lie in `out`.
fn slice_of(out: &mut [u8], base: u64, start: u64, size: u64) -> &mut [u8] {
    let from = (start - base).min(out.len() as u64) as usize;
    let to = (start - base).saturating_add(size).min(out.len() as u64) as usize;
    &mut out[from..to]
}

/// Fills `out`, a gap that starts at `offset` of the chunk. If the script has a pattern, the pattern fills
/// it. Otherwise no-operation instructions fill gaps between code, and zeros fill gaps between data.
fn fill_gap<T: Target>(chunk: &Chunk<'_>, offset: u64, out: &mut [u8], before: Before) {
    if out.is_empty() {
        return;
    }
    let mut position = offset;
    let end = offset + out.len() as u64;
    while position < end {
        let next = chunk.fills.partition_point(|fill| fill.offset <= position);
        let stop = chunk.fills.get(next).map_or(end, |fill| fill.offset.min(end));
        let part = &mut out[(position - offset) as usize..(stop - offset) as usize];
        match next.checked_sub(1).map(|index| &chunk.fills[index].pattern[..]) {
            Some(pattern) if !pattern.is_empty() => repeat(pattern, part),
            _ if chunk.flags & elf::SHF_EXECINSTR != 0 && !T::CODE_FILL.is_empty() => {
                fill_code(T::CODE_FILL, part);
            }
            _ => clear(part, before),
        }
        position = stop;
    }
}

/// Fills `out` with copies of a pattern. The filled part doubles each time.
fn repeat(pattern: &[u8], out: &mut [u8]) {
    let mut filled = pattern.len().min(out.len());
    out[..filled].copy_from_slice(&pattern[..filled]);
    while filled < out.len() {
        let count = filled.min(out.len() - filled);
        out.copy_within(..count, filled);
        filled += count;
    }
}

/// Makes bytes zero.
fn clear(out: &mut [u8], before: Before) {
    if before == Before::Anything {
        out.fill(0);
    }
}

/// Fills `out` with no-operation instructions. The n-th of `instructions`, counted from 1, has n bytes.
fn fill_code(instructions: &[&[u8]], out: &mut [u8]) {
    let Some(longest) = instructions.last() else { return };
    for part in out.chunks_mut(longest.len()) {
        part.copy_from_slice(instructions[part.len() - 1]);
    }
}

/// Writes a section of an object, and zeros where it has no bytes.
fn write_section<T: Target>(link: &Placed<'_, T>, id: SectionId, out: &mut [u8], before: Before) {
    let Some((object, index)) = link.locate(id) else { return clear(out, before) };
    let class = link.class_of(id);
    if class.contains(SectionClass::NOBITS) || link.sections.is(id, SectionState::ABSORBED) {
        return clear(out, before);
    }
    // If a section lies outside of its file, this was reported when the object was indexed.
    let contents = object.section_bytes(index as usize).unwrap_or_default();
    let size = contents.len().min(out.len());
    out[..size].copy_from_slice(&contents[..size]);
    clear(&mut out[size..], before);
    if class.contains(SectionClass::SFRAME) {
        if !link.config.is_relocatable() {
            relocs::apply::apply_section(link, object, index, &mut out[..size]);
        }
        sframe_output::concat::fix_up(link, id, &mut out[..size]);
    } else if link.config.is_relocatable() {
        relocs::emit::write_tombstones(link, id, out);
        relocs::emit::write_addends(link, id, out);
    } else {
        relocs::apply::apply_section(link, object, index, out);
        synth::thunks::replace_by_branch(link, id, out);
        find_unused_pads::erase(link, id, out);
    }
}
