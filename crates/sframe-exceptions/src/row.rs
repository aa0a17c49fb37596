//! What holds at an address, ready for a step: the same from a table, from an FDE, and from the kernel's
//! signal frames.

use core::mem::{MaybeUninit, transmute};
use core::slice;

use sframe_format::Abi;
use sframe_format::cfi::Saved;
use sframe_format::compact::WholeMatch;

use crate::registers::{REGISTERS, STACK_POINTER, place};

/// The most registers of a row that are in memory near the CFA, and the most others.
pub const MOST_LOADS: usize = 20;
const MOST_PAIRS: usize = MOST_LOADS / 2;
const MOST_OTHERS: usize = 36;

/// Where the value of a register is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum How {
    /// In memory, at the CFA and the rule's value.
    #[default]
    AtCfa,
    /// It is the CFA and the rule's value.
    CfaPlus,
    /// In the register at the place that is the rule's value.
    In,
    /// In memory, at an address that an expression computes.
    AtExpression,
    /// An expression computes it.
    IsExpression,
}

/// How a register comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// An offset, the place of a register, or where the expression is, from [`Row::origin`].
    pub value: i32,
    /// Bytes of the expression.
    pub length: u16,
    /// The place of the register.
    pub place: u8,
    /// Where its value is.
    pub how: How,
}

/// A rule in half the room, of a register that is in memory near the CFA: the place in the low 8 bits, the
/// offset in the others. The place is one of [`Registers`](crate::registers::Registers), which steps rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Load(u32);

impl Load {
    fn new(rule: Rule) -> Option<Self> {
        let offset = rule.value << 8;
        let fits = rule.how == How::AtCfa && offset >> 8 == rule.value && usize::from(rule.place) < REGISTERS;
        fits.then_some(Self(offset as u32 | u32::from(rule.place)))
    }

    /// The place of the register.
    #[inline]
    pub fn place(self) -> usize {
        self.0 as usize & 0xff
    }

    /// Bytes from the CFA to its value.
    #[inline]
    pub fn offset(self) -> i64 {
        i64::from(self.0 as i32 >> 8)
    }
}

/// Two loads in a word, as a cache keeps them. Behind an odd number of loads the last one stands twice: to
/// load a register again changes nothing, and takes less time than to ask whether it is the last.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Pair(u64);

impl Pair {
    fn new(first: Load, second: Load) -> Self {
        Self(u64::from(first.0) | u64::from(second.0) << 32)
    }

    /// A pair from a word.
    ///
    /// # Safety
    /// It was a pair.
    #[inline]
    pub unsafe fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The word.
    pub fn word(self) -> u64 {
        self.0
    }

    /// The loads.
    #[inline]
    pub fn loads(self) -> [Load; 2] {
        [Load(self.0 as u32), Load((self.0 >> 32) as u32)]
    }
}

/// What every step needs, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Head {
    cfa_offset: i32,
    cfa_place: u8,
    return_address: u8,
    /// How many pairs of loads there are, at most [`MOST_PAIRS`].
    pairs: u8,
    flags: u8,
}

impl Head {
    /// The word.
    pub fn word(self) -> u64 {
        // SAFETY: it has no padding.
        unsafe { transmute::<Self, u64>(self) }
    }

    /// A head from a word.
    ///
    /// # Safety
    /// It was a head.
    #[inline]
    pub unsafe fn from_word(word: u64) -> Self {
        // SAFETY: all members are integers.
        unsafe { transmute::<u64, Self>(word) }
    }

    /// How many pairs of loads there are.
    #[inline]
    pub fn pairs(self) -> usize {
        self.pairs.into()
    }

    /// How many loads there are.
    fn loads(self) -> usize {
        self.pairs() * 2 - usize::from(self.has(flags::ODD))
    }

    /// The place of the register that the CFA is near, and the bytes from there to the CFA.
    #[inline]
    pub fn near_cfa(self) -> (usize, i64) {
        (self.cfa_place.into(), self.cfa_offset.into())
    }

    /// The place of the return address.
    #[inline]
    pub fn return_address(self) -> usize {
        self.return_address.into()
    }

    /// Whether one of these flags is set.
    #[inline]
    pub fn has(self, flags: u8) -> bool {
        self.flags & flags != 0
    }
}

/// What is known of the answer of a frame's personality routine, whatever flies by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Pad(u32);

impl Pad {
    /// Nothing is known.
    pub const ASK: Self = Self(0);
    /// There is no landing pad.
    pub const NONE: Self = Self(1);

    /// A landing pad that cleans up, so many bytes behind the start of the function. `None`: it is too far.
    pub fn cleans_up(offset: u64) -> Option<Self> {
        let pad = Self(u32::try_from(offset).ok()?);
        (pad != Self::ASK && pad != Self::NONE).then_some(pad)
    }

    /// The word.
    pub fn word(self) -> u32 {
        self.0
    }

