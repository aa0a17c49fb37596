//! Delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input").

/// Finds a subset that passes a test and from which no single unit can be left out, by leaving out ever
/// smaller parts. The test must pass for all units together. The order of units stays.
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

/// One part alone, or everything but one part, with the number of parts for the next round.
fn smaller<T: Clone>(
    units: &[T],
    parts: usize,
    test: &mut dyn FnMut(&[T]) -> bool,
) -> Option<(Vec<T>, usize)> {
    let size = units.len().div_ceil(parts);
    let bounds: Vec<(usize, usize)> =
        (0..units.len()).step_by(size).map(|start| (start, (start + size).min(units.len()))).collect();
    // Except at the beginning, one part is rarely enough.
    if parts <= 4 {
        for &(start, end) in &bounds {
            if test(&units[start..end]) {
                return Some((units[start..end].to_vec(), 2));
            }
        }
    }
    // All parts that can be left out are, in one round.
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
        // Either both of a pair or neither.
        let mut test = |units: &[usize]| {
            units.contains(&50) && (0..100).step_by(2).all(|n| units.contains(&n) == units.contains(&(n + 1)))
        };
        let left = minimise((0..100).collect(), &mut test);
        assert!(left.contains(&50) && left.contains(&51), "{left:?}");
    }
}
