//! The linker's side of `.sframe`: what counts as input, and what a mode does with it.
//!
//! The format itself is the `sframe-format` crate's business.

pub mod collect;
pub mod concat;
pub mod derive;
pub mod derived;
pub mod discard;
pub mod index;
pub mod plt;
#[cfg(test)]
mod plt_tests;
pub mod read;
pub mod report;
pub mod split;
pub mod thunks;

use crate::arch::Target;
use crate::cli::{Config, SFrameVersion};
use crate::elf::consts as elf;
use crate::input::ObjectFile;
use sframe_format::write::Options;
use sframe_format::{Abi, Endian, Version};
use zerocopy::byteorder::ByteOrder;

/// `SHT_GNU_SFRAME`.
pub const SHT_GNU_SFRAME: u32 = 0x6fff_fff4;

/// Product rule 1: whether a section is SFrame input. Its type says so, whatever its name; old
/// assemblers wrote `SHT_PROGBITS`, so then the name does.
#[inline]
pub fn is_input<E: ByteOrder>(object: &ObjectFile<'_, E>, index: usize) -> bool {
    match object.headers[index].sh_type.get() {
        SHT_GNU_SFRAME => true,
        elf::SHT_PROGBITS => {
            object.section_name_begins(index, b".sframe") && is_sframe_name(object.section_name(index))
        }
        _ => false,
    }
}

/// `.sframe`, `.sframe.*` and `.sframe_idx`.
#[inline]
pub fn is_sframe_name(name: &[u8]) -> bool {
    match name.strip_prefix(b".sframe") {
        Some(rest) => rest.is_empty() || rest[0] == b'.' || rest == b"_idx",
        None => false,
    }
}

/// The name that scripts match, and that an orphan has. All inputs go into `.sframe` (product rule 1), so what
/// has the type by another name counts as `.sframe`. A relocatable output keeps such names: the section stays one
/// of its own, and its type tells the next link what it is.
///
/// An `.sframe_idx` of an earlier link is an `.sframe` there too, so that an output section of that name always
/// means that this link made it.
#[inline]
pub fn matched_name(name: &[u8], relocatable: bool) -> &[u8] {
    let keeps = if is_sframe_name(name) { name != b".sframe_idx" } else { relocatable };
    if keeps { name } else { b".sframe" }
}

/// The ABI that blobs of the output have.
pub fn abi<T: Target>() -> Abi {
    T::SFRAME_ABI
}

/// How the linker's own blob is written: `--sframe-version`, `--sframe-share`. Readers on a
/// foreign byte order reject shared rows, so only little-endian outputs have them.
pub fn encoding<T: Target>(config: &Config) -> Options {
    let version = match config.sframe.version {
        SFrameVersion::V2 => Version::V2,
        SFrameVersion::V3 => Version::V3,
    };
    let abi = abi::<T>();
    let share = config.sframe.share && abi.endian() == Endian::Little;
    Options::new(abi).version(version).share(share)
}

#[cfg(test)]
mod tests {
    use super::{is_sframe_name, matched_name};

    #[test]
    fn names() {
        for name in [&b".sframe"[..], b".sframe.text.f", b".sframe_idx"] {
            assert!(is_sframe_name(name));
        }
        for name in [&b".sframed"[..], b".sframe_idx2", b".text"] {
            assert!(!is_sframe_name(name));
        }
        for relocatable in [false, true] {
            assert_eq!(matched_name(b".sframe_idx", relocatable), b".sframe");
            assert_eq!(matched_name(b".sframe.f", relocatable), b".sframe.f");
        }
        assert_eq!(matched_name(b".myframes", false), b".sframe");
        assert_eq!(matched_name(b".myframes", true), b".myframes");
    }
}
