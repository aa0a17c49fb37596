//! Compact tables in a file: under which names they are found.

use sframe_format::compact::{MAGIC, SECTION_NAME, WHOLE_SECTION_NAME, WHOLE_VERSION};
use std::borrow::Cow;

/// A compact table.
#[derive(Clone, Debug)]
pub struct TableSection<'data> {
    /// The name of its section.
    pub name: String,
    /// Its bytes.
    pub data: Cow<'data, [u8]>,
    /// Address of the first byte.
    pub address: u64,
}

impl<'data> TableSection<'data> {
    /// A table with the name of its section, or [`SEGMENT`].
    pub fn new(name: &str, data: &'data [u8], address: u64) -> Self {
        TableSection { name: name.into(), data: Cow::Borrowed(data), address }
    }

    /// The table that these bytes are; `None` if they do not begin with one.
    pub fn of_bytes(bytes: &'data [u8], address: u64) -> Option<Self> {
        let name = match bytes.get(4) {
            Some(&WHOLE_VERSION) => WHOLE_SECTION_NAME,
            _ => SECTION_NAME,
        };
        begins(bytes).then(|| TableSection::new(name, bytes, address))
    }
}

/// The name of a table that only a program header leads to.
pub const SEGMENT: &str = "PT_SFRAME_UNWIND";

/// Whether a section of this name is a compact table.
pub fn is_name(name: &str) -> bool {
    matches!(name, SECTION_NAME | WHOLE_SECTION_NAME | SEGMENT)
}

/// Whether a table begins with these bytes.
pub fn begins(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC.to_le_bytes()) || bytes.starts_with(&MAGIC.to_be_bytes())
}
