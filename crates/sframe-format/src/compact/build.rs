//! Writes compact tables.
//!
//! A linker must know the size of a section before it knows an address, so the writer works in two steps. A
//! [`Builder`] takes functions without their addresses; equal functions get the same [`ShapeId`].
//! [`Builder::finish`] makes everything that does not depend on addresses: all parts except the pages and the
//! regions. The address ranges of the code bound the number of these ([`Pages::of_ranges`]). In the second
//! step, [`Shapes::write`] joins addresses and shapes.

use alloc::vec;
use alloc::vec::Vec;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::entries::Entries;
use super::forms::Forms;
use super::intern::Lists;
use super::rule::long_bytes;
use super::shape::{COVERED_BITS, ENDS, FOUR_BYTES, GOES_ON, TWO_BYTES};
use super::{Header, LONG_RULE_SIZE, MAX_BYTES, MAX_ROWS, PAGE, VERSION, WholeHeader};
use crate::abi::Abi;
use crate::decoded::Decoded;
use crate::error::{Error, ErrorKind};
use crate::packed::Packed;
use crate::rules::UnwindRules;
use crate::write::{Function, Inexpressible, LeftOut, Reason};

pub use crate::write::Written;

/// The number of the rule "there is no row".
pub(super) const NO_ROW: u32 = 0;
/// Stands in the place of a run's number. The sizes of a repetition and of the whole entry follow.
const REPEATS: u32 = u32::MAX;
/// The largest number of entries that a table may have.
const MAX_ENTRIES: u64 = 1 << 28;
/// The largest number of steps that a table may have: numbers in shapes end here.
const MAX_STEPS: usize = 1 << 24;
/// The error for functions that [`Builder::finish`] refuses.
pub(super) const FULL: Error = Error { offset: 0, kind: ErrorKind::CompactFull { what: "different rows" } };

/// The number of a function in a [`Builder`]. Equal functions have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShapeId(pub u32);

/// The rules of a row, and in version 2 the number of their layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RowRules {
    pub rules: UnwindRules,
    pub layout: u32,
}

impl RowRules {
    /// Rules of version 1.
    pub fn plain(rules: UnwindRules) -> Self {
        Self { rules, layout: 0 }
    }
}

/// Collects functions for a compact table.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(super) abi: Abi,
    pub(super) version: u8,
    /// A row that covers more bytes than this ends its run, unless it is the last row.
    close: u32,
    pub(super) rules: Vec<RowRules>,
    pub(super) numbers: HashMap<RowRules, u32, FixedState>,
    /// Version 2: the layouts, a byte in each word, and the forms of rows.
    pub(super) layouts: Lists,
    pub(super) forms: Forms,
    pub(super) runs: Lists,
    /// Number of shapes that contain each run.
    uses: Vec<u32>,
    pub(super) shapes: Lists,
    /// By [`ShapeId`], four words for each piece: offset, shape, count and stride.
    pub(super) functions: Lists,
    /// The rows of the current function: start and number of the rule. `places` of forms, `run`, `shape` and
    /// `pieces` are parts of the current function, too.
    pub(super) rows: Vec<(u32, u32)>,
    pub(super) places: Vec<(u32, u32)>,
    pub(super) run: Vec<u32>,
    pub(super) shape: Vec<u32>,
    pub(super) pieces: Vec<u32>,
    /// For [`Builder::add_encoded`]: rows that were decoded before, and memory for a function.
    pub(super) decoded: Decoded,
    pub(super) function: Function,
}

impl Builder {
    /// A builder without functions, for a table of version 1.
    pub fn new(abi: Abi) -> Self {
        Self::of_version(abi, VERSION)
    }

