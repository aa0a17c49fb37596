//! `--sframe-index=compact`: writes the functions of the linker's table as `.sframe_compact`
//! ([`sframe_format::compact`]).
//!
//! Only the pages and regions of such a table depend on addresses, so the linker makes its shapes when it
//! chooses the functions. The number of pages depends on the extent of the code, and the table's size moves
//! what lies behind it. So the loop of the layout makes room for the pages of every output section with code,
//! and never shrinks the section: a section that could shrink might make the loop go on forever. Room that
//! the table does not need in the end holds zeros.

use super::table::describe;
use crate::arch::Target;
use crate::cli::{Config, SFrameIndex};
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::phase::{Geometry, Inputs, Placed};
use crate::rows::AllThreads;
use crate::sframe::collect::{Chosen, Compact, Table};
use hashbrown::HashMap;
use parallel::IntoParallel;
use sframe_format::compact::{Builder, Joined, Pages, ShapeId, join};
use sframe_format::write::{Encoder, FunctionId};
use sframe_format::{Blob, ErrorKind};
use std::ops::Range;

/// The smallest number of functions for one job.
const BLOCK: u32 = 1 << 12;

/// Whether the link makes a compact table.
pub fn is_wanted(config: &Config) -> bool {
    config.sframe.index == Some(SFrameIndex::Compact)
}

/// The compact form of a table's functions.
///
/// # Errors
/// There are too many different functions.
pub fn of_table(table: &Table) -> Result<Compact, String> {
    // Reads the rows back from a blob. Functions with equal rows share their bytes there, so a block reads
    // most of its rows once.
    let mut rows = vec![0; table.encoder.size_with(0)];
    let malformed = |error: sframe_format::Error| error.to_string();
    table.encoder.write_relocatable(&[], false, &mut rows).map_err(malformed)?;
    let blob = Blob::parse(&rows, 0).map_err(malformed)?;
    let count = table.functions.len() as u32;
    // The number of blocks may depend on the number of threads: what is joined has its numbers by first use,
    // so the result does not.
    let size = BLOCK.max(count.div_ceil(rayon_core::current_num_threads() as u32));
    let blocks = (0..count.div_ceil(size).max(1)).into_par_iter().map(|block| {
        let functions = block * size..count.min((block + 1) * size);
        of_functions(&table.encoder, &blob, functions)
    });
    let blocks: Result<Vec<_>, String> = blocks.collect().into_iter().collect();
    let (builders, own): (Vec<_>, Vec<_>) = blocks?.into_iter().unzip();
    let uses = || (0..).zip(&own).flat_map(|(block, own)| own.iter().map(move |&own| (block, own)));
    let joined = join(&builders, uses(), &AllThreads).ok_or("there is no block of functions")?;
    let Joined { collected, numbers, .. } = joined;
    let shapes_of: Vec<ShapeId> = uses().map(|(block, own)| numbers[block][own.0 as usize]).collect();
    let shapes = collected.finish().map_err(|reason| reason.to_string())?;
    let entries = shapes_of.iter().map(|&shape| shapes.entries(shape)).sum();
    Ok(Compact { shapes, shapes_of, entries })
}

/// The shapes of a block of functions. The blob holds their rows.
fn of_functions(
    encoder: &Encoder,
    blob: &Blob<'_>,
    functions: Range<u32>,
) -> Result<(Builder, Vec<ShapeId>), String> {
    let mut builder = Builder::new(encoder.options().abi);
    builder.reserve(functions.len());
    let mut known: HashMap<(u32, u32), ShapeId> = HashMap::with_capacity(functions.len());
    let mut shapes = Vec::with_capacity(functions.len());
    for fde in functions.filter_map(|number| encoder.fde(FunctionId(number))) {
        let shape = match known.get(&(fde.fre_offset, fde.size)) {
            Some(&shape) => shape,
            None => {
                let added = builder.add_encoded(blob, &fde).map_err(|error| error.to_string())?;
                let shape = added.map_err(|reason| reason.to_string())?;
                known.insert((fde.fre_offset, fde.size), shape);
                shape
            }
        };
        shapes.push(shape);
    }
    Ok((builder, shapes))
}

