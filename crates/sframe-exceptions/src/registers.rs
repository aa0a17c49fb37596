//! The registers that are restored, and where their values stand in an array.

use sframe_format::Abi;

#[cfg(target_arch = "x86_64")]
mod machine {
    use sframe_format::Abi;

    /// The ABI of this machine.
    pub const ABI: Abi = Abi::Amd64;
    /// Places of all registers: DWARF's order, with the program counter in the column of the return address,
    /// then the pointer into the shadow stack.
    pub const REGISTERS: usize = 18;
    /// The place of the program counter.
    pub const PROGRAM_COUNTER: usize = 16;
    /// The place of the pointer into the shadow stack.
    pub const SHADOW_STACK: usize = 17;
    /// Where landing pads expect the exception, and what it is to them.
    pub const LANDING: [usize; 2] = [0, 1];

    /// The place of the register with this DWARF number. `None`: it is not restored.
    pub fn place(register: u32) -> Option<usize> {
        usize::try_from(register).ok().filter(|&register| register <= PROGRAM_COUNTER)
    }
}

#[cfg(target_arch = "aarch64")]
mod machine {
    use sframe_format::Abi;

    /// The ABI of this machine.
    pub const ABI: Abi = if cfg!(target_endian = "big") { Abi::AArch64Big } else { Abi::AArch64Little };
    /// x0 to x30, the stack pointer, the low halves of v0 to v31, the program counter.
    pub const REGISTERS: usize = 65;
    /// The place of the program counter.
    pub const PROGRAM_COUNTER: usize = 64;
    /// Where landing pads expect the exception, and what it is to them.
    pub const LANDING: [usize; 2] = [0, 1];

    /// The place of the register with this DWARF number. `None`: it is not restored.
    pub fn place(register: u32) -> Option<usize> {
        match register {
            0..32 => Some(register as usize),
            64..96 => Some(register as usize - 32),
            _ => None,
        }
    }
}

#[cfg(target_arch = "s390x")]
mod machine {
    use sframe_format::Abi;

    /// The ABI of this machine.
    pub const ABI: Abi = Abi::S390x;
    /// r0 to r15, the floating point registers in DWARF's order, the program counter.
    pub const REGISTERS: usize = 33;
    /// The place of the program counter.
    pub const PROGRAM_COUNTER: usize = 32;
    /// Where landing pads expect the exception, and what it is to them.
    pub const LANDING: [usize; 2] = [6, 7];

    /// The place of the register with this DWARF number. `None`: it is not restored.
    pub fn place(register: u32) -> Option<usize> {
        usize::try_from(register).ok().filter(|&register| register < 32)
    }
}

#[cfg(target_arch = "x86_64")]
pub use machine::SHADOW_STACK;
pub use machine::{ABI, LANDING, PROGRAM_COUNTER, REGISTERS, place};

/// The place of the stack pointer.
pub const STACK_POINTER: usize = ABI.stack_pointer() as usize;

/// The values of all registers. Assembly fills and loads them.
pub type Registers = [u64; REGISTERS];

/// Whether tables of this ABI describe code of this machine.
pub fn is_native(abi: Abi) -> bool {
    abi == ABI
}
