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
}

impl Entries {
    /// Appends an entry.
    pub fn push(&mut self, address: u64, place: u32) {
        let known = self.regions.last().map_or(0, |&(_, first)| self.pages.len() - first as usize) as u64;
        let region = self.regions.last().map(|&(start, _)| start);
        let page = region.map(|start| (address - start) / PAGE);
        let start = match (region, page) {
            (Some(start), Some(page)) if page < known + EMPTY_PAGES => {
                for _ in known..=page {
                    self.pages.push(self.starts.len() as u32);
                }
                start
            }
            _ => {
                self.regions.push((address, self.pages.len() as u32));
                self.pages.push(self.starts.len() as u32);
                address
            }
        };
        self.starts.push(((address - start) % PAGE) as u16);
        self.places.push(place);
    }
}
