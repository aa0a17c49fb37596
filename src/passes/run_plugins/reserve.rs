//! Archive members that compiled code may bring in, and the symbols that they mention.
//!
//! A compiler calls some functions by itself ([`library_calls`]), so the second search can extract a member
//! of machine code that the first one left in its archive. What that member shares with the intermediate code
//! must have outlived the compiler:
//!
//! ```text
//! main.o (intermediate): a / b in 128 bits, and a copy of `inline int bump() { static int n; return ++n; }`
//! libu.a (machine code): __divti3, and a copy of bump(), too
//! ```
//!
//! If the plugin heard that only intermediate code uses `n`, the compiler would make its `n` local. Then
//! `__divti3` brings its own `n`, and the program counts in two places. So what such members mention counts
//! as used by machine code, before it is known whether one of them is needed.

use super::library_calls;
use crate::arch::Target;
use crate::ids::SymbolId;
use crate::input::ObjectFile;
use crate::passes::extract_members::Extracted;
use crate::passes::open_inputs::{Opened, Role};
use crate::passes::parse_inputs::{Parsed, ParsedInputs};
use hashbrown::{HashMap, HashSet};

/// The globals of all members that functions which a compiler calls can lead to.
pub fn mentioned<T: Target>(
    parsed: &ParsedInputs<'_, T>,
    extracted: &Extracted,
    opened: &Opened<'_>,
) -> HashSet<SymbolId> {
    let taken: HashSet<u32> = extracted.objects.iter().copied().collect();
    let left = |row: u32| match &parsed.files[row as usize] {
        Parsed::Object(object) if !taken.contains(&row) && is_code(opened, row) => Some(object),
        _ => None,
    };
    let mut definers: HashMap<SymbolId, u32> = HashMap::new();
    for row in 0..parsed.files.len() as u32 {
        for (id, is_undefined) in left(row).into_iter().flat_map(globals) {
            if !is_undefined {
                definers.entry(id).or_insert(row);
            }
        }
    }
    let mut open: Vec<SymbolId> = library_calls::of(&parsed.globals).collect();
    let (mut mentioned, mut reached) = (HashSet::new(), HashSet::new());
    while let Some(id) = open.pop() {
        let Some(&row) = definers.get(&id).filter(|&&row| reached.insert(row)) else { continue };
        for (id, is_undefined) in left(row).into_iter().flat_map(globals) {
            if mentioned.insert(id) && is_undefined {
                open.push(id);
            }
        }
    }
    mentioned
}

/// Whether a file is machine code, and not its intermediate form.
fn is_code(opened: &Opened<'_>, row: u32) -> bool {
    opened.files.get(row as usize).is_some_and(|file| matches!(file.role, Role::Opened | Role::Code))
}

/// The globals of an object, each with whether it is undefined there.
fn globals<E: zerocopy::byteorder::ByteOrder>(
    object: &ObjectFile<'_, E>,
) -> impl Iterator<Item = (SymbolId, bool)> {
    let symbols = &object.symbols[object.first_global as usize..];
    object.globals.iter().zip(symbols).map(|(&id, symbol)| (id, symbol.is_undefined()))
}
