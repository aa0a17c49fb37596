//! A cache of unwinding rules.
//!
//! The key is the absolute address, together with the generation of the unwinder's list of modules. So a hit
//! looks at nothing else: no module, no section. A slot is three words. An address may be in either slot of a
//! pair, so two busy addresses with the same hash do not evict each other.

use alloc::vec;
use alloc::vec::Vec;

use crate::abi::Abi;
use crate::packed::{Kind, Packed};
use crate::rules::{Rules, UnwindRules};
use crate::unwind::FrameAddress;

const NO_RULES: UnwindRules = UnwindRules { abi: Abi::Amd64, signal: false, rules: Rules::Outermost };

/// A cache of unwinding rules by address, with `N` slots (rounded up to a power of two, at least 2).
///
/// The caller owns it and may use it for many unwinders (processes). It allocates its memory when it is made:
/// 24 bytes for each slot, and 64 for rules that do not fit a word.
#[derive(Clone, Debug)]
pub struct RuleCache<const N: usize = 512> {
    slots: Vec<Slot>,
    /// For each slot, the rules if they do not fit a word.
    kept: Vec<UnwindRules>,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The generation of the unwinder's modules, plus one. 0 in an empty slot.
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

    /// Makes an empty cache. No other function allocates.
    pub fn new() -> Self {
        let count = Self::COUNT;
        let empty = Slot { owner: 0, pc: 0, rules: Packed::NO_ROW };
        Self { slots: vec![empty; count], kept: vec![NO_RULES; count], hits: 0, misses: 0 }
    }

    /// Forgets all rules. Allocates nothing.
    pub fn clear(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.owner = 0);
    }

    /// Number of hits and of misses. An address outside every module counts as neither.
    pub fn statistics(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    /// The first slot for an address. The second slot of the pair differs in the lowest bit.
    ///
    /// The unwinder learns a frame's address when it reads the word of the stack that holds it, and the step
    /// then waits for this slot. So the hash takes two operations on the address as it is in the stack. The
    /// owner's part is ready before.
    #[inline(always)]
    fn place(owner: u64, address: FrameAddress) -> usize {
        let owner = owner.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let address = address.address();
        (address >> 9 ^ (address ^ owner)) as usize & (Self::COUNT - 1)
    }

    /// The rules of an address. [`RuleCache::kept`] finds those of [`Kind::Kept`].
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

    /// The rules that do not fit a word, by the place that their word holds.
    pub(crate) fn kept(&self, place: usize) -> Option<&UnwindRules> {
        self.kept.get(place)
    }

    /// Puts rules into the first slot of the pair, and moves the rules that were there to the second. `kept`
    /// are the full rules if they do not fit a word. Returns the word that the cache now holds; a place in it
    /// is a place in this cache.
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
