//! The rows of many functions, each different one once.
//!
//! A program with 100,000 functions has a million rows, but only some thousand different ones: functions save
//! the same registers in the same order. So a function is a list of numbers here, and whatever has to be
//! worked out for a row is worked out once for its number.

use alloc::vec::Vec;
use core::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::{CfiFunction, CfiRow};

/// Rows, each different one once. Where a row starts makes no difference.
#[derive(Clone, Debug, Default)]
pub struct CfiRows {
    /// By number, with their hashes.
    rows: Vec<(u64, CfiRow)>,
    /// Numbers.
    table: HashTable<u32>,
    /// Whether a row has arguments on the stack.
    have_arguments: bool,
}

/// A [`CfiFunction`] whose rows have numbers in [`CfiRows`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumberedFunction {
    /// Bytes of code.
    pub size: u32,
    /// Whether it is a signal frame.
    pub signal: bool,
    /// AArch64: return addresses are signed with key B.
    pub key_b: bool,
    /// The rows, ascending by start: the first byte that each one covers, from the start of the function,
    /// and its number.
    pub rows: Vec<(u32, u32)>,
}

impl NumberedFunction {
    /// The number of what the meaning of a row depends on beside the row: less than 4.
    pub fn kind(&self) -> usize {
        Self::kind_of(self.signal, self.key_b)
    }

    /// The same by the two facts that a kind is made of.
    pub(crate) fn kind_of(signal: bool, key_b: bool) -> usize {
        usize::from(signal) | usize::from(key_b) << 1
    }
}

impl CfiRows {
    /// How many kinds of functions may share a row: signal frames or not, with key B or not.
    pub(crate) const KINDS: usize = 4;

    /// The number of a row. Numbers count from 0, in the order in which rows are first seen.
    pub fn number(&mut self, row: &CfiRow) -> u32 {
        let hash = hash(row);
        let Self { rows, table, have_arguments } = self;
        let is_same = |&number: &u32| {
            let (other, seen) = &rows[number as usize];
            *other == hash && seen.says_same(row)
        };
        if let Some(&number) = table.find(hash, is_same) {
            return number;
        }
        let number = rows.len() as u32;
        rows.push((hash, row.clone()));
        *have_arguments |= row.args_size != 0;
        table.insert_unique(hash, number, |&number| rows[number as usize].0);
        number
    }

    /// The row with a number that was handed out.
    pub fn row(&self, number: u32) -> &CfiRow {
        &self.rows[number as usize].1
    }

    /// A function by the numbers of its rows.
    pub fn numbered(&mut self, function: &CfiFunction) -> NumberedFunction {
        let CfiFunction { size, signal, key_b, ref rows } = *function;
        let rows = rows.iter().map(|row| (row.start, self.number(row))).collect();
        NumberedFunction { size, signal, key_b, rows }
    }

    /// Forgets the arguments on the stack in all rows of a function. Rows that say the same then are one.
    pub fn drop_arguments(&mut self, function: &mut NumberedFunction) {
        if !self.have_arguments {
            return;
        }
        for (_, number) in &mut function.rows {
            let row = self.row(*number);
            if row.args_size != 0 {
                *number = self.number(&CfiRow { args_size: 0, ..row.clone() });
            }
        }
        function.rows.dedup_by_key(|&mut (_, number)| number);
    }
}

/// The hash of all of a row but its start.
fn hash(row: &CfiRow) -> u64 {
    let CfiRow { start: _, cfa_register, cfa_offset, saved, signed, args_size } = row;
    FixedState::with_seed(0).hash_one((cfa_register, cfa_offset, signed, args_size, saved))
}

#[cfg(test)]
mod tests {
    use super::CfiRows;
    use crate::cfi::{CfiFunction, CfiRow};

    fn row(start: u32, cfa_offset: i64, args_size: u64) -> CfiRow {
        CfiRow { start, cfa_register: 7, cfa_offset, args_size, ..CfiRow::default() }
    }

    #[test]
    fn equal_rows_have_one_number() {
        let mut rows = CfiRows::default();
        let function = CfiFunction {
            size: 20,
            rows: [row(0, 8, 0), row(1, 16, 0), row(9, 8, 0)].into(),
            ..CfiFunction::default()
        };
        assert_eq!(rows.numbered(&function).rows, [(0, 0), (1, 1), (9, 0)]);
        assert_eq!(rows.row(1).cfa_offset, 16);
    }

    #[test]
    fn rows_that_differ_by_arguments_become_one() {
        let mut rows = CfiRows::default();
        let function = CfiFunction {
            size: 20,
            rows: [row(0, 8, 0), row(1, 8, 16), row(5, 24, 16), row(9, 24, 8)].into(),
            ..CfiFunction::default()
        };
        let mut numbered = rows.numbered(&function);
        rows.drop_arguments(&mut numbered);
        let found: std::vec::Vec<_> =
            numbered.rows.iter().map(|&(start, number)| (start, rows.row(number).cfa_offset)).collect();
        assert_eq!(found, [(0, 8), (5, 24)]);
        assert!(numbered.rows.iter().all(|&(_, number)| rows.row(number).args_size == 0));
    }
}
