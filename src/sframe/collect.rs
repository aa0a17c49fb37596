//! Collects functions from all sources for the linker's own SFrame section.
//!
//! Three options end in one blob: `--sframe-index`, `--sframe=merge` and `--sframe-from-eh-frame`. Their
//! sources of functions differ (SFrame inputs, `.eh_frame` records, the linker's PLTs), and this module is
//! what they share:
//!
//! ```text
//! SFrame inputs  --+
//! .eh_frame      --+--> batches --unite--> table of live functions, one for each place
//! PLTs (later)   --+
//! ```
//!
//! A source makes [`Batch`]es, with one part for each input section or file. It encodes every function at
//! once, because no byte of an encoded function depends on an address. A function's name is its [`Place`]: an
//! input section and an offset, which are known long before the layout. [`unite`] makes one [`Table`] of all
//! batches except that of the PLTs, which [`Table::take`] adds.
//!
//! # Adding a source
//! 1. Make batches in parallel, one for each job, in an order that depends on the inputs alone:
//!    [`Batch::new`], then [`Batch::begin`] for each section and [`Batch::add`] for each function. If the
//!    section of a function is certainly not in the output (its group lost), do not read the function, but
//!    count it with [`Batch::pass_over`]. Whether garbage collection keeps a section may not be known yet.
//! 2. Put the batches into [`Inputs::batches`] before `build_sframe` calls [`unite`]. If two batches describe
//!    a function at one place, the first batch wins. So derived functions that only fill gaps (`=missing`)
//!    must come after those of SFrame inputs.
//! 3. Choose their [`Role`]. Functions that reach the output by other means (SFrame inputs that are
//!    concatenated) are [`Role::Present`]: the table omits them, and others of the same place as well.
//!    Functions that derived ones replace (`=all`) are [`Role::Superseded`].
//!
//! [`Share::tally`] then counts the functions of each part by fate, for `--print-sframe`.

use super::encoding;
use crate::arch::Target;
use crate::diag::{Code, Diagnostic};
use crate::ids::{FileId, SectionId};
use crate::phase::{Resolved, SectionState, SectionStates};
use parallel::ParallelSort;
use serde::ser::{Serialize, SerializeMap, Serializer};
use sframe_format::compact::{ShapeId, Shapes};
use sframe_format::derive;
use sframe_format::write::{Encoder, Function, FunctionId, Inexpressible, Mark, Options, Reason, Taken};
use sframe_format::{Attributes, Blob, Fde};
use std::fmt;
use std::hash::Hash;

/// The place of a function: a section of an object or of the linker, and an offset in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// The section that holds the function.
    pub section: SectionId,
    /// Offset of its first byte in the section.
    pub offset: u64,
}

/// The fate of a batch's functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The table contains them if they are alive and the first of their place.
    Written,
    /// They reach the output by other means, and keep others of their place out of the table.
    Present,
    /// The table omits them, but they keep no others out.
    Superseded,
}

/// The source of a part of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// An SFrame section.
    Input(SectionId),
    /// The `.eh_frame` records of an object.
    EhFrame(FileId),
    /// The linker's own procedure linkage tables.
    Plt,
}

/// Numbers of functions of a batch, by fate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// In the table, or in the output by other means.
    pub taken: u64,
    /// Rows of these functions.
    pub rows: u64,
    /// Their section group lost to another.
    pub lost_group: u64,
    /// `--gc-sections` collected them.
    pub collected: u64,
    /// `--icf` folded them into equal ones.
    pub folded: u64,
    /// A script discards them.
    pub script: u64,
    /// Their place is unknown: an earlier `-r` link removed the relocation.
    pub unrelocated: u64,
    /// They are in no section of an object: they are undefined, absolute, or in a shared library.
    pub elsewhere: u64,
    /// They are in sections that are not executable. Readers reject a table with such a function.
    pub no_code: u64,
    /// They have no bytes.
    pub empty: u64,
    /// A function of the same place came first.
    pub duplicate: u64,
    /// The SFrame version of the output cannot express them.
    pub inexpressible: u64,
    /// `--sframe-from-eh-frame=all` replaces them.
    pub superseded: u64,
}

