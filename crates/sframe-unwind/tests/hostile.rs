//! Tests the C interface with tables and stacks that an adversary made. A step must end, read few words and
//! only through the caller's function, and give the same answer when it is repeated.
//!
//! The tables are those of real linked programs for three architectures, damaged byte by byte and at random.
//! The stacks are random, lead back to themselves, or lie at the ends of the address space. The tests call
//! the functions as a C program does, through the declarations of `include/sframe-unwind.h`.

#[path = "../../sframe-format/tests/common/mod.rs"]
mod common;

use common::Fixture;
use sframe_format::{Abi, Section};
use std::ffi::{CStr, c_char, c_int, c_void};

// This links the functions that are declared below.
use sframe_unwind as _;

#[repr(C)]
struct Bytes {
    bytes: *const u8,
    size: usize,
    address: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Frame {
    address: u64,
    sp: u64,
    source: c_int,
}

type Read = unsafe extern "C" fn(u64, *mut u64, *mut c_void) -> c_int;

unsafe extern "C" {
    fn sframe_end_text(end: c_int) -> *const c_char;
    fn sframe_refresh();
    fn sframe_backtrace(
        context: *const c_void,
        frames: *mut Frame,
        capacity: usize,
        end: *mut c_int,
    ) -> usize;
    fn sframe_unwinder_new(machine: c_int) -> *mut c_void;
    fn sframe_unwinder_free(unwinder: *mut c_void);
    fn sframe_unwinder_add(
        unwinder: *mut c_void,
        id: u64,
        start: u64,
        end: u64,
        bias: u64,
        sframe: *const Bytes,
        eh_frame: *const Bytes,
    ) -> c_int;
    fn sframe_unwinder_remove(unwinder: *mut c_void, start: u64);
    fn sframe_unwinder_begin(
        unwinder: *mut c_void,
        pc: u64,
        values: *const u64,
        known: *const u8,
        count: usize,
    );
    fn sframe_unwinder_step(unwinder: *mut c_void, read: Read, data: *mut c_void, frame: *mut Frame)
    -> c_int;
}

/// `enum sframe_end`.
const CALLER: c_int = 0;
const FULL: c_int = 2;
const NO_PROGRESS: c_int = 6;
const MALFORMED: c_int = 7;
/// The kernel saved the registers for a signal handler.
const SIGNAL_CONTEXT: c_int = 3;

/// The most words that a step may read; a signal frame contains all registers.
const MAX_READS: usize = 40;
/// The bound that the caller sets for a walk.
const MAX_FRAMES: usize = 64;

/// A small random generator (splitmix64), so that every run has the same stacks.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.word() % limit as u64) as usize
    }
}

/// All memory that exists: a stack. Counts the reads.
struct Stack {
    start: u64,
    words: Vec<u64>,
    reads: usize,
}

impl Stack {
    fn new(start: u64, words: Vec<u64>) -> Self {
        Self { start, words, reads: 0 }
    }

    /// The word at an address; `None` between two words.
    fn word(&self, address: u64) -> Option<u64> {
        let offset = address.wrapping_sub(self.start);
        let place = usize::try_from(offset / 8).ok().filter(|_| offset.is_multiple_of(8))?;
        self.words.get(place).copied()
    }
}

unsafe extern "C" fn read(address: u64, word: *mut u64, stack: *mut c_void) -> c_int {
    // SAFETY: `Unwinder::walk` passes the stack, and the library passes a place for the word.
    let (stack, word) = unsafe { (&mut *stack.cast::<Stack>(), &mut *word) };
    stack.reads += 1;
    match stack.word(address) {
        Some(found) => *word = found,
        None => return -1,
    }
    0
}

struct Unwinder(*mut c_void);

impl Drop for Unwinder {
    fn drop(&mut self) {
        // SAFETY: it came from `sframe_unwinder_new`.
        unsafe { sframe_unwinder_free(self.0) }
    }
}

impl Unwinder {
    fn new(abi: Abi) -> Self {
        // SAFETY: it takes any number.
        let unwinder = unsafe { sframe_unwinder_new((abi as u8).into()) };
        assert!(!unwinder.is_null());
        Self(unwinder)
    }

    /// Adds a file that covers all addresses, and replaces the one before.
    fn add(&self, sframe: &[u8], address: u64, eh_frame: &[u8], eh_frame_address: u64) {
        let of = |bytes: &[u8], address| Bytes { bytes: bytes.as_ptr(), size: bytes.len(), address };
        let (sframe, eh_frame) = (of(sframe, address), of(eh_frame, eh_frame_address));
        // SAFETY: the sections live until the call returns.
        unsafe {
            sframe_unwinder_remove(self.0, 0);
            sframe_unwinder_add(self.0, 1, 0, u64::MAX, 0, &raw const sframe, &raw const eh_frame);
        }
    }

