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
    view: View<'data>,
    /// The rules by number. `None`: a stretch without a row.
    rules: Vec<Option<Rule>>,
    /// A bit for each entry: whether it continues a function.
    continues: Vec<u64>,
}

/// A rule of the table.
struct Rule {
    row: CfiRow,
    /// Whether it is that of a signal frame, and whether return addresses are signed with key B.
    flags: (bool, bool),
}

/// Rules that said what rows say. They belong to one table and one list of rows.
#[derive(Clone, Debug, Default)]
pub struct Agreed(Vec<[Option<u32>; CfiRows::KINDS]>);

impl Agreed {
    /// The rule that last said the same as a row of a function of this kind.
    fn rule(&mut self, number: u32, kind: usize) -> &mut Option<u32> {
        let number = number as usize;
        if self.0.len() <= number {
            self.0.resize(number + 1, [None; CfiRows::KINDS]);
        }
        &mut self.0[number][kind]
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
            let flags = (rules.signal, rules.key_b);
            let found = WholeMatch { function: 0, start: 0, size: 0, rules, handler: None };
            Ok(Some(Rule { row: found.row(view.header.abi), flags }))
        };
        let rules = (0..view.header.rules).map(rule).collect::<Result<_, Error>>()?;
        let mut continues = alloc::vec![0; view.header.entries.div_ceil(64) as usize];
        for entry in view.continuing() {
            if let Some(word) = continues.get_mut(entry as usize / 64) {
                *word |= 1 << (entry % 64);
            }
        }
        Ok(Some(Self { view, rules, continues }))
    }

    /// The entry at which the function of an entry starts.
    fn first_of(&self, entry: u32) -> Result<u32, Error> {
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
        let mut expected = Expected { function, rows, agreed, row: None, next: 0 };
        loop {
            let start = end;
            let mut said = self.view.rows(self.view.shape(entry))?;
            if said.repeat.is_some() {
                return Ok(false);
            }
            while let Some(row) = said.next_row()? {
                let rule = self.rule(row.rule)?;
                let row_end = start.saturating_add(row.start).saturating_add(row.covered);
                if !expected.is_said_by(row.rule, rule, end, row_end) {
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

    /// A rule by its number. `None`: it says that there is no row.
    fn rule(&self, number: u32) -> Result<Option<&Rule>, Error> {
        let kind = ErrorKind::CompactNumber { what: "rule", found: number };
        let rule = self.rules.get(number as usize).ok_or(Error::new(self.view.parts.rules, kind))?;
        Ok(rule.as_ref())
    }
}

/// The rows of a function, from one address to the next.
struct Expected<'f> {
    function: &'f NumberedFunction,
    rows: &'f CfiRows,
    agreed: &'f mut Agreed,
    /// The number of the row that holds at the address. `None`: no row has started.
    row: Option<u32>,
    /// The place of the row that starts next.
    next: usize,
}

impl Expected<'_> {
    /// Whether all rows between two offsets say what a rule says, which has this number.
    fn is_said_by(&mut self, number: u32, rule: Option<&Rule>, mut at: u32, end: u32) -> bool {
        while at < end {
            while let Some(&(_, row)) = self.function.rows.get(self.next).filter(|row| row.0 <= at) {
                (self.row, self.next) = (Some(row), self.next + 1);
            }
            let is_same = match (self.row, rule) {
                (None, None) => true,
                (Some(row), Some(rule)) => self.is_same(row, number, rule),
                _ => false,
            };
            if !is_same {
                return false;
            }
            at = self.function.rows.get(self.next).map_or(end, |row| row.0.min(end));
        }
        true
    }

    /// Whether a row says what a rule says.
    fn is_same(&mut self, row: u32, number: u32, rule: &Rule) -> bool {
        let agreed = self.agreed.rule(row, self.function.kind());
        if *agreed == Some(number) {
            return true;
        }
        let flags = (self.function.signal, self.function.key_b);
        let is_same = rule.flags == flags && rule.row.says_same(self.rows.row(row));
        *agreed = is_same.then_some(number).or(*agreed);
        is_same
    }
}
