//! Writes the bytes of the output: every section copied, relocated and in its place.
//!
//! The file is cut into disjoint slices, one for each output section, those into slices for the
//! sections they hold; any thread may fill any slice. A section is copied and relocated in one go,
//! while its bytes are in the processor's cache.

use crate::arch::Target;
use crate::chunks::Chunk;
use crate::cli::OutputFormat;
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::ids::{ChunkId, SectionId};
use crate::input::SectionClass;
use crate::output::headers;
use crate::phase::{Image, Placed, SectionState};
use crate::relocs;
use crate::sframe_output;
use crate::synth;
use crate::tables::section::Kind;
use rayon::prelude::*;

/// Fills the whole file except the build-id, which depends on the rest.
pub fn run<T: Target>(image: &Image<'_, T>, file: &mut [u8]) {
    let mut slices = slices(image, file);
    let tables = TableSlices::take(image, &mut slices);
    rayon::join(
        || tables.write(image),
        || {
            slices.into_par_iter().for_each(|(id, out)| match &image.compressed[id.index()] {
                Some(packed) => out.copy_from_slice(packed),
                None => write_chunk(image, id, out),
            })
        },
    );
    if image.config.output_format == OutputFormat::Elf {
        headers::write(image, file);
    }
}

type Slice<'f> = (ChunkId, &'f mut [u8]);

/// The parts of the file that belong to output sections.
fn slices<'f, T: Target>(image: &Image<'_, T>, file: &'f mut [u8]) -> Vec<Slice<'f>> {
    let sections = &image.file_sections;
    let mut order: Vec<usize> =
        (0..sections.len()).filter(|&index| sections[index].file_size() > 0).collect();
    order.sort_by_key(|&index| sections[index].offset);
    let (mut rest, mut position) = (file, 0u64);
    let mut slices = Vec::with_capacity(order.len());
    for index in order {
        let section = &sections[index];
        let gap = section.offset.checked_sub(position);
        let parts = gap.and_then(|gap| {
            let tail = std::mem::take(&mut rest).split_at_mut_checked(gap as usize)?.1;
            tail.split_at_mut_checked(section.file_size() as usize)
        });
        let Some((slice, tail)) = parts else {
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
        rest = tail;
        position = section.range().end;
        slices.push((ChunkId::from_index(index), slice));
    }
    slices
}

/// The slices of the tables that are not written section by section.
struct TableSlices<'f> {
    names: &'f mut [u8],
    symbols: &'f mut [u8],
    extended: &'f mut [u8],
    strings: &'f mut [u8],
}

impl<'f> TableSlices<'f> {
    /// Takes these slices from the list of all.
    fn take<T: Target>(image: &Image<'_, T>, slices: &mut Vec<Slice<'f>>) -> Self {
        let mut take = |kind: Kind| -> &'f mut [u8] {
            let Some(chunk) = image.chunk_of(kind) else { return &mut [] };
            match slices.iter().position(|(id, _)| *id == chunk) {
                Some(index) => slices.swap_remove(index).1,
                None => &mut [],
            }
        };
        TableSlices {
            names: take(Kind::ShStrTab),
            symbols: take(Kind::SymTab),
            extended: take(Kind::SymTabShndx),
            strings: take(Kind::StrTab),
        }
    }

    /// Writes the names of sections, and the symbol table together with its strings.
    fn write<T: Target>(self, image: &Image<'_, T>) {
        let size = self.names.len().min(image.names.bytes.len());
        self.names[..size].copy_from_slice(&image.names.bytes[..size]);
        synth::symtab::write(image, self.symbols, self.strings, self.extended);
    }
}

/// Fills one output section.
pub fn write_chunk<T: Target>(link: &Placed<'_, T>, id: ChunkId, out: &mut [u8]) {
    let chunk = &link.layout.chunks[id.index()];
    write_items(link, chunk, &chunk.items, 0, out);
    for data in &chunk.data {
        if let Some(place) =
            out.get_mut(data.offset as usize..).and_then(|rest| rest.get_mut(..data.bytes.len()))
        {
            place.copy_from_slice(&data.bytes);
        }
    }
}

