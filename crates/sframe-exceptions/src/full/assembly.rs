//! What stands around the instructions of a function in assembly: a section of its own, its symbol, and the
//! bounds of its call frame information.

/// Defines a function by its name and its instructions, behind a semicolon with the operands of these.
macro_rules! function {
    ($name:literal, $($line:expr),+ $(,)?; $($operand:tt)*) => {
        core::arch::global_asm!(
            concat!(".pushsection .text.", $name, ", \"ax\", %progbits"),
            concat!(".globl ", $name),
            concat!(".type ", $name, ", %function"),
            concat!($name, ":"),
            ".cfi_startproc",
            $($line,)+
            ".cfi_endproc",
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
            $($operand)*
        );
    };
}
