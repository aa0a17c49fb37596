//! The kernel's events, and a ring for each processor.
//!
//! The events of a processor write into one ring. It belongs to an event of this process that counts nothing,
//! so that it stays when sampled threads end, and that wakes the reader when a quarter of the ring is full.
//! All rings have the same size: one that is needed, or less where the user may not have so much.
//!
//! With a BPF program, what the kernel tells of processes comes in rings of its own, which wake the reader at
//! once: the program should know what a process has mapped before the process ends.

use super::attribute::{Common, FEATURES, Of, SAMPLE, open, processors};
use super::choice::Choice;
use super::descriptors;
use super::refusal::Refusal;
use super::request::Request;
use super::ring::{Ring, sizes};
use crate::event::{Layout, Record};
use crate::registers;
use perf_event_open_sys::bindings as sys;
use sframe_format::Abi;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Bytes of the stack to copy if the user leaves the choice: at most and at least.
pub const STACK: u32 = 1 << 15;
const LEAST_STACK: u32 = 1 << 12;
/// A ring has room for the samples of this part of a second, and for so many at least.
const PART: u64 = 8;
const LEAST_SAMPLES: usize = 8;
/// How many samples a second an event without a frequency is expected to have.
const USUAL_RATE: u64 = 4000;
/// Bytes of a ring for what the kernel tells of processes.
const NEWS: usize = 1 << 18;
/// Bytes of a sample besides the stack: registers, and the frames of the kernel.
const BESIDE_STACK: u32 = 1024;
/// The same where the kernel has as many frames as it records.
const MOST_BESIDE_STACK: u32 = 2048;
/// How often the list of threads is read again for those that started meanwhile.
const ROUNDS: usize = 10;

