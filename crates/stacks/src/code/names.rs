//! Names of functions, which stay in the string tables of a file until somebody asks for one.
//!
//! A large file has more than a hundred thousand functions, and most of their names are never needed. What is
//! asked of all of them is whether a name is that of a part, or one of a few words. Both are looked for in
//! the string table as a whole ([`Places`]), which is read from its start to its end, and not name by name.

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
}

/// The name at an offset of a string table.
pub fn name_at(strings: &[u8], offset: u64) -> &[u8] {
    let name = usize::try_from(offset).ok().and_then(|offset| strings.get(offset..)).unwrap_or_default();
    &name[..memchr(0, name).unwrap_or(name.len())]
}

/// The offsets of some names in a string table.
pub struct Places {
    /// Ascending by their ends. A name at an offset counts if the first range that ends behind it has it.
    ranges: Vec<Range<usize>>,
    /// For each [`STRIDE`] of bytes, the number of the first range that ends in it or behind it.
    first: Vec<usize>,
}

impl Places {
    /// Names of parts.
    pub fn of_parts(strings: &[u8]) -> Self {
        let found = memmem::find_iter(strings, PART).filter(|&place| ends_a_function(strings, place));
        Self::new(strings, found.map(|place| memrchr(0, &strings[..place]).map_or(0, |zero| zero + 1)..place))
    }

    /// Some names. None of them is the end of another one, except for the same byte once more in front.
    pub fn of(strings: &[u8], name: &str, before: Option<u8>) -> Self {
        let ended = [name.as_bytes(), &[0]].concat();
        let found = memmem::find_iter(strings, &ended);
        let with_before = |place: usize| {
            let is_there = place > 0 && before.is_some() && strings.get(place - 1).copied() == before;
            place - usize::from(is_there)..place + 1
        };
        Self::new(strings, found.map(with_before))
    }

    fn new(strings: &[u8], ranges: impl Iterator<Item = Range<usize>>) -> Self {
        let ranges: Vec<Range<usize>> = ranges.collect();
        let starts = (0..=strings.len() / STRIDE).map(|number| number * STRIDE);
        let first = starts.map(|start| ranges.partition_point(|range| range.end <= start));
        Self { first: first.collect(), ranges }
    }

    /// Whether the name at an offset is one of them.
    pub fn have(&self, offset: usize) -> bool {
        let Some(&first) = self.first.get(offset / STRIDE) else { return false };
        let next = self.ranges[first..].iter().find(|range| offset < range.end);
        next.is_some_and(|range| range.start <= offset)
    }
}

#[cfg(test)]
mod tests {
    use super::{Names, Places, whole};
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
    fn places_are_those_of_the_names_one_by_one() {
        let mut strings =
            b"\0f.cold\0_start\0__start\0restart\0f.coldness\0x.cold.1\0___start\0.cold\0".to_vec();
        strings.extend(std::iter::repeat_n(*b"longer_", 400).flatten());
        strings.extend(b".cold\0_start");
        let (parts, starts) = (Places::of_parts(&strings), Places::of(&strings, "_start", Some(b'_')));
        let mut names = Names::default();
        assert_eq!(names.add(Bytes::from(b"before\0".to_vec())), 0);
        let first = names.add(Bytes::from(strings.clone()));
        let mut found = (0, 0);
        for offset in 0..strings.len() + 2 {
            let name = names.at(first + offset as u64);
            let is_part = whole(name).len() < name.len();
            assert_eq!(parts.have(offset), is_part, "{offset}");
            // The last one has no end.
            let is_start = [&b"_start"[..], b"__start"].contains(&name) && offset + 6 < strings.len();
            assert_eq!(starts.have(offset), is_start, "{offset}");
            found = (found.0 + usize::from(is_part), found.1 + usize::from(is_start));
        }
        assert!(found.0 > 2800 && found.1 == 5, "{found:?}");
        assert_eq!(names.at(2), b"fore");
    }
}
