//! Tests code that a process has made and says nothing of: the code is in this process.
#![cfg(target_arch = "x86_64")]

mod common;

use common::unwound::{Unwound, fixture, unwind};
use common::{Writer, words};
use sframe_bpf::{End as KernelEnd, Sample};
use sframe_format::Abi;
use sframe_format::Source::{self, FramePointer, Instructions, Topmost};
use stacks::event::{Event, Mapped};
use stacks::session::{Described, Session, Settings};
use stacks::statistics::End;
use std::path::Path;

/// In `undescribed.s`: in the loop of `leaf`, which has pushed a word; behind the call of `work`, whose frame
/// has 24 bytes; behind that of `_start`.
const LEAF: u64 = 0x40_00da;
const IN_WORK: u64 = 0x40_00c9;
const IN_START: u64 = 0x40_00b5;
const STACK: u64 = 0x7ffe_0000_1000;

/// What Python's trampolines do: `sub $8,%rsp; call *%rcx; add $8,%rsp; ret`.
static BY_STACK_POINTER: [u8; 64] = code([0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3]);
/// `push %rbp; mov %rsp,%rbp; call *%rcx; leave; ret`.
static BY_FRAME_POINTER: [u8; 64] = code([0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1, 0xc9, 0xc3]);
/// Goes on elsewhere: `call *%rcx; jmp *%rax`.
static ELSEWHERE: [u8; 64] = code([0xff, 0xd1, 0xff, 0xe0]);

/// These instructions, and traps behind them.
const fn code<const N: usize>(instructions: [u8; N]) -> [u8; 64] {
    let mut all = [0xcc; 64];
    let mut at = 0;
    while at < N {
        all[at] = instructions[at];
        at += 1;
    }
    all
}

/// The address behind the call.
fn behind_call(code: &[u8]) -> u64 {
    let call = code.windows(2).position(|bytes| bytes == [0xff, 0xd1]).unwrap();
    code.as_ptr() as u64 + call as u64 + 2
}

/// The pages around an address.
fn pages(address: u64) -> (u64, u64) {
    ((address & !0xfff) - 0x1000, 0x3000)
}

fn here(here: bool) -> Settings {
    let mut settings = Settings::default();
    settings.files.here = here;
    settings
}

/// The frames behind `leaf`, which returns to such code with this stack and this frame pointer.
fn callers(returns_to: u64, frame: &[u64], fp: u64, is_here: bool) -> Vec<(u64, Option<Source>)> {
    callers_in("//anon", returns_to, frame, fp, is_here)
}

/// The same, with code in a file.
fn callers_in(
    path: &str,
    returns_to: u64,
    frame: &[u64],
    fp: u64,
    is_here: bool,
) -> Vec<(u64, Option<Source>)> {
    callers_of(path, None, returns_to, frame, fp, is_here)
}

/// The same, with a build-id of the file.
fn callers_of(
    path: &str,
    build_id: Option<&[u8]>,
    returns_to: u64,
    frame: &[u64],
    fp: u64,
    is_here: bool,
) -> Vec<(u64, Option<Source>)> {
    let (pid, mut writer) = (std::process::id(), Writer::default());
    let (address, length) = pages(returns_to);
    writer.mmap(pid, (0x40_0000, 0x1000, 0), &fixture("tests/fixtures/undescribed"), 2);
    writer.mmap_with(pid, (address, length, 0), path, build_id, 3);
    writer.sample(pid, 10, [STACK, fp, LEAF], &[], &words(&[&[5, returns_to], frame].concat()));
    let unwound: Unwound = unwind(writer.file(), here(is_here));
    let frames = unwound.frames(0);
    assert_eq!(frames[..2], [(LEAF, Some(Topmost)), (returns_to, Some(Instructions))]);
    frames[2..].to_vec()
}

