//! Tests walks from one stack to another in a program that switches between them as Go does
//! (`fixtures/go_stacks.s`).

mod common;

use common::unwound::{Unwound, fixture};
use common::{Writer, words};
use sframe_format::Abi;
use stacks::bytes::Bytes;
use stacks::memory::Memory;
use stacks::session::{Session, Settings};
use stacks::snapshot::{Snapshot, Thread};
use stacks::statistics::End;
use std::path::Path;

/// In `leaf`, at its first instruction.
const LEAF: u64 = 0x40_0100;
/// Behind calls of `work`.
const BEHIND_SYSTEM_STACK: u64 = 0x40_00c9;
const BEHIND_C: u64 = 0x40_00ce;
const BEHIND_CLOCK: u64 = 0x40_00d3;
const BEHIND_LARGER_STACK: u64 = 0x40_00d8;
const BEHIND_CROSSES: u64 = 0x40_00dd;
/// Behind the calls of `leaf`, or of another function.
const IN_CROSSES: u64 = 0x40_00fd;
const IN_SYSTEM_STACK: u64 = 0x40_012a;
const IN_LARGER_STACK: u64 = 0x40_0176;
const IN_C: u64 = 0x40_01df;
const IN_C_ALREADY: u64 = 0x40_0204;
const IN_CALLBACK: u64 = 0x40_024f;
const IN_CLOCK: u64 = 0x40_02af;
const IN_SCHEDULE: u64 = 0x40_02c9;
const GOEXIT: u64 = 0x40_02d1;
const IN_CLONE: u64 = 0x40_02f4;

const THREAD: u64 = 0x7f00_0000;
/// Data of the thread, and the goroutines: that with the thread's stack and the one before.
const DATA: u64 = 0x7f00_0100;
const SYSTEM: u64 = 0x7f00_0200;
const GOROUTINE: u64 = 0x7f00_0300;
/// A thread's own stack, which lies above a goroutine's.
const STACK: u64 = 0x7f00_2000;
const OTHER: u64 = 0x7f00_1000;
const END_OF_OTHER: u64 = OTHER + 0x800;

/// The memory of the process, by words.
struct Words(Vec<u8>);

impl Words {
    /// What leads from the thread to its goroutines. The goroutine before has these registers.
    fn new(sp: u64, pc: u64, fp: u64) -> Self {
        let mut words = Self(vec![0; 0x3000]);
        words.set(THREAD - 16, &[SYSTEM]);
        words.set(SYSTEM + 40, &[DATA]);
        words.set(DATA + 8, &[SYSTEM]);
        words.set(DATA + 24, &[GOROUTINE]);
        words.set(GOROUTINE + 16, &[END_OF_OTHER]);
        words.set(GOROUTINE + 56, &[sp, pc]);
        words.set(GOROUTINE + 104, &[fp]);
        words
    }

    fn set(&mut self, address: u64, words: &[u64]) {
        let at = (address + 0x100 - THREAD) as usize;
        self.0[at..at + 8 * words.len()].copy_from_slice(&common::words(words));
    }
}

/// Walks from `leaf`, which was called at the bottom of `STACK`.
fn walk(words: Words, fp: u64, base: Option<u64>) -> (Vec<u64>, End) {
    let mut registers = vec![None; 33];
    (registers[6], registers[7]) = (Some(fp), Some(STACK));
    let mut snapshot = Snapshot::new(Abi::Amd64);
    snapshot.saved = words.0.len();
    snapshot.memory = Memory::new(vec![(THREAD - 0x100, Bytes::from(words.0))]);
    snapshot.threads = vec![Thread { tid: 1, signal: 0, pc: LEAF, registers, base }];
    let mut session = Session::new(Abi::Amd64, Settings::default());
    let file = session.files_mut().open_here(Path::new(&fixture("tests/fixtures/go_stacks")), None);
    session.map_whole(snapshot.pid, file, |_| Some(0));
    let mut found = (Vec::new(), End::TooDeep);
    session.unwind_saved(&snapshot, &mut |stack| {
        found = (stack.frames.iter().map(|frame| frame.address).collect(), stack.end);
    });
    found
}

#[test]
fn a_walk_goes_on_where_the_goroutine_was_left() {
    let mut words = Words::new(OTHER, 0, OTHER + 0x40);
    words.set(STACK, &[IN_SYSTEM_STACK]);
    words.set(OTHER, &[BEHIND_SYSTEM_STACK, 0, 0, 0, GOEXIT]);
    let expected = (vec![LEAF, IN_SYSTEM_STACK, BEHIND_SYSTEM_STACK, GOEXIT], End::Root);
    assert_eq!(walk(words, 0, Some(THREAD)), expected);
}

/// Without the thread's base, nothing leads to the goroutine; and nothing leads to one that is not there.
#[test]
fn a_walk_that_does_not_find_the_goroutine_says_so() {
    for (sp, base) in [(OTHER, None), (0, Some(THREAD)), (OTHER + 8, Some(THREAD)), (OTHER, Some(OTHER))] {
        let mut words = Words::new(sp, 0, 0);
        words.set(STACK, &[IN_SYSTEM_STACK]);
        words.set(OTHER, &[BEHIND_SYSTEM_STACK, 0, 0, 0, GOEXIT]);
        assert_eq!(walk(words, 0, base), (vec![LEAF, IN_SYSTEM_STACK], End::OtherStack), "{sp:x}");
    }
}

#[test]
fn the_function_that_needed_a_larger_stack_is_found() {
    let mut words = Words::new(OTHER, BEHIND_LARGER_STACK, 0);
    words.set(STACK, &[IN_LARGER_STACK]);
    words.set(OTHER, &[0, 0, 0, GOEXIT]);
    let expected = (vec![LEAF, IN_LARGER_STACK, BEHIND_LARGER_STACK, GOEXIT], End::Root);
    assert_eq!(walk(words, 0, Some(THREAD)), expected);
}

