//! Writes compact tables.
//!
//! A linker must know the size of a section before it knows an address, so the writer works in two steps. A
//! [`Builder`] takes functions without their addresses; equal functions get the same [`ShapeId`].
//! [`Builder::finish`] makes everything that does not depend on addresses: all parts except the pages and the
//! regions. The address ranges of the code bound the number of these ([`Pages::of_ranges`](super::Pages)). In
//! the second step, [`Shapes::write`] joins addresses and shapes. If several threads read functions, each has
//! a builder, and [`super::join()`] makes one of what they hold.

use alloc::vec::Vec;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::collected::{Collected, REPEATS};
use super::forms::Forms;
use super::functions::{Functions, ShapeId, Stretch};
use super::intern::Lists;
use super::known_runs::KnownRuns;
use super::row_rules::{NO_ROW, RowRules, number};
use super::shape::{COVERED_BITS, ENDS, GOES_ON};
use super::write::Shapes;
use super::{MAX_BYTES, MAX_ROWS, VERSION};
use crate::abi::Abi;
use crate::cfi::{NumberedFunction, most_within_run};
use crate::decoded::Decoded;
use crate::error::{Error, ErrorKind};
use crate::rules::UnwindRules;
use crate::write::{Function, Inexpressible, LeftOut, Reason};

pub use crate::write::Written;

/// The error for functions that [`Builder::finish`] refuses.
pub(super) const FULL: Error = Error { offset: 0, kind: ErrorKind::CompactFull { what: "different rows" } };

/// Collects functions for a compact table.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(super) abi: Abi,
    pub(super) version: u8,
    /// A row that covers more bytes than this ends its run, unless it is the last row.
    pub(super) close: u32,
    pub(super) rules: Vec<RowRules>,
    pub(super) numbers: HashMap<RowRules, u32, FixedState>,
    /// Version 2: the layouts, a byte in each word, and the forms of rows.
    pub(super) layouts: Lists,
    pub(super) forms: Forms,
    /// Version 2: the runs that runs of rows become, and memory for a function's rows.
    pub(super) known_runs: KnownRuns,
    pub(super) numbered: NumberedFunction,
    pub(super) runs: Lists,
    pub(super) shapes: Lists,
    pub(super) functions: Functions,
    /// The rows of the current function: start and number of the rule. `places` of forms, `run`, `shape` and
    /// `stretches` are parts of the current function, too.
    pub(super) rows: Vec<(u32, u32)>,
    pub(super) places: Vec<u32>,
    pub(super) run: Vec<u32>,
    pub(super) shape: Vec<u32>,
    pub(super) stretches: Vec<Stretch>,
    /// For [`Builder::add_encoded`]: rows that were decoded before, and memory for a function.
    pub(super) decoded: Decoded,
    pub(super) function: Function,
}

impl Builder {
    /// A builder without functions, for a table of version 1.
    pub fn new(abi: Abi) -> Self {
        Self::of_version(abi, VERSION)
    }

    pub(super) fn of_version(abi: Abi, version: u8) -> Self {
        Self {
            abi,
            version,
            close: most_within_run(abi),
            rules: Vec::new(),
            numbers: HashMap::default(),
            layouts: Lists::default(),
            forms: Forms::default(),
            known_runs: KnownRuns::default(),
            numbered: NumberedFunction::default(),
            runs: Lists::default(),
            shapes: Lists::default(),
            functions: Functions::default(),
            rows: Vec::new(),
            places: Vec::new(),
            run: Vec::new(),
            shape: Vec::new(),
            stretches: Vec::new(),
            decoded: Decoded::default(),
            function: Function::default(),
        }
    }

    /// Makes room for so many more functions.
    pub fn reserve(&mut self, functions: usize) {
        // The usual number of words: three or four runs.
        self.functions.reserve(functions);
        self.shapes.reserve(functions, 8);
        self.runs.reserve(functions / 2, 2);
    }

    /// Makes room for so many more different functions of few different runs.
    pub fn reserve_shapes(&mut self, functions: usize) {
        self.functions.reserve(functions);
        // The usual number of words: two or three runs.
        self.shapes.reserve(functions, 6);
    }

    /// Adds a function. If it has no rows, its bytes are covered, but look-ups in it find no row.
    ///
    /// # Errors
    /// The function has no bytes, its rows do not ascend, or its repetition has no bytes or more than
    /// [`MAX_ROWS`] rows. Nothing is added then.
    pub fn add(&mut self, function: &Function) -> Result<ShapeId, Inexpressible> {
        let refuse = |reason| Inexpressible { row: None, reason };
        if function.size == 0 {
            return Err(refuse(Reason::RowOutside));
        }
        if let Some(pair) = function.rows.windows(2).find(|pair| pair[0].start >= pair[1].start) {
            return Err(Inexpressible { row: Some(pair[1].start), reason: Reason::RowOrder });
        }
        let repeat = function.repeat_size.map(u32::from);
        if repeat == Some(0) {
            return Err(refuse(Reason::RepeatSize));
        }
        let end = repeat.map_or(function.size, |repeat| repeat.min(function.size));
        self.read_rows(function, end);
        self.stretches.clear();
        match repeat {
            Some(repeat) if self.rows.len() > 1 && repeat < function.size => {
                if self.rows.len() > MAX_ROWS {
                    return Err(refuse(Reason::TooManyRows { count: self.rows.len() }));
                }
                self.add_repeating(repeat, function.size);
            }
            // The function does not repeat, or one row holds in all repetitions.
            _ => self.add_pieces(function.size),
        }
        Ok(self.take())
    }

