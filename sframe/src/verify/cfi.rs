//! Reads call frame information for the verifier.
//!
//! This module runs the instructions of `.eh_frame` and keeps the DWARF rules of each row as they are,
//! without a conversion to SFrame. It shares no code with the derivation of SFrame from `.eh_frame`. If it
//! did, the verifier would repeat a mistake of the derivation and call the result right.

use super::overlap::Covered;
use gimli::{
    BaseAddresses, CieOrFde, EhFrame, EndianSlice, RegisterRule, RunTimeEndian, StoreOnHeap, UnwindContext,
    UnwindSection,
};
use sframe_format::{Abi, Endian};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

/// The bytes of `.eh_frame`.
pub type Bytes<'data> = EndianSlice<'data, RunTimeEndian>;
/// A rule for the CFA.
pub type DwarfCfa = gimli::CfaRule<usize>;
/// A rule for a register; `None` if the row has none.
pub type DwarfRule = Option<RegisterRule<usize>>;

/// A function that `.eh_frame` describes.
pub struct CfiFunction<'data> {
    /// Offset of its FDE in the section.
    pub offset: usize,
    /// The addresses that it covers.
    pub range: Range<u64>,
    /// Whether it is a signal frame.
    pub signal: bool,
    /// Whether return addresses are signed with key B (AArch64).
    pub key_b: bool,
    fde: gimli::FrameDescriptionEntry<Bytes<'data>>,
}

/// One row: the rules for a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CfiRow {
    /// The range that the row covers.
    pub range: Range<u64>,
    /// The rule for the canonical frame address.
    pub cfa: DwarfCfa,
    /// The rule for the return address.
    pub ra: DwarfRule,
    /// The rule for the frame pointer.
    pub fp: DwarfRule,
    /// The rule for the stack pointer.
    pub sp: DwarfRule,
    /// Whether the return address is signed (AArch64).
    pub signed: bool,
}

impl CfiRow {
    fn same_rules(&self, other: &Self) -> bool {
        (&self.cfa, &self.ra, &self.fp, &self.sp, self.signed)
            == (&other.cfa, &other.ra, &other.fp, &other.sp, other.signed)
    }
}

/// `.eh_frame` in a form that gimli takes.
///
/// AArch64 marks CIEs with augmentation letters that gimli does not know: `B` (key B) and `G` (tagged
/// frames). Like `S`, they have no data. So a copy of the section has `S` in their place, and [`Prepared`]
/// remembers the original letters.
pub struct Prepared<'data> {
    data: Cow<'data, [u8]>,
    /// For each changed CIE its offset, whether it is a signal frame, and whether it has key B; ascending.
    changed: Vec<(usize, bool, bool)>,
}

impl<'data> Prepared<'data> {
    /// Prepares the bytes of a section.
    pub fn new(abi: Abi, data: &'data [u8]) -> Self {
        let mut prepared = Self { data: Cow::Borrowed(data), changed: Vec::new() };
        if abi.is_aarch64() {
            prepared.change_letters(abi.endian(), data);
        }
        prepared
    }

    fn change_letters(&mut self, endian: Endian, data: &[u8]) {
        for Entry { offset, id, end, .. } in entries(endian, data) {
            // The version follows the id.
            let start = id + 5;
            let letters = data.get(start..end).unwrap_or_default();
            let letters = letters.split(|&byte| byte == 0).next().unwrap_or_default();
            let is_cie = endian.read_u32(data, id) == Some(0);
            if is_cie && letters.iter().any(|letter| b"BG".contains(letter)) {
                self.changed.push((offset, letters.contains(&b'S'), letters.contains(&b'B')));
                for letter in &mut self.data.to_mut()[start..start + letters.len()] {
                    if b"BG".contains(letter) {
                        *letter = b'S';
                    }
                }
            }
        }
    }

    /// Whether the CIE at an offset is for signal frames, and whether it has key B. `signal` is what gimli
    /// read.
    fn marks(&self, offset: usize, signal: bool) -> (bool, bool) {
        match self.changed.binary_search_by_key(&offset, |&(offset, ..)| offset) {
            Ok(place) => self.changed.get(place).map_or((signal, false), |&(_, signal, key)| (signal, key)),
            Err(_) => (signal, false),
        }
    }
}

