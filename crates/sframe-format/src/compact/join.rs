//! Joins what several builders hold, as if one had got all of their functions in order.
//!
//! Threads read functions side by side, each into a builder of its own. Rules, layouts and runs are few, and
//! are put together one builder after the other. Shapes are many, a hundred thousand in a compiler, and
//! builders have many in common. So all that is costly about them is done side by side, too:
//!
//! 1. each builder's shapes get common numbers of runs, and hashes;
//! 2. each job finds the equal ones among the shapes with its share of all hashes.
//!
//! Which builder got a function is up to the threads, and must not show. So all numbers are given anew in the
//! end, to functions in the order of their uses, and to whatever else by what was numbered before it.

use alloc::vec::Vec;

use super::build::Builder;
use super::collected::{Collected, pairs_in};
use super::functions::{Functions, ShapeId, Stretch};
use super::intern::{Numbers, Words, hash};
use super::row_rules::{NO_ROW, RowRules, number};
use super::shape::{COVERED_BITS, ENDS};

/// The most shares of hashes that there are, and how many there are for each builder. What comes out does not
/// depend on it.
const MOST_SHARES: usize = 16;
const SHARES: usize = 2;
/// The first bit of a hash that tells its share: [`Numbers`] uses those at both ends.
const SHARE_BIT: u32 = 21;
/// Stands for no number.
const NONE: u32 = u32::MAX;

/// Does work side by side, if it can.
pub trait SideBySide {
    /// What `make` makes of all numbers below `count`, in their order.
    fn map<R: Send>(&self, count: usize, make: impl Fn(usize) -> R + Sync) -> Vec<R>;
}

/// Does work on one thread.
#[derive(Clone, Copy, Debug)]
pub struct InTurn;

impl SideBySide for InTurn {
    fn map<R: Send>(&self, count: usize, make: impl Fn(usize) -> R + Sync) -> Vec<R> {
        (0..count).map(make).collect()
    }
}

/// The functions of several builders.
#[derive(Debug)]
pub struct Joined {
    /// All functions. Each has the number that it would have if one builder had got all of them in order.
    pub collected: Collected,
    /// By place of a builder, and then by a number that it gave: the number in `collected`. Functions without
    /// a use are not there, and have a number that was not given.
    pub numbers: Vec<Vec<ShapeId>>,
    /// By number in `collected`: a builder that has the function, and the number that it gave.
    pub origins: Vec<(usize, ShapeId)>,
}

/// Joins builders, which are for one machine and one version. `uses` are their functions in order: the place
/// of a builder, and a number that it gave. `None`: there is no builder.
pub fn join(
    parts: &[Builder],
    uses: impl IntoIterator<Item = (usize, ShapeId)>,
    work: &impl SideBySide,
) -> Option<Joined> {
    let first = parts.first()?;
    let mut all = Builder::of_version(first.abi, first.version);
    let run_of: Vec<Vec<u32>> = parts.iter().map(|part| all.append_runs(part)).collect();
    let renumbered = work.map(parts.len(), |part| renumber(parts[part].shapes.words(), &run_of[part]));
    let starts = starts_of(&renumbered);
    // A builder has no shape twice.
    let shares = if parts.len() > 1 { (SHARES * parts.len()).min(MOST_SHARES) } else { 0 };
    let repeated = work.map(shares, |share| repeated(&renumbered, &starts, (share, shares)));
    let count: usize = renumbered.iter().map(|part| part.hashes.len()).sum();
    let mut first_of: Vec<u32> = (0..count as u32).collect();
    repeated.into_iter().flatten().for_each(|(place, first)| first_of[place as usize] = first);
    Some(Numbering::new(all, &renumbered, &starts, first_of).number_functions(parts, uses))
}

