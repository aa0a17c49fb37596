//! Delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input").
//!
//! A link with 1,000 inputs fails, and perhaps two of them cause it. To try every subset would take 2¹⁰⁰⁰
//! links. To leave out one input at a time would take 1,000. Delta debugging leaves out large parts first: it
//! cuts the units into 2 parts, then 4, then 8, and leaves out each part that the failure does not need. Most
//! of the units go in a few tests.
//!
//! ```text
//! 1 2 3 4 5 6 7 8     only 3 and 8 together fail
//! 1 2 3 4 · · · ·     fails no more: keep            · · · · 5 6 7 8   fails no more: keep
//! 1 2 3 4 · · 7 8     still fails: 5 and 6 go        · · 3 4 7 8       still fails: 1 and 2 go
//! · · 3 · · · · 8     still fails: 7 and 4 go
//! ```

/// Finds a subset that passes a test and from which no single unit can be left out. The test must pass for
/// all units together. Units stay in order.
pub fn minimise<T: Clone>(units: Vec<T>, test: &mut dyn FnMut(&[T]) -> bool) -> Vec<T> {
    let mut units = units;
    if units.is_empty() || test(&[]) {
        return Vec::new();
    }
    let mut parts = 2;
    while units.len() > 1 {
        match smaller(&units, parts, test) {
            Some((left, next)) => {
                units = left;
                parts = next;
            }
            None if parts >= units.len() => break,
            None => parts = (parts * 2).min(units.len()),
        }
    }
    units
}

/// Tries each part alone, then everything without one part. Returns what is left, and the number of parts for
/// the next round.
fn smaller<T: Clone>(
    units: &[T],
    parts: usize,
    test: &mut dyn FnMut(&[T]) -> bool,
) -> Option<(Vec<T>, usize)> {
    let size = units.len().div_ceil(parts);
    let bounds: Vec<(usize, usize)> =
        (0..units.len()).step_by(size).map(|start| (start, (start + size).min(units.len()))).collect();
    // Except in the first rounds, one part is rarely enough.
    if parts <= 4 {
        for &(start, end) in &bounds {
            if test(&units[start..end]) {
                return Some((units[start..end].to_vec(), 2));
            }
        }
    }
    // One round leaves out every part that it can.
    let mut left = units.to_vec();
    let mut removed = 0;
    for &(start, end) in bounds.iter().rev() {
        let mut without = left[..start].to_vec();
        without.extend_from_slice(&left[end.min(left.len())..]);
        if !without.is_empty() && test(&without) {
            left = without;
            removed += 1;
        }
    }
    (removed > 0).then(|| (left, parts.saturating_sub(removed).max(2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn only_needed_units_stay() {
        for needed in [vec![7], vec![0, 999], vec![3, 500, 501], (0..10).map(|n| n * 100).collect()] {
            let mut tests = 0;
            let mut test = |units: &[usize]| {
                tests += 1;
                needed.iter().all(|unit| units.contains(unit))
            };
            assert_eq!(minimise((0..1000).collect(), &mut test), needed);
            assert!(tests < 1000, "{tests} tests for {} units", needed.len());
        }
    }

    #[test]
    fn no_unit_stays_if_none_is_needed() {
        assert_eq!(minimise(vec![1, 2, 3], &mut |_| true), Vec::<i32>::new());
        assert_eq!(minimise(Vec::<i32>::new(), &mut |_| false), Vec::<i32>::new());
    }

    #[test]
    fn a_test_that_depends_on_pairs_still_ends() {
        // Passes only if both units of a pair are there, or neither.
        let mut test = |units: &[usize]| {
            units.contains(&50) && (0..100).step_by(2).all(|n| units.contains(&n) == units.contains(&(n + 1)))
        };
        let left = minimise((0..100).collect(), &mut test);
        assert!(left.contains(&50) && left.contains(&51), "{left:?}");
    }
}
