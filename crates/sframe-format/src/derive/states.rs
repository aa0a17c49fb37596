//! What FDEs say of all registers, each state worked out once.
//!
//! Functions push registers, move the stack pointer, and undo both, all in much the same ways: a program with
//! 100,000 functions has a million instructions, but they lead through some thousand states. So states have
//! numbers, and it is remembered which state an instruction leads to:
//!
//! ```text
//! 1: rsp + 8, ra at -8  --0e 10-->  2: rsp + 16, ra at -8  --86 02-->  3: rsp + 16, ra at -8, rbp at -16
//! ```
//!
//! Only an instruction that nobody met in that state is executed. And most FDEs need no look at the rules of
//! a single instruction: it is remembered, too, which rows a stretch of instructions leads to
//! ([`super::stretches`]). A state also knows the state that `DW_CFA_restore_state` leads back to: that of
//! the instruction that remembered it. A file may have any number of states on purpose, and each holds all
//! rules. So the memory for states is bounded, and an FDE is refused that has far more instructions or rules
//! than functions have. That depends on nothing but the FDE, or outputs would depend on what was read before.

use alloc::vec::Vec;
use core::hash::{BuildHasher, Hash, Hasher};

use foldhash::fast::FixedState;
use gimli::{CallFrameInstruction, CfaRule, Error, RegisterRule};
use hashbrown::{HashMap, HashTable};

use super::entries::{Cie, Frames};
use super::head::CfiHead;
use super::instructions::{Instruction, Instructions, Short};
use super::known_fdes::KnownFdes;
use super::reason::{CfiReason, malformed};
use super::rows::{Rules, SIGNED, State};
use super::segments::Segments;
use crate::abi::{Abi, Register};
use crate::cfi::{CfiRow, CfiRows, CfiRuns, NumberedFunction, Saved};

/// When there are more states, or more steps or stretches of instructions from one to another, all are
/// forgotten before the next FDE. Tests see that happen.
const MOST_STATES: usize = if cfg!(test) { 1 << 10 } else { 1 << 15 };
const MOST_STEPS: usize = 8 * MOST_STATES;
/// The largest number of instructions of an FDE that change its state.
pub(super) const MOST_INSTRUCTIONS: usize = 1 << 14;
/// The largest number of registers that have rules at a time. A table has room for 34.
const MOST_RULES: usize = 48;
/// The largest number of bytes that an FDE may cover.
const MOST_BYTES: u64 = 1 << 24;

/// The rules of all registers, ascending by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct All(Vec<(Register, RegisterRule<usize>)>);

impl Rules for All {
    fn get(&self, register: Register) -> Option<&RegisterRule<usize>> {
        let place = self.0.binary_search_by_key(&register, |rule| rule.0).ok()?;
        Some(&self.0[place].1)
    }

    fn set(&mut self, register: Register, rule: Option<RegisterRule<usize>>) {
        match (self.0.binary_search_by_key(&register, |rule| rule.0), rule) {
            (Ok(place), Some(rule)) => self.0[place].1 = rule,
            (Ok(place), None) => drop(self.0.remove(place)),
            (Err(place), Some(rule)) => self.0.insert(place, (register, rule)),
            (Err(_), None) => {}
        }
    }
}

/// What holds between two instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Point {
    state: State<All>,
    /// Bytes of arguments on the stack. Unwinders do not remember it with the rules.
    args_size: u64,
    /// Whether the state was remembered with other arguments, so that readers may disagree.
    args_differ: bool,
    /// The point that `DW_CFA_restore_state` leads back to.
    remembered: Option<u32>,
    /// The number of its CIE in [`Points::cies`].
    cie: u32,
}

/// What instructions mean beside their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct OfCie {
    code_alignment: u64,
    data_alignment: i64,
    /// The point after the CIE's instructions. `None`: these run now.
    initial: Option<u32>,
}

/// What is asked of a point most often, in a quarter of a cache line.
#[derive(Clone, Copy, Default)]
struct Known {
    /// The instruction that was met last at the point, as in [`Points::steps`].
    word: u64,
    /// Where it leads, plus 1; 0: none was met.
    next: u32,
    /// The number of the point's row plus 1; 0: it is not known yet.
    row: u32,
}

