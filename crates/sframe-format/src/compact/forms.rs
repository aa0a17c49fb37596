//! The forms of rows in a table of version 2, each worked out once.
//!
//! A program with 100,000 functions has a million rows, but only some thousand different ones: functions save
//! the same registers in the same order. So the writer looks a row up before it splits the row into a rule
//! and a layout. That takes one hash of the row, and no memory.

use alloc::vec::Vec;
use core::hash::{BuildHasher, Hash, Hasher};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::cfi::{CfiFunction, CfiRow};
use crate::rules::UnwindRules;

/// What a row becomes.
#[derive(Clone, Debug)]
pub(super) struct Form {
    /// The rules of the CFA, the return address and the frame pointer.
    pub rules: UnwindRules,
    /// The bytes of the layout, one in each word.
    pub layout: Vec<u32>,
}

/// A row that was seen.
#[derive(Clone, Debug)]
struct Seen {
    hash: u64,
    row: CfiRow,
    /// Whether its function is a signal frame, and whether it signs with key B.
    flags: (bool, bool),
    form: Form,
    /// The number of its rules, if a function with it was added.
    number: Option<u32>,
}

/// The rows that a builder has seen.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenRows {
    rows: Vec<Seen>,
    /// Places in `rows`.
    table: HashTable<u32>,
}

impl SeenRows {
    /// The place of the form of a row of `function`. A new row gets the form that `make` makes.
    pub fn form<E>(
        &mut self,
        function: &CfiFunction,
        row: &CfiRow,
        make: impl FnOnce(&CfiRow) -> Result<Form, E>,
    ) -> Result<u32, E> {
        let flags = (function.signal, function.key_b);
        let hash = hash(row, flags);
        let Self { rows, table } = self;
        let is_same = |&place: &u32| {
            let seen: &Seen = &rows[place as usize];
            seen.hash == hash && seen.flags == flags && seen.row.says_same(row)
        };
        if let Some(&place) = table.find(hash, is_same) {
            return Ok(place);
        }
        let (form, place) = (make(row)?, rows.len() as u32);
        rows.push(Seen { hash, row: row.clone(), flags, form, number: None });
        table.insert_unique(hash, place, |&place| rows[place as usize].hash);
        Ok(place)
    }

    /// The number of the rules of the form at `place`. Forms get numbers when a function with them is added,
    /// by `assign`, so that the table has no rule of a function that was refused.
    pub fn number(&mut self, place: u32, assign: impl FnOnce(&Form) -> u32) -> u32 {
        let Seen { form, number, .. } = &mut self.rows[place as usize];
        *number.get_or_insert_with(|| assign(form))
    }
}

/// The hash of all of a row but its start.
fn hash(row: &CfiRow, flags: (bool, bool)) -> u64 {
    let mut hasher = FixedState::with_seed(0).build_hasher();
    let CfiRow { start: _, cfa_register, cfa_offset, saved, signed, args_size } = row;
    (cfa_register, cfa_offset, signed, args_size, flags).hash(&mut hasher);
    saved.hash(&mut hasher);
    hasher.finish()
}
