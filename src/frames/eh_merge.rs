//! Which `.eh_frame` records are in the output, and where.
//!
//! FDEs of dead functions go. Of equal CIEs (same bytes, same relocations) the first one that a
//! live FDE needs is in the output, wherever its file is; it leads the others. Records keep the
//! order of the inputs, so a leader always stands before the FDEs that point back at it.

use super::eh_frame::{Cie, DROPPED, FileFrames, is_live};
use crate::arch::Target;
use crate::diag::{Code, Diagnostic};
use crate::ids::{FileId, SymbolId};
use crate::link::Link;
use crate::phase::Inputs;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rayon::prelude::*;
use std::hash::{BuildHasher, Hash, Hasher};

/// Settles the place of every record. Comes when liveness is frozen, before relocations are
/// scanned. Gives the number of FDEs that are in the output.
pub fn assign_offsets<T: Target>(link: &mut Link<'_, T>) -> usize {
    let mut files = std::mem::take(&mut link.frames.files);
    let shared = &*link;
    let needed: Vec<Vec<(u32, u64)>> = files
        .par_iter_mut()
        .enumerate()
        .map(|(file, frames)| mark(shared, FileId::from_index(file), frames))
        .collect();
    elect_leaders(link, &mut files, &needed);
    files.par_iter_mut().for_each(place);
    let mut size = 0u64;
    for frames in &mut files {
        frames.base = size;
        size += u64::from(frames.size);
    }
    let count = files.par_iter().map(|f| f.fdes.iter().filter(|fde| fde.output != DROPPED).count()).sum();
    link.frames.files = files;
    link.frames.size = size;
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
    count
}

/// Marks live FDEs and the CIEs that they need with output offset 0; gives the rows and hashes of
/// these CIEs.
fn mark<T: Target>(link: &Link<'_, T>, file: FileId, frames: &mut FileFrames<'_, T::E>) -> Vec<(u32, u64)> {
    let FileFrames { cies, fdes, .. } = &mut *frames;
    for (row, cie) in cies.iter_mut().enumerate() {
        cie.output = DROPPED;
        cie.leader = (file, row as u32);
    }
    for fde in fdes.iter_mut() {
        fde.output = DROPPED;
        if is_live(&link.sections, fde) {
            fde.output = 0;
            cies[fde.cie as usize].output = 0;
        }
    }
    let needed = frames.cies.iter().enumerate().filter(|(_, cie)| cie.output != DROPPED);
    needed.map(|(row, _)| (row as u32, hash(link, file, frames, row as u32))).collect()
}

/// The relocations of a CIE as values that are the same for equal CIEs of all files.
fn relocations<'f, T: Target>(
    link: &'f Inputs<'_, T>,
    file: FileId,
    frames: &'f FileFrames<'_, T::E>,
    row: u32,
) -> impl Iterator<Item = (u64, u32, SymbolId, i64)> + 'f {
    let cie = frames.cies[row as usize];
    let all = &frames.section_of_cie(row).relocations;
    let object = &link.objects[file.index()];
    all[cie.first_relocation as usize..cie.end_relocation as usize].iter().map(move |relocation| {
        let offset = relocation.r_offset.get() - u64::from(cie.offset);
        (offset, relocation.kind(), object.symbol_id(relocation.symbol()), relocation.r_addend.get())
    })
}

fn contents<'f, E: zerocopy::byteorder::ByteOrder>(frames: &'f FileFrames<'_, E>, row: u32) -> &'f [u8] {
    let Cie { offset, size, .. } = frames.cies[row as usize];
    &frames.section_of_cie(row).bytes[offset as usize..][..size as usize]
}

fn hash<T: Target>(link: &Inputs<'_, T>, file: FileId, frames: &FileFrames<'_, T::E>, row: u32) -> u64 {
    let mut hasher = foldhash::fast::FixedState::with_seed(0xc1e).build_hasher();
    contents(frames, row).hash(&mut hasher);
    relocations(link, file, frames, row).for_each(|relocation| relocation.hash(&mut hasher));
    hasher.finish()
}

