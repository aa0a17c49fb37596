//! `.rela.NAME` or `.rel.NAME`: the relocations of an output section (`-r`, `--emit-relocs`).
//!
//! Each output section that has relocations left has one such section, with `SHF_INFO_LINK`. `sh_info` names
//! the section that the relocations apply to, and `sh_link` the symbol table (gABI, "Relocation").

use super::synthesis::{Synthesis, Write};
use crate::arch::Target;
use crate::ids::SectionId;
use crate::phase::{OutputRelocations, Placed};
use crate::relocs::emit;
use parallel::IntoParallel;
use zerocopy::{FromBytes, IntoBytes, KnownLayout, Unaligned};

/// The sections. The layout makes them once it has counted relocations.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis::later(Write::Bytes(|link, section, out| write(link, section.number, out)))
}

/// Writes the section. `row` is a row of [`crate::phase::Arranged::output_relocations`].
fn write<T: Target>(link: &Placed<'_, T>, row: u32, out: &mut [u8]) {
    let table = &link.output_relocations[row as usize];
    if table.implicit {
        write_entries(link, table, out, emit::write_implicit::<T>)
    } else {
        write_entries(link, table, out, emit::write::<T>)
    }
}

fn write_entries<T: Target, R: FromBytes + IntoBytes + KnownLayout + Unaligned + Send>(
    link: &Placed<'_, T>,
    table: &OutputRelocations,
    out: &mut [u8],
    write: impl Fn(&Placed<'_, T>, SectionId, &mut [R]) + Sync,
) {
    let Ok(mut rest) = <[R]>::mut_from_bytes(out) else { return };
    let items = &link.layout.chunks[table.target.index()].items;
    let mut jobs = Vec::with_capacity(items.len());
    for (&item, &count) in items.iter().zip(&table.counts) {
        let Some((own, tail)) = std::mem::take(&mut rest).split_at_mut_checked(count as usize) else {
            return;
        };
        rest = tail;
        if count > 0 {
            jobs.push((item, own));
        }
    }
    jobs.into_par_iter().for_each(|(item, own)| write(link, item, own));
}
