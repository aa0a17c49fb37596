//! The machines, behind one trait.
//!
//! [`Target`] is a zero-sized type with constants, tables and small functions. The pipeline is generic over
//! it. A link picks its target once, so no relocation pays for a dynamic call. Passes ask for capabilities;
//! they never ask which machine it is.

pub mod aarch64;
pub mod machine;
pub mod relocation;
pub mod s390x;
pub mod target;
pub mod thunk;
pub mod x86_64;

pub use relocation::{Mode, Relaxed, RelocBase, RelocExpr, Site};
pub use target::{RelocInfo, Target};

use crate::cli::Machine;

/// Work for a machine that is known only when the link runs.
pub trait ForTarget {
    /// The function's result.
    type Output;
    /// Runs the work for `T`.
    fn run<T: Target>(self, target: T) -> Self::Output;
}

/// Runs `work` with the target type of `machine`: the one place where a machine becomes a type.
pub fn dispatch<W: ForTarget>(machine: Machine, work: W) -> W::Output {
    match machine {
        Machine::X86_64 => work.run(x86_64::X86_64),
        Machine::AArch64 => work.run(aarch64::AArch64),
        Machine::S390x => work.run(s390x::S390x),
    }
}
