//! The one blob that the linker makes of SFrame inputs and derived functions: `.sframe_idx` of
//! `--sframe-index`, `.sframe` of `--sframe=merge`, or one more blob in a concat link.
//!
//! `passes::build_sframe` has chosen the functions. [`order`] sorts them when addresses are known, and
//! [`write()`] copies them.
//!
//! Under `-r` there are no addresses. The linker orders rows by output section and offset, leaves the start
//! fields 0, and writes one PC-relative relocation for each ([`relocations`]). `--emit-relocs` gives the same
//! relocations in a final link. A compact table has none.

use crate::arch::Target;
use crate::diag::{Code, Diagnostic};
use crate::elf::Rela;
use crate::elf::consts as elf;
use crate::ids::ChunkId;
use crate::phase::{Arranged, Placed, Resolved};
use crate::region::Region;
use crate::sframe::collect::{Batch, Chosen, Ordered, Place, Table};
use crate::sframe::{abi, encoding};
use crate::tables::section::Kind;
use parallel::{IntoParallel, ParallelSort, join};
use sframe_format::write::{Encoder, FunctionId};
use sframe_format::{ErrorKind, HEADER_SIZE};
use zerocopy::byteorder::{I64, U64};

/// All batches. Those of inputs come first.
pub fn batches<'l, T: Target>(link: &'l Arranged<'_, T>) -> impl Iterator<Item = &'l Batch> {
    link.described.batches.iter().chain(&link.chosen.plts)
}

/// The smallest number of functions for one job of sorting.
const FUNCTIONS_PER_JOB: usize = 4096;

/// Sorts the functions by address, or under `-r` by output section and offset. Addresses must be final.
pub fn order<T: Target>(link: &Arranged<'_, T>) -> Ordered {
    let Some(table) = &link.chosen.table else { return Ordered::default() };
    let address = |Place { section, offset }: Place| {
        let start = if link.config.is_relocatable() {
            link.layout.offset_of(section)
        } else {
            link.section_address(section)
        };
        start.wrapping_add(offset)
    };
    // PLTs mostly stand before the code of inputs.
    let (of_inputs, of_plts) = (table.of_inputs, table.settled - table.of_inputs);
    let number = |at: usize| match at {
        at if at < of_plts => of_inputs + at,
        at if at < table.settled => at - of_plts,
        at => at,
    };
    let functions = (0..table.functions.len()).into_par_iter().with_min_len(FUNCTIONS_PER_JOB).map(number);
    let functions =
        functions.map(|number| (address(table.functions[number].place), FunctionId(number as u32)));
    let mut functions: Vec<(u64, FunctionId)> = functions.collect();
    if !link.config.is_relocatable() {
        // Otherwise, the table is in the order of input sections, which mostly is the order of addresses.
        if !functions.is_sorted() {
            functions.par_sort_unstable();
        }
        return Ordered { functions, sorted: true };
    }
    let chunk = |&(_, id): &(u64, FunctionId)| {
        let section = table.functions[id.0 as usize].place.section;
        link.layout.chunk_with(section).map_or(u32::MAX, ChunkId::number)
    };
    functions.par_sort_by_key(|function| (chunk(function), *function));
    let sorted = functions.first().map(chunk) == functions.last().map(chunk);
    Ordered { functions, sorted }
}

/// Number of FDEs that one job writes. So few stay in the processor's cache.
const FDES_PER_JOB: usize = 1 << 13;

/// Writes the section, which is at `address`.
pub fn write<T: Target>(link: &Placed<'_, T>, address: u64, out: Region<'_>) {
    // A table without functions has size 0, not even a header.
    let Some(table) = link.chosen.table.as_ref().filter(|table| table.size() > 0) else { return };
    let internal =
        |what: String| link.sink.report(Diagnostic::error(Code::Internal, format!("SFrame index: {what}")));
    let (size, expected) = (out.len(), table.encoder.size_with(link.frame_order.functions.len()) as u64);
    if size != expected {
        return internal(format!("the layout has {size} bytes for it, expected {expected}"));
    }
    match write_parts(link, &table.encoder, address, out).map_err(|error| error.kind) {
        Ok(()) => {}
        Err(ErrorKind::StartRange { .. }) => report_reach(link, table, address),
        Err(kind) => internal(kind.to_string()),
    }
}

