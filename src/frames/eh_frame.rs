//! Splits `.eh_frame` sections into records (Linux Standard Base, "Exception Frames").
//!
//! A section is a sequence of records, and each starts with its length. The next word tells their kind:
//!
//! ```text
//! CIE   length | 0 | version, augmentation, instructions that its FDEs share
//! FDE   length | distance back to its CIE | start of the code | size of the code | instructions
//! ```
//!
//! A relocation fills in the start of the code, and its symbol says which section the FDE describes.
//!
//! Records are rows of dense vectors, one for each object. They own no memory and copy no bytes. If the
//! structure of a section is broken, the linker does not split it and treats it as an ordinary section.

use super::reader::Reader;
use crate::arch::Target;
use crate::elf::Rela;
use crate::ids::{FileId, SectionId};
use crate::input::SectionClass;
use crate::input::object::{Malformed, SymbolPlace};
use crate::phase::{Resolved, SectionStates};
use std::borrow::Cow;
use std::ops::Range;
use zerocopy::byteorder::ByteOrder;

/// A common information entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cie {
    /// Offset in its section, in bytes.
    pub offset: u32,
    /// Length in bytes, including the length field.
    pub size: u32,
    /// Its relocations: rows of [`FrameSection::relocations`].
    pub first_relocation: u32,
    /// End of its relocations.
    pub end_relocation: u32,
    /// How its FDEs encode addresses: `DW_EH_PE_*`.
    pub encoding: u8,
}

/// A frame description entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fde {
    /// Offset in its section, in bytes.
    pub offset: u32,
    /// Length in bytes, including the length field.
    pub size: u32,
    /// Its relocations: rows of [`FrameSection::relocations`]. The first one gives the start of the code.
    pub first_relocation: u32,
    /// End of its relocations.
    pub end_relocation: u32,
    /// Row of its CIE in [`FileFrames::cies`].
    pub cie: u32,
    /// The section of the code. None, if the code's symbol lies in no section of an object.
    pub function: SectionId,
    /// Whether it describes no bytes of code.
    pub is_empty: bool,
}

/// One `.eh_frame` section of an object.
#[derive(Clone, Debug)]
pub struct FrameSection<'a, E: ByteOrder> {
    /// Section header index.
    pub index: u32,
    /// Contents.
    pub bytes: &'a [u8],
    /// Relocations, by ascending offset.
    pub relocations: Cow<'a, [Rela<E>]>,
    /// Its rows in [`FileFrames::cies`].
    pub cies: Range<u32>,
    /// Its rows in [`FileFrames::fdes`].
    pub fdes: Range<u32>,
    /// Whether a zero word stands between or after its records.
    pub has_terminator: bool,
    /// Whether the section ends with a zero word.
    pub ends_with_terminator: bool,
}

/// The records of one object.
#[derive(Clone, Debug)]
pub struct FileFrames<'a, E: ByteOrder> {
    /// Sections that were split, ascending by index.
    pub sections: Vec<FrameSection<'a, E>>,
    /// CIEs, by section and offset.
    pub cies: Vec<Cie>,
    /// FDEs, by section and offset. `ld -r` leaves FDEs of discarded functions without a relocation for their
    /// code. These describe no function, so the list omits them.
    pub fdes: Vec<Fde>,
    /// The section of the code, and the row of the FDE, sorted. Garbage collection searches here for each
    /// section that it marks.
    by_function: Vec<(SectionId, u32)>,
}

/// The records of all objects.
#[derive(Clone, Debug)]
pub struct Frames<'a, E: ByteOrder> {
    /// One row for each object.
    pub files: Vec<FileFrames<'a, E>>,
    /// Whether some input has the zero word that ends the whole section (`crtend.o`).
    pub has_terminator: bool,
    /// Whether some section is broken and was not split. Then the linker cannot make a complete look-up
    /// table.
    pub has_whole_sections: bool,
}

/// The records of one object, and the sections that cannot be split.
pub struct Split<'a, E: ByteOrder> {
    /// The records.
    pub frames: FileFrames<'a, E>,
    /// Whether a section has a zero word that ends it.
    pub has_terminator: bool,
    /// Sections that were not split: header index, and the error with its offset.
    pub broken: Vec<(u32, Malformed)>,
}

