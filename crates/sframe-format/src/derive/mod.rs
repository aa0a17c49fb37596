//! Derives SFrame rows from `.eh_frame` (feature `derive`).
//!
//! For each FDE of `.eh_frame`, this module runs the call frame instructions and projects each row to the
//! registers that SFrame tracks: CFA, return address, frame pointer. It never approximates: it lists a
//! stretch of code whose rows have no SFrame form, with the reason, and the code before and after the stretch
//! becomes functions of its own. The section may be unrelocated: sizes and rows do not depend on addresses,
//! and [`Source::offset`] identifies the FDE of a function. [`FdeIndex`] derives functions of a linked file
//! one by one, on demand, also those of `.debug_frame`, and steps where their rows have no SFrame form.
//!
//! Linkers describe their PLTs with one DWARF expression for all entries. It becomes a PC-mask function.

mod cfi;
mod entries;
mod evaluate;
mod expression;
mod fde_index;
mod head;
mod instructions;
mod known_fdes;
mod project;
mod reason;
mod recall;
mod records;
mod replaced;
mod rows;
mod search_table;
mod segments;
mod states;
mod stretches;

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::abi::Abi;
use crate::endian::Endian;
use crate::error::Error;
use crate::fre::PauthKey;
use crate::rules::{Row, Rules};
use crate::write::{Function, LeftOut, Options, write_sorted};
use entries::{Cie, Fde, Frames};
use expression::PltExpression;
use project::{Projection, project};
use rows::{Columns, Runner};
use search_table::Header;

pub use cfi::{CfiEntry, CfiParts, CfiReader};
pub use entries::Pointer;
pub use fde_index::{FdeIndex, Scratch};
pub use head::CfiHead;
pub use known_fdes::UnknownFde;
pub use project::Reason;
pub use reason::CfiReason;
pub use states::CfiStates;

/// The FDE of `.eh_frame` that a function was derived from, and the part of the FDE's range that the function
/// covers.
///
/// Most functions cover the whole range. An FDE gives several functions if some rows in between have no
/// SFrame form. It gives two for a PLT: its first entry and the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Offset of the FDE in the section.
    pub offset: usize,
    /// Bytes of the FDE's range before the part.
    pub before: u64,
    /// Address at which the part starts. 0 for a malformed FDE.
    pub address: u64,
    /// Size of the part in bytes. 0 for a malformed FDE.
    pub size: u64,
}

/// Derives every function of `eh_frame`, a section at `address`, and passes each to `take`: its FDE, and its
/// rows or the reason why it has none. The function is borrowed, so that the next one can reuse its memory.
///
/// The section is that of an object, or one that a linker has yet to write. So records may follow a
/// terminator, too.
///
/// # Errors
/// The length of an entry is malformed, so the entries after it cannot be found. `take` has received the
/// functions before it.
pub fn for_each(
    abi: Abi,
    eh_frame: &[u8],
    address: u64,
    mut take: impl FnMut(Source, Result<&Function, Reason>),
) -> Result<(), gimli::Error> {
    let mut deriver = Deriver::new(Frames::new(abi, eh_frame, address));
    let mut records = deriver.frames.records();
    records.by_ref().for_each(|record| deriver.record(&record, &mut take));
    records.finish()
}

/// The address of `.eh_frame` in a file without section headers: the `header` of its `PT_GNU_EH_FRAME`, which
/// is at `address`, leads to it (LSB, "The .eh_frame_hdr section"). `None`: it has another form.
pub fn eh_frame_start(endian: Endian, header: &[u8], address: u64) -> Option<u64> {
    search_table::section(endian, header, address)
}

/// The number of bytes of `.eh_frame`, which begins with `data` at `address`. No segment ends where it does,
/// so `data` may go on behind it. `header` are the bytes and the address of `.eh_frame_hdr`; its table may
/// lead to records behind a terminator.
pub fn eh_frame_size(endian: Endian, data: &[u8], address: u64, header: Option<(&[u8], u64)>) -> usize {
    records::extent(endian, data, address, header)
}

