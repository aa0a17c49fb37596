//! Tests a tracker by its C functions: events by hand, samples, names, files.

#![cfg(not(miri))]

use sframe_stacks::live::*;
use sframe_stacks::machines::*;
use sframe_stacks::names::*;
use sframe_stacks::samples::*;
use sframe_stacks::tracker::*;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../stacks/tests/fixtures/undescribed");
const X86_64: u16 = 62;
const PID: u32 = 7;
const STACK: u64 = 0x7ffe_0000_1000;
/// Places in the fixture: see `undescribed.rs` of `stacks`.
const LEAF: u64 = 0x40_00da;
const IN_WORK: u64 = 0x40_00c9;
const IN_START: u64 = 0x40_00b5;
/// `perf_event_open`'s rbp, rsp, rip.
const MASK: u64 = 1 << 6 | 1 << 7 | 1 << 8;

/// `sframe_tracker_options`, with a field that this library does not know.
#[repr(C)]
struct Newer {
    size: usize,
    flags: u32,
    machine: u16,
    reserved: u16,
    root: *const c_char,
    most_files: u64,
    most_bytes: u64,
    unknown: u64,
}

/// A tracker that ends with its test.
struct Tracked(*mut Tracker);

impl Drop for Tracked {
    fn drop(&mut self) {
        // SAFETY: nobody else ends it.
        unsafe { sframe_tracker_end(self.0) };
    }
}

fn tracker(flags: u32, most_files: u64) -> Tracked {
    let size = size_of::<Newer>();
    let (root, most_bytes) = (null(), 0);
    let options =
        Newer { size, flags, machine: X86_64, reserved: 0, root, most_files, most_bytes, unknown: 9 };
    // SAFETY: the structure begins as that of the header.
    let tracker = unsafe { sframe_tracker_begin((&raw const options).cast()) };
    assert!(!tracker.is_null());
    Tracked(tracker)
}

/// `sframe_mapping`.
#[repr(C)]
struct Mapped {
    size: usize,
    pid: u32,
    flags: u32,
    start: u64,
    length: u64,
    offset: u64,
    path: *const c_char,
    build_id: *const u8,
    build_id_size: usize,
    device: [u32; 2],
    inode: u64,
}

fn map(tracker: &Tracked, pid: u32, length: u64) -> c_int {
    let path = CString::new(FIXTURE).unwrap();
    let mapped = Mapped {
        size: size_of::<Mapped>(),
        pid,
        flags: 1,
        start: 0x40_0000,
        length,
        offset: 0,
        path: path.as_ptr(),
        build_id: null(),
        build_id_size: 0,
        device: [0; 2],
        inode: 0,
    };
    // SAFETY: the structure is that of the header.
    unsafe { sframe_tracker_map(tracker.0, (&raw const mapped).cast()) }
}

/// Takes frames; ends the calls after the number of frames that comes first.
unsafe extern "C" fn take(frame: *const CFrame, arg: *mut c_void) -> c_int {
    // SAFETY: `sample` hands it over.
    let (most, frames) = unsafe { &mut *arg.cast::<(usize, Vec<CFrame>)>() };
    // SAFETY: the frame is valid during the call.
    frames.push(unsafe { *frame });
    if frames.len() == *most { 42 } else { 0 }
}

/// The result, and the frames of a sample in the loop.
fn sample(tracker: &Tracked, pid: u32, (mask, abi, most): (u64, u32, usize)) -> (c_int, Vec<CFrame>) {
    let stack = [1, IN_WORK, 0, 0, 0, IN_START];
    let registers = [5, STACK, LEAF];
    let mut taken = (most, Vec::new());
    let (stack, size) = (stack.as_ptr().cast(), size_of_val(&stack));
    let arg = (&raw mut taken).cast();
    // SAFETY: the sizes are right.
    let said = unsafe {
        let registers = registers.as_ptr();
        sframe_tracker_perf_sample_getframes(
            tracker.0,
            pid,
            pid,
            stack,
            size,
            registers,
            3,
            mask,
            abi,
            Some(take),
            arg,
        )
    };
    (said, taken.1)
}

