//! Tests of `sframe unwind` on a stack made by hand for a fixture program.

use super::memory::Memory;
use super::modules::{Modules, Place};
use super::process::Process;
use super::saved::parse_registers;
use super::{core, unwind};
use crate::tool::args::{Derivation, Unwind};
use crate::tool::fixtures;
use sframe_format::Abi;

const PROGRAM: &str = "linked/prog.x86_64.ld2.47";
const STACK: u64 = 0x7ffe_0000_1000;

/// `_start` called a function that is at its first instruction: `*rsp` is the return address, above
/// it are the 8 bytes that `_start` took.
fn stack() -> Vec<u8> {
    [0x401049u64, 0, 0x1234].iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn saved_registers_and_memory_give_the_callers() {
    let text = format!("rip 0x401080 0x401080 <f>\nrsp = {STACK:#x}\nrbp 5\neflags 0x246 [ ZF ]\n");
    let thread = parse_registers(Abi::Amd64, &text).unwrap();
    let mut modules = Modules::new(Abi::Amd64);
    let derivation = Derivation::of_files_without();
    modules.add_file(&fixtures::path(PROGRAM), "prog", Place::Bias(0), derivation);
    assert_eq!(modules.problems(), []);
    let memory = Memory::new(vec![(STACK, stack().into())]);
    let saved = stack().len();
    let process = Process { abi: Abi::Amd64, threads: vec![thread], memory, modules, saved };
    let stack = unwind(&process, &process.threads[0], false, &mut process.frames_at_most());
    let addresses: Vec<&str> = stack.frames.iter().map(|frame| frame.address.as_str()).collect();
    assert_eq!(addresses, ["0x401080", "0x401049", "0x1234"]);
    assert!(stack.frames[1].place.starts_with("_start+0x9"), "{:?}", stack.frames);
    assert!(stack.stopped.unwrap().contains("no file with rows is at 0x1233"));
}

/// Stacks that go in circles would otherwise make any number of frames of a few bytes for each thread.
#[test]
fn threads_have_no_more_frames_than_their_memory_can_hold() {
    let text = format!("rip 0x401080\nrsp {STACK:#x}");
    let threads = vec![parse_registers(Abi::Amd64, &text).unwrap(); 3];
    let mut modules = Modules::new(Abi::Amd64);
    modules.add_file(&fixtures::path(PROGRAM), "prog", Place::Bias(0), Derivation::of_files_without());
    let memory = Memory::new(vec![(STACK, stack().into())]);
    let process = Process { abi: Abi::Amd64, threads, memory, modules, saved: 16 };
    let mut room = process.frames_at_most();
    let mut walk = |thread| {
        let stack = unwind(&process, thread, false, &mut room);
        (stack.frames.len(), stack.stopped.unwrap_or_default())
    };
    let walks: Vec<_> = process.threads.iter().map(&mut walk).collect();
    assert_eq!(walks.iter().map(|(frames, _)| *frames).collect::<Vec<_>>(), [3, 2, 0]);
    assert!(walks[0].1.contains("no file with rows"), "{walks:?}");
    assert!(walks[2].1.contains("more frames than the saved memory can hold"), "{walks:?}");
}

#[test]
fn registers_that_are_needed_are_asked_for() {
    assert!(parse_registers(Abi::Amd64, "rip 0x10").unwrap_err().contains("stack pointer"));
    assert!(parse_registers(Abi::AArch64Little, "sp 0x10").unwrap_err().contains("program counter"));
    let thread = parse_registers(Abi::AArch64Little, "pc 0x10\nsp 0x20\nlr 0x30\nfp 0x40").unwrap();
    assert_eq!((thread.pc, thread.registers[30], thread.registers[29]), (0x10, Some(0x30), Some(0x40)));
}

/// A core file with one thread, the stack, and the fixture program mapped at its own addresses.
fn core_file(program: &str) -> Vec<u8> {
    let mut status = vec![0u8; 112 + 27 * 8];
    status[32..36].copy_from_slice(&77u32.to_le_bytes());
    // rbp, rip, rsp in `user_regs_struct`.
    for (place, value) in [(4usize, 5u64), (16, 0x401080), (19, STACK)] {
        status[112 + 8 * place..][..8].copy_from_slice(&value.to_le_bytes());
    }
    let mut files: Vec<u8> =
        [1u64, 0x1000, 0x401000, 0x402000, 1].iter().flat_map(|word| word.to_le_bytes()).collect();
    files.extend(program.bytes().chain([0]));
    let mut notes = Vec::new();
    for (kind, contents) in [(1u32, &status), (0x4649_4c45, &files)] {
        notes.extend([5u32, contents.len() as u32, kind].iter().flat_map(|word| word.to_le_bytes()));
        notes.extend(b"CORE\0\0\0\0");
        notes.extend(contents);
        notes.resize(notes.len().next_multiple_of(4), 0);
    }
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend([4u16, 62].iter().flat_map(|half| half.to_le_bytes()));
    file.extend(1u32.to_le_bytes());
    file.extend([0u64, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
    file.extend(0u32.to_le_bytes());
    file.extend([64u16, 56, 2, 64, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    let (start, stack) = (64 + 2 * 56, stack());
    let mut segment = |kind: u32, offset: usize, address: u64, size: usize| {
        file.extend([kind, 4].iter().flat_map(|word| word.to_le_bytes()));
        let words = [offset as u64, address, 0, size as u64, size as u64, 4];
        file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    };
    segment(4, start, 0, notes.len());
    segment(1, start + notes.len(), STACK, stack.len());
    file.extend(notes);
    file.extend(stack);
    file
}

#[test]
fn core_files_hold_threads_memory_and_files() {
    let program = fixtures::path(PROGRAM);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("core");
    std::fs::write(&path, core_file(program.to_str().unwrap())).unwrap();
    let arguments = Unwind {
        core: Some(path.clone()),
        sysroot: None,
        registers: None,
        memory: Vec::new(),
        modules: Vec::new(),
        derivation: Derivation::of_files_without(),
        demangle: false,
        json: false,
    };
    let process = core::read(&path, &arguments).unwrap();
    assert_eq!(process.threads[0].name, "thread 77");
    let stack = unwind(&process, &process.threads[0], false, &mut process.frames_at_most());
    let addresses: Vec<&str> = stack.frames.iter().map(|frame| frame.address.as_str()).collect();
    assert_eq!(addresses, ["0x401080", "0x401049", "0x1234"]);
}
