//! Expanded tables say what tables say, at every address, as gimli reads them.

mod support;

use gimli::{BaseAddresses, EhFrame, EhFrameHdr, EndianSlice, NativeEndian, Pointer, UnwindSection};
use sframe_exceptions::expand::{Measured, expand};
use sframe_exceptions::search_table::Pairs;
use sframe_format::cfi::{CfiFunction, Saved};
use sframe_format::compact::{Handler, Personality, write_whole_table};
use sframe_format::{Abi, CompactTable};

use support::{Function, row};

const TABLE: u64 = 0x40_0000;
const RA: (u32, Saved) = (16, Saved::AtCfa(-8));

type Functions = Vec<Function>;

/// Functions with every form of rule, a long one of several entries, and one whose rows repeat.
fn functions() -> Functions {
    let personality = |indirect| Personality { address: TABLE + 0x100, indirect };
    let handler = |indirect, lsda| Some(Handler { personality: personality(indirect), lsda });
    let of = |size, rows, signal| CfiFunction { size, signal, key_b: false, rows };
    let mut arguments = row(3, 32, &[RA]);
    arguments.args_size = 48;
    let many = [(3, Saved::AtCfa(-24)), (12, Saved::In(9)), (15, Saved::Undefined), RA];
    let long =
        (0..200).map(|n| row(3 * n, 8 + 8 * i64::from(n % 7), &[RA, (3, Saved::AtCfa(-24))])).collect();
    let repeats = (0..64).map(|n| row(8 * n, 8 + 8 * i64::from(n % 2), &[RA])).collect();
    vec![
        (0x1000, of(64, vec![row(0, 8, &[RA]), row(4, 16, &[(6, Saved::AtCfa(-16)), RA])], false), None),
        (
            0x1100,
            of(64, vec![row(0, 200, &many), row(9, 8, &[RA])], false),
            handler(true, Some(TABLE + 0x5000)),
        ),
        (0x1200, of(64, vec![row(0, -5, &[(3, Saved::CfaPlus(3)), (12, Saved::AtCfa(13)), RA])], true), None),
        (0x1300, of(64, vec![row(0, 8, &[RA]), arguments], false), handler(false, None)),
        (0x2000, of(0x300, long, false), handler(false, Some(TABLE + 0x6000))),
        (0x3000, of(512, repeats, false), None),
    ]
}

/// Expands a table at this address; the head, the frames, and where they are.
fn expanded(table: &CompactTable<&[u8]>, kept: Option<Pairs>, at: u64) -> (Vec<u8>, usize) {
    let measured = Measured::of(table, kept).unwrap();
    let mut bytes = vec![0xaa; measured.bytes(at)];
    expand(table, kept, &measured, at, &mut bytes).unwrap();
    let distance = u32::from_ne_bytes(bytes[4..8].try_into().unwrap());
    (bytes, 4 + distance as usize)
}

fn compare(functions: &Functions, at: u64) {
    let bytes = write_whole_table(Abi::Amd64, TABLE, functions).unwrap().bytes;
    let table = CompactTable::parse(&bytes[..], TABLE).unwrap();
    let (bytes, frames) = expanded(&table, None, at);
    let bases = BaseAddresses::default().set_eh_frame_hdr(at).set_eh_frame(at + frames as u64);
    let header = EhFrameHdr::from(EndianSlice::new(&bytes, NativeEndian)).parse(&bases, 8).unwrap();
    assert_eq!(header.eh_frame_ptr(), Pointer::Direct(at + frames as u64));
    let search = header.table().unwrap();
    let section = EhFrame::from(EndianSlice::new(&bytes[frames..], NativeEndian));
    for described in functions {
        let (start, function, _) = described;
        for offset in 0..function.size {
            let pc = start + u64::from(offset);
            let fde = search.fde_for_address(&section, &bases, pc, EhFrame::cie_from_offset).unwrap();
            assert_eq!(fde.len(), u64::from(function.size), "{pc:#x}");
            support::compare(&section, &bases, &fde, described, offset);
        }
    }
    // The list ends, and has every function once.
    let mut entries = section.entries(&bases);
    let mut count = 0;
    while let Some(entry) = entries.next().unwrap() {
        count += usize::from(matches!(entry, gimli::CieOrFde::Fde(_)));
    }
    assert_eq!(count, functions.len());
}

#[test]
fn an_expanded_table_says_what_the_table_says() {
    let functions = functions();
    // Before the code, behind it, and so far away that pairs have 8 bytes.
    for at in [0x10_0000, 0x7fff_0000_0000, 0x100] {
        compare(&functions, at);
    }
}

#[test]
fn kept_frames_stand_among_the_others() {
    let functions = functions();
    let bytes = write_whole_table(Abi::Amd64, TABLE, &functions).unwrap().bytes;
    let table = CompactTable::parse(&bytes[..], TABLE).unwrap();
    // Version 1, no frames, a count and pairs: before all, between, and behind all.
    let starts: [u64; 3] = [0x800, 0x1180, 0x9000];
    let mut header: Vec<u32> = vec![u32::from_ne_bytes([1, 0x1b, 0x03, 0x3b]), 0, 3];
    header.extend([0; 6]);
    let place = header.as_ptr() as u64;
    // Code and header of a module are near each other.
    let moved: Functions =
        functions.iter().cloned().map(|(start, function, _)| (place + start, function, None)).collect();
    let moved_bytes = write_whole_table(Abi::Amd64, place & !7, &moved).unwrap().bytes;
    let moved_table = CompactTable::parse(&moved_bytes[..], place & !7).unwrap();
    for (row, start) in starts.iter().enumerate() {
        header[3 + 2 * row] = *start as u32;
        header[4 + 2 * row] = 0x10 + row as u32;
    }
    // SAFETY: the header stays.
    let kept = unsafe { Pairs::of(header.as_ptr().cast()) }.unwrap();
    assert!((0..3).all(|row| kept.get(row) == Some([place + starts[row], place + 0x10 + row as u64])));
    let (bytes, _) = expanded(&moved_table, Some(kept), place + 0x10_0000);
    let words = |at: usize| i32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    let all: Vec<u64> = (0..words(8) as usize)
        .map(|row| (place + 0x10_0000).wrapping_add_signed(words(12 + 8 * row).into()))
        .collect();
    let mut wanted: Vec<u64> =
        moved.iter().map(|moved| moved.0).chain(starts.map(|start| place + start)).collect();
    wanted.sort_unstable();
    assert_eq!(all, wanted);
    // A table whose code is nowhere near is not measured twice the same.
    let measured = Measured::of(&table, None).unwrap();
    let mut short = vec![0; measured.bytes(0) - 1];
    assert_eq!(expand(&table, None, &measured, 0, &mut short), None);
}
