//! Symbol names as people write them.

/// The demangled form of a C++ or Rust symbol name, the name itself otherwise. A version suffix
/// (`@VER`, `@@VER`) is kept as it is.
pub fn demangle(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let (base, version) = match text.find('@') {
        Some(at) if at > 0 => text.split_at(at),
        _ => (&*text, ""),
    };
    if let Ok(symbol) = rustc_demangle::try_demangle(base) {
        return format!("{symbol:#}{version}");
    }
    if base.starts_with("_Z") {
        // The demangler does not know the names that sign the group of all variants of a
        // constructor or destructor (`C5`, `D5`).
        let of_group = || demangle_cpp(&base.replace("C5", "C2").replace("D5", "D2"));
        if let Some(plain) = demangle_cpp(base).or_else(of_group) {
            return format!("{plain}{version}");
        }
    }
    text.into_owned()
}

fn demangle_cpp(name: &str) -> Option<String> {
    cpp_demangle::Symbol::new(name).ok()?.demangle(&cpp_demangle::DemangleOptions::new()).ok()
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
        assert_eq!(demangle(b"_Znot a name"), "_Znot a name");
    }
}
