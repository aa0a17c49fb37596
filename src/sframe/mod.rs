//! The linker's policy for `.sframe` sections, by mode (`--sframe=`, `--sframe-index`).
//!
//! The `sframe-format` crate knows the format itself.

pub mod collect;
pub mod derive;
pub mod read;
pub mod split;

use crate::arch::Target;
use crate::cli::{Config, SFrameIndex, SFrameVersion};
use crate::elf::Rela;
use crate::elf::consts as elf;
use crate::ids::SectionId;
use crate::phase::Inputs;
use sframe_format::write::Options;
use sframe_format::{Abi, Endian, Version};
use std::borrow::Cow;
use zerocopy::byteorder::ByteOrder;

/// The ABI of the output's blobs.
pub fn abi<T: Target>() -> Abi {
    T::SFRAME_ABI
}

/// How the linker encodes its own blob: `--sframe-version`, `--sframe-share`. Readers on a machine of the
/// other byte order reject shared rows, so only little-endian outputs have them.
pub fn encoding<T: Target>(config: &Config) -> Options {
    let abi = abi::<T>();
    if config.sframe.index == Some(SFrameIndex::Compact) {
        // A compact table is made from a V3 blob, which can express most, with equal rows once.
        return Options::new(abi).share(true);
    }
    let version = match config.sframe.version {
        SFrameVersion::V2 => Version::V2,
        SFrameVersion::V3 => Version::V3,
    };
    let share = config.sframe.share && abi.endian() == Endian::Little;
    Options::new(abi).version(version).share(share)
}

/// Whether a section is executable. The linker's own sections count as executable. Readers reject a table
/// with a function in any other section.
pub fn is_code<T: Target>(link: &Inputs<'_, T>, section: SectionId) -> bool {
    link.locate(section)
        .is_none_or(|(object, index)| object.headers[index as usize].sh_flags.get() & elf::SHF_EXECINSTR != 0)
}

/// The relocations of a section by ascending offset. Assemblers write them in this order, but the gABI does
/// not require it.
pub fn in_order<E: ByteOrder>(relocations: &[Rela<E>]) -> Cow<'_, [Rela<E>]> {
    let offset = |relocation: &Rela<E>| relocation.r_offset.get();
    if relocations.is_sorted_by_key(offset) {
        return relocations.into();
    }
    let mut sorted = relocations.to_vec();
    sorted.sort_by_key(offset);
    sorted.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::LittleEndian;
    use zerocopy::byteorder::{I64, U64};

    #[test]
    fn relocations_out_of_order_are_sorted() {
        let offsets = |list: [u64; 3]| {
            list.map(|offset| Rela::<LittleEndian> {
                r_offset: U64::new(offset),
                r_info: U64::new(0),
                r_addend: I64::new(0),
            })
        };
        let of =
            |sorted: &[Rela<LittleEndian>]| sorted.iter().map(|it| it.r_offset.get()).collect::<Vec<_>>();
        let ascending = offsets([1, 2, 3]);
        assert!(matches!(in_order(&ascending), Cow::Borrowed(_)));
        assert_eq!(of(&in_order(&offsets([3, 1, 2]))), [1, 2, 3]);
    }
}
