//! Compares SFrame with call frame information, program counter by program counter.
//!
//! Both describe the same code, in different forms and with different boundaries between rows. This module
//! cuts a function where either side changes:
//!
//! ```text
//! .eh_frame:   │ CFA = rsp+8 │ CFA = rsp+16       │ CFA = rbp+16 │
//! SFrame:      │ rsp+8       │ rsp+16 │ rbp+16                   │
//! stretches:   │ 1           │ 2      │ 3         │ 4            │
//! ```
//!
//! In each stretch, both rules are evaluated on a made-up machine, and must give the same values; here
//! stretch 3 is wrong. Code that only one side describes is counted, not compared. changes. Code that only
//! one side describes is counted.

use super::cfi::{CallFrames, CfiFunction, CfiRow};
use super::explain::{self, DifferenceKind, Gap};
use super::machine::{Failure, Machine, Values};
use super::overlap::{Covered, Overlaps};
use crate::open::{Input, Kind, Target};
use gimli::{StoreOnHeap, UnwindContext};
use serde::Serialize;
use sframe_format::compact::Piece;
use sframe_format::{Abi, Blob, CompactTable, Fde, PauthKey, PcType, Rules, Version};
use std::collections::BTreeMap;
use std::ops::Range;

/// A range of addresses for which SFrame is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The kind of error.
    pub kind: DifferenceKind,
    /// The addresses.
    pub range: Range<u64>,
    /// The rule in the call frame information.
    pub expected: String,
    /// The rule in SFrame.
    pub found: String,
    /// The number of the SFrame section in the file.
    pub section: usize,
    /// The offset of the FDE in that section.
    pub fde: usize,
}

/// Functions and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Number of functions.
    pub functions: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl Count {
    /// Adds one function.
    pub fn add(&mut self, bytes: u64) {
        self.functions += 1;
        self.bytes += bytes;
    }

    /// Adds another count.
    pub fn append(&mut self, other: Self) {
        self.functions += other.functions;
        self.bytes += other.bytes;
    }
}

/// The outcome of a comparison.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Functions of `.eh_frame`.
    pub cfi: Count,
    /// Functions of `.eh_frame` that SFrame covers completely.
    pub covered: Count,
    /// Functions that SFrame leaves out completely or in part, with the number of bytes that it leaves out.
    pub uncovered: BTreeMap<Gap, Count>,
    /// SFrame functions that `.eh_frame` does not describe completely, with the number of bytes that it
    /// leaves out.
    pub extra: Count,
    /// Functions with a symbol that neither side covers.
    pub unknown: Count,
    /// Functions that have differences.
    pub wrong: Count,
    /// Functions of `.eh_frame` that were not compared to their end, because more functions share addresses
    /// than compilers produce.
    pub not_compared: Count,
    /// Number of compared stretches.
    pub stretches: u64,
    /// Signal frames whose mark was lost, because V1 and V2 have none.
    pub lost_signals: u64,
    /// SFrame functions of relocatable objects that have no relocation to a section of the object.
    pub unresolved: u64,
    /// All differences, sorted by kind and address.
    pub differences: Vec<Difference>,
    /// FDEs of `.eh_frame` that could not be read: offset and reason.
    pub unreadable: Vec<(usize, String)>,
    /// Number of FDEs that were not compared, because `.eh_frame_hdr` lists others of the same code.
    pub replaced: u64,
}

/// An SFrame function, or an entry of a compact table.
struct Function<'a> {
    range: Range<u64>,
    section: usize,
    source: Source<'a>,
}

