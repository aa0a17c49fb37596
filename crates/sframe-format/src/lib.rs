//! SFrame stack-trace sections: versions 1 to 3, both byte orders, three architectures.
//! An SFrame *section* contains one or more *blobs*. A blob is a header with its body: an array of function
//! descriptor entries (*FDEs*) and a sub-section of frame row entries (*FREs*). Assemblers and merging
//! linkers write one blob into a section. Plain concatenation gives several, each with its own version and
//! base address.
//!
//! | module | contents |
//! |---|---|
//! | [`header`], [`blob`], [`fde`] | the structures of a section, read in place |
//! | [`fre`], [`rules`] | rows, as bytes and as rules |
//! | [`light`] | units: a linking form without counts and offsets, one unit for each text section |
//! | [`lookup`], `index` | from a program counter to its row |
//! | `table` | the same, but faster: rows laid out by address |
//! | [`compact`] | tables of our own form, much smaller |
//! | [`unwind`], [`signal`] | from a frame to its caller, whether it called or was interrupted |
//! | [`Source`], `file_rows`, `cache`, `unwinder` | whole stacks over many files, with the source of every frame |
//! | `verify` | everything the format demands, as typed findings |
//! | `write` | blobs of version 2 and 3 from rows |
//! | `convert` | from version to version, and from many blobs to one |
//! | `derive` | rows from `.eh_frame` (feature `derive`) |
//! | [`patch`] | bytes that a linker rewrites in place: function starts, dead functions, flags |
//!
//! # Which look-up do I want?
//!
//! | you have | and ask | use | allocates |
//! |---|---|---|---|
//! | one section, or a part of it | a few addresses, perhaps in a kernel | [`Section::lookup`], [`Blob::lookup`] | never |
//! | one section, of any number of blobs | many addresses | `SectionIndex::lookup` | once, if blobs overlap or are not sorted |
//! | one section, with a million rows | the same addresses again and again | `RuleTable::find` | once, five bytes for each row |
//! | a compact table | anything | [`CompactTable::lookup`], and [`compact::CompactMatch::step`] | never |
//! | one file: its section, a compact table, `.eh_frame` | rules, from whichever has them | `FileRows::rules_at` | once |
//! | the files of a process, and a sample | whole stacks | `Unwinder::iter_frames`, with a `RuleCache` | once for each file |
//! | rules, and registers | the caller | [`unwind::step`] | never |
//!
//! All of them give the same rules for the same address:
//!
//! ```
//! # #[cfg(feature = "alloc")] {
//! use sframe_format::table::TableAnswer;
//! use sframe_format::write::{Function, Options, write_sorted};
//! use sframe_format::*;
//!
//! // f, at 0x401000: 16 bytes whose first instruction, of one byte, pushes rbp (DWARF register 6).
//! let cfa = |offset| CfaRule::register(Abi::Amd64.stack_pointer(), offset);
//! let saved = |offset| RegisterRule::Saved(Location::at_cfa(offset));
//! let frame = |cfa, fp| Rules::Frame(Frame { cfa, ra: saved(-8), fp, mangled: false });
//! let row = |start, cfa, fp| Row { start, rules: frame(cfa, fp) };
//! let rows = vec![row(0, cfa(8), RegisterRule::Unchanged), row(1, cfa(16), saved(-16))];
//! let functions = [(0x40_1000, Function { size: 16, rows, ..Default::default() })];
//!
//! // The section, as a linker would write it at 0x400200.
//! let section = write_sorted(Options::new(Abi::Amd64), 0x40_0200, &functions).unwrap().bytes;
//! let once = Section::new(&section, 0x40_0200).lookup(0x40_1004).unwrap().unwrap();
//! assert_eq!(once.row.to_string(), "1: cfa=r7+16 fp=*(cfa-16) ra=*(cfa-8)");
//!
//! let index = SectionIndex::new(&section[..], 0x40_0200);
//! assert_eq!(index.lookup(0x40_1004).unwrap().unwrap(), once);
//! assert_eq!(index.lookup(0x40_1010), Ok(None), "behind the function");
//!
//! let table = RuleTable::new(&index).unwrap();
//! assert!(matches!(table.find(0x40_1004), TableAnswer::Row(found) if found.rules == once.row.rules));
//!
//! let compact = compact::write_table(Abi::Amd64, 0x40_0300, &functions).unwrap().bytes;
//! let compact = CompactTable::parse(&compact[..], 0x40_0300).unwrap();
//! assert_eq!(compact.lookup(0x40_1004).unwrap().unwrap().rules.rules, once.row.rules);
//!
//! let (rules, source) = FileRows::new(&section[..], 0x40_0200).rules_at(0x40_1004).unwrap().unwrap();
//! assert_eq!((rules.rules, source), (once.row.rules, Source::Sframe));
//! # }
//! ```
//!
//! The README walks a whole stack of a process; `examples/` has programs.
//!
//! # Features
//!
//! Feature `alloc` (in `std`, the default) adds the modules that have no link in the table of modules.
//! Everything else works without it, in `no_std` programs that have no allocator. Structures and names follow
//! the SFrame specification of binutils. Where versions differ, an item says the version and section.
//!
//! All offsets and sizes are in bytes. No function panics on any input bytes, and reading allocates nothing.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod abi;
pub mod blob;
#[cfg(feature = "alloc")]
pub mod cache;
pub mod cfi;
pub mod compact;
#[cfg(feature = "alloc")]
pub mod convert;
#[cfg(feature = "alloc")]
mod decoded;
#[cfg(feature = "derive")]
pub mod derive;
pub mod endian;
pub mod error;
pub mod fde;
#[cfg(feature = "alloc")]
pub mod file_rows;
#[cfg(feature = "framehop")]
mod framehop;
pub mod fre;
pub mod header;
#[cfg(feature = "alloc")]
pub mod index;
mod info;
pub mod light;
pub mod lookup;
#[cfg_attr(not(feature = "alloc"), allow(dead_code))]
mod packed;
pub mod patch;
#[cfg(feature = "alloc")]
mod plain;
mod registers;
pub mod rules;
#[cfg(feature = "alloc")]
mod short;
pub mod signal;
mod source;
#[cfg(feature = "alloc")]
pub mod table;
pub mod unwind;
#[cfg(feature = "alloc")]
pub mod unwinder;
#[cfg(feature = "alloc")]
pub mod verify;
pub mod version;
#[cfg(feature = "alloc")]
pub mod write;

