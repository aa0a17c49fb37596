//! `.eh_frame_hdr`: a table of all functions, sorted by address (Linux Standard Base, "Exception Frame
//! Header").
//!
//! A program that throws an exception has to find the FDE of each function on its stack. `.eh_frame` is a
//! list, and a large program has a hundred thousand FDEs. With this table, an unwinder needs 17 steps of a
//! binary search for each.
//!
//! The linker makes the table from the results of the layout, not from the written `.eh_frame`: the
//! relocation of an FDE gives the code's address, symbol plus addend, whatever the pointer encoding. So both
//! sections can be written at the same time.

use super::synthesis::{Create, Grow, Size, Synthesis, Write, bytes};
use crate::arch::Target;
use crate::diag::{Code, Diagnostic, Location};
use crate::elf::Rela;
use crate::elf::consts as elf;
use crate::frames::{Frames, KeptRecord};
use crate::ids::FileId;
use crate::input::object::SymbolPlace;
use crate::phase::{Inputs, Located};
use crate::region::Region;
use crate::relocs::address::of_synthetic;
use crate::symbols::Definition;
use crate::synth::plt_cfi;
use crate::tables::section::{Kind, SyntheticSection};
use parallel::{IntoParallel, ParallelSlice, ParallelSort};
use zerocopy::byteorder::{I32, U32};

/// The size of the header: version, three encodings, pointer to `.eh_frame`, number of rows.
const HEADER: usize = 12;
/// The size of a row: the addresses of a function and of its FDE, both relative to this section.
const ROW: usize = 8;
/// The number of rows that one job writes: few enough that they stay in its cache.
const ROWS_PER_JOB: usize = 1 << 14;
/// `DW_EH_PE_pcrel | DW_EH_PE_sdata4`.
const PCREL_SDATA4: u8 = 0x1b;
/// `DW_EH_PE_udata4`.
const UDATA4: u8 = 0x03;
/// `DW_EH_PE_datarel | DW_EH_PE_sdata4`.
const DATAREL_SDATA4: u8 = 0x3b;

/// `.eh_frame_hdr`.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| section(link, link.frames).into()),
        size: Size::Numbered(|link| bytes(size(link.kept_frames.fdes + plt_cfi::fdes(link)))),
        grow: Grow::Never,
        write: Write::Jobs(|link, section, out| {
            write(link, link.section_address(section.id), of_synthetic(link, Kind::EhFrame), out);
        }),
    }
}

/// The section, if `--eh-frame-hdr` asks for it and the linker could split every `.eh_frame` input into
/// records.
pub fn section<'a, T: Target>(
    link: &Inputs<'a, T>,
    frames: &Frames<'a, T::E>,
) -> Option<SyntheticSection<'a>> {
    let wanted = link.config.dynamic.eh_frame_hdr && !link.config.is_relocatable();
    let possible = !frames.has_whole_sections && frames.files.iter().any(|file| !file.fdes.is_empty());
    (wanted && possible).then(|| {
        SyntheticSection::new(Kind::EhFrameHdr, b".eh_frame_hdr", elf::SHT_PROGBITS, elf::SHF_ALLOC, 4)
    })
}

/// The size in bytes for this many FDEs; 0 if there are none.
fn size(fdes: usize) -> u64 {
    if fdes == 0 { 0 } else { (HEADER + ROW * fdes) as u64 }
}

/// A row before it is written. Both words are in one number, which sorts by code and then by FDE.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Row(u64);

impl Row {
    fn new(code: i32, fde: i32) -> Self {
        let ordered = |word: i32| u64::from(word.cast_unsigned() ^ 1 << 31);
        Row(ordered(code) << 32 | ordered(fde))
    }

    fn code(self) -> i32 {
        ((self.0 >> 32) as u32 ^ 1 << 31).cast_signed()
    }

    fn fde(self) -> i32 {
        (self.0 as u32 ^ 1 << 31).cast_signed()
    }
}

/// The rows of an object.
#[derive(Default)]
struct ObjectRows {
    rows: Vec<Row>,
    /// Rows of FDEs that cover no code. Such a row is written only if no other row has its address.
    empty: Vec<Row>,
    far: Vec<Far>,
}

