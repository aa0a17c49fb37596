//! Contents of sections that `merge_strings` made of pieces.

use crate::arch::Target;
use crate::phase::Scanned;

/// Writes the merged section of a group: `number` is that of [`crate::tables::section::Kind::Merged`].
pub fn write<T: Target>(link: &Scanned<'_, T>, number: u32, out: &mut [u8]) {
    if let Some(group) = link.merges.groups().get(number as usize) {
        group.write(out);
    }
}
