//! Registers by machine, for programs that open events.

use crate::values::text;
use sframe_format::Abi;
use stacks::registers::{mask, number_in_samples};
use std::ffi::{c_char, c_int};

/// `e_machine` (gABI, "ELF Header").
const EM_S390: u16 = 22;
const EM_X86_64: u16 = 62;
const EM_AARCH64: u16 = 183;
/// DWARF numbers of the stack pointers of 32-bit programs: that of the i386, and r13 of Arm.
const ESP: c_int = 4;
const ARM_SP: c_int = 13;

/// The architecture of programs with this `e_machine`, of this machine's byte order if it has two; 0 stands
/// for this machine.
pub(crate) fn abi_of(machine: u16) -> Option<Abi> {
    match machine {
        0 => stacks::live::NATIVE,
        EM_AARCH64 => Abi::from_elf(machine, cfg!(target_endian = "big") && cfg!(target_arch = "aarch64")),
        _ => Abi::from_elf(machine, machine == EM_S390),
    }
}

/// The registers to ask for; see the header.
#[unsafe(no_mangle)]
pub extern "C" fn sframe_perf_sample_preferred_regs_mask(machine: u16) -> u64 {
    abi_of(machine).map_or(0, mask)
}

/// The machine of a name; see the header.
///
/// # Safety
/// The name is null or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_arch_from_uname(machine: *const c_char) -> u16 {
    // SAFETY: as the caller says.
    match unsafe { text(machine) } {
        Some(b"x86_64") => EM_X86_64,
        Some(b"aarch64" | b"aarch64_be") => EM_AARCH64,
        Some(b"s390x") => EM_S390,
        _ => 0,
    }
}

/// The number of registers; see the header.
#[unsafe(no_mangle)]
pub extern "C" fn sframe_arch_expected_frame_nregs(machine: u16) -> u32 {
    sframe_perf_sample_preferred_regs_mask(machine).count_ones()
}

/// The stack pointer in DWARF; see the header.
#[unsafe(no_mangle)]
pub extern "C" fn sframe_arch_sp_dwarf_reg(machine: u16, abi32: c_int) -> c_int {
    match (abi_of(machine), abi32 != 0) {
        (None, _) => -1,
        (Some(Abi::Amd64), true) => ESP,
        (Some(Abi::AArch64Little | Abi::AArch64Big), true) => ARM_SP,
        (Some(abi), _) => abi.stack_pointer() as c_int,
    }
}

/// The stack pointer in samples; see the header.
#[unsafe(no_mangle)]
pub extern "C" fn sframe_arch_sp_perf_reg(machine: u16, mask: u64, abi32: c_int) -> c_int {
    let Some(abi) = abi_of(machine) else { return -1 };
    let number = match abi {
        Abi::AArch64Little | Abi::AArch64Big if abi32 != 0 => Some(ARM_SP as u32),
        _ => number_in_samples(abi, abi.stack_pointer()),
    };
    let Some(number) = number else { return -1 };
    if mask == 0 {
        return number as c_int;
    }
    let below = mask & ((1 << number) - 1);
    if mask >> number & 1 == 0 { -2 } else { below.count_ones() as c_int }
}
