//! Reads the variable-length fields of call frame information.

use zerocopy::byteorder::{ByteOrder, U16, U32, U64};

/// A position in a record. Every read past the end gives `None`.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    /// Offset of the next byte.
    pub at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        Reader { bytes, at }
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let field = self.bytes.get(self.at..)?.first_chunk::<N>()?;
        self.at += N;
        Some(*field)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub fn u32<E: ByteOrder>(&mut self) -> Option<u32> {
        Some(U32::<E>::from_bytes(self.take()?).get())
    }

    pub fn u64<E: ByteOrder>(&mut self) -> Option<u64> {
        Some(U64::<E>::from_bytes(self.take()?).get())
    }

    /// An unsigned number of 2, 4 or 8 bytes.
    pub fn unsigned<E: ByteOrder>(&mut self, width: usize) -> Option<u64> {
        match width {
            2 => Some(U16::<E>::from_bytes(self.take()?).get().into()),
            4 => self.u32::<E>().map(u64::from),
            _ => self.u64::<E>(),
        }
    }

    pub fn skip(&mut self, count: usize) -> Option<()> {
        self.at = self.at.checked_add(count).filter(|&at| at <= self.bytes.len())?;
        Some(())
    }

    /// Skips a LEB128 number, signed or not.
    pub fn skip_leb128(&mut self) -> Option<()> {
        while self.u8()? & 0x80 != 0 {}
        Some(())
    }

    pub fn uleb128(&mut self) -> Option<u64> {
        let mut value = 0u64;
        let mut shift = 0;
        loop {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift >= 64 || (shift == 63 && bits > 1) {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
            shift += 7;
        }
    }

    /// A string without its NUL.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let text = crate::elf::string_at(self.bytes, self.at)?;
        self.at += text.len() + 1;
        Some(text)
    }
}
