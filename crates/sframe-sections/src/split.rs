//! Splits an `.sframe` that covers several text sections into one part for each text section.
//!
//! ```text
//! .sframe: f (.text), g (.text.cold), h (.text)   ->   .sframe of .text: f, h    .sframe of .text.cold: g
//! ```
//!
//! Assemblers should write one `.sframe` for each text section, in the section group of its text and linked
//! to it (`SHF_LINK_ORDER`). Then a linker that discards the text discards its frames, too. A [`Plan`]
//! divides a monolithic section that way: it assigns functions to text sections by the relocations of their
//! starts. The command that rewrites files (`sframe split`) and the linker, which rewrites its inputs
//! (`--sframe-split`), both follow it. The first part takes the old section's number and all others come
//! after the last section, so no section number changes.
//!
//! A part keeps the form of the section, blob or unit, unless the caller wants units ([`Form::Light`]). Then
//! all functions of a text section become one unit.

mod blob;
mod light;

use elf::Rela;
use sframe_format::blob::BLOB_ALIGNMENT;
use sframe_format::{Blob, Piece, Section, Version};
use std::fmt;
use std::ops::Range;
use zerocopy::byteorder::{ByteOrder, U64};

/// Why a section cannot be split.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Defect {
    /// The bytes are not a blob of a known version, or rows cannot be read.
    Format(sframe_format::Error),
    /// What is wrong with a relocation, and its offset in the section.
    Relocation(u64, &'static str),
    /// The section is in a group without any text that it describes.
    ForeignGroup,
    /// Why a unit cannot express a function, and the offset of the function's entry.
    Inexpressible(u64, String),
}

impl Defect {
    /// The version of the section, if it is unknown.
    pub fn unknown_version(&self) -> Option<u8> {
        match self {
            Defect::Format(error) => error.kind.unknown_version(),
            _ => None,
        }
    }

    /// Offset in the section, in bytes.
    pub fn offset(&self) -> u64 {
        match self {
            Defect::Format(error) => error.offset as u64,
            Defect::Relocation(offset, _) | Defect::Inexpressible(offset, _) => *offset,
            Defect::ForeignGroup => 0,
        }
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Defect::Format(error) => write!(f, "no SFrame blob that can be split: {error}"),
            Defect::Relocation(offset, what) => write!(f, "the relocation at {offset:#x} {what}"),
            Defect::Inexpressible(offset, what) => write!(f, "the function at {offset:#x}: {what}"),
            Defect::ForeignGroup => f.write_str("it is in a group without any text that it describes"),
        }
    }
}

/// A function and the relocation of its start.
#[derive(Clone, Copy, Debug)]
pub struct Function<E: ByteOrder> {
    /// Its blob, in [`Plan::blobs`].
    blob: u32,
    /// Its row in the blob.
    pub index: u32,
    /// The relocation in the input.
    pub relocation: Rela<E>,
}

/// The form of the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// The form that the section has.
    Same,
    /// Units (`sframe_format::light`).
    Light,
}

/// The functions of one text section: those of one blob, or all of them for a unit.
#[derive(Clone, Debug)]
pub struct Part {
    /// Whether it becomes a unit.
    pub light: bool,
    /// The text section. `None`: the functions are in no section (their symbols are undefined or absolute).
    pub text: Option<u32>,
    /// The functions, in the section's order: a range of [`Plan::functions`].
    functions: Range<usize>,
}

impl Part {
    /// The alignment in bytes that its section needs.
    pub fn alignment(&self) -> u64 {
        if self.light { 1 } else { BLOB_ALIGNMENT as u64 }
    }
}

/// The plan for a section.
#[derive(Clone, Debug)]
pub struct Plan<'data, E: ByteOrder> {
    /// Its parts, in the order of their first functions.
    pub parts: Vec<Part>,
    /// The functions of all parts.
    pub functions: Vec<Function<E>>,
    /// Number of functions in no part, because an earlier link discarded their code and removed the
    /// relocation. For units, functions of size 0 count as well.
    pub dead: usize,
    /// Whether the section changes its form.
    converts: bool,
    /// The blobs in the section, and the functions of its units.
    blobs: Vec<Blob<'data>>,
}