    /// What a word says.
    pub fn from_word(word: u32) -> Self {
        Self(word)
    }
}

/// How the CFA comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cfa {
    /// The register at a place, and an offset.
    Register {
        /// The place.
        place: u8,
        /// Bytes from the register to the CFA.
        offset: i64,
    },
    /// An expression computes it.
    Expression(&'static [u8]),
}

/// What holds at an address.
#[derive(Clone)]
pub struct Row {
    /// Address of the function.
    pub function: u64,
    /// Address of the personality routine, or 0.
    pub personality: u64,
    /// Address of the language-specific data, or 0.
    pub data: u64,
    head: Head,
    /// Bytes of arguments that a landing pad removes from the stack.
    pub args_size: u32,
    /// What the personality routine says in any case.
    pub pad: Pad,
    other_count: u8,
    /// Where expressions of rules are near.
    pub origin: u64,
    /// The CFA, if it does not fit the head.
    far_cfa: Option<Cfa>,
    // To fill these with zeros takes longer than to restore the registers of a frame.
    pairs: [MaybeUninit<Pair>; MOST_PAIRS],
    others: [MaybeUninit<Rule>; MOST_OTHERS],
}

/// What holds besides.
pub mod flags {
    /// The caller was interrupted.
    pub const SIGNAL: u8 = 1;
    /// AArch64: the return address is signed.
    pub const SIGNED: u8 = 2;
    /// AArch64: it is signed with key B.
    pub const KEY_B: u8 = 4;
    /// There is no caller.
    pub const OUTERMOST: u8 = 8;
    /// A rule restores the return address.
    pub const HAS_RETURN_ADDRESS: u8 = 16;
    /// A rule restores the stack pointer.
    pub const HAS_STACK_POINTER: u8 = 32;
    /// A step needs more than the head and loads: there are other rules, or the CFA is not near a register.
    pub const FAR: u8 = 64;
    /// The number of loads is odd.
    pub const ODD: u8 = 128;
}

impl Row {
    /// A row without rules.
    #[allow(clippy::new_without_default, reason = "nothing holds by default")]
    pub const fn new() -> Self {
        Self {
            function: 0,
            personality: 0,
            data: 0,
            head: Head { cfa_offset: 0, cfa_place: 0, return_address: 0, pairs: 0, flags: 0 },
            args_size: 0,
            pad: Pad::ASK,
            other_count: 0,
            origin: 0,
            far_cfa: None,
            pairs: [MaybeUninit::uninit(); MOST_PAIRS],
            others: [MaybeUninit::uninit(); MOST_OTHERS],
        }
    }

    /// Starts over, with the place of the return address.
    pub fn clear(&mut self, return_address: u8) {
        (self.function, self.personality, self.data, self.args_size) = (0, 0, 0, 0);
        (self.head, self.other_count, self.pad) = (Head { return_address, ..Head::default() }, 0, Pad::ASK);
    }

    /// What every step needs.
    #[inline]
    pub fn head(&self) -> Head {
        self.head
    }

    /// What holds besides: see [`flags`].
    pub fn flags(&self) -> u8 {
        self.head.flags
    }

