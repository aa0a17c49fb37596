//! `--sframe-index=overlay`: a sorted index in front of the blobs of `.sframe`, which stay as the assembler
//! made them.
//!
//! ```text
//! .sframe:  | V3 header, one entry for each function | blob | blob | blob |
//!                             |                       ^
//!                             +---- refers to rows ---+
//! ```
//!
//! A reader that looks at one header sees one sorted table of everything. The index is a section of the
//! linker's own, placed before all inputs, and its entries refer to the rows in the blobs behind it
//! ([`write_overlay`]). Its size is known when liveness is frozen. The linker writes it after the rest of
//! `.sframe`, because it reads the starts of functions from the blobs in the output.
//!
//! The index cannot refer to inputs of other versions. The linker warns of these and places them after the
//! others.

use crate::arch::Target;
use crate::chunks::Chunk;
use crate::cli::{Config, SFrameIndex};
use crate::diag::{Code, Diagnostic, Location};
use crate::elf::consts as elf;
use crate::ids::{ChunkId, SectionId};
use crate::phase::{Contents, Image, Scanned, SectionState};
use crate::sframe::abi;
use crate::sframe::collect::Chosen;
use crate::tables::section::{Kind, SyntheticSection};
use parallel::ParallelSlice;
use sframe_format::write::{Options, overlay_size, takes, write_overlay};
use sframe_format::{Piece, SHT_GNU_SFRAME, Section, Version};

/// Whether the link has such an index.
pub fn is_wanted(config: &Config) -> bool {
    config.sframe.index == Some(SFrameIndex::Overlay)
}

/// The section for the index.
pub fn section(config: &Config) -> Option<SyntheticSection<'static>> {
    let flags = if config.sframe.alloc { elf::SHF_ALLOC } else { 0 };
    let section = SyntheticSection::new(Kind::SFrameOverlay, b".sframe", SHT_GNU_SFRAME, flags, 8);
    is_wanted(config).then_some(section)
}

/// Number of functions that the index takes from an input. `None`: the input has anything but sound V3 blobs
/// for this machine.
fn functions_in<T: Target>(bytes: &[u8]) -> Option<u64> {
    let options = Options::new(abi::<T>());
    Section::new(bytes, 0)
        .strict()
        .pieces()
        .map(|piece| match piece {
            Piece::Blob(blob) if takes(options, &blob) => Some(u64::from(blob.header().fde_count)),
            _ => None,
        })
        .sum()
}

/// Whether the index takes the functions of a section in `.sframe`. It takes those of the linker's own
/// section and of inputs that are sound V3.
pub fn takes_input<T: Target>(link: &Contents<'_, T>, id: SectionId) -> bool {
    let Some((object, index)) = link.locate(id) else { return true };
    if link.corrupt_sframes.binary_search(&id).is_ok() {
        return false;
    }
    object.section_bytes(index as usize).is_ok_and(|bytes| functions_in::<T>(bytes).is_some())
}

/// Size of the index in bytes, with the functions of all kept inputs and of the linker's own blob.
pub fn size<T: Target>(link: &Scanned<'_, T>, chosen: &Chosen) -> u64 {
    if !is_wanted(link.config) {
        return 0;
    }
    let kept = |id: SectionId| link.sections.is_alive(id) && !link.sections.is(id, SectionState::ABSORBED);
    let inputs: u64 = link
        .objects
        .par_iter()
        .flat_map_iter(|object| {
            let kept = object.sframes.iter().filter(move |&&index| kept(object.section_id(index)));
            kept.filter_map(|&index| functions_in::<T>(object.section_bytes(index as usize).ok()?))
        })
        .sum();
    size_for(inputs + own_functions(chosen))
}

fn own_functions(chosen: &Chosen) -> u64 {
    chosen.table.as_ref().map_or(0, |table| table.functions.len() as u64)
}

fn size_for(functions: u64) -> u64 {
    if functions == 0 { 0 } else { (overlay_size(functions as usize) as u64).next_multiple_of(8) }
}

/// The size in bytes with `added` more functions: of thunks that the layout has made.
pub fn size_with<T: Target>(link: &Contents<'_, T>, added: usize) -> Option<u64> {
    let row = link.synthetics.find(Kind::SFrameOverlay)?;
    Some(match link.synthetics.section(row).size {
        0 => size_for(added as u64),
        size => size + (overlay_size(added) - overlay_size(0)) as u64,
    })
}

