//! `.debug_frame` with the FDEs that the unwind table replaces (`--unwind-debug-frame=keep`; DWARF 5, 6.4.1).
//!
//! No program needs it, so it is not loaded, and `strip` takes it. Debuggers and valgrind read it together
//! with the FDEs that stay in `.eh_frame`. Instructions are copied as they are; the rest of a record is
//! simpler than in `.eh_frame`: addresses are absolute, and there is nothing about exceptions.

use super::eh_frame_hdr::code_address;
use super::synthesis::{Create, Grow, Size, Synthesis, Write, bytes};
use super::unwind_table::{code_of, replaces};
use crate::arch::Target;
use crate::cli::Strip;
use crate::elf::consts as elf;
use crate::frames::UnwindTable;
use crate::frames::unwind_table::{NOWHERE, TabledFunction};
use crate::ids::FileId;
use crate::phase::{Live, Placed};
use crate::region::Region;
use crate::tables::section::{Kind, SyntheticSection, WORD};
use hashbrown::HashMap;
use parallel::IntoParallel;
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
/// The number of FDEs that one job writes.
const FDES_PER_JOB: usize = 1 << 13;
/// The least number of objects whose CIEs one job looks for.
const FILES_PER_JOB: usize = 32;

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
        size: Size::Numbered(|link| bytes(Plan::new(link).map_or(0, |plan| plan.size))),
        grow: Grow::Never,
        write: Write::Jobs(|link, section, out| {
            if let Some(plan) = Plan::new(link) {
                plan.write(link, offset_in_output(link, section.id), out);
            }
        }),
    }
}

/// Where the section starts in its output section, in which inputs may stand before it.
fn offset_in_output<T: Target>(link: &Placed<'_, T>, id: crate::ids::SectionId) -> u64 {
    let start = link.layout.chunk_with(id).map_or(0, |chunk| link.layout.chunks[chunk.index()].address);
    link.section_address(id).wrapping_sub(start)
}

/// What makes CIEs equal: factors, the column of the return address, flags and instructions.
type CieKey<'r> = (u64, i64, u16, bool, bool, &'r [u8]);

/// The records of the section: the different CIEs, and behind them the FDEs in the order of the table's
/// functions.
struct Plan<'r> {
    table: &'r UnwindTable,
    /// The CIEs and their instructions.
    cies: Vec<(CfiParts, &'r [u8])>,
    /// The offset of the CIE that stands for a CIE of an object.
    cie_of: HashMap<(FileId, u32), u64>,
    /// Bytes of the CIEs, and of the section.
    cies_size: u64,
    size: u64,
}

impl<'r> Plan<'r> {
    /// `None`: no FDE left `.eh_frame`.
    fn new<T: Target>(link: &'r Live<'_, T>) -> Option<Self> {
        let table = link.unwind_table.as_ref().filter(|table| table.replaces)?;
        let files = (0..link.frames.files.len()).into_par_iter().with_min_len(FILES_PER_JOB);
        let used: Vec<UsedCies> = files.map(|file| UsedCies::new(table, FileId::from_index(file))).collect();
        let (cies, cie_of) = (Vec::new(), HashMap::new());
        let mut plan = Self { table, cies, cie_of, cies_size: 0, size: 0 };
        let mut offsets: HashMap<CieKey<'r>, u64> = HashMap::new();
        for (file, used) in used.iter().enumerate() {
            plan.size += used.fdes_size;
            for &(cie, function) in &used.cies {
                plan.add_cie(link, (FileId::from_index(file), cie), &table.functions[function], &mut offsets);
            }
        }
        plan.size += plan.cies_size;
        Some(plan)
    }

    /// Adds the CIE of a function, unless an equal one is there.
    fn add_cie<T: Target>(
        &mut self,
        link: &'r Live<'_, T>,
        cie: (FileId, u32),
        function: &TabledFunction,
        offsets: &mut HashMap<CieKey<'r>, u64>,
    ) {
        let frames = &link.frames.files[function.file.index()];
        let bytes = frames.section_of_fde(function.fde).bytes;
        let mut reader = CfiReader::new(T::SFRAME_ABI, bytes, 0);
        let Some(parts) = reader.parts(frames.fdes[function.fde as usize].offset as usize) else { return };
        let initial = &bytes[parts.initial.clone()];
        let offset = *offsets.entry(key(&parts, initial)).or_insert_with(|| {
            let offset = self.cies_size;
            self.cies_size += cie_size::<T>(&parts, initial);
            self.cies.push((parts, initial));
            offset
        });
        self.cie_of.insert(cie, offset);
    }

