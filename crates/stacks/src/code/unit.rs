//! Follows the frame through one function, or through some code without symbols.

use super::area::Area;
use super::effect::Effect;
use super::frame::{Meeting, State};
use super::functions::{Functions, Kind, Piece};
use super::machine::{Flow, Machine};
use crate::bytes::word;
use sframe_format::abi::Register;
use sframe_format::signal::is_trampoline;
use sframe_format::write::Function;
use sframe_format::{Abi, Row, Rules};
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::ops::Range;

/// Alignment of functions in bytes. Padding comes between them.
const ALIGNMENT: u64 = 16;
/// The largest number of rows of one run of code. Another run continues a longer one.
const MAX_ROWS: usize = 1024;
/// The largest number of instructions of a program's entry without a symbol.
const MAX_ENTRY: usize = 64;
/// How many states candidates may add that are taken back, for each instruction. Any number of candidates
/// of a damaged file may lead to the same code.
const MAX_TRIES: usize = 32;
/// How many instructions before it is rounded down the stack pointer may be copied.
const MAX_HELD: usize = 16;
/// How many instructions later a word is put back that was taken off the stack.
const MAX_TAKEN: usize = 32;
/// How often the frame is followed from the start again, because a call turned out not to return.
const MAX_ROUNDS: usize = 8;

/// An instruction of a unit.
struct Instruction {
    address: u64,
    length: u8,
    flow: Flow,
    /// Its effects, in [`Unit::effects`].
    effects: Range<u32>,
    /// Whether the code around it has no symbol.
    unknown: bool,
}

/// What is in front of an instruction.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    /// The end of a function or of a block, or the start of the code.
    End,
    /// A call.
    Call,
    /// A call, and padding.
    Padding,
    /// Other instructions.
    Code,
}

/// Code that is read at once.
pub struct Unit<'a, M> {
    abi: Abi,
    parts: &'a [(Area<'a>, &'a Piece)],
    functions: &'a Functions,
    /// Where functions start that have no caller, ascending.
    outermost: Vec<u64>,
    /// Ascending by address.
    instructions: Vec<Instruction>,
    effects: Vec<Effect>,
    /// The target of each branch inside the unit and the branch, ascending.
    branches: Vec<(u32, u32)>,
    /// Places where a function is known to begin, with the state there.
    entries: Vec<(usize, State)>,
    /// Places where a function may begin, ascending.
    candidates: Vec<usize>,
    machine: PhantomData<M>,
}

impl<'a, M: Machine> Unit<'a, M> {
    /// Reads the instructions of some pieces of code.
    pub fn read(abi: Abi, parts: &'a [(Area<'a>, &'a Piece)], functions: &'a Functions) -> Self {
        let start = |(area, _): &(Area<'_>, _)| functions.outermost_in(&(area.address..area.end()));
        let mut outermost: Vec<u64> = parts.iter().flat_map(start).collect();
        outermost.sort_unstable();
        let mut unit = Self {
            abi,
            parts,
            functions,
            outermost,
            instructions: Vec::new(),
            effects: Vec::new(),
            branches: Vec::new(),
            entries: Vec::new(),
            candidates: Vec::new(),
            machine: PhantomData,
        };
        let mut order: Vec<_> = parts.iter().collect();
        order.sort_by_key(|(area, _)| area.address);
        for (area, piece) in order {
            unit.read_part(area, piece.kind);
        }
        unit.find_held();
        unit.find_branches();
        unit.find_taken_words();
        unit
    }

    /// Where the stack pointer is rounded down, only a register still leads to the frame. Adds what is done
    /// to registers that have got the stack pointer shortly before. Other code is not read twice.
    fn find_held(&mut self) {
        let mut held = BTreeMap::new();
        for place in 0..self.instructions.len() {
            if self.effects(place).contains(&Effect::AlignStackPointer) {
                let before = (place.saturating_sub(MAX_HELD)..place).rev();
                let before = before.take_while(|&place| self.next(place) == Some(place + 1));
                held.extend(before.filter_map(|place| match M::holds(self.code(place)) {
                    Some((register, effect @ Effect::HoldStackPointer(..))) => {
                        Some((place, (register, effect)))
                    }
                    _ => None,
                }));
            }
        }
        let registers: BTreeSet<Register> = held.values().map(|(register, _)| *register).collect();
        if registers.is_empty() {
            return;
        }
        let mut effects = Vec::with_capacity(self.effects.len());
        for place in 0..self.instructions.len() {
            let (from, code) = (effects.len() as u32, self.code(place));
            match M::holds(code) {
                Some((register, Effect::StackPointerFrom(_, offset))) if registers.contains(&register) => {
                    effects.push(if self.instructions[place].unknown {
                        Effect::StackPointerFromAny(register, offset)
                    } else {
                        Effect::StackPointerFrom(register, offset)
                    });
                }
                _ => effects.extend_from_slice(self.effects(place)),
            }
            match held.get(&place) {
                Some((_, effect)) => effects.push(*effect),
                None => M::overwritten(code, &registers, &mut effects),
            }
            self.instructions[place].effects = from..effects.len() as u32;
        }
        self.effects = effects;
    }

    /// The bytes of an instruction.
    fn code(&self, place: usize) -> &'a [u8] {
        let Instruction { address, length, .. } = self.instructions[place];
        let mut areas = self.parts.iter().map(|(area, _)| area);
        let area = areas.find(|area| address >= area.address && address < area.end());
        let code = area.and_then(|area| area.code.get((address - area.address) as usize..));
        code.map_or(&[], |code| &code[..code.len().min(length.into())])
    }

