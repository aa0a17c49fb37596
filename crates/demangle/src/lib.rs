//! Demangles names into the same text as libiberty.
//!
//! People write version scripts (`extern "C++"`) against the output of `nm -C` and `c++filt`. A linker that
//! reads the scripts has to produce the same text, down to the spaces. It is the text of `c++filt -i`:
//! `std::string` where `c++filt` alone spells out the template, and no hashes in Rust names.
//!
//! Names come from files that may be broken or hostile, and a link may show all of them. A short name can
//! stand for a text of gigabytes, because each substitution may refer to the one before it twice. So
//! constants bound the depth, and the length of the name bounds the number of steps and the length of the
//! text. A name that exceeds a bound counts as not mangled.

mod expression;
mod parse;
mod print;
mod print_expression;
mod print_template;
mod rust;
mod tables;
mod tree;
mod types;

/// The text of a C++ or Rust name. `None`: it is not mangled.
pub fn demangle(name: &[u8]) -> Option<Vec<u8>> {
    rust::demangle(name).or_else(|| cpp(name))
}

/// The text of a C++ name. `None`: it is not a C++ name.
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

/// The text of the name that a global function is keyed to, which may be a name of C. Such names do not nest,
/// and the text omits what follows a mangled one.
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
