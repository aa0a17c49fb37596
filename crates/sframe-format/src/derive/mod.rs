//! SFrame rows from `.eh_frame` (feature `derive`).
//!
//! Each FDE of `.eh_frame` is run, and its rows are projected to the registers that SFrame tracks: CFA, return
//! address, frame pointer. Functions whose rows have no SFrame form are listed with the reason, never approximated.
//! The section may be unrelocated: sizes and rows do not depend on addresses, and [`Source::offset`] tells the FDE of a
//! function. [`FdeIndex`] derives functions of a linked file one by one, on demand.
//!
//! Linkers describe their PLTs with one DWARF expression for all entries; it becomes a PC-mask function.

mod augmentation;
mod expression;
mod fde_index;
mod project;
mod records;
mod rows;
mod search_table;

use alloc::vec::Vec;
use core::fmt;

use gimli::{BaseAddresses, CieOrFde, EhFrame, EhFrameOffset, RunTimeEndian, UnwindSection};

use crate::abi::Abi;
use crate::endian::Endian;
use crate::error::Error;
use crate::fre::PauthKey;
use crate::rules::Row;
use crate::write::{Function, LeftOut, Options, write_sorted};
use augmentation::Normalized;
use expression::PltExpression;
use project::{Projection, project};
use rows::{Columns, Runner, Slice};

pub use fde_index::{FdeIndex, Scratch};
pub use project::Reason;

/// The FDE of `.eh_frame` that a function was derived from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Offset of the FDE in the section.
    pub offset: usize,
    /// Address at which the FDE's range starts. Where an FDE gives two functions (a PLT's first entry and the
    /// others), the address of the function. 0 for a malformed FDE.
    pub address: u64,
    /// Size of that range or function in bytes. 0 for a malformed FDE.
    pub size: u64,
}

/// Derives every function of `eh_frame`, whose section address is `address`, and hands each to `take`: its FDE, and its
/// rows or why it has none. The function is borrowed, so that its memory serves for the next.
///
/// # Errors
/// The length of an entry is malformed, so that the entries behind it cannot be found; the functions before it were
/// handed out.
pub fn for_each(
    abi: Abi,
    eh_frame: &[u8],
    address: u64,
    take: impl FnMut(Source, Result<&Function, Reason>),
) -> Result<(), gimli::Error> {
    for_each_linked(abi, eh_frame, address, None, take)
}

/// Like [`for_each`], of a linked file whose `header` are the bytes and the address of `.eh_frame_hdr`. A walk over
/// `.eh_frame` ends at its first terminator; the functions whose FDEs stand behind it come too, if the table of `header`
/// leads to them, as it does at run time.
///
/// # Errors
/// See [`for_each`].
pub fn for_each_linked(
    abi: Abi,
    eh_frame: &[u8],
    address: u64,
    header: Option<(&[u8], u64)>,
    mut take: impl FnMut(Source, Result<&Function, Reason>),
) -> Result<(), gimli::Error> {
    let normal = augmentation::normalize(abi, eh_frame);
    let section = section(abi, &normal.data);
    let bases = BaseAddresses::default().set_eh_frame(address);
    let mut deriver = Deriver {
        abi,
        section: &section,
        bases: &bases,
        runner: Runner::default(),
        function: Function::default(),
    };
    let mut entries = section.entries(&bases);
    // FDEs of one CIE follow each other; the CIE need not be parsed for each.
    let mut last_cie: Option<Cie<'_>> = None;
    while let Some(entry) = entries.next()? {
        let CieOrFde::Fde(partial) = entry else { continue };
        let offset = partial.offset();
        let parsed = partial.parse(|section, bases, offset| match &last_cie {
            Some(cie) if cie.offset() == offset.0 => Ok(cie.clone()),
            _ => section.cie_from_offset(bases, offset),
        });
        last_cie = deriver.parsed(offset, parsed, &normal, &mut take).or(last_cie);
    }
    let behind = header.map(|header| records::listed_behind(abi, &normal.data, address, header));
    for offset in behind.unwrap_or_default() {
        let parsed =
            section.fde_from_offset(
                &bases,
                EhFrameOffset(offset),
                |section, bases, offset| match &last_cie {
                    Some(cie) if cie.offset() == offset.0 => Ok(cie.clone()),
                    _ => section.cie_from_offset(bases, offset),
                },
            );
        last_cie = deriver.parsed(offset, parsed, &normal, &mut take).or(last_cie);
    }
    Ok(())
}

