//! Thunks: code between a branch and a target that it does not reach, and instructions that were
//! moved away from where a processor gets them wrong.
//!
//! They stand in pools, which are sections of the linker between other code. The layout's loop
//! makes them (`passes::insert_thunks`); neither a pool nor a thunk ever goes away again.

use crate::arch::Target;
use crate::arch::thunk::ThunkForm;
use crate::elf::consts as elf;
use crate::ids::{SectionId, SymbolId};
use crate::link::Link;
use crate::phase::Resolved;
use crate::relocs::{address, apply};
use crate::symbols::flag;
use crate::synth::plt;
use hashbrown::HashMap;

/// What a branch goes to: a symbol and an addend.
pub type Destination = (SymbolId, i64);

/// What a thunk is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Calls of a destination.
    Call(Destination),
    /// Thunks that go to a destination indirectly.
    Landing(Destination),
    /// The instruction at an offset of a section.
    Moved(SectionId, u64),
}

/// A thunk.
#[derive(Clone, Copy, Debug)]
pub struct Thunk {
    /// What it is for.
    pub purpose: Purpose,
    /// How it is made.
    pub form: ThunkForm,
    /// Its pool.
    pub pool: u32,
    /// Offset in the pool, in bytes.
    pub offset: u64,
    /// The thunk that was made before it for the same symbol; `u32::MAX`: none.
    pub earlier: u32,
}

/// A section of thunks.
#[derive(Clone, Debug)]
pub struct Pool {
    /// The section.
    pub section: SectionId,
    /// Its address, as far as the layout has come.
    pub address: u64,
    /// Its thunks.
    pub thunks: Vec<u32>,
}

/// A branch of an object.
#[derive(Clone, Copy, Debug)]
pub struct Branch {
    /// The section that it is in.
    pub section: SectionId,
    /// Its offset there, in bytes.
    pub offset: u64,
    /// What it goes to.
    pub destination: Destination,
}

/// Branches that need a thunk or might come to need one, found by looking at all branches of a layout.
#[derive(Debug)]
pub struct Watched {
    /// The branches, by object.
    pub branches: Vec<Vec<Branch>>,
    /// What they go to, each once.
    pub symbols: Vec<SymbolId>,
    /// Addresses of all sections in that layout.
    pub sections: Vec<(SectionId, u64)>,
}

/// All thunks of a link.
#[derive(Default)]
pub struct Thunks {
    /// Thunks, in the order of their making.
    pub all: Vec<Thunk>,
    /// Pools, in the order of their making.
    pub pools: Vec<Pool>,
    /// The last thunk that was made for each symbol; `u32::MAX`: none. Empty before there are any.
    pub last_of: Vec<u32>,
    /// Moved instructions: offset and thunk, by section, in order of offset.
    pub moved: HashMap<SectionId, Vec<(u64, u32)>, foldhash::fast::FixedState>,
    /// Branches that the layout's loop keeps an eye on.
    pub watched: Option<Watched>,
}

impl Thunks {
    /// Address of a thunk.
    pub fn address(&self, thunk: u32) -> u64 {
        let thunk = &self.all[thunk as usize];
        self.pools[thunk.pool as usize].address.wrapping_add(thunk.offset)
    }

    /// A thunk for this purpose within `reach` of a place.
    #[inline]
    pub fn find(&self, purpose: Purpose, place: u64, reach: u64) -> Option<u32> {
        let (Purpose::Call((symbol, _)) | Purpose::Landing((symbol, _))) = purpose else { return None };
        let mut number = *self.last_of.get(symbol.index())?;
        while let Some(thunk) = self.all.get(number as usize) {
            if thunk.purpose == purpose && reaches(place, self.address(number), reach) {
                return Some(number);
            }
            number = thunk.earlier;
        }
        None
    }
}

/// Whether a branch at `place` reaches `target`.
#[inline]
pub fn reaches(place: u64, target: u64, reach: u64) -> bool {
    let distance = target.wrapping_sub(place) as i64;
    distance >= -(reach as i64) && distance < reach as i64
}

/// Address that a branch goes to; `None` if it goes nowhere.
#[inline]
pub fn target<T: Target>(link: &Link<'_, T>, (symbol, addend): Destination) -> Option<u64> {
    let flags = link.symbols.flags(symbol);
    if flags & flag::DISCARDED != 0 {
        return None;
    }
    if flags & (flag::IMPORTED | flag::IFUNC) != 0 {
        let entry = plt::address(link, symbol);
        return (entry != 0).then(|| entry.wrapping_add_signed(addend));
    }
    if flags & (flag::UNDEFINED | flag::UNDEFINED_WEAK) != 0 {
        return None;
    }
    Some(address::value(link, symbol).wrapping_add_signed(addend))
}