fn addresses(frames: &[CFrame]) -> Vec<u64> {
    frames.iter().map(|frame| frame.address).collect()
}

fn end(tracker: &Tracked) -> String {
    // SAFETY: the tracker is valid, and the text stays.
    let text = unsafe { CStr::from_ptr(sframe_stack_end_text(sframe_tracker_stack_end(tracker.0))) };
    text.to_str().unwrap().to_owned()
}

#[test]
fn a_sample_of_a_process_by_hand_has_its_frames() {
    let tracker = tracker(1, 0);
    assert_eq!(end(&tracker), "there was no stack yet");
    assert_eq!((map(&tracker, PID, 0), map(&tracker, PID, u64::MAX)), (-1, -1));
    assert_eq!(map(&tracker, PID, 0x1000), 0);
    let (said, frames) = sample(&tracker, PID, (MASK, 2, 99));
    assert_eq!((said, addresses(&frames)), (0, vec![LEAF, IN_WORK, IN_START]));
    assert_eq!(end(&tracker), "the outermost frame was reached");
    let sources: Vec<_> = frames.iter().map(|frame| (frame.depth, frame.source, frame.returns)).collect();
    assert_eq!(sources, [(0, 0, 0), (1, 5, 1), (2, 5, 1)]);
    assert_eq!((frames[1].own, frames[1].pid, frames[1].place), (IN_WORK - 1, PID, 0));
    // The callback ends the calls.
    let (said, frames) = sample(&tracker, PID, (MASK, 2, 2));
    assert_eq!((said, frames.len()), (42, 2));
    // No program counter; more registers than there are; no such ABI.
    for wrong in [(MASK & !(1 << 8), 2, 9), (MASK | 1, 2, 9), (MASK, 0, 9), (MASK, 3, 9)] {
        assert_eq!(sample(&tracker, PID, wrong).0, -1, "{wrong:?}");
    }
    // A program of 32 bits, and a process that is not known.
    assert_eq!(addresses(&sample(&tracker, PID, (MASK, 1, 9)).1), [LEAF]);
    assert_eq!(end(&tracker), "a program of 32 bits");
    assert_eq!(addresses(&sample(&tracker, 8, (MASK, 2, 9)).1), [LEAF]);
    assert_eq!(end(&tracker), "an address in no known file");
}

#[test]
fn registers_in_any_order_are_those_of_dwarf() {
    let tracker = tracker(1, 0);
    map(&tracker, PID, 0x1000);
    let stack = [IN_WORK, 0, 0, 0, IN_START];
    let (values, mapping) = ([LEAF, 77, 5, STACK], [-1, 99, 6, 7]);
    let mut taken = (99, Vec::new());
    let frames = |count: usize, taken: &mut (usize, Vec<CFrame>)| {
        // SAFETY: the sizes are right.
        unsafe {
            let (stack, size) = (stack.as_ptr().cast(), size_of_val(&stack));
            let (values, mapping, arg) =
                (values.as_ptr(), mapping.as_ptr(), std::ptr::from_mut(taken).cast());
            // The copy begins above the stack pointer.
            let above = STACK + 8;
            sframe_tracker_sample_getframes(
                tracker.0,
                PID,
                PID,
                stack,
                size,
                above,
                values,
                4,
                mapping,
                count,
                Some(take),
                arg,
            )
        }
    };
    assert_eq!((frames(4, &mut taken), addresses(&taken.1)), (0, vec![LEAF, IN_WORK, IN_START]));
    assert_eq!(frames(0, &mut taken), -1, "no program counter");
}

