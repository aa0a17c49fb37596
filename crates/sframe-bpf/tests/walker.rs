//! Tests the kernel's program with tables and stacks that an adversary made. The C code, compiled for this
//! machine, must stop after 1024 frames, read few words for each, and touch only its maps and the stack.

mod common;

use common::Random;
use sframe_bpf::layout::{End, MOST_WORDS, Range, Table, WayBack};
use sframe_format::compact::write_table;
use sframe_format::write::Function;
use sframe_format::{Abi, Base, CfaRule, CompactTable, Frame, Location, RegisterRule, Row, Rules};
use std::path::PathBuf;

/// The most frames of a stack, and the bytes of `struct sample` before its frames.
const MAX_FRAMES: u64 = 1024;
/// The most links of a chain of frame pointers.
const MAX_LINKS: u64 = 256;
const HEADER: u64 = 40;
/// Reads of memory in one step: the words of a way back to another stack and the one to subtract, return
/// address and frame pointer, and the code in front of the return address.
const MAX_READS: u64 = MOST_WORDS as u64 + 4;
/// Reads of memory at one link of a chain: the link, and a word of each page of the largest copy.
const MAX_LINK_READS: u64 = 1 + 16;
/// Loads of a look-up (`tests/reader.rs`), and loads of a long rule.
const MAX_LOADS: u64 = common::MAX_LOADS + 7;

/// The places of registers in `struct pt_regs`.
const FP: usize = 4;
const IP: usize = 16;
const CS: usize = 17;
const SP: usize = 19;
/// The code segment of 64-bit user code.
const USER: u64 = 0x33;

const FILE: u32 = 3;
const PID: u32 = 77;
/// Where the stack of a program usually is.
const STACK: u64 = 0x7ffd_0000;

/// A sample: the table of the file that is mapped everywhere, the registers, and all readable memory.
struct Sample {
    bytes: Vec<u8>,
    table: Table,
    registers: [u64; 21],
    stack: u64,
    words: Vec<u64>,
    /// One of this many reads fails.
    fails: u64,
    kernel_frames: u64,
    thread: u64,
    ranges: u64,
    ended: bool,
    /// Bytes of the stack that the event copies.
    copied: u64,
    /// A page that is not there.
    hole: u64,
    way: WayBack,
    /// Code from here on was made by the process.
    made: u64,
}

impl Sample {
    fn new(bytes: &[u8], table: Table, stack: u64, words: Vec<u64>) -> Self {
        let mut registers = [0; 21];
        registers[CS] = USER;
        Self {
            bytes: bytes.to_vec(),
            table,
            registers,
            stack,
            words,
            fails: 0,
            kernel_frames: 0,
            thread: 0,
            ranges: 1,
            ended: false,
            copied: 0,
            hole: 0,
            way: WayBack::default(),
            made: u64::MAX,
        }
    }

    /// Sets the registers that most rules need.
    fn at(mut self, pc: u64, sp: u64, fp: u64) -> Self {
        (self.registers[IP], self.registers[SP], self.registers[FP]) = (pc, sp, fp);
        self
    }

    fn write(&self, to: &mut Vec<u8>) {
        let range = Range { start: 0, end: self.made, bias: 0, file: FILE, pid: PID };
        let made = Range { start: self.made, end: u64::MAX, file: Range::MADE, ..range };
        to.extend((self.bytes.len() as u64).to_ne_bytes());
        to.extend(self.table.to_bytes());
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        to.extend(words(&self.registers));
        for range in [range, made] {
            to.extend(words(&[range.start, range.end, range.bias]));
            to.extend([range.file, range.pid].iter().flat_map(|word| word.to_ne_bytes()));
        }
        to.extend(words(&[self.stack, self.words.len() as u64, self.fails, self.kernel_frames]));
        to.extend(words(&[self.thread, self.ranges, self.ended.into()]));
        to.extend(words(&[self.copied, self.hole, SWITCHED + 5]));
        to.extend([FILE, 0].iter().flat_map(|word| word.to_ne_bytes()));
        let WayBack { from, flags, count, words: way, minus, cfa, fp, pc, below } = self.way;
        let numbers = [from, flags, count].into_iter().map(u32::cast_signed).chain(way);
        to.extend(numbers.chain([minus, cfa, fp, pc, below]).flat_map(i32::to_ne_bytes));
        to.extend_from_slice(&self.bytes);
        to.extend(words(&self.words));
    }
}

