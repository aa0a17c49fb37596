//! `.sframe_unwind`: a compact table of version 2, which stands for `.eh_frame` (`--unwind-table`).
//!
//! [`crate::frames::unwind_table`] made the shapes before there were addresses. Pages, and the distances to
//! language-specific data, depend on addresses, so each round of the layout computes the table's size anew.
//! The section never shrinks; room that the table does not need in the end holds zeros.

use super::eh_frame_hdr::code_address;
use super::synthesis::{Create, Grow, Size, Synthesis, Write, bytes};
use crate::arch::Target;
use crate::cli::UnwindTableMode;
use crate::diag::{Code, Diagnostic};
use crate::elf::{Rela, consts as elf};
use crate::frames::UnwindTable;
use crate::frames::unwind_table::{Encoded, NOWHERE, PersonalityOf, TabledFunction};
use crate::phase::{Inputs, Located};
use crate::relocs::address::{of_synthetic, target};
use crate::tables::section::{Kind, READ_ONLY, SyntheticSection, WORD};
use parallel::{ParallelSlice, ParallelSort};
use sframe_format::compact::{PAGE, Pages, Personality, PlacedFunction, PlacedHandler, WHOLE_SECTION_NAME};
use std::sync::Arc;

/// How functions are aligned, for a first estimate of the size.
const ALIGNMENT: u64 = 16;

/// For the same: the part of all code that may lie between functions.
const BETWEEN: u64 = 64;

/// `.sframe_unwind`.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| section(link).into()),
        size: Size::Numbered(|link| bytes(link.unwind_table.as_ref().map_or(0, first_guess))),
        grow: Grow::Symbols(|link| {
            let table = link.unwind_table.as_ref()?;
            let address = of_synthetic(link, Kind::UnwindTable);
            // Errors are reported when the table is written.
            let encoded = encode(link, table, address).ok();
            let size = encoded.as_ref().map_or(0, |encoded| encoded.bytes.len() as u64);
            table.encoded.put(encoded);
            Some(size)
        }),
        write: Write::Bytes(|link, section, out| {
            let Some(table) = &link.unwind_table else { return };
            match last_encoded(link, table, link.section_address(section.id)) {
                Ok(Encoded { bytes, .. }) if bytes.len() <= out.len() => {
                    let (used, rest) = out.split_at_mut(bytes.len());
                    used.copy_from_slice(&bytes);
                    rest.fill(0);
                }
                Ok(Encoded { bytes, .. }) => report(
                    link,
                    &format!("it has {} bytes, and there is room for {}", bytes.len(), out.len()),
                ),
                Err(error) => report(link, &error.kind.to_string()),
            }
        }),
    }
}

fn report<T: Target>(link: &Inputs<'_, T>, what: &str) {
    link.sink.report(
        Diagnostic::error(Code::LayoutError, format!("the unwind table cannot be written: {what}"))
            .help("--unwind-table=none keeps .eh_frame"),
    );
}

/// The section, if an option asks for it. [`super::debug_frame`] goes with it.
fn section<'a, T: Target>(link: &Inputs<'a, T>) -> Option<SyntheticSection<'a>> {
    link.config.unwind.table?;
    let name = WHOLE_SECTION_NAME.as_bytes();
    Some(SyntheticSection::new(Kind::UnwindTable, name, elf::SHT_PROGBITS, READ_ONLY, WORD))
}

/// Whether FDEs leave `.eh_frame`.
pub fn replaces<T: Target>(link: &Inputs<'_, T>) -> bool {
    link.config.unwind.table == Some(UnwindTableMode::Replace)
}

/// A first estimate of the size, as if all functions lay behind each other, with some room between them: code
/// without an FDE, larger alignment, a page that starts before the first function. Mostly that is enough, and
/// at most some pages too much. A round of the layout costs more than these: it encodes the whole table.
fn first_guess(table: &UnwindTable) -> u64 {
    let code = table.functions.iter().map(|function| u64::from(function.size).next_multiple_of(ALIGNMENT));
    let code: u64 = code.sum();
    let pages = Pages::of_ranges(std::iter::once(0..code + code / BETWEEN + PAGE));
    let functions = table.functions.iter().map(|function| (function.shape, function.personality.is_some()));
    table.shapes.size(pages, table.personalities.len() as u32, functions)
}

/// The table for a section at `address`. Mostly, the last round of the layout has encoded it. If a section
/// had grown after that, there would have been another round.
fn last_encoded<T: Target>(
    link: &Located<'_, T>,
    table: &UnwindTable,
    address: u64,
) -> Result<Encoded, sframe_format::Error> {
    let Some(last) = table.encoded.get(address) else { return encode(link, table, address) };
    debug_assert!(
        encode(link, table, address)
            .is_ok_and(|other| (other.bytes, other.code) == (last.bytes.clone(), last.code.clone()))
    );
    Ok(last)
}