#[test]
fn processes_begin_fork_execute_and_end() {
    let tracker = tracker(1, 0);
    // SAFETY: the tracker is valid.
    let find = |pid| unsafe { sframe_tracker_find_pid(tracker.0, pid, None, null_mut()) };
    let length = |pid| sample(&tracker, pid, (MASK, 2, 9)).1.len();
    assert_eq!(find(PID), -1);
    map(&tracker, PID, 0x1000);
    assert_eq!((find(PID), length(PID)), (0, 3));
    // SAFETY: as above.
    unsafe {
        sframe_tracker_fork(tracker.0, 8, 8, PID, PID);
        assert_eq!((find(8), length(8)), (0, 3), "a child has its parent's mappings");
        sframe_tracker_exec(tracker.0, 8, 8, c"other".as_ptr());
        sframe_tracker_process_begin(tracker.0, 9);
        sframe_tracker_unmap(tracker.0, PID, 0x40_0000, 0x1000);
        assert_eq!((length(8), length(9), length(PID)), (1, 1, 1));
        // Samples still come for a while.
        sframe_tracker_exit(tracker.0, 8, 8);
        assert_eq!(find(8), 0);
        (100..200).for_each(|other| sframe_tracker_exit(tracker.0, other, other));
        assert_eq!(find(8), -1);
        sframe_tracker_process_end(tracker.0, PID);
        assert_eq!(find(PID), -1);
        assert_eq!(sframe_tracker_process_attach(tracker.0, u32::MAX), -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ESRCH));
    }
}

/// Adds this process, and takes a note of it.
unsafe extern "C" fn attach(tracker: *mut Tracker, pid: u32, arg: *mut c_void) -> c_int {
    // SAFETY: the test hands it over, and the tracker is not borrowed.
    unsafe {
        *arg.cast::<u32>() += 1;
        sframe_tracker_process_attach(tracker, pid)
    }
}

/// Adds the function to a list.
unsafe extern "C" fn name(name: *const CName, arg: *mut c_void) -> c_int {
    // SAFETY: the texts are valid during the call, and the test hands the list over.
    unsafe {
        let function = CStr::from_ptr((*name).function).to_string_lossy().into_owned();
        (*arg.cast::<Vec<(String, u32, u64)>>()).push((function, (*name).flags, (*name).offset));
    }
    0
}

#[test]
fn addresses_of_a_process_that_runs_have_names() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let tracker = tracker(0, 0);
    let (pid, mut asked) = (std::process::id(), 0u32);
    let here = addresses_of_a_process_that_runs_have_names as fn() as usize as u64;
    let mut names: Vec<(String, u32, u64)> = Vec::new();
    let mut frame = CFrame::default();
    // SAFETY: the callbacks get what they expect.
    unsafe {
        for _ in 0..2 {
            let found = sframe_tracker_find_pid(tracker.0, pid, Some(attach), (&raw mut asked).cast());
            assert_eq!(found, 0);
        }
        sframe_tracker_place(tracker.0, pid, here + 1, 1, &raw mut frame);
        sframe_tracker_names(tracker.0, &raw const frame, 0, Some(name), (&raw mut names).cast());
    }
    assert_eq!((asked, frame.place, frame.returns), (1, 0, 1));
    let [(function, flags, offset)] = &names[..] else { panic!("{names:?}") };
    assert!(function.contains("addresses_of_a_process_that_runs_have_names"), "{function}");
    assert_eq!((flags & 1, *offset), (1, 1));
    let mut path = [1 as c_char; 300];
    // SAFETY: the sizes are right.
    let (length, short) = unsafe {
        let whole = sframe_tracker_file_path(tracker.0, frame.file, path.as_mut_ptr(), 300);
        (whole, sframe_tracker_file_path(tracker.0, frame.file, path.as_mut_ptr().add(290), 3))
    };
    // SAFETY: the function ends the text.
    let text = unsafe { CStr::from_ptr(path.as_ptr().add(290)) };
    assert_eq!((length, text.count_bytes()), (short, 2));
    let own = std::env::current_exe().unwrap();
    assert_eq!(length, own.as_os_str().len());
}

