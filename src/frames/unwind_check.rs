//! Whether an unwind table says what the FDEs say that are to leave `.eh_frame` for it.
//!
//! Each shape was encoded from the rows of an FDE. These rows are kept until the table of all shapes is
//! written and decoded again, and then held against it: every register in every row. That is done for one FDE
//! of each shape, and for others until each different row was compared. So it holds for all FDEs: if two of
//! one shape said different things, their rows would differ somewhere, and both were found to say what the
//! rule of that place says.

use parallel::{IntoParallel, ParallelSlice};
use sframe_format::CompactTable;
use sframe_format::cfi::{CfiRows, NumberedFunction};
use sframe_format::compact::{Agreed, Comparison, PlacedFunction, ShapeId, WholeShapes};
use std::collections::BTreeSet;
use std::ops::Range;

/// The least number of functions that one job compares. Jobs do not share what they know, so each should be
/// as large as the number of threads allows.
const FUNCTIONS: usize = 4096;

/// Rows that a block of [`EncodedRows`] has room for. A list that grows would be copied again and again.
const BLOCK: usize = 1 << 15;

/// The rows that became the shapes of one builder.
#[derive(Default)]
pub struct EncodedRows {
    /// The rows of functions, one after the other: where each starts, and its number. A function's rows are
    /// in one block.
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
    /// Where its rows are.
    block: u32,
    rows: Range<u32>,
    size: u32,
    signal: bool,
    key_b: bool,
}

/// Which rows were met in functions of each kind: a bit for each kind, by number of the row.
#[derive(Default)]
struct Met(Vec<u8>);

impl Met {
    /// Notes the rows of a function. Returns whether one of them was not met before.
    fn add(&mut self, function: &NumberedFunction) -> bool {
        let kind = 1 << function.kind();
        let mut is_new = false;
        for &(_, row) in &function.rows {
            if self.0.len() <= row as usize {
                self.0.resize(row as usize + 1, 0);
            }
            let kinds = &mut self.0[row as usize];
            is_new |= *kinds & kind == 0;
            *kinds |= kind;
        }
        is_new
    }
}

impl EncodedRows {
    /// Notes a function that became a shape, unless its shape and all of its rows are known. Numbers of
    /// shapes ascend by one.
    pub fn note(&mut self, shape: ShapeId, function: &NumberedFunction) {
        let is_new = shape.0 == self.shapes;
        self.shapes += u32::from(is_new);
        if !self.met.add(function) && !is_new {
            return;
        }
        let NumberedFunction { size, signal, key_b, ref rows } = *function;
        if self.blocks.last().is_none_or(|block| block.capacity() - block.len() < rows.len()) {
            self.blocks.push(Vec::with_capacity(rows.len().max(BLOCK)));
        }
        let number = self.blocks.len() - 1;
        let block = &mut self.blocks[number];
        let start = block.len() as u32;
        block.extend_from_slice(rows);
        let rows = start..block.len() as u32;
        self.functions.push(Encoded { shape, block: number as u32, rows, size, signal, key_b });
    }

    /// Reads a function.
    fn read(&self, encoded: &Encoded, function: &mut NumberedFunction) {
        let Encoded { block, ref rows, size, signal, key_b, .. } = *encoded;
        (function.size, function.signal, function.key_b) = (size, signal, key_b);
        function.rows.clear();
        let block = &self.blocks[block as usize];
        function.rows.extend_from_slice(&block[rows.start as usize..rows.end as usize]);
    }
}

/// The rows that became the shapes of a table, which were encoded in several parts.
pub struct Evidence {
    parts: Vec<(EncodedRows, CfiRows)>,
    /// The functions that are compared.
    functions: Vec<Compared>,
}

/// A function, and the shape that it became in the table.
#[derive(Clone, Copy)]
struct Compared {
    part: u32,
    /// Its place in [`EncodedRows::functions`].
    place: u32,
    shape: ShapeId,
}

impl Evidence {
    /// Chooses the functions that are compared. `numbers` are the numbers of each part's shapes in the table,
    /// and `origins` a part for each of these.
    pub fn new(
        parts: Vec<(EncodedRows, CfiRows)>,
        numbers: &[Vec<ShapeId>],
        origins: &[(usize, ShapeId)],
    ) -> Self {
        let chosen = (0..parts.len()).into_par_iter();
        let chosen = chosen.flat_map_iter(|part| choose(part, &parts[part].0, &numbers[part], origins));
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
        let job = self.functions.len().div_ceil(rayon_core::current_num_threads()).max(FUNCTIONS);
        let wrong = self.functions.par_chunks(job).flat_map_iter(|some| self.wrong_of(shapes, some));
        wrong.collect().into_iter().collect()
    }

