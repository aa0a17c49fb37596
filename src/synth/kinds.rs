//! Tells which file is about which kind of section.

use super::synthesis::{Grow, Synthesis, Write, Written};
use super::*;
use crate::arch::Target;
use crate::ids::SectionId;
use crate::phase::{Geometry, Located, Placed};
use crate::region::{Region, copy_bytes};
use crate::sframe::collect::Chosen;
use crate::tables::section::Kind;

/// How the linker makes, sizes and writes sections of a kind.
pub fn of<T: Target>(kind: Kind) -> Synthesis<T> {
    match kind {
        Kind::PropertyNote => property_note::synthesis(),
        Kind::BuildAttributes => build_attributes::synthesis(),
        Kind::GnuAttributes => attributes::synthesis(),
        Kind::BuildIdNote => notes::build_id(),
        Kind::PackageNote => notes::package(),
        Kind::MemoryTagNote => notes::memory_tags(),
        Kind::Interp => interp::synthesis(),
        Kind::Hash => hash::synthesis(),
        Kind::GnuHash => gnu_hash::synthesis(),
        Kind::DynSym => dynsym::synthesis(),
        Kind::DynStr => dynstr::synthesis(),
        Kind::VerSym => symbol_versions::words(),
        Kind::VerDef => symbol_versions::definitions(),
        Kind::VerNeed => symbol_versions::needs(),
        Kind::RelaDyn => reldyn::rela_dyn(),
        Kind::RelrDyn => relr::synthesis(),
        Kind::SignedRelrDyn => relr::signed(),
        Kind::TaggedGlobals => tagged_globals::synthesis(),
        Kind::Dynamic => dynamic::synthesis(),
        Kind::CopyData => copy::data(),
        Kind::CopyRelro => copy::relro(),
        Kind::RelaPlt => reldyn::rela_plt(),
        Kind::Plt => plt::plt(),
        Kind::PltGot => plt::plt_got(),
        Kind::PltSec => plt::plt_sec(),
        Kind::Got => got::got(),
        Kind::GotPlt => got::got_plt(),
        Kind::EhFrame => eh_frame::synthesis(),
        Kind::EhFrameHdr => eh_frame_hdr::synthesis(),
        Kind::UnwindTable => unwind_table::synthesis(),
        Kind::CodeMark => code_mark::synthesis(),
        Kind::DebugFrame => debug_frame::synthesis(),
        Kind::Comment => comment::synthesis(),
        Kind::DebugLink => debug_link::synthesis(),
        Kind::SFrame => sframe::functions(),
        Kind::SFrameOverlay => sframe::overlay(),
        Kind::GdbIndex => gdb_index::synthesis(),
        Kind::DebugNames => debug_names::synthesis(),
        Kind::Common => common::synthesis(),
        Kind::SymTab => file_tables::symbols(),
        Kind::SymTabShndx => file_tables::section_numbers(),
        Kind::StrTab => file_tables::symbol_names(),
        Kind::ShStrTab => file_tables::section_names(),
        Kind::Merged(_) => merged::synthesis(),
        Kind::Thunks(_) => thunks::synthesis(),
        Kind::OutputRelocations(_) => rela_output::synthesis(),
        Kind::OutputGroup(_) => groups::synthesis(),
    }
}

/// The sizes in bytes that sections need at the present addresses of sections. The last `added` functions of
/// `chosen` are new.
pub fn needed_sizes<T: Target>(
    link: &Geometry<'_, T>,
    chosen: &mut Chosen,
    added: usize,
) -> impl Iterator<Item = (Kind, u64)> {
    Kind::EARLY.iter().filter_map(move |&kind| match of::<T>(kind).grow {
        Grow::Sections(needed) => Some((kind, needed(link)?)),
        Grow::Functions(needed) => Some((kind, needed(link, chosen, added)?)),
        Grow::Never | Grow::Symbols(_) => None,
    })
}

/// The sizes in bytes that sections need at the present addresses of symbols.
pub fn needed_by_symbols<T: Target>(link: &Located<'_, T>) -> Vec<(Kind, u64)> {
    let needed = Kind::EARLY.iter().filter_map(|&kind| match of::<T>(kind).grow {
        Grow::Symbols(needed) => Some((kind, needed(link)?)),
        _ => None,
    });
    needed.collect()
}

/// Writes a section into its place in the output.
pub fn write<T: Target>(link: &Placed<'_, T>, id: SectionId, out: Region<'_>) {
    let section = link.synthetics.section(id.0 - link.first_internal());
    let written = Written { id, number: section.kind.number() };
    match of::<T>(section.kind).write {
        Write::Fixed => out.fill(|out| copy_bytes(section.bytes, out)),
        Write::Nothing | Write::Together => {}
        Write::Bytes(write) => out.fill(|out| write(link, written, out)),
        Write::Jobs(write) => write(link, written, out),
    }
}
