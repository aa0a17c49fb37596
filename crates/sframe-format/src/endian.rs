//! Byte order, which is only known at run time: the magic number of each blob shows it.

use core::fmt;

/// A byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Endian {
    /// The order of the machine that this code runs on.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };
}

macro_rules! integers {
    ($($read:ident $write:ident $type:ty, $size:literal;)*) => {
        impl Endian {
            $(
                /// Reads an integer at byte `offset` of `data`, or `None` past its end.
                #[inline]
                pub fn $read(self, data: &[u8], offset: usize) -> Option<$type> {
                    let bytes: [u8; $size] = *data.get(offset..)?.first_chunk()?;
                    Some(match self {
                        Self::Little => <$type>::from_le_bytes(bytes),
                        Self::Big => <$type>::from_be_bytes(bytes),
                    })
                }

                /// The bytes of an integer in this order.
                #[inline]
                pub fn $write(self, value: $type) -> [u8; $size] {
                    match self {
                        Self::Little => value.to_le_bytes(),
                        Self::Big => value.to_be_bytes(),
                    }
                }
            )*
        }
    };
}

integers! {
    read_u16 u16_bytes u16, 2;
    read_u32 u32_bytes u32, 4;
    read_i16 i16_bytes i16, 2;
    read_i32 i32_bytes i32, 4;
    read_i64 i64_bytes i64, 8;
}

impl fmt::Display for Endian {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Little => "little-endian",
            Self::Big => "big-endian",
        })
    }
}
