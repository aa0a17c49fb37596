//! Names for the addresses of a file: its functions, sorted.
//!
//! A large library has a hundred thousand of them, of which a profile names some hundreds: their names stay in the file.

use crate::bytes::Bytes;
use object::read::elf::{FileHeader, Sym};
use object::{Endianness, elf};
use std::cmp::Reverse;

/// A function.
struct Symbol {
    address: u64,
    /// Size in bytes; up to the next symbol where the file does not tell.
    size: u64,
    /// Of several names for an address the one with the highest rank is taken: of a sized symbol, a global one, one
    /// without an underscore in front.
    rank: u8,
    /// The number of the file that its name is in, and where.
    file: u8,
    length: u32,
    name: u64,
}

/// The functions of a file, ascending by address, one for each address.
#[derive(Default)]
pub struct Symbols {
    files: Vec<Bytes>,
    symbols: Vec<Symbol>,
}

impl Symbols {
    /// Reads the symbol tables of files: the file itself, and one with its debug information. A file that cannot be read
    /// has none.
    pub fn read(files: Vec<Bytes>) -> Self {
        let mut symbols = Vec::new();
        for (number, bytes) in (0..).zip(&files) {
            for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
                let _ = add(&mut symbols, number, bytes, kind);
            }
        }
        let mut all = Self { files, symbols: Vec::new() };
        // The best name of an address comes first; of equals the first in the alphabet.
        symbols.sort_unstable_by(|a, b| {
            let key = |symbol: &Symbol| (symbol.address, Reverse(symbol.rank));
            key(a).cmp(&key(b)).then_with(|| all.name(a).cmp(all.name(b)))
        });
        symbols.dedup_by_key(|symbol| symbol.address);
        let mut next = u64::MAX;
        for symbol in symbols.iter_mut().rev() {
            if symbol.size == 0 {
                symbol.size = next - symbol.address;
            }
            next = symbol.address;
        }
        all.symbols = symbols;
        all
    }

    /// The function that holds an address: where it starts, and its name.
    pub fn at(&self, address: u64) -> Option<(u64, &[u8])> {
        let end = self.symbols.partition_point(|symbol| symbol.address <= address);
        // One function may hold another.
        let mut before = self.symbols[..end].iter().rev().take(16);
        let found = before.find(|symbol| address - symbol.address < symbol.size)?;
        Some((found.address, self.name(found)))
    }

    fn name(&self, symbol: &Symbol) -> &[u8] {
        let file = self.files.get(usize::from(symbol.file)).map_or(&[][..], |file| file);
        let rest = usize::try_from(symbol.name).ok().and_then(|start| file.get(start..)).unwrap_or_default();
        rest.get(..symbol.length as usize).unwrap_or_default()
    }
}

/// Adds the functions of a symbol table; none if it cannot be read.
fn add(symbols: &mut Vec<Symbol>, file: u8, bytes: &Bytes, kind: u32) -> object::read::Result<()> {
    let header = elf::FileHeader64::<Endianness>::parse(&**bytes)?;
    let endian = header.endian()?;
    let table = header.sections(endian, &**bytes)?.symbols(endian, &**bytes, kind)?;
    let start = bytes.as_ptr().addr();
    symbols.reserve(table.len());
    for symbol in table.iter() {
        let code = matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC | elf::STT_NOTYPE);
        if !code || !symbol.is_definition(endian) {
            continue;
        }
        let name = symbol.name(endian, table.strings()).unwrap_or_default();
        // `$x` and `$d` only tell code from data (AArch64 ELF ABI, "Mapping symbols").
        if name.is_empty() || name.starts_with(b"$") {
            continue;
        }
        let (address, size) = (symbol.st_value(endian), symbol.st_size(endian));
        let ranks = [size > 0, symbol.st_bind() != elf::STB_LOCAL, !name.starts_with(b"_")];
        let rank = ranks.iter().fold(0, |rank, &better| rank << 1 | u8::from(better));
        let place = name.as_ptr().addr().wrapping_sub(start) as u64;
        symbols.push(Symbol { address, size, rank, file, length: name.len() as u32, name: place });
    }
    Ok(())
}

/// A name as people write it; as it is, if it is not mangled.
pub fn demangled(name: &[u8]) -> String {
    let end = name.iter().position(|&byte| byte == b'@').filter(|&at| at > 0).unwrap_or(name.len());
    let plain = demangle::demangle(&name[..end]);
    String::from_utf8_lossy(plain.as_deref().unwrap_or(name)).into_owned()
}