    /// Whether a flag is set.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.head.has(flag)
    }

    /// Sets a flag if something holds.
    pub fn set(&mut self, flag: u8, holds: bool) {
        self.head.flags |= if holds { flag } else { 0 };
    }

    /// Says how the CFA comes about.
    pub fn set_cfa(&mut self, cfa: Cfa) {
        self.far_cfa = None;
        match cfa {
            Cfa::Register { place, offset } if i32::try_from(offset).is_ok() => {
                (self.head.cfa_place, self.head.cfa_offset) = (place, offset as i32);
            }
            _ => {
                self.far_cfa = Some(cfa);
                self.set(flags::FAR, true);
            }
        }
    }

    /// How the CFA comes about.
    pub fn cfa(&self) -> Cfa {
        let (place, offset) = (self.head.cfa_place, self.head.cfa_offset.into());
        self.far_cfa.filter(|_| self.has(flags::FAR)).unwrap_or(Cfa::Register { place, offset })
    }

    /// The registers that are in memory near the CFA, most often all, in pairs.
    #[inline]
    pub fn pairs(&self) -> &[Pair] {
        // SAFETY: there are never more loads than room, and all that the head counts were written.
        unsafe { slice::from_raw_parts(self.pairs.as_ptr().cast(), self.head.pairs()) }
    }

    /// The same, one by one.
    pub fn loads(&self) -> impl Iterator<Item = Load> + Clone + '_ {
        self.pairs().iter().flat_map(|pair| pair.loads()).take(self.head.loads())
    }

    /// The rules of other registers.
    #[inline]
    pub fn others(&self) -> &[Rule] {
        let known = self.others.get(..self.other_count.into()).unwrap_or_default();
        // SAFETY: the first `other_count` were written.
        unsafe { &*(core::ptr::from_ref(known) as *const [Rule]) }
    }

    /// Takes over a head and the pairs of loads that it counts. There are no other rules.
    ///
    /// # Safety
    /// They are those of a row, which was not [`flags::FAR`].
    #[inline]
    pub unsafe fn take_packed(&mut self, head: Head, pair: impl Fn(usize) -> Pair) {
        /// Most rows have no more. To copy them all takes less time than to count.
        const MOST_OFTEN: usize = 4;
        (self.head, self.other_count) = (head, 0);
        let (often, others) = self.pairs.split_at_mut(MOST_OFTEN);
        for (number, place) in often.iter_mut().enumerate() {
            *place = MaybeUninit::new(pair(number));
        }
        let more = head.pairs().saturating_sub(MOST_OFTEN);
        for (number, place) in others.iter_mut().enumerate().take(more) {
            *place = MaybeUninit::new(pair(MOST_OFTEN + number));
        }
    }

    /// Adds a rule. `None`: there are too many.
    pub fn push(&mut self, rule: Rule) -> Option<()> {
        match Load::new(rule) {
            Some(load) if self.head.loads() < MOST_LOADS => self.push_load(load)?,
            _ => {
                *self.others.get_mut(usize::from(self.other_count))? = MaybeUninit::new(rule);
                self.other_count += 1;
                self.set(flags::FAR, true);
            }
        }
        self.set(flags::HAS_RETURN_ADDRESS, rule.place == self.head.return_address);
        self.set(flags::HAS_STACK_POINTER, usize::from(rule.place) == STACK_POINTER);
        Some(())
    }

    fn push_load(&mut self, load: Load) -> Option<()> {
        if self.has(flags::ODD) {
            let first = self.loads().last()?;
            *self.pairs.get_mut(self.head.pairs() - 1)? = MaybeUninit::new(Pair::new(first, load));
        } else {
            *self.pairs.get_mut(self.head.pairs())? = MaybeUninit::new(Pair::new(load, load));
            self.head.pairs += 1;
        }
        self.head.flags ^= flags::ODD;
        Some(())
    }

    /// Adds the rule of a register that an expression computes, or whose place it computes. `None`: it is far
    /// away, or there is no such register.
    pub fn compute(&mut self, register: u32, how: How, block: &'static [u8]) -> Option<()> {
        let place = u8::try_from(place(register)?).ok()?;
        let distance = (block.as_ptr() as u64).wrapping_sub(self.origin) as i64;
        self.push(Rule { value: distance.try_into().ok()?, length: block.len().try_into().ok()?, place, how })
    }

    /// The expression of a rule.
    ///
    /// # Safety
    /// The rule is one of the row, and the module of its FDE is still loaded.
    pub unsafe fn block(&self, rule: &Rule) -> &'static [u8] {
        let at = self.origin.wrapping_add_signed(rule.value.into());
        // SAFETY: `compute` took place and length from a block; the caller vouches for the rest.
        unsafe { slice::from_raw_parts(at as *const u8, rule.length.into()) }
    }

    /// Takes over what a table says. `None`: it names registers that this machine does not have.
    ///
    /// # Safety
    /// The table's module is loaded: a personality routine may be behind a pointer.
    pub unsafe fn take(&mut self, abi: Abi, found: &WholeMatch<'_>) -> Option<()> {
        let number = |register| u8::try_from(place(register)?).ok();
        self.clear(number(abi.return_address())?);
        let rules = &found.rules;
        self.function = found.function;
        if let Some(handler) = found.handler {
            let address = handler.personality.address;
            // SAFETY: as the caller says.
            let pointer = || unsafe { (address as *const u64).read_unaligned() };
            self.personality = if handler.personality.indirect { pointer() } else { address };
            self.data = handler.lsda.unwrap_or(0);
        }
        self.set_cfa(Cfa::Register { place: number(rules.cfa_register)?, offset: rules.cfa_offset });
        self.args_size = rules.args_size;
        self.set(flags::SIGNAL, rules.signal);
        self.set(flags::SIGNED, rules.signed);
        self.set(flags::KEY_B, rules.key_b);
        for (register, saved) in rules.registers(abi) {
            self.restore(register, saved)?;
        }
        Some(())
    }

    /// Adds the rule of a register in DWARF's numbers. `None`: this machine has no such register.
    pub fn restore(&mut self, register: u32, saved: Saved) -> Option<()> {
        let own = u8::try_from(place(register)?).ok()?;
        let (how, value) = match saved {
            Saved::AtCfa(offset) => (How::AtCfa, offset),
            Saved::CfaPlus(offset) => (How::CfaPlus, offset),
            Saved::In(other) => (How::In, place(other)? as i64),
            // Nobody asks for another value that is lost.
            Saved::Undefined => {
                self.set(flags::OUTERMOST, own == self.head.return_address);
                return Some(());
            }
        };
        self.push(Rule { value: value.try_into().ok()?, length: 0, place: own, how })
    }
}
