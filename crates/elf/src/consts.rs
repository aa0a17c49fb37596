//! The constants of the gABI, those of section flags as wide as the field that holds them.

pub use object::elf::*;

/// Gives flags the width of `sh_flags` (gABI, "Section Header": `Elf64_Xword`).
macro_rules! section_flags {
    ($($name:ident)*) => {
        $(#[doc = concat!("`", stringify!($name), "`.")]
        pub const $name: u64 = object::elf::$name as u64;)*
    };
}

section_flags! {
    SHF_WRITE SHF_ALLOC SHF_EXECINSTR SHF_MERGE SHF_STRINGS SHF_INFO_LINK SHF_LINK_ORDER SHF_OS_NONCONFORMING
    SHF_GROUP SHF_TLS SHF_COMPRESSED SHF_MASKOS SHF_GNU_RETAIN SHF_MASKPROC SHF_EXCLUDE
}
