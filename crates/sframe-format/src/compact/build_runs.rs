//! Adds functions whose rows come in runs to a table of version 2.
//!
//! A run of rows becomes a run of steps, the same in all functions. So a function that consists of known runs
//! is a shape without a look at its rows.

use super::build::Builder;
use super::functions::{ShapeId, Stretch};
use super::known_runs::KnownRun;
use super::shape::{COVERED_BITS, ENDS, GOES_ON};
use super::{MAX_BYTES, MAX_ROWS};
use crate::cfi::{CfiRows, CfiRuns, RunFunction};
use crate::write::Inexpressible;

/// A function that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    /// Its number.
    pub shape: ShapeId,
    /// Whether all of its runs were met before in functions of its kind, at the end or elsewhere as in it. If
    /// not, they may have been.
    pub has_known_runs: bool,
}

impl Builder {
    /// Adds a function, as [`Builder::add_whole`] does. `runs` has its runs, and `rows` has their rows; both
    /// are the same lists for all functions.
    ///
    /// # Errors
    /// Those of [`Builder::add_whole`].
    pub fn add_runs(
        &mut self,
        function: &RunFunction,
        runs: &CfiRuns,
        rows: &CfiRows,
    ) -> Result<Added, Inexpressible> {
        if self.has_known_runs(function) {
            let shape = self.shapes.intern(&self.shape).0;
            let shape = self.functions.number(&[Stretch::whole(shape)]);
            return Ok(Added { shape, has_known_runs: true });
        }
        let mut numbered = core::mem::take(&mut self.numbered);
        runs.numbered(function, &mut numbered);
        let added = self.add_whole(&numbered, rows);
        self.numbered = numbered;
        let shape = added?;
        if function.size <= MAX_BYTES {
            for (run, _, is_last) in function.each_run() {
                self.learn_run(run, runs, (function.kind(), is_last));
            }
        }
        Ok(Added { shape, has_known_runs: false })
    }

    /// Makes the shape of a function whose runs are all known. `false`: not all are, or it is no single
    /// piece, or two rows that follow each other become one.
    fn has_known_runs(&mut self, function: &RunFunction) -> bool {
        self.shape.clear();
        let (kind, mut last, mut rows, mut end) = (function.kind(), u32::MAX, 0, 0u64);
        for (run, covered, is_last) in function.each_run() {
            let known = self.known_runs.get(run, kind);
            let Some(number) = known.numbers[KnownRun::place(is_last)].checked_sub(1) else { return false };
            if known.ends.0 == last {
                return false;
            }
            self.shape.extend([number, covered]);
            last = known.ends.1;
            rows += known.rows as usize;
            end += u64::from(known.bytes) + u64::from(covered);
        }
        let is_piece = !self.shape.is_empty() && function.size <= MAX_BYTES && rows <= MAX_ROWS;
        is_piece && end == u64::from(function.size)
    }

    /// Learns what a run becomes in functions of a kind, at their end or elsewhere, unless it is known. A
    /// function with it was added.
    fn learn_run(&mut self, run: u32, runs: &CfiRuns, (kind, is_last): (usize, bool)) {
        let place = KnownRun::place(is_last);
        if self.known_runs.get(run, kind).numbers[place] != 0 {
            return;
        }
        let (rows, last) = runs.rows(run);
        let ends = (rows.first().map_or(last, |row| row[0]), last);
        let rule = |row: u32| self.forms.rule(row, kind);
        let (Some(first), Some(last)) = (rule(ends.0), rule(ends.1)) else { return };
        self.run.clear();
        let mut before = None;
        for &[row, covered] in rows {
            let number = rule(row);
            // Rows that become one cover more than each, which may end a run.
            let Some(number) = number.filter(|_| number != before && covered <= self.close && covered > 0)
            else {
                return;
            };
            self.run.push(number << COVERED_BITS | covered);
            before = Some(number);
        }
        if before == Some(last) {
            return;
        }
        self.run.push(last << COVERED_BITS | if is_last { ENDS } else { GOES_ON });
        let number = self.runs.intern(&self.run).0;
        let known = self.known_runs.place(run, kind);
        known.numbers[place] = number + 1;
        (known.ends, known.rows, known.bytes) = ((first, last), rows.len() as u32 + 1, runs.bytes(run));
    }
}

#[cfg(test)]
mod tests {
    use crate::abi::Abi;
    use crate::cfi::{CfiFunction, CfiRow, CfiRows, CfiRuns, RunFunction, Saved};
    use crate::compact::{Builder, Collected};
    use alloc::vec::Vec;

    /// A function whose rows cover these bytes. The CFA's offset tells a row.
    fn function(rows: &[(i64, u32)], signal: bool) -> CfiFunction {
        let mut size = 0;
        let row = |&(cfa_offset, covered): &(i64, u32)| {
            size += covered;
            let saved = [(16, Saved::AtCfa(-8))].into();
            CfiRow { start: size - covered, cfa_register: 7, cfa_offset, saved, ..CfiRow::default() }
        };
        let rows: Vec<CfiRow> = rows.iter().map(row).collect();
        CfiFunction { size, signal, rows, ..CfiFunction::default() }
    }

    /// Whatever was met before, a function has the shape that its rows have.
    #[test]
    fn known_runs_make_the_same_shapes_as_rows() {
        let mut state = 5u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) % below
        };
        let mut functions: Vec<CfiFunction> = (0..4000)
            .map(|_| {
                let count = if random(50) == 0 { 80 } else { 1 + random(7) };
                let mut covered = || match random(60) {
                    0 => 70_000,
                    1..20 => 5 + random(3) as u32,
                    _ => 1 + random(4) as u32,
                };
                let rows: Vec<u32> = (0..count).map(|_| covered()).collect();
                let rows: Vec<(i64, u32)> =
                    rows.into_iter().map(|covered| (8 * random(4) as i64, covered)).collect();
                function(&rows, random(3) == 0)
            })
            .collect();
        functions.push(CfiFunction::default());
        for abi in [Abi::Amd64, Abi::AArch64Little, Abi::S390x] {
            let (mut by_runs, mut by_rows) = (Builder::whole(abi), Builder::whole(abi));
            let (mut rows, mut runs, mut read) =
                (CfiRows::default(), CfiRuns::default(), RunFunction::default());
            let mut known = 0;
            for function in &functions {
                let numbered = rows.numbered(function);
                runs.read(abi, &numbered, &mut read);
                known += usize::from(by_runs.has_known_runs(&read));
                let expected = by_rows.add_whole(&numbered, &rows).map_err(|error| error.reason);
                let added = by_runs.add_runs(&read, &runs, &rows).map(|added| added.shape);
                assert_eq!(added.map_err(|error| error.reason), expected);
            }
            assert!(known > 500, "{known}");
            let [by_runs, by_rows] = [by_runs, by_rows].map(Collected::from);
            let shapes = |all: &Collected| -> Vec<Vec<(Vec<u32>, u32)>> {
                let run = |pair: &[u32; 2]| (all.runs.get(pair[0]).to_vec(), pair[1]);
                all.shapes.iter().map(|shape| shape.as_chunks().0.iter().map(run).collect()).collect()
            };
            assert!(shapes(&by_runs) == shapes(&by_rows), "{abi}");
        }
    }
}