/// What to sample.
pub enum Scope<'a> {
    /// Threads, and what they start. The function lists them again.
    Threads(&'a dyn Fn() -> Vec<u32>),
    /// Everything on all processors.
    Processors,
    /// A control group.
    Group(BorrowedFd<'a>),
}

/// Why events cannot be opened.
pub struct Refused {
    /// A sentence, with what helps, and the kernel's number.
    pub why: Refusal,
    /// Whether fewer events might do.
    pub too_many: bool,
    /// Whether it is no control group.
    pub no_group: bool,
}

impl Refused {
    fn new(error: &io::Error, message: String) -> Self {
        Self { why: Refusal::new(error, message), too_many: false, no_group: false }
    }
}

/// Events of this process that own rings, by the numbers of their processors.
#[derive(Default)]
struct Owned {
    processors: Vec<i32>,
    owners: Vec<OwnedFd>,
    rings: Vec<Ring>,
}

/// Open events.
pub struct Events {
    /// Sampled events, with their numbers.
    events: Vec<(usize, Arc<File>)>,
    owned: Owned,
    /// Events that tell of processes, and their rings, if a BPF program unwinds.
    news: Vec<OwnedFd>,
    news_owned: Owned,
    /// The numbers of events by those that the kernel gave them.
    numbers: BTreeMap<u64, usize>,
    /// The layout of their records.
    pub layout: Layout,
    /// The sampled events.
    pub choices: Vec<Choice>,
    /// Whether the kernel is sampled, too.
    pub with_kernel: bool,
    /// Whether they count the time of threads, and the kernel tells of each thread that ends.
    pub tells_time: bool,
    /// Bytes of the stack that are copied, at most.
    pub stack_size: u32,
}

impl Events {
    /// Opens the events that a request asks for. They count from [`Events::enable`] on; those of a command's
    /// threads count from when it is executed. `in_kernel`: a BPF program unwinds.
    ///
    /// # Errors
    /// The kernel does not allow it.
    pub fn open(
        abi: Abi,
        request: &Request,
        (in_kernel, on_exec): (bool, bool),
        scope: &Scope<'_>,
    ) -> Result<Self, Refused> {
        descriptors::raise_limit();
        let of = match scope {
            Scope::Threads(list) => {
                let ended = || {
                    let error = io::Error::from_raw_os_error(libc::ESRCH);
                    Refused::new(&error, "the process has no threads; it has ended".into())
                };
                Of::Thread(list().first().copied().ok_or_else(ended)?)
            }
            Scope::Processors => Of::Any,
            Scope::Group(folder) => Of::Group(*folder),
        };
        let inherit = matches!(scope, Scope::Threads(_));
        let mut failed = io::Error::from(io::ErrorKind::Unsupported);
        for features in FEATURES {
            let mut common = Common {
                abi,
                features,
                frequency: request.frequency,
                stack_size: request.stack_size.unwrap_or(STACK),
                on_exec: on_exec && inherit,
                inherit,
                in_kernel,
                switches: request.off_cpu,
                tells_time: false,
            };
            if request.off_cpu && !features.kernel {
                break;
            }
            let choices = choices(request, features.cycles);
            let single = choices.len() == 1 && choices.iter().all(Choice::is_clock);
            common.tells_time = inherit && !in_kernel && single;
            let tried = (0..).zip(&choices);
            let news = in_kernel.then(|| common.news());
            let sampled = tried.map(|(number, choice)| common.sampled(choice, number == 0));
            let mut all = sampled.chain(news);
            let allowed: io::Result<()> = all.try_for_each(|attribute| open(&attribute, of, 0).map(drop));
            match allowed {
                Ok(()) => {
                    let scope = (scope, of);
                    return Self::open_all(common, request.stack_size.is_none(), choices, scope);
                }
                Err(error) => failed = error,
            }
        }
        // Folders of other file systems have no control group.
        let no_group = matches!(of, Of::Group(_)) && failed.raw_os_error() == Some(libc::EBADF);
        Err(Refused { no_group, ..Refused::new(&failed, explain(&failed, request)) })
    }

    fn open_all(
        mut common: Common,
        may_copy_less: bool,
        choices: Vec<Choice>,
        (scope, of): (&Scope<'_>, Of<'_>),
    ) -> Result<Self, Refused> {
        let other = |error: io::Error| Refused::new(&error, explain_any(&error));
        let owned = rings(&common, &choices).map_err(other)?;
        let news_owned =
            if common.in_kernel { rings_of(&common, NEWS, 1).map_err(other)? } else { Owned::default() };
        if may_copy_less {
            common.stack_size = fitting(common.stack_size, owned.rings.first().map_or(0, Ring::size));
        }
        let layout = Layout {
            endian: common.abi.endian(),
            sample: SAMPLE,
            read: 0,
            id_all: true,
            branch: 0,
            user_registers: registers::mask(common.abi),
        };
        let mut all = Self {
            events: Vec::new(),
            owned,
            news: Vec::new(),
            news_owned,
            numbers: BTreeMap::new(),
            layout,
            choices,
            with_kernel: common.features.kernel,
            tells_time: common.tells_time,
            stack_size: common.stack_size,
        };
        match scope {
            Scope::Threads(list) => all.open_threads(&common, *list)?,
            Scope::Processors | Scope::Group(_) => all.open_for(&common, of).map_err(other)?,
        }
        Ok(all)
    }

    /// Opens the events of threads. New threads of a thread without events have none either, so the list is
    /// read again until nothing is new.
    fn open_threads(&mut self, common: &Common, list: &dyn Fn() -> Vec<u32>) -> Result<(), Refused> {
        let mut known = BTreeSet::new();
        for _ in 0..ROUNDS {
            let threads = list();
            let before = known.len();
            for &thread in &threads {
                if !known.insert(thread) {
                    continue;
                }
                self.open_for(common, Of::Thread(thread)).map_err(|error| {
                    let too_many = matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
                    let message = if too_many {
                        descriptors::too_many(threads.len(), self.owned.rings.len(), &error)
                    } else {
                        explain_any(&error)
                    };
                    Refused { too_many, ..Refused::new(&error, message) }
                })?;
            }
            if known.len() == before {
                break;
            }
        }
        Ok(())
    }

    /// Opens all events of a thread or of all threads, on all processors.
    fn open_for(&mut self, common: &Common, of: Of<'_>) -> io::Result<()> {
        let attributes: Vec<_> =
            (0..).zip(&self.choices).map(|(number, choice)| common.sampled(choice, number == 0)).collect();
        for (number, attribute) in attributes.iter().enumerate() {
            open_each(attribute, of, &self.owned, |event, id| {
                self.numbers.insert(id, number);
                self.events.push((number, Arc::new(File::from(event))));
            })?;
        }
        if common.in_kernel {
            open_each(&common.news(), of, &self.news_owned, |event, _| self.news.push(event))?;
        }
        Ok(())
    }

    /// Bytes of the stack that all samples copy, but for pages that are not there.
    pub fn copied(&self) -> u32 {
        surely_copied(self.stack_size)
    }

    /// The events of the processors' time, where a BPF program may run.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.events.iter().filter(|(number, _)| *number == 0).map(|(_, event)| event.as_fd())
    }

    /// The same, for who counts the time.
    pub fn clocks(&self) -> impl Iterator<Item = Arc<File>> {
        self.events.iter().filter(|(number, _)| *number == 0).map(|(_, event)| Arc::clone(event))
    }

    /// What wakes the reader: events that own rings.
    pub fn owners(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.owned.owners.iter().chain(&self.news_owned.owners).map(AsFd::as_fd)
    }

    /// Makes all events count.
    ///
    /// # Errors
    /// The kernel's.
    pub fn enable(&self) -> Result<(), Refusal> {
        for event in
            self.news.iter().map(AsFd::as_fd).chain(self.events.iter().map(|(_, event)| event.as_fd()))
        {
            // SAFETY: it is an open event.
            if unsafe { perf_event_open_sys::ioctls::ENABLE(event.as_raw_fd(), 0) } < 0 {
                let error = io::Error::last_os_error();
                return Err(Refusal::new(&error, explain_any(&error)));
            }
        }
        Ok(())
    }

    /// The number of each event, by those that the kernel gave them.
    pub fn numbers(&self) -> Numbers {
        Numbers { layout: self.layout, by_id: self.numbers.clone() }
    }

    /// Bytes of records that wait.
    pub fn waiting(&self) -> usize {
        let rings = self.owned.rings.iter().chain(&self.news_owned.rings);
        rings.map(Ring::waiting).sum()
    }

    /// Moves all records to the end of `batch`. Whether there is news of processes in rings of its own.
    pub fn empty(&mut self, batch: &mut Vec<u8>) -> bool {
        self.owned.rings.iter_mut().for_each(|ring| ring.empty(batch));
        let before = batch.len();
        self.news_owned.rings.iter_mut().for_each(|ring| ring.empty(batch));
        batch.len() > before
    }
}