    fn read_part(&mut self, area: &Area<'_>, kind: Kind) {
        // A function may begin with an instruction that does nothing.
        let (mut at, mut before) = (0, if kind == Kind::Unknown { Before::End } else { Before::Code });
        while at < area.code.len() {
            let (address, rest) = (area.address + at as u64, &area.code[at..]);
            let padding = M::padding(rest);
            if padding > 0 && before == Before::End {
                at += padding;
                continue;
            }
            let from = self.effects.len() as u32;
            let step = M::step(rest, address, &mut self.effects);
            let length = step.length.clamp(1, 255);
            at += length;
            if step.flow == Flow::Invalid {
                let next = address + length as u64;
                at += (next.next_multiple_of(ALIGNMENT) - next) as usize;
                before = Before::End;
                continue;
            }
            self.note_start(area, (at - length, before), kind);
            let (effects, unknown) = (from..self.effects.len() as u32, kind == Kind::Unknown);
            let instruction =
                Instruction { address, length: length as u8, flow: step.flow, effects, unknown };
            self.instructions.push(instruction);
            before = match step.flow {
                Flow::Call(_) => Before::Call,
                _ if !step.flow.continues() => Before::End,
                _ if padding > 0 && before != Before::Code => Before::Padding,
                _ => Before::Code,
            };
        }
    }

    /// Notes if a function begins, or may begin, at a place.
    fn note_start(&mut self, area: &Area<'_>, (at, before): (usize, Before), kind: Kind) {
        let (place, address) = (self.instructions.len(), area.address + at as u64);
        if self.is_trampoline(area.code, at) {
            return;
        }
        match kind {
            Kind::Function if at == 0 => self.entries.push((place, M::ENTRY)),
            Kind::Function | Kind::Part => {}
            Kind::Unknown => match M::at_plt_entry(&area.code[at..]) {
                Some(state) if before == Before::End => self.entries.push((place, state)),
                _ if self.outermost.binary_search(&address).is_ok() => {
                    self.entries.push((place, M::ENTRY));
                }
                _ => {
                    // A call that does not return may be a function's last instruction.
                    let between = matches!(before, Before::End | Before::Padding);
                    if between && (at == 0 || address.is_multiple_of(ALIGNMENT)) {
                        self.candidates.push(place);
                    }
                }
            },
        }
    }

    /// Whether the code is the trampoline of signal handlers. It gets no rows, because the unwinder
    /// recognises it by its instructions.
    fn is_trampoline(&self, code: &[u8], at: usize) -> bool {
        let mut read = |address: u64| {
            let bytes = usize::try_from(address).ok().and_then(|place| code.get(place..));
            let bytes = bytes.and_then(|bytes| bytes.first_chunk()).ok_or(())?;
            Ok(word(*bytes, self.abi.endian()))
        };
        is_trampoline(self.abi, at as u64, &mut read)
    }

    /// Finds the branches inside the unit, and the functions that it calls in code without symbols.
    fn find_branches(&mut self) {
        let (mut branches, mut called) = (Vec::new(), Vec::new());
        for (place, instruction) in self.instructions.iter().enumerate() {
            if let Some(target) = instruction.flow.target().and_then(|target| self.place(target)) {
                branches.push((target as u32, place as u32));
            }
            // A call of the next instruction reads the program counter.
            if let Flow::Call(Some(target)) = instruction.flow
                && let Some(target) = self.place(target)
                && target != place + 1
                && self.instructions[target].unknown
            {
                called.push((target, M::ENTRY));
            }
        }
        branches.sort_unstable();
        self.branches = branches;
        self.entries.extend(called);
        self.entries.sort_by_key(|(place, _)| *place);
        self.entries.dedup_by_key(|(place, _)| *place);
    }

