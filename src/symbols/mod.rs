//! Symbols: one row for every different global name, one for every local symbol.

pub mod common;
pub mod definitions;
pub mod flags;
pub mod globals;
pub mod intern;
pub mod name_list;
pub mod versions;

pub use common::CommonBlock;
pub use definitions::{Definition, Definitions, LinkerSymbol, LinkerSymbolOrigin, Mentions, Reserved};
pub use flags::{SymbolFlags, flag};
pub use globals::Globals;
pub use intern::Interner;
pub use name_list::NameList;
pub use versions::{VersionDefinition, Versions};
