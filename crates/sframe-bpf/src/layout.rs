//! The structures that the BPF program and this crate share (`unwind.h`, `compact.h`).

use aya::Pod;
use sframe_format::CompactTable;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Where a table and its parts are; `struct table` in C.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The address of its first byte, as the file has it.
    pub address: u64,
    regions: u32,
    region_count: u32,
    rules: u32,
    rule_count: u32,
    long_rules: u32,
    long_rule_count: u32,
    pages: u32,
    page_count: u32,
    steps: u32,
    step_count: u32,
    step_width: u32,
    starts: u32,
    entry_count: u32,
    places: u32,
    place_width: u32,
    shapes: u32,
    end: u32,
    present: u32,
}

impl Table {
    /// A table whose first byte is at `place`, in bytes from the start of all tables. `None` if the place of
    /// its end does not fit 32 bits.
    pub fn new(table: &CompactTable<&[u8]>, place: u32) -> Option<Self> {
        let (header, parts) = (table.header(), table.parts());
        let end = place.checked_add(u32::try_from(parts.end).ok()?)?;
        // No part starts after the end.
        let at = |offset: usize| place + offset as u32;
        Some(Self {
            address: table.address(),
            regions: at(parts.regions),
            region_count: header.regions,
            rules: at(parts.rules),
            rule_count: header.rules,
            long_rules: at(parts.long_rules),
            long_rule_count: header.long_rules,
            pages: at(parts.pages),
            page_count: header.pages,
            steps: at(parts.steps),
            step_count: header.steps,
            step_width: header.step_width.into(),
            starts: at(parts.starts),
            entry_count: header.entries,
            places: at(parts.places),
            place_width: header.place_width.into(),
            shapes: at(parts.shapes),
            end,
            present: 1,
        })
    }

    /// Its bytes, in the form that the program reads.
    pub fn to_bytes(&self) -> Vec<u8> {
        let words = [
            self.regions,
            self.region_count,
            self.rules,
            self.rule_count,
            self.long_rules,
            self.long_rule_count,
            self.pages,
            self.page_count,
            self.steps,
            self.step_count,
            self.step_width,
            self.starts,
            self.entry_count,
            self.places,
            self.place_width,
            self.shapes,
            self.end,
            self.present,
        ];
        let words = words.iter().flat_map(|word| word.to_ne_bytes());
        self.address.to_ne_bytes().into_iter().chain(words).collect()
    }
}

/// Executable memory; `struct range` in C.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// Address after the last byte.
    pub end: u64,
    /// The number to add to the file's own addresses.
    pub bias: u64,
    /// The number of the file that is mapped there, or [`Range::MADE`].
    pub file: u32,
    /// The process; this crate sets it.
    pub pid: u32,
}

impl Range {
    /// In place of a file: code that the process made while it ran. The program leaves it by its frame
    /// pointer.
    pub const MADE: u32 = u32::MAX;
}

/// Where the ranges of a process are; `struct process` in C.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slice {
    pub first: u32,
    pub count: u32,
}

impl Slice {
    /// That of a process whose samples are dropped.
    pub const IGNORED: Self = Self { first: 0, count: u32::MAX };
}

/// The most words of a [`WayBack`].
pub const MOST_WORDS: usize = 6;

/// How a function that has called on another stack gets back to the one on which it was called; `struct
/// way_back` in C.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WayBack {
    /// What the way starts with.
    pub from: u32,
    /// A bit for each field that counts, and what it counts from.
    pub flags: u32,
    /// Number of words.
    pub count: u32,
    /// Offsets of words: each is read at the offset from the value of the one before.
    pub words: [i32; MOST_WORDS],
    /// The offset from the stack pointer of a word to subtract from the last value.
    pub minus: i32,
    /// The CFA, counted from the value.
    pub cfa: i32,
    /// Where the caller's frame pointer is.
    pub fp: i32,
    /// Where the caller's address is, counted from the place of the last word.
    pub pc: i32,
    /// Where the stack pointer is that the next such call further out leads to, counted from the value.
    pub below: i32,
}