/// `struct outcome` in C.
#[derive(Debug)]
struct Outcome {
    end: End,
    frames: u64,
    all_reads: u64,
    all_loads: u64,
    ring: u64,
    /// The part of the stack that went to the ring: its address and size.
    outer: (u64, u64),
    samples: bool,
    innermost: [u64; 8],
}

struct Program {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Program {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { path: common::compile(folder.path(), "walker"), _folder: folder }
    }

    /// The outcome of each sample, after a check of the bounds that hold for every outcome.
    fn walk(&self, samples: &[Sample]) -> Vec<Outcome> {
        let mut input = Vec::new();
        samples.iter().for_each(|sample| sample.write(&mut input));
        let words = common::run(&self.path, input);
        let outcomes = words.as_chunks::<20>().0;
        assert_eq!(outcomes.len(), samples.len());
        let outcome = |words: &[u64; 20]| {
            let &[end, frames, steps, reads, loads, link_reads, all_reads, all_loads, rest @ ..] = words;
            let [ring, outer, outer_bytes, samples, innermost @ ..] = rest;
            let links = if ring > 0 { 0 } else { MAX_LINKS };
            assert!(frames <= MAX_FRAMES && steps <= MAX_FRAMES + links, "{frames} frames in {steps} steps");
            assert!(reads <= MAX_READS && loads <= MAX_LOADS, "{reads} reads, {loads} loads");
            assert!(link_reads <= MAX_LINK_READS, "{link_reads} reads at a link");
            let end = End::ALL[end as usize];
            assert_eq!(ring > 0, end <= End::TooDeep, "whole stacks go to the ring");
            let (samples, outer) = (samples > 0, (outer, outer_bytes));
            Outcome { end, frames, all_reads, all_loads, ring, outer, samples, innermost }
        };
        outcomes.iter().map(outcome).collect()
    }
}

fn frame(cfa: CfaRule, fp: RegisterRule) -> Rules {
    Rules::Frame(Frame { cfa, ra: RegisterRule::Saved(Location::at_cfa(-8)), fp, mangled: false })
}

fn by_sp(offset: i64) -> Rules {
    frame(CfaRule::register(7, offset), RegisterRule::Unchanged)
}

/// Functions whose addresses have names here, one for each way to take a step.
const LEAF: u64 = 0x1000;
const BY_FP: u64 = 0x1100;
const START: u64 = 0x1200;
const SIGNAL: u64 = 0x1300;
const CONTEXT: u64 = 0x1400;
const FLEXIBLE: u64 = 0x1500;
const RESTORED: u64 = 0x1600;
/// No row is here, but behind its call, a way back to the stack before.
const SWITCHED: u64 = 0x1700;

fn functions() -> Vec<(u64, Function)> {
    let saved = RegisterRule::Saved(Location::at_cfa(-16));
    let in_memory = RegisterRule::Saved(Location { base: Base::Register(6), offset: -8, dereference: true });
    let rows = |rows: &[(u32, Rules)]| Function {
        size: 0x40,
        rows: rows.iter().map(|&(start, rules)| Row { start, rules }).collect(),
        ..Function::default()
    };
    let signal = |rules| Function { signal: true, ..rows(&[(0, rules)]) };
    vec![
        (LEAF, rows(&[(0, by_sp(8)), (1, frame(CfaRule::register(7, 16), saved)), (5, by_sp(64))])),
        (BY_FP, rows(&[(0, frame(CfaRule::register(6, 16), saved))])),
        (START, rows(&[(0, Rules::Outermost)])),
        (SIGNAL, signal(frame(CfaRule { register: 7, dereference: true, offset: 160 }, saved))),
        (CONTEXT, signal(Rules::SignalContext)),
        (FLEXIBLE, rows(&[(0, frame(CfaRule { register: 10, dereference: true, offset: -8 }, in_memory))])),
        (RESTORED, rows(&[(0, frame(CfaRule::register(7, 8), saved))])),
    ]
}