/// Records of the kernel whose lengths and contents are anything.
#[test]
fn no_record_is_trusted() {
    let tracker = tracker(1, 0);
    map(&tracker, PID, 0x1000);
    let mut state = 1u64;
    let mut random = move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        state >> 33
    };
    let (mut good, mut bad) = (0, 0);
    for _ in 0..20_000 {
        let mut attribute: Vec<u8> = (0..128).map(|_| random() as u8).collect();
        attribute[4..8].copy_from_slice(&[64u32, 112, 128][random() as usize % 3].to_le_bytes());
        let size = 8 + random() as usize % 200;
        let mut record: Vec<u8> = (0..size).map(|_| random() as u8 & random() as u8 & 7).collect();
        let kind = random() as u32 % 24;
        record[..4].copy_from_slice(&kind.to_le_bytes());
        let told = if random() % 4 == 0 { random() as u16 } else { size as u16 };
        record[6..8].copy_from_slice(&told.to_le_bytes());
        let mut taken: (usize, Vec<CFrame>) = (9, Vec::new());
        let arg = (&raw mut taken).cast();
        // SAFETY: attribute and record are at least as long as is said.
        let said = unsafe {
            sframe_tracker_perf_record(tracker.0, attribute.as_ptr(), record.as_ptr(), size, Some(take), arg)
        };
        if said < 0 { bad += 1 } else { good += 1 }
    }
    assert!(good > 1000 && bad > 1000, "{good}, {bad}");
}

#[test]
fn structures_have_the_size_that_the_caller_says() {
    let tracker = tracker(1, 1);
    map(&tracker, PID, 0x1000);
    sample(&tracker, PID, (MASK, 2, 9));
    // Room for size, files and open files only; the next words stay.
    let mut numbers = [3 * size_of::<u64>() as u64, 99, 99, 99, 99];
    // SAFETY: no more is written than the first word says.
    unsafe { sframe_tracker_counts(tracker.0, numbers.as_mut_ptr().cast()) };
    assert_eq!(numbers, [24, 1, 1, 99, 99]);
}

/// The number of the last error.
fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[test]
fn flags_of_later_versions_and_calls_without_a_callback_are_refused() {
    let options = |flags: u32, reserved: u16| {
        let (size, root) = (size_of::<Newer>(), null());
        Newer { size, flags, machine: X86_64, reserved, root, most_files: 0, most_bytes: 0, unknown: 0 }
    };
    for options in [options(4, 0), options(1 << 31, 0), options(0, 1)] {
        // SAFETY: the structure begins as that of the header.
        assert!(unsafe { sframe_tracker_begin((&raw const options).cast()) }.is_null());
        assert_eq!(errno(), libc::EINVAL);
    }
    let tracker = tracker(1, 0);
    let frame = CFrame::default();
    // SAFETY: the tracker and the frame are valid.
    let said = unsafe {
        [
            sframe_tracker_names(tracker.0, &raw const frame, 0, None, null_mut()),
            sframe_tracker_modules(tracker.0, PID, None, null_mut()),
            sframe_tracker_perf_record(tracker.0, null(), null(), 0, None, null_mut()),
        ]
    };
    assert_eq!((said, errno()), ([-1; 3], libc::EINVAL));
}

/// `sframe_live_options`.
#[repr(C)]
struct Live {
    size: usize,
    flags: u32,
    frequency: u32,
    pids: *const u32,
    n_pids: usize,
    cgroup: *const c_char,
    stack_size: u32,
    reserved: u32,
}

/// It ends by itself, should the test fail.
const BUSY: &str = "i=0; while [ $i -lt 50000000 ]; do i=$((i + 1)); done";

/// `SFRAME_STACK_NOT_SAMPLED`.
const NOT_SAMPLED: c_int = 16;

/// Takes a sample, and wants no more of this reading.
unsafe extern "C" fn one(sample: *const CSample, arg: *mut c_void) -> c_int {
    // SAFETY: the sample is valid during the call.
    if unsafe { (*sample).end } == NOT_SAMPLED {
        return 0;
    }
    // SAFETY: the test hands it over, and the sample is valid during the call.
    unsafe {
        (*arg.cast::<Vec<(u64, u32, usize)>>()).push(((*sample).time, (*sample).pid, (*sample).n_frames))
    };
    7
}