/// The frame pointer is that of a caller's caller.
#[test]
fn code_that_only_moves_the_stack_pointer_is_left_by_its_instructions() {
    let made = behind_call(&BY_STACK_POINTER);
    let frame = [0, IN_WORK, 1, 2, 3, IN_START, 0, IN_START, 0];
    let (work, start) = ((IN_WORK, Some(Instructions)), (IN_START, Some(Instructions)));
    assert_eq!(callers(made, &frame, STACK + 64, true), [work, start]);
    // Nobody knows what was there in another process, or at another time.
    assert_eq!(callers(made, &frame, STACK + 64, false), [(IN_START, Some(FramePointer))]);
    // The word there is no address behind a call: the code may have changed.
    let frame = [0, IN_WORK - 2, 1, 2, 3, IN_START, 0, IN_START, 0];
    assert_eq!(callers(made, &frame, STACK + 64, true), [(IN_START, Some(FramePointer))]);
}

#[test]
fn code_with_a_frame_pointer_is_left_by_it() {
    let frame = [1, 2, 0, IN_WORK, 1, 2, 3, IN_START, 0];
    for code in [&BY_FRAME_POINTER[..], &ELSEWHERE] {
        let found = callers(behind_call(code), &frame, STACK + 32, true);
        assert_eq!(found.iter().map(|frame| frame.0).collect::<Vec<_>>(), [IN_WORK, IN_START]);
    }
    // No call is before it.
    let inside = BY_STACK_POINTER.as_ptr() as u64 + 4;
    assert_eq!(callers(inside, &frame, STACK + 32, true)[0], (IN_WORK, Some(FramePointer)));
}

/// Stubs of .NET jump to the function that a call is meant for. The word on the stack may be any other's
/// return address unless the call leads to the stub.
#[test]
fn the_first_instruction_has_the_return_address_on_top_of_the_stack() {
    // call +11; add $8,%rsp; ret; traps; jmp *%rax.
    static STUB: [u8; 64] =
        code([0xe8, 11, 0, 0, 0, 0x48, 0x83, 0xc4, 8, 0xc3, 0, 0, 0, 0, 0, 0, 0xff, 0xe0]);
    let start = STUB.as_ptr() as u64;
    let frames = |ip: u64| {
        let (pid, mut writer) = (std::process::id(), Writer::default());
        let (address, length) = pages(start);
        writer.mmap(pid, (0x40_0000, 0x1000, 0), &fixture("tests/fixtures/undescribed"), 2);
        writer.mmap(pid, (address, length, 0), "//anon", 3);
        writer.sample(pid, 10, [STACK, 0, ip], &[], &words(&[start + 5, 0, IN_WORK, 1, 2, 3, IN_START, 0]));
        let found = unwind(writer.file(), here(true)).frames(0);
        found.into_iter().map(|(address, _)| address).collect::<Vec<u64>>()
    };
    assert_eq!(frames(start + 16), [start + 16, start + 5, IN_WORK, IN_START]);
    assert_eq!(frames(start + 18), [start + 18]);
}

/// Images of Lisp, assemblies of .NET: only the program knows what is in them.
#[test]
fn code_in_a_file_of_another_format_is_left_as_code_that_was_made() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "an image of Lisp").unwrap();
    let path = file.path().to_str().unwrap();
    let work = |source| vec![(IN_WORK, Some(source)), (IN_START, Some(Instructions))];
    let made = behind_call(&BY_STACK_POINTER);
    let frame = [0, IN_WORK, 1, 2, 3, IN_START, 0];
    assert_eq!(callers_in(path, made, &frame, 0, true), work(Instructions));
    let made = behind_call(&BY_FRAME_POINTER);
    let frame = [1, 2, 0, IN_WORK, 1, 2, 3, IN_START, 0];
    assert_eq!(callers_in(path, made, &frame, STACK + 32, false), work(FramePointer));
    // A file that cannot be read is of no known format.
    assert_eq!(callers_in("/nowhere/file", made, &frame, STACK + 32, true), []);
    // One that had a build-id was an ELF file, whatever is there now.
    let had_build_id = Some(&[7u8; 20][..]);
    assert_eq!(callers_of(path, had_build_id, made, &frame, STACK + 32, true), []);
}

/// A session in which this process has `undescribed` and the code at an address.
fn with_code(address: u64) -> Session {
    let mut session = Session::new(Abi::Amd64, here(true));
    map(&mut session, address);
    session
}

