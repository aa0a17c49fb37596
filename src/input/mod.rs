//! Input files: objects, shared libraries, archives, and the texts that options name.
//!
//! The bytes of a file are mapped and stay in place until the link ends; everything here is a view of them.
//! Parsing checks the structure that later passes rely on, so these passes need not check it again.

pub mod binary;
pub mod call_graph;
pub mod chroot;
pub mod decompress;
pub mod edit;
mod exercise;
pub mod group;
pub mod implicit;
mod loaded;
pub mod measure;
pub mod object;
pub mod ordering;
pub mod packed;
pub mod placeholder;
pub mod section_class;
pub mod section_info;
pub mod sframe;
pub mod shared;
pub mod side_files;
pub mod source_lines;
pub mod temporal_profile;
mod usage;

pub use exercise::exercise;
pub use files::{
    FileBytes, FileIdentity, InputSource, InputStore, SystemSource, archive, open_regular, read_arguments,
    sniff, store,
};
pub use object::ObjectFile;
pub use section_class::SectionClass;
pub use section_info::SectionInfo;
pub use shared::SharedFile;
pub use usage::SymbolUse;
