//! Reads all that FDEs say: every register of every row, and the pointers that exceptions need.
//!
//! What compact tables of version 2 cannot say is refused with a reason: expressions, a lost return address,
//! and augmentations that only few readers know. The caller keeps such FDEs.

use core::fmt;
use core::ops::Range;

use gimli::{CfaRule, RegisterRule};

use super::entries::{Cie, Fde, Frames, Pointer};
use super::rows::{All, Row, Runner, SIGNED};
use crate::abi::{Abi, Register};
use crate::cfi::{CfiFunction, CfiRow, Saved};

/// Why a table cannot replace an FDE.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CfiReason {
    /// It or its CIE is malformed, or contains unknown instructions or augmentations.
    Malformed(alloc::string::String),
    /// It covers more than 4 GiB.
    Size,
    /// The CIE is of a rare kind: GCC 2's, or for tagged frames.
    Augmentation,
    /// The return address is not in the ABI's column.
    ReturnColumn(u16),
    /// A row has no CFA, or it is an expression.
    CfaExpression,
    /// The rule of a register is an expression.
    Expression(Register),
    /// The rule of a register has no form in a table.
    Rule(Register),
    /// The return address is lost: the outermost frame.
    Outermost,
    /// Bytes of arguments on the stack were remembered with the rules, which readers disagree about.
    ArgsSize,
    /// An instruction names an address (`DW_CFA_set_loc`).
    Absolute,
}

impl fmt::Display for CfiReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "it cannot be read: {error}"),
            Self::Size => f.pad("it covers more than 4 GiB"),
            Self::Augmentation => f.pad("its CIE has a rare augmentation"),
            Self::ReturnColumn(column) => write!(f, "the return address is in column {column}"),
            Self::CfaExpression => f.pad("a CFA is an expression, or undefined"),
            Self::Expression(register) => write!(f, "the rule of register {register} is an expression"),
            Self::Rule(register) => write!(f, "the rule of register {register} has no form in a table"),
            Self::Outermost => f.pad("the return address is undefined"),
            Self::ArgsSize => f.pad("arguments' sizes are remembered with the rules"),
            Self::Absolute => f.pad("an instruction names an address"),
        }
    }
}

/// What an FDE says.
#[derive(Clone, Copy, Debug)]
pub struct CfiEntry<'a> {
    /// First address that it covers. In an object, this is what the section's bytes say, without relocations.
    pub start: u64,
    /// Its rows.
    pub function: &'a CfiFunction,
    /// The pointer to its language-specific data, which may be null.
    pub lsda: Option<Pointer>,
    /// Offset of its CIE.
    pub cie: usize,
    /// The pointer to the personality routine, in the CIE.
    pub personality: Option<Pointer>,
    /// Encoding of the pointer to the function.
    pub encoding: gimli::DwEhPe,
}

/// The parts of an FDE and its CIE that `.debug_frame` holds, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CfiParts {
    /// Factor of distances in code.
    pub code_alignment: u64,
    /// Factor of offsets.
    pub data_alignment: i64,
    /// Column of the return address.
    pub return_address: u16,
    /// Whether it is a signal frame.
    pub signal: bool,
    /// Whether return addresses are signed with key B.
    pub key_b: bool,
    /// Where the CIE's instructions are in the section.
    pub initial: Range<usize>,
    /// Where the FDE's instructions are.
    pub instructions: Range<usize>,
    /// Bytes of code.
    pub size: u64,
}

/// Reads FDEs of one section, one after the other.
pub struct CfiReader<'data> {
    frames: Frames<'data>,
    /// FDEs of one CIE follow each other, so the CIE is read once for them.
    known: Option<Cie<'data>>,
    runner: Runner<All>,
    function: CfiFunction,
}

impl<'data> CfiReader<'data> {
    /// Reads `.eh_frame`, which lies at `address`. It may be unrelocated: rows do not depend on addresses.
    pub fn new(abi: Abi, eh_frame: &'data [u8], address: u64) -> Self {
        Self::of(Frames::new(abi, eh_frame, address))
    }

    /// Reads `.debug_frame`.
    pub fn of_debug_frame(abi: Abi, debug_frame: &'data [u8]) -> Self {
        Self::of(Frames::of_debug(abi, debug_frame))
    }

    fn of(frames: Frames<'data>) -> Self {
        Self { frames, known: None, runner: Runner::new(All::default()), function: CfiFunction::default() }
    }