/// Warns of the kept inputs that the index cannot take.
pub fn report_others<T: Target>(link: &Scanned<'_, T>) {
    if !is_wanted(link.config) {
        return;
    }
    for object in &link.objects {
        for &index in &object.sframes {
            let id = object.section_id(index);
            let bytes = object.section_bytes(index as usize).unwrap_or_default();
            let kept = link.sections.is_alive(id) && !link.sections.is(id, SectionState::ABSORBED);
            if !kept || bytes.is_empty() || functions_in::<T>(bytes).is_some() {
                continue;
            }
            let (found, place) = describe(bytes);
            link.sink.report(
                Diagnostic::warning(Code::SFrameNote, format!("an overlay does not index {found}"))
                    .at(Location::Section {
                        file: object.name.to_string(),
                        section: object.section_name_lossy(index as usize),
                        offset: 0,
                    })
                    .note(place)
                    .help("--sframe-index=v3 takes versions 1 to 3 and light units")
                    .ordered(object.id.0, index, 0),
            );
        }
    }
}

/// Describes an input without an index, and says where it goes.
fn describe(bytes: &[u8]) -> (String, &'static str) {
    const BEHIND: &str = "the section comes after the indexed ones in .sframe";
    match Section::new(bytes, 0).blobs().next() {
        Some(blob) if blob.header().is_light() => {
            ("light SFrame units".to_owned(), "they stay in their own section, .sframe_light")
        }
        Some(blob) if blob.header().version == Version::V3 => {
            ("SFrame V3 that is malformed or for another machine".to_owned(), BEHIND)
        }
        Some(blob) => (format!("SFrame {}", blob.header().version), BEHIND),
        None => ("bytes that are not SFrame of a known version".to_owned(), BEHIND),
    }
}

/// Writes the index. All else in its output section must be written.
pub fn finish<T: Target>(image: &Image<'_, T>, file: &mut [u8]) {
    let Some(row) = image.synthetics.find(Kind::SFrameOverlay) else { return };
    let id = image.synthetic_id(row);
    let Some(chunk) = image.layout.chunk_with(id) else { return };
    let room = image.section_size(id);
    let (section, address) =
        (&image.file_sections[chunk.index()], image.layout.chunks[chunk.index()].address);
    let range = section.offset as usize..(section.offset + section.file_size()) as usize;
    let Some(bytes) = file.get_mut(range).filter(|_| room > 0) else { return };
    let report = |what: String| {
        image.sink.report(
            Diagnostic::error(Code::LayoutError, what).help("--sframe-index=v3 makes a table of its own"),
        );
    };
    if image.layout.offset_of(id) != 0 || !is_whole(&image.layout.chunks[chunk.index()]) {
        let name = String::from_utf8_lossy(section.name);
        return report(format!(
            "the SFrame overlay is not at the start of {name}, or {name} contains other data than SFrame"
        ));
    }
    report_elsewhere(image, chunk);
    // Inputs that the index cannot take come after the others, so a prefix holds all that it can take.
    let items = image.layout.chunks[chunk.index()].items.iter().filter(|&&item| takes_input(image, item));
    let ends = items.map(|&item| image.layout.offset_of(item) + image.section_size(item));
    let covered = ends.max().and_then(|end| bytes.get_mut(..end as usize));
    let Some(bytes) = covered else { return };
    if let Err(error) = write_overlay(Options::new(abi::<T>()), bytes, address, room as usize) {
        report(format!("SFrame overlay: {}", error.kind));
    }
}

/// Warns of inputs that a script has put into other output sections than `covered`, that of the index.
fn report_elsewhere<T: Target>(image: &Image<'_, T>, covered: ChunkId) {
    for object in &image.objects {
        for &index in &object.sframes {
            let id = object.section_id(index);
            let Some(chunk) = image.layout.chunk_with(id).filter(|&chunk| chunk != covered) else {
                continue;
            };
            if image.section_size(id) == 0 || !takes_input(image, id) {
                continue;
            }
            let name = |chunk: ChunkId| String::from_utf8_lossy(image.layout.chunks[chunk.index()].name);
            let finding = format!("the overlay does not index SFrame V3 in output section {}", name(chunk));
            let place = Location::Section {
                file: object.name.to_string(),
                section: object.section_name_lossy(index as usize),
                offset: 0,
            };
            let help =
                format!("put the section after the overlay in {}, or use --sframe-index=v3", name(covered));
            image.sink.report(Diagnostic::warning(Code::SFrameNote, finding).at(place).help(help).ordered(
                object.id.0,
                index,
                0,
            ));
        }
    }
}

/// Whether an output section holds nothing but SFrame sections.
fn is_whole(chunk: &Chunk<'_>) -> bool {
    chunk.data.is_empty() && chunk.sh_type == SHT_GNU_SFRAME
}
