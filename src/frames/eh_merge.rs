//! Chooses the `.eh_frame` records of the output, and places them.
//!
//! The linker drops the FDEs of dead functions. Compilers write nearly the same CIE into every object, so the
//! linker also keeps one of all equal CIEs (same bytes, same relocations): the first that a live FDE needs.
//! It is the *leader* of the others. Records keep the order of the inputs, so a leader always stands before
//! the FDEs that point back at it.

use super::eh_frame::{Cie, Fde, FileFrames, FrameSection, Frames, is_live};
use super::unwind_table::UnwindTable;
use crate::arch::Target;
use crate::diag::{Code, Diagnostic};
use crate::elf::Rela;
use crate::ids::{FileId, RecordOffset, SymbolId};
use crate::phase::{Inputs, Resolved, SectionStates};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use parallel::ParallelSlice;
use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Range;
use zerocopy::byteorder::ByteOrder;

/// The places of records in the output section.
#[derive(Clone, Debug, Default)]
pub struct KeptFrames {
    /// One row for each object.
    pub files: Vec<KeptFile>,
    /// Bytes of all kept records, without the terminator.
    pub size: u64,
    /// Number of FDEs.
    pub fdes: usize,
}

/// The places of one object's records.
#[derive(Clone, Debug, Default)]
pub struct KeptFile {
    /// By row of [`FileFrames::cies`].
    pub cies: Vec<KeptCie>,
    /// Offset from `base`, by row of [`FileFrames::fdes`]. `None`: the output does not contain the FDE.
    pub fdes: Vec<Option<RecordOffset>>,
    /// The rows of the records that the output contains.
    kept_cies: Vec<u32>,
    kept_fdes: Vec<u32>,
    /// Offset of its first record in the linker's `.eh_frame`.
    pub base: u64,
    /// Bytes of its kept records.
    pub size: u32,
}

/// The place of a CIE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptCie {
    /// Offset from its file's base. `None`: it has another leader, or no FDE needs it.
    pub output: Option<RecordOffset>,
    /// File and row of the equal CIE that the output contains. A leader has its own.
    pub leader: (FileId, u32),
}

/// A record that is in the output.
#[derive(Clone, Copy, Debug)]
pub struct KeptRecord<'r, E: ByteOrder> {
    /// Header index of the section it comes from.
    pub section: u32,
    /// Its contents, unrelocated.
    pub bytes: &'r [u8],
    /// Offset in the section that it comes from. An `r_offset` counts from that section's start.
    pub input: u64,
    /// Offset in the linker's `.eh_frame`.
    pub output: u64,
    /// Its relocations, by ascending offset.
    pub relocations: &'r [Rela<E>],
    /// The FDE, or `None` for a CIE.
    pub fde: Option<&'r Fde>,
}

/// Gives every kept record its place. Liveness must be frozen. Records that `table` replaces are not kept.
pub fn assign_offsets<T: Target>(
    link: &Resolved<'_, T>,
    sections: &SectionStates,
    frames: &Frames<'_, T::E>,
    table: Option<&UnwindTable>,
) -> KeptFrames {
    let (mut files, needed): (Vec<KeptFile>, Vec<Vec<(u32, u64)>>) = frames
        .files
        .par_iter()
        .enumerate()
        .map(|(file, frames)| mark(link, sections, FileId::from_index(file), frames, table))
        .unzip();
    elect_leaders(link, &frames.files, &mut files, &needed);
    files.par_iter_mut().zip(&frames.files).for_each(|(kept, frames)| place(frames, kept));
    let mut size = 0u64;
    for kept in &mut files {
        kept.base = size;
        size += u64::from(kept.size);
    }
    let fdes = files.par_iter().map(|kept| kept.fdes.iter().flatten().count()).sum();
    if size > u64::from(u32::MAX) {
        link.sink.report(
            Diagnostic::error(
                Code::EhFrame,
                format!(
                    "{size:#x} bytes of call frame information are too many: FDEs point at CIEs with 32 bits"
                ),
            )
            .help("link fewer objects, or drop call frame information (-fno-asynchronous-unwind-tables)"),
        );
    }
    KeptFrames { files, size, fdes }
}

