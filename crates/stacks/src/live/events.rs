//! The kernel's events: one for each thread and processor, one ring for each processor.

use super::descriptors;
use super::request::{Request, Target};
use super::ring::Ring;
use crate::event::{Layout, format};
use perf_event_open_sys::bindings as sys;
use sframe_format::Abi;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// The fields of samples.
const SAMPLE: u64 = format::IP
    | format::TID
    | format::TIME
    | format::CPU
    | format::PERIOD
    | format::CALLCHAIN
    | format::REGS_USER
    | format::STACK_USER;

/// Open events.
pub struct Events {
    events: Vec<OwnedFd>,
    rings: Vec<Ring>,
    /// The layout of their records.
    pub layout: Layout,
    /// The sampled event.
    pub name: &'static str,
}

/// Features to request, which a kernel or a user may lack.
#[derive(Clone, Copy)]
struct Features {
    cycles: bool,
    kernel: bool,
    build_id: bool,
}

/// Sets of features, with the best first. The kernel gets the first one that it allows.
const FEATURES: [Features; 8] = [
    Features { cycles: true, kernel: true, build_id: true },
    Features { cycles: false, kernel: true, build_id: true },
    Features { cycles: true, kernel: true, build_id: false },
    Features { cycles: false, kernel: true, build_id: false },
    Features { cycles: true, kernel: false, build_id: true },
    Features { cycles: false, kernel: false, build_id: true },
    Features { cycles: true, kernel: false, build_id: false },
    Features { cycles: false, kernel: false, build_id: false },
];

impl Events {
    /// Opens events for threads and the threads that they start. Events count from [`Events::enable`] on;
    /// those of a command count from when a thread executes it. With `monotonic`, records have the time of
    /// the clock that BPF programs read.
    ///
    /// # Errors
    /// The kernel does not allow it.
    pub fn open(abi: Abi, request: &Request, monotonic: bool, threads: &[u32]) -> Result<Self, String> {
        let first = *threads.first().ok_or("the process has no threads; it has ended")?;
        descriptors::raise_limit();
        let mut failed = io::Error::from(io::ErrorKind::Unsupported);
        for features in FEATURES {
            let mut attribute = attribute(abi, request, features);
            attribute.set_use_clockid(monotonic.into());
            attribute.clockid = if monotonic { libc::CLOCK_MONOTONIC } else { 0 };
            match open(&attribute, first, 0) {
                Ok(_) => {
                    return Self::open_all(&attribute, abi, features, threads)
                        .map_err(|error| explain_all(&error, threads.len()));
                }
                Err(error) => failed = error,
            }
        }
        Err(explain(&failed))
    }

    fn open_all(
        attribute: &sys::perf_event_attr,
        abi: Abi,
        features: Features,
        threads: &[u32],
    ) -> io::Result<Self> {
        let layout = Layout {
            endian: abi.endian(),
            sample: SAMPLE,
            read: 0,
            id_all: true,
            branch: 0,
            user_registers: registers(abi),
        };
        let name = if features.cycles { "cycles" } else { "cpu-clock" };
        let mut all = Self { events: Vec::new(), rings: Vec::new(), layout, name };
        for processor in 0..processors() as i32 {
            let mut owner: Option<OwnedFd> = None;
            for &thread in threads {
                let event = match open(attribute, thread, processor) {
                    Ok(event) => event,
                    // The processor is offline, or the thread has ended.
                    Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ESRCH)) => {
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                match &owner {
                    None => {
                        all.rings.push(Ring::new(&event)?);
                        owner = Some(event);
                    }
                    Some(owner) => {
                        // SAFETY: both are open events of one processor.
                        let set = unsafe {
                            perf_event_open_sys::ioctls::SET_OUTPUT(event.as_raw_fd(), owner.as_raw_fd() as _)
                        };
                        if set < 0 {
                            return Err(io::Error::last_os_error());
                        }
                        all.events.push(event);
                    }
                }
            }
            all.events.extend(owner);
        }
        Ok(all)
    }

