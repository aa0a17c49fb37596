//! The rows of an FDE.
//!
//! SFrame tracks two or three registers, and a look-up of one address runs an FDE for one row. gimli's table
//! holds the rules of all registers, in rows of several kilobytes, which it clears for each FDE and copies
//! with each `DW_CFA_remember_state`. So this module does not use it: its rows have places for the tracked
//! registers only. DWARF 5, 6.4.2 defines the instructions. [`super::states`] has the rules of all registers,
//! and takes from here what an instruction does.

use alloc::vec::Vec;

use gimli::{CallFrameInstruction, CfaRule, Error, RegisterRule};

use super::entries::{Fde, Frames};
use super::instructions::{Instruction, Instructions};
use crate::abi::{Abi, Register};

/// Bits of AArch64's signing state: the return address is signed, and the program counter is an input of the
/// signature.
pub(super) const SIGNED: u64 = 1;
const SIGNED_WITH_PC: u64 = 2;

/// The registers that have a place in rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns([Register; Self::COUNT]);

impl Columns {
    const COUNT: usize = 5;
    /// Stands for no register.
    const NONE: Register = Register::MAX;

    /// The registers that SFrame tracks (return address, frame pointer, stack pointer, and on AArch64 the
    /// signing state), and `other`.
    pub fn of(abi: Abi, other: Option<Register>) -> Self {
        let signing = if abi.is_aarch64() { gimli::AArch64::RA_SIGN_STATE.0.into() } else { Self::NONE };
        let tracked = [abi.return_address(), abi.frame_pointer(), abi.stack_pointer(), signing];
        let [ra, fp, sp, signing] = tracked;
        Self([ra, fp, sp, signing, other.unwrap_or(Self::NONE)])
    }

    fn place(&self, register: Register) -> Option<usize> {
        self.0.iter().position(|&column| column == register)
    }
}

/// The rules of registers, as far as rows have a place for them.
pub(super) trait Rules: Clone {
    /// The rule of a register. `None`: it has no rule, or no place.
    fn get(&self, register: Register) -> Option<&RegisterRule<usize>>;
    /// Gives a register a rule, or takes its rule away.
    fn set(&mut self, register: Register, rule: Option<RegisterRule<usize>>);
}

/// The rules of a few registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tracked {
    columns: Columns,
    rules: [Option<RegisterRule<usize>>; Columns::COUNT],
}

impl From<Columns> for Tracked {
    fn from(columns: Columns) -> Self {
        Self { columns, rules: [const { None }; Columns::COUNT] }
    }
}

impl Rules for Tracked {
    fn get(&self, register: Register) -> Option<&RegisterRule<usize>> {
        self.rules.get(self.columns.place(register)?)?.as_ref()
    }

    fn set(&mut self, register: Register, rule: Option<RegisterRule<usize>>) {
        if let Some(place) = self.columns.place(register) {
            self.rules[place] = rule;
        }
    }
}

/// The rules that hold at one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State<R = Tracked> {
    cfa: CfaRule<usize>,
    rules: R,
}

impl<R: Rules> State<R> {
    /// The state before all instructions.
    pub fn new(rules: R) -> Self {
        Self { cfa: CfaRule::RegisterAndOffset { register: gimli::Register(0), offset: 0 }, rules }
    }

    /// How to find the CFA.
    pub fn cfa(&self) -> &CfaRule<usize> {
        &self.cfa
    }

    /// The rules of registers.
    pub fn rules(&self) -> &R {
        &self.rules
    }

    /// Flips bits of the signing state.
    fn sign(&mut self, bits: u64) -> Result<(), Error> {
        let register = gimli::AArch64::RA_SIGN_STATE;
        let state = match self.rules.get(register.0.into()) {
            None => 0,
            Some(RegisterRule::Constant(state)) => *state,
            Some(_) => return Err(Error::CfiInstructionInInvalidContext),
        };
        self.set(register, Some(RegisterRule::Constant(state ^ bits)));
        Ok(())
    }

    fn set(&mut self, register: gimli::Register, rule: Option<RegisterRule<usize>>) {
        self.rules.set(register.0.into(), rule);
    }

