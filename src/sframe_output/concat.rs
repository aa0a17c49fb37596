//! `--sframe=concat`: SFrame inputs one after the other, each blob fixed up by its own version.
//!
//! No byte moves. The linker copies a section and applies its relocations like those of any other section.
//! That alone is not right: a relocation stores a value relative to its field, and not every version and flag
//! means that (SFrame rule 5). So the linker then fixes up the blobs in place:
//!
//! - V2 and V3 with relocations get the flag for field-relative values (GNU as 2.40 to 2.44 omits it);
//! - V1 has no such flag, so its values become relative to the blob's header;
//! - functions that are not in the output get size 0, no rows (GNU's readers end the program if a function of
//!   size 0 has some) and a start that decodes to the blob itself (in a unit, to its own field), so no
//!   address matches them;
//! - SORTED stays only if the blob is alone in its output section and still ascends.
//!
//! In junk and in blobs of unknown versions, the linker cannot find the rows, so it only sets the relocated
//! fields of dead functions to 0. Under `-r`, it changes nothing in blobs of known versions except the sizes
//! and the numbers of rows of dead functions.

use super::absorb::is_refused;
use crate::arch::{RelocBase, Target};
use crate::diag::{Code, Diagnostic, Location};
use crate::elf::Rela;
use crate::ids::SectionId;
use crate::input::ObjectFile;
use crate::input::sframe::is_input;
use crate::phase::facts::is_of_dead_row;
use crate::phase::{Placed, Scanned};
use crate::sframe::{abi, in_order};
use sframe_format::{BlobMut, ErrorKind, Header, Piece, Section, Version};
use std::ops::Range;

/// Fixes up the output's copy of an SFrame input. In a final link, its relocations have been applied.
pub fn fix_up<T: Target>(link: &Placed<'_, T>, id: SectionId, place: &mut [u8]) {
    let Some((object, index)) = link.locate(id) else { return };
    let Ok(bytes) = object.section_bytes(index as usize) else { return };
    let relocatable = link.config.is_relocatable();
    let relocations = in_order(object.relocations(index as usize));
    let mender = BlobFixer {
        link,
        id,
        object,
        relocations: &relocations,
        address: if relocatable { 0 } else { link.section_address(id) },
    };
    if link.corrupt_sframes.binary_search(&id).is_ok() {
        // A corrupt section passes unchanged. In a final link, `apply` has written 0 for dead relocations.
        if relocatable {
            mender.clear(place, 0..mender.relocations.len());
        }
        return;
    }
    let section = Section::new(bytes, 0);
    let mut next = 0;
    let mut pieces = section.pieces().peekable();
    let mut first = true;
    while let Some(piece) = pieces.next() {
        let range = range_of(&piece);
        next = mender.skip_to(next, range.start);
        let end = mender.skip_to(next, range.end);
        let alone = first && pieces.peek().is_none();
        first = false;
        match piece {
            Piece::Blob(blob) if relocatable => {
                mender.empty(&mut place[range.clone()], blob.header(), range.start, next..end);
            }
            Piece::Blob(blob) => {
                mender.fix_up(&mut place[range.clone()], blob.header(), range.start, next..end, alone);
            }
            Piece::Gap(_) if relocatable => mender.clear(place, next..end),
            Piece::Gap(_) => {}
        }
        next = end;
    }
}

fn range_of(piece: &Piece<'_>) -> Range<usize> {
    match piece {
        Piece::Blob(blob) => blob.offset()..blob.offset() + blob.data().len(),
        Piece::Gap(gap) => gap.offset..gap.offset + gap.length,
    }
}

struct BlobFixer<'m, 'a, T: Target> {
    link: &'m Placed<'a, T>,
    id: SectionId,
    object: &'m ObjectFile<'a, T::E>,
    /// All relocations of the section, by ascending offset.
    relocations: &'m [Rela<T::E>],
    /// Address of the section in the output, or 0 under `-r`.
    address: u64,
}

impl<T: Target> BlobFixer<'_, '_, T> {
    /// The first relocation from `row` whose offset is at least `offset`.
    fn skip_to(&self, row: usize, offset: usize) -> usize {
        let rest = self.relocations.get(row..).unwrap_or_default();
        row + rest.iter().take_while(|relocation| relocation.r_offset.get() < offset as u64).count()
    }