impl Builder {
    /// Adds the layouts, rules and runs of another builder. Returns the numbers of its runs here.
    fn append_runs(&mut self, other: &Self) -> Vec<u32> {
        let layouts = other.layouts.words().iter();
        let layout_of: Vec<u32> = layouts.map(|layout| self.layouts.intern(layout).0).collect();
        let (rules, numbers) = (&mut self.rules, &mut self.numbers);
        let mut rule_of = Vec::from([NO_ROW]);
        rule_of.extend(other.rules.iter().map(|&RowRules { rules: found, layout }| {
            let layout = layout_of.get(layout as usize).copied().unwrap_or(0);
            number(rules, numbers, RowRules { rules: found, layout })
        }));
        let step = |&step: &u32| rule_of[(step >> COVERED_BITS) as usize] << COVERED_BITS | step & ENDS;
        let run = |run: &[u32]| {
            self.run.clear();
            self.run.extend(run.iter().map(step));
            self.runs.intern(&self.run).0
        };
        other.runs.words().iter().map(run).collect()
    }
}

/// A builder's shapes with common numbers of runs, and their hashes.
struct Renumbered {
    shapes: Words,
    hashes: Vec<u32>,
}

/// Gives a builder's shapes common numbers of runs.
fn renumber(shapes: &Words, run_of: &[u32]) -> Renumbered {
    let (mut renumbered, mut hashes) = (Words::default(), Vec::with_capacity(shapes.len()));
    renumbered.reserve(shapes.len(), shapes.total());
    let mut words = Vec::new();
    for shape in shapes.iter() {
        words.clear();
        words.extend_from_slice(shape);
        for [run, _] in pairs_in(&mut words) {
            *run = run_of[*run as usize];
        }
        hashes.push(hash(&words));
        renumbered.push_slice(&words);
    }
    Renumbered { shapes: renumbered, hashes }
}

/// The place of each builder's first shape among those of all.
fn starts_of(parts: &[Renumbered]) -> Vec<u32> {
    let start = |next: &mut u32, part: &Renumbered| {
        let start = *next;
        *next += part.hashes.len() as u32;
        Some(start)
    };
    parts.iter().scan(0, start).collect()
}

/// The shape at a place among those of all builders.
fn shape_at<'p>(parts: &'p [Renumbered], starts: &[u32], place: u32) -> &'p [u32] {
    let part = starts.partition_point(|&start| start <= place) - 1;
    parts[part].shapes.get(place - starts[part])
}

/// The shapes that are equal to one before them, among those with a share of all hashes: their places among
/// all shapes, and the place of the first one that is equal.
fn repeated(parts: &[Renumbered], starts: &[u32], (share, shares): (usize, usize)) -> Vec<(u32, u32)> {
    let (mut firsts, mut repeated) = (Numbers::default(), Vec::new());
    firsts.reserve(parts.iter().map(|part| part.hashes.len()).max().unwrap_or(0) / shares);
    for (part, &start) in parts.iter().zip(starts) {
        let hashes = (0..).zip(&part.hashes);
        let own = hashes.filter(|&(_, hash)| (hash >> SHARE_BIT) as usize % shares == share);
        for (number, &hash) in own {
            let shape = part.shapes.get(number);
            match firsts.find(hash, |place| shape_at(parts, starts, place) == shape) {
                Some(first) => repeated.push((start + number, first)),
                None => firsts.add(hash, start + number),
            }
        }
    }
    repeated
}

/// Gives numbers by use.
struct Numbering<'p> {
    /// The layouts, rules and runs, with common numbers.
    all: Builder,
    shapes: &'p [Renumbered],
    starts: &'p [u32],
    /// By place of a shape: the place of the first one that is equal.
    first_of: Vec<u32>,
    /// The numbers of what was numbered, by place or common number; else [`NONE`].
    shape_of: Vec<u32>,
    run_of: Vec<u32>,
    rule_of: Vec<u32>,
    layout_of: Vec<u32>,
    /// Memory for a shape.
    words: Vec<u32>,
    collected: Collected,
}

impl<'p> Numbering<'p> {
    fn new(all: Builder, shapes: &'p [Renumbered], starts: &'p [u32], first_of: Vec<u32>) -> Self {
        let none = |count: usize| alloc::vec![NONE; count];
        let (shape_of, run_of) = (none(first_of.len()), none(all.runs.words().len()));
        let (mut rule_of, layout_of) = (none(all.rules.len() + 1), none(all.layouts.words().len()));
        rule_of[NO_ROW as usize] = NO_ROW;
        let Builder { abi, version, .. } = all;
        let mut collected = Collected::from(Builder::of_version(abi, version));
        collected.shapes.reserve(first_of.len(), shapes.iter().map(|part| part.shapes.total()).sum());
        let words = Vec::new();
        let mut numbering =
            Self { all, shapes, starts, first_of, shape_of, run_of, rule_of, layout_of, words, collected };
        // The layout without registers.
        if !numbering.layout_of.is_empty() {
            numbering.layout(0);
        }
        numbering
    }

