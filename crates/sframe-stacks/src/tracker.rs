//! Trackers; processes and what they map.

use crate::machines::abi_of;
use crate::values::{elements, fail, fill, sized, text};
use stacks::event::{Event, Mapped};
use stacks::files::Bound;
use stacks::kernel::Kernel;
use stacks::live::Told;
use stacks::namer::Namer;
use stacks::running::Identity;
use stacks::session::{Frame, Session, Settings};
use stacks::statistics::End;
use std::collections::VecDeque;
use std::ffi::{OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;

/// Flags of [`Options`].
const RECORDED: u32 = 1;
const FRAME_POINTERS: u32 = 2;
/// Flags of [`Mapping`].
const EXECUTABLE: u32 = 1;
const INODE: u32 = 2;

/// How many processes that have ended stay, for the samples that still come.
const MOST_ENDED: usize = 64;

/// `sframe_tracker` in C.
pub struct Tracker {
    pub(crate) session: Session,
    pub(crate) namer: Namer,
    pub(crate) kernel: Kernel,
    /// Where the last stack ended.
    pub(crate) end: Option<End>,
    /// The memory of frames, for the next sample.
    pub(crate) frames: Vec<(u32, u32, Vec<Frame>)>,
    pub(crate) stacks: u64,
    pub(crate) rooted: u64,
    /// Processes that have ended, of which the session may still take samples.
    ended: VecDeque<u32>,
}

impl Tracker {
    /// Handles an event that is no sample.
    pub(crate) fn tell(&mut self, event: &Event<'_>) {
        self.session.handle(0, Some(event), &mut |_| {});
        self.told(Told::by(event));
    }

    /// What the tracker itself keeps of processes ends with them.
    pub(crate) fn told(&mut self, told: Told) {
        match told {
            Told::Executed(pid) => self.namer.forget(pid),
            Told::Ended(pid) => {
                self.ended.push_back(pid);
                self.forget_ended();
            }
            Told::Other => {}
        }
    }

    /// Forgets processes of which the session takes no samples any more. For each that ends, it looks at two
    /// of the oldest. A process whose first thread has ended may go on with others for days, so it goes
    /// behind those that are gone.
    fn forget_ended(&mut self) {
        for _ in 0..2 {
            if self.ended.len() <= MOST_ENDED {
                return;
            }
            let Some(pid) = self.ended.pop_front() else { return };
            if self.session.knows(pid) {
                self.ended.push_back(pid);
                continue;
            }
            self.session.forget(pid);
            self.namer.forget(pid);
        }
    }
}

/// `sframe_tracker_options` in C.
#[repr(C)]
pub struct Options {
    size: usize,
    flags: u32,
    machine: u16,
    reserved: u16,
    root: *const c_char,
    most_files: u64,
    most_bytes: u64,
}

/// Creates a tracker; see the header.
///
/// # Safety
/// `options` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_begin(options: *const Options) -> *mut Tracker {
    // SAFETY: as the caller says.
    let options = unsafe { sized(options) };
    let (flags, reserved) = options.as_ref().map_or((0, 0), |options| (options.flags, options.reserved));
    // Later versions may give these a meaning.
    let is_known = flags & !(RECORDED | FRAME_POINTERS) == 0 && reserved == 0;
    let abi = abi_of(options.as_ref().map_or(0, |options| options.machine));
    let Some(abi) = abi.filter(|_| is_known) else {
        fail(libc::EINVAL);
        return std::ptr::null_mut();
    };
    let mut settings = Settings { frame_pointers: flags & FRAME_POINTERS != 0, ..Settings::default() };
    settings.files.here = flags & RECORDED == 0;
    if let Some(options) = &options {
        // SAFETY: as the caller says.
        let root = unsafe { text(options.root) };
        settings.files.sysroot = root.map(|root| OsStr::from_bytes(root).into());
        let bound = |most: u64| (most > 0).then_some(most);
        settings.files.bound = Bound { files: bound(options.most_files), bytes: bound(options.most_bytes) };
    }
    let kernel = if settings.files.here { Kernel::running() } else { Kernel::default() };
    Box::into_raw(Box::new(Tracker {
        session: Session::new(abi, settings),
        namer: Namer::default(),
        kernel,
        end: None,
        frames: Vec::new(),
        stacks: 0,
        rooted: 0,
        ended: VecDeque::new(),
    }))
}

