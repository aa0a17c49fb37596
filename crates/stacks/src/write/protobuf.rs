//! Messages of Protocol Buffers. The forms of profiles have few kinds of fields, so this module encodes them
//! itself ("Protocol Buffers, Encoding"): a number has seven bits in each byte, lowest first, and a field is
//! its number, its kind, and its bytes.

/// A message under construction.
#[derive(Default)]
pub struct Message(pub Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A field with a number.
    pub fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    /// A field with bytes or a text.
    pub fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// A field with a message, which `fill` fills.
    pub fn nested(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }

    /// A field with many numbers.
    pub fn packed(&mut self, field: u32, values: impl IntoIterator<Item = u64>) {
        let mut inner = Self::default();
        values.into_iter().for_each(|value| inner.varint(value));
        if !inner.0.is_empty() {
            self.bytes(field, &inner.0);
        }
    }
}
