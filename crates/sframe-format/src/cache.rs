//! A cache of unwinding rules.
//!
//! The key is the absolute address and the generation of the unwinder's list of modules, so that a hit looks
//! at nothing else: no module, no section. A slot is three words. An address may stand in either slot of a
//! pair, so that two busy addresses with the same hash do not evict each other.

use alloc::vec;
use alloc::vec::Vec;

use crate::abi::Abi;
use crate::packed::{Kind, Packed};
use crate::rules::{Rules, UnwindRules};
use crate::unwind::FrameAddress;

const NO_RULES: UnwindRules = UnwindRules { abi: Abi::Amd64, signal: false, rules: Rules::Outermost };

/// A cache of unwinding rules by address, of `N` slots (rounded up to a power of two, at least 2). It belongs
/// to the caller, who may use one for many unwinders (processes). Its memory is allocated when it is made:
/// for each slot 24 bytes, and 64 for rules that do not fit a word.
#[derive(Clone, Debug)]
pub struct RuleCache<const N: usize = 512> {
    slots: Vec<Slot>,
    /// For each slot, the rules that do not fit a word.
    kept: Vec<UnwindRules>,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The generation of the unwinder's modules plus one; 0 in an empty slot.
    owner: u64,
    pc: u64,
    rules: Packed,
}

impl<const N: usize> Default for RuleCache<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> RuleCache<N> {
    const COUNT: usize = {
        let wanted = if N < 2 { 2 } else { N };
        wanted.next_power_of_two()
    };

    /// An empty cache. Nothing else allocates.
    pub fn new() -> Self {
        let count = Self::COUNT;
        let empty = Slot { owner: 0, pc: 0, rules: Packed::NO_ROW };
        Self { slots: vec![empty; count], kept: vec![NO_RULES; count], hits: 0, misses: 0 }
    }

    /// Forgets all rules. Allocates nothing.
    pub fn clear(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.owner = 0);
    }

    /// Number of hits and of misses. An address outside of every module counts as neither.
    pub fn statistics(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    /// The first slot for an address. The second slot of the pair differs in the lowest bit.
    ///
    /// A frame's address is known when the word of the stack that holds it is read, and the step waits for
    /// this place, so the hash is two operations on the address as it stands there; the owner's part is ready
    /// before.
    #[inline(always)]
    fn place(owner: u64, address: FrameAddress) -> usize {
        let owner = owner.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let address = address.address();
        (address >> 9 ^ (address ^ owner)) as usize & (Self::COUNT - 1)
    }

    /// The rules of an address. Rules of [`Kind::Kept`] are found by [`RuleCache::kept`].
    #[inline(always)]
    pub(crate) fn find(&self, owner: u64, address: FrameAddress) -> Option<Packed> {
        let place = Self::place(owner, address);
        let pc = address.lookup_address();
        for place in [place, place ^ 1] {
            let slot = self.slots.get(place)?;
            if slot.pc == pc && slot.owner == owner.wrapping_add(1) {
                return Some(slot.rules);
            }
        }
        None
    }

    /// The rules that do not fit a word, by the place in their word.
    pub(crate) fn kept(&self, place: usize) -> Option<&UnwindRules> {
        self.kept.get(place)
    }

    /// Keeps rules in the first slot of the pair; what was there moves to the second. `kept` are the rules in
    /// full if they do not fit a word. Returns the word that the cache now holds: its place is one of this
    /// cache.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        owner: u64,
        address: FrameAddress,
        rules: Packed,
        kept: &UnwindRules,
    ) -> Packed {
        let place = Self::place(owner, address);
        let other = place ^ 1;
        let Some(&(mut old)) = self.slots.get(place) else { return rules };
        if let Kind::Kept(_) = old.rules.kind() {
            old.rules = Packed::kept(other).by(old.rules.source());
            self.kept[other] = self.kept[place];
        }
        self.slots[other] = old;
        let rules = match rules.kind() {
            Kind::Kept(_) => {
                self.kept[place] = *kept;
                Packed::kept(place).by(rules.source())
            }
            _ => rules,
        };
        self.slots[place] = Slot { owner: owner.wrapping_add(1), pc: address.lookup_address(), rules };
        rules
    }
}
