//! Compact tables: the rows of a whole program, in a quarter of the room if the program is large.
//!
//! An SFrame section repeats itself. Take an x86-64 function of 31 bytes that pushes rbp and pops it at the
//! end:
//!
//! ```text
//! byte 0: CFA = rsp + 8      byte 1: CFA = rsp + 16, rbp at CFA - 16      byte 30: CFA = rsp + 8
//! ```
//!
//! SFrame V3 takes 31 bytes for it: an FDE of 16, an attribute of 5, and rows of 3, 4 and 3. Every function
//! with this prologue and epilogue spells out the same rules again. But functions differ mostly in where
//! their rows start, and little in the order of their rules. So a compact table stores order and distances
//! apart, and everything that repeats once:
//!
//! - A *rule* says how to find the caller. All rows with equal rules share it.
//! - A *step* is the number of a rule, and how many bytes its row covers if they are few.
//! - A *run* is a sequence of steps that follow closely, as in a prologue or an epilogue. Functions share
//!   runs.
//! - A *shape* lists the runs of a function and the bytes between them. Equal functions share a shape.
//! - An *entry* is a function, or a piece of a long one: its start, and the place of its shape.
//!
//! ```text
//! steps:   1: rule 1 for 1 byte      2: rule 2, the shape goes on      3: rule 1, the shape ends
//! shape:   from step 1, 29 bytes by its last row; from step 3, 1 byte
//!
//! address ─► region ─► page ─► entry: start, place of its shape ─► shape: runs of steps ─► rule
//! ```
//!
//! So the function takes 4 bytes for its shape and 4 for its entry, and an equal function takes 4 more.
//!
//! The table serves readers that hold many tables, such as profilers, also in the kernel. It contains no
//! absolute address, so they read it where it is mapped. The kernel's verifier rejects a BPF program with an
//! unbounded loop, so a constant bounds every loop of a look-up: an entry has at most [`MAX_ROWS`] rows and
//! [`MAX_BYTES`] bytes, and a longer function has several entries. A shape says where its function ends.
//! Otherwise a look-up in the gap behind a function would find its last rule.
//!
//! A compact table is not an SFrame section. `COMPACT.md` of this crate specifies every byte.
//!
//! Version 1 says what SFrame says. Version 2 says all that `.eh_frame` says, except for expressions: a rule
//! has a *layout*, the list of all other registers that the function saved, and functions have personality
//! routines and language-specific data. [`CompactTable::look_up_whole`] reads it. A profiler reads the rules
//! of both versions in the same way, and skips layouts.
//!
//! | module | contents |
//! |---|---|
//! | `rule` | rules, as words and in full |
//! | `layout` | version 2: the other registers of a rule |
//! | `handlers` | version 2: personality routines and language-specific data |
//! | `whole` | version 2: from an address to all that is known of its frame |
//! | `shape` | from an offset in a function to its rule |
//! | `look_up` | from an address to its entry |
//! | `pieces` | all entries and rows, and whether they are valid |
//! | `verify` | whether every rule of `COMPACT.md` is kept |
//! | `verify_whole` | the same for what version 2 adds |
//! | `compare`, `compare_runs` | whether a table of version 2 says what functions say |
//! | `build`, `encoded`, `join` | the writer (feature `alloc`): functions that are collected |
//! | `functions`, `intern`, `row_rules` | their numbers |
//! | `collected`, `entries`, `write` | a table that is made of them |
//! | `build_whole`, `build_runs`, `fit`, `forms`, `known_runs` | what the writer adds in version 2 |

#[cfg(feature = "alloc")]
mod build;
#[cfg(feature = "alloc")]
mod build_runs;
#[cfg(feature = "alloc")]
mod build_whole;
#[cfg(feature = "alloc")]
mod collected;
#[cfg(feature = "alloc")]
mod compare;
#[cfg(feature = "alloc")]
mod compare_runs;
#[cfg(feature = "alloc")]
mod encoded;
#[cfg(feature = "alloc")]
mod entries;
#[cfg(feature = "alloc")]
mod fit;
#[cfg(feature = "alloc")]
mod forms;
#[cfg(feature = "alloc")]
mod functions;
mod handlers;
#[cfg(feature = "alloc")]
pub(crate) mod intern;
#[cfg(feature = "alloc")]
mod join;
#[cfg(feature = "alloc")]
mod known_runs;
mod layout;
mod look_up;
mod pieces;
#[cfg(feature = "alloc")]
mod row_rules;
mod rule;
mod shape;
mod verify;
mod verify_whole;
mod whole;
#[cfg(feature = "alloc")]
mod write;

