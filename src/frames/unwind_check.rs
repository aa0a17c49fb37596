//! Whether an unwind table says what the FDEs say that are to leave `.eh_frame` for it.
//!
//! Each shape was encoded from the rows of an FDE. These rows are kept until the shapes are written and
//! decoded again, and then held against them: every register in every row. That is done for one FDE of each
//! shape, and for others until each different run of rows was compared. So it holds for all FDEs: if two of
//! one shape said different things, their runs would differ somewhere, and both were found to say what the
//! rules of that place say.
//!
//! Shapes lie at the same places in every table, and most functions are one shape, so that one is decoded
//! where it lies. The others are looked up in a table that is made of them.

use parallel::{IntoParallel, ParallelSlice};
use sframe_format::CompactTable;
use sframe_format::cfi::{CfiRows, CfiRuns, RunFunction};
use sframe_format::compact::{Added, AgreedRuns, Comparison, PlacedFunction, ShapeId, WholeShapes};
use std::collections::BTreeSet;
use std::ops::Range;

/// The least number of functions that one job compares. Jobs do not share what they know, so each should be
/// as large as the number of threads allows.
const FUNCTIONS: usize = 4096;

/// Runs that a block of [`EncodedRuns`] has room for. A list that grows would be copied again and again.
const BLOCK: usize = 1 << 13;

/// The runs of rows that became the shapes of one builder.
#[derive(Default)]
pub struct EncodedRuns {
    /// The runs of functions, one after the other: the number of each, and the bytes that its last row
    /// covers. A function's runs are in one block.
    blocks: Vec<Vec<(u32, u32)>>,
    /// One function of each shape at least.
    functions: Vec<Encoded>,
    /// The number of shapes.
    shapes: u32,
    met: Met,
}

/// A function that became a shape.
struct Encoded {
    shape: ShapeId,
    /// Where its runs are.
    block: u32,
    runs: Range<u32>,
    size: u32,
    signal: bool,
    key_b: bool,
}

/// Which runs were met in functions of each kind: two bits for each kind, by number of the run. One is for
/// the end of functions, where steps say something else.
#[derive(Default)]
struct Met(Vec<u8>);

impl Met {
    /// Notes the runs of a function. Returns whether one of them was not met before.
    fn add(&mut self, function: &RunFunction) -> bool {
        let mut is_new = false;
        for (run, _, is_last) in function.each_run() {
            let kind = 1 << (function.kind() * 2 + usize::from(is_last));
            if self.0.len() <= run as usize {
                self.0.resize(run as usize + 1, 0);
            }
            let kinds = &mut self.0[run as usize];
            is_new |= *kinds & kind == 0;
            *kinds |= kind;
        }
        is_new
    }
}

impl EncodedRuns {
    /// Without functions, with room for so many.
    pub fn with_capacity(functions: usize) -> Self {
        Self { functions: Vec::with_capacity(functions), ..Self::default() }
    }

    /// Notes a function that was added, unless its shape and all of its runs are known. Numbers of shapes
    /// ascend by one.
    pub fn note(&mut self, Added { shape, has_known_runs }: Added, function: &RunFunction) {
        let is_new = shape.0 == self.shapes;
        self.shapes += u32::from(is_new);
        // Runs that the builder knows were met when it learned them.
        let has_new_runs = !has_known_runs && self.met.add(function);
        if !has_new_runs && !is_new {
            return;
        }
        let RunFunction { size, signal, key_b, ref runs } = *function;
        if self.blocks.last().is_none_or(|block| block.capacity() - block.len() < runs.len()) {
            self.blocks.push(Vec::with_capacity(runs.len().max(BLOCK)));
        }
        let number = self.blocks.len() - 1;
        let block = &mut self.blocks[number];
        let start = block.len() as u32;
        block.extend_from_slice(runs);
        let runs = start..block.len() as u32;
        self.functions.push(Encoded { shape, block: number as u32, runs, size, signal, key_b });
    }

