//! `.dynstr`: the names for the dynamic linker, each of them once.

use hashbrown::HashMap;

/// A string table whose strings are kept once.
#[derive(Debug, Default)]
pub struct DynamicStrings<'a> {
    bytes: Vec<u8>,
    offsets: HashMap<&'a [u8], u32, foldhash::fast::FixedState>,
}

impl<'a> DynamicStrings<'a> {
    /// A table with room for about this many strings.
    pub fn new(strings: usize) -> Self {
        let offsets = HashMap::with_capacity_and_hasher(strings, foldhash::fast::FixedState::default());
        DynamicStrings { bytes: vec![0], offsets }
    }

    /// Offset of a string in the table, in bytes; the empty string is at 0.
    ///
    /// # Panics
    /// The table grows over 4 GiB. Its names come from inputs that are larger than that.
    pub fn add(&mut self, text: &'a [u8]) -> u32 {
        if text.is_empty() {
            return 0;
        }
        *self.offsets.entry(text).or_insert_with(|| {
            let offset = u32::try_from(self.bytes.len()).expect("dynamic names fit into 4 GiB");
            self.bytes.extend_from_slice(text);
            self.bytes.push(0);
            offset
        })
    }

    /// Contents of the section.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::DynamicStrings;

    #[test]
    fn equal_strings_share_one_offset() {
        let mut strings = DynamicStrings::new(4);
        assert_eq!(strings.add(b""), 0);
        let first = strings.add(b"libc.so.6");
        assert_eq!(strings.add(b"puts"), first + 10);
        assert_eq!(strings.add(b"libc.so.6"), first);
        assert_eq!(strings.bytes(), b"\0libc.so.6\0puts\0");
    }
}
