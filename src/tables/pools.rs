//! Thunks and their pools, as the rounds of the layout make them.

use crate::arch::thunk::{Reach, ThunkForm};
use crate::ids::{SectionId, SymbolId, ThunkId};
use hashbrown::HashMap;

/// The destination of a branch: a symbol and an addend.
pub type Destination = (SymbolId, i64);

/// What a thunk is for. Thunks of equal purposes can stand in for each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Purpose {
    /// Calls go through it to a destination.
    Call(Destination),
    /// Words of data hold the distance to it instead of the distance to a destination.
    Word(Destination),
    /// It is a landing pad: indirect jumps of other thunks arrive here and go on to the destination.
    Landing(Destination),
    /// It holds the instruction from an offset of a section.
    Moved(SectionId, u64),
}

impl Purpose {
    /// The purpose of a thunk for relocations with this reach.
    pub fn of(reach: Reach, destination: Destination) -> Self {
        match reach {
            Reach::Call => Purpose::Call(destination),
            Reach::Word => Purpose::Word(destination),
        }
    }

    /// Where it leads; `None` for a moved instruction.
    pub fn destination(self) -> Option<Destination> {
        match self {
            Purpose::Call(destination) | Purpose::Word(destination) | Purpose::Landing(destination) => {
                Some(destination)
            }
            Purpose::Moved(..) => None,
        }
    }
}

/// A thunk: code that a branch goes through, or an instruction moved out of the way of an erratum.
#[derive(Clone, Copy, Debug)]
pub struct Thunk {
    /// What it is for.
    pub purpose: Purpose,
    /// Its instruction sequence.
    pub form: ThunkForm,
    /// Row of its pool.
    pub pool: u32,
    /// Offset in its pool, in bytes.
    pub offset: u64,
    /// The thunk that was made before it for the same symbol.
    pub earlier: Option<ThunkId>,
}

/// A section of thunks.
#[derive(Clone, Debug)]
pub struct Pool {
    /// The section.
    pub section: SectionId,
    /// Its address in the latest round of the layout.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
    /// Its thunks, in order of offset.
    pub thunks: Vec<ThunkId>,
}

/// All thunks of a link.
#[derive(Default)]
pub struct Thunks {
    /// The thunks, in the order in which they were made.
    pub all: Vec<Thunk>,
    /// The pools, in the order in which they were made.
    pub pools: Vec<Pool>,
    /// The last thunk that was made for each symbol. Empty before there are any.
    pub last_of: Vec<Option<ThunkId>>,
    /// Moved instructions: offset and thunk, by section, in order of offset.
    pub moved: HashMap<SectionId, Vec<(u64, ThunkId)>, foldhash::fast::FixedState>,
}

impl Thunks {
    /// Address of a thunk.
    pub fn address(&self, thunk: ThunkId) -> u64 {
        let thunk = &self.all[thunk.index()];
        self.pools[thunk.pool as usize].address.wrapping_add(thunk.offset)
    }

    /// A thunk for this purpose within `reach` of a place.
    #[inline]
    pub fn find(&self, purpose: Purpose, place: u64, reach: u64) -> Option<ThunkId> {
        let (symbol, _) = purpose.destination()?;
        let mut number = *self.last_of.get(symbol.index())?;
        while let Some(id) = number {
            let thunk = &self.all[id.index()];
            if thunk.purpose == purpose && reaches(place, self.address(id), reach) {
                return number;
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