impl<E: ByteOrder> FrameSection<'_, E> {
    /// The relocations of a CIE of this section.
    pub fn relocations_of_cie(&self, cie: &Cie) -> &[Rela<E>] {
        &self.relocations[cie.first_relocation as usize..cie.end_relocation as usize]
    }

    /// The relocations of an FDE of this section. The first one gives the start of the code.
    pub fn relocations_of_fde(&self, fde: &Fde) -> &[Rela<E>] {
        &self.relocations[fde.first_relocation as usize..fde.end_relocation as usize]
    }
}

impl<E: ByteOrder> Default for FileFrames<'_, E> {
    fn default() -> Self {
        FileFrames { sections: Vec::new(), cies: Vec::new(), fdes: Vec::new(), by_function: Vec::new() }
    }
}

impl<E: ByteOrder> Default for Frames<'_, E> {
    fn default() -> Self {
        Frames { files: Vec::new(), has_terminator: false, has_whole_sections: false }
    }
}

impl<'a, E: ByteOrder> FileFrames<'a, E> {
    /// The row of a section in `sections`, by its header index. `None`: the section was not split.
    pub fn section(&self, index: u32) -> Option<usize> {
        self.sections.binary_search_by_key(&index, |section| section.index).ok()
    }

    /// The section that holds the CIE of this row.
    pub fn section_of_cie(&self, row: u32) -> &FrameSection<'a, E> {
        if let [only] = &self.sections[..] {
            return only;
        }
        &self.sections[self.sections.partition_point(|section| section.cies.end <= row)]
    }

    /// The section that holds the FDE of this row.
    pub fn section_of_fde(&self, row: u32) -> &FrameSection<'a, E> {
        // Objects mostly have one.
        if let [only] = &self.sections[..] {
            return only;
        }
        &self.sections[self.sections.partition_point(|section| section.fdes.end <= row)]
    }

    /// Rows of the FDEs for code in this section.
    pub fn fdes_of(&self, function: SectionId) -> impl Iterator<Item = u32> {
        let start = self.by_function.partition_point(|pair| pair.0 < function);
        self.by_function[start..].iter().take_while(move |pair| pair.0 == function).map(|pair| pair.1)
    }

    fn index_functions(&mut self) {
        let functions = self.fdes.iter().map(|fde| fde.function);
        self.by_function = functions.zip(0..).collect();
        if !self.by_function.is_sorted() {
            self.by_function.sort_unstable();
        }
    }
}

/// Splits the live `.eh_frame` sections of one object into records. Definitions and COMDAT groups must be
/// chosen.
pub fn split_object<'a, T: Target>(
    link: &Resolved<'a, T>,
    sections: &SectionStates,
    file: FileId,
) -> Split<'a, T::E> {
    let object = &link.objects[file.index()];
    let mut split = Split { frames: FileFrames::default(), has_terminator: false, broken: Vec::new() };
    for (index, id) in object.section_ids().enumerate().skip(1) {
        if !link.class_of(id).contains(SectionClass::EH_FRAME) || !sections.is_alive(id) {
            continue;
        }
        if let Err(finding) = split_section(link, file, index as u32, &mut split) {
            split.broken.push((index as u32, finding));
        }
    }
    split.frames.index_functions();
    split
}

fn split_section<'a, T: Target>(
    link: &Resolved<'a, T>,
    file: FileId,
    index: u32,
    split: &mut Split<'a, T::E>,
) -> Result<(), Malformed> {
    let object = &link.objects[file.index()];
    let bytes = object.section_bytes(index as usize)?;
    if bytes.len() >= u32::MAX as usize {
        return Err(Malformed::at(0, format!("{:#x} bytes are too many", bytes.len())));
    }
    let frames = &mut split.frames;
    let (first_cie, first_fde) = (frames.cies.len(), frames.fdes.len());
    // Each FDE has a relocation for its code.
    frames.fdes.reserve(object.relocations(index as usize).len());
    let mut splitter = Splitter {
        link,
        file,
        bytes,
        relocations: ascending(object.relocations(index as usize)),
        next_relocation: 0,
        first_cie,
        cies: &mut frames.cies,
        fdes: &mut frames.fdes,
        has_terminator: false,
        ends_with_terminator: false,
    };
    let result = splitter.run();
    let Splitter { relocations, has_terminator, ends_with_terminator, .. } = splitter;
    let result = result.and_then(|()| all_inside(&relocations, bytes.len()));
    if result.is_err() {
        frames.cies.truncate(first_cie);
        frames.fdes.truncate(first_fde);
        return result;
    }
    split.has_terminator |= has_terminator;
    frames.sections.push(FrameSection {
        index,
        bytes,
        relocations,
        cies: first_cie as u32..frames.cies.len() as u32,
        fdes: first_fde as u32..frames.fdes.len() as u32,
        has_terminator,
        ends_with_terminator,
    });
    Ok(())
}

