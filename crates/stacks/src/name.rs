//! The name of a frame.

use crate::digits::hexadecimal;
use std::sync::Arc;

/// The name of a frame, or of a function that was inlined into it. Names share their texts, because many
/// frames belong to one function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// The function as people write it, or an address if it has no name: that where it starts, as far as that
    /// is known.
    pub function: Arc<str>,
    /// Whether the function has a name.
    pub known: bool,
    /// Offset in the function in bytes. `None`: it is unknown where the function starts.
    pub offset: Option<u64>,
    /// Path of the file that contains it.
    pub file: Arc<str>,
    /// Source file and line.
    pub place: Option<(String, u32)>,
    /// Whether the function was inlined into the one after it.
    pub inlined: bool,
}

/// The name of an address that no symbol covers.
pub(crate) fn nameless(address: u64, file: &str) -> Name {
    let function = unnamed(None, address);
    Name { function, known: false, offset: None, file: file.into(), place: None, inlined: false }
}

/// What stands for time that was not sampled.
pub(crate) const NOT_SAMPLED: &str = "[not sampled]";

/// The name of time that was not sampled.
pub(crate) fn not_sampled() -> Name {
    let (function, file) = (NOT_SAMPLED.into(), "[unknown]".into());
    Name { function, known: true, offset: None, file, place: None, inlined: false }
}

/// The text that replaces a function's name at an address that no symbol covers: the address, or an offset in
/// `file` if it is given.
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
