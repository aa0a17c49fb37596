//! Projects one row of call frame information to the registers that SFrame tracks.

use core::fmt;

use gimli::{CfaRule as DwarfCfa, EhFrame, Register as DwarfRegister, RegisterRule as DwarfRule};

use super::entries::Slice;
use super::expression::{Affine, PltExpression, affine};
use super::rows::{Row, SIGNED};
use crate::abi::{Abi, Register};
use crate::rules::{Base, CfaRule, Frame, Location, RegisterRule, Rules};

/// Why a function, or a stretch of one, has no SFrame form in any version.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The FDE or its CIE is malformed or contains unknown instructions.
    Cfi(gimli::Error),
    /// The range is larger than 4 GiB.
    Size,
    /// The return address is not in the ABI's column.
    ReturnColumn(u16),
    /// No CFA is defined.
    NoCfa,
    /// The CFA is an expression other than `register + offset` and `*(register + offset)`.
    CfaExpression,
    /// An offset does not fit 32 bits.
    Offset(i64),
    /// The rule of the stack pointer is not the implied one (the CFA, or CFA - 160 on s390x).
    StackPointer,
    /// SFrame cannot express the rule of the return address.
    ReturnAddress,
    /// SFrame cannot express the rule of the frame pointer.
    FramePointer,
    /// The caller's frame pointer is lost, and SFrame cannot express that.
    LostFramePointer,
    /// `.eh_frame_hdr` lists not this FDE but another one of the same code: a tool has rewritten the code.
    Replaced,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cfi(error) => write!(f, "call frame information cannot be read: {error}"),
            Self::Size => f.pad("the function is larger than 4 GiB"),
            Self::ReturnColumn(column) => write!(f, "the return address is in column {column}"),
            Self::NoCfa => f.pad("no CFA is defined"),
            Self::CfaExpression => f.pad("the CFA is an expression that SFrame does not have"),
            Self::Offset(offset) => write!(f, "offset {offset:#x} does not fit 32 bits"),
            Self::StackPointer => f.pad("the stack pointer has a rule of its own"),
            Self::ReturnAddress => f.pad("the rule of the return address has no SFrame form"),
            Self::FramePointer => f.pad("the rule of the frame pointer has no SFrame form"),
            Self::LostFramePointer => f.pad("the caller's frame pointer is lost (undefined)"),
            Self::Replaced => f.pad("an old FDE of rewritten code; .eh_frame_hdr lists a new one"),
        }
    }
}

impl core::error::Error for Reason {}

/// The SFrame form of a row.
pub(super) enum Projection {
    Rules(Rules),
    /// From this row on, the rest of the FDE describes equal PLT entries.
    Plt(PltExpression),
}

pub(super) fn project(abi: Abi, section: &EhFrame<Slice<'_>>, row: &Row) -> Result<Projection, Reason> {
    let rule = |register: Register| row.register(register);
    if matches!(rule(abi.return_address()), Some(DwarfRule::Undefined)) {
        return Ok(Projection::Rules(Rules::Outermost));
    }
    let cfa = match cfa_rule(abi, section, row.cfa())? {
        Cfa::Rule(cfa) => cfa,
        Cfa::Plt(expression) => return Ok(Projection::Plt(expression)),
    };
    check_stack_pointer(abi, section, rule(abi.stack_pointer()), &cfa)?;
    let ra = match rule(abi.return_address()) {
        // x86-64 has no register that could still contain a return address.
        None | Some(DwarfRule::SameValue) if abi == Abi::Amd64 => return Err(Reason::ReturnAddress),
        rule => register_rule(section, rule, Reason::ReturnAddress)?,
    };
    let fp = match rule(abi.frame_pointer()) {
        Some(DwarfRule::Undefined) => return Err(Reason::LostFramePointer),
        rule => register_rule(section, rule, Reason::FramePointer)?,
    };
    let mangled = abi.is_aarch64()
        && matches!(row.register(gimli::AArch64::RA_SIGN_STATE.0.into()), Some(DwarfRule::Constant(state)) if state & SIGNED != 0);
    Ok(Projection::Rules(Rules::Frame(Frame { cfa, ra, fp, mangled })))
}

