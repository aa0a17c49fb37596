//! The sections that `--icf` folded, and their leaders.

use crate::ids::SectionId;

/// For each folded section, its *leader*: the equal section that stays in the output. A folded section counts
/// as absorbed ([`super::SectionState::ABSORBED`]): an offset in it is the same offset in its leader.
#[derive(Default)]
pub struct Folds {
    /// By [`SectionId`]; [`SectionId::NONE`] for sections that are not folded. Empty if no section is folded.
    leaders: Vec<SectionId>,
}

impl Folds {
    /// Makes the table of pairs (folded section, leader). `sections` is the number of input sections.
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

    /// The leader of a folded section; `None` if the section is not folded.
    #[inline]
    pub fn leader(&self, id: SectionId) -> Option<SectionId> {
        self.leaders.get(id.index()).copied().filter(|leader| leader.is_some())
    }

    /// The section whose bytes stand in the output for a section: its leader if it is folded, otherwise
    /// itself.
    #[inline]
    pub fn standing(&self, id: SectionId) -> SectionId {
        self.leader(id).unwrap_or(id)
    }

    /// All pairs (leader, folded section), sorted.
    pub fn pairs(&self) -> Vec<(SectionId, SectionId)> {
        let ids = (0..self.leaders.len() as u32).map(SectionId);
        let mut pairs: Vec<_> = ids.filter_map(|id| Some((self.leader(id)?, id))).collect();
        pairs.sort_unstable();
        pairs
    }
}
