//! The rules of a row in one word, for caches and tables.
//!
//! Almost every row counts its CFA from the stack pointer or the frame pointer, and finds the return address
//! and the frame pointer at small offsets from the CFA. Such rules fit 64 bits, and a step by them needs no
//! decoding. All other rules (flexible rows, signal frames) are in a list, and the word holds their place in
//! it.
//!
//! ```text
//! bit 63         42 41         30 29       16 15          0
//! ┌────────────────┬─────────────┬───────────┬────────────┐
//! │ CFA offset     │ kind, flags │ RA offset │ FP offset  │
//! └────────────────┴─────────────┴───────────┴────────────┘
//! ```
//!
//! A step needs the CFA's offset first. In the highest bits, one shift extracts it. Compact tables have it in
//! the lowest bits.

use core::hint::select_unpredictable;

use crate::abi::Abi;
use crate::rules::{Base, CfaRule, Frame, Location, RegisterRule, Rules, UnwindRules};
use crate::source::Source;
use crate::unwind::{FrameAddress, Registers, UnwindError, step_from_cfa};

const CFA: Field = Field { shift: 42, bits: 22 };
const FP: Field = Field { shift: 0, bits: 16 };
const RA: Field = Field { shift: 16, bits: 14 };
/// The CFA counts from the frame pointer, not the stack pointer.
const CFA_BY_FP: u64 = 1 << 30;
const RA_SAVED: u64 = 1 << 31;
const FP_SAVED: u64 = 1 << 32;
const MANGLED: u64 = 1 << 33;
/// The rules were derived from `.eh_frame`.
const DERIVED: u64 = 1 << 34;
const ABI_SHIFT: u32 = 35;
/// The rules were read off instructions.
const INSTRUCTIONS: u64 = 1 << 38;
const KIND_SHIFT: u32 = 39;

/// A signed bit field of the word.
struct Field {
    shift: u32,
    bits: u32,
}

impl Field {
    #[inline(always)]
    const fn get(&self, word: u64) -> i64 {
        (word << (64 - self.bits - self.shift)) as i64 >> (64 - self.bits)
    }

    #[inline(always)]
    fn put(&self, value: i64) -> Option<u64> {
        let word = (value as u64 & ((1 << self.bits) - 1)) << self.shift;
        (self.get(word) == value).then_some(word)
    }
}

/// What a word contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No row covers the address.
    NoRow,
    /// The rules themselves.
    Frame,
    /// This is the outermost frame.
    Outermost,
    /// The rules are at this place in a list.
    Kept(usize),
}

/// The rules of a row, or their place in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed(u64);

impl Packed {
    /// No row covers the address.
    pub const NO_ROW: Self = Self(0);
    const FRAME: u64 = 1 << KIND_SHIFT;
    const OUTERMOST: u64 = 2 << KIND_SHIFT;
    const KEPT: u64 = 3 << KIND_SHIFT;

    /// Packs rules. `None`: they do not fit the word.
    pub fn new(unwind: &UnwindRules) -> Option<Self> {
        let abi = unwind.abi;
        let Frame { cfa, ra, fp, mangled } = match unwind.rules {
            _ if unwind.signal => return None,
            Rules::Frame(frame) => frame,
            Rules::Outermost => return Some(Self::outermost(abi)),
            Rules::SignalContext => return None,
        };
        let by_fp = cfa.register == abi.frame_pointer();
        if cfa.dereference || !by_fp && cfa.register != abi.stack_pointer() {
            return None;
        }
        let offset = |rule| match rule {
            RegisterRule::Unchanged => Some(None),
            RegisterRule::Saved(Location { base: Base::Cfa, offset, dereference: true }) => {
                Some(Some(i64::from(offset)))
            }
            RegisterRule::Saved(_) => None,
        };
        Self::frame(abi, by_fp, cfa.offset, offset(ra)?, offset(fp)?, mangled)
    }

    /// Rules from offsets in bytes: of the CFA from the frame pointer or the stack pointer; of the return
    /// address and the caller's frame pointer from the CFA, if they are saved. `None`: they do not fit the
    /// word.
    #[inline]
    pub fn frame(
        abi: Abi,
        by_fp: bool,
        cfa: i64,
        ra: Option<i64>,
        fp: Option<i64>,
        mangled: bool,
    ) -> Option<Self> {
        let flag = |condition: bool, flag: u64| if condition { flag } else { 0 };
        let offsets = CFA.put(cfa)? | RA.put(ra.unwrap_or(0))? | FP.put(fp.unwrap_or(0))?;
        let flags = flag(by_fp, CFA_BY_FP)
            | flag(ra.is_some(), RA_SAVED)
            | flag(fp.is_some(), FP_SAVED)
            | flag(mangled, MANGLED);
        Some(Self(Self::FRAME | (abi as u64) << ABI_SHIFT | flags | offsets))
    }