fn sound() -> (Vec<u8>, Table) {
    let bytes = write_table(Abi::Amd64, 0, &functions()).unwrap().bytes;
    let table = CompactTable::parse(&bytes[..], 0).unwrap();
    table.check().unwrap();
    let description = Table::new(&table, 0).unwrap();
    (bytes, description)
}

/// Words that an adversary puts on a stack. The adversary knows the code.
fn stacks(random: &mut Random) -> Vec<(u64, Vec<u64>)> {
    const WORDS: usize = 64;
    const SIZE: u64 = 8 * WORDS as u64;
    let mut stacks = Vec::new();
    for start in [0, STACK, (1 << 63) - SIZE / 2, 0u64.wrapping_sub(SIZE)] {
        let mut anything = || match random.below(4) {
            0 => code(random),
            1 => start.wrapping_add(8 * random.below(WORDS) as u64),
            2 => [0, 1, u64::MAX, u64::MAX - 7, 1 << 63][random.below(5)],
            _ => random.word(),
        };
        stacks.push((start, (0..WORDS).map(|_| anything()).collect()));
        // Every word is a place on the stack: frame pointers lead to themselves or back.
        stacks.push((start, (0..WORDS).map(|place| start.wrapping_add(8 * (place / 2) as u64)).collect()));
        // Return addresses and frame pointers alternate.
        let mut turns = |place: usize| if place.is_multiple_of(2) { start } else { code(random) };
        stacks.push((start, (0..WORDS).map(&mut turns).collect()));
        stacks.push((start, Vec::new()));
    }
    stacks
}

/// An address in a function or after it.
fn code(random: &mut Random) -> u64 {
    let all = [LEAF, BY_FP, START, SIGNAL, CONTEXT, FLEXIBLE, RESTORED, SWITCHED];
    all[random.below(all.len())] + [random.below(0x44) as u64, 5][random.below(2)]
}

/// A way back that leads anywhere, mostly by few words.
fn way(random: &mut Random) -> WayBack {
    let mut offset = || 8 * (random.below(20) as i32 - 10);
    let words = std::array::from_fn(|_| offset());
    let (minus, cfa, fp, pc, below) = (offset(), offset(), offset(), offset(), offset());
    let (from, flags) = (random.below(5) as u32, random.below(32) as u32);
    WayBack { from, flags, count: random.below(9) as u32, words, minus, cfa, fp, pc, below }
}

/// Several samples with a table.
fn hostile(random: &mut Random, bytes: &[u8], table: Table, count: usize) -> Vec<Sample> {
    let all = stacks(random);
    let some = |_| {
        let (stack, words) = all[random.below(all.len())].clone();
        let mut sample = Sample::new(bytes, table, stack, words);
        let place = |random: &mut Random| stack.wrapping_add(8 * random.below(70) as u64);
        sample.registers = std::array::from_fn(|_| [place(random), random.word()][random.below(2)]);
        sample = sample.at(code(random), place(random), place(random));
        // A sample in the kernel has the user's registers elsewhere. 32-bit programs and kernel threads have
        // none.
        sample.registers[CS] = [USER, USER, USER, 0x10, 0x23][random.below(5)];
        sample.fails = [0, 0, 1, 2, 7][random.below(5)];
        sample.kernel_frames = random.below(129) as u64;
        (sample.thread, sample.way) = (place(random), way(random));
        if random.below(2) == 0 {
            // The stack may be code, and the table's code may be made.
            (sample.made, sample.ranges) = ([LEAF, SIGNAL, 0x2000, place(random)][random.below(4)], 2);
        }
        sample
    };
    (0..count).map(some).collect()
}

