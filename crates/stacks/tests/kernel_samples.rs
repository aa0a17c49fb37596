//! Tests samples that were unwound in the kernel (`sframe record --bpf`).

mod common;

use common::unwound::fixture;
use sframe_bpf::{End as KernelEnd, Sample};
use sframe_format::{Abi, Source};
use stacks::event::{Event, Mapped};
use stacks::process::Place;
use stacks::session::{Described, Former, Frame, Session, Settings};
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

/// Code that the process made, at [`MADE`]. The program in the kernel leaves it by its frame pointer.
const MADE: u64 = 0x70_0000;

/// A stack with frames in such code, with a jitdump of the process if there is one: its number of frames, its
/// end, and whether the process describes the code.
fn with_made_code(dump: Option<&Path>, end: KernelEnd, user: &[u64]) -> (usize, End, Described) {
    let mut session = Session::new(Abi::Amd64, Settings::default());
    let file = session.files_mut().open_here(Path::new(&fixture("tests/fixtures/undescribed")), None);
    assert!(session.files().make_table(file).is_some());
    session.map_whole(10, file, |_| Some(0));
    let map = |address, length, path| {
        let (pid, offset, executable, kernel) = (10, 0, true, false);
        let (build_id, identity) = (None, None);
        Event::Mapped(Mapped { pid, address, length, offset, executable, kernel, build_id, identity, path })
    };
    session.handle(0, Some(&map(MADE, 0x1000, b"//anon")), &mut |_| ());
    if let Some(dump) = dump {
        let path = dump.as_os_str().as_encoded_bytes();
        session.handle(0, Some(&map(MADE + 0x10_0000, 0x1000, path)), &mut |_| ());
    }
    assert_eq!(session.made_code(10).first(), Some(&(MADE..MADE + 0x1000)));
    let bytes = record(end, &[], user);
    let mut seen = None;
    let mut take = |stack: &stacks::session::Stack<'_>| {
        assert!(stack.frames.iter().skip(1).all(|frame| frame.source != Some(Source::SignalContext)));
        seen = Some((stack.frames.len(), stack.end));
    };
    let described = session.unwound(&Sample::read(&bytes).unwrap(), &[], &mut take);
    let (frames, end) = seen.unwrap();
    (frames, end, described)
}

/// A caller in a file counts if a call is in front of the address.
#[test]
fn made_code_is_left_by_its_frame_pointer() {
    const IN_WORK: u64 = 0x40_00c9;
    const IN_START: u64 = 0x40_00b5;
    let whole = [MADE + 8, MADE + 0x40, IN_WORK, IN_START];
    assert_eq!(with_made_code(None, KernelEnd::Root, &whole), (4, End::Root, Described::No));
    let no_call = [MADE + 8, MADE + 0x40, IN_WORK - 2, IN_START];
    assert_eq!(with_made_code(None, KernelEnd::Root, &no_call), (2, End::Jit, Described::No));
    assert_eq!(with_made_code(None, KernelEnd::NoMapping, &whole[..2]), (2, End::Jit, Described::No));
}

/// A process that says how its code is left is believed, not the frame pointer.
#[test]
fn described_code_is_not_left_by_its_frame_pointer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jit-10.dump");
    let words = |values: &[u64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let record = |kind: u32, body: Vec<u8>| {
        let size = 16 + body.len() as u32;
        [&kind.to_le_bytes()[..], &size.to_le_bytes(), &[0; 8], &body].concat()
    };
    let header = [&0x4a69_5444u32.to_le_bytes()[..], &1u32.to_le_bytes(), &40u32.to_le_bytes(), &[0; 28]];
    // Call frame information of the next function: its size, that of its header, and its bytes.
    let frames = record(4, [words(&[32, 20, 32]), vec![0; 32]].concat());
    let code = record(0, [words(&[0, MADE, MADE, 32, 1]), b"f\0".to_vec(), vec![0x90; 32]].concat());
    std::fs::write(&path, [header.concat(), frames, code].concat()).unwrap();
    let stack = |innermost| with_made_code(Some(&path), KernelEnd::Root, &[innermost, 0x40_00c9, 0x40_00b5]);
    assert_eq!(stack(MADE + 8), (1, End::Jit, Described::Yes));
    assert_eq!(stack(MADE + 0x40), (3, End::Root, Described::No));
}
