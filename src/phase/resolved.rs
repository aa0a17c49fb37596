//! Symbol resolution: prevailing groups and definitions, linker-defined symbols, symbol versions.
//!
//! The passes from `select_comdats` to `assign_versions` make it. Until liveness is frozen, passes only
//! withdraw definitions of the linker ([`Resolved::without`]). `match_script` withdraws symbols of output
//! sections whose constraint fails, and `__start_NAME` and `__stop_NAME` of sections that the script puts
//! elsewhere. `collect_garbage` withdraws `__start_NAME` and `__stop_NAME` of collected sections.

use super::{Inputs, SectionStates, builds_on};
use crate::arch::Target;
use crate::ids::{FileId, SectionId, SymbolId};
use crate::input::ObjectFile;
use crate::input::group::GroupTable;
use crate::input::object::SymbolPlace;
use crate::input::shared::NeededLibraries;
use crate::symbols::{CommonBlock, Definition, Definitions, LinkerSymbol, MentionedBy, Versions, start_stop};
use hashbrown::HashMap;

/// Input files with their symbols resolved.
pub struct Resolved<'a, T: Target> {
    /// The phase before: input files.
    pub inputs: Inputs<'a, T>,
    /// Libraries that are known only because libraries of the link need them (`-rpath-link`).
    pub needed_libraries: NeededLibraries<'a>,
    /// Section groups by file, and the prevailing copy of each.
    pub groups: GroupTable<'a>,
    /// Definitions of globals.
    pub definitions: Definitions,
    /// Symbols that the linker defines.
    pub linker_symbols: Vec<LinkerSymbol>,
    /// For each `__start_NAME` and `__stop_NAME` among the globals, the sections `NAME`.
    pub identifier_sections: IdentifierSections<'a>,
    /// The symbol versions that the output defines, and the version word of each global.
    pub versions: Versions<'a>,
}

builds_on!(['a, T: Target] Resolved<'a, T>, inputs: Inputs<'a, T>);

/// Sections, by the name that they share.
pub type IdentifierSections<'a> = HashMap<&'a [u8], Vec<SectionId>, foldhash::fast::FixedState>;

impl<'a, T: Target> Resolved<'a, T> {
    /// The same without these definitions of the linker. The definitions that they override then prevail.
    #[must_use]
    pub fn without(mut self, symbols: &[LinkerSymbol]) -> Self {
        for symbol in symbols {
            self.definitions.of[symbol.symbol.index()] = symbol.overridden;
        }
        self
    }

    /// The definition of a global; [`Definition::Undefined`] for local symbols.
    #[inline]
    pub fn definition(&self, id: SymbolId) -> Definition {
        self.definitions.definition(id)
    }

    /// How files mention a global; empty for a local symbol.
    #[inline]
    pub fn mentions(&self, id: SymbolId) -> MentionedBy {
        self.definitions.mentions(id)
    }

    /// The common block that defines a symbol; `None` if another definition prevails.
    pub fn common_block(&self, id: SymbolId) -> Option<&CommonBlock> {
        Some(&self.definitions.commons[self.common_row(id)?])
    }

    /// The row in [`Definitions::commons`] of the block that defines a symbol.
    pub fn common_row(&self, id: SymbolId) -> Option<usize> {
        self.definitions.commons.binary_search_by_key(&id, |block| block.symbol).ok()
    }

    /// Whether a name is `__start_NAME` or `__stop_NAME`, and there were sections `NAME`, but none is left.
    pub fn start_stop_is_collected(&self, sections: &SectionStates, name: &[u8]) -> bool {
        let named = start_stop(name).and_then(|section| self.identifier_sections.get(section));
        named.is_some_and(|named| !named.iter().any(|&id| sections.is_alive(id)))
    }

    /// Whether a weak definition of an object prevails.
    pub fn is_weak_definition(&self, id: SymbolId) -> bool {
        match self.definition(id) {
            Definition::Object { file, symbol } => {
                self.objects[file.index()].symbols[symbol as usize].is_weak()
            }
            _ => false,
        }
    }

    /// The section that holds a symbol's definition, and the symbol's offset in it; `None` if no object
    /// defines the symbol in a section.
    pub fn symbol_section(&self, id: SymbolId) -> Option<(SectionId, u64)> {
        let (file, symbol) = self.symbol_entry(id)?;
        self.objects[file.index()].symbol_section(symbol)
    }

    /// [`Self::symbol_section`] for symbol `symbol` of an object, as relocations name it. Most relocations
    /// name local symbols, and for these the object need not be searched for.
    #[inline]
    pub fn referenced_section(&self, object: &ObjectFile<'_, T::E>, symbol: u32) -> Option<(SectionId, u64)> {
        if symbol < object.first_global {
            object.symbol_section(symbol)
        } else {
            self.symbol_section(object.symbol_id(symbol))
        }
    }

    /// The object and symbol index that define a symbol (global or local).
    pub fn symbol_entry(&self, id: SymbolId) -> Option<(FileId, u32)> {
        if self.globals.contains(id) {
            return match self.definition(id) {
                Definition::Object { file, symbol } => Some((file, symbol)),
                _ => None,
            };
        }
        self.local_entry(id)
    }

    /// The name of any symbol, for messages. A section symbol has its section's name.
    pub fn symbol_text(&self, id: SymbolId) -> String {
        if self.globals.contains(id) {
            return self.name_text(self.globals.names[id.index()]);
        }
        let Some((file, symbol)) = self.symbol_entry(id) else { return String::new() };
        let object = &self.objects[file.index()];
        match (object.symbol_name(symbol as usize), object.symbol_place(symbol as usize)) {
            (b"", SymbolPlace::Section(section)) => object.section_name_lossy(section as usize),
            (name, _) => self.name_text(name),
        }
    }
}

#[cfg(test)]
impl<'a, T: Target> Resolved<'a, T> {
    /// For tests of passes: inputs without groups, definitions and versions.
    pub fn of(inputs: Inputs<'a, T>) -> Self {
        Resolved {
            inputs,
            needed_libraries: NeededLibraries::default(),
            groups: GroupTable::default(),
            definitions: Definitions::default(),
            linker_symbols: Vec::new(),
            identifier_sections: HashMap::default(),
            versions: Versions::default(),
        }
    }
}
