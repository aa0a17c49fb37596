//! Tests samples that were unwound in the kernel (`sframe record --bpf`).

use sframe_bpf::{End as KernelEnd, Sample};
use sframe_format::Abi;
use stacks::process::Place;
use stacks::session::{Frame, Session, Settings};

/// `PERF_CONTEXT_KERNEL`.
const CONTEXT_KERNEL: u64 = -128i64 as u64;

/// A record of the program in the kernel, with these frames of the kernel.
fn record(kernel: &[u64]) -> Vec<u8> {
    let mut bytes: Vec<u8> = [7u64, 1].iter().flat_map(|word| word.to_ne_bytes()).collect();
    for word in [10, 10, 0, KernelEnd::NoMapping as u32, kernel.len() as u32, 0] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend(kernel.iter().flat_map(|word| word.to_ne_bytes()));
    bytes
}

/// Call chains begin with a mark. It is no frame, and the word behind it is the instruction itself.
#[test]
fn marks_are_no_frames_of_the_kernel() {
    const LEAF: u64 = 0xffff_ffff_8100_0010;
    let bytes = record(&[CONTEXT_KERNEL, LEAF, LEAF + 0x100]);
    let mut session = Session::new(Abi::Amd64, Settings::default());
    let mut frames: Vec<Frame> = Vec::new();
    session.unwound(&Sample::read(&bytes).unwrap(), &mut |stack| frames.extend(stack.frames));
    let places: Vec<_> = frames.iter().map(|frame| (frame.place, frame.returns)).collect();
    assert_eq!(places, [(Place::Kernel(LEAF), false), (Place::Kernel(LEAF + 0xff), true)]);
}