/// A CIE or an FDE.
struct Entry {
    offset: usize,
    /// Offset of the field that tells a CIE from an FDE.
    id: usize,
    end: usize,
    /// Whether a length of zero precedes it. An ordinary walk over the section ends at such a length.
    behind: bool,
}

/// The entries of a section, up to one that does not fit. Entries after a length of zero are included.
fn entries(endian: Endian, data: &[u8]) -> impl Iterator<Item = Entry> {
    let (mut offset, mut behind) = (0usize, false);
    std::iter::from_fn(move || {
        while endian.read_u32(data, offset)? == 0 {
            (offset, behind) = (offset + 4, true);
        }
        let (id, length) = match endian.read_u32(data, offset)? {
            u32::MAX => (offset + 12, endian.read_i64(data, offset + 4)?.try_into().ok()?),
            length => (offset + 4, length as usize),
        };
        let end = id.checked_add(length).filter(|&end| end <= data.len())?;
        Some(Entry { offset: std::mem::replace(&mut offset, end), id, end, behind })
    })
}

/// All functions of a section.
pub struct CallFrames<'data> {
    /// By address.
    pub functions: Vec<CfiFunction<'data>>,
    /// FDEs that cannot be read, with their offsets. The last error may have ended the reading.
    pub unreadable: Vec<(usize, gimli::Error)>,
    /// Number of FDEs that are not in `functions`, because `.eh_frame_hdr` lists others of the same code.
    pub replaced: u64,
    section: EhFrame<Bytes<'data>>,
    bases: BaseAddresses,
    abi: Abi,
}

impl<'data> CallFrames<'data> {
    /// Reads the functions of a section that lies at `address`. `header` is the bytes and the address of
    /// `.eh_frame_hdr`. At run time, that table leads to entries after a length of zero, which a walk does
    /// not find.
    pub fn read(abi: Abi, prepared: &'data Prepared<'_>, address: u64, header: Option<(&[u8], u64)>) -> Self {
        let endian = match abi.endian() {
            Endian::Little => RunTimeEndian::Little,
            Endian::Big => RunTimeEndian::Big,
        };
        let mut section = EhFrame::new(&prepared.data, endian);
        section.set_address_size(8);
        if abi.is_aarch64() {
            section.set_vendor(gimli::Vendor::AArch64);
        }
        let bases = BaseAddresses::default().set_eh_frame(address);
        let mut frames =
            Self { functions: Vec::new(), unreadable: Vec::new(), replaced: 0, section, bases, abi };
        frames.read_functions(prepared);
        if let Some(header) = header {
            let listed = listed(endian, header, address);
            frames.read_listed(prepared, &listed);
            frames.leave_out_replaced(&listed);
        }
        frames.functions.sort_by_key(|function| (function.range.start, function.range.end, function.offset));
        frames
    }

    fn read_functions(&mut self, prepared: &Prepared<'_>) {
        let (section, bases) = (self.section, self.bases.clone());
        let mut entries = section.entries(&bases);
        // The FDEs of one CIE usually follow each other.
        let mut known: Option<gimli::CommonInformationEntry<Bytes<'_>>> = None;
        loop {
            let entry = match entries.next() {
                Ok(Some(CieOrFde::Fde(entry))) => entry,
                Ok(Some(CieOrFde::Cie(_))) => continue,
                Ok(None) => return,
                Err(error) => {
                    self.unreadable.push((prepared.data.len(), error));
                    return;
                }
            };
            let offset = entry.offset();
            let fde = entry.parse(|section, bases, offset| match &known {
                Some(cie) if cie.offset() == offset.0 => Ok(cie.clone()),
                _ => section.cie_from_offset(bases, offset),
            });
            if let Ok(fde) = &fde {
                known = Some(fde.cie().clone());
            }
            self.add(prepared, offset, fde);
        }
    }

    fn add(
        &mut self,
        prepared: &Prepared<'_>,
        offset: usize,
        fde: gimli::Result<gimli::FrameDescriptionEntry<Bytes<'data>>>,
    ) {
        match fde {
            Ok(fde) => {
                let (signal, key_b) = prepared.marks(fde.cie().offset(), fde.is_signal_trampoline());
                let start = fde.initial_address();
                let range = start..start.saturating_add(fde.len());
                if !range.is_empty() {
                    self.functions.push(CfiFunction { offset, range, signal, key_b, fde });
                }
            }
            Err(error) => self.unreadable.push((offset, error)),
        }
    }

