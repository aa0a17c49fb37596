//! Orders things so that those which belong together lie together: balanced partitioning of a graph by
//! recursive bisection.
//!
//! Some things share *reasons* to be neighbours: functions that the same part of a start-up calls, sections
//! with the same bytes. The graph has two kinds of vertices, things and reasons, and an edge says that a
//! thing has a reason. The best order is the one in which the things of each reason lie close together:
//!
//! ```text
//! things     0   1   2   3          cut in halves, then swap pairs
//!            |\ /|   |\ /|          as long as that lets the edges
//! reasons    a   b   c   d          of a reason end in one half
//! ```
//!
//! To find it is NP-hard. The algorithm (Dhulipala et al., "Compressing Graphs and Indexes with Recursive
//! Graph Bisection", KDD 2016; for functions Hoag et al., "Optimizing Function Layout for Mobile
//! Applications", LCTES 2023) cuts the things into two halves of equal number. A reason with `l` edges into
//! one half and `r` into the other one costs `-(l log(l + 1) + r log(r + 1))`: least if one half has all of
//! them. Round by round, the things of both halves that gain most by a move change places. Then each half is
//! cut in the same way, down to single things.
//!
//! Gains change with each move: two things of one family both want to go where the other one is, and nothing
//! is better afterwards. So a pair really changes places only if the sum of all costs falls, which also makes
//! the rounds end. Halves are independent of each other, and so two threads may take them. All sums are of
//! integers: neither threads nor a machine's logarithm change the order.

use parallel::{IntoParallel, join};
use std::cmp::Reverse;

/// The most rounds of swaps for one cut.
const MAX_ROUNDS: usize = 40;
/// With so many things of the right half a thing of the left one tries to change places in a round.
const PARTNERS: usize = 4;
/// A part of so many things or edges is cut by one thread.
const FEW: usize = 1024;
/// Fractional bits of logarithms.
const FRACTION: u32 = 16;

/// The order of things, as their rows. `reasons` lists the reasons of each thing, by numbers without gaps.
/// The order in which the things come decides where nothing else does.
pub fn order(reasons: &[Vec<u32>]) -> Vec<u32> {
    let mut starts = Vec::with_capacity(reasons.len() + 1);
    starts.push(0);
    let mut edges: Vec<u32> = Vec::with_capacity(reasons.iter().map(Vec::len).sum());
    for of_thing in reasons {
        let first = edges.len();
        edges.extend(of_thing);
        edges[first..].sort_unstable();
        let kept = first + dedup(&mut edges[first..]);
        edges.truncate(kept);
        starts.push(kept);
    }
    let part = Part { things: (0..reasons.len() as u32).collect(), starts, edges }.without_useless();
    let most = part.things.len();
    let weights: Vec<i64> = (0..=most as u64).map(|count| count as i64 * log2(count + 1)).collect();
    let mut order = vec![0; most];
    cut(part, &weights, &mut order);
    order
}

/// Moves the different ones of sorted numbers to the front, and returns how many there are.
fn dedup(numbers: &mut [u32]) -> usize {
    let mut kept = 0;
    for at in 0..numbers.len() {
        if at == 0 || numbers[at] != numbers[kept - 1] {
            numbers[kept] = numbers[at];
            kept += 1;
        }
    }
    kept
}

/// The binary logarithm of a number above 0, with [`FRACTION`] bits behind the point.
fn log2(number: u64) -> i64 {
    let whole = number.ilog2();
    // The number between 1 and 2, with 31 bits behind the point. Its square shows the next bit.
    let mut rest = (u128::from(number) << 31 >> whole) as u64;
    let mut bits = i64::from(whole);
    for _ in 0..FRACTION {
        rest = (rest * rest) >> 31;
        bits <<= 1;
        if rest >> 32 != 0 {
            rest >>= 1;
            bits |= 1;
        }
    }
    bits
}

/// A part of the graph: things in their order so far, and their edges to reasons.
struct Part {
    /// Rows of things.
    things: Vec<u32>,
    /// Where the edges of each thing begin, and the end of the last one's.
    starts: Vec<usize>,
    /// Rows of reasons, numbered anew in each part.
    edges: Vec<u32>,
}

impl Part {
    fn reasons_of(&self, thing: usize) -> &[u32] {
        &self.edges[self.starts[thing]..self.starts[thing + 1]]
    }

    /// The same without the reasons that no order serves better than another one: those of a single thing,
    /// and those of all things.
    fn without_useless(self) -> Part {
        let all = self.things.len() as u32;
        let bound = self.edges.iter().max().map_or(0, |&largest| largest as usize + 1);
        let mut degrees = vec![0u32; bound];
        self.edges.iter().for_each(|&reason| degrees[reason as usize] += 1);
        let mut next = 0;
        for degree in &mut degrees {
            let useful = *degree > 1 && *degree < all;
            *degree = if useful { next } else { u32::MAX };
            next += u32::from(useful);
        }
        let renumbered = |&reason: &u32| Some(degrees[reason as usize]).filter(|&number| number != u32::MAX);
        let mut starts = vec![0];
        let mut edges = Vec::new();
        for thing in 0..self.things.len() {
            edges.extend(self.reasons_of(thing).iter().filter_map(renumbered));
            starts.push(edges.len());
        }
        Part { things: self.things, starts, edges }
    }

