//! Names for addresses: the sections and symbols of one file, sorted by address.

use diagnostics::demangle::demangle;
use std::borrow::Cow;

/// A section and its place.
#[derive(Clone, Debug)]
pub struct PlacedSection {
    /// Number in the section table.
    pub index: usize,
    /// Name.
    pub name: String,
    /// Its address; in a relocatable object, the one that it was given when the object was read.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
    /// Whether it contains code.
    pub executable: bool,
}

/// A symbol that has an address.
#[derive(Clone, Debug)]
pub struct Symbol {
    /// Address.
    pub address: u64,
    /// Size in bytes, 0 if not known.
    pub size: u64,
    /// The name as the symbol table has it.
    pub name: String,
    /// Whether it names a function.
    pub function: bool,
    /// Whether other files can see it.
    pub global: bool,
}

/// The sections and symbols of a file, by address.
#[derive(Clone, Debug, Default)]
pub struct Places {
    sections: Vec<PlacedSection>,
    symbols: Vec<Symbol>,
    relocatable: bool,
}

/// How many sections or symbols that start before an address are checked whether they contain it.
const NESTING: usize = 64;

impl Places {
    /// Sorts sections and symbols by address.
    pub fn new(mut sections: Vec<PlacedSection>, mut symbols: Vec<Symbol>, relocatable: bool) -> Self {
        sections.sort_by_key(|section| (section.address, section.index));
        // Of several symbols with one address, the best name comes last.
        symbols.sort_by(|a, b| {
            let rank = |symbol: &Symbol| {
                let public = !symbol.name.starts_with("__");
                (symbol.address, symbol.function, symbol.size > 0, symbol.global, public)
            };
            rank(a).cmp(&rank(b)).then_with(|| b.name.cmp(&a.name))
        });
        Self { sections, symbols, relocatable }
    }

    /// The sections in memory, ascending by address.
    pub fn sections(&self) -> &[PlacedSection] {
        &self.sections
    }

    /// Symbols that have addresses, ascending.
    pub fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    /// The section that contains an address.
    pub fn section_at(&self, address: u64) -> Option<&PlacedSection> {
        let end = self.sections.partition_point(|section| section.address <= address);
        let mut before = self.sections.get(..end)?.iter().rev().take(NESTING);
        before.find(|section| address - section.address < section.size.max(1))
    }

    /// The symbol that contains an address; functions come before other symbols.
    pub fn symbol_at(&self, address: u64) -> Option<&Symbol> {
        let end = self.symbols.partition_point(|symbol| symbol.address <= address);
        let before = self.symbols.get(..end)?.iter().rev().take(NESTING);
        let covers = |symbol: &&Symbol| match symbol.size {
            0 => symbol.address == address,
            size => address - symbol.address < size,
        };
        let mut covering = before.filter(covers);
        let first = covering.next()?;
        if first.function { Some(first) } else { covering.find(|symbol| symbol.function).or(Some(first)) }
    }

    /// The symbols with this name.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Symbol> {
        self.symbols.iter().filter(move |symbol| symbol.name == name)
    }

    /// `symbol+0x12`; `None` if no symbol contains the address.
    pub fn symbol_name(&self, address: u64, demangled: bool) -> Option<String> {
        let symbol = self.symbol_at(address)?;
        let name = if demangled {
            Cow::Owned(demangle(symbol.name.as_bytes()))
        } else {
            Cow::Borrowed(symbol.name.as_str())
        };
        Some(plus(&name, address - symbol.address))
    }

    /// `.text+0x12`; `None` outside all sections.
    pub fn section_name(&self, address: u64) -> Option<String> {
        let section = self.section_at(address)?;
        Some(plus(&section.name, address - section.address))
    }

    /// Describes an address: in linked files the absolute address, in relocatable objects section and offset;
    /// then the symbol.
    pub fn describe(&self, address: u64, demangled: bool) -> String {
        let place = if self.relocatable {
            self.section_name(address).unwrap_or_else(|| format!("{address:#x}"))
        } else {
            format!("{address:#x}")
        };
        match self.symbol_name(address, demangled) {
            Some(symbol) => format!("{place} <{symbol}>"),
            None => place,
        }
    }
}

fn plus(name: &str, offset: u64) -> String {
    if offset == 0 { name.to_owned() } else { format!("{name}+{offset:#x}") }
}

#[cfg(test)]
mod tests {
    use super::{PlacedSection, Places, Symbol};

    #[test]
    fn the_best_name_wins() {
        let symbol = |address, size, name: &str, function| Symbol {
            address,
            size,
            name: name.into(),
            function,
            global: true,
        };
        let text =
            PlacedSection { index: 1, name: ".text".into(), address: 0x1000, size: 0x100, executable: true };
        let symbols = vec![
            symbol(0x1000, 0x80, "outer", true),
            symbol(0x1010, 4, "inner", true),
            symbol(0x1000, 0, "label", false),
            symbol(0x1020, 8, "data", false),
        ];
        let places = Places::new(vec![text], symbols, false);
        let name = |address| places.symbol_name(address, false).unwrap_or_default();
        assert_eq!(name(0x1000), "outer");
        assert_eq!(name(0x1012), "inner+0x2");
        assert_eq!(name(0x1014), "outer+0x14");
        assert_eq!(name(0x1022), "outer+0x22");
        assert_eq!(places.describe(0x10a0, false), "0x10a0");
        assert_eq!(places.section_name(0x10a0).unwrap(), ".text+0xa0");
        assert_eq!(places.section_name(0x1100), None);
    }
}
