//! Reads SFrame inputs into batches of encoded functions, and decides which inputs are recognised.
//!
//! The linker recognises a section if it understands every byte of it: blobs of V1, V2 and V3 for this
//! machine with all their rows, zeros between the blobs, and relocations only in the start fields of
//! functions. It treats an unrecognised section as a whole, in the way that `--sframe=` says. If it took only
//! the functions that it understands, the output would describe these twice.
//!
//! When a link with `-r` discards a function, it sets the function's size to 0 and makes the relocation of
//! its row `R_*_NONE`, or removes the relocation. Such rows are dead. But if a row has a size and no
//! relocation, someone has stripped the object's relocations, and the linker does not recognise the section.
//!
//! In relocatable objects, the flag for field-relative values means nothing: in every version, the function
//! is at symbol plus addend.

use super::collect::{Batch, Origin, Place, Refused, Role};
use super::{abi, encoding, is_code};
use crate::arch::{RelocBase, RelocExpr, Target};
use crate::elf::Rela;
use crate::ids::{FileId, SectionId};
use crate::input::ObjectFile;
use crate::phase::{Resolved, SectionState, SectionStates};
use parallel::ParallelSlice;
use sframe_format::write::Function;
use sframe_format::{Attributes, Blob, Fde, Piece, Section};

/// Number of objects that one job reads, with one [`Reader`] and its buffers.
const OBJECTS_PER_JOB: usize = 32;

/// The least number of bytes that a function takes with its FDE and rows, with few exceptions. It serves to
/// estimate how many functions a section has.
const SMALLEST_FUNCTION: usize = 24;

/// Reads all SFrame inputs that are in the link so far. Returns batches and unrecognised sections, in link
/// order.
pub fn inputs<T: Target>(
    link: &Resolved<'_, T>,
    sections: &SectionStates,
    role: Role,
) -> (Vec<Batch>, Vec<Refused>) {
    let found: Vec<(Batch, Vec<Refused>)> = link
        .objects
        .par_chunks(OBJECTS_PER_JOB)
        .map(|objects| {
            let mut reader = Reader::new(link, sections, role);
            let mut refused = Vec::new();
            let bytes = |object: &ObjectFile<'_, T::E>| -> usize {
                let sizes =
                    object.sframes.iter().filter_map(|&index| object.section_bytes(index as usize).ok());
                sizes.map(<[u8]>::len).sum()
            };
            reader.batch.reserve(objects.iter().map(bytes).sum::<usize>() / SMALLEST_FUNCTION);
            objects.iter().for_each(|object| reader.object(object, &mut refused));
            (reader.batch, refused)
        })
        .collect();
    let (batches, refused): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    (batches.into_iter().filter(|batch| !batch.is_empty()).collect(), refused.into_iter().flatten().collect())
}

/// The functions of one object's recognised inputs.
pub fn object<'a, T: Target>(
    link: &Resolved<'a, T>,
    sections: &SectionStates,
    object: &ObjectFile<'a, T::E>,
) -> Batch {
    let mut reader = Reader::new(link, sections, Role::Written);
    reader.object(object, &mut Vec::new());
    reader.batch
}

/// Whether the linker would recognise a section, so that a message may propose `--sframe-index`.
pub fn is_readable<T: Target>(link: &Resolved<'_, T>, sections: &SectionStates, section: SectionId) -> bool {
    let Some((object, index)) = link.locate(section) else { return false };
    Reader::new(link, sections, Role::Present).section(object, index as usize).is_ok()
}

/// Why reading stopped: the byte offset in the section, and the defect.
struct Defect(usize, String);

impl std::convert::From<sframe_format::Error> for Defect {
    fn from(error: sframe_format::Error) -> Self {
        Defect(error.offset, error.kind.to_string())
    }
}

/// What a function's start field refers to.
enum Start {
    /// A place in a section. The section has this many bytes.
    At(Place, u64),
    /// Nothing. The row is dead, and no relocation says where its function was.
    Nothing,
    /// A symbol that is in no section of an object.
    Elsewhere,
}

/// Reads one section after the other, with the same buffers.
struct Reader<'r, 'a, T: Target> {
    link: &'r Resolved<'a, T>,
    sections: &'r SectionStates,
    /// The functions read so far.
    batch: Batch,
    function: Function,
    /// Offset and number of each relocation, ascending.
    relocations: Vec<(u64, u32)>,
    /// By FDE of the current blob: the number of its relocation plus 1, or 0 if it has none.
    of_function: Vec<u32>,
    /// Place and end of each function, for the search for functions that overlap.
    spans: Vec<(Place, u64)>,
}

impl<'r, 'a, T: Target> Reader<'r, 'a, T> {
    fn new(link: &'r Resolved<'a, T>, sections: &'r SectionStates, role: Role) -> Self {
        Reader {
            link,
            sections,
            batch: Batch::new(role, encoding::<T>(link.config)),
            function: Function::default(),
            relocations: Vec::new(),
            of_function: Vec::new(),
            spans: Vec::new(),
        }
    }