    /// Walks a stack, starting with registers that all contain `value`, except for `sp` and `fp`.
    fn walk(
        &self,
        abi: Abi,
        stack: &mut Stack,
        pc: u64,
        sp: u64,
        fp: u64,
        value: u64,
    ) -> (Vec<Frame>, c_int) {
        let mut values = [value; 33];
        (values[abi.stack_pointer() as usize], values[abi.frame_pointer() as usize]) = (sp, fp);
        // SAFETY: the number of values is the one that is passed.
        unsafe { sframe_unwinder_begin(self.0, pc, values.as_ptr(), [1; 33].as_ptr(), values.len()) };
        let mut frames = Vec::new();
        while frames.len() < MAX_FRAMES {
            let mut frame = Frame::default();
            stack.reads = 0;
            // SAFETY: `read` takes a stack.
            let end = unsafe {
                sframe_unwinder_step(self.0, read, std::ptr::from_mut(stack).cast(), &raw mut frame)
            };
            assert!(stack.reads <= MAX_READS, "{} words for a step", stack.reads);
            assert!((CALLER..=MALFORMED).contains(&end), "end {end}");
            if end != CALLER {
                return (frames, end);
            }
            frames.push(frame);
        }
        (frames, CALLER)
    }
}

/// The stacks of an adversary who knows the addresses of the code.
fn stacks(random: &mut Random, code: &[u64]) -> Vec<Stack> {
    const WORDS: usize = 48;
    const SIZE: u64 = 8 * WORDS as u64;
    let mut stacks = Vec::new();
    for start in [0, 0x7ffd_0000, (1 << 63) - SIZE / 2, 0u64.wrapping_sub(SIZE)] {
        let mut anything = || match random.below(4) {
            0 => code[random.below(code.len())],
            1 => start.wrapping_add(8 * random.below(WORDS) as u64),
            2 => [0, 1, u64::MAX, 1 << 63, i64::MAX as u64][random.below(5)],
            _ => random.word(),
        };
        stacks.push(Stack::new(start, (0..WORDS).map(|_| anything()).collect()));
        // Every word is a place on the stack: frame pointers lead to themselves or back.
        let back = |place: usize| start.wrapping_add(8 * (place / 2) as u64);
        stacks.push(Stack::new(start, (0..WORDS).map(back).collect()));
        // Return addresses and frame pointers alternate.
        let turns = |place: usize| if place.is_multiple_of(2) { start } else { code[place % code.len()] };
        stacks.push(Stack::new(start, (0..WORDS).map(turns).collect()));
    }
    stacks
}

/// Addresses in the functions of a table, and around them.
fn code(fixture: &Fixture) -> Vec<u64> {
    let section = Section::new(&fixture.data, fixture.address);
    let around = |start: u64, size: u32| {
        let size = u64::from(size);
        [start, start.wrapping_add(1), start.wrapping_add(size / 2), start.wrapping_add(size)]
    };
    let all: Vec<u64> = section
        .blobs()
        .flat_map(|blob| blob.fdes().map(|fde| around(fde.address, fde.size)).collect::<Vec<_>>())
        .flatten()
        .collect();
    assert!(!all.is_empty());
    all
}

/// Walks stacks, each one twice: the second walk finds its rules in the cache.
fn walk_all(unwinder: &Unwinder, abi: Abi, random: &mut Random, code: &[u64], count: usize) -> usize {
    let mut steps = 0;
    for mut stack in stacks(random, code).into_iter().skip(random.below(12)).take(count) {
        let inside =
            |random: &mut Random| stack.start.wrapping_add(8 * random.below(stack.words.len()) as u64);
        let pc = code[random.below(code.len())];
        let (sp, fp) = (inside(random), inside(random));
        let value = [sp, random.word(), u64::MAX][random.below(3)];
        let first = unwinder.walk(abi, &mut stack, pc, sp, fp, value);
        assert_eq!(unwinder.walk(abi, &mut stack, pc, sp, fp, value), first);
        steps += first.0.len();
    }
    steps
}

/// The tables of linked programs, one for each architecture, and one of the kind that `--sframe-index`
/// writes.
fn fixtures() -> Vec<(Abi, Fixture)> {
    let names = ["prog.x86_64.ld2.47", "prog.aarch64.ld2.47", "prog.s390x.ld2.47", "overlay.x86_64.lld22"];
    let all = common::named(&names).into_iter().filter(|fixture| !fixture.data.is_empty());
    let abi = |fixture: &Fixture| Section::new(&fixture.data, 0).blob_at(0).expect("a blob").header().abi;
    let all: Vec<_> = all.map(|fixture| (abi(&fixture), fixture)).collect();
    assert!(all.len() >= names.len());
    all
}

