//! `.debug_gnu_pubnames` and `.debug_gnu_pubtypes`: the names of each unit, listed by the compiler for an
//! index (`-ggnu-pubnames`). The layout is gcc's own: DWARF's `.debug_pubnames` with a byte for the kind.

use super::dwarf::Section;
use super::gdb_index::Attributes;
use gimli::{Endianity, RunTimeEndian};

/// The names of one unit.
pub struct Set<'a> {
    /// Header index of the unit's section. `None`: the file does not say it.
    pub section: Option<u32>,
    /// The unit's offset in it.
    pub offset: u64,
    /// The names.
    pub names: Vec<(&'a [u8], Attributes)>,
}

/// Reads all sets of a section.
///
/// # Errors
/// The offset of a set that reaches past the section, and what is wrong.
pub fn read<'a>(section: &Section<'_, 'a>) -> Result<Vec<Set<'a>>, (u64, String)> {
    let mut sets = Vec::new();
    let mut position = 0;
    while position < section.bytes.len() {
        let (set, end) = read_set(section, position).ok_or_else(|| {
            let message = "a set of names reaches past the end of the section".to_owned();
            (position as u64, message)
        })?;
        sets.extend(set);
        position = end;
    }
    Ok(sets)
}

/// The set at this position, and its end. `None` stands for a set of an unknown version.
fn read_set<'a>(section: &Section<'_, 'a>, start: usize) -> Option<(Option<Set<'a>>, usize)> {
    let mut input = Input { bytes: section.bytes, at: start, endian: section.object.endian() };
    let first = input.unsigned(4)?;
    let width = if first == u64::from(u32::MAX) { 8 } else { 4 };
    let length = if width == 8 { input.unsigned(8)? } else { first };
    let end = input.at.checked_add(usize::try_from(length).ok()?)?;
    input.bytes = section.bytes.get(..end)?;
    if input.unsigned(2)? != 2 {
        return Some((None, end));
    }
    let field = input.at as u64;
    let written = input.unsigned(width)?;
    let (unit_section, offset) = section.target(field).unwrap_or((None, written));
    input.unsigned(width)?;
    let mut names = Vec::new();
    while input.unsigned(width)? != 0 {
        let attributes = Attributes(input.unsigned(1)? as u8);
        names.push((input.text()?, attributes));
    }
    Some((Some(Set { section: unit_section, offset, names }), end))
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
    endian: RunTimeEndian,
}

impl<'a> Input<'a> {
    fn unsigned(&mut self, width: usize) -> Option<u64> {
        let end = self.at.checked_add(width)?;
        let field = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(match width {
            1 => field[0].into(),
            2 => self.endian.read_u16(field).into(),
            4 => self.endian.read_u32(field).into(),
            _ => self.endian.read_u64(field),
        })
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let length = memchr::memchr(0, rest)?;
        self.at += length + 1;
        Some(&rest[..length])
    }
}
