//! `-z rewrite-endbr`: finds the functions that no indirect branch enters.
//!
//! With indirect branch tracking, a processor lets indirect calls and jumps land only where an instruction
//! says so (`endbr64`). Compilers begin every function with it that another file might call by a pointer. The
//! linker sees all files, so it knows the functions that are only ever called by name, and takes the
//! instruction from them: an attacker who overwrites a pointer then has fewer places to go.
//!
//! An indirect branch needs an address, so every function keeps its instruction whose address is anywhere but
//! in a direct branch: in data, in the GOT, in an instruction that loads it, in a table for other modules, as
//! the program's entry. Compilers load addresses of functions in the same section without a relocation, and
//! the bytes of the code tell that ([`Target::own_addresses`]). Only what data in the middle of code says in
//! numbers of its own stays unseen; no compiler calls functions by such numbers.

use crate::arch::relocation::{LONGEST_TAIL, SymbolFacts};
use crate::arch::{RelocBase, RelocExpr, Target};
use crate::elf::consts as elf;
use crate::ids::SectionId;
use crate::input::object::SymbolPlace;
use crate::input::{ObjectFile, SectionClass};
use crate::phase::{Placed, SectionState};
use crate::relocs::address;
use crate::relocs::walk::{Decided, Undecided, Visitor, Walk};
use crate::symbols::SymbolFlags;
use parallel::{ParallelSlice, ParallelSort};
use std::ops::RangeInclusive;

