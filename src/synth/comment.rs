//! `.comment`: names this linker, as compilers name themselves.

use super::synthesis::Synthesis;
use crate::arch::Target;
use crate::elf::consts as elf;
use crate::plan::LINKER_VERSION;
use crate::tables::section::{Kind, SyntheticSection};

/// `.comment`. If a script replaces the layout of an image, the image holds only what the script asks for.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis::fixed(|link| {
        let flags = elf::SHF_MERGE | elf::SHF_STRINGS;
        let bytes = LINKER_VERSION.as_bytes();
        let section =
            || SyntheticSection::of_bytes(Kind::Comment, b".comment", elf::SHT_PROGBITS, flags, 1, bytes);
        let wanted = !link.config.is_relocatable() && !link.plan.replaces_default;
        wanted.then(|| section().entries(1)).into()
    })
}
