//! Groups functions by their calls, so that functions which run together lie together.
//!
//! A processor fetches code in cache lines and keeps the addresses of few pages at hand. If a hot function
//! and the functions that it calls lie in ten pages, the program waits for ten pages; side by side, they fit
//! into one. This is call-chain clustering, known as C³ or hfsort (Ottoni and Maher, "Optimizing Function
//! Placement for Large-Scale Data-Center Applications", CGO 2017).
//!
//! The *density* of a function is its number of calls for each byte. The algorithm goes through functions
//! from the densest on. It appends the cluster of each one to the cluster of the function that calls it most.
//! There are three exceptions: that caller has too small a share of the calls, the cluster would not fit into
//! a large page, or the caller's cluster would lose too much density. In the end, it sorts the clusters by
//! density.

/// The largest size of a cluster, in bytes. It fits into one large page and its TLB entry.
const MAX_SIZE: u64 = 1 << 20;
/// A function joins its main caller only if that caller makes more than one in so many of its calls.
const MIN_SHARE: u64 = 10;
/// A cluster may become at most so many times less dense when another one is appended.
const MAX_LOSS: f64 = 8.0;

/// Calls between two functions, by rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Edge {
    /// The caller.
    pub from: u32,
    /// The called function.
    pub to: u32,
    /// Number of calls.
    pub weight: u64,
}

struct Cluster {
    members: Vec<u32>,
    size: u64,
    weight: u64,
}

impl Cluster {
    /// Calls for each byte.
    fn density(&self) -> f64 {
        self.weight as f64 / self.size.max(1) as f64
    }
}

/// The order of functions with these sizes in bytes, as rows. Clusters of equal density stay in the order of
/// their rows.
pub fn order(sizes: &[u64], mut edges: Vec<Edge>) -> Vec<u32> {
    join(&mut edges);
    let mut clusters: Vec<Cluster> = sizes
        .iter()
        .enumerate()
        .map(|(row, &size)| Cluster { members: vec![row as u32], size, weight: 0 })
        .collect();
    let mut callers: Vec<Option<Edge>> = vec![None; sizes.len()];
    for edge in edges {
        let cluster = &mut clusters[edge.to as usize];
        cluster.weight = cluster.weight.saturating_add(edge.weight);
        let caller = &mut callers[edge.to as usize];
        if edge.from != edge.to && caller.is_none_or(|known| known.weight < edge.weight) {
            *caller = Some(edge);
        }
    }
    let calls: Vec<u64> = clusters.iter().map(|cluster| cluster.weight).collect();
    let mut hottest: Vec<u32> = (0..sizes.len() as u32).collect();
    let by_heat = |clusters: &[Cluster], rows: &mut [u32]| {
        rows.sort_by(|&a, &b| clusters[b as usize].density().total_cmp(&clusters[a as usize].density()));
    };
    by_heat(&clusters, &mut hottest);
    let mut leaders: Vec<u32> = (0..sizes.len() as u32).collect();
    for &row in &hottest {
        let Some(edge) = callers[row as usize] else { continue };
        if edge.weight.saturating_mul(MIN_SHARE) <= calls[row as usize] {
            continue;
        }
        let (into, from) = (leader(&mut leaders, edge.from), leader(&mut leaders, row));
        if into != from && is_worth_it(&clusters[into as usize], &clusters[from as usize]) {
            leaders[from as usize] = into;
            let taken = &mut clusters[from as usize];
            let (members, size, weight) = (std::mem::take(&mut taken.members), taken.size, taken.weight);
            let cluster = &mut clusters[into as usize];
            cluster.members.extend(members);
            cluster.size = cluster.size.saturating_add(size);
            cluster.weight = cluster.weight.saturating_add(weight);
        }
    }
    let mut left: Vec<u32> = (0..sizes.len() as u32).filter(|&row| leaders[row as usize] == row).collect();
    by_heat(&clusters, &mut left);
    left.into_iter().flat_map(|row| std::mem::take(&mut clusters[row as usize].members)).collect()
}

/// Adds up the edges between the same functions.
fn join(edges: &mut Vec<Edge>) {
    edges.sort_unstable();
    edges.dedup_by(|next, kept| {
        let same = (next.from, next.to) == (kept.from, kept.to);
        if same {
            kept.weight = kept.weight.saturating_add(next.weight);
        }
        same
    });
}

/// The cluster of a function.
fn leader(leaders: &mut [u32], mut row: u32) -> u32 {
    while leaders[row as usize] != row {
        let next = leaders[row as usize];
        leaders[row as usize] = leaders[next as usize];
        row = next;
    }
    row
}

fn is_worth_it(into: &Cluster, from: &Cluster) -> bool {
    let size = into.size.saturating_add(from.size);
    let weight = into.weight.saturating_add(from.weight);
    size <= MAX_SIZE && weight as f64 / size.max(1) as f64 * MAX_LOSS >= into.density()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(list: &[(u32, u32, u64)]) -> Vec<Edge> {
        list.iter().map(|&(from, to, weight)| Edge { from, to, weight }).collect()
    }

    #[test]
    fn a_chain_of_calls_stands_in_the_order_of_the_calls() {
        let chain = edges(&[(0, 3, 100), (3, 1, 50), (1, 2, 10)]);
        assert_eq!(order(&[16; 4], chain), [0, 3, 1, 2]);
    }

    #[test]
    fn edges_between_the_same_functions_add_up() {
        let twice = edges(&[(0, 1, 30), (2, 1, 40), (0, 1, 30)]);
        assert_eq!(order(&[16; 3], twice), [0, 1, 2]);
    }

    #[test]
    fn hotter_clusters_come_first() {
        let two = edges(&[(0, 1, 10), (2, 3, 1000)]);
        assert_eq!(order(&[16; 4], two), [2, 3, 0, 1]);
    }

    #[test]
    fn a_function_with_many_callers_stays_alone() {
        let mut many: Vec<Edge> = (0..20).map(|from| Edge { from, to: 20, weight: 5 }).collect();
        many.push(Edge { from: 20, to: 20, weight: 7 });
        let order = order(&[16; 21], many);
        assert_eq!(order[0], 20);
        assert_eq!(order[1..], (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn clusters_do_not_outgrow_a_large_page() {
        assert_eq!(order(&[MAX_SIZE, 16], edges(&[(0, 1, 100)])), [1, 0]);
    }

    #[test]
    fn cold_code_does_not_dilute_hot_code() {
        // The large function would take more heat from the loop's cluster than is allowed.
        let calls = edges(&[(0, 1, 1000), (1, 2, 11)]);
        assert_eq!(order(&[16, 16, 100_000], calls), [0, 1, 2]);
        let calls = edges(&[(0, 1, 1000), (1, 2, 11), (3, 2, 2), (0, 3, 500)]);
        assert_eq!(order(&[16, 16, 100_000, 16], calls), [0, 1, 3, 2]);
    }

    #[test]
    fn calls_in_a_circle_and_of_itself_end() {
        let circle = edges(&[(0, 1, 5), (1, 0, 5), (0, 0, u64::MAX)]);
        assert_eq!(order(&[0, 0], circle).len(), 2);
    }
}