/// Address of a thunk for a branch at `place` that does not reach its destination.
pub fn redirect<T: Target>(link: &Link<'_, T>, destination: Destination, place: u64) -> Option<u64> {
    let spec = T::THUNKS?;
    let thunk = link.thunks.find(Purpose::Call(destination), place, spec.reach)?;
    Some(link.thunks.address(thunk))
}

/// Writes a pool.
pub fn write<T: Target>(link: &Link<'_, T>, pool: u32, out: &mut [u8]) {
    let Some(pool) = link.thunks.pools.get(pool as usize) else { return };
    for &index in &pool.thunks {
        let thunk = &link.thunks.all[index as usize];
        let size = T::thunk_size(thunk.form);
        let (start, end) = (thunk.offset as usize, (thunk.offset + size) as usize);
        let Some(out) = out.get_mut(start..end) else { continue };
        let place = pool.address.wrapping_add(thunk.offset);
        let target = match thunk.purpose {
            Purpose::Call(destination) => behind(link, destination),
            Purpose::Landing(destination) => target(link, destination),
            Purpose::Moved(section, offset) => {
                copy_relocated(link, section, offset, out);
                Some(link.section_address(section).wrapping_add(offset + 4))
            }
        };
        T::write_thunk(thunk.form, out, place, target.unwrap_or(place));
    }
}

/// Where an indirect jump to a destination goes: to its landing pad, if it needs one.
fn behind<T: Target>(link: &Link<'_, T>, destination: Destination) -> Option<u64> {
    let goal = target(link, destination)?;
    let reach = T::THUNKS.map_or(0, |spec| spec.reach);
    let pad = link.thunks.find(Purpose::Landing(destination), goal, reach);
    Some(pad.map_or(goal, |pad| link.thunks.address(pad)))
}

/// Copies an instruction as it is when its relocations are applied.
fn copy_relocated<T: Target>(link: &Link<'_, T>, section: SectionId, offset: u64, out: &mut [u8]) {
    let Some((object, index)) = link.locate(section) else { return };
    let bytes = object.section_bytes(index as usize).unwrap_or_default();
    let Some(word) = bytes.get(offset as usize..).and_then(<[u8]>::first_chunk::<4>) else { return };
    let Some(out) = out.first_chunk_mut::<4>() else { return };
    *out = *word;
    let address = link.section_address(section).wrapping_add(offset);
    let relocations = object.relocations(index as usize);
    for (row, relocation) in relocations.iter().enumerate() {
        if relocation.r_offset.get() == offset {
            apply::apply_list(link, section, &relocations[row..=row], offset, address, out);
        }
    }
}

/// Replaces the moved instructions of a section, which is relocated already, by branches.
pub fn move_away<T: Target>(link: &Link<'_, T>, section: SectionId, out: &mut [u8]) {
    if T::THUNKS.is_none() || link.thunks.moved.is_empty() {
        return;
    }
    let Some(entries) = link.thunks.moved.get(&section) else { return };
    let start = link.section_address(section);
    for &(offset, thunk) in entries {
        let place = start.wrapping_add(offset);
        let distance = link.thunks.address(thunk).wrapping_sub(place) as i64;
        T::move_away(out, offset as usize, distance);
    }
}

/// Names the thunks, and marks what is code in the linker's sections.
pub fn name<T: Target>(link: &mut Link<'_, T>) {
    let mut symbols = Vec::new();
    if let Some(mark) = T::CODE_MARK {
        for kind in [super::Kind::Plt, super::Kind::PltSec, super::Kind::PltGot] {
            if let (Some(row), Some(_)) = (link.synthetics.find(kind), link.chunk_of(kind)) {
                let section = link.synthetic_id(row);
                symbols.push(super::SyntheticSymbol { name: mark, section, offset: 0, size: 0, kind: 0 });
            }
        }
    }
    for (index, thunk) in link.thunks.all.iter().enumerate() {
        let section = link.thunks.pools[thunk.pool as usize].section;
        let name = link.store.keep(thunk_name(link, index, thunk));
        let size = T::thunk_size(thunk.form);
        symbols.push(super::SyntheticSymbol {
            name,
            section,
            offset: thunk.offset,
            size,
            kind: elf::STT_FUNC,
        });
        for &(at, name) in T::thunk_marks(thunk.form) {
            let offset = thunk.offset + at;
            symbols.push(super::SyntheticSymbol { name, section, offset, size: 0, kind: elf::STT_NOTYPE });
        }
    }
    link.synthetics.symbols = symbols;
}

fn thunk_name<T: Target>(link: &Resolved<'_, T>, index: usize, thunk: &Thunk) -> Vec<u8> {
    let (destination, suffix) = match thunk.purpose {
        Purpose::Call(destination) => (destination, "veneer"),
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

/// The name of a symbol as it is in the file; a section symbol has its section's.
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