impl WayBack {
    /// The function is the last of its stack.
    pub const NOWHERE: u32 = 0;
    /// The way starts with the base of the thread's own data.
    pub const FROM_THREAD: u32 = 1;
    /// It starts with the stack pointer.
    pub const FROM_STACK: u32 = 2;
    /// It starts with the frame pointer.
    pub const FROM_FRAME: u32 = 3;
    /// A word is to be subtracted.
    pub const SUBTRACTS: u32 = 1;
    /// The caller's frame pointer is a word at an offset from the CFA.
    pub const FP_AT_CFA: u32 = 2;
    /// The caller's frame pointer is a word at an offset from the place of the last word.
    pub const FP_BESIDE: u32 = 4;
    /// The caller's address is a word at an offset from the place of the last word.
    pub const PC_BESIDE: u32 = 8;
    /// The next such call further out leads to another stack pointer.
    pub const MOVES: u32 = 16;
}

/// Where a function goes on behind a call on another stack; `struct behind_call` in C.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BehindCall {
    /// The file's own address.
    pub address: u64,
    pub file: u32,
    pub spare: u32,
}

/// Where a stack ended; `enum end` in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum End {
    /// At the root.
    Root,
    /// The stack has more frames than the program follows (1024).
    TooDeep,
    /// The process is not known yet.
    NoProcess,
    /// An address is in no known file.
    NoMapping,
    /// A file has no table yet, or will have none.
    NoTable,
    /// The table has no rows for an address.
    NoRows,
    /// The table is damaged.
    Malformed,
    /// Memory does not exist, or is not present at the moment.
    Memory,
    /// A rule needs a register whose value is only known in the innermost frame.
    Register,
    /// The caller's frame would not lie above this one.
    NoProgress,
    /// A 32-bit program.
    Narrow,
    /// The ring was full.
    RingFull,
}

impl End {
    /// All ends, in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::Root,
        Self::TooDeep,
        Self::NoProcess,
        Self::NoMapping,
        Self::NoTable,
        Self::NoRows,
        Self::Malformed,
        Self::Memory,
        Self::Register,
        Self::NoProgress,
        Self::Narrow,
        Self::RingFull,
    ];

    /// A description in a few words, for statistics.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::TooDeep => "too many frames",
            Self::NoProcess => "a process that is not known yet",
            Self::NoMapping => "an address in no file",
            Self::NoTable => "a file whose table is not there yet",
            Self::NoRows => "no rows for the address",
            Self::Malformed => "a damaged table",
            Self::Memory => "memory that cannot be read",
            Self::Register => "a register that is not known",
            Self::NoProgress => "the caller's frame does not lie above",
            Self::Narrow => "a 32-bit program",
            Self::RingFull => "the ring was full",
        }
    }
}

/// The counts of one processor; `struct counts` in C.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub ends: [u64; End::ALL.len()],
    pub frames: u64,
}

// SAFETY: the structure consists of integers, without gaps between them.
unsafe impl Pod for Table {}
// SAFETY: as above.
unsafe impl Pod for Range {}
// SAFETY: as above.
unsafe impl Pod for WayBack {}
// SAFETY: as above.
unsafe impl Pod for BehindCall {}
// SAFETY: as above.
unsafe impl Pod for Slice {}
// SAFETY: as above.
unsafe impl Pod for Counts {}

/// A PID namespace. The numbers of processes are those in this namespace.
pub(crate) struct Namespace {
    pub device: u64,
    pub inode: u64,
}

impl Namespace {
    /// The namespace of this process.
    pub fn own() -> io::Result<Self> {
        let namespace = std::fs::metadata("/proc/self/ns/pid")?;
        let device = namespace.dev();
        // The kernel's form of a device number has 12 bits for the major number and 20 for the minor one.
        let device = u64::from(libc::major(device)) << 20 | u64::from(libc::minor(device));
        Ok(Self { device, inode: namespace.ino() })
    }
}
