//! The output file: its headers, forms of its contents, and the file on disk.

pub mod build_id;
pub mod compress;
pub mod debug_link;
pub mod detach;
pub mod file;
pub mod headers;
pub mod image;
