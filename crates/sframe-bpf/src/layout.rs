//! The structures that the program and this crate share (`unwind.bpf.c`, `compact.h`).

use aya::Pod;
use sframe_format::CompactTable;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Where a table and its parts are, as `struct table`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Address of its first byte, as the file states it.
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
    /// A table whose first byte is at `place`, in bytes from the start of all tables. `None` if its end does
    /// not fit 32 bits.
    pub fn new(table: &CompactTable<&[u8]>, place: u32) -> Option<Self> {
        let (header, parts) = (table.header(), table.parts());
        let end = place.checked_add(u32::try_from(parts.end).ok()?)?;
        // No part starts behind the end.
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

    /// Its bytes, as the program reads them.
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

/// Executable memory that is of a file, as `struct range`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// What is added to the file's own addresses.
    pub bias: u64,
    /// Number of the file.
    pub file: u32,
    /// The process, which this crate fills in.
    pub pid: u32,
}

/// The ranges of a process, as `struct process`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slice {
    pub first: u32,
    pub count: u32,
}

/// Where stacks ended, as `enum end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum End {
    /// At the root.
    Root,
    /// The stack has more frames than the program follows, 1024.
    TooDeep,
    /// The process is not known yet.
    NoProcess,
    /// An address is in no file that is known.
    NoMapping,
    /// A file has no table yet, or none at all.
    NoTable,
    /// The table has no rows for an address.
    NoRows,
    /// The table is damaged.
    Malformed,
    /// Memory that is not there, or not at once.
    Memory,
    /// A register is needed whose value is known in the innermost frame only.
    Register,
    /// The caller's frame would not lie above.
    NoProgress,
    /// A 32-bit program.
    Narrow,
    /// The ring was full.
    RingFull,
}

impl End {
    /// All ends, by number.
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

    /// A description of a few words, for statistics.
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

/// Counts of one processor, as `struct counts`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub ends: [u64; End::ALL.len()],
    pub frames: u64,
}

// SAFETY: they are made of integers without gaps between them.
unsafe impl Pod for Table {}
// SAFETY: as above.
unsafe impl Pod for Range {}
// SAFETY: as above.
unsafe impl Pod for Slice {}
// SAFETY: as above.
unsafe impl Pod for Counts {}

/// A PID namespace: numbers of processes are those of this namespace.
pub(crate) struct Namespace {
    pub device: u64,
    pub inode: u64,
}

impl Namespace {
    /// The namespace of this process.
    pub fn own() -> io::Result<Self> {
        let namespace = std::fs::metadata("/proc/self/ns/pid")?;
        let device = namespace.dev();
        // The kernel's own form of device numbers: 12 bits of major number, 20 of minor.
        let device = u64::from(libc::major(device)) << 20 | u64::from(libc::minor(device));
        Ok(Self { device, inode: namespace.ino() })
    }
}
