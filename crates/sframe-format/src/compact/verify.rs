//! Checks a table against every rule of `COMPACT.md`, even those that no reader needs.

use core::ops::Deref;

use super::rule::{CFA_READ, FRAME, FROM_REGISTER, OUTERMOST, READ, SAVED, SIGNAL, SIGNAL_CONTEXT, SIGNED};
use super::shape::COVERED_BITS;
use super::{CompactTable, LONG_RULE_SIZE, MAX_ROWS, RULE_SIZE, View, WHOLE_VERSION, unused};
use crate::error::{Error, ErrorKind};

/// Bits of a rule's word.
mod word {
    pub const FP_OFFSET: u64 = 0xffff << 22;
    pub const RA_OFFSET: u64 = 0x3fff << 38;
    pub const RA_SAVED: u64 = 1 << 53;
    pub const FP_SAVED: u64 = 1 << 54;
    pub const SIGNED: u64 = 1 << 55;
    pub const UNUSED: u64 = 0x1f << 56;
    pub const KIND: u32 = 61;
}

impl<D: Deref<Target = [u8]>> CompactTable<D> {
    /// Checks the table and the bytes after it.
    ///
    /// # Errors
    /// Any error of [`CompactTable::check`]; bits without a meaning are set in a rule, in a long rule or
    /// after the table; a rule is of an unknown kind; a row covers nothing; a repetition does not end with
    /// its rows; an entry has more than [`MAX_ROWS`] rows.
    pub fn verify(&self) -> Result<(), Error> {
        self.check()?;
        let view = self.view();
        (0..view.header.rules).try_for_each(|number| check_rule(&view, number))?;
        (0..view.header.long_rules).try_for_each(|number| check_long_rule(&view, number))?;
        (0..view.header.steps).try_for_each(|number| check_step(&view, number))?;
        let mut last = None;
        for piece in self.pieces() {
            // Entries of one shape often follow each other. A shape that comes up again later is checked
            // again.
            if last.replace(piece.shape_offset()) != Some(piece.shape_offset()) {
                check_shape(&view, piece.shape_offset())?;
            }
        }
        if view.header.version == WHOLE_VERSION {
            super::verify_whole::check(&view)?;
        }
        let behind = self.data.get(view.parts.end..).unwrap_or_default();
        match behind.iter().position(|&byte| byte != 0) {
            Some(place) => Err(unused(view.parts.end + place, "the bytes after the table")),
            None => Ok(()),
        }
    }
}

fn check_rule(view: &View<'_>, number: u32) -> Result<(), Error> {
    let at = view.parts.rules + number as usize * RULE_SIZE;
    let word = view.endian().read_i64(view.data, at).unwrap_or(0) as u64;
    let kind = word >> word::KIND;
    let mut free = word::UNUSED;
    match kind {
        0 | 2 => free = (1 << word::KIND) - 1,
        1 => {
            for (bit, offset) in [(word::RA_SAVED, word::RA_OFFSET), (word::FP_SAVED, word::FP_OFFSET)] {
                free |= if word & bit == 0 { offset } else { 0 };
            }
            free |= if view.header.abi.is_aarch64() { 0 } else { word::SIGNED };
        }
        3 => {
            free = ((1 << word::KIND) - 1) & !u64::from(u32::MAX);
            let found = word as u32;
            if found >= view.header.long_rules {
                return Err(Error::new(at, ErrorKind::CompactNumber { what: "long rule", found }));
            }
        }
        _ => return Err(Error::new(at, ErrorKind::Reserved { what: "rule", found: kind as u32 })),
    }
    if word & free != 0 {
        return Err(unused(at, "a rule"));
    }
    if number == 0 && kind != 0 {
        return Err(Error::new(at, ErrorKind::Reserved { what: "rule 0", found: kind as u32 }));
    }
    Ok(())
}

fn check_long_rule(view: &View<'_>, number: u32) -> Result<(), Error> {
    let at = view.parts.long_rules + number as usize * LONG_RULE_SIZE;
    let bytes = view.data.get(at..).and_then(|rest| rest.first_chunk::<LONG_RULE_SIZE>());
    let Some(&[ref numbers @ .., flags, ra, fp, kind]) = bytes else { return Ok(()) };
    let is_zero = |range: core::ops::Range<usize>| numbers[range].iter().all(|&byte| byte == 0);
    let sound = match kind {
        FRAME => {
            let signed = if view.header.abi.is_aarch64() { SIGNED } else { 0 };
            let known = CFA_READ | signed | SIGNAL;
            let register = |how: u8, at: usize| match how {
                0 => is_zero(at..at + 8),
                how => {
                    let counts = how & FROM_REGISTER != 0 || is_zero(at..at + 4);
                    how & SAVED != 0 && how & !(SAVED | FROM_REGISTER | READ) == 0 && counts
                }
            };
            flags & !known == 0 && register(ra, 12) && register(fp, 20)
        }
        OUTERMOST | SIGNAL_CONTEXT => flags & !SIGNAL == 0 && ra == 0 && fp == 0 && is_zero(0..28),
        _ => {
            let kind = ErrorKind::Reserved { what: "long rule", found: kind.into() };
            return Err(Error::new(at + LONG_RULE_SIZE - 1, kind));
        }
    };
    if sound { Ok(()) } else { Err(unused(at, "a long rule")) }
}