#[test]
fn a_recording_says_by_errno_what_is_wrong_and_hands_over_sample_after_sample() {
    let errno = || std::io::Error::last_os_error().raw_os_error();
    let begin = |tracker: &Tracked, flags, pids: &[u32], cgroup| {
        let size = size_of::<Live>();
        let (pids, n_pids) = (pids.as_ptr(), pids.len());
        let (frequency, stack_size, reserved) = (0, 0, 0);
        let options = Live { size, flags, frequency, pids, n_pids, cgroup, stack_size, reserved };
        // SAFETY: the structure is that of the header.
        unsafe { sframe_live_begin(tracker.0, (&raw const options).cast()) }
    };
    let mut child = std::process::Command::new("sh").args(["-c", BUSY]).spawn().unwrap();
    let pid = child.id();
    let here = tracker(0, 0);
    for (flags, pids, cgroup) in
        [(0, &[][..], null()), (1, &[pid][..], null()), (2, &[], null()), (1, &[], c"/".as_ptr())]
    {
        assert!(begin(&here, flags, pids, cgroup).is_null());
        assert_eq!(errno(), Some(libc::EINVAL));
    }
    assert!(begin(&tracker(1, 0), 0, &[pid], null()).is_null(), "not of processes that run");
    assert!(begin(&here, 0, &[i32::MAX as u32], null()).is_null());
    assert_eq!(errno(), Some(libc::ESRCH));
    let live = begin(&here, 0, &[pid], null());
    let mut taken: Vec<(u64, u32, usize)> = Vec::new();
    let arg = (&raw mut taken).cast();
    if !live.is_null() {
        // SAFETY: the recording and its tracker are valid, and the callback gets what it expects.
        unsafe {
            while taken.len() < 20 {
                let mut polled = libc::pollfd { fd: sframe_live_fd(live), events: libc::POLLIN, revents: 0 };
                assert_eq!(libc::poll(&raw mut polled, 1, 60_000), 1);
                let before = taken.len();
                let said = sframe_live_read(live, Some(one), arg);
                assert_eq!((said, taken.len() - before), if said == 0 { (0, 0) } else { (7, 1) });
            }
            child.kill().unwrap();
            child.wait().unwrap();
            while sframe_live_read(live, None, null_mut()) == 0 {}
            assert_eq!(errno(), Some(libc::ESRCH));
            let mut numbers = [24u64, 0, 99];
            sframe_live_counts(live, numbers.as_mut_ptr().cast());
            assert!(numbers[1] >= 20, "{numbers:?}");
            assert_eq!(sframe_live_end(live, Some(one), arg), 0, "all had been passed on");
        }
        assert!(taken.is_sorted(), "none is out of order, and none is lost in between");
        assert!(taken.iter().all(|&(_, of, frames)| of == pid && frames > 0));
    }
    let _ = child.kill().and_then(|()| child.wait());
    // SAFETY: it may be null.
    assert_eq!(unsafe { sframe_live_end(null_mut(), None, null_mut()) }, 0);
}

#[test]
fn machines_have_registers() {
    for (uname, machine, dwarf, perf) in
        [(c"x86_64", 62, 7, 7), (c"aarch64", 183, 31, 31), (c"s390x", 22, 15, 15)]
    {
        // SAFETY: it is a text.
        assert_eq!(unsafe { sframe_arch_from_uname(uname.as_ptr()) }, machine);
        let mask = sframe_perf_sample_preferred_regs_mask(machine);
        assert_eq!(sframe_arch_expected_frame_nregs(machine), mask.count_ones());
        assert_eq!(sframe_arch_sp_dwarf_reg(machine, 0), dwarf);
        assert_eq!(sframe_arch_sp_perf_reg(machine, 0, 0), perf);
        assert_eq!(sframe_arch_sp_perf_reg(machine, 1, 0), -2);
    }
    assert_eq!(sframe_arch_sp_perf_reg(62, MASK, 0), 1);
    assert_eq!((sframe_arch_sp_perf_reg(183, 0, 1), sframe_arch_sp_dwarf_reg(62, 1)), (13, 4));
    assert_eq!((sframe_perf_sample_preferred_regs_mask(8), sframe_arch_sp_dwarf_reg(8, 0)), (0, -1));
}
