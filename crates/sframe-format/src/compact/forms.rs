//! The forms of rows in a table of version 2, each worked out once.
//!
//! A row becomes a rule and a layout. Rows have numbers ([`CfiRows`]), and so a form is found by the number,
//! without a look at the row.

use alloc::vec::Vec;

use crate::cfi::{CfiRow, CfiRows, NumberedFunction};
use crate::rules::UnwindRules;

/// What a row becomes.
#[derive(Clone, Debug)]
pub(super) struct Form {
    /// The rules of the CFA, the return address and the frame pointer.
    pub rules: UnwindRules,
    /// The bytes of the layout.
    pub layout: Vec<u8>,
}

/// The forms that a builder has made.
#[derive(Clone, Debug, Default)]
pub(super) struct Forms {
    /// Each with the number of its rules, if a function with it was added.
    forms: Vec<(Form, Option<u32>)>,
    /// By number of the row and kind of its function, a place in `forms` plus 1; 0: none was made.
    of_row: Vec<[u32; CfiRows::KINDS]>,
    /// The same for the numbers of rules, which count from 1; 0: the form has none yet.
    rule_of_row: Vec<[u32; CfiRows::KINDS]>,
}

impl Forms {
    /// The number of the rules of a row of functions of this kind, if one with it was added.
    #[inline]
    pub fn rule(&self, row: u32, kind: usize) -> Option<u32> {
        self.rule_of_row.get(row as usize).map(|rules| rules[kind]).filter(|&rule| rule != 0)
    }

    /// The place of the form of a row of `function`, which has this number in `rows`. A new row gets the form
    /// that `make` makes.
    pub fn form<E>(
        &mut self,
        function: &NumberedFunction,
        number: u32,
        rows: &CfiRows,
        make: impl FnOnce(&CfiRow) -> Result<Form, E>,
    ) -> Result<u32, E> {
        let (number, kind) = (number as usize, function.kind());
        if let Some(place) = self.of_row.get(number).and_then(|places| places[kind].checked_sub(1)) {
            return Ok(place);
        }
        let form = make(rows.row(number as u32))?;
        if self.of_row.len() <= number {
            self.of_row.resize(number + 1, [0; CfiRows::KINDS]);
        }
        self.forms.push((form, None));
        self.of_row[number][kind] = self.forms.len() as u32;
        Ok(self.forms.len() as u32 - 1)
    }

    /// The number of the rules of the form at `place`, which is that of `row` in functions of a kind. Forms
    /// get numbers when a function with them is added, by `assign`, so that the table has no rule of a
    /// function that was refused.
    pub fn number(
        &mut self,
        place: u32,
        (row, kind): (u32, usize),
        assign: impl FnOnce(&Form) -> u32,
    ) -> u32 {
        let (form, number) = &mut self.forms[place as usize];
        let number = *number.get_or_insert_with(|| assign(form));
        if self.rule_of_row.len() <= row as usize {
            self.rule_of_row.resize(row as usize + 1, [0; CfiRows::KINDS]);
        }
        self.rule_of_row[row as usize][kind] = number;
        number
    }
}