    /// The offsets of all records in the section, CIEs included.
    pub fn offsets(&self) -> impl Iterator<Item = usize> + use<'data> {
        self.frames.records().map(|record| record.offset)
    }

    /// What the FDE at this offset says. `None`: a CIE is there.
    ///
    /// # Errors
    /// A table cannot say the same.
    pub fn read(&mut self, offset: usize) -> Result<Option<CfiEntry<'_>>, CfiReason> {
        let Some(fde) = self.entry(offset)? else { return Ok(None) };
        read_function(&self.frames, &mut self.runner, &fde, &mut self.function)?;
        let Fde { cie, start, lsda, .. } = fde;
        let personality = cie.personality;
        Ok(Some(CfiEntry {
            start,
            function: &self.function,
            lsda: lsda.filter(|_| personality.is_some()),
            cie: cie.offset,
            personality,
            encoding: cie.encoding,
        }))
    }

    /// The parts of the FDE at this offset. `None`: there is none that can be read.
    pub fn parts(&mut self, offset: usize) -> Option<CfiParts> {
        let fde = self.entry(offset).ok()??;
        let range = |part| {
            let start = self.frames.offset_of(part);
            start..start + gimli::Reader::len(part)
        };
        Some(CfiParts {
            code_alignment: fde.cie.code_alignment,
            data_alignment: fde.cie.data_alignment,
            return_address: fde.cie.return_address.0,
            signal: fde.cie.signal,
            key_b: fde.cie.key_b,
            initial: range(&fde.cie.instructions),
            instructions: range(&fde.instructions),
            size: fde.size,
        })
    }

    fn entry(&mut self, offset: usize) -> Result<Option<Fde<'data>>, CfiReason> {
        let entry = self.frames.entry_at(offset, self.known.as_ref()).map_err(malformed)?;
        self.known = entry.map(|fde| fde.cie).or(self.known);
        Ok(entry)
    }
}

fn malformed(error: gimli::Error) -> CfiReason {
    CfiReason::Malformed(alloc::string::ToString::to_string(&error))
}

fn read_function<'data>(
    frames: &Frames<'data>,
    runner: &mut Runner<All>,
    fde: &Fde<'data>,
    function: &mut CfiFunction,
) -> Result<(), CfiReason> {
    let abi = frames.abi;
    function.rows.clear();
    function.size = u32::try_from(fde.size).map_err(|_| CfiReason::Size)?;
    (function.signal, function.key_b) = (fde.cie.signal, fde.cie.key_b);
    let column = fde.cie.return_address.0;
    if u32::from(column) != abi.return_address() {
        return Err(CfiReason::ReturnColumn(column));
    }
    if fde.cie.unusual || (fde.cie.key_b && !abi.is_aarch64()) {
        return Err(CfiReason::Augmentation);
    }
    let mut rows = runner.rows(frames, fde, All::default()).map_err(malformed)?;
    while let Some(row) = rows.next_row().map_err(malformed)? {
        let start = row.start.wrapping_sub(fde.start);
        let is_empty = row.start == row.end;
        if row.absolute {
            return Err(CfiReason::Absolute);
        }
        // Locations may advance beyond the end of the range, or not at all between two rows.
        if start >= fde.size || is_empty {
            continue;
        }
        let row = read_row(abi, row, start as u32)?;
        if function.rows.last().is_none_or(|last| !last.says_same(&row)) {
            function.rows.push(row);
        }
    }
    Ok(())
}

fn read_row(abi: Abi, row: &Row<All>, start: u32) -> Result<CfiRow, CfiReason> {
    let (cfa_register, cfa_offset) = match row.cfa() {
        // gimli returns this before any DW_CFA_def_cfa. No ABI has its CFA at register 0 itself.
        CfaRule::RegisterAndOffset { register: gimli::Register(0), offset: 0 } => {
            return Err(CfiReason::CfaExpression);
        }
        CfaRule::RegisterAndOffset { register, offset } => (Register::from(register.0), *offset),
        CfaRule::Expression(_) => return Err(CfiReason::CfaExpression),
    };
    if row.args_differ {
        return Err(CfiReason::ArgsSize);
    }
    let mut read = CfiRow { start, cfa_register, cfa_offset, args_size: row.args_size, ..CfiRow::default() };
    let signing = Register::from(gimli::AArch64::RA_SIGN_STATE.0);
    for &(register, ref rule) in &row.rules().0 {
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
    Ok(read)
}
