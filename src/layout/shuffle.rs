//! `--shuffle-sections`: puts the input sections in another order before scripts sort them. This finds code
//! that relies on the order, and shows how much speed depends on it.

use crate::arch::Target;
use crate::cli::{Shuffle, ShuffleOrder};
use crate::ids::SectionId;
use crate::phase::Contents;
use crate::script::glob::Glob;

/// The input order, or a permutation of it by `--shuffle-sections`.
#[derive(Default)]
pub struct InputOrder {
    /// For each input section, its rank in the shuffled order. Empty without `--shuffle-sections`.
    ranks: Vec<u32>,
}

impl InputOrder {
    /// The order that options ask for. Relocatable output keeps the input order, and the final link shuffles.
    pub fn new<T: Target>(link: &Contents<'_, T>) -> Self {
        let shuffles = &link.config.layout.shuffles;
        if shuffles.is_empty() || link.config.is_relocatable() {
            return InputOrder::default();
        }
        let count = link.first_internal();
        let mut order: Vec<u32> = (0..count).collect();
        for shuffle in shuffles {
            let pattern = Glob::new(&shuffle.pattern);
            let matches = |id: u32| {
                let name = link.section_info(SectionId(id)).name;
                !is_one_function(name) && pattern.matches(name)
            };
            permute(shuffle, &mut order, &matches);
        }
        let mut ranks = vec![0; order.len()];
        for (rank, &id) in (0..).zip(&order) {
            ranks[id as usize] = rank;
        }
        InputOrder { ranks }
    }

    /// Whether this order differs from the order of the inputs.
    pub fn is_shuffled(&self) -> bool {
        !self.ranks.is_empty()
    }

    /// The rank of an input section. If nothing is shuffled, it is the section's id.
    pub fn rank(&self, id: u32) -> u32 {
        self.ranks.get(id as usize).copied().unwrap_or(id)
    }
}

/// Whether the sections of a name make up one function, which begins in `crti.o` and ends in `crtn.o`.
pub(super) fn is_one_function(name: &[u8]) -> bool {
    matches!(name, b".init" | b".fini")
}

/// Lets sections that match change places among themselves. Others stay where they are.
fn permute(shuffle: &Shuffle, order: &mut [u32], matches: &dyn Fn(u32) -> bool) {
    let places: Vec<usize> = (0..order.len()).filter(|&place| matches(order[place])).collect();
    let mut matched: Vec<u32> = places.iter().map(|&place| order[place]).collect();
    match shuffle.order {
        ShuffleOrder::Reverse => matched.reverse(),
        ShuffleOrder::Seed(seed) => scramble(&mut matched, seed),
    }
    for (place, id) in places.into_iter().zip(matched) {
        order[place] = id;
    }
}

/// Fisher and Yates's shuffle.
fn scramble(items: &mut [u32], seed: u64) {
    let mut state = seed;
    for last in (1..items.len()).rev() {
        let range = last as u128 + 1;
        items.swap(last, ((u128::from(next(&mut state)) * range) >> 64) as usize);
    }
}

/// The next number of SplitMix64 (Steele, Lea and Flood 2014). With it, a seed gives the same order on every
/// machine and in every version. Generators of libraries do not promise that.
pub(super) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generator_gives_the_published_numbers() {
        let mut state = 1_234_567;
        assert_eq!(next(&mut state), 6_457_827_717_110_365_317);
        assert_eq!(next(&mut state), 3_203_168_211_198_807_973);
    }

    #[test]
    fn shuffled_sections_keep_to_the_places_of_matching_ones() {
        let shuffle = |order| Shuffle { pattern: Vec::new(), order };
        let even = |id: u32| id.is_multiple_of(2);
        let mut order: Vec<u32> = (0..7).collect();
        permute(&shuffle(ShuffleOrder::Reverse), &mut order, &even);
        assert_eq!(order, [6, 1, 4, 3, 2, 5, 0]);
        for seed in [0, 1, u64::MAX] {
            let mut order: Vec<u32> = (0..1000).collect();
            permute(&shuffle(ShuffleOrder::Seed(seed)), &mut order, &even);
            assert!((1..1000).step_by(2).all(|id| order[id as usize] == id));
            assert!(!order.is_sorted());
            order.sort_unstable();
            assert_eq!(order, (0..1000).collect::<Vec<_>>());
        }
    }
}