/// The section as gimli reads it.
fn section(abi: Abi, data: &[u8]) -> EhFrame<Slice<'_>> {
    let endian = match abi.endian() {
        Endian::Little => RunTimeEndian::Little,
        Endian::Big => RunTimeEndian::Big,
    };
    let mut section = EhFrame::new(data, endian);
    section.set_address_size(8);
    if abi.is_aarch64() {
        section.set_vendor(gimli::Vendor::AArch64);
    }
    section
}

type Cie<'data> = gimli::CommonInformationEntry<Slice<'data>>;
type Fde<'data> = gimli::FrameDescriptionEntry<Slice<'data>>;

struct Deriver<'a, 'data> {
    abi: Abi,
    section: &'a EhFrame<Slice<'data>>,
    bases: &'a BaseAddresses,
    runner: Runner,
    function: Function,
}

/// The tail of an FDE that an expression describes as a series of equal PLT entries.
struct PltTail {
    start: u64,
    expression: PltExpression,
}

impl<'data> Deriver<'_, 'data> {
    /// Hands on what an FDE gives, or why it cannot be read. Gives its CIE.
    fn parsed(
        &mut self,
        offset: usize,
        parsed: gimli::Result<Fde<'data>>,
        normal: &Normalized<'_>,
        take: &mut impl FnMut(Source, Result<&Function, Reason>),
    ) -> Option<Cie<'data>> {
        match parsed {
            Ok(fde) => {
                let key = if normal.is_key_b(fde.cie().offset()) { PauthKey::B } else { PauthKey::A };
                self.fde(&fde, key, take);
                Some(fde.cie().clone())
            }
            Err(error) => {
                take(Source { offset, address: 0, size: 0 }, Err(Reason::Cfi(error)));
                None
            }
        }
    }

    fn fde(
        &mut self,
        fde: &Fde<'data>,
        key: PauthKey,
        take: &mut impl FnMut(Source, Result<&Function, Reason>),
    ) {
        let source = Source { offset: fde.offset(), address: fde.initial_address(), size: fde.len() };
        self.function.signal = fde.is_signal_trampoline();
        self.function.pauth_key = key;
        self.function.repeat_size = None;
        self.function.rows.clear();
        let tail = match self.rows(fde) {
            Ok(tail) => tail,
            Err(reason) => return take(source, Err(reason)),
        };
        let Ok(size) = u32::try_from(source.size) else { return take(source, Err(Reason::Size)) };
        let Some(PltTail { start, expression }) = tail else {
            self.function.size = size;
            return take(source, Ok(&self.function));
        };
        if start > 0 {
            self.function.size = start as u32;
            take(Source { size: start, ..source }, Ok(&self.function));
        }
        self.function.size = size - start as u32;
        self.function.repeat_size = Some(expression.repeat_size);
        self.function.rows.clear();
        self.function.rows.extend(expression.rows(self.abi));
        let address = source.address.wrapping_add(start);
        take(Source { address, size: self.function.size.into(), ..source }, Ok(&self.function));
    }

    /// Fills in the rows of an FDE up to its PLT tail, which is returned.
    fn rows(&mut self, fde: &Fde<'data>) -> Result<Option<PltTail>, Reason> {
        expect_return_column(self.abi, fde)?;
        let start = fde.initial_address();
        let mut rows = self
            .runner
            .rows(self.section, self.bases, fde, Columns::of(self.abi, None))
            .map_err(Reason::Cfi)?;
        while let Some(row) = rows.next_row().map_err(Reason::Cfi)? {
            let (from, to) = (row.start.wrapping_sub(start), row.end.wrapping_sub(start));
            // Locations may advance beyond the end of the range, or not at all between two rows.
            if from >= fde.len() || from == to {
                continue;
            }
            let place = u32::try_from(from).map_err(|_| Reason::Size)?;
            match project(self.abi, self.section, row)? {
                Projection::Rules(rules) => {
                    let same = self.function.rows.last().is_some_and(|last| last.rules == rules);
                    if !same {
                        self.function.rows.push(Row { start: place, rules });
                    }
                }
                Projection::Plt(expression) => {
                    let aligned = row.start % u64::from(expression.repeat_size) == 0;
                    if !aligned || to < fde.len() {
                        return Err(Reason::CfaExpression);
                    }
                    return Ok(Some(PltTail { start: from, expression }));
                }
            }
        }
        Ok(None)
    }
}

