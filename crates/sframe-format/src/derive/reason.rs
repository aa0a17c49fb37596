//! Why an FDE stays where a table could stand in its place.

use core::fmt;

use crate::abi::Register;

/// Why a table cannot replace an FDE.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CfiReason {
    /// It or its CIE is malformed, or contains unknown instructions or augmentations.
    Malformed(alloc::string::String),
    /// It covers more than 16 MiB. Each 64 KiB take an entry of a table, so sizes that can hardly be true are
    /// not believed.
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
    /// Instructions of the CIE move to another address, which readers disagree about.
    CieMoves,
    /// It has more instructions than functions have.
    Long,
}

impl fmt::Display for CfiReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "it cannot be read: {error}"),
            Self::Size => f.pad("it covers more than 16 MiB"),
            Self::Augmentation => f.pad("its CIE has a rare augmentation"),
            Self::ReturnColumn(column) => write!(f, "the return address is in column {column}"),
            Self::CfaExpression => f.pad("a CFA is an expression, or undefined"),
            Self::Expression(register) => write!(f, "the rule of register {register} is an expression"),
            Self::Rule(register) => write!(f, "the rule of register {register} has no form in a table"),
            Self::Outermost => f.pad("the return address is undefined"),
            Self::ArgsSize => f.pad("arguments' sizes are remembered with the rules"),
            Self::Absolute => f.pad("an instruction names an address"),
            Self::CieMoves => f.pad("instructions of its CIE move to another address"),
            Self::Long => f.pad("it has more than 16384 instructions"),
        }
    }
}

/// The reason of an FDE that gimli cannot read.
pub(super) fn malformed(error: gimli::Error) -> CfiReason {
    CfiReason::Malformed(alloc::string::ToString::to_string(&error))
}