    /// Finds where a word is taken off the stack and put back, while nothing else happens to its register
    /// or to the frame pointer: so functions of V8 add arguments below the return address, and drop them.
    fn find_taken_words(&mut self) {
        let pops = |place: &usize| self.effects(*place) == [Effect::MoveStackPointer(8)];
        let pairs: Vec<_> =
            (0..self.instructions.len()).filter(pops).filter_map(|pop| self.put_back(pop)).collect();
        for (pop, push, register) in pairs {
            for (place, effect) in [(pop, Effect::TakeWord(register)), (push, Effect::PutWordBack(register))]
            {
                let at = self.instructions[place].effects.start as usize;
                self.effects[at] = effect;
            }
        }
    }

    /// Where the word is put back that an instruction takes off the stack, with the place of that
    /// instruction before it, and the register behind it.
    fn put_back(&self, pop: usize) -> Option<(usize, usize, Register)> {
        let Effect::TakeWord(register) = M::moves_word(self.code(pop))? else { return None };
        let (registers, mut place, mut overwritten) = (BTreeSet::from([register]), pop, Vec::new());
        let push = loop {
            place = self.next(place).filter(|place| place - pop <= MAX_TAKEN)?;
            let pushes = self.effects(place) == [Effect::MoveStackPointer(-8)];
            if pushes && M::moves_word(self.code(place)) == Some(Effect::PutWordBack(register)) {
                break place;
            }
            M::overwritten(self.code(place), &registers, &mut overwritten);
            let flow = self.instructions[place].flow;
            let goes_on = matches!(flow, Flow::Next | Flow::Branch(_));
            if !goes_on
                || !overwritten.is_empty()
                || self.effects(place).iter().any(|effect| effect.is_of_frame_pointer())
            {
                return None;
            }
        };
        let inside = pop + 1..=push;
        let leaves = |place: usize| {
            let target = self.instructions[place].flow.target().map(|target| self.place(target));
            target.is_some_and(|target| target.is_none_or(|target| !inside.contains(&target)))
        };
        let is_entered = |place: usize| self.branches_to(place).any(|from| !inside.contains(&from));
        (!inside.clone().any(|place| leaves(place) || is_entered(place))).then_some((pop, push, register))
    }

    /// The number of the instruction at an address.
    fn place(&self, address: u64) -> Option<usize> {
        self.instructions.binary_search_by_key(&address, |instruction| instruction.address).ok()
    }

    /// The next instruction, if this one goes on to it.
    fn next(&self, place: usize) -> Option<usize> {
        let this = &self.instructions[place];
        let next = self.instructions.get(place + 1)?;
        let follows = this.flow.continues() && next.address == this.address + u64::from(this.length);
        follows.then_some(place + 1)
    }

    fn branches_to(&self, place: usize) -> impl Iterator<Item = usize> {
        let first = self.branches.partition_point(|(target, _)| (*target as usize) < place);
        let to_place = self.branches[first..].iter().take_while(move |(target, _)| *target as usize == place);
        to_place.map(|(_, branch)| *branch as usize)
    }

    fn effects(&self, place: usize) -> &[Effect] {
        let Range { start, end } = self.instructions[place].effects;
        &self.effects[start as usize..end as usize]
    }

    /// The rows, as functions by address.
    pub fn rows(&self) -> Vec<(u64, Function)> {
        let mut walk = Walk::new(self);
        for _ in 0..MAX_ROUNDS {
            walk.follow_all();
            if !walk.cut_calls() {
                break;
            }
        }
        walk.forget_conflicts();
        let (states, outermost) = (walk.states, self.outermost_places());
        let mut runs = Runs { found: Vec::new(), run: Run::default() };
        let mut end = 0;
        for (place, instruction) in self.instructions.iter().enumerate() {
            if instruction.address != end {
                runs.close(end);
            }
            end = instruction.address + u64::from(instruction.length);
            let rules = match &states[place] {
                _ if outermost.iter().any(|range| range.contains(&place)) => Some(Rules::Outermost),
                // The caller's frame is on another stack.
                _ if self.functions.switch_at(end).is_some() => None,
                // What is called may use the register, so it says nothing of where it was called from.
                Some(state) if state.is_held() && matches!(instruction.flow, Flow::Call(_)) => None,
                Some(state) => {
                    let by_stack_pointer = self.functions.moves_stack_at(instruction.address);
                    state.rules(self.abi, by_stack_pointer).map(Rules::Frame)
                }
                None => None,
            };
            runs.note(instruction.address, rules);
        }
        runs.close(end);
        runs.found
    }

