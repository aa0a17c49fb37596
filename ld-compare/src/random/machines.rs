//! Which templates belong to which machine.

use super::dialect::Dialect;
use crate::machine::Machine;

/// The templates of a machine.
pub fn dialect(machine: Machine) -> &'static Dialect {
    match machine {
        Machine::X86_64 => &super::x86_64::DIALECT,
        Machine::Aarch64 => &super::aarch64::DIALECT,
        Machine::S390x => &super::s390x::DIALECT,
    }
}
