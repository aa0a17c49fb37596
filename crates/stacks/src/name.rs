//! The name of a frame.

use serde::Serialize;

/// The name of a frame, or of a function that the compiler put into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Name {
    /// The function as people write it; an address where none is known.
    pub function: String,
    /// Offset in the function, in bytes, if the function is known.
    pub offset: Option<u64>,
    /// Path of the file that holds it.
    pub file: String,
    /// Source file and line.
    pub place: Option<(String, u32)>,
    /// Whether the function is part of the one after it.
    pub inlined: bool,
}

/// The name of an address that no symbol covers.
pub(crate) fn nameless(address: u64, file: &str) -> Name {
    Name { function: format!("{address:#x}"), offset: None, file: file.into(), place: None, inlined: false }
}
