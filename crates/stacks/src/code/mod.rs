//! Reads rows from the instructions of code that nothing describes.
//!
//! Some code has no call frame information: PLTs of linkers that write none for them, `_init` and `_fini`,
//! the start-up code of compilers, hand-written assembly, interpreters, programs of other compilers. A walk
//! that meets such code would end. So this module makes rows of what its instructions do to the stack
//! pointer, the frame pointer and the place of the return address.
//!
//! The frame is known at a function's first instruction, and in front of an instruction that returns. From
//! these places [`unit::Unit`] follows it along branches, forwards and backwards. So the blocks behind a jump
//! table have rows, too, if they return or go on to a block that does. A place that no known frame reaches
//! has no row, and neither has a function in which two frames meet that disagree, because no rows are better
//! than wrong ones.
//!
//! [`machine::Machine`] says how long an instruction is, what it does, and what runs after it. PLTs need no
//! names: their entries are recognised by their instructions.

mod aarch64;
mod amd64;
pub mod area;
mod effect;
mod frame;
pub mod functions;
pub mod kept;
mod machine;
pub mod names;
mod s390x;
pub mod switch;
mod unit;

pub use amd64::aligns;
pub use area::Area;
use functions::{Functions, Piece};
use hashbrown::HashSet;
use sframe_format::Abi;
use sframe_format::write::Function;
use std::ops::Range;
use unit::Unit;

/// The largest number of pieces of a function that are read together.
pub const MAX_PARTS: usize = 17;

/// The code of a file, and what is known of it.
pub struct Code<'a> {
    /// Its machine.
    pub abi: Abi,
    /// Where code is.
    pub areas: Vec<Area<'a>>,
    /// The functions of its symbols.
    pub functions: &'a Functions,
}

impl Code<'_> {
    /// Rows for the code outside the ranges that other rows cover, as functions by address.
    pub fn rows_outside(&self, covered: Vec<Range<u64>>) -> Vec<(u64, Function)> {
        let gaps = gaps_between(covered);
        let gap_at = |address: u64| {
            let gap = gaps.get(gaps.partition_point(|gap| gap.end <= address))?;
            gap.contains(&address).then_some(gap)
        };
        let (mut found, mut done) = (Vec::new(), HashSet::new());
        for group in self.functions.divided() {
            let pieces =
                group.iter().filter_map(|known| Some(self.functions.piece(known, gap_at(known.start)?)));
            let pieces: Vec<Piece> = pieces.take(MAX_PARTS).collect();
            if pieces.len() > 1 {
                done.extend(pieces.iter().map(|piece| piece.range.start));
                found.extend(self.rows_of(&pieces));
            }
        }
        gaps.iter().for_each(|gap| self.rows_of_gap(gap, &done, &mut found));
        found.sort_by_key(|(address, _)| *address);
        found
    }

    /// Adds the rows of the code in a range, except for pieces whose start has been `done`.
    fn rows_of_gap(&self, gap: &Range<u64>, done: &HashSet<u64>, found: &mut Vec<(u64, Function)>) {
        for area in &self.areas {
            let mut rest = gap.start.max(area.address)..gap.end.min(area.end());
            while !rest.is_empty() {
                let piece = self.functions.piece_at(rest.start, &rest);
                rest.start = piece.range.end;
                if !done.contains(&piece.range.start) {
                    found.extend(self.rows_of(&[piece]));
                }
            }
        }
    }

    /// Rows for the pieces of one function, as functions by address.
    pub fn rows_of(&self, pieces: &[Piece]) -> Vec<(u64, Function)> {
        let parts = pieces.iter().flat_map(|piece| {
            self.areas.iter().filter_map(move |area| Some((area.within(&piece.range)?, piece)))
        });
        let parts: Vec<_> = parts.collect();
        let functions = self.functions;
        match self.abi {
            Abi::Amd64 => Unit::<amd64::Amd64>::read(self.abi, &parts, functions).rows(),
            Abi::AArch64Little | Abi::AArch64Big => {
                Unit::<aarch64::AArch64>::read(self.abi, &parts, functions).rows()
            }
            Abi::S390x => Unit::<s390x::S390x>::read(self.abi, &parts, functions).rows(),
        }
    }
}

/// What is between ranges, ascending.
fn gaps_between(mut covered: Vec<Range<u64>>) -> Vec<Range<u64>> {
    covered.sort_unstable_by_key(|range| range.start);
    let (mut gaps, mut at) = (Vec::new(), 0);
    for range in covered.into_iter().chain(std::iter::once(u64::MAX..u64::MAX)) {
        if at < range.start {
            gaps.push(at..range.start);
        }
        at = at.max(range.end);
    }
    gaps
}

/// The longest instruction that calls has this many bytes.
pub const LONGEST_CALL: usize = 9;

/// Whether the last instruction of some code is a call.
pub fn ends_with_call(abi: Abi, code: &[u8]) -> bool {
    use machine::Machine;
    match abi {
        Abi::Amd64 => amd64::Amd64::ends_with_call(code),
        Abi::AArch64Little | Abi::AArch64Big => aarch64::AArch64::ends_with_call(code),
        Abi::S390x => s390x::S390x::ends_with_call(code),
    }
}

/// The function that is called by the instruction in front of an address, if the address of the function is
/// part of the instruction, and if a call leaves its return address on top of the stack. `code` is what is in
/// front.
pub fn called_before(abi: Abi, address: u64, code: &[u8]) -> Option<u64> {
    use machine::Machine;
    /// The bytes of a direct call.
    const LENGTH: usize = 5;
    let call = code.last_chunk::<LENGTH>().filter(|_| abi == Abi::Amd64)?;
    let step = amd64::Amd64::step(call, address.wrapping_sub(LENGTH as u64), &mut Vec::new());
    match step.flow {
        machine::Flow::Call(target) if step.length == LENGTH => target,
        _ => None,
    }
}

#[cfg(test)]
mod tests;
