//! Names of functions, which stay in the string tables of a file until somebody asks for one.
//!
//! A large file has more than a hundred thousand functions, and most of their names are never needed. What
//! may be asked of all of them is whether a name is that of a part. That is looked for in the string tables
//! as a whole ([`Parts`]), which are read from their start to their end, and not name by name.

use crate::bytes::Bytes;
use memchr::{memchr, memmem, memrchr};
use std::ops::Range;

/// What compilers write between the name of a function and the rest of a part's name.
const PART: &[u8] = b".cold";
/// How many bytes of a string table share the first place at which a search begins.
const STRIDE: usize = 1 << 10;

/// The name of the function that a part belongs to, or else the name itself.
pub fn whole(name: &[u8]) -> &[u8] {
    let part = memmem::find_iter(name, PART).find(|&place| place > 0 && ends_a_function(name, place));
    part.map_or(name, |place| &name[..place])
}

/// Whether what stands at a place of a name, or of names, is behind the name of a function: the rest begins
/// with a dot, or nothing is left.
fn ends_a_function(names: &[u8], place: usize) -> bool {
    matches!(names.get(place + PART.len()), None | Some(b'.' | 0))
}

/// String tables, one behind another.
#[derive(Default)]
pub struct Names {
    /// Each with the place of its first byte.
    tables: Vec<(u64, Bytes)>,
}

impl Names {
    /// Adds a string table. Returns the place of its first byte.
    pub fn add(&mut self, strings: Bytes) -> u64 {
        let start = self.tables.last().map_or(0, |(start, last)| start + last.len() as u64);
        self.tables.push((start, strings));
        start
    }

    /// The name at a place.
    pub fn at(&self, place: u64) -> &[u8] {
        let table = self.tables.iter().rfind(|(start, _)| *start <= place);
        table.map_or(&[], |(start, strings)| name_at(strings, place - start))
    }

    /// Which of the names are those of parts.
    pub fn parts(&self) -> Parts {
        Parts { tables: self.tables.iter().map(|(start, strings)| (*start, Offsets::new(strings))).collect() }
    }
}

/// The name at an offset of a string table.
pub fn name_at(strings: &[u8], offset: u64) -> &[u8] {
    let name = usize::try_from(offset).ok().and_then(|offset| strings.get(offset..)).unwrap_or_default();
    &name[..memchr(0, name).unwrap_or(name.len())]
}

/// The places of names of parts.
pub struct Parts {
    /// Of each string table, with the place of its first byte.
    tables: Vec<(u64, Offsets)>,
}

impl Parts {
    /// Whether the name at a place is that of a part.
    pub fn have(&self, place: u64) -> bool {
        let table = self.tables.iter().rfind(|(start, _)| *start <= place);
        table.is_some_and(|(start, offsets)| offsets.have((place - start) as usize))
    }
}

/// The offsets of names of parts in a string table.
struct Offsets {
    /// Ascending by their ends. A name at an offset counts if the first range that ends behind it has it.
    ranges: Vec<Range<usize>>,
    /// For each [`STRIDE`] of bytes, the number of the first range that ends in it or behind it.
    first: Vec<usize>,
}

impl Offsets {
    fn new(strings: &[u8]) -> Self {
        let found = memmem::find_iter(strings, PART).filter(|&place| ends_a_function(strings, place));
        let start = |place: usize| memrchr(0, &strings[..place]).map_or(0, |zero| zero + 1);
        let ranges: Vec<Range<usize>> = found.map(|place| start(place)..place).collect();
        let starts = (0..=strings.len() / STRIDE).map(|number| number * STRIDE);
        let first = starts.map(|start| ranges.partition_point(|range| range.end <= start));
        Self { first: first.collect(), ranges }
    }

    /// Whether the name at an offset is one of them.
    fn have(&self, offset: usize) -> bool {
        let Some(&first) = self.first.get(offset / STRIDE) else { return false };
        let next = self.ranges[first..].iter().find(|range| offset < range.end);
        next.is_some_and(|range| range.start <= offset)
    }
}

#[cfg(test)]
mod tests {
    use super::{Names, whole};
    use crate::bytes::Bytes;

    #[test]
    fn a_part_belongs_to_a_function() {
        for (name, function) in [
            ("f.cold", "f"),
            ("f.cold.3", "f"),
            ("f.isra.0.cold", "f.isra.0"),
            ("f.coldness", "f.coldness"),
            ("f.coldness.cold", "f.coldness"),
            (".cold", ".cold"),
            ("f", "f"),
        ] {
            assert_eq!(whole(name.as_bytes()), function.as_bytes());
        }
    }

    /// Every offset of a string table, which linkers let begin in the middle of other names.
    #[test]
    fn parts_are_those_of_the_names_one_by_one() {
        let mut strings =
            b"\0f.cold\0_start\0__start\0restart\0f.coldness\0x.cold.1\0___start\0.cold\0".to_vec();
        strings.extend(std::iter::repeat_n(*b"longer_", 400).flatten());
        strings.extend(b".cold\0_start");
        let mut names = Names::default();
        assert_eq!(names.add(Bytes::from(b"before\0".to_vec())), 0);
        let first = names.add(Bytes::from(strings.clone()));
        let (parts, mut found) = (names.parts(), 0);
        for place in 0..first + strings.len() as u64 + 2 {
            let name = names.at(place);
            let is_part = whole(name).len() < name.len();
            assert_eq!(parts.have(place), is_part, "{place}");
            found += usize::from(is_part);
        }
        assert!(found > 2800, "{found}");
        assert_eq!(names.at(2), b"fore");
    }
}
