//! Bytes to disk.

pub mod compress;
