//! The facts about input sections that many passes ask for, in one byte each.
//!
//! A header is 64 bytes in a mapping, and a name is bytes elsewhere in it: a pass that walks all sections
//! waits for memory more than it computes. So headers and names are looked at once, when sections are
//! numbered, and the passes that only sort sections into kinds read this byte. Passes that look for a few
//! sections of one kind have a list of them ([`is_special`]).

use super::ObjectFile;
use super::sframe::is_input;
use crate::arch::machine::SHT_UNWIND;
use crate::elf::consts as elf;
use bitflags::bitflags;
use zerocopy::byteorder::ByteOrder;

bitflags! {
    /// The kind of an input section.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct SectionClass: u8 {
        /// SFrame input ([`is_input`]).
        const SFRAME = 1 << 0;
        /// Call frame information: by its name and type, or because a script puts it into `.eh_frame`.
        const EH_FRAME = 1 << 1;
        /// `SHF_ALLOC`.
        const ALLOC = 1 << 2;
        /// `SHF_GROUP`.
        const GROUPED = 1 << 3;
        /// `SHF_LINK_ORDER`.
        const ORDERED = 1 << 4;
        /// `SHF_MERGE`.
        const MERGE = 1 << 5;
        /// `SHT_NOBITS`.
        const NOBITS = 1 << 6;
        /// Relocations apply to it.
        const RELOCATED = 1 << 7;
    }
}

impl SectionClass {
    /// The class of section `index`. Relocation sections are tied to their targets by now.
    pub fn of<E: ByteOrder>(object: &ObjectFile<'_, E>, index: usize) -> SectionClass {
        let header = &object.headers[index];
        let flags = header.sh_flags.get();
        let has = |flag: u32| flags & u64::from(flag) != 0;
        let relocated = object.relocation_sections.get(index).is_some_and(|&table| table != 0);
        let mut class = SectionClass::empty();
        class.set(SectionClass::SFRAME, is_input(object, index));
        class.set(SectionClass::EH_FRAME, is_eh_frame(object, index));
        class.set(SectionClass::ALLOC, has(elf::SHF_ALLOC));
        class.set(SectionClass::GROUPED, has(elf::SHF_GROUP));
        class.set(SectionClass::ORDERED, has(elf::SHF_LINK_ORDER));
        class.set(SectionClass::MERGE, has(elf::SHF_MERGE));
        class.set(SectionClass::NOBITS, header.sh_type.get() == elf::SHT_NOBITS);
        class.set(SectionClass::RELOCATED, relocated);
        class
    }
}

/// Whether a section holds call frame information.
fn is_eh_frame<E: ByteOrder>(object: &ObjectFile<'_, E>, index: usize) -> bool {
    matches!(object.headers[index].sh_type.get(), elf::SHT_PROGBITS | SHT_UNWIND)
        && object.section_name_begins(index, b".eh_frame\0")
}

/// Names of special sections of the ordinary types, or their beginnings.
const SPECIAL_NAMES: [&[u8]; 7] =
    [b".gnu.", b".ctors", b".dtors", b".init_array", b".fini_array", b".preinit_array", OTHER_EH_FRAME];

/// The beginning of names under which call frame information comes that is not in `.eh_frame`.
pub const OTHER_EH_FRAME: &[u8] = b".eh_frame.";

/// By letter: whether it follows the dot of such a name. Most names end the search here.
const SPECIAL_LETTERS: [bool; 256] = {
    let mut letters = [false; 256];
    let mut name = 0;
    while name < SPECIAL_NAMES.len() {
        letters[SPECIAL_NAMES[name][1] as usize] = true;
        name += 1;
    }
    letters
};

/// Whether some pass looks for a section with contents of the program by its type or name: notes, attributes,
/// arrays of functions, `.gnu.linkonce.*`, `.gnu.warning.*`, `.eh_frame.*`, and names without a dot
/// (`__start_NAME`). There are a few in an object, and lists of them spare those passes the headers of all
/// others. A pass that looks for another name of an ordinary section adds it above.
pub fn is_special<E: ByteOrder>(object: &ObjectFile<'_, E>, index: usize) -> bool {
    !matches!(object.headers[index].sh_type.get(), elf::SHT_PROGBITS | elf::SHT_NOBITS)
        || match object.section_name_on(index) {
            name @ [b'.', letter, ..] => {
                SPECIAL_LETTERS[usize::from(*letter)]
                    && SPECIAL_NAMES.iter().any(|special| name.starts_with(special))
            }
            [b'.'] | [0, ..] | [] => false,
            _ => true,
        }
}