/// All points that were met.
#[derive(Default)]
pub(super) struct Points<'data> {
    /// By number, with their hashes.
    points: Vec<(u64, Point)>,
    /// By number.
    known: Vec<Known>,
    /// Numbers, by the hashes of their points.
    table: HashTable<u32>,
    /// Where an instruction of at most eight bytes leads from a point.
    steps: HashMap<(u32, u64), u32, FixedState>,
    cies: Vec<OfCie>,
    cie_numbers: HashMap<OfCie, u32, FixedState>,
    /// Where FDEs begin, by the factors and the instructions of their CIE.
    begins: HashMap<Initial<'data>, u32, FixedState>,
    /// The last one: FDEs of one CIE follow each other.
    last: Option<(Initial<'data>, u32)>,
    /// Where stretches of instructions lead from a point.
    pub(super) segments: Segments,
    /// What became of FDEs.
    pub(super) fdes: KnownFdes<'data>,
}

/// The factors of distances in code and of offsets, and the instructions of a CIE.
type Initial<'data> = (u64, i64, &'data [u8]);

/// Reads the rows of FDEs, of as many sections as there are.
pub struct CfiStates<'data> {
    pub(super) abi: Abi,
    pub(super) rows: CfiRows,
    pub(super) runs: CfiRuns,
    pub(super) points: Points<'data>,
    /// Memory for a row, a function and a run that are read.
    row: CfiRow,
    pub(super) numbered: NumberedFunction,
    pub(super) words: Vec<u32>,
}

impl<'data> CfiStates<'data> {
    /// Nothing was met yet.
    pub fn new(abi: Abi) -> Self {
        let (rows, runs, points, row, numbered, words) = Default::default();
        Self { abi, rows, runs, points, row, numbered, words }
    }

    /// The rows of all functions that were read.
    pub fn rows(&self) -> &CfiRows {
        &self.rows
    }

    /// Their runs.
    pub fn runs(&self) -> &CfiRuns {
        &self.runs
    }

    /// Both, when no function will be read any more.
    pub fn take(&mut self) -> (CfiRows, CfiRuns) {
        let Self { rows, runs, .. } = core::mem::replace(self, Self::new(self.abi));
        (rows, runs)
    }

    /// The point where an FDE begins, if a table has its like.
    pub(super) fn begin(&mut self, head: &CfiHead<'_, 'data>) -> Result<u32, CfiReason> {
        let CfiHead { frames, cie, fde, .. } = head;
        if fde.size > MOST_BYTES {
            return Err(CfiReason::Size);
        }
        let column = cie.return_address.0;
        if u32::from(column) != self.abi.return_address() {
            return Err(CfiReason::ReturnColumn(column));
        }
        if cie.unusual || (cie.key_b && !self.abi.is_aarch64()) {
            return Err(CfiReason::Augmentation);
        }
        self.points.begin(frames, cie)
    }

    /// Reads the rows of an FDE.
    ///
    /// # Errors
    /// A table cannot say the same. `function` is a part of it then.
    pub fn read(
        &mut self,
        head: &CfiHead<'_, 'data>,
        function: &mut NumberedFunction,
    ) -> Result<(), CfiReason> {
        let CfiHead { frames, cie, fde, .. } = head;
        function.rows.clear();
        let mut at = self.begin(head)?;
        function.size = fde.size as u32;
        (function.signal, function.key_b) = (cie.signal, cie.key_b);
        let (mut start, mut left) = (0, MOST_INSTRUCTIONS);
        let mut instructions = Instructions::new(frames, cie, fde.instructions);
        while let Some(delta) = self.points.follow(&mut at, &mut instructions, &mut left)? {
            let next = u64::from(delta).checked_mul(cie.code_alignment);
            let next = next.and_then(|delta| delta.checked_add(start));
            let next = next.ok_or_else(|| malformed(Error::AddressOverflow))?;
            if next > start {
                self.add(at, start, function)?;
            }
            start = next;
        }
        self.add(at, start, function)
    }