    /// Writes the section. `before` is what stands before it in its output section.
    fn write<T: Target>(&self, link: &Placed<'_, T>, before: u64, mut out: Region<'_>) {
        out.take_first(self.cies_size).fill(|mut out| {
            for (parts, initial) in &self.cies {
                let Some(room) = out.split_off_mut(..cie_size::<T>(parts, initial) as usize) else { return };
                write_cie::<T>(parts, initial, room);
            }
        });
        let code = code_of(link, self.table);
        let jobs = self.table.functions.chunks(FDES_PER_JOB).zip((0..).step_by(FDES_PER_JOB));
        let jobs = jobs.map(|(functions, first)| {
            let size = functions.iter().map(fde_size).sum();
            ((first, functions), out.take_first(size))
        });
        let jobs: Vec<((usize, &[TabledFunction]), Region<'_>)> = jobs.collect();
        jobs.into_par_iter().for_each(|((first, functions), region)| {
            region.fill(|mut out| {
                // FDEs of one CIE follow each other.
                let mut last = None;
                for (place, function) in (first..).zip(functions) {
                    let Some(room) = out.split_off_mut(..fde_size(function) as usize) else { return };
                    let key = (function.file, function.cie);
                    let offset = match last {
                        Some((known, offset)) if known == key => offset,
                        _ => self.cie_of.get(&key).copied().unwrap_or(0),
                    };
                    last = Some((key, offset));
                    let start = code.as_ref().map(|code| code[place]);
                    write_fde(link, before.wrapping_add(offset), (function, start), room);
                }
            });
        });
    }
}

/// What an object has for the section.
struct UsedCies {
    /// Bytes of its FDEs in the section.
    fdes_size: u64,
    /// The rows of their CIEs, each with the place of the first function in the table that has it.
    cies: Vec<(u32, usize)>,
}

impl UsedCies {
    fn new(table: &UnwindTable, file: FileId) -> Self {
        let rows = table.rows_of(file);
        let (mut fdes_size, mut last) = (0, None);
        let mut cies: Vec<(u32, usize)> = Vec::new();
        for (place, function) in rows.clone().zip(&table.functions[rows]) {
            fdes_size += fde_size(function);
            // FDEs of one CIE follow each other.
            if last.replace(function.cie) != Some(function.cie) {
                cies.push((function.cie, place));
            }
        }
        cies.sort_unstable();
        cies.dedup_by_key(|&mut (cie, _)| cie);
        cies.sort_unstable_by_key(|&(_, place)| place);
        Self { fdes_size, cies }
    }
}

fn key<'r>(parts: &CfiParts, initial: &'r [u8]) -> CieKey<'r> {
    let CfiParts { code_alignment, data_alignment, return_address, signal, key_b, .. } = *parts;
    (code_alignment, data_alignment, return_address, signal, key_b, initial)
}

fn cie_size<T: Target>(parts: &CfiParts, initial: &[u8]) -> u64 {
    padded(cie_head::<T>(parts).len() + initial.len())
}

fn fde_size(function: &TabledFunction) -> u64 {
    padded(FDE_HEAD + function.instructions as usize)
}

/// The size of a record with zeros behind its instructions, which are instructions without effect.
fn padded(size: usize) -> u64 {
    (size as u64).next_multiple_of(WORD)
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

/// Writes a CIE into its room.
fn write_cie<T: Target>(parts: &CfiParts, initial: &[u8], room: &mut [u8]) {
    let length = U32::<T::E>::new(room.len() as u32 - 4);
    let head = cie_head::<T>(parts);
    let (room, rest) = room.split_at_mut(head.len());
    room.copy_from_slice(&head);
    room[..4].copy_from_slice(length.as_bytes());
    write_instructions(initial, rest);
}

/// Writes a function's FDE into its room. `cie` is the offset of its CIE in the output section. The address
/// of its code may be known.
fn write_fde<T: Target>(
    link: &Placed<'_, T>,
    cie: u64,
    (function, start): (&TabledFunction, Option<u64>),
    room: &mut [u8],
) {
    let frames = &link.frames.files[function.file.index()];
    let fde = &frames.fdes[function.fde as usize];
    let section = frames.section_of_fde(function.fde);
    let start = match start {
        Some(NOWHERE) => 0,
        Some(start) => start,
        None => code_address(link, function.file, section.relocations_of_fde(fde)).unwrap_or(0),
    };
    let head = FdeHead::<T::E> {
        length: U32::new(room.len() as u32 - 4),
        cie: U32::new(cie as u32),
        start: U64::new(start),
        size: U64::new(function.size.into()),
    };
    let (room, rest) = room.split_at_mut(FDE_HEAD);
    room.copy_from_slice(head.as_bytes());
    let end = (fde.offset + fde.size) as usize;
    write_instructions(&section.bytes[end - function.instructions as usize..end], rest);
}

/// Writes instructions into their room, and zeros into the less than eight bytes behind them.
fn write_instructions(instructions: &[u8], room: &mut [u8]) {
    // The last word at once: to fill its end would take longer than all of the rest.
    match room.last_chunk_mut::<{ WORD as usize }>() {
        Some(last) => *last = [0; WORD as usize],
        None => room.fill(0),
    }
    room[..instructions.len()].copy_from_slice(instructions);
}
