//! `.eh_frame_hdr`: a table of all functions, sorted by address, that unwinders search
//! (Linux Standard Base, "Exception Frame Header").
//!
//! The table is made from layout's results, not from the written `.eh_frame`: the relocation of an
//! FDE gives the code's address, symbol plus addend, in every pointer encoding. So both sections
//! can be written at the same time.

use crate::arch::Target;
use crate::diag::{Code, Diagnostic, Location};
use crate::elf::consts as elf;
use crate::frames::KeptRecord;
use crate::ids::FileId;
use crate::input::object::SymbolPlace;
use crate::phase::Inputs;
use crate::phase::Made;
use crate::phase::Placed;
use crate::symbols::Definition;
use crate::synth::plt_cfi;
use crate::tables::section::{Kind, SyntheticSection};
use rayon::prelude::*;
use zerocopy::byteorder::{I32, U32};

/// Version, three encodings, pointer to `.eh_frame`, number of rows.
const HEADER: usize = 12;
/// Address of a function and of its FDE, both relative to the table's section.
const ROW: usize = 8;
/// `DW_EH_PE_pcrel | DW_EH_PE_sdata4`.
const PCREL_SDATA4: u8 = 0x1b;
/// `DW_EH_PE_udata4`.
const UDATA4: u8 = 0x03;
/// `DW_EH_PE_datarel | DW_EH_PE_sdata4`.
const DATAREL_SDATA4: u8 = 0x3b;

/// The section, if `--eh-frame-hdr` asks for it and every `.eh_frame` input could be split into
/// records.
pub fn section<'a, T: Target>(link: &Made<'a, T>) -> Option<SyntheticSection<'a>> {
    let wanted = link.config.dynamic.eh_frame_hdr && !link.config.is_relocatable();
    let possible =
        !link.frames.has_whole_sections && link.frames.files.iter().any(|file| !file.fdes.is_empty());
    (wanted && possible).then(|| {
        SyntheticSection::new(Kind::EhFrameHdr, b".eh_frame_hdr", elf::SHT_PROGBITS, elf::SHF_ALLOC.into(), 4)
    })
}

/// Size in bytes for this many FDEs; 0 without any.
pub fn size(fdes: usize) -> u64 {
    if fdes == 0 { 0 } else { (HEADER + ROW * fdes) as u64 }
}

/// A row before it is written. Sorted by code; the first row for an address prevails.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Row {
    code: i32,
    /// Sorts an FDE without code behind one with code at the same address.
    is_empty: bool,
    fde: i32,
}

/// Writes the section: `address` is its own, `eh_frame` that of the synthetic `.eh_frame`. Of
/// several rows for one address only the first is written; zeros remain at the end.
pub fn write<T: Target>(link: &Placed<'_, T>, address: u64, eh_frame: u64, out: &mut [u8]) {
    let Some((header, table)) = out.split_at_mut_checked(HEADER) else { return };
    let found: Vec<Result<Row, Far>> = link
        .kept_frames
        .files
        .par_iter()
        .enumerate()
        .flat_map_iter(|(file, kept)| {
            let records = kept.all_records(&link.frames.files[file]);
            let file = FileId::from_index(file);
            records.filter_map(move |record| row(link, file, &record, address, eh_frame))
        })
        .collect();
    let mut rows = Vec::with_capacity(found.len());
    let first = eh_frame.wrapping_add(link.kept_frames.size);
    for (offset, code) in plt_cfi::rows(link) {
        let (code, fde) = (near(code, address), near(first.wrapping_add(offset), address));
        rows.extend(code.zip(fde).map(|(code, fde)| Row { code, is_empty: false, fde }));
    }
    let mut far = Vec::new();
    for row in found {
        match row {
            Ok(row) => rows.push(row),
            Err(row) => far.push(row),
        }
    }
    report_far(link, address, &far);
    rows.par_sort_unstable();
    rows.dedup_by_key(|row| row.code);
    header[..4].copy_from_slice(&[1, PCREL_SDATA4, UDATA4, DATAREL_SDATA4]);
    let pointer = near(eh_frame, address.wrapping_add(4));
    if pointer.is_none() {
        link.sink.report(Diagnostic::error(
            Code::EhFrame,
            format!(".eh_frame at {eh_frame:#x} is more than 2 GiB away from .eh_frame_hdr at {address:#x}"),
        ));
    }
    header[4..8].copy_from_slice(&I32::<T::E>::new(pointer.unwrap_or(0)).to_bytes());
    header[8..].copy_from_slice(&U32::<T::E>::new(rows.len() as u32).to_bytes());
    let used = table.len().min(rows.len() * ROW);
    let (used, rest) = table.split_at_mut(used);
    used.par_chunks_exact_mut(ROW).zip(&rows).for_each(|(out, row)| {
        out[..4].copy_from_slice(&I32::<T::E>::new(row.code).to_bytes());
        out[4..].copy_from_slice(&I32::<T::E>::new(row.fde).to_bytes());
    });
    rest.fill(0);
}

/// An FDE whose code the table cannot reach.
struct Far {
    file: FileId,
    section: u32,
    offset: u64,
    code: u64,
}

/// `target - base`, if 32 bits hold it.
fn near(target: u64, base: u64) -> Option<i32> {
    i32::try_from(target.wrapping_sub(base) as i64).ok()
}

/// The row of a record; `None` for CIEs and for FDEs of undefined code.
fn row<T: Target>(
    link: &Placed<'_, T>,
    file: FileId,
    record: &KeptRecord<'_, T::E>,
    address: u64,
    eh_frame: u64,
) -> Option<Result<Row, Far>> {
    let fde = record.fde?;
    let code = code_address(link, file, record)?;
    let place = eh_frame.wrapping_add(record.output);
    Some(match (near(code, address), near(place, address)) {
        (Some(code), Some(fde_place)) => Ok(Row { code, is_empty: fde.is_empty, fde: fde_place }),
        _ => Err(Far { file, section: record.section, offset: record.input, code }),
    })
}

/// The start of an FDE's code, as its relocation computes it: symbol plus addend.
fn code_address<T: Target>(link: &Placed<'_, T>, file: FileId, record: &KeptRecord<'_, T::E>) -> Option<u64> {
    let relocation = record.relocations.first()?;
    let object = &link.objects[file.index()];
    let index = relocation.symbol();
    let symbol = match object.symbol_place(index as usize) {
        SymbolPlace::Section(section) => {
            let value = object.symbols.get(index as usize)?.st_value.get();
            link.section_address(object.section_id(section)).wrapping_add(value)
        }
        _ => {
            let id = object.symbol_id(index);
            if link.globals.contains(id) && link.definition(id) == Definition::Undefined {
                return None;
            }
            *link.values.get(id.index())?
        }
    };
    Some(symbol.wrapping_add_signed(relocation.r_addend.get()))
}

fn report_far<T: Target>(link: &Inputs<'_, T>, address: u64, far: &[Far]) {
    let Some(first) = far.first() else { return };
    let object = &link.objects[first.file.index()];
    let section = object.section_name_lossy(first.section as usize);
    let mut diagnostic = Diagnostic::error(
        Code::EhFrame,
        format!("code at {:#x} is more than 2 GiB away from .eh_frame_hdr at {address:#x}", first.code),
    )
    .at(Location::Section { file: object.name.to_string(), section, offset: first.offset })
    .help("--no-eh-frame-hdr links without the table")
    .ordered(first.file.0, first.section, first.offset);
    if far.len() > 1 {
        diagnostic = diagnostic.note(format!("functions out of reach: {}", far.len()));
    }
    link.sink.report(diagnostic);
}
