//! Symbols: one row for every different global name, one for every local symbol.

pub mod intern;
pub mod table;

pub use intern::Interner;
pub use table::{Definition, SymbolTable, flag};