    /// The wrong ones among the shapes of some functions.
    fn wrong_of(&self, shapes: &WholeShapes, some: &[Compared]) -> Vec<ShapeId> {
        // They lie behind one another.
        let mut at = 0;
        let place = |compared: &Compared| {
            let encoded = &self.parts[compared.part as usize].0.functions[compared.place as usize];
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
        let mut function = NumberedFunction::default();
        let (mut of_part, mut agreed) = (0, Agreed::default());
        let mut says_same = |compared: &Compared, address| {
            if compared.part != of_part {
                (of_part, agreed) = (compared.part, Agreed::default());
            }
            let (rows, numbers) = &self.parts[compared.part as usize];
            rows.read(&rows.functions[compared.place as usize], &mut function);
            comparison.says_same(address, &function, numbers, &mut agreed).unwrap_or(false)
        };
        let pairs = some.iter().zip(placed);
        pairs.filter(|(one, at)| !says_same(one, at.address)).map(|(one, _)| one.shape).collect()
    }
}

/// Chooses the functions of a part: those of the shapes that originate there, and others with rows that these
/// do not have.
fn choose(
    part: usize,
    rows: &EncodedRows,
    numbers: &[ShapeId],
    origins: &[(usize, ShapeId)],
) -> Vec<Compared> {
    let (mut chosen, mut others) = (Vec::with_capacity(rows.functions.len()), Vec::new());
    let (mut met, mut function, mut last) = (Met::default(), NumberedFunction::default(), None);
    for (place, encoded) in (0..).zip(&rows.functions) {
        // A shape that no function has in the end is not in the table.
        let shape = numbers[encoded.shape.0 as usize];
        let Some(&origin) = origins.get(shape.0 as usize) else { continue };
        let compared = Compared { part: part as u32, place, shape };
        // The first function of a shape was noted when it got its number, and numbers ascend.
        let is_first = last.is_none_or(|last| last < encoded.shape);
        if is_first && origin == (part, encoded.shape) {
            rows.read(encoded, &mut function);
            met.add(&function);
            chosen.push(compared);
        } else {
            others.push(compared);
        }
        last = last.max(Some(encoded.shape));
    }
    for compared in others {
        rows.read(&rows.functions[compared.place as usize], &mut function);
        if met.add(&function) {
            chosen.push(compared);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::{EncodedRows, Evidence};
    use sframe_format::Abi;
    use sframe_format::cfi::{CfiFunction, CfiRow, CfiRows, NumberedFunction, Saved};
    use sframe_format::compact::{Builder, InTurn, ShapeId, WholeShapes, join};

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

    /// Two parts, the second of which has the last function of the first once more. `change` alters what is
    /// noted of a function, by part and place.
    fn wrong(change: impl Fn(usize, usize, &mut NumberedFunction)) -> Vec<u32> {
        let (mut builders, mut evidence, mut uses) = (Vec::new(), Vec::new(), Vec::new());
        for (part, functions) in [[1, 2, 3], [3, 4, 5]].into_iter().enumerate() {
            let mut builder = Builder::whole(Abi::Amd64);
            let (mut rows, mut encoded) = (CfiRows::default(), EncodedRows::default());
            for (place, after) in functions.into_iter().enumerate() {
                let mut numbered = rows.numbered(&function(after));
                let shape = builder.add_whole(&numbered, &rows).expect("it has a form");
                change(part, place, &mut numbered);
                encoded.note(shape, &numbered);
                uses.push((part, shape));
            }
            builders.push(builder);
            evidence.push((encoded, rows));
        }
        let joined = join(&builders, uses, &InTurn).expect("there are two");
        let evidence = Evidence::new(evidence, &joined.numbers, &joined.origins);
        let shapes = WholeShapes::new(joined.collected).expect("there is room");
        evidence.wrong_shapes(&shapes).into_iter().map(|ShapeId(number)| number).collect()
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
        assert_eq!(wrong(|part, _, function| function.size -= part as u32), [3, 4]);
    }

    /// An encoder that took two rows for one would give their functions one shape. Only the first one's rows
    /// are those of the shape.
    #[test]
    fn rows_that_share_a_shape_are_all_compared() {
        for (parts, differs) in [(1, true), (2, true), (1, false), (2, false)] {
            let other = CfiRow { cfa_register: 6, ..function(1).rows[1].clone() };
            let (mut builders, mut evidence, mut uses) = (Vec::new(), Vec::new(), Vec::new());
            let mut at = (Builder::whole(Abi::Amd64), CfiRows::default(), EncodedRows::default());
            for place in 0..2 {
                if place == 1 && parts == 2 {
                    let part = std::mem::replace(
                        &mut at,
                        (Builder::whole(Abi::Amd64), CfiRows::default(), EncodedRows::default()),
                    );
                    builders.push(part.0);
                    evidence.push((part.2, part.1));
                }
                let (builder, rows, encoded) = &mut at;
                let mut numbered = rows.numbered(&function(1));
                let shape = builder.add_whole(&numbered, rows).expect("it has a form");
                if place == 1 && differs {
                    numbered.rows[1].1 = rows.number(&other);
                }
                encoded.note(shape, &numbered);
                uses.push((builders.len(), shape));
            }
            builders.push(at.0);
            evidence.push((at.2, at.1));
            let joined = join(&builders, uses, &InTurn).expect("there are parts");
            let evidence = Evidence::new(evidence, &joined.numbers, &joined.origins);
            let shapes = WholeShapes::new(joined.collected).expect("there is room");
            assert_eq!(!evidence.wrong_shapes(&shapes).is_empty(), differs, "{parts}");
        }
    }
}
