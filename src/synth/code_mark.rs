//! `.bolt.org.sframe_unwind`: keeps BOLT from moving the code that an unwind table describes.
//!
//! BOLT finds out where functions begin, and which of their code are landing pads, by `.eh_frame`. It moves
//! code in programs without relocations, too, and knows nothing of the table: landing pads would be gone, and
//! rows would hold for other instructions. But it takes no file that it has been through, which it knows by
//! sections of this prefix. There is no other way to tell it.

use super::synthesis::Synthesis;
use crate::arch::Target;
use crate::elf::consts as elf;
use crate::tables::section::{Kind, SyntheticSection};
use sframe_format::compact::CODE_MARK;

/// What the section says to people.
const TEXT: &[u8] =
    b"The code is described by .sframe_unwind, of which tools that move code know nothing.\n\0";

/// The section, if the output has a table.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis::fixed(|link| {
        if link.config.unwind.table.is_none() {
            return None.into();
        }
        let (name, sh_type) = (CODE_MARK.as_bytes(), elf::SHT_PROGBITS);
        Some(SyntheticSection::of_bytes(Kind::CodeMark, name, sh_type, 0, 1, TEXT)).into()
    })
}
