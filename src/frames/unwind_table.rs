//! Turns `.eh_frame` records into functions of a compact table of version 2 (`--unwind-table`).
//!
//! An FDE goes into the table if the table says the same at every address. The rows of an FDE do not depend
//! on addresses, so this is settled before there are any: each FDE is evaluated and encoded, and what was
//! encoded is decoded again and compared ([`super::unwind_check`]). What the table cannot say stays an FDE.
//!
//! Addresses come later (`synth::unwind_table`): of code and of language-specific data by the FDE's
//! relocations, of personality routines by the CIE's.

use super::eh_frame::{Cie, Fde, FileFrames, FrameSection, Frames, is_live};
use super::unwind_check::{EncodedRuns, Evidence, Part};
use crate::arch::Target;
use crate::arch::relocation::{RelocBase, RelocExpr};
use crate::diag::{Code, Diagnostic};
use crate::elf::Rela;
use crate::ids::{FileId, SymbolId};
use crate::phase::{Inputs, Resolved, SectionStates};
use crate::rows::{self, AllThreads};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use parallel::{IntoParallel, ParallelSlice};
use sframe_format::cfi::RunFunction;
use sframe_format::compact::{self, Builder, Joined, MAX_PERSONALITIES, ShapeId, WholeShapes};
use sframe_format::derive::{CfiHead, CfiReader, CfiReason, CfiStates, Pointer, UnknownFde};
use sframe_format::write::Inexpressible;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use zerocopy::byteorder::ByteOrder;

/// The least number of objects that one job reads.
const BATCH: usize = 32;

/// The least number of functions that one job sums up.
const FUNCTIONS: usize = 1 << 13;

/// Why an FDE stays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stays {
    /// The table cannot say what it says.
    Says(CfiReason),
    /// No section of an object holds its code.
    NoCode,
    /// It covers more than the section of its code. Each 64 KiB take an entry of the table, so the size must
    /// be one that can be true.
    BeyondSection,
    /// It has a relocation that only the dynamic linker could apply, or one in an unexpected place.
    Relocations,
    /// An offset, a register or a size does not fit a table.
    NoForm,
    /// The table has no room for all the places in which its rows save registers.
    Layouts,
    /// The table has as many other personality routines as it can name.
    Personality,
    /// The table says something else. This is a defect of the encoder.
    Differs,
}

impl fmt::Display for Stays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Says(reason) => reason.fmt(f),
            Self::NoCode => f.pad("its code is in no section of an object"),
            Self::BeyondSection => f.pad("it covers more than the section of its code"),
            Self::Relocations => f.pad("a pointer in it is of an unexpected form"),
            Self::NoForm => f.pad("a number in it does not fit a table"),
            Self::Layouts => f.pad("the table has no room for all the places in which it saves registers"),
            Self::Personality => {
                write!(
                    f,
                    "the table has {MAX_PERSONALITIES} other personality routines, the most it can name"
                )
            }
            Self::Differs => f.pad("the table would say something else"),
        }
    }
}

/// A function of the table.
#[derive(Clone, Copy, Debug)]
pub struct TabledFunction {
    /// The object of its FDE.
    pub file: FileId,
    /// Row of the FDE in [`FileFrames::fdes`].
    pub fde: u32,
    /// Row of the CIE in [`FileFrames::cies`].
    pub cie: u32,
    /// Its rows.
    pub shape: ShapeId,
    /// Number of its personality routine in [`UnwindTable::personalities`].
    pub personality: Option<u32>,
    /// Bytes of its code.
    pub size: u32,
    /// Bytes of the FDE's instructions, with which the FDE ends.
    pub instructions: u32,
}

/// A personality routine: the object and the CIE whose relocation names it.
#[derive(Clone, Copy, Debug)]
pub struct PersonalityOf {
    /// The object.
    pub file: FileId,
    /// Row of the CIE in [`FileFrames::cies`].
    pub cie: u32,
    /// Whether the relocation is that of a pointer to the routine.
    pub indirect: bool,
}

/// What becomes a table.
#[derive(Debug)]
pub struct UnwindTable {
    /// The functions, by file and FDE.
    pub functions: Vec<TabledFunction>,
    /// The rows of `functions` that belong to each object.
    pub of_file: Vec<Range<u32>>,
    /// The personality routines.
    pub personalities: Vec<PersonalityOf>,
    /// Everything that does not depend on addresses.
    pub shapes: WholeShapes,
    /// FDEs that stay, by reason, with the first one of each.
    pub kept: BTreeMap<Stays, (u64, FileId, u32)>,
    /// Bytes of the FDEs that the table stands for.
    pub replaced: u64,
    /// Whether these FDEs leave `.eh_frame`.
    pub replaces: bool,
    /// The table as the last round of the layout encoded it.
    pub encoded: LastEncoded,
}