    /// Executes an instruction that changes rules. `initial` is the state after the CIE's instructions.
    /// `None`: these run now.
    ///
    /// # Errors
    /// The instruction makes no sense here.
    pub fn apply(
        &mut self,
        instruction: Instruction,
        initial: Option<&Self>,
        data_alignment: i64,
    ) -> Result<(), Error> {
        use CallFrameInstruction as Is;
        let factored = |offset: i64| offset.wrapping_mul(data_alignment);
        let Instruction::Plain(instruction) = instruction else {
            return self.sign(SIGNED | SIGNED_WITH_PC);
        };
        match instruction {
            Is::DefCfa { register, offset } => {
                self.cfa = CfaRule::RegisterAndOffset { register, offset: offset as i64 };
            }
            Is::DefCfaSf { register, factored_offset } => {
                self.cfa = CfaRule::RegisterAndOffset { register, offset: factored(factored_offset) };
            }
            Is::DefCfaExpression { expression } => self.cfa = CfaRule::Expression(expression),
            Is::DefCfaRegister { .. } | Is::DefCfaOffset { .. } | Is::DefCfaOffsetSf { .. } => {
                let CfaRule::RegisterAndOffset { register: base, offset: distance } = &mut self.cfa else {
                    return Err(Error::CfiInstructionInInvalidContext);
                };
                match instruction {
                    Is::DefCfaRegister { register } => *base = register,
                    Is::DefCfaOffset { offset } => *distance = offset as i64,
                    Is::DefCfaOffsetSf { factored_offset } => *distance = factored(factored_offset),
                    _ => {}
                }
            }
            Is::Restore { register } => {
                let initial = initial.ok_or(Error::CfiInstructionInInvalidContext)?;
                self.set(register, initial.rules.get(register.0.into()).cloned());
            }
            Is::NegateRaState => self.sign(SIGNED)?,
            _ => {
                if let Some((register, rule)) = rule(instruction, factored) {
                    self.set(register, Some(rule));
                }
            }
        }
        Ok(())
    }
}

/// A row.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// The first address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    state: State,
}

impl Row {
    fn new(columns: Columns) -> Self {
        Self { start: 0, end: 0, state: State::new(columns.into()) }
    }

    /// Whether the row holds at an address.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// How to find the CFA.
    pub fn cfa(&self) -> &CfaRule<usize> {
        self.state.cfa()
    }

    /// The rule of a register. `None`: it has no rule, or no place in the row.
    pub fn register(&self, register: Register) -> Option<&RegisterRule<usize>> {
        self.state.rules.get(register)
    }
}

/// Memory for running one FDE after another.
#[derive(Debug)]
pub(super) struct Runner {
    row: Row,
    /// The stack of `DW_CFA_remember_state`.
    remembered: Vec<State>,
    /// The state after the CIE's instructions. The rows of an FDE begin with it, and `DW_CFA_restore` takes
    /// rules from it.
    initial: State,
}

impl Default for Runner {
    fn default() -> Self {
        let row = Row::new(Columns([Columns::NONE; Columns::COUNT]));
        Self { initial: row.state.clone(), row, remembered: Vec::new() }
    }
}

impl Runner {
    /// The rows of an FDE. They have places for the registers of `columns`.
    ///
    /// # Errors
    /// Its CIE has unknown or invalid instructions.
    pub fn rows<'a, 'data>(
        &'a mut self,
        frames: &Frames<'data>,
        fde: &Fde<'data>,
        columns: Columns,
    ) -> Result<Rows<'a, 'data>, Error> {
        let cie = &fde.cie;
        self.row = Row::new(columns);
        self.remembered.clear();
        let mut rows = Rows {
            code_alignment: cie.code_alignment,
            data_alignment: cie.data_alignment,
            instructions: Instructions::new(frames, cie, cie.instructions),
            next: 0,
            end: 0,
            ended: false,
            in_cie: true,
            runner: self,
        };
        while rows.next_row()?.is_some() {}
        rows.runner.initial.clone_from(&rows.runner.row.state);
        rows.instructions = Instructions::new(frames, cie, fde.instructions);
        (rows.next, rows.end, rows.ended, rows.in_cie) = (fde.start, fde.end(), false, false);
        Ok(rows)
    }
}

/// Iterator over the rows of an FDE.
pub(super) struct Rows<'a, 'data> {
    runner: &'a mut Runner,
    code_alignment: u64,
    data_alignment: i64,
    instructions: Instructions<'data>,
    /// Where the next row starts, and where the last one ends.
    next: u64,
    end: u64,
    /// Whether the last row has been returned.
    ended: bool,
    /// Whether the current instructions are the CIE's.
    in_cie: bool,
}

