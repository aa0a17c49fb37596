//! The bytes of synthetic sections, by kind.

use super::{
    debug_names, dynamic, dynsym, eh_frame, eh_frame_hdr, gdb_index, gnu_hash, got, groups, hash, merged,
    plt, rela_output, reldyn, relr, symbol_versions, thunks,
};
use crate::arch::Target;
use crate::ids::SectionId;
use crate::phase::Placed;
use crate::region::{Region, copy_bytes};
use crate::relocs::{address, apply};
use crate::sframe_output;
use crate::tables::section::{Kind, SyntheticSection};

/// Writes a synthetic section into its place in the output.
pub fn write<T: Target>(link: &Placed<'_, T>, id: SectionId, out: Region<'_>) {
    let section = link.synthetics.section(id.0 - link.first_internal());
    match section.kind {
        // These are large, so several jobs make each of them.
        Kind::RelaDyn => reldyn::write(link, out),
        Kind::Merged(number) => merged::write(link, number, out),
        Kind::EhFrame => eh_frame::write(link, link.section_address(id), out, |place| {
            let record = place.record;
            let section = link.objects[place.file.index()].section_id(record.section);
            apply::apply_list(link, section, record.relocations, record.input, place.address, place.out);
        }),
        Kind::EhFrameHdr => {
            let eh_frame = address::of_synthetic(link, Kind::EhFrame);
            eh_frame_hdr::write(link, link.section_address(id), eh_frame, out);
        }
        Kind::SFrame if link.chosen.compact.is_none() => {
            sframe_output::table::write(link, link.section_address(id), out);
        }
        _ => out.fill(|out| write_bytes(link, id, section, out)),
    }
}

fn write_bytes<T: Target>(
    link: &Placed<'_, T>,
    id: SectionId,
    section: &SyntheticSection<'_>,
    out: &mut [u8],
) {
    match section.kind {
        Kind::Got => got::write(link, out),
        Kind::GotPlt => got::write_plt(link, out),
        Kind::Plt => plt::write(link, out),
        Kind::PltSec => plt::write_sec(link, out),
        Kind::PltGot => plt::write_got(link, out),
        Kind::RelaPlt => reldyn::write_plt(link, out),
        Kind::RelrDyn => relr::write(link, out),
        Kind::Thunks(pool) => thunks::write(link, pool, out),
        Kind::GdbIndex => gdb_index::write(link, out),
        Kind::DebugNames => debug_names::write(link, out),
        Kind::SFrame => {
            if let Some(compact) = &link.chosen.compact {
                sframe_output::compact::write(link, compact, link.section_address(id), out);
            }
        }
        // Written when all of `.sframe` is.
        Kind::SFrameOverlay => {}
        Kind::OutputRelocations(row) => rela_output::write(link, row, out),
        Kind::OutputGroup(row) => groups::write(link, row, out),
        // Written together, by `write_output`.
        kind if kind.is_about_file() => {}
        // `SHT_NOBITS`: they take room in memory only.
        Kind::CopyData | Kind::CopyRelro | Kind::Common => {}
        kind if write_dynamic(link, kind, out) => {}
        _ => copy_bytes(section.bytes, out),
    }
}

/// Writes one of the tables for the dynamic linker; false if `kind` is none of them.
fn write_dynamic<T: Target>(link: &Placed<'_, T>, kind: Kind, out: &mut [u8]) -> bool {
    let tables = &link.dynamic;
    match kind {
        Kind::DynSym => dynsym::write(link, out),
        Kind::DynStr => copy_bytes(tables.strings.bytes(), out),
        Kind::Hash => hash::write::<T>(tables, out),
        Kind::GnuHash => gnu_hash::write::<T>(tables, out),
        Kind::VerSym => symbol_versions::write_words::<T>(tables, out),
        Kind::VerDef => symbol_versions::write_defined::<T>(tables, out),
        Kind::VerNeed => symbol_versions::write_needed::<T>(tables, out),
        Kind::Dynamic => dynamic::write(link, out),
        _ => return false,
    }
    true
}
