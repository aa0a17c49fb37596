//! The rows of a file, made on demand.
//!
//! A recording touches some hundreds of a library's functions, but the library may have two hundred thousand.
//! So mapping a file reads nothing. The first sample at an address looks for its row among the file's own
//! rows, then runs the one FDE that covers the address, and then reads the instructions there. All processes
//! share the result.

use crate::bytes::Bytes;
use crate::code::functions::{Functions, Kind, Piece};
use crate::code::switch::{Back, Switch, aligned};
use crate::code::{LONGEST_CALL, MAX_PARTS, ends_with_call};
use crate::debug_file::DebugFile;
use crate::go_table::is_of_go;
use crate::image::{Image, RowSection, Sources};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use sframe_format::abi::Register;
use sframe_format::derive::{FdeIndex, Scratch};
use sframe_format::file_rows::RowSource;
use sframe_format::{
    Error, FileRows, FrameAddress, RegisterRule, Registers, Rules as RowRules, Source, UnwindError,
    UnwindRules,
};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The time spent reading rows of all files in nanoseconds, if it is measured. Reading a row takes a few
/// hundred nanoseconds, and a look at the clock takes fifty.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadTime(Option<Arc<AtomicU64>>);

impl ReadTime {
    pub fn new(measured: bool) -> Self {
        Self(measured.then(Arc::default))
    }

    /// Does `work`, and adds the time that it takes.
    pub fn of<T>(&self, work: impl FnOnce() -> T) -> T {
        let Some(total) = &self.0 else { return work() };
        let started = Instant::now();
        let made = work();
        total.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        made
    }

    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.0.as_ref().map_or(0, |total| total.load(Ordering::Relaxed)))
    }
}

type Answer = Result<Option<(UnwindRules, Source)>, Error>;

/// How many gaps between described functions are read alone, and how long they may be. Most files have one
/// such gap that walks come through, with the stubs that call other files, and unused addresses behind them.
const MOST_GAPS: usize = 8;
const LONGEST_GAP: u64 = 1 << 24;
/// Number of recent answers to compare a new one with.
const RECENT: usize = 256;

/// The answers so far. A file has few different answers, and an answer is large compared with an address.
struct Answers {
    answers: Vec<Answer>,
    /// The number of the answer for each address.
    by_address: HashMap<u64, u32, FixedState>,
    /// Numbers of recent answers, by [`place_of`].
    recent: [u32; RECENT],
}

impl Default for Answers {
    fn default() -> Self {
        Self { answers: Vec::new(), by_address: HashMap::default(), recent: [0; RECENT] }
    }
}

impl Answers {
    fn get(&self, pc: u64) -> Option<Answer> {
        self.answers.get(*self.by_address.get(&pc)? as usize).copied()
    }

    fn add(&mut self, pc: u64, answer: Answer) {
        let recent = &mut self.recent[place_of(&answer) % RECENT];
        if self.answers.get(*recent as usize) != Some(&answer) {
            *recent = self.answers.len() as u32;
            self.answers.push(answer);
        }
        self.by_address.insert(pc, *recent);
    }
}

/// A hash of an answer. It is cheap, and different for most different answers.
fn place_of(answer: &Answer) -> usize {
    let Ok(Some((UnwindRules { rules: RowRules::Frame(frame), .. }, _))) = answer else { return 0 };
    let fp = match frame.fp {
        RegisterRule::Saved(place) => place.offset.into(),
        RegisterRule::Unchanged => 0,
    };
    (frame.cfa.offset / 8 + 5 * (fp / 8) + i64::from(frame.cfa.register)) as usize
}

/// The rows of an ELF file.
pub(crate) struct Rows {
    image: Arc<Image>,
    sources: Sources,
    own: OnceLock<Option<FileRows<Bytes>>>,
    fdes: OnceLock<Option<FdeIndex<Bytes>>>,
    /// The file with its debug information, and the FDEs there.
    debug: Arc<DebugFile>,
    debug_fdes: OnceLock<Option<FdeIndex<Bytes>>>,
    /// The addresses that its own rows cover, ascending.
    own_ranges: OnceLock<Vec<Range<u64>>>,
    /// The functions of its symbols.
    functions: OnceLock<Functions>,
    /// Gaps between described functions, with the functions of symbols there.
    gaps: Mutex<Vec<(Range<u64>, Arc<Functions>)>>,
    is_of_go: OnceLock<bool>,
    /// Rows read from the instructions of code that nothing describes, by the start of the code.
    instructions: Mutex<HashMap<u64, Option<FileRows<Bytes>>, FixedState>>,
    /// Calls of such code that has aligned its stack, by the start of the function.
    aligned: Mutex<HashMap<u64, Vec<Switch>, FixedState>>,
    known: Mutex<Answers>,
    scratch: Mutex<Scratch>,
    reading: ReadTime,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("sources", &self.sources).field("known", &self.known()).finish()
    }
}

