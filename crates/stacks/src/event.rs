//! Records of `perf_event_open(2)` as values that borrow from the recording.
//!
//! The attribute of an event (`perf_event_attr`) decides which fields its samples have; [`Layout`] holds
//! this. Records that this crate does not need become [`Event::Other`]. The layouts are those of
//! `include/uapi/linux/perf_event.h`.

use crate::bytes::{Reader, word};
use crate::running::Identity;
use sframe_format::Endian;

/// `enum perf_event_type`.
pub(crate) mod kind {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const THROTTLE: u32 = 5;
    pub const UNTHROTTLE: u32 = 6;
    pub const FORK: u32 = 7;
    pub const READ: u32 = 8;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const LOST_SAMPLES: u32 = 13;
    pub const SWITCH: u32 = 14;
    pub const SWITCH_CPU_WIDE: u32 = 15;
    pub const CALLCHAIN_DEFERRED: u32 = 22;
}

/// `enum perf_event_sample_format`.
pub(crate) mod format {
    pub const IP: u64 = 1 << 0;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const BRANCH_STACK: u64 = 1 << 11;
    pub const REGS_USER: u64 = 1 << 12;
    pub const STACK_USER: u64 = 1 << 13;
    pub const IDENTIFIER: u64 = 1 << 16;
}

const MISC_CPU_MODE: u16 = 7;
const MISC_KERNEL: u16 = 1;
/// The meaning of these flags depends on the record type: data was mapped; a program was executed; a process
/// existed before; a thread leaves its processor; a build-id replaces the inode.
const MISC_MMAP_DATA: u16 = 1 << 13;
const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_FORK_EXEC: u16 = 1 << 13;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_MMAP_BUILD_ID: u16 = 1 << 14;
/// Flag of the attribute (`sample_id_all`): records other than samples end with the time, the thread and the
/// processor.
const SAMPLE_ID_ALL: u64 = 1 << 18;
const READ_GROUP: u64 = 1 << 3;
const PROT_EXEC: u32 = 4;
const BRANCH_HW_INDEX: u64 = 1 << 17;
const BRANCH_COUNTERS: u64 = 1 << 19;

/// The layout of an event's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Byte order.
    pub endian: Endian,
    /// `sample_type`.
    pub sample: u64,
    /// `read_format`.
    pub read: u64,
    /// Whether all records contain time, thread and processor.
    pub id_all: bool,
    /// `branch_sample_type`.
    pub branch: u64,
    /// `sample_regs_user`: a bit for each register in samples.
    pub user_registers: u64,
}

impl Layout {
    /// Reads a `perf_event_attr`. Returns its size, too: new versions add fields at the end, and missing
    /// fields are zero.
    pub fn of_attribute(bytes: &[u8], endian: Endian) -> Option<(Self, usize)> {
        let field = |at: usize| {
            let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| word(*bytes, endian))
        };
        let size = Reader::new(bytes.get(4..)?, endian).u32()?;
        let size = if size == 0 { 64 } else { size as usize };
        let layout = Self {
            endian,
            sample: field(24),
            read: field(32),
            // The first of these bits is the lowest or the highest, depending on the byte order.
            id_all: match endian {
                Endian::Little => field(40) & SAMPLE_ID_ALL != 0,
                Endian::Big => field(40) & (1 << (63 - 18)) != 0,
            },
            branch: if size > 72 { field(72) } else { 0 },
            user_registers: if size > 80 { field(80) } else { 0 },
        };
        Some((layout, size))
    }

    /// The event number in a record whose layout is not known yet. All events of a recording have it at the
    /// same place.
    pub fn event_id(&self, record: &Record<'_>) -> Option<u64> {
        let fields = |bits: u64| 8 * (self.sample & bits).count_ones() as usize;
        let first = self.sample & format::IDENTIFIER != 0;
        if !first && self.sample & format::ID == 0 {
            return None;
        }
        let at = match (record.is_sample(), first) {
            (true, true) => 0,
            (true, false) => fields(format::IP | format::TID | format::TIME | format::ADDR),
            (false, _) if !self.id_all => return None,
            (false, true) => record.body.len().checked_sub(8)?,
            (false, false) => record.body.len().checked_sub(8 + fields(format::STREAM_ID | format::CPU))?,
        };
        record.body.get(at..)?.first_chunk().map(|bytes| word(*bytes, self.endian))
    }

    /// Where records have the time when they were made.
    pub fn time_of(&self) -> TimeOf {
        let fields = |bits: u64| 8 * (self.sample & bits).count_ones() as usize;
        let is_there = self.sample & format::TIME != 0;
        let behind = format::ID | format::STREAM_ID | format::CPU | format::IDENTIFIER;
        TimeOf {
            endian: self.endian,
            sample: is_there.then(|| fields(format::IP | format::TID | format::IDENTIFIER)),
            other: (is_there && self.id_all).then(|| 8 + fields(behind)),
        }
    }

    /// When a record was made. `None`: it does not say.
    pub fn time(&self, record: &Record<'_>) -> Option<u64> {
        self.time_of().read(record)
    }

    /// Where the end of a record that is no sample has a field of 8 bytes, which the fields `behind` follow.
    fn end_of(&self, record: &Record<'_>, field: u64, behind: u64) -> Option<usize> {
        if !self.id_all || self.sample & field == 0 {
            return None;
        }
        record.body.len().checked_sub(8 * (1 + (self.sample & behind).count_ones()) as usize)
    }

    /// When and on which processor a record was made that is no sample.
    fn moment(&self, record: &Record<'_>) -> Moment {
        let at = self.end_of(record, format::CPU, format::IDENTIFIER);
        let cpu = at.and_then(|at| Reader::new(record.body.get(at..)?, self.endian).u32());
        Moment { time: self.time(record), cpu }
    }

    /// The thread that ran when a record was made that is no sample.
    fn thread(&self, record: &Record<'_>) -> Option<u32> {
        let behind = format::TIME | format::ID | format::STREAM_ID | format::CPU | format::IDENTIFIER;
        let at = self.end_of(record, format::TID, behind)?;
        Reader::new(record.body.get(at + 4..)?, self.endian).u32()
    }
}

