//! Writes thunks: code between a branch and a target that it does not reach, and instructions that were moved
//! away from a processor's erratum.
//!
//! They stand in pools, which are sections of the linker between other code. The rounds of the layout make
//! them (`layout::thunks`). Neither a pool nor a thunk is ever removed again.

use super::synthesis::{Synthesis, Write};
use crate::arch::Target;
use crate::elf::consts as elf;
use crate::ids::{SectionId, SymbolId};
use crate::phase::{Geometry, Placed, Resolved};
use crate::relocs::apply;
use crate::relocs::branches::target;
use crate::tables::pools::{Destination, Purpose, Thunk, Thunks};
use crate::tables::section::{Kind, SyntheticSymbol};

/// The pools. The rounds of the layout make them ([`crate::layout`]).
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis::later(Write::Bytes(|link, section, out| write(link, section.number, out)))
}

/// Writes a pool.
fn write<T: Target>(link: &Placed<'_, T>, pool: u32, out: &mut [u8]) {
    let Some(pool) = link.thunks.pools.get(pool as usize) else { return };
    for &id in &pool.thunks {
        let thunk = &link.thunks.all[id.index()];
        let size = T::thunk_size(thunk.form);
        let (start, end) = (thunk.offset as usize, (thunk.offset + size) as usize);
        let Some(out) = out.get_mut(start..end) else { continue };
        let place = pool.address.wrapping_add(thunk.offset);
        let target = match thunk.purpose {
            Purpose::Call(destination) | Purpose::Word(destination) => behind(link, destination),
            Purpose::Landing(destination) => target(link, destination),
            Purpose::Moved(section, offset) => {
                copy_relocated(link, section, offset, out);
                Some(link.section_address(section).wrapping_add(offset + 4))
            }
        };
        T::write_thunk(thunk.form, out, place, target.unwrap_or(place));
    }
}

/// The target of an indirect jump to a destination. If the destination has a landing pad within reach, that
/// is the target.
fn behind<T: Target>(link: &Placed<'_, T>, destination: Destination) -> Option<u64> {
    let goal = target(link, destination)?;
    let reach = T::THUNKS.map_or(0, |spec| spec.reach);
    let pad = link.thunks.find(Purpose::Landing(destination), goal, reach);
    Some(pad.map_or(goal, |pad| link.thunks.address(pad)))
}

/// Copies an instruction with its relocations applied.
fn copy_relocated<T: Target>(link: &Placed<'_, T>, section: SectionId, offset: u64, out: &mut [u8]) {
    let Some((object, index)) = link.locate(section) else { return };
    let bytes = object.section_bytes(index as usize).unwrap_or_default();
    let Some(word) = bytes.get(offset as usize..).and_then(<[u8]>::first_chunk::<4>) else { return };
    let Some(out) = out.first_chunk_mut::<4>() else { return };
    *out = *word;
    let address = link.section_address(section).wrapping_add(offset);
    let relocations = object.relocations(index as usize);
    for (row, relocation) in relocations.iter().enumerate() {
        if relocation.r_offset.get() == offset {
            apply::apply_list(link, object, index, &relocations[row..=row], offset, address, out);
        }
    }
}

/// Replaces the moved instructions of a section by branches. The section is relocated already.
pub fn replace_by_branch<T: Target>(link: &Placed<'_, T>, section: SectionId, out: &mut [u8]) {
    if T::THUNKS.is_none() || link.thunks.moved.is_empty() {
        return;
    }
    let Some(entries) = link.thunks.moved.get(&section) else { return };
    let start = link.section_address(section);
    for &(offset, thunk) in entries {
        let place = start.wrapping_add(offset);
        let distance = link.thunks.address(thunk).wrapping_sub(place) as i64;
        T::replace_by_branch(out, offset as usize, distance);
    }
}

/// Names the thunks, and adds mapping symbols for code in synthetic sections.
pub fn names<'a, T: Target>(link: &Geometry<'a, T>, thunks: &Thunks) -> Vec<SyntheticSymbol<'a>> {
    let mut symbols = Vec::new();
    if let Some(mark) = T::CODE_MARK {
        for kind in [Kind::Plt, Kind::PltSec, Kind::PltGot] {
            if let (Some(row), Some(_)) = (link.synthetics.find(kind), link.chunk_of(kind)) {
                let section = link.synthetic_id(row);
                symbols.push(SyntheticSymbol { name: mark, section, offset: 0, size: 0, kind: 0 });
            }
        }
    }
    for (index, thunk) in thunks.all.iter().enumerate() {
        let section = thunks.pools[thunk.pool as usize].section;
        let name = link.store.keep(thunk_name(link, index, thunk));
        let size = T::thunk_size(thunk.form);
        symbols.push(SyntheticSymbol { name, section, offset: thunk.offset, size, kind: elf::STT_FUNC });
        let mark =
            |name| SyntheticSymbol { name, section, offset: thunk.offset, size: 0, kind: elf::STT_NOTYPE };
        symbols.extend(T::CODE_MARK.map(mark));
    }
    symbols
}

fn thunk_name<T: Target>(link: &Resolved<'_, T>, index: usize, thunk: &Thunk) -> Vec<u8> {
    let (destination, suffix) = match thunk.purpose {
        Purpose::Call(destination) | Purpose::Word(destination) => (destination, "veneer"),
        Purpose::Landing(destination) => (destination, "landing_pad"),
        Purpose::Moved(..) => return format!("__erratum_veneer_{index}").into_bytes(),
    };
    let (symbol, addend) = destination;
    let mut name = b"__".to_vec();
    name.extend_from_slice(&raw_name(link, symbol));
    if addend != 0 {
        name.extend_from_slice(format!("+{addend:x}").as_bytes());
    }
    name.extend_from_slice(format!("_{suffix}").as_bytes());
    name
}

/// The mangled name of a symbol. For a section symbol, the name of its section.
fn raw_name<T: Target>(link: &Resolved<'_, T>, symbol: SymbolId) -> Vec<u8> {
    if link.globals.contains(symbol) {
        return link.globals.names[symbol.index()].to_vec();
    }
    let Some((file, index)) = link.symbol_entry(symbol) else { return Vec::new() };
    let object = &link.objects[file.index()];
    match (object.symbol_name(index as usize), object.symbol_place(index as usize)) {
        (b"", crate::input::object::SymbolPlace::Section(section)) => {
            object.section_name(section as usize).to_vec()
        }
        (name, _) => name.to_vec(),
    }
}
