//! The name of a frame.

use std::sync::Arc;

/// The name of a frame, or of a function that the compiler put into it. Texts are shared: many frames are of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The function as people write it; an address where none is known.
    pub function: Arc<str>,
    /// Offset in the function, in bytes, if the function is known.
    pub offset: Option<u64>,
    /// Path of the file that holds it.
    pub file: Arc<str>,
    /// Source file and line.
    pub place: Option<(String, u32)>,
    /// Whether the function is part of the one after it.
    pub inlined: bool,
}

/// The name of an address that no symbol covers.
pub(crate) fn nameless(address: u64, file: &str) -> Name {
    let function = format!("{address:#x}").into();
    Name { function, offset: None, file: file.into(), place: None, inlined: false }
}
