//! `__start_NAME` and `__stop_NAME`: the symbols for the two ends of a section whose name is a C identifier.

/// The name of the section whose start or end a symbol means; `None` if the symbol's name is of another form.
pub fn start_stop(name: &[u8]) -> Option<&[u8]> {
    let section = name.strip_prefix(b"__start_").or_else(|| name.strip_prefix(b"__stop_"))?;
    is_identifier(section).then_some(section)
}

/// Whether a section's name is a C identifier.
pub fn is_identifier(name: &[u8]) -> bool {
    name.first().is_some_and(|first| first.is_ascii_alphabetic() || *first == b'_')
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