/// Where records of an event have the time when they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeOf {
    endian: Endian,
    /// The offset in a sample. `None`: it has no time.
    sample: Option<usize>,
    /// The distance from the end of another record. `None`: it has no time.
    other: Option<usize>,
}

impl TimeOf {
    /// When a record was made. `None`: it does not say.
    #[inline]
    pub fn read(&self, record: &Record<'_>) -> Option<u64> {
        let at =
            if record.is_sample() { self.sample? } else { record.body.len().checked_sub(self.other?)? };
        record.body.get(at..)?.first_chunk().map(|bytes| word(*bytes, self.endian))
    }
}

/// A record as stored.
#[derive(Clone, Copy, Debug)]
pub struct Record<'data> {
    /// Its type.
    pub kind: u32,
    /// Flags.
    pub misc: u16,
    /// The bytes after the header.
    pub body: &'data [u8],
}

impl Record<'_> {
    /// Whether it is a sample.
    pub fn is_sample(&self) -> bool {
        self.kind == kind::SAMPLE
    }
}

/// When and where something happened, as far as the record says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The time, in nanoseconds.
    pub time: Option<u64>,
    /// The processor.
    pub cpu: Option<u32>,
}

/// A record, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'data> {
    /// A file was mapped.
    Mapped(Mapped<'data>),
    /// A thread got a name, or a process executes another program.
    Named {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
        /// The name.
        name: &'data [u8],
        /// Whether it executes another program.
        executed: bool,
    },
    /// A thread or process was created.
    Forked {
        /// Process of the new thread.
        pid: u32,
        /// The new thread.
        tid: u32,
        /// The process that created it.
        parent: u32,
        /// The thread that created it.
        parent_tid: u32,
        /// Whether it existed before the recording. Then perf made up the record, and each of its mappings
        /// has a record of its own.
        before: bool,
    },
    /// A thread ended.
    Exited {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
    },
    /// A sample.
    Sample(Sample<'data>),
    /// The user part of a call chain, recorded later.
    Deferred {
        /// The number that the sample has, too.
        cookie: u64,
        /// The chain.
        chain: Chain<'data>,
    },
    /// Records were lost, because the reader was too slow for its ring.
    Lost {
        /// How many.
        count: u64,
        /// When the ring had room again.
        at: Moment,
    },
    /// The kernel stops taking samples for a while, because they take too much time.
    Throttled {
        /// Whether it takes samples again.
        again: bool,
        /// When.
        at: Moment,
    },
    /// A thread gets a processor or leaves it.
    Switched {
        /// Thread.
        tid: u32,
        /// Whether it leaves.
        out: bool,
        /// The time, in nanoseconds.
        time: Option<u64>,
    },
    /// A thread ended that inherited an event.
    Counted {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
        /// What the event counted in it.
        count: u64,
        /// The time, in nanoseconds.
        time: Option<u64>,
    },
    /// A record that this crate does not need.
    Other,
}

/// A file that is mapped at addresses of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped<'data> {
    /// Process. All ones mean the kernel.
    pub pid: u32,
    /// First address.
    pub address: u64,
    /// Length in bytes.
    pub length: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Whether code may run there.
    pub executable: bool,
    /// Whether it belongs to the kernel.
    pub kernel: bool,
    /// The file's build-id, if the event has it.
    pub build_id: Option<&'data [u8]>,
    /// The file's device and inode by `/proc/PID/maps`. `None`: the mapping was told in another way.
    pub identity: Option<Identity>,
    /// Path.
    pub path: &'data [u8],
}