/// An interpreter such as Miri takes only a few of the inputs.
fn some(count: usize) -> usize {
    if cfg!(miri) { count.div_ceil(500) } else { count }
}

#[test]
fn damage_of_any_byte_of_a_table_is_survived() {
    let mut random = Random(1);
    for (abi, fixture) in fixtures() {
        let (unwinder, code) = (Unwinder::new(abi), code(&fixture));
        let mut steps = 0;
        let stride = if cfg!(miri) { 97 } else { 1 };
        for at in (0..fixture.data.len()).step_by(stride) {
            for value in [0, 1, 0x7f, 0x80, 0xff, random.word() as u8] {
                let mut bytes = fixture.data.clone();
                bytes[at] = value;
                unwinder.add(&bytes, fixture.address, &[], 0);
                steps += walk_all(&unwinder, abi, &mut random, &code, 2);
            }
        }
        assert!(steps > 0, "{}: no walk took a step", fixture.name());
    }
}

#[test]
fn random_damage_of_tables_and_frames_is_survived() {
    let mut random = Random(2);
    for (abi, fixture) in fixtures() {
        let (unwinder, code) = (Unwinder::new(abi), code(&fixture));
        let damage = |random: &mut Random, bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            for _ in 0..random.below(6).min(bytes.len()) {
                let at = random.below(bytes.len());
                match random.below(3) {
                    0 => bytes[at] = random.word() as u8,
                    1 => bytes[at] ^= 1 << random.below(8),
                    _ => bytes.truncate(at + 1),
                }
            }
            bytes
        };
        for _ in 0..some(2000) {
            let sframe = damage(&mut random, &fixture.data);
            let eh_frame = damage(&mut random, &fixture.eh_frame);
            let far = random.word();
            let address = [fixture.address, 0, u64::MAX - 16, far][random.below(4)];
            unwinder.add(&sframe, address, &eh_frame, fixture.eh_frame_address);
            walk_all(&unwinder, abi, &mut random, &code, 2);
        }
    }
}

#[test]
fn a_sound_table_leads_over_no_stack_for_ever() {
    let mut random = Random(3);
    for (abi, fixture) in fixtures() {
        let (unwinder, code) = (Unwinder::new(abi), code(&fixture));
        unwinder.add(&fixture.data, fixture.address, &fixture.eh_frame, fixture.eh_frame_address);
        for _ in 0..some(3000) {
            for stack in &mut stacks(&mut random, &code) {
                let pc = code[random.below(code.len())];
                let sp = stack.start.wrapping_add(8 * random.below(stack.words.len()) as u64);
                let (frames, _) = unwinder.walk(abi, stack, pc, sp, stack.start, sp);
                // Only a signal frame leads to another stack, and these programs have none.
                if frames.iter().all(|frame| frame.source != SIGNAL_CONTEXT) {
                    let above =
                        frames.iter().skip(1).zip(&frames).all(|(caller, frame)| caller.sp > frame.sp);
                    assert!(above, "{frames:#x?}");
                }
            }
            if cfg!(miri) {
                break;
            }
        }
    }
}

/// A signal handler's trampoline, and the kernel's frame for it, whose registers are those of the trampoline
/// itself. A walk over it never ends; the header says that the caller has to limit it.
#[test]
fn a_signal_frame_that_leads_to_itself_goes_on_until_the_caller_stops() {
    const START: u64 = 0x7ffd_0000;
    // mov $15, %rax; syscall
    let mut words = vec![0x0f00_0000_0fc0_c748, 5];
    words.resize(2 + 32, 0);
    let (trampoline, sp) = (START, START + 16);
    // The places of rsp and rip in `struct rt_sigframe`.
    (words[2 + 160 / 8], words[2 + 168 / 8]) = (sp, trampoline);
    let unwinder = Unwinder::new(Abi::Amd64);
    let mut stack = Stack::new(START, words);
    let (frames, end) = unwinder.walk(Abi::Amd64, &mut stack, trampoline, sp, 0, 0);
    assert_eq!((frames.len(), end), (MAX_FRAMES, CALLER));
    let same = Frame { address: trampoline, sp, source: SIGNAL_CONTEXT };
    assert!(frames.iter().all(|frame| *frame == same), "{frames:#x?}");
}

/// Frames of this process from a handler's third argument. Its registers may contain anything: interrupted
/// code may have any stack pointer.
fn backtrace(context: &[u64], frames: &mut [Frame]) -> (usize, c_int) {
    let mut end = -1;
    // SAFETY: there are more words than the kernel's structure has, and there is room for the frames.
    let count =
        unsafe { sframe_backtrace(context.as_ptr().cast(), frames.as_mut_ptr(), frames.len(), &raw mut end) };
    assert!(count <= frames.len() && (1..=8).contains(&end), "{count} frames, end {end}");
    (count, end)
}