/// Whether the last of these ascending relocations, and so each of them, lies in a section of this size. One
/// behind it would belong to no record, and so would be lost.
fn all_inside<E: ByteOrder>(relocations: &[Rela<E>], size: usize) -> Result<(), Malformed> {
    match relocations.last().map(|relocation| relocation.r_offset.get()) {
        Some(offset) if offset >= size as u64 => {
            Err(Malformed::at(offset, format!("a relocation lies behind the section's {size:#x} bytes")))
        }
        _ => Ok(()),
    }
}

/// The relocations by ascending offset: the input itself, or a sorted copy.
fn ascending<E: ByteOrder>(relocations: &[Rela<E>]) -> Cow<'_, [Rela<E>]> {
    if relocations.is_sorted_by_key(|relocation| relocation.r_offset.get()) {
        return Cow::Borrowed(relocations);
    }
    let mut sorted = relocations.to_vec();
    sorted.sort_by_key(|relocation| relocation.r_offset.get());
    Cow::Owned(sorted)
}

struct Splitter<'s, 'a, T: Target> {
    link: &'s Resolved<'a, T>,
    file: FileId,
    bytes: &'a [u8],
    relocations: Cow<'a, [Rela<T::E>]>,
    next_relocation: usize,
    first_cie: usize,
    cies: &'s mut Vec<Cie>,
    fdes: &'s mut Vec<Fde>,
    has_terminator: bool,
    ends_with_terminator: bool,
}

impl<T: Target> Splitter<'_, '_, T> {
    fn run(&mut self) -> Result<(), Malformed> {
        let mut at = 0;
        while at < self.bytes.len() {
            at = self.record(at)?;
        }
        Ok(())
    }

    /// Reads the record at this offset. Returns the offset of the next one.
    fn record(&mut self, start: usize) -> Result<usize, Malformed> {
        let truncated = |what: &str| {
            Malformed::at(start as u64, format!("the section ends inside the {what} of a record"))
        };
        let mut reader = Reader::new(self.bytes, start);
        let mut length = u64::from(reader.u32::<T::E>().ok_or_else(|| truncated("length"))?);
        if length == 0 {
            self.has_terminator = true;
            self.ends_with_terminator = reader.at == self.bytes.len();
            return Ok(reader.at);
        }
        if length == 0xffff_ffff {
            length = reader.u64::<T::E>().ok_or_else(|| truncated("64-bit length"))?;
        }
        let end = usize::try_from(length)
            .ok()
            .and_then(|length| reader.at.checked_add(length))
            .filter(|&end| end <= self.bytes.len())
            .ok_or_else(|| {
                Malformed::at(
                    start as u64,
                    format!(
                        "a record of length {length:#x} does not fit into the section of {:#x} bytes",
                        self.bytes.len()
                    ),
                )
            })?;
        let record = Range { start, end };
        let relocations = self.take_relocations(&record);
        let id_at = reader.at;
        // The CIE pointer has four bytes in both length forms, unlike in `.debug_frame`.
        let id = Reader::new(&self.bytes[..end], id_at)
            .u32::<T::E>()
            .ok_or_else(|| Malformed::at(start as u64, "a record is too short for its CIE pointer"))?;
        if id == 0 {
            self.cie(record, id_at + 4, relocations)?;
        } else {
            self.fde(record, id_at, id, relocations)?;
        }
        Ok(end)
    }

    /// Rows of the relocations that lie in a record.
    fn take_relocations(&mut self, record: &Range<usize>) -> Range<u32> {
        let offset_of = |row: usize| self.relocations.get(row).map(|relocation| relocation.r_offset.get());
        let mut row = self.next_relocation;
        while offset_of(row).is_some_and(|offset| offset < record.start as u64) {
            row += 1;
        }
        let first = row;
        while offset_of(row).is_some_and(|offset| offset < record.end as u64) {
            row += 1;
        }
        self.next_relocation = row;
        first as u32..row as u32
    }