/// Where the rows of a function are. Each kind of table is read in the way its users read it.
enum Source<'a> {
    SFrame(Blob<'a>, Fde),
    Compact(Piece<'a>),
}

impl Function<'_> {
    /// Offset of the function in its section.
    fn offset(&self) -> usize {
        match &self.source {
            Source::SFrame(_, fde) => fde.offset,
            Source::Compact(piece) => piece.shape_offset(),
        }
    }

    /// The SFrame version that bounds what the table can say. A compact table can say all that V3 can say.
    fn version(&self) -> Version {
        match &self.source {
            Source::SFrame(blob, _) => blob.header().version,
            Source::Compact(_) => Version::V3,
        }
    }

    /// Whether it is marked as a signal frame, and whether it has key B; `None` for a key that the table does
    /// not keep. A malformed function has no marks.
    fn marks(&self) -> Option<(bool, Option<bool>)> {
        match &self.source {
            Source::SFrame(blob, fde) => {
                let attributes = blob.attributes(fde).ok()?;
                Some((attributes.signal, Some(attributes.pauth_key == PauthKey::B)))
            }
            Source::Compact(piece) => {
                let mut rules = piece.rows().map_while(Result::ok).filter_map(|row| row.rules);
                Some((rules.any(|rules| rules.signal), None))
            }
        }
    }

    /// Adds its rows, but at most `most`: for each row its first byte, the byte after it if something other
    /// than the next row ends it, and its rules. Returns the number of bytes after which the rows repeat.
    fn rows(&self, most: usize, rows: &mut Vec<(u32, Option<u32>, Rules)>) -> Option<u64> {
        match &self.source {
            Source::SFrame(blob, fde) => {
                let attributes = blob.attributes(fde).ok()?;
                let found = blob.rows(&attributes).take(most).map_while(Result::ok);
                rows.extend(found.map(|row| (row.start, None, row.rules)));
                if attributes.fre_count == 0 {
                    rows.extend(blob.rules_without_rows(&attributes).map(|rules| (0, None, rules)));
                }
                let masked = attributes.pc_type == PcType::Mask;
                Some(if masked { attributes.repeat_size.into() } else { fde.size.into() })
            }
            Source::Compact(piece) => {
                let found = piece.rows().take(most).map_while(Result::ok);
                rows.extend(found.filter_map(|row| {
                    let end = row.start.saturating_add(row.size);
                    Some((row.start, Some(end), row.rules?.rules))
                }));
                piece.repeat_size().or(piece.size().ok()).map(u64::from)
            }
        }
    }
}

/// Seeds of the machines on which rules are compared.
const SEEDS: [u64; 2] = [0x5f72_616d_6531, 0x2e65_685f_6672];

/// Compares every SFrame section of a file with all of its `.eh_frame`. `version` applies if the file has no
/// blob.
pub fn compare(abi: Abi, version: Version, input: &Input<'_>) -> Comparison {
    let mut result = Comparison::default();
    let tables: Vec<(usize, CompactTable<&[u8]>)> = tables(input).collect();
    let mut functions = functions(input, &mut result);
    tables.iter().for_each(|(section, table)| entries(*section, table, &mut functions));
    functions.sort_by_key(|function| (function.range.start, function.section, function.offset()));
    let overlaps = Overlaps::new(functions.iter().map(|function| function.range.clone()));
    let version = functions.iter().map(Function::version).min().unwrap_or(version);
    let mut described: Vec<Range<u64>> = Vec::new();
    let mut left = most_steps(input);
    for section in &input.eh_frame {
        let prepared = super::cfi::Prepared::new(abi, &section.data);
        let frames = CallFrames::read(abi, &prepared, section.address, input.eh_frame_header());
        let unreadable = frames.unreadable.iter().map(|(offset, error)| (*offset, error.to_string()));
        result.unreadable.extend(unreadable);
        result.replaced += frames.replaced;
        let mut comparer = Comparer {
            abi,
            frames: &frames,
            version,
            result: &mut result,
            context: UnwindContext::new(),
            rows: Vec::new(),
            stretches: Vec::new(),
            left,
        };
        for cfi in &frames.functions {
            // Handmade call frame information may point anywhere; only code matters here.
            if !inside(&input.text, &cfi.range) {
                continue;
            }
            described.push(cfi.range.clone());
            comparer.function(cfi, overlaps.with(cfi.range.clone()).map(|number| &functions[number]));
        }
        left = comparer.left;
    }
    let described = Covered::new(described);
    for function in &functions {
        let bytes = described.missing(&function.range);
        if bytes > 0 {
            result.extra.add(bytes);
        }
    }
    let mut described = described.into_ranges();
    described.extend(functions.iter().map(|function| function.range.clone()));
    count_unknown(input, &Covered::new(described), &mut result.unknown);
    result
        .differences
        .sort_by_key(|found| (found.kind, found.range.start, found.range.end, found.section, found.fde));
    result
}