    pub(super) fn of_version(abi: Abi, version: u8) -> Self {
        // These values give the smallest tables for system libraries.
        let close = match abi {
            Abi::Amd64 => 4,
            Abi::AArch64Big | Abi::AArch64Little => 12,
            Abi::S390x => 6,
        };
        Self {
            abi,
            version,
            close,
            rules: Vec::new(),
            numbers: HashMap::default(),
            layouts: Lists::default(),
            forms: Forms::default(),
            runs: Lists::default(),
            uses: Vec::new(),
            shapes: Lists::default(),
            functions: Lists::default(),
            rows: Vec::new(),
            places: Vec::new(),
            run: Vec::new(),
            shape: Vec::new(),
            pieces: Vec::new(),
            decoded: Decoded::default(),
            function: Function::default(),
        }
    }

    /// Makes room for so many more functions.
    pub fn reserve(&mut self, functions: usize) {
        // The usual numbers of words: a function is one piece, and that has three or four runs.
        self.functions.reserve(functions, 4);
        self.shapes.reserve(functions, 8);
        self.runs.reserve(functions / 2, 2);
    }

    /// Adds a function. If it has no rows, its bytes are covered, but look-ups in it find no row.
    ///
    /// # Errors
    /// The function has no bytes, its rows do not ascend, or its repetition has no bytes or more than
    /// [`MAX_ROWS`] rows. Nothing is added then.
    pub fn add(&mut self, function: &Function) -> Result<ShapeId, Inexpressible> {
        let refuse = |reason| Inexpressible { row: None, reason };
        if function.size == 0 {
            return Err(refuse(Reason::RowOutside));
        }
        if let Some(pair) = function.rows.windows(2).find(|pair| pair[0].start >= pair[1].start) {
            return Err(Inexpressible { row: Some(pair[1].start), reason: Reason::RowOrder });
        }
        let repeat = function.repeat_size.map(u32::from);
        if repeat == Some(0) {
            return Err(refuse(Reason::RepeatSize));
        }
        let end = repeat.map_or(function.size, |repeat| repeat.min(function.size));
        self.read_rows(function, end);
        self.pieces.clear();
        match repeat {
            Some(repeat) if self.rows.len() > 1 && repeat < function.size => {
                if self.rows.len() > MAX_ROWS {
                    return Err(refuse(Reason::TooManyRows { count: self.rows.len() }));
                }
                self.add_repeating(repeat, function.size);
            }
            // The function does not repeat, or one row holds in all repetitions.
            _ => self.add_pieces(function.size),
        }
        Ok(self.take())
    }

    /// Adds the function that [`Builder::pieces`] describes.
    pub(super) fn take(&mut self) -> ShapeId {
        ShapeId(self.functions.intern(&self.pieces).0)
    }

    /// Numbers the rules of the rows that start before `end`. Neighbours with the same rules become one row.
    fn read_rows(&mut self, function: &Function, end: u32) {
        self.rows.clear();
        if function.rows.first().is_none_or(|row| row.start > 0) {
            self.rows.push((0, NO_ROW));
        }
        for row in function.rows.iter().take_while(|row| row.start < end) {
            let rules = UnwindRules { abi: self.abi, signal: function.signal, rules: row.rules };
            let number = number(&mut self.rules, &mut self.numbers, RowRules::plain(rules));
            if self.rows.last().is_none_or(|&(_, last)| last != number) {
                self.rows.push((row.start, number));
            }
        }
    }

    fn add_repeating(&mut self, repeat: u32, size: u32) {
        let stride = MAX_BYTES / repeat * repeat;
        let (full, rest) = (size / stride, size % stride);
        for (offset, count, whole) in [(0, full, stride), (full * stride, rest.min(1), rest)] {
            if count > 0 {
                let rows = 0..self.rows.len();
                self.add_piece(rows, 0, repeat, Some((repeat, whole)), (offset, count, stride));
            }
        }
    }

