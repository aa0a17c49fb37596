//! Iterates over the entries of a table and their rows, for dumps, and checks the whole table.

use core::ops::Deref;

use super::shape::ShapeRows;
use super::{CompactTable, Handler, MAX_BYTES, PAGE, View, WholeRules};
use crate::error::{Error, ErrorKind};
use crate::rules::UnwindRules;

/// An entry: a function, or a piece of a long one.
#[derive(Clone, Copy)]
pub struct Piece<'data> {
    /// Its number.
    pub number: u32,
    /// Address of its first byte.
    pub address: u64,
    view: View<'data>,
}

/// A row of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceRow {
    /// First byte that it covers, from the start of the entry or the repetition.
    pub start: u32,
    /// Bytes that it covers.
    pub size: u32,
    /// Its rules. `None`: a stretch without a row.
    pub rules: Option<UnwindRules>,
}

/// The rows of a [`Piece`]. A malformed shape ends them with an error. If the table does not have a rule,
/// only that rule's row is an error.
#[derive(Clone, Copy)]
pub struct PieceRows<'data> {
    view: View<'data>,
    rows: Option<ShapeRows<'data>>,
    failed: Option<Error>,
}

/// A row of an entry with all that a table of version 2 says of it.
#[derive(Clone, Copy, Debug)]
pub struct WholeRow<'data> {
    /// First byte that it covers, from the start of the entry or the repetition.
    pub start: u32,
    /// Bytes that it covers.
    pub size: u32,
    /// Its rules. `None`: a stretch without a row.
    pub rules: Option<WholeRules<'data>>,
}

impl<'data> Piece<'data> {
    /// Its rows with all that a table of version 2 says of them.
    pub fn whole_rows(&self) -> impl Iterator<Item = Result<WholeRow<'data>, Error>> + use<'data> {
        let view = self.view;
        let mut rows = view.rows(view.shape(self.number)).map_err(Some);
        core::iter::from_fn(move || {
            let row = match &mut rows {
                Ok(rows) => rows.next_row(),
                Err(error) => Err(error.take()?),
            };
            match row {
                Ok(row) => {
                    let row = row?;
                    let rules = view.whole_rules(row.rule);
                    Some(rules.map(|rules| WholeRow { start: row.start, size: row.covered, rules }))
                }
                Err(error) => {
                    rows = Err(None);
                    Some(Err(error))
                }
            }
        })
    }

    /// The number of the entry at which its function starts: its own, unless it continues one.
    ///
    /// # Errors
    /// The table names an entry that does not come before it.
    pub fn first(&self) -> Result<u32, Error> {
        self.view.first_of(self.number)
    }

    /// Who handles exceptions that pass its function, which starts with it.
    ///
    /// # Errors
    /// The table does not have the handler.
    pub fn handler(&self) -> Result<Option<Handler>, Error> {
        self.view.handler(self.number)
    }

    /// Its rows.
    pub fn rows(&self) -> PieceRows<'data> {
        match self.view.rows(self.view.shape(self.number)) {
            Ok(rows) => PieceRows { view: self.view, rows: Some(rows), failed: None },
            Err(error) => PieceRows { view: self.view, rows: None, failed: Some(error) },
        }
    }

    /// Bytes of a repetition. `None`: its rows do not repeat.
    pub fn repeat_size(&self) -> Option<u32> {
        self.rows().rows.and_then(|rows| rows.repeat).map(|(repeat, _)| repeat)
    }

    /// Bytes that it covers.
    ///
    /// # Errors
    /// Its shape is malformed.
    pub fn size(&self) -> Result<u32, Error> {
        let mut rows = self.view.rows(self.view.shape(self.number))?;
        if let Some((_, whole)) = rows.repeat {
            return Ok(whole);
        }
        let mut end = 0;
        while let Some(row) = rows.next_row()? {
            end = row.start.saturating_add(row.covered);
        }
        Ok(end)
    }

    /// Offset of its shape from the start of the table, in bytes. Equal functions have the same offset.
    pub fn shape_offset(&self) -> usize {
        self.view.shape(self.number)
    }
}

impl Iterator for PieceRows<'_> {
    type Item = Result<PieceRow, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        let row = match self.rows.as_mut()?.next_row() {
            Ok(row) => row?,
            Err(error) => {
                self.rows = None;
                return Some(Err(error));
            }
        };
        let rules = self.view.rule(row.rule).and_then(|rule| self.view.unpacked(rule));
        Some(rules.map(|rules| PieceRow { start: row.start, size: row.covered, rules }))
    }
}

