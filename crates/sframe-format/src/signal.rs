//! Signal frames: the registers of interrupted code, which the Linux kernel leaves on the stack for a signal
//! handler.
//!
//! The handler returns to a trampoline of a few instructions. It is in the vDSO, in the C library
//! (`__restore_rt` on x86-64) or, on s390x before Linux 5.12, on the stack itself. Rows of the trampoline
//! lead to the interrupted code's stack pointer, program counter and frame pointer at best. But the frame
//! contains all registers, at offsets that the kernel's ABI fixes (`arch/*/include/uapi/asm/sigcontext.h`). A
//! leaf function that was interrupted has its return address in one of them.

use crate::abi::{Abi, Register};
use crate::registers::Registers;

/// Where the registers are, in bytes from the stack pointer at the trampoline.
struct Layout {
    general: General,
    sp: u64,
    pc: u64,
}

/// Registers in consecutive words from `start`.
enum General {
    /// `count` registers, by ascending DWARF number from 0.
    InOrder { start: u64, count: u32 },
    /// Registers with these DWARF numbers.
    TableAnswer { start: u64, numbers: &'static [u8] },
}

/// x86-64, `struct rt_sigframe` after the return address. It begins with `ucontext`, whose `sigcontext`
/// starts at byte 40.
const AMD64: Layout = Layout {
    general: General::TableAnswer {
        start: 40,
        numbers: &[8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2],
    },
    sp: 160,
    pc: 168,
};
/// AArch64, `struct rt_sigframe`: `siginfo` (128 bytes), then `ucontext`, whose `sigcontext` starts at byte
/// 176 with the fault's address.
const AARCH64: Layout =
    Layout { general: General::InOrder { start: 312, count: 31 }, sp: 312 + 31 * 8, pc: 312 + 32 * 8 };
/// s390x, `struct rt_sigframe`: the register save area (160 bytes), the trampoline's instruction, `siginfo`,
/// then `ucontext`, whose registers start at byte 40 with the program status word.
const S390X: Layout =
    Layout { general: General::InOrder { start: 352, count: 16 }, sp: 352 + 15 * 8, pc: 344 };

/// s390x, `struct sigframe`, of handlers that do not ask for `siginfo`: the register save area (160 bytes),
/// the set of blocked signals and a pointer (16), then the program status word and the registers.
static S390X_SHORT: Layout =
    Layout { general: General::InOrder { start: 192, count: 16 }, sp: 192 + 15 * 8, pc: 184 };

fn layout(abi: Abi) -> &'static Layout {
    match abi {
        Abi::Amd64 => &AMD64,
        Abi::AArch64Little | Abi::AArch64Big => &AARCH64,
        Abi::S390x => &S390X,
    }
}

/// Bytes from the stack pointer at the trampoline to the `ucontext_t` that is a handler's third argument.
pub const fn ucontext_offset(abi: Abi) -> u64 {
    match abi {
        Abi::Amd64 => 0,
        Abi::AArch64Little | Abi::AArch64Big => 128,
        Abi::S390x => 296,
    }
}