    /// The outermost frame.
    #[inline]
    pub fn outermost(abi: Abi) -> Self {
        Self(Self::OUTERMOST | (abi as u64) << ABI_SHIFT)
    }

    /// Reads the word of a compact table (`COMPACT.md`), which contains neither architecture nor source.
    pub fn from_word(word: u64, abi: Abi) -> Self {
        let said = word.rotate_right(CFA.bits) & !(7 << ABI_SHIFT | DERIVED | INSTRUCTIONS);
        let means = matches!(Self(said).kind_number(), 1..=3);
        Self(if means { said | (abi as u64) << ABI_SHIFT } else { 0 })
    }

    /// The word of a compact table.
    #[cfg(feature = "alloc")]
    pub fn to_word(self) -> u64 {
        (self.0 & !(7 << ABI_SHIFT | DERIVED | INSTRUCTIONS)).rotate_left(CFA.bits)
    }

    /// Rules that are at this place in a list.
    #[inline]
    pub fn kept(place: usize) -> Self {
        Self(Self::KEPT | u64::from(place as u32).rotate_right(CFA.bits))
    }

    /// The same with a source. A word can express [`Source::EhFrame`] and [`Source::Instructions`]. Any other
    /// source becomes [`Source::Sframe`].
    #[inline]
    #[must_use]
    pub fn by(self, source: Source) -> Self {
        let flag = match source {
            Source::EhFrame => DERIVED,
            Source::Instructions => INSTRUCTIONS,
            _ => 0,
        };
        Self(self.0 & !(DERIVED | INSTRUCTIONS) | flag)
    }

    /// The source of the rules.
    #[inline(always)]
    pub fn source(self) -> Source {
        match self.0 & (DERIVED | INSTRUCTIONS) {
            0 => Source::Sframe,
            DERIVED => Source::EhFrame,
            _ => Source::Instructions,
        }
    }

    #[inline(always)]
    fn kind_number(self) -> u64 {
        self.0 >> KIND_SHIFT & 7
    }

    #[inline(always)]
    pub fn kind(self) -> Kind {
        match self.kind_number() {
            1 => Kind::Frame,
            2 => Kind::Outermost,
            3 => Kind::Kept(self.0.rotate_left(CFA.bits) as u32 as usize),
            _ => Kind::NoRow,
        }
    }

    /// The packed rules in full. `None`: there are none, or they are in a list.
    pub fn unpack(self) -> Option<UnwindRules> {
        let abi = self.abi();
        let rules = match self.kind() {
            Kind::Frame => {
                let by_fp = self.0 & CFA_BY_FP != 0;
                let register = if by_fp { abi.frame_pointer() } else { abi.stack_pointer() };
                Rules::Frame(Frame {
                    cfa: CfaRule::register(register, CFA.get(self.0)),
                    ra: self.rule(RA_SAVED, &RA),
                    fp: self.rule(FP_SAVED, &FP),
                    mangled: self.0 & MANGLED != 0,
                })
            }
            Kind::Outermost => Rules::Outermost,
            Kind::NoRow | Kind::Kept(_) => return None,
        };
        Some(UnwindRules { abi, signal: false, rules })
    }

    #[inline(always)]
    fn abi(self) -> Abi {
        match self.0 >> ABI_SHIFT & 7 {
            1 => Abi::AArch64Big,
            2 => Abi::AArch64Little,
            4 => Abi::S390x,
            _ => Abi::Amd64,
        }
    }

    #[inline(always)]
    fn rule(self, flag: u64, field: &Field) -> RegisterRule {
        if self.0 & flag == 0 {
            return RegisterRule::Unchanged;
        }
        RegisterRule::Saved(Location::at_cfa(field.get(self.0) as i32))
    }

    /// Does a [`step`](crate::unwind::step) by rules of [`Kind::Frame`].
    #[inline(always)]
    pub fn step<F>(
        self,
        topmost: bool,
        registers: &mut Registers,
        read_word: &mut F,
    ) -> Result<Option<FrameAddress>, UnwindError>
    where
        F: FnMut(u64) -> Result<u64, ()>,
    {
        // No processor can predict which of the two registers it is.
        let base = select_unpredictable(self.0 & CFA_BY_FP != 0, registers.fp, registers.sp);
        let cfa = base.wrapping_add_signed(CFA.get(self.0));
        let frame = Frame {
            cfa: CfaRule::register(0, 0),
            ra: self.rule(RA_SAVED, &RA),
            fp: self.rule(FP_SAVED, &FP),
            mangled: self.0 & MANGLED != 0,
        };
        step_from_cfa(self.abi(), &frame, cfa, topmost, false, registers, read_word)
    }
}