/// Like [`for_each`], but for a linked file. `header` are the bytes and the address of its `.eh_frame_hdr`.
///
/// A walk over `.eh_frame` ends at its first terminator. If the table of `header` leads to FDEs after it,
/// this derives their functions as well, because the table also leads to them at run time. For the same
/// reason it leaves an FDE out if the table leads to another one of the same code ([`Reason::Replaced`]).
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
    let mut deriver = Deriver::new(Frames::new(abi, eh_frame, address));
    let header = header.and_then(|(data, at)| Header::parse(abi.endian(), data, at, address));
    let replaced = header.as_ref().map(|header| replaced::replaced(&deriver.frames, header));
    let replaced = replaced.unwrap_or_default();
    let mut records = deriver.frames.records();
    for record in records.by_ref().take_while(|record| !record.behind) {
        let offset = record.offset;
        match replaced.binary_search_by_key(&offset, |(offset, _)| *offset) {
            Ok(place) => {
                let Range { start: address, end } = replaced[place].1;
                let source = Source { offset, before: 0, address, size: end - address };
                take(source, Err(Reason::Replaced));
            }
            Err(_) => deriver.record(&record, &mut take),
        }
    }
    records.finish_walk()?;
    let behind = header.map(|header| records::listed_behind(abi, eh_frame, &header));
    behind.unwrap_or_default().iter().for_each(|record| deriver.record(record, &mut take));
    Ok(())
}

/// Like [`for_each`], but for the section `debug_frame` of a linked file.
///
/// # Errors
/// See [`for_each`].
pub fn for_each_of_debug_frame(
    abi: Abi,
    debug_frame: &[u8],
    mut take: impl FnMut(Source, Result<&Function, Reason>),
) -> Result<(), gimli::Error> {
    let mut deriver = Deriver::new(Frames::of_debug(abi, debug_frame));
    let mut records = deriver.frames.records();
    records.by_ref().for_each(|record| deriver.record(&record, &mut take));
    records.finish()
}

struct Deriver<'data> {
    frames: Frames<'data>,
    /// FDEs of one CIE follow each other, so the CIE is read once for them.
    known: Option<Cie<'data>>,
    runner: Runner,
    function: Function,
}

impl<'data> Deriver<'data> {
    fn new(frames: Frames<'data>) -> Self {
        Self { frames, known: None, runner: Runner::default(), function: Function::default() }
    }

    /// If a record is an FDE, passes on its functions, or the reason why it cannot be read.
    fn record(&mut self, record: &records::Record, take: &mut impl FnMut(Source, Result<&Function, Reason>)) {
        match self.frames.entry(record, self.known.as_ref()) {
            Ok(Some(fde)) => {
                self.known = Some(fde.cie);
                self.fde(&fde, take);
            }
            Ok(None) => {}
            Err(error) => {
                let source = Source { offset: record.offset, before: 0, address: 0, size: 0 };
                take(source, Err(Reason::Cfi(error)));
            }
        }
    }

    fn fde(&mut self, fde: &Fde<'data>, take: &mut impl FnMut(Source, Result<&Function, Reason>)) {
        let abi = self.frames.abi;
        self.function.signal = fde.cie.signal;
        self.function.pauth_key = if fde.cie.key_b { PauthKey::B } else { PauthKey::A };
        let mut parts = Parts { fde, function: &mut self.function, take, begin: 0, left_out: None };
        parts.begin(0);
        let readable = expect_return_column(abi, fde).and_then(|()| {
            u32::try_from(fde.size).map_err(|_| Reason::Size)?;
            self.runner.rows(&self.frames, fde, Columns::of(abi, None)).map_err(Reason::Cfi)
        });
        let mut rows = match readable {
            Ok(rows) => rows,
            Err(reason) => return parts.leave_out_rest(0, reason),
        };
        loop {
            let row = match rows.next_row() {
                Ok(Some(row)) => row,
                Ok(None) => return parts.end(fde.size),
                Err(error) => {
                    let from = rows.position().wrapping_sub(fde.start);
                    return parts.leave_out_rest(from.min(fde.size), Reason::Cfi(error));
                }
            };
            let (from, to) = (row.start.wrapping_sub(fde.start), row.end.wrapping_sub(fde.start));
            // Locations may advance beyond the end of the range, or not at all between two rows.
            if from >= fde.size || from == to {
                continue;
            }
            match project(abi, &self.frames.section, row) {
                Ok(Projection::Rules(rules)) => parts.row(from, rules),
                Ok(Projection::Plt(expression)) => {
                    let aligned = row.start % u64::from(expression.repeat_size) == 0;
                    if aligned && to >= fde.size {
                        return parts.plt(abi, from, &expression);
                    }
                    parts.leave_out(from, Reason::CfaExpression);
                }
                Err(reason) => parts.leave_out(from, reason),
            }
        }
    }
}

