//! Whether a table of version 2 says what functions say.
//!
//! A linker that leaves FDEs out must be sure of every row. A look-up for each row would search the region,
//! the page and the shape again, and decode a rule that thousands of rows share. So a [`Comparison`] decodes
//! each rule once, and then reads the shape of a function from its first row to its last.

use alloc::vec::Vec;
use core::ops::Deref;

use super::{CompactTable, View, WHOLE_VERSION, WholeMatch};
use crate::cfi::{CfiRow, CfiRows, NumberedFunction};
use crate::error::{Error, ErrorKind};

/// Compares functions with what a table says of them.
pub struct Comparison<'data> {
    pub(super) view: View<'data>,
    /// The rules by number. `None`: a stretch without a row.
    rules: Vec<Option<Rule>>,
    /// The steps by number.
    pub(super) steps: Vec<u32>,
    /// A bit for each entry: whether it continues a function.
    continues: Vec<u64>,
}

/// A rule of the table.
struct Rule {
    row: CfiRow,
    /// The kind of its functions.
    kind: usize,
}

/// Rules that said what rows say. They belong to one table and one list of rows.
#[derive(Clone, Debug, Default)]
pub struct Agreed(Vec<[u32; CfiRows::KINDS]>);

/// Stands for no rule.
const NONE: u32 = u32::MAX;

impl Agreed {
    /// Whether a rule was the last that said the same as a row of a function of this kind.
    #[inline]
    fn is(&self, row: u32, kind: usize, rule: u32) -> bool {
        rule != NONE && self.0.get(row as usize).is_some_and(|rules| rules[kind] == rule)
    }

    /// Notes a rule that says the same as a row of a function of this kind.
    fn note(&mut self, row: u32, kind: usize, rule: u32) {
        let row = row as usize;
        if self.0.len() <= row {
            self.0.resize(row + 1, [NONE; CfiRows::KINDS]);
        }
        self.0[row][kind] = rule;
    }
}

impl<'data> Comparison<'data> {
    /// Decodes the rules of a table. `None`: the table is not of version 2.
    ///
    /// # Errors
    /// A rule is malformed.
    pub fn new<D: Deref<Target = [u8]>>(table: &'data CompactTable<D>) -> Result<Option<Self>, Error> {
        let view = table.view();
        if view.header.version != WHOLE_VERSION {
            return Ok(None);
        }
        let rule = |number| {
            let Some(rules) = view.whole_rules(number)? else { return Ok(None) };
            let kind = NumberedFunction::kind_of(rules.signal, rules.key_b);
            let found = WholeMatch { function: 0, start: 0, size: 0, rules, handler: None };
            Ok(Some(Rule { row: found.row(view.header.abi), kind }))
        };
        let rules = (0..view.header.rules).map(rule).collect::<Result<_, Error>>()?;
        let steps = (0..view.header.steps).map(|number| view.step(number)).collect();
        let mut continues = alloc::vec![0; view.header.entries.div_ceil(64) as usize];
        for entry in view.continuing() {
            if let Some(word) = continues.get_mut(entry as usize / 64) {
                *word |= 1 << (entry % 64);
            }
        }
        Ok(Some(Self { view, rules, steps, continues }))
    }

    /// The entry at which the function of an entry starts.
    pub(super) fn first_of(&self, entry: u32) -> Result<u32, Error> {
        let word = self.continues.get(entry as usize / 64).copied().unwrap_or(0);
        if word >> (entry % 64) & 1 == 0 { Ok(entry) } else { self.view.first_of(entry) }
    }

