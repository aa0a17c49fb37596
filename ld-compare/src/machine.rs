//! The machines that links are for: the names of their tools, and their numbers.

use serde::{Deserialize, Serialize};

/// A machine that all of the project's linkers know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
pub enum Machine {
    /// x86-64.
    #[serde(rename = "x86_64")]
    #[value(name = "x86_64", alias = "x86-64", alias = "amd64")]
    X86_64,
    /// AArch64, little-endian.
    #[serde(rename = "aarch64")]
    #[value(name = "aarch64")]
    Aarch64,
    /// s390x, big-endian.
    #[serde(rename = "s390x")]
    #[value(name = "s390x")]
    S390x,
}

/// What assembly texts need to know about a machine. Relocations have the names that `.reloc` takes (psABI).
#[derive(Debug)]
pub struct Dialect {
    /// `e_machine`.
    pub number: u16,
    /// ABI byte of SFrame headers.
    pub sframe_abi: u8,
    /// Fixed offset of the return address in SFrame headers.
    pub fixed_ra: i8,
    /// An instruction that calls a symbol: the text before the symbol's name.
    pub call: &'static str,
    /// The return instruction.
    pub ret: &'static str,
    /// The 64-bit absolute relocation.
    pub abs64: &'static str,
    /// The 64-bit PC-relative relocation.
    pub pc64: &'static str,
    /// The sign before section and symbol types: `@`, or `%` where `@` starts a comment.
    pub at: char,
}

impl Machine {
    /// Every machine.
    pub const ALL: [Machine; 3] = [Machine::X86_64, Machine::Aarch64, Machine::S390x];

    /// The machine with an `e_machine`.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|machine| machine.dialect().number == number)
    }

    /// The name in files and folders.
    pub fn name(self) -> &'static str {
        match self {
            Machine::X86_64 => "x86_64",
            Machine::Aarch64 => "aarch64",
            Machine::S390x => "s390x",
        }
    }

    /// The machine's name for `-m`.
    pub fn emulation(self) -> &'static str {
        match self {
            Machine::X86_64 => "elf_x86_64",
            Machine::Aarch64 => "aarch64linux",
            Machine::S390x => "elf64_s390",
        }
    }

    /// GNU triplet.
    pub fn triple(self) -> &'static str {
        match self {
            Machine::X86_64 => "x86_64-linux-gnu",
            Machine::Aarch64 => "aarch64-linux-gnu",
            Machine::S390x => "s390x-linux-gnu",
        }
    }

    /// The machine that this program was built for, if it is one of these.
    pub fn native() -> Option<Self> {
        Self::ALL.into_iter().find(|machine| machine.name() == std::env::consts::ARCH)
    }

    /// The name of a GNU tool (`as`, `gcc`) for this machine; without a prefix for the native machine.
    pub fn tool(self, name: &str) -> String {
        if Self::native() == Some(self) { name.to_owned() } else { format!("{}-{name}", self.triple()) }
    }

    /// Its terms for assembly texts.
    pub fn dialect(self) -> &'static Dialect {
        match self {
            Machine::X86_64 => &Dialect {
                number: 62,
                sframe_abi: 3,
                fixed_ra: -8,
                call: "call",
                ret: "ret",
                abs64: "R_X86_64_64",
                pc64: "R_X86_64_PC64",
                at: '@',
            },
            Machine::Aarch64 => &Dialect {
                number: 183,
                sframe_abi: 2,
                fixed_ra: 0,
                call: "bl",
                ret: "ret",
                abs64: "R_AARCH64_ABS64",
                pc64: "R_AARCH64_PREL64",
                at: '%',
            },
            Machine::S390x => &Dialect {
                number: 22,
                sframe_abi: 4,
                fixed_ra: 0,
                call: "brasl %r14,",
                ret: "br %r14",
                abs64: "R_390_64",
                pc64: "R_390_PC64",
                at: '@',
            },
        }
    }
}