#[test]
fn a_sound_stack_is_walked_to_its_root() {
    let (bytes, table) = sound();
    // The return address of the leaf, then a frame with a frame pointer, then the start.
    let words = vec![BY_FP + 4, 7, 0, START + 1, 9];
    let mut sample = Sample::new(&bytes, table, STACK, words).at(LEAF, STACK, STACK + 16);
    sample.kernel_frames = 5;
    let outcome = &Program::new().walk(&[sample])[0];
    assert_eq!((outcome.end, outcome.frames), (End::Root, 3), "{outcome:#x?}");
    assert_eq!(outcome.innermost[..3], [LEAF, BY_FP + 4, START + 1]);
    assert_eq!(outcome.ring, HEADER + 8 * (5 + 3));
}

/// The row says that the frame pointer is saved, but the function has restored it already, and what is below
/// the stack pointer cannot be read. The register keeps its value.
#[test]
fn a_frame_pointer_whose_slot_is_gone_is_kept() {
    let (bytes, table) = sound();
    let words = vec![BY_FP + 4, 7, 0, START + 1, 9];
    let sample = Sample::new(&bytes, table, STACK, words).at(RESTORED, STACK, STACK + 16);
    let outcome = &Program::new().walk(&[sample])[0];
    assert_eq!((outcome.end, outcome.frames), (End::Root, 3), "{outcome:#x?}");
}

/// Frames of one call again and again: a row is looked up once, and the stack is read in pieces of some
/// frames.
#[test]
fn a_deep_recursion_takes_few_reads_and_look_ups() {
    const DEPTH: usize = 500;
    let (bytes, table) = sound();
    // Each frame has 8 words, the return address last.
    let mut words = vec![0; 8 * DEPTH];
    words.iter_mut().skip(7).step_by(8).for_each(|word| *word = LEAF + 7);
    words.extend([START + 1, 9]);
    let last = words.len() - 3;
    words[last] = START + 1;
    let sample = Sample::new(&bytes, table, STACK, words).at(LEAF + 6, STACK, 0);
    let outcome = &Program::new().walk(&[sample])[0];
    assert_eq!((outcome.end, outcome.frames), (End::Root, DEPTH as u64 + 1), "{outcome:#x?}");
    assert!(outcome.all_reads <= DEPTH as u64 / 4, "{outcome:#x?}");
    assert!(outcome.all_loads <= 2 * common::MAX_LOADS / 8, "{outcome:#x?}");
}

/// A signal frame whose registers are those of the trampoline itself: by rows, and by instructions.
#[test]
fn a_stack_that_goes_in_circles_ends_as_too_deep() {
    let (bytes, table) = sound();
    let mut words = vec![0; 40];
    (words[160 / 8], words[168 / 8]) = (STACK, CONTEXT);
    let by_rows = Sample::new(&bytes, table, STACK, words.clone()).at(CONTEXT, STACK, 0);
    let trampoline = STACK + 8 * 30;
    (words[168 / 8], words[30], words[31]) = (trampoline, 0x0f00_0000_0fc0_c748, 5);
    let by_code = Sample::new(&bytes, table, STACK, words).at(trampoline, STACK, 0);
    for mut sample in [by_rows, by_code] {
        sample.kernel_frames = 127;
        let outcome = &Program::new().walk(&[sample])[0];
        assert_eq!((outcome.end, outcome.frames), (End::TooDeep, MAX_FRAMES), "{outcome:#x?}");
        assert_eq!(outcome.ring, HEADER + 8 * (127 + MAX_FRAMES));
    }
}

