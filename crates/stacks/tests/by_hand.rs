//! Tests a session whose events and samples a program makes itself, from whatever source it has.

use sframe_format::{Abi, Source};
use stacks::event::{Chain, Event, Mapped, Sample, User};
use stacks::files::Files;
use stacks::kernel::Kernel;
use stacks::namer::Namer;
use stacks::process::Place;
use stacks::profile::Profile;
use stacks::session::{Frame, Session, Settings};
use stacks::statistics::End;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/undescribed");
const PID: u32 = 7;
const STACK: u64 = 0x7ffe_0000_1000;
/// Places in the fixture: see `undescribed.rs`.
const LEAF: u64 = 0x40_00da;
const IN_WORK: u64 = 0x40_00c9;
const IN_START: u64 = 0x40_00b5;

fn bytes(words: &[u64]) -> Vec<[u8; 8]> {
    words.iter().map(|word| word.to_le_bytes()).collect()
}

fn map(session: &mut Session) {
    let (address, length, offset) = (0x40_0000, 0x1000, 0);
    let (executable, kernel, build_id, identity) = (true, false, None, None);
    let path = FIXTURE.as_bytes();
    let mapped = Mapped { pid: PID, address, length, offset, executable, kernel, build_id, identity, path };
    session.handle(0, Some(&Event::Mapped(mapped)), &mut |_| {});
}

/// The frames of a sample in the loop, whose registers are rbp, rsp and rip.
fn sample(session: &mut Session, stack: &[u64], base: Option<u64>) -> (Vec<Frame>, End) {
    let stack = bytes(stack).concat();
    let values = bytes(&[5, STACK, LEAF]);
    let mut user = User::new(true, 1 << 6 | 1 << 7 | 1 << 8, &values, &stack);
    user.base = base;
    sample_of(session, (0, None), user)
}

/// The frames of a sample of an event at a time.
fn sample_of(
    session: &mut Session,
    (event, time): (usize, Option<u64>),
    user: User<'_>,
) -> (Vec<Frame>, End) {
    let sample = Sample {
        pid: PID,
        tid: PID,
        cpu: None,
        time,
        period: 1,
        ip: LEAF,
        kernel: false,
        chain: Chain::default(),
        user: Some(user),
    };
    let mut found = None;
    session.handle(event, Some(&Event::Sample(sample)), &mut |stack| {
        found = Some((stack.frames.to_vec(), stack.end));
    });
    found.expect("a sample has a stack")
}

#[test]
fn a_sample_by_hand_has_frames_and_names() {
    let mut session = Session::new(Abi::Amd64, Settings::default());
    map(&mut session);
    let words = [1, IN_WORK, 0, 0, 0, IN_START];
    let (frames, end) = sample(&mut session, &words, None);
    let addresses = |frames: &[Frame]| frames.iter().map(|frame| frame.address).collect::<Vec<_>>();
    assert_eq!((addresses(&frames), end), (vec![LEAF, IN_WORK, IN_START], End::Root));
    assert_eq!(frames[1].source, Some(Source::Instructions));
    let mut namer = Namer::default();
    let name = namer.names(session.files(), &Kernel::default(), &frames[1], false).remove(0);
    assert_eq!(name.offset, Some(IN_WORK - 0x40_00c0), "{name:?}");
    // A copy that begins above the stack pointer, at the return address.
    let (from_above, _) = sample(&mut session, &words[1..], Some(STACK + 8));
    assert_eq!(addresses(&from_above), [LEAF, IN_WORK, IN_START]);
}

/// The copy ends before the frame of `work`, whose words a program in the kernel has written.
#[test]
fn a_part_that_a_copy_lacks_is_of_the_sample_at_which_it_was_written() {
    let mut session = Session::new(Abi::Amd64, Settings::default());
    map(&mut session);
    let (stack, behind) = (bytes(&[1, IN_WORK]).concat(), bytes(&[0, 0, IN_START]).concat());
    let values = bytes(&[5, STACK, LEAF]);
    let user = |cut_short| {
        let mut user = User::new(true, 1 << 6 | 1 << 7 | 1 << 8, &values, &stack);
        user.cut_short = cut_short;
        user
    };
    let part =
        |time| sframe_bpf::OuterStack { time, pid: PID, tid: PID, address: STACK + 24, bytes: &behind };
    for (cut_short, end) in [(false, End::CopyEnded), (true, End::PageMissing)] {
        session.add_outer(&part(1_000_000));
        // Another event takes a sample at nearly the same time.
        let (frames, found) = sample_of(&mut session, (1, Some(999_000)), user(cut_short));
        assert_eq!((frames.len(), found), (2, end));
        let (frames, found) = sample_of(&mut session, (0, Some(1_001_000)), user(cut_short));
        assert_eq!((frames.len(), frames[2].address, found), (3, IN_START, End::Root));
        let (frames, found) = sample_of(&mut session, (0, Some(1_101_000)), user(cut_short));
        assert_eq!((frames.len(), found), (2, end));
    }
}

#[test]
fn what_is_unmapped_or_forgotten_is_gone() {
    let mut session = Session::new(Abi::Amd64, Settings::default());
    map(&mut session);
    let at = |session: &Session| session.frame_at(PID, LEAF, false).place;
    assert!(matches!(at(&session), Place::File(_, LEAF)));
    session.unmap(PID, &(0x40_0000..0x40_0001));
    assert!(matches!(at(&session), Place::File(_, LEAF)), "the rest of the mapping stays");
    session.unmap(PID, &(0x40_0000..0x40_1000));
    assert_eq!(at(&session), Place::Unmapped(LEAF));
    assert!(session.knows(PID) && !session.knows(8));
    let (frames, end) = sample(&mut session, &[1, IN_WORK], None);
    assert_eq!((frames.len(), end), (1, End::Unmapped));
    map(&mut session);
    session.forget(PID);
    assert!(!session.knows(PID));
    assert_eq!(at(&session), Place::Unmapped(LEAF));
}

#[test]
fn a_process_that_runs_is_known_by_what_it_has_mapped() {
    let mut settings = Settings::default();
    settings.files.here = true;
    let Some(abi) = stacks::live::NATIVE else { return };
    let mut session = Session::new(abi, settings);
    let pid = std::process::id();
    session.add_running(pid).unwrap();
    let here = a_process_that_runs_is_known_by_what_it_has_mapped as fn() as usize as u64;
    let frame = session.frame_at(pid, here, false);
    let names = Namer::default().names(session.files(), &Kernel::default(), &frame, false);
    assert!(names[0].function.contains("a_process_that_runs_is_known"), "{names:?}");
    assert!(session.add_running(u32::MAX).is_err());
}

/// A program may hand them to a thread of its own.
#[test]
fn sessions_files_and_profiles_go_from_thread_to_thread() {
    fn goes<T: Send>() {}
    goes::<Session>();
    goes::<Files>();
    goes::<Profile>();
    goes::<Namer>();
    goes::<Kernel>();
}
