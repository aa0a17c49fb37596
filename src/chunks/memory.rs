//! `MEMORY` regions: the limits of each region, and the address for its next section.

/// A region during one run of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its first address.
    pub origin: u64,
    /// Length in bytes.
    pub length: u64,
    /// The address for the next section.
    pub current: u64,
    /// The last section placed here. Later sections derive their load addresses from it.
    pub last: Option<Last>,
}

/// The place of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Last {
    /// Address.
    pub address: u64,
    /// Load address.
    pub load: u64,
    /// Size in bytes.
    pub size: u64,
}

impl Region {
    /// A region that starts at `origin`.
    pub fn new(origin: u64, length: u64) -> Region {
        Region { origin, length, current: origin, last: None }
    }

    /// The load address of a section without `AT`. It is as far from the address as for the section before,
    /// unless this section lies wholly below that one.
    pub fn load_address(&self, address: u64, size: u64, align: u64) -> u64 {
        let Some(last) = self.last else { return address };
        if size != 0 && address < last.address && last.address - address >= size {
            return address;
        }
        let load = address.wrapping_add(last.load.wrapping_sub(last.address));
        super::align::round_up(load, align).unwrap_or(load)
    }

    /// Remembers a section for the load addresses of later ones. With `always`, every section counts.
    /// Otherwise, an empty section counts only if it is not below the last one, or if it is the first one and
    /// has a load address of its own.
    pub fn remember(&mut self, section: Last, always: bool) {
        let counts = match self.last {
            None => section.address != section.load,
            Some(last) => section.address >= last.address,
        };
        if always || section.size != 0 || counts {
            self.last = Some(section);
        }
    }

    /// The number of bytes by which a section that starts at `start` begins below the region.
    pub fn underflow(&self, start: u64) -> u64 {
        self.origin.saturating_sub(start)
    }

    /// The number of bytes by which a section that ends at `end` leaves the region.
    pub fn overflow(&self, end: u64) -> u64 {
        match self.origin.checked_add(self.length) {
            Some(limit) => end.saturating_sub(limit),
            None => 0,
        }
    }
}