    /// Reads a function.
    fn read(&self, encoded: &Encoded, function: &mut RunFunction) {
        let Encoded { block, ref runs, size, signal, key_b, .. } = *encoded;
        (function.size, function.signal, function.key_b) = (size, signal, key_b);
        function.runs.clear();
        let block = &self.blocks[block as usize];
        function.runs.extend_from_slice(&block[runs.start as usize..runs.end as usize]);
    }
}

/// What a part of a table was encoded from.
pub struct Part {
    /// Functions with numbers of runs.
    pub encoded: EncodedRuns,
    /// The runs, with numbers of rows.
    pub runs: CfiRuns,
    /// The rows.
    pub rows: CfiRows,
}

/// The rows that became the shapes of a table, which were encoded in several parts.
pub struct Evidence {
    parts: Vec<Part>,
    /// The functions that are compared.
    functions: Vec<Compared>,
}

/// A function, and the shape that it became in the table.
#[derive(Clone, Copy)]
struct Compared {
    part: u32,
    /// Its place in [`EncodedRuns::functions`].
    place: u32,
    shape: ShapeId,
}

impl Evidence {
    /// Chooses the functions that are compared. `numbers` are the numbers of each part's shapes in the table,
    /// and `origins` a part for each of these.
    pub fn new(parts: Vec<Part>, numbers: &[Vec<ShapeId>], origins: &[(usize, ShapeId)]) -> Self {
        let chosen = (0..parts.len()).into_par_iter();
        let chosen = chosen.flat_map_iter(|part| choose(part, &parts[part].encoded, &numbers[part], origins));
        let functions = chosen.collect();
        Self { parts, functions }
    }

    /// Gives shapes other numbers. `None`: the table does not have it.
    pub fn renumber(&mut self, numbers: &[Option<ShapeId>]) {
        self.functions.retain_mut(|function| {
            let number = numbers[function.shape.0 as usize];
            number.map(|number| function.shape = number).is_some()
        });
    }

    /// The shapes that do not say what an FDE says: each is decoded again and compared.
    pub fn wrong_shapes(&self, shapes: &WholeShapes) -> BTreeSet<ShapeId> {
        // Shapes are the same in every table.
        let bytes = shapes.to_bytes(0, &[], &[]).unwrap_or_default();
        let decoded = CompactTable::parse(&bytes[..], 0).ok();
        let comparison = decoded.as_ref().and_then(|table| Comparison::new(table).ok().flatten());
        let job = self.functions.len().div_ceil(rayon_core::current_num_threads()).max(FUNCTIONS);
        let wrong = self.functions.par_chunks(job).flat_map_iter(|some| {
            let rest = self.not_proven(shapes, comparison.as_ref(), some);
            if rest.is_empty() { Vec::new() } else { self.wrong_of(shapes, &rest) }
        });
        wrong.collect().into_iter().collect()
    }

    /// The functions whose shapes do not consist of their runs, or of more than one piece.
    fn not_proven(
        &self,
        shapes: &WholeShapes,
        comparison: Option<&Comparison<'_>>,
        some: &[Compared],
    ) -> Vec<Compared> {
        let Some(comparison) = comparison else { return some.to_vec() };
        let mut known = Known::default();
        let mut is_proven = |compared: &Compared| {
            let Some(place) = shapes.place_of(compared.shape) else { return false };
            let (function, lists, agreed) = known.read(&self.parts, compared);
            comparison.shape_says_same(place, function, lists, agreed).unwrap_or(false)
        };
        some.iter().filter(|compared| !is_proven(compared)).copied().collect()
    }

    /// The wrong ones among the shapes of some functions, of which a table is made.
    fn wrong_of(&self, shapes: &WholeShapes, some: &[Compared]) -> Vec<ShapeId> {
        // They lie behind one another.
        let mut at = 0;
        let place = |compared: &Compared| {
            let encoded = &self.parts[compared.part as usize].encoded.functions[compared.place as usize];
            let address = at;
            at += u64::from(encoded.size.max(1));
            PlacedFunction { address, shape: compared.shape, handler: None }
        };
        let placed: Vec<PlacedFunction> = some.iter().map(place).collect();
        let bytes = shapes.to_bytes(0, &[], &placed).unwrap_or_default();
        let decoded = CompactTable::parse(&bytes[..], 0).ok();
        match decoded.as_ref().and_then(|table| Comparison::new(table).ok().flatten()) {
            Some(comparison) => self.differing(&comparison, some, &placed),
            None => some.iter().map(|compared| compared.shape).collect(),
        }
    }

