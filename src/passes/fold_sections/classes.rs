//! Divides rows into the fewest classes such that rows of one class are alike, and their targets, one by one,
//! lie in the same classes.
//!
//! Classes are only ever split, and there is exactly one such partition with the fewest classes, so the
//! result depends neither on the order of the work nor on the number of threads.
//!
//! The simple method looks at all rows in each round until nothing changes. A chain of a thousand functions
//! that call each other needs a thousand rounds of that kind, and so a million looks. So only the first round
//! looks at all rows. Each later round looks only at the rows whose targets changed their classes in the
//! round before, and only at these targets. When a class is split, its largest part keeps the class's number:
//! a row gets a new number only when its class has shrunk to half its size or less, which happens at most 32
//! times. A chain then takes hardly more time than its functions ([`changes`]).

mod changes;
mod targets;

use changes::Partition;
use parallel::{ParallelSlice, ParallelSort};
use std::cmp::Ordering;
use std::ops::Range;
use targets::Targets;

/// Number of classes that one job splits.
const SHARE: usize = 128;

/// Classes of two rows or more.
pub(super) struct Classes {
    /// All rows. The rows of a class are neighbours.
    members: Vec<u32>,
    /// The classes as places in `members`, ascending.
    ranges: Vec<Range<u32>>,
}

impl Classes {
    /// The rows of each class.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.ranges.iter().map(|range| &self.members[range.start as usize..range.end as usize])
    }
}

/// Finds the classes of rows with the given hashes. Two rows of one hash belong together if `are_alike` says
/// so, and if their targets, which `targets_of` lists, belong together one by one. `are_alike` must be an
/// equivalence, and rows that are alike must have equally many targets. Both do much work for a call, so
/// they are called through pointers, and this is compiled once and not for each machine.
pub(super) fn find(
    hashes: &[u64],
    are_alike: &(dyn Fn(u32, u32) -> bool + Sync),
    targets_of: &(dyn Fn(u32, &mut Vec<u32>) + Sync),
) -> Classes {
    let mut members: Vec<u32> = (0..hashes.len() as u32).collect();
    members.par_sort_by_key(|&row| (hashes[row as usize], row));
    let mut runs = Vec::new();
    cut(&members, 0, |a, b| hashes[a as usize] == hashes[b as usize], &mut runs);
    let runs = refine(&mut members, &runs, &|rows, start, found| split_alike(rows, start, are_alike, found));
    let mut class_of = vec![0; hashes.len()];
    assign(&mut class_of, &members, &runs);
    let open: Vec<_> = runs.into_iter().filter(|range| range.len() > 1).collect();
    let targets = Targets::new(hashes.len(), &members, &open, targets_of);
    let split = |rows: &mut [u32], start, found: &mut Vec<Range<u32>>| {
        split_by_targets(rows, start, |row| targets.classes(row, &class_of), found);
    };
    let parts = refine(&mut members, &open, &split);
    let (members, ranges) = Partition::new(members, class_of, &open, parts).refine(&targets);
    Classes { members, ranges }
}

/// Numbers each class by its start in `members`. No other class ever starts there, so the number is free.
fn assign(class_of: &mut [u32], members: &[u32], ranges: &[Range<u32>]) {
    for range in ranges {
        for &row in &members[range.start as usize..range.end as usize] {
            class_of[row as usize] = range.start;
        }
    }
}

/// Adds the runs of equal neighbours among `rows`, which stand at `start`.
fn cut(rows: &[u32], start: u32, same: impl Fn(u32, u32) -> bool, found: &mut Vec<Range<u32>>) {
    let mut at = start;
    for run in rows.chunk_by(|&a, &b| same(a, b)) {
        let end = at + run.len() as u32;
        found.push(at..end);
        at = end;
    }
}

/// Splits classes, and returns all parts in order. `split` gets the rows of a class and where they start. It
/// may reorder them, and adds the parts.
fn refine(
    members: &mut [u32],
    classes: &[Range<u32>],
    split: &(impl Fn(&mut [u32], u32, &mut Vec<Range<u32>>) + Sync),
) -> Vec<Range<u32>> {
    let mut rest = members;
    let mut at = 0;
    let mut slices: Vec<(u32, &mut [u32])> = Vec::with_capacity(classes.len());
    for class in classes {
        let (_, behind) = rest.split_at_mut((class.start - at) as usize);
        let (rows, behind) = behind.split_at_mut(class.len());
        slices.push((class.start, rows));
        (rest, at) = (behind, class.end);
    }
    let shares = slices.par_chunks_mut(SHARE).map(|share| {
        let mut found = Vec::with_capacity(share.len());
        share.iter_mut().for_each(|(start, rows)| split(rows, *start, &mut found));
        found
    });
    shares.collect().concat()
}

/// Puts rows that are alike side by side. Rows of one hash nearly always are.
fn split_alike(
    rows: &mut [u32],
    start: u32,
    are_alike: &dyn Fn(u32, u32) -> bool,
    found: &mut Vec<Range<u32>>,
) {
    let (mut rows, mut at) = (rows, start);
    while let Some(&first) = rows.first() {
        let other = rows[1..].iter().position(|&row| !are_alike(first, row));
        let count = match other {
            None => rows.len(),
            Some(_) => {
                let (mut same, others): (Vec<u32>, Vec<u32>) =
                    rows.iter().partition(|&&row| row == first || are_alike(first, row));
                let count = same.len();
                same.extend(others);
                rows.copy_from_slice(&same);
                count
            }
        };
        let end = at + count as u32;
        found.push(at..end);
        (rows, at) = (&mut rows[count..], end);
    }
}

