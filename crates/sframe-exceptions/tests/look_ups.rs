//! Made frames say what tables say, as gimli reads them, and stay where they are while threads make others.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EndianSlice, NativeEndian, Pointer, RegisterRule, UnwindSection,
};
use sframe_exceptions::arena::{Arena, Pages};
use sframe_exceptions::synthesize::{CIE, Frame};
use sframe_format::cfi::{CfiFunction, CfiRow, Saved};
use sframe_format::compact::{Handler, Personality, write_whole_table};
use sframe_format::{Abi, CompactTable};
use std::alloc::{Layout, alloc_zeroed};

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

fn row(start: u32, cfa_offset: i64, saved: &[(u32, Saved)]) -> CfiRow {
    CfiRow { start, cfa_register: 7, cfa_offset, saved: saved.to_vec(), ..CfiRow::default() }
}

/// Functions with every form of rule.
fn functions() -> Vec<(u64, CfiFunction, Option<Handler>)> {
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

fn expected(saved: Saved) -> RegisterRule<usize> {
    match saved {
        Saved::AtCfa(offset) => RegisterRule::Offset(offset),
        Saved::CfaPlus(offset) => RegisterRule::ValOffset(offset),
        Saved::In(register) => RegisterRule::Register(gimli::Register(register as u16)),
        Saved::Undefined => RegisterRule::Undefined,
    }
}

#[test]
fn made_frames_say_what_the_table_says() {
    let functions = functions();
    let bytes = write_whole_table(Abi::Amd64, TABLE, &functions).unwrap();
    let table = CompactTable::parse(&bytes[..], TABLE).unwrap();
    for (start, function, handler) in &functions {
        for offset in 0..function.size {
            let pc = start + u64::from(offset);
            let found = table.look_up_whole(pc).unwrap().unwrap();
            let frame = Frame::new(Abi::Amd64, &found).unwrap();
            let section = EhFrame::from(EndianSlice::new(&frame.bytes()[CIE..], NativeEndian));
            let bases = BaseAddresses::default();
            let place = (frame.fde() - CIE).into();
            let fde = section.fde_from_offset(&bases, place, EhFrame::cie_from_offset).unwrap();
            assert!(fde.contains(pc) && fde.initial_address() == *start, "{pc:#x}");
            assert_eq!(fde.is_signal_trampoline(), function.signal);
            let pointer = |handler: &Handler| match handler.personality {
                Personality { address, indirect: false } => Pointer::Direct(address),
                Personality { address, indirect: true } => Pointer::Indirect(address),
            };
            assert_eq!(fde.personality(), handler.as_ref().map(pointer));
            let lsda = handler.map(|handler| Pointer::Direct(handler.lsda.unwrap_or(0)));
            assert_eq!(fde.lsda(), lsda);
            let mut context = gimli::UnwindContext::new();
            let made = fde.unwind_info_for_address(&section, &bases, &mut context, pc).unwrap();
            let row = function.rows.iter().rfind(|row| row.start <= offset).unwrap();
            let cfa = CfaRule::RegisterAndOffset { register: gimli::Register(7), offset: row.cfa_offset };
            assert_eq!((made.cfa(), made.saved_args_size()), (&cfa, row.args_size), "{pc:#x}");
            for &(register, saved) in &row.saved {
                assert_eq!(made.register(gimli::Register(register as u16)), Some(expected(saved)), "{pc:#x}");
            }
            assert_eq!(made.registers().count(), row.saved.len());
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
    let bytes = write_whole_table(Abi::Amd64, TABLE, &functions).unwrap();
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
