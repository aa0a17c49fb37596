//! Writes the sections that `merge_strings` made from pieces of `SHF_MERGE` sections.

use super::synthesis::{Synthesis, Write};
use crate::arch::Target;
use crate::merge::Shard;
use crate::phase::Scanned;
use crate::region::Region;
use parallel::IntoParallel;

/// The sections. `merge_strings` makes them.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis::later(Write::Jobs(|link, section, out| write(link, section.number, out)))
}

/// Writes the merged section of a group. `number` is that of [`crate::tables::section::Kind::Merged`].
pub fn write<T: Target>(link: &Scanned<'_, T>, number: u32, mut out: Region<'_>) {
    let Some(group) = link.merges.groups().get(number as usize) else { return };
    let parts: Vec<(&Shard<'_>, Region<'_>)> =
        group.parts().map(|(shard, bytes)| (shard, out.take_first(bytes))).collect();
    parts.into_par_iter().for_each(|(shard, part)| part.fill(|out| shard.write(out)));
}