/// What the last round of the layout made of a table.
#[derive(Default, Debug)]
pub struct LastEncoded(Mutex<Option<Encoded>>);

/// A table with its addresses.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The address of its section.
    pub address: u64,
    /// Its bytes.
    pub bytes: Arc<Vec<u8>>,
    /// Where the code of each function is. [`NOWHERE`]: not in the output.
    pub code: Arc<Vec<u64>>,
}

/// The address of code that is not in the output. No function is there: it would have no second byte.
pub const NOWHERE: u64 = u64::MAX;

impl LastEncoded {
    /// Replaces what is there.
    pub fn put(&self, encoded: Option<Encoded>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = encoded;
    }

    /// What is there for a section at this address.
    pub fn get(&self, address: u64) -> Option<Encoded> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|last| last.address == address).cloned()
    }
}

impl UnwindTable {
    /// The functions of an object whose FDEs the output lacks, ascending by FDE.
    pub fn replaced_of(&self, file: FileId) -> &[TabledFunction] {
        if self.replaces { self.functions_of(file) } else { &[] }
    }

    /// The functions of an object.
    pub fn functions_of(&self, file: FileId) -> &[TabledFunction] {
        &self.functions[self.rows_of(file)]
    }

    /// Their rows.
    pub fn rows_of(&self, file: FileId) -> Range<usize> {
        let rows = self.of_file.get(file.index()).cloned().unwrap_or_default();
        rows.start as usize..rows.end as usize
    }

    /// The relocations of records that are in the table and not in the output, with the header index of their
    /// section: those of FDEs, and of the CIEs that these need.
    pub fn relocations<'r, E: ByteOrder>(
        &'r self,
        file: FileId,
        frames: &'r FileFrames<'_, E>,
    ) -> impl Iterator<Item = (u32, &'r [Rela<E>])> {
        let replaced = self.replaced_of(file);
        let mut seen: Vec<u32> = replaced.iter().map(|function| function.cie).collect();
        seen.dedup();
        seen.sort_unstable();
        seen.dedup();
        let cies = seen.into_iter().map(move |row| {
            let section = frames.section_of_cie(row);
            (section.index, section.relocations_of_cie(&frames.cies[row as usize]))
        });
        let mut rest = replaced;
        let fdes = std::iter::from_fn(move || {
            let section = frames.section_of_fde(rest.first()?.fde);
            Some((section.index, next_relocations(frames, section, &mut rest)))
        });
        cies.chain(fdes)
    }
}

/// Takes the first functions of an object that have relocations behind one another, and returns these.
fn next_relocations<'r, E: ByteOrder>(
    frames: &FileFrames<'_, E>,
    section: &'r FrameSection<'_, E>,
    functions: &mut &[TabledFunction],
) -> &'r [Rela<E>] {
    let mut range: Option<Range<u32>> = None;
    while let [function, others @ ..] = *functions
        && function.fde < section.fdes.end
    {
        let fde = &frames.fdes[function.fde as usize];
        if range.as_ref().is_some_and(|range| range.end != fde.first_relocation) {
            break;
        }
        range = Some(range.map_or(fde.first_relocation, |range| range.start)..fde.end_relocation);
        *functions = others;
    }
    let range = range.unwrap_or_default();
    &section.relocations[range.start as usize..range.end as usize]
}

/// What a thread knows of the FDEs that it has read. The more it has read, the less is new to it.
struct Reader<'a> {
    builder: Builder,
    states: CfiStates<'a>,
    /// The function that is read.
    function: RunFunction,
    /// What became shapes.
    encoded: EncodedRuns,
    personalities: Personalities,
    /// The functions that were read, with its own numbers of shapes and personality routines.
    functions: Vec<TabledFunction>,
}

/// The functions of some objects, in their order: those of each object are neighbours in
/// [`Reader::functions`].
#[derive(Default)]
struct Piece {
    thread: usize,
    functions: Vec<Range<u32>>,
    kept: Vec<(Stays, FileId, u32)>,
}

