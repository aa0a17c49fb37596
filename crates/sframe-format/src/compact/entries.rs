//! Divides the entries of a table into pages and regions, when their addresses are known.

use alloc::vec::Vec;

use super::{PAGE, PAGE_SIZE, REGION_SIZE};

/// The room of a region, in pages. A shorter gap takes less room as empty pages than as another region.
const EMPTY_PAGES: u64 = (REGION_SIZE / PAGE_SIZE) as u64;
/// Entries with their addresses, divided into pages and regions.
#[derive(Default)]
pub(super) struct Entries {
    /// First address and first page of each region.
    pub regions: Vec<(u64, u32)>,
    /// First entry of each page.
    pub pages: Vec<u32>,
    /// Where entries start in their pages.
    pub starts: Vec<u16>,
    /// Where their shapes are.
    pub places: Vec<u32>,
    /// Where the last region starts, and the number of its pages.
    last: (u64, u64),
}

impl Entries {
    /// Room for so many entries.
    pub fn with_capacity(count: usize) -> Self {
        Self { starts: Vec::with_capacity(count), places: Vec::with_capacity(count), ..Self::default() }
    }

    /// Appends an entry. Addresses ascend.
    #[inline]
    pub fn push(&mut self, address: u64, place: u32) {
        let page = address.wrapping_sub(self.last.0) / PAGE;
        if page >= self.last.1 {
            self.begin_page(address, page);
        }
        self.starts.push((address.wrapping_sub(self.last.0) % PAGE) as u16);
        self.places.push(place);
    }

    /// Begins the page of an address, which is this one of the last region if that is not too far.
    fn begin_page(&mut self, address: u64, page: u64) {
        let (_, known) = self.last;
        if known > 0 && page < known + EMPTY_PAGES {
            self.pages.extend((known..=page).map(|_| self.starts.len() as u32));
            self.last.1 = page + 1;
        } else {
            self.regions.push((address, self.pages.len() as u32));
            self.pages.push(self.starts.len() as u32);
            self.last = (address, 1);
        }
    }
}
