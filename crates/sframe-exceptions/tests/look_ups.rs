//! Made frames say what tables say, as gimli reads them, and stay where they are while threads make others.

mod support;

use gimli::{BaseAddresses, EhFrame, EndianSlice, NativeEndian, UnwindSection};
use sframe_exceptions::arena::{Arena, Pages};
use sframe_exceptions::synthesize::{CIE, Frame};
use sframe_format::cfi::{CfiFunction, Saved};
use sframe_format::compact::{Handler, Personality, write_whole_table};
use sframe_format::{Abi, CompactTable};
use std::alloc::{Layout, alloc_zeroed};

use support::{Function, row};

const TABLE: u64 = 0x40_0000;

/// Memory for an arena. It is never given back, as in a program.
struct Heap;

impl Pages for Heap {
    fn map(size: usize) -> *mut u8 {
        // SAFETY: the size is not 0.
        unsafe { alloc_zeroed(Layout::from_size_align(size, 4096).expect("a layout")) }
    }

    fn unmap(_: *mut u8, _: usize) {}
}

/// Functions with every form of rule.
fn functions() -> Vec<Function> {
    let ra = (16, Saved::AtCfa(-8));
    let personality = |indirect| Personality { address: TABLE + 0x100, indirect };
    let of = |rows, signal| CfiFunction { size: 64, signal, key_b: false, rows };
    let mut arguments = row(0, 32, &[ra]);
    arguments.args_size = 48;
    let many = [(3, Saved::AtCfa(-24)), (12, Saved::In(9)), (15, Saved::Undefined), ra];
    vec![
        (0x1000, of(vec![row(0, 8, &[ra]), row(4, 16, &[(6, Saved::AtCfa(-16)), ra])], false), None),
        (
            0x1100,
            of(vec![row(0, 200, &many)], false),
            Some(Handler { personality: personality(true), lsda: Some(TABLE + 0x5000) }),
        ),
        (0x1200, of(vec![row(0, -5, &[(3, Saved::CfaPlus(3)), (12, Saved::AtCfa(13)), ra])], true), None),
        (0x1300, of(vec![arguments], false), Some(Handler { personality: personality(false), lsda: None })),
    ]
}

#[test]
fn made_frames_say_what_the_table_says() {
    let functions = functions();
    let bytes = write_whole_table(Abi::Amd64, TABLE, &functions).unwrap().bytes;
    let table = CompactTable::parse(&bytes[..], TABLE).unwrap();
    for described in &functions {
        for offset in 0..described.1.size {
            let found = table.look_up_whole(described.0 + u64::from(offset)).unwrap().unwrap();
            let frame = Frame::new(Abi::Amd64, &found).unwrap();
            let section = EhFrame::from(EndianSlice::new(&frame.bytes()[CIE..], NativeEndian));
            let bases = BaseAddresses::default();
            let place = (frame.fde() - CIE).into();
            let fde = section.fde_from_offset(&bases, place, EhFrame::cie_from_offset).unwrap();
            support::compare(&section, &bases, &fde, described, offset);
        }
    }
}

#[test]
fn frames_stay_while_threads_make_others() {
    static ARENA: Arena = Arena::new();
    let rows = |number: i64| vec![row(0, 8 + 8 * number, &[(16, Saved::AtCfa(-8))])];
    let function = |number: i64| CfiFunction { size: 16, rows: rows(number), ..CfiFunction::default() };
    let functions: Vec<_> =
        (0..3000).map(|number| (0x1000 + 16 * number as u64, function(number % 50), None)).collect();
    let bytes = write_whole_table(Abi::Amd64, TABLE, &functions).unwrap().bytes;
    let table = CompactTable::parse(&bytes[..], TABLE).unwrap();
    let make_all = || {
        let make = |(start, ..): &(u64, CfiFunction, Option<Handler>)| {
            let found = table.look_up_whole(start + 3).unwrap().unwrap();
            let frame = Frame::new(Abi::Amd64, &found).unwrap();
            let made = ARENA.keep::<Heap>(&frame, found.function, found.start, found.size).unwrap();
            ARENA.remember(start + 3, made);
            let hot = ARENA.hot(start + 3);
            assert!(hot.is_none_or(|hot| hot.function == *start), "another thread may have taken the place");
            made.fde() as usize
        };
        functions.iter().map(make).collect::<Vec<usize>>()
    };
    let first = make_all();
    let again: Vec<Vec<usize>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(make_all)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    again.iter().for_each(|again| assert_eq!(*again, first));
}