    fn cie(&mut self, record: Range<usize>, at: usize, relocations: Range<u32>) -> Result<(), Malformed> {
        let reader = Reader::new(&self.bytes[..record.end], at);
        let encoding = pointer_encoding(reader)
            .map_err(|what| Malformed::at(record.start as u64, format!("in the CIE: {what}")))?;
        self.cies.push(Cie {
            offset: record.start as u32,
            size: record.len() as u32,
            first_relocation: relocations.start,
            end_relocation: relocations.end,
            encoding,
        });
        Ok(())
    }

    fn fde(
        &mut self,
        record: Range<usize>,
        id_at: usize,
        id: u32,
        relocations: Range<u32>,
    ) -> Result<(), Malformed> {
        let cie = (id_at as u64)
            .checked_sub(id.into())
            .and_then(|offset| {
                let cies = &self.cies[self.first_cie..];
                cies.binary_search_by_key(&offset, |cie| cie.offset.into()).ok()
            })
            .ok_or_else(|| {
                Malformed::at(
                    record.start as u64,
                    format!("the CIE pointer {id:#x} of an FDE does not lead back to a CIE"),
                )
            })?
            + self.first_cie;
        let width = encoded_width(self.cies[cie].encoding);
        let mut reader = Reader::new(&self.bytes[..record.end], id_at + 4);
        let range = reader.skip(width).and_then(|()| reader.unsigned::<T::E>(width)).ok_or_else(|| {
            Malformed::at(record.start as u64, "an FDE ends before the address and length of its code")
        })?;
        let Some(function) = self.function_of(&relocations, id_at as u64 + 4) else { return Ok(()) };
        self.fdes.push(Fde {
            offset: record.start as u32,
            size: record.len() as u32,
            first_relocation: relocations.start,
            end_relocation: relocations.end,
            cie: cie as u32,
            function,
            is_empty: range == 0,
        });
        Ok(())
    }

    /// The section of an FDE's code. `None`: no relocation fills in the code.
    fn function_of(&self, relocations: &Range<u32>, code_at: u64) -> Option<SectionId> {
        let first = self.relocations[relocations.start as usize..relocations.end as usize].first()?;
        if first.r_offset.get() != code_at || first.symbol() == 0 {
            return None;
        }
        let object = &self.link.objects[self.file.index()];
        // A symbol that this file defines means this file's code, even if another file's definition prevails:
        // that definition has its own FDE.
        match object.symbol_place(first.symbol() as usize) {
            SymbolPlace::Section(section) => Some(object.section_id(section)),
            _ => {
                let symbol = object.symbol_id(first.symbol());
                Some(self.link.symbol_section(symbol).map_or(SectionId::NONE, |(section, _)| section))
            }
        }
    }
}

/// Size in bytes of an address in an accepted encoding.
pub fn encoded_width(encoding: u8) -> usize {
    match encoding & 7 {
        2 => 2,
        3 => 4,
        _ => 8,
    }
}

/// Reads how a CIE's FDEs encode addresses: augmentation `R` says it, otherwise they are absolute words. It
/// rejects encodings that no relocation can fill. The reader must stand at the version.
fn pointer_encoding(mut reader: Reader<'_>) -> Result<u8, String> {
    const SHORT: &str = "it ends inside its fixed fields";
    let version = reader.u8().ok_or(SHORT)?;
    if !matches!(version, 1 | 3) {
        return Err(format!("its version is {version}, expected 1 or 3"));
    }
    let augmentation = reader.string().ok_or("its augmentation string does not end")?;
    let letters = match augmentation.strip_prefix(b"eh") {
        // GCC 2 puts a pointer to exception data here.
        Some(rest) => {
            reader.skip(8).ok_or(SHORT)?;
            rest
        }
        None => augmentation,
    };
    reader.skip_leb128().ok_or(SHORT)?;
    reader.skip_leb128().ok_or(SHORT)?;
    if version == 1 { reader.skip(1) } else { reader.skip_leb128() }.ok_or(SHORT)?;
    if letters.is_empty() {
        return Ok(elf_dwarf::ABSOLUTE);
    }
    let unknown = || format!("unknown augmentation \"{}\"", augmentation.escape_ascii());
    let letters = letters.strip_prefix(b"z").ok_or_else(unknown)?;
    reader.uleb128().ok_or(SHORT)?;
    for letter in letters {
        match letter {
            b'R' => return accepted(reader.u8().ok_or(SHORT)?),
            b'L' => reader.skip(1).ok_or(SHORT)?,
            b'P' => {
                let encoding = reader.u8().ok_or(SHORT)?;
                let width = match encoding & 0xf {
                    _ if encoding & 0x70 == elf_dwarf::ALIGNED => None,
                    0 | 4 | 0xc => Some(8),
                    2 | 0xa => Some(2),
                    3 | 0xb => Some(4),
                    _ => None,
                };
                let width = width.ok_or_else(|| format!("unknown personality encoding {encoding:#x}"))?;
                reader.skip(width).ok_or(SHORT)?;
            }
            // Signal frame, AArch64 key B, AArch64 tagged stack. They have no data.
            b'S' | b'B' | b'G' => {}
            _ => return Err(unknown()),
        }
    }
    Ok(elf_dwarf::ABSOLUTE)
}

