//! From an address to all that a table of version 2 knows of its frame.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;
use core::ops::Deref;

use super::layout::{Layout, SavedRegisters};
use super::look_up::Place;
use super::{CompactTable, Handler, PAGE, View, WHOLE_VERSION};
use crate::abi::{Abi, Register};
#[cfg(feature = "alloc")]
use crate::cfi::CfiRow;
use crate::cfi::Saved;
use crate::error::{Error, ErrorKind};
use crate::packed::{Kind, Packed};
use crate::rules::{Base, Frame, Location, RegisterRule, Rules, UnwindRules};

/// What holds in a row, for all registers.
#[derive(Clone, Copy, Debug)]
pub struct WholeRules<'data> {
    /// The register that the CFA counts from.
    pub cfa_register: Register,
    /// Bytes from that register to the CFA.
    pub cfa_offset: i64,
    /// Where the return address is. `None`: still in its register.
    pub return_address: Option<Saved>,
    /// Where the caller's frame pointer is. `None`: still in its register, or [`Self::others`] tells.
    pub frame_pointer: Option<Saved>,
    /// Where the other registers are.
    pub others: SavedRegisters<'data>,
    /// AArch64: the return address is signed.
    pub signed: bool,
    /// AArch64: it is signed with key B.
    pub key_b: bool,
    /// Whether it is a signal frame.
    pub signal: bool,
    /// Bytes of arguments on the stack.
    pub args_size: u32,
}

/// What [`CompactTable::look_up_whole`] found.
#[derive(Clone, Copy, Debug)]
pub struct WholeMatch<'data> {
    /// Address of the function.
    pub function: u64,
    /// Address of the first byte that is known to have these rules.
    pub start: u64,
    /// Bytes that are known to have these rules.
    pub size: u32,
    /// The rules.
    pub rules: WholeRules<'data>,
    /// Who handles exceptions that pass the function.
    pub handler: Option<Handler>,
}

impl<'data> WholeRules<'data> {
    /// Where all registers are that have a rule: [`Self::others`], the return address, the frame pointer.
    pub fn registers(&self, abi: Abi) -> impl Iterator<Item = (Register, Saved)> + use<'data> {
        let fixed = [(abi.return_address(), self.return_address), (abi.frame_pointer(), self.frame_pointer)];
        self.others.chain(fixed.into_iter().filter_map(|(register, saved)| Some((register, saved?))))
    }
}

#[cfg(feature = "alloc")]
impl WholeMatch<'_> {
    /// The rules as a row of call frame information whose function begins with it.
    pub fn row(&self, abi: Abi) -> CfiRow {
        let rules = &self.rules;
        let mut saved: Vec<_> = rules.registers(abi).collect();
        saved.sort_unstable();
        CfiRow {
            start: 0,
            cfa_register: rules.cfa_register,
            cfa_offset: rules.cfa_offset,
            saved,
            signed: rules.signed,
            args_size: rules.args_size.into(),
        }
    }
}

impl<D: Deref<Target = [u8]>> CompactTable<D> {
    /// All that the table knows of the frame of code at `pc`. Tables of version 1 know nothing that
    /// [`CompactTable::lookup`] does not say, so nothing is found in them.
    ///
    /// # Errors
    /// The look-up came across a defect of the table.
    pub fn look_up_whole(&self, pc: u64) -> Result<Option<WholeMatch<'_>>, Error> {
        let view = self.view();
        if view.header.version != WHOLE_VERSION {
            return Ok(None);
        }
        let Some(place) = view.place(pc) else { return Ok(None) };
        let Some(row) = view.rows(view.shape(place.entry))?.find(place.offset)? else { return Ok(None) };
        let Some(rules) = view.whole_rules(row.rule)? else { return Ok(None) };
        let entry = pc.wrapping_sub(place.offset.into());
        let first = view.first_of(place.entry)?;
        let function = if first == place.entry { entry } else { view.address_of(first).unwrap_or(entry) };
        let start = entry.wrapping_add(row.start.into());
        let end = view.next_start(pc, &place).min(start.saturating_add(row.covered.into()));
        let size = end.saturating_sub(start) as u32;
        Ok(Some(WholeMatch { function, start, size, rules, handler: view.handler(first)? }))
    }
}

impl<'data> View<'data> {
    /// A rule with its layout. `None`: the rule says that there is no row.
    pub(super) fn whole_rules(&self, number: u32) -> Result<Option<WholeRules<'data>>, Error> {
        let packed = self.rule(number)?;
        if packed == Packed::NO_ROW {
            return Ok(None);
        }
        let unknown = || {
            let kind = ErrorKind::Reserved { what: "rule of version 2", found: number };
            Error::new(self.parts.rules, kind)
        };
        let rules = match packed.kind() {
            Kind::NoRow => return Ok(None),
            Kind::Outermost => return Err(unknown()),
            Kind::Frame | Kind::Kept(_) => self.unpacked(packed)?,
        };
        let Some(UnwindRules { signal, rules: Rules::Frame(frame), .. }) = rules else {
            return Err(unknown());
        };
        let Frame { cfa, ra, fp, mangled } = frame;
        if cfa.dereference {
            return Err(unknown());
        }
        let Layout { key_b, args_size, saved } = self.layout(number, cfa.offset)?;
        Ok(Some(WholeRules {
            cfa_register: cfa.register,
            cfa_offset: cfa.offset,
            return_address: saved_at(ra).ok_or_else(unknown)?,
            frame_pointer: saved_at(fp).ok_or_else(unknown)?,
            others: saved,
            signed: mangled,
            key_b,
            signal,
            args_size,
        }))
    }

    /// The address where the entry behind the one at `pc` starts, or where its page ends.
    fn next_start(&self, pc: u64, place: &Place) -> u64 {
        let page_start = place.page_start(pc);
        let next = place.entry.wrapping_add(1);
        if next < place.end {
            return page_start.wrapping_add(self.start(next).into());
        }
        page_start.saturating_add(PAGE)
    }
}

/// A rule of the return address or the frame pointer. `None`: version 2 does not have it.
fn saved_at(rule: RegisterRule) -> Option<Option<Saved>> {
    let RegisterRule::Saved(location) = rule else { return Some(None) };
    Some(Some(match location {
        Location { base: Base::Cfa, offset, dereference: true } => Saved::AtCfa(offset.into()),
        Location { base: Base::Cfa, offset, dereference: false } => Saved::CfaPlus(offset.into()),
        Location { base: Base::Register(register), offset: 0, dereference: false } => Saved::In(register),
        Location { base: Base::Register(_), .. } => return None,
    }))
}
