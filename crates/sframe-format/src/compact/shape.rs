//! Shapes: the runs of steps that make up the rows of an entry, and the bytes between the runs.
//!
//! A shape is a list of numbers. A number takes 1, 2 or 4 bytes, with the most significant byte first in both
//! byte orders: up to 0xdf itself, then 0xe0 to 0xfe and a byte, then 0xff and three bytes.
//!
//! The numbers form pairs: a run's first step, and the bytes that the run's last row covers. The steps of a
//! run are consecutive. A step contains a rule's number and, in the low 4 bits, the bytes that its row
//! covers. In the last step of a run, these bits are 0 if another run follows and 15 if the entry ends; the
//! shape says how many bytes that row covers. A shape that begins with 0 repeats: the bytes of a repetition
//! and of the entry come next.

use super::{MAX_ROWS, View};
use crate::error::{Error, ErrorKind};

/// The low bits of a step. They say how many bytes its row covers.
pub(super) const COVERED_BITS: u32 = 4;
/// The shape says how many bytes the row covers. Another run follows.
pub(super) const GOES_ON: u32 = 0;
/// The shape says how many bytes the row covers. The entry ends there.
pub(super) const ENDS: u32 = 15;
/// The smallest number that takes 2 bytes.
pub(super) const TWO_BYTES: u32 = 0xe0;
/// The smallest number that takes 4 bytes.
#[cfg(feature = "alloc")]
pub(super) const FOUR_BYTES: u32 = TWO_BYTES + (31 << 8);

/// A row of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShapeRow {
    /// Number of its rule.
    pub rule: u32,
    /// First byte that it covers, from the start of the entry or the repetition.
    pub start: u32,
    /// Bytes that it covers.
    pub covered: u32,
    /// Whether it is the last row of the entry or the repetition.
    pub last: bool,
}

/// The rows of an entry, read from its shape one after the other.
#[derive(Clone, Copy)]
pub(super) struct ShapeRows<'data> {
    view: View<'data>,
    /// Offset of the next byte from the start of the table.
    position: usize,
    /// The next step. `None` after the last row.
    step: Option<u32>,
    passed: u32,
    left: usize,
    /// Bytes of a repetition and of the whole entry, if the rows repeat.
    pub repeat: Option<(u32, u32)>,
}

impl<'data> View<'data> {
    /// A step by its number.
    #[inline]
    pub(super) fn step(self, number: u32) -> u32 {
        match self.header.step_width {
            2 => self.u16(self.parts.steps + number as usize * 2).into(),
            _ => self.u32(self.parts.steps + number as usize * 4),
        }
    }

    /// The rows of the shape at `position`.
    #[inline]
    pub(super) fn rows(self, position: usize) -> Result<ShapeRows<'data>, Error> {
        let mut rows =
            ShapeRows { view: self, position, step: None, passed: 0, left: MAX_ROWS + 1, repeat: None };
        let mut first = rows.number()?;
        if first == 0 {
            let repeat = (rows.number()?, rows.number()?);
            if repeat.0 == 0 {
                return Err(Error::new(position, ErrorKind::RepeatSize));
            }
            rows.repeat = Some(repeat);
            first = rows.number()?;
        }
        rows.step = Some(first);
        Ok(rows)
    }
}

impl ShapeRows<'_> {
    /// The next number of the shape.
    #[inline]
    fn number(&mut self) -> Result<u32, Error> {
        let at = self.position;
        let rest = self.view.data.get(at..self.view.parts.end).unwrap_or_default();
        let (number, length) = match *rest {
            [one, ..] if u32::from(one) < TWO_BYTES => (one.into(), 1),
            [high, low, ..] if high != 0xff => {
                let above = (u32::from(high) - TWO_BYTES) << 8 | u32::from(low);
                (above + TWO_BYTES, 2)
            }
            [_, a, b, c, ..] => (u32::from_be_bytes([0, a, b, c]), 4),
            _ => {
                let available = self.view.parts.end as u64;
                let kind = ErrorKind::Truncated { what: "shape", needed: at as u64 + 4, available };
                return Err(Error::new(at, kind));
            }
        };
        self.position += length;
        Ok(number)
    }

    /// The first step of the next run, and the bytes that the run's last row covers, for a reader who knows
    /// what runs say. Only the last step of a run tells whether there is another.
    #[cfg(feature = "alloc")]
    #[inline]
    pub(super) fn next_pair(&mut self) -> Result<(u32, u32), Error> {
        let step = match self.step.take() {
            Some(step) => step,
            None => self.number()?,
        };
        Ok((step, self.number()?))
    }

    /// The next row; `None` after the last one.
    #[inline]
    pub(super) fn next_row(&mut self) -> Result<Option<ShapeRow>, Error> {
        let view = self.view;
        self.next_row_of(|step| (step < view.header.steps).then(|| view.step(step)))
    }

    /// The next row, for a reader of many shapes who has all steps of the table.
    #[inline(always)]
    pub(super) fn next_row_of(
        &mut self,
        step_of: impl FnOnce(u32) -> Option<u32>,
    ) -> Result<Option<ShapeRow>, Error> {
        let Some(step) = self.step else { return Ok(None) };
        let Some(word) = step_of(step).filter(|_| self.left > 0) else {
            let what = if self.left == 0 { "row" } else { "step" };
            return Err(Error::new(self.position, ErrorKind::CompactNumber { what, found: step }));
        };
        self.left -= 1;
        let rule = word >> COVERED_BITS;
        let start = self.passed;
        let covered = match word & ((1 << COVERED_BITS) - 1) {
            GOES_ON => {
                let covered = self.number()?;
                self.step = Some(self.number()?);
                covered
            }
            ENDS => {
                self.step = None;
                self.number()?
            }
            covered => {
                self.step = Some(step + 1);
                covered
            }
        };
        self.passed = start.saturating_add(covered);
        Ok(Some(ShapeRow { rule, start, covered, last: self.step.is_none() }))
    }

    /// The row that holds `offset` bytes from the entry's start. The row's start counts from there, too.
    /// `None`: the entry has ended.
    #[inline]
    pub(super) fn find(mut self, mut offset: u32) -> Result<Option<ShapeRow>, Error> {
        let mut before = 0;
        if let Some((repeat, whole)) = self.repeat {
            if offset >= whole {
                return Ok(None);
            }
            before = offset - offset % repeat;
            offset %= repeat;
        }
        while let Some(row) = self.next_row()? {
            if offset - row.start < row.covered {
                return Ok(Some(ShapeRow { start: before + row.start, ..row }));
            }
        }
        Ok(None)
    }
}
