//! The debug sections of an object, relocated while `gimli` reads them.
//!
//! In an object, an address is a section and an offset in it, but gimli computes with one number. So the
//! reader puts the header index of the section into the upper bits of the number, and the offset into the
//! lower ones. [`place`] takes such a number apart.

use super::view::Debugged;
use gimli::{EndianSlice, Relocate, RelocateReader, RunTimeEndian};
use std::cell::Cell;
use std::fmt;

/// Bits of an address that hold the offset in its section.
const OFFSET_BITS: u32 = 40;

/// A reader that relocates the fields that it reads.
pub type Reader<'s, 'a> = RelocateReader<EndianSlice<'a, RunTimeEndian>, &'s Section<'s, 'a>>;
/// The debug information of an object.
pub type Dwarf<'s, 'a> = gimli::Dwarf<Reader<'s, 'a>>;
/// A unit of it.
pub type Unit<'s, 'a> = gimli::Unit<Reader<'s, 'a>>;

/// The header index of the section, and the offset of the address in it. `None`: the address is in no
/// section.
pub fn place(address: u64) -> Option<(u32, u64)> {
    let section = u32::try_from(address >> OFFSET_BITS).ok()?.checked_sub(1)?;
    Some((section, address & ((1 << OFFSET_BITS) - 1)))
}

fn address(section: u32, offset: u64) -> u64 {
    (u64::from(section) + 1) << OFFSET_BITS | offset & ((1 << OFFSET_BITS) - 1)
}

/// The number of an address in no section. Its upper bits must not name one, except that all ones mark an
/// entry of `.debug_ranges` that gives the base for those behind it (DWARF 4, 2.17.3).
fn outside(value: u64) -> u64 {
    if value == u64::MAX { value } else { value & ((1 << OFFSET_BITS) - 1) }
}

/// A debug section of an object, with its relocations.
pub struct Section<'o, 'a> {
    /// The object.
    pub object: &'o dyn Debugged<'a>,
    /// Its header index. 0 for a section without contents.
    pub index: u32,
    /// Its name, with `.debug_` in place of `.zdebug_`.
    pub name: String,
    /// Its contents, decompressed.
    pub bytes: &'a [u8],
    /// Rows of its relocations by ascending offset, if they stand in another order.
    order: Option<Vec<usize>>,
    /// The place in that order of the relocation that was looked up last. The next look-up mostly wants the
    /// next one.
    last: Cell<usize>,
}

impl fmt::Debug for Section<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl<'o, 'a> Section<'o, 'a> {
    /// Opens a section of an object. A section that cannot be read is empty.
    pub fn new(object: &'o dyn Debugged<'a>, index: u32, name: String) -> Self {
        let bytes = object.section_bytes(index as usize).unwrap_or_default();
        let order = object.relocation_order(index as usize);
        Section { object, index, name, bytes, order, last: Cell::new(0) }
    }

    /// A section without contents.
    pub fn empty(object: &'o dyn Debugged<'a>) -> Self {
        Section { object, index: 0, name: String::new(), bytes: &[], order: None, last: Cell::new(0) }
    }

    /// A reader of its contents.
    pub fn reader(&self) -> Reader<'_, 'a> {
        RelocateReader::new(EndianSlice::new(self.bytes, self.object.endian()), self)
    }

    /// The row of the relocation at an offset.
    fn relocation(&self, offset: u64) -> Option<usize> {
        let section = self.index as usize;
        let at = |row: &usize| self.object.relocation_offset(section, *row);
        let next = self.last.get() + 1;
        let row = self.order.as_ref().map_or(Some(next), |order| order.get(next).copied());
        if let Some(row) = row.filter(|row| at(row) == Some(offset)) {
            self.last.set(next);
            return Some(row);
        }
        let (place, row) = match &self.order {
            None => self.object.relocation_at(section, offset).map(|row| (row, row))?,
            Some(order) => {
                let place = order.binary_search_by_key(&Some(offset), at).ok()?;
                (place, order[place])
            }
        };
        self.last.set(place);
        Some(row)
    }

    /// The place that the field at this offset refers to, and the header index of its section if it has one.
    /// `None`: no relocation fills the field.
    pub fn target(&self, offset: u64) -> Option<(Option<u32>, u64)> {
        self.object.relocation_target(self.index as usize, self.relocation(offset)?)
    }
}

impl Relocate for &Section<'_, '_> {
    fn relocate_address(&self, offset: usize, value: u64) -> gimli::Result<u64> {
        Ok(match self.target(offset as u64) {
            Some((Some(section), value)) => address(section, value),
            Some((None, value)) => outside(value),
            None => outside(value),
        })
    }

    fn relocate_offset(&self, offset: usize, value: usize) -> gimli::Result<usize> {
        match self.target(offset as u64) {
            Some((_, value)) => usize::try_from(value).map_err(|_| gimli::Error::UnsupportedOffset),
            None => Ok(value),
        }
    }
}
