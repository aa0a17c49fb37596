//! Sorting.
//!
//! Pieces of a list are sorted side by side, and then merged. How long a piece is depends on the list alone,
//! so equal items come in the same order at any number of threads.

use super::divide::join;
use std::cmp::Ordering;

/// Items of a list that one thread sorts alone.
const PIECE: usize = 1 << 13;

/// Sorting of lists. The methods say what those of slices do.
pub trait ParallelSort<V> {
    /// Puts the items into ascending order.
    fn par_sort_unstable(&mut self)
    where
        V: Ord;

    /// Puts the items into the order that `compare` tells.
    fn par_sort_unstable_by(&mut self, compare: impl Fn(&V, &V) -> Ordering + Sync);

    /// Puts the items into ascending order of their keys, and keeps the order of those with equal keys. It
    /// makes each key once, and sorts the keys: so the sorting is compiled once for a type of key, and not
    /// for each caller and machine.
    fn par_sort_by_key<K: Ord + Copy + Send + Sync>(&mut self, key: impl FnMut(&V) -> K);
}

impl<V: Copy + Send + Sync> ParallelSort<V> for [V] {
    fn par_sort_unstable(&mut self)
    where
        V: Ord,
    {
        self.par_sort_unstable_by(V::cmp);
    }

    fn par_sort_unstable_by(&mut self, compare: impl Fn(&V, &V) -> Ordering + Sync) {
        if self.len() <= PIECE {
            // By reference, as the pieces of a long list below: the standard library's sort is compiled for
            // each type of its argument.
            return self.sort_unstable_by(&compare);
        }
        let mut other = self.to_vec();
        sort(&mut other, self, &compare);
    }

    fn par_sort_by_key<K: Ord + Copy + Send + Sync>(&mut self, key: impl FnMut(&V) -> K) {
        let mut keys: Vec<(K, usize)> = self.iter().map(key).zip(0..).collect();
        if keys.is_sorted() {
            return;
        }
        keys.par_sort_unstable();
        let items = self.to_vec();
        self.iter_mut().zip(keys).for_each(|(item, (_, at))| *item = items[at]);
    }
}

/// Sorts `list`. `other` has the same items, and may be used.
fn sort<V: Copy + Send + Sync>(
    other: &mut [V],
    list: &mut [V],
    compare: &(impl Fn(&V, &V) -> Ordering + Sync),
) {
    if list.len() <= PIECE {
        return list.sort_unstable_by(compare);
    }
    let middle = list.len() / 2;
    let (before, after) = list.split_at_mut(middle);
    let (sorted_before, sorted_after) = other.split_at_mut(middle);
    join(|| sort(before, sorted_before, compare), || sort(after, sorted_after, compare));
    merge_halves(sorted_before, sorted_after, list, compare);
}

/// Merges two sorted lists. Of equal items, those of `a` come first. Long lists are cut in two, at the same
/// item of both, so that not one thread merges alone what all have sorted.
fn merge_halves<V: Copy + Send + Sync>(
    a: &[V],
    b: &[V],
    out: &mut [V],
    compare: &(impl Fn(&V, &V) -> Ordering + Sync),
) {
    if a.is_empty() || b.is_empty() {
        let (before, after) = out.split_at_mut(a.len());
        before.copy_from_slice(a);
        return after.copy_from_slice(b);
    }
    if out.len() <= 2 * PIECE {
        return merge(a, b, out, compare);
    }
    let (of_a, of_b) = if a.len() >= b.len() {
        let middle = a.len() / 2;
        (middle, b.partition_point(|item| compare(item, &a[middle]).is_lt()))
    } else {
        let middle = b.len() / 2;
        (a.partition_point(|item| compare(item, &b[middle]).is_le()), middle)
    };
    let (a_before, a_after) = a.split_at(of_a);
    let (b_before, b_after) = b.split_at(of_b);
    let (before, after) = out.split_at_mut(of_a + of_b);
    join(
        || merge_halves(a_before, b_before, before, compare),
        || merge_halves(a_after, b_after, after, compare),
    );
}

/// Merges two sorted lists, neither of which is empty. Of equal items, those of `a` come first.
fn merge<V: Copy>(a: &[V], b: &[V], out: &mut [V], compare: &impl Fn(&V, &V) -> Ordering) {
    if compare(&a[a.len() - 1], &b[0]).is_le() {
        let (before, after) = out.split_at_mut(a.len());
        before.copy_from_slice(a);
        after.copy_from_slice(b);
        return;
    }
    let (mut from_a, mut from_b) = (0, 0);
    for slot in out {
        let is_of_b = match (a.get(from_a), b.get(from_b)) {
            (Some(a), Some(b)) => compare(b, a).is_lt(),
            (None, _) => true,
            (_, None) => false,
        };
        let (list, from) = if is_of_b { (b, &mut from_b) } else { (a, &mut from_a) };
        *slot = list[*from];
        *from += 1;
    }
}
