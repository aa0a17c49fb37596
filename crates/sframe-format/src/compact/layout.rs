//! Layouts (version 2): the registers that a rule saves, except the return address and the frame pointer.
//!
//! All rules with the same registers in the same places share a layout. Most slots are a word in memory near
//! the CFA and take two bytes; everything else takes six.
//!
//! | bytes | contents |
//! |---|---|
//! | 1 | number of registers, at most 32 |
//! | 1 | flags: 1 slots count from the CFA's base register, 2 key B, 4 bytes of arguments follow |
//! | 4 | if flag 4: bytes of arguments on the stack |
//! | 2 each | register, below 128; signed slot: in memory, 8 bytes times the slot from the base |
//! | 6 each | register + 128; kind; i32 value: 1 in memory at base + value, 2 in register `value`, 3 lost, 4 it is CFA + value |

use super::{LAYOUT_NUMBER_SIZE, View};
use crate::abi::Register;
use crate::cfi::Saved;
use crate::error::{Error, ErrorKind};

/// The largest number of registers of a layout.
pub(super) const MAX_SAVED: usize = 32;
pub(super) const FROM_BASE: u8 = 1;
pub(super) const KEY_B: u8 = 2;
pub(super) const ARGUMENTS: u8 = 4;
const LONG: u8 = 0x80;
pub(super) const AT: u8 = 1;
pub(super) const IN: u8 = 2;
pub(super) const LOST: u8 = 3;
pub(super) const PLUS: u8 = 4;

/// A layout that was found valid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout<'data> {
    pub key_b: bool,
    pub args_size: u32,
    pub saved: SavedRegisters<'data>,
}

/// The registers of a layout, ascending by number.
#[derive(Clone, Copy, Debug)]
pub struct SavedRegisters<'data> {
    rest: &'data [u8],
    left: u8,
    /// Bytes from the CFA to where slots count from.
    origin: i64,
}

impl<'data> View<'data> {
    /// The layout of a rule whose CFA is `cfa_offset` bytes from its base register.
    pub(super) fn layout(&self, rule: u32, cfa_offset: i64) -> Result<Layout<'data>, Error> {
        let number = self.u16(self.parts.layout_numbers + rule as usize * LAYOUT_NUMBER_SIZE);
        let at = self.parts.layouts + usize::from(number);
        let bytes = self.data.get(at..self.parts.personalities).unwrap_or_default();
        read(bytes, cfa_offset)
            .ok_or_else(|| Error::new(at, ErrorKind::Reserved { what: "layout", found: number.into() }))
    }
}

/// Reads the layout at the start of `bytes`. `None`: it is malformed.
pub(super) fn read(bytes: &[u8], cfa_offset: i64) -> Option<Layout<'_>> {
    let &[count, flags, ref rest @ ..] = bytes else { return None };
    if usize::from(count) > MAX_SAVED || flags & !(FROM_BASE | KEY_B | ARGUMENTS) != 0 {
        return None;
    }
    let (args_size, rest) = match flags & ARGUMENTS {
        0 => (0, rest),
        _ => {
            let (word, rest) = rest.split_first_chunk()?;
            (u32::from_le_bytes(*word), rest)
        }
    };
    let origin = if flags & FROM_BASE == 0 { 0 } else { cfa_offset.wrapping_neg() };
    let saved = SavedRegisters { rest, left: count, origin };
    let mut check = saved;
    let mut last = None;
    for _ in 0..count {
        let (register, _) = check.read()?;
        if last.replace(register).is_some_and(|last| last >= register) {
            return None;
        }
    }
    Some(Layout { key_b: flags & KEY_B != 0, args_size, saved })
}

impl SavedRegisters<'_> {
    fn read(&mut self) -> Option<(Register, Saved)> {
        let (&first, rest) = self.rest.split_first()?;
        if first & LONG == 0 {
            let (&slot, rest) = rest.split_first()?;
            self.rest = rest;
            let offset = i64::from(slot as i8) * 8;
            return Some((first.into(), Saved::AtCfa(self.origin.wrapping_add(offset))));
        }
        let (&kind, rest) = rest.split_first()?;
        let (value, rest) = rest.split_first_chunk()?;
        self.rest = rest;
        let value = i32::from_le_bytes(*value);
        let saved = match kind {
            AT => Saved::AtCfa(self.origin.wrapping_add(value.into())),
            IN => Saved::In(u16::try_from(value).ok()?.into()),
            LOST if value == 0 => Saved::Undefined,
            PLUS => Saved::CfaPlus(value.into()),
            _ => return None,
        };
        Some(((first & !LONG).into(), saved))
    }
}

impl Iterator for SavedRegisters<'_> {
    type Item = (Register, Saved);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.read()
    }
}

/// The bytes of a layout. `None`: a layout cannot say this.
#[cfg(feature = "alloc")]
pub(super) fn bytes(
    saved: &[(Register, Saved)],
    from_base: Option<i64>,
    key_b: bool,
    args_size: u64,
) -> Option<alloc::vec::Vec<u8>> {
    let args_size = u32::try_from(args_size).ok()?;
    let flag = |condition: bool, flag: u8| if condition { flag } else { 0 };
    if saved.len() > MAX_SAVED {
        return None;
    }
    let uses_base = from_base.is_some() && saved.iter().any(|(_, rule)| matches!(rule, Saved::AtCfa(_)));
    let flags = flag(uses_base, FROM_BASE) | flag(key_b, KEY_B) | flag(args_size != 0, ARGUMENTS);
    let mut out = alloc::vec![saved.len() as u8, flags];
    if args_size != 0 {
        out.extend(args_size.to_le_bytes());
    }
    for &(register, rule) in saved {
        let register = u8::try_from(register).ok().filter(|register| register & LONG == 0)?;
        let (kind, value) = match rule {
            Saved::AtCfa(offset) => {
                let offset = offset.checked_add(from_base.unwrap_or(0))?;
                if let (0, Ok(slot)) = (offset % 8, i8::try_from(offset / 8)) {
                    out.extend([register, slot as u8]);
                    continue;
                }
                (AT, i32::try_from(offset).ok()?)
            }
            Saved::In(other) => (IN, u16::try_from(other).ok()?.into()),
            Saved::Undefined => (LOST, 0),
            Saved::CfaPlus(offset) => (PLUS, i32::try_from(offset).ok()?),
        };
        out.extend([register | LONG, kind]);
        out.extend(value.to_le_bytes());
    }
    Some(out)
}

/// The place of each rule's layout, rule 0 included, and the bytes of all layouts. `layouts` has a byte in
/// each word, and `of_rules` the number of each rule's layout. `None`: there are too many.
#[cfg(feature = "alloc")]
pub(super) fn place<'l>(
    layouts: impl Iterator<Item = &'l [u32]>,
    of_rules: impl Iterator<Item = u32>,
) -> Option<(alloc::vec::Vec<u16>, alloc::vec::Vec<u8>)> {
    let (mut bytes, mut places) = (alloc::vec::Vec::new(), alloc::vec::Vec::new());
    for layout in layouts {
        places.push(u16::try_from(bytes.len()).ok()?);
        bytes.extend(layout.iter().map(|&byte| byte as u8));
    }
    let mut numbers = alloc::vec![0];
    for layout in of_rules {
        numbers.push(*places.get(layout as usize)?);
    }
    Some((numbers, bytes))
}
