//! Unwinds stacks of programs in the kernel, when samples are taken.
//!
//! A sample that user space unwinds needs a copy of the top of the stack: 32 KiB by default in `sframe
//! record`. A sample that the kernel unwinds needs only the addresses of its frames.
//!
//! The BPF program of `examples/bpf` runs when perf events take samples. It needs the compact table of every
//! file (`COMPACT.md` of `sframe-format`), and which process has mapped which file where. This crate puts
//! both into the program's maps, and returns the stacks that the program writes to its ring. If the program
//! cannot unwind a stack, the event takes its usual sample, with registers and a copy of the stack, and the
//! program adds what lies far out in a larger one ([`OuterStack`]).
//!
//! | module | contents |
//! |---|---|
//! | [`layout`] | the structures that the program and this crate share |
//! | `tables` | tables in blocks of memory |
//! | `ranges`, `slices` | mappings of processes, as slices of one array |
//! | `ring` | the stacks |
//!
//! The repository contains the compiled program (`unwind.bpf.o`), because machines that run it have no
//! compiler for it. `cargo xtask bpf` compiles it, and a test checks that it is up to date. It is for x86-64
//! and Linux 5.17 or newer, and needs `CAP_BPF` and `CAP_PERFMON`.
#![warn(missing_docs)]

pub mod layout;
mod ranges;
mod ring;
mod slices;
mod tables;

use aya::maps::{Array, HashMap, MapData, PerCpuArray, RingBuf};
use aya::programs::{PerfEvent, ProgramError};
use aya::util::nr_cpus;
use aya::{Ebpf, EbpfError, EbpfLoader};
use layout::{BehindCall, Counts, Namespace};
pub use layout::{End, Range, WayBack};
pub use ring::{OuterStack, Sample, Stacks};
use sframe_format::CompactTable;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// The compiled program.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../unwind.bpf.o");

/// The program in the kernel, and what it knows about files and processes.
pub struct Kernel {
    ebpf: Ebpf,
    tables: tables::Tables,
    ranges: ranges::Ranges,
    ways_back: HashMap<MapData, BehindCall, WayBack>,
    counts: PerCpuArray<MapData, Counts>,
    /// Bytes of the stack that samples copy; `struct settings` in C.
    settings: Array<MapData, u32>,
}

/// How long the program has run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTime {
    /// Nanoseconds.
    pub nanoseconds: u64,
    /// Number of samples.
    pub samples: u64,
}

impl Kernel {
    /// Loads the program and opens the ring that it writes stacks to. With `always_sample`, events also take
    /// their own samples of stacks that the program has unwound.
    ///
    /// # Errors
    /// The kernel does not allow it or cannot run it. The text says so, and what helps.
    pub fn load(always_sample: bool) -> Result<(Self, Stacks), String> {
        if !cfg!(target_arch = "x86_64") {
            return Err("the program that unwinds in the kernel is for x86-64".into());
        }
        let (mut ebpf, namespace) =
            (EbpfLoader::new(), Namespace::own().map_err(|error| explain_io(&error))?);
        // `counts` needs the number of processors. An error there would come after all samples, too late.
        nr_cpus().map_err(|(path, error)| {
            format!("it counts for each processor, and {path} cannot be read: {error}; mount sysfs on /sys")
        })?;
        let always_sample = u32::from(always_sample);
        ebpf.override_global("always_sample", &always_sample, true)
            .override_global("pid_namespace_device", &namespace.device, true)
            .override_global("pid_namespace_inode", &namespace.inode, true);
        let mut ebpf = ebpf.load(OBJECT).map_err(|error| explain(&error))?;
        let program = program(&mut ebpf)?;
        program.load().map_err(|error| explain(&EbpfError::from(error)))?;
        let mut take =
            |name: &str| ebpf.take_map(name).ok_or_else(|| format!("the program has no map {name}"));
        let damaged =
            |error: aya::maps::MapError| format!("a map of the program is of another form: {error}");
        let tables = tables::Tables::new(
            take("blocks")?.try_into().map_err(damaged)?,
            take("files")?.try_into().map_err(damaged)?,
        );
        let ranges = ranges::Ranges::new(
            take("ranges")?.try_into().map_err(damaged)?,
            take("processes")?.try_into().map_err(damaged)?,
        );
        let ways_back = take("ways_back")?.try_into().map_err(damaged)?;
        let counts = take("counts")?.try_into().map_err(damaged)?;
        let settings = take("settings")?.try_into().map_err(damaged)?;
        let ring: RingBuf<MapData> = take("ring")?.try_into().map_err(damaged)?;
        Ok((Self { ebpf, tables, ranges, ways_back, counts, settings }, Stacks::new(ring)))
    }

    /// Says how many bytes of the stack the events' own samples copy, so that the program adds a part of
    /// larger stacks. Before, it adds none.
    ///
    /// # Errors
    /// The kernel reports an error.
    pub fn set_copied(&mut self, bytes: u32) -> Result<(), String> {
        self.settings.set(0, bytes, 0).map_err(|error| error.to_string())
    }