    /// Adds the function that [`Builder::stretches`] describes.
    pub(super) fn take(&mut self) -> ShapeId {
        self.functions.number(&self.stretches)
    }

    /// Numbers the rules of the rows that start before `end`. Neighbours with the same rules become one row.
    fn read_rows(&mut self, function: &Function, end: u32) {
        self.rows.clear();
        if function.rows.first().is_none_or(|row| row.start > 0) {
            self.rows.push((0, NO_ROW));
        }
        for row in function.rows.iter().take_while(|row| row.start < end) {
            let rules = UnwindRules { abi: self.abi, signal: function.signal, rules: row.rules };
            let number = number(&mut self.rules, &mut self.numbers, RowRules::plain(rules));
            if self.rows.last().is_none_or(|&(_, last)| last != number) {
                self.rows.push((row.start, number));
            }
        }
    }

    fn add_repeating(&mut self, repeat: u32, size: u32) {
        let stride = MAX_BYTES / repeat * repeat;
        let (full, rest) = (size / stride, size % stride);
        for (offset, count, whole) in [(0, full, stride), (full * stride, rest.min(1), rest)] {
            if count > 0 {
                let rows = 0..self.rows.len();
                self.add_piece(rows, 0, repeat, Some((repeat, whole)), (offset, count, stride));
            }
        }
    }

    /// Splits a function into pieces that an entry can hold.
    pub(super) fn add_pieces(&mut self, size: u32) {
        let (mut first, mut start) = (0, 0);
        while first < self.rows.len() {
            let fits = |row: &usize| self.end_of(*row, size) - start <= MAX_BYTES;
            let count = (first..self.rows.len()).take(MAX_ROWS).take_while(fits).count();
            if count > 0 {
                let (rows, end) = (first..first + count, self.end_of(first + count - 1, size));
                self.add_piece(rows, start, end, None, (start, 1, 0));
                (first, start) = (first + count, end);
                continue;
            }
            let row_end = self.end_of(first, size);
            let full = (row_end - start) / MAX_BYTES;
            let end = start + MAX_BYTES;
            self.add_piece(first..first + 1, start, end, None, (start, full, MAX_BYTES));
            start += full * MAX_BYTES;
            if start == row_end {
                first += 1;
            }
        }
    }

    /// Where a row ends, in a function of `size` bytes.
    fn end_of(&self, row: usize, size: u32) -> u32 {
        self.rows.get(row + 1).map_or(size, |next| next.0)
    }

    /// Adds equal pieces with the rows `rows` from `start` to `end`. `repeat` are the sizes of a repetition
    /// and of the whole piece. The last argument is the offset of the first piece, the number of pieces, and
    /// the distance from one piece to the next.
    fn add_piece(
        &mut self,
        rows: core::ops::Range<usize>,
        start: u32,
        end: u32,
        repeat: Option<(u32, u32)>,
        (offset, count, stride): (u32, u32, u32),
    ) {
        self.shape.clear();
        self.run.clear();
        if let Some((repeat, whole)) = repeat {
            self.shape.extend([REPEATS, repeat, whole]);
        }
        for row in rows.clone() {
            let (row_start, rule) = self.rows[row];
            let last = row + 1 == rows.end;
            let row_end = if last { end } else { self.rows[row + 1].0 };
            let covered = row_end - row_start.max(start);
            let how = match last {
                true => ENDS,
                false if covered <= self.close => covered,
                false => GOES_ON,
            };
            self.run.push(rule << COVERED_BITS | how);
            if matches!(how, ENDS | GOES_ON) {
                let run = self.runs.intern(&self.run).0;
                self.shape.extend([run, covered]);
                self.run.clear();
            }
        }
        let shape = self.shapes.intern(&self.shape).0;
        self.stretches.push(Stretch { offset, shape, count, stride });
    }

    /// Makes everything that does not depend on addresses.
    ///
    /// # Errors
    /// Those of [`Collected::finish`].
    pub fn finish(self) -> Result<Shapes, Inexpressible> {
        Collected::from(self).finish()
    }
}

impl From<Builder> for Collected {
    fn from(builder: Builder) -> Self {
        let Builder { abi, version, rules, layouts, runs, shapes, functions, .. } = builder;
        let [layouts, runs, shapes] = [layouts, runs, shapes].map(Lists::into_words);
        Self { abi, version, rules, layouts, runs, shapes, functions }
    }
}

/// Writes functions, given by address, as one table for a section at `address`. It omits empty functions. If
/// several functions start at one address, it writes the largest.
///
/// # Errors
/// The table would be larger than the format allows.
pub fn write_table(abi: Abi, address: u64, functions: &[(u64, Function)]) -> Result<Written, Error> {
    let mut builder = Builder::new(abi);
    let mut left_out = Vec::new();
    let mut order: Vec<usize> = (0..functions.len()).collect();
    order.sort_by_key(|&place| (functions[place].0, core::cmp::Reverse(functions[place].1.size), place));
    let mut placed: Vec<(u64, ShapeId)> = Vec::with_capacity(order.len());
    for place in order {
        let (start, function) = &functions[place];
        if function.size == 0 {
            left_out.push((place, LeftOut::Empty));
        } else if placed.last().is_some_and(|last| last.0 == *start) {
            left_out.push((place, LeftOut::Duplicate));
        } else {
            match builder.add(function) {
                Ok(shape) => placed.push((*start, shape)),
                Err(reason) => left_out.push((place, LeftOut::Inexpressible(reason))),
            }
        }
    }
    left_out.sort_by_key(|&(place, _)| place);
    let bytes = builder.finish().map_err(|_| FULL)?.to_bytes(address, &placed)?;
    Ok(Written { bytes, left_out })
}
