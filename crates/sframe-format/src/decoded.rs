//! A cache from the bytes of rows to the numbers of their rules.
//!
//! Millions of rows have only a few hundred different rules. Tables number these rules, and look here first:
//! decoding a row and finding its rules among all others takes several times as long.

use alloc::vec::Vec;

use crate::abi::Abi;
use crate::blob::Blob;
use crate::fre::{Attributes, FdeType, Fre};
use crate::rules::UnwindRules;
use crate::version::Version;

/// Binary logarithm of the number of rows that the cache holds.
const BITS: u32 = 9;

/// A cache of rows and the numbers of their rules.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decoded {
    slots: Vec<Slot>,
    /// The header fields that rules depend on. They are the same for all slots.
    of: Option<(Version, Abi, i8, i8)>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// See [`ShortRow`](crate::short::ShortRow).
    content: u64,
    /// The attributes that rules depend on.
    kind: u8,
    number: u32,
}

impl Decoded {
    /// Prepares for rows of a blob. If its header differs from the last one in a field that rules depend on,
    /// this forgets all rows.
    pub fn enter(&mut self, blob: &Blob<'_>) {
        let header = blob.header();
        let depends = (header.version, header.abi, header.fixed_fp_offset, header.fixed_ra_offset);
        if self.of.replace(depends) != Some(depends) {
            self.slots.clear();
            // No row is of this kind.
            self.slots.resize(1 << BITS, Slot { content: 0, kind: u8::MAX, number: 0 });
        }
    }

    /// The number of a row's rules: that of an equal row before it, or else the result of `number`. `blob`
    /// must be the blob that was entered. `None`: the row is malformed, or `number` returned `None`.
    #[inline]
    pub fn number(
        &mut self,
        blob: &Blob<'_>,
        attributes: &Attributes,
        fre: &Fre<'_>,
        number: impl FnOnce(UnwindRules) -> Option<u32>,
    ) -> Option<u32> {
        let (abi, signal) = (blob.header().abi, attributes.signal);
        let kind = u8::from(attributes.fde_type == FdeType::Flexible) | u8::from(signal) << 1;
        let content = fre.content();
        let hash = (content.unwrap_or(0) ^ u64::from(kind) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = (hash >> (64 - BITS)) as usize;
        if let Some(known) = self.slots.get(slot)
            && (Some(known.content), known.kind) == (content, kind)
        {
            return Some(known.number);
        }
        let rules = blob.decode_fre(attributes, fre).ok()?;
        let number = number(UnwindRules { abi, signal, rules })?;
        if let (Some(content), Some(slot)) = (content, self.slots.get_mut(slot)) {
            *slot = Slot { content, kind, number };
        }
        Some(number)
    }
}