impl Tally {
    /// Adds the numbers of another tally.
    pub fn add(&mut self, other: &Tally) {
        self.taken += other.taken;
        self.rows += other.rows;
        self.lost_group += other.lost_group;
        self.collected += other.collected;
        self.folded += other.folded;
        self.script += other.script;
        self.unrelocated += other.unrelocated;
        self.elsewhere += other.elsewhere;
        self.no_code += other.no_code;
        self.empty += other.empty;
        self.duplicate += other.duplicate;
        self.inexpressible += other.inexpressible;
        self.superseded += other.superseded;
    }

    /// The numbers of functions that are not in the output, without zeros. Each comes with the key and the
    /// words for its reason.
    pub fn dropped(&self) -> impl Iterator<Item = (u64, &'static str, &'static str)> {
        [
            (self.lost_group, "lost_group", "of discarded groups"),
            (self.collected, "collected", "collected"),
            (self.folded, "folded", "folded into equal ones"),
            (self.script, "script", "discarded by the script"),
            (self.unrelocated, "unrelocated", "without a relocation"),
            (self.elsewhere, "elsewhere", "in no section of an object"),
            (self.no_code, "no_code", "outside of executable sections"),
            (self.empty, "empty", "without bytes"),
            (self.duplicate, "duplicate", "described before"),
            (self.inexpressible, "inexpressible", "that the version cannot express"),
            (self.superseded, "superseded", "derived from .eh_frame instead"),
        ]
        .into_iter()
        .filter(|part| part.0 > 0)
    }

    /// Counts a function whose section is not in the output.
    pub fn add_dead(&mut self, sections: &SectionStates, section: SectionId) {
        let has = |bits| sections.is(section, bits);
        if has(SectionState::FOLDED) {
            self.folded += 1;
        } else if has(SectionState::DISCARDED_BY_GROUP) {
            self.lost_group += 1;
        } else if has(SectionState::DISCARDED_BY_SCRIPT) {
            self.script += 1;
        } else {
            self.collected += 1;
        }
    }
}

/// The form of machine-readable reports. It omits zeros.
impl Serialize for Tally {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("functions", &self.taken)?;
        map.serialize_entry("rows", &self.rows)?;
        for (count, key, _) in self.dropped() {
            map.serialize_entry(key, &count)?;
        }
        map.end()
    }
}

/// A function of a batch or table. The encoder has its bytes under the same number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CollectedFunction {
    /// Where it is.
    pub place: Place,
    /// Size in bytes.
    pub size: u32,
    /// Number of its rows.
    pub rows: u32,
}

/// A function that cannot be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// Where the function is, or the part of it that cannot be written.
    pub place: Place,
    /// Where the function starts.
    pub function: Place,
    /// The cause.
    pub reason: Cause,
}

/// Why a function cannot be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The SFrame version cannot express it.
    Version(Inexpressible),
    /// No version can express its call frame information.
    CallFrame(derive::Reason),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Version(reason) => reason.fmt(f),
            Cause::CallFrame(reason) => reason.fmt(f),
        }
    }
}

/// The functions that one job found.
#[derive(Debug)]
pub struct Batch {
    /// The fate of its functions.
    pub role: Role,
    parts: Vec<Part>,
    /// The functions that can be written. Their numbers are the encoder's.
    functions: Vec<CollectedFunction>,
    /// The functions that cannot be written.
    left_out: Vec<LeftOut>,
    encoder: Encoder,
}

/// The part of a batch that comes from one section or file. Its functions start at `functions` and end where
/// those of the next part start.
#[derive(Debug)]
struct Part {
    origin: Origin,
    functions: usize,
    left_out: usize,
    mark: Mark,
    /// Functions that were counted but not read.
    passed_over: Tally,
}

/// A part of a batch with its functions.
#[derive(Clone, Copy, Debug)]
pub struct Share<'b> {
    /// Where its functions come from.
    pub origin: Origin,
    /// The functions that can be written. Their numbers are the encoder's.
    pub functions: &'b [CollectedFunction],
    /// The functions that cannot be written.
    pub left_out: &'b [LeftOut],
    role: Role,
    part: &'b Part,
}

impl Batch {
    /// Makes an empty batch.
    pub fn new(role: Role, options: Options) -> Self {
        Batch {
            role,
            parts: Vec::new(),
            functions: Vec::new(),
            left_out: Vec::new(),
            encoder: Encoder::for_batch(options),
        }
    }