    /// Adds the row of a point to a function, unless the row before it says the same or it starts behind the
    /// function's end.
    #[inline]
    fn add(&mut self, at: u32, start: u64, function: &mut NumberedFunction) -> Result<(), CfiReason> {
        if start >= u64::from(function.size) {
            return Ok(());
        }
        let number = self.row_of(at)?;
        if function.rows.last().is_none_or(|&(_, last)| last != number) {
            function.rows.push((start as u32, number));
        }
        Ok(())
    }

    /// The number of a point's row.
    #[inline]
    pub(super) fn row_of(&mut self, at: u32) -> Result<u32, CfiReason> {
        match self.points.known[at as usize].row {
            0 => self.number_row(at),
            known => Ok(known - 1),
        }
    }

    /// The number of a point's row, which is read for the first time.
    #[cold]
    fn number_row(&mut self, at: u32) -> Result<u32, CfiReason> {
        read_row(self.abi, &self.points.points[at as usize].1, &mut self.row)?;
        let number = self.rows.number(&self.row);
        self.points.known[at as usize].row = number + 1;
        Ok(number)
    }
}

impl<'data> Points<'data> {
    /// Where the FDEs of a CIE begin.
    fn begin(&mut self, frames: &Frames<'data>, cie: &Cie<'data>) -> Result<u32, CfiReason> {
        let most = self.steps.len().max(self.fdes.len());
        if self.points.len() > MOST_STATES || most > MOST_STEPS || self.segments.are_too_many(MOST_STEPS) {
            *self = Self::default();
        }
        let key = (cie.code_alignment, cie.data_alignment, cie.instructions.slice());
        if let Some(((code_alignment, data_alignment, initial), at)) = self.last
            && (code_alignment, data_alignment) == (key.0, key.1)
            // Mostly, it is the same CIE.
            && (core::ptr::eq(initial, key.2) || initial == key.2)
        {
            return Ok(at);
        }
        let at = match self.begins.get(&key) {
            Some(&at) => at,
            None => self.begin_first(frames, cie, key)?,
        };
        self.last = Some((key, at));
        Ok(at)
    }

    /// Where the FDEs of a CIE begin, for the first of them.
    fn begin_first(
        &mut self,
        frames: &Frames<'data>,
        cie: &Cie<'data>,
        key: Initial<'data>,
    ) -> Result<u32, CfiReason> {
        let (code_alignment, data_alignment, _) = key;
        let state = State::new(All::default());
        let number = self.cie(OfCie { code_alignment, data_alignment, initial: None });
        let first = Point { state, args_size: 0, args_differ: false, remembered: None, cie: number };
        let mut at = self.number(first);
        let mut instructions = Instructions::new(frames, cie, cie.instructions);
        loop {
            let bytes = instructions.rest();
            let Some(instruction) = instructions.next().map_err(malformed)? else { break };
            if moves(&instruction) {
                return Err(CfiReason::CieMoves);
            }
            let bytes = &bytes[..bytes.len() - instructions.rest().len()];
            at = self.step(at, bytes, instruction).map_err(malformed)?;
        }
        let number = self.cie(OfCie { code_alignment, data_alignment, initial: Some(at) });
        let first = Point { cie: number, ..self.points[at as usize].1.clone() };
        let at = self.number(first);
        self.begins.insert(key, at);
        Ok(at)
    }

    fn cie(&mut self, cie: OfCie) -> u32 {
        *self.cie_numbers.entry(cie).or_insert_with(|| {
            self.cies.push(cie);
            self.cies.len() as u32 - 1
        })
    }