    /// Reads the sections of an object.
    fn object(&mut self, object: &ObjectFile<'a, T::E>, refused: &mut Vec<Refused>) {
        for &index in &object.sframes {
            let (section, index) = (object.section_id(index), index as usize);
            if object.headers[index].sh_size.get() == 0 || !self.sections.is_alive(section) {
                continue;
            }
            self.batch.begin(Origin::Input(section));
            if let Err(why) = self.section(object, index) {
                self.batch.abandon();
                refused.push(why);
            }
        }
    }

    fn section(&mut self, object: &ObjectFile<'a, T::E>, index: usize) -> Result<(), Refused> {
        let section = object.section_id(index as u32);
        let refuse = |offset: usize, version: Option<u8>, what: String| {
            Err(Refused { section, offset: offset as u64, version, what })
        };
        let Ok(bytes) = object.section_bytes(index) else {
            return refuse(0, None, "its bytes lie outside the file".to_owned());
        };
        let relocations = object.relocations(index);
        self.relocations.clear();
        let offsets = relocations.iter().zip(0..);
        self.relocations.extend(offsets.map(|(relocation, number)| (relocation.r_offset.get(), number)));
        if !self.relocations.is_sorted() {
            self.relocations.sort_unstable();
        }
        self.spans.clear();
        let mut next = 0;
        for piece in Section::new(bytes, 0).strict().pieces() {
            let blob = match piece {
                Piece::Blob(blob) => blob,
                Piece::Gap(gap) => {
                    let kind = gap.error.kind;
                    return refuse(gap.error.offset, kind.unknown_version(), kind.to_string());
                }
            };
            if let Err(Defect(offset, what)) = self.blob(object, &blob, relocations, &mut next) {
                return refuse(offset, None, what);
            }
        }
        let mut rest = self.relocations[next..].iter();
        if let Some(&(offset, _)) = rest.find(|(_, number)| !is_none::<T>(&relocations[*number as usize])) {
            return refuse(offset as usize, None, "a relocation that belongs to no function".to_owned());
        }
        match self.overlap() {
            Some(what) => refuse(0, None, what),
            None => Ok(()),
        }
    }

    /// Reads a blob. `next` is the index in [`Reader::relocations`] of the first relocation that no earlier
    /// blob took.
    fn blob(
        &mut self,
        object: &ObjectFile<'a, T::E>,
        blob: &Blob<'_>,
        relocations: &[Rela<T::E>],
        next: &mut usize,
    ) -> Result<(), Defect> {
        let header = blob.header();
        if header.abi != abi::<T>() {
            let what = format!("it is for {}, the output for {}", header.abi, abi::<T>());
            return Err(Defect(blob.header_offset() + 4, what));
        }
        blob.check_areas()?;
        self.find_relocations(blob, relocations, next)?;
        let mut counted = 0u64;
        for (fde, attributes) in blob.functions() {
            let attributes = attributes?;
            counted += u64::from(attributes.fre_count);
            let relocation = self.of_function[fde.index as usize].checked_sub(1);
            let relocation = relocation.map(|number| &relocations[number as usize]);
            match self.target(object, &fde, relocation, !relocations.is_empty())? {
                Start::Nothing => self.batch.pass_over(|tally| tally.unrelocated += 1),
                // A later link may define the symbol, and would find no row for the function.
                Start::Elsewhere if self.link.config.is_relocatable() => {
                    return Err(Defect(fde.offset, "its function is in no input of this link".to_owned()));
                }
                Start::Elsewhere => self.batch.pass_over(|tally| tally.elsewhere += 1),
                Start::At(place, _) if self.sections.is(place.section, SectionState::DISCARDED_BY_GROUP) => {
                    self.batch.pass_over(|tally| tally.lost_group += 1);
                }
                Start::At(place, _) if !is_code(self.link, place.section) => {
                    self.batch.pass_over(|tally| tally.no_code += 1);
                }
                Start::At(place, limit) => {
                    self.check_end(&fde, place, limit)?;
                    self.function(blob, &fde, &attributes, place)?;
                }
            }
        }
        Ok(blob.check_count(counted)?)
    }

