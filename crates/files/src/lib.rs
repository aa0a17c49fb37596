//! Files as commands use them.
//!
//! Inputs are mapped and stay where they are for as long as the work takes ([`InputStore`]). [`archive`] lists
//! the members of archives, and [`sniff`] tells by its first bytes what a file is. A command that makes files
//! lists those that are not finished, so that a signal leaves none behind ([`interrupt`]).

pub mod archive;
pub mod holes;
pub mod interrupt;
pub mod sniff;
mod spin_lock;
pub mod store;
mod sync;

pub use store::{
    FileBytes, FileIdentity, InputSource, InputStore, SystemSource, open_regular, read_arguments,
};

/// The bytes that may stand before a text in UTF-8, and are no part of it.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
