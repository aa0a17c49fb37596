//! Finds the definitions of shared libraries that the link mentions.
//!
//! The C and C++ libraries define ten thousand names, and a program needs a few hundred of them. The others
//! would only fill the symbol tables. So libraries come last: a definition does not become a global if no
//! object, library, option or script mentions its name. There is one exception, other names of data that
//! something mentions: a program that copies the data exports it under all its names.

use super::parse_inputs::{Parsed, ParsedInputs};
use crate::arch::Target;
use crate::cli::Config;
use crate::ids::SymbolId;
use crate::input::SharedFile;
use crate::plan::LayoutPlan;
use crate::symbols::Globals;
use crate::symbols::intern::{HashedName, hash};
use crate::symbols::versions::split;
use hashbrown::HashSet;
use parallel::IntoParallel;
use zerocopy::byteorder::ByteOrder;

/// Symbols of a library that one job looks up.
const AT_A_TIME: usize = 256;

/// Sets [`SharedFile::globals`] for the definitions that something mentions.
pub fn run<T: Target>(config: &Config, plan: &LayoutPlan, parsed: &mut ParsedInputs<'_, T>) {
    let ParsedInputs { files, globals } = parsed;
    let asked = asked(config, plan, files);
    let libraries = files.iter_mut().filter_map(|file| match file {
        Parsed::Shared(library) => Some(library),
        Parsed::Object(_) | Parsed::Broken | Parsed::Nothing => None,
    });
    for library in libraries {
        let found: Vec<Mention> = (0..library.symbols.len())
            .into_par_iter()
            .with_min_len(AT_A_TIME)
            .map(|row| find(library, row, globals, &asked))
            .collect();
        let mentioned = mentioned_data(library, &found);
        let mut intern = |name| globals.intern(name, |_| name);
        for (row, found) in found.into_iter().enumerate() {
            let symbol = &library.symbols[row];
            let is_alias = || mentioned.contains(&symbol.st_value.get()) && library.is_plain_definition(row);
            library.globals[row] = match found {
                Mention::Global(id) => id,
                Mention::Asked => intern(library.symbol_name(row)),
                Mention::Nobody if SharedFile::is_data(symbol) && is_alias() => {
                    intern(library.symbol_name(row))
                }
                Mention::Nobody => continue,
            };
        }
    }
}

/// Whether anything mentions a symbol of a library.
#[derive(Clone, Copy)]
enum Mention {
    /// Its name is a global already.
    Global(SymbolId),
    /// Its name is on the list of [`asked`] and becomes a global.
    Asked,
    /// Nothing mentions its name. It may still be another name of data that is mentioned.
    Nobody,
}

/// Looks a symbol up. A symbol whose version is hidden is bound only by references that name the version, in
/// [`super::bind_versions`].
fn find<E: ByteOrder>(
    library: &SharedFile<'_, E>,
    row: usize,
    globals: &Globals<'_>,
    asked: &HashSet<u64>,
) -> Mention {
    if library.globals[row].is_some() {
        return Mention::Global(library.globals[row]);
    }
    if !library.is_plain_definition(row) {
        return Mention::Nobody;
    }
    let name = HashedName::new(library.symbol_name(row));
    match globals.find(name) {
        Some(id) => Mention::Global(id),
        None if asked.contains(&name.hash) => Mention::Asked,
        None => Mention::Nobody,
    }
}

/// The `st_value`s of data that something mentions by one of its names.
fn mentioned_data<E: ByteOrder>(library: &SharedFile<'_, E>, found: &[Mention]) -> HashSet<u64> {
    let mentioned = library.symbols.iter().zip(found).filter(|(symbol, found)| {
        matches!(found, Mention::Global(_) | Mention::Asked) && SharedFile::is_data(symbol)
    });
    mentioned.map(|(symbol, _)| symbol.st_value.get()).collect()
}

/// Hashes of further names that become globals if a library defines them: names in expressions, names of
/// `-y`, and the `name` of each `name@VERSION` in objects.
fn asked<T: Target>(config: &Config, plan: &LayoutPlan, files: &[Parsed<'_, T>]) -> HashSet<u64> {
    let expressions = plan.referenced_symbols(&|_| true).into_iter().map(|name| &name.bytes[..]);
    let mut names: Vec<&[u8]> = expressions.collect();
    names.extend(config.reports.trace_symbols.iter().map(Vec::as_slice));
    for file in files {
        let Parsed::Object(object) = file else { continue };
        let whole = object.versioned.iter().map(|versioned| object.symbol_name(versioned.symbol as usize));
        names.extend(whole.filter_map(split).map(|(name, _)| name));
    }
    names.into_iter().map(hash).collect()
}
