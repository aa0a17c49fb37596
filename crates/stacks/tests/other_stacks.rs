//! Tests walks through functions that leave their callers' stacks (`fixtures/aligned.s`).

mod common;

use common::unwound::{Unwound, fixture};
use common::{Writer, words};
use sframe_format::Source;
use stacks::statistics::End;

const STACK: u64 = 0x7ffe_0000_1000;
const IN_START: u64 = 0x40_0105;
const IN_KEEPS: u64 = 0x40_0218;
const IN_REALIGNED: u64 = 0x40_023b;
const LEAF: u64 = 0x40_0250;
const RESTORER: u64 = 0x40_0260;
/// Behind the system call that makes a thread.
const IN_CLONE: u64 = 0x40_0277;

/// A sample at an address, with a frame pointer and these words on the stack.
fn sample(fp: u64, at: u64, stack: &[u64]) -> Unwound {
    let mut writer = Writer::default();
    writer.comm(7, "aligned", true, 1);
    writer.mmap(7, (0x40_0000, 0x1000, 0), &fixture("tests/fixtures/aligned"), 2);
    writer.sample(7, 10, [STACK, fp, at], &[], &words(stack));
    Unwound::of(&writer)
}

fn addresses(unwound: &Unwound) -> Vec<u64> {
    unwound.frames(0).iter().map(|frame| frame.0).collect()
}

fn place(word: usize) -> u64 {
    STACK + 8 * word as u64
}

/// The stack of `leaf`, which `realigned` calls and that `keeps`, with its frame pointer.
fn aligned_stack() -> (u64, [u64; 23]) {
    let mut stack = [0; 23];
    stack[0] = IN_REALIGNED;
    // The word below the frame pointer is the CFA of `realigned`.
    (stack[3], stack[9]) = (place(10), IN_KEEPS);
    // A word of the frame of `keeps` is the place of its return address.
    (stack[18], stack[22]) = (place(22), IN_START);
    (place(4), stack)
}

#[test]
fn words_of_aligned_frames_lead_to_their_callers() {
    let (fp, stack) = aligned_stack();
    let unwound = sample(fp, LEAF, &stack);
    let callers = [IN_KEEPS, IN_START].map(|address| (address, Some(Source::Instructions)));
    let first = [(LEAF, Some(Source::Topmost)), (IN_REALIGNED, Some(Source::EhFrame))];
    assert_eq!(unwound.frames(0), [&first[..], &callers].concat());
    assert_eq!(unwound.profile.rows[0].end, End::Root);
}

/// The words may be anything, as they were read by instructions.
#[test]
fn what_an_aligned_frame_leads_to_is_above_it_and_behind_a_call() {
    for (word, wrong) in
        [(3, place(0)), (9, 0x40_0225), (9, 0), (18, place(8)), (18, 1), (22, STACK), (22, LEAF)]
    {
        let (fp, mut stack) = aligned_stack();
        stack[word] = wrong;
        let unwound = sample(fp, LEAF, &stack);
        let right = [LEAF, IN_REALIGNED, IN_KEEPS];
        let found = addresses(&unwound);
        assert_eq!(found, right[..if word < 10 { 2 } else { 3 }], "word {word}: {wrong:#x}");
        assert!(unwound.end(0).starts_with("no rows in "), "{}", unwound.end(0));
    }
}

/// The kernel's words behind a handler: `uc_flags`, `uc_link`, `uc_stack`, and the registers.
fn interrupted_at(address: u64, sp: u64) -> [u64; 64] {
    let mut stack = [0; 64];
    (stack[0], stack[1 + 5 + 15], stack[1 + 5 + 16]) = (RESTORER, sp, address);
    stack
}

#[test]
fn the_interrupted_stack_of_a_handler_with_its_own_was_not_copied() {
    let other = sample(0, LEAF, &interrupted_at(LEAF, 0x10_0000));
    assert_eq!((addresses(&other), other.profile.rows[0].end), (vec![LEAF, RESTORER, LEAF], End::OtherStack));
    let mut same = interrupted_at(LEAF, place(40));
    same[40] = IN_START;
    let same = sample(0, LEAF, &same);
    assert_eq!(
        (addresses(&same), same.profile.rows[0].end),
        (vec![LEAF, RESTORER, LEAF, IN_START], End::Root)
    );
}

/// No row is for the address behind the call that ends a handler.
#[test]
fn the_system_call_that_ends_a_handler_goes_on_with_what_it_interrupted() {
    const KERNEL: [u64; 2] = [-128i64 as u64, 0xffff_ffff_8100_0010];
    let ended = |chain: &[u64], at: u64| {
        let mut writer = Writer::default();
        writer.comm(7, "aligned", true, 1);
        writer.mmap(7, (0x40_0000, 0x1000, 0), &fixture("tests/fixtures/aligned"), 2);
        // The return address has been taken from the stack.
        let mut stack = interrupted_at(LEAF, place(40))[1..].to_vec();
        stack[40] = IN_START;
        writer.sample(7, 10, [STACK, 0, at], chain, &words(&stack));
        let unwound = Unwound::of(&writer);
        (addresses(&unwound), unwound.profile.rows[0].end)
    };
    let behind = RESTORER + 9;
    assert_eq!(ended(&KERNEL, behind), (vec![KERNEL[1], behind, LEAF, IN_START], End::Root));
    // Only in the kernel is a thread there.
    assert_eq!(ended(&[], behind).0, [behind]);
    assert_eq!(ended(&KERNEL, behind + 1).0, [KERNEL[1], behind + 1]);
}

/// Its stack is empty: what is above belongs to somebody else.
#[test]
fn a_new_thread_has_no_caller_in_the_system_call_that_makes_it() {
    for stack in [&[][..], &[0x1234], &[IN_START]] {
        let unwound = sample(0, IN_CLONE, stack);
        let rooted = (addresses(&unwound), unwound.profile.rows[0].end);
        assert_eq!(rooted, (vec![IN_CLONE], End::Root), "{stack:x?}");
    }
}