    /// Makes room for so many more functions.
    pub fn reserve(&mut self, functions: usize) {
        self.functions.reserve(functions);
        if self.role == Role::Written {
            self.encoder.reserve(functions);
        }
    }

    /// Begins a part. Functions that are added from now on come from `origin`.
    pub fn begin(&mut self, origin: Origin) {
        self.parts.push(Part {
            origin,
            functions: self.functions.len(),
            left_out: self.left_out.len(),
            mark: self.encoder.mark(),
            passed_over: Tally::default(),
        });
    }

    /// Drops the part that was begun last.
    pub fn abandon(&mut self) {
        if let Some(part) = self.parts.pop() {
            self.functions.truncate(part.functions);
            self.left_out.truncate(part.left_out);
            self.encoder.rewind(part.mark);
        }
    }

    /// Whether there is no part.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The parts in their order.
    pub fn shares(&self) -> impl Iterator<Item = Share<'_>> {
        self.parts.iter().enumerate().map(|(number, part)| {
            let next = self.parts.get(number + 1);
            let functions = part.functions..next.map_or(self.functions.len(), |next| next.functions);
            let left_out = part.left_out..next.map_or(self.left_out.len(), |next| next.left_out);
            Share {
                origin: part.origin,
                functions: &self.functions[functions],
                left_out: &self.left_out[left_out],
                role: self.role,
                part,
            }
        })
    }

    /// Lists functions in the last part for reports only, because the table has them already.
    pub fn note(&mut self, functions: &[CollectedFunction]) {
        self.functions.extend_from_slice(functions);
    }

    /// The attributes and rows of a function, by its number among the functions of all parts. Functions for
    /// which they are equal unwind alike, even from different batches.
    pub fn unwinding(&self, function: u32) -> Option<impl Eq + Hash + use<'_>> {
        self.encoder.unwinding(FunctionId(function))
    }

    /// Adds a function. It only counts a function that has no bytes or that the SFrame version cannot
    /// express. In a batch that is not written, it lists functions without encoding them.
    ///
    /// # Errors
    /// Its rows are malformed.
    pub fn add(&mut self, place: Place, function: &Function) -> Result<(), Inexpressible> {
        if function.size == 0 {
            self.pass_over(|tally| tally.empty += 1);
            return Ok(());
        }
        let described = CollectedFunction { place, size: function.size, rows: function.rows.len() as u32 };
        if self.role != Role::Written {
            self.functions.push(described);
            return Ok(());
        }
        match self.encoder.add(function) {
            Ok(_) => {
                self.functions.push(described);
                Ok(())
            }
            Err(reason) => match reason.reason {
                Reason::RowOrder | Reason::RowOutside | Reason::RepeatSize => Err(reason),
                _ => {
                    self.leave_out(LeftOut { place, function: place, reason: Cause::Version(reason) });
                    Ok(())
                }
            },
        }
    }

    /// Copies an encoded function from a blob, if nothing in it has to change; see [`Encoder::copy`].
    pub fn copy(&mut self, place: Place, blob: &Blob<'_>, fde: &Fde, attributes: &Attributes) -> bool {
        if self.role != Role::Written || fde.size == 0 {
            return false;
        }
        let Some((_, rows)) = self.encoder.copy(blob, fde, attributes) else { return false };
        self.functions.push(CollectedFunction { place, size: fde.size, rows });
        true
    }

    /// Lists a function that cannot be written.
    pub fn leave_out(&mut self, function: LeftOut) {
        self.left_out.push(function);
    }

    /// Counts functions of the last part that nobody reads.
    pub fn pass_over(&mut self, count: impl FnOnce(&mut Tally)) {
        if let Some(part) = self.parts.last_mut() {
            count(&mut part.passed_over);
        }
    }
}

