//! Recordings of programs that run, for callers with a loop of events.

use crate::samples::{CFrame, end_number};
use crate::tracker::Tracker;
use crate::values::{elements, fail, fill, sized, text};
use stacks::live::{Recorder, Refusal, Request, Target};
use stacks::session::Stack;
use stacks::statistics::End;
use std::ffi::{OsStr, c_char, c_int, c_void};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;

/// The flag of [`Options`].
const ALL: u32 = 1;
/// Bytes of a name in the kernel, with its 0 (`TASK_COMM_LEN`).
const NAME: usize = 16;

/// `sframe_live` in C.
pub struct Live {
    tracker: *mut Tracker,
    recorder: Recorder,
    stacks: Stacks,
}

/// The stacks of one record. There are several if the kernel has recorded the user's part of several samples
/// at once, and a callback may want no more between them.
#[derive(Default)]
struct Stacks {
    taken: Vec<Taken>,
    /// How many of them are those of the last record. The others are memory for the next.
    count: usize,
    /// The one that the callback gets next.
    next: usize,
}

impl Stacks {
    fn clear(&mut self) {
        (self.count, self.next) = (0, 0);
    }

    fn push(&mut self, stack: &Stack<'_>) {
        if self.taken.len() == self.count {
            self.taken.push(Taken::default());
        }
        self.taken[self.count].set(stack);
        self.count += 1;
    }

    /// Passes stacks on until the callback wants no more.
    ///
    /// # Safety
    /// `callback` may be called with `arg`.
    unsafe fn pass_on(&mut self, callback: Option<Take>, arg: *mut c_void) -> c_int {
        let Some(callback) = callback else { return 0 };
        while self.next < self.count {
            let sample = &raw const self.taken[self.next].sample;
            self.next += 1;
            // SAFETY: as the caller says.
            let said = unsafe { callback(sample, arg) };
            if said != 0 {
                return said;
            }
        }
        0
    }
}

/// A sample, with its frames for C.
#[derive(Default)]
struct Taken {
    sample: CSample,
    frames: Vec<CFrame>,
}

/// `sframe_live_options` in C.
#[repr(C)]
pub struct Options {
    size: usize,
    flags: u32,
    frequency: u32,
    pids: *const u32,
    n_pids: usize,
    cgroup: *const c_char,
    stack_size: u32,
    reserved: u32,
}

/// `sframe_sample` in C.
#[repr(C)]
#[derive(Clone, Debug)]
pub struct CSample {
    /// Bytes of the structure.
    pub size: usize,
    /// The frames, innermost first.
    pub frames: *const CFrame,
    /// How many.
    pub n_frames: usize,
    /// The time, in nanoseconds.
    pub time: u64,
    /// How many events the sample stands for.
    pub period: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The processor.
    pub cpu: u32,
    /// `enum sframe_stack_end`.
    pub end: c_int,
    /// The name of the process.
    pub process: [c_char; NAME],
    /// The name of the thread.
    pub thread: [c_char; NAME],
}

impl Default for CSample {
    fn default() -> Self {
        Self {
            size: size_of::<Self>(),
            frames: std::ptr::null(),
            n_frames: 0,
            time: 0,
            period: 0,
            pid: 0,
            tid: 0,
            cpu: 0,
            end: 0,
            process: [0; NAME],
            thread: [0; NAME],
        }
    }
}

/// `sframe_sample_callback` in C.
pub type Take = unsafe extern "C" fn(sample: *const CSample, arg: *mut c_void) -> c_int;

/// A name for C, cut to fit.
fn name(bytes: &[u8]) -> [c_char; NAME] {
    let mut name = [0; NAME];
    name.iter_mut().zip(bytes.iter().take(NAME - 1)).for_each(|(to, &from)| *to = from as c_char);
    name
}

impl Taken {
    fn set(&mut self, stack: &Stack<'_>) {
        let &Stack { pid, tid, period, .. } = stack;
        self.frames.clear();
        let frames = (0..).zip(stack.frames);
        self.frames.extend(frames.map(|(depth, frame)| CFrame::new((pid, tid), depth, frame)));
        self.sample = CSample {
            frames: self.frames.as_ptr(),
            n_frames: self.frames.len(),
            time: stack.time.unwrap_or(0),
            period,
            pid,
            tid,
            cpu: stack.cpu.unwrap_or(0),
            end: end_number(Some(stack.end)),
            process: name(stack.process),
            thread: name(stack.thread),
            ..CSample::default()
        };
    }
}

/// What to record. `None`: the options name nothing, or several things.
///
/// # Safety
/// The options are null or valid.
unsafe fn request(options: *const Options) -> Option<Request> {
    // SAFETY: as the caller says.
    let (options, pids, group) = unsafe {
        let options = sized(options)?;
        let pids = elements(options.pids, options.n_pids);
        let group = text(options.cgroup);
        (options, pids, group)
    };
    if options.reserved != 0 {
        return None;
    }
    let target = match (options.flags, pids, group) {
        (ALL, [], None) => Target::Machine,
        (0, [_, ..], None) => Target::Processes(pids.to_vec()),
        (0, [], Some(folder)) => Target::Group(OsStr::from_bytes(folder).into()),
        _ => return None,
    };
    let mut request = Request::new(target);
    if options.frequency > 0 {
        request.frequency = options.frequency.into();
    }
    request.stack_size = (options.stack_size > 0).then_some(options.stack_size);
    Some(request)
}

