//! Objects as an index sees them, whatever their machine and byte order.
//!
//! All that reads debug information goes through [`Debugged`], so it is compiled once and not for each
//! machine. Of a relocation it wants where it is and what it means, which costs a call through a pointer.

use crate::arch::{RelocBase, RelocExpr, Target};
use crate::ids::SectionId;
use crate::input::ObjectFile;
use crate::input::object::SymbolPlace;
use gimli::RunTimeEndian;
use parallel::ParallelSort;
use std::marker::PhantomData;
use zerocopy::byteorder::{ByteOrder, U16};

/// An object with debug information. Sections go by their header indexes.
pub trait Debugged<'a> {
    /// The byte order of its sections.
    fn endian(&self) -> RunTimeEndian;

    /// Number of sections, with the null section.
    fn section_count(&self) -> usize;

    /// A section's row in the link.
    fn section_id(&self, index: u32) -> SectionId;

    /// A section's name. Empty if there is none.
    fn section_name(&self, index: usize) -> &'a [u8];

    /// `sh_flags`; 0 if there is no such section.
    fn section_flags(&self, index: usize) -> u64;

    /// `sh_size`. `None`: there is no such section.
    fn section_size(&self, index: usize) -> Option<u64>;

    /// A section's contents, decompressed. `None`: they cannot be read.
    fn section_bytes(&self, index: usize) -> Option<&'a [u8]>;

    /// The rows of a section's relocations by ascending offset, if they stand in another order.
    fn relocation_order(&self, index: usize) -> Option<Vec<usize>>;

    /// `r_offset` of a section's relocation. `None`: there are not so many.
    fn relocation_offset(&self, index: usize, row: usize) -> Option<u64>;

    /// The row of a section's relocation with this offset, if they ascend.
    fn relocation_at(&self, index: usize, offset: u64) -> Option<usize>;

    /// The place that a relocation refers to: the header index of its section, if it has one, and the offset.
    /// `None`: the relocation computes something other than an address or a distance in a section.
    fn relocation_target(&self, index: usize, row: usize) -> Option<(Option<u32>, u64)>;
}

/// The byte order of a machine.
pub fn endian<E: ByteOrder>() -> RunTimeEndian {
    if U16::<E>::new(1).to_bytes()[0] == 1 { RunTimeEndian::Little } else { RunTimeEndian::Big }
}

/// An object of a machine.
pub struct View<'o, 'a, T: Target> {
    object: &'o ObjectFile<'a, T::E>,
    machine: PhantomData<T>,
}

impl<'o, 'a, T: Target> View<'o, 'a, T> {
    /// A view of an object.
    pub fn new(object: &'o ObjectFile<'a, T::E>) -> Self {
        View { object, machine: PhantomData }
    }
}

impl<'a, T: Target> Debugged<'a> for View<'_, 'a, T> {
    fn endian(&self) -> RunTimeEndian {
        endian::<T::E>()
    }

    fn section_count(&self) -> usize {
        self.object.headers.len()
    }

    fn section_id(&self, index: u32) -> SectionId {
        self.object.section_id(index)
    }

    fn section_name(&self, index: usize) -> &'a [u8] {
        self.object.section_name(index)
    }

    fn section_flags(&self, index: usize) -> u64 {
        self.object.headers.get(index).map_or(0, |header| header.sh_flags.get())
    }

    fn section_size(&self, index: usize) -> Option<u64> {
        Some(self.object.headers.get(index)?.sh_size.get())
    }

    fn section_bytes(&self, index: usize) -> Option<&'a [u8]> {
        self.object.section_bytes(index).ok()
    }

    fn relocation_order(&self, index: usize) -> Option<Vec<usize>> {
        let relocations = self.object.relocations(index);
        if relocations.is_sorted_by_key(|relocation| relocation.r_offset.get()) {
            return None;
        }
        let mut order: Vec<usize> = (0..relocations.len()).collect();
        order.par_sort_by_key(|&row| relocations[row].r_offset.get());
        Some(order)
    }

    fn relocation_offset(&self, index: usize, row: usize) -> Option<u64> {
        Some(self.object.relocations(index).get(row)?.r_offset.get())
    }

    fn relocation_at(&self, index: usize, offset: u64) -> Option<usize> {
        let relocations = self.object.relocations(index);
        relocations.binary_search_by_key(&offset, |relocation| relocation.r_offset.get()).ok()
    }

    fn relocation_target(&self, index: usize, row: usize) -> Option<(Option<u32>, u64)> {
        let relocation = self.object.relocations(index).get(row)?;
        let info = T::reloc_info(relocation.kind())?;
        if info.expr != RelocExpr::Symbol || info.base != RelocBase::Zero {
            return None;
        }
        let symbol = relocation.symbol() as usize;
        let value = self.object.symbols.get(symbol).map_or(0, |symbol| symbol.st_value.get());
        let value = value.wrapping_add_signed(relocation.r_addend.get());
        Some(match self.object.symbol_place(symbol) {
            SymbolPlace::Section(section) => (Some(section), value),
            _ => (None, value),
        })
    }
}
