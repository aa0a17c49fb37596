//! The name indexes of one object: `.debug_names` (DWARF 5, section 6.1.1), for `--debug-names`.
//!
//! The linker copies entries without knowing what they mean. It changes only the numbers of units, the
//! offsets of strings and the offsets of parents. It drops entries of units that are not in the output (type
//! units of discarded COMDAT groups), because the prevailing group has the same entries.

use super::dwarf::Section;
use super::object::{Problem, debug_sections};
use super::view::Debugged;
use crate::ids::SectionId;
use crate::input::measure::Budget;
use gimli::read::{DebugNames, NameAttributeValue, NameEntry, NameIndex, NameIndexHeader, NameTableIndex};
use gimli::{DwForm, DwTag, EndianSlice, Format, RunTimeEndian};
use hashbrown::HashMap;

/// Stands for no unit, or no parent.
pub const NONE: u32 = u32::MAX;
/// The bit that marks the number of a type unit as a row of [`ObjectNames::foreign`].
pub const FOREIGN: u32 = 1 << 31;

/// The number of abbreviations that gimli searches in the time that one attribute takes.
const ABBREVIATIONS: usize = 16;

/// A place in a section of the object: a unit, a string.
pub type Place = (SectionId, u64);
type Reader<'s, 'a> = super::dwarf::Reader<'s, 'a>;

/// All indexes of an object, joined.
#[derive(Debug, Default)]
pub struct ObjectNames<'a> {
    /// Compilation units.
    pub units: Vec<Place>,
    /// Type units of the object itself.
    pub type_units: Vec<Place>,
    /// Signatures of type units in other files.
    pub foreign: Vec<u64>,
    /// The different forms of entries.
    pub shapes: Vec<Shape>,
    /// The names.
    pub names: Vec<Name<'a>>,
    /// Entries, by name.
    pub entries: Vec<Entry>,
    /// Values that the linker copies ([`Shape::more`]).
    pub more: Vec<u8>,
    /// The augmentation string, which tells readers the producer. `None`: the object has no index.
    pub augmentation: Option<&'a [u8]>,
    /// Whether any index has 64-bit offsets.
    pub long: bool,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

/// A name.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    /// Its bytes.
    pub text: &'a [u8],
    /// The hash by which readers find it.
    pub hash: u32,
    /// Where the string is.
    pub string: Place,
    /// Its range of entries, without the end.
    pub entries: (u32, u32),
}

/// The form of an entry: an abbreviation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Shape {
    /// The tag of the debugging information entry.
    pub tag: DwTag,
    /// Whether entries name a compilation unit.
    pub unit: bool,
    /// Whether entries name a type unit.
    pub type_unit: bool,
    /// What entries say of their parents.
    pub parent: Parent,
    /// Other attributes, with their forms.
    pub more: Vec<(u16, DwForm)>,
}

/// What an entry says of its parent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Parent {
    /// Nothing.
    Unstated,
    /// The parent is not in the index.
    NotIndexed,
    /// The parent's entry.
    Entry,
}

/// An entry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Row in [`ObjectNames::shapes`].
    pub shape: u32,
    /// Row of its compilation unit, or [`NONE`].
    pub unit: u32,
    /// Row of its type unit (with [`FOREIGN`]), or [`NONE`].
    pub type_unit: u32,
    /// Offset in the unit.
    pub offset: u32,
    /// Row of its parent's entry, or [`NONE`].
    pub parent: u32,
    /// Its range of bytes in [`ObjectNames::more`], without the end.
    pub more: (u32, u32),
}

/// Reads the indexes of an object. `is_in_output` says whether the output contains a section as it is.
pub fn read<'a>(object: &dyn Debugged<'a>, is_in_output: &dyn Fn(SectionId) -> bool) -> ObjectNames<'a> {
    let sections = debug_sections(object, is_in_output);
    let mut found = ObjectNames::default();
    if !sections.iter().any(|section| section.name == ".debug_names") {
        return found;
    }
    let first =
        |name: &str| sections.iter().find(|section| section.name == name).map(|section| section.index);
    let (info, strings) = (first(".debug_info").unwrap_or(0), first(".debug_str").unwrap_or(0));
    let mut measure = Budget::of(sections.iter().map(|section| section.bytes.len() as u64).sum());
    let mut shapes = HashMap::new();
    for section in sections.iter().filter(|section| section.name == ".debug_names") {
        let names = DebugNames::from(section.reader());
        let mut headers = names.headers();
        loop {
            let header = match headers.next() {
                Ok(Some(header)) => header,
                Ok(None) => break,
                Err(error) => {
                    let problem =
                        Problem { section: section.index, offset: 0, what: error.to_string(), split: false };
                    found.problems.push(problem);
                    break;
                }
            };
            let offset = header.offset().0 as u64;
            let reader = IndexReader {
                section,
                is_in_output,
                info,
                strings,
                found: &mut found,
                measure: &mut measure,
                shapes: &mut shapes,
                shape_of: HashMap::new(),
            };
            if let Err(what) = reader.index(header) {
                found.problems.push(Problem { section: section.index, offset, what, split: false });
            }
        }
    }
    found
}