    /// Numbers all functions that are used.
    fn number_functions(
        mut self,
        parts: &[Builder],
        uses: impl IntoIterator<Item = (usize, ShapeId)>,
    ) -> Joined {
        let none = |part: &Builder| alloc::vec![ShapeId(NONE); part.functions.len()];
        let mut numbers: Vec<Vec<ShapeId>> = parts.iter().map(none).collect();
        let (mut functions, mut origins) = (Functions::default(), Vec::with_capacity(self.first_of.len()));
        functions.reserve(self.first_of.len());
        let mut stretches = Vec::new();
        for (part, own) in uses {
            let number = &mut numbers[part][own.0 as usize];
            if *number != ShapeId(NONE) {
                continue;
            }
            stretches.clear();
            for stretch in parts[part].functions.get(own.0) {
                let shape = self.shape(self.starts[part] + stretch.shape);
                stretches.push(Stretch { shape, ..stretch });
            }
            *number = functions.number(&stretches);
            if number.0 as usize == origins.len() {
                origins.push((part, own));
            }
        }
        let collected = Collected { functions, ..self.collected };
        Joined { collected, numbers, origins }
    }

    /// The number of the shape at a place.
    fn shape(&mut self, place: u32) -> u32 {
        let first = self.first_of[place as usize];
        let known = self.shape_of[first as usize];
        if known != NONE {
            return known;
        }
        let shape = shape_at(self.shapes, self.starts, first);
        let mut words = core::mem::take(&mut self.words);
        words.clear();
        words.extend_from_slice(shape);
        for [run, _] in pairs_in(&mut words) {
            *run = self.run(*run);
        }
        let number = self.collected.shapes.len() as u32;
        self.collected.shapes.push_slice(&words);
        self.words = words;
        self.shape_of[first as usize] = number;
        number
    }

    #[inline]
    fn run(&mut self, run: u32) -> u32 {
        match self.run_of[run as usize] {
            NONE => self.number_run(run),
            known => known,
        }
    }

    /// The number of a run that is used for the first time.
    #[cold]
    fn number_run(&mut self, run: u32) -> u32 {
        let steps = self.all.runs.words().get(run).to_vec();
        let step = |&step: &u32| self.rule(step >> COVERED_BITS) << COVERED_BITS | step & ENDS;
        let steps: Vec<u32> = steps.iter().map(step).collect();
        let number = self.collected.runs.len() as u32;
        self.run_of[run as usize] = number;
        self.collected.runs.push(steps);
        number
    }

    fn rule(&mut self, rule: u32) -> u32 {
        if self.rule_of[rule as usize] == NONE {
            let RowRules { rules, layout } = self.all.rules[rule as usize - 1];
            let layout = self.layout(layout);
            self.collected.rules.push(RowRules { rules, layout });
            self.rule_of[rule as usize] = self.collected.rules.len() as u32;
        }
        self.rule_of[rule as usize]
    }

    /// The number of a layout. Version 1 has none.
    fn layout(&mut self, layout: u32) -> u32 {
        let Some(number) = self.layout_of.get_mut(layout as usize) else { return 0 };
        if *number == NONE {
            *number = self.collected.layouts.len() as u32;
            self.collected.layouts.push(self.all.layouts.words().get(layout).iter().copied());
        }
        *number
    }
}

#[cfg(test)]
mod tests {
    use super::{InTurn, Joined, join};
    use crate::abi::Abi;
    use crate::cfi::{CfiFunction, CfiRow, CfiRows, Saved};
    use crate::compact::{Builder, Collected, PlacedFunction, ShapeId, WholeShapes};
    use alloc::vec::Vec;