/// Puts rows side by side whose targets lie in the same classes.
fn split_by_targets<I: Iterator<Item = u32>>(
    rows: &mut [u32],
    start: u32,
    classes: impl Fn(u32) -> I,
    found: &mut Vec<Range<u32>>,
) {
    let first = rows[0];
    if rows[1..].iter().all(|&row| classes(row).eq(classes(first))) {
        found.push(start..start + rows.len() as u32);
        return;
    }
    rows.sort_unstable_by(|&a, &b| classes(a).cmp(classes(b)).then(a.cmp(&b)));
    cut(rows, start, |a, b| classes(a).cmp(classes(b)) == Ordering::Equal, found);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::collections::BTreeMap;

    /// The classes of rows, each with the hash of its look and its targets.
    fn found(rows: &[(u64, &[u32])]) -> Vec<Vec<u32>> {
        let hashes: Vec<u64> = rows.iter().map(|row| row.0).collect();
        let classes =
            find(&hashes, &|_, _| true, &|row, targets| targets.extend_from_slice(rows[row as usize].1));
        sorted(&classes)
    }

    fn sorted(classes: &Classes) -> Vec<Vec<u32>> {
        let mut all: Vec<Vec<u32>> = classes.iter().map(<[u32]>::to_vec).collect();
        all.iter_mut().for_each(|class| class.sort_unstable());
        all.sort();
        all
    }

    /// The same result by the definition: splits all rows again until nothing changes.
    fn by_definition(rows: &[(u64, Vec<u32>)]) -> Vec<Vec<u32>> {
        let mut class_of: Vec<u64> = rows.iter().map(|row| row.0).collect();
        loop {
            let mut classes: BTreeMap<(u64, Vec<u64>), Vec<u32>> = BTreeMap::new();
            for (row, (_, targets)) in (0..).zip(rows) {
                let targets = targets.iter().map(|&target| class_of[target as usize]).collect();
                classes.entry((class_of[row as usize], targets)).or_default().push(row);
            }
            let before = class_of.iter().collect::<std::collections::BTreeSet<_>>().len();
            for (number, class) in (0..).zip(classes.values()) {
                class.iter().for_each(|&row| class_of[row as usize] = number);
            }
            if classes.len() == before {
                let mut all: Vec<_> = classes.into_values().filter(|class| class.len() > 1).collect();
                all.sort();
                return all;
            }
        }
    }

    #[test]
    fn classes_are_those_of_the_definition() {
        let state = Cell::new(1u64);
        let next = |below: u64| {
            state.set(state.get().wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
            (state.get() >> 33) % below
        };
        for _ in 0..3000 {
            let (count, looks) = (1 + next(24), 1 + next(3));
            let most = next(4);
            // Targets near by make chains and rings, which take many rounds.
            let near = next(2) == 0;
            let rows: Vec<(u64, Vec<u32>)> = (0..count)
                .map(|row| {
                    let target = |_| if near { (row + 1 + next(2)) % count } else { next(count) };
                    let look = next(looks);
                    (look, (0..most * (1 + look % 2)).map(target).map(|row| row as u32).collect())
                })
                .collect();
            let views: Vec<(u64, &[u32])> =
                rows.iter().map(|(look, targets)| (*look, &targets[..])).collect();
            assert_eq!(found(&views), by_definition(&rows), "{rows:?}");
        }
    }

    #[test]
    fn rows_of_one_look_are_equal_if_their_targets_are() {
        // 2 and 3 lead to equal leaves, 4 to another one.
        let rows: [(u64, &[u32]); 6] = [(1, &[]), (1, &[]), (2, &[0]), (2, &[1]), (2, &[5]), (3, &[])];
        assert_eq!(found(&rows), [vec![0, 1], vec![2, 3]]);
    }

    #[test]
    fn rings_are_equal_to_rings() {
        let rows: [(u64, &[u32]); 5] = [(1, &[1]), (2, &[0]), (1, &[3]), (2, &[2]), (1, &[0])];
        assert_eq!(found(&rows), [vec![0, 2], vec![1, 3]], "4 leads to 0, which looks unlike 1 and 3");
        let rows: [(u64, &[u32]); 2] = [(1, &[0]), (1, &[1])];
        assert_eq!(found(&rows), [vec![0, 1]], "both call themselves");
    }

    #[test]
    fn chains_are_told_apart_by_their_ends() {
        // Two chains of a hundred rows; the last rows differ.
        let length = 100;
        let target: Vec<[u32; 1]> = (0..2 * length).map(|row| [row + 1]).collect();
        let mut rows: Vec<(u64, &[u32])> = target.iter().map(|target| (7, &target[..])).collect();
        rows[length as usize - 1] = (8, &[]);
        rows[2 * length as usize - 1] = (9, &[]);
        assert_eq!(found(&rows), Vec::<Vec<u32>>::new());
        rows[2 * length as usize - 1] = (8, &[]);
        assert_eq!(found(&rows).len(), length as usize);
    }

    #[test]
    fn rows_of_one_hash_that_are_not_alike_stay_apart() {
        let classes = find(&[5; 6], &|a, b| a % 2 == b % 2, &|_, _| {});
        assert_eq!(sorted(&classes), [[0, 2, 4], [1, 3, 5]]);
    }
}