/// The sections that a section is tied to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ties {
    /// The section that it is linked to (`SHF_LINK_ORDER`).
    pub link: Option<u32>,
    /// The section group that it is a member of.
    pub group: Option<u32>,
}

impl<'data, E: ByteOrder> Plan<'data, E> {
    /// Sorts the functions of a section by their text sections. `section_of` finds these by symbol.
    ///
    /// # Errors
    /// The section contains other data than blobs of known versions, a relocation is not at the start of a
    /// function, or `section_of` finds a defect.
    pub fn of(
        data: &'data [u8],
        relocations: &[Rela<E>],
        form: Form,
        mut section_of: impl FnMut(u32) -> Result<Option<u32>, &'static str>,
    ) -> Result<Self, Defect> {
        let relocations = Ascending::of(relocations)?;
        let mut next = 0;
        let mut plan =
            Plan { parts: Vec::new(), functions: Vec::new(), dead: 0, converts: false, blobs: Vec::new() };
        let mut unit_of_text = Slots::default();
        // The part of each function.
        let mut part_of: Vec<(u32, Function<E>)> = Vec::with_capacity(relocations.0.len());
        for piece in Section::new(data, 0).strict().pieces() {
            let blob = match piece {
                Piece::Blob(blob) => blob,
                Piece::Gap(gap) => return Err(Defect::Format(gap.error)),
            };
            blob.check().map_err(Defect::Format)?;
            let mut part_of_text = Slots::default();
            let (light, number) = (form == Form::Light || blob.header().is_light(), plan.blobs.len() as u32);
            plan.converts |= light != blob.header().is_light();
            plan.blobs.push(blob);
            for fde in blob.fdes() {
                let Some(relocation) = relocations.at(fde.offset as u64, &mut next)? else {
                    plan.dead += 1;
                    continue;
                };
                let at = relocation.r_offset.get();
                let text = section_of(relocation.symbol()).map_err(|what| Defect::Relocation(at, what))?;
                if light && fde.size == 0 {
                    plan.dead += 1;
                    continue;
                }
                let slots = if light { &mut unit_of_text } else { &mut part_of_text };
                let part = slots.of(text, plan.parts.len());
                if plan.parts.len() == part {
                    plan.parts.push(Part { light, text, functions: 0..0 });
                }
                let function = Function { blob: number, index: fde.index, relocation: *relocation };
                part_of.push((part as u32, function));
            }
        }
        relocations.check_end(next)?;
        plan.take(part_of);
        Ok(plan)
    }

    /// Puts the functions of each part next to each other.
    fn take(&mut self, mut part_of: Vec<(u32, Function<E>)>) {
        if !part_of.is_sorted_by_key(|(part, _)| *part) {
            part_of.sort_by_key(|(part, _)| *part);
        }
        let mut start = 0;
        for run in part_of.chunk_by(|a, b| a.0 == b.0) {
            self.parts[run[0].0 as usize].functions = start..start + run.len();
            start += run.len();
        }
        self.functions = part_of.into_iter().map(|(_, function)| function).collect();
    }

    /// Whether the section with these ties already is what the plan would make of it. `group_of` returns the
    /// group of a text section.
    pub fn is_in_shape(&self, ties: Ties, group_of: impl Fn(u32) -> Option<u32>) -> bool {
        let [part] = self.parts.as_slice() else { return false };
        let same = self.dead == 0 && !self.converts;
        same && ties.link == part.text && part.text.is_none_or(|text| group_of(text) == ties.group)
    }

    /// Moves the part that takes the old section's number to the front. That number stays in the group of the
    /// old section, so the part must belong there. Without a group, a part outside of groups is best.
    ///
    /// # Errors
    /// The section is in a group, and no part belongs there.
    pub fn put_first(
        &mut self,
        group: Option<u32>,
        group_of: impl Fn(u32) -> Option<u32>,
    ) -> Result<(), Defect> {
        let fitting = self.parts.iter().position(|part| part.text.and_then(&group_of) == group);
        let first = fitting.or(group.is_none().then_some(0)).ok_or(Defect::ForeignGroup)?;
        self.parts[..=first].rotate_right(1);
        Ok(())
    }
}

