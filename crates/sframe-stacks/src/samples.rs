//! Frames of samples.

use crate::tracker::Tracker;
use crate::values::{elements, fail};
use sframe_format::{Endian, Source};
use stacks::event::{self, Chain, Event, Layout, Record, Sample, User};
use stacks::live::Told;
use stacks::process::Place;
use stacks::registers::{number_in_samples, program_counter};
use stacks::session::Frame;
use stacks::statistics::End;
use std::ffi::{c_char, c_int, c_void};

/// `PERF_SAMPLE_REGS_ABI_64`; 1 is that of 32 bits.
const WIDE: u32 = 2;
/// The program counter among mapped registers.
const PROGRAM_COUNTER: c_int = -1;
/// Size of `struct perf_event_header`, and of the first version of `struct perf_event_attr`.
const HEADER: usize = 8;
const ATTRIBUTE: usize = 64;

/// `sframe_stack_frame` in C.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CFrame {
    /// The address.
    pub address: u64,
    /// That in the file.
    pub own: u64,
    /// The number of the file.
    pub file: u32,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The place among the frames.
    pub depth: u32,
    /// `enum sframe_place`.
    pub place: c_int,
    /// `enum sframe_stack_source`.
    pub source: c_int,
    /// Whether the address is a return address.
    pub returns: c_int,
}

impl CFrame {
    /// A frame of a thread.
    pub(crate) fn new((pid, tid): (u32, u32), depth: u32, frame: &Frame) -> Self {
        let (place, file, own) = match frame.place {
            Place::File(file, own) => (0, file.0, own),
            Place::Anonymous(_, address) => (1, 0, address),
            Place::Unmapped(address) => (2, 0, address),
            Place::Kernel(address) => (3, 0, address),
            Place::NotSampled => (4, 0, 0),
        };
        let source = match frame.source {
            None => -1,
            Some(Source::Topmost) => 0,
            Some(Source::Sframe) => 1,
            Some(Source::EhFrame) => 2,
            Some(Source::SignalContext) => 3,
            Some(Source::FramePointer) => 4,
            Some(Source::Instructions) => 5,
        };
        Self {
            address: frame.address,
            own,
            file,
            pid,
            tid,
            depth,
            place,
            source,
            returns: frame.returns.into(),
        }
    }
}

/// `sframe_frame_callback` in C.
pub type Take = unsafe extern "C" fn(frame: *const CFrame, arg: *mut c_void) -> c_int;

/// The number in `enum sframe_stack_end`.
pub(crate) fn end_number(end: Option<End>) -> c_int {
    match end {
        None => 0,
        Some(End::Root) => 1,
        Some(End::Recorded) => 2,
        Some(End::NoRows(_)) => 3,
        Some(End::Malformed(_)) => 4,
        Some(End::Jit) => 5,
        Some(End::Unmapped) => 6,
        Some(End::OtherStack) => 7,
        Some(End::CopyEnded) => 8,
        Some(End::Memory) => 9,
        Some(End::Register) => 10,
        Some(End::NoProgress) => 11,
        Some(End::TooDeep) => 12,
        Some(End::Narrow) => 13,
        Some(End::NoRegisters) => 14,
        Some(End::PageMissing) => 15,
        Some(End::NotSampled) => 16,
    }
}

/// The end of the last stack; see the header.
///
/// # Safety
/// The tracker is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_stack_end(tracker: *const Tracker) -> c_int {
    // SAFETY: as the caller says.
    end_number(unsafe { &*tracker }.end)
}

