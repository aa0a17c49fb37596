//! Runs every reader on arbitrary bytes. The fuzz targets and the tests of the crate share these functions.

use sframe_format::compact::{CompactTable, write_table};
use sframe_format::convert::convert as convert_section;
use sframe_format::table::{RuleTable, TableAnswer};
use sframe_format::verify::{Context, verify};
use sframe_format::write::{Encoder, Function, Options};
use sframe_format::{
    Abi, Attributes, Blob, BlobMut, Fde, FileRows, FrameAddress, Match, Module, ModuleId, Registers,
    RuleCache, Section, SectionIndex, UnwindRules, Unwinder, Version,
};

/// The address of the section, and its bytes. The first 8 bytes choose the address, so that some inputs wrap
/// around.
fn split(bytes: &[u8]) -> (u64, &[u8]) {
    match bytes.split_first_chunk() {
        Some((address, rest)) if !rest.is_empty() => (u64::from_le_bytes(*address), rest),
        _ => (0, bytes),
    }
}

/// Reads every row of every blob, leniently and strictly, and verifies.
pub fn read(bytes: &[u8]) {
    let (address, bytes) = split(bytes);
    let section = Section::new(bytes, address);
    let mut end = 0;
    for piece in section.pieces() {
        let (start, length) = match piece {
            sframe_format::Piece::Blob(blob) => (blob.offset(), blob.data().len()),
            sframe_format::Piece::Gap(gap) => (gap.offset, gap.length),
        };
        assert!(start >= end && length > 0);
        end = start + length;
        assert!(end <= bytes.len());
    }
    for blob in section.blobs().chain(section.strict().blobs()) {
        for fde in blob.fdes().take(64) {
            if let Ok(attributes) = blob.attributes(&fde) {
                let _ = blob.rows(&attributes).take(1024).filter_map(Result::err).count();
                assert_copied_as_encoded(&blob, &fde, &attributes);
            }
        }
        let _ = blob.is_ascending();
    }
    for finding in verify(&section, &Context::default()) {
        assert!(!finding.to_string().is_empty());
    }
}

/// Checks that the writer copies exactly the bytes that it would encode.
fn assert_copied_as_encoded(blob: &Blob<'_>, fde: &Fde, attributes: &Attributes) {
    let options = Options::new(blob.header().abi);
    let (mut by_copy, mut by_rows) = (Encoder::new(options), Encoder::new(options));
    let Some((id, _)) = by_copy.copy(blob, fde, attributes) else { return };
    let function = Function::read(blob, fde).expect("copied rows can be read");
    assert_eq!(by_rows.add(&function), Ok(id));
    let bytes = |encoder: &Encoder| {
        let mut bytes = vec![0; encoder.size()];
        encoder.write_relocatable(&[id], false, &mut bytes).expect("the size is right");
        bytes
    };
    assert_eq!(bytes(&by_copy), bytes(&by_rows));
}

/// The largest number of words that a step reads: a signal frame contains all registers.
const MAX_READS: usize = 40;

/// Looks up addresses in and around every function in every possible way, and steps from there.
pub fn look_up(bytes: &[u8]) {
    let (address, bytes) = split(bytes);
    let section = Section::new(bytes, address);
    let index = SectionIndex::new(bytes, address);
    let table = RuleTable::new(&index);
    let rows = FileRows::new(bytes, address);
    let unwinders = [rows.clone(), rows.tabled()].map(|rows| {
        let mut unwinder = Unwinder::new(Abi::Amd64);
        unwinder.follow_frame_pointers(true);
        unwinder.add_module(Module::new(ModuleId(1), 0..u64::MAX, 0, rows));
        unwinder
    });
    let mut cache = RuleCache::<16>::new();
    for blob in section.blobs() {
        for fde in blob.fdes().take(64) {
            for pc in [fde.address, fde.address.wrapping_add(fde.size.into()), fde.address.wrapping_sub(1)] {
                let _ = (blob.lookup(pc), section.lookup(pc));
                table.as_ref().inspect(|table| assert_agrees(table, &index, pc));
                let mut step = |unwinder: &Unwinder<&[u8]>| {
                    let mut registers = Registers::new(0x1000, 0x1010, Some(7)).with_others(&[Some(3); 20]);
                    let mut reads = 0;
                    let mut read = |at: u64| {
                        reads += 1;
                        if at < 0x2000 { Ok(at ^ 0x55) } else { Err(()) }
                    };
                    let at = FrameAddress::InstructionPointer(pc);
                    let caller = unwinder.unwind_frame(at, &mut registers, &mut cache, &mut read);
                    assert!(reads <= MAX_READS, "{reads} words for one step");
                    (caller, registers)
                };
                let [by_section, by_table] = unwinders.each_ref().map(&mut step);
                assert_eq!(by_section, by_table, "{pc:#x}");
            }
        }
    }
    let stack = |at: u64| Ok(at.wrapping_mul(0x9e37_79b9));
    let frames = unwinders[1].iter_frames(address, Registers::new(0, 0, None), &mut cache, stack);
    let _ = frames.take(100).count();
}