/// Gives every needed CIE its leader. One by one: objects have a handful of CIEs each.
fn elect_leaders<T: Target>(
    link: &Inputs<'_, T>,
    files: &mut [FileFrames<'_, T::E>],
    needed: &[Vec<(u32, u64)>],
) {
    let mut leaders: HashTable<(u64, FileId, u32)> = HashTable::new();
    for (file, needed) in needed.iter().enumerate() {
        let file = FileId::from_index(file);
        for &(row, hash) in needed {
            let same = |&(other_hash, other_file, other_row): &(u64, FileId, u32)| {
                other_hash == hash && {
                    let (mine, other) = (&files[file.index()], &files[other_file.index()]);
                    contents(mine, row) == contents(other, other_row)
                        && relocations(link, file, mine, row)
                            .eq(relocations(link, other_file, other, other_row))
                }
            };
            match leaders.entry(hash, same, |entry| entry.0) {
                Entry::Occupied(entry) => {
                    let (_, leader_file, leader_row) = *entry.get();
                    let cie = &mut files[file.index()].cies[row as usize];
                    cie.leader = (leader_file, leader_row);
                    cie.output = DROPPED;
                }
                Entry::Vacant(entry) => {
                    entry.insert((hash, file, row));
                }
            }
        }
    }
}

/// Lists a file's records one behind the other. An object's records are fewer bytes than 2^32:
/// each of its sections is, and the whole is checked when the sum is known.
fn place<E: zerocopy::byteorder::ByteOrder>(frames: &mut FileFrames<'_, E>) {
    let FileFrames { sections, cies, fdes, size, .. } = frames;
    let mut at = 0u32;
    for section in sections {
        let mut cies = cies[section.cies.start as usize..section.cies.end as usize].iter_mut().peekable();
        let fdes = &mut fdes[section.fdes.start as usize..section.fdes.end as usize];
        let mut give = |output: &mut u32, size: u32| {
            if *output != DROPPED {
                *output = at;
                at = at.saturating_add(size);
            }
        };
        for fde in fdes {
            while let Some(cie) = cies.next_if(|cie| cie.offset < fde.offset) {
                give(&mut cie.output, cie.size);
            }
            give(&mut fde.output, fde.size);
        }
    }
    *size = at;
}

impl<E: zerocopy::byteorder::ByteOrder> super::Frames<'_, E> {
    /// Where an offset of an absorbed section went in the synthetic section: with its record, or
    /// with the next one that is there.
    pub fn output_offset(&self, file: FileId, section: u32, offset: u64) -> Option<u64> {
        let frames = self.files.get(file.index())?;
        let position = frames.sections.iter().position(|candidate| candidate.index == section)?;
        let section = &frames.sections[position];
        // The first kept FDE, and the first kept CIE, that ends behind the offset.
        let fdes = &frames.fdes[section.fdes.start as usize..section.fdes.end as usize];
        let first = fdes.partition_point(|fde| u64::from(fde.offset) + u64::from(fde.size) <= offset);
        let fde = fdes[first..].iter().find(|fde| fde.output != DROPPED).map(|fde| (fde.offset, fde.output));
        let cies = &frames.cies[section.cies.start as usize..section.cies.end as usize];
        let first = cies.partition_point(|cie| u64::from(cie.offset) + u64::from(cie.size) <= offset);
        let cie = cies[first..].iter().find(|cie| cie.output != DROPPED).map(|cie| (cie.offset, cie.output));
        if let Some((start, output)) = fde.into_iter().chain(cie).min() {
            return Some(frames.base + u64::from(output) + offset.saturating_sub(start.into()));
        }
        // Behind the last record stands the terminator; the end of the section is the end of
        // what the section became.
        let later = &frames.sections[position + 1..];
        let next = later.iter().flat_map(|section| frames.kept_records(section)).next();
        Some(next.map_or(frames.base + u64::from(frames.size), |record| record.output))
    }
}
