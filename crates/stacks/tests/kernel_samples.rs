//! Tests samples that were unwound in the kernel (`sframe record --bpf`).

mod common;

use common::unwound::fixture;
use sframe_bpf::{End as KernelEnd, Sample};
use sframe_format::Abi;
use stacks::process::Place;
use stacks::session::{Former, Frame, Session, Settings};
use stacks::statistics::End;
use std::path::Path;

/// `PERF_CONTEXT_KERNEL`.
const CONTEXT_KERNEL: u64 = -128i64 as u64;

/// A record of the program in the kernel, with these frames of the kernel and of user code.
fn record(end: KernelEnd, kernel: &[u64], user: &[u64]) -> Vec<u8> {
    let mut bytes: Vec<u8> = [7u64, 1].iter().flat_map(|word| word.to_ne_bytes()).collect();
    for word in [10, 10, 0, end as u32, kernel.len() as u32, user.len() as u32] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend(kernel.iter().chain(user).flat_map(|word| word.to_ne_bytes()));
    bytes
}

/// Call chains begin with a mark. It is no frame, and the word behind it is the instruction itself.
#[test]
fn marks_are_no_frames_of_the_kernel() {
    const LEAF: u64 = 0xffff_ffff_8100_0010;
    let bytes = record(KernelEnd::NoMapping, &[CONTEXT_KERNEL, LEAF, LEAF + 0x100], &[]);
    let mut session = Session::new(Abi::Amd64, Settings::default());
    let mut frames: Vec<Frame> = Vec::new();
    session.unwound(&Sample::read(&bytes).unwrap(), &[], &mut |stack| frames.extend(stack.frames));
    let places: Vec<_> = frames.iter().map(|frame| (frame.place, frame.returns)).collect();
    assert_eq!(places, [(Place::Kernel(LEAF), false), (Place::Kernel(LEAF + 0xff), true)]);
}

/// The rows were read off instructions, and the program in the kernel did not look for calls
/// (`fixtures/undescribed.s`).
#[test]
fn a_caller_that_no_call_precedes_is_none() {
    const LEAF: u64 = 0x40_00da;
    const IN_WORK: u64 = 0x40_00c9;
    const IN_START: u64 = 0x40_00b5;
    for (callers, kept, is_root) in [
        (&[IN_WORK, IN_START][..], 3, true),
        (&[IN_WORK, IN_WORK - 2][..], 2, false),
        // The word in the place of the return address was 0.
        (&[IN_WORK][..], 2, false),
    ] {
        let mut session = Session::new(Abi::Amd64, Settings::default());
        let file = session.files_mut().open_here(Path::new(&fixture("tests/fixtures/undescribed")), None);
        assert!(session.files().make_table(file).is_some());
        session.map_whole(10, file, |_| Some(0));
        let bytes = record(KernelEnd::Root, &[], &[&[LEAF], callers].concat());
        let mut seen = Vec::new();
        session.unwound(&Sample::read(&bytes).unwrap(), &[], &mut |stack| {
            seen.push((stack.frames.len(), stack.end))
        });
        let end = if is_root { End::Root } else { End::NoRows(file) };
        assert_eq!(seen, [(kept, end)]);
    }
}

/// The process has loaded something else where the program in the kernel still knew another file. What that
/// file's rows led to is right only where the file that is there has the same ones.
#[test]
fn what_was_unwound_by_the_rows_of_another_file_is_cut_off() {
    const LEAF: u64 = 0x40_00da;
    const IN_WORK: u64 = 0x40_00c9;
    const IN_START: u64 = 0x40_00b5;
    let stacks = |range: std::ops::Range<u64>, bias: Option<u64>| {
        let mut session = Session::new(Abi::Amd64, Settings::default());
        let file = session.files_mut().open_here(Path::new(&fixture("tests/fixtures/undescribed")), None);
        assert!(session.files().make_table(file).is_some());
        session.map_whole(10, file, |_| Some(0));
        let stale = [Former { range, file: bias.map(|bias| (file, bias)) }];
        let bytes = record(KernelEnd::Root, &[], &[LEAF, IN_WORK, IN_START]);
        let mut seen = None;
        let mut take = |stack: &stacks::session::Stack<'_>| {
            seen = Some((stack.frames.len(), stack.end.is_rooted()));
        };
        session.unwound(&Sample::read(&bytes).unwrap(), &stale, &mut take);
        seen.unwrap()
    };
    assert_eq!(stacks(0x50_0000..0x60_0000, None), (3, true));
    assert_eq!(stacks(IN_START - 1..IN_START, None), (3, false));
    assert_eq!(stacks(IN_WORK - 1..IN_WORK, None), (2, false));
    assert_eq!(stacks(0..u64::MAX, None), (1, false));
    // The same file again, or its code a function further on.
    assert_eq!(stacks(0..u64::MAX, Some(0)), (3, true));
    assert_eq!(stacks(IN_WORK - 1..IN_WORK, Some(IN_WORK.wrapping_sub(LEAF))), (2, false));
    assert_eq!(stacks(IN_WORK - 1..IN_WORK, Some(0x1000)), (2, false));
}
