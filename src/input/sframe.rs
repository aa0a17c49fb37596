//! Recognises SFrame input sections, and gives the names by which scripts match them.

use super::ObjectFile;
use crate::elf::consts as elf;
use sframe_format::SHT_GNU_SFRAME;
use zerocopy::byteorder::ByteOrder;

/// SFrame rule 1: whether a section is SFrame input. Its type says so, whatever its name; old
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

/// The same by type and name.
pub fn is_sframe(sh_type: u32, name: &[u8]) -> bool {
    sh_type == SHT_GNU_SFRAME || sh_type == elf::SHT_PROGBITS && is_sframe_name(name)
}

/// `.sframe`, `.sframe.*` and `.sframe_idx`.
#[inline]
pub fn is_sframe_name(name: &[u8]) -> bool {
    match name.strip_prefix(b".sframe") {
        Some(rest) => rest.is_empty() || rest[0] == b'.' || rest == b"_idx",
        None => false,
    }
}

/// The name that scripts match, and that an orphan has. All inputs go into `.sframe` (SFrame rule 1), so a
/// section that has the type by another name counts as `.sframe`. A relocatable output keeps such names: the
/// section stays one of its own, and its type tells the next link that it is SFrame.
///
/// An `.sframe_idx` of an earlier link is an `.sframe` there too, so that an output section of that
/// name always means that this link made it.
#[inline]
pub fn matched_name(name: &[u8], relocatable: bool) -> &[u8] {
    let keeps = if is_sframe_name(name) { name != b".sframe_idx" } else { relocatable };
    if keeps { name } else { b".sframe" }
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
