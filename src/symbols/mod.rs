//! The symbol table of a link: one row for each global name, whichever files use it, and one for each local
//! symbol.
//!
//! A thousand objects that call `malloc` mention one symbol a thousand times, each by its own copy of the
//! name and its own number in its own table. If every reference compared names, the linker would compare them
//! again for each relocation. So the linker first gives each different global name a number, a
//! [`SymbolId`](crate::ids::SymbolId), and all later passes work with numbers:
//!
//! ```text
//! row            0        1        2       |  3 ...              |  9 ...
//! symbol         main     malloc   exit    |  locals of a.o      |  locals of b.o
//! definition     a.o, 12  libc, 7  nobody  |
//! flags          -        import   undef   |  ...                 |  ...
//! ```
//!
//! Each property (definition, flags, version, value) is a vector of its own, over all rows or over the
//! globals alone, so that a pass loads only the properties that it needs.
//!
//! Symbol resolution is the work of six passes over these rows:
//!
//! 1. `parse_inputs` hashes the names of all files and numbers them ([`intern`]).
//! 2. `extract_members` searches the archives, in the order of the command line, and so decides which files
//!    take part.
//! 3. `unify_versions` gives one number to names that mean one symbol, as `read@V2` and `read@@V2` do.
//! 4. `select_definitions` chooses the prevailing definition of each global: a strong one before a common
//!    block, a common block before a weak one, a weak one before a shared library's, and the first file among
//!    equals.
//! 5. `bind_versions` binds references that name a version to the definition of that version.
//! 6. `bind_symbols` decides what the dynamic linker binds: what is imported and what is exported.
//!
//! The objects of step 4 are read in parallel. If the first thread to offer a definition won, two runs of one
//! link could choose different functions. So a candidate is a key made of its rank and of its file's and its
//! symbol's number, and the smallest key prevails, whichever thread brings it first.

pub mod common;
pub mod definitions;
pub mod flags;
pub mod globals;
pub mod intern;
pub mod name_list;
pub mod start_stop;
pub mod versions;

pub use common::CommonBlock;
pub use definitions::{Definition, Definitions, LinkerSymbol, LinkerSymbolOrigin, MentionedBy, Reserved};
pub use flags::{AtomicNeeds, Needs, SymbolFlags};
pub use globals::Globals;
pub use intern::{Interner, Names};
pub use name_list::NameList;
pub use start_stop::{is_identifier, start_stop};
pub use versions::{VersionDefinition, Versions};