/// The way of a program of Go from a thread's own stack: by the thread's words to the stack pointer of the
/// goroutine, beside which its frame pointer is.
#[test]
fn a_stack_goes_on_where_another_one_was_left() {
    let (bytes, table) = sound();
    let base = STACK + 8 * 20;
    let mut words = vec![0; 32];
    (words[0], words[1]) = (SWITCHED + 5, 7);
    words[10..12].copy_from_slice(&[BY_FP + 4, 0]);
    words[14..16].copy_from_slice(&[0, START + 1]);
    (words[20], words[25], words[26]) = (STACK + 8 * 24, STACK + 8 * 10, STACK + 8 * 14);
    let sample = |way| {
        let mut sample = Sample::new(&bytes, table, STACK, words.clone()).at(LEAF, STACK, 1);
        (sample.thread, sample.way) = (base, way);
        sample
    };
    let (flags, from) = (WayBack::FP_BESIDE, WayBack::FROM_THREAD);
    let way =
        WayBack { from, flags, count: 2, words: [0, 8, 0, 0, 0, 0], cfa: 8, fp: 8, ..WayBack::default() };
    let nowhere = WayBack { from: WayBack::NOWHERE, ..way };
    let lost = WayBack { words: [0, 8000, 0, 0, 0, 0], ..way };
    let stored = WayBack { flags: flags | WayBack::PC_BESIDE, ..lost };
    let outcomes = Program::new().walk(&[way, nowhere, lost, stored].map(sample));
    let ends: Vec<(End, u64)> = outcomes.iter().map(|outcome| (outcome.end, outcome.frames)).collect();
    assert_eq!(ends, [(End::Root, 4), (End::Root, 2), (End::Memory, 2), (End::Root, 2)]);
    assert_eq!(outcomes[0].innermost[..4], [LEAF, SWITCHED + 5, BY_FP + 4, START + 1]);
}

/// The words of a stack on which code lies, too: from `STACK + 0x800` on, where the process has made it.
const MADE: u64 = STACK + 0x800;

/// A sample in made code, whose frame pointer leads to the frames of made code and of files behind it.
fn in_made_code(code: &[(u64, u64)], pc: u64, (sp, fp): (u64, u64), words: &[u64]) -> Sample {
    let (bytes, table) = sound();
    let mut all = vec![0; 0x200];
    all[..words.len()].copy_from_slice(words);
    for &(at, word) in code {
        all[((at - STACK) / 8) as usize] = word;
    }
    let mut sample = Sample::new(&bytes, table, STACK, all).at(pc, sp, fp);
    (sample.made, sample.ranges) = (MADE, 2);
    sample
}

/// Code that a process made is left by its frame pointer. Its first and last instructions are outside its
/// frame.
#[test]
fn made_code_is_left_by_its_frame_pointer() {
    // Two frames of made code. The outer one's caller is no file's code, so that the stack ends there.
    let words = [STACK + 24, MADE + 0x40, 0, STACK + 40, MADE + 0x80, STACK + 40, 9];
    let within = in_made_code(&[], MADE + 8, (STACK, STACK), &words);
    let outcome = &Program::new().walk(&[within])[0];
    assert_eq!(outcome.innermost[..3], [MADE + 8, MADE + 0x40, MADE + 0x80], "{outcome:#x?}");
    assert_eq!((outcome.end, outcome.frames), (End::NoRows, 3));
    let words = [MADE + 0x20, MADE + 0x40, 0, STACK + 40, MADE + 0x80];
    let (push, moves, ret, pops) = (0xe5_8948_5590, 0x0090_e589_4855, 0xc3_9090, 0x0008_c290);
    let outside = [(push, 1, 0), (ret, 2, 0), (moves, 1, 1), (pops, 1, 0)].map(|(code, offset, lower)| {
        in_made_code(&[(MADE + 8, code)], MADE + 8 + offset, (STACK + 8 - 8 * lower, STACK + 24), &words)
    });
    for outcome in Program::new().walk(&outside) {
        assert_eq!(outcome.innermost[1], MADE + 0x40, "{outcome:#x?}");
    }
}