fn map(session: &mut Session, code: u64) {
    let pid = std::process::id();
    let file = session.files_mut().open_here(Path::new(&fixture("tests/fixtures/undescribed")), None);
    assert!(session.files().make_table(file).is_some());
    session.map_whole(pid, file, |_| Some(0));
    let (address, length) = pages(code);
    let mapped = Mapped {
        pid,
        address,
        length,
        offset: 0,
        executable: true,
        kernel: false,
        build_id: None,
        identity: None,
        path: b"//anon",
    };
    session.handle(0, Some(&Event::Mapped(mapped)), &mut |_| ());
}

/// How many of these frames, which the program in the kernel has found, are believed, where the stack ends,
/// and what it says of the code.
fn of_kernel(session: &mut Session, frames: &[u64]) -> ((usize, End), Described) {
    let pid = std::process::id();
    let mut record: Vec<u8> = [7u64, 1].iter().flat_map(|word| word.to_ne_bytes()).collect();
    for word in [pid, pid, 0, KernelEnd::Root as u32, 0, frames.len() as u32] {
        record.extend(word.to_ne_bytes());
    }
    record.extend(frames.iter().flat_map(|word| word.to_ne_bytes()));
    let mut seen = None;
    let mut take = |stack: &stacks::session::Stack<'_>| seen = Some((stack.frames.len(), stack.end));
    let described = session.unwound(&Sample::read(&record).unwrap(), &[], &mut take);
    (seen.unwrap(), described)
}

/// The program in the kernel follows frame pointers. What it has found behind other code may be anything.
#[test]
fn the_kernel_does_not_follow_the_frame_pointer_of_code_without_one() {
    let through = |code: &[u8]| {
        let made = behind_call(code);
        of_kernel(&mut with_code(made), &[LEAF, made, IN_WORK, IN_START])
    };
    assert_eq!(through(&BY_STACK_POINTER), ((2, End::Jit), Described::Yes));
    assert_eq!(through(&BY_FRAME_POINTER), ((4, End::Root), Described::No));
    assert_eq!(through(&ELSEWHERE), ((4, End::Root), Described::No));
}

/// V8's regular expressions call parts of themselves within a function that keeps a frame pointer: what the
/// instructions behind the innermost one do holds for such a part alone.
#[test]
fn an_innermost_instruction_does_not_say_that_a_process_keeps_no_frame_pointers() {
    let made = behind_call(&BY_STACK_POINTER);
    let mut session = with_code(made);
    let led_on = of_kernel(&mut session, &[made, IN_WORK, IN_START]);
    assert_eq!(led_on, ((3, End::Root), Described::No));
    assert_eq!(of_kernel(&mut session, &[made]), ((1, End::Jit), Described::Perhaps));
    let kept = behind_call(&BY_FRAME_POINTER);
    assert_eq!(of_kernel(&mut with_code(kept), &[kept]).1, Described::No);
}

/// Its number may be that of another process by now.
#[test]
fn the_code_of_a_process_is_forgotten_with_its_memory() {
    let pid = std::process::id();
    let named = Event::Named { pid, tid: pid, name: b"other", executed: true };
    let forked = Event::Forked { pid, tid: pid, parent: 1, parent_tid: 1, before: false };
    for event in [named, forked, Event::Exited { pid, tid: pid }] {
        let mut code = memmap2::MmapMut::map_anon(0x1000).unwrap();
        code[0x100..0x140].copy_from_slice(&BY_STACK_POINTER);
        let made =
            code.as_ptr() as u64 + behind_call(&BY_STACK_POINTER) - BY_STACK_POINTER.as_ptr() as u64 + 0x100;
        let stack = [LEAF, made, IN_WORK, IN_START];
        let mut session = with_code(made);
        assert_eq!(of_kernel(&mut session, &stack), ((2, End::Jit), Described::Yes));
        code[0x100..0x140].copy_from_slice(&BY_FRAME_POINTER);
        session.handle(0, Some(&event), &mut |_| ());
        map(&mut session, made);
        assert_eq!(of_kernel(&mut session, &stack), ((4, End::Root), Described::No), "{event:?}");
    }
}
