//! The facts about input sections that many passes ask for, in one byte for each section.
//!
//! A section header has 64 bytes in a mapped file, and the section's name is elsewhere in that file. A pass
//! that reads both for every section waits for memory more than it computes. So the linker looks at headers
//! and names once, when it numbers the sections, and passes that only sort sections into kinds read this
//! byte. A pass that needs only the few sections of one kind has a list of them ([`is_special`]).

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
        /// It is SFrame input ([`is_input`]).
        const SFRAME = 1 << 0;
        /// It holds call frame information: its name and type say so, or a script puts it into `.eh_frame`.
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
    /// The class of section `index`. The relocation sections of the object must be indexed.
    pub fn of<E: ByteOrder>(object: &ObjectFile<'_, E>, index: usize) -> SectionClass {
        let header = &object.headers[index];
        let flags = header.sh_flags.get();
        let has = |flag: u64| flags & flag != 0;
        let relocated = object.relocation_sections.get(index).is_some_and(|&table| table != 0);
        let when = |is: bool, class: SectionClass| if is { class } else { SectionClass::empty() };
        when(is_input(object, index), SectionClass::SFRAME)
            | when(is_eh_frame(object, index), SectionClass::EH_FRAME)
            | when(has(elf::SHF_ALLOC), SectionClass::ALLOC)
            | when(has(elf::SHF_GROUP), SectionClass::GROUPED)
            | when(has(elf::SHF_LINK_ORDER), SectionClass::ORDERED)
            | when(has(elf::SHF_MERGE), SectionClass::MERGE)
            | when(header.sh_type.get() == elf::SHT_NOBITS, SectionClass::NOBITS)
            | when(relocated, SectionClass::RELOCATED)
    }
}

/// Whether a section holds call frame information.
fn is_eh_frame<E: ByteOrder>(object: &ObjectFile<'_, E>, index: usize) -> bool {
    matches!(object.headers[index].sh_type.get(), elf::SHT_PROGBITS | SHT_UNWIND)
        && object.section_name_begins(index, b".eh_frame\0")
}

/// Names, or beginnings of names, of special sections that have ordinary types.
const SPECIAL_NAMES: [&[u8]; 10] = [
    b".gnu.",
    b".ctors",
    b".dtors",
    b".init\0",
    b".fini\0",
    b".jcr\0",
    b".init_array",
    b".fini_array",
    b".preinit_array",
    OTHER_EH_FRAME,
];

/// The beginning of names of sections other than `.eh_frame` that hold call frame information.
pub const OTHER_EH_FRAME: &[u8] = b".eh_frame.";

/// For each letter, whether it follows the dot in one of these names. For most names, the search ends here.
const SPECIAL_LETTERS: [bool; 256] = {
    let mut letters = [false; 256];
    let mut name = 0;
    while name < SPECIAL_NAMES.len() {
        letters[SPECIAL_NAMES[name][1] as usize] = true;
        name += 1;
    }
    letters
};

/// Whether some pass looks for this section, which has contents of the program, by its type or name: notes,
/// attributes, arrays of functions, `.gnu.linkonce.*`, `.gnu.warning.*`, `.eh_frame.*`, `SHF_GNU_RETAIN`, and
/// names without a dot (`__start_NAME`). An object has few of them, and a list of them spares those passes
/// the headers of all other sections. If a pass looks for another name of an ordinary section, add the name
/// above.
pub fn is_special<E: ByteOrder>(object: &ObjectFile<'_, E>, index: usize) -> bool {
    let header = &object.headers[index];
    !matches!(header.sh_type.get(), elf::SHT_PROGBITS | elf::SHT_NOBITS)
        || header.sh_flags.get() & elf::SHF_GNU_RETAIN != 0
        || match object.section_name_on(index) {
            name @ [b'.', letter, ..] => {
                SPECIAL_LETTERS[usize::from(*letter)]
                    && SPECIAL_NAMES.iter().any(|special| name.starts_with(special))
            }
            [b'.'] | [0, ..] | [] => false,
            _ => true,
        }
}
