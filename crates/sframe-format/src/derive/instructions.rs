//! Reads call frame instructions (DWARF 5, 6.4.2 and 7.24), one after the other.
//!
//! The result is gimli's instructions, and gimli also decodes them. But gimli stops at two instructions that
//! are in use: the old form of an offset, and AArch64's signing with the program counter. This module handles
//! these two.

use gimli::{CallFrameInstruction, DwCfa, Error, Reader, Register, UnwindExpression};

use super::entries::{Cie, Frames, Slice, length, register};

/// `DW_CFA_AARCH64_negate_ra_state_with_pc`.
const NEGATE_RA_STATE_WITH_PC: DwCfa = DwCfa(0x2c);
const ADVANCE_LOC1: u8 = gimli::DW_CFA_advance_loc1.0;
const REMEMBER_STATE: u8 = gimli::DW_CFA_remember_state.0;
const RESTORE_STATE: u8 = gimli::DW_CFA_restore_state.0;
const DEF_CFA_OFFSET: u8 = gimli::DW_CFA_def_cfa_offset.0;

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Instruction {
    Plain(CallFrameInstruction<usize>),
    /// From here on, the return address is signed with the program counter of this place as an input, or no
    /// longer so.
    NegateRaStateWithPc,
}

/// An instruction that its first one or two bytes tell, as most are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Short {
    Nop,
    /// Moves on by this much, without the factor.
    Advance(u8),
    /// Changes the state. Its bytes are in a word, as those of all instructions of at most eight bytes.
    Changes(u64),
}

impl Short {
    /// The instruction at the start of these bytes and its length, if the first bytes tell.
    #[inline]
    pub fn first_of(bytes: &[u8]) -> Option<(Self, usize)> {
        match *bytes {
            [0, ..] => Some((Self::Nop, 1)),
            [byte @ 0x40..=0x7f, ..] => Some((Self::Advance(byte & 0x3f), 1)),
            [ADVANCE_LOC1, delta, ..] => Some((Self::Advance(delta), 2)),
            [byte @ (0xc0..=0xff | REMEMBER_STATE | RESTORE_STATE), ..] => {
                Some((Self::Changes(byte.into()), 1))
            }
            [byte @ (0x80..=0xbf | DEF_CFA_OFFSET), number @ 0..=0x7f, ..] => {
                Some((Self::Changes(u16::from_le_bytes([byte, number]).into()), 2))
            }
            _ => None,
        }
    }
}

/// The instructions of a CIE or an FDE.
pub(super) struct Instructions<'data> {
    frames: Frames<'data>,
    encoding: gimli::DwEhPe,
    input: Slice<'data>,
}

impl<'data> Instructions<'data> {
    /// The instructions `input` of a CIE or of one of its FDEs.
    pub fn new(frames: &Frames<'data>, cie: &Cie<'data>, input: Slice<'data>) -> Self {
        Self { frames: *frames, encoding: cie.encoding, input }
    }

