//! Synthetic sections: those that the linker makes itself.
//!
//! A synthetic section is a section like any other: it has a [`SectionId`](crate::ids::SectionId),
//! a name, type and flags, it is matched by the script (as a section of the file `<internal>`) and
//! laid out. It exists from `create_synthetics` on, if it may be needed; `size_tables` gives it its
//! size; the layout drops empty ones; `write_output` writes its bytes.

pub mod android;
pub mod attributes;
mod build_attributes;
pub mod copy;
pub mod debug_names;
pub mod dynamic;
pub mod dynsym;
pub mod eh_frame;
pub mod eh_frame_hdr;
pub mod gdb_index;
pub mod gnu_hash;
pub mod got;
pub mod groups;
pub mod hash;
pub mod merged;
pub mod notes;
pub mod plt;
pub mod plt_cfi;
pub mod property_note;
pub mod references;
pub mod rela_output;
pub mod reldyn;
pub mod relr;
pub mod symbol_versions;
pub mod symtab;
pub mod symtab_entries;
pub mod thunks;
mod write;

pub use write::write;