impl RowSource for Rows {
    fn rules_at(&self, pc: u64) -> Answer {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(pc).unwrap_or_else(|| {
            let answer = self.reading.of(|| self.find(pc));
            known.add(pc, answer);
            answer
        })
    }
}

impl Rows {
    pub fn new((image, debug): (Arc<Image>, Arc<DebugFile>), sources: Sources, reading: ReadTime) -> Self {
        Self {
            image,
            debug,
            debug_fdes: OnceLock::new(),
            sources,
            own: OnceLock::new(),
            fdes: OnceLock::new(),
            own_ranges: OnceLock::new(),
            functions: OnceLock::new(),
            gaps: Mutex::default(),
            is_of_go: OnceLock::new(),
            instructions: Mutex::default(),
            aligned: Mutex::default(),
            known: Mutex::default(),
            scratch: Mutex::default(),
            reading,
        }
    }

    /// All its rows, as sections. Each one counts only where those before it have no row.
    pub fn sections(&self) -> Vec<RowSection> {
        self.image.sections(self.sources, self.debug.frames(), || self.functions())
    }

    /// Number of addresses that were looked up.
    pub fn known(&self) -> usize {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).by_address.len()
    }

    /// Where the function around `pc` starts, according to the file's own rows or its FDEs.
    pub fn start_at(&self, pc: u64) -> Option<u64> {
        let by_fde = || self.indexes(pc).find_map(|fdes| fdes.range_at(pc)).map(|range| range.start);
        self.own().and_then(|own| own.start_at(pc)).or_else(by_fde)
    }

    /// Where the caller's value of a register is while the code at the file's address `pc` runs, according to
    /// `.eh_frame`.
    pub fn register_at(&self, pc: u64, register: Register) -> Option<RegisterRule> {
        self.indexes(pc).find_map(|fdes| fdes.register_at(pc, register))
    }

    /// Steps from the frame at the file's address `pc` by call frame information that has no form as rows.
    /// `None`: there is none.
    pub fn step_at(
        &self,
        pc: u64,
        topmost: bool,
        registers: &mut Registers,
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<Result<Option<FrameAddress>, UnwindError>> {
        if self.sources == Sources::Sframe {
            return None;
        }
        self.indexes(pc).find_map(|fdes| fdes.step_at(pc, topmost, registers, read))
    }

    fn find(&self, pc: u64) -> Answer {
        if let Some(own) = self.own()
            && let Some(found) = own.rules_at(pc)?
        {
            return Ok(Some(found));
        }
        if self.sources != Sources::Sframe {
            let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = self.indexes(pc).find_map(|fdes| fdes.rules_at(pc, &mut scratch)) {
                // If the rows of a function have no SFrame form, this does not read its instructions either.
                return Ok(found.ok().flatten().map(|rules| (rules, Source::EhFrame)));
            }
        }
        if self.sources == Sources::All { self.by_instructions(pc) } else { Ok(None) }
    }

    fn own(&self) -> Option<&FileRows<Bytes>> {
        let read = || if self.sources == Sources::Derived { None } else { self.image.own_rows() };
        self.own.get_or_init(read).as_ref()
    }

    fn fdes(&self) -> Option<&FdeIndex<Bytes>> {
        self.fdes.get_or_init(|| self.image.fdes()).as_ref()
    }

    fn debug_fdes(&self) -> Option<&FdeIndex<Bytes>> {
        let index = || Some(FdeIndex::of_debug_frame(self.image.abi(), self.debug.frames()?.clone()));
        self.debug_fdes.get_or_init(index).as_ref()
    }

    /// Its FDEs that may hold at `pc`: those that programs can load, and then those for debuggers.
    fn indexes(&self, pc: u64) -> impl Iterator<Item = &FdeIndex<Bytes>> {
        let is_misdescribed = move || self.of_go().is_some_and(|of_go| of_go.misdescribed_at(pc).is_some());
        let for_debuggers = move || self.debug_fdes().filter(|_| !is_misdescribed());
        self.fdes().into_iter().chain(std::iter::once_with(for_debuggers).flatten())
    }

    /// Calls on another stack, ascending.
    pub fn switches(&self) -> &[Switch] {
        self.of_go().map_or(&[], Functions::switches)
    }

    /// The call on another stack that ends in front of an address.
    pub fn switch_at(&self, address: u64) -> Option<&Switch> {
        self.of_go()?.switch_at(address)
    }

    /// The functions that nothing describes, that align their stack and keep where it was, with their calls.
    pub fn all_aligned(&self) -> Vec<(Range<u64>, Vec<Switch>)> {
        if self.sources != Sources::All {
            return Vec::new();
        }
        let mut found = self.image.aligned(|| self.functions());
        found.retain(|(range, _)| self.start_at(range.start).is_none());
        found
    }

    /// The way back from the call that ends in front of an address, in a function that nothing describes,
    /// that aligns its stack and keeps where it was.
    pub fn aligned_at(&self, address: u64) -> Option<Back> {
        let pc = address.checked_sub(1)?;
        let is_described = || self.indexes(pc).any(|fdes| fdes.range_at(pc).is_some());
        if self.sources != Sources::All || is_described() {
            return None;
        }
        let gap = self.gap_at(pc);
        let Piece { range, kind } = match self.functions_in(&gap) {
            Some(functions) => functions.piece_at(pc, &gap),
            None => self.functions().piece_at(pc, &gap),
        };
        let code = self.image.code_of(&range).filter(|_| kind == Kind::Function)?;
        let mut known = self.aligned.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = known.entry(range.start).or_insert_with(|| aligned(self.image.abi(), code, range.start));
        calls.iter().find(|call| call.at == address)?.back.clone()
    }

    /// The functions of a program of Go. Only there, names say that a function calls on another stack or that
    /// its CFI does not hold. The symbols of others are not read to say so.
    fn of_go(&self) -> Option<&Functions> {
        self.is_of_go().then(|| self.functions())
    }

    fn is_of_go(&self) -> bool {
        *self.is_of_go.get_or_init(|| is_of_go(self.image.bytes()))
    }

    /// The functions of symbols in a gap between described functions. `None`: those of the whole file have
    /// been read, or have to be.
    fn functions_in(&self, gap: &Range<u64>) -> Option<Arc<Functions>> {
        if self.functions.get().is_some() || gap.end - gap.start > LONGEST_GAP || self.is_of_go() {
            return None;
        }
        let mut gaps = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = gaps.iter().find(|(other, _)| other == gap) {
            return Some(Arc::clone(known));
        }
        if gaps.len() >= MOST_GAPS {
            return None;
        }
        let functions = Arc::new(self.image.functions_in(gap));
        gaps.push((gap.clone(), Arc::clone(&functions)));
        Some(functions)
    }

    /// The functions of its symbols.
    pub fn functions(&self) -> &Functions {
        self.functions.get_or_init(|| self.image.functions())
    }

    /// The rules from the instructions, except for calls on a stack that nothing leads away from. This reads
    /// only the function around `pc`, with its parts. If no symbol says where the function starts, it reads
    /// all code between the described functions around `pc`.
    fn by_instructions(&self, pc: u64) -> Answer {
        let gap = self.gap_at(pc);
        let in_gap = self.functions_in(&gap);
        // Parts of a function may be anywhere in the file.
        let is_between = |functions: &&Functions| functions.piece_at(pc, &gap).kind == Kind::Unknown;
        let functions = in_gap.as_deref().filter(is_between).unwrap_or_else(|| self.functions());
        let is_call = |code| ends_with_call(self.image.abi(), code);
        if functions.leaves_stack_at(pc)
            && self.image.code_before(pc.wrapping_add(1), LONGEST_CALL).is_some_and(is_call)
        {
            return Ok(None);
        }
        let own = functions.piece_at(pc, &gap);
        let mut known = self.instructions.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = known.entry(own.range.start).or_insert_with(|| {
            let others = functions.others_of(pc).take(MAX_PARTS - 1).filter_map(|other| {
                let gap = self.gap_at(other.start);
                gap.contains(&other.start).then(|| functions.piece(&other, &gap))
            });
            let pieces: Vec<Piece> = others.chain([own]).collect();
            let section = self.image.rows_of_pieces(functions, &pieces)?;
            Some(FileRows::default().with_instructions(section.into(), 0))
        });
        rows.as_ref().map_or(Ok(None), |rows| rows.rules_at(pc))
    }

    /// The addresses around `pc` that neither the file's own rows nor its FDEs cover.
    fn gap_at(&self, pc: u64) -> Range<u64> {
        let own = self.own_ranges.get_or_init(|| {
            let mut ranges = self.own().map(|_| self.image.own_ranges()).unwrap_or_default();
            ranges.sort_unstable_by_key(|range| range.start);
            ranges
        });
        let mut gap = 0..u64::MAX;
        for fdes in self.indexes(pc) {
            let around = fdes.gap_at(pc);
            gap = gap.start.max(around.start)..gap.end.min(around.end);
        }
        let place = own.partition_point(|range| range.start <= pc);
        if let Some(before) = place.checked_sub(1).and_then(|before| own.get(before)) {
            gap.start = gap.start.max(before.end.min(pc));
        }
        if let Some(after) = own.get(place) {
            gap.end = gap.end.min(after.start);
        }
        gap
    }
}

