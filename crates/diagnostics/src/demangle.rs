//! Demangled symbol names for messages.

use super::words;
use std::borrow::Cow;

/// The demangled form of a C++ or Rust symbol name, as GNU tools write it; the name itself if it is not
/// mangled. A version suffix (`@VER`, `@@VER`) stays as it is.
pub fn demangle(name: &[u8]) -> String {
    let end = memchr::memchr(b'@', name).filter(|&at| at > 0).unwrap_or(name.len());
    let (base, version) = name.split_at(end);
    match demangle::demangle(base) {
        Some(plain) => String::from_utf8_lossy(&[&plain, version].concat()).into_owned(),
        None => String::from_utf8_lossy(name).into_owned(),
    }
}

/// A name for messages: demangled, or as it is (`--no-demangle`). Control characters are escaped.
pub fn shown(name: &[u8], demangled: bool) -> String {
    let text = if demangled { demangle(name) } else { String::from_utf8_lossy(name).into_owned() };
    match words::shown(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(escaped) => escaped,
    }
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn names_of_every_language() {
        assert_eq!(demangle(b"main"), "main");
        assert_eq!(demangle(b"_Z9shared_fni"), "shared_fn(int)");
        assert_eq!(demangle(b"_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangle(b"_ZSt4cout@GLIBCXX_3.4"), "std::cout@GLIBCXX_3.4");
        assert_eq!(demangle(b"_ZN4BaseD5Ev"), "Base::~Base()");
        assert_eq!(demangle(b"_ZTVN1n1SE"), "vtable for n::S");
        assert_eq!(demangle(b"_Znot a name"), "_Znot a name");
    }
}
