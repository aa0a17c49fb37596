//! Whether a table of version 2 says what functions say whose rows come in runs.
//!
//! A run of steps lies at one place of the table, and says the same wherever a shape names it. So it is held
//! against a run of rows once, step by step. A function then says the same as its shape if the two have the
//! same runs, and if the last row of each covers the same bytes.

use alloc::vec::Vec;

use super::compare::{Agreed, Comparison};
use super::shape::{COVERED_BITS, ENDS, GOES_ON};
use super::{MAX_ROWS, View};
use crate::cfi::{CfiRows, CfiRuns, NumberedFunction, RunFunction};
use crate::error::Error;

/// What was found to be the same. It belongs to one table and one list of runs and of their rows.
#[derive(Clone, Debug, Default)]
pub struct AgreedRuns {
    /// By number of a run and kind of the function: at the end of functions, and elsewhere.
    runs: Vec<[[Run; 2]; CfiRows::KINDS]>,
    rows: Agreed,
    /// The entry behind the one of the last function. Functions are mostly compared in the order of their
    /// addresses.
    next: Option<Entry>,
    /// Memory for a function.
    numbered: NumberedFunction,
}

/// An entry, the number after that of the last entry in its page, and the address of the page.
#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u32,
    end: u32,
    page: u64,
}

/// A run of steps that says what a run of rows says.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// Its first step, plus 1; 0: none was met.
    step: u32,
    /// The number of its rows, and the bytes that all but the last cover.
    rows: u32,
    bytes: u32,
}

impl AgreedRuns {
    /// What is known of a run in functions of a kind, at their end or elsewhere.
    #[inline]
    fn run(&self, run: u32, kind: usize, is_last: bool) -> Run {
        self.runs.get(run as usize).map_or_else(Run::default, |kinds| kinds[kind][usize::from(is_last)])
    }

    fn note(&mut self, run: u32, (kind, is_last): (usize, bool), known: Run) {
        if self.runs.len() <= run as usize {
            self.runs.resize(run as usize + 1, Default::default());
        }
        self.runs[run as usize][kind][usize::from(is_last)] = known;
    }
}