    /// Runs the program for samples of a perf event, also for events that other threads inherit from it
    /// later.
    ///
    /// # Errors
    /// The kernel reports an error.
    pub fn attach(&mut self, event: BorrowedFd<'_>) -> io::Result<()> {
        let program = program(&mut self.ebpf).map_err(io::Error::other)?;
        let program = program.fd().map_err(io::Error::other)?.as_fd().as_raw_fd();
        // SAFETY: both are open, and the kernel reads nothing else.
        let set = unsafe { perf_event_open_sys::ioctls::SET_BPF(event.as_raw_fd(), program as u32) };
        if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Whether the kernel has the table of a file, or the file is known to have none that fits.
    pub fn knows(&self, file: u32) -> bool {
        self.tables.knows(file)
    }

    /// Gives the kernel the table of a file. The caller numbers files from 0 on.
    ///
    /// # Errors
    /// The table is damaged or is not for x86-64, or the kernel has no room for it. The file counts as known
    /// from now on.
    pub fn add_table(&mut self, file: u32, table: &CompactTable<&[u8]>) -> Result<(), String> {
        self.tables.add(file, table)
    }

    /// Gives the kernel the table of a file once more, for another file that has the same one.
    ///
    /// # Errors
    /// The kernel has no room for so many files. The file counts as known from now on.
    pub fn add_same_table(&mut self, file: u32, other: u32) -> Result<(), String> {
        self.tables.add_same(file, other)
    }

    /// Gives the kernel the way back from a call that a function of a file makes on another stack. `address`
    /// is the file's own of the instruction behind the call.
    ///
    /// # Errors
    /// The kernel has no room for it.
    pub fn add_way_back(&mut self, file: u32, address: u64, way: &WayBack) -> Result<(), String> {
        let place = BehindCall { address, file, spare: 0 };
        self.ways_back.insert(place, way, 0).map_err(|error| error.to_string())
    }

    /// Records that a file has no table.
    pub fn add_none(&mut self, file: u32) {
        self.tables.add_none(file);
    }

    /// Sets what a process has mapped: the ranges of executable memory that belong to files, or that it has
    /// written code to, in ascending order.
    ///
    /// # Errors
    /// There is no room for so many ranges; then the program no longer knows the process. Or the kernel
    /// reports an error; then the program keeps the old ranges.
    pub fn set_process(&mut self, pid: u32, ranges: &[Range]) -> Result<(), String> {
        self.ranges.set(pid, ranges)
    }

    /// Makes the program drop the samples of a process that nobody asked for, until the process is set or
    /// removed.
    pub fn ignore_process(&mut self, pid: u32) {
        self.ranges.ignore(pid);
    }

    /// Forgets a process.
    pub fn remove_process(&mut self, pid: u32) {
        self.ranges.remove(pid);
    }

    /// The size of the memory for tables in the kernel, and how much of it tables use, in bytes.
    pub fn table_bytes(&self) -> (u64, u64) {
        self.tables.bytes()
    }

    /// How many stacks ended in each way, and the number of frames.
    ///
    /// # Errors
    /// The kernel's.
    pub fn counts(&self) -> Result<(Vec<(End, u64)>, u64), String> {
        let each = self.counts.get(&0, 0).map_err(|error| error.to_string())?;
        let ends = End::ALL.iter().map(|&end| (end, each.iter().map(|one| one.ends[end as usize]).sum()));
        Ok((ends.collect(), each.iter().map(|one| one.frames).sum()))
    }

    /// How long the program has run. The kernel measures this only if it is asked to ([`measure`], or `sysctl
    /// kernel.bpf_stats_enabled`).
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn run_time(&mut self) -> io::Result<RunTime> {
        let program = program(&mut self.ebpf).map_err(io::Error::other)?;
        let program = program.fd().map_err(io::Error::other)?.as_fd().as_raw_fd();
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{program}"))?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim_start_matches(':').trim().parse().ok()).unwrap_or(0)
        };
        Ok(RunTime { nanoseconds: field("run_time_ns"), samples: field("run_cnt") })
    }
}

fn program(ebpf: &mut Ebpf) -> Result<&mut PerfEvent, String> {
    let program = ebpf.program_mut("unwind").ok_or("the object holds no program")?;
    program.try_into().map_err(|error: ProgramError| error.to_string())
}

/// Makes the kernel measure the run times of BPF programs until the returned value is dropped.
///
/// # Errors
/// The kernel does not allow it.
pub fn measure() -> Result<impl Sized, String> {
    aya::sys::enable_stats(aya::sys::Stats::RunTime).map_err(|error| error.to_string())
}

/// Explains why the program cannot be loaded, and what helps.
fn explain(error: &EbpfError) -> String {
    let mut source: Option<&dyn std::error::Error> = Some(error);
    let mut said = Vec::new();
    while let Some(inner) = source {
        if let Some(error) = inner.downcast_ref::<io::Error>() {
            return explain_io(error);
        }
        said.push(inner.to_string());
        source = inner.source();
    }
    said.join(": ")
}

fn explain_io(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "the kernel does not allow bpf(): run as root, or give the program CAP_BPF and CAP_PERFMON; a container may bar it \
             from root too"
                .into()
        }
        Some(libc::ENOSYS) => "this kernel is built without bpf()".into(),
        Some(libc::EINVAL) => format!(
            "this kernel does not take the program, which needs Linux 5.17 or newer with CONFIG_DEBUG_INFO_BTF ({})",
            std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim()
        ),
        _ => format!("the kernel cannot load the program: {error}"),
    }
}
