//! Gaps in coverage and differences, in words.

use super::cfi::{Bytes, CfiRow, DwarfCfa, DwarfRule, is_undefined};
use crate::registers;
use gimli::{EhFrame, RegisterRule as Rule};
use serde::Serialize;
use sframe_format::abi::Register;
use sframe_format::{Abi, Rules, Version};

/// Why SFrame does not cover code that call frame information describes. The first reason says that the
/// producer left the code out. All others say why SFrame, or an old version of it, cannot describe the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gap {
    /// The version can express every row; the producer left it out.
    Expressible,
    /// The call frame information is malformed.
    Unreadable,
    /// The function, or a part of it, has no row.
    NoRow,
    /// The return address is in another column than the one of the ABI.
    ReturnColumn,
    /// No CFA is defined.
    NoCfa,
    /// The CFA is a DWARF expression.
    CfaExpression,
    /// A DWARF expression finds the return address.
    ReturnAddressExpression,
    /// A DWARF expression finds the frame pointer.
    FramePointerExpression,
    /// The frame pointer is a sum such as `CFA + offset`, and not a word in memory.
    FramePointerValue,
    /// The frame pointer is lost.
    LostFramePointer,
    /// The stack pointer has a rule of its own.
    StackPointerRule,
    /// x86-64: there is no rule for the return address.
    NoReturnAddress,
    /// V1 and V2: the CFA counts from a register other than the stack pointer and the frame pointer.
    CfaRegister,
    /// V1 and V2: the return address is not in its slot.
    ReturnAddressRule,
    /// V1 and V2: the frame pointer is in a register.
    FramePointerRegister,
    /// V1 and V2: the return address is undefined.
    Outermost,
    /// V1 and V2: a signal frame, which they cannot mark.
    SignalFrame,
}

impl Gap {
    /// The reason in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Expressible => "left out though SFrame could express it",
            Self::Unreadable => "call frame information that cannot be read",
            Self::NoRow => "no row in the call frame information",
            Self::ReturnColumn => "return address in another column",
            Self::NoCfa => "no CFA",
            Self::CfaExpression => "CFA by a DWARF expression",
            Self::ReturnAddressExpression => "return address by a DWARF expression",
            Self::FramePointerExpression => "frame pointer by a DWARF expression",
            Self::FramePointerValue => "frame pointer that is a sum",
            Self::LostFramePointer => "frame pointer that is lost",
            Self::StackPointerRule => "stack pointer with a rule of its own",
            Self::NoReturnAddress => "return address without a rule",
            Self::CfaRegister => "CFA from another register (V2 has none)",
            Self::ReturnAddressRule => "return address in another place (V2 has one)",
            Self::FramePointerRegister => "frame pointer in a register (V2 has no such rule)",
            Self::Outermost => "undefined return address (V2 cannot say so)",
            Self::SignalFrame => "signal frame (V2 cannot mark it)",
        }
    }
}

/// The kinds of errors of SFrame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceKind {
    /// The canonical frame addresses differ.
    Cfa,
    /// The return addresses differ.
    ReturnAddress,
    /// The frame pointers differ.
    FramePointer,
    /// The stack pointer differs from the one that the CFA implies.
    StackPointer,
    /// One side has no caller, the other has one.
    Outermost,
    /// Only one side has a signed return address.
    Signing,
    /// The keys that sign the return address differ.
    Key,
    /// Only one side marks a signal frame (V3; earlier versions have no mark).
    Signal,
    /// SFrame has a row where DWARF has no CFA.
    NoCfa,
}

impl DifferenceKind {
    /// The kind in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cfa => "CFA",
            Self::ReturnAddress => "return address",
            Self::FramePointer => "frame pointer",
            Self::StackPointer => "stack pointer",
            Self::Outermost => "end of stack",
            Self::Signing => "signing of the return address",
            Self::Key => "signing key",
            Self::Signal => "signal frame",
            Self::NoCfa => "row without CFA",
        }
    }
}

/// Why these rows of a function are not covered. If there are several reasons, the first in the order of
/// [`Gap`].
pub fn explain<'a>(
    abi: Abi,
    version: Version,
    signal: bool,
    column: Register,
    rows: impl Iterator<Item = &'a CfiRow>,
) -> Gap {
    if column != abi.return_address() {
        return Gap::ReturnColumn;
    }
    let old = version != Version::V3;
    let (mut reasons, mut any) = (Vec::new(), false);
    for row in rows {
        any = true;
        row_reasons(abi, old, row, &mut reasons);
    }
    if old && signal {
        reasons.push(Gap::SignalFrame);
    }
    reasons.into_iter().min().unwrap_or(if any { Gap::Expressible } else { Gap::NoRow })
}

