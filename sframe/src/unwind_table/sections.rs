//! The sections of a finished file that an unwind table has to do with.

use object::{Object, ObjectSection};
use sframe_format::Abi;
use sframe_format::compact::{WHOLE_SECTION_NAME, is_of_bolt};
use std::borrow::Cow;

/// A file's sections.
pub struct Sections<'data> {
    pub abi: Abi,
    pub table: Option<(Cow<'data, [u8]>, u64)>,
    pub eh_frame: (Cow<'data, [u8]>, u64),
    pub header_size: u64,
    pub debug_frame: Option<Cow<'data, [u8]>>,
    /// Whether BOLT has rewritten the file.
    pub is_rewritten: bool,
}

impl<'data> Sections<'data> {
    /// # Errors
    /// It is for another machine, or has neither `.eh_frame` nor a table.
    pub fn of(file: &object::File<'data>) -> Result<Self, String> {
        let machine = match file.architecture() {
            object::Architecture::X86_64 => 62,
            object::Architecture::Aarch64 => 183,
            object::Architecture::S390x => 22,
            other => return Err(format!("machine {other:?} has no unwind tables")),
        };
        let abi = Abi::from_elf(machine, !file.is_little_endian()).ok_or("unknown machine")?;
        let section = |name: &str| {
            let section = file.section_by_name(name)?;
            Some((section.uncompressed_data().ok()?, section.address()))
        };
        let table = section(WHOLE_SECTION_NAME);
        // A table may have taken all frames, so that the linker made no `.eh_frame`.
        let nothing = table.as_ref().map(|_| (Cow::default(), 0));
        Ok(Self {
            abi,
            table,
            eh_frame: section(".eh_frame").or(nothing).ok_or("no .eh_frame")?,
            header_size: file.section_by_name(".eh_frame_hdr").map_or(0, |section| section.size()),
            debug_frame: section(".debug_frame").map(|section| section.0),
            is_rewritten: file.sections().any(|section| section.name_bytes().is_ok_and(is_of_bolt)),
        })
    }
}