/// Marks live FDEs and the CIEs that they need with offset 0. Returns the rows and hashes of these CIEs, too.
fn mark<T: Target>(
    link: &Resolved<'_, T>,
    sections: &SectionStates,
    file: FileId,
    frames: &FileFrames<'_, T::E>,
    table: Option<&UnwindTable>,
) -> (KeptFile, Vec<(u32, u64)>) {
    let own = |row: usize| KeptCie { output: None, leader: (file, row as u32) };
    let mut cies: Vec<KeptCie> = (0..frames.cies.len()).map(own).collect();
    let mut replaced = table.map_or(&[][..], |table| table.replaced_of(file)).iter().peekable();
    let mark = |(row, fde): (u32, &Fde)| {
        let is_replaced = replaced.next_if(|function| function.fde == row).is_some();
        if !is_live(sections, fde) || is_replaced {
            return None;
        }
        cies[fde.cie as usize].output = Some(RecordOffset::new(0));
        Some(RecordOffset::new(0))
    };
    let fdes = (0..).zip(&frames.fdes).map(mark).collect();
    let needed = (0..).zip(&cies).filter(|(_, cie)| cie.output.is_some());
    let needed = needed.map(|(row, _)| (row, hash(link, file, frames, row))).collect();
    (KeptFile { cies, fdes, kept_cies: Vec::new(), kept_fdes: Vec::new(), base: 0, size: 0 }, needed)
}

/// The relocations of a CIE in a form that is equal for equal CIEs of different files.
fn relocations<'f, T: Target>(
    link: &'f Inputs<'_, T>,
    file: FileId,
    frames: &'f FileFrames<'_, T::E>,
    row: u32,
) -> impl Iterator<Item = (u64, u32, SymbolId, i64)> + 'f {
    let cie = frames.cies[row as usize];
    let relocations = frames.section_of_cie(row).relocations_of_cie(&cie);
    let object = &link.objects[file.index()];
    relocations.iter().map(move |relocation| {
        let offset = relocation.r_offset.get() - u64::from(cie.offset);
        (offset, relocation.kind(), object.symbol_id(relocation.symbol()), relocation.r_addend.get())
    })
}

fn contents<'f, E: ByteOrder>(frames: &'f FileFrames<'_, E>, row: u32) -> &'f [u8] {
    let Cie { offset, size, .. } = frames.cies[row as usize];
    &frames.section_of_cie(row).bytes[offset as usize..][..size as usize]
}

fn hash<T: Target>(link: &Inputs<'_, T>, file: FileId, frames: &FileFrames<'_, T::E>, row: u32) -> u64 {
    let mut hasher = foldhash::fast::FixedState::with_seed(0xc1e).build_hasher();
    contents(frames, row).hash(&mut hasher);
    relocations(link, file, frames, row).for_each(|relocation| relocation.hash(&mut hasher));
    hasher.finish()
}

