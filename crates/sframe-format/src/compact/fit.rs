//! Which functions stay out of a table of version 2 that has no room for the layouts of all.
//!
//! Rules name layouts by two bytes, so 64 KiB of them have room. Programs need some kilobytes. But a function
//! may save its registers in as many different places as it has instructions, and a few such functions would
//! leave no room for any other. So those that need most are left out.

use alloc::vec::Vec;

use super::build::Builder;
use super::collected::{Collected, pairs_of, runs_of};
use super::functions::{ShapeId, Stretch};
use super::row_rules::{NO_ROW, RowRules, number};
use super::shape::{COVERED_BITS, ENDS};

/// Bytes of layouts that every table has room for. Places of layouts take two bytes.
const ROOM: usize = 1 << 16;

impl Collected {
    /// Leaves out functions of version 2 until the layouts of the others have room, first those that need
    /// most. Returns the new numbers of functions by their old ones: `None` for those that were left out.
    /// If all have room, nothing changes, and there is nothing to return.
    pub fn fit(&mut self) -> Option<Vec<Option<ShapeId>>> {
        let size = |layout| self.layouts.get(layout).len();
        let all = self.layouts.len() as u32;
        let last_start: usize = (0..all.saturating_sub(1)).map(size).sum();
        if last_start < ROOM {
            return None;
        }
        let functions = self.functions.len() as u32;
        let needs = |function| (self.layouts_of(function).into_iter().map(size).sum::<usize>(), function);
        let mut order: Vec<(usize, u32)> = (0..functions).map(needs).collect();
        order.sort_unstable();
        // The layout without registers is in every table.
        let (mut has, mut left) = (alloc::vec![false; all as usize], ROOM - size(0));
        has[0] = true;
        let mut fits = alloc::vec![false; functions as usize];
        for (_, function) in order {
            let mut new = self.layouts_of(function);
            new.retain(|&layout| !has[layout as usize]);
            let Some(rest) = left.checked_sub(new.iter().copied().map(size).sum()) else { continue };
            left = rest;
            new.into_iter().for_each(|layout| has[layout as usize] = true);
            fits[function as usize] = true;
        }
        let mut fitting = Builder::whole(self.abi);
        let numbers = (0..functions).map(|function| fits[function as usize].then_some(function));
        let numbers = numbers.map(|function| Some(fitting.copy(self, function?))).collect();
        *self = fitting.into();
        Some(numbers)
    }

    /// The numbers of the layouts that the rows of a function have.
    fn layouts_of(&self, function: u32) -> Vec<u32> {
        let shapes = self.functions.get(function).map(|stretch| self.shapes.get(stretch.shape));
        let steps = shapes.flat_map(runs_of).flat_map(|&run| self.runs.get(run));
        let rules = steps.filter_map(|step| (step >> COVERED_BITS).checked_sub(1));
        let mut layouts: Vec<u32> = rules.map(|rule| self.rules[rule as usize].layout).collect();
        layouts.sort_unstable();
        layouts.dedup();
        layouts
    }
}

impl Builder {
    /// Adds a function that was collected, and nothing that it does not need.
    fn copy(&mut self, other: &Collected, function: u32) -> ShapeId {
        self.stretches.clear();
        for stretch in other.functions.get(function) {
            let shape = other.shapes.get(stretch.shape);
            let pairs = pairs_of(shape);
            let mut copied = shape[..shape.len() - pairs.len()].to_vec();
            for pair in pairs.chunks_exact(2) {
                self.run.clear();
                for &step in other.runs.get(pair[0]) {
                    let rule = self.copy_rule(other, step >> COVERED_BITS);
                    self.run.push(rule << COVERED_BITS | step & ENDS);
                }
                copied.extend([self.runs.intern(&self.run).0, pair[1]]);
            }
            self.stretches.push(Stretch { shape: self.shapes.intern(&copied).0, ..stretch });
        }
        self.take()
    }

    fn copy_rule(&mut self, other: &Collected, rule: u32) -> u32 {
        let Some(place) = rule.checked_sub(1) else { return NO_ROW };
        let RowRules { rules, layout } = other.rules[place as usize];
        let layout = self.layouts.intern(other.layouts.get(layout)).0;
        number(&mut self.rules, &mut self.numbers, RowRules { rules, layout })
    }
}

#[cfg(test)]
mod tests {
    use crate::abi::Abi;
    use crate::cfi::{CfiFunction, CfiRow, CfiRows, Saved};
    use crate::compact::{Builder, Collected, ShapeId, WholeShapes};
    use alloc::vec::Vec;

    /// A function that saves a register in so many places, from the `first` on. Each layout has 8 bytes.
    fn function(first: u32, places: u32) -> CfiFunction {
        let row = |start: u32| CfiRow {
            start,
            cfa_register: 7,
            cfa_offset: 8,
            saved: [(3, Saved::AtCfa(-4096 - 8 * i64::from(first + start))), (16, Saved::AtCfa(-8))].into(),
            ..CfiRow::default()
        };
        CfiFunction { size: places, rows: (0..places).map(row).collect(), ..CfiFunction::default() }
    }

    fn fitted(functions: &[CfiFunction]) -> (Collected, Option<Vec<Option<ShapeId>>>) {
        let (mut builder, mut rows) = (Builder::whole(Abi::Amd64), CfiRows::default());
        for function in functions {
            builder.add_whole(&rows.numbered(function), &rows).expect("it has a form");
        }
        let mut collected = Collected::from(builder);
        let numbers = collected.fit();
        (collected, numbers)
    }

    #[test]
    fn functions_that_need_most_layouts_are_left_out() {
        let own = 8190;
        for (many, is_left) in [(1, false), (own, false), (own + 3, true), (9000, true)] {
            let (collected, numbers) = fitted(&[function(0, many), function(20_000, 1), function(20_000, 2)]);
            let is_out = numbers.map(|numbers| numbers.iter().map(Option::is_none).collect::<Vec<bool>>());
            assert_eq!(is_out, is_left.then(|| [true, false, false].into()), "{many}");
            assert!(WholeShapes::new(collected).is_ok());
        }
    }

    #[test]
    fn what_fits_is_as_if_nothing_else_had_been_added() {
        let small = [function(20_000, 3), function(0, 5), function(20_000, 2)];
        let all = [&[function(0, 9000)], &small[..], &[function(9000, 9000)]].concat();
        let (fitting, numbers) = fitted(&all);
        assert_eq!(numbers, Some([None, Some(0), Some(1), Some(2), None].map(|it| it.map(ShapeId)).into()));
        let (alone, _) = fitted(&small);
        assert_eq!(alloc::format!("{:?}", fitting.rules), alloc::format!("{:?}", alone.rules));
        let bytes = |collected: Collected| {
            let placed = (0..3).map(|number| super::super::PlacedFunction {
                address: u64::from(number) * 16,
                shape: ShapeId(number),
                handler: None,
            });
            let placed: Vec<_> = placed.collect();
            WholeShapes::new(collected).unwrap().to_bytes(0, &[], &placed).unwrap()
        };
        assert_eq!(bytes(fitting), bytes(alone));
    }
}
