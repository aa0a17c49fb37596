//! sframe-ld: an ELF linker as a library.
pub mod cli;
pub mod diag;