/// Ends a tracker; see the header.
///
/// # Safety
/// It is null, or [`sframe_tracker_begin`] returned it and it has not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_end(tracker: *mut Tracker) {
    if !tracker.is_null() {
        // SAFETY: as the caller says.
        drop(unsafe { Box::from_raw(tracker) });
    }
}

/// Adds a process; see the header.
///
/// # Safety
/// The tracker is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_process_begin(tracker: *mut Tracker, pid: u32) {
    // SAFETY: as the caller says.
    unsafe { &mut *tracker }.session.begin_process(pid);
}

/// Adds a process that runs; see the header.
///
/// # Safety
/// The tracker is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_process_attach(tracker: *mut Tracker, pid: u32) -> c_int {
    // SAFETY: as the caller says.
    match unsafe { &mut *tracker }.session.add_running(pid) {
        Ok(()) => 0,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => fail(libc::ESRCH),
        Err(error) => fail(error.raw_os_error().unwrap_or(libc::EIO)),
    }
}

/// Forgets a process; see the header.
///
/// # Safety
/// The tracker is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_process_end(tracker: *mut Tracker, pid: u32) {
    // SAFETY: as the caller says.
    let tracker = unsafe { &mut *tracker };
    tracker.session.forget(pid);
    tracker.namer.forget(pid);
}

/// Called for a process that is not known.
type Find = unsafe extern "C" fn(tracker: *mut Tracker, pid: u32, arg: *mut c_void) -> c_int;

/// Says whether a process is known; see the header.
///
/// # Safety
/// The tracker is valid, and `callback` may be called with `arg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_find_pid(
    tracker: *mut Tracker,
    pid: u32,
    callback: Option<Find>,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: as the caller says. The tracker is not borrowed while the callback runs.
    let knows = || unsafe { &*tracker }.session.knows(pid);
    if !knows()
        && let Some(callback) = callback
    {
        // SAFETY: as the caller says.
        unsafe { callback(tracker, pid, arg) };
    }
    if knows() { 0 } else { fail(libc::ESRCH) }
}

/// `sframe_mapping` in C.
#[repr(C)]
pub struct Mapping {
    size: usize,
    pid: u32,
    flags: u32,
    start: u64,
    length: u64,
    offset: u64,
    path: *const c_char,
    build_id: *const u8,
    build_id_size: usize,
    device_major: u32,
    device_minor: u32,
    inode: u64,
}

/// Handles a mapping; see the header.
///
/// # Safety
/// The tracker and the mapping are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_map(tracker: *mut Tracker, mapping: *const Mapping) -> c_int {
    // SAFETY: as the caller says.
    let Some(mapping) = (unsafe { sized(mapping) }) else { return fail(libc::EINVAL) };
    if mapping.length == 0 || mapping.start.checked_add(mapping.length).is_none() {
        return fail(libc::EINVAL);
    }
    // SAFETY: as the caller says.
    let (tracker, path, build_id) =
        unsafe { (&mut *tracker, text(mapping.path), elements(mapping.build_id, mapping.build_id_size)) };
    let device = (mapping.device_major, mapping.device_minor);
    let identity = Identity { device, inode: mapping.inode };
    tracker.tell(&Event::Mapped(Mapped {
        pid: mapping.pid,
        address: mapping.start,
        length: mapping.length,
        offset: mapping.offset,
        executable: mapping.flags & EXECUTABLE != 0,
        kernel: false,
        build_id: (!build_id.is_empty()).then_some(build_id),
        identity: (mapping.flags & INODE != 0).then_some(identity),
        path: path.unwrap_or(b"//anon"),
    }));
    0
}

