//! Bytes to disk.

pub mod compress;
pub mod file;
pub mod headers;