    /// The instructions of functions without a caller: all of a function, or those from a start on up to
    /// where the code does not go on.
    fn outermost_places(&self) -> Vec<Range<usize>> {
        let reached = self.outermost.iter().filter_map(|&start| {
            let first = self.place(start)?;
            let whole =
                self.parts.iter().find(|(area, piece)| piece.kind == Kind::Function && area.address == start);
            if let Some((area, _)) = whole {
                return Some(first..self.instructions.partition_point(|last| last.address < area.end()));
            }
            let after = |&place: &usize| self.next(place);
            let last = std::iter::successors(Some(first), after).take(MAX_ENTRY).last()?;
            Some(first..last + 1)
        });
        reached.collect()
    }
}

/// The states of a unit's instructions.
struct Walk<'u, 'a, M> {
    unit: &'u Unit<'a, M>,
    /// The state in front of each instruction.
    states: Vec<Option<State>>,
    /// The call behind which each state was found, if only instructions in a row are between them.
    behind: Vec<Option<u32>>,
    /// Calls that do not return, by number.
    cut: Vec<bool>,
    /// Where states disagree.
    conflicts: Vec<usize>,
    /// Calls that go on to such places.
    doubtful: Vec<u32>,
    /// Places whose state is to be handed on, and those whose state is to be handed back.
    ahead: Vec<usize>,
    back: Vec<usize>,
    /// While a candidate is tried: the places that got a state from it.
    added: Option<Vec<usize>>,
    /// How many more states candidates may add.
    left: usize,
    /// Whether a place is one of these.
    is_added: Vec<bool>,
    /// Whether the states since then met one that was known, or left the unit like a function.
    confirmed: bool,
}

impl<'u, 'a, M: Machine> Walk<'u, 'a, M> {
    fn new(unit: &'u Unit<'a, M>) -> Self {
        let count = unit.instructions.len();
        Self {
            unit,
            states: vec![None; count],
            behind: vec![None; count],
            cut: vec![false; count],
            conflicts: Vec::new(),
            doubtful: Vec::new(),
            ahead: Vec::new(),
            back: Vec::new(),
            added: None,
            left: 0,
            is_added: vec![false; count],
            confirmed: false,
        }
    }

    /// Follows the frame from everywhere where it is known.
    fn follow_all(&mut self) {
        self.states.fill(None);
        self.behind.fill(None);
        self.conflicts.clear();
        self.left = MAX_TRIES * self.states.len();
        for &(place, state) in &self.unit.entries {
            self.offer(place, state, None);
        }
        self.follow();
        self.try_candidates();
        for place in 0..self.states.len() {
            if self.unit.instructions[place].flow == Flow::Return {
                self.offer(place, M::ENTRY, None);
            }
        }
        self.follow();
        self.try_candidates();
    }

    fn try_candidates(&mut self) {
        for &place in &self.unit.candidates {
            if self.states[place].is_none() && self.left > 0 {
                self.try_candidate(place);
            }
        }
    }

    /// Follows the frame from where a function may begin. Takes everything back unless the frame agrees
    /// with all that it meets, and meets one that is known or leaves the function as its caller expects.
    fn try_candidate(&mut self, place: usize) {
        let (conflicts, doubtful) = (self.conflicts.len(), self.doubtful.len());
        (self.added, self.confirmed) = (Some(Vec::new()), false);
        self.offer(place, M::ENTRY, None);
        self.follow();
        let added = self.added.take().unwrap_or_default();
        added.iter().for_each(|&place| self.is_added[place] = false);
        self.ahead.clear();
        self.back.clear();
        if self.conflicts.len() > conflicts || !self.confirmed {
            for place in added {
                (self.states[place], self.behind[place]) = (None, None);
            }
            self.conflicts.truncate(conflicts);
            self.doubtful.truncate(doubtful);
        }
    }

    /// Follows the frame from all places in the queues. What is behind an instruction is surer than what is
    /// in front of it: a call may be the last instruction of other code. So that comes first.
    fn follow(&mut self) {
        let conflicts = self.conflicts.len();
        loop {
            let is_wrong = self.added.is_some() && self.conflicts.len() > conflicts;
            if is_wrong {
                break;
            }
            if let Some(place) = self.ahead.pop() {
                if let Some(state) = self.states[place] {
                    self.go_on(place, state);
                }
            } else if let Some(place) = self.back.pop() {
                if let Some(state) = self.states[place] {
                    self.go_back(place, state);
                }
            } else {
                break;
            }
        }
    }