struct IndexReader<'r, 's, 'a> {
    section: &'s Section<'s, 'a>,
    is_in_output: &'r dyn Fn(SectionId) -> bool,
    /// The sections that a field without a relocation is an offset in.
    info: u32,
    strings: u32,
    found: &'r mut ObjectNames<'a>,
    /// What reading may still consume. Names may overlap and share entries, so a small file could keep the
    /// linker busy for very long.
    measure: &'r mut Budget,
    /// Rows of shapes.
    shapes: &'r mut HashMap<Shape, u32>,
    /// Rows of shapes, by abbreviation and whether the entry's compilation unit is known.
    shape_of: HashMap<(u64, bool), u32>,
}

/// Rows of those units that are in the output.
struct Rows {
    units: Vec<Option<u32>>,
    type_units: Vec<Option<u32>>,
}

impl<'a> IndexReader<'_, '_, 'a> {
    fn index(mut self, header: NameIndexHeader<Reader<'_, 'a>>) -> Result<(), String> {
        let width = u64::from(header.format().word_size());
        let augmentation = self.augmentation(&header);
        self.found.augmentation = Some(match self.found.augmentation {
            Some(known) if known != augmentation => b"",
            _ => augmentation,
        });
        self.found.long |= header.format() == Format::Dwarf64;
        let fixed = u64::from(header.format().initial_length_size()) + 2 + 2 + 7 * 4;
        let lists = header.offset().0 as u64 + fixed + (augmentation.len() as u64).next_multiple_of(4);
        let counts = [header.compile_unit_count(), header.local_type_unit_count()].map(u64::from);
        let signatures = u64::from(header.foreign_type_unit_count()) * 8;
        let hashes = match u64::from(header.bucket_count()) {
            0 => 0,
            buckets => 4 * (buckets + u64::from(header.name_count())),
        };
        let index = header.index().map_err(|error| error.to_string())?;
        let type_list = lists + counts[0] * width;
        let units = self.places(lists, counts[0], width, false);
        let mut type_units = self.places(type_list, counts[1], width, true);
        for row in 0..index.foreign_type_unit_count() {
            let signature = index.foreign_type_unit(row).map_err(|error| error.to_string())?;
            type_units.push(Some(self.found.foreign.len() as u32 | FOREIGN));
            self.found.foreign.push(signature.0);
        }
        let strings = type_list + counts[1] * width + signatures + hashes;
        self.names(&index, &Rows { units, type_units }, strings, width)
    }

