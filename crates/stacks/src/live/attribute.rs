//! What the kernel is asked for: the attribute of an event, and opening it.

use super::choice::Choice;
use crate::event::format;
use crate::registers;
use perf_event_open_sys::bindings as sys;
use sframe_format::Abi;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The fields of samples.
pub const SAMPLE: u64 = format::IDENTIFIER
    | format::IP
    | format::TID
    | format::TIME
    | format::CPU
    | format::PERIOD
    | format::CALLCHAIN
    | format::REGS_USER
    | format::STACK_USER;

/// Features to request, which a kernel or a user may lack.
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// Cycles of the processor instead of its clock, if the user leaves the choice.
    pub cycles: bool,
    /// Samples in the kernel.
    pub kernel: bool,
    /// Build-ids of mapped files.
    pub build_id: bool,
}

/// Sets of features, with the best first. The kernel gets the first one that it allows.
pub const FEATURES: [Features; 8] = [
    Features { cycles: true, kernel: true, build_id: true },
    Features { cycles: false, kernel: true, build_id: true },
    Features { cycles: true, kernel: true, build_id: false },
    Features { cycles: false, kernel: true, build_id: false },
    Features { cycles: true, kernel: false, build_id: true },
    Features { cycles: false, kernel: false, build_id: true },
    Features { cycles: true, kernel: false, build_id: false },
    Features { cycles: false, kernel: false, build_id: false },
];

/// What all events of a recording have in common.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    /// The machine.
    pub abi: Abi,
    /// What the kernel allows.
    pub features: Features,
    /// Samples for each second, of events without a period of their own.
    pub frequency: u64,
    /// Bytes of the stack to copy.
    pub stack_size: u32,
    /// Whether counting begins when a thread executes a program.
    pub on_exec: bool,
    /// Whether threads and processes that the sampled ones start are sampled, too.
    pub inherit: bool,
    /// Whether a BPF program unwinds. Then an event of its own tells of processes.
    pub in_kernel: bool,
    /// Whether the kernel tells when threads get and leave a processor.
    pub switches: bool,
    /// Whether the kernel tells of each thread that ends how long it has run. When it switches between
    /// threads that have inherited the same events, it lets both exchange their counts, by two lists whose
    /// order may differ. So this is right only if all inherited events count the same.
    pub tells_time: bool,
}

impl Common {
    /// The attribute of an event without a kind, whose records have no fields.
    fn blank(&self) -> sys::perf_event_attr {
        let mut attribute =
            sys::perf_event_attr { size: size_of::<sys::perf_event_attr>() as u32, ..Default::default() };
        attribute.set_disabled(1);
        attribute.set_exclude_hv(1);
        // The clock that a BPF program and this process read, and programs that tell of code that they make.
        attribute.set_use_clockid(1);
        attribute.clockid = libc::CLOCK_MONOTONIC;
        attribute
    }

    /// An event that counts nothing. It has a ring, and wakes the reader when so many bytes wait there.
    pub fn owner(&self, watermark: u32) -> sys::perf_event_attr {
        let mut attribute = self.blank();
        (attribute.type_, attribute.config) = (sys::PERF_TYPE_SOFTWARE, sys::PERF_COUNT_SW_DUMMY.into());
        attribute.set_exclude_kernel(1);
        attribute.set_watermark(1);
        attribute.__bindgen_anon_2.wakeup_watermark = watermark;
        attribute
    }

    /// An event that counts nothing, and tells of processes and what they map.
    pub fn news(&self) -> sys::perf_event_attr {
        let mut attribute = self.of_threads();
        (attribute.type_, attribute.config) = (sys::PERF_TYPE_SOFTWARE, sys::PERF_COUNT_SW_DUMMY.into());
        attribute.set_exclude_kernel(1);
        // There are no samples, which alone have the other fields.
        attribute.sample_type &= !(format::CALLCHAIN | format::REGS_USER | format::STACK_USER);
        self.tell(&mut attribute);
        attribute
    }