    /// The FDE of each relocation in a start field, and whether its function is gone.
    fn rows(
        &self,
        header: Header,
        start: usize,
        rows: Range<usize>,
    ) -> impl Iterator<Item = (u32, bool, &Rela<T::E>)> {
        self.relocations[rows].iter().filter_map(move |relocation| {
            if relocation.kind() == T::DYNAMIC.none {
                return None;
            }
            let offset = usize::try_from(relocation.r_offset.get()).ok()?.checked_sub(start)?;
            let row = header.fde_at(offset)?;
            Some((row, is_of_dead_row(self.link, self.object, relocation), relocation))
        })
    }

    /// Fixes up a blob of a final link. `start` is its offset in its section.
    fn fix_up(
        &self,
        bytes: &mut [u8],
        header: &Header,
        start: usize,
        relocations: Range<usize>,
        alone: bool,
    ) {
        let header = *header;
        let mut blob = BlobMut::with_header(header, bytes, self.address.wrapping_add(start as u64));
        if !relocations.is_empty() {
            blob.make_field_relative();
        }
        let converts = header.version == Version::V1;
        for (row, dead, relocation) in self.rows(header, start, relocations.clone()) {
            if !dead
                && (converts || !is_field_relative::<T>(relocation))
                && let Err(error) = self.convert(&mut blob, row, relocation)
            {
                self.report_range(start, &error);
            }
        }
        if self.link.config.relocations.drop_jumps {
            self.shorten(&mut blob, start, relocations.clone());
        }
        let dead = self.dead_rows(&header, start, relocations);
        if let Err(error) = blob.mark_dead(&dead) {
            self.report_range(start, &error);
        }
        if header.is_sorted() {
            let ascending = blob.as_blob().is_ascending();
            blob.set_sorted(ascending && alone && self.is_only_blob());
        }
    }

    /// Ends functions where their sections end, after `--optimize-bb-jumps` took jumps away there.
    fn shorten(&self, blob: &mut BlobMut<'_>, start: usize, relocations: Range<usize>) {
        let room = |(row, dead, relocation): (u32, bool, &Rela<T::E>)| {
            let index = relocation.symbol();
            let place = self.object.symbol_section(index);
            let (section, value) = place.or_else(|| self.link.referenced_section(self.object, index))?;
            let function = value.wrapping_add_signed(relocation.r_addend.get());
            let room = self.link.input_size(section).checked_sub(function)?;
            let room = u32::try_from(room).ok().filter(|&room| room > 0 && !dead)?;
            Some((row, room))
        };
        let rooms: Vec<(u32, u32)> = self.rows(*blob.header(), start, relocations).filter_map(room).collect();
        if let Err(error) = blob.shorten(&rooms) {
            self.report_range(start, &error);
        }
    }

    /// Re-encodes the value that the relocation stored, as the blob's version wants it: relative to the
    /// blob's header in V1, and to the field in V2 and V3.
    fn convert(
        &self,
        blob: &mut BlobMut<'_>,
        row: u32,
        relocation: &Rela<T::E>,
    ) -> Result<(), sframe_format::Error> {
        let Some(stored) = blob.as_blob().fde(row).map(|fde| fde.raw_start) else { return Ok(()) };
        let field = self.address.wrapping_add(relocation.r_offset.get());
        let base = if is_field_relative::<T>(relocation) { field } else { 0 };
        blob.set_function_start(row, base.wrapping_add_signed(stored))
    }

    /// The FDEs of a blob whose functions are not in the output, ascending.
    ///
    /// A row without a relocation is dead: an earlier `-r` link removed the relocation with its function.
    /// That may hold for all rows of a blob. But if a section has no relocation at all, nobody knows which
    /// functions it describes, and its rows count as live.
    fn dead_rows(&self, header: &Header, start: usize, relocations: Range<usize>) -> Vec<u32> {
        let mut relocated = 0;
        let mut dead = Vec::new();
        for (row, is_dead, _) in self.rows(*header, start, relocations.clone()) {
            relocated += 1;
            if is_dead {
                dead.push(row);
            }
        }
        if relocated < header.fde_count && !self.relocations.is_empty() {
            let mut has_relocation = vec![false; header.fde_count as usize];
            for (row, ..) in self.rows(*header, start, relocations) {
                has_relocation[row as usize] = true;
            }
            dead.extend((0..header.fde_count).filter(|&row| !has_relocation[row as usize]));
            dead.sort_unstable();
        }
        dead.dedup();
        dead
    }

