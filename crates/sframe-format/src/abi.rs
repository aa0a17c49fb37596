//! The ABI byte of the header, and what it decides: byte order, register numbers, fixed return address.

use core::fmt;

use crate::endian::Endian;
use crate::version::Version;

/// A DWARF register number.
pub type Register = u32;

/// ABI and architecture, the byte at header offset 4 (SFrame V3, "ABI/arch identifier").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Abi {
    /// AArch64, big-endian.
    AArch64Big = 1,
    /// AArch64, little-endian.
    AArch64Little = 2,
    /// x86-64 (AMD64).
    Amd64 = 3,
    /// IBM Z, 64-bit.
    S390x = 4,
}

impl Abi {
    /// The ABI with this identifier. `None`: the identifier is not 1 to 4.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::AArch64Big),
            2 => Some(Self::AArch64Little),
            3 => Some(Self::Amd64),
            4 => Some(Self::S390x),
            _ => None,
        }
    }

    /// The ABI of ELF files with this `e_machine` (gABI, "ELF Header") and byte order. `None`: SFrame is not
    /// defined for them.
    pub const fn from_elf(machine: u16, big_endian: bool) -> Option<Self> {
        match (machine, big_endian) {
            (22, true) => Some(Self::S390x),
            (62, false) => Some(Self::Amd64),
            (183, false) => Some(Self::AArch64Little),
            (183, true) => Some(Self::AArch64Big),
            _ => None,
        }
    }

    /// The byte order of the ABI.
    #[inline]
    pub const fn endian(self) -> Endian {
        match self {
            Self::AArch64Little | Self::Amd64 => Endian::Little,
            Self::AArch64Big | Self::S390x => Endian::Big,
        }
    }

    /// Whether this is one of the two AArch64 ABIs, which sign return addresses.
    #[inline]
    pub const fn is_aarch64(self) -> bool {
        matches!(self, Self::AArch64Big | Self::AArch64Little)
    }

    /// Number of the stack pointer.
    #[inline]
    pub const fn stack_pointer(self) -> Register {
        match self {
            Self::AArch64Big | Self::AArch64Little => 31,
            Self::Amd64 => 7,
            Self::S390x => 15,
        }
    }

    /// Number of the frame pointer.
    #[inline]
    pub const fn frame_pointer(self) -> Register {
        match self {
            Self::AArch64Big | Self::AArch64Little => 29,
            Self::Amd64 => 6,
            Self::S390x => 11,
        }
    }

    /// Number of the return address column: the link register, or 16 on x86-64.
    #[inline]
    pub const fn return_address(self) -> Register {
        match self {
            Self::AArch64Big | Self::AArch64Little => 30,
            Self::Amd64 => 16,
            Self::S390x => 14,
        }
    }

    /// Value of the header's `cfa_fixed_ra_offset`: in every frame, the return address lies this many bytes
    /// from the CFA. 0: the rows say where it is.
    #[inline]
    pub const fn fixed_ra_offset(self) -> i8 {
        match self {
            Self::Amd64 => -8,
            _ => 0,
        }
    }

    /// Bytes from the caller's stack pointer up to the CFA: 160 (the register save area) on s390x, else 0.
    #[inline]
    pub const fn cfa_bias(self) -> i64 {
        match self {
            Self::S390x => 160,
            _ => 0,
        }
    }

    /// Type number of the PC-relative relocation that assemblers write for each function start field of this
    /// version (x86-64 psABI, AArch64 ELF ABI, s390x ELF ABI): 32 bits in V1 and V2, 64 in V3.
    pub const fn start_relocation(self, version: Version) -> u32 {
        match (self, version) {
            (Self::Amd64, Version::V3) => 24,
            (Self::Amd64, _) => 2,
            (Self::S390x, Version::V3) => 23,
            (Self::S390x, _) => 5,
            (_, Version::V3) => 260,
            _ => 261,
        }
    }

    /// Repetition block of PC-mask functions in bytes. SFrame V1 implies it and does not record it.
    #[inline]
    pub const fn v1_repeat_size(self) -> u8 {
        16
    }
}

impl fmt::Display for Abi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::AArch64Big => "AArch64 big-endian",
            Self::AArch64Little => "AArch64",
            Self::Amd64 => "x86-64",
            Self::S390x => "s390x",
        })
    }
}