impl Share<'_> {
    /// Counts the functions by fate, after the linker has chosen functions. `batch` is the number of the
    /// share's batch.
    pub fn tally(&self, sections: &SectionStates, chosen: &Chosen, batch: usize) -> Tally {
        let mut tally = self.part.passed_over;
        let superseded = self.role == Role::Superseded;
        for function in self.functions {
            if superseded {
                tally.superseded += 1;
            } else if sections.is_in_output(function.place.section) {
                tally.taken += 1;
                tally.rows += u64::from(function.rows);
            } else {
                tally.add_dead(sections, function.place.section);
            }
        }
        for left_out in self.left_out {
            if superseded {
                tally.superseded += 1;
            } else if sections.is_in_output(left_out.place.section) {
                tally.inexpressible += 1;
            } else {
                tally.add_dead(sections, left_out.place.section);
            }
        }
        let duplicate = chosen.table.as_ref().map_or(0, |table| table.duplicates_in(batch, self));
        tally.duplicate += duplicate;
        tally.taken = tally.taken.saturating_sub(duplicate);
        tally
    }
}

/// An SFrame input that the linker does not recognise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The section.
    pub section: SectionId,
    /// Byte offset of the defect.
    pub offset: u64,
    /// Its version, if it is unknown.
    pub version: Option<u8>,
    /// The defect in words.
    pub what: String,
}

/// The functions of all inputs.
#[derive(Debug, Default)]
pub struct Inputs {
    /// By source, with SFrame inputs first, then in link order. No batch is empty.
    pub batches: Vec<Batch>,
    /// SFrame inputs that the table does not take, in link order.
    pub refused: Vec<Refused>,
}

/// The compact form of a [`Table`].
#[derive(Debug)]
pub struct Compact {
    /// Everything except addresses: the shapes that functions share.
    pub shapes: Shapes,
    /// The shape of each function of the table.
    pub shapes_of: Vec<ShapeId>,
    /// Number of entries of all functions in the pages.
    pub entries: u64,
}

/// The functions that the output describes.
#[derive(Debug, Default)]
pub struct Chosen {
    /// The batch of the linker's PLTs, if the output describes them.
    pub plts: Option<Batch>,
    /// The table. `None`: the linker makes no table.
    pub table: Option<Table>,
    /// Its compact form, if the link writes that.
    pub compact: Option<Compact>,
}

/// The functions of a table in output order.
#[derive(Debug, Default)]
pub struct Ordered {
    /// For each function, its address (under `-r`, its offset in its output section) and its number in the
    /// table.
    pub functions: Vec<(u64, FunctionId)>,
    /// Whether the order ascends by address. Under `-r`, all functions must be in one output section for
    /// that.
    pub sorted: bool,
}

/// The functions that the linker writes.
#[derive(Debug)]
pub struct Table {
    /// The bytes of the functions, by number in `functions`.
    pub encoder: Encoder,
    /// The functions by ascending place, one for each place. Those of thunks come last.
    pub functions: Vec<CollectedFunction>,
    /// Number of functions of inputs. Those of PLTs follow them.
    pub of_inputs: usize,
    /// Number of functions before the layout adds thunks. These get relocations.
    pub settled: usize,
    /// Number of the link's thunks that have been looked at so far.
    pub thunks: usize,
    /// Number of functions that are instructions moved away from an erratum.
    pub veneers: usize,
    /// Functions that the table omits because another one of the same place came first: pairs of a batch and
    /// a function in it, ascending.
    duplicates: Vec<(u32, u32)>,
}

impl Table {
    /// Number of functions in a batch's share that the table omits because others came first.
    fn duplicates_in(&self, batch: usize, share: &Share<'_>) -> u64 {
        let first = share.part.functions;
        let before = |function: usize| {
            self.duplicates.partition_point(|&(of, at)| (of as usize, at as usize) < (batch, function))
        };
        (before(first + share.functions.len()) - before(first)) as u64
    }

