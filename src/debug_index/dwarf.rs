//! The debug sections of an object, relocated while `gimli` reads them.
//!
//! In an object, an address is a section and an offset in it, but gimli computes with one number. So the
//! reader puts the header index of the section into the upper bits of the number, and the offset into the
//! lower ones. [`place`] takes such a number apart.

use crate::arch::{RelocBase, RelocExpr, Target};
use crate::elf::Rela;
use crate::input::ObjectFile;
use crate::input::object::SymbolPlace;
use gimli::{EndianSlice, Relocate, RelocateReader, RunTimeEndian};
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use zerocopy::byteorder::{ByteOrder, U16};

/// Bits of an address that hold the offset in its section.
const OFFSET_BITS: u32 = 40;

/// A reader that relocates the fields that it reads.
pub type Reader<'s, 'a, T> = RelocateReader<EndianSlice<'a, RunTimeEndian>, &'s Section<'s, 'a, T>>;
/// The debug information of an object.
pub type Dwarf<'s, 'a, T> = gimli::Dwarf<Reader<'s, 'a, T>>;
/// A unit of it.
pub type Unit<'s, 'a, T> = gimli::Unit<Reader<'s, 'a, T>>;

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

/// The byte order of a machine.
pub fn endian<E: ByteOrder>() -> RunTimeEndian {
    if U16::<E>::new(1).to_bytes()[0] == 1 { RunTimeEndian::Little } else { RunTimeEndian::Big }
}

/// A debug section of an object, with its relocations.
pub struct Section<'o, 'a, T: Target> {
    /// The object.
    pub object: &'o ObjectFile<'a, T::E>,
    /// Its header index.
    pub index: u32,
    /// Its name, with `.debug_` in place of `.zdebug_`.
    pub name: String,
    /// Its contents, decompressed.
    pub bytes: &'a [u8],
    /// Its relocations, by ascending offset.
    relocations: Cow<'a, [Rela<T::E>]>,
    /// Row of the relocation that was looked up last. The next look-up mostly wants the next row.
    last: Cell<usize>,
}

impl<T: Target> fmt::Debug for Section<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl<'o, 'a, T: Target> Section<'o, 'a, T> {
    /// Opens a section of an object. A section that cannot be read is empty.
    pub fn new(object: &'o ObjectFile<'a, T::E>, index: u32, name: String) -> Self {
        let bytes = object.section_bytes(index as usize).unwrap_or_default();
        let mut relocations = Cow::Borrowed(object.relocations(index as usize));
        if !relocations.is_sorted_by_key(|relocation| relocation.r_offset.get()) {
            relocations.to_mut().sort_by_key(|relocation| relocation.r_offset.get());
        }
        Section { object, index, name, bytes, relocations, last: Cell::new(0) }
    }

    /// A section without contents.
    pub fn empty(object: &'o ObjectFile<'a, T::E>) -> Self {
        Section {
            object,
            index: 0,
            name: String::new(),
            bytes: &[],
            relocations: Cow::Borrowed(&[]),
            last: Cell::new(0),
        }
    }

    /// A reader of its contents.
    pub fn reader(&self) -> Reader<'_, 'a, T> {
        RelocateReader::new(EndianSlice::new(self.bytes, endian::<T::E>()), self)
    }

    fn relocation(&self, offset: u64) -> Option<&Rela<T::E>> {
        let next = self.last.get() + 1;
        let at = |row: usize| self.relocations.get(row).filter(|r| r.r_offset.get() == offset);
        if let Some(found) = at(next) {
            self.last.set(next);
            return Some(found);
        }
        let row = self.relocations.binary_search_by_key(&offset, |r| r.r_offset.get()).ok()?;
        self.last.set(row);
        self.relocations.get(row)
    }

    /// The place that the field at this offset refers to, and the header index of its section if it has one.
    /// `None`: no relocation fills the field.
    pub fn target(&self, offset: u64) -> Option<(Option<u32>, u64)> {
        let relocation = self.relocation(offset)?;
        let info = T::reloc_info(relocation.kind())?;
        if info.expr != RelocExpr::Symbol || info.base != RelocBase::Zero {
            return None;
        }
        let index = relocation.symbol() as usize;
        let value = self.object.symbols.get(index).map_or(0, |symbol| symbol.st_value.get());
        let value = value.wrapping_add_signed(relocation.r_addend.get());
        Some(match self.object.symbol_place(index) {
            SymbolPlace::Section(section) => (Some(section), value),
            _ => (None, value),
        })
    }
}

impl<T: Target> Relocate for &Section<'_, '_, T> {
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