fn accepted(encoding: u8) -> Result<u8, String> {
    let has_width = matches!(encoding & 0xf, 0 | 2 | 3 | 4 | 0xa | 0xb | 0xc);
    let indirect = encoding & 0x80 != 0;
    if has_width && !indirect && encoding & 0x70 < elf_dwarf::ALIGNED {
        Ok(encoding)
    } else {
        Err(format!("code addresses of encoding {encoding:#x} cannot be relocated"))
    }
}

/// `DW_EH_PE_*`.
mod elf_dwarf {
    /// `DW_EH_PE_absptr`.
    pub const ABSOLUTE: u8 = 0;
    /// `DW_EH_PE_aligned`.
    pub const ALIGNED: u8 = 0x50;
}

/// The part of a record that says how to unwind a function.
#[derive(Clone, Copy, Debug)]
pub struct RecordPart<'f, E: ByteOrder> {
    /// Its bytes without the zeros at the end. `DW_CFA_nop` pads instructions, and the last record of a
    /// section has more padding than others.
    pub bytes: &'f [u8],
    /// Offset of the bytes in the section. An `r_offset` counts from the section's start.
    pub start: u64,
    /// The relocations of the record, by ascending offset.
    pub relocations: &'f [Rela<E>],
}

/// The records about a function: its CIEs, and the part of each FDE after the CIE pointer. Functions with
/// equal parts unwind alike.
pub fn unwinding_of<'f, E: ByteOrder>(
    frames: Option<&'f FileFrames<'_, E>>,
    function: SectionId,
) -> impl Iterator<Item = RecordPart<'f, E>> {
    frames.into_iter().flat_map(move |frames| {
        frames.fdes_of(function).flat_map(move |row| {
            let fde = &frames.fdes[row as usize];
            let cie = &frames.cies[fde.cie as usize];
            let section = frames.section_of_fde(row);
            let part = |start: u32, end: u32, relocations: Range<u32>| RecordPart {
                bytes: without_padding(&section.bytes[start as usize..end as usize]),
                start: start.into(),
                relocations: &section.relocations[relocations.start as usize..relocations.end as usize],
            };
            let long = section.bytes[fde.offset as usize..].starts_with(&[0xff; 4]);
            let behind_pointer = fde.offset + if long { 16 } else { 8 };
            [
                part(behind_pointer, fde.offset + fde.size, fde.first_relocation..fde.end_relocation),
                part(cie.offset, cie.offset + cie.size, cie.first_relocation..cie.end_relocation),
            ]
        })
    })
}

fn without_padding(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    &bytes[..end]
}

/// The relocations by which a live function keeps other sections alive: those of its FDEs (language-specific
/// data) except the first, which is for the code itself, and those of their CIEs (personality routine).
pub fn fde_edges<'f, E: ByteOrder>(
    frames: Option<&'f FileFrames<'_, E>>,
    function: SectionId,
) -> impl Iterator<Item = &'f Rela<E>> {
    frames.into_iter().flat_map(move |frames| {
        frames.fdes_of(function).flat_map(move |row| {
            let fde = &frames.fdes[row as usize];
            let section = frames.section_of_fde(row);
            let cie = &frames.cies[fde.cie as usize];
            // The first one is that of the code.
            section.relocations_of_fde(fde).iter().skip(1).chain(section.relocations_of_cie(cie))
        })
    })
}

/// Whether the code of an FDE is in the output and not folded. Code in no section of an object counts as
/// live.
#[inline]
pub fn is_live(sections: &SectionStates, fde: &Fde) -> bool {
    !fde.function.is_some() || sections.is_in_output(fde.function)
}
