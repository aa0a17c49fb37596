//! `.eh_frame` of the output: the kept records of all inputs, and the zero word that ends them.

use super::synthesis::{Create, Grow, Size, Synthesis, Write, bytes};
use crate::arch::Target;
use crate::elf::consts as elf;
use crate::frames::eh_frame::Fde;
use crate::frames::{Frames, KeptRecord};
use crate::ids::FileId;
use crate::phase::{Geometry, Inputs, Live};
use crate::region::Region;
use crate::relocs::apply::apply_list;
use crate::synth::plt_cfi;
use crate::tables::section::{Kind, SyntheticSection};
use parallel::IntoParallel;
use zerocopy::byteorder::U32;

/// Size in bytes of the zero word that ends the list of records.
const TERMINATOR: u64 = 4;

/// A batch of files is full after so many bytes. One job writes the records of a batch.
const BATCH: u64 = 128 << 10;

/// `.eh_frame`.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| section(link, link.frames).into()),
        size: Size::Numbered(|link| {
            let kept = !link.kept_frames.files.is_empty();
            bytes(if kept { size(link) + plt_cfi::size(link) } else { 0 })
        }),
        grow: Grow::Never,
        write: Write::Jobs(|link, section, out| {
            write(link, link.section_address(section.id), out, |place| {
                let record = place.record;
                let object = &link.objects[place.file.index()];
                let (index, start) = (record.section, record.input);
                apply_list(link, object, index, record.relocations, start, place.address, place.out);
            });
        }),
    }
}

/// The section, if any input has records. Under `-r`, inputs stay sections of their own.
pub fn section<'a, T: Target>(
    link: &Inputs<'a, T>,
    frames: &Frames<'a, T::E>,
) -> Option<SyntheticSection<'a>> {
    if link.config.is_relocatable() || frames.files.iter().all(|file| file.sections.is_empty()) {
        return None;
    }
    // If the dynamic linker relocates records, they must be writable.
    let is_writable = |header: &crate::elf::Shdr<T::E>| header.sh_flags.get() & elf::SHF_WRITE != 0;
    let writable = link.objects.iter().zip(&frames.files).any(|(object, file)| {
        file.sections
            .iter()
            .any(|section| object.headers.get(section.index as usize).is_some_and(is_writable))
    });
    let flags = elf::SHF_ALLOC | if writable { elf::SHF_WRITE } else { 0 };
    Some(SyntheticSection::new(Kind::EhFrame, b".eh_frame", elf::SHT_PROGBITS, flags, 8))
}

/// The size in bytes, without the records of [`plt_cfi`], which stand behind those of the inputs.
pub fn size<T: Target>(link: &Live<'_, T>) -> u64 {
    link.kept_frames.size + if link.frames.has_terminator { TERMINATOR } else { 0 }
}

/// A record to relocate, with its bytes copied and its CIE pointer adjusted.
pub struct RelocateRecord<'r, 'o, T: Target> {
    /// The object that it comes from.
    pub file: FileId,
    /// The record. The offsets of its relocations count from the start of the input section, so
    /// [`KeptRecord::input`] must be subtracted from them.
    pub record: &'r KeptRecord<'r, T::E>,
    /// Address of its first byte.
    pub address: u64,
    /// Its bytes in the output.
    pub out: &'o mut [u8],
}

/// Writes the section, which has [`size`] bytes, at `address`. `relocate` applies the relocations of one
/// record.
pub fn write<T: Target>(
    link: &Geometry<'_, T>,
    address: u64,
    mut out: Region<'_>,
    relocate: impl Fn(RelocateRecord<'_, '_, T>) + Sync,
) {
    let files = &link.kept_frames.files;
    let mut batches = Vec::new();
    let (mut first, mut size) = (0, 0u64);
    for (file, kept) in files.iter().enumerate() {
        size += u64::from(kept.size);
        if size >= BATCH || file + 1 == files.len() {
            batches.push((first..file + 1, out.take_first(size)));
            (first, size) = (file + 1, 0);
        }
    }
    let of_plts = plt_cfi::size(link);
    out.take_first(of_plts)
        .fill(|out| plt_cfi::write(link, address.wrapping_add(link.kept_frames.size), out));
    out.fill(|out| out.fill(0));
    batches.into_par_iter().for_each(|(batch, region)| {
        region.fill_all(|mut rest, _| {
            for file in batch {
                let part = rest.split_off_mut(..files[file].size as usize).unwrap_or_default();
                write_file(link, FileId::from_index(file), address, part, &relocate);
            }
        });
    });
}

fn write_file<T: Target>(
    link: &Geometry<'_, T>,
    file: FileId,
    address: u64,
    mut rest: &mut [u8],
    relocate: &(impl Fn(RelocateRecord<'_, '_, T>) + Sync),
) {
    let frames = &link.frames.files[file.index()];
    let kept = &link.kept_frames.files[file.index()];
    // If an FDE is in the output, so is its CIE, or an equal CIE that leads it.
    let place_of_cie = |fde: &Fde| {
        let (leader_file, leader) = kept.cies[fde.cie as usize].leader;
        let leader_file = &link.kept_frames.files[leader_file.index()];
        Some(leader_file.base + u64::from(leader_file.cies[leader as usize].output?.number()))
    };
    kept.all_records(frames).for_each(|record| {
        let (out, behind) = std::mem::take(&mut rest).split_at_mut(record.bytes.len());
        rest = behind;
        out.copy_from_slice(record.bytes);
        if let Some(cie) = record.fde.and_then(place_of_cie) {
            let pointer = if out.starts_with(&[0xff; 4]) { 12 } else { 4 };
            let distance = (record.output + pointer).wrapping_sub(cie) as u32;
            let field = &mut out[pointer as usize..pointer as usize + 4];
            field.copy_from_slice(&U32::<T::E>::new(distance).to_bytes());
        }
        let address = address.wrapping_add(record.output);
        relocate(RelocateRecord { file, record: &record, address, out });
    });
}