    /// The same functions without their ends: `limit` gives the new size of a section whose end is gone.
    ///
    /// # Errors
    /// A function cannot be read or written again.
    pub fn shortened(self, limit: &impl Fn(SectionId) -> Option<u64>) -> Result<Table, String> {
        let cut = |function: &CollectedFunction| {
            let room = limit(function.place.section)?.checked_sub(function.place.offset)?;
            u32::try_from(room).ok().filter(|&room| room > 0 && room < function.size)
        };
        if self.functions.iter().all(|function| cut(function).is_none()) {
            return Ok(self);
        }
        // Rows behind the new end go, so the function has to be encoded again.
        let mut rows = vec![0; self.encoder.size_with(0)];
        let malformed = |error: sframe_format::Error| error.to_string();
        self.encoder.write_relocatable(&[], false, &mut rows).map_err(malformed)?;
        let blob = Blob::parse(&rows, 0).map_err(malformed)?;
        let inexpressible = |error: Inexpressible| error.to_string();
        let (mut encoder, mut taken) = (Encoder::new(self.encoder.options()), Taken::default());
        let mut functions = self.functions.clone();
        for (function, id) in functions.iter_mut().zip((0..).map(FunctionId)) {
            match (cut(function), self.encoder.fde(id)) {
                (Some(size), Some(fde)) => {
                    let mut read = Function::read(&blob, &fde).map_err(malformed)?;
                    read.size = size;
                    read.rows.retain(|row| row.start < size);
                    encoder.add(&read).map_err(inexpressible)?;
                    (function.size, function.rows) = (size, read.rows.len() as u32);
                }
                _ => {
                    encoder.take(&self.encoder, id, &mut taken).map_err(inexpressible)?;
                }
            }
        }
        Ok(Table { encoder, functions, ..self })
    }

    /// Size of the section in bytes. 0 without functions, and the output then omits the section.
    pub fn size(&self) -> u64 {
        if self.functions.is_empty() { 0 } else { self.encoder.size() as u64 }
    }
}

/// A live function of a batch. The table takes candidates in ascending order: by place, then by batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    place: Place,
    batch: u32,
    function: u32,
}

/// Room in a table for the functions of PLTs, so that adding them does not copy the table.
const SPARE: usize = 64;

/// Makes one table of the live functions, one for each place. Liveness must be frozen.
pub fn unite<T: Target>(link: &Resolved<'_, T>, sections: &SectionStates, batches: &[Batch]) -> Table {
    let most = batches.iter().map(|batch| batch.functions.len()).sum::<usize>() + SPARE;
    let mut encoder = Encoder::new(encoding::<T>(link.config));
    encoder.reserve(most);
    let mut table = Table {
        encoder,
        functions: Vec::with_capacity(most),
        of_inputs: 0,
        settled: 0,
        thunks: 0,
        veneers: 0,
        duplicates: Vec::new(),
    };
    table.take(link, sections, 0, batches);
    table.of_inputs = table.settled;
    table
}

impl Table {
    /// Adds the functions of more batches; the first of these has the number `first`. All places must be
    /// greater than those in the table.
    pub fn take<T: Target>(
        &mut self,
        link: &Resolved<'_, T>,
        sections: &SectionStates,
        first: u32,
        batches: &[Batch],
    ) {
        let taken = if candidates(sections, batches).is_sorted() {
            // Objects of a compiler alone are in order. Testing that costs less than listing the candidates.
            self.take_ascending(first, batches, candidates(sections, batches))
        } else {
            let mut candidates: Vec<Candidate> = candidates(sections, batches).collect();
            candidates.par_sort_unstable();
            self.take_ascending(first, batches, candidates)
        };
        if let Err(full) = taken {
            link.sink.report(Diagnostic::error(Code::LayoutError, format!("SFrame index: {full}")));
        }
        self.settled = self.functions.len();
        self.duplicates.sort_unstable();
    }

    fn take_ascending(
        &mut self,
        first: u32,
        batches: &[Batch],
        candidates: impl IntoIterator<Item = Candidate>,
    ) -> Result<(), Inexpressible> {
        let mut last = None;
        let mut taken = vec![Taken::default(); batches.len()];
        for Candidate { place, batch: number, function } in candidates {
            let batch = &batches[number as usize];
            if last == Some(place) {
                self.duplicates.push((first + number, function));
                continue;
            }
            last = Some(place);
            if batch.role == Role::Present {
                continue;
            }
            self.encoder.take(&batch.encoder, FunctionId(function), &mut taken[number as usize])?;
            self.functions.push(batch.functions[function as usize]);
        }
        Ok(())
    }
}

/// The live functions of all batches that are not superseded, in the order of batches.
fn candidates(sections: &SectionStates, batches: &[Batch]) -> impl Iterator<Item = Candidate> {
    let batches = (0..).zip(batches).filter(|(_, batch)| batch.role != Role::Superseded);
    batches.flat_map(|(number, batch)| {
        let alive = (0..).zip(&batch.functions).filter(|(_, it)| sections.is_in_output(it.place.section));
        alive.map(move |(function, described)| Candidate { place: described.place, batch: number, function })
    })
}