/// Of the callers that a frame pointer leads to, only those in a file that have made a call count.
#[test]
fn the_caller_of_made_code_has_made_a_call() {
    const BACK: u64 = STACK + 0x400;
    let behind = |code: &[u8]| {
        let mut bytes = [0x90; 8];
        bytes[8 - code.len()..].copy_from_slice(code);
        let words = [0, BACK, 0, 0];
        in_made_code(&[(BACK - 8, u64::from_le_bytes(bytes))], MADE + 8, (STACK, STACK), &words)
    };
    let calls: [&[u8]; 12] = [
        &[0xe8, 1, 2, 3, 4],
        &[0xff, 0xd0],
        &[0x41, 0xff, 0xd2],
        &[0xff, 0x13],
        &[0xff, 0x14, 0x24],
        &[0xff, 0x14, 0xc5, 1, 2, 3, 4],
        &[0xff, 0x15, 1, 2, 3, 4],
        &[0xff, 0x50, 8],
        &[0xff, 0x54, 0x24, 8],
        &[0xff, 0x93, 1, 2, 3, 4],
        &[0xff, 0x94, 0x24, 1, 2, 3, 4],
        &[0x42, 0xff, 0x94, 0xe0, 1, 2, 3, 4],
    ];
    let others: [&[u8]; 9] = [
        &[0x90],
        &[0xe9, 1, 2, 3, 4],
        &[0xe8, 1, 2, 3],
        &[0xff, 0xe0],
        &[0xff, 0x14],
        &[0xff, 0x15],
        &[0xff, 0x14, 0x25],
        &[0xff, 0x54, 0x24],
        &[0xff, 0x94, 1, 2, 3, 4],
    ];
    let program = Program::new();
    for (code, frames) in [(&calls[..], 2), (&others, 1)] {
        let samples: Vec<Sample> = code.iter().map(|code| behind(code)).collect();
        for (outcome, code) in program.walk(&samples).iter().zip(code) {
            // The address is plausible, but the table has no rows for it.
            assert_eq!((outcome.end, outcome.frames), (End::NoRows, frames), "{code:x?} {outcome:#x?}");
        }
    }
}

/// The kernel still has the registers of a thread that ends, but its stack is gone.
#[test]
fn a_thread_that_has_ended_has_no_user_part() {
    let (bytes, table) = sound();
    let ended = Sample {
        kernel_frames: 3,
        ended: true,
        ..Sample::new(&bytes, table, STACK, Vec::new()).at(LEAF, STACK, 0)
    };
    let outcome = &Program::new().walk(&[ended])[0];
    assert_eq!((outcome.end, outcome.frames, outcome.samples), (End::Root, 0, false), "{outcome:#x?}");
    assert_eq!(outcome.ring, HEADER + 8 * 3);
}

#[test]
fn nothing_is_written_of_a_process_that_nobody_asked_for() {
    let (bytes, table) = sound();
    let sample = || Sample::new(&bytes, table, STACK, vec![START + 1, 0]).at(LEAF, STACK, 0);
    let ignored = Sample { ranges: u32::MAX.into(), ..sample() };
    let unknown = Sample { ranges: 0, ..sample() };
    let outcomes = Program::new().walk(&[sample(), ignored, unknown]);
    let written: Vec<_> = outcomes.iter().map(|one| (one.end, one.ring > 0, one.samples)).collect();
    let (root, none) = ((End::Root, true, false), (End::NoProcess, false, false));
    assert_eq!(written, [root, none, (End::NoMapping, false, true)]);
}

