//! Names for the addresses of a file: its functions, sorted.

use object::{Object, ObjectSymbol, SymbolKind};

/// A function.
struct Symbol {
    address: u64,
    /// Size in bytes; up to the next symbol where the file does not tell.
    size: u64,
    name: Box<[u8]>,
}

/// The functions of a file, ascending by address, one for each address.
#[derive(Default)]
pub struct Symbols(Vec<Symbol>);

impl Symbols {
    /// Reads the symbol tables of files: the file itself, and one with its debug information. A file that cannot be read
    /// has none.
    pub fn read(files: &[&[u8]]) -> Self {
        let mut found = Vec::new();
        for bytes in files {
            let Ok(file) = object::File::parse(*bytes) else { continue };
            let full = file.symbols().filter(|symbol| symbol.is_definition());
            let dynamic = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
            for symbol in full.chain(dynamic) {
                let code = matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Label);
                let name = symbol.name_bytes().unwrap_or_default();
                // `$x` and `$d` only tell code from data (AArch64 ELF ABI, "Mapping symbols").
                if code && !name.is_empty() && !name.starts_with(b"$") {
                    let rank = (symbol.size() > 0, symbol.is_global(), !name.starts_with(b"_"));
                    found.push((symbol.address(), rank, symbol.size(), name.to_vec()));
                }
            }
        }
        // The best name of an address comes first; of equals the first in the alphabet.
        found.sort_by(|a, b| (a.0, b.1, &a.3).cmp(&(b.0, a.1, &b.3)));
        found.dedup_by_key(|symbol| symbol.0);
        let next = found.iter().skip(1).map(|symbol| symbol.0).chain([u64::MAX]).collect::<Vec<_>>();
        let symbols = found.into_iter().zip(next).map(|((address, _, size, name), next)| {
            let size = if size == 0 { next - address } else { size };
            Symbol { address, size, name: name.into() }
        });
        Self(symbols.collect())
    }

    /// The function that holds an address: where it starts, and its name.
    pub fn at(&self, address: u64) -> Option<(u64, &[u8])> {
        let end = self.0.partition_point(|symbol| symbol.address <= address);
        // One function may hold another.
        let mut before = self.0[..end].iter().rev().take(16);
        let found = before.find(|symbol| address - symbol.address < symbol.size)?;
        Some((found.address, &found.name))
    }
}

/// A name as people write it; as it is, if it is not mangled.
pub fn demangled(name: &[u8]) -> String {
    let end = name.iter().position(|&byte| byte == b'@').filter(|&at| at > 0).unwrap_or(name.len());
    let plain = demangle::demangle(&name[..end]);
    String::from_utf8_lossy(plain.as_deref().unwrap_or(name)).into_owned()
}
