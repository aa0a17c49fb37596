//! A row says the same whether a table or an FDE says it, and a step by it finds the caller.

#![cfg(target_arch = "x86_64")]

use sframe_exceptions::context::Context;
use sframe_exceptions::registers::{PROGRAM_COUNTER, REGISTERS, SHADOW_STACK, STACK_POINTER, place};
use sframe_exceptions::row::{Cfa, Row, flags};
use sframe_exceptions::synthesize::Frame;
use sframe_exceptions::{expression, fde};
use sframe_format::cfi::{CfiFunction, CfiRow, Saved};
use sframe_format::compact::{Handler, Personality, write_whole_table};
use sframe_format::{Abi, CompactTable};

/// What a pointer to a personality routine leads to.
static ROUTINE: u64 = 0x1234;
const RBP: usize = 6;

fn row(start: u32, cfa_offset: i64, saved: &[(u32, Saved)]) -> CfiRow {
    CfiRow { start, cfa_register: 7, cfa_offset, saved: saved.to_vec(), ..CfiRow::default() }
}

/// Functions with every form of rule.
fn functions(table: u64) -> Vec<(u64, CfiFunction, Option<Handler>)> {
    let ra = (16, Saved::AtCfa(-8));
    let of = |rows, signal| CfiFunction { size: 64, signal, key_b: false, rows };
    let mut arguments = row(0, 32, &[ra]);
    arguments.args_size = 48;
    let many = [(3, Saved::AtCfa(-24)), (12, Saved::In(9)), (15, Saved::Undefined), ra];
    let pointer = Personality { address: (&raw const ROUTINE) as u64, indirect: true };
    let direct = Personality { address: table + 0x40, indirect: false };
    vec![
        (table + 0x1000, of(vec![row(0, 8, &[ra]), row(4, 16, &[(6, Saved::AtCfa(-16)), ra])], false), None),
        (
            table + 0x1100,
            of(vec![row(0, 200, &many)], false),
            Some(Handler { personality: pointer, lsda: Some(table + 0x5000) }),
        ),
        (
            table + 0x1200,
            of(vec![row(0, -5, &[(3, Saved::CfaPlus(3)), (12, Saved::AtCfa(13)), ra])], true),
            None,
        ),
        (table + 0x1300, of(vec![arguments], false), Some(Handler { personality: direct, lsda: None })),
    ]
}

fn says(row: &Row) -> String {
    let mut loads: Vec<_> = row.loads().map(|load| (load.place(), load.offset())).collect();
    loads.sort_unstable();
    let place = (row.function, row.personality, row.data, row.head().return_address());
    format!("{place:x?} {:?} {} {} {loads:?} {:?}", row.cfa(), row.args_size, row.flags(), row.others())
}

#[test]
fn a_table_and_an_fde_make_the_same_row() {
    let table_at = ((&raw const ROUTINE) as u64 & !7) - 0x10_0000;
    let functions = functions(table_at);
    let bytes = write_whole_table(Abi::Amd64, table_at, &functions).unwrap().bytes;
    let table = CompactTable::parse(&bytes[..], table_at).unwrap();
    for (start, function, _) in &functions {
        for pc in *start..start + u64::from(function.size) {
            let found = table.look_up_whole(pc).unwrap().unwrap();
            let (mut by_table, mut by_fde) = (Row::new(), Row::new());
            let frame = Frame::new(Abi::Amd64, &found).unwrap();
            // SAFETY: the routine is a static; the frame is whole.
            unsafe {
                by_table.take(Abi::Amd64, &found).unwrap();
                fde::read(frame.bytes().as_ptr().add(frame.fde()), 0, 0, pc, &mut by_fde).unwrap();
            }
            assert_eq!(says(&by_table), says(&by_fde), "{pc:#x}");
        }
    }
}

/// A CIE with these letters, and an FDE of 64 bytes from 0x1000.
fn records(letters: &str) -> (Vec<u8>, usize) {
    let record = |body: Vec<u8>| [&(body.len() as u32).to_le_bytes()[..], &body].concat();
    // DW_CFA_def_cfa rsp, 8; DW_CFA_offset rip, 1.
    let rules = [12, 7, 8, 0x80 | 16, 1, 0, 0, 0];
    let mut bytes =
        record([&[0, 0, 0, 0, 1], letters.as_bytes(), &[0, 1, 0x78, 16, 1, 0], &rules[..]].concat());
    let fde = bytes.len();
    let numbers = [(fde as u32 + 4).to_le_bytes().to_vec(), 0x1000_u64.to_le_bytes().to_vec()];
    bytes.extend(record([&numbers.concat()[..], &64_u64.to_le_bytes(), &[0]].concat()));
    (bytes, fde)
}

