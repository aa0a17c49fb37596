//! Tests walks through code whose call frame information has no form as rows, or is for debuggers alone.

mod common;

use common::unwound::{Unwound, fixture};
use common::{Writer, words};
use sframe_format::Source;
use stacks::statistics::End;

const STACK: u64 = 0x7ffe_0000_1000;

/// A sample of a program at an instruction, with these words on the stack.
fn sample(program: &str, fp: u64, ip: u64, stack: &[u64]) -> Unwound {
    let mut writer = Writer::default();
    writer.comm(7, program, true, 1);
    writer.mmap(7, (0x40_0000, 0x1000, 0), &fixture(&format!("tests/fixtures/{program}")), 2);
    writer.sample(7, 10, [STACK, fp, ip], &[], &words(stack));
    Unwound::of(&writer)
}

/// The addresses of a sample's frames. Call frame information led to all but the first.
fn addresses(unwound: &Unwound) -> Vec<u64> {
    let frames = unwound.frames(0);
    assert!(frames[1..].iter().all(|frame| frame.1 == Some(Source::EhFrame)), "{frames:?}");
    frames.iter().map(|frame| frame.0).collect()
}

/// `branch` has pushed two words, and `plus` has stored its caller's stack pointer.
#[test]
fn a_cfa_is_computed_by_any_expression() {
    const BRANCH: u64 = 0x40_00e2;
    let kept = STACK + 24 + 16;
    for (top, more) in [(6, &[][..]), (7, &[0])] {
        let callers_sp = kept + 8 * more.len() as u64 + 8;
        let stack = [&[top, 0], more, &[0x40_00d5, 0, 0, callers_sp, 0x40_00b5]].concat();
        let unwound = sample("expressions", 5, BRANCH, &stack);
        assert_eq!(addresses(&unwound), [BRANCH, 0x40_00d5, 0x40_00b5]);
        assert_eq!(unwound.profile.rows[0].end, End::Root);
    }
    let unwound = sample("expressions", 5, BRANCH, &[6, 0, 0x40_00d5, 0, 0]);
    assert_eq!(unwound.end(0), "the copy of the stack ended");
}

/// The section is in the file, or compressed in the file with its debug information.
#[test]
fn frames_that_are_described_for_debuggers_are_left() {
    const LEAF: u64 = 0x40_00e0;
    for program in ["debug_frame", "debug_frame.stripped"] {
        let (fp, cfa) = (STACK + 16, STACK + 48);
        let stack = [0x40_00d8, cfa, 5, 0x40_00b5, 0, 0x40_00b5];
        let unwound = sample(program, fp, LEAF, &stack);
        assert_eq!(addresses(&unwound), [LEAF, 0x40_00d8, 0x40_00b5]);
        assert_eq!(unwound.profile.rows[0].end, End::Root);
    }
}
