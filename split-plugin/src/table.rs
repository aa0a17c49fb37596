//! Symbols in the form of the plugin interface.

use linker_plugin::abi::{RawFacts, RawSymbol};
use linker_plugin::{Binding, Symbol};
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

/// The symbols of a claimed file. Linkers keep pointers to them and to their texts until the link ends.
pub struct Table {
    /// The texts that `raw` points to.
    texts: Vec<CString>,
    raw: Vec<RawSymbol>,
}

// SAFETY: its pointers point to its own texts, which stay in place when it moves.
unsafe impl Send for Table {}
// SAFETY: as above; they are only read.
unsafe impl Sync for Table {}

impl Table {
    /// A table of these symbols. gold passes versions separately from names. For a default version
    /// (`name@@VERSION`) it needs two symbols, one with the name alone and one with the version. Other
    /// linkers read versions from the name.
    pub fn new(symbols: &[Symbol], is_gold: bool) -> Self {
        let mut table = Self { texts: Vec::new(), raw: Vec::with_capacity(symbols.len()) };
        for symbol in symbols {
            let at = symbol.name.iter().position(|&byte| byte == b'@').filter(|_| is_gold);
            let Some(at) = at else {
                table.add(symbol, &symbol.name, None);
                continue;
            };
            let (name, version) = (&symbol.name[..at], &symbol.name[at + 1..]);
            let default = version.strip_prefix(b"@");
            if default.is_some() {
                table.add(symbol, name, None);
            }
            table.add(symbol, name, Some(default.unwrap_or(version)));
        }
        table
    }

    fn text(&mut self, text: &[u8]) -> *mut c_char {
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        let text = CString::new(&text[..end]).unwrap_or_default();
        let address = text.as_ptr().cast_mut();
        self.texts.push(text);
        address
    }

    fn add(&mut self, symbol: &Symbol, name: &[u8], version: Option<&[u8]>) {
        let (kind, section_kind) = symbol.kind.raw();
        let mut optional = |text: Option<&[u8]>| text.map_or(ptr::null_mut(), |text| self.text(text));
        let (version, comdat_key) = (optional(version), optional(symbol.comdat.as_deref()));
        let raw = RawSymbol {
            name: self.text(name),
            version,
            facts: RawFacts { definition: symbol.binding.raw(), kind, section_kind, unused: 0 },
            visibility: symbol.visibility.raw(),
            size: symbol.size,
            comdat_key,
            resolution: 0,
        };
        self.raw.push(raw);
    }

    /// The names, each with whether the file defines it, and with the linker's resolution.
    pub fn resolved(&self) -> impl Iterator<Item = (&CStr, bool, c_int)> {
        let references = [Binding::Reference.raw(), Binding::WeakReference.raw()];
        self.raw.iter().map(move |raw| {
            // SAFETY: this is a text of this table.
            let name = unsafe { CStr::from_ptr(raw.name) };
            (name, !references.contains(&raw.facts.definition), raw.resolution)
        })
    }

    /// The number of symbols, and a pointer to them.
    pub fn raw(&self) -> (c_int, *const RawSymbol) {
        (self.raw.len() as c_int, self.raw.as_ptr())
    }

    /// The same, so that the linker can fill in resolutions.
    pub fn raw_mut(&mut self) -> (c_int, *mut RawSymbol) {
        (self.raw.len() as c_int, self.raw.as_mut_ptr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linker_plugin::{SymbolKind, Visibility};

    #[test]
    fn versions_stay_in_names_but_for_gold() {
        let symbols = ["plain", "old@V1", "new@@V2"].map(|name| Symbol {
            name: name.into(),
            version: None,
            binding: Binding::Definition,
            visibility: Visibility::Default,
            kind: SymbolKind::Function,
            size: 1,
            comdat: None,
        });
        let texts = |table: &Table| -> Vec<(String, String)> {
            let text = |text: *mut c_char| {
                // SAFETY: this is a text of the table, unless it is null.
                let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
                text.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
            };
            table.raw.iter().map(|raw| (text(raw.name), text(raw.version))).collect()
        };
        let pairs = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            all.iter().map(|(name, version)| ((*name).into(), (*version).into())).collect()
        };
        let names = [("plain", ""), ("old@V1", ""), ("new@@V2", "")];
        assert_eq!(texts(&Table::new(&symbols, false)), pairs(&names));
        let apart = [("plain", ""), ("old", "V1"), ("new", ""), ("new", "V2")];
        assert_eq!(texts(&Table::new(&symbols, true)), pairs(&apart));
    }
}