impl<'data, E: ByteOrder> Plan<'data, E> {
    /// Appends a part as its own blob or unit. Returns the relocations for the start fields of its functions.
    ///
    /// # Errors
    /// A function's rows are malformed, or a unit cannot express them.
    pub fn write(&self, part: &Part, out: &mut Vec<u8>) -> Result<Vec<Rela<E>>, Defect> {
        let functions = self.functions.get(part.functions.clone()).unwrap_or_default();
        if part.light {
            return self.write_unit(functions, out);
        }
        let Some(blob) = functions.first().and_then(|first| self.blobs.get(first.blob as usize)) else {
            return Ok(Vec::new());
        };
        let header = blob::extract(blob, functions.iter().map(|function| function.index), out)
            .map_err(Defect::Format)?;
        let moved = (0..).zip(functions).map(|(index, function)| {
            let position = header.fde_position(index).unwrap_or(0);
            Rela { r_offset: U64::new(position as u64), ..function.relocation }
        });
        Ok(moved.collect())
    }
}

impl<E: ByteOrder> Plan<'_, E> {
    /// Appends functions as a unit. Relocations of 32 bits become relocations of 64 bits.
    fn write_unit(&self, functions: &[Function<E>], out: &mut Vec<u8>) -> Result<Vec<Rela<E>>, Defect> {
        let with_entry = |function: &Function<E>| {
            let blob = self.blobs.get(function.blob as usize)?;
            Some((blob, blob.fde(function.index)?))
        };
        let Some((first, _)) = functions.first().and_then(with_entry) else { return Ok(Vec::new()) };
        let abi = first.header().abi;
        let places = light::write(abi, functions.iter().filter_map(with_entry), out)?;
        let kind = u64::from(abi.start_relocation(Version::V3));
        let moved = places.into_iter().zip(functions).map(|(place, function)| {
            let info = u64::from(function.relocation.symbol()) << 32 | kind;
            Rela { r_offset: U64::new(place.into()), r_info: U64::new(info), ..function.relocation }
        });
        Ok(moved.collect())
    }
}

impl From<light::Fault> for Defect {
    fn from(fault: light::Fault) -> Self {
        match fault {
            light::Fault::Format(error) => Defect::Format(error),
            light::Fault::Inexpressible(offset, what) => Defect::Inexpressible(offset, what),
        }
    }
}

/// Relocations by offset, without those that were removed (`R_*_NONE` is 0 on every machine).
struct Ascending<'r, E: ByteOrder>(Vec<&'r Rela<E>>);

impl<'r, E: ByteOrder> Ascending<'r, E> {
    fn of(relocations: &'r [Rela<E>]) -> Result<Self, Defect> {
        let mut live: Vec<&Rela<E>> =
            relocations.iter().filter(|relocation| relocation.kind() != 0).collect();
        if !live.is_sorted_by_key(|relocation| relocation.r_offset.get()) {
            live.sort_by_key(|relocation| relocation.r_offset.get());
        }
        let same = live.windows(2).find(|pair| pair[0].r_offset.get() == pair[1].r_offset.get());
        match same {
            Some(pair) => Err(Defect::Relocation(pair[0].r_offset.get(), "is not the only one there")),
            None => Ok(Ascending(live)),
        }
    }

    /// The relocation at this offset. `None`: there is none. Offsets must ascend from call to call. It is an
    /// error to skip a relocation.
    fn at(&self, offset: u64, next: &mut usize) -> Result<Option<&'r Rela<E>>, Defect> {
        let Some(relocation) = self.0.get(*next) else { return Ok(None) };
        match relocation.r_offset.get() {
            at if at == offset => {
                *next += 1;
                Ok(Some(relocation))
            }
            at if at < offset => Err(not_a_start(at)),
            _ => Ok(None),
        }
    }

    fn check_end(&self, next: usize) -> Result<(), Defect> {
        self.0.get(next).map_or(Ok(()), |relocation| Err(not_a_start(relocation.r_offset.get())))
    }
}

