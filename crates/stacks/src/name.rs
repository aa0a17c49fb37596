//! The name of a frame.

use crate::digits::hexadecimal;
use std::sync::Arc;

/// The name of a frame, or of a function that was inlined into it. Texts are shared: many frames are of one
/// function.
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
    /// Whether the function was inlined into the one after it.
    pub inlined: bool,
}

/// The name of an address that no symbol covers.
pub(crate) fn nameless(address: u64, file: &str) -> Name {
    Name { function: unnamed(None, address), offset: None, file: file.into(), place: None, inlined: false }
}

/// The text in place of a function's name at an address that no symbol covers: the address, as an offset in
/// `file` if given.
pub(crate) fn unnamed(file: Option<&str>, address: u64) -> Arc<str> {
    let mut text = Vec::with_capacity(file.map_or(0, str::len) + "+0x".len() + 16);
    if let Some(file) = file {
        text.extend_from_slice(file.as_bytes());
        text.push(b'+');
    }
    text.extend_from_slice(b"0x");
    hexadecimal(address, 0, &mut text);
    String::from_utf8_lossy(&text).into()
}