    /// All events.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.events.iter().map(AsFd::as_fd)
    }

    /// Makes all events count.
    ///
    /// # Errors
    /// The kernel's, as a sentence.
    pub fn enable(&self) -> Result<(), String> {
        for event in &self.events {
            // SAFETY: it is an open event.
            if unsafe { perf_event_open_sys::ioctls::ENABLE(event.as_raw_fd(), 0) } < 0 {
                return Err(explain(&io::Error::last_os_error()));
            }
        }
        Ok(())
    }

    /// Moves all records to the end of `batch`.
    pub fn empty(&mut self, batch: &mut Vec<u8>) {
        self.rings.iter_mut().for_each(|ring| ring.empty(batch));
    }

    /// Waits for a time, no matter whether there are records.
    pub fn wait(&self, time: Duration) {
        // Rings take much longer than that to fill. Polling would wake this thread for single records.
        std::thread::sleep(time);
    }
}

/// The registers to record, as a bit for each of the kernel's numbers: all except segments and flags.
fn registers(abi: Abi) -> u64 {
    match abi {
        Abi::Amd64 => 0x00ff_01ff,
        Abi::AArch64Little | Abi::AArch64Big => (1 << 33) - 1,
        Abi::S390x => 0xffff | 1 << 33,
    }
}

fn attribute(abi: Abi, request: &Request, features: Features) -> sys::perf_event_attr {
    let mut attribute =
        sys::perf_event_attr { size: size_of::<sys::perf_event_attr>() as u32, ..Default::default() };
    if features.cycles {
        (attribute.type_, attribute.config) = (sys::PERF_TYPE_HARDWARE, sys::PERF_COUNT_HW_CPU_CYCLES.into());
    } else {
        (attribute.type_, attribute.config) = (sys::PERF_TYPE_SOFTWARE, sys::PERF_COUNT_SW_CPU_CLOCK.into());
    }
    attribute.sample_type = SAMPLE;
    attribute.__bindgen_anon_1.sample_freq = request.frequency;
    attribute.set_freq(1);
    attribute.set_disabled(1);
    attribute.set_inherit(1);
    attribute.set_enable_on_exec(u64::from(matches!(request.target, Target::Command(_))));
    attribute.set_mmap(1);
    attribute.set_mmap2(1);
    attribute.set_comm(1);
    attribute.set_comm_exec(1);
    attribute.set_task(1);
    attribute.set_sample_id_all(1);
    attribute.set_exclude_callchain_user(1);
    attribute.set_exclude_kernel(u64::from(!features.kernel));
    attribute.set_exclude_hv(1);
    attribute.set_build_id(u64::from(features.build_id));
    attribute.sample_regs_user = registers(abi);
    attribute.sample_stack_user = request.stack_size;
    attribute
}

fn open(attribute: &sys::perf_event_attr, thread: u32, processor: i32) -> io::Result<OwnedFd> {
    let mut attribute = *attribute;
    let flags = sys::PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: the attribute is filled in and lives through the call; the event only counts and writes to its
    // ring.
    let event = unsafe {
        perf_event_open_sys::perf_event_open(&raw mut attribute, thread as i32, processor, -1, flags)
    };
    if event < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(event) })
}

/// The number of processors, with those that are offline.
fn processors() -> usize {
    // SAFETY: it asks for a constant.
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1) as usize
}

/// Why not all threads can be sampled, and what helps.
fn explain_all(error: &io::Error, threads: usize) -> String {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => descriptors::too_many(threads, processors(), error),
        _ => explain(error),
    }
}

/// Why the kernel takes no samples, and what helps.
fn explain(error: &io::Error) -> String {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let paranoid = paranoid.trim();
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => format!(
            "the kernel does not allow to take samples (perf_event_paranoid is {paranoid}): run as root, give the program \
             CAP_PERFMON, or set /proc/sys/kernel/perf_event_paranoid to 1"
        ),
        Some(libc::ENOSYS) => "this kernel takes no samples: it is built without perf events".into(),
        Some(libc::ESRCH) => "there is no such process".into(),
        _ => format!("the kernel cannot take samples: {error}"),
    }
}
