//! The rows of many functions in runs, each different run once.
//!
//! In a prologue or an epilogue a row covers a byte or two, and between them a row covers many. Prologues and
//! epilogues are alike, and only the bytes between them differ. So a function is a short list of runs here,
//! with the bytes that the last row of each covers:
//!
//! ```text
//! rows:  0: A   1: B   3: C                        61: B   62: A
//! runs:  A for 1, B for 2, C   (C covers 58)       B for 1, A   (A covers 1)
//! ```
//!
//! Whatever has to be worked out for a run is worked out once for its number. Compact tables have runs of the
//! same kind.

use alloc::vec::Vec;

use super::NumberedFunction;
use crate::abi::Abi;
use crate::compact::intern::Lists;

/// The largest number of bytes that a row covers which does not end its run, unless it is the last row. These
/// values give the smallest tables for system libraries.
pub const fn most_within_run(abi: Abi) -> u32 {
    match abi {
        Abi::Amd64 => 4,
        Abi::AArch64Big | Abi::AArch64Little => 12,
        Abi::S390x => 6,
    }
}

/// Runs of rows, each different one once.
#[derive(Clone, Debug, Default)]
pub struct CfiRuns {
    /// By number: the numbers of the rows, and behind each but the last the bytes that it covers.
    lists: Lists,
    /// By number: the bytes that all rows but the last cover.
    bytes: Vec<u32>,
}

/// A function by the runs of its rows, which have numbers in [`CfiRuns`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFunction {
    /// Bytes of code.
    pub size: u32,
    /// Whether it is a signal frame.
    pub signal: bool,
    /// AArch64: return addresses are signed with key B.
    pub key_b: bool,
    /// The runs from its first byte to its last: the number of each, and the bytes that its last row covers.
    pub runs: Vec<(u32, u32)>,
}

impl RunFunction {
    /// The same as [`NumberedFunction::kind`].
    pub fn kind(&self) -> usize {
        NumberedFunction::kind_of(self.signal, self.key_b)
    }

    /// Its runs, each with the bytes that its last row covers, and with whether it is the last run.
    pub fn each_run(&self) -> impl Iterator<Item = (u32, u32, bool)> {
        let last = self.runs.len().wrapping_sub(1);
        self.runs.iter().enumerate().map(move |(place, &(run, covered))| (run, covered, place == last))
    }
}

impl CfiRuns {
    /// The rows of a run by their numbers in [`CfiRows`](super::CfiRows): each but the last with the bytes
    /// that it covers, and the last.
    pub fn rows(&self, run: u32) -> (&[[u32; 2]], u32) {
        let (rows, last) = self.lists.words().get(run).as_chunks();
        (rows, last.first().copied().unwrap_or(0))
    }

    /// The bytes that all rows of a run but the last cover.
    pub fn bytes(&self, run: u32) -> u32 {
        self.bytes[run as usize]
    }

    /// The number of a run, given by the numbers of its rows, and behind each but the last the bytes that it
    /// covers. They are less than 4 GiB in all.
    pub(crate) fn number(&mut self, words: &[u32]) -> u32 {
        let (number, is_new) = self.lists.intern(words);
        if is_new {
            let (rows, _) = words.as_chunks();
            self.bytes.push(rows.iter().map(|&[_, covered]: &[u32; 2]| covered).sum());
        }
        number
    }

    /// Divides a function into runs. Returns whether it has any: its first row must start with it, and the
    /// others ascend and start before its end.
    pub fn read(&mut self, abi: Abi, function: &NumberedFunction, into: &mut RunFunction) -> bool {
        let NumberedFunction { size, signal, key_b, ref rows } = *function;
        (into.size, into.signal, into.key_b) = (size, signal, key_b);
        into.runs.clear();
        let ascends = rows.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if rows.first().is_none_or(|first| first.0 > 0)
            || !ascends
            || rows.last().is_some_and(|last| last.0 >= size)
        {
            return false;
        }
        let ends = rows.iter().skip(1).map(|next| next.0).chain([size]);
        let mut words = Vec::new();
        for (&(start, row), end) in rows.iter().zip(ends) {
            let covered = end - start;
            words.push(row);
            if covered > most_within_run(abi) || end == size {
                into.runs.push((self.number(&words), covered));
                words.clear();
            } else {
                words.push(covered);
            }
        }
        true
    }

    /// Reads the rows of a function one by one.
    pub fn numbered(&self, function: &RunFunction, into: &mut NumberedFunction) {
        let RunFunction { size, signal, key_b, ref runs } = *function;
        (into.size, into.signal, into.key_b) = (size, signal, key_b);
        into.rows.clear();
        let mut start = 0u32;
        for &(run, covered) in runs {
            let (rows, last) = self.rows(run);
            for &[row, covered] in rows {
                into.rows.push((start, row));
                start = start.saturating_add(covered);
            }
            into.rows.push((start, last));
            start = start.saturating_add(covered);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CfiRuns, RunFunction};
    use crate::abi::Abi;
    use crate::cfi::NumberedFunction;
    use alloc::vec::Vec;

    fn function(size: u32, rows: &[(u32, u32)]) -> NumberedFunction {
        NumberedFunction { size, signal: true, key_b: false, rows: rows.into() }
    }

    #[test]
    fn functions_become_runs_and_rows_again() {
        let mut runs = CfiRuns::default();
        let all = [
            function(63, &[(0, 0), (1, 1), (3, 2), (61, 1), (62, 0)]),
            function(4, &[(0, 7)]),
            function(9, &[(0, 1), (4, 2), (8, 1)]),
            function(90, &[(0, 0), (1, 1), (3, 2), (88, 1), (89, 0)]),
        ];
        let read: Vec<RunFunction> = all
            .iter()
            .map(|function| {
                let mut read = RunFunction::default();
                assert!(runs.read(Abi::Amd64, function, &mut read));
                read
            })
            .collect();
        assert_eq!(read[0].runs, [(0, 58), (1, 1)]);
        assert_eq!(read[3].runs, [(0, 85), (1, 1)]);
        assert_eq!(read[2].runs, [(3, 1)]);
        assert_eq!((runs.rows(0), runs.bytes(0)), ((&[[0, 1], [1, 2]][..], 2), 3));
        for (function, read) in all.iter().zip(&read) {
            let mut again = NumberedFunction::default();
            runs.numbered(read, &mut again);
            assert_eq!((&again, read.kind()), (function, function.kind()));
        }
    }

    #[test]
    fn functions_without_rows_everywhere_have_no_runs() {
        let (mut runs, mut read) = (CfiRuns::default(), RunFunction::default());
        for rows in [&[][..], &[(1, 0)], &[(0, 0), (20, 1)], &[(0, 0), (5, 1), (5, 2)]] {
            assert!(!runs.read(Abi::Amd64, &function(20, rows), &mut read), "{rows:?}");
            assert!(read.runs.is_empty());
        }
    }
}