    /// Splits a function into pieces that an entry can hold.
    pub(super) fn add_pieces(&mut self, size: u32) {
        let (mut first, mut start) = (0, 0);
        while first < self.rows.len() {
            let fits = |row: &usize| self.end_of(*row, size) - start <= MAX_BYTES;
            let count = (first..self.rows.len()).take(MAX_ROWS).take_while(fits).count();
            if count > 0 {
                let (rows, end) = (first..first + count, self.end_of(first + count - 1, size));
                self.add_piece(rows, start, end, None, (start, 1, 0));
                (first, start) = (first + count, end);
                continue;
            }
            let row_end = self.end_of(first, size);
            let full = (row_end - start) / MAX_BYTES;
            let end = start + MAX_BYTES;
            self.add_piece(first..first + 1, start, end, None, (start, full, MAX_BYTES));
            start += full * MAX_BYTES;
            if start == row_end {
                first += 1;
            }
        }
    }

    /// Where a row ends, in a function of `size` bytes.
    fn end_of(&self, row: usize, size: u32) -> u32 {
        self.rows.get(row + 1).map_or(size, |next| next.0)
    }

    /// Adds equal pieces with the rows `rows` from `start` to `end`. `repeat` are the sizes of a repetition
    /// and of the whole piece. The last argument is the offset of the first piece, the number of pieces, and
    /// the distance from one piece to the next.
    fn add_piece(
        &mut self,
        rows: core::ops::Range<usize>,
        start: u32,
        end: u32,
        repeat: Option<(u32, u32)>,
        (offset, count, stride): (u32, u32, u32),
    ) {
        self.shape.clear();
        self.run.clear();
        if let Some((repeat, whole)) = repeat {
            self.shape.extend([REPEATS, repeat, whole]);
        }
        for row in rows.clone() {
            let (row_start, rule) = self.rows[row];
            let last = row + 1 == rows.end;
            let row_end = if last { end } else { self.rows[row + 1].0 };
            let covered = row_end - row_start.max(start);
            let how = match last {
                true => ENDS,
                false if covered <= self.close => covered,
                false => GOES_ON,
            };
            self.run.push(rule << COVERED_BITS | how);
            if matches!(how, ENDS | GOES_ON) {
                let run = self.take_run();
                self.shape.extend([run, covered]);
                self.run.clear();
            }
        }
        let shape = self.take_shape();
        self.pieces.extend([offset, shape, count, stride]);
    }

    /// Adds all functions of another builder, so that several threads can read functions. Each function gets
    /// the number that it would get if it were added here on its own. Returns the new numbers, by the numbers
    /// in the other builder.
    pub fn append(&mut self, other: &Self) -> Vec<ShapeId> {
        let layout_of: Vec<u32> = other.layouts.iter().map(|layout| self.layouts.intern(layout).0).collect();
        let (rules, numbers) = (&mut self.rules, &mut self.numbers);
        let mut rule_of = vec![NO_ROW];
        rule_of.extend(other.rules.iter().map(|&RowRules { rules: found, layout }| {
            let layout = layout_of.get(layout as usize).copied().unwrap_or(0);
            number(rules, numbers, RowRules { rules: found, layout })
        }));
        let mut run_of = Vec::with_capacity(other.runs.len());
        for run in other.runs.iter() {
            let step = |&step: &u32| rule_of[(step >> COVERED_BITS) as usize] << COVERED_BITS | step & ENDS;
            self.run.clear();
            self.run.extend(run.iter().map(step));
            run_of.push(self.take_run());
        }
        let mut shape_of = Vec::with_capacity(other.shapes.len());
        for shape in other.shapes.iter() {
            self.shape.clear();
            self.shape.extend_from_slice(&shape[..shape.len() - pairs_of(shape).len()]);
            for pair in pairs_of(shape).chunks_exact(2) {
                self.shape.extend([run_of[pair[0] as usize], pair[1]]);
            }
            shape_of.push(self.take_shape());
        }
        let mut functions = Vec::with_capacity(other.functions.len());
        for pieces in other.functions.iter() {
            self.pieces.clear();
            for piece in pieces.chunks_exact(4) {
                self.pieces.extend([piece[0], shape_of[piece[1] as usize], piece[2], piece[3]]);
            }
            functions.push(self.take());
        }
        functions
    }