/// Counts functions of the symbol table that neither side describes with a single byte. Several symbols at
/// one address are one function.
fn count_unknown(input: &Input<'_>, described: &Covered, unknown: &mut Count) {
    let mut last = None;
    for symbol in input.places.symbols().iter().filter(|symbol| symbol.function && symbol.size > 0) {
        let range = symbol.address..symbol.address.saturating_add(symbol.size);
        let bare = inside(&input.text, &range) && described.missing(&range) == symbol.size;
        if bare && last.replace(symbol.address) != Some(symbol.address) {
            unknown.add(symbol.size);
        }
    }
}

/// The SFrame functions that have bytes and an address.
fn functions<'a>(input: &'a Input<'_>, result: &mut Comparison) -> Vec<Function<'a>> {
    let mut functions = Vec::new();
    for (number, section) in input.sframe.iter().enumerate().filter(|(_, section)| !section.is_of_table()) {
        for blob in section.section().blobs() {
            for fde in blob.fdes().filter(|fde| fde.size > 0) {
                let resolved = input.kind != Kind::Relocatable
                    || section.derived
                    || matches!(section.target_at(fde.offset), Some(Target::Place(..)));
                if !resolved {
                    result.unresolved += 1;
                    continue;
                }
                let range = fde.address..fde.address.saturating_add(fde.size.into());
                functions.push(Function { range, section: number, source: Source::SFrame(blob, fde) });
            }
        }
    }
    functions
}

/// The compact tables of a file, each with the number of the section that [`compact::expand`] made from it.
///
/// [`compact::expand`]: crate::compact::expand
fn tables<'a>(input: &'a Input<'_>) -> impl Iterator<Item = (usize, CompactTable<&'a [u8]>)> {
    let expanded = input.sframe.iter().enumerate().filter(|(_, section)| section.is_of_table());
    expanded.filter_map(|(number, section)| {
        let table = input.compact.iter().find(|table| table.address == section.address)?;
        Some((number, CompactTable::parse(&*table.data, table.address).ok()?))
    })
}

/// Adds the entries of a table. If two overlap, a reader finds only the one that starts last, so the first
/// ends there.
fn entries<'a>(section: usize, table: &'a CompactTable<&[u8]>, functions: &mut Vec<Function<'a>>) {
    let mut pieces = table.pieces().peekable();
    while let Some(piece) = pieces.next() {
        let size = piece.size().unwrap_or(0);
        let end = piece.address.saturating_add(size.into());
        let end = pieces.peek().map_or(end, |next| end.min(next.address));
        if piece.address < end {
            functions.push(Function { range: piece.address..end, section, source: Source::Compact(piece) });
        }
    }
}

fn inside(text: &[Range<u64>], range: &Range<u64>) -> bool {
    let place = text.partition_point(|text| text.end <= range.start);
    text.get(place).is_some_and(|text| text.start <= range.start && range.end <= text.end)
}

/// The largest number of steps that a comparison takes: two for each byte of tables and code. Tables that
/// describe an address once, or once in each of several blobs, need fewer. In a damaged table, each function
/// may overlap all others, and the comparison would take the square of their number.
fn most_steps(input: &Input<'_>) -> u64 {
    let tables = input.eh_frame.iter().map(|section| section.data.len());
    let tables = tables.chain(input.sframe.iter().map(|section| section.data.len()));
    let code = input.text.iter().map(|range| range.end - range.start).fold(0, u64::saturating_add);
    2 * tables.map(|size| size as u64).fold(code.min(input.size), u64::saturating_add)
}

struct Comparer<'a, 'data> {
    abi: Abi,
    frames: &'a CallFrames<'data>,
    version: Version,
    result: &'a mut Comparison,
    context: UnwindContext<usize, StoreOnHeap>,
    rows: Vec<CfiRow>,
    stretches: Vec<(Range<u64>, Rules)>,
    /// The steps that are left.
    left: u64,
}