/// Personality routines, numbered as they are first named.
#[derive(Default)]
struct Personalities {
    list: Vec<(PersonalityKey, PersonalityOf)>,
    numbers: HashMap<PersonalityKey, u32, FixedState>,
    /// The last CIE, and the number of its routine.
    last: Option<((FileId, u32), u32)>,
}

/// Symbol, addend, whether it is that of a pointer.
type PersonalityKey = (SymbolId, i64, bool);

impl Personalities {
    fn number(&mut self, key: PersonalityKey, of: PersonalityOf) -> u32 {
        let Self { list, numbers, .. } = self;
        *numbers.entry(key).or_insert_with(|| {
            list.push((key, of));
            list.len() as u32 - 1
        })
    }

    /// Numbers the routines of functions, in the order of these. `number_of` are the numbers by those that
    /// the functions have, which are places in a list.
    fn number_all(
        &mut self,
        functions: &[TabledFunction],
        routines: &[(PersonalityKey, PersonalityOf)],
        number_of: &mut [u32],
    ) {
        for own in functions.iter().filter_map(|function| function.personality) {
            let number = &mut number_of[own as usize];
            if *number == u32::MAX {
                let (key, of) = routines[own as usize];
                *number = self.number(key, of);
            }
        }
    }
}

impl Piece {
    /// Adds the functions of an object, which are these of the reader's.
    fn add(&mut self, functions: Range<u32>) {
        match self.functions.last_mut().filter(|last| last.end == functions.start) {
            Some(last) => last.end = functions.end,
            None => self.functions.push(functions),
        }
    }

    /// Its functions. `of_threads` are those of all readers.
    fn functions<'f>(
        &self,
        of_threads: &'f [Vec<TabledFunction>],
    ) -> impl Iterator<Item = &'f [TabledFunction]> {
        let all = of_threads.get(self.thread).map_or(&[][..], Vec::as_slice);
        self.functions.iter().map(|range| &all[range.start as usize..range.end as usize])
    }
}