#[test]
fn letters_of_aarch64_are_known() {
    let expected = [("zR", 0), ("zRS", flags::SIGNAL), ("zRB", flags::KEY_B), ("zGR", 0)];
    for (letters, of_letters) in [&expected[..], &[("zSRBG", flags::KEY_B | flags::SIGNAL)]].concat() {
        let (bytes, at) = records(letters);
        let mut row = Row::new();
        // SAFETY: the records are whole.
        unsafe { fde::read(bytes.as_ptr().add(at), 0, 0, 0x1010, &mut row) }.expect(letters);
        assert_eq!(row.flags(), of_letters | flags::HAS_RETURN_ADDRESS | flags::ODD, "{letters}");
        assert_eq!(row.cfa(), Cfa::Register { place: STACK_POINTER as u8, offset: 8 }, "{letters}");
        assert_eq!(row.function, 0x1000, "{letters}");
    }
    let (bytes, at) = records("zX");
    // SAFETY: the records are whole.
    assert_eq!(unsafe { fde::read(bytes.as_ptr().add(at), 0, 0, 0x1010, &mut Row::new()) }, None);
}

/// The caller's registers, from a stack in memory.
#[test]
fn a_step_finds_the_caller_and_circles_end() {
    let stack: Vec<u64> = (0..16).map(|word| 0x100 + word).collect();
    let mut registers = [0; REGISTERS];
    registers[STACK_POINTER] = stack.as_ptr() as u64;
    registers[PROGRAM_COUNTER] = 0x5000;
    let mut frame = Row::new();
    frame.clear(PROGRAM_COUNTER as u8);
    frame.set_cfa(Cfa::Register { place: STACK_POINTER as u8, offset: 32 });
    frame.restore(16, Saved::AtCfa(-8)).unwrap();
    frame.restore(6, Saved::AtCfa(-16)).unwrap();
    let mut context = Context::new(&registers);
    // SAFETY: the words are there.
    unsafe { context.step(&frame, |address, _, _| address) }.unwrap();
    assert_eq!(context.registers[PROGRAM_COUNTER], 0x103);
    assert_eq!(context.registers[RBP], 0x102);
    assert_eq!(context.registers[STACK_POINTER], registers[STACK_POINTER] + 32);
    assert_eq!((context.cfa, context.address()), (registers[STACK_POINTER] + 32, 0x102));
    // Rows that lead back to the same frame.
    frame.set_cfa(Cfa::Register { place: STACK_POINTER as u8, offset: 0 });
    // SAFETY: the same.
    let steps = (0..).take_while(|_| unsafe { context.step(&frame, |address, _, _| address) }.is_some());
    assert!(steps.count() < 5000);
}

/// Each frame that is left has one return address on the shadow stack, which grows downwards.
#[test]
fn a_step_passes_one_word_of_the_shadow_stack() {
    let stack: Vec<u64> = (0..64).map(|word| 0x100 + word).collect();
    let mut registers = [0; REGISTERS];
    (registers[STACK_POINTER], registers[SHADOW_STACK]) = (stack.as_ptr() as u64, 0x7000);
    let mut frame = Row::new();
    frame.clear(PROGRAM_COUNTER as u8);
    frame.set_cfa(Cfa::Register { place: STACK_POINTER as u8, offset: 32 });
    frame.restore(16, Saved::AtCfa(-8)).unwrap();
    let mut context = Context::new(&registers);
    for steps in 1..8 {
        // SAFETY: the words are there.
        unsafe { context.step(&frame, |address, _, _| address) }.unwrap();
        assert_eq!(context.registers[SHADOW_STACK], 0x7000 + 8 * steps);
    }
    // It is no register of DWARF's.
    assert_eq!(place(SHADOW_STACK as u32), None);
}

#[test]
fn expressions_are_computed() {
    // A procedure linkage table: rsp + 8 + ((rip & 15) >= 11) << 3.
    let plt = &[0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
    let mut registers = [0; REGISTERS];
    (registers[STACK_POINTER], registers[PROGRAM_COUNTER]) = (0x7000, 0x40_100b);
    // SAFETY: the expressions read no memory but the word.
    unsafe {
        assert_eq!(expression::evaluate(plt, None, &registers), Some(0x7010));
        registers[PROGRAM_COUNTER] = 0x40_1006;
        assert_eq!(expression::evaluate(plt, None, &registers), Some(0x7008));
        // DW_OP_deref of the initial value, plus 1.
        let word = 41_u64;
        assert_eq!(
            expression::evaluate(&[0x06, 0x23, 1], Some((&raw const word) as u64), &registers),
            Some(42)
        );
        // An endless loop; a register that is none; nothing.
        assert_eq!(expression::evaluate(&[0x2f, 0xfd, 0xff], None, &registers), None);
        assert_eq!(expression::evaluate(&[0x92, 99, 0], None, &registers), None);
        assert_eq!(expression::evaluate(&[], None, &registers), None);
    }
}