/// The addresses of a call chain, with marks between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain<'data> {
    words: &'data [[u8; 8]],
    big: bool,
}

impl Chain<'_> {
    /// The addresses and marks, topmost first.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        let endian = if self.big { Endian::Big } else { Endian::Little };
        self.words.iter().map(move |bytes| word(*bytes, endian))
    }
}

/// The registers of user code, and a copy of its stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User<'data> {
    /// Whether the code belongs to a 64-bit program.
    pub wide: bool,
    /// A bit for each register in `values`.
    mask: u64,
    values: &'data [[u8; 8]],
    /// A copy of the stack.
    pub stack: &'data [u8],
    /// The address of the copy's first byte, if that is not the stack pointer.
    pub base: Option<u64>,
    /// Whether the copy is shorter than it should be: the page behind it was not there. Nobody had written to
    /// it yet, or the stack ends before.
    pub cut_short: bool,
}

impl<'data> User<'data> {
    /// The registers whose bits are set in `mask`, as `PERF_SAMPLE_REGS_USER` gives them: in
    /// `perf_event_open`'s order and the byte order of the machine. `stack` begins at the stack pointer.
    pub fn new(wide: bool, mask: u64, values: &'data [[u8; 8]], stack: &'data [u8]) -> Self {
        Self { wide, mask, values, stack, base: None, cut_short: false }
    }

    /// The registers by their numbers in `perf_event_open`'s order.
    pub fn registers(&self, endian: Endian) -> impl Iterator<Item = (u32, u64)> {
        let mut left = self.mask;
        let numbers = std::iter::from_fn(move || {
            let number = left.trailing_zeros();
            left &= left.checked_sub(1)?;
            Some(number)
        });
        numbers.zip(self.values.iter().map(move |bytes| word(*bytes, endian)))
    }
}

/// A sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample<'data> {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Processor.
    pub cpu: Option<u32>,
    /// The time, in nanoseconds.
    pub time: Option<u64>,
    /// How many events the sample stands for.
    pub period: u64,
    /// The instruction, in the kernel or in user code.
    pub ip: u64,
    /// Whether the kernel was running.
    pub kernel: bool,
    /// The call chain that the kernel recorded.
    pub chain: Chain<'data>,
    /// Registers and stack, if they were recorded.
    pub user: Option<User<'data>>,
}

/// Reads a record. `None`: it is shorter than it says.
pub fn read<'data>(layout: &Layout, record: &Record<'data>) -> Option<Event<'data>> {
    let mut reader = Reader::new(record.body, layout.endian);
    let kernel = record.misc & MISC_CPU_MODE == MISC_KERNEL;
    Some(match record.kind {
        kind::MMAP => {
            let (pid, _tid) = (reader.u32()?, reader.u32()?);
            Event::Mapped(Mapped {
                pid,
                address: reader.u64()?,
                length: reader.u64()?,
                offset: reader.u64()?,
                executable: record.misc & MISC_MMAP_DATA == 0,
                kernel,
                build_id: None,
                identity: None,
                path: reader.text(),
            })
        }
        kind::MMAP2 => {
            // All fields but the last have one size, so one check is enough.
            let (fields, path) = record.body.split_first_chunk::<64>()?;
            let mut reader = Reader::new(fields, layout.endian);
            let (pid, _tid) = (reader.u32()?, reader.u32()?);
            let (address, length, offset) = (reader.u64()?, reader.u64()?, reader.u64()?);
            let file = reader.take(24)?;
            let build_id = (record.misc & MISC_MMAP_BUILD_ID != 0)
                .then(|| file.get(4..4 + usize::from(file[0]).min(20)))
                .flatten();
            let (protection, _flags) = (reader.u32()?, reader.u32()?);
            let executable = protection & PROT_EXEC != 0;
            let path = Reader::new(path, layout.endian).text();
            Event::Mapped(Mapped {
                pid,
                address,
                length,
                offset,
                executable,
                kernel,
                build_id,
                identity: None,
                path,
            })
        }
        kind::COMM => {
            let (pid, tid) = (reader.u32()?, reader.u32()?);
            Event::Named { pid, tid, name: reader.text(), executed: record.misc & MISC_COMM_EXEC != 0 }
        }
        kind::FORK | kind::EXIT => {
            let (pid, parent) = (reader.u32()?, reader.u32()?);
            let (tid, parent_tid) = (reader.u32()?, reader.u32()?);
            if record.kind == kind::FORK {
                Event::Forked { pid, tid, parent, parent_tid, before: record.misc & MISC_FORK_EXEC != 0 }
            } else {
                Event::Exited { pid, tid }
            }
        }
        kind::READ => {
            let (pid, tid) = (reader.u32()?, reader.u32()?);
            Event::Counted { pid, tid, count: reader.u64()?, time: layout.time(record) }
        }
        kind::SAMPLE => Event::Sample(sample(layout, &mut reader, kernel)?),
        kind::CALLCHAIN_DEFERRED => {
            let cookie = reader.u64()?;
            Event::Deferred { cookie, chain: chain(&mut reader)? }
        }
        kind::LOST => {
            let _id = reader.u64()?;
            Event::Lost { count: reader.u64()?, at: layout.moment(record) }
        }
        kind::LOST_SAMPLES => Event::Lost { count: reader.u64()?, at: layout.moment(record) },
        kind::THROTTLE | kind::UNTHROTTLE => {
            // Its own time is there even where records do not end with one.
            let time = layout.time(record).or(reader.u64());
            let at = Moment { time, ..layout.moment(record) };
            Event::Throttled { again: record.kind == kind::UNTHROTTLE, at }
        }
        kind::SWITCH | kind::SWITCH_CPU_WIDE => match layout.thread(record) {
            Some(tid) => {
                Event::Switched { tid, out: record.misc & MISC_SWITCH_OUT != 0, time: layout.time(record) }
            }
            None => Event::Other,
        },
        _ => Event::Other,
    })
}

