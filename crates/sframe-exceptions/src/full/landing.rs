//! Assembly: the way into a landing pad, and return addresses that are signed.

use crate::registers::Registers;

// The shadow stack, where there is one, loses the return addresses of the frames that are left, at most 255
// with each instruction. The jump is not a return, so it needs no address there.
//
// Landing pads expect what functions save for their callers, and rax and rdx, in which personality routines
// leave the exception and what it is to the landing pad.
#[cfg(target_arch = "x86_64")]
function!(
    "sframe_load_registers",
    ".hidden sframe_load_registers",
    "xor eax, eax",
    "rdsspq rax",
    "test rax, rax",
    "jz 4f",
    "mov rcx, [rdi + 17 * 8]",
    "sub rcx, rax",
    "jbe 4f",
    "shr rcx, 3",
    "mov edx, 255",
    "2:",
    "cmp rcx, rdx",
    "jbe 3f",
    "incsspq rdx",
    "sub rcx, rdx",
    "jmp 2b",
    "3:",
    "incsspq rcx",
    "4:",
    "mov rcx, [rdi + 16 * 8]",
    "mov rax, [rdi]",
    "mov rdx, [rdi + 1 * 8]",
    "mov rbx, [rdi + 3 * 8]",
    "mov rbp, [rdi + 6 * 8]",
    "mov r12, [rdi + 12 * 8]",
    "mov r13, [rdi + 13 * 8]",
    "mov r14, [rdi + 14 * 8]",
    "mov r15, [rdi + 15 * 8]",
    "mov rsp, [rdi + 7 * 8]",
    "jmp rcx";
);

// The jump takes x17, from which landing pads may be entered where branches are checked. Personality routines
// may fill x0 to x3 for the landing pad. x18 belongs to the platform: code with a shadow call stack has its
// pointer there, and rows that count it back.
#[cfg(target_arch = "aarch64")]
function!(
    "sframe_load_registers",
    ".hidden sframe_load_registers",
    "ldr x16, [x0, #31 * 8]",
    "ldr x17, [x0, #64 * 8]",
    "ldp d8, d9, [x0, #40 * 8]",
    "ldp d10, d11, [x0, #42 * 8]",
    "ldp d12, d13, [x0, #44 * 8]",
    "ldp d14, d15, [x0, #46 * 8]",
    "ldp x2, x3, [x0, #2 * 8]",
    "ldp x18, x19, [x0, #18 * 8]",
    "ldp x20, x21, [x0, #20 * 8]",
    "ldp x22, x23, [x0, #22 * 8]",
    "ldp x24, x25, [x0, #24 * 8]",
    "ldp x26, x27, [x0, #26 * 8]",
    "ldp x28, x29, [x0, #28 * 8]",
    "ldr x30, [x0, #30 * 8]",
    "ldp x0, x1, [x0]",
    "mov sp, x16",
    "br x17";
);

// The program counter goes through r1, which no caller expects back. The last instruction before the jump
// loads all others, the stack pointer among them.
#[cfg(target_arch = "s390x")]
function!(
    "sframe_load_registers",
    ".hidden sframe_load_registers",
    "ld %f8, 192(%r2)",
    "ld %f10, 200(%r2)",
    "ld %f12, 208(%r2)",
    "ld %f14, 216(%r2)",
    "ld %f9, 224(%r2)",
    "ld %f11, 232(%r2)",
    "ld %f13, 240(%r2)",
    "ld %f15, 248(%r2)",
    "lg %r1, 256(%r2)",
    "lmg %r2, %r15, 16(%r2)",
    "br %r1";
);

unsafe extern "C" {
    fn sframe_load_registers(registers: &Registers) -> !;
}

/// Goes on where the registers say.
///
/// # Safety
/// They are those of a frame of this thread, at a landing pad.
#[inline(always)]
pub unsafe fn load(registers: &Registers) -> ! {
    // SAFETY: as the caller says.
    unsafe { sframe_load_registers(registers) }
}

/// The address behind a signed one, or the end of the process if the signature is wrong.
#[cfg(target_arch = "aarch64")]
pub fn authenticated(address: u64, cfa: u64, key_b: bool) -> u64 {
    let mut address = address;
    // SAFETY: machines without signatures do nothing.
    unsafe {
        if key_b {
            // autib1716
            core::arch::asm!("hint #14", inout("x17") address, in("x16") cfa, options(nomem, nostack));
        } else {
            // autia1716
            core::arch::asm!("hint #12", inout("x17") address, in("x16") cfa, options(nomem, nostack));
        }
    }
    address
}

/// The address behind a signed one.
#[cfg(target_arch = "aarch64")]
pub fn stripped(address: u64, _: u64, _: bool) -> u64 {
    let mut address = address;
    // SAFETY: machines without signatures do nothing. xpaclri
    unsafe { core::arch::asm!("hint #7", inout("x30") address, options(nomem, nostack)) };
    address
}

/// No return address is signed on this machine.
#[cfg(not(target_arch = "aarch64"))]
pub fn authenticated(address: u64, _: u64, _: bool) -> u64 {
    address
}

/// No return address is signed on this machine.
#[cfg(not(target_arch = "aarch64"))]
pub fn stripped(address: u64, _: u64, _: bool) -> u64 {
    address
}
