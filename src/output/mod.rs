//! Bytes to disk.

pub mod file;
pub mod headers;