impl Rows<'_, '_> {
    /// The next row.
    ///
    /// # Errors
    /// An instruction is unknown or invalid. The row at [`Rows::position`] and all later ones are unknown.
    pub fn next_row(&mut self) -> Result<Option<&Row>, Error> {
        self.runner.row.start = self.next;
        while let Some(instruction) = self.instructions.next()? {
            if let Some(next) = self.evaluate(instruction)? {
                (self.next, self.runner.row.end) = (next, next);
                return Ok(Some(&self.runner.row));
            }
        }
        self.runner.row.end = self.end;
        Ok((!core::mem::replace(&mut self.ended, true)).then_some(&self.runner.row))
    }

    /// Where the row starts that [`Rows::next_row`] last returned or failed to return.
    pub fn position(&self) -> u64 {
        self.runner.row.start
    }

    /// Executes an instruction. If the instruction ends this row, returns the address where the next row
    /// starts.
    fn evaluate(&mut self, instruction: Instruction) -> Result<Option<u64>, Error> {
        use CallFrameInstruction as Is;
        let Runner { row, remembered, initial } = &mut *self.runner;
        match instruction {
            Instruction::Plain(Is::SetLoc { address }) if address < row.start => {
                return Err(Error::InvalidCfiSetLoc(address));
            }
            Instruction::Plain(Is::SetLoc { address }) => return Ok(Some(address)),
            Instruction::Plain(Is::AdvanceLoc { delta }) => {
                let delta = u64::from(delta).wrapping_mul(self.code_alignment);
                let next = row.start.checked_add(delta);
                return next.ok_or(Error::AddressOverflow).map(Some);
            }
            Instruction::Plain(Is::RememberState) => remembered.push(row.state.clone()),
            Instruction::Plain(Is::RestoreState) => {
                row.state = remembered.pop().ok_or(Error::PopWithEmptyStack)?;
            }
            other => row.state.apply(other, (!self.in_cie).then_some(initial), self.data_alignment)?,
        }
        Ok(None)
    }
}

