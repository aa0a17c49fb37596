//! Thunks and the pools that they stand in, as the layout's loop makes them.

use crate::arch::thunk::ThunkForm;
use crate::ids::{SectionId, SymbolId};
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