    /// Whether the table says of each address of the function at `address` what `function` says, and nothing
    /// behind it. Handlers are not compared. `rows` has the function's rows. Each pair of a row and a rule is
    /// compared once: `agreed` has those that say the same.
    ///
    /// # Errors
    /// The table is malformed.
    pub fn says_same(
        &self,
        address: u64,
        function: &NumberedFunction,
        rows: &CfiRows,
        agreed: &mut Agreed,
    ) -> Result<bool, Error> {
        let Some(place) = self.view.place(address).filter(|place| place.offset == 0) else {
            return Ok(false);
        };
        let (first, mut entry, mut end) = (place.entry, place.entry, 0u32);
        if self.first_of(first)? != first {
            return Ok(false);
        }
        // The entries that start in the page of the first one need no search.
        let page = place.page_start(address);
        let (kind, rest) = (function.kind(), &function.rows[..]);
        let mut expected = Expected { comparison: self, kind, rows, agreed, row: None, rest };
        loop {
            let start = end;
            let mut said = self.view.rows(self.view.shape(entry))?;
            if said.repeat.is_some() {
                return Ok(false);
            }
            while let Some(row) = said.next_row_of(|step| self.steps.get(step as usize).copied())? {
                let row_end = start.saturating_add(row.start).saturating_add(row.covered);
                if !expected.is_said_by(row.rule, end, row_end)? {
                    return Ok(false);
                }
                end = row_end;
            }
            entry += 1;
            let exists = entry < self.view.header.entries;
            let goes_on = exists && self.first_of(entry)? == first;
            let next = match exists {
                true if entry < place.end => page.wrapping_add(self.view.start(entry).into()),
                true => self.view.address_of(entry).unwrap_or(0),
                false => u64::MAX,
            };
            let behind = address.saturating_add(end.into());
            if !goes_on {
                return Ok(end == function.size && next >= behind);
            }
            if end == start || next != behind {
                return Ok(false);
            }
        }
    }

    /// Whether a rule says what a row of functions of a kind says. Each pair of them is compared once.
    pub(super) fn is_row(
        &self,
        number: u32,
        (row, kind): (u32, usize),
        rows: &CfiRows,
        agreed: &mut Agreed,
    ) -> Result<bool, Error> {
        if agreed.is(row, kind, number) {
            return Ok(true);
        }
        let Some(rule) = self.rule(number)? else { return Ok(false) };
        let is_same = rule.kind == kind && rule.row.says_same(rows.row(row));
        if is_same {
            agreed.note(row, kind, number);
        }
        Ok(is_same)
    }

    /// A rule by its number. `None`: it says that there is no row.
    fn rule(&self, number: u32) -> Result<Option<&Rule>, Error> {
        let kind = ErrorKind::CompactNumber { what: "rule", found: number };
        let rule = self.rules.get(number as usize).ok_or(Error::new(self.view.parts.rules, kind))?;
        Ok(rule.as_ref())
    }
}

/// The rows of a function, from one address to the next.
struct Expected<'f> {
    comparison: &'f Comparison<'f>,
    /// The function's kind.
    kind: usize,
    rows: &'f CfiRows,
    agreed: &'f mut Agreed,
    /// The number of the row that holds at the address. `None`: no row has started.
    row: Option<u32>,
    /// The rows that start behind it.
    rest: &'f [(u32, u32)],
}

impl Expected<'_> {
    /// Whether all rows between two offsets say what the rule with this number says.
    #[inline(always)]
    fn is_said_by(&mut self, rule: u32, at: u32, end: u32) -> Result<bool, Error> {
        // Mostly, a row of the function says the same from its first address to its last.
        if let [(start, row), rest @ ..] = self.rest
            && (*start, at < end) == (at, true)
            && rest.first().is_none_or(|next| next.0 >= end)
            && self.agreed.is(*row, self.kind, rule)
        {
            (self.row, self.rest) = (Some(*row), rest);
            return Ok(true);
        }
        if at >= end {
            return self.comparison.rule(rule).map(|_| true);
        }
        self.is_said_by_all(rule, at, end)
    }

    /// The same, for any rows.
    #[inline(never)]
    fn is_said_by_all(&mut self, rule: u32, mut at: u32, end: u32) -> Result<bool, Error> {
        while at < end {
            while let [(start, row), rest @ ..] = self.rest
                && *start <= at
            {
                (self.row, self.rest) = (Some(*row), rest);
            }
            let was_met = self.row.is_some_and(|row| self.agreed.is(row, self.kind, rule));
            if !was_met && !self.is_same(rule)? {
                return Ok(false);
            }
            at = self.rest.first().map_or(end, |row| row.0.min(end));
        }
        Ok(true)
    }

    /// Whether the row that holds says what a rule says.
    fn is_same(&mut self, number: u32) -> Result<bool, Error> {
        let Some(row) = self.row else { return Ok(self.comparison.rule(number)?.is_none()) };
        self.comparison.is_row(number, (row, self.kind), self.rows, self.agreed)
    }
}