#[cfg(test)]
mod tests {
    use super::{DebugFile, Kind, ReadTime, Rows};
    use crate::debug_file::Places;
    use crate::image::{Image, Sources};
    use sframe_format::file_rows::RowSource;
    use sframe_format::{Section, SectionIndex, Source};
    use std::sync::Arc;

    /// Wherever a gap lies: in front of functions, behind them, and across their bounds.
    #[test]
    fn the_functions_of_a_gap_alone_tell_the_same_pieces() {
        let image = Image::open(&std::env::current_exe().unwrap()).unwrap();
        let (all, extent) = (image.functions(), image.extent());
        let (mut functions, mut others) = (0, 0);
        for (number, start) in extent.clone().step_by((extent.end - extent.start) as usize / 50).enumerate() {
            let gap = start..start + (1 << (number % 16));
            let few = image.functions_in(&gap);
            for pc in gap.clone().step_by(1 << (number % 16 / 2)) {
                let piece = few.piece_at(pc, &gap);
                assert_eq!(piece, all.piece_at(pc, &gap), "{pc:x} in {gap:x?}");
                assert_eq!(few.outermost_in(&piece.range), all.outermost_in(&piece.range));
                *(if piece.kind == Kind::Unknown { &mut others } else { &mut functions }) += 1;
            }
        }
        assert!(functions > 100 && others > 10, "{functions}, {others}");
    }