/// Where the code of the table's functions is, if the last round of the layout has noted it.
pub fn code_of<T: Target>(link: &Located<'_, T>, table: &UnwindTable) -> Option<Arc<Vec<u64>>> {
    Some(table.encoded.get(of_synthetic(link, Kind::UnwindTable))?.code)
}

/// Encodes the table.
fn encode<T: Target>(
    link: &Located<'_, T>,
    table: &UnwindTable,
    address: u64,
) -> Result<Encoded, sframe_format::Error> {
    let addresses = table
        .functions
        .par_iter()
        .map(|function| code_address(link, function.file, relocations_of(link, function)).unwrap_or(NOWHERE));
    let addresses: Vec<u64> = addresses.collect();
    let data = table.functions.par_iter().map(|function| data_of(link, function));
    let data: Vec<Option<u64>> = data.collect();
    let order = order(&addresses);
    let personalities: Vec<Personality> =
        table.personalities.iter().map(|personality| routine(link, personality)).collect();
    let bytes = table.shapes.to_bytes_of(address, &personalities, order.len(), |place| {
        let at = order[place] as usize;
        let TabledFunction { shape, personality, .. } = table.functions[at];
        let handler = personality.map(|personality| PlacedHandler { personality, lsda: data[at] });
        PlacedFunction { address: addresses[at], shape, handler }
    })?;
    Ok(Encoded { address, bytes: Arc::new(bytes), code: Arc::new(addresses) })
}

/// The places of functions that are in the output, in the order of their addresses. Of two at one address,
/// the first counts, as in `.eh_frame_hdr`.
fn order(addresses: &[u64]) -> Vec<u32> {
    let known = || addresses.iter().copied().filter(|&address| address < NOWHERE);
    let least = known().min().unwrap_or(0);
    let places = (0..).zip(addresses).filter(|&(_, &address)| address < NOWHERE);
    if known().max().is_some_and(|most| most - least > u64::from(u32::MAX)) {
        return sorted(places.map(|(place, &address)| (address, place)).collect(), |key| key);
    }
    // Numbers are sorted much faster than pairs.
    let keys = places.map(|(place, address)| (address - least) << 32 | u64::from(place));
    sorted(keys.collect(), |key| (key >> 32, key as u32))
}

/// The places in keys, which hold an address and a place, in their order.
fn sorted<K: Ord + Copy + Send + Sync>(mut keys: Vec<K>, parts: impl Fn(K) -> (u64, u32)) -> Vec<u32> {
    // Mostly, functions lie in the order of their objects.
    if !keys.is_sorted() {
        keys.par_sort_unstable();
    }
    keys.dedup_by_key(|&mut key| parts(key).0);
    keys.into_iter().map(|key| parts(key).1).collect()
}

/// The relocations of a function's FDE.
fn relocations_of<'r, T: Target>(link: &'r Located<'_, T>, function: &TabledFunction) -> &'r [Rela<T::E>] {
    let frames = &link.frames.files[function.file.index()];
    frames.section_of_fde(function.fde).relocations_of_fde(&frames.fdes[function.fde as usize])
}

/// The address of a function's language-specific data, if it has a handler.
fn data_of<T: Target>(link: &Located<'_, T>, function: &TabledFunction) -> Option<u64> {
    function.personality?;
    // The first relocation is that of the code.
    let relocation = relocations_of(link, function).get(1)?;
    let object = &link.objects[function.file.index()];
    let index = relocation.symbol();
    Some(target(link, object, index, object.symbol_id(index), relocation.r_addend.get()))
}

/// The address of a personality routine, or of a pointer to it.
fn routine<T: Target>(link: &Located<'_, T>, personality: &PersonalityOf) -> Personality {
    let frames = &link.frames.files[personality.file.index()];
    let cie = &frames.cies[personality.cie as usize];
    let relocation = frames.section_of_cie(personality.cie).relocations.get(cie.first_relocation as usize);
    let address = relocation.map_or(0, |relocation| {
        let object = &link.objects[personality.file.index()];
        let index = relocation.symbol();
        target(link, object, index, object.symbol_id(index), relocation.r_addend.get())
    });
    Personality { address, indirect: personality.indirect }
}

#[cfg(test)]
mod tests {
    use super::{NOWHERE, order};

    #[test]
    fn functions_are_in_the_order_of_their_addresses() {
        for step in [1, 16, 1 << 31, 1 << 40] {
            let addresses =
                [7, 2, NOWHERE, 9, 2, 0, 7].map(|at| if at == NOWHERE { at } else { 5 + at * step });
            assert_eq!(order(&addresses), [5, 1, 0, 3], "{step}");
        }
        assert_eq!(order(&[1, 3, 3, 8]), [0, 1, 3]);
        assert_eq!(order(&[NOWHERE; 2]), [0; 0]);
        assert_eq!(order(&[]), [0; 0]);
    }
}