/// Finds the instructions to take away, if the option is given ([`Placed::unused_pads`]).
pub fn run<T: Target>(mut link: Placed<'_, T>) -> Placed<'_, T> {
    if let (true, Some(pad)) = (link.config.relocations.rewrite_landing_pads, T::LANDING_PAD)
        && !link.sink.has_errors()
    {
        link.unused_pads = find(&link, pad.mark);
    }
    link
}

/// Replaces the instructions of a section that were found. `out` holds the section's bytes.
pub fn erase<T: Target>(link: &Placed<'_, T>, id: SectionId, out: &mut [u8]) {
    let Some(pad) = T::LANDING_PAD.filter(|_| !link.unused_pads.is_empty()) else { return };
    let first = link.unused_pads.partition_point(|&(section, _)| section < id);
    for &(_, offset) in link.unused_pads[first..].iter().take_while(|(section, _)| *section == id) {
        if let Some(place) = out.get_mut(offset as usize..).and_then(|rest| rest.first_chunk_mut()) {
            *place = pad.nop;
        }
    }
}

fn find<T: Target>(link: &Placed<'_, T>, mark: [u8; 4]) -> Vec<(SectionId, u64)> {
    let found: Vec<(Vec<Pad>, Vec<RangeInclusive<u64>>)> = link
        .objects
        .par_iter()
        .map(|object| (pads(link, object, mark), addresses_in(link, object)))
        .collect();
    let (pads, taken): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    let taken = Taken::new(taken.into_iter().flatten().chain(addresses_of_output(link)));
    let unused = pads.into_iter().flatten().filter(|pad| !taken.contains(pad.address));
    let mut places: Vec<(SectionId, u64)> = unused.map(|pad| (pad.section, pad.offset)).collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// An instruction at the beginning of a function.
struct Pad {
    address: u64,
    section: SectionId,
    offset: u64,
}

/// The instructions at the beginnings of an object's functions.
fn pads<T: Target>(link: &Placed<'_, T>, object: &ObjectFile<'_, T::E>, mark: [u8; 4]) -> Vec<Pad> {
    let pad = |index: usize| {
        let symbol = &object.symbols[index];
        let SymbolPlace::Section(section) = object.symbol_place(index) else { return None };
        let id = object.section_id(section);
        if symbol.kind() != elf::STT_FUNC || !is_code(link, object, id, section) {
            return None;
        }
        let offset = symbol.st_value.get();
        let code = object.section_bytes(section as usize).ok()?;
        let begins = code.get(usize::try_from(offset).ok()?..)?.starts_with(&mark);
        begins.then(|| Pad { address: link.section_address(id).wrapping_add(offset), section: id, offset })
    };
    if object.just_symbols { Vec::new() } else { (1..object.symbols.len()).filter_map(pad).collect() }
}

/// Whether a section is code that lies in the output as it is.
fn is_code<T: Target>(
    link: &Placed<'_, T>,
    object: &ObjectFile<'_, T::E>,
    id: SectionId,
    index: u32,
) -> bool {
    let executable = object.headers[index as usize].sh_flags.get() & elf::SHF_EXECINSTR != 0;
    executable && is_loaded(link, id) && !link.class_of(id).contains(SectionClass::NOBITS)
}

fn is_loaded<T: Target>(link: &Placed<'_, T>, id: SectionId) -> bool {
    link.class_of(id).contains(SectionClass::ALLOC)
        && link.sections.is_alive(id)
        && !link.sections.get(id).intersects(SectionState::ABSORBED | SectionState::NOT_CONTENT)
}

/// The addresses that an object's sections hold or load.
fn addresses_in<'a, T: Target>(
    link: &Placed<'a, T>,
    object: &ObjectFile<'a, T::E>,
) -> Vec<RangeInclusive<u64>> {
    let mut uses = Uses { link, object, section: SectionId::NONE, code: &[], taken: Vec::new() };
    for (index, id) in object.section_ids().enumerate().skip(1) {
        if !is_loaded(link, id) || link.class_of(id).contains(SectionClass::SFRAME) {
            continue;
        }
        uses.section = id;
        let code = is_code(link, object, id, index as u32);
        uses.code = if code { object.section_bytes(index).unwrap_or_default() } else { &[] };
        let start = link.section_address(id);
        uses.taken
            .extend(T::own_addresses(uses.code).into_iter().map(|offset| point(start.wrapping_add(offset))));
        Walk::new(link, object, index).each(object.relocations(index), &mut uses);
    }
    // What records of `.eh_frame` say of functions calls none. Their common parts name the function that the
    // unwinder calls.
    if let Some(frames) = link.frames.files.get(object.id.index()) {
        for section in &frames.sections {
            let cies = frames.cies[section.cies.start as usize..section.cies.end as usize].iter();
            let relocations = cies.flat_map(|cie| section.relocations_of_cie(cie));
            for relocation in relocations {
                let symbol = object.symbol_id(relocation.symbol());
                uses.taken.push(point(address::value(link, symbol)));
            }
        }
    }
    let resolvers =
        (1..object.symbols.len()).filter(|&index| object.symbols[index].kind() == elf::STT_GNU_IFUNC);
    let resolvers = resolvers.map(|index| object.symbol_id(index as u32));
    uses.taken.extend(resolvers.map(|symbol| point(address::value(link, symbol))));
    uses.taken
}

/// The addresses that the system and other modules know: of exports, of the entry, of what runs first and
/// last.
fn addresses_of_output<T: Target>(link: &Placed<'_, T>) -> Vec<RangeInclusive<u64>> {
    let names = [&link.config.symbols.init, &link.config.symbols.fini];
    let called = names.into_iter().filter_map(|name| link.globals.lookup(name));
    let exported = link.dynamic.symbols.iter().map(|symbol| symbol.id);
    let symbols = called.chain(exported).map(|id| point(address::value(link, id)));
    symbols.chain([point(link.entry_address)]).collect()
}

fn point(address: u64) -> RangeInclusive<u64> {
    address..=address
}

/// Collects the addresses that relocations take.
struct Uses<'u, 'a, T: Target> {
    link: &'u Placed<'a, T>,
    object: &'u ObjectFile<'a, T::E>,
    section: SectionId,
    /// The section's bytes; empty if it is not code.
    code: &'u [u8],
    taken: Vec<RangeInclusive<u64>>,
}

impl<T: Target> Visitor<T> for Uses<'_, '_, T> {
    fn decided(&mut self, relocation: Decided<'_, T>) {
        let Decided { info, offset, index, symbol, addend, facts, action } = relocation;
        if info.expr.is_tls() || facts.contains(SymbolFacts::TLS) || self.is_direct_branch(&relocation) {
            return;
        }
        let target = address::target(self.link, self.object, index, symbol, addend);
        let is_section = index == 0 || self.link.symbol_flags(symbol).contains(SymbolFlags::SECTION);
        let start = address::value(self.link, symbol);
        if !is_section {
            self.taken.push(point(start));
        }
        if info.base == RelocBase::Zero || action.dynamic.is_some() {
            self.taken.push(point(target));
            return;
        }
        // In an instruction, the distance counts from its end; in a table, from anywhere before. A table may
        // also stand in the middle of code.
        let first = if is_section { target.saturating_sub(offset).max(start.min(target)) } else { target };
        self.taken.push(first..=target.saturating_add(LONGEST_TAIL));
    }

    fn undecided(&mut self, _: Undecided<'_, T>) {}
}

impl<T: Target> Uses<'_, '_, T> {
    /// Whether a relocation fills the operand of an instruction that branches to one place, and needs no
    /// address for that.
    fn is_direct_branch(&self, relocation: &Decided<'_, T>) -> bool {
        let Decided { info, offset, action, .. } = relocation;
        let offset = usize::try_from(*offset).unwrap_or(usize::MAX);
        match info.expr {
            RelocExpr::Plt | RelocExpr::Symbol => {
                info.base == RelocBase::Place && T::is_direct_branch(self.code, offset)
            }
            // An indirect branch through the GOT that became a direct one.
            RelocExpr::GotSlot => {
                action.edit.is_some()
                    && action.expr == RelocExpr::Symbol
                    && T::is_branch(info, self.code, offset)
            }
            _ => false,
        }
    }
}

/// Addresses that something takes, as ranges that do not overlap.
struct Taken(Vec<RangeInclusive<u64>>);

impl Taken {
    fn new(ranges: impl Iterator<Item = RangeInclusive<u64>>) -> Self {
        let mut ranges: Vec<(u64, u64)> = ranges.map(RangeInclusive::into_inner).collect();
        ranges.par_sort_unstable();
        ranges.dedup_by(|next, last| {
            let joins = next.0 <= last.1;
            last.1 = if joins { last.1.max(next.1) } else { last.1 };
            joins
        });
        Taken(ranges.into_iter().map(|(start, end)| start..=end).collect())
    }

    fn contains(&self, address: u64) -> bool {
        let next = self.0.partition_point(|range| *range.end() < address);
        self.0.get(next).is_some_and(|range| *range.start() <= address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_overlap_are_joined() {
        let taken = Taken::new([8..=20, point(3), 10..=12, 20..=24, point(3), 30..=31].into_iter());
        assert_eq!(taken.0, [3..=3, 8..=24, 30..=31]);
        for (address, expected) in [(2, false), (3, true), (4, false), (24, true), (25, false), (31, true)] {
            assert_eq!(taken.contains(address), expected, "{address}");
        }
    }
}
