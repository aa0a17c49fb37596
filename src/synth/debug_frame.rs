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
use zerocopy::byteorder::{ByteOrder, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// An FDE before its instructions.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FdeHead<E: ByteOrder> {
    /// Bytes behind this field.
    length: U32<E>,
    /// Offset of the CIE in the output section.
    cie: U32<E>,
    /// Start and size of the code.
    start: U64<E>,
    size: U64<E>,
}

/// Bytes of an [`FdeHead`].
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

/// What makes CIEs equal. FDEs of one CIE follow each other, so most need no look-up.
type CieKey<'r> = (u64, i64, u16, bool, bool, &'r [u8]);

/// Calls `visit` for each record, in order. Returns the size of all.
fn for_each<T: Target>(link: &Live<'_, T>, mut visit: impl FnMut(Record<'_>)) -> u64 {
    let Some(table) = link.unwind_table.as_ref().filter(|table| table.replaces) else { return 0 };
    let mut at = 0;
    let mut known: HashMap<CieKey<'_>, u64> = HashMap::new();
    for (file, rows) in table.of_file.iter().enumerate() {
        let frames = &link.frames.files[file];
        let mut reader: Option<(&FrameSection<'_, T::E>, CfiReader<'_>)> = None;
        let mut last: Option<(u32, u64)> = None;
        for function in &table.functions[rows.start as usize..rows.end as usize] {
            let section = frames.section_of_fde(function.fde);
            let (_, reader) = match &mut reader {
                Some(reader) if reader.0.index == section.index => reader,
                other => other.insert((section, CfiReader::new(T::SFRAME_ABI, section.bytes, 0))),
            };
            let Some(parts) = reader.parts(frames.fdes[function.fde as usize].offset as usize) else {
                continue;
            };
            let row = frames.fdes[function.fde as usize].cie;
            let cie = match last {
                Some((known, offset)) if known == row => offset,
                _ => {
                    let initial = &section.bytes[parts.initial.clone()];
                    *known.entry(key(&parts, initial)).or_insert_with(|| {
                        let size = padded(cie_head::<T>(&parts).len() + initial.len());
                        visit(Record { offset: at, size, parts: &parts, instructions: initial, fde: None });
                        at += size as u64;
                        at - size as u64
                    })
                }
            };
            last = Some((row, cie));
            let instructions = &section.bytes[parts.instructions.clone()];
            let size = padded(FDE_HEAD + instructions.len());
            visit(Record { offset: at, size, parts: &parts, instructions, fde: Some((function, cie)) });
            at += size as u64;
        }
    }
    at
}

fn key<'r>(parts: &CfiParts, initial: &'r [u8]) -> CieKey<'r> {
    let CfiParts { code_alignment, data_alignment, return_address, signal, key_b, .. } = *parts;
    (code_alignment, data_alignment, return_address, signal, key_b, initial)
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
    let length = U32::<T::E>::new(record.size as u32 - 4);
    let rest = match record.fde {
        None => {
            let head = cie_head::<T>(record.parts);
            let (room, rest) = room.split_at_mut(head.len());
            room.copy_from_slice(&head);
            room[..4].copy_from_slice(length.as_bytes());
            rest
        }
        Some((function, cie)) => {
            let frames = &link.frames.files[function.file.index()];
            let fde = &frames.fdes[function.fde as usize];
            let section = frames.section_of_fde(function.fde);
            let relocations =
                &section.relocations[fde.first_relocation as usize..fde.end_relocation as usize];
            let start = code_address(link, function.file, relocations).unwrap_or(0);
            let cie = U32::new(before.wrapping_add(cie) as u32);
            let head =
                FdeHead::<T::E> { length, cie, start: U64::new(start), size: U64::new(record.parts.size) };
            let (room, rest) = room.split_at_mut(FDE_HEAD);
            room.copy_from_slice(head.as_bytes());
            rest
        }
    };
    let (room, padding) = rest.split_at_mut(record.instructions.len());
    room.copy_from_slice(record.instructions);
    padding.fill(0);
}
