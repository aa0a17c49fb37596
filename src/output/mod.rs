//! Bytes to disk.

pub mod build_id;
pub mod compress;
pub mod file;
pub mod headers;