    /// The things for which `of` holds.
    fn half(&self, of: impl Fn(usize) -> bool) -> Part {
        let mut half = Part { things: Vec::new(), starts: vec![0], edges: Vec::new() };
        for thing in (0..self.things.len()).filter(|&thing| of(thing)) {
            half.things.push(self.things[thing]);
            half.edges.extend(self.reasons_of(thing));
            half.starts.push(half.edges.len());
        }
        half.without_useless()
    }
}

/// Writes the things of a part into `order`.
fn cut(part: Part, weights: &[i64], order: &mut [u32]) {
    if part.edges.is_empty() || part.things.len() < 3 {
        order.copy_from_slice(&part.things);
        return;
    }
    let right = split(&part, weights);
    let (first, second) = (part.half(|thing| !right[thing]), part.half(|thing| right[thing]));
    let many = part.things.len() + part.edges.len() > FEW;
    drop((part, right));
    let (front, back) = order.split_at_mut(first.things.len());
    let halves = (|| cut(first, weights, front), || cut(second, weights, back));
    if many {
        join(halves.0, halves.1);
    } else {
        halves.0();
        halves.1();
    }
}

/// Decides which things of a part go to the right.
fn split(part: &Part, weights: &[i64]) -> Vec<bool> {
    let count = part.things.len();
    let mut right: Vec<bool> = (0..count).map(|thing| thing >= count.div_ceil(2)).collect();
    let mut ends = Ends::new(part, &right);
    for _ in 0..MAX_ROUNDS {
        if !swap_pairs(part, weights, &mut right, &mut ends) {
            break;
        }
    }
    // Both orders of the halves cost the same. The one whose things came first, on average, stays in front.
    let mut sums = [(0u64, 0u64); 2];
    for (thing, &side) in right.iter().enumerate() {
        let (places, things) = &mut sums[usize::from(side)];
        (*places, *things) = (*places + thing as u64, *things + 1);
    }
    let [(left, lefts), (back, rights)] =
        sums.map(|(places, things)| (u128::from(places), u128::from(things)));
    if left * rights > back * lefts {
        right.iter_mut().for_each(|side| *side = !*side);
    }
    right
}

/// How many edges each reason has into the left and into the right half.
struct Ends(Vec<[u32; 2]>);

impl Ends {
    fn new(part: &Part, right: &[bool]) -> Ends {
        let bound = part.edges.iter().max().map_or(0, |&largest| largest as usize + 1);
        let mut ends = vec![[0; 2]; bound];
        for (thing, &side) in right.iter().enumerate() {
            for &reason in part.reasons_of(thing) {
                ends[reason as usize][usize::from(side)] += 1;
            }
        }
        Ends(ends)
    }

    /// Moves a thing to the other half. Returns what that gains.
    fn pass(&mut self, part: &Part, weights: &[i64], thing: usize, right: &mut [bool]) -> i64 {
        let side = usize::from(right[thing]);
        right[thing] = !right[thing];
        let weight = |count: u32| weights[count as usize];
        let mut gain = 0;
        for &reason in part.reasons_of(thing) {
            let ends = &mut self.0[reason as usize];
            gain -= weight(ends[0]) + weight(ends[1]);
            ends[side] -= 1;
            ends[1 - side] += 1;
            gain += weight(ends[0]) + weight(ends[1]);
        }
        gain
    }

    /// What all reasons gain if something with an edge to them leaves the left half, or the right one.
    fn gains(&self, weights: &[i64]) -> Vec<[i64; 2]> {
        let moved = |from: u32, to: u32| match from.checked_sub(1) {
            Some(fewer) => {
                weights[fewer as usize] + weights[to as usize + 1]
                    - weights[from as usize]
                    - weights[to as usize]
            }
            None => 0,
        };
        self.0.iter().map(|&[left, right]| [moved(left, right), moved(right, left)]).collect()
    }
}

/// The things of the left and of the right half that may change places, those that gain most first.
struct Movers {
    /// What the move of each thing of the part gains.
    gains: Vec<i64>,
    left: Vec<usize>,
    right: Vec<usize>,
}

