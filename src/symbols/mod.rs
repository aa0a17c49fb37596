//! The symbol table of a link.
//!
//! Every different global name is one row, whichever files use it; every local symbol of an object
//! has a row behind those. Each property of symbols (flags, definition, version) is a vector over
//! these rows, or over the globals alone, so that a pass loads only the properties that it needs.

pub mod common;
pub mod definitions;
pub mod flags;
pub mod globals;
pub mod intern;
pub mod name_list;
pub mod start_stop;
pub mod versions;

pub use common::CommonBlock;
pub use definitions::{Definition, Definitions, LinkerSymbol, LinkerSymbolOrigin, Mentions, Reserved};
pub use flags::{GatheredNeeds, Needs, SymbolFlags};
pub use globals::Globals;
pub use intern::Interner;
pub use name_list::NameList;
pub use start_stop::{is_identifier, start_stop};
pub use versions::{VersionDefinition, Versions};