/// A first estimate of the section's size in bytes, as if all code were contiguous.
pub fn first_guess(compact: &Compact, table: &Table) -> u64 {
    if table.functions.is_empty() {
        return 0;
    }
    let code: u64 = table.functions.iter().map(|function| u64::from(function.size)).sum();
    compact.shapes.size(Pages::of_ranges(std::iter::once(0..code)), compact.entries)
}

/// The size in bytes that the pages of the code need as it lies now. Functions that were added get their
/// shapes first.
pub fn needed_size<T: Target>(link: &Geometry<'_, T>, chosen: &mut Chosen) -> Option<u64> {
    let table = chosen.table.as_ref().filter(|table| !table.functions.is_empty())?;
    let compact = chosen.compact.as_mut()?;
    if compact.shapes_of.len() < table.functions.len() {
        match of_table(table) {
            Ok(remade) => *compact = remade,
            Err(reason) => {
                report(link, &reason);
                return None;
            }
        }
    }
    let code = link.layout.chunks.iter().filter(|chunk| chunk.flags & elf::SHF_EXECINSTR != 0);
    let ranges = code.map(|chunk| chunk.address..chunk.address.saturating_add(chunk.size));
    Some(compact.shapes.size(pages_of(link, table, ranges.collect()), compact.entries))
}

/// The pages for these ranges of executable output sections, and for output sections that are not executable
/// and hold functions nevertheless.
fn pages_of<T: Target>(link: &Geometry<'_, T>, table: &Table, mut ranges: Vec<Range<u64>>) -> Pages {
    let mut last = None;
    for function in &table.functions {
        let section = function.place.section;
        if last.replace(section) == Some(section) {
            continue;
        }
        let Some(chunk) = link.layout.chunk_with(section) else { continue };
        let chunk = &link.layout.chunks[chunk.index()];
        let range = chunk.address..chunk.address.saturating_add(chunk.size);
        if chunk.flags & elf::SHF_EXECINSTR == 0 && !ranges.contains(&range) {
            ranges.push(range);
        }
    }
    Pages::of_ranges(ranges)
}

/// Writes the section, which is at `address`.
pub fn write<T: Target>(link: &Placed<'_, T>, compact: &Compact, address: u64, out: &mut [u8]) {
    let ordered = &link.frame_order.functions;
    let mut functions: Vec<(u64, ShapeId)> = Vec::with_capacity(ordered.len());
    functions.extend(
        ordered.iter().filter_map(|&(address, id)| Some((address, *compact.shapes_of.get(id.0 as usize)?))),
    );
    let Err(error) = compact.shapes.write(address, &functions, out) else { return };
    let (ErrorKind::CompactOrder { .. }, Some(table)) = (error.kind, &link.chosen.table) else {
        return report(link, &error.kind.to_string());
    };
    let double = link.frame_order.functions.windows(2).find(|pair| pair[0].0 == pair[1].0);
    let Some(&[(at, first), (_, second)]) = double.and_then(|pair| pair.first_chunk()) else { return };
    let place = |id: FunctionId| describe(link, table.functions[id.0 as usize].place);
    link.sink.report_recoverable(
        Diagnostic::error(
            Code::LayoutError,
            format!("two functions at {at:#x} cannot be in one compact table"),
        )
        .note(format!("one is {}", place(first)))
        .note(format!("the other is {}", place(second)))
        .help("--sframe-index=v3 takes both"),
    );
}

fn report<T: Target>(link: &Inputs<'_, T>, reason: &str) {
    link.sink.report(Diagnostic::error(Code::LayoutError, format!("compact table: {reason}")));
}