    /// The shapes of functions of which a table says something else.
    fn differing(
        &self,
        comparison: &Comparison<'_>,
        some: &[Compared],
        placed: &[PlacedFunction],
    ) -> Vec<ShapeId> {
        let mut known = Known::default();
        let mut says_same = |compared: &Compared, address| {
            let (function, lists, agreed) = known.read(&self.parts, compared);
            comparison.says_same_runs(address, function, lists, agreed).unwrap_or(false)
        };
        let pairs = some.iter().zip(placed);
        pairs.filter(|(one, at)| !says_same(one, at.address)).map(|(one, _)| one.shape).collect()
    }
}

/// What a job knows that compares functions with one table.
#[derive(Default)]
struct Known {
    /// The part of the last function, and what was found to be the same there.
    part: u32,
    agreed: AgreedRuns,
    function: RunFunction,
}

impl Known {
    /// A function, the runs and rows of its part, and what was found to be the same there.
    fn read<'k>(
        &'k mut self,
        parts: &'k [Part],
        compared: &Compared,
    ) -> (&'k RunFunction, (&'k CfiRuns, &'k CfiRows), &'k mut AgreedRuns) {
        let Self { part, agreed, function } = self;
        if compared.part != *part {
            (*part, *agreed) = (compared.part, AgreedRuns::default());
        }
        let Part { encoded, runs, rows } = &parts[compared.part as usize];
        encoded.read(&encoded.functions[compared.place as usize], function);
        (function, (runs, rows), agreed)
    }
}