use core::ops::Deref;

use crate::abi::Abi;
use crate::endian::Endian;
use crate::error::{Error, ErrorKind};

#[cfg(feature = "alloc")]
pub use build::{Builder, Written, write_table};
#[cfg(feature = "alloc")]
pub use build_runs::Added;
#[cfg(feature = "alloc")]
pub use build_whole::{PlacedFunction, PlacedHandler, WholeShapes, write_whole_table};
#[cfg(feature = "alloc")]
pub use collected::Collected;
#[cfg(feature = "alloc")]
pub use compare::{Agreed, Comparison};
#[cfg(feature = "alloc")]
pub use compare_runs::AgreedRuns;
#[cfg(feature = "alloc")]
pub use functions::ShapeId;
pub use handlers::{Handler, Personality};
#[cfg(feature = "alloc")]
pub use join::{InTurn, Joined, SideBySide, join};
pub use layout::SavedRegisters;
pub use look_up::CompactMatch;
pub use pieces::{Piece, PieceRow, Pieces, Summary, WholeRow};
pub use whole::{WholeMatch, WholeRules};
#[cfg(feature = "alloc")]
pub use write::{Pages, Shapes};

/// Name of the section that linkers write, for tables of version 1.
pub const SECTION_NAME: &str = ".sframe_compact";
/// Name of the section that linkers write, for tables of version 2.
pub const WHOLE_SECTION_NAME: &str = ".sframe_unwind";
/// Name of the section by which the linker keeps BOLT away from code that such a table describes: BOLT takes
/// no file that has a section with its own prefix.
pub const CODE_MARK: &str = ".bolt.org.sframe_unwind";

/// Whether a section of this name says that BOLT has rewritten the file's code: it says in a note how it was
/// called, and renames what it replaces. A table that stands for `.eh_frame` then describes code that was.
pub fn is_of_bolt(section: &[u8]) -> bool {
    section == b".note.bolt_info" || section.starts_with(b".bolt.") && section != CODE_MARK.as_bytes()
}
/// Type of the program header that covers a table of version 2, `PT_SFRAME_UNWIND`.
pub const PT_SFRAME_UNWIND: u32 = 0x6553_4652;
/// The magic number, in the table's byte order.
pub const MAGIC: u32 = 0x5346_4354;
/// The version that says what SFrame says.
pub const VERSION: u8 = 1;
/// The version that says what `.eh_frame` says.
pub const WHOLE_VERSION: u8 = 2;
/// Size of the header in bytes, in version 1.
pub const HEADER_SIZE: usize = 40;
/// Size of the header in bytes, in version 2.
pub const WHOLE_HEADER_SIZE: usize = 64;
/// Bytes of text in a page.
pub const PAGE: u64 = 1 << 16;
/// The largest number of rows of an entry.
pub const MAX_ROWS: usize = 64;
/// The largest number of bytes of text that an entry covers.
pub const MAX_BYTES: u32 = 0xffff;
/// The largest number of personality routines of a table of version 2: handlers name them by a byte.
pub const MAX_PERSONALITIES: usize = 1 << 8;

const REGION_SIZE: usize = 16;
const RULE_SIZE: usize = 8;
const LONG_RULE_SIZE: usize = 32;
const PAGE_SIZE: usize = 4;
const START_SIZE: usize = 2;
const LAYOUT_NUMBER_SIZE: usize = 2;
const PERSONALITY_SIZE: usize = 8;
const HANDLER_PAGE_SIZE: usize = 12;
const CONTINUED_SIZE: usize = 8;