/// The text for a number of `enum sframe_stack_end`; see the header.
#[unsafe(no_mangle)]
pub extern "C" fn sframe_stack_end_text(end: c_int) -> *const c_char {
    let text = match end {
        0 => c"there was no stack yet",
        1 => c"the outermost frame was reached",
        2 => c"the frames are the sample's own call chain",
        3 => c"nothing describes the code",
        4 => c"what describes the code is malformed",
        5 => c"code that the process made while it ran",
        6 => c"an address in no known file",
        7 => c"the program switched stacks, and the one before was not copied",
        8 => c"too little of the stack was copied",
        9 => c"memory that was not copied",
        10 => c"a register that is not known",
        11 => c"the caller's frame would not lie above",
        12 => c"more frames than the copy can hold",
        13 => c"a program of 32 bits",
        14 => c"the sample has no registers",
        15 => c"the copy of the stack ended at a page that was not there",
        16 => c"time that was not sampled",
        _ => c"no such end",
    };
    text.as_ptr()
}

/// Handles an event, and passes the frames of its stacks to the callback.
///
/// # Safety
/// The tracker is valid, and `callback` may be called with `arg`.
unsafe fn pass_on(
    tracker: *mut Tracker,
    event: Option<&Event<'_>>,
    callback: Option<Take>,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: as the caller says. The borrow ends before the first callback.
    let stacks = unsafe { &mut *tracker }.take(event);
    let mut said = 0;
    if let Some(callback) = callback {
        let frames = stacks.iter().flat_map(|(pid, tid, frames)| {
            (0..).zip(frames).map(|(depth, frame)| CFrame::new((*pid, *tid), depth, frame))
        });
        for frame in frames {
            // SAFETY: as the caller says.
            said = unsafe { callback(&raw const frame, arg) };
            if said != 0 {
                break;
            }
        }
    }
    // SAFETY: as the caller says: a callback does not end the tracker.
    unsafe { &mut *tracker }.frames = stacks;
    said
}

impl Tracker {
    /// The stacks that an event gives: process, thread, frames. There are several if the kernel has recorded
    /// the user's part of several samples at once.
    fn take(&mut self, event: Option<&Event<'_>>) -> Vec<(u32, u32, Vec<Frame>)> {
        let mut stacks = std::mem::take(&mut self.frames);
        let mut count = 0;
        let (end, rooted) = (&mut self.end, &mut self.rooted);
        self.session.handle(0, event, &mut |stack| {
            if stacks.len() == count {
                stacks.push((0, 0, Vec::new()));
            }
            let (pid, tid, frames) = &mut stacks[count];
            (*pid, *tid) = (stack.pid, stack.tid);
            frames.clear();
            frames.extend_from_slice(stack.frames);
            *end = Some(stack.end);
            *rooted += u64::from(stack.end.is_rooted());
            count += 1;
        });
        stacks.truncate(count);
        self.stacks += count as u64;
        if let Some(event) = event {
            self.told(Told::by(event));
        }
        stacks
    }
}

/// A sample of user code.
fn sample<'data>((pid, tid): (u32, u32), user: User<'data>) -> Event<'data> {
    let (chain, period) = (Chain::default(), 1);
    let (cpu, time, ip, kernel) = (None, None, 0, false);
    Event::Sample(Sample { pid, tid, cpu, time, period, ip, kernel, chain, user: Some(user) })
}

/// The frames of a sample; see the header.
///
/// # Safety
/// The tracker is valid, stack and registers have these sizes, and `callback` may be called with `arg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_perf_sample_getframes(
    tracker: *mut Tracker,
    pid: u32,
    tid: u32,
    stack: *const u8,
    stack_size: usize,
    regs: *const u64,
    n_regs: u32,
    perf_regs_mask: u64,
    abi: u32,
    callback: Option<Take>,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: as the caller says. Eight bytes may be anywhere.
    let (stack, values, own) = unsafe {
        let values = elements(regs.cast::<[u8; 8]>(), n_regs as usize);
        (elements(stack, stack_size), values, (*tracker).session.abi())
    };
    let counter = perf_regs_mask & 1 << program_counter(own);
    let is_whole = values.len() >= perf_regs_mask.count_ones() as usize;
    if counter == 0 || !is_whole || !(1..=WIDE).contains(&abi) {
        return fail(libc::EINVAL);
    }
    let user = User::new(abi == WIDE, perf_regs_mask, values, stack);
    // SAFETY: as the caller says.
    unsafe { pass_on(tracker, Some(&sample((pid, tid), user)), callback, arg) }
}