    fn augmentation(&self, header: &NameIndexHeader<Reader<'_, 'a>>) -> &'a [u8] {
        let text = header.augmentation_string().map(|text| text.inner().slice());
        text.map_or(&[], |text| text)
    }

    /// Reads a list of units. Those that are in the output get a row.
    fn places(&mut self, list: u64, count: u64, width: u64, types: bool) -> Vec<Option<u32>> {
        let place = |row: u64| {
            let field = list + row * width;
            let (section, offset) = self.target(field, width, self.info)?;
            (self.is_in_output)(section).then_some((section, offset))
        };
        let places: Vec<Option<Place>> = (0..count).map(place).collect();
        let known = if types { &mut self.found.type_units } else { &mut self.found.units };
        let rows = places.into_iter().map(|place| {
            known.push(place?);
            Some(known.len() as u32 - 1)
        });
        rows.collect()
    }

    /// What a field of the index refers to: its relocation says it, or it is an offset in section `index`.
    fn target(&self, field: u64, width: u64, index: u32) -> Option<Place> {
        let object = self.section.object;
        match self.section.target(field) {
            Some((section, offset)) => Some((object.section_id(section?), offset)),
            None => {
                let field = usize::try_from(field).ok()?;
                let bytes = self.section.bytes.get(field..)?;
                let mut reader = EndianSlice::<RunTimeEndian>::new(bytes, object.endian());
                let offset = gimli::Reader::read_uint(&mut reader, width as usize).ok()?;
                (index != 0).then(|| (object.section_id(index), offset))
            }
        }
    }

    /// Adds all names up to the first one that cannot be read.
    fn names(
        &mut self,
        index: &NameIndex<Reader<'_, 'a>>,
        rows: &Rows,
        strings: u64,
        width: u64,
    ) -> Result<(), String> {
        let first = self.found.entries.len();
        // Offsets of entries in the pool. Other entries name their parents by these.
        let mut offsets: Vec<(usize, u32)> = Vec::new();
        let result = index.names().try_for_each(|name| {
            let (entries, more) = (self.found.entries.len(), self.found.more.len());
            let field = strings + u64::from(name.0) * width;
            let result = self.name(index, rows, name, (field, width), &mut offsets);
            if result.is_err() {
                // No name has these entries. They get no place in the output, so no entry can have them as
                // parents.
                self.found.entries.truncate(entries);
                self.found.more.truncate(more);
                offsets.retain(|&(_, row)| (row as usize) < entries);
            }
            result
        });
        self.find_parents(first, offsets);
        result
    }

    /// Adds the name whose string `field` points to, with its entries.
    fn name(
        &mut self,
        index: &NameIndex<Reader<'_, 'a>>,
        rows: &Rows,
        name: NameTableIndex,
        (field, width): (u64, u64),
        offsets: &mut Vec<(usize, u32)>,
    ) -> Result<(), String> {
        let string = self.target(field, width, self.strings);
        let text = string.and_then(|place| self.text(place));
        let (Some(string), Some(text)) = (string, text) else {
            return Err(format!("name {} is no string of .debug_str", name.0));
        };
        self.take(text.len())?;
        let start = self.found.entries.len() as u32;
        // To find an entry's abbreviation, gimli searches all abbreviations from the first one.
        let abbreviations = index.abbreviations().abbreviations().len() / ABBREVIATIONS;
        for entry in index.name_entries(name).map_err(|error| error.to_string())? {
            let entry = entry.map_err(|error| error.to_string())?;
            self.take(size_of::<Entry>() + entry.attrs.len() + abbreviations)?;
            let offset = entry.offset.0;
            if self.entry(index, rows, &entry)? {
                offsets.push((offset, self.found.entries.len() as u32 - 1));
            }
        }
        let entries = (start, self.found.entries.len() as u32);
        if entries.0 != entries.1 {
            self.found.names.push(Name { text, hash: hash(text), string, entries });
        }
        Ok(())
    }

    fn take(&mut self, amount: usize) -> Result<(), String> {
        let beyond = |_| "its names and entries overlap beyond measure".to_owned();
        self.measure.take(amount as u64).map_err(beyond)
    }

    fn text(&self, (section, offset): Place) -> Option<&'a [u8]> {
        let object = self.section.object;
        let index = (section.0 - object.section_id(0).0) as usize;
        let bytes = object.section_bytes(index)?.get(usize::try_from(offset).ok()?..)?;
        bytes.get(..memchr::memchr(0, bytes)?)
    }

    /// Adds an entry if its unit is in the output.
    fn entry(
        &mut self,
        index: &NameIndex<Reader<'_, 'a>>,
        rows: &Rows,
        entry: &NameEntry<Reader<'_, 'a>>,
    ) -> Result<bool, String> {
        let (mut unit, mut type_unit, mut offset, mut parent) = (None, None, None, NONE);
        let more = self.found.more.len() as u32;
        for attribute in &entry.attrs {
            match (attribute.name(), attribute.value()) {
                (gimli::DW_IDX_compile_unit, NameAttributeValue::Unsigned(row)) => unit = Some(*row),
                (gimli::DW_IDX_type_unit, NameAttributeValue::Unsigned(row)) => type_unit = Some(*row),
                (gimli::DW_IDX_die_offset, NameAttributeValue::Offset(place)) => {
                    offset = u32::try_from(*place).ok();
                }
                (gimli::DW_IDX_parent, NameAttributeValue::Offset(place)) => {
                    parent = u32::try_from(*place).unwrap_or(NONE);
                }
                (gimli::DW_IDX_parent, _) => {}
                (_, value) => {
                    push_value(self.section.object.endian(), &mut self.found.more, attribute.form(), value)
                }
            }
        }
        let offset =
            offset.ok_or_else(|| format!("the entry at {:#x} of the pool has no offset", entry.offset.0))?;
        if unit.is_none() && type_unit.is_none() && index.compile_unit_count() == 1 {
            unit = Some(0);
        }
        let row_of = |rows: &[Option<u32>], number: Option<u64>| match number {
            None => Some(NONE),
            Some(number) => rows.get(usize::try_from(number).ok()?).copied().flatten(),
        };
        let (Some(unit), Some(type_unit)) = (row_of(&rows.units, unit), row_of(&rows.type_units, type_unit))
        else {
            self.found.more.truncate(more as usize);
            return Ok(false);
        };
        if unit == NONE && type_unit == NONE {
            return Err(format!("the entry at {:#x} of the pool has no unit", entry.offset.0));
        }
        let shape = self.shape(entry, unit != NONE);
        let more = (more, self.found.more.len() as u32);
        self.found.entries.push(Entry { shape, unit, type_unit, offset, parent, more });
        Ok(true)
    }

    fn shape(&mut self, entry: &NameEntry<Reader<'_, 'a>>, unit: bool) -> u32 {
        if let Some(&known) = self.shape_of.get(&(entry.abbrev_code, unit)) {
            return known;
        }
        let mut shape =
            Shape { tag: entry.tag, unit, type_unit: false, parent: Parent::Unstated, more: Vec::new() };
        for attribute in &entry.attrs {
            match attribute.name() {
                gimli::DW_IDX_compile_unit | gimli::DW_IDX_die_offset => {}
                gimli::DW_IDX_type_unit => shape.type_unit = true,
                gimli::DW_IDX_parent => {
                    shape.parent = match attribute.value() {
                        NameAttributeValue::Offset(_) => Parent::Entry,
                        _ => Parent::NotIndexed,
                    }
                }
                name => shape.more.push((name.0, attribute.form())),
            }
        }
        let row = intern(self.shapes, &mut self.found.shapes, shape);
        self.shape_of.insert((entry.abbrev_code, unit), row);
        row
    }

    /// Turns the offsets of parents into rows. If no entry has the offset, the result says nothing about the
    /// parent.
    fn find_parents(&mut self, first: usize, mut offsets: Vec<(usize, u32)>) {
        offsets.sort_unstable();
        let ObjectNames { entries, shapes, .. } = &mut *self.found;
        for entry in &mut entries[first..] {
            if shapes[entry.shape as usize].parent != Parent::Entry {
                continue;
            }
            match offsets.binary_search_by_key(&(entry.parent as usize), |&(offset, _)| offset) {
                Ok(at) => entry.parent = offsets[at].1,
                Err(_) => {
                    let shape = Shape { parent: Parent::Unstated, ..shapes[entry.shape as usize].clone() };
                    (entry.shape, entry.parent) = (intern(self.shapes, shapes, shape), NONE);
                }
            }
        }
    }
}