/// Chooses the functions of a part: those of the shapes that originate there, and others with runs that these
/// do not have.
fn choose(
    part: usize,
    runs: &EncodedRuns,
    numbers: &[ShapeId],
    origins: &[(usize, ShapeId)],
) -> Vec<Compared> {
    let (mut chosen, mut others) = (Vec::with_capacity(runs.functions.len()), Vec::new());
    let (mut met, mut function, mut last) = (Met::default(), RunFunction::default(), None);
    for (place, encoded) in (0..).zip(&runs.functions) {
        // A shape that no function has in the end is not in the table.
        let shape = numbers[encoded.shape.0 as usize];
        let Some(&origin) = origins.get(shape.0 as usize) else { continue };
        let compared = Compared { part: part as u32, place, shape };
        // The first function of a shape was noted when it got its number, and numbers ascend.
        let is_first = last.is_none_or(|last| last < encoded.shape);
        if is_first && origin == (part, encoded.shape) {
            runs.read(encoded, &mut function);
            met.add(&function);
            chosen.push(compared);
        } else {
            others.push(compared);
        }
        last = last.max(Some(encoded.shape));
    }
    for compared in others {
        runs.read(&runs.functions[compared.place as usize], &mut function);
        if met.add(&function) {
            chosen.push(compared);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::{EncodedRuns, Evidence, Part};
    use sframe_format::Abi;
    use sframe_format::cfi::{CfiFunction, CfiRow, CfiRows, CfiRuns, NumberedFunction, RunFunction, Saved};
    use sframe_format::compact::{Added, Builder, InTurn, ShapeId, WholeShapes, join};

    /// A function of 20 bytes that saves a register after so many bytes.
    fn function(after: u32) -> CfiFunction {
        let row = |start, cfa_offset| CfiRow {
            start,
            cfa_register: 7,
            cfa_offset,
            saved: vec![(3, Saved::AtCfa(-cfa_offset)), (16, Saved::AtCfa(-8))],
            ..CfiRow::default()
        };
        CfiFunction { size: 20, rows: vec![row(0, 8), row(after, 16)], ..CfiFunction::default() }
    }

    /// What a thread knows.
    struct Reader {
        builder: Builder,
        part: Part,
    }

    impl Reader {
        fn new() -> Self {
            let (encoded, runs, rows) = (EncodedRuns::default(), CfiRuns::default(), CfiRows::default());
            Self { builder: Builder::whole(Abi::Amd64), part: Part { encoded, runs, rows } }
        }

        /// Encodes a function, and notes it as `change` makes it.
        fn add(
            &mut self,
            function: &CfiFunction,
            change: impl FnOnce(&mut NumberedFunction, &mut CfiRows),
        ) -> ShapeId {
            let Self { builder, part: Part { encoded, runs, rows } } = self;
            let (mut numbered, mut read) = (rows.numbered(function), RunFunction::default());
            assert!(runs.read(Abi::Amd64, &numbered, &mut read));
            let added = builder.add_runs(&read, runs, rows).expect("it has a form");
            change(&mut numbered, rows);
            let mut changed = RunFunction::default();
            assert!(runs.read(Abi::Amd64, &numbered, &mut changed));
            // A builder does not know runs that it did not get.
            let has_known_runs = added.has_known_runs && changed == read;
            encoded.note(Added { has_known_runs, ..added }, &changed);
            added.shape
        }
    }

    /// The shapes of a table of these parts that say something else.
    fn wrong_of(readers: Vec<Reader>, uses: Vec<(usize, ShapeId)>) -> Vec<u32> {
        let (builders, parts): (Vec<_>, Vec<_>) =
            readers.into_iter().map(|reader| (reader.builder, reader.part)).unzip();
        let joined = join(&builders, uses, &InTurn).expect("there are parts");
        let evidence = Evidence::new(parts, &joined.numbers, &joined.origins);
        let shapes = WholeShapes::new(joined.collected).expect("there is room");
        evidence.wrong_shapes(&shapes).into_iter().map(|ShapeId(number)| number).collect()
    }

    /// Two parts, the second of which has the last function of the first once more. `change` alters what is
    /// noted of a function, by part and place.
    fn wrong(change: impl Fn(usize, usize, &mut NumberedFunction)) -> Vec<u32> {
        let (mut readers, mut uses) = (Vec::new(), Vec::new());
        for (part, functions) in [[1, 2, 3], [3, 4, 5]].into_iter().enumerate() {
            let mut reader = Reader::new();
            for (place, after) in functions.into_iter().enumerate() {
                let shape = reader.add(&function(after), |numbered, _| change(part, place, numbered));
                uses.push((part, shape));
            }
            readers.push(reader);
        }
        wrong_of(readers, uses)
    }

    #[test]
    fn a_shape_that_says_something_else_is_found() {
        assert!(wrong(|_, _, _| {}).is_empty());
        let at = |part, place| {
            move |of, at, function: &mut NumberedFunction| {
                if (of, at) == (part, place) {
                    function.rows[1].0 += 1;
                }
            }
        };
        assert_eq!(wrong(at(0, 1)), [1]);
        assert_eq!(wrong(at(1, 1)), [3]);
        // The shape is that of the first part.
        assert!(wrong(at(1, 0)).is_empty());
        assert_eq!(wrong(|_, place, function| function.signal |= place == 2), [2, 4]);
        assert_eq!(wrong(|_, _, function| function.rows[0].1 = function.rows[1].1), [0, 1, 2, 3, 4]);
        // The first one's shape is that of the first part, but no other function of the second has its run.
        assert_eq!(wrong(|part, _, function| function.size -= part as u32), [2, 3, 4]);
    }

    /// An encoder that took two rows for one would give their functions one shape. Only the first one's rows
    /// are those of the shape.
    #[test]
    fn rows_that_share_a_shape_are_all_compared() {
        for (parts, differs) in [(1, true), (2, true), (1, false), (2, false)] {
            let other = CfiRow { cfa_register: 6, ..function(1).rows[1].clone() };
            let (mut readers, mut uses) = (Vec::from([Reader::new()]), Vec::new());
            for place in 0..2 {
                if place == 1 && parts == 2 {
                    readers.push(Reader::new());
                }
                let number = readers.len() - 1;
                let shape = readers[number].add(&function(1), |numbered, rows| {
                    if place == 1 && differs {
                        numbered.rows[1].1 = rows.number(&other);
                    }
                });
                uses.push((number, shape));
            }
            assert_eq!(!wrong_of(readers, uses).is_empty(), differs, "{parts}");
        }
    }
}
