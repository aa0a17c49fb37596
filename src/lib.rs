//! sframe-ld: an ELF linker as a library.
pub mod diag;
pub mod script;