/// Nothing describes the innermost code, and a frame further out is larger than the copy of the stack, or has
/// a page that nobody has written to. What lies behind it goes to the ring, if frame pointers lead there.
#[test]
fn what_lies_behind_a_large_frame_goes_to_the_ring() {
    const PAGE: u64 = 4096;
    const COPIED: u64 = 2 * PAGE;
    let (bytes, table) = sound();
    // Frame pointers at words 2, 10 and 2,000, and further out.
    let chain = |last: u64| {
        let mut words = vec![1; if last < 4096 { 4096 } else { 8192 }];
        for (at, to) in [(2, 10), (10, 2000), (2000, last), (last as usize, 0)] {
            words[at] = if to == 0 { 0 } else { STACK + 8 * to };
        }
        Sample::new(&bytes, table, STACK, words).at(0x10, STACK, STACK + 16)
    };
    let with = |copied: u64, sample: Sample| Sample { copied, ..sample };
    let odd = |mut sample: Sample| {
        sample.words[10] += 4;
        sample
    };
    let samples = [
        with(COPIED, chain(3000)),
        // All of the chain is in the copy, and none of it.
        with(8 * 4096, chain(3000)),
        with(0, chain(3000)),
        // The second word of the last frame is not.
        with(8 * 2001, chain(3000)),
        // The next page is not there.
        with(8 * 2100, chain(4000)),
        // These are no frame pointers.
        with(COPIED, odd(chain(3000))),
        with(COPIED, chain(3000)).at(0x10, STACK, STACK - 8),
        with(COPIED, chain(3000)).at(0x10, STACK, STACK + 20),
        with(COPIED, chain(3000)).at(0x10, STACK, STACK + 8 * 5000),
        with(COPIED, chain(3000)).at(0x10, STACK, STACK + (1 << 30)),
        // A page between the links is not there, or one of the innermost frame, or none.
        Sample { hole: STACK + PAGE, ..with(8 * 4096, chain(3000)) },
        Sample { hole: STACK + PAGE, ..with(8 * 4096, chain(3000)).at(0x10, STACK, STACK + 8 * 2000) },
        Sample { hole: STACK + 7 * PAGE, ..with(8 * 4096, chain(3000)) },
        // The innermost frame is the large one.
        with(COPIED, chain(3000)).at(0x10, STACK, STACK + 8 * 2000),
        // One of the last pages of the largest copy is not there.
        Sample { hole: STACK + 14 * PAGE, ..with(16 * PAGE - 8, chain(8000)) },
    ];
    let outcomes = Program::new().walk(&samples);
    let found: Vec<(u64, u64)> = outcomes.iter().map(|outcome| outcome.outer).collect();
    let behind = |word: u64, bytes| (STACK + 8 * word, bytes);
    let rest = |word: u64| PAGE - 8 * word % PAGE;
    assert_eq!(
        found,
        [
            behind(2000, rest(2000) + PAGE),
            (0, 0),
            (0, 0),
            behind(2000, rest(2000) + PAGE),
            behind(4000, rest(4000)),
            (0, 0),
            (0, 0),
            (0, 0),
            (0, 0),
            (0, 0),
            behind(2000, rest(2000) + PAGE),
            behind(2000, rest(2000) + PAGE),
            (0, 0),
            behind(2000, rest(2000) + PAGE),
            behind(8000, rest(8000)),
        ],
        "{outcomes:#x?}"
    );
    assert!(outcomes.iter().all(|outcome| outcome.samples && outcome.ring == 0));
}

#[test]
fn hostile_stacks_end() {
    let (program, mut random) = (Program::new(), Random(1));
    let (bytes, table) = sound();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..10 {
        let samples = hostile(&mut random, &bytes, table, 2000);
        seen.extend(program.walk(&samples).iter().map(|outcome| outcome.end));
    }
    for end in [End::Root, End::NoRows, End::Memory, End::Register, End::NoProgress, End::Narrow] {
        assert!(seen.contains(&end), "no stack ended at {}: {seen:?}", end.describe());
    }
}

#[test]
fn hostile_tables_and_stacks_end() {
    let (program, mut random) = (Program::new(), Random(2));
    let (bytes, table) = sound();
    let mut samples = Vec::new();
    for at in 0..bytes.len() {
        for value in [0, 1, 0x0f, 0x7f, 0x80, 0xe0, 0xff, random.word() as u8] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            // The description as the loader reads it, or from before the damage.
            let own = CompactTable::parse(&damaged[..], 0).ok().and_then(|table| Table::new(&table, 0));
            samples.extend(hostile(&mut random, &damaged, own.unwrap_or(table), 3));
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    for samples in samples.chunks(2000) {
        seen.extend(program.walk(samples).iter().map(|outcome| outcome.end));
    }
    assert!(seen.contains(&End::Malformed), "{seen:?}");
}