/// The header of a table: the sizes of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version: 1 or 2.
    pub version: u8,
    /// The architecture.
    pub abi: Abi,
    /// The byte order: the architecture's in version 1, little-endian in version 2.
    pub endian: Endian,
    /// Bytes of a step: 2 or 4.
    pub step_width: u8,
    /// Bytes of the place of a shape: 2, 3 or 4.
    pub place_width: u8,
    /// Bytes of the table, header included.
    pub length: u32,
    /// Number of regions.
    pub regions: u32,
    /// Number of rules.
    pub rules: u32,
    /// Number of rules that do not fit a word.
    pub long_rules: u32,
    /// Number of pages.
    pub pages: u32,
    /// Number of steps.
    pub steps: u32,
    /// Number of entries.
    pub entries: u32,
    /// Bytes of all shapes.
    pub shape_bytes: u32,
    /// What only version 2 has; zeros in version 1.
    pub whole: WholeHeader,
}

/// The sizes of the parts that only version 2 has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WholeHeader {
    /// Bytes of all layouts.
    pub layout_bytes: u32,
    /// Number of personality routines.
    pub personalities: u32,
    /// Number of functions that have a personality routine.
    pub handlers: u32,
    /// Bytes of the distances to language-specific data.
    pub lsda_bytes: u32,
    /// Number of entries that continue a function.
    pub continued: u32,
}

/// Where the parts of a table are, in bytes from its start. They follow one another in this order without
/// gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The regions, 16 bytes each.
    pub regions: usize,
    /// The rules, 8 bytes each.
    pub rules: usize,
    /// The rules that do not fit a word, 32 bytes each.
    pub long_rules: usize,
    /// The first entries of pages, 4 bytes each, one more than there are pages.
    pub pages: usize,
    /// The steps, [`Header::step_width`] bytes each.
    pub steps: usize,
    /// Where entries start in their pages, 2 bytes each.
    pub starts: usize,
    /// Where the shapes of entries are, [`Header::place_width`] bytes each.
    pub places: usize,
    /// The shapes.
    pub shapes: usize,
    /// Version 2: where the layouts of rules are, 2 bytes each.
    pub layout_numbers: usize,
    /// Version 2: the layouts.
    pub layouts: usize,
    /// Version 2: the personality routines, 8 bytes each.
    pub personalities: usize,
    /// Version 2: where the handlers of pages begin, 12 bytes each; none without handlers.
    pub handler_pages: usize,
    /// Version 2: a bit for each entry, whether it has a handler; none without handlers.
    pub handler_bits: usize,
    /// Version 2: the distances to language-specific data.
    pub lsdas: usize,
    /// Version 2: the entries that continue a function, 8 bytes each.
    pub continued: usize,
    /// The end of the table.
    pub end: usize,
}

