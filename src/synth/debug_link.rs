//! `.gnu_debuglink`: names the file of `--separate-debug-file`, and says which checksum it has (gdb manual,
//! "Debugging Information in Separate Files").

use super::synthesis::Synthesis;
use crate::arch::Target;
use crate::elf::consts as elf;
use crate::tables::section::{Kind, SyntheticSection};

/// Bytes of the checksum, the last ones of the section.
pub const CHECKSUM_SIZE: usize = 4;

/// `.gnu_debuglink`: the file's name with its NUL and padding, and room for the checksum, which is written
/// when all other bytes of the output are ([`crate::output::debug_link`]).
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis::fixed(|link| {
        let Some(path) = link.config.debug_file() else { return None.into() };
        let mut bytes = path.file_name().unwrap_or_default().as_encoded_bytes().to_vec();
        bytes.resize((bytes.len() + 1).next_multiple_of(4) + CHECKSUM_SIZE, 0);
        let bytes = link.store.keep(bytes);
        let (name, sh_type) = (b".gnu_debuglink", elf::SHT_PROGBITS);
        Some(SyntheticSection::of_bytes(Kind::DebugLink, name, sh_type, 0, 4, bytes)).into()
    })
}
