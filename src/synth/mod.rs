//! Synthetic sections: those that the linker makes itself.
//!
//! A synthetic section is a section like any other. It has a [`SectionId`](crate::ids::SectionId), a name, a
//! type and flags. A script matches it as a section of the file `<internal>`, and it is laid out.
//! [`synthesis`] says what the linker has to know about one, and [`kinds`] which file says it. A new kind is
//! a line in [`crate::tables::section::Kind`], a line in [`kinds`], and a file here. If the default scripts
//! do not name it, it is placed like an input section that no rule of the script matches.

pub mod android;
mod attributes;
mod build_attributes;
mod code_mark;
mod comment;
mod common;
pub mod copy;
mod debug_frame;
pub mod debug_link;
mod debug_names;
pub mod dynamic;
mod dynstr;
pub mod dynsym;
pub mod eh_frame;
pub mod eh_frame_hdr;
mod file_tables;
mod gdb_index;
mod gnu_hash;
mod got;
pub mod groups;
mod hash;
mod interp;
pub mod kinds;
pub mod merged;
pub mod notes;
mod plt;
mod plt_cfi;
pub mod property_note;
pub mod references;
mod rela_output;
pub mod reldyn;
pub mod relr;
mod sframe;
pub mod symbol_versions;
pub mod symtab;
pub mod symtab_entries;
pub mod synthesis;
pub mod tagged_globals;
pub mod thunks;
mod unwind_table;
