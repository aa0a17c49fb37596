//! Functions of `.eh_frame` one by one, as they are asked for.
//!
//! To derive all rows of a large library takes longer than most work that is done with them: a profile touches some
//! hundreds of its functions. Here the FDE that holds an address is found, and run alone. Linked files have a sorted
//! table for that, `.eh_frame_hdr` (LSB, "The .eh_frame_hdr section"); for others the headers of all FDEs are read once.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::{Deref, Range};

use gimli::{BaseAddresses, CieOrFde, EhFrame, EhFrameHdr, EhFrameOffset, UnwindContext, UnwindSection};

use super::project::{Reason, Slice, Storage, register_rule};
use super::{Deriver, augmentation, endian, section};
use crate::abi::{Abi, Register};
use crate::fre::PauthKey;
use crate::rules::{RegisterRule, UnwindRules};
use crate::write::Function;

/// `.eh_frame` of a linked file, asked by address. `D` is how its bytes are held.
#[derive(Debug)]
pub struct FdeIndex<D> {
    abi: Abi,
    data: D,
    /// The section with its CIEs as gimli reads them, where they differ.
    normal: Option<Vec<u8>>,
    bases: BaseAddresses,
    order: Order<D>,
}

#[derive(Debug)]
enum Order<D> {
    /// `.eh_frame_hdr`.
    Header(D),
    /// Start, end and offset in the section of every FDE, ascending.
    List(Vec<(Range<u64>, usize)>),
}

impl<D: Deref<Target = [u8]>> FdeIndex<D> {
    /// An index of the section `eh_frame`, whose address is `address`. `header` are the bytes and the address of
    /// `.eh_frame_hdr`; where the file has none, or one without a table, time in proportion to the section is taken.
    pub fn new(abi: Abi, eh_frame: D, address: u64, header: Option<(D, u64)>) -> Self {
        let normal = match augmentation::normalize(abi, &eh_frame).data {
            Cow::Borrowed(_) => None,
            Cow::Owned(data) => Some(data),
        };
        let bases = BaseAddresses::default().set_eh_frame(address);
        let mut index = Self { abi, data: eh_frame, normal, bases, order: Order::List(Vec::new()) };
        if let Some((header, header_address)) = header {
            index.bases = index.bases.set_eh_frame_hdr(header_address);
            if index.has_table_of(&header, address) {
                index.order = Order::Header(header);
                return index;
            }
        }
        let mut list = index.list();
        list.sort_by_key(|(range, _)| range.start);
        index.order = Order::List(list);
        index
    }

    /// The rules at `pc`; `Ok(None)` where the FDE that holds it has no row there. `None` if no FDE holds it.
    ///
    /// # Errors
    /// The rows of the function have no SFrame form.
    pub fn rules_at(&self, pc: u64) -> Option<Result<Option<UnwindRules>, Reason>> {
        let section = self.section();
        let fde = self.fde_at(&section, pc)?;
        let mut deriver = Deriver {
            abi: self.abi,
            section: &section,
            bases: &self.bases,
            context: UnwindContext::new_in(),
            function: Function::default(),
        };
        let mut found = Ok(None);
        deriver.fde(&fde, PauthKey::A, &mut |source, function| {
            let offset = pc.wrapping_sub(source.address);
            if offset < source.size {
                found = function.map(|function| rules_in(self.abi, function, offset as u32));
            }
        });
        Some(found)
    }

    /// Where the caller's value of a register is while `pc` runs. `None` if no FDE holds `pc`, or if the register's value is
    /// lost there.
    ///
    /// SFrame follows stack and frame pointer. A few frames count from another register, which functions that they call
    /// save and use; `.eh_frame` tells where.
    pub fn register_at(&self, pc: u64, register: Register) -> Option<RegisterRule> {
        if !is_kept(self.abi, register) {
            return None;
        }
        let section = self.section();
        let fde = self.fde_at(&section, pc)?;
        let mut context: UnwindContext<usize, Storage> = UnwindContext::new_in();
        let row = fde.unwind_info_for_address(&section, &self.bases, &mut context, pc).ok()?;
        let rule = row.register(gimli::Register(register as u16));
        register_rule(&section, rule, Reason::FramePointer).ok()
    }