/// The parts of an FDE's range. Each part is passed on when it ends. It has rows, or a reason why it has
/// none.
struct Parts<'f, 'data, F> {
    fde: &'f Fde<'data>,
    /// The current part, if it has rows.
    function: &'f mut Function,
    take: &'f mut F,
    /// Where the current part starts.
    begin: u64,
    /// Why the current part has no rows.
    left_out: Option<Reason>,
}

impl<F: FnMut(Source, Result<&Function, Reason>)> Parts<'_, '_, F> {
    fn begin(&mut self, from: u64) {
        self.begin = from;
        self.function.repeat_size = None;
        self.function.rows.clear();
    }

    /// Passes on the current part, which ends at `to`.
    fn end(&mut self, to: u64) {
        let (before, size) = (self.begin, to - self.begin);
        let address = self.fde.start.wrapping_add(before);
        let source = Source { offset: self.fde.offset, before, address, size };
        self.function.size = size as u32;
        (self.take)(source, self.left_out.take().map_or(Ok(&*self.function), Err));
        self.begin(to);
    }

    /// Begins another part at `from`.
    fn part(&mut self, from: u64) {
        if from > self.begin {
            self.end(from);
        }
    }

    /// Appends a row.
    fn row(&mut self, from: u64, rules: Rules) {
        if self.left_out.is_some() {
            self.part(from);
        }
        if self.function.rows.last().is_none_or(|last| last.rules != rules) {
            self.function.rows.push(Row { start: (from - self.begin) as u32, rules });
        }
    }

    /// Notes that there are no rows from `from` on.
    fn leave_out(&mut self, from: u64, reason: Reason) {
        if self.left_out.as_ref() != Some(&reason) {
            self.part(from);
            self.left_out = Some(reason);
        }
    }

    /// Notes that there are no rows from `from` to the end.
    fn leave_out_rest(&mut self, from: u64, reason: Reason) {
        self.leave_out(from, reason);
        self.end(self.fde.size);
    }

    /// Describes the rest, from `from` on, as equal entries.
    fn plt(&mut self, abi: Abi, from: u64, expression: &PltExpression) {
        self.part(from);
        self.function.repeat_size = Some(expression.repeat_size);
        self.function.rows.extend(expression.rows(abi));
        self.end(self.fde.size);
    }
}

fn expect_return_column(abi: Abi, fde: &Fde<'_>) -> Result<(), Reason> {
    let column = fde.cie.return_address.0;
    if u32::from(column) == abi.return_address() { Ok(()) } else { Err(Reason::ReturnColumn(column)) }
}

/// A derived section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    /// The bytes of the section, one sorted blob.
    pub bytes: Vec<u8>,
    /// Number of functions in it.
    pub functions: usize,
    /// Functions that the section lacks, in the order of `.eh_frame`.
    pub left_out: Vec<(Source, NotDerived)>,
}

/// Why a function is not in a [`Derived`] section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotDerived {
    /// Its rows have no SFrame form.
    Inexpressible(Reason),
    /// Its rows have a form, but not in this version, or another function replaced it.
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

/// Derives a whole section for a linked file: `.eh_frame` at `eh_frame_address` becomes one sorted blob for a
/// section at `output_address`.
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

/// Like [`derive()`], but with the `header` of [`for_each_linked`].
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
