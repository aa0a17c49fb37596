//! sframe-ld: an ELF linker as a library.
pub mod arch;
pub mod diag;
pub mod elf;
pub mod ids;
pub mod input;