fn not_a_start(offset: u64) -> Defect {
    Defect::Relocation(offset, "is not at the start of a function's entry")
}

/// Numbers text sections in the order of their first functions. Functions of one text section are mostly
/// neighbours, so the last answer is tried first.
#[derive(Default)]
struct Slots {
    last: Option<(Option<u32>, usize)>,
    all: hashbrown::HashMap<Option<u32>, usize, foldhash::fast::FixedState>,
}

impl Slots {
    fn of(&mut self, text: Option<u32>, next: usize) -> usize {
        if let Some((last, slot)) = self.last
            && last == text
        {
            return slot;
        }
        let slot = *self.all.entry(text).or_insert(next);
        self.last = Some((text, slot));
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sframe_format::write::{Encoder, Function as Written, Options};
    use sframe_format::{Abi, HEADER_SIZE, Row, Rules};
    use zerocopy::byteorder::{I64, LE};

    /// A blob with functions of these sizes, two of which share their rows.
    fn blob(sizes: &[u32]) -> Vec<u8> {
        let mut encoder = Encoder::new(Options::new(Abi::Amd64));
        let rules = Rules::Outermost;
        let add = |&size: &u32| {
            encoder.add(&Written { size, rows: vec![Row { start: 0, rules }], ..Written::default() }).unwrap()
        };
        let ids: Vec<_> = sizes.iter().map(add).collect();
        let mut bytes = vec![0; encoder.size()];
        encoder.write_relocatable(&ids, true, &mut bytes).unwrap();
        bytes
    }

    /// The relocation for the start of function `row`, against the section symbol of section `symbol`.
    fn relocation(row: u32, symbol: u32) -> Rela<LE> {
        let offset = HEADER_SIZE as u64 + u64::from(row) * Version::V3.fde_size() as u64;
        Rela {
            r_offset: U64::new(offset),
            r_info: U64::new(u64::from(symbol) << 32 | 24),
            r_addend: I64::new(row.into()),
        }
    }

    fn plan<'data>(data: &'data [u8], relocations: &[Rela<LE>]) -> Result<Plan<'data, LE>, Defect> {
        Plan::of(data, relocations, Form::Same, |symbol| Ok((symbol != 0).then_some(symbol)))
    }

    #[test]
    fn functions_go_with_their_text() {
        let data = blob(&[4, 5, 6, 7, 8]);
        // Out of order, and row 3 has no relocation.
        let relocations = [relocation(4, 2), relocation(0, 1), relocation(1, 2), relocation(2, 1)];
        let mut plan = plan(&data, &relocations).unwrap();
        assert_eq!((plan.dead, plan.functions.len()), (1, 4));
        let texts = |plan: &Plan<'_, LE>| plan.parts.iter().map(|part| part.text).collect::<Vec<_>>();
        assert_eq!(texts(&plan), [Some(1), Some(2)]);
        plan.put_first(Some(9), |text| (text == 2).then_some(9)).unwrap();
        assert_eq!(texts(&plan), [Some(2), Some(1)]);
        assert_eq!(plan.put_first(Some(8), |_| None), Err(Defect::ForeignGroup));
        let mut out = vec![0xaa; 3];
        let moved: Vec<(u64, i64)> = plan
            .write(&plan.parts[0], &mut out)
            .unwrap()
            .iter()
            .map(|relocation| (relocation.r_offset.get(), relocation.r_addend.get()))
            .collect();
        assert_eq!(moved, [(28, 1), (44, 4)]);
        let blob = Blob::parse(&out[3..], 0).unwrap();
        let sizes: Vec<u32> = blob.fdes().map(|fde| fde.size).collect();
        assert_eq!(sizes, [5, 8]);
        assert!(!blob.header().is_sorted() && blob.header().is_field_relative());
        assert!(blob.fdes().all(|fde| fde.fre_offset == 0), "rows are still shared");
    }

    #[test]
    fn units_hold_all_functions_of_their_text_that_have_bytes() {
        let mut first = blob(&[4, 5, 7]);
        // The third function has no bytes.
        first[HEADER_SIZE + 2 * Version::V3.fde_size() + 8] = 0;
        first.resize(first.len().next_multiple_of(8), 0);
        let second = first.len() as u64;
        let data = [first, blob(&[6])].concat();
        let at = |row: u32, symbol: u32| relocation(row, symbol);
        let last = Rela { r_offset: U64::new(second + HEADER_SIZE as u64), ..at(0, 1) };
        let relocations = [at(0, 1), at(1, 2), at(2, 1), last];
        let section_of = |symbol: u32| Ok(Some(symbol));
        let plan = Plan::of(&data, &relocations, Form::Light, section_of).unwrap();
        assert_eq!((plan.dead, plan.parts.len()), (1, 2));
        assert!(plan.parts.iter().all(|part| part.light && part.alignment() == 1));
        let mut out = Vec::new();
        let moved = plan.write(&plan.parts[0], &mut out).unwrap();
        let places: Vec<u64> = moved.iter().map(|relocation| relocation.r_offset.get()).collect();
        let blobs: Vec<_> = Section::new(&out, 0).strict().blobs().collect();
        assert_eq!(places, blobs.iter().map(|blob| blob.offset() as u64).collect::<Vec<_>>());
        assert_eq!(blobs.iter().map(|blob| blob.fde(0).unwrap().size).collect::<Vec<_>>(), [4, 6]);
        // A section of units stays one, and is split if it covers several texts.
        let again = Plan::of(&out, &moved, Form::Same, section_of).unwrap();
        let ties = Ties { link: Some(1), group: None };
        assert!(again.is_in_shape(ties, |_| None) && again.parts[0].light);
        let two = [moved[0], Rela { r_info: U64::new(2 << 32 | 24), ..moved[1] }];
        assert_eq!(Plan::of(&out, &two, Form::Same, section_of).unwrap().parts.len(), 2);
    }

    #[test]
    fn a_section_of_one_text_with_its_ties_is_in_shape() {
        let data = blob(&[4, 5]);
        let both = [relocation(0, 3), relocation(1, 3)];
        let group_of = |_| Some(7);
        let ties = Ties { link: Some(3), group: Some(7) };
        let plan_of = |relocations: &[Rela<LE>]| plan(&data, relocations).unwrap();
        assert!(plan_of(&both).is_in_shape(ties, group_of));
        assert!(!plan_of(&both).is_in_shape(Ties { link: None, ..ties }, group_of));
        assert!(!plan_of(&both).is_in_shape(Ties { group: None, ..ties }, group_of));
        assert!(!plan_of(&both[..1]).is_in_shape(ties, group_of), "a dead function goes");
        assert!(!plan_of(&[relocation(0, 3), relocation(1, 4)]).is_in_shape(ties, group_of));
    }

    #[test]
    fn malformed_sections_give_their_defect() {
        let data = blob(&[4, 5]);
        let at = |offset: u64| Rela { r_offset: U64::new(offset), ..relocation(0, 1) };
        let defect = |relocations: &[Rela<LE>]| plan(&data, relocations).unwrap_err().to_string();
        assert_eq!(defect(&[at(28), at(28)]), "the relocation at 0x1c is not the only one there");
        assert_eq!(defect(&[at(20)]), "the relocation at 0x14 is not at the start of a function's entry");
        assert_eq!(defect(&[at(60)]), "the relocation at 0x3c is not at the start of a function's entry");
        let mut unknown = data.clone();
        unknown[2] = 9;
        assert_eq!(plan(&unknown, &[]).unwrap_err().unknown_version(), Some(9));
        let none = Rela { r_info: U64::new(0), ..at(20) };
        assert_eq!(plan(&data, &[none]).unwrap().dead, 2);
    }
}