/// Encodes the FDEs of live functions. `replaces` says whether they then leave `.eh_frame`. `None`: no FDE is
/// there, or there are more different ones than a table has numbers for, which is reported.
pub fn choose<T: Target>(
    link: &Resolved<'_, T>,
    sections: &SectionStates,
    frames: &Frames<'_, T::E>,
    replaces: bool,
) -> Option<UnwindTable> {
    let threads = rayon_core::current_num_threads();
    let fdes: usize = frames.files.iter().map(|file| file.fdes.len()).sum();
    let readers = (0..threads).map(|_| Mutex::new(Reader::new::<T>(fdes / threads)));
    let readers: Vec<Mutex<Reader<'_>>> = readers.collect();
    let files: Vec<(usize, &FileFrames<'_, T::E>)> = frames.files.iter().enumerate().collect();
    let pieces =
        files.par_iter().with_min_len(BATCH).fold_pieces(Piece::default, |piece, &(file, frames)| {
            // No other thread asks for it.
            piece.thread = rayon_core::current_thread_index().unwrap_or(0);
            let mut reader = readers[piece.thread].lock().unwrap_or_else(PoisonError::into_inner);
            reader.read_file(link, sections, FileId::from_index(file), frames, piece);
        });
    let readers =
        readers.into_iter().map(|reader| reader.into_inner().unwrap_or_else(PoisonError::into_inner));
    let All { shapes, fitting, functions, mut personalities, kept, mut evidence } =
        join(readers.collect(), pieces)?;
    let Ok(shapes) = shapes else {
        link.sink.report(too_many_ways());
        return None;
    };
    let has_unnamed = personalities.len() > MAX_PERSONALITIES;
    personalities.truncate(MAX_PERSONALITIES);
    let mut table = UnwindTable {
        functions,
        of_file: Vec::new(),
        personalities,
        shapes,
        kept: BTreeMap::new(),
        replaced: 0,
        replaces,
        encoded: LastEncoded::default(),
    };
    kept.into_iter().for_each(|(reason, file, fde)| table.keep(reason, file, fde));
    if let Some(numbers) = fitting {
        table.renumber(&numbers);
        evidence.renumber(&numbers);
    }
    if has_unnamed {
        let is_named = |number: u32| (number as usize) < MAX_PERSONALITIES;
        table.leave(&Stays::Personality, |function| !function.personality.is_none_or(is_named));
    }
    let wrong = evidence.wrong_shapes(&table.shapes);
    if !wrong.is_empty() {
        table.leave(&Stays::Differs, |function| wrong.contains(&function.shape));
    }
    table.index(frames);
    (!table.functions.is_empty()).then_some(table)
}

/// The functions of all objects.
struct All {
    /// Their shapes, or there are too many different ones.
    shapes: Result<WholeShapes, Inexpressible>,
    /// The numbers of their shapes in `shapes`, if not all have room ([`compact::Collected::fit`]).
    fitting: Option<Vec<Option<ShapeId>>>,
    functions: Vec<TabledFunction>,
    personalities: Vec<PersonalityOf>,
    kept: Vec<(Stays, FileId, u32)>,
    /// What the shapes are held against.
    evidence: Evidence,
}

/// Joins the pieces to one, and the rows of all readers to what the table is held against.
fn join(readers: Vec<Reader<'_>>, pieces: Vec<Piece>) -> Option<All> {
    // What only served reading is much memory, so all threads give it back.
    let readers = readers.into_par_iter().map(Reader::done).collect();
    let (mut builders, mut parts, mut routines, mut of_threads) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for Done { builder, part, personalities, functions } in readers {
        builders.push(builder);
        parts.push(part);
        routines.push(personalities);
        of_threads.push(functions);
    }
    let uses = pieces.iter().flat_map(|piece| {
        let functions = piece.functions(&of_threads).flatten();
        functions.map(|function| (piece.thread, function.shape))
    });
    let Joined { mut collected, numbers, origins } = compact::join(&builders, uses, &AllThreads)?;
    let ((fitting, shapes), ((functions, personalities), evidence)) = parallel::join(
        || (collected.fit(), WholeShapes::new(collected)),
        || {
            let functions = join_functions(of_threads, &pieces, &numbers, &routines);
            (functions, Evidence::new(parts, &numbers, &origins))
        },
    );
    let kept = pieces.into_iter().flat_map(|piece| piece.kept).collect();
    Some(All { shapes, fitting, functions, personalities, kept, evidence })
}

/// Joins the functions of all threads in the order of the pieces, and gives them common numbers. `numbers`
/// are those of shapes.
fn join_functions(
    mut of_threads: Vec<Vec<TabledFunction>>,
    pieces: &[Piece],
    numbers: &[Vec<ShapeId>],
    routines: &[Vec<(PersonalityKey, PersonalityOf)>],
) -> (Vec<TabledFunction>, Vec<PersonalityOf>) {
    let mut personalities = Personalities::default();
    let mut number_of: Vec<Vec<u32>> = routines.iter().map(|list| vec![u32::MAX; list.len()]).collect();
    for piece in pieces {
        let (routines, number_of) = (&routines[piece.thread], &mut number_of[piece.thread]);
        let functions = piece.functions(&of_threads);
        functions.for_each(|functions| personalities.number_all(functions, routines, number_of));
    }
    of_threads.par_iter_mut().enumerate().for_each(|(thread, functions)| {
        for function in functions {
            function.shape = numbers[thread][function.shape.0 as usize];
            function.personality = function.personality.map(|number| number_of[thread][number as usize]);
        }
    });
    let tables: Vec<&[TabledFunction]> =
        pieces.iter().flat_map(|piece| piece.functions(&of_threads)).collect();
    let any = tables.iter().find_map(|table| table.first()).copied();
    let functions = any.map_or_else(Vec::new, |any| rows::joined(&tables, 0, any));
    (functions, personalities.list.into_iter().map(|(_, of)| of).collect())
}

fn too_many_ways() -> Diagnostic {
    let message = "there is no unwind table: functions unwind in more different ways than it can hold; \
                   .eh_frame stays as it is";
    Diagnostic::warning(Code::EhFrame, message).help("--unwind-table=none asks for no table")
}

impl UnwindTable {
    /// Counts an FDE that stays.
    fn keep(&mut self, reason: Stays, file: FileId, fde: u32) {
        self.kept.entry(reason).or_insert((0, file, fde)).0 += 1;
    }

    /// Leaves functions to `.eh_frame`.
    fn leave(&mut self, reason: &Stays, stays: impl Fn(&TabledFunction) -> bool) {
        let left: Vec<TabledFunction> = self.functions.extract_if(.., |function| stays(function)).collect();
        left.into_iter().for_each(|function| self.keep(reason.clone(), function.file, function.fde));
    }

    /// Gives functions other shapes, by those that they have. `None`: the table has no room for it.
    fn renumber(&mut self, numbers: &[Option<ShapeId>]) {
        self.leave(&Stays::Layouts, |function| numbers[function.shape.0 as usize].is_none());
        for function in &mut self.functions {
            function.shape = numbers[function.shape.0 as usize].unwrap_or(function.shape);
        }
    }

    /// Notes which functions belong to each object, and what their FDEs take, once they are settled.
    fn index<E: ByteOrder + Sync>(&mut self, frames: &Frames<'_, E>) {
        let mut first = 0;
        for file in 0..frames.files.len() {
            let end = self.functions.partition_point(|function| function.file.index() <= file) as u32;
            self.of_file.push(first..end);
            first = end;
        }
        let size = |function: &TabledFunction| {
            u64::from(frames.files[function.file.index()].fdes[function.fde as usize].size)
        };
        self.replaced = self.functions.par_iter().with_min_len(FUNCTIONS).map(size).sum();
    }
}

/// What a reader leaves.
struct Done {
    builder: Builder,
    part: Part,
    personalities: Vec<(PersonalityKey, PersonalityOf)>,
    functions: Vec<TabledFunction>,
}

impl<'a> Reader<'a> {
    /// A reader of so many FDEs, as far as can be foreseen.
    fn new<T: Target>(fdes: usize) -> Self {
        let (mut builder, mut states) = (Builder::whole(T::SFRAME_ABI), CfiStates::new(T::SFRAME_ABI));
        // About half of them are of code that has another copy, or are equal to another one.
        builder.reserve_shapes(fdes / 2);
        states.reserve(fdes / 2);
        Self {
            builder,
            states,
            function: RunFunction::default(),
            encoded: EncodedRuns::with_capacity(fdes / 2),
            personalities: Personalities::default(),
            functions: Vec::with_capacity(fdes),
        }
    }

    fn done(self) -> Done {
        let Self { builder, mut states, encoded, personalities, functions, .. } = self;
        let (rows, runs) = states.take();
        Done { builder, part: Part { encoded, runs, rows }, personalities: personalities.list, functions }
    }

    /// Adds the functions of an object to a piece.
    fn read_file<T: Target>(
        &mut self,
        link: &Resolved<'_, T>,
        sections: &SectionStates,
        file: FileId,
        frames: &FileFrames<'a, T::E>,
        piece: &mut Piece,
    ) {
        let first = self.functions.len() as u32;
        for section in &frames.sections {
            let mut reader = CfiReader::new(T::SFRAME_ABI, section.bytes, 0);
            for row in section.fdes.clone() {
                let fde = &frames.fdes[row as usize];
                // An FDE of no code says nothing, so it may stay without harm.
                if !is_live(sections, fde) || fde.is_empty {
                    continue;
                }
                match self.read(link, (file, row), (frames, section), fde, &mut reader) {
                    Ok(function) => self.functions.push(function),
                    Err(reason) => piece.kept.push((reason, file, row)),
                }
            }
        }
        piece.add(first..self.functions.len() as u32);
    }

    /// The function of an FDE, which is the row `row` of a file.
    fn read<T: Target>(
        &mut self,
        link: &Resolved<'_, T>,
        (file, row): (FileId, u32),
        (frames, section): (&FileFrames<'_, T::E>, &FrameSection<'_, T::E>),
        fde: &Fde,
        reader: &mut CfiReader<'a>,
    ) -> Result<TabledFunction, Stays> {
        if !fde.function.is_some() {
            return Err(Stays::NoCode);
        }
        let head = reader.head(fde.offset as usize).map_err(Stays::Says)?.ok_or(Stays::Relocations)?;
        // One that has a single entry ends at the next function, if it is too long.
        let has_more_entries = head.size() > u64::from(compact::MAX_BYTES);
        if has_more_entries && head.size() > link.input_size(fde.function) {
            return Err(Stays::BeyondSection);
        }
        let has_lsda = expect_pointers(link, section, section.relocations_of_fde(fde), &head);
        let rows_for_lsda = *has_lsda.as_ref().unwrap_or(&true);
        let known = self.states.recall(&head, rows_for_lsda).map_err(Stays::Says)?;
        if known.is_err() {
            self.states.read_runs(&head, rows_for_lsda, &mut self.function).map_err(Stays::Says)?;
        }
        has_lsda?;
        let cie = &frames.cies[fde.cie as usize];
        if cie.end_relocation - cie.first_relocation != u32::from(head.personality().is_some()) {
            return Err(Stays::Relocations);
        }
        let personality = match head.personality() {
            Some(pointer) => Some(self.personality(link, file, section, (fde.cie, cie), &pointer)?),
            None => None,
        };
        let shape = match known {
            Ok(number) => ShapeId(number),
            Err(unknown) => self.encode(unknown)?,
        };
        let size = u32::try_from(head.size()).map_err(|_| Stays::Says(CfiReason::Size))?;
        let instructions = head.instructions_size() as u32;
        Ok(TabledFunction { file, fde: row, cie: fde.cie, shape, personality, size, instructions })
    }

    /// Encodes the function of an FDE that was read for the first time.
    fn encode(&mut self, fde: UnknownFde<'a>) -> Result<ShapeId, Stays> {
        let Self { states, function, builder, encoded, .. } = self;
        let added = builder.add_runs(function, states.runs(), states.rows()).map_err(|_| Stays::NoForm)?;
        encoded.note(added, function);
        states.remember(fde, added.shape.0);
        Ok(added.shape)
    }

    /// The number of the routine to which the pointer in a CIE leads. It is the CIE's only relocation.
    fn personality<T: Target>(
        &mut self,
        link: &Resolved<'_, T>,
        file: FileId,
        section: &FrameSection<'_, T::E>,
        (row, cie): (u32, &Cie),
        pointer: &Pointer,
    ) -> Result<u32, Stays> {
        // FDEs of one CIE follow each other.
        if let Some((last, number)) = self.personalities.last
            && last == (file, row)
        {
            return Ok(number);
        }
        let relocation = section.relocations_of_cie(cie).first();
        let relocation = relocation.filter(|relocation| relocation.r_offset.get() == pointer.offset as u64);
        let relocation = relocation.filter(|relocation| is_fixed(link, pointer, relocation));
        let relocation = relocation.ok_or(Stays::Relocations)?;
        let indirect = pointer.encoding.is_indirect();
        let symbol = link.objects[file.index()].symbol_id(relocation.symbol());
        let key = (symbol, relocation.r_addend.get(), indirect);
        let number = self.personalities.number(key, PersonalityOf { file, cie: row, indirect });
        self.personalities.last = Some(((file, row), number));
        Ok(number)
    }
}

/// Expects that the relocations of an FDE are those of its code and of its language-specific data, and no
/// others. Returns whether it has data.
fn expect_pointers<T: Target>(
    link: &Resolved<'_, T>,
    section: &FrameSection<'_, T::E>,
    relocations: &[Rela<T::E>],
    head: &CfiHead<'_, '_>,
) -> Result<bool, Stays> {
    let code = Pointer { offset: 0, encoding: head.encoding() };
    let [first, rest @ ..] = relocations else { return Err(Stays::Relocations) };
    if first.symbol() == 0 || !is_fixed(link, &code, first) {
        return Err(Stays::Relocations);
    }
    match (rest, head.lsda()) {
        ([], None) => Ok(false),
        ([], Some(pointer)) => {
            let width = super::eh_frame::encoded_width(pointer.encoding.0);
            let field = section.bytes.get(pointer.offset..pointer.offset + width);
            let is_null = field.is_some_and(|field| field.iter().all(|&byte| byte == 0));
            if is_null { Ok(false) } else { Err(Stays::Relocations) }
        }
        ([lsda], Some(pointer)) => {
            let in_place = lsda.r_offset.get() == pointer.offset as u64;
            let direct = !pointer.encoding.is_indirect() && is_fixed(link, &pointer, lsda);
            if in_place && direct { Ok(true) } else { Err(Stays::Relocations) }
        }
        _ => Err(Stays::Relocations),
    }
}

/// Whether a relocation makes a pointer that of its symbol, without the dynamic linker: it counts from its
/// own place, or the output has fixed addresses.
fn is_fixed<T: Target>(link: &Inputs<'_, T>, pointer: &Pointer, relocation: &Rela<T::E>) -> bool {
    let base = match pointer.encoding.application() {
        gimli::DW_EH_PE_pcrel => RelocBase::Place,
        gimli::DW_EH_PE_absptr if !link.config.is_position_independent() => RelocBase::Zero,
        _ => return false,
    };
    let width = super::eh_frame::encoded_width(pointer.encoding.0);
    T::reloc_info(relocation.kind()).is_some_and(|info| {
        info.expr == RelocExpr::Symbol && info.base == base && usize::from(info.size) == width
    })
}