    #[test]
    fn rows_on_demand_are_those_of_the_whole_file() {
        let image = Arc::new(Image::open(&std::env::current_exe().unwrap()).unwrap());
        let debug = Arc::new(DebugFile::new("/", Places::default(), Some(&image)));
        let rows = Rows::new((Arc::clone(&image), debug), Sources::All, ReadTime::default());
        let sections = image.sections(Sources::All, None, || rows.functions());
        let index: Vec<(SectionIndex<&[u8]>, Source)> =
            sections.iter().map(|s| (SectionIndex::new(&*s.bytes, s.address), s.source)).collect();
        // Functions without CFI are few and short, and a coarse step can miss them all.
        let undescribed = sections.iter().filter(|section| section.source == Source::Instructions);
        let undescribed = undescribed.flat_map(|section| Section::new(&section.bytes, 0).blobs());
        let undescribed = undescribed.flat_map(|blob| blob.fdes());
        let undescribed = undescribed.flat_map(|fde| fde.address..fde.address + u64::from(fde.size));
        let (mut same, mut by_instructions, mut differ) = (0, 0, Vec::new());
        for pc in image.extent().step_by(61).chain(undescribed) {
            let whole = index.iter().find_map(|(index, source)| {
                let found = index.lookup(pc).ok()??;
                Some((found.row.rules, *source))
            });
            let found = rows.rules_at(pc).unwrap().map(|(rules, source)| (rules.rules, source));
            by_instructions += usize::from(matches!(whole, Some((_, Source::Instructions))));
            // If one row of a function has no SFrame form, a section omits all rows of the function.
            if whole == found || whole.is_none() {
                same += 1;
            } else {
                differ.push((pc, whole, found));
            }
        }
        assert!(same > 10_000 && by_instructions > 0, "{same}, {by_instructions}");
        // What is read of one function does not know of branches from others.
        assert!(
            differ.iter().all(|(_, whole, _)| matches!(whole, Some((_, Source::Instructions)))),
            "{differ:?}"
        );
        assert!(differ.len() * 20 <= by_instructions, "{differ:?}");
    }
}