/// The program counter and the registers of the interrupted code, from the kernel's frame. `trampoline` are
/// the registers at the trampoline.
///
/// # Errors
/// The address of a word that cannot be read.
pub fn interrupted(
    abi: Abi,
    trampoline: &Registers,
    read_word: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Result<(u64, Registers), u64> {
    interrupted_by(abi, layout(abi), trampoline, read_word)
}

/// As [`interrupted`], for the trampoline at `address`. s390x has two frames, and a trampoline for each.
/// `None`: no trampoline is there.
pub fn interrupted_at(
    abi: Abi,
    address: u64,
    trampoline: &Registers,
    read_word: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Option<Result<(u64, Registers), u64>> {
    let layout = layout_at(abi, address, read_word)?;
    Some(interrupted_by(abi, layout, trampoline, read_word))
}

fn interrupted_by(
    abi: Abi,
    layout: &Layout,
    trampoline: &Registers,
    read_word: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Result<(u64, Registers), u64> {
    let mut read = |offset: u64| {
        let address = trampoline.sp.wrapping_add(offset);
        read_word(address).map_err(|()| address)
    };
    let pc = read(layout.pc)?;
    let mut registers = Registers::new(read(layout.sp)?, 0, None);
    registers.address_bits = trampoline.address_bits;
    match layout.general {
        General::InOrder { start, count } => {
            for number in 0..count {
                registers.set(abi, number, read(start + 8 * u64::from(number))?);
            }
        }
        General::TableAnswer { start, numbers } => {
            for (place, &number) in (0..).zip(numbers) {
                registers.set(abi, number.into(), read(start + 8 * place)?);
            }
        }
    }
    Ok((pc, registers))
}

/// Where the kernel left the registers of interrupted code, in bytes from the stack pointer at the
/// trampoline.
pub struct KernelFrame {
    /// Where the stack pointer is.
    pub stack_pointer: u64,
    /// Where the program counter is.
    pub program_counter: u64,
    /// On s390x, where the signal's number is.
    signal_number: Option<u64>,
    general: &'static General,
    stack_pointer_register: Register,
}

impl KernelFrame {
    /// The frame to which the trampoline at `address` belongs. `None`: no trampoline is there.
    pub fn of(abi: Abi, address: u64, read_word: &mut impl FnMut(u64) -> Result<u64, ()>) -> Option<Self> {
        let layout = layout_at(abi, address, read_word)?;
        let signal_number = if core::ptr::eq(layout, &S390X_SHORT) { 520 } else { 168 };
        Some(Self {
            stack_pointer: layout.sp,
            program_counter: layout.pc,
            signal_number: (abi == Abi::S390x).then_some(signal_number),
            general: &layout.general,
            stack_pointer_register: abi.stack_pointer(),
        })
    }

    /// The general registers but the stack pointer, and where they are.
    pub fn registers(&self) -> impl Iterator<Item = (Register, u64)> + use<> {
        let (count, start, numbers): (u32, u64, &[u8]) = match *self.general {
            General::InOrder { start, count } => (count, start, &[]),
            General::TableAnswer { start, numbers } => (numbers.len() as u32, start, numbers),
        };
        let number = move |place: u32| numbers.get(place as usize).map_or(place, |&number| number.into());
        let registers = (0..count).map(move |place| (number(place), start + 8 * u64::from(place)));
        let stack_pointer = self.stack_pointer_register;
        registers.filter(move |&(register, _)| register != stack_pointer)
    }

    /// Whether the program counter is behind the instruction that was interrupted, as behind a call: on
    /// s390x, SIGILL, SIGTRAP and SIGFPE come when their instruction is over. `sp` is the stack pointer at
    /// the trampoline.
    pub fn is_behind(&self, sp: u64, read_word: &mut impl FnMut(u64) -> Result<u64, ()>) -> bool {
        const BEHIND: [u64; 3] = [4, 5, 8];
        let Some(at) = self.signal_number else { return false };
        // The number is the upper half of the word: the machine is big-endian.
        read_word(sp.wrapping_add(at)).is_ok_and(|word| BEHIND.contains(&(word >> 32)))
    }
}

/// The layout of the frame that the trampoline at `address` belongs to. `None`: no trampoline is there.
fn layout_at(
    abi: Abi,
    address: u64,
    read_word: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Option<&'static Layout> {
    is_trampoline(abi, address, read_word).then(|| {
        let is_short = abi == Abi::S390x && read_word(address).is_ok_and(|code| code >> 48 == SIGRETURN);
        if is_short { &S390X_SHORT } else { layout(abi) }
    })
}

/// s390x: svc 119 and svc 173, the calls `sigreturn` and `rt_sigreturn`.
const SIGRETURN: u64 = 0x0a77;
const RT_SIGRETURN: u64 = 0x0aad;

/// Whether the instructions at `address` are the trampoline that ends a signal handler, in the kernel or the
/// C library: `rt_sigreturn` and nothing else (on s390x also `sigreturn`). This finds signal frames in code
/// without rows, such as the vDSO of AArch64.
pub fn is_trampoline(abi: Abi, address: u64, read_word: &mut impl FnMut(u64) -> Result<u64, ()>) -> bool {
    let Ok(code) = read_word(address) else { return false };
    match abi {
        // mov $15, %rax; syscall
        Abi::Amd64 => {
            code == 0x0f00_0000_0fc0_c748
                && read_word(address.wrapping_add(8)).is_ok_and(|word| word & 0xff == 5)
        }
        // mov x8, #139; svc #0. Instructions are little-endian even if data is not.
        Abi::AArch64Little => code == 0xd400_0001_d280_1168,
        Abi::AArch64Big => code.swap_bytes() == 0xd400_0001_d280_1168,
        Abi::S390x => matches!(code >> 48, SIGRETURN | RT_SIGRETURN),
    }
}