    /// Whether the output section holds only this input.
    fn is_only_blob(&self) -> bool {
        let chunk = self.link.output_chunk(self.id);
        chunk.is_some_and(|chunk| self.link.layout.chunks[chunk.index()].items.len() == 1)
    }

    /// Removes size and rows from dead functions, and leaves all other bytes (`-r`).
    fn empty(&self, bytes: &mut [u8], header: &Header, start: usize, relocations: Range<usize>) {
        let dead = self.dead_rows(header, start, relocations);
        if let Err(error) = BlobMut::with_header(*header, bytes, 0).empty(&dead) {
            self.report_range(start, &error);
        }
    }

    /// Writes 0 into the fields of these relocations if they are dead (`-r`). In a final link, `apply` has
    /// done it.
    fn clear(&self, place: &mut [u8], relocations: Range<usize>) {
        for relocation in &self.relocations[relocations] {
            if is_of_dead_row(self.link, self.object, relocation)
                && let Some(info) = T::reloc_info(relocation.kind())
                && let Ok(at) = usize::try_from(relocation.r_offset.get())
                && let Some(field) = place.get_mut(at..at.saturating_add(info.size.into()))
            {
                field.fill(0);
            }
        }
    }

    #[cold]
    fn report_range(&self, start: usize, error: &sframe_format::Error) {
        let index = self.id.0 - self.object.first_section;
        let offset = (start + error.offset) as u64;
        self.link.sink.report_recoverable(
            Diagnostic::error(Code::RelocationOverflow, format!("SFrame row out of reach: {}", error.kind))
                .at(Location::Section {
                    file: self.object.name.to_string(),
                    section: self.object.section_name_lossy(index as usize),
                    offset,
                })
                .help("SFrame V3 has no such limit; --sframe=discard leaves the section out")
                .ordered(self.object.id.0, index, offset),
        );
    }
}

/// Whether a relocation computes a distance from its own field.
fn is_field_relative<T: Target>(relocation: &Rela<T::E>) -> bool {
    T::reloc_info(relocation.kind()).is_none_or(|info| info.base == RelocBase::Place)
}

/// The numbers that `--emit-relocs` adds to addends of SFrame relocations, so that they recompute the written
/// values: V1 values count from the blob's header, but a relocation counts from its field.
#[derive(Clone, Debug, Default)]
pub struct EmittedBias {
    /// V1 blobs, ascending.
    blobs: Vec<Range<u64>>,
}

impl EmittedBias {
    /// The bias for a section. It is 0 except for SFrame inputs of final links that are not corrupt.
    pub fn of<T: Target>(link: &Placed<'_, T>, id: SectionId) -> Self {
        let Some((object, index)) = link.locate(id) else { return Self::default() };
        let passes_unchanged = || link.corrupt_sframes.binary_search(&id).is_ok();
        if link.config.is_relocatable() || !is_input(object, index as usize) || passes_unchanged() {
            return Self::default();
        }
        let bytes = object.section_bytes(index as usize).unwrap_or_default();
        let of_version_1 = |piece| match piece {
            Piece::Blob(blob) if blob.header().version == Version::V1 => {
                let start = blob.offset() as u64;
                Some(start..start + blob.data().len() as u64)
            }
            _ => None,
        };
        EmittedBias { blobs: Section::new(bytes, 0).pieces().filter_map(of_version_1).collect() }
    }

    /// The number to add to the addend of a relocation at `offset` of the section.
    pub fn at(&self, offset: u64) -> i64 {
        let behind = self.blobs.partition_point(|blob| blob.start <= offset);
        match self.blobs[..behind].last() {
            Some(blob) if blob.contains(&offset) => (offset - blob.start) as i64,
            _ => 0,
        }
    }
}

