//! Names for the addresses of a file: its functions, sorted.
//!
//! A large library has a hundred thousand functions, but a profile needs the names of some hundreds. So the
//! names stay in the file.

use crate::by_address::sorted;
use crate::bytes::Bytes;
use crate::go_table::{GoFunction, GoTable};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use object::read::elf::{FileHeader, Sym};
use object::{Endianness, elf};
use std::cell::RefCell;
use std::sync::Arc;

/// Number of functions before an address that may contain it.
const MAX_NESTED: usize = 16;

/// A function.
#[derive(Clone, Copy)]
pub struct Symbol {
    /// Where it starts.
    pub address: u64,
    /// Size in bytes. 0: the file does not say, and the function reaches to the next symbol.
    size: u64,
    /// Offset of its name in string table `table`.
    name: u32,
    table: u8,
    /// Bit 1: the file states its size. Bit 0: it is global.
    rank: u8,
}

impl Symbol {
    /// Whether the file says how large it is.
    pub fn has_size(&self) -> bool {
        self.size > 0
    }
}

/// The functions of a file, ascending by address.
#[derive(Default)]
pub struct Symbols {
    strings: Vec<Bytes>,
    symbols: Vec<Symbol>,
    /// For addresses with several symbols, which one is used, by the number of the first one. The choice
    /// reads names, so it is made on demand.
    chosen: RefCell<HashMap<usize, usize, FixedState>>,
}

impl Symbols {
    /// Reads the symbol tables of files: of the file itself, and of one with its debug information. A file
    /// that cannot be read has no symbols.
    pub fn read(files: &[Bytes]) -> Self {
        let mut all = Self::default();
        for bytes in files {
            // The other table also contains the dynamic symbols, if there is one.
            let read = all.add(bytes, elf::SHT_SYMTAB);
            if read.is_none_or(|count| count == 0) {
                all.add(bytes, elf::SHT_DYNSYM);
                all.add_go(bytes);
            }
        }
        all.symbols = sorted(&all.symbols, |symbol| symbol.address, |_| ());
        all
    }

    /// Adds the functions of a symbol table. Returns the number of its symbols. `None`: it cannot be read.
    fn add(&mut self, bytes: &Bytes, kind: u32) -> Option<usize> {
        if bytes.get(4) == Some(&elf::ELFCLASS32) {
            return self.add_of::<elf::FileHeader32<Endianness>>(bytes, kind);
        }
        self.add_of::<elf::FileHeader64<Endianness>>(bytes, kind)
    }

    fn add_of<H: FileHeader<Endian = Endianness>>(&mut self, bytes: &Bytes, kind: u32) -> Option<usize> {
        let header = H::parse(&**bytes).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, &**bytes).ok()?;
        let table = sections.symbols(endian, &**bytes, kind).ok()?;
        let strings = sections.section(table.string_section()).ok()?;
        let strings = bytes.part(object::read::elf::SectionHeader::data(strings, endian, &**bytes).ok()?)?;
        let number = u8::try_from(self.strings.len()).ok()?;
        self.strings.push(strings);
        self.symbols.reserve(table.len());
        for symbol in table.iter() {
            let (address, size): (u64, u64) = (symbol.st_value(endian).into(), symbol.st_size(endian).into());
            let code = match symbol.st_type() {
                elf::STT_FUNC => true,
                // Symbols without a size only tell code from data (AArch64 ELF ABI, "Mapping symbols").
                elf::STT_NOTYPE => size > 0,
                _ => false,
            };
            let (name, section) = (symbol.st_name(endian), symbol.st_shndx(endian));
            let is_defined =
                section != elf::SHN_UNDEF && (section < elf::SHN_LORESERVE || section == elf::SHN_XINDEX);
            if !code || !is_defined || name == 0 {
                continue;
            }
            let rank = u8::from(size > 0) << 1 | u8::from(symbol.st_bind() != elf::STB_LOCAL);
            self.symbols.push(Symbol { address, size, name, table: number, rank });
        }
        Some(table.len())
    }

    /// Adds the functions of the table that programs of Go carry.
    fn add_go(&mut self, bytes: &Bytes) -> Option<()> {
        let GoTable { names, functions, .. } = GoTable::read(bytes)?;
        let table = u8::try_from(self.strings.len()).ok()?;
        self.strings.push(names);
        let symbol = |function: &GoFunction| {
            let size = function.end.saturating_sub(function.start);
            Symbol { address: function.start, size, name: function.name, table, rank: 2 }
        };
        self.symbols.extend(functions.iter().map(symbol));
        Some(())
    }

    /// Whether a symbol is a better name than another one at the same address. A symbol with a size comes
    /// first, then a global one, then one without a leading underscore, then the first in the alphabet.
    fn is_better(&self, this: &Symbol, than: &Symbol) -> bool {
        let (own, other) = (self.name(this), self.name(than));
        let key = |rank: u8, name: &[u8]| (rank, !name.starts_with(b"_"));
        let (own_key, other_key) = (key(this.rank, own), key(than.rank, other));
        own_key > other_key || own_key == other_key && own < other
    }

    /// The function that contains an address.
    pub fn at(&self, address: u64) -> Option<&Symbol> {
        let end = self.symbols.partition_point(|symbol| symbol.address <= address);
        let (mut before, after) = self.symbols.split_at(end);
        let mut next = after.first().map_or(u64::MAX, |symbol| symbol.address);
        // Functions may be nested.
        for _ in 0..MAX_NESTED {
            let (last, others) = before.split_last()?;
            let start = last.address;
            let first = if others.last().is_none_or(|other| other.address < start) {
                others.len()
            } else {
                others.partition_point(|symbol| symbol.address < start)
            };
            let symbol = self.best(first, &before[first..])?;
            let size = if symbol.size == 0 { next - start } else { symbol.size };
            if address - start < size {
                return Some(symbol);
            }
            (before, next) = (&before[..first], start);
        }
        None
    }

    /// The best of the symbols at one address. `first` is the number of the first one.
    fn best<'a>(&'a self, first: usize, symbols: &'a [Symbol]) -> Option<&'a Symbol> {
        if let [only] = symbols {
            return Some(only);
        }
        let mut chosen = self.chosen.borrow_mut();
        let choose = || {
            let better = |best, at| if self.is_better(&symbols[at], &symbols[best]) { at } else { best };
            (0..symbols.len()).reduce(better).unwrap_or(0)
        };
        symbols.get(*chosen.entry(first).or_insert_with(choose))
    }

    /// The name of a symbol.
    pub fn name(&self, symbol: &Symbol) -> &[u8] {
        let strings = self.strings.get(usize::from(symbol.table)).map_or(&[][..], |strings| strings);
        let rest = strings.get(symbol.name as usize..).unwrap_or_default();
        &rest[..memchr::memchr(0, rest).unwrap_or(rest.len())]
    }
}

/// A demangled name without its symbol version. If the name is not mangled, the name itself.
pub fn demangled(name: &[u8]) -> Arc<str> {
    let end = name.iter().position(|&byte| byte == b'@').filter(|&at| at > 0).unwrap_or(name.len());
    let plain = demangle::demangle(&name[..end]);
    String::from_utf8_lossy(plain.as_deref().unwrap_or(name)).into()
}