/// Below this many items and bytes, a slice is one thread's work.
const MIN_ITEMS: usize = 32;
const MIN_BYTES: usize = 256 << 10;

/// Fills `out`, which starts at offset `base` of the chunk, with `items` and the gaps between them.
fn write_items<T: Target>(
    link: &Placed<'_, T>,
    chunk: &Chunk<'_>,
    items: &[SectionId],
    base: u64,
    out: &mut [u8],
) {
    if items.len() >= 2 && (items.len() > MIN_ITEMS || out.len() > MIN_BYTES) {
        let middle = items.len() / 2;
        let split = link.places.offset[items[middle].index()];
        if let Some((left, right)) =
            split.checked_sub(base).and_then(|at| out.split_at_mut_checked(at as usize))
        {
            rayon::join(
                || write_items(link, chunk, &items[..middle], base, left),
                || write_items(link, chunk, &items[middle..], split, right),
            );
            return;
        }
    }
    let mut position = base;
    for &item in items {
        let start = link.places.offset[item.index()];
        let size = link.section_size(item);
        fill_gap::<T>(chunk, position, slice_of(out, base, position, start.saturating_sub(position)));
        write_section(link, item, slice_of(out, base, start, size));
        position = start + size;
    }
    let end = base + out.len() as u64;
    fill_gap::<T>(chunk, position, slice_of(out, base, position, end.saturating_sub(position)));
}

/// Bytes `start..start + size` of the chunk, as far as they lie in `out`.
fn slice_of(out: &mut [u8], base: u64, start: u64, size: u64) -> &mut [u8] {
    let from = (start - base).min(out.len() as u64) as usize;
    let to = (start - base).saturating_add(size).min(out.len() as u64) as usize;
    &mut out[from..to]
}

/// Fills `out`, a gap that starts at `offset` of the chunk: with the script's pattern, else with
/// no-operation instructions between code and zeros between data.
fn fill_gap<T: Target>(chunk: &Chunk<'_>, offset: u64, out: &mut [u8]) {
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
            _ if chunk.flags & u64::from(elf::SHF_EXECINSTR) != 0 => fill_code(T::CODE_FILL, part),
            _ => {}
        }
        position = stop;
    }
}

/// Fills with copies of a pattern, each time of all that is there.
fn repeat(pattern: &[u8], out: &mut [u8]) {
    let mut filled = pattern.len().min(out.len());
    out[..filled].copy_from_slice(&pattern[..filled]);
    while filled < out.len() {
        let count = filled.min(out.len() - filled);
        out.copy_within(..count, filled);
        filled += count;
    }
}

/// Fills with no-operation instructions, the n-th of which has n bytes; without any, the zeros
/// stay.
fn fill_code(instructions: &[&[u8]], out: &mut [u8]) {
    let Some(longest) = instructions.last() else { return };
    for part in out.chunks_mut(longest.len()) {
        part.copy_from_slice(instructions[part.len() - 1]);
    }
}

fn write_section<T: Target>(link: &Placed<'_, T>, id: SectionId, out: &mut [u8]) {
    let Some((object, index)) = link.locate(id) else {
        return synth::write(link, id, out);
    };
    let class = link.class_of(id);
    if class.contains(SectionClass::NOBITS) || link.sections.is(id, SectionState::ABSORBED) {
        return;
    }
    // Broken ones were reported when the object was indexed.
    let contents = object.section_bytes(index as usize).unwrap_or_default();
    let size = contents.len().min(out.len());
    out[..size].copy_from_slice(&contents[..size]);
    if class.contains(SectionClass::SFRAME) {
        if !link.config.is_relocatable() {
            relocs::apply::apply_section(link, id, &mut out[..size]);
        }
        sframe_output::concat::mend(link, id, &mut out[..size]);
    } else if link.config.is_relocatable() {
        relocs::emit::bury(link, id, out);
        relocs::emit::write_addends(link, id, out);
    } else {
        relocs::apply::apply_section(link, id, out);
        synth::thunks::move_away(link, id, out);
    }
}