impl Header {
    /// Reads the header at the start of `data`, which must contain the whole table.
    ///
    /// # Errors
    /// Magic, version, ABI or a width is unknown, or the stated length is not the sum of the parts or exceeds
    /// `data`.
    pub fn read(data: &[u8]) -> Result<Self, Error> {
        let truncated = |needed| {
            let available = data.len() as u64;
            Error::new(0, ErrorKind::Truncated { what: "compact table", needed, available })
        };
        let bytes: &[u8; HEADER_SIZE] = data.first_chunk().ok_or(truncated(HEADER_SIZE as u64))?;
        let endian = match u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) {
            MAGIC => Endian::Little,
            swapped if swapped.swap_bytes() == MAGIC => Endian::Big,
            _ => {
                let found = [bytes[0], bytes[1], bytes[2], bytes[3]];
                return Err(Error::new(0, ErrorKind::CompactMagic { found }));
            }
        };
        let &[_, _, _, _, version, abi, step_width, place_width, ..] = bytes;
        let bytes = match version {
            VERSION => &bytes[..],
            WHOLE_VERSION => data.get(..WHOLE_HEADER_SIZE).ok_or(truncated(WHOLE_HEADER_SIZE as u64))?,
            _ => return Err(Error::new(4, ErrorKind::CompactVersion { found: version })),
        };
        let abi = Abi::from_byte(abi).ok_or(Error::new(5, ErrorKind::Abi { found: abi }))?;
        let expected = if version == VERSION { abi.endian() } else { Endian::Little };
        if expected != endian {
            return Err(Error::new(0, ErrorKind::AbiEndian { abi, found: endian }));
        }
        let widths = matches!(step_width, 2 | 4) && matches!(place_width, 2..=4);
        if !widths {
            let kind = ErrorKind::CompactWidths { step: step_width, place: place_width };
            return Err(Error::new(6, kind));
        }
        let word = |offset| endian.read_u32(bytes, offset).unwrap_or(0);
        if word(60) != 0 {
            return Err(Error::new(60, ErrorKind::CompactUnused { what: "the header" }));
        }
        let header = Self {
            version,
            abi,
            endian,
            step_width,
            place_width,
            length: word(8),
            regions: word(12),
            rules: word(16),
            long_rules: word(20),
            pages: word(24),
            steps: word(28),
            entries: word(32),
            shape_bytes: word(36),
            whole: WholeHeader {
                layout_bytes: word(40),
                personalities: word(44),
                handlers: word(48),
                lsda_bytes: word(52),
                continued: word(56),
            },
        };
        let needed = header.needed();
        if u64::from(header.length) != needed {
            return Err(Error::new(8, ErrorKind::CompactLength { header: header.length, needed }));
        }
        if needed > data.len() as u64 {
            return Err(truncated(needed));
        }
        Ok(header)
    }

    /// The length in bytes of a table whose parts have these sizes.
    pub fn needed(&self) -> u64 {
        self.sizes().iter().fold(self.size() as u64, |sum, &size| sum.saturating_add(size))
    }

    /// Size of the header in bytes.
    fn size(&self) -> usize {
        if self.version == VERSION { HEADER_SIZE } else { WHOLE_HEADER_SIZE }
    }

    /// The sizes of the parts in bytes, in their order.
    fn sizes(&self) -> [u64; 15] {
        let part = |count: u32, size: usize| u64::from(count) * size as u64;
        let whole = self.version != VERSION;
        let is = |condition: bool, size: u64| if condition { size } else { 0 };
        let WholeHeader { layout_bytes, personalities, handlers, lsda_bytes, continued } = self.whole;
        [
            part(self.regions, REGION_SIZE),
            part(self.rules, RULE_SIZE),
            part(self.long_rules, LONG_RULE_SIZE),
            part(self.pages, PAGE_SIZE) + PAGE_SIZE as u64,
            part(self.steps, self.step_width.into()),
            part(self.entries, START_SIZE),
            part(self.entries, self.place_width.into()),
            self.shape_bytes.into(),
            is(whole, part(self.rules, LAYOUT_NUMBER_SIZE)),
            layout_bytes.into(),
            part(personalities, PERSONALITY_SIZE),
            is(handlers > 0, part(self.pages, HANDLER_PAGE_SIZE)),
            is(handlers > 0, u64::from(self.entries).div_ceil(8)),
            lsda_bytes.into(),
            part(continued, CONTINUED_SIZE),
        ]
    }

    fn parts(&self) -> Parts {
        let mut at = self.size();
        let starts = self.sizes().map(|size| {
            let start = at;
            at = start.saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
            start
        });
        let [
            regions,
            rules,
            long_rules,
            pages,
            steps,
            starts,
            places,
            shapes,
            layout_numbers,
            layouts,
            personalities,
            handler_pages,
            handler_bits,
            lsdas,
            continued,
        ] = starts;
        Parts {
            regions,
            rules,
            long_rules,
            pages,
            steps,
            starts,
            places,
            shapes,
            layout_numbers,
            layouts,
            personalities,
            handler_pages,
            handler_bits,
            lsdas,
            continued,
            end: at,
        }
    }

    /// Appends the header's bytes.
    #[cfg(feature = "alloc")]
    fn write(&self, out: &mut alloc::vec::Vec<u8>) {
        out.extend(self.endian.u32_bytes(MAGIC));
        out.extend([self.version, self.abi as u8, self.step_width, self.place_width]);
        let words = [
            self.length,
            self.regions,
            self.rules,
            self.long_rules,
            self.pages,
            self.steps,
            self.entries,
            self.shape_bytes,
        ];
        words.iter().for_each(|&word| out.extend(self.endian.u32_bytes(word)));
        if self.version != VERSION {
            let WholeHeader { layout_bytes, personalities, handlers, lsda_bytes, continued } = self.whole;
            let words = [layout_bytes, personalities, handlers, lsda_bytes, continued, 0];
            words.iter().for_each(|&word| out.extend(self.endian.u32_bytes(word)));
        }
    }
}

