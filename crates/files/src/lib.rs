//! Files as commands use them: inputs, archives, and outputs that are not finished.
//!
//! An [`InputStore`] maps inputs and keeps them in place for as long as the work takes. [`archive`] lists the
//! members of archives. [`sniff`] finds out from its first bytes what a file is. A command makes files under
//! temporary names ([`temporary`]), which are listed, so that a signal leaves none behind ([`interrupt`]).

pub mod archive;
mod copies;
pub mod holes;
pub mod interrupt;
pub mod sniff;
mod spin_lock;
pub mod store;
mod sync;
pub mod temporary;

pub use store::{
    FileBytes, FileIdentity, InputSource, InputStore, SystemSource, open_regular, read_arguments,
};

/// The UTF-8 byte order mark, which some editors put before a text. It is not part of the text.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
