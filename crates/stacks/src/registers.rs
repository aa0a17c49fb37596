//! The numbers that the kernel gives to registers in samples, and those of DWARF.

use sframe_format::Abi;
use sframe_format::abi::Register;

/// A register, from its number in `perf_event_open`.
pub enum Number {
    /// Its DWARF number.
    Register(Register),
    /// The program counter.
    ProgramCounter,
    /// A register that unwinding does not need.
    Other,
}

/// The register with this number in the kernel's order (`arch/*/include/uapi/asm/perf_regs.h`).
pub fn dwarf_number(abi: Abi, number: u32) -> Number {
    match (abi, number) {
        (Abi::Amd64, 0..8) => {
            const ORDER: [Register; 8] = [0, 3, 2, 1, 4, 5, 6, 7];
            Number::Register(ORDER[number as usize])
        }
        (Abi::Amd64, 8) => Number::ProgramCounter,
        (Abi::Amd64, 16..24) => Number::Register(number - 8),
        (Abi::AArch64Little | Abi::AArch64Big, 0..32) => Number::Register(number),
        (Abi::AArch64Little | Abi::AArch64Big, 32) => Number::ProgramCounter,
        (Abi::S390x, 0..16) => Number::Register(number),
        (Abi::S390x, 33) => Number::ProgramCounter,
        _ => Number::Other,
    }
}

/// The kernel's number of a register. `None`: samples do not have it.
pub fn number_in_samples(abi: Abi, register: Register) -> Option<u32> {
    let is_it = |number: &u32| matches!(dwarf_number(abi, *number), Number::Register(own) if own == register);
    (0..u64::BITS).find(is_it)
}

/// The kernel's number of the program counter.
pub fn program_counter(abi: Abi) -> u32 {
    let is_it = |number: &u32| matches!(dwarf_number(abi, *number), Number::ProgramCounter);
    (0..u64::BITS).find(is_it).unwrap_or(0)
}

/// The registers to ask for, as `sample_regs_user` takes them, with a bit for each of the kernel's numbers:
/// all except segments and flags.
pub fn mask(abi: Abi) -> u64 {
    match abi {
        Abi::Amd64 => 0x00ff_01ff,
        Abi::AArch64Little | Abi::AArch64Big => (1 << 33) - 1,
        Abi::S390x => 0xffff | 1 << 33,
    }
}

#[cfg(test)]
mod tests {
    use super::{mask, number_in_samples, program_counter};
    use sframe_format::Abi;

    #[test]
    fn numbers_of_samples_are_those_that_are_asked_for() {
        for abi in [Abi::Amd64, Abi::AArch64Little, Abi::AArch64Big, Abi::S390x] {
            let asked = |number: u32| mask(abi) >> number & 1 != 0;
            assert!(asked(program_counter(abi)), "{abi}");
            for register in [abi.stack_pointer(), abi.frame_pointer()] {
                assert!(number_in_samples(abi, register).is_some_and(asked), "{abi}: {register}");
            }
            assert_eq!(number_in_samples(abi, 99), None);
        }
        // `PERF_REG_X86_SP`, and DWARF's number of r8.
        assert_eq!((number_in_samples(Abi::Amd64, 7), number_in_samples(Abi::Amd64, 8)), (Some(7), Some(16)));
    }
}