/// Tells to which event a record belongs.
pub struct Numbers {
    /// The layout of all records.
    pub layout: Layout,
    by_id: BTreeMap<u64, usize>,
}

impl Numbers {
    /// The number of a record's event.
    pub fn of(&self, record: &Record<'_>) -> usize {
        let id = if self.by_id.len() > 1 { self.layout.event_id(record) } else { None };
        id.and_then(|id| self.by_id.get(&id)).copied().unwrap_or(0)
    }
}

/// The events to sample: those of the request, and otherwise processor time.
fn choices(request: &Request, cycles: bool) -> Vec<Choice> {
    let mut choices = request.events.clone();
    if choices.is_empty() {
        choices.push(if cycles { Choice::cycles() } else { Choice::cpu_clock() });
    }
    choices.extend(request.off_cpu.then(Choice::off_cpu));
    choices
}

/// Bytes of the stack that are sure to be copied of so many. A record says its size in 16 bits, so whatever
/// else it has takes room from large copies.
fn surely_copied(stack: u32) -> u32 {
    stack.min(u32::from(u16::MAX) - MOST_BESIDE_STACK)
}

/// Bytes of stack to copy so that a ring has room for enough samples.
fn fitting(stack: u32, ring: usize) -> u32 {
    let room = |stack: u32| ring / (stack + BESIDE_STACK) as usize;
    let halves = std::iter::successors(Some(stack), |stack| (*stack > LEAST_STACK).then_some(stack / 2));
    halves.clone().find(|&stack| room(stack) >= LEAST_SAMPLES).or(halves.last()).unwrap_or(stack)
}

/// Opens an event for each ring, which it writes to, and passes it on with the number that the kernel gave
/// it.
fn open_each(
    attribute: &sys::perf_event_attr,
    of: Of<'_>,
    owned: &Owned,
    mut take: impl FnMut(OwnedFd, u64),
) -> io::Result<()> {
    for (&processor, owner) in owned.processors.iter().zip(&owned.owners) {
        let event = match open(attribute, of, processor) {
            Ok(event) => event,
            // The processor is offline, or the thread has ended.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ESRCH)) => continue,
            Err(error) => return Err(error),
        };
        let mut id = 0u64;
        // SAFETY: both are open events of one processor; the kernel writes one number.
        let set = unsafe {
            let set = perf_event_open_sys::ioctls::SET_OUTPUT(event.as_raw_fd(), owner.as_raw_fd() as _);
            if set < 0 { set } else { perf_event_open_sys::ioctls::ID(event.as_raw_fd(), &raw mut id) }
        };
        if set < 0 {
            return Err(io::Error::last_os_error());
        }
        take(event, id);
    }
    Ok(())
}