/// Handles that memory was unmapped; see the header.
///
/// # Safety
/// The tracker is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_unmap(tracker: *mut Tracker, pid: u32, start: u64, length: u64) {
    // SAFETY: as the caller says.
    unsafe { &mut *tracker }.session.unmap(pid, &(start..start.saturating_add(length)));
}

/// Handles a new thread; see the header.
///
/// # Safety
/// The tracker is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_fork(
    tracker: *mut Tracker,
    pid: u32,
    tid: u32,
    parent: u32,
    parent_tid: u32,
) {
    // SAFETY: as the caller says.
    unsafe { &mut *tracker }.tell(&Event::Forked { pid, tid, parent, parent_tid, before: false });
}

/// Handles that a process executes another program; see the header.
///
/// # Safety
/// The tracker is valid, and the name is null or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_exec(tracker: *mut Tracker, pid: u32, tid: u32, name: *const c_char) {
    // SAFETY: as the caller says.
    let (tracker, name) = unsafe { (&mut *tracker, text(name).unwrap_or_default()) };
    tracker.tell(&Event::Named { pid, tid, name, executed: true });
}

/// Handles the end of a thread; see the header.
///
/// # Safety
/// The tracker is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_exit(tracker: *mut Tracker, pid: u32, tid: u32) {
    // SAFETY: as the caller says.
    unsafe { &mut *tracker }.tell(&Event::Exited { pid, tid });
}

/// `sframe_tracker_numbers` in C.
#[repr(C)]
pub struct Numbers {
    size: usize,
    files: u64,
    open_files: u64,
    open_bytes: u64,
    closed: u64,
    reopened: u64,
    stacks: u64,
    rooted: u64,
}

/// Counts; see the header.
///
/// # Safety
/// The tracker is valid, and so is `numbers`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_counts(tracker: *const Tracker, numbers: *mut Numbers) {
    // SAFETY: as the caller says.
    let tracker = unsafe { &*tracker };
    let open = tracker.session.files().open_now();
    let value = Numbers {
        size: size_of::<Numbers>(),
        files: tracker.session.files().iter().count() as u64,
        open_files: open.files,
        open_bytes: open.bytes,
        closed: open.closed,
        reopened: open.reopened,
        stacks: tracker.stacks,
        rooted: tracker.rooted,
    };
    // SAFETY: as the caller says.
    unsafe { fill(numbers, &value) };
}

#[cfg(test)]
mod tests {
    use super::{Event, Kernel, Namer, Session, Settings, Tracker};
    use std::collections::VecDeque;

    #[test]
    fn a_process_whose_first_thread_has_ended_lets_others_be_forgotten() {
        let mut tracker = Tracker {
            session: Session::new(sframe_format::Abi::Amd64, Settings::default()),
            namer: Namer::default(),
            kernel: Kernel::default(),
            end: None,
            frames: Vec::new(),
            stacks: 0,
            rooted: 0,
            ended: VecDeque::new(),
        };
        let forked = |pid, tid| Event::Forked { pid, tid, parent: 1, parent_tid: 1, before: false };
        tracker.tell(&forked(7, 7));
        tracker.tell(&Event::Forked { pid: 7, tid: 8, parent: 7, parent_tid: 7, before: false });
        tracker.tell(&Event::Exited { pid: 7, tid: 7 });
        for pid in 1000..3000 {
            tracker.tell(&forked(pid, pid));
            tracker.tell(&Event::Exited { pid, tid: pid });
        }
        assert!(tracker.session.knows(7) && tracker.ended.contains(&7));
        assert!(tracker.ended.len() < 200, "{}", tracker.ended.len());
    }
}
