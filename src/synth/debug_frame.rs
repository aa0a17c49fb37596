//! `.debug_frame` with the FDEs that the unwind table replaces (`--unwind-debug-frame=keep`; DWARF 5, 6.4.1).
//!
//! No program needs it, so it is not loaded, and `strip` takes it. Debuggers and valgrind read it together
//! with the FDEs that stay in `.eh_frame`. Instructions are copied as they are; the rest of a record is
//! simpler than in `.eh_frame`: addresses are absolute, and there is nothing about exceptions.

use super::eh_frame_hdr::code_address;
use super::synthesis::{Create, Grow, Size, Synthesis, Write, bytes};
use super::unwind_table::replaces;
use crate::arch::Target;
use crate::cli::Strip;
use crate::elf::consts as elf;
use crate::frames::FrameSection;
use crate::frames::unwind_table::TabledFunction;
use crate::phase::{Live, Placed};
use crate::tables::section::{Kind, SyntheticSection, WORD};
use hashbrown::HashMap;
use sframe_format::derive::{CfiParts, CfiReader};
use zerocopy::byteorder::{U32, U64};

/// Bytes of an FDE before its instructions: length, offset of the CIE, start and size of the code.
const FDE_HEAD: usize = 24;

/// `.debug_frame`.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            let wanted =
                replaces(link) && link.config.unwind.debug_frame && link.config.strip.strip == Strip::None;
            let section =
                SyntheticSection::new(Kind::DebugFrame, b".debug_frame", elf::SHT_PROGBITS, 0, WORD);
            wanted.then_some(section).into()
        }),
        size: Size::Numbered(|link| bytes(for_each(link, |_| {}))),
        grow: Grow::Never,
        write: Write::Bytes(|link, section, out| {
            let before = offset_in_output(link, section.id);
            for_each(link, |record| write_record(link, before, &record, out));
        }),
    }
}

/// Where the section starts in its output section, in which inputs may stand before it.
fn offset_in_output<T: Target>(link: &Placed<'_, T>, id: crate::ids::SectionId) -> u64 {
    let start = link.layout.chunk_with(id).map_or(0, |chunk| link.layout.chunks[chunk.index()].address);
    link.section_address(id).wrapping_sub(start)
}

/// A record, by its offset in the section.
struct Record<'r> {
    offset: u64,
    size: usize,
    parts: &'r CfiParts,
    instructions: &'r [u8],
    /// The function of an FDE, and the offset of its CIE.
    fde: Option<(&'r TabledFunction, u64)>,
}

/// What makes CIEs equal.
type CieKey<'r> = (u64, i64, u16, bool, bool, &'r [u8]);

/// Calls `visit` for each record, in order. Returns the size of all.
fn for_each<T: Target>(link: &Live<'_, T>, mut visit: impl FnMut(Record<'_>)) -> u64 {
    let Some(table) = link.unwind_table.as_ref().filter(|table| table.replaces) else { return 0 };
    let mut at = 0;
    let mut known: HashMap<CieKey<'_>, u64> = HashMap::new();
    for (file, rows) in table.of_file.iter().enumerate() {
        let frames = &link.frames.files[file];
        let mut reader: Option<(&FrameSection<'_, T::E>, CfiReader<'_>)> = None;
        for function in &table.functions[rows.start as usize..rows.end as usize] {
            let section = frames.section_of_fde(function.fde);
            let (_, reader) = match &mut reader {
                Some(reader) if reader.0.index == section.index => reader,
                other => other.insert((section, CfiReader::new(T::SFRAME_ABI, section.bytes, 0))),
            };
            let Some(parts) = reader.parts(frames.fdes[function.fde as usize].offset as usize) else {
                continue;
            };
            let initial = &section.bytes[parts.initial.clone()];
            let CfiParts { code_alignment, data_alignment, return_address, signal, key_b, .. } = parts;
            let key = (code_alignment, data_alignment, return_address, signal, key_b, initial);
            let cie = *known.entry(key).or_insert_with(|| {
                let head = cie_head::<T>(&parts).len();
                let record = Record {
                    offset: at,
                    size: padded(head + initial.len()),
                    parts: &parts,
                    instructions: initial,
                    fde: None,
                };
                let offset = at;
                at += record.size as u64;
                visit(record);
                offset
            });
            let instructions = &section.bytes[parts.instructions.clone()];
            let size = padded(FDE_HEAD + instructions.len());
            visit(Record { offset: at, size, parts: &parts, instructions, fde: Some((function, cie)) });
            at += size as u64;
        }
    }
    at
}

/// The size of a record with zeros behind its instructions, which are instructions without effect.
fn padded(size: usize) -> usize {
    size.next_multiple_of(WORD as usize)
}

/// A CIE's bytes before its instructions, without its length.
fn cie_head<T: Target>(parts: &CfiParts) -> Vec<u8> {
    let mut head = vec![0; 4];
    head.extend(U32::<T::E>::new(u32::MAX).to_bytes());
    head.push(1);
    head.extend(parts.signal.then_some(b'S'));
    head.extend(parts.key_b.then_some(b'B'));
    head.push(0);
    let mut unsigned = parts.code_alignment;
    while unsigned >= 0x80 {
        head.push(unsigned as u8 | 0x80);
        unsigned >>= 7;
    }
    head.push(unsigned as u8);
    let mut signed = parts.data_alignment;
    while !(-0x40..0x40).contains(&signed) {
        head.push(signed as u8 | 0x80);
        signed >>= 7;
    }
    head.push(signed as u8 & 0x7f);
    // Version 1 has a byte for it. Functions of the table have it in the ABI's column, below 64.
    head.push(parts.return_address as u8);
    head
}

/// Writes a record. `before` is what stands before the section in its output section.
fn write_record<T: Target>(link: &Placed<'_, T>, before: u64, record: &Record<'_>, out: &mut [u8]) {
    let Some(room) = out.get_mut(record.offset as usize..).and_then(|rest| rest.get_mut(..record.size))
    else {
        return;
    };
    let head = match record.fde {
        None => cie_head::<T>(record.parts),
        Some((function, cie)) => {
            let frames = &link.frames.files[function.file.index()];
            let fde = &frames.fdes[function.fde as usize];
            let section = frames.section_of_fde(function.fde);
            let relocations =
                &section.relocations[fde.first_relocation as usize..fde.end_relocation as usize];
            let start = code_address(link, function.file, relocations).unwrap_or(0);
            let mut head = vec![0; 4];
            head.extend(U32::<T::E>::new(before.wrapping_add(cie) as u32).to_bytes());
            head.extend(U64::<T::E>::new(start).to_bytes());
            head.extend(U64::<T::E>::new(record.parts.size).to_bytes());
            head
        }
    };
    room.fill(0);
    room[..head.len()].copy_from_slice(&head);
    room[head.len()..head.len() + record.instructions.len()].copy_from_slice(record.instructions);
    room[..4].copy_from_slice(&U32::<T::E>::new(record.size as u32 - 4).to_bytes());
}
