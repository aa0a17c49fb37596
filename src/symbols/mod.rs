//! Symbols: one row for every different global name, one for every local symbol.

pub mod common;
pub mod intern;
pub mod name_list;
pub mod table;
pub mod versions;

pub use common::CommonBlock;
pub use intern::Interner;
pub use name_list::NameList;
pub use table::{Definition, SymbolTable, flag};
pub use versions::Versions;
