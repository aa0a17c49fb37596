//! Input files as the linker sees them: bytes that stay where they are, and views into them.

pub mod archive;
pub mod binary;
pub mod call_graph;
pub mod decompress;
mod exercise;
pub mod group;
pub mod implicit;
pub mod object;
pub mod ordering;
pub mod packed;
pub mod sframe;
pub mod shared;
pub mod side_files;
pub mod sniff;
pub mod source_lines;
pub mod store;

pub use exercise::exercise;
pub use object::ObjectFile;
pub use shared::SharedFile;
pub use store::{FileBytes, FileIdentity, InputSource, InputStore, SystemSource};
