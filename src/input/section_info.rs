//! The header fields of a section as passes see them, whether the section comes from an object or from the
//! linker.

use super::ObjectFile;
use super::sframe::{is_sframe, matched_name, output_type};
use crate::elf::Shdr;
use sframe_format::SHT_GNU_SFRAME;
use sframe_format::light::SHT_SFRAME_LIGHT;

/// The header fields of a section of an object, or of a synthetic one.
#[derive(Clone, Copy, Debug)]
pub struct SectionInfo<'a> {
    /// Its name, as scripts match it.
    pub name: &'a [u8],
    /// `SHT_*`.
    pub sh_type: u32,
    /// `SHF_*`.
    pub flags: u64,
    /// Size in memory, in bytes.
    pub size: u64,
    /// Alignment in bytes: a power of two, at least 1.
    pub align: u64,
    /// Size of an entry, in bytes; 0 if entries have no common size.
    pub entsize: u64,
}

impl<'a> SectionInfo<'a> {
    /// The fields of an object's section header. SFrame input gets the type `SHT_GNU_SFRAME`, or the type of
    /// units, even if its header has another (SFrame rule 1). An alignment that is not a power of two counts
    /// as 1; `index_objects` has reported it.
    pub fn of<E: zerocopy::byteorder::ByteOrder>(
        object: &ObjectFile<'a, E>,
        index: usize,
        relocatable: bool,
    ) -> Self {
        let header: &Shdr<E> = &object.headers[index];
        let align = header.sh_addralign.get();
        let name = object.section_name(index);
        let (name, sh_type) = if is_sframe(header.sh_type.get(), name) {
            let sh_type = header.sh_type.get();
            (matched_name(sh_type, name, relocatable), output_type(sh_type, name))
        } else {
            (name, header.sh_type.get())
        };
        SectionInfo {
            name,
            sh_type,
            flags: header.sh_flags.get(),
            size: header.sh_size.get(),
            align: if align.is_power_of_two() { align } else { 1 },
            entsize: header.sh_entsize.get(),
        }
    }

    /// Whether it holds SFrame.
    #[inline]
    pub fn is_sframe(&self) -> bool {
        matches!(self.sh_type, SHT_GNU_SFRAME | SHT_SFRAME_LIGHT)
    }
}