    /// The number of the run in `self.run`.
    pub(super) fn take_run(&mut self) -> u32 {
        let (run, is_new) = self.runs.intern(&self.run);
        if is_new {
            self.uses.push(0);
        }
        run
    }

    /// The number of the shape in `self.shape`.
    pub(super) fn take_shape(&mut self) -> u32 {
        let (shape, is_new) = self.shapes.intern(&self.shape);
        if is_new {
            for &run in runs_of(&self.shape) {
                self.uses[run as usize] += 1;
            }
        }
        shape
    }

    /// Makes everything that does not depend on addresses.
    ///
    /// # Errors
    /// [`Reason::SectionFull`]: there are more steps, rules or bytes of shapes than a table can hold.
    pub fn finish(self) -> Result<Shapes, Inexpressible> {
        let full = Inexpressible { row: None, reason: Reason::SectionFull };
        let (steps, starts) = place_runs(&self.runs, &self.uses);
        if steps.len() > MAX_STEPS || self.rules.len() >= 1 << 28 {
            return Err(full);
        }
        let (mut bytes, mut places) = (Vec::new(), Vec::with_capacity(self.shapes.len()));
        for shape in self.shapes.iter() {
            places.push(u32::try_from(bytes.len()).map_err(|_| full)?);
            if let [REPEATS, repeat, whole, ..] = *shape {
                [0, repeat, whole].into_iter().for_each(|number| put_number(&mut bytes, number));
            }
            for pair in pairs_of(shape).chunks_exact(2) {
                put_number(&mut bytes, starts[pair[0] as usize]);
                put_number(&mut bytes, pair[1]);
            }
        }
        let endian = if self.version == VERSION { self.abi.endian() } else { crate::Endian::Little };
        let (rules, long_rules) = rule_words(endian, &self.rules);
        let (layout_numbers, layouts) = match self.version {
            VERSION => (Vec::new(), Vec::new()),
            _ => {
                let of_rules = self.rules.iter().map(|rule| rule.layout);
                super::layout::place(self.layouts.iter(), of_rules).ok_or(full)?
            }
        };
        let counts = self
            .functions
            .iter()
            .map(|function| function.chunks_exact(4).map(|piece| u64::from(piece[2])).sum());
        Ok(Shapes {
            abi: self.abi,
            version: self.version,
            endian,
            layout_numbers,
            layouts,
            step_width: if self.rules.len() < 1 << (16 - COVERED_BITS) { 2 } else { 4 },
            place_width: match bytes.len() {
                0..=0xffff => 2,
                0x1_0000..=0xff_ffff => 3,
                _ => 4,
            },
            shape_bytes: u32::try_from(bytes.len()).map_err(|_| full)?,
            counts: counts.collect(),
            rules,
            long_rules,
            steps,
            bytes,
            places,
            functions: self.functions,
        })
    }
}

/// The number of these rules, from 1 on: [`NO_ROW`] is 0. New rules are appended.
pub(super) fn number(
    rules: &mut Vec<RowRules>,
    numbers: &mut HashMap<RowRules, u32, FixedState>,
    found: RowRules,
) -> u32 {
    let next = rules.len() as u32 + 1;
    let number = *numbers.entry(found).or_insert(next);
    if number == next {
        rules.push(found);
    }
    number
}

/// The pairs of a shape (number of a run, bytes of its last row), without the sizes of its repetition.
pub(super) fn pairs_of(shape: &[u32]) -> &[u32] {
    if shape.first() == Some(&REPEATS) { &shape[3..] } else { shape }
}

pub(super) fn runs_of(shape: &[u32]) -> impl Iterator<Item = &u32> {
    pairs_of(shape).iter().step_by(2)
}

