//! Collects the facts of a run in a table.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kind of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aspect {
    /// Whether the link succeeded.
    Status,
    /// Errors and warnings, by topic.
    Messages,
    /// ELF type and flags.
    Header,
    /// Output sections: type and flags.
    Sections,
    /// Input sections: kept or not, and where.
    Inputs,
    /// Input sections in each output section, by address.
    Order,
    /// Section groups of relocatable output.
    Groups,
    /// `SHF_LINK_ORDER`: the section that `sh_link` names.
    LinkOrder,
    /// The symbol table.
    Symbols,
    /// Symbols that have the same value, symbols at the border of a section, and the distances between
    /// symbols of one input section.
    Values,
    /// Entries of the dynamic section.
    Dynamic,
    /// Imports and exports.
    DynamicSymbols,
    /// Relocations for the dynamic linker.
    DynamicRelocations,
    /// Relocations of relocatable output.
    Relocations,
    /// Program headers.
    Segments,
    /// Functions that `.eh_frame` covers.
    EhFrame,
    /// SFrame: its versions and blobs, and which functions are covered, missing or wrong.
    Sframe,
}

impl Aspect {
    /// The name in reports and baselines.
    pub fn name(self) -> &'static str {
        match self {
            Aspect::Status => "status",
            Aspect::Messages => "messages",
            Aspect::Header => "header",
            Aspect::Sections => "sections",
            Aspect::Inputs => "inputs",
            Aspect::Order => "order",
            Aspect::Groups => "groups",
            Aspect::LinkOrder => "link order",
            Aspect::Symbols => "symbols",
            Aspect::Values => "values",
            Aspect::Dynamic => "dynamic",
            Aspect::DynamicSymbols => "dynamic symbols",
            Aspect::DynamicRelocations => "dynamic relocations",
            Aspect::Relocations => "relocations",
            Aspect::Segments => "segments",
            Aspect::EhFrame => "eh_frame",
            Aspect::Sframe => "sframe",
        }
    }
}

/// Values by aspect and key.
pub type Table = BTreeMap<Aspect, BTreeMap<String, String>>;

/// Fills a [`Table`].
#[derive(Default)]
pub struct Collector {
    table: Table,
}

impl Collector {
    /// All collected values.
    pub fn into_table(self) -> Table {
        self.table
    }

    /// Sets a value.
    pub fn set(&mut self, aspect: Aspect, key: impl Into<String>, value: impl Into<String>) {
        self.table.entry(aspect).or_default().insert(key.into(), value.into());
    }

    /// Counts an occurrence; the value is the number of occurrences.
    pub fn count(&mut self, aspect: Aspect, key: impl Into<String>) {
        let value = self.table.entry(aspect).or_default().entry(key.into()).or_insert_with(|| "0".into());
        *value = (value.parse::<u64>().unwrap_or(0) + 1).to_string();
    }
}
