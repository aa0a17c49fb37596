//! `.dynstr`: the names in the dynamic linker's tables ([`crate::tables::dynstr`]).

use super::synthesis::{Create, Grow, Size, Synthesis, Write, bytes};
use crate::arch::Target;
use crate::elf::consts as elf;
use crate::region::copy_bytes;
use crate::tables::section::{Kind, READ_ONLY, SyntheticSection};

/// `.dynstr`.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            let section = || SyntheticSection::new(Kind::DynStr, b".dynstr", elf::SHT_STRTAB, READ_ONLY, 1);
            link.is_dynamic().then(section).into()
        }),
        size: Size::Numbered(|link| bytes(link.dynamic.strings.bytes().len() as u64)),
        grow: Grow::Never,
        write: Write::Bytes(|link, _, out| copy_bytes(link.dynamic.strings.bytes(), out)),
    }
}