    /// Functions of few different forms, some of them longer than a piece, in an order that is not theirs.
    fn functions(count: u32) -> Vec<CfiFunction> {
        let function = |number: u32| {
            let number = number.wrapping_mul(0x9e37_79b1) >> 16;
            let row = |start, cfa_offset, slot| CfiRow {
                start,
                cfa_register: 7,
                cfa_offset,
                saved: [(3, Saved::AtCfa(slot)), (16, Saved::AtCfa(-8))].into(),
                ..CfiRow::default()
            };
            let slot = -16 - 8 * i64::from(number % 3);
            let rows = [row(0, 8, slot), row(1 + number % 5, 16, slot), row(9, 24, -16)].into();
            let size = if number.is_multiple_of(11) { 0x2_0000 + number % 7 } else { 16 + number % 13 };
            CfiFunction { size, rows, ..CfiFunction::default() }
        };
        (0..count).map(function).collect()
    }

    /// The builder of some functions, and their numbers.
    fn build(functions: &[CfiFunction]) -> (Builder, Vec<ShapeId>) {
        let (mut builder, mut rows) = (Builder::whole(Abi::Amd64), CfiRows::default());
        let numbers = functions.iter().map(|function| {
            let function = rows.numbered(function);
            builder.add_whole(&function, &rows).expect("it has a form")
        });
        let numbers = numbers.collect();
        (builder, numbers)
    }

    fn table(collected: Collected, numbers: &[ShapeId]) -> Vec<u8> {
        let place =
            |(place, &shape): (u64, _)| PlacedFunction { address: place * 0x10_0000, shape, handler: None };
        let placed: Vec<_> = (0..).zip(numbers).map(place).collect();
        WholeShapes::new(collected).expect("there is room").to_bytes(0, &[], &placed).expect("a table")
    }

    #[test]
    fn any_parts_make_the_same_table_and_numbers() {
        let all = functions(600);
        let (one, expected) = build(&all);
        let whole = table(one.into(), &expected);
        for size in [1, 7, 100, 599, 600] {
            let (parts, numbers): (Vec<_>, Vec<_>) = all.chunks(size).map(build).unzip();
            let uses = (0..).zip(&numbers).flat_map(|(part, own)| own.iter().map(move |&own| (part, own)));
            let uses: Vec<(usize, ShapeId)> = uses.collect();
            assert_same(&parts, &uses, &expected, &whole);
        }
        assert!(join(&[], [], &InTurn).is_none());
    }

    /// Joins builders, and expects these numbers of functions and this table of all.
    fn assert_same(parts: &[Builder], uses: &[(usize, ShapeId)], expected: &[ShapeId], whole: &[u8]) {
        let Joined { collected, numbers, origins } =
            join(parts, uses.iter().copied(), &InTurn).expect("there are parts");
        let found: Vec<ShapeId> = uses.iter().map(|&(part, own)| numbers[part][own.0 as usize]).collect();
        assert_eq!(found, expected);
        for (number, (part, own)) in (0..).zip(origins) {
            assert_eq!(numbers[part][own.0 as usize], ShapeId(number));
        }
        assert!(table(collected, &found) == whole);
    }

    /// Which builder gets a function makes no difference, nor what a builder has that is not used.
    #[test]
    fn threads_may_take_any_functions() {
        let all = functions(600);
        let (one, expected) = build(&all);
        let whole = table(one.into(), &expected);
        for threads in [2, 3, 16] {
            let thread_of = |place: usize| (place * place / 7) % threads;
            let of_thread = |thread: usize| {
                let own = all.iter().enumerate().filter(|&(place, _)| thread_of(place) == thread);
                let unused = functions(700).split_off(600 + thread);
                build(
                    &unused.into_iter().chain(own.map(|(_, function)| function.clone())).collect::<Vec<_>>(),
                )
            };
            let (parts, numbers): (Vec<_>, Vec<_>) = (0..threads).map(of_thread).unzip();
            let mut own: Vec<_> =
                numbers.iter().enumerate().map(|(thread, own)| own[100 - thread..].iter().copied()).collect();
            let mut next = |place| (thread_of(place), own[thread_of(place)].next().expect("one for each"));
            let uses: Vec<(usize, ShapeId)> = (0..all.len()).map(&mut next).collect();
            assert_same(&parts, &uses, &expected, &whole);
        }
    }
}