fn words<'data>(reader: &mut Reader<'data>, count: u64) -> Option<&'data [[u8; 8]]> {
    let bytes = reader.take(usize::try_from(count).ok()?.checked_mul(8)?)?;
    Some(bytes.as_chunks().0)
}

fn chain<'data>(reader: &mut Reader<'data>) -> Option<Chain<'data>> {
    let count = reader.u64()?;
    Some(Chain { words: words(reader, count)?, big: reader.endian == Endian::Big })
}

fn sample<'data>(layout: &Layout, reader: &mut Reader<'data>, kernel: bool) -> Option<Sample<'data>> {
    let has = |bit: u64| layout.sample & bit != 0;
    let mut sample = Sample {
        pid: 0,
        tid: 0,
        cpu: None,
        time: None,
        period: 1,
        ip: 0,
        kernel,
        chain: Chain::default(),
        user: None,
    };
    if has(format::IDENTIFIER) {
        reader.u64()?;
    }
    if has(format::IP) {
        sample.ip = reader.u64()?;
    }
    if has(format::TID) {
        (sample.pid, sample.tid) = (reader.u32()?, reader.u32()?);
    }
    if has(format::TIME) {
        sample.time = Some(reader.u64()?);
    }
    for _ in 0..(layout.sample & (format::ADDR | format::ID | format::STREAM_ID)).count_ones() {
        reader.u64()?;
    }
    if has(format::CPU) {
        sample.cpu = Some(reader.u32()?);
        reader.u32()?;
    }
    if has(format::PERIOD) {
        sample.period = reader.u64()?;
    }
    if has(format::READ) {
        skip_counts(layout.read, reader)?;
    }
    if has(format::CALLCHAIN) {
        sample.chain = chain(reader)?;
    }
    if has(format::RAW) {
        let size = reader.u32()? as usize;
        reader.take(size)?;
    }
    if has(format::BRANCH_STACK) {
        let count = reader.u64()?;
        if layout.branch & BRANCH_HW_INDEX != 0 {
            reader.u64()?;
        }
        let counters = u64::from(layout.branch & BRANCH_COUNTERS != 0);
        words(reader, count.checked_mul(3 + counters)?)?;
    }
    let mut user = User::new(false, 0, &[], &[]);
    if has(format::REGS_USER) {
        let abi = reader.u64()?;
        if abi != 0 {
            user.wide = abi == 2;
            user.mask = layout.user_registers;
            user.values = words(reader, layout.user_registers.count_ones().into())?;
        }
    }
    if has(format::STACK_USER) {
        let size = usize::try_from(reader.u64()?).ok()?;
        if size != 0 {
            let stack = reader.take(size)?;
            let filled = usize::try_from(reader.u64()?).ok()?;
            user.stack = &stack[..filled.min(size)];
            user.cut_short = filled < size;
        }
    }
    sample.user = (user.mask != 0).then_some(user);
    Some(sample)
}

/// Skips the counts of `PERF_SAMPLE_READ`.
fn skip_counts(read: u64, reader: &mut Reader<'_>) -> Option<()> {
    let times = (read & 3).count_ones();
    let fields = 1 + u64::from(u32::from(read & 4 != 0) + u32::from(read & 16 != 0));
    if read & READ_GROUP == 0 {
        return words(reader, u64::from(times) + fields).map(|_| ());
    }
    let count = reader.u64()?;
    words(reader, u64::from(times).checked_add(count.checked_mul(fields)?)?).map(|_| ())
}
