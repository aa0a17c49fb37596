//! Names for the addresses of a file: its functions, sorted.
//!
//! A large library has a hundred thousand of them, of which a profile names some hundreds: their names stay in the file.

use crate::bytes::Bytes;
use object::read::elf::{FileHeader, Sym};
use object::{Endianness, elf};

/// A function.
struct Symbol {
    address: u64,
    /// Size in bytes; up to the next symbol where the file does not tell.
    size: u64,
    /// Offset of its name in a string table, and the number of that.
    name: u32,
    table: u8,
    /// Whether the file tells its size, and whether it is global.
    rank: u8,
}

/// The functions of a file, ascending by address, one for each address.
#[derive(Default)]
pub struct Symbols {
    strings: Vec<Bytes>,
    symbols: Vec<Symbol>,
}

impl Symbols {
    /// Reads the symbol tables of files: the file itself, and one with its debug information. A file that cannot be read
    /// has none.
    pub fn read(files: &[Bytes]) -> Self {
        let mut all = Self::default();
        for bytes in files {
            // A dynamic symbol is in the other table, too, if there is one.
            let read = all.add(bytes, elf::SHT_SYMTAB);
            if read.is_none_or(|count| count == 0) {
                all.add(bytes, elf::SHT_DYNSYM);
            }
        }
        let mut symbols = std::mem::take(&mut all.symbols);
        symbols.sort_unstable_by_key(|symbol| symbol.address);
        symbols.dedup_by(|later, first| {
            let same = later.address == first.address;
            if same && all.is_better(later, first) {
                std::mem::swap(later, first);
            }
            same
        });
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

    /// Adds the functions of a symbol table. Gives how many symbols it has; `None` if it cannot be read.
    fn add(&mut self, bytes: &Bytes, kind: u32) -> Option<usize> {
        let header = elf::FileHeader64::<Endianness>::parse(&**bytes).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, &**bytes).ok()?;
        let table = sections.symbols(endian, &**bytes, kind).ok()?;
        let strings = sections.section(table.string_section()).ok()?;
        let strings = bytes.part(object::read::elf::SectionHeader::data(strings, endian, &**bytes).ok()?)?;
        let number = u8::try_from(self.strings.len()).ok()?;
        self.strings.push(strings);
        self.symbols.reserve(table.len());
        for symbol in table.iter() {
            let code = matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC | elf::STT_NOTYPE);
            let name = symbol.st_name(endian);
            // Those without a size and a type only tell code from data (AArch64 ELF ABI, "Mapping symbols").
            if !code || !symbol.is_definition(endian) || name == 0 {
                continue;
            }
            let (address, size) = (symbol.st_value(endian), symbol.st_size(endian));
            let rank = u8::from(size > 0) << 1 | u8::from(symbol.st_bind() != elf::STB_LOCAL);
            self.symbols.push(Symbol { address, size, name, table: number, rank });
        }
        Some(table.len())
    }

    /// Whether a symbol is to stand for an address rather than another: of sized ones first, then global ones, then ones
    /// without an underscore in front, then the first in the alphabet.
    fn is_better(&self, this: &Symbol, than: &Symbol) -> bool {
        let (own, other) = (self.name(this), self.name(than));
        let key = |rank: u8, name: &[u8]| (rank, !name.starts_with(b"_"));
        let (own_key, other_key) = (key(this.rank, own), key(than.rank, other));
        own_key > other_key || own_key == other_key && own < other
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
        let strings = self.strings.get(usize::from(symbol.table)).map_or(&[][..], |strings| strings);
        let rest = strings.get(symbol.name as usize..).unwrap_or_default();
        &rest[..memchr::memchr(0, rest).unwrap_or(rest.len())]
    }
}

/// A name as people write it; as it is, if it is not mangled.
pub fn demangled(name: &[u8]) -> String {
    let end = name.iter().position(|&byte| byte == b'@').filter(|&at| at > 0).unwrap_or(name.len());
    let plain = demangle::demangle(&name[..end]);
    String::from_utf8_lossy(plain.as_deref().unwrap_or(name)).into_owned()
}