    /// Follows instructions from the point `at`, of which `left` may change the state. Stops behind one that
    /// moves to another address, and returns how far. `None`: there are no more.
    pub(super) fn follow(
        &mut self,
        at: &mut u32,
        instructions: &mut Instructions<'data>,
        left: &mut usize,
    ) -> Result<Option<u32>, CfiReason> {
        let one_less = |left: usize| left.checked_sub(1).ok_or(CfiReason::Long);
        let mut rest = instructions.rest();
        loop {
            match Short::first_of(rest) {
                Some((Short::Nop, length)) => {
                    rest = &rest[length..];
                    continue;
                }
                Some((Short::Advance(delta), length)) => {
                    instructions.go_on_at(&rest[length..]);
                    return Ok(Some(delta.into()));
                }
                Some((Short::Changes(word), length)) => {
                    if let Some(next) = self.known(*at, word) {
                        *left = one_less(*left)?;
                        *at = next;
                        rest = &rest[length..];
                        continue;
                    }
                }
                None => {}
            }
            instructions.go_on_at(rest);
            let bytes = instructions.rest();
            match instructions.next().map_err(malformed)? {
                None => return Ok(None),
                Some(Instruction::Plain(CallFrameInstruction::Nop)) => {}
                Some(Instruction::Plain(CallFrameInstruction::AdvanceLoc { delta })) => {
                    return Ok(Some(delta));
                }
                Some(Instruction::Plain(CallFrameInstruction::SetLoc { .. })) => {
                    return Err(CfiReason::Absolute);
                }
                Some(instruction) => {
                    *left = one_less(*left)?;
                    let bytes = &bytes[..bytes.len() - instructions.rest().len()];
                    *at = self.step(*at, bytes, instruction).map_err(malformed)?;
                }
            }
            rest = instructions.rest();
        }
    }

    /// The point to which an instruction leads that was met there before, by its bytes in a word.
    #[inline]
    fn known(&mut self, at: u32, word: u64) -> Option<u32> {
        let known = &mut self.known[at as usize];
        if let Known { word: last, next: next @ 1.., .. } = *known
            && last == word
        {
            return Some(next - 1);
        }
        let next = *self.steps.get(&(at, word))?;
        (known.word, known.next) = (word, next + 1);
        Some(next)
    }

    /// The point to which an instruction leads, which has these bytes.
    fn step(&mut self, at: u32, bytes: &[u8], instruction: Instruction) -> Result<u32, Error> {
        let mut word = [0; 8];
        let Some(first) = word.get_mut(..bytes.len()) else {
            return self.execute(at, instruction);
        };
        first.copy_from_slice(bytes);
        let word = u64::from_le_bytes(word);
        if let Some(next) = self.known(at, word) {
            return Ok(next);
        }
        let next = self.execute(at, instruction)?;
        self.steps.insert((at, word), next);
        let known = &mut self.known[at as usize];
        (known.word, known.next) = (word, next + 1);
        Ok(next)
    }

    /// Executes an instruction at a point.
    fn execute(&mut self, at: u32, instruction: Instruction) -> Result<u32, Error> {
        use CallFrameInstruction as Is;
        let point = &self.points[at as usize].1;
        let OfCie { data_alignment, initial, .. } = self.cies[point.cie as usize];
        let next = match instruction {
            Instruction::Plain(Is::RememberState) => Point { remembered: Some(at), ..point.clone() },
            Instruction::Plain(Is::RestoreState) => {
                let back = point.remembered.ok_or(Error::PopWithEmptyStack)?;
                let back = &self.points[back as usize].1;
                let args_differ = point.args_differ || back.args_size != point.args_size;
                Point { args_size: point.args_size, args_differ, cie: point.cie, ..back.clone() }
            }
            Instruction::Plain(Is::ArgsSize { size }) => {
                Point { args_size: size, args_differ: false, ..point.clone() }
            }
            other => {
                let mut next = point.clone();
                let initial = initial.map(|initial| &self.points[initial as usize].1.state);
                next.state.apply(other, initial, data_alignment)?;
                if next.state.rules().0.len() > MOST_RULES {
                    return Err(Error::TooManyRegisterRules);
                }
                next
            }
        };
        Ok(self.number(next))
    }

    /// The number of a point.
    fn number(&mut self, point: Point) -> u32 {
        let hash = hash(&point);
        let Self { points, known, table, .. } = self;
        let is_same = |&number: &u32| {
            let (other, seen) = &points[number as usize];
            *other == hash && *seen == point
        };
        if let Some(&number) = table.find(hash, is_same) {
            return number;
        }
        let number = points.len() as u32;
        points.push((hash, point));
        known.push(Known::default());
        table.insert_unique(hash, number, |&number| points[number as usize].0);
        number
    }
}

