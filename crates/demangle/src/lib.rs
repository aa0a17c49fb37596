//! Mangled names in the text that libiberty gives them.
//!
//! Version scripts (`extern "C++"`) are written against the output of `nm -C` and `c++filt`, so a
//! linker that reads them has to produce the same text, spaces included. It is that of `c++filt -i`:
//! `std::string` where `c++filt` alone spells the template out, and no hashes of Rust.
//!
//! Names come from files that may be broken or hostile, and a link may show all of them: depth is bounded by
//! constants, and steps and the length of the text in proportion to the name. Beyond the bounds a name counts
//! as not mangled.

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
        return keyed(rest).map(|name| [text.as_bytes(), &name].concat());
    }
    if !name.starts_with(b"_Z") {
        return None;
    }
    let mut parser = parse::Parser::new(name);
    let root = parser.symbol()?;
    print::print(&parser.nodes, root, name.len())
}

/// The text of the name that a global function is keyed to, which may be one of C. Such names do not nest,
/// and what follows a mangled one is not shown.
fn keyed(name: &[u8]) -> Option<Vec<u8>> {
    if !name.starts_with(b"_Z") {
        return (!name.is_empty()).then(|| name.to_vec());
    }
    let mut parser = parse::Parser::new(name);
    let root = parser.mangled(false)?;
    print::print(&parser.nodes, root, name.len())
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