/// Reports defects of an SFrame input that passes unchanged, and counts the references to dead functions that
/// cannot become dead rows (SFrame rules 4 and 10). Returns whether the input is corrupt.
pub fn check_section<T: Target>(link: &Scanned<'_, T>, object: &ObjectFile<'_, T::E>, index: usize) -> bool {
    let Ok(bytes) = object.section_bytes(index) else { return false };
    let told_before = is_refused(link, object.section_id(index as u32));
    let relocations = in_order(object.relocations(index));
    let mut rest = &relocations[..];
    let mut corrupt = false;
    for piece in Section::new(bytes, 0).strict().pieces() {
        let range = range_of(&piece);
        let end = rest.iter().take_while(|relocation| relocation.r_offset.get() < range.end as u64).count();
        let (own, behind) = rest.split_at(end);
        rest = behind;
        let Some(defect) = Defect::of::<T>(&piece, own) else { continue };
        corrupt |= defect.version.is_none();
        let dead = own.iter().filter(|relocation| is_of_dead_row(link, object, relocation)).count();
        let tell = |diagnostic: Diagnostic| {
            let location = Location::Section {
                file: object.name.to_string(),
                section: object.section_name_lossy(index),
                offset: defect.offset,
            };
            link.sink.report(diagnostic.at(location).ordered(object.id.0, index as u32, defect.offset));
        };
        if defect.version.is_none() && !told_before {
            let taken = format!("{} bytes from offset {:#x} on pass unchanged", range.len(), range.start);
            tell(Diagnostic::warning(Code::SFrameCorrupt, defect.what.clone()).note(taken));
        }
        if dead > 0 {
            let rows = if dead == 1 { "1 function" } else { &format!("{dead} functions") };
            let message = format!("{} describes {rows} that the output lacks", defect.what);
            let diagnostic = Diagnostic::warning(Code::SFrameDeadRows, message);
            tell(diagnostic.note(
                "their start fields are set to 0; a reader that knows the version may not expect that",
            ));
        }
    }
    corrupt
}

/// The message about blobs or units of an unknown version.
pub fn unknown_version(kind: &ErrorKind, found: u8) -> String {
    let form = if matches!(kind, ErrorKind::UnitVersion { .. }) { "light SFrame" } else { "SFrame" };
    format!("{form} data of unknown version {found}")
}

/// Why a piece of a section passes unchanged.
struct Defect {
    /// Byte offset in the section.
    offset: u64,
    /// The version, if it is unknown.
    version: Option<u8>,
    what: String,
}

impl Defect {
    fn of<T: Target>(piece: &Piece<'_>, relocations: &[Rela<T::E>]) -> Option<Self> {
        let corrupt = |offset: u64, what: String| {
            Some(Defect { offset, version: None, what: format!("corrupt SFrame data: {what}") })
        };
        let blob = match piece {
            Piece::Blob(blob) => blob,
            Piece::Gap(gap) => {
                let offset = gap.error.offset as u64;
                let Some(found) = gap.error.kind.unknown_version() else {
                    return corrupt(offset, gap.error.kind.to_string());
                };
                let what = unknown_version(&gap.error.kind, found);
                return Some(Defect { offset, version: Some(found), what });
            }
        };
        let header = blob.header();
        if header.abi != abi::<T>() {
            let what = format!("it is for {}, the output for {}", header.abi, abi::<T>());
            return corrupt(blob.header_offset() as u64 + 4, what);
        }
        if let Err(error) = blob.check() {
            return corrupt(error.offset as u64, error.kind.to_string());
        }
        let is_stray = |relocation: &&Rela<T::E>| {
            let at = usize::try_from(relocation.r_offset.get()).ok();
            let at = at.and_then(|offset| offset.checked_sub(blob.offset()));
            relocation.kind() != T::DYNAMIC.none && at.and_then(|offset| header.fde_at(offset)).is_none()
        };
        let stray = relocations.iter().find(is_stray)?;
        corrupt(stray.r_offset.get(), "a relocation that belongs to no function".to_owned())
    }
}