/// The thread's goroutine is then another one than that which needed a larger stack.
#[test]
fn nothing_calls_the_scheduler_that_it_has_chosen() {
    let mut words = Words::new(OTHER, BEHIND_LARGER_STACK, 0);
    words.set(STACK, &[IN_SCHEDULE, 0, IN_LARGER_STACK]);
    words.set(OTHER, &[0, 0, 0, GOEXIT]);
    assert_eq!(walk(words, 0, Some(THREAD)), (vec![LEAF, IN_SCHEDULE, IN_LARGER_STACK], End::Root));
}

/// What lies above on its stack is of no caller.
#[test]
fn a_thread_that_go_has_started_itself_begins_in_clone() {
    for above in [0, BEHIND_C, GOEXIT] {
        let mut words = Words::new(OTHER, BEHIND_LARGER_STACK, 0);
        words.set(STACK, &[IN_CLONE, above, above]);
        assert_eq!(walk(words, 0, Some(THREAD)), (vec![LEAF, IN_CLONE], End::Root));
    }
}

#[test]
fn a_walk_leaves_c_by_the_words_that_were_stored_for_it() {
    let mut words = Words::new(0, 0, 0);
    words.set(STACK, &[IN_C, 0, END_OF_OTHER - OTHER, GOROUTINE]);
    words.set(OTHER, &[0, BEHIND_C, 0, 0, 0, GOEXIT]);
    let expected = (vec![LEAF, IN_C, BEHIND_C, GOEXIT], End::Root);
    assert_eq!(walk(words, 0, None), expected);
    // On the thread's own stack from the start.
    let mut words = Words::new(0, 0, 0);
    words.set(STACK, &[IN_C_ALREADY, 0, STACK + 0x50]);
    words.set(STACK + 0x50, &[0, BEHIND_C, 0, 0, 0, GOEXIT]);
    assert_eq!(walk(words, 0, None), (vec![LEAF, IN_C_ALREADY, BEHIND_C, GOEXIT], End::Root));
}

#[test]
fn a_walk_leaves_the_kernels_clock_by_the_frame_pointer() {
    let mut words = Words::new(0, 0, 0);
    words.set(STACK, &[IN_CLOCK]);
    words.set(OTHER + 0x10, &[0, BEHIND_CLOCK, 0, 0, 0, GOEXIT]);
    assert_eq!(walk(words, OTHER + 0x10, None), (vec![LEAF, IN_CLOCK, BEHIND_CLOCK, GOEXIT], End::Root));
}

/// From Go to C to Go, twice: each callback has stored where the one further out has its frame, which C left
/// by its frame pointer.
#[test]
fn a_walk_goes_through_go_and_c_by_turns() {
    let mut words = Words::new(0, 0, 0);
    let (inner, outer) = (STACK + 0x100, STACK + 0x200);
    words.set(SYSTEM + 56, &[inner]);
    words.set(STACK, &[IN_CALLBACK]);
    // The frames of the callbacks, and behind each the frame of C, at the end of which Go has stored its way.
    words.set(inner, &[outer, 0, inner + 0x60, IN_CROSSES]);
    words.set(inner + 0x60, &[0, IN_C, 0, END_OF_OTHER - OTHER, GOROUTINE]);
    words.set(OTHER, &[0, IN_CALLBACK]);
    words.set(outer, &[STACK + 0x300, 0, outer + 0x40, IN_CROSSES]);
    words.set(outer + 0x40, &[0, BEHIND_CROSSES, 0, 0, 0, GOEXIT]);
    let calls = [IN_CALLBACK, IN_CROSSES, IN_C, IN_CALLBACK, IN_CROSSES, BEHIND_CROSSES];
    let expected = [&[LEAF][..], &calls, &[GOEXIT]].concat();
    assert_eq!(walk(words, 0, Some(THREAD)), (expected, End::Root));
}

/// A stored frame that is not further out would lead in circles.
#[test]
fn callbacks_lead_outwards_only() {
    let mut words = Words::new(0, 0, 0);
    let inner = STACK + 0x100;
    words.set(SYSTEM + 56, &[inner]);
    words.set(STACK, &[IN_CALLBACK]);
    words.set(inner, &[inner, 0, inner + 0x60, IN_CROSSES]);
    words.set(inner + 0x60, &[0, IN_C, 0, END_OF_OTHER - OTHER, GOROUTINE]);
    words.set(OTHER, &[0, IN_CALLBACK]);
    let expected = vec![LEAF, IN_CALLBACK, IN_CROSSES, IN_C, IN_CALLBACK];
    assert_eq!(walk(words, 0, Some(THREAD)), (expected, End::OtherStack));
}

/// Samples have a copy of one stack.
#[test]
fn a_copied_stack_ends_where_another_one_goes_on() {
    let mut writer = Writer::default();
    writer.comm(7, "go_stacks", true, 1);
    writer.mmap(7, (0x40_0000, 0x1000, 0), &fixture("tests/fixtures/go_stacks"), 2);
    for caller in [IN_SYSTEM_STACK, IN_C, IN_CALLBACK, IN_CLOCK, IN_LARGER_STACK] {
        writer.sample(7, 10, [STACK, OTHER, LEAF], &[], &words(&[caller, 0, 8, GOROUTINE]));
    }
    let unwound = Unwound::of(&writer);
    let ends: Vec<End> = unwound.profile.rows.iter().map(|row| row.end).collect();
    assert_eq!(ends[..4], [End::OtherStack; 4]);
    assert_eq!(ends[4], End::Root);
    assert!((0..5).all(|sample| unwound.frames(sample).len() == 2));
}