/// Checks that a table gives the section's answer.
pub fn assert_agrees(table: &RuleTable, index: &SectionIndex<&[u8]>, pc: u64) {
    let rules =
        |found: Match| UnwindRules { abi: found.abi, signal: found.is_signal(), rules: found.row.rules };
    match table.find(pc) {
        TableAnswer::Row(listed) => {
            assert_eq!(index.lookup(pc).map(|found| found.map(rules)), Ok(Some(listed)), "{pc:#x}");
        }
        TableAnswer::NoRow => assert_eq!(index.lookup(pc), Ok(None), "{pc:#x}"),
        TableAnswer::Elsewhere => {}
    }
}

/// Converts to both versions, and checks that the result reads back as the same rows and converts to itself.
pub fn convert(bytes: &[u8]) {
    let (address, bytes) = split(bytes);
    let section = Section::new(bytes, address);
    let Some(abi) = section.blobs().next().map(|blob| blob.header().abi) else { return };
    for version in [Version::V2, Version::V3] {
        let options = Options::new(abi).version(version);
        let Ok(converted) = convert_section(&section, options, address) else { continue };
        let written = Section::new(&converted.bytes, address).strict();
        let blob = written.blob_at(0).expect("a written blob has a header");
        for fde in blob.fdes() {
            let _ = Function::read(&blob, &fde).expect("written rows can be read");
        }
        let again = convert_section(&written, options, address).expect("it reaches as far as before");
        assert_eq!(again.bytes, converted.bytes);
    }
}

/// Patches every FDE of every blob as a linker does.
pub fn patch(bytes: &[u8]) {
    let (address, bytes) = split(bytes);
    let blobs = Section::new(bytes, address).blobs().map(|blob| (blob.offset(), *blob.header()));
    let blobs: Vec<_> = blobs.collect();
    let mut bytes = bytes.to_vec();
    for (offset, header) in blobs {
        let header_address = address.wrapping_add(offset as u64);
        // A blob's body may contain other headers, which patching changes.
        let mut blob = match BlobMut::parse(&mut bytes[offset..], header_address) {
            _ if header.is_light() => BlobMut::with_header(header, &mut bytes[offset..], header_address),
            Ok(blob) => blob,
            Err(_) => continue,
        };
        blob.make_field_relative();
        blob.set_sorted(false);
        let functions: Vec<u32> = (0..blob.header().fde_count.min(64)).collect();
        for &index in &functions {
            let _ = blob.set_function_start(index, address.wrapping_add(u64::from(index) * 64));
        }
        // Every other function is dead, so that some dead functions share rows with live ones.
        let dead: Vec<u32> = functions.iter().copied().step_by(2).collect();
        let _ = blob.mark_dead(&dead);
        let _ = blob.mark_dead(&functions);
    }
}

/// Reads bytes as a compact table, whole and by look-ups. If they are SFrame, makes a compact table of them
/// and compares the answers.
pub fn compact(bytes: &[u8]) {
    let (address, bytes) = split(bytes);
    if let Ok(table) = CompactTable::parse(bytes, address) {
        let _ = (table.check(), table.verify());
        let near = [address, address.wrapping_add(0x1_0000), 0, u64::MAX];
        let pieces = table.pieces().take(64).map(|piece| piece.address);
        for pc in pieces.chain(near).flat_map(|pc| [pc.wrapping_sub(1), pc, pc.wrapping_add(0x11)]) {
            if let Ok(Some(found)) = table.look_up_whole(pc) {
                assert!(found.rules.others.count() <= 32);
            }
            let Ok(Some(found)) = table.lookup(pc) else { continue };
            let mut registers = Registers::new(0x1000, 0x1010, Some(7));
            let mut read = |at: u64| if at < 0x2000 { Ok(at ^ 0x55) } else { Err(()) };
            let _ = found.step(true, &mut registers, &mut read);
        }
        for piece in table.pieces().take(64) {
            let _ = (piece.rows().count(), piece.size());
        }
    }
    let section = Section::new(bytes, address);
    let Some(abi) = section.blobs().next().map(|blob| blob.header().abi) else { return };
    let Ok(v3) = convert_section(&section, Options::new(abi), address) else { return };
    let index = SectionIndex::new(&v3.bytes[..], address);
    let blob = Blob::parse(&v3.bytes, address).expect("a written blob has a header");
    let functions: Vec<(u64, Function)> =
        blob.fdes().filter_map(|fde| Some((fde.address, Function::read(&blob, &fde).ok()?))).collect();
    let Ok(written) = write_table(abi, address, &functions) else { return };
    if !written.left_out.is_empty() {
        return;
    }
    let table = CompactTable::parse(&written.bytes[..], address).expect("a written table has a header");
    let rules =
        |found: Match| UnwindRules { abi: found.abi, signal: found.is_signal(), rules: found.row.rules };
    for (start, function) in functions.iter().take(64) {
        for pc in [*start, start.wrapping_add(function.size.into()), start.wrapping_sub(1)] {
            let found = table.lookup(pc).expect("a written table is sound").map(|found| found.rules);
            assert_eq!(Ok(found), index.lookup(pc).map(|found| found.map(rules)), "{pc:#x}");
        }
    }
}

/// Runs all functions.
#[allow(dead_code)]
pub fn all(bytes: &[u8]) {
    read(bytes);
    look_up(bytes);
    convert(bytes);
    patch(bytes);
    compact(bytes);
}
