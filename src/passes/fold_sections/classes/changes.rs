//! Splits classes by what changed in the round before, until nothing changes.
//!
//! By the numbers of the round before, all rows of a class have targets in the same classes. Two rows can
//! differ now only if one of their targets got a new number. So this round compares only such targets, and
//! rows without one stay together. Each round costs as much as there are references to rows with a new
//! number.

use super::targets::Targets;
use parallel::ParallelSort;
use std::ops::Range;

/// A class of rows.
#[derive(Clone, Copy)]
struct Class {
    /// Its place in [`Partition::members`], and the one behind the last.
    start: u32,
    end: u32,
}

impl Class {
    fn len(self) -> u32 {
        self.end - self.start
    }
}

/// Rows in classes.
pub(super) struct Partition {
    /// All rows. The rows of a class are neighbours.
    members: Vec<u32>,
    /// The place of each row in `members`.
    place_of: Vec<u32>,
    /// The class of each row, by number.
    class_of: Vec<u32>,
    classes: Vec<Class>,
    /// Rows whose class got a new number in this round.
    changed: Vec<u32>,
}

/// A target of a row that got a new number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    /// Class of the row.
    class: u32,
    row: u32,
    /// Which of the row's targets it is.
    position: u32,
    /// The target's new class.
    target: u32,
}

/// For each row, the rows that refer to it. Each comes with the position of this row among its targets.
struct References {
    /// By row, where its references end. They start where those of the row before end.
    ends: Vec<u32>,
    all: Vec<(u32, u32)>,
}

impl Partition {
    /// The partition after the first round, which split the classes `before` into `parts`. Neither list has
    /// classes of one row.
    pub(super) fn new(
        members: Vec<u32>,
        class_of: Vec<u32>,
        before: &[Range<u32>],
        parts: Vec<Range<u32>>,
    ) -> Self {
        let mut place_of = vec![0; members.len()];
        for (place, &row) in (0..).zip(&members) {
            place_of[row as usize] = place;
        }
        // So far, a class has the number of its start. The other numbers of this range stay empty.
        let mut classes = vec![Class { start: 0, end: 0 }; members.len()];
        for range in before {
            classes[range.start as usize] = Class { start: range.start, end: range.end };
        }
        let mut partition = Partition { members, place_of, class_of, classes, changed: Vec::new() };
        let mut parts = parts.into_iter().peekable();
        for range in before {
            let inside = std::iter::from_fn(|| parts.next_if(|part| part.end <= range.end));
            let inside: Vec<Class> = inside.map(|part| Class { start: part.start, end: part.end }).collect();
            partition.cut(range.start, &inside);
        }
        partition
    }

    /// Splits classes until the targets of each class lie in the same classes. Returns the rows, those of a
    /// class as neighbours, and the ranges of classes with several rows.
    pub(super) fn refine(mut self, targets: &Targets) -> (Vec<u32>, Vec<Range<u32>>) {
        let references = References::new(&self, targets);
        let mut changes: Vec<Change> = Vec::new();
        while !self.changed.is_empty() {
            changes.clear();
            for target in std::mem::take(&mut self.changed) {
                let new = self.class_of[target as usize];
                changes.extend(references.to(target).iter().filter_map(|&(row, position)| {
                    let class = self.class_of[row as usize];
                    let is_alone = self.classes[class as usize].len() < 2;
                    (!is_alone).then_some(Change { class, row, position, target: new })
                }));
            }
            // Sorting puts the rows of a class side by side, and the changes of a row.
            changes.par_sort_unstable();
            for of_class in changes.chunk_by(|a, b| a.class == b.class) {
                self.split(of_class);
            }
        }
        let mut ranges: Vec<Range<u32>> =
            self.classes.iter().filter(|class| class.len() > 1).map(|class| class.start..class.end).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        (self.members, ranges)
    }

    /// Splits a class by what changed for its rows: one part for each different list of changes, and one part
    /// for the rows without any.
    fn split(&mut self, changes: &[Change]) {
        let number = changes[0].class;
        let Class { start, end } = self.classes[number as usize];
        let mut rows: Vec<&[Change]> = changes.chunk_by(|a, b| a.row == b.row).collect();
        rows.sort_unstable_by(|a, b| targets(a).cmp(targets(b)));
        // The rows with changes move to the end of the class, in this order.
        let first = end - rows.len() as u32;
        for (place, row) in (first..end).zip(&rows) {
            self.put(row[0].row, place);
        }
        let mut parts = Vec::new();
        if first > start {
            parts.push(Class { start, end: first });
        }
        let mut at = first;
        for part in rows.chunk_by(|a, b| targets(a).eq(targets(b))) {
            parts.push(Class { start: at, end: at + part.len() as u32 });
            at += part.len() as u32;
        }
        self.cut(number, &parts);
    }

    /// Exchanges a row with the one at a place.
    fn put(&mut self, row: u32, place: u32) {
        let (own, other) = (self.place_of[row as usize], self.members[place as usize]);
        self.members.swap(own as usize, place as usize);
        (self.place_of[row as usize], self.place_of[other as usize]) = (place, own);
    }

    /// Makes each part of a class a class of its own. The parts lie in order, and the largest one keeps the
    /// number.
    fn cut(&mut self, number: u32, parts: &[Class]) {
        let Some(largest) = (0..parts.len()).max_by_key(|&part| parts[part].len()) else { return };
        for (part, &class) in parts.iter().enumerate() {
            if part == largest {
                self.classes[number as usize] = class;
                continue;
            }
            let new = self.classes.len() as u32;
            self.classes.push(class);
            for &row in &self.members[class.start as usize..class.end as usize] {
                self.class_of[row as usize] = new;
                self.changed.push(row);
            }
        }
    }
}

/// The targets of a row that got new numbers, by position, each with its new number.
fn targets(row: &[Change]) -> impl Iterator<Item = (u32, u32)> {
    row.iter().map(|change| (change.position, change.target))
}

impl References {
    /// The references to rows that have a new number or may still get one.
    fn new(partition: &Partition, targets: &Targets) -> Self {
        let rows = 0..partition.members.len() as u32;
        let class = |row: u32| partition.classes[partition.class_of[row as usize] as usize];
        let mut open: Vec<bool> = rows.clone().map(|row| class(row).len() > 1).collect();
        // A row that is alone in its class gets no further number, but the number of this round is new.
        partition.changed.iter().for_each(|&row| open[row as usize] = true);
        let kept = |row: u32| {
            let numbered = (0u32..).zip(targets.of(row));
            numbered
                .filter(|&(_, &target)| open[target as usize])
                .map(|(position, &target)| (position, target))
        };
        let mut ends = vec![0u32; partition.members.len()];
        for (_, target) in rows.clone().flat_map(kept) {
            ends[target as usize] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += std::mem::replace(end, sum);
        }
        // Each entry is the start of a row's references now. It becomes the end as these references are put
        // in their places.
        let mut all = vec![(0, 0); sum as usize];
        for row in rows {
            for (position, target) in kept(row) {
                let place = &mut ends[target as usize];
                all[*place as usize] = (row, position);
                *place += 1;
            }
        }
        References { ends, all }
    }

    fn to(&self, row: u32) -> &[(u32, u32)] {
        let start = (row as usize).checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[start as usize..self.ends[row as usize] as usize]
    }
}