/// Whether an instruction moves to another address. In a CIE, libgcc then begins the FDE's rows there, and
/// others begin them where the function does.
fn moves(instruction: &Instruction) -> bool {
    use CallFrameInstruction::{AdvanceLoc, SetLoc};
    matches!(instruction, Instruction::Plain(AdvanceLoc { .. } | SetLoc { .. }))
}

/// Reads all of a row but its start.
fn read_row(abi: Abi, point: &Point, read: &mut CfiRow) -> Result<(), CfiReason> {
    (read.cfa_register, read.cfa_offset) = match point.state.cfa() {
        // gimli returns this before any DW_CFA_def_cfa. No ABI has its CFA at register 0 itself.
        CfaRule::RegisterAndOffset { register: gimli::Register(0), offset: 0 } => {
            return Err(CfiReason::CfaExpression);
        }
        CfaRule::RegisterAndOffset { register, offset } => (Register::from(register.0), *offset),
        CfaRule::Expression(_) => return Err(CfiReason::CfaExpression),
    };
    if point.args_differ {
        return Err(CfiReason::ArgsSize);
    }
    (read.args_size, read.signed) = (point.args_size, false);
    read.saved.clear();
    let signing = Register::from(gimli::AArch64::RA_SIGN_STATE.0);
    for &(register, ref rule) in &point.state.rules().0 {
        let saved = match rule {
            RegisterRule::SameValue => continue,
            RegisterRule::Constant(state) if abi.is_aarch64() && register == signing => {
                if state & !SIGNED != 0 {
                    return Err(CfiReason::Rule(register));
                }
                read.signed = state & SIGNED != 0;
                continue;
            }
            RegisterRule::Undefined if register == abi.return_address() => return Err(CfiReason::Outermost),
            RegisterRule::Undefined => Saved::Undefined,
            RegisterRule::Offset(offset) => Saved::AtCfa(*offset),
            RegisterRule::ValOffset(offset) => Saved::CfaPlus(*offset),
            RegisterRule::Register(other) => Saved::In(other.0.into()),
            RegisterRule::Expression(_) | RegisterRule::ValExpression(_) => {
                return Err(CfiReason::Expression(register));
            }
            _ => return Err(CfiReason::Rule(register)),
        };
        // The signing state is no register that a function could save.
        if abi.is_aarch64() && register == signing {
            return Err(CfiReason::Rule(register));
        }
        read.saved.push((register, saved));
    }
    // x86-64 has no register that could still contain the return address.
    let has_return = read.saved.iter().any(|&(register, _)| register == abi.return_address());
    if abi == Abi::Amd64 && !has_return {
        return Err(CfiReason::Rule(abi.return_address()));
    }
    Ok(())
}