fn row_reasons(abi: Abi, old: bool, row: &CfiRow, reasons: &mut Vec<Gap>) {
    if matches!(row.ra, Some(Rule::Undefined)) {
        reasons.extend(old.then_some(Gap::Outermost));
        return;
    }
    match &row.cfa {
        cfa if is_undefined(cfa) => reasons.push(Gap::NoCfa),
        DwarfCfa::Expression(_) => reasons.push(Gap::CfaExpression),
        DwarfCfa::RegisterAndOffset { register, .. } => {
            let number = u32::from(register.0);
            let plain = number == abi.stack_pointer() || number == abi.frame_pointer();
            reasons.extend((old && !plain).then_some(Gap::CfaRegister));
        }
    }
    let expression = |rule: &DwarfRule| matches!(rule, Some(Rule::Expression(_) | Rule::ValExpression(_)));
    match &row.ra {
        rule if expression(rule) => reasons.push(Gap::ReturnAddressExpression),
        None | Some(Rule::SameValue) if abi == Abi::Amd64 => reasons.push(Gap::NoReturnAddress),
        Some(Rule::Offset(-8)) if abi == Abi::Amd64 => {}
        Some(Rule::Offset(_) | Rule::SameValue) | None if abi != Abi::Amd64 => {}
        // In V2, a rule can name a register on s390x.
        Some(Rule::Register(_)) if abi == Abi::S390x => {}
        _ => reasons.extend(old.then_some(Gap::ReturnAddressRule)),
    }
    match &row.fp {
        rule if expression(rule) => reasons.push(Gap::FramePointerExpression),
        Some(Rule::ValOffset(_) | Rule::Constant(_) | Rule::Architectural) => {
            reasons.push(Gap::FramePointerValue);
        }
        Some(Rule::Undefined) => reasons.push(Gap::LostFramePointer),
        Some(Rule::Register(_)) if abi != Abi::S390x => {
            reasons.extend(old.then_some(Gap::FramePointerRegister));
        }
        // AArch64 rows store the return address before the frame pointer. No row can have the frame pointer
        // alone.
        Some(Rule::Offset(_)) if abi.is_aarch64() && !matches!(row.ra, Some(Rule::Offset(_))) => {
            reasons.extend(old.then_some(Gap::ReturnAddressRule));
        }
        _ => {}
    }
    let implied = -abi.cfa_bias();
    match &row.sp {
        None | Some(Rule::SameValue | Rule::Undefined) => {}
        Some(Rule::ValOffset(offset)) if *offset == implied => {}
        Some(Rule::Offset(_) | Rule::Register(_)) if abi == Abi::S390x => {}
        Some(_) => reasons.push(Gap::StackPointerRule),
    }
}

/// Writes the two rules for the register or address that differs: the one of the call frame information and
/// the one of SFrame.
pub fn words(
    abi: Abi,
    section: &EhFrame<Bytes<'_>>,
    kind: DifferenceKind,
    row: &CfiRow,
    rules: &Rules,
) -> (String, String) {
    let dwarf = Dwarf { abi, section };
    let Rules::Frame(frame) = rules else { return (dwarf.row(row), registers::rules(abi, rules)) };
    let signing = |signed| if signed { "signed" } else { "not signed" }.to_owned();
    match kind {
        DifferenceKind::Cfa => (dwarf.cfa(&row.cfa), registers::cfa(abi, &frame.cfa)),
        DifferenceKind::ReturnAddress => (dwarf.rule(&row.ra), registers::rule(abi, &frame.ra)),
        DifferenceKind::FramePointer => (dwarf.rule(&row.fp), registers::rule(abi, &frame.fp)),
        DifferenceKind::StackPointer => (dwarf.rule(&row.sp), "cfa".into()),
        DifferenceKind::Signing => (signing(row.signed), signing(frame.mangled)),
        _ => (dwarf.row(row), registers::rules(abi, rules)),
    }
}

/// Writes DWARF rules as people read them.
struct Dwarf<'a, 'data> {
    abi: Abi,
    section: &'a EhFrame<Bytes<'data>>,
}

impl Dwarf<'_, '_> {
    fn cfa(&self, rule: &DwarfCfa) -> String {
        match rule {
            rule if is_undefined(rule) => "undefined".into(),
            DwarfCfa::RegisterAndOffset { register, offset } => {
                let name = registers::register(self.abi, register.0.into());
                if *offset == 0 { name } else { format!("{name}{offset:+}") }
            }
            DwarfCfa::Expression(expression) => self.expression(expression),
        }
    }

    fn rule(&self, rule: &DwarfRule) -> String {
        match rule {
            None => "u".into(),
            Some(Rule::Undefined) => "undefined".into(),
            Some(Rule::SameValue) => "same value".into(),
            Some(Rule::Offset(offset)) => format!("*(cfa{offset:+})"),
            Some(Rule::ValOffset(offset)) => format!("cfa{offset:+}"),
            Some(Rule::Register(register)) => registers::register(self.abi, register.0.into()),
            Some(Rule::Expression(expression)) => format!("*({})", self.expression(expression)),
            Some(Rule::ValExpression(expression)) => self.expression(expression),
            Some(Rule::Constant(value)) => format!("{value:#x}"),
            Some(_) => "architectural".into(),
        }
    }

    fn row(&self, row: &CfiRow) -> String {
        let signed = if row.signed { " signed" } else { "" };
        let (cfa, fp, ra) = (self.cfa(&row.cfa), self.rule(&row.fp), self.rule(&row.ra));
        format!("cfa={cfa} fp={fp} ra={ra}{signed}")
    }

    fn expression(&self, expression: &gimli::UnwindExpression<usize>) -> String {
        let bytes = expression.get(self.section).map(|expression| expression.0.slice());
        let digits: Vec<String> =
            bytes.unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("expression {}", digits.join(" "))
    }
}
