//! References that name a version.
//!
//! `name@VERSION` is a global of its own. If no object defines it under that name, it means the
//! default definition `name@@VERSION` of an object, or the symbol of that name and version in a
//! shared library, where plain references cannot see it if it is hidden. Such names are rare, so
//! libraries are searched only for them.

use crate::arch::Target;
use crate::ids::SymbolId;
use crate::input::{ObjectFile, SharedFile};
use crate::link::Link;
use crate::symbols::{Definition, SymbolTable, flag};

/// Binds every undefined `name@VERSION`.
pub fn run<T: Target>(link: &mut Link<'_, T>) {
    let (objects, shared, symbols) = (&link.objects, &link.shared, &mut link.symbols);
    let mut wanted: Vec<SymbolId> = objects
        .iter()
        .flat_map(|object| object.versioned.iter().map(|versioned| object.symbol_id(versioned.symbol)))
        .filter(|&id| {
            symbols.definition(id) == Definition::Undefined && symbols.names[id.index()].contains(&b'@')
        })
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    for id in wanted {
        let Some((base, version)) = split(symbols.names[id.index()]) else { continue };
        if let Some(definition) = default_definition(objects, symbols, base, version) {
            symbols.definitions[id.index()] = definition;
        } else {
            bind_to_library(shared, symbols, id, base, version);
        }
    }
}

/// `name@VERSION` and `name@@VERSION` in their two parts.
pub fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b'@', name)?;
    let version = &name[at + 1..];
    Some((&name[..at], version.strip_prefix(b"@").unwrap_or(version)))
}

fn default_definition<E: zerocopy::byteorder::ByteOrder>(
    objects: &[ObjectFile<'_, E>],
    symbols: &SymbolTable<'_>,
    base: &[u8],
    version: &[u8],
) -> Option<Definition> {
    let plain = symbols.lookup(base)?;
    let definition = symbols.definition(plain);
    let Definition::Object { file, symbol } = definition else { return None };
    objects[file.index()]
        .versioned
        .iter()
        .any(|versioned| versioned.default && versioned.symbol == symbol && versioned.version == version)
        .then_some(definition)
}

fn bind_to_library<E: zerocopy::byteorder::ByteOrder>(
    shared: &[SharedFile<'_, E>],
    symbols: &mut SymbolTable<'_>,
    id: SymbolId,
    base: &[u8],
    version: &[u8],
) {
    for library in shared {
        let Some(index) = library.version_names.iter().position(|name| *name == version) else { continue };
        let found = (1..library.symbols.len()).find(|&symbol| {
            !library.symbols[symbol].is_undefined()
                && usize::from(library.symbol_version(symbol).index) == index
                && library.symbol_name(symbol) == base
        });
        if let Some(symbol) = found {
            symbols.definitions[id.index()] =
                Definition::Shared { library: library.id, symbol: symbol as u32 };
            symbols.set(id, flag::IN_SHARED);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_split_at_the_version() {
        assert_eq!(super::split(b"read@GLIBC_2.2"), Some((&b"read"[..], &b"GLIBC_2.2"[..])));
        assert_eq!(super::split(b"read@@GLIBC_2.2"), Some((&b"read"[..], &b"GLIBC_2.2"[..])));
        assert_eq!(super::split(b"read"), None);
    }
}
