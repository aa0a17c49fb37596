//! `__start_NAME` and `__stop_NAME`, the names of the ends of sections whose own names are C identifiers.

/// The section in a name that begins with `__start_` or `__stop_`.
pub fn start_stop(name: &[u8]) -> Option<&[u8]> {
    let section = name.strip_prefix(b"__start_").or_else(|| name.strip_prefix(b"__stop_"))?;
    is_identifier(section).then_some(section)
}

/// Whether a section name can stand in a C identifier.
pub fn is_identifier(name: &[u8]) -> bool {
    name.first().is_some_and(|first| first.is_ascii_alphabetic() || *first == b'_')
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