/// Places the runs. Returns all steps, and the number of each run's first step.
///
/// Shapes refer to runs by these numbers, and small numbers take fewer bytes. So the runs that most shapes
/// contain come first, up to the last number of one byte. The others follow by length, the longest first,
/// because a run that is the end of another run shares the steps of that run. No run starts at step 0: a 0 in
/// the place of a run's number means that the shape repeats.
fn place_runs(runs: &Lists, uses: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let mut order: Vec<u32> = (0..runs.len() as u32).collect();
    order.sort_by_key(|&run| (core::cmp::Reverse(uses[run as usize]), run));
    let mut steps = vec![0];
    let mut starts = vec![0; runs.len()];
    let mut known: HashMap<&[u32], u32, FixedState> = HashMap::default();
    let mut place = |run: u32, steps: &mut Vec<u32>| {
        let words = runs.get(run);
        let start = steps.len() as u32;
        starts[run as usize] = *known.entry(words).or_insert(start);
        if starts[run as usize] != start {
            return;
        }
        steps.extend_from_slice(words);
        for skipped in 1..words.len() {
            known.entry(&words[skipped..]).or_insert(start + skipped as u32);
        }
    };
    let mut rest = order.iter().copied();
    while steps.len() < TWO_BYTES as usize
        && let Some(run) = rest.next()
    {
        place(run, &mut steps);
    }
    let mut rest: Vec<u32> = rest.collect();
    rest.sort_by_key(|&run| core::cmp::Reverse(runs.get(run).len()));
    rest.into_iter().for_each(|run| place(run, &mut steps));
    (steps, starts)
}

/// The words of all rules, with [`NO_ROW`] first, and the bytes of the rules that do not fit a word.
fn rule_words(endian: crate::Endian, rules: &[RowRules]) -> (Vec<u64>, Vec<[u8; LONG_RULE_SIZE]>) {
    let mut long = Vec::new();
    let mut words = vec![Packed::NO_ROW.to_word()];
    words.extend(rules.iter().map(|RowRules { rules, .. }| {
        let packed = Packed::new(rules).unwrap_or_else(|| {
            long.push(long_bytes(endian, rules));
            Packed::kept(long.len() - 1)
        });
        packed.to_word()
    }));
    (words, long)
}

fn put_number(bytes: &mut Vec<u8>, number: u32) {
    match number {
        0..TWO_BYTES => bytes.push(number as u8),
        TWO_BYTES..FOUR_BYTES => {
            let above = number - TWO_BYTES;
            bytes.extend([(TWO_BYTES + (above >> 8)) as u8, above as u8]);
        }
        _ => {
            let [_, rest @ ..] = number.to_be_bytes();
            bytes.push(0xff);
            bytes.extend(rest);
        }
    }
}

/// How many regions and pages a table may need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// Number of regions.
    pub regions: u32,
    /// Number of pages.
    pub pages: u32,
}

impl Pages {
    /// Regions and pages that are enough for functions in these address ranges.
    pub fn of_ranges(ranges: impl IntoIterator<Item = core::ops::Range<u64>>) -> Self {
        let mut sum = Self::default();
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            let pages = (range.end - range.start).div_ceil(PAGE);
            sum.regions = sum.regions.saturating_add(1);
            sum.pages = sum.pages.saturating_add(u32::try_from(pages).unwrap_or(u32::MAX));
        }
        sum
    }
}

/// A table without its addresses.
#[derive(Clone, Debug)]
pub struct Shapes {
    abi: Abi,
    version: u8,
    endian: crate::Endian,
    /// Version 2: the place of each rule's layout, and the layouts.
    pub(super) layout_numbers: Vec<u16>,
    pub(super) layouts: Vec<u8>,
    step_width: u8,
    place_width: u8,
    rules: Vec<u64>,
    long_rules: Vec<[u8; LONG_RULE_SIZE]>,
    steps: Vec<u32>,
    bytes: Vec<u8>,
    shape_bytes: u32,
    /// Offset of each shape in `bytes`.
    places: Vec<u32>,
    functions: Lists,
    /// By [`ShapeId`], the number of entries of a function.
    counts: Vec<u64>,
}

impl Shapes {
    /// Number of entries of a function.
    pub fn entries(&self, function: ShapeId) -> u64 {
        self.counts.get(function.0 as usize).copied().unwrap_or(0)
    }

