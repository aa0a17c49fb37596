//! The versions of the format, and what follows from the number alone: sizes of entries, and which flags
//! exist.

use core::fmt;

/// The versions that this crate knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Version {
    /// Version 1, binutils 2.40.
    V1 = 1,
    /// Version 2, binutils 2.41 to 2.45 (errata 1 since 2.45) and LLVM.
    V2 = 2,
    /// Version 3, binutils 2.46 and later.
    V3 = 3,
}

impl Version {
    /// The version with this number, if known.
    #[inline]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::V1),
            2 => Some(Self::V2),
            3 => Some(Self::V3),
            _ => None,
        }
    }

    /// Bytes per entry of the FDE array.
    #[inline]
    pub const fn fde_size(self) -> usize {
        match self {
            Self::V1 => 17,
            Self::V2 => 20,
            Self::V3 => 16,
        }
    }

    /// Bytes of the function start field, at offset 0 of each entry of the FDE array.
    #[inline]
    pub const fn start_width(self) -> u8 {
        match self {
            Self::V1 | Self::V2 => 4,
            Self::V3 => 8,
        }
    }

    /// The flag bits that the version defines.
    #[inline]
    pub const fn flags(self) -> Flags {
        match self {
            Self::V1 => Flags(Flags::SORTED.0 | Flags::FRAME_POINTER.0),
            Self::V2 => Flags(Flags::SORTED.0 | Flags::FRAME_POINTER.0 | Flags::FIELD_RELATIVE.0),
            Self::V3 => Flags(Flags::SORTED.0 | Flags::FIELD_RELATIVE.0),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "V{}", *self as u8)
    }
}

/// The flag byte at header offset 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// `SFRAME_F_FDE_SORTED`: FDEs ascend by function address.
    pub const SORTED: Self = Self(0x1);
    /// `SFRAME_F_FRAME_POINTER` (V1 and V2): every function keeps a frame pointer. No tool sets it.
    pub const FRAME_POINTER: Self = Self(0x2);
    /// `SFRAME_F_FDE_FUNC_START_PCREL` (V2 since errata 1, V3): function starts count from their own field
    /// instead of the header.
    pub const FIELD_RELATIVE: Self = Self(0x4);

    /// Whether all bits of `flag` are set.
    #[inline]
    pub const fn contains(self, flag: Self) -> bool {
        self.0 & flag.0 == flag.0
    }

    /// These flags with `flag` set or cleared.
    #[inline]
    #[must_use]
    pub const fn with(self, flag: Self, on: bool) -> Self {
        if on { Self(self.0 | flag.0) } else { Self(self.0 & !flag.0) }
    }
}
