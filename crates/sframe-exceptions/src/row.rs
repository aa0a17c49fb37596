//! What holds at an address, ready for a step: the same from a table, from an FDE, and from the kernel's
//! signal frames.

use core::mem::MaybeUninit;
use core::slice;

use sframe_format::Abi;
use sframe_format::cfi::Saved;
use sframe_format::compact::WholeMatch;

use crate::registers::{STACK_POINTER, place};

/// The most registers of a row that are in memory near the CFA, and the most others.
pub const MOST_LOADS: usize = 20;
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
/// offset in the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Load(pub u32);

impl Load {
    fn new(rule: Rule) -> Option<Self> {
        let offset = rule.value << 8;
        let fits = rule.how == How::AtCfa && offset >> 8 == rule.value;
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
#[derive(Clone, Debug)]
pub struct Row {
    /// Address of the function.
    pub function: u64,
    /// Address of the personality routine, or 0.
    pub personality: u64,
    /// Address of the language-specific data, or 0.
    pub data: u64,
    /// The CFA.
    pub cfa: Cfa,
    /// Bytes of arguments that a landing pad removes from the stack.
    pub args_size: u32,
    /// The place of the return address.
    pub return_address: u8,
    /// What holds besides: see [`flags`].
    pub flags: u8,
    /// Where expressions of rules are near.
    pub origin: u64,
    load_count: u8,
    other_count: u8,
    // To fill these with zeros takes longer than to restore the registers of a frame.
    loads: [MaybeUninit<Load>; MOST_LOADS],
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
}

impl Row {
    /// A row without rules.
    #[allow(clippy::new_without_default, reason = "nothing holds by default")]
    pub const fn new() -> Self {
        Self {
            function: 0,
            personality: 0,
            data: 0,
            cfa: Cfa::Register { place: 0, offset: 0 },
            args_size: 0,
            return_address: 0,
            flags: 0,
            origin: 0,
            load_count: 0,
            other_count: 0,
            loads: [MaybeUninit::uninit(); MOST_LOADS],
            others: [MaybeUninit::uninit(); MOST_OTHERS],
        }
    }

    /// Starts over.
    pub fn clear(&mut self) {
        (self.function, self.personality, self.data, self.args_size) = (0, 0, 0, 0);
        (self.flags, self.load_count, self.other_count) = (0, 0, 0);
    }

    /// Whether a flag is set.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Sets a flag if something holds.
    pub fn set(&mut self, flag: u8, holds: bool) {
        self.flags |= if holds { flag } else { 0 };
    }

    /// The registers that are in memory near the CFA: most often all.
    #[inline]
    pub fn loads(&self) -> &[Load] {
        let known = self.loads.get(..self.load_count.into()).unwrap_or_default();
        // SAFETY: the first `load_count` were written.
        unsafe { &*(core::ptr::from_ref(known) as *const [Load]) }
    }

    /// The rules of other registers.
    #[inline]
    pub fn others(&self) -> &[Rule] {
        let known = self.others.get(..self.other_count.into()).unwrap_or_default();
        // SAFETY: the first `other_count` were written.
        unsafe { &*(core::ptr::from_ref(known) as *const [Rule]) }
    }

    /// Takes over pairs of loads.
    #[inline]
    pub fn take_loads(&mut self, count: u8, pair: impl Fn(usize) -> [Load; 2]) {
        let count = count.min(MOST_LOADS as u8);
        let (pairs, _) = self.loads.as_chunks_mut();
        for (number, place) in pairs.iter_mut().enumerate().take(usize::from(count).div_ceil(2)) {
            *place = pair(number).map(MaybeUninit::new);
        }
        (self.load_count, self.other_count) = (count, 0);
    }

    /// Adds a rule. `None`: there are too many.
    pub fn push(&mut self, rule: Rule) -> Option<()> {
        match Load::new(rule) {
            Some(load) if usize::from(self.load_count) < MOST_LOADS => {
                *self.loads.get_mut(usize::from(self.load_count))? = MaybeUninit::new(load);
                self.load_count += 1;
            }
            _ => {
                *self.others.get_mut(usize::from(self.other_count))? = MaybeUninit::new(rule);
                self.other_count += 1;
            }
        }
        self.set(flags::HAS_RETURN_ADDRESS, rule.place == self.return_address);
        self.set(flags::HAS_STACK_POINTER, usize::from(rule.place) == STACK_POINTER);
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
        self.clear();
        let rules = &found.rules;
        let number = |register| u8::try_from(place(register)?).ok();
        self.function = found.function;
        if let Some(handler) = found.handler {
            let address = handler.personality.address;
            // SAFETY: as the caller says.
            let pointer = || unsafe { (address as *const u64).read_unaligned() };
            self.personality = if handler.personality.indirect { pointer() } else { address };
            self.data = handler.lsda.unwrap_or(0);
        }
        self.cfa = Cfa::Register { place: number(rules.cfa_register)?, offset: rules.cfa_offset };
        (self.args_size, self.return_address) = (rules.args_size, number(abi.return_address())?);
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
                self.set(flags::OUTERMOST, own == self.return_address);
                return Some(());
            }
        };
        self.push(Rule { value: value.try_into().ok()?, length: 0, place: own, how })
    }
}
