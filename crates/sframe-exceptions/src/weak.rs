//! Weak definitions, which Rust does not have.

/// Defines a weak function by its name, which jumps to another function.
macro_rules! weak {
    ($name:literal, $target:path) => {
        #[cfg(target_arch = "x86_64")]
        weak!($name, $target, "jmp {}");
        #[cfg(target_arch = "aarch64")]
        weak!($name, $target, "b {}");
        #[cfg(target_arch = "s390x")]
        weak!($name, $target, "jg {}");
    };
    ($name:literal, $target:path, $jump:literal) => {
        core::arch::global_asm!(
            concat!(".pushsection .text.weak.", $name, ", \"ax\", %progbits"),
            concat!(".weak ", $name),
            concat!(".type ", $name, ", %function"),
            concat!($name, ":"),
            ".cfi_startproc",
            $jump,
            ".cfi_endproc",
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
            sym $target,
        );
    };
}
