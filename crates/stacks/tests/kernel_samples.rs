//! Tests samples that were unwound in the kernel (`sframe record --bpf`).

mod common;

use common::unwound::fixture;
use sframe_bpf::{End as KernelEnd, Sample};
use sframe_format::Abi;
use stacks::process::Place;
use stacks::session::{Frame, Session, Settings};
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
    session.unwound(&Sample::read(&bytes).unwrap(), &mut |stack| frames.extend(stack.frames));
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
        session.map_whole(10, file, |_| Some(0));
        let bytes = record(KernelEnd::Root, &[], &[&[LEAF], callers].concat());
        let mut seen = Vec::new();
        session
            .unwound(&Sample::read(&bytes).unwrap(), &mut |stack| seen.push((stack.frames.len(), stack.end)));
        let end = if is_root { End::Root } else { End::NoRows(file) };
        assert_eq!(seen, [(kept, end)]);
    }
}