impl<'data> Comparer<'_, 'data> {
    fn function<'f>(&mut self, cfi: &CfiFunction<'data>, functions: impl Iterator<Item = &'f Function<'f>>) {
        let size = cfi.range.end - cfi.range.start;
        self.result.cfi.add(size);
        if self.left == 0 {
            return self.result.not_compared.add(size);
        }
        let mut rows = std::mem::take(&mut self.rows);
        let readable = self.frames.rows(cfi, &mut self.context, &mut rows);
        if let Err(error) = &readable {
            self.result.unreadable.push((cfi.offset, error.to_string()));
        }
        let before = self.result.differences.len();
        let mut covered = Vec::new();
        for function in functions {
            self.step();
            if self.left == 0 {
                break;
            }
            self.marks(cfi, &rows, function);
            self.fill_stretches(function, &cfi.range);
            let stretches = std::mem::take(&mut self.stretches);
            for (range, rules) in &stretches {
                covered.push(range.clone());
                self.stretch(cfi, &rows, function, range, rules);
            }
            self.stretches = stretches;
        }
        self.rows = rows;
        if self.result.differences.len() > before {
            self.result.wrong.add(size);
        }
        if self.left == 0 {
            return self.result.not_compared.add(size);
        }
        let covered = Covered::new(covered);
        let missing = covered.missing(&cfi.range);
        if missing == 0 {
            self.result.covered.add(size);
            return;
        }
        let gap = match readable {
            Ok(()) => {
                let column = self.frames.return_column(cfi);
                let rows = self.rows.iter().filter(|row| covered.missing(&row.range) > 0);
                explain::explain(self.abi, self.version, cfi.signal, column, rows)
            }
            Err(_) => Gap::Unreadable,
        };
        self.result.uncovered.entry(gap).or_default().add(missing);
    }

    fn step(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// Finds the stretches of a function inside `limits`, each with its SFrame rules.
    fn fill_stretches(&mut self, function: &Function<'_>, limits: &Range<u64>) {
        self.stretches.clear();
        let mut rows = Vec::new();
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        let Some(block) = function.rows(most, &mut rows).filter(|&block| block > 0) else { return };
        self.left = self.left.saturating_sub(rows.len() as u64);
        let inside = limits.start.max(function.range.start)..limits.end.min(function.range.end);
        let mut start = function.range.start + (inside.start - function.range.start) / block * block;
        while start < inside.end && self.left > 0 {
            for (place, (offset, end, rules)) in rows.iter().enumerate() {
                self.step();
                let next = rows.get(place + 1).map_or(block, |(next, ..)| u64::from(*next));
                let end = end.map_or(next, u64::from).min(block);
                let from = start.saturating_add((*offset).into()).max(inside.start);
                let to = start.saturating_add(end).min(inside.end);
                if from < to {
                    self.stretches.push((from..to, *rules));
                }
            }
            start = start.saturating_add(block);
        }
    }

    /// Compares the marks that apply to a whole function: signal frame and signing key.
    fn marks(&mut self, cfi: &CfiFunction<'data>, rows: &[CfiRow], function: &Function<'_>) {
        let Some((signal, key_b)) = function.marks() else { return };
        let range = cfi.range.start.max(function.range.start)..cfi.range.end.min(function.range.end);
        if function.version() == Version::V3 {
            if signal != cfi.signal {
                let word = |signal| if signal { "a signal frame" } else { "no signal frame" };
                let (expected, found) = (word(cfi.signal), word(signal));
                self.differs(DifferenceKind::Signal, function, range.clone(), expected.into(), found.into());
            }
        } else if cfi.signal {
            self.result.lost_signals += 1;
        }
        if let Some(key_b) = key_b
            && key_b != cfi.key_b
            && rows.iter().any(|row| row.signed)
        {
            let word = |key_b| if key_b { "key B" } else { "key A" };
            let (expected, found) = (word(cfi.key_b), word(key_b));
            self.differs(DifferenceKind::Key, function, range, expected.into(), found.into());
        }
    }

    /// Compares a stretch that has constant SFrame rules with the call frame rows in it.
    fn stretch(
        &mut self,
        cfi: &CfiFunction<'data>,
        rows: &[CfiRow],
        function: &Function<'_>,
        range: &Range<u64>,
        rules: &Rules,
    ) {
        let first = rows.partition_point(|row| row.range.end <= range.start);
        for row in rows.get(first..).unwrap_or_default() {
            if row.range.start >= range.end || self.left == 0 {
                break;
            }
            let part = row.range.start.max(range.start)..row.range.end.min(range.end);
            self.part(cfi, row, function, part, rules);
        }
    }

    /// Compares a stretch in which neither side changes. If an expression reads the program counter, its
    /// value changes within the stretch, so every address is tried.
    fn part(
        &mut self,
        cfi: &CfiFunction<'data>,
        row: &CfiRow,
        function: &Function<'_>,
        range: Range<u64>,
        rules: &Rules,
    ) {
        self.result.stretches += 1;
        if !self.at(cfi, row, function, range.clone(), range.start, rules) {
            return;
        }
        for pc in range.start + 1..range.end {
            if self.left == 0 {
                break;
            }
            self.at(cfi, row, function, pc..pc + 1, pc, rules);
        }
    }

    /// Compares both sides at one program counter. It reports differences for the whole range, or for that
    /// address alone if an expression read the program counter. Returns whether one did.
    fn at(
        &mut self,
        cfi: &CfiFunction<'data>,
        row: &CfiRow,
        function: &Function<'_>,
        range: Range<u64>,
        pc: u64,
        rules: &Rules,
    ) -> bool {
        self.step();
        let (mut found, mut pc_matters) = (Vec::new(), false);
        let column = self.frames.return_column(cfi);
        for seed in SEEDS {
            let machine = Machine::new(self.abi, seed, pc);
            let dwarf = machine.by_dwarf(self.frames.section(), row, column);
            pc_matters |= machine.pc_was_read();
            differing(&machine, dwarf, row.signed, cfi.signal, rules, &mut found);
        }
        found.sort_unstable();
        found.dedup();
        let range = if pc_matters { pc..pc + 1 } else { range };
        for kind in found {
            let (expected, got) = explain::words(self.abi, self.frames.section(), kind, row, rules);
            self.differs(kind, function, range.clone(), expected, got);
        }
        pc_matters
    }

    /// Records a difference. If an equal difference ends where this one starts, that one grows.
    fn differs(
        &mut self,
        kind: DifferenceKind,
        function: &Function<'_>,
        range: Range<u64>,
        expected: String,
        found: String,
    ) {
        let (section, fde) = (function.section, function.offset());
        let earlier = self.result.differences.iter_mut().rev().take(DifferenceKind::NoCfa as usize + 1);
        for last in earlier {
            let same = (last.kind, last.section, last.fde) == (kind, section, fde);
            if same && last.range.end == range.start && last.expected == expected && last.found == found {
                last.range.end = range.end;
                return;
            }
        }
        self.result.differences.push(Difference { kind, range, expected, found, section, fde });
    }
}

