//! What a builder has collected, when no function will be added any more.
//!
//! All parts of a table but the pages and the regions are made of it. Numbers of steps and of shapes become
//! places here, and those that are used most get the shortest.

use alloc::vec;
use alloc::vec::Vec;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::LONG_RULE_SIZE;
use super::VERSION;
use super::functions::Functions;
use super::intern::Words;
use super::row_rules::RowRules;
use super::rule::long_bytes;
use super::shape::{COVERED_BITS, FOUR_BYTES, TWO_BYTES};
use super::write::Shapes;
use crate::abi::Abi;
use crate::packed::Packed;
use crate::write::{Inexpressible, Reason};

/// Stands in the place of a run's number. The sizes of a repetition and of the whole entry follow.
pub(super) const REPEATS: u32 = u32::MAX;
/// The largest number of steps that a table may have: numbers in shapes end here.
const MAX_STEPS: usize = 1 << 24;

/// The functions of a [`Builder`](super::Builder), or of several ([`super::join()`]).
#[derive(Clone, Debug)]
pub struct Collected {
    pub(super) abi: Abi,
    pub(super) version: u8,
    pub(super) rules: Vec<RowRules>,
    /// Version 2: the layouts, a byte in each word.
    pub(super) layouts: Words,
    pub(super) runs: Words,
    pub(super) shapes: Words,
    pub(super) functions: Functions,
}

impl Collected {
    /// Makes everything that does not depend on addresses.
    ///
    /// # Errors
    /// [`Reason::SectionFull`]: there are more steps, rules or bytes of shapes than a table can hold.
    pub fn finish(self) -> Result<Shapes, Inexpressible> {
        let full = Inexpressible { row: None, reason: Reason::SectionFull };
        let (steps, starts) = place_runs(&self.runs, &self.uses_of_runs());
        if steps.len() > MAX_STEPS || self.rules.len() >= 1 << 28 {
            return Err(full);
        }
        let (mut bytes, mut places) = (Vec::new(), Vec::with_capacity(self.shapes.len()));
        // Most numbers have one or two bytes.
        bytes.reserve(self.shapes.total().saturating_mul(2));
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
        let count = |function| match self.functions.piece(function) {
            Some(_) => 1,
            None => self.functions.get(function).map(|stretch| u64::from(stretch.count)).sum(),
        };
        let counts = (0..self.functions.len() as u32).map(count);
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

    /// In how many shapes each run is.
    fn uses_of_runs(&self) -> Vec<u32> {
        let mut uses = vec![0; self.runs.len()];
        for &run in self.shapes.iter().flat_map(runs_of) {
            uses[run as usize] += 1;
        }
        uses
    }
}

/// The pairs of a shape (number of a run, bytes of its last row), without the sizes of its repetition.
pub(super) fn pairs_of(shape: &[u32]) -> &[u32] {
    if shape.first() == Some(&REPEATS) { &shape[3..] } else { shape }
}

/// The pairs of a shape, to be changed.
pub(super) fn pairs_in(shape: &mut [u32]) -> &mut [[u32; 2]] {
    let head = shape.len() - pairs_of(shape).len();
    shape[head..].as_chunks_mut().0
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
fn place_runs(runs: &Words, uses: &[u32]) -> (Vec<u32>, Vec<u32>) {
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

/// The words of all rules, with `NO_ROW` first, and the bytes of the rules that do not fit a word.
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
