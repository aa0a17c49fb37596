//! Whether an unwind table says what the FDEs say that are to leave `.eh_frame` for it.
//!
//! Each shape was encoded from the rows of an FDE. These rows are kept until the table of all shapes is
//! written and decoded again, and then held against it: every register in every row. Functions with equal
//! rows share a shape, so one comparison holds for all of them.

use parallel::ParallelSlice;
use sframe_format::CompactTable;
use sframe_format::cfi::{CfiRows, NumberedFunction};
use sframe_format::compact::{Agreed, Comparison, PlacedFunction, ShapeId, WholeShapes};
use std::collections::BTreeSet;

/// The least number of shapes that one job compares. Jobs do not share what they know, so each should be as
/// large as the number of threads allows.
const SHAPES: usize = 4096;

/// The rows that became the shapes of one builder.
#[derive(Default)]
pub struct EncodedRows {
    /// The rows of all shapes, one after the other: where each starts, and its number.
    rows: Vec<(u32, u32)>,
    /// By number of the shape.
    shapes: Vec<EncodedShape>,
}

/// What became a shape.
struct EncodedShape {
    /// Where its rows end in the list of all.
    end: usize,
    size: u32,
    signal: bool,
    key_b: bool,
}

impl EncodedRows {
    /// Notes what became a shape, unless it is known: numbers of shapes ascend by one.
    pub fn note(&mut self, shape: ShapeId, function: &NumberedFunction) {
        if shape.0 as usize == self.shapes.len() {
            self.rows.extend_from_slice(&function.rows);
            let NumberedFunction { size, signal, key_b, .. } = *function;
            self.shapes.push(EncodedShape { end: self.rows.len(), size, signal, key_b });
        }
    }

    /// The number of shapes.
    pub fn len(&self) -> usize {
        self.shapes.len()
    }

    /// Reads a shape's rows into `function`.
    fn read(&self, shape: usize, function: &mut NumberedFunction) {
        let EncodedShape { end, size, signal, key_b } = self.shapes[shape];
        let start = if shape == 0 { 0 } else { self.shapes[shape - 1].end };
        (function.size, function.signal, function.key_b) = (size, signal, key_b);
        function.rows.clear();
        function.rows.extend_from_slice(&self.rows[start..end]);
    }
}

/// The rows that became the shapes of a table, which were encoded in several parts.
#[derive(Default)]
pub struct Evidence {
    parts: Vec<(EncodedRows, CfiRows)>,
    /// By number of the shape: the part that had it first, and its number there.
    shapes: Vec<(usize, usize)>,
}

impl Evidence {
    /// Adds a part. `shape_of` has the numbers of its shapes among those of all parts.
    pub fn add(&mut self, rows: EncodedRows, numbers: CfiRows, shape_of: impl Iterator<Item = ShapeId>) {
        for (own, shape) in shape_of.enumerate() {
            if shape.0 as usize == self.shapes.len() {
                self.shapes.push((self.parts.len(), own));
            }
        }
        self.parts.push((rows, numbers));
    }

    /// Gives shapes other numbers, which ascend. `None`: the table does not have it.
    pub fn renumber(&mut self, numbers: &[Option<ShapeId>]) {
        let mut numbers = numbers.iter();
        self.shapes.retain(|_| numbers.next().is_some_and(Option::is_some));
    }

    /// The shapes that do not say what an FDE says: each is decoded again and compared.
    pub fn wrong_shapes(&self, shapes: &WholeShapes) -> BTreeSet<ShapeId> {
        // One function of each shape, behind one another.
        let mut at = 0;
        let placed = self.shapes.iter().zip(0..).map(|(&(part, own), number)| {
            let address = at;
            at += u64::from(self.parts[part].0.shapes[own].size.max(1));
            PlacedFunction { address, shape: ShapeId(number), handler: None }
        });
        let placed: Vec<PlacedFunction> = placed.collect();
        let bytes = shapes.to_bytes(0, &[], &placed).unwrap_or_default();
        let decoded = CompactTable::parse(&bytes[..], 0).ok();
        let comparison = decoded.as_ref().and_then(|table| Comparison::new(table).ok().flatten());
        let Some(comparison) = comparison else {
            return placed.iter().map(|function| function.shape).collect();
        };
        let job = placed.len().div_ceil(rayon_core::current_num_threads()).max(SHAPES);
        let wrong = placed.par_chunks(job).flat_map_iter(|placed| self.wrong_of(&comparison, placed));
        wrong.collect().into_iter().collect()
    }

    /// The wrong ones among some shapes.
    fn wrong_of(&self, comparison: &Comparison<'_>, placed: &[PlacedFunction]) -> Vec<ShapeId> {
        let mut function = NumberedFunction::default();
        let (mut of_part, mut agreed) = (0, Agreed::default());
        let mut says_same = |placed: &PlacedFunction| {
            let (part, own) = self.shapes[placed.shape.0 as usize];
            if part != of_part {
                (of_part, agreed) = (part, Agreed::default());
            }
            let (rows, numbers) = &self.parts[part];
            rows.read(own, &mut function);
            comparison.says_same(placed.address, &function, numbers, &mut agreed).unwrap_or(false)
        };
        placed.iter().filter(|placed| !says_same(placed)).map(|placed| placed.shape).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{EncodedRows, Evidence};
    use sframe_format::Abi;
    use sframe_format::cfi::{CfiFunction, CfiRow, CfiRows, NumberedFunction, Saved};
    use sframe_format::compact::{Builder, ShapeId, WholeShapes};

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
        let (mut all, mut evidence) = (Builder::whole(Abi::Amd64), Evidence::default());
        for (part, functions) in [[1, 2, 3], [3, 4, 5]].into_iter().enumerate() {
            let mut builder = Builder::whole(Abi::Amd64);
            let (mut rows, mut encoded) = (CfiRows::default(), EncodedRows::default());
            for (place, after) in functions.into_iter().enumerate() {
                let mut numbered = rows.numbered(&function(after));
                let shape = builder.add_whole(&numbered, &rows).expect("it has a form");
                change(part, place, &mut numbered);
                encoded.note(shape, &numbered);
            }
            evidence.add(encoded, rows, all.append(&builder).into_iter());
        }
        let shapes = WholeShapes::new(all).expect("there is room");
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
}