    /// Size in bytes of a table with this many regions, pages and entries.
    pub fn size(&self, pages: Pages, entries: u64) -> u64 {
        let entries = u32::try_from(entries).unwrap_or(u32::MAX);
        self.header(pages, entries, WholeHeader::default()).needed()
    }

    pub(super) fn header(&self, pages: Pages, entries: u32, whole: WholeHeader) -> Header {
        let whole = WholeHeader { layout_bytes: self.layouts.len() as u32, ..whole };
        Header {
            version: self.version,
            abi: self.abi,
            endian: self.endian,
            whole,
            step_width: self.step_width,
            place_width: self.place_width,
            length: 0,
            regions: pages.regions,
            rules: self.rules.len() as u32,
            long_rules: self.long_rules.len() as u32,
            pages: pages.pages,
            steps: self.steps.len() as u32,
            entries,
            shape_bytes: self.shape_bytes,
        }
    }

    /// The table of functions at these addresses, which must ascend, for a section at `address`.
    ///
    /// # Errors
    /// [`ErrorKind::CompactOrder`]: addresses do not ascend strictly. [`ErrorKind::CompactNumber`]: a number
    /// was not handed out. [`ErrorKind::CompactFull`]: there are too many entries.
    /// [`ErrorKind::CompactLength`]: the table would have 4 GiB or more.
    pub fn to_bytes(&self, address: u64, functions: &[(u64, ShapeId)]) -> Result<Vec<u8>, Error> {
        let entries = self.entries_at(functions, |_, _, _| {})?;
        let header = self.header_of(&entries, WholeHeader::default())?;
        let mut bytes = Vec::with_capacity(header.length as usize);
        self.write_common(&header, address, &entries, &mut bytes);
        debug_assert_eq!(bytes.len() as u64, header.needed());
        Ok(bytes)
    }

    /// The header of a table with these entries. Of `whole`, the bytes of layouts are known here.
    pub(super) fn header_of(&self, entries: &Entries, whole: WholeHeader) -> Result<Header, Error> {
        let pages = Pages { regions: entries.regions.len() as u32, pages: entries.pages.len() as u32 };
        let mut header = self.header(pages, entries.starts.len() as u32, whole);
        let needed = header.needed();
        header.length = u32::try_from(needed)
            .map_err(|_| Error::new(0, ErrorKind::CompactLength { header: u32::MAX, needed }))?;
        Ok(header)
    }

    /// Appends the parts that both versions have.
    pub(super) fn write_common(&self, header: &Header, address: u64, entries: &Entries, bytes: &mut Vec<u8>) {
        let endian = self.endian;
        header.write(bytes);
        let ends = entries.regions.iter().skip(1).map(|region| region.1).chain([header.pages]);
        for (&(start, first), end) in entries.regions.iter().zip(ends) {
            bytes.extend(endian.i64_bytes(start.wrapping_sub(address) as i64));
            bytes.extend(endian.u32_bytes(end - first));
            bytes.extend(endian.u32_bytes(first));
        }
        self.rules.iter().for_each(|&word| bytes.extend(endian.i64_bytes(word as i64)));
        self.long_rules.iter().for_each(|rule| bytes.extend(rule));
        for first in entries.pages.iter().copied().chain([header.entries]) {
            bytes.extend(endian.u32_bytes(first));
        }
        for &step in &self.steps {
            match self.step_width {
                2 => bytes.extend(endian.u16_bytes(step as u16)),
                _ => bytes.extend(endian.u32_bytes(step)),
            }
        }
        entries.starts.iter().for_each(|&start| bytes.extend(endian.u16_bytes(start)));
        let width = usize::from(self.place_width);
        let start = bytes.len();
        bytes.resize(start + width * entries.places.len(), 0);
        for (room, place) in bytes[start..].chunks_exact_mut(width).zip(&entries.places) {
            match endian {
                crate::Endian::Little => room.copy_from_slice(&place.to_le_bytes()[..width]),
                crate::Endian::Big => room.copy_from_slice(&place.to_be_bytes()[4 - width..]),
            }
        }
        bytes.extend(&self.bytes);
    }

