//! Tests walks through code whose call frame information has no form as rows, is for debuggers alone, or was
//! written with the code while the program ran.

mod common;

use common::unwound::{Unwound, fixture};
use common::{Writer, words};
use sframe_format::Source;
use stacks::statistics::End;
use stacks::write::Format;

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

/// `hash` keeps its caller's stack pointer 8 bytes below the stack pointer, which no sample has, and above.
#[test]
fn a_word_in_the_red_zone_is_found_where_the_function_stored_it_first() {
    const HASH: u64 = 0x40_00e6;
    let sp = STACK + 0x20;
    let at = |offset: u64| (offset - 0x20) as usize / 8;
    let mut stack = [STACK; 96];
    (stack[at(0x58)], stack[at(0x98)]) = (STACK + 0x98, 0x40_00b5);
    let of = |stack: &[u64]| {
        let mut writer = Writer::default();
        writer.mmap(7, (0x40_0000, 0x1000, 0), &fixture("tests/fixtures/red_zone"), 2);
        writer.sample(7, 10, [sp, 5, HASH], &[], &words(stack));
        Unwound::of(&writer)
    };
    let unwound = of(&stack);
    assert_eq!(addresses(&unwound), [HASH, 0x40_00b5]);
    assert_eq!(unwound.profile.rows[0].end, End::Root);
    // Another call has left a word above, in whose frame the stack pointer is not.
    let mut left = stack;
    (left[at(0x158)], left[at(0x198)]) = (STACK + 0x198, 0x40_00b5);
    assert_eq!(addresses(&of(&left)), [HASH, 0x40_00b5]);
    // The address is behind no call; no word holds what the function stores there; two words do, of frames
    // above the stack pointer.
    let mut others = [stack, stack, left];
    others[0][at(0x98)] = HASH;
    others[1][at(0x58)] = STACK + 0x198;
    (others[2][at(0x58)], others[2][at(0x258)]) = (0, STACK + 0x298);
    for stack in others {
        assert_eq!(of(&stack).frames(0).len(), 1);
        assert_eq!(of(&stack).end(0), "memory that was not copied");
    }
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

/// Code of 32 bytes at an address, with an FDE that says that its frame has two words.
fn dump(start: u64) -> Vec<u8> {
    let mut frames = b"\x14\0\0\0\0\0\0\0\x01zR\0\x01\x78\x10\x01\x1b\x0c\x07\x10\x90\x01\0\0".to_vec();
    frames.extend(b"\x14\0\0\0\x1c\0\0\0");
    // The section follows the code, so the FDE's start is before it.
    frames.extend((-32i32 - 32).to_le_bytes());
    frames.extend(32u32.to_le_bytes());
    frames.extend([0; 8]);
    let header = [&0x4a69_5444u32.to_le_bytes()[..], &1u32.to_le_bytes(), &40u32.to_le_bytes(), &[0; 28]];
    let record = |kind: u32, body: &[u8]| {
        [&kind.to_le_bytes()[..], &(16 + body.len() as u32).to_le_bytes(), &[0; 8], body].concat()
    };
    let size = frames.len() as u64;
    let unwinding = record(4, &[words(&[size, 0, size]), frames].concat());
    let code = [&words(&[0, start, start, 32, 1])[..], b"made\0", &[0x90; 32]].concat();
    [header.concat(), unwinding, record(0, &code)].concat()
}

#[test]
fn code_made_as_the_program_ran_is_described_by_its_jitdump() {
    const CODE: u64 = 0x7100_0000;
    const RETURN: u64 = 0x40_00b5;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jit-7.dump");
    std::fs::write(&path, dump(CODE + 0x100)).unwrap();
    let mut writer = Writer::default();
    writer.mmap(7, (0x40_0000, 0x1000, 0), &fixture("tests/fixtures/expressions"), 2);
    writer.mmap(7, (0x7200_0000, 0x1000, 0), path.to_str().unwrap(), 3);
    writer.mmap(7, (CODE, 0x1000, 0), "//anon", 4);
    // No frame pointer leads from here.
    writer.sample(7, 10, [STACK, 5, CODE + 0x110], &[], &words(&[1, RETURN, 0, 0]));
    let unwound = Unwound::of(&writer);
    let frames = unwound.frames(0);
    assert_eq!(frames[..2], [(CODE + 0x110, Some(Source::Topmost)), (RETURN, Some(Source::EhFrame))]);
    let folded = String::from_utf8(unwound.written(Format::Folded)).unwrap();
    assert!(folded.contains(";made 1"), "{folded}");
}