/// The row of a shape. Adds the shape if it is new.
fn intern(rows: &mut HashMap<Shape, u32>, shapes: &mut Vec<Shape>, shape: Shape) -> u32 {
    *rows.entry(shape).or_insert_with_key(|shape| {
        shapes.push(shape.clone());
        shapes.len() as u32 - 1
    })
}

/// Writes a value in its form.
fn push_value(
    endian: RunTimeEndian,
    out: &mut Vec<u8>,
    form: DwForm,
    value: &NameAttributeValue<Reader<'_, '_>>,
) {
    let number = match *value {
        NameAttributeValue::Unsigned(number) => number,
        NameAttributeValue::Offset(offset) => offset as u64,
        NameAttributeValue::Flag(flag) => flag.into(),
    };
    let width = match form {
        gimli::DW_FORM_flag_present => 0,
        gimli::DW_FORM_flag | gimli::DW_FORM_data1 | gimli::DW_FORM_ref1 => 1,
        gimli::DW_FORM_data2 | gimli::DW_FORM_ref2 => 2,
        gimli::DW_FORM_data4 | gimli::DW_FORM_ref4 => 4,
        gimli::DW_FORM_data8 | gimli::DW_FORM_ref8 => 8,
        _ => return push_uleb(out, number),
    };
    match endian {
        RunTimeEndian::Little => out.extend(&number.to_le_bytes()[..width]),
        RunTimeEndian::Big => out.extend(&number.to_be_bytes()[8 - width..]),
    }
}

/// Writes a number in 7-bit groups.
pub fn push_uleb(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The hash of a name in lower case (DWARF 5, section 6.1.1.4.5).
fn hash(name: &[u8]) -> u32 {
    let add = |hash: u32, byte: u8| hash.wrapping_mul(33).wrapping_add(byte.into());
    let text = match std::str::from_utf8(name) {
        Ok(text) if !name.is_ascii() => text,
        _ => return name.iter().fold(5381, |hash, byte| add(hash, byte.to_ascii_lowercase())),
    };
    text.chars().fold(5381, |hash, letter| {
        let mut bytes = [0; 4];
        folded(letter).encode_utf8(&mut bytes).bytes().fold(hash, add)
    })
}

/// A letter in lower case, by Unicode's simple folding. Both Turkish forms of i become i, as in LLVM.
fn folded(letter: char) -> char {
    if matches!(letter, '\u{130}' | '\u{131}') {
        return 'i';
    }
    let mut lower = letter.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(lower), None) => lower,
        _ => letter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_hashed_in_lower_case() {
        // LLVM's caseFoldingDjbHash gives these values.
        assert_eq!(hash(b""), 5381);
        assert_eq!(hash(b"main"), hash(b"MAIN"));
        assert_eq!(hash(b"main"), 0x7c9a_7f6a);
        assert_eq!(hash("\u{130}x".as_bytes()), hash(b"ix"));
        assert_eq!(hash("\u{c4}".as_bytes()), hash("\u{e4}".as_bytes()));
    }
}