/// Checks that the rule of a step exists, even if no shape leads to the step.
fn check_step(view: &View<'_>, number: u32) -> Result<(), Error> {
    let width = view.header.step_width;
    let at = view.parts.steps + number as usize * usize::from(width);
    let word = if width == 2 { view.u16(at).into() } else { view.u32(at) };
    let found = word >> COVERED_BITS;
    if found < view.header.rules {
        return Ok(());
    }
    Err(Error::new(at, ErrorKind::CompactNumber { what: "rule", found }))
}

fn check_shape(view: &View<'_>, place: usize) -> Result<(), Error> {
    let mut rows = view.rows(place)?;
    let (mut count, mut end) = (0, 0u32);
    while let Some(row) = rows.next_row()? {
        if row.covered == 0 {
            return Err(Error::new(place, ErrorKind::CompactEmptyRow));
        }
        (count, end) = (count + 1, row.start.saturating_add(row.covered));
    }
    if count > MAX_ROWS {
        let found = count as u32 - 1;
        return Err(Error::new(place, ErrorKind::CompactNumber { what: "row", found }));
    }
    if let Some((size, _)) = rows.repeat.filter(|&(size, _)| size != end) {
        return Err(Error::new(place, ErrorKind::CompactRepeat { size, end }));
    }
    Ok(())
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;
    use crate::abi::Abi;
    use crate::compact::write_table;
    use crate::rules::{Base, CfaRule, Location, RegisterRule, Row, Rules};
    use crate::write::Function;
    use alloc::vec::Vec;

    /// A function with a word's rules, one with long rules, and one that repeats.
    fn table() -> Vec<u8> {
        let saved = |offset| RegisterRule::Saved(Location { base: Base::Cfa, offset, dereference: true });
        let frame = |register, offset| {
            let cfa = CfaRule { register, dereference: false, offset };
            Rules::Frame(crate::rules::Frame {
                cfa,
                ra: saved(-8),
                fp: RegisterRule::Unchanged,
                mangled: false,
            })
        };
        let function = |rows: &[Rules], repeat_size| Function {
            size: 32,
            repeat_size,
            rows: (0..).step_by(4).zip(rows).map(|(start, &rules)| Row { start, rules }).collect(),
            ..Function::default()
        };
        let functions = [
            (0x1000, function(&[frame(7, 8), frame(7, 16)], None)),
            (0x1100, function(&[frame(12, 5_000_000), Rules::Outermost], None)),
            (0x1200, function(&[frame(7, 8), frame(7, 24)], Some(16))),
        ];
        write_table(Abi::Amd64, 0x2000, &functions).expect("a table").bytes
    }

    fn verify(bytes: &[u8]) -> Result<(), Error> {
        CompactTable::parse(bytes, 0x2000).and_then(|table| table.verify())
    }

    #[test]
    fn what_the_writer_makes_is_right() {
        let mut bytes = table();
        assert_eq!(verify(&bytes), Ok(()));
        bytes.extend([0; 3]);
        assert_eq!(verify(&bytes), Ok(()));
    }

    /// Changes every bit of rules and long rules that may change without changing the readers' answers, and
    /// expects an error.
    #[test]
    fn bits_without_a_meaning_are_zero() {
        let bytes = table();
        let parsed = CompactTable::parse(&*bytes, 0x2000).unwrap();
        let parts = *parsed.parts();
        assert!(parsed.header().long_rules > 0);
        let answers = |bytes: &[u8]| -> Option<Vec<_>> {
            let table = CompactTable::parse(bytes, 0x2000).ok()?;
            (0x1000..0x1300).map(|pc| table.lookup(pc).ok()).collect()
        };
        let expected = answers(&bytes);
        for bit in parts.rules * 8..parts.pages * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            if answers(&damaged) == expected {
                assert!(verify(&damaged).is_err(), "bit {} of byte {:#x}", bit % 8, bit / 8);
            }
        }
    }

    #[test]
    fn kinds_rows_and_ends_are_checked() {
        let bytes = table();
        let parts = *CompactTable::parse(&*bytes, 0x2000).unwrap().parts();
        let damaged = |at: usize, value: u8| {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            verify(&damaged).map_err(|error| error.kind)
        };
        for kind in 4..8 {
            let found = damaged(parts.rules + 8 + 7, kind << 5);
            assert_eq!(found, Err(ErrorKind::Reserved { what: "rule", found: kind.into() }));
        }
        assert!(damaged(parts.long_rules + 31, 4).is_err());
        let mut longer = bytes.clone();
        longer.extend([0, 7]);
        let found = verify(&longer).map_err(|error| error.offset);
        assert_eq!(found, Err(bytes.len() + 1));
        // The last number of the last shape is the size of its last row. 0 leaves the row without bytes, and
        // 1 ends it before the repetition does.
        for size in [0, 1] {
            assert!(damaged(parts.end - 1, size).is_err());
        }
    }
}