/// A hash of a point. gimli's rules have none.
fn hash(point: &Point) -> u64 {
    let mut hasher = FixedState::with_seed(0).build_hasher();
    let Point { state, args_size, args_differ, remembered, cie } = point;
    (args_size, args_differ, remembered, cie).hash(&mut hasher);
    if let CfaRule::RegisterAndOffset { register, offset } = state.cfa() {
        (register.0, offset).hash(&mut hasher);
    }
    for (register, rule) in &state.rules().0 {
        let (kind, value) = match *rule {
            RegisterRule::Undefined => (0, 0),
            RegisterRule::SameValue => (1, 0),
            RegisterRule::Offset(offset) => (2, offset),
            RegisterRule::ValOffset(offset) => (3, offset),
            RegisterRule::Register(other) => (4, other.0.into()),
            RegisterRule::Constant(value) => (5, value.cast_signed()),
            _ => (6, 0),
        };
        (register, kind, value).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::CfiStates;
    use crate::abi::Abi;
    use crate::cfi::{CfiRow, NumberedFunction, RunFunction, Saved};
    use crate::derive::{CfiReader, CfiReason};
    use alloc::vec::Vec;
    use gimli::{BaseAddresses, CfaRule, EhFrame, RegisterRule, RunTimeEndian, UnwindContext, UnwindSection};

    /// gimli's storage, with room for as many remembered states as the tests need.
    struct Storage;

    impl gimli::UnwindContextStorage<usize> for Storage {
        type Rules = [(gimli::Register, RegisterRule<usize>); 192];
        type Stack = Vec<gimli::UnwindTableRow<usize, Self>>;
    }

    /// What gimli finds in a row that starts in the function and has bytes. `None`: no table says that, or
    /// readers may disagree.
    fn expected(abi: Abi, row: &gimli::UnwindTableRow<usize, Storage>, start: u64) -> Option<CfiRow> {
        let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else { return None };
        let mut read = CfiRow {
            start: start as u32,
            cfa_register: register.0.into(),
            cfa_offset: offset,
            args_size: row.saved_args_size(),
            ..CfiRow::default()
        };
        for register in 0..gimli::Register(300).0 {
            let Some(rule) = row.register(gimli::Register(register)) else { continue };
            let saved = match rule {
                RegisterRule::SameValue => continue,
                RegisterRule::Constant(state) if register == 34 => {
                    read.signed = state & 1 != 0;
                    continue;
                }
                RegisterRule::Undefined => Saved::Undefined,
                RegisterRule::Offset(offset) => Saved::AtCfa(offset),
                RegisterRule::ValOffset(offset) => Saved::CfaPlus(offset),
                RegisterRule::Register(other) => Saved::In(other.0.into()),
                _ => return None,
            };
            read.saved.push((register.into(), saved));
        }
        let ra = read.saved.iter().find(|saved| saved.0 == abi.return_address());
        let is_said = match ra {
            Some((_, Saved::Undefined)) => false,
            Some(_) => true,
            None => abi != Abi::Amd64,
        };
        let is_defined = (read.cfa_register, read.cfa_offset) != (0, 0);
        let signs = abi.is_aarch64() && read.saved.iter().any(|saved| saved.0 == 34);
        (is_said && is_defined && !signs && row.saved_args_size() == 0).then_some(read)
    }

    /// A CIE and an FDE of 64 bytes with these instructions.
    fn section(in_cie: &[u8], instructions: &[u8]) -> Vec<u8> {
        let mut data =
            Vec::from([0x1c, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8]);
        data.extend(in_cie);
        data.resize(32, 0);
        data.extend([0x28, 0, 0, 0, 0x24, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0]);
        data.extend(instructions);
        data.resize(32 + 44, 0);
        data
    }

    /// Compares a function with gimli's table. Returns the number of rows.
    fn compare(abi: Abi, data: &[u8], read: Result<(), CfiReason>, rows: &[CfiRow]) -> usize {
        let mut section = EhFrame::new(data, RunTimeEndian::Little);
        section.set_address_size(8);
        section.set_vendor(if abi.is_aarch64() { gimli::Vendor::AArch64 } else { gimli::Vendor::Default });
        let bases = BaseAddresses::default().set_eh_frame(0);
        let fde = section.fde_from_offset(&bases, 32usize.into(), EhFrame::cie_from_offset).unwrap();
        let mut context: UnwindContext<usize, Storage> = UnwindContext::new_in();
        let (mut found, mut is_said) = (Vec::<CfiRow>::new(), true);
        let table = fde.rows(&section, &bases, &mut context).and_then(|mut table| {
            while let Some(row) = table.next_row()? {
                let start = row.start_address().wrapping_sub(fde.initial_address());
                if start < fde.len() && row.start_address() != row.end_address() {
                    match expected(abi, row, start) {
                        Some(row) if found.last().is_some_and(|last| last.says_same(&row)) => {}
                        Some(row) => found.push(row),
                        None => is_said = false,
                    }
                }
            }
            Ok(())
        });
        match read {
            Ok(()) => {
                assert!(table.is_ok() && (!is_said || rows == found), "{data:x?}: {rows:?}, not {found:?}")
            }
            Err(CfiReason::Malformed(error)) => assert!(table.is_err(), "{data:x?}: {error}"),
            // gimli restores the arguments' size with the rules.
            Err(CfiReason::ArgsSize) => assert!(data.contains(&gimli::DW_CFA_GNU_args_size.0)),
            Err(reason) => assert!(table.is_err() || !is_said, "{data:x?}: {reason}"),
        }
        found.len()
    }

    /// Reads a function in runs, and expects these rows.
    fn assert_same_in_runs<'data>(
        states: &mut CfiStates<'data>,
        data: &'data [u8],
        read: Result<(), CfiReason>,
        rows: &[CfiRow],
    ) {
        let (mut in_runs, mut function) = (RunFunction::default(), NumberedFunction::default());
        let mut reader = CfiReader::new(states.abi, data, 0);
        let head = reader.head(32).unwrap().unwrap();
        assert_eq!(states.read_runs(&head, true, &mut in_runs), read, "{data:x?}");
        if read.is_err() {
            return;
        }
        states.runs().numbered(&in_runs, &mut function);
        let row = |&(start, number)| CfiRow { start, ..states.rows().row(number).clone() };
        assert_eq!(function.rows.iter().map(row).collect::<Vec<_>>(), rows, "{data:x?}");
        // As if the rows had been divided.
        let (mut runs, mut divided) = (states.runs().clone(), RunFunction::default());
        assert!(runs.read(states.abi, &function, &mut divided) && divided == in_runs);
    }

    /// Random instructions, of functions that are read one after the other: what one function teaches about
    /// instructions is true in the others.
    #[test]
    fn functions_say_what_gimli_finds() {
        let mut state = 7u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) as usize % below
        };
        let mut instructions = |most: usize, in_cie: bool| {
            let (mut bytes, mut depth) = (Vec::new(), 0);
            while bytes.len() + 3 <= most {
                // Seldom the return address, because a function that loses it is refused.
                let register = if random(16) == 0 { [16, 30][random(2)] } else { [7, 6, 3, 29][random(4)] };
                let offset = random(4) as u8 * 8;
                bytes.extend(match random(if in_cie { 7 } else { 14 }) {
                    0 => Vec::from([0x0c, register, offset]),
                    1 => Vec::from([0x0e, offset]),
                    2 => Vec::from([0x0d, register]),
                    3 => Vec::from([0x80 | register, offset / 8]),
                    4 => Vec::from([0x08, register]),
                    5 => {
                        depth += 1;
                        Vec::from([0x0a])
                    }
                    6 => Vec::from([0x09, register, 3]),
                    7 if depth > 0 || random(16) == 0 => {
                        depth -= 1;
                        Vec::from([0x0b])
                    }
                    8 => Vec::from([0xc0 | register]),
                    9 => Vec::from([0x2d]),
                    10 if random(8) == 0 => Vec::from([[0x07, 0x2e, 0x16, 0x3f][random(4)], register, 0]),
                    _ => Vec::from([0x41 + random(9) as u8]),
                });
            }
            bytes
        };
        let cies: Vec<Vec<u8>> = (0..6).map(|_| instructions(9, true)).collect();
        for abi in [Abi::Amd64, Abi::AArch64Little] {
            let cies = cies.iter().map(|cie| match abi {
                Abi::Amd64 => [&[0x90, 1][..], cie].concat(),
                _ => cie.clone(),
            });
            let sections: Vec<Vec<u8>> =
                cies.cycle().take(6_000).map(|cie| section(&cie, &instructions(27, false))).collect();
            let sections: Vec<Vec<u8>> = sections
                .into_iter()
                .map(|mut data| {
                    // The column of the return address.
                    data[14] = abi.return_address() as u8;
                    data
                })
                .collect();
            let (mut states, mut in_runs) = (CfiStates::new(abi), CfiStates::new(abi));
            let (mut function, mut count) = (NumberedFunction::default(), 0);
            for data in &sections {
                let mut reader = CfiReader::new(abi, data, 0);
                let head = reader.head(32).unwrap().unwrap();
                let read = states.read(&head, &mut function);
                let row = |&(start, number)| CfiRow { start, ..states.rows().row(number).clone() };
                let rows: Vec<CfiRow> = function.rows.iter().map(row).collect();
                assert_same_in_runs(&mut in_runs, data, read.clone(), &rows);
                count += compare(abi, data, read, &rows);
            }
            assert!(count > 6_000, "{abi}: {count}");
        }
    }
}