/// The owner and the ring of each processor. The rings of all have the same size: if the first ones took what
/// they can get, nothing would be left for the last.
fn rings(common: &Common, choices: &[Choice]) -> io::Result<Owned> {
    let rate = |choice: &Choice| if choice.period.is_some() { USUAL_RATE } else { common.frequency };
    let rate: u64 = choices.iter().map(rate).sum();
    let record = (common.stack_size + BESIDE_STACK) as usize;
    let samples = usize::try_from(rate / PART).unwrap_or(usize::MAX).max(2 * LEAST_SAMPLES);
    let mut failed = io::Error::from(io::ErrorKind::OutOfMemory);
    for size in sizes(record.saturating_mul(samples)) {
        match rings_of(common, size, size as u32 / 4) {
            Ok(rings) => return Ok(rings),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// A ring of a size for each processor, which wakes the reader when so many bytes wait there.
fn rings_of(common: &Common, size: usize, watermark: u32) -> io::Result<Owned> {
    let mut all = Owned::default();
    let attribute = common.owner(watermark);
    for processor in 0..processors() as i32 {
        // That of the process's first thread: the calling one may end earlier than the recording, and its
        // event would then say for ever that there is something to read.
        let owner = match open(&attribute, Of::Thread(std::process::id()), processor) {
            Ok(owner) => owner,
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
            Err(error) => return Err(error),
        };
        all.rings.push(Ring::new(&owner, size)?);
        all.owners.push(owner);
        all.processors.push(processor);
    }
    Ok(all)
}

/// Why the kernel takes no samples of these events, and what helps.
fn explain(error: &io::Error, request: &Request) -> String {
    let names = || request.events.iter().map(|choice| choice.name.as_str()).collect::<Vec<_>>().join(", ");
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) if !request.events.is_empty() => {
            format!("this machine does not count {}: {error}; cpu-clock is on every machine", names())
        }
        _ if request.off_cpu => format!(
            "waiting threads are sampled in the kernel, which it does not allow this user ({}): {error}; run as root, or set \
             /proc/sys/kernel/perf_event_paranoid to 1",
            paranoid()
        ),
        _ => explain_any(error),
    }
}

fn explain_any(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => format!(
            "the kernel does not allow to take samples ({}): run as root, give the program CAP_PERFMON, or set \
             /proc/sys/kernel/perf_event_paranoid to 1",
            paranoid()
        ),
        Some(libc::ENOSYS) => "this kernel takes no samples: it is built without perf events".into(),
        Some(libc::ESRCH) => "there is no such process".into(),
        Some(libc::EMFILE | libc::ENFILE) => descriptors::too_many(1, processors(), error),
        _ => format!("the kernel cannot take samples: {error}"),
    }
}

fn paranoid() -> String {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    format!("perf_event_paranoid is {}", level.trim())
}

#[cfg(test)]
mod tests {
    use super::{fitting, surely_copied};

    #[test]
    fn small_rings_get_smaller_copies_of_the_stack() {
        assert_eq!(fitting(32_768, 8 << 20), 32_768);
        assert_eq!(fitting(32_768, 512 << 10), 32_768);
        assert_eq!(fitting(32_768, 256 << 10), 16_384);
        assert_eq!(fitting(32_768, 64 << 10), 4096);
        assert_eq!(fitting(32_768, 0), 4096);
    }

    /// The frames of the kernel at their most, registers and the other fields, and both sizes of the copy.
    #[test]
    fn a_record_holds_what_is_said_to_be_copied() {
        const BESIDE: u32 = 8 + 8 * (1 + 127) + 8 * (1 + 32) + 8 * 16 + 2 * 8;
        assert!([4096, 32_768, 65_528].iter().all(|&size| surely_copied(size) + BESIDE < 1 << 16));
        assert_eq!([4096, 32_768, 60_000].map(surely_copied), [4096, 32_768, 60_000]);
    }
}