    /// Fills [`Reader::of_function`] for a blob.
    fn find_relocations(
        &mut self,
        blob: &Blob<'_>,
        relocations: &[Rela<T::E>],
        next: &mut usize,
    ) -> Result<(), Defect> {
        let is_removed = |number: u32| is_none::<T>(&relocations[number as usize]);
        let header = blob.header();
        self.of_function.clear();
        self.of_function.resize(header.fde_count as usize, 0);
        let end = (blob.offset() + blob.data().len()) as u64;
        while let Some(&(offset, number)) = self.relocations.get(*next).filter(|(offset, _)| *offset < end) {
            *next += 1;
            let fde = offset.checked_sub(blob.offset() as u64);
            let fde = fde.and_then(|offset| header.fde_at(offset as usize));
            match fde.and_then(|fde| self.of_function.get_mut(fde as usize)) {
                Some(row) if *row == 0 || is_removed(*row - 1) => *row = number + 1,
                _ if is_removed(number) => {}
                Some(_) => {
                    return Err(Defect(offset as usize, "a second relocation for one function".to_owned()));
                }
                None => {
                    return Err(Defect(
                        offset as usize,
                        "a relocation that belongs to no function".to_owned(),
                    ));
                }
            }
        }
        Ok(())
    }

    /// The place of a function, from the relocation of its start field. `others` says whether the section has
    /// relocations. If it has some, a row without one remains from a function that an earlier link discarded.
    fn target(
        &self,
        object: &ObjectFile<'a, T::E>,
        fde: &Fde,
        relocation: Option<&Rela<T::E>>,
        others: bool,
    ) -> Result<Start, Defect> {
        let Some(relocation) = relocation else {
            if fde.size == 0 || others {
                return Ok(Start::Nothing);
            }
            let what = format!("no relocation says where its function of {:#x} bytes starts", fde.size);
            return Err(Defect(fde.offset, what));
        };
        if is_none::<T>(relocation) {
            return Ok(Start::Nothing);
        }
        let fits = T::reloc_info(relocation.kind()).is_some_and(|info| {
            matches!(info.expr, RelocExpr::Symbol | RelocExpr::Plt)
                && matches!(info.base, RelocBase::Place | RelocBase::Zero)
                && info.size == fde.start_width
        });
        if !fits {
            let name = T::relocation_name(relocation.kind());
            return Err(Defect(fde.offset, format!("{name} cannot say where a function starts")));
        }
        if relocation.symbol() == 0 {
            return Ok(Start::Elsewhere);
        }
        // A row means the code of its own file, even if another definition of the symbol prevails.
        let here = object.symbol_section(relocation.symbol());
        let found = here.or_else(|| self.link.referenced_section(object, relocation.symbol()));
        let Some((section, value)) = found else { return Ok(Start::Elsewhere) };
        if self.sections.is(section, SectionState::ABSORBED) {
            return Ok(Start::Elsewhere);
        }
        let size = self.link.input_size(section);
        let offset = value.wrapping_add_signed(relocation.r_addend.get());
        if offset > size {
            let place = self.link.describe_place(section, offset);
            return Err(Defect(
                fde.offset,
                format!("the function at {place} starts after the end of its section"),
            ));
        }
        Ok(Start::At(Place { section, offset }, size))
    }

    /// Fails if a function reaches outside its section, which has `size` bytes.
    fn check_end(&self, fde: &Fde, place: Place, size: u64) -> Result<(), Defect> {
        if place.offset.saturating_add(fde.size.into()) <= size {
            return Ok(());
        }
        let text = self.link.describe_place(place.section, place.offset);
        let what = format!("the function at {text} has {:#x} bytes, more than its section", fde.size);
        Err(Defect(fde.offset, what))
    }

    fn function(
        &mut self,
        blob: &Blob<'_>,
        fde: &Fde,
        attributes: &Attributes,
        place: Place,
    ) -> Result<(), Defect> {
        let end = place.offset.saturating_add(fde.size.into());
        if fde.size > 0 {
            self.spans.push((place, end));
        }
        if self.batch.copy(place, blob, fde, attributes) {
            return Ok(());
        }
        self.function.read_from(blob, fde)?;
        self.batch.add(place, &self.function).map_err(|wrong| Defect(fde.offset, wrong.to_string()))
    }

    /// Describes two functions of the section that overlap. `None`: no functions overlap.
    fn overlap(&mut self) -> Option<String> {
        if !self.spans.is_sorted() {
            self.spans.sort_unstable();
        }
        let overlaps = |pair: &&[(Place, u64)]| {
            let (first, second) = (pair[0], pair[1]);
            first.0.section == second.0.section && first.0 != second.0 && second.0.offset < first.1
        };
        let pair = self.spans.windows(2).find(overlaps)?;
        let name = |place: Place| self.link.describe_place(place.section, place.offset);
        Some(format!("the functions at {} and {} overlap", name(pair[0].0), name(pair[1].0)))
    }
}

fn is_none<T: Target>(relocation: &Rela<T::E>) -> bool {
    relocation.kind() == T::DYNAMIC.none
}

/// The object that an origin belongs to: that of the SFrame section or of the `.eh_frame` records. `None`:
/// the origin is a PLT.
pub fn file_of<T: Target>(link: &crate::phase::Inputs<'_, T>, origin: Origin) -> Option<FileId> {
    match origin {
        Origin::Input(section) => link.section_file(section),
        Origin::EhFrame(file) => Some(file),
        Origin::Plt => None,
    }
}