/// Writes the section. `address` is its own address, and `eh_frame` that of the synthetic `.eh_frame`. If
/// several rows have one address, only the first is written. Then zeros remain at the end.
pub fn write<T: Target>(link: &Located<'_, T>, address: u64, eh_frame: u64, mut out: Region<'_>) {
    if out.len() < HEADER as u64 {
        return;
    }
    let rows = rows(link, address, eh_frame);
    let pointer = near(eh_frame, address.wrapping_add(4));
    if pointer.is_none() {
        link.sink.report(Diagnostic::error(
            Code::EhFrame,
            format!(".eh_frame at {eh_frame:#x} is more than 2 GiB away from .eh_frame_hdr at {address:#x}"),
        ));
    }
    out.take_first(HEADER as u64).fill(|header| {
        header[..4].copy_from_slice(&[1, PCREL_SDATA4, UDATA4, DATAREL_SDATA4]);
        header[4..8].copy_from_slice(&I32::<T::E>::new(pointer.unwrap_or(0)).to_bytes());
        header[8..].copy_from_slice(&U32::<T::E>::new(rows.len() as u32).to_bytes());
    });
    let parts: Vec<(&[Row], Region<'_>)> =
        rows.chunks(ROWS_PER_JOB).map(|rows| (rows, out.take_first((rows.len() * ROW) as u64))).collect();
    parts.into_par_iter().for_each(|(rows, region)| region.fill_all(|out, _| store::<T>(rows, out)));
}

fn store<T: Target>(rows: &[Row], out: &mut [u8]) {
    for (out, row) in out.chunks_exact_mut(ROW).zip(rows) {
        out[..4].copy_from_slice(&I32::<T::E>::new(row.code()).to_bytes());
        out[4..].copy_from_slice(&I32::<T::E>::new(row.fde()).to_bytes());
    }
}

/// All rows, sorted by the address of the code, one for each address.
fn rows<T: Target>(link: &Located<'_, T>, address: u64, eh_frame: u64) -> Vec<Row> {
    let files = link.kept_frames.files.par_iter().zip(&link.frames.files).enumerate();
    let found: Vec<ObjectRows> = files
        .map(|(file, (kept, frames))| {
            let mut found =
                ObjectRows { rows: Vec::with_capacity(frames.fdes.len()), ..ObjectRows::default() };
            kept.all_records(frames).for_each(|record| {
                found.add(link, FileId::from_index(file), &record, address, eh_frame);
            });
            found
        })
        .collect();
    report_far(link, address, found.iter().flat_map(|found| &found.far));
    let mut rows = Vec::with_capacity(link.kept_frames.fdes);
    let first = eh_frame.wrapping_add(link.kept_frames.size);
    // PLTs mostly stand before the code of inputs, so that the list is sorted.
    for (offset, code) in plt_cfi::rows(link) {
        let (code, fde) = (near(code, address), near(first.wrapping_add(offset), address));
        rows.extend(code.zip(fde).map(|(code, fde)| Row::new(code, fde)));
    }
    found.iter().for_each(|found| rows.extend_from_slice(&found.rows));
    sort(&mut rows);
    add_empty(&mut rows, &found);
    rows
}

/// Adds the rows of FDEs that cover no code, where no other row has their address.
fn add_empty(rows: &mut Vec<Row>, found: &[ObjectRows]) {
    let described = |row: &Row| rows.binary_search_by_key(&row.code(), |row| row.code()).is_ok();
    let empty = found.iter().flat_map(|found| &found.empty).copied();
    let empty: Vec<Row> = empty.filter(|row| !described(row)).collect();
    if !empty.is_empty() {
        rows.extend(empty);
        sort(rows);
    }
}

/// Sorts rows. If several have one address, only the first stays.
fn sort(rows: &mut Vec<Row>) {
    // Mostly, functions lie in the order of their objects, and the rows are sorted already.
    if !rows.is_sorted() {
        rows.par_sort_unstable();
    }
    rows.dedup_by_key(|row| row.code());
}

impl ObjectRows {
    /// Takes the row of a record, if it has one. CIEs have none, and neither have FDEs of undefined code.
    fn add<T: Target>(
        &mut self,
        link: &Located<'_, T>,
        file: FileId,
        record: &KeptRecord<'_, T::E>,
        address: u64,
        eh_frame: u64,
    ) {
        let Some((fde, code)) = record.fde.zip(code_address(link, file, record.relocations)) else { return };
        match (near(code, address), near(eh_frame.wrapping_add(record.output), address)) {
            (Some(code), Some(place)) if fde.is_empty => self.empty.push(Row::new(code, place)),
            (Some(code), Some(place)) => self.rows.push(Row::new(code, place)),
            _ => self.far.push(Far { file, section: record.section, offset: record.input, code }),
        }
    }
}

/// An FDE whose code the table cannot reach.
struct Far {
    file: FileId,
    section: u32,
    offset: u64,
    code: u64,
}

/// The distance `target - base`, if it fits into 32 bits.
fn near(target: u64, base: u64) -> Option<i32> {
    i32::try_from(target.wrapping_sub(base) as i64).ok()
}

/// The start of an FDE's code. As its first relocation says, it is symbol plus addend.
pub fn code_address<T: Target>(
    link: &Located<'_, T>,
    file: FileId,
    relocations: &[Rela<T::E>],
) -> Option<u64> {
    let relocation = relocations.first()?;
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

fn report_far<'f, T: Target>(link: &Inputs<'_, T>, address: u64, mut far: impl Iterator<Item = &'f Far>) {
    let Some(first) = far.next() else { return };
    let count = 1 + far.count();
    let object = &link.objects[first.file.index()];
    let section = object.section_name_lossy(first.section as usize);
    let mut diagnostic = Diagnostic::error(
        Code::EhFrame,
        format!("code at {:#x} is more than 2 GiB away from .eh_frame_hdr at {address:#x}", first.code),
    )
    .at(Location::Section { file: object.name.to_string(), section, offset: first.offset })
    .help("--no-eh-frame-hdr links without the table")
    .ordered(first.file.0, first.section, first.offset);
    if count > 1 {
        diagnostic = diagnostic.note(format!("functions out of reach: {count}"));
    }
    link.sink.report(diagnostic);
}