    /// An event of the sampled threads, whose records have the fields of samples.
    fn of_threads(&self) -> sys::perf_event_attr {
        let mut attribute = self.blank();
        attribute.sample_type = SAMPLE;
        attribute.set_sample_id_all(1);
        attribute.set_inherit(self.inherit.into());
        attribute.set_enable_on_exec(self.on_exec.into());
        attribute
    }

    /// Makes an event tell of processes and what they map.
    fn tell(&self, attribute: &mut sys::perf_event_attr) {
        for set in [
            sys::perf_event_attr::set_mmap,
            sys::perf_event_attr::set_mmap2,
            sys::perf_event_attr::set_comm,
            sys::perf_event_attr::set_comm_exec,
            sys::perf_event_attr::set_task,
        ] {
            set(attribute, 1);
        }
        attribute.set_build_id(self.features.build_id.into());
    }

    /// A sampled event. The `first` also tells of processes and what they map, if no other event does, and of
    /// threads that wait.
    pub fn sampled(&self, choice: &Choice, first: bool) -> sys::perf_event_attr {
        let mut attribute = self.of_threads();
        (attribute.type_, attribute.config) = choice.kind;
        match choice.period {
            Some(period) => attribute.__bindgen_anon_1.sample_period = period,
            None => {
                attribute.__bindgen_anon_1.sample_freq = self.frequency;
                attribute.set_freq(1);
            }
        }
        if first && !self.in_kernel {
            self.tell(&mut attribute);
        }
        attribute.set_inherit_stat(self.tells_time.into());
        attribute.set_context_switch((first && self.switches).into());
        attribute.set_exclude_callchain_user(1);
        attribute.set_exclude_idle(1);
        attribute.set_exclude_kernel((!self.features.kernel).into());
        attribute.sample_regs_user = registers::mask(self.abi);
        attribute.sample_stack_user = self.stack_size;
        attribute
    }
}

/// A counter of the time that a thread, and those that it starts, run.
pub fn time(on_exec: bool) -> sys::perf_event_attr {
    let mut attribute =
        sys::perf_event_attr { size: size_of::<sys::perf_event_attr>() as u32, ..Default::default() };
    (attribute.type_, attribute.config) = (sys::PERF_TYPE_SOFTWARE, sys::PERF_COUNT_SW_TASK_CLOCK.into());
    attribute.set_inherit(1);
    attribute.set_exclude_kernel(1);
    attribute.set_exclude_hv(1);
    attribute.set_disabled(on_exec.into());
    attribute.set_enable_on_exec(on_exec.into());
    attribute
}

/// Of which threads an event is.
#[derive(Clone, Copy)]
pub enum Of<'a> {
    /// A thread. 0 is the calling one.
    Thread(u32),
    /// All that run on the processor.
    Any,
    /// Those of a control group.
    Group(BorrowedFd<'a>),
}

/// Opens an event. Processor -1: on all of them.
pub fn open(attribute: &sys::perf_event_attr, of: Of<'_>, processor: i32) -> io::Result<OwnedFd> {
    let mut attribute = *attribute;
    let (number, group) = match of {
        Of::Thread(thread) => (thread as i32, 0),
        Of::Any => (-1, 0),
        Of::Group(folder) => (folder.as_raw_fd(), sys::PERF_FLAG_PID_CGROUP),
    };
    let flags = (sys::PERF_FLAG_FD_CLOEXEC | group).into();
    // SAFETY: the attribute is filled in and lives through the call; the event only counts and writes to its
    // ring.
    let event =
        unsafe { perf_event_open_sys::perf_event_open(&raw mut attribute, number, processor, -1, flags) };
    if event < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(event) })
}

/// The number of processors, with those that are offline.
pub fn processors() -> usize {
    // SAFETY: it asks for a constant.
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1) as usize
}
