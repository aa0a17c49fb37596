//! Rules: words of 8 bytes (a [`Packed`] word, rotated as `COMPACT.md` says), and long rules of 32 bytes for
//! all others.
//!
//! | byte | long rule |
//! |---|---|
//! | 0 | i64, offset of the CFA |
//! | 8 | u32, register that the CFA counts from |
//! | 12 | u32 register and i32 offset of the return address |
//! | 20 | u32 register and i32 offset of the frame pointer |
//! | 28 | flags: 1 the CFA is read from memory, 2 the return address is signed, 4 signal frame |
//! | 29 | return address: 1 saved, 2 counts from the register and not from the CFA, 4 read from memory |
//! | 30 | frame pointer: the same |
//! | 31 | kind: 1 frame, 2 outermost, 3 signal context |

use super::{LONG_RULE_SIZE, RULE_SIZE, View};
use crate::error::{Error, ErrorKind};
use crate::packed::{Kind, Packed};
use crate::rules::{Base, CfaRule, Frame, Location, RegisterRule, Rules, UnwindRules};

pub(super) const CFA_READ: u8 = 1;
pub(super) const SIGNED: u8 = 2;
pub(super) const SIGNAL: u8 = 4;
pub(super) const SAVED: u8 = 1;
pub(super) const FROM_REGISTER: u8 = 2;
pub(super) const READ: u8 = 4;
pub(super) const FRAME: u8 = 1;
pub(super) const OUTERMOST: u8 = 2;
pub(super) const SIGNAL_CONTEXT: u8 = 3;

impl View<'_> {
    /// The word of a rule.
    #[inline]
    pub(super) fn rule(&self, number: u32) -> Result<Packed, Error> {
        if number >= self.header.rules {
            return Err(Error::new(
                self.parts.rules,
                ErrorKind::CompactNumber { what: "rule", found: number },
            ));
        }
        let word = self.endian().read_i64(self.data, self.parts.rules + number as usize * RULE_SIZE);
        Ok(Packed::from_word(word.unwrap_or(0) as u64, self.header.abi))
    }

    /// A rule in full. `None`: the rule says that there is no row.
    pub(super) fn unpacked(&self, packed: Packed) -> Result<Option<UnwindRules>, Error> {
        match packed.kind() {
            Kind::Kept(place) => self.long_rule(place as u32).map(Some),
            _ => Ok(packed.unpack()),
        }
    }

    #[cold]
    fn long_rule(&self, number: u32) -> Result<UnwindRules, Error> {
        let at = self.parts.long_rules + number as usize * LONG_RULE_SIZE;
        let bytes = self.data.get(at..).and_then(|rest| rest.first_chunk::<LONG_RULE_SIZE>());
        let Some(bytes) = bytes.filter(|_| number < self.header.long_rules) else {
            let kind = ErrorKind::CompactNumber { what: "long rule", found: number };
            return Err(Error::new(self.parts.long_rules, kind));
        };
        let endian = self.endian();
        let register = |offset| endian.read_u32(bytes, offset).unwrap_or(0);
        let offset = |offset| endian.read_i32(bytes, offset).unwrap_or(0);
        let location = |flags: u8, at: usize| {
            if flags & SAVED == 0 {
                return RegisterRule::Unchanged;
            }
            let base = if flags & FROM_REGISTER == 0 { Base::Cfa } else { Base::Register(register(at)) };
            RegisterRule::Saved(Location { base, offset: offset(at + 4), dereference: flags & READ != 0 })
        };
        let &[.., flags, ra, fp, kind] = bytes;
        let rules = match kind {
            FRAME => Rules::Frame(Frame {
                cfa: CfaRule {
                    register: register(8),
                    dereference: flags & CFA_READ != 0,
                    offset: endian.read_i64(bytes, 0).unwrap_or(0),
                },
                ra: location(ra, 12),
                fp: location(fp, 20),
                mangled: flags & SIGNED != 0,
            }),
            OUTERMOST => Rules::Outermost,
            SIGNAL_CONTEXT => Rules::SignalContext,
            _ => {
                let kind = ErrorKind::Reserved { what: "long rule", found: kind.into() };
                return Err(Error::new(at + LONG_RULE_SIZE - 1, kind));
            }
        };
        Ok(UnwindRules { abi: self.header.abi, signal: flags & SIGNAL != 0, rules })
    }
}

/// The bytes of a rule that does not fit a word.
#[cfg(feature = "alloc")]
pub(super) fn long_bytes(endian: crate::Endian, rules: &UnwindRules) -> [u8; LONG_RULE_SIZE] {
    let mut bytes = [0; LONG_RULE_SIZE];
    let mut put = |at: usize, word: &[u8]| bytes[at..at + word.len()].copy_from_slice(word);
    let mut flags = if rules.signal { SIGNAL } else { 0 };
    let kind = match rules.rules {
        Rules::Frame(frame) => {
            put(0, &endian.i64_bytes(frame.cfa.offset));
            put(8, &endian.u32_bytes(frame.cfa.register));
            flags |= if frame.cfa.dereference { CFA_READ } else { 0 };
            flags |= if frame.mangled { SIGNED } else { 0 };
            for (at, place, rule) in [(12, 29, frame.ra), (20, 30, frame.fp)] {
                let RegisterRule::Saved(location) = rule else { continue };
                let mut how = SAVED | if location.dereference { READ } else { 0 };
                if let Base::Register(register) = location.base {
                    how |= FROM_REGISTER;
                    put(at, &endian.u32_bytes(register));
                }
                put(at + 4, &endian.i32_bytes(location.offset));
                put(place, &[how]);
            }
            FRAME
        }
        Rules::Outermost => OUTERMOST,
        Rules::SignalContext => SIGNAL_CONTEXT,
    };
    put(28, &[flags]);
    put(31, &[kind]);
    bytes
}
