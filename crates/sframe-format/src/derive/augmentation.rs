//! CIE augmentations that gimli does not know.
//!
//! AArch64 CIEs carry `B` when return addresses are signed with key B, and `G` when frames are tagged (MTE). Neither
//! has augmentation data, so the letter is taken out of a copy of the section and the CIE filled up with
//! `DW_CFA_nop` at its end. No offset changes.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::records::{Record, Records};
use crate::abi::Abi;

/// `.eh_frame` as gimli can read it.
pub(super) struct Normalized<'data> {
    pub data: Cow<'data, [u8]>,
    /// Offsets of the CIEs with key B, ascending.
    key_b: Vec<usize>,
}

impl Normalized<'_> {
    /// Whether the CIE at `offset` calls for key B.
    pub fn is_key_b(&self, offset: usize) -> bool {
        self.key_b.binary_search(&offset).is_ok()
    }
}

pub(super) fn normalize(abi: Abi, data: &[u8]) -> Normalized<'_> {
    let mut normal = Normalized { data: Cow::Borrowed(data), key_b: Vec::new() };
    if !abi.is_aarch64() {
        return normal;
    }
    for Record { offset, id, end, .. } in Records::new(abi, data) {
        if data.get(id..id + 4) == Some(&[0; 4]) {
            take_letters(&mut normal, offset, id + 5, end);
        }
    }
    normal
}

/// Takes `B` and `G` out of the augmentation string at `string`, in a CIE that ends at `end`.
fn take_letters(normal: &mut Normalized<'_>, cie: usize, string: usize, end: usize) {
    let letters = |data: &[u8]| -> Vec<usize> {
        let text = data.get(string..end).unwrap_or_default();
        let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
        let found = text.iter().enumerate().filter(|&(_, letter)| matches!(letter, b'B' | b'G'));
        found.map(|(place, _)| string + place).collect()
    };
    for place in letters(&normal.data).into_iter().rev() {
        if normal.data[place] == b'B' && normal.key_b.last() != Some(&cie) {
            normal.key_b.push(cie);
        }
        let data = normal.data.to_mut();
        data.copy_within(place + 1..end, place);
        data[end - 1] = 0;
    }
}