impl Comparison<'_> {
    /// Whether the table says of the function at `address` what `function` says, as [`Comparison::says_same`]
    /// finds it. `runs` has the function's runs, and `rows` has their rows.
    ///
    /// # Errors
    /// The table is malformed.
    pub fn says_same_runs(
        &self,
        address: u64,
        function: &RunFunction,
        (runs, rows): (&CfiRuns, &CfiRows),
        agreed: &mut AgreedRuns,
    ) -> Result<bool, Error> {
        if self.has_same_runs(address, function, (runs, rows), agreed)? {
            return Ok(true);
        }
        let mut numbered = core::mem::take(&mut agreed.numbered);
        runs.numbered(function, &mut numbered);
        let is_same = self.says_same(address, &numbered, rows, &mut agreed.rows);
        agreed.numbered = numbered;
        is_same
    }

    /// The same, if the function is one entry whose runs are the function's. `false`: it may be several, or
    /// something else.
    fn has_same_runs(
        &self,
        address: u64,
        function: &RunFunction,
        lists: (&CfiRuns, &CfiRows),
        agreed: &mut AgreedRuns,
    ) -> Result<bool, Error> {
        let view: &View<'_> = &self.view;
        let Some(at) = self.entry_at(address, agreed.next) else { return Ok(false) };
        let entry = at.number;
        if self.first_of(entry)? != entry {
            return Ok(false);
        }
        let Some(end) = self.end_of_same_runs(view.shape(entry), function, lists, agreed)? else {
            return Ok(false);
        };
        let next = entry + 1;
        agreed.next = Some(Entry { number: next, ..at });
        if next >= view.header.entries {
            return Ok(true);
        }
        let start = if next < at.end {
            at.page.wrapping_add(view.start(next).into())
        } else {
            view.address_of(next).unwrap_or(0)
        };
        Ok(start >= address.saturating_add(end) && self.first_of(next)? != entry)
    }

    /// Whether the shape at `place` among the shapes says what a function of one piece says, which has the
    /// form of [`Comparison::says_same_runs`]. `false`: it does not, or it has to be compared row by row.
    ///
    /// # Errors
    /// The table is malformed.
    pub fn shape_says_same(
        &self,
        place: u32,
        function: &RunFunction,
        lists: (&CfiRuns, &CfiRows),
        agreed: &mut AgreedRuns,
    ) -> Result<bool, Error> {
        let position = self.view.parts.shapes.saturating_add(place as usize);
        Ok(self.end_of_same_runs(position, function, lists, agreed)?.is_some())
    }

    /// Where a function ends whose runs a shape has, and no others. `None`: it has others, or more rows than
    /// a shape may have.
    fn end_of_same_runs(
        &self,
        position: usize,
        function: &RunFunction,
        lists: (&CfiRuns, &CfiRows),
        agreed: &mut AgreedRuns,
    ) -> Result<Option<u64>, Error> {
        let mut shape = self.view.rows(position)?;
        if shape.repeat.is_some() {
            return Ok(None);
        }
        let (kind, mut count, mut end) = (function.kind(), 0u64, 0u64);
        for (run, covered, is_last) in function.each_run() {
            // A shape that is shorter than the function may be the last of the table.
            let Some((step, _)) = shape.next_pair().ok().filter(|&(_, said)| said == covered) else {
                return Ok(None);
            };
            let mut known = agreed.run(run, kind, is_last);
            if known.step != step.wrapping_add(1) {
                if !self.is_run(step, run, (kind, is_last), lists, &mut agreed.rows)? {
                    return Ok(None);
                }
                let rows = lists.0.rows(run).0.len() as u32 + 1;
                known = Run { step: step.wrapping_add(1), rows, bytes: lists.0.bytes(run) };
                agreed.note(run, (kind, is_last), known);
            }
            count += u64::from(known.rows);
            end += u64::from(known.bytes) + u64::from(covered);
        }
        let is_whole = count > 0 && count <= MAX_ROWS as u64 && end == u64::from(function.size);
        Ok(is_whole.then_some(end))
    }

    /// The entry that starts at an address. It may be this one.
    #[inline]
    fn entry_at(&self, address: u64, likely: Option<Entry>) -> Option<Entry> {
        let starts_there = |entry: &Entry| {
            entry.number < entry.end
                && entry.page.wrapping_add(self.view.start(entry.number).into()) == address
        };
        if let Some(entry) = likely.filter(starts_there) {
            return Some(entry);
        }
        let place = self.view.place(address).filter(|place| place.offset == 0)?;
        Some(Entry { number: place.entry, end: place.end, page: place.page_start(address) })
    }

    /// Whether the steps from `step` on say what a run of rows says in functions of a kind, at their end or
    /// elsewhere.
    fn is_run(
        &self,
        step: u32,
        run: u32,
        (kind, is_last): (usize, bool),
        (runs, rows): (&CfiRuns, &CfiRows),
        agreed: &mut Agreed,
    ) -> Result<bool, Error> {
        let (own, last) = runs.rows(run);
        let how = if is_last { ENDS } else { GOES_ON };
        let expected = own.iter().map(|&[row, covered]| (row, covered)).chain([(last, how)]);
        for (number, (row, how)) in (step as usize..).zip(expected) {
            let Some(word) = self.steps.get(number) else { return Ok(false) };
            let is_how = word & ((1 << COVERED_BITS) - 1) == how;
            if !is_how || !self.is_row(word >> COVERED_BITS, (row, kind), rows, agreed)? {
                return Ok(false);
            }
        }
        // A step that says how many bytes its row covers says 1 to 14.
        Ok(own.iter().all(|&[_, covered]| (1..ENDS).contains(&covered)))
    }
}