    /// The bytes of the instructions that follow.
    pub fn rest(&self) -> &'data [u8] {
        self.input.slice()
    }

    /// Goes on at `rest`, which is the end of the instructions that follow.
    #[inline]
    pub fn go_on_at(&mut self, rest: &[u8]) {
        let _ = self.input.skip(self.input.len().saturating_sub(rest.len()));
    }

    /// Reads the next instruction.
    ///
    /// # Errors
    /// The instruction is unknown or truncated. No other follows then.
    pub fn next(&mut self) -> Result<Option<Instruction>, Error> {
        if self.input.is_empty() {
            return Ok(None);
        }
        let instruction = self.read();
        if instruction.is_err() {
            self.input.empty();
        }
        instruction.map(Some)
    }

    fn read(&mut self) -> Result<Instruction, Error> {
        use CallFrameInstruction as Is;
        let byte = self.input.read_u8()?;
        let low = byte & 0x3f;
        let in_byte = Register(low.into());
        Ok(Instruction::Plain(match byte & 0xc0 {
            0x40 => Is::AdvanceLoc { delta: low.into() },
            0x80 => Is::Offset { register: in_byte, factored_offset: self.input.read_uleb128()? },
            0xc0 => Is::Restore { register: in_byte },
            _ => return self.extended(DwCfa(byte)),
        }))
    }

    /// Reads an instruction that has a byte of its own.
    fn extended(&mut self, code: DwCfa) -> Result<Instruction, Error> {
        use CallFrameInstruction as Is;
        let aarch64 = self.frames.abi.is_aarch64();
        let input = &mut self.input;
        Ok(Instruction::Plain(match code {
            gimli::DW_CFA_nop => Is::Nop,
            gimli::DW_CFA_set_loc if self.encoding.is_indirect() => {
                return Err(Error::UnsupportedIndirectPointer);
            }
            gimli::DW_CFA_set_loc => Is::SetLoc { address: self.frames.address(input, self.encoding)? },
            gimli::DW_CFA_advance_loc1 => Is::AdvanceLoc { delta: input.read_u8()?.into() },
            gimli::DW_CFA_advance_loc2 => Is::AdvanceLoc { delta: input.read_u16()?.into() },
            gimli::DW_CFA_advance_loc4 => Is::AdvanceLoc { delta: input.read_u32()? },
            gimli::DW_CFA_offset_extended => {
                Is::Offset { register: register(input)?, factored_offset: input.read_uleb128()? }
            }
            gimli::DW_CFA_offset_extended_sf => {
                Is::OffsetExtendedSf { register: register(input)?, factored_offset: input.read_sleb128()? }
            }
            // The instruction above has superseded this one. Its offset is subtracted.
            gimli::DW_CFA_GNU_negative_offset_extended => {
                let register = register(input)?;
                let factored_offset = (input.read_uleb128()? as i64).wrapping_neg();
                Is::OffsetExtendedSf { register, factored_offset }
            }
            gimli::DW_CFA_restore_extended => Is::Restore { register: register(input)? },
            gimli::DW_CFA_undefined => Is::Undefined { register: register(input)? },
            gimli::DW_CFA_same_value => Is::SameValue { register: register(input)? },
            gimli::DW_CFA_register => {
                Is::Register { dest_register: register(input)?, src_register: register(input)? }
            }
            gimli::DW_CFA_remember_state => Is::RememberState,
            gimli::DW_CFA_restore_state => Is::RestoreState,
            gimli::DW_CFA_def_cfa => Is::DefCfa { register: register(input)?, offset: input.read_uleb128()? },
            gimli::DW_CFA_def_cfa_sf => {
                Is::DefCfaSf { register: register(input)?, factored_offset: input.read_sleb128()? }
            }
            gimli::DW_CFA_def_cfa_register => Is::DefCfaRegister { register: register(input)? },
            gimli::DW_CFA_def_cfa_offset => Is::DefCfaOffset { offset: input.read_uleb128()? },
            gimli::DW_CFA_def_cfa_offset_sf => Is::DefCfaOffsetSf { factored_offset: input.read_sleb128()? },
            gimli::DW_CFA_def_cfa_expression => Is::DefCfaExpression { expression: self.expression()? },
            gimli::DW_CFA_expression => {
                Is::Expression { register: register(input)?, expression: self.expression()? }
            }
            gimli::DW_CFA_val_offset => {
                Is::ValOffset { register: register(input)?, factored_offset: input.read_uleb128()? }
            }
            gimli::DW_CFA_val_offset_sf => {
                Is::ValOffsetSf { register: register(input)?, factored_offset: input.read_sleb128()? }
            }
            gimli::DW_CFA_val_expression => {
                Is::ValExpression { register: register(input)?, expression: self.expression()? }
            }
            gimli::DW_CFA_GNU_args_size => Is::ArgsSize { size: input.read_uleb128()? },
            gimli::DW_CFA_AARCH64_negate_ra_state if aarch64 => Is::NegateRaState,
            NEGATE_RA_STATE_WITH_PC if aarch64 => return Ok(Instruction::NegateRaStateWithPc),
            unknown => return Err(Error::UnknownCallFrameInstruction(unknown)),
        }))
    }

    fn expression(&mut self) -> Result<UnwindExpression<usize>, Error> {
        let length = length(&mut self.input)?;
        let offset = self.frames.offset_of(&self.input);
        self.input.skip(length)?;
        Ok(UnwindExpression { offset, length })
    }
}