/// The frames of a sample with registers in any order; see the header.
///
/// # Safety
/// As for [`sframe_tracker_perf_sample_getframes`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_sample_getframes(
    tracker: *mut Tracker,
    pid: u32,
    tid: u32,
    stack: *const u8,
    stack_size: usize,
    stack_address: u64,
    regs: *const u64,
    n_regs: u32,
    regs_mapping: *const c_int,
    n_regs_mapping: usize,
    callback: Option<Take>,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: as the caller says.
    let (stack, values, mapping, abi) = unsafe {
        let values = elements(regs.cast::<[u8; 8]>(), n_regs as usize);
        let mapping = elements(regs_mapping, n_regs_mapping);
        (elements(stack, stack_size), values, mapping, (*tracker).session.abi())
    };
    let number = |register: c_int| match register {
        PROGRAM_COUNTER => Some(program_counter(abi)),
        _ => number_in_samples(abi, u32::try_from(register).ok()?),
    };
    let known = mapping.iter().zip(values).filter_map(|(&register, value)| Some((number(register)?, *value)));
    let mut known: Vec<(u32, [u8; 8])> = known.collect();
    known.sort_by_key(|(number, _)| *number);
    known.dedup_by_key(|(number, _)| *number);
    if !known.iter().any(|(number, _)| *number == program_counter(abi)) {
        return fail(libc::EINVAL);
    }
    let mask = known.iter().fold(0, |mask, (number, _)| mask | 1 << number);
    let values: Vec<[u8; 8]> = known.into_iter().map(|(_, value)| value).collect();
    let mut user = User::new(true, mask, &values, stack);
    user.base = Some(stack_address);
    // SAFETY: as the caller says.
    unsafe { pass_on(tracker, Some(&sample((pid, tid), user)), callback, arg) }
}

/// Handles a record of the kernel; see the header.
///
/// # Safety
/// The tracker is valid; the attribute is as long as it says, and the record has `size` bytes; `callback` may
/// be called with `arg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_perf_record(
    tracker: *mut Tracker,
    attr: *const u8,
    record: *const u8,
    size: usize,
    callback: Option<Take>,
    arg: *mut c_void,
) -> c_int {
    if attr.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: as the caller says. Every attribute has its first fields.
    let (attribute, record, endian) = unsafe {
        let length = attr.add(4).cast::<u32>().read_unaligned();
        let length = if length == 0 { ATTRIBUTE } else { length as usize };
        (elements(attr, length), elements(record, size), (*tracker).session.abi().endian())
    };
    let (Some((layout, _)), Some(record)) = (Layout::of_attribute(attribute, endian), parse(record, endian))
    else {
        return fail(libc::EINVAL);
    };
    let event = event::read(&layout, &record);
    if event.is_none() {
        return fail(libc::EINVAL);
    }
    // SAFETY: as the caller says.
    unsafe { pass_on(tracker, event.as_ref(), callback, arg) }
}

/// A record by its header. `None`: it is shorter than it says.
fn parse(bytes: &[u8], endian: Endian) -> Option<Record<'_>> {
    let ([k0, k1, k2, k3, m0, m1, s0, s1], _) = bytes.split_first_chunk::<HEADER>()?;
    let little = endian == Endian::Little;
    let half = |bytes: [u8; 2]| if little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) };
    let (kind, misc, size) = ([*k0, *k1, *k2, *k3], half([*m0, *m1]), half([*s0, *s1]));
    let kind = if little { u32::from_le_bytes(kind) } else { u32::from_be_bytes(kind) };
    Some(Record { kind, misc, body: bytes.get(HEADER..size.into())? })
}
