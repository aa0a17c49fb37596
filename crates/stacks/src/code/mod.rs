//! Reads rows from the instructions of code that nothing describes.
//!
//! Some code has no call frame information: PLTs of linkers that write none for them, `_init` and `_fini`,
//! the start-up code of compilers, hand-written assembly, interpreters. A walk that meets such code would
//! end. So this module sweeps it once, from the first instruction to the last, and makes rows of the effects
//! on the stack pointer, the frame pointer and the place of the return address. A forward branch carries its
//! state to its target. After a return or a jump comes another function, or a block that such a branch
//! reaches. If the sweep cannot follow an instruction's effect, it makes no rows up to the next function,
//! because no rows are better than wrong ones.
//!
//! [`machine::Machine`] says how long an instruction is and what it does. The sweep need not find PLTs by
//! name: it recognises entries that change the stack by their instructions, and the other entries do not
//! touch the stack.

mod aarch64;
mod amd64;
mod frame;
mod machine;
mod s390x;

use frame::State;
use hashbrown::HashMap;
use machine::{Flow, Machine};
use sframe_format::signal::is_trampoline;
use sframe_format::write::Function;
use sframe_format::{Abi, Row, Rules};
use std::ops::Range;

use crate::bytes::word;

/// Alignment of functions in bytes. Padding comes between them.
const ALIGNMENT: u64 = 16;
/// The largest number of rows of one run of code. Another run continues a longer one.
const MAX_ROWS: usize = 1024;

/// A part of a file with code.
pub struct Area<'a> {
    /// Address of its first byte in the file.
    pub address: u64,
    /// The code.
    pub code: &'a [u8],
}

/// The code of a file, and what is known of it.
pub struct Code<'a> {
    /// Its machine.
    pub abi: Abi,
    /// Where code is.
    pub areas: Vec<Area<'a>>,
    /// The addresses that other rows cover, in any order.
    pub covered: Vec<Range<u64>>,
    /// Where functions start according to symbols, ascending.
    pub starts: Vec<u64>,
    /// Where the kernel starts the program. The code there has no caller.
    pub entry: u64,
}

impl Code<'_> {
    /// Rows for the code that nothing covers, as functions by address.
    pub fn functions(mut self) -> Vec<(u64, Function)> {
        self.covered.sort_unstable_by_key(|range| range.start);
        let mut found = Vec::new();
        for area in &self.areas {
            let end = area.address.saturating_add(area.code.len() as u64);
            let mut at = area.address;
            let first = self.covered.partition_point(|range| range.end <= at);
            for range in self.covered[first..].iter().take_while(|range| range.start < end) {
                self.sweep(area, at..range.start, &mut found);
                at = at.max(range.end);
            }
            self.sweep(area, at..end, &mut found);
        }
        found
    }

    fn sweep(&self, area: &Area<'_>, range: Range<u64>, found: &mut Vec<(u64, Function)>) {
        if range.is_empty() {
            return;
        }
        let place = |address: u64| (address - area.address) as usize;
        let Some(code) = area.code.get(place(range.start)..place(range.end)) else { return };
        let mut sweep = Sweep {
            abi: self.abi,
            address: range.start,
            code,
            starts: &self.starts,
            entry: self.entry,
            awaited: HashMap::new(),
            run: Run::default(),
            found,
        };
        match self.abi {
            Abi::Amd64 => sweep.run::<amd64::Amd64>(),
            Abi::AArch64Little | Abi::AArch64Big => sweep.run::<aarch64::AArch64>(),
            Abi::S390x => sweep.run::<s390x::S390x>(),
        }
    }
}

/// Rows without a break between them.
#[derive(Default)]
struct Run {
    address: u64,
    rows: Vec<Row>,
}

struct Sweep<'a> {
    abi: Abi,
    address: u64,
    code: &'a [u8],
    starts: &'a [u64],
    entry: u64,
    /// The states that forward branches carry to their targets.
    awaited: HashMap<u64, State>,
    run: Run,
    found: &'a mut Vec<(u64, Function)>,
}

/// What the sweep knows in front of an instruction.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    /// A function or padding begins here, unless a branch leads here.
    Start,
    /// The previous instruction leads here (`reached`), or this one is assumed to be in the same frame.
    Known { state: State, reached: bool },
    /// The state is unknown.
    Lost,
}

