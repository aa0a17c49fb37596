//! What rows refer to.

use parallel::ParallelSlice;
use std::ops::Range;

/// The targets of each row that is not alone in its class.
pub(super) struct Targets {
    /// By row, where its targets end. They start where those of the row before end.
    ends: Vec<u32>,
    all: Vec<u32>,
}

impl Targets {
    pub(super) fn new(
        count: usize,
        members: &[u32],
        open: &[Range<u32>],
        targets_of: &(dyn Fn(u32, &mut Vec<u32>) + Sync),
    ) -> Self {
        let mut wanted = vec![false; count];
        for range in open {
            for &row in &members[range.start as usize..range.end as usize] {
                wanted[row as usize] = true;
            }
        }
        let shares: Vec<(Vec<u32>, Vec<u32>)> = wanted
            .par_chunks(4096)
            .enumerate()
            .map(|(number, share)| {
                let (mut counts, mut all) = (Vec::with_capacity(share.len()), Vec::new());
                for (row, &wanted) in (number as u32 * 4096..).zip(share) {
                    let before = all.len();
                    if wanted {
                        targets_of(row, &mut all);
                    }
                    counts.push((all.len() - before) as u32);
                }
                (counts, all)
            })
            .collect();
        let mut targets = Targets { ends: Vec::with_capacity(count), all: Vec::new() };
        let mut end = 0;
        for (counts, all) in shares {
            targets.ends.extend(counts.into_iter().map(|count| {
                end += count;
                end
            }));
            targets.all.extend(all);
        }
        targets
    }

    pub(super) fn of(&self, row: u32) -> &[u32] {
        let start = (row as usize).checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[start as usize..self.ends[row as usize] as usize]
    }

    pub(super) fn classes<'t>(
        &'t self,
        row: u32,
        class_of: &'t [u32],
    ) -> impl Iterator<Item = u32> + use<'t> {
        self.of(row).iter().map(|&target| class_of[target as usize])
    }
}