    /// Writes [`Shapes::to_bytes`] to the start of `out`, and zeros after it. Returns the length of the
    /// table.
    ///
    /// # Errors
    /// Those of [`Shapes::to_bytes`], or `out` is too small.
    pub fn write(&self, address: u64, functions: &[(u64, ShapeId)], out: &mut [u8]) -> Result<usize, Error> {
        let bytes = self.to_bytes(address, functions)?;
        let available = out.len() as u64;
        let Some((table, rest)) = out.split_at_mut_checked(bytes.len()) else {
            let kind = ErrorKind::Truncated { what: "output", needed: bytes.len() as u64, available };
            return Err(Error::new(0, kind));
        };
        table.copy_from_slice(&bytes);
        rest.fill(0);
        Ok(bytes.len())
    }

    /// The entries of functions. `note` learns the place of the function, the number of the entry, and
    /// whether the entry continues the function.
    pub(super) fn entries_at(
        &self,
        functions: &[(u64, ShapeId)],
        mut note: impl FnMut(usize, u32, bool),
    ) -> Result<Entries, Error> {
        let full = Error::new(0, ErrorKind::CompactFull { what: "entries" });
        let mut entries = Entries {
            starts: Vec::with_capacity(functions.len()),
            places: Vec::with_capacity(functions.len()),
            ..Entries::default()
        };
        let mut left = MAX_ENTRIES;
        for (place, &(address, function)) in functions.iter().enumerate() {
            // If functions overlap, the later one counts.
            let end = functions.get(place + 1).map(|next| next.0);
            if end.is_some_and(|end| end <= address) {
                return Err(Error::new(0, ErrorKind::CompactOrder { what: "functions" }));
            }
            if function.0 as usize >= self.functions.len() {
                let kind = ErrorKind::CompactNumber { what: "function", found: function.0 };
                return Err(Error::new(0, kind));
            }
            for piece in self.functions.get(function.0).chunks_exact(4) {
                let (offset, shape, count, stride) = (piece[0], piece[1], piece[2], piece[3]);
                for repetition in 0..u64::from(count) {
                    let ahead = u64::from(offset) + repetition * u64::from(stride);
                    // No byte exists beyond the last address.
                    let Some(start) = address.checked_add(ahead) else { break };
                    if end.is_some_and(|end| start >= end) {
                        break;
                    }
                    left = left.checked_sub(1).ok_or(full)?;
                    note(place, entries.starts.len() as u32, ahead > 0);
                    entries.push(start, self.places[shape as usize]);
                }
            }
        }
        Ok(entries)
    }
}

/// Writes functions, given by address, as one table for a section at `address`. It omits empty functions. If
/// several functions start at one address, it writes the largest.
///
/// # Errors
/// The table would be larger than the format allows.
pub fn write_table(abi: Abi, address: u64, functions: &[(u64, Function)]) -> Result<Written, Error> {
    let mut builder = Builder::new(abi);
    let mut left_out = Vec::new();
    let mut order: Vec<usize> = (0..functions.len()).collect();
    order.sort_by_key(|&place| (functions[place].0, core::cmp::Reverse(functions[place].1.size), place));
    let mut placed: Vec<(u64, ShapeId)> = Vec::with_capacity(order.len());
    for place in order {
        let (start, function) = &functions[place];
        if function.size == 0 {
            left_out.push((place, LeftOut::Empty));
        } else if placed.last().is_some_and(|last| last.0 == *start) {
            left_out.push((place, LeftOut::Duplicate));
        } else {
            match builder.add(function) {
                Ok(shape) => placed.push((*start, shape)),
                Err(reason) => left_out.push((place, LeftOut::Inexpressible(reason))),
            }
        }
    }
    left_out.sort_by_key(|&(place, _)| place);
    let bytes = builder.finish().map_err(|_| FULL)?.to_bytes(address, &placed)?;
    Ok(Written { bytes, left_out })
}
