//! Sections that an equal one stands for (`--icf`).

use crate::ids::SectionId;

/// For each section that is folded, the one that stands for it: its *leader*. A folded section counts as
/// absorbed ([`super::SectionState::ABSORBED`]): an offset in it is the same offset in its leader.
#[derive(Default)]
pub struct Folds {
    /// By section; empty if nothing is folded.
    leaders: Vec<SectionId>,
}

impl Folds {
    /// From pairs of a folded section and its leader, in a link with so many sections.
    pub fn new(sections: usize, pairs: &[(SectionId, SectionId)]) -> Self {
        if pairs.is_empty() {
            return Folds::default();
        }
        let mut leaders = vec![SectionId::NONE; sections];
        for &(folded, leader) in pairs {
            leaders[folded.index()] = leader;
        }
        Folds { leaders }
    }

    /// The section that stands for a folded one; `None` for one that stands for itself.
    #[inline]
    pub fn leader(&self, id: SectionId) -> Option<SectionId> {
        self.leaders.get(id.index()).copied().filter(|leader| leader.is_some())
    }

    /// The section whose bytes are in the output for a section: its leader, or itself.
    #[inline]
    pub fn standing(&self, id: SectionId) -> SectionId {
        self.leader(id).unwrap_or(id)
    }

    /// Pairs of a leader and a section that it stands for, in this order.
    pub fn pairs(&self) -> Vec<(SectionId, SectionId)> {
        let ids = (0..self.leaders.len() as u32).map(SectionId);
        let mut pairs: Vec<_> = ids.filter_map(|id| Some((self.leader(id)?, id))).collect();
        pairs.sort_unstable();
        pairs
    }
}