    /// Reads those functions after a length of zero whose offsets are in this set.
    fn read_listed(&mut self, prepared: &Prepared<'_>, listed: &BTreeSet<u64>) {
        let Some(&last) = listed.last() else { return };
        let reached =
            entries(self.abi.endian(), &prepared.data).take_while(|entry| entry.offset as u64 <= last);
        for entry in reached.filter(|entry| entry.behind && listed.contains(&(entry.offset as u64))) {
            let place = gimli::EhFrameOffset(entry.offset);
            let fde = self.section.fde_from_offset(&self.bases, place, EhFrame::cie_from_offset);
            self.add(prepared, entry.offset, fde);
        }
    }

    /// Removes the FDEs that tools left when they rewrote functions: their offsets are not in this set, and
    /// an FDE whose offset is in it describes the same code.
    fn leave_out_replaced(&mut self, listed: &BTreeSet<u64>) {
        let is_listed = |function: &CfiFunction<'_>| listed.contains(&(function.offset as u64));
        let by_table = self.functions.iter().filter(|function| is_listed(function));
        let by_table = Covered::new(by_table.map(|function| function.range.clone()).collect());
        let before = self.functions.len();
        self.functions.retain(|function| {
            let range = &function.range;
            is_listed(function) || by_table.missing(range) == range.end - range.start
        });
        self.replaced = (before - self.functions.len()) as u64;
    }

    /// The section, for expressions.
    pub fn section(&self) -> &EhFrame<Bytes<'data>> {
        &self.section
    }

    /// The return address column of a function.
    pub fn return_column(&self, function: &CfiFunction<'data>) -> u32 {
        function.fde.cie().return_address_register().0.into()
    }

    /// Fills `rows` with the rows of a function in ascending order. Equal neighbours become one row.
    ///
    /// # Errors
    /// An instruction is unknown or invalid; `rows` has the rows before it.
    pub fn rows(
        &self,
        function: &CfiFunction<'data>,
        context: &mut UnwindContext<usize, StoreOnHeap>,
        rows: &mut Vec<CfiRow>,
    ) -> Result<(), gimli::Error> {
        rows.clear();
        let column = function.fde.cie().return_address_register();
        let number = |register: u32| gimli::Register(register as u16);
        let mut table = function.fde.rows(&self.section, &self.bases, context)?;
        while let Some(row) = table.next_row()? {
            let start = row.start_address().max(function.range.start);
            let end = row.end_address().min(function.range.end);
            if start >= end {
                continue;
            }
            let signed = self.abi.is_aarch64()
                && matches!(row.register(gimli::AArch64::RA_SIGN_STATE),
                    Some(RegisterRule::Constant(state)) if state & 1 != 0);
            let row = CfiRow {
                range: start..end,
                cfa: row.cfa().clone(),
                ra: row.register(column),
                fp: row.register(number(self.abi.frame_pointer())),
                sp: row.register(number(self.abi.stack_pointer())),
                signed,
            };
            match rows.last_mut() {
                Some(last) if last.range.end == row.range.start && last.same_rules(&row) => {
                    last.range.end = row.range.end;
                }
                _ => rows.push(row),
            }
        }
        Ok(())
    }
}

/// The offsets in the section at `section` that the table of `.eh_frame_hdr` points to; none if the table is
/// for another section.
fn listed(endian: RunTimeEndian, (data, address): (&[u8], u64), section: u64) -> BTreeSet<u64> {
    let bases = BaseAddresses::default().set_eh_frame_hdr(address);
    let Ok(header) = gimli::EhFrameHdr::new(data, endian).parse(&bases, 8) else { return BTreeSet::new() };
    if header.eh_frame_ptr() != gimli::Pointer::Direct(section) {
        return BTreeSet::new();
    }
    let (mut listed, Some(table)) = (BTreeSet::new(), header.table()) else { return BTreeSet::new() };
    let mut entries = table.iter(&bases);
    while let Ok(Some((_, entry))) = entries.next() {
        if let gimli::Pointer::Direct(place) = entry {
            listed.insert(place.wrapping_sub(section));
        }
    }
    listed
}

/// Whether no CFA is defined. gimli shows that as register 0 with offset 0.
pub fn is_undefined(cfa: &DwarfCfa) -> bool {
    matches!(cfa, DwarfCfa::RegisterAndOffset { register, offset: 0 } if register.0 == 0)
}