    /// The addresses of all FDEs, in no certain order. Takes time in proportion to the section.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        match &self.order {
            Order::List(list) => list.iter().map(|(range, _)| range.clone()).collect(),
            Order::Header(_) => self.list().into_iter().map(|(range, _)| range).collect(),
        }
    }

    fn section(&self) -> EhFrame<Slice<'_>> {
        section(self.abi, self.normal.as_deref().unwrap_or(&self.data))
    }

    fn fde_at<'data>(
        &self,
        section: &EhFrame<Slice<'data>>,
        pc: u64,
    ) -> Option<gimli::FrameDescriptionEntry<Slice<'data>>> {
        let offset = match &self.order {
            Order::Header(header) => self.with_table(header, |table| {
                let pointer = table.lookup(pc, &self.bases).ok()?;
                Some(table.pointer_to_offset(pointer).ok()?.0)
            })?,
            Order::List(list) => {
                let place = list.partition_point(|(range, _)| range.start <= pc);
                let (range, offset) = list.get(place.checked_sub(1)?)?;
                range.contains(&pc).then_some(*offset)?
            }
        };
        let fde =
            section.fde_from_offset(&self.bases, EhFrameOffset(offset), EhFrame::cie_from_offset).ok()?;
        fde.contains(pc).then_some(fde)
    }

    /// Whether `.eh_frame_hdr` has a table of the section at `address`.
    fn has_table_of(&self, header: &D, address: u64) -> bool {
        let parsed = EhFrameHdr::new(header, endian(self.abi)).parse(&self.bases, 8);
        let is_of = parsed.is_ok_and(|header| header.eh_frame_ptr() == gimli::Pointer::Direct(address));
        is_of && self.with_table(header, |table| table.lookup(0, &self.bases).ok()).is_some()
    }

    fn with_table<T>(
        &self,
        header: &D,
        ask: impl FnOnce(&gimli::EhHdrTable<'_, Slice<'_>>) -> Option<T>,
    ) -> Option<T> {
        let header = EhFrameHdr::new(header, endian(self.abi)).parse(&self.bases, 8).ok()?;
        ask(&header.table()?)
    }

    /// Range and offset of every FDE up to a malformed one, in the order of the section.
    fn list(&self) -> Vec<(Range<u64>, usize)> {
        let section = self.section();
        let mut entries = section.entries(&self.bases);
        let mut list = Vec::new();
        let mut last_cie: Option<gimli::CommonInformationEntry<Slice<'_>>> = None;
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            let parsed = partial.parse(|section, bases, offset| match &last_cie {
                Some(cie) if cie.offset() == offset.0 => Ok(cie.clone()),
                _ => section.cie_from_offset(bases, offset),
            });
            if let Ok(fde) = parsed {
                list.push((fde.initial_address()..fde.end_address(), fde.offset()));
                last_cie = Some(fde.cie().clone());
            }
        }
        list
    }
}

/// The rules of a function at an offset from its start.
fn rules_in(abi: Abi, function: &Function, offset: u32) -> Option<UnwindRules> {
    let offset = function.repeat_size.map_or(offset, |size| offset % u32::from(size.max(1)));
    let place = function.rows.partition_point(|row| row.start <= offset);
    let row = function.rows.get(place.checked_sub(1)?)?;
    Some(UnwindRules { abi, signal: function.signal, rules: row.rules })
}

/// Whether functions leave a register to their callers as they found it (x86-64 psABI 3.2.1, AAPCS64 6.1.1, s390x ABI
/// 1.2.1). Of others `.eh_frame` says nothing.
fn is_kept(abi: Abi, register: Register) -> bool {
    match abi {
        Abi::Amd64 => matches!(register, 3 | 6 | 12..=15),
        Abi::AArch64Little | Abi::AArch64Big => matches!(register, 19..=29),
        Abi::S390x => matches!(register, 6..=13),
    }
}
