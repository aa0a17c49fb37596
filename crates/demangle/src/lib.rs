//! Mangled names in the text that libiberty gives them.
//!
//! Version scripts (`extern "C++"`) are written against the output of `nm -C` and `c++filt`, so a
//! linker that reads them has to produce the same text, spaces included. It is that of `c++filt -i`:
//! `std::string` where `c++filt` alone spells the template out, and no hashes of Rust.
//!
//! Names come from files that may be broken or hostile: reading and writing are bounded in depth,
//! steps and length, and beyond the bounds a name counts as not mangled.

mod expression;
mod parse;
mod print;
mod print_expression;
mod print_template;
mod rust;
mod tables;
mod tree;
mod types;

/// The text of a C++ or Rust name; `None` if it is not mangled.
pub fn demangle(name: &[u8]) -> Option<Vec<u8>> {
    rust::demangle(name).or_else(|| cpp(name))
}

/// The text of a C++ name; `None` if it is not one.
fn cpp(name: &[u8]) -> Option<Vec<u8>> {
    if let Some((text, rest)) = global_function(name) {
        let of = cpp(rest).unwrap_or_else(|| rest.to_vec());
        return Some([text.as_bytes(), &of].concat());
    }
    if !name.starts_with(b"_Z") {
        return None;
    }
    let mut parser = parse::Parser::new(name);
    let root = parser.symbol()?;
    print::print(&parser.nodes, root)
}

/// `_GLOBAL__I_name`: the function that runs the constructors of a file.
fn global_function(name: &[u8]) -> Option<(&'static str, &[u8])> {
    let rest = name.strip_prefix(b"_GLOBAL_")?;
    match rest {
        [b'.' | b'_' | b'$', b'I', b'_', rest @ ..] => Some(("global constructors keyed to ", rest)),
        [b'.' | b'_' | b'$', b'D', b'_', rest @ ..] => Some(("global destructors keyed to ", rest)),
        _ => None,
    }
}
