//! Assembly: functions that save the registers of their caller.
//!
//! Callee-saved registers are saved at the places of [`Registers`](crate::registers::Registers); at the other
//! places there is anything. The frames have call frame information, since other unwinders walk through
//! them.

use super::phases;

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
            "sub rsp, 136",
            ".cfi_adjust_cfa_offset 136",
            "mov [rsp + 3 * 8], rbx",
            "mov [rsp + 6 * 8], rbp",
            "mov [rsp + 7 * 8], rax",
            "mov [rsp + 12 * 8], r12",
            "mov [rsp + 13 * 8], r13",
            "mov [rsp + 14 * 8], r14",
            "mov [rsp + 15 * 8], r15",
            "mov rax, [rsp + 136]",
            "mov [rsp + 16 * 8], rax",
            concat!("mov ", $argument, ", rsp"),
            "call {function}",
            "add rsp, 136",
            ".cfi_adjust_cfa_offset -136",
            "ret";
            function = sym $function,
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
            "sub sp, sp, #528",
            ".cfi_adjust_cfa_offset 528",
            "stp x19, x20, [sp, #19 * 8]",
            "stp x21, x22, [sp, #21 * 8]",
            "stp x23, x24, [sp, #23 * 8]",
            "stp x25, x26, [sp, #25 * 8]",
            "stp x27, x28, [sp, #27 * 8]",
            "stp x29, x30, [sp, #29 * 8]",
            ".cfi_rel_offset x30, 240",
            "add x16, sp, #528",
            "str x16, [sp, #31 * 8]",
            "stp d8, d9, [sp, #40 * 8]",
            "stp d10, d11, [sp, #42 * 8]",
            "stp d12, d13, [sp, #44 * 8]",
            "stp d14, d15, [sp, #46 * 8]",
            "str x30, [sp, #64 * 8]",
            concat!("mov ", $argument, ", sp"),
            "bl {function}",
            "ldr x30, [sp, #30 * 8]",
            ".cfi_restore x30",
            "add sp, sp, #528",
            ".cfi_adjust_cfa_offset -528",
            "ret";
            function = sym $function,
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
            "aghi %r15, -424",
            ".cfi_adjust_cfa_offset 424",
            "stmg %r6, %r14, 208(%r15)",
            ".cfi_rel_offset %r14, 272",
            // libgcc takes the CFA for the stack pointer of a caller if this is not saved.
            "stg %r1, 280(%r15)",
            ".cfi_rel_offset %r15, 280",
            "std %f8, 352(%r15)",
            "std %f10, 360(%r15)",
            "std %f12, 368(%r15)",
            "std %f14, 376(%r15)",
            "std %f9, 384(%r15)",
            "std %f11, 392(%r15)",
            "std %f13, 400(%r15)",
            "std %f15, 408(%r15)",
            "stg %r14, 416(%r15)",
            concat!("la ", $argument, ", 160(%r15)"),
            "brasl %r14, {function}",
            "lg %r14, 272(%r15)",
            ".cfi_restore %r14",
            ".cfi_restore %r15",
            "aghi %r15, 424",
            ".cfi_adjust_cfa_offset -424",
            "br %r14";
            function = sym $function,
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