/// The kinds of differences between both sides on one machine.
fn differing(
    machine: &Machine,
    dwarf: Result<Values, Failure>,
    signed: bool,
    signal: bool,
    rules: &Rules,
    found: &mut Vec<DifferenceKind>,
) {
    match (rules, dwarf) {
        // GNU as writes a signal frame without rows if it cannot express them: "ask the operating system".
        (Rules::SignalContext, _) if signal => {}
        (Rules::SignalContext, _) => found.push(DifferenceKind::Signal),
        // Without a CFA, no unwinder finds a caller, so both sides agree.
        (Rules::Outermost, Ok(Values { ra: None, .. }) | Err(Failure::NoCfa)) => {}
        (Rules::Outermost, _) | (Rules::Frame(_), Ok(Values { ra: None, .. })) => {
            found.push(DifferenceKind::Outermost);
        }
        (Rules::Frame(_), Err(Failure::NoCfa)) => found.push(DifferenceKind::NoCfa),
        // If a rule cannot be evaluated, SFrame's rule cannot be right either.
        (Rules::Frame(_), Err(_)) => found.push(DifferenceKind::Cfa),
        (Rules::Frame(frame), Ok(want)) => {
            let got = machine.by_sframe(frame);
            let pairs = [
                (want.cfa != got.cfa, DifferenceKind::Cfa),
                // If the CFA is wrong, rules that count from it are wrong too. One report is enough.
                (want.cfa == got.cfa && want.ra != got.ra, DifferenceKind::ReturnAddress),
                (want.cfa == got.cfa && want.fp != got.fp, DifferenceKind::FramePointer),
                (want.cfa == got.cfa && want.sp.is_some() && want.sp != got.sp, DifferenceKind::StackPointer),
                (signed != frame.mangled, DifferenceKind::Signing),
            ];
            found.extend(pairs.iter().filter(|(differs, _)| *differs).map(|(_, kind)| *kind));
        }
    }
}