impl Sweep<'_> {
    fn run<M: Machine>(&mut self) {
        let (mut at, mut before, mut outermost) = (0, Before::Start, false);
        while at < self.code.len() {
            let (here, rest) = (self.address + at as u64, &self.code[at..]);
            let mut awaited = self.awaited.remove(&here);
            // Padding after a jump never runs.
            let unreached = matches!(before, Before::Known { reached: false, .. })
                && awaited.is_none()
                && M::padding(rest) > 0;
            if self.starts.binary_search(&here).is_ok() {
                (before, awaited) = (Before::Start, None);
            }
            let mut state = match (before, awaited) {
                (Before::Known { state, reached: true }, _) => state,
                (_, Some(state)) => state,
                (Before::Known { .. }, None) if M::is_plt_entry(rest) => M::at_entry(rest),
                (Before::Known { state, .. }, None) => state,
                (Before::Lost, None) => State::lost(),
                (Before::Start, None) => {
                    let padding = M::padding(rest);
                    if padding > 0 {
                        self.close(here);
                        (at, outermost) = (at + padding, false);
                        continue;
                    }
                    outermost = here == self.entry;
                    if self.is_trampoline(at) { State::lost() } else { M::at_entry(rest) }
                }
            };
            self.note(here, state, outermost);
            let at_entry = state == M::at_entry(&[]);
            let step = M::step(rest, here, &mut state);
            if let Flow::Branch(target) | Flow::Away(Some(target)) = step.flow
                && target > here
                && !state.is_lost()
            {
                self.awaited.entry(target).or_insert(state);
            }
            at += step.length.max(1);
            let next = self.address + at as u64;
            before = match step.flow {
                Flow::Next | Flow::Branch(_) if state.is_lost() => Before::Lost,
                Flow::Next | Flow::Branch(_) => Before::Known { state, reached: !unreached },
                // After the end of a function comes another one. After a jump inside a function, the same one
                // continues.
                Flow::Away(_) if at_entry => Before::Start,
                Flow::Away(None) | Flow::Trap if self.is_between::<M>(at) => Before::Start,
                Flow::Away(_) if !state.is_lost() => Before::Known { state, reached: false },
                Flow::Away(_) | Flow::Trap => Before::Lost,
                Flow::Invalid => {
                    self.close(self.address + at as u64);
                    at += (next.next_multiple_of(ALIGNMENT) - next) as usize;
                    Before::Lost
                }
            };
        }
        self.close(self.address + self.code.len() as u64);
    }

    /// Whether padding follows a function's end, up to a place where the next function may begin.
    fn is_between<M: Machine>(&self, at: usize) -> bool {
        let mut end = at;
        while let Some(rest) = self.code.get(end..).filter(|rest| !rest.is_empty()) {
            match M::padding(rest) {
                0 => break,
                padding => end += padding,
            }
        }
        (self.address + end as u64).is_multiple_of(ALIGNMENT)
    }

    /// Whether the code is the trampoline of signal handlers. It gets no rows, because the unwinder
    /// recognises it by its instructions.
    fn is_trampoline(&self, at: usize) -> bool {
        let mut read = |address: u64| {
            let bytes = usize::try_from(address).ok().and_then(|place| self.code.get(place..));
            let bytes = bytes.and_then(|bytes| bytes.first_chunk()).ok_or(())?;
            Ok(word(*bytes, self.abi.endian()))
        };
        is_trampoline(self.abi, at as u64, &mut read)
    }

    /// Records the state in front of the instruction at an address.
    fn note(&mut self, here: u64, state: State, outermost: bool) {
        let rules = if outermost { Some(Rules::Outermost) } else { state.rules(self.abi).map(Rules::Frame) };
        let Some(rules) = rules else { return self.close(here) };
        if self.run.rows.len() >= MAX_ROWS {
            self.close(here);
        }
        if self.run.rows.is_empty() {
            self.run.address = here;
        }
        if self.run.rows.last().is_none_or(|last| last.rules != rules) {
            self.run.rows.push(Row { start: (here - self.run.address) as u32, rules });
        }
    }

    /// Ends the current run of rows.
    fn close(&mut self, end: u64) {
        let Run { address, rows } = std::mem::take(&mut self.run);
        let Ok(size) = u32::try_from(end.saturating_sub(address)) else { return };
        if !rows.is_empty() && size > 0 {
            self.found.push((address, Function { size, rows, ..Function::default() }));
        }
    }
}

#[cfg(test)]
mod tests;