/// The number of words in a `ucontext_t` with its registers, on every machine.
const CONTEXT: usize = 128;

#[test]
#[cfg_attr(miri, ignore = "an interpreter has no loaded files")]
fn registers_of_an_interrupted_program_may_hold_anything() {
    // SAFETY: no handler is running.
    unsafe { sframe_refresh() };
    let mut random = Random(4);
    let code = [backtrace as *const () as u64, sframe_refresh as *const () as u64];
    let mut frames = [Frame::default(); MAX_FRAMES];
    let mut found = 0;
    for _ in 0..3000 {
        let mut context = [0; CONTEXT];
        let start = context.as_ptr() as u64;
        for word in &mut context {
            *word = match random.below(4) {
                0 => code[random.below(2)] + random.below(200) as u64,
                1 => start + 8 * random.below(CONTEXT) as u64,
                2 => [0, 1, u64::MAX, u64::MAX - 7, 1 << 63][random.below(5)],
                _ => random.word(),
            };
        }
        found += backtrace(&context, &mut frames).0;
    }
    assert!(found > 3000, "no walk took a step");
}

#[cfg(target_arch = "x86_64")]
#[test]
#[cfg_attr(miri, ignore = "an interpreter has no loaded files")]
fn a_walk_in_a_circle_ends_with_the_room() {
    // SAFETY: no handler is running.
    unsafe { sframe_refresh() };
    // As above: a trampoline that no file covers, and a context that leads back to it.
    let code = [0x0f00_0000_0fc0_c748u64, 5];
    let mut context = [0; CONTEXT];
    (context[160 / 8], context[168 / 8]) = (context.as_ptr() as u64, code.as_ptr() as u64);
    let mut frames = [Frame::default(); MAX_FRAMES];
    assert_eq!(backtrace(&context, &mut frames), (MAX_FRAMES, FULL));
}

/// A frame that claims that its caller lies at the same place.
#[test]
fn a_frame_that_leads_to_itself_ends_the_walk() {
    let (abi, fixture) =
        fixtures().into_iter().find(|(abi, _)| *abi == Abi::Amd64).expect("one is for x86-64");
    let (unwinder, code) = (Unwinder::new(abi), code(&fixture));
    unwinder.add(&fixture.data, fixture.address, &fixture.eh_frame, fixture.eh_frame_address);
    let mut ends = 0;
    for &pc in &code {
        // All frame pointers and return addresses are equal, and the stack ends at the end of the address
        // space.
        let mut stack = Stack::new(0u64.wrapping_sub(256), vec![pc; 32]);
        let (_, end) = unwinder.walk(abi, &mut stack, pc, u64::MAX - 15, u64::MAX - 7, 0);
        ends += usize::from(end == NO_PROGRESS);
    }
    assert!(ends > 0, "no walk went around the end of the address space");
}

/// The texts are those in the header's comments.
#[test]
fn every_end_has_words() {
    let (_, header) = include_str!("../include/sframe-unwind.h").split_once("enum sframe_end {").expect("it");
    let mut texts = Vec::new();
    for end in -1..=9 {
        // SAFETY: it takes any number and returns a text.
        let text = unsafe { CStr::from_ptr(sframe_end_text(end)) }.to_str().expect("a text");
        texts.push(text);
    }
    assert_eq!((texts[0], texts[10]), ("no such end", "no such end"));
    for (number, text) in texts[4..10].iter().enumerate() {
        let number = number + 3;
        let line =
            header.lines().find(|line| line.contains("SFRAME_") && line.contains(&format!(" = {number}")));
        assert!(line.is_some_and(|line| line.contains(&format!("/* {text} */"))), "{number}: {text}");
    }
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), 10);
}

/// A C program passes null if it has nothing.
#[test]
fn sections_and_registers_that_are_null_are_empty() {
    let unwinder = Unwinder::new(Abi::Amd64);
    let nothing = Bytes { bytes: std::ptr::null(), size: 0, address: 0 };
    let mut stack = Stack::new(0, Vec::new());
    let mut frame = Frame::default();
    // SAFETY: whatever is null has no elements.
    let end = unsafe {
        let added = sframe_unwinder_add(unwinder.0, 1, 0, 100, 0, &raw const nothing, &raw const nothing);
        assert_eq!(added, 0);
        assert_eq!(sframe_unwinder_add(unwinder.0, 2, 200, 100, 7, std::ptr::null(), std::ptr::null()), 0);
        sframe_unwinder_begin(unwinder.0, 7, std::ptr::null(), std::ptr::null(), 0);
        sframe_unwinder_step(unwinder.0, read, (&raw mut stack).cast(), &raw mut frame)
    };
    assert_eq!(end, 3, "no rows cover the code");
    // SAFETY: it takes null.
    unsafe { sframe_unwinder_free(std::ptr::null_mut()) };
}
