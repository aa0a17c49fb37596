//! Recognises SFrame input sections, and gives them the names that scripts match.
//!
//! There are two kinds: sections of blobs, and sections of units (`sframe_format::light`). Sections of units
//! have a name and a type of their own, also in the output.

use super::{InputStore, ObjectFile};
use crate::elf::{consts as elf, is_alloc, whole_table};
use sframe_format::SHT_GNU_SFRAME;
use sframe_format::light::{self, SHT_SFRAME_LIGHT};
use sframe_sections::is_sframe_name;
pub use sframe_sections::{is_sframe, output_type};
use zerocopy::IntoBytes;
use zerocopy::byteorder::ByteOrder;

/// Whether a section is SFrame input (SFrame rule 1). Its type says so, whatever its name is. Old assemblers
/// wrote `SHT_PROGBITS`; with that type, the name says so.
#[inline]
pub fn is_input<E: ByteOrder>(object: &ObjectFile<'_, E>, index: usize) -> bool {
    match object.headers[index].sh_type.get() {
        SHT_GNU_SFRAME | SHT_SFRAME_LIGHT => true,
        elf::SHT_PROGBITS => {
            object.section_name_begins(index, b".sframe") && is_sframe_name(object.section_name(index))
        }
        _ => false,
    }
}

/// Gives `SHF_ALLOC` to the object's SFrame inputs that lack it, so that passes treat all inputs alike.
/// Outputs of a link with `-z nosframe-alloc` lack it. The options alone decide whether the output loads
/// SFrame. Returns whether there were any such inputs.
pub fn load<'a, E: ByteOrder>(object: &mut ObjectFile<'a, E>, store: &'a InputStore) -> bool {
    let loaded = |&index: &u32| is_alloc(object.headers[index as usize].sh_flags.get());
    if object.sframes.iter().all(loaded) {
        return false;
    }
    let mut headers = object.headers.to_vec();
    for &index in &object.sframes {
        let flags = &mut headers[index as usize].sh_flags;
        flags.set(flags.get() | elf::SHF_ALLOC);
    }
    object.headers = whole_table(store.keep(headers.as_bytes()));
    true
}

/// The name of an SFrame section that scripts match. All inputs of blobs go into `.sframe` (SFrame rule 1)
/// and all inputs of units into `.sframe_light`. So scripts match a section with an SFrame type and another
/// name as if it had that name. In a relocatable output, it keeps its own name and stays a section of its
/// own, and its type tells the next link that it is SFrame.
///
/// An `.sframe_idx` of an earlier link is matched as `.sframe` even in a relocatable output. So an output
/// section `.sframe_idx` is always one that this link made.
#[inline]
pub fn matched_name(sh_type: u32, name: &[u8], relocatable: bool) -> &[u8] {
    let keeps = if is_sframe_name(name) { name != b".sframe_idx" } else { relocatable };
    if keeps { name } else { orphan_name(output_type(sh_type, name)) }
}

/// The name that an SFrame section of this type has in the output, if no script gives it another.
pub fn orphan_name(output_type: u32) -> &'static [u8] {
    if output_type == SHT_SFRAME_LIGHT { light::SECTION_NAME.as_bytes() } else { b".sframe" }
}

#[cfg(test)]
mod tests {
    use super::matched_name;
    use sframe_format::SHT_GNU_SFRAME;
    use sframe_format::light::SHT_SFRAME_LIGHT;

    #[test]
    fn names_that_scripts_match() {
        for relocatable in [false, true] {
            assert_eq!(matched_name(1, b".sframe_idx", relocatable), b".sframe");
            assert_eq!(matched_name(1, b".sframe.f", relocatable), b".sframe.f");
            assert_eq!(matched_name(1, b".sframe_light", relocatable), b".sframe_light");
        }
        assert_eq!(matched_name(SHT_GNU_SFRAME, b".myframes", false), b".sframe");
        assert_eq!(matched_name(SHT_GNU_SFRAME, b".myframes", true), b".myframes");
        assert_eq!(matched_name(SHT_SFRAME_LIGHT, b".myframes", false), b".sframe_light");
    }
}