enum Cfa {
    Rule(CfaRule),
    Plt(PltExpression),
}

fn cfa_rule(abi: Abi, section: &EhFrame<Slice<'_>>, rule: &DwarfCfa<usize>) -> Result<Cfa, Reason> {
    let (register, offset, dereference) = match rule {
        // gimli returns this before any DW_CFA_def_cfa. No ABI has its CFA at register 0 itself.
        DwarfCfa::RegisterAndOffset { register: DwarfRegister(0), offset: 0 } => return Err(Reason::NoCfa),
        DwarfCfa::RegisterAndOffset { register, offset } => (register.0.into(), *offset, false),
        DwarfCfa::Expression(expression) => {
            let expression = expression.get(section).map_err(Reason::Cfi)?;
            if let Some(plt) = PltExpression::read(abi, expression) {
                return Ok(Cfa::Plt(plt));
            }
            match affine(expression, false) {
                Some(Affine { register: Some(register), offset, dereference }) => {
                    (register, offset, dereference)
                }
                _ => return Err(Reason::CfaExpression),
            }
        }
    };
    Ok(Cfa::Rule(CfaRule { register, dereference, offset }))
}

/// Checks that the stack pointer has the rule that SFrame implies. On s390x, functions save it like any other
/// register, and the saved value is the implied one. Signal frames of x86-64 read CFA and stack pointer from
/// the same word.
fn check_stack_pointer(
    abi: Abi,
    section: &EhFrame<Slice<'_>>,
    rule: Option<&DwarfRule<usize>>,
    cfa: &CfaRule,
) -> Result<(), Reason> {
    match rule {
        None | Some(DwarfRule::SameValue) => Ok(()),
        Some(DwarfRule::ValOffset(offset)) if *offset == -abi.cfa_bias() => Ok(()),
        Some(DwarfRule::Offset(_) | DwarfRule::Register(_)) if abi == Abi::S390x => Ok(()),
        Some(DwarfRule::Expression(expression)) if abi.cfa_bias() == 0 && cfa.dereference => {
            let word = Affine { register: Some(cfa.register), offset: cfa.offset, dereference: false };
            let saved_at = affine(expression.get(section).map_err(Reason::Cfi)?, true);
            if saved_at == Some(word) { Ok(()) } else { Err(Reason::StackPointer) }
        }
        Some(_) => Err(Reason::StackPointer),
    }
}

pub(super) fn register_rule(
    section: &EhFrame<Slice<'_>>,
    rule: Option<&DwarfRule<usize>>,
    reason: Reason,
) -> Result<RegisterRule, Reason> {
    let narrow = |offset: i64| i32::try_from(offset).map_err(|_| Reason::Offset(offset));
    let from_cfa = |offset, dereference| Affine { register: None, offset, dereference };
    let value = match rule {
        None | Some(DwarfRule::SameValue) => return Ok(RegisterRule::Unchanged),
        Some(DwarfRule::Offset(offset)) => from_cfa(*offset, true),
        Some(DwarfRule::ValOffset(offset)) => from_cfa(*offset, false),
        Some(DwarfRule::Register(register)) => {
            Affine { register: Some(register.0.into()), offset: 0, dereference: false }
        }
        Some(DwarfRule::Expression(expression)) => {
            let address =
                affine(expression.get(section).map_err(Reason::Cfi)?, true).ok_or(reason.clone())?;
            // The expression gives the address where the register is saved. SFrame dereferences only once.
            if address.dereference {
                return Err(reason);
            }
            Affine { dereference: true, ..address }
        }
        Some(DwarfRule::ValExpression(expression)) => {
            affine(expression.get(section).map_err(Reason::Cfi)?, true).ok_or(reason)?
        }
        Some(_) => return Err(reason),
    };
    let base = value.register.map_or(Base::Cfa, Base::Register);
    let location = Location { base, offset: narrow(value.offset)?, dereference: value.dereference };
    Ok(RegisterRule::Saved(location))
}
