//! The linker's policy for `.sframe` sections, by mode (`--sframe=`, `--sframe-index`).
//!
//! The format itself is the `sframe-format` crate's business.

pub mod collect;
pub mod derive;
pub mod read;
pub mod split;

use crate::arch::Target;
use crate::cli::{Config, SFrameIndex, SFrameVersion};
use sframe_format::write::Options;
use sframe_format::{Abi, Endian, Version};

/// The ABI that blobs of the output have.
pub fn abi<T: Target>() -> Abi {
    T::SFRAME_ABI
}

/// Options for the linker's own blob: `--sframe-version`, `--sframe-share`. Readers on a foreign
/// byte order reject shared rows, so only little-endian outputs have them.
pub fn encoding<T: Target>(config: &Config) -> Options {
    let abi = abi::<T>();
    if config.sframe.index == Some(SFrameIndex::Compact) {
        // What a compact table is made of: all that can be said, equal rows once.
        return Options::new(abi).share(true);
    }
    let version = match config.sframe.version {
        SFrameVersion::V2 => Version::V2,
        SFrameVersion::V3 => Version::V3,
    };
    let share = config.sframe.share && abi.endian() == Endian::Little;
    Options::new(abi).version(version).share(share)
}