/// Begins a recording; see the header.
///
/// # Safety
/// The tracker is valid as long as the recording lives, and `options` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_live_begin(tracker: *mut Tracker, options: *const Options) -> *mut Live {
    // SAFETY: as the caller says.
    let begun = unsafe { request(options) }
        .ok_or(libc::EINVAL)
        // SAFETY: as the caller says.
        .and_then(|request| unsafe { &mut *tracker }.record(&request).map_err(|refusal| refusal.code));
    match begun {
        Ok(recorder) => Box::into_raw(Box::new(Live { tracker, recorder, stacks: Stacks::default() })),
        Err(code) => {
            fail(code);
            std::ptr::null_mut()
        }
    }
}

impl Tracker {
    fn record(&mut self, request: &Request) -> Result<Recorder, Refusal> {
        Recorder::begin(request, &mut self.session, None)
    }
}

/// The descriptor; see the header.
///
/// # Safety
/// The recording is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_live_fd(live: *const Live) -> c_int {
    // SAFETY: as the caller says.
    unsafe { &*live }.recorder.as_fd().as_raw_fd()
}

impl Live {
    /// Handles the next record. Returns whether there was one.
    fn step(&mut self, tracker: &mut Tracker) -> bool {
        self.stacks.clear();
        let stacks = &mut self.stacks;
        let told = self.recorder.step(&mut tracker.session, &mut |stack| {
            stacks.push(stack);
            tracker.end = Some(stack.end);
            tracker.rooted += u64::from(stack.end.is_rooted());
            tracker.stacks += u64::from(stack.end != End::NotSampled);
        });
        if let Some(told) = told {
            tracker.told(told);
        }
        told.is_some()
    }

    /// Handles the records that can be, and passes their samples on, until the callback wants no more.
    ///
    /// # Safety
    /// The tracker is valid, and `callback` may be called with `arg`.
    unsafe fn pass_on(&mut self, callback: Option<Take>, arg: *mut c_void) -> c_int {
        let tracker = self.tracker;
        loop {
            // SAFETY: as the caller says.
            let said = unsafe { self.stacks.pass_on(callback, arg) };
            // SAFETY: as the caller says. The borrow ends before the next callback.
            if said != 0 || !self.step(unsafe { &mut *tracker }) {
                return said;
            }
        }
    }
}

/// Handles what there is; see the header.
///
/// # Safety
/// The recording is valid, and `callback` may be called with `arg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_live_read(
    live: *mut Live,
    callback: Option<Take>,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: as the caller says. No callback may use the recording.
    let live = unsafe { &mut *live };
    live.recorder.fill();
    // SAFETY: as the caller says.
    match unsafe { live.pass_on(callback, arg) } {
        0 if live.recorder.is_over() => fail(libc::ESRCH),
        said => said,
    }
}

/// Ends a recording; see the header.
///
/// # Safety
/// It is null, or [`sframe_live_begin`] returned it, its tracker is valid, and it has not ended; `callback`
/// may be called with `arg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_live_end(live: *mut Live, callback: Option<Take>, arg: *mut c_void) -> c_int {
    if live.is_null() {
        return 0;
    }
    // SAFETY: as the caller says.
    let mut live = unsafe { Box::from_raw(live) };
    live.recorder.finish();
    // SAFETY: as the caller says.
    unsafe { live.pass_on(callback, arg) }
}

/// `sframe_live_numbers` in C.
#[repr(C)]
pub struct Numbers {
    size: usize,
    samples: u64,
    lost: u64,
}

/// Counts; see the header.
///
/// # Safety
/// The recording is valid, and so is `numbers`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_live_counts(live: *const Live, numbers: *mut Numbers) {
    // SAFETY: as the caller says.
    let progress = unsafe { &*live }.recorder.progress();
    let value = Numbers { size: size_of::<Numbers>(), samples: progress.samples, lost: progress.lost };
    // SAFETY: as the caller says.
    unsafe { fill(numbers, &value) };
}

#[cfg(test)]
mod tests {
    use super::{CSample, Stacks};
    use stacks::session::Stack;
    use stacks::statistics::End;
    use std::ffi::{c_int, c_void};

    unsafe extern "C" fn take(sample: *const CSample, arg: *mut c_void) -> c_int {
        // SAFETY: the test passes a list.
        let (sample, seen) = unsafe { (&*sample, &mut *arg.cast::<Vec<u32>>()) };
        seen.push(sample.tid);
        c_int::from(sample.tid != 2)
    }

    #[test]
    fn a_callback_that_wants_no_more_gets_the_others_of_a_record_later() {
        let stack = |tid| Stack {
            event: 0,
            pid: 1,
            tid,
            process: b"a name of more than sixteen bytes",
            thread: b"",
            cpu: None,
            time: None,
            period: 1,
            frames: &[],
            end: End::Root,
            in_kernel: false,
        };
        let (mut stacks, mut seen) = (Stacks::default(), Vec::<u32>::new());
        let list = (&raw mut seen).cast();
        for round in 0..2 {
            stacks.clear();
            (1..=3).for_each(|tid| stacks.push(&stack(tid)));
            // SAFETY: the callback takes a list.
            let said: [c_int; 3] = [(); 3].map(|()| unsafe { stacks.pass_on(Some(take), list) });
            assert_eq!(said, [1, 1, 0], "the second one ends nothing");
            assert_eq!(seen.len(), 3 * (round + 1));
        }
        assert_eq!(seen, [1, 2, 3, 1, 2, 3]);
    }
}
