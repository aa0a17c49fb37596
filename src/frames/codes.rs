//! What code a record of `.eh_frame` covers, and records that cover less.

use super::eh_frame::{FileFrames, encoded_width};
use super::reader::Reader;
use crate::ids::SectionId;
use crate::input::ObjectFile;
use zerocopy::byteorder::{ByteOrder, U16, U32, U64};

/// The code of an FDE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code {
    /// Offset of its first byte in the section that holds it.
    pub begin: u64,
    /// Its length in bytes.
    pub length: u64,
    /// The section of the FDE: a row of [`FileFrames::sections`].
    pub section: usize,
    /// Offset of the length in that section, and its width.
    field: usize,
    width: usize,
}

impl Code {
    /// Writes another length into the bytes of the FDE's section.
    pub fn store<E: ByteOrder>(&self, bytes: &mut [u8], length: u64) {
        let Some(field) = bytes.get_mut(self.field..self.field + self.width) else { return };
        match self.width {
            2 => field.copy_from_slice(&U16::<E>::new(length as u16).to_bytes()),
            4 => field.copy_from_slice(&U32::<E>::new(length as u32).to_bytes()),
            _ => field.copy_from_slice(&U64::<E>::new(length).to_bytes()),
        }
    }
}

impl<'a, E: ByteOrder> FileFrames<'a, E> {
    /// What the object's FDEs cover of one of its sections, except those without code.
    pub fn codes_of<'f>(
        &'f self,
        object: &'f ObjectFile<'a, E>,
        function: SectionId,
    ) -> impl Iterator<Item = Code> + 'f {
        self.fdes_of(function).filter_map(move |row| {
            let fde = &self.fdes[row as usize];
            let number = self.sections.partition_point(|section| section.fdes.end <= row);
            let section = &self.sections[number];
            let first = section.relocations.get(fde.first_relocation as usize)?;
            let (place, value) = object.symbol_section(first.symbol())?;
            let width = encoded_width(self.cies[fde.cie as usize].encoding);
            let long = section.bytes.get(fde.offset as usize..)?.starts_with(&[0xff; 4]);
            let field = fde.offset as usize + if long { 16 } else { 8 } + width;
            let length = Reader::new(section.bytes, field).unsigned::<E>(width)?;
            let begin = value.wrapping_add_signed(first.r_addend.get());
            let code = Code { begin, length, section: number, field, width };
            (place == function && length > 0).then_some(code)
        })
    }
}