pub use abi::Abi;
pub use blob::{Blob, Gap, Piece, Section};
#[cfg(feature = "alloc")]
pub use cache::RuleCache;
pub use compact::CompactTable;
pub use endian::Endian;
pub use error::{Error, ErrorKind};
pub use fde::Fde;
#[cfg(feature = "alloc")]
pub use file_rows::FileRows;
pub use fre::{Attributes, FdeType, Fre, PauthKey, PcType};
pub use header::{HEADER_SIZE, Header};
#[cfg(feature = "alloc")]
pub use index::SectionIndex;
pub use lookup::Match;
pub use patch::BlobMut;
pub use rules::{Base, CfaRule, Frame, Location, RegisterRule, Row, Rules, UnwindRules};
pub use source::Source;
#[cfg(feature = "alloc")]
pub use table::RuleTable;
pub use unwind::{FrameAddress, ModuleId, Registers, UnwindError};
#[cfg(feature = "alloc")]
pub use unwinder::{Module, StackFrame, Unwinder};
pub use version::{Flags, Version};

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
mod readme {}

/// Section type of SFrame sections, `SHT_GNU_SFRAME`. GNU as before 2.45 wrote `SHT_PROGBITS` instead.
pub const SHT_GNU_SFRAME: u32 = 0x6fff_fff4;
/// Type of the program header that covers the SFrame section, `PT_GNU_SFRAME`.
pub const PT_GNU_SFRAME: u32 = 0x6474_e554;