fn write_parts<T: Target>(
    link: &Placed<'_, T>,
    encoder: &Encoder,
    address: u64,
    mut out: Region<'_>,
) -> Result<(), sframe_format::Error> {
    let functions = &link.frame_order.functions[..];
    let address = (!link.config.is_relocatable()).then_some(address);
    let ids = functions.iter().map(|&(_, id)| id);
    // A reader that looks at one blob takes a sorted blob for the whole section (SFrame rule 4).
    let header = encoder.header(ids, link.frame_order.sorted && is_alone(link))?;
    out.take_first(header.len() as u64).store(&header);
    let width = encoder.options().version.fde_size() as u64;
    let parts: Vec<_> = functions
        .chunks(FDES_PER_JOB)
        .zip((0..).step_by(FDES_PER_JOB))
        .map(|(part, first)| (first, part, out.take_first(part.len() as u64 * width)))
        .collect();
    let ((), written) = join(
        || out.store(encoder.rows()),
        || {
            let write = |(first, part, out): (usize, &[(u64, FunctionId)], Region<'_>)| {
                out.fill_all(|out, _| encoder.write_fdes(address, first, part.iter().copied(), out))
            };
            // The linker writes all parts, even if functions of one part are out of reach.
            parts.into_par_iter().map(write).reduce(|| Ok(()), Result::and)
        },
    );
    written
}

/// Whether the table is alone in its output section.
fn is_alone<T: Target>(link: &Placed<'_, T>) -> bool {
    let chunk = link.chunk_of(Kind::SFrame).and_then(|chunk| link.layout.chunks.get(chunk.index()));
    chunk.is_some_and(|chunk| chunk.items.len() == 1)
}

/// The largest number of functions that one message names.
const MAX_NAMED: usize = 5;

/// Reports the functions that 32-bit start fields do not reach.
fn report_reach<T: Target>(link: &Placed<'_, T>, table: &Table, address: u64) {
    let width = encoding::<T>(link.config).version.fde_size() as u64;
    let mut far = Vec::new();
    for (row, &(function, id)) in (0..).zip(&link.frame_order.functions) {
        let field = address.wrapping_add(HEADER_SIZE as u64 + row * width);
        let distance = function.wrapping_sub(field) as i64;
        if i32::try_from(distance).is_err() {
            far.push((table.functions[id.0 as usize].place, function));
        }
    }
    let Some(&(first, at)) = far.first() else { return };
    let mut diagnostic = Diagnostic::error(
        Code::RelocationOverflow,
        format!(
            "function {} at {at:#x} is out of reach of SFrame V2: it is more than 2 GiB away from the section at \
             {address:#x}",
            describe(link, first)
        ),
    );
    for &(place, at) in far.iter().take(MAX_NAMED).skip(1) {
        diagnostic = diagnostic.note(format!("so is {} at {at:#x}", describe(link, place)));
    }
    if far.len() > MAX_NAMED {
        diagnostic = diagnostic.note(format!("and {} more", far.len() - MAX_NAMED));
    }
    link.sink.report_recoverable(diagnostic.help("--sframe-version=3 has no such limit"));
}

/// The function's name, if it has a symbol, and its place.
pub fn describe<T: Target>(link: &Resolved<'_, T>, place: Place) -> String {
    let text = link.describe_place(place.section, place.offset);
    let Some((object, index)) = link.locate(place.section) else { return text };
    let named = object.symbols.iter().enumerate().find(|(number, symbol)| {
        symbol.kind() == elf::STT_FUNC
            && symbol.st_value.get() == place.offset
            && object.symbol_place(*number) == crate::input::object::SymbolPlace::Section(index)
    });
    match named {
        Some((number, _)) => format!("{} ({text})", link.name_text(object.symbol_name(number))),
        None => text,
    }
}

/// Number of relocations of the section under `-r` and `--emit-relocs`.
pub fn relocation_count(chosen: &Chosen) -> u32 {
    let table = chosen.table.as_ref().filter(|_| chosen.compact.is_none());
    table.map_or(0, |table| table.settled as u32)
}

/// Writes one relocation for each function except thunks, for which `--emit-relocs` writes none elsewhere
/// either. Offsets count from `base`: the section's address, or its offset in its output section.
pub fn relocations<T: Target>(link: &Placed<'_, T>, base: u64, out: &mut [Rela<T::E>]) {
    let Some(table) = link.chosen.table.as_ref().filter(|_| link.chosen.compact.is_none()) else { return };
    let version = encoding::<T>(link.config).version;
    let kind = abi::<T>().start_relocation(version);
    let rows = (0..).zip(&link.frame_order.functions).filter(|(_, (_, id))| (id.0 as usize) < table.settled);
    for (place, (row, &(_, id))) in out.iter_mut().zip(rows) {
        let Place { section, offset } = table.functions[id.0 as usize].place;
        let chunk = link.layout.chunk_with(section);
        let symbol =
            chunk.and_then(|chunk| link.symtab.section_symbol.get(chunk.index()).copied()).unwrap_or(0);
        let addend = link.layout.offset_of(section).wrapping_add(offset);
        let field = HEADER_SIZE as u64 + row * version.fde_size() as u64;
        *place = Rela {
            r_offset: U64::new(base.wrapping_add(field)),
            r_info: U64::new(u64::from(symbol) << 32 | u64::from(kind)),
            r_addend: I64::new(addend as i64),
        };
    }
}