fn expect_return_column(abi: Abi, fde: &Fde<'_>) -> Result<(), Reason> {
    let column = fde.cie().return_address_register().0;
    if u32::from(column) == abi.return_address() { Ok(()) } else { Err(Reason::ReturnColumn(column)) }
}

/// A derived section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    /// The bytes of the section, one sorted blob.
    pub bytes: Vec<u8>,
    /// Number of functions in it.
    pub functions: usize,
    /// Functions that are not in it, in the order of `.eh_frame`.
    pub left_out: Vec<(Source, NotDerived)>,
}

/// Why a function is not in a [`Derived`] section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotDerived {
    /// Its rows have no SFrame form.
    Inexpressible(Reason),
    /// Its rows have a form, but not in the version written, or another function took its place.
    LeftOut(LeftOut),
}

impl fmt::Display for NotDerived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inexpressible(reason) => reason.fmt(f),
            Self::LeftOut(left_out) => left_out.fmt(f),
        }
    }
}

/// The reason why [`derive()`] stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeriveError {
    /// The length of an entry of `.eh_frame` is malformed.
    Cfi(gimli::Error),
    /// Version 2 cannot reach a function from the section's address.
    Write(Error),
}

impl fmt::Display for DeriveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cfi(error) => write!(f, ".eh_frame cannot be read: {error}"),
            Self::Write(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for DeriveError {}

/// Derives a whole section for a linked file: `.eh_frame` at `eh_frame_address` gives one sorted blob for a section
/// at `output_address`.
///
/// ```
/// use sframe_format::{derive::derive, write::Options, Abi, Section};
/// let eh_frame = [
///     // CIE "zR": CFA = rsp + 8, return address at CFA - 8.
///     0x14, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
///     // FDE: 16 bytes at 0x1000; from byte 4 on CFA = rsp + 16.
///     0x14, 0, 0, 0, 0x1c, 0, 0, 0, 0xe0, 0xef, 0xff, 0xff, 16, 0, 0, 0, 0, 0x44, 0x0e, 16, 0, 0, 0, 0,
/// ];
/// let derived = derive(Options::new(Abi::Amd64), &eh_frame, 0x2000, 0x3000).unwrap();
/// assert!(derived.left_out.is_empty());
/// let found = Section::new(&derived.bytes, 0x3000).lookup(0x1004).unwrap().unwrap();
/// assert_eq!(found.row.to_string(), "4: cfa=r7+16 fp=u ra=*(cfa-8)");
/// ```
///
/// # Errors
/// `.eh_frame` is malformed as a whole, or version 2 cannot reach a function.
pub fn derive(
    options: Options,
    eh_frame: &[u8],
    eh_frame_address: u64,
    output_address: u64,
) -> Result<Derived, DeriveError> {
    derive_linked(options, eh_frame, eh_frame_address, None, output_address)
}

/// Like [`derive()`]; what `header` is, [`for_each_linked`] says.
///
/// # Errors
/// See [`derive()`].
pub fn derive_linked(
    options: Options,
    eh_frame: &[u8],
    eh_frame_address: u64,
    header: Option<(&[u8], u64)>,
    output_address: u64,
) -> Result<Derived, DeriveError> {
    let (mut functions, mut sources, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    let take = |source: Source, result: Result<&Function, Reason>| match result {
        Ok(function) => {
            functions.push((source.address, function.clone()));
            sources.push(source);
        }
        Err(reason) => left_out.push((source, NotDerived::Inexpressible(reason))),
    };
    for_each_linked(options.abi, eh_frame, eh_frame_address, header, take).map_err(DeriveError::Cfi)?;
    let written = write_sorted(options, output_address, &functions).map_err(DeriveError::Write)?;
    let count = functions.len() - written.left_out.len();
    left_out.extend(
        written.left_out.into_iter().map(|(place, reason)| (sources[place], NotDerived::LeftOut(reason))),
    );
    left_out.sort_by_key(|(source, _)| source.offset);
    Ok(Derived { bytes: written.bytes, functions: count, left_out })
}