    /// Hands the state behind an instruction on.
    fn go_on(&mut self, place: usize, mut state: State) {
        for &effect in self.unit.effects(place) {
            state.apply(effect);
        }
        let flow = self.unit.instructions[place].flow;
        if flow == Flow::Return {
            self.confirmed |= state.is_at_entry();
            self.offer(place, M::ENTRY, None);
        }
        let target = flow.target().map(|target| self.unit.place(target));
        if let Some(None) = target {
            self.confirmed |= state.is_at_entry();
        }
        if state.is_lost() {
            return;
        }
        if let Some(Some(target)) = target {
            self.offer(target, state, None);
        }
        if let Some(next) = self.unit.next(place).filter(|_| !self.cut[place]) {
            let behind = match flow {
                Flow::Call(_) => Some(place as u32),
                _ => self.behind[place],
            };
            self.offer(next, state, behind);
        }
    }

    /// Hands the state in front of an instruction back to those that lead to it.
    fn go_back(&mut self, place: usize, state: State) {
        let unit = self.unit;
        let previous = place.checked_sub(1).filter(|&previous| unit.next(previous) == Some(place));
        let previous = previous.filter(|&previous| !self.cut[previous]);
        for before in previous.into_iter().chain(unit.branches_to(place)) {
            let mut state = state;
            for &effect in unit.effects(before).iter().rev() {
                state.undo(effect);
            }
            if !state.is_lost() {
                let is_call = matches!(unit.instructions[before].flow, Flow::Call(_));
                self.offer(before, state, is_call.then_some(before as u32));
            }
        }
    }

    /// Brings a state to an instruction.
    fn offer(&mut self, place: usize, state: State, behind: Option<u32>) {
        let Some(known) = self.states[place] else {
            (self.states[place], self.behind[place]) = (Some(state), behind);
            self.ahead.push(place);
            self.back.push(place);
            if let Some(added) = &mut self.added {
                self.left = self.left.saturating_sub(1);
                added.push(place);
                self.is_added[place] = true;
            }
            return;
        };
        match known.meet(&state) {
            Meeting::Same => self.confirmed |= !self.is_added[place],
            Meeting::Less(state) if self.added.is_none() => {
                self.states[place] = Some(state);
                self.ahead.push(place);
            }
            Meeting::Less(_) | Meeting::Conflict => {
                self.conflicts.push(place);
                self.doubtful.extend(behind.or(self.behind[place]));
            }
        }
    }

    /// Takes the calls that lead to disagreement for calls that do not return. Returns whether there are
    /// any.
    fn cut_calls(&mut self) -> bool {
        let calls = std::mem::take(&mut self.doubtful);
        calls.iter().for_each(|&call| self.cut[call as usize] = true);
        !calls.is_empty()
    }

    /// Forgets all states of the functions in which states disagree.
    fn forget_conflicts(&mut self) {
        let mut seen = vec![false; self.states.len()];
        let mut queue = std::mem::take(&mut self.conflicts);
        if queue.iter().any(|&place| !self.unit.instructions[place].unknown) {
            self.states.fill(None);
        }
        while let Some(place) = queue.pop() {
            if !std::mem::replace(&mut seen[place], true) {
                self.states[place] = None;
                queue.extend(self.neighbours(place));
            }
        }
    }

    /// The instructions of the same function that run right before or after one.
    fn neighbours(&self, place: usize) -> Vec<usize> {
        let unit = self.unit;
        let is_entry = |place: usize| unit.entries.binary_search_by_key(&place, |(entry, _)| *entry).is_ok();
        let follows = |&previous: &usize| unit.next(previous) == Some(place) && !self.cut[previous];
        let previous = place.checked_sub(1).filter(follows);
        let next = unit.next(place).filter(|_| !self.cut[place]);
        let target = unit.instructions[place].flow.target().and_then(|target| unit.place(target));
        // A jump to a function's start is a call of another function.
        let target = target.filter(|&target| !is_entry(target));
        let sources = unit.branches_to(place).filter(|_| !is_entry(place));
        [previous, next, target].into_iter().flatten().chain(sources).collect()
    }
}

/// Rows without a break between them.
#[derive(Default)]
struct Run {
    address: u64,
    rows: Vec<Row>,
}

struct Runs {
    found: Vec<(u64, Function)>,
    run: Run,
}

impl Runs {
    /// Records the rules in front of the instruction at an address.
    fn note(&mut self, here: u64, rules: Option<Rules>) {
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
