//! Assembly: functions that save the registers of their caller.
//!
//! Callee-saved registers are saved at the places of [`Registers`](crate::registers::Registers) in a
//! [`Context`]; at the other places there is anything, and the other fields are not filled in. The context
//! goes from frame to frame, so what the function itself needs to return is saved once more. The frames have
//! call frame information, since other unwinders walk through them.

use core::mem::offset_of;

use super::phases;
use crate::context::Context;

/// Where the registers are in a context.
const REGISTERS: usize = offset_of!(Context, registers);
/// Room for a context, in pieces by which stacks are aligned.
const ROOM: usize = size_of::<Context>().next_multiple_of(16);

/// Defines the functions whose callers' registers are needed.
macro_rules! define {
    ($($name:literal, $function:path, $argument:literal;)*) => {
        $(save!($name, $function, $argument);)*
    };
}

#[cfg(target_arch = "x86_64")]
macro_rules! save {
    ($name:literal, $function:path, $argument:literal) => {
        function!(
            $name,
            "lea rax, [rsp + 8]",
            "sub rsp, {room} + 8",
            ".cfi_adjust_cfa_offset {room} + 8",
            "mov [rsp + {registers} + 3 * 8], rbx",
            "mov [rsp + {registers} + 6 * 8], rbp",
            "mov [rsp + {registers} + 7 * 8], rax",
            "mov [rsp + {registers} + 12 * 8], r12",
            "mov [rsp + {registers} + 13 * 8], r13",
            "mov [rsp + {registers} + 14 * 8], r14",
            "mov [rsp + {registers} + 15 * 8], r15",
            "mov rax, [rsp + {room} + 8]",
            "mov [rsp + {registers} + 16 * 8], rax",
            // Behind the return address of this function; 8 where there is no shadow stack.
            "xor eax, eax",
            "rdsspq rax",
            "add rax, 8",
            "mov [rsp + {registers} + 17 * 8], rax",
            concat!("mov ", $argument, ", rsp"),
            "call {function}",
            "add rsp, {room} + 8",
            ".cfi_adjust_cfa_offset -({room} + 8)",
            "ret";
            function = sym $function, registers = const REGISTERS, room = const ROOM,
        );
    };
}

#[cfg(target_arch = "x86_64")]
define! {
    "_Unwind_RaiseException", phases::raise_exception, "rsi";
    "_Unwind_Resume_or_Rethrow", phases::resume_or_rethrow, "rsi";
    "_Unwind_Resume", phases::resume, "rsi";
    "_Unwind_ForcedUnwind", phases::forced_unwind, "rcx";
    "_Unwind_Backtrace", phases::backtrace, "rdx";
}

#[cfg(target_arch = "aarch64")]
macro_rules! save {
    ($name:literal, $function:path, $argument:literal) => {
        function!(
            $name,
            // bti c
            "hint #34",
            "sub sp, sp, #{room} + 16",
            ".cfi_adjust_cfa_offset {room} + 16",
            "str x30, [sp, #{room}]",
            ".cfi_rel_offset x30, {room}",
            "stp x18, x19, [sp, #{registers} + 18 * 8]",
            "stp x20, x21, [sp, #{registers} + 20 * 8]",
            "stp x22, x23, [sp, #{registers} + 22 * 8]",
            "stp x24, x25, [sp, #{registers} + 24 * 8]",
            "stp x26, x27, [sp, #{registers} + 26 * 8]",
            "stp x28, x29, [sp, #{registers} + 28 * 8]",
            "str x30, [sp, #{registers} + 30 * 8]",
            "add x16, sp, #{room} + 16",
            "str x16, [sp, #{registers} + 31 * 8]",
            "stp d8, d9, [sp, #{registers} + 40 * 8]",
            "stp d10, d11, [sp, #{registers} + 42 * 8]",
            "stp d12, d13, [sp, #{registers} + 44 * 8]",
            "stp d14, d15, [sp, #{registers} + 46 * 8]",
            "str x30, [sp, #{registers} + 64 * 8]",
            concat!("mov ", $argument, ", sp"),
            "bl {function}",
            "ldr x30, [sp, #{room}]",
            ".cfi_restore x30",
            "add sp, sp, #{room} + 16",
            ".cfi_adjust_cfa_offset -({room} + 16)",
            "ret";
            function = sym $function, registers = const REGISTERS, room = const ROOM,
        );
    };
}

#[cfg(target_arch = "aarch64")]
define! {
    "_Unwind_RaiseException", phases::raise_exception, "x1";
    "_Unwind_Resume_or_Rethrow", phases::resume_or_rethrow, "x1";
    "_Unwind_Resume", phases::resume, "x1";
    "_Unwind_ForcedUnwind", phases::forced_unwind, "x3";
    "_Unwind_Backtrace", phases::backtrace, "x2";
}

#[cfg(target_arch = "s390x")]
macro_rules! save {
    ($name:literal, $function:path, $argument:literal) => {
        function!(
            $name,
            "lgr %r1, %r15",
            "aghi %r15, -(176 + {room})",
            ".cfi_adjust_cfa_offset 176 + {room}",
            "stg %r14, 160 + {room}(%r15)",
            ".cfi_rel_offset %r14, 160 + {room}",
            // libgcc takes the CFA for the stack pointer of a caller if this is not saved.
            "stg %r1, 168 + {room}(%r15)",
            ".cfi_rel_offset %r15, 168 + {room}",
            "stmg %r6, %r14, 160 + {registers} + 48(%r15)",
            "stg %r1, 160 + {registers} + 120(%r15)",
            "std %f8, 160 + {registers} + 192(%r15)",
            "std %f10, 160 + {registers} + 200(%r15)",
            "std %f12, 160 + {registers} + 208(%r15)",
            "std %f14, 160 + {registers} + 216(%r15)",
            "std %f9, 160 + {registers} + 224(%r15)",
            "std %f11, 160 + {registers} + 232(%r15)",
            "std %f13, 160 + {registers} + 240(%r15)",
            "std %f15, 160 + {registers} + 248(%r15)",
            "stg %r14, 160 + {registers} + 256(%r15)",
            concat!("la ", $argument, ", 160(%r15)"),
            "brasl %r14, {function}",
            "lg %r14, 160 + {room}(%r15)",
            ".cfi_restore %r14",
            ".cfi_restore %r15",
            "aghi %r15, 176 + {room}",
            ".cfi_adjust_cfa_offset -(176 + {room})",
            "br %r14";
            function = sym $function, registers = const REGISTERS, room = const ROOM,
        );
    };
}

#[cfg(target_arch = "s390x")]
define! {
    "_Unwind_RaiseException", phases::raise_exception, "%r3";
    "_Unwind_Resume_or_Rethrow", phases::resume_or_rethrow, "%r3";
    "_Unwind_Resume", phases::resume, "%r3";
    "_Unwind_ForcedUnwind", phases::forced_unwind, "%r5";
    "_Unwind_Backtrace", phases::backtrace, "%r4";
}
