//! Tests walks through code that no file describes (`fixtures/undescribed.s`).

mod common;

use common::unwound::{Unwound, fixture};
use common::{Writer, words};
use sframe_format::Source;
use stacks::statistics::End;
use stacks::write::Format;

const STACK: u64 = 0x7ffe_0000_1000;
/// In the loop of `leaf`, which only a jump backwards leaves.
const LEAF: u64 = 0x40_00da;
const IN_WORK: u64 = 0x40_00c9;
const IN_START: u64 = 0x40_00b5;

/// A sample in the loop, with these words on the stack.
fn sample(stack: &[u64]) -> Unwound {
    let mut writer = Writer::default();
    writer.comm(7, "undescribed", true, 1);
    writer.mmap(7, (0x40_0000, 0x1000, 0), &fixture("tests/fixtures/undescribed"), 2);
    writer.sample(7, 10, [STACK, 5, LEAF], &[], &words(stack));
    Unwound::of(&writer)
}

fn addresses(unwound: &Unwound) -> Vec<u64> {
    unwound.frames(0).iter().map(|frame| frame.0).collect()
}

#[test]
fn a_walk_reaches_the_programs_start() {
    let unwound = sample(&[1, IN_WORK, 0, 0, 0, IN_START]);
    let expected = [
        (LEAF, Some(Source::Topmost)),
        (IN_WORK, Some(Source::Instructions)),
        (IN_START, Some(Source::Instructions)),
    ];
    assert_eq!(unwound.frames(0), expected);
    assert_eq!(unwound.profile.rows[0].end, End::Root);
}

#[test]
fn a_caller_is_in_code_and_behind_a_call() {
    // The first byte of an instruction that no call precedes; an address without code; a stack address.
    for caller in [0x40_00c0, 0x12_3456, STACK + 8] {
        let unwound = sample(&[1, IN_WORK, 0, 0, 0, caller]);
        assert_eq!(addresses(&unwound), [LEAF, IN_WORK]);
        assert!(unwound.end(0).starts_with("no rows in "), "{}", unwound.end(0));
    }
}

/// The word may come from anywhere, and the rows were read off instructions.
#[test]
fn a_return_address_of_zero_is_no_root() {
    let unwound = sample(&[1, IN_WORK, 0, 0, 0, 0]);
    assert_eq!(addresses(&unwound), [LEAF, IN_WORK]);
    assert!(unwound.end(0).starts_with("no rows in "), "{}", unwound.end(0));
}

/// The program has been stripped, but Go's own table has its functions and their names.
#[test]
fn a_goroutine_ends_where_its_first_function_returns_to() {
    let mut writer = Writer::default();
    writer.comm(7, "go_table", true, 1);
    writer.mmap(7, (0x40_0000, 0x1000, 0), &fixture("tests/fixtures/go_table"), 2);
    writer.sample(7, 10, [STACK, 5, 0x40_0120], &[], &words(&[0x40_0109, 0, 0, 0, 0x40_00e1, 0x40_0109]));
    let unwound = Unwound::of(&writer);
    assert_eq!(addresses(&unwound), [0x40_0120, 0x40_0109, 0x40_00e1]);
    assert_eq!(unwound.profile.rows[0].end, End::Root);
    let folded = String::from_utf8(unwound.written(Format::Folded)).unwrap();
    assert!(folded.contains("runtime.goexit;main.work;main.leaf 1"), "{folded}");
}

/// Functions of Go that call on another stack: two never return, so each is the last of its stack; of the
/// other's caller, the sample has nothing.
#[test]
fn a_switch_to_another_stack_is_told_from_missing_rows() {
    const LEAF: u64 = 0x40_0099;
    const BEHIND_CALLS: [u64; 3] = [0x40_0085, 0x40_0094, 0x40_00ab];
    let mut writer = Writer::default();
    writer.comm(7, "go_switches", true, 1);
    writer.mmap(7, (0x40_0000, 0x1000, 0), &fixture("tests/fixtures/go_switches"), 2);
    for caller in BEHIND_CALLS {
        writer.sample(7, 10, [STACK, 5, LEAF], &[], &words(&[caller, 0x40_0085, 0x40_0094, 0]));
    }
    let unwound = Unwound::of(&writer);
    let walks = [0, 1, 2].map(|sample| (unwound.frames(sample).len(), unwound.profile.rows[sample].end));
    assert_eq!(walks, [(2, End::Root), (2, End::OtherStack), (2, End::Root)]);
    assert!(unwound.end(1).starts_with("the program switched stacks"), "{}", unwound.end(1));
}
