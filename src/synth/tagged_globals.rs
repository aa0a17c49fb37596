//! `.memtag.globals.dynamic`: which memory the dynamic linker tags before the program runs (Memtag ABI,
//! "Tagging Global Variables").
//!
//! Each tagged variable is a number in ULEB128: in the lower three bits its size, and above them the distance
//! from the end of the variable before, both in granules of 16 bytes. A variable of eight granules or more
//! has 0 in these bits, and one less than its size follows as a number of its own:
//!
//! ```text
//! 0x30530, 16 bytes   0x3053 << 3 | 1   99 85 06
//! 0x30540, 32 bytes        0 << 3 | 2   02
//! 0x30570, 160 bytes       1 << 3 | 0   08 09
//! ```
//!
//! How long the numbers are depends on the addresses, so the rounds of the layout ask for the size. If a
//! round leaves too much room, some numbers are written longer than they need to be.

use super::interp;
use super::synthesis::{Create, Grow, Size, Synthesis, Write, bytes};
use crate::arch::Target;
use crate::diag::{Code, Diagnostic, Location};
use crate::ids::FileId;
use crate::input::object::SymbolPlace;
use crate::phase::{Inputs, Located, Placed};
use crate::relocs::address;
use crate::tables::section::{Kind, READ_ONLY, SyntheticSection};

/// Memory is tagged in granules of so many bytes.
pub const GRANULE: u64 = 16;

/// So many bits of a distance hold the size.
const SIZE_BITS: u32 = 3;

/// The most bytes of a number. They hold any distance of granules, and readers take as many.
const MAX_BYTES: usize = 9;

/// `.memtag.globals.dynamic`.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            let name = b".memtag.globals.dynamic";
            let tagging = T::MEMORY_TAGS.filter(|_| may_have(link));
            let section = |table| SyntheticSection::new(Kind::TaggedGlobals, name, table, READ_ONLY, 4);
            tagging.map(|tagging| section(tagging.table)).into()
        }),
        size: Size::Numbered(|link| bytes(link.tagged.all().len().min(1) as u64)),
        grow: Grow::Symbols(|link| {
            let numbers = numbers(&stretches(link));
            (!numbers.is_empty()).then(|| numbers.iter().map(|&number| length(number) as u64).sum())
        }),
        write: Write::Bytes(|link, _, out| {
            check(link);
            write(&numbers(&stretches(link)), out);
        }),
    }
}

/// Whether this kind of output may have tagged globals: a dynamic linker must tag them, and put their tags
/// into the GOT.
fn may_have<T: Target>(link: &Inputs<'_, T>) -> bool {
    link.config.notes.memory_tags.mode.is_some()
        && link.mode.position_independent
        && (link.config.is_shared() || interp::is_wanted(link))
}

/// The memory of the tagged globals: addresses and sizes in bytes, in ascending order. Several names of one
/// variable make one stretch.
fn stretches<T: Target>(link: &Located<'_, T>) -> Vec<(u64, u64)> {
    let globals = link.tagged.all();
    join(globals.iter().map(|global| (address::value(link, global.symbol), global.size)).collect())
}

fn join(mut places: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    places.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::with_capacity(places.len());
    for (start, size) in places {
        match joined.last_mut() {
            Some((before, length)) if start - *before < *length => {
                *length = (*length).max((start - *before).saturating_add(size));
            }
            _ => joined.push((start, size)),
        }
    }
    joined
}

/// The numbers that describe stretches of memory.
fn numbers(stretches: &[(u64, u64)]) -> Vec<u64> {
    let mut numbers = Vec::with_capacity(stretches.len());
    let mut end = 0;
    for &(start, size) in stretches {
        let distance = (start.saturating_sub(end) / GRANULE) << SIZE_BITS;
        let granules = size / GRANULE;
        if granules < 1 << SIZE_BITS {
            numbers.push(distance | granules);
        } else {
            numbers.extend([distance, granules - 1]);
        }
        end = start.saturating_add(size);
    }
    numbers
}

/// How many bytes a number needs in ULEB128 (DWARF 5, 7.6).
fn length(number: u64) -> usize {
    ((64 - number.leading_zeros()).div_ceil(7).max(1)) as usize
}

/// Writes numbers. The first ones take the room that is left.
fn write(numbers: &[u64], out: &mut [u8]) {
    let needed: usize = numbers.iter().map(|&number| length(number)).sum();
    let mut spare = out.len().saturating_sub(needed);
    let mut rest = out;
    for &number in numbers {
        let longer = spare.min(MAX_BYTES.saturating_sub(length(number)));
        spare -= longer;
        let Some((place, after)) = rest.split_at_mut_checked(length(number) + longer) else { return };
        let last = place.len() - 1;
        for (at, byte) in place.iter_mut().enumerate() {
            let bits = number.checked_shr(7 * at as u32).unwrap_or(0) as u8 & 0x7f;
            *byte = if at < last { bits | 0x80 } else { bits };
        }
        rest = after;
    }
}

/// Where an object defines a variable, for messages.
pub fn home<T: Target>(link: &Inputs<'_, T>, definition: Option<(FileId, u32)>) -> Location {
    let Some((file, symbol)) = definition else { return Location::File("<internal>".to_owned()) };
    let object = &link.objects[file.index()];
    let name = object.name.to_string();
    match object.symbol_place(symbol as usize) {
        SymbolPlace::Section(section) => Location::Section {
            file: name,
            section: object.section_name_lossy(section as usize),
            offset: object.symbols[symbol as usize].st_value.get(),
        },
        _ => Location::File(name),
    }
}

/// Reports variables that do not begin with a granule.
fn check<T: Target>(link: &Placed<'_, T>) {
    for id in link.tagged.all().iter().map(|global| global.symbol) {
        let at = address::value(link, id);
        if !at.is_multiple_of(GRANULE) {
            let name = link.symbol_text(id);
            let message =
                format!("the tagged variable {name} is at {at:#x}, expected a multiple of {GRANULE}");
            let help = format!("align it to {GRANULE} bytes where it is defined, or do not tag it");
            link.sink.report(
                Diagnostic::error(Code::MalformedInput, message)
                    .at(home(link, link.symbol_entry(id)))
                    .help(help),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads numbers as a dynamic linker does.
    fn read(bytes: &[u8]) -> Vec<u64> {
        let (mut numbers, mut number, mut shift) = (Vec::new(), 0, 0);
        for byte in bytes {
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                numbers.push(number);
                (number, shift) = (0, 0);
            }
        }
        numbers
    }

    #[test]
    fn descriptors_are_those_of_the_specification() {
        let numbers = numbers(&[(0x30530, 16), (0x30540, 32), (0x30570, 160)]);
        let mut out = [0; 6];
        write(&numbers, &mut out);
        assert_eq!(out, [0x99, 0x85, 0x06, 0x02, 0x08, 0x09]);
    }

    #[test]
    fn room_that_is_left_changes_no_number() {
        let numbers = [0, 0x7f, 0x80, (1 << 63) - 1, 5];
        let needed: usize = numbers.iter().map(|&number| length(number)).sum();
        for spare in 0..=8 + 8 + 7 + 8 {
            let mut out = vec![0xee; needed + spare];
            write(&numbers, &mut out);
            assert_eq!(read(&out), numbers, "{spare}");
        }
    }

    #[test]
    fn names_of_one_variable_are_tagged_once() {
        let places = vec![(0x40, 0x10), (0x10, 0x20), (0x10, 0x10), (0x20, 0x20), (0x50, 0x10)];
        assert_eq!(join(places), [(0x10, 0x30), (0x40, 0x10), (0x50, 0x10)]);
    }
}
