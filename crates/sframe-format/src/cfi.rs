//! Call frame information for all registers, row by row, in a form that can be compared.
//!
//! SFrame tracks the CFA, the return address and the frame pointer. Whoever throws an exception needs every
//! register that a function may have saved. These types say all that a row of `.eh_frame` says, except for
//! expressions. Compact tables of version 2 hold them ([`crate::compact`]), and the module `derive` reads
//! them from FDEs.

use crate::abi::Register;

/// Where the caller's value of a register is. A register without a rule still has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Saved {
    /// In memory, this many bytes from the CFA.
    AtCfa(i64),
    /// It is the CFA and this many bytes.
    CfaPlus(i64),
    /// In another register.
    In(Register),
    /// Nowhere: it is lost.
    Undefined,
}

#[cfg(feature = "alloc")]
mod rows;
#[cfg(feature = "alloc")]
mod runs;

#[cfg(feature = "alloc")]
pub use rows::{CfiRows, NumberedFunction};
#[cfg(feature = "alloc")]
pub use runs::{CfiRuns, RunFunction, most_within_run};
#[cfg(feature = "alloc")]
pub use whole::{CfiFunction, CfiRow};

#[cfg(feature = "alloc")]
mod whole {
    use super::Saved;
    use crate::abi::Register;
    use alloc::vec::Vec;

    /// A row: what holds from its start to the next row's.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct CfiRow {
        /// First byte that it covers, from the start of the function.
        pub start: u32,
        /// The register that the CFA counts from.
        pub cfa_register: Register,
        /// Bytes from that register to the CFA.
        pub cfa_offset: i64,
        /// The registers with a rule, ascending by number: also the return address and the frame pointer.
        pub saved: Vec<(Register, Saved)>,
        /// AArch64: the return address is signed.
        pub signed: bool,
        /// Bytes of arguments that callees find on the stack, for landing pads (`DW_CFA_GNU_args_size`).
        pub args_size: u64,
    }

    impl CfiRow {
        /// Whether it says the same as another row, wherever the two start.
        pub fn says_same(&self, other: &Self) -> bool {
            let cfa = |row: &Self| (row.cfa_register, row.cfa_offset);
            let rest = |row: &Self| (row.signed, row.args_size);
            cfa(self) == cfa(other) && rest(self) == rest(other) && self.saved == other.saved
        }
    }

    /// The rows of a function.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct CfiFunction {
        /// Bytes of code.
        pub size: u32,
        /// Whether it is a signal frame: its caller was interrupted and did not call.
        pub signal: bool,
        /// AArch64: return addresses are signed with key B.
        pub key_b: bool,
        /// The rows, ascending by start. Bytes before the first one have none.
        pub rows: Vec<CfiRow>,
    }
}