/// Entries in the order of their addresses.
#[derive(Clone, Copy)]
pub struct Pieces<'data> {
    view: View<'data>,
    region: u32,
    page: u32,
    entry: u32,
    /// Number of pages to come. The regions of a damaged table may all refer to the same pages. Without this
    /// limit, a walk over them would take time in proportion to the square of the table's size.
    left: u32,
}

impl<'data> Iterator for Pieces<'data> {
    type Item = Piece<'data>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.region < self.view.header.regions {
            let region = self.view.region(self.region);
            while self.page < region.pages {
                let place = region.first.checked_add(self.page).filter(|&p| p < self.view.header.pages)?;
                let end = self.view.first_entry(place + 1).min(self.view.header.entries);
                if self.entry < end {
                    let number = self.entry;
                    self.entry += 1;
                    let page = region.address.wrapping_add(u64::from(self.page) * PAGE);
                    let address = page.wrapping_add(self.view.start(number).into());
                    return Some(Piece { number, address, view: self.view });
                }
                self.page += 1;
                self.left = self.left.checked_sub(1)?;
            }
            self.page = 0;
            self.region += 1;
        }
        None
    }
}

/// What [`CompactTable::check`] found in a valid table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Rows of all entries.
    pub rows: u64,
    /// Bytes of text that they cover.
    pub text: u64,
    /// Entries whose rows repeat.
    pub repeating: u64,
}

impl<D: Deref<Target = [u8]>> CompactTable<D> {
    /// The entries in the order of their addresses.
    pub fn pieces(&self) -> Pieces<'_> {
        Pieces { view: self.view(), region: 0, page: 0, entry: 0, left: self.header.pages }
    }

    /// Reads the whole table.
    ///
    /// # Errors
    /// The regions and pages do not lead to every entry once; entries do not ascend; a shape does not end, or
    /// covers nothing or more than [`MAX_BYTES`]; or the table does not have a rule.
    pub fn check(&self) -> Result<Summary, Error> {
        let view = self.view();
        check_pages(&view)?;
        let mut summary = Summary::default();
        let mut last = None;
        let mut seen = 0;
        for piece in self.pieces() {
            let at = view.parts.starts + piece.number as usize * super::START_SIZE;
            let disorder = Error::new(at, ErrorKind::CompactOrder { what: "entries" });
            let size = piece.size()?;
            let ascends = last.replace(piece.address).is_none_or(|last| last < piece.address);
            if piece.number != seen || !ascends || size == 0 || size > MAX_BYTES {
                return Err(disorder);
            }
            for row in piece.rows() {
                row?;
                summary.rows += 1;
            }
            summary.text += u64::from(size);
            summary.repeating += u64::from(piece.repeat_size().is_some());
            seen += 1;
        }
        if seen != view.header.entries {
            let kind = ErrorKind::CompactNumber { what: "entry", found: seen };
            return Err(Error::new(view.parts.pages, kind));
        }
        Ok(summary)
    }
}

/// Checks that the regions cover all pages in turn, and that the pages cover all entries.
fn check_pages(view: &View<'_>) -> Result<(), Error> {
    let disorder = |offset, what| Error::new(offset, ErrorKind::CompactOrder { what });
    let (mut pages, mut end) = (0u32, 0u64);
    for number in 0..view.header.regions {
        let region = view.region(number);
        let at = view.parts.regions + number as usize * super::REGION_SIZE;
        if region.first != pages || (number > 0 && region.address < end) {
            return Err(disorder(at, "regions"));
        }
        pages = pages.checked_add(region.pages).ok_or(disorder(at, "regions"))?;
        end = region.address.saturating_add(u64::from(region.pages) * PAGE);
    }
    if pages != view.header.pages {
        return Err(disorder(view.parts.regions, "regions"));
    }
    let mut first = 0;
    for page in 0..=pages {
        let next = view.first_entry(page);
        let last_is_all = page < pages || next == view.header.entries;
        if next < first || !last_is_all || (page == 0 && next != 0) {
            return Err(disorder(view.parts.pages + page as usize * super::PAGE_SIZE, "pages"));
        }
        first = next;
    }
    Ok(())
}