impl Movers {
    fn new(part: &Part, weights: &[i64], right: &[bool], ends: &Ends) -> Movers {
        let of_reasons = ends.gains(weights);
        let gain = |thing: usize| -> i64 {
            let side = usize::from(right[thing]);
            part.reasons_of(thing).iter().map(|&reason| of_reasons[reason as usize][side]).sum()
        };
        let gains: Vec<i64> = (0..right.len()).into_par_iter().with_min_len(FEW).map(gain).collect();
        let best = |side: bool| {
            let of_side = gains.iter().zip(right).filter(|(_, other)| **other == side);
            of_side.map(|(gain, _)| *gain).max().unwrap_or_default()
        };
        // A thing whose move is worth nothing even with the best partner needs no place in the sorted lists.
        let movers = |side: bool, partner: i64| {
            let worth = |&thing: &usize| right[thing] == side && gains[thing] + partner > 0;
            let mut movers: Vec<usize> = (0..gains.len()).filter(worth).collect();
            movers.sort_unstable_by_key(|&thing| (Reverse(gains[thing]), thing));
            movers
        };
        let (left, right) = (movers(false, best(true)), movers(true, best(false)));
        Movers { gains, left, right }
    }
}

/// Lets pairs of things change places if that makes the cut better. Returns whether any did.
fn swap_pairs(part: &Part, weights: &[i64], right: &mut [bool], ends: &mut Ends) -> bool {
    let Movers { gains, left: from_left, right: mut from_right } = Movers::new(part, weights, right, ends);
    let mut next = 0;
    for one in from_left {
        if from_right.get(next).is_none_or(|&other| gains[one] + gains[other] <= 0) {
            break;
        }
        let gain = ends.pass(part, weights, one, right);
        let tried = next..from_right.len().min(next + PARTNERS);
        let partner = tried.into_iter().find(|&at| {
            let gain = gain + ends.pass(part, weights, from_right[at], right);
            if gain <= 0 {
                ends.pass(part, weights, from_right[at], right);
            }
            gain > 0
        });
        match partner {
            Some(at) => {
                from_right[next..=at].rotate_right(1);
                next += 1;
            }
            None => {
                ends.pass(part, weights, one, right);
            }
        }
    }
    next > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum over all reasons of the distance between their first and their last thing.
    fn spread(reasons: &[Vec<u32>], order: &[u32]) -> usize {
        let mut ends = std::collections::BTreeMap::new();
        for (place, &thing) in order.iter().enumerate() {
            for &reason in &reasons[thing as usize] {
                ends.entry(reason).or_insert((place, place)).1 = place;
            }
        }
        ends.values().map(|(first, last)| last - first).sum()
    }

    /// Things of several families, mixed: thing `i` has the reasons of family `i % families`.
    fn families(count: u32, families: u32, shared: u32) -> Vec<Vec<u32>> {
        (0..count)
            .map(|thing| (0..shared).map(|reason| thing % families * shared + reason).collect())
            .collect()
    }

    #[test]
    fn two_mixed_families_part() {
        let order = order(&families(8, 2, 3));
        assert_eq!(order, [0, 2, 4, 6, 1, 3, 5, 7]);
    }

    #[test]
    fn many_mixed_families_part() {
        let graph = families(64, 8, 2);
        let order = order(&graph);
        // Each of the 16 reasons has 8 things, which cannot lie closer than in 8 places.
        assert_eq!(spread(&graph, &order), 16 * 7);
    }

    #[test]
    fn overlapping_families_become_a_line() {
        // Things on a line share a reason with those up to 8 places away. The rows are mixed by a step of 13.
        let place = |thing: u32| thing * 13 % 64;
        let line: Vec<Vec<u32>> =
            (0..64).map(|thing| (0..8).map(|reason| place(thing) / 2 + reason).collect()).collect();
        let before: Vec<u32> = (0..64).collect();
        let mut best = before.clone();
        best.sort_unstable_by_key(|&thing| place(thing));
        let order = order(&line);
        let [before, after, best] = [&before, &order, &best].map(|order| spread(&line, order));
        assert!(after * 2 < before && after < best * 5 / 2, "{before} {after} {best}");
    }

    #[test]
    fn without_reasons_the_order_stays() {
        assert_eq!(order(&vec![Vec::new(); 5]), [0, 1, 2, 3, 4]);
        // Reasons of all things and of one thing are none.
        assert_eq!(order(&[vec![0, 1], vec![0], vec![0], vec![0, 0]]), [0, 1, 2, 3]);
        assert_eq!(order(&[]), [0u32; 0]);
        assert_eq!(order(&[vec![7]]), [0]);
    }

    #[test]
    fn every_thing_has_one_place_at_any_number_of_threads() {
        let mix = |number: u32| (u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32;
        let graph: Vec<Vec<u32>> =
            (0..3000).map(|thing| (0..12).map(|edge| mix(thing * 12 + edge) % 900).collect()).collect();
        let with = |threads: usize| {
            let pool = rayon_core::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| order(&graph))
        };
        let alone = with(1);
        assert_eq!(alone, with(4));
        let mut sorted = alone;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..3000).collect::<Vec<_>>());
    }

    #[test]
    fn logarithms_are_exact_where_they_are_whole() {
        for power in 0..40 {
            assert_eq!(log2(1 << power), i64::from(power) << FRACTION);
        }
        assert_eq!(log2(3), (3f64.log2() * 65536.0).floor() as i64);
        assert_eq!(log2(1_000_003), (1_000_003f64.log2() * 65536.0).floor() as i64);
    }
}
