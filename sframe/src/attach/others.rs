//! The other tables of a file that gets new frames.
//!
//! A file may have several tables: an index beside `.sframe` that it could not take, units of the light form,
//! a compact table. If a tool has moved code since the link, all of them are as wrong as the one that is
//! replaced, and readers believe each. So none stays as it was: the new blob says all that the others said of
//! SFrame, and a compact table is made anew.

use super::super::edit::Image;
use elf::{Shdr, consts};
use sframe_format::compact;
use zerocopy::IntoBytes;
use zerocopy::byteorder::{ByteOrder, U64};

/// Whether a file has a compact table that `sframe attach` can make.
pub fn has_compact<E: ByteOrder>(image: &Image<'_, E>) -> bool {
    image.named(compact::SECTION_NAME.as_bytes()).any(|index| {
        let kind = image.sections[index].sh_type.get();
        kind == consts::SHT_PROGBITS && image.sections[index].sh_size.get() > 0
    })
}

/// Whether a file has a table in place of `.eh_frame`, which only the linker makes.
pub fn has_whole_table<E: ByteOrder>(image: &Image<'_, E>) -> bool {
    image.segments.iter().any(|segment| segment.p_type.get() == compact::PT_SFRAME_UNWIND)
}

/// Empties every SFrame section other than the first one named `kept`. They keep their headers, so that
/// numbers of sections stay as they are. Returns the bytes, and the names of what it emptied.
pub fn empty<E: ByteOrder>(image: &Image<'_, E>, kept: &[u8]) -> (Vec<u8>, Vec<String>) {
    let kept = image.named(kept).find(|&index| image.is_sframe(index));
    let (mut out, mut names) = (image.bytes.to_vec(), Vec::new());
    for (index, section) in image.sections.iter().enumerate() {
        if Some(index) == kept || !image.is_sframe(index) || section.sh_size.get() == 0 {
            continue;
        }
        if let Some(place) = place(section).and_then(|place| out.get_mut(place)) {
            place.fill(0);
        }
        let header = Shdr { sh_size: U64::new(0), ..*section };
        let at = image.header.e_shoff.get() as usize + index * size_of::<Shdr<E>>();
        if let Some(place) = out.get_mut(at..at + size_of::<Shdr<E>>()) {
            place.copy_from_slice(header.as_bytes());
            names.push(String::from_utf8_lossy(image.section_name(index)).into_owned());
        }
    }
    (out, names)
}

/// The bytes of a section in the file.
fn place<E: ByteOrder>(section: &Shdr<E>) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(section.sh_offset.get()).ok()?;
    let size = usize::try_from(section.sh_size.get()).ok()?;
    (section.sh_type.get() != consts::SHT_NOBITS).then_some(start..start.checked_add(size)?)
}