/// Gives every needed CIE its leader. This runs serially, because an object has only a handful of CIEs.
fn elect_leaders<T: Target>(
    link: &Inputs<'_, T>,
    frames: &[FileFrames<'_, T::E>],
    files: &mut [KeptFile],
    needed: &[Vec<(u32, u64)>],
) {
    let mut leaders: HashTable<(u64, FileId, u32)> = HashTable::new();
    for (file, needed) in needed.iter().enumerate() {
        let file = FileId::from_index(file);
        for &(row, hash) in needed {
            let same = |&(other_hash, other_file, other_row): &(u64, FileId, u32)| {
                other_hash == hash && {
                    let (mine, other) = (&frames[file.index()], &frames[other_file.index()]);
                    contents(mine, row) == contents(other, other_row)
                        && relocations(link, file, mine, row)
                            .eq(relocations(link, other_file, other, other_row))
                }
            };
            match leaders.entry(hash, same, |entry| entry.0) {
                Entry::Occupied(entry) => {
                    let (_, leader_file, leader_row) = *entry.get();
                    files[file.index()].cies[row as usize] =
                        KeptCie { output: None, leader: (leader_file, leader_row) };
                }
                Entry::Vacant(entry) => {
                    entry.insert((hash, file, row));
                }
            }
        }
    }
}

/// Gives a file's kept records their offsets, one after the other. Offsets saturate: [`assign_offsets`]
/// reports too many records.
fn place<E: ByteOrder>(frames: &FileFrames<'_, E>, kept: &mut KeptFile) {
    let mut at = 0u32;
    let mut give = |output: &mut Option<RecordOffset>, size: u32| {
        if let Some(output) = output {
            *output = RecordOffset::new(at.min(u32::MAX - 1));
            at = at.saturating_add(size);
        }
    };
    for section in &frames.sections {
        let mut cies = (section.cies.start as usize..section.cies.end as usize).peekable();
        for row in section.fdes.start as usize..section.fdes.end as usize {
            let fde = &frames.fdes[row];
            while let Some(cie) = cies.next_if(|&cie| frames.cies[cie].offset < fde.offset) {
                give(&mut kept.cies[cie].output, frames.cies[cie].size);
            }
            give(&mut kept.fdes[row], fde.size);
        }
    }
    kept.size = at;
    let is_kept = |output: &Option<RecordOffset>| output.is_some();
    let cies = (0..).zip(&kept.cies).filter(|(_, cie)| is_kept(&cie.output));
    kept.kept_cies = cies.map(|(row, _)| row).collect();
    let fdes = (0..).zip(&kept.fdes).filter(|(_, fde)| is_kept(fde));
    kept.kept_fdes = fdes.map(|(row, _)| row).collect();
}

impl KeptFile {
    /// The kept records of one section, in order. `frames` are the records of the same object.
    pub fn records<'r, E: ByteOrder>(
        &'r self,
        frames: &'r FileFrames<'_, E>,
        section: &'r FrameSection<'_, E>,
    ) -> impl Iterator<Item = KeptRecord<'r, E>> {
        let kept =
            move |offset: u32, size: u32, relocations: Range<u32>, output: RecordOffset, fde| KeptRecord {
                section: section.index,
                bytes: &section.bytes[offset as usize..][..size as usize],
                input: offset.into(),
                output: self.base + u64::from(output.number()),
                relocations: &section.relocations[relocations.start as usize..relocations.end as usize],
                fde,
            };
        let rows = section.cies.start as usize..section.cies.end as usize;
        let cies = frames.cies[rows.clone()].iter().zip(&self.cies[rows]);
        let mut cies = cies.filter_map(|(cie, kept)| Some((cie, kept.output?))).peekable();
        let rows = section.fdes.start as usize..section.fdes.end as usize;
        let fdes = frames.fdes[rows.clone()].iter().zip(&self.fdes[rows]);
        let mut fdes = fdes.filter_map(|(fde, output)| Some((fde, (*output)?))).peekable();
        std::iter::from_fn(move || {
            let cie_is_next = match (cies.peek(), fdes.peek()) {
                (Some((cie, _)), Some((fde, _))) => cie.offset < fde.offset,
                (cie, _) => cie.is_some(),
            };
            if cie_is_next {
                let (cie, output) = cies.next()?;
                let relocations = cie.first_relocation..cie.end_relocation;
                return Some(kept(cie.offset, cie.size, relocations, output, None));
            }
            let (fde, output) = fdes.next()?;
            let relocations = fde.first_relocation..fde.end_relocation;
            Some(kept(fde.offset, fde.size, relocations, output, Some(fde)))
        })
    }

    /// All kept records of the object, in order.
    pub fn all_records<'r, E: ByteOrder>(
        &'r self,
        frames: &'r FileFrames<'_, E>,
    ) -> impl Iterator<Item = KeptRecord<'r, E>> {
        frames.sections.iter().flat_map(|section| self.records(frames, section))
    }

    /// Maps an offset in one of the object's `.eh_frame` sections to an offset in the linker's `.eh_frame`.
    /// An offset in a kept record moves with it; one in a dropped record moves to the next kept record; one
    /// after the last record moves to the end of the object's records. `None`: the section is not an
    /// `.eh_frame` section of the object.
    pub fn output_offset<E: ByteOrder>(
        &self,
        frames: &FileFrames<'_, E>,
        section: u32,
        offset: u64,
    ) -> Option<u64> {
        let own = frames.section(section)?;
        let FrameSection { fdes, cies, .. } = &frames.sections[own];
        // The first record that ends after the offset, and from there the first kept one.
        let ends_before = |start: u32, size: u32| u64::from(start) + u64::from(size) <= offset;
        let fde = frames.fdes[rows(fdes)].partition_point(|fde| ends_before(fde.offset, fde.size));
        let cie = frames.cies[rows(cies)].partition_point(|cie| ends_before(cie.offset, cie.size));
        let fde = next(&self.kept_fdes, fdes.start + fde as u32).and_then(|row| {
            let section = frames.sections.partition_point(|section| section.fdes.end <= row);
            Some((section, frames.fdes[row as usize].offset, self.fdes[row as usize]?))
        });
        let cie = next(&self.kept_cies, cies.start + cie as u32).and_then(|row| {
            let section = frames.sections.partition_point(|section| section.cies.end <= row);
            Some((section, frames.cies[row as usize].offset, self.cies[row as usize].output?))
        });
        Some(match fde.into_iter().chain(cie).min() {
            Some((section, start, output)) => {
                let inside = if section == own { offset.saturating_sub(start.into()) } else { 0 };
                self.base + u64::from(output.number()) + inside
            }
            // The terminator follows the last record. The end of the input section maps to the end of its
            // output records.
            None => self.base + u64::from(self.size),
        })
    }
}

fn rows(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

/// The first of these ascending rows that is `from` or greater.
fn next(kept: &[u32], from: u32) -> Option<u32> {
    kept.get(kept.partition_point(|&row| row < from)).copied()
}