/// The rule that an instruction gives to a register.
fn rule(
    instruction: CallFrameInstruction<usize>,
    factored: impl Fn(i64) -> i64,
) -> Option<(gimli::Register, RegisterRule<usize>)> {
    use CallFrameInstruction as Is;
    Some(match instruction {
        Is::Undefined { register } => (register, RegisterRule::Undefined),
        Is::SameValue { register } => (register, RegisterRule::SameValue),
        Is::Offset { register, factored_offset } => {
            (register, RegisterRule::Offset(factored(factored_offset as i64)))
        }
        Is::OffsetExtendedSf { register, factored_offset } => {
            (register, RegisterRule::Offset(factored(factored_offset)))
        }
        Is::ValOffset { register, factored_offset } => {
            (register, RegisterRule::ValOffset(factored(factored_offset as i64)))
        }
        Is::ValOffsetSf { register, factored_offset } => {
            (register, RegisterRule::ValOffset(factored(factored_offset)))
        }
        Is::Register { dest_register, src_register } => (dest_register, RegisterRule::Register(src_register)),
        Is::Expression { register, expression } => (register, RegisterRule::Expression(expression)),
        Is::ValExpression { register, expression } => (register, RegisterRule::ValExpression(expression)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Columns, Runner};
    use crate::abi::Abi;
    use crate::derive::entries::{Fde, Frames, Slice};
    use alloc::vec::Vec;
    use gimli::{
        BaseAddresses, CfaRule, CieOrFde, DwCfa, EhFrame, Error, RegisterRule, UnwindContext, UnwindSection,
    };

    type GimlisFde<'data> = gimli::FrameDescriptionEntry<Slice<'data>>;

    /// gimli's storage, with room for as many remembered states as the tests need.
    struct Storage;

    impl gimli::UnwindContextStorage<usize> for Storage {
        type Rules = [(gimli::Register, RegisterRule<usize>); 192];
        type Stack = Vec<gimli::UnwindTableRow<usize, Self>>;
    }

    type Seen = (u64, u64, CfaRule<usize>, Vec<Option<RegisterRule<usize>>>);

    /// Collects the rows up to an error.
    fn ours(
        runner: &mut Runner,
        columns: Columns,
        frames: &Frames<'_>,
        fde: &Fde<'_>,
        seen: &mut Vec<Seen>,
    ) -> Result<(), Error> {
        let mut rows = runner.rows(frames, fde, columns)?;
        while let Some(row) = rows.next_row()? {
            let rules = columns.0.iter().map(|&register| row.register(register).cloned());
            seen.push((row.start, row.end, row.cfa().clone(), rules.collect()));
        }
        Ok(())
    }

    fn gimlis(
        columns: Columns,
        (section, bases): (&EhFrame<Slice<'_>>, &BaseAddresses),
        fde: &GimlisFde<'_>,
        seen: &mut Vec<Seen>,
    ) -> Result<(), Error> {
        let mut context: UnwindContext<usize, Storage> = UnwindContext::new_in();
        let mut table = fde.rows(section, bases, &mut context)?;
        while let Some(row) = table.next_row()? {
            let rules = columns.0.iter().map(|&register| row.register(gimli::Register(register as u16)));
            seen.push((row.start_address(), row.end_address(), row.cfa().clone(), rules.collect()));
        }
        Ok(())
    }

    /// Compares all FDEs of a section. Returns the number of rows.
    fn compare(abi: Abi, runner: &mut Runner, data: &[u8], address: u64) -> usize {
        let (frames, columns) = (Frames::new(abi, data, address), Columns::of(abi, Some(3)));
        let mut section = frames.section;
        section.set_address_size(8);
        if abi.is_aarch64() {
            section.set_vendor(gimli::Vendor::AArch64);
        }
        let bases = BaseAddresses::default().set_eh_frame(address);
        let mut entries = section.entries(&bases);
        let mut count = 0;
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { continue };
            let own = frames.fde(fde.offset(), None).expect("what gimli reads can be read");
            assert_eq!((own.start, own.size), (fde.initial_address(), fde.len()), "{abi}");
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            let end = ours(runner, columns, &frames, &own, &mut found);
            match gimlis(columns, (&section, &bases), &fde, &mut expected) {
                // gimli does not know these two.
                Err(Error::UnknownCallFrameInstruction(DwCfa(0x2c | 0x2f))) => found.truncate(expected.len()),
                gimlis_end => assert_eq!(end, gimlis_end, "{abi}"),
            }
            assert_eq!(found, expected, "{abi}");
            count += found.len();
        }
        count
    }

    #[test]
    fn rows_are_those_of_gimlis_table() {
        use object::{Object, ObjectSection};
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let file = object::File::parse(&*program).unwrap();
        let eh_frame = file.section_by_name(".eh_frame").unwrap();
        let abi = match file.architecture() {
            object::Architecture::Aarch64 => Abi::AArch64Little,
            object::Architecture::S390x => Abi::S390x,
            _ => Abi::Amd64,
        };
        let rows = compare(abi, &mut Runner::default(), eh_frame.data().unwrap(), eh_frame.address());
        assert!(rows > 5_000, "{rows}");
    }

    /// Random instructions of a CIE and an FDE: checks what they mean and which are errors.
    #[test]
    fn any_instructions_mean_what_gimli_takes_them_for() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 56) as u8
        };
        let mut byte = |number: usize| match (random(), random()) {
            // Instructions that compilers write often, and the registers that matter.
            (0..96, kind) => [0x0c, 0x0e, 0x0d, 0x0a, 0x0b, 0x41, 0x2d, 0x05][usize::from(kind) % 8],
            (96..176, kind) => [7, 6, 16, 29, 30, 31, 34, 3][usize::from(kind) % 8],
            (176..224, kind) => [0x80, 0xc0][usize::from(kind) % 2] + [7, 6, 16, 3][number % 4],
            (_, any) => any,
        };
        let (mut runner, mut rows) = (Runner::default(), 0);
        for number in 0..20_000 {
            let mut data =
                Vec::from([0x1c, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 2, 0x78, 16, 1, 0x1b, 0x0c, 7, 8]);
            // A CIE has no place to set, and gimli would read an address of another width there.
            let in_cie = (0..12).map(|place| if number % 4 == 0 { byte(place) } else { 0 });
            data.extend(in_cie.map(|byte| if byte == gimli::DW_CFA_set_loc.0 { 0 } else { byte }));
            data.extend([0x28, 0, 0, 0, 0x24, 0, 0, 0, 0xe0, 0xef, 0xff, 0xff, 64, 0, 0, 0, 0]);
            data.extend((0..27).map(&mut byte));
            let abi = [Abi::Amd64, Abi::AArch64Little][number % 2];
            rows += compare(abi, &mut runner, &data, 0x2000);
        }
        assert!(rows > 5_000, "{rows}");
    }
}