/// A compact table with its bytes: a slice, a vector, a mapped file, or a shared pointer to one of these.
#[derive(Clone, Copy, Debug)]
pub struct CompactTable<D> {
    data: D,
    address: u64,
    header: Header,
    parts: Parts,
}

impl<D: Deref<Target = [u8]>> CompactTable<D> {
    /// Reads the header of a table that is loaded at `address`. It ignores the bytes after the table.
    ///
    /// # Errors
    /// Those of [`Header::read`].
    ///
    /// ```
    /// use sframe_format::compact::CompactTable;
    /// assert!(CompactTable::parse(b"not a table".as_slice(), 0x1000).is_err());
    /// ```
    pub fn parse(data: D, address: u64) -> Result<Self, Error> {
        let header = Header::read(&data)?;
        Ok(Self { data, address, header, parts: header.parts() })
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Where its parts are.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Address of the table's first byte.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The table's bytes.
    pub fn data(&self) -> &[u8] {
        self.data.get(..self.parts.end).unwrap_or_default()
    }

    fn view(&self) -> View<'_> {
        View { data: &self.data, address: self.address, header: &self.header, parts: &self.parts }
    }
}

/// A borrowed table, for the modules that read it.
#[derive(Clone, Copy)]
struct View<'data> {
    data: &'data [u8],
    address: u64,
    header: &'data Header,
    parts: &'data Parts,
}

impl View<'_> {
    #[inline]
    fn endian(&self) -> Endian {
        self.header.endian
    }

    #[inline]
    fn u16(&self, offset: usize) -> u16 {
        self.endian().read_u16(self.data, offset).unwrap_or(0)
    }

    #[inline]
    fn u32(&self, offset: usize) -> u32 {
        self.endian().read_u32(self.data, offset).unwrap_or(0)
    }

    /// The number of a page's first entry. For the page after the last one, the number of all entries.
    #[inline]
    fn first_entry(&self, page: u32) -> u32 {
        self.u32(self.parts.pages + page as usize * PAGE_SIZE)
    }

    /// Where an entry starts in its page.
    #[inline]
    fn start(&self, entry: u32) -> u16 {
        self.u16(self.parts.starts + entry as usize * START_SIZE)
    }

    /// Where the shape of an entry is, in bytes from the start of the table.
    #[inline]
    fn shape(&self, entry: u32) -> usize {
        let width = usize::from(self.header.place_width);
        let at = self.parts.places + entry as usize * width;
        let bytes = self.data.get(at..).and_then(|rest| rest.get(..width)).unwrap_or_default();
        let place = match self.endian() {
            Endian::Little => bytes.iter().rev().fold(0, |value, &byte| value << 8 | usize::from(byte)),
            Endian::Big => bytes.iter().fold(0, |value, &byte| value << 8 | usize::from(byte)),
        };
        self.parts.shapes.saturating_add(place)
    }
}

/// The error for bits without a meaning.
fn unused(offset: usize, what: &'static str) -> Error {
    Error::new(offset, ErrorKind::CompactUnused { what })
}

#[cfg(test)]
mod tests {
    use super::is_of_bolt;

    #[test]
    fn only_bolt_makes_sections_of_these_names() {
        for name in [".note.bolt_info", ".bolt.org.eh_frame", ".bolt.text"] {
            assert!(is_of_bolt(name.as_bytes()), "{name}");
        }
        for name in [".bolt.org.sframe_unwind", ".text", ".note.gnu.build-id", ".boltzmann", ""] {
            assert!(!is_of_bolt(name.as_bytes()), "{name}");
        }
    }
}
