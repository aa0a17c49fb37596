//! The output file on disk, its headers, and reports about the link.

pub mod build_id;
pub mod compress;
pub mod cross_reference;
pub mod dependency_file;
pub mod detach;
pub mod error_script;
pub mod file;
pub mod headers;
pub mod image;
pub mod interrupt;
pub mod map;
pub mod overwrite;
pub mod reports;
pub mod reproduce;
pub mod stats;
mod temporary;
pub mod trace;
