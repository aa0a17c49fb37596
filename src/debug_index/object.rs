//! Reads as much of one object's debug information as an index needs.

use super::dwarf::{Dwarf, Section, Unit, place};
use super::entries::{self, EntryNames, MAIN};
use super::gdb_index::{Attributes, MainFunction, Name};
use super::units::{Result, Tables};
use super::view::Debugged;
use super::{public_names, split};
use crate::ids::SectionId;
use crate::input::measure::Budget;
use crate::input::{InputSource, InputStore};
use gimli::UnitType;
use hashbrown::{HashMap, HashSet};
use std::path::PathBuf;

/// The bit that marks a unit's number ([`Name::unit`]) as that of a type unit.
pub const TYPE_UNIT: u32 = 1 << 31;

/// A unit in an input section.
#[derive(Clone, Copy, Debug)]
pub struct UnitPlace {
    /// `.debug_info` or `.debug_types`.
    pub section: SectionId,
    /// Offset in the section.
    pub offset: u64,
    /// Length in bytes, including the length field.
    pub length: u64,
}

/// A type unit.
#[derive(Clone, Copy, Debug)]
pub struct TypeUnit {
    /// Where it is.
    pub place: UnitPlace,
    /// Offset of the type's entry in the unit.
    pub type_offset: u64,
    /// Signature of the type.
    pub signature: u64,
    /// Whether it is in `.debug_types`, as in DWARF 4.
    pub in_types: bool,
}

/// Addresses that a unit covers.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// The section.
    pub section: SectionId,
    /// First offset, and the end.
    pub range: (u64, u64),
    /// Row of the unit.
    pub unit: u32,
}

/// Debug information that cannot be read.
#[derive(Debug)]
pub struct Problem {
    /// Header index of the section.
    pub section: u32,
    /// Offset in it.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
    /// Whether the unit has its names in another file, and that file cannot be read.
    pub split: bool,
}

/// The units, addresses and names of an object.
#[derive(Debug, Default)]
pub struct ObjectIndex<'a> {
    /// Compilation units.
    pub units: Vec<UnitPlace>,
    /// Type units.
    pub type_units: Vec<TypeUnit>,
    /// Addresses, by unit.
    pub areas: Vec<Area>,
    /// Names. Their units are rows of `units`, or of `type_units` with [`TYPE_UNIT`].
    pub names: Vec<Name<'a>>,
    /// The main function.
    pub main: Option<MainFunction<'a>>,
    /// Parts that could not be read.
    pub problems: Vec<Problem>,
}

/// Reads an object. `is_in_output` says whether the output contains a section as it is.
pub fn read<'a>(
    object: &dyn Debugged<'a>,
    is_in_output: &dyn Fn(SectionId) -> bool,
    source: &dyn InputSource,
    store: &'a InputStore,
) -> ObjectIndex<'a> {
    let sections = debug_sections(object, is_in_output);
    if !sections.iter().any(|section| is_of_units(&section.name)) {
        return ObjectIndex::default();
    }
    let bytes = sections.iter().map(|section| section.bytes.len() as u64).sum();
    let empty = Section::empty(object);
    let find = |name: &str| sections.iter().find(|section| section.name == name).unwrap_or(&empty);
    let Ok(dwarf) = gimli::Dwarf::load(|id| Ok::<_, gimli::Error>(find(id.name()).reader())) else {
        return ObjectIndex::default();
    };
    let mut reader = ObjectReader {
        object,
        is_in_output,
        source,
        store,
        dwarf,
        tables: Tables::default(),
        found: ObjectIndex::default(),
        entries: EntryNames { measure: Budget::of(bytes), ..EntryNames::default() },
        entry_units: Vec::new(),
        listed: HashMap::new(),
        split_files: HashSet::new(),
    };
    let public = reader.public_names(&sections);
    for section in sections.iter().filter(|section| is_of_units(&section.name)) {
        reader.units(section, &public);
    }
    if reader.entries.measure.is_spent() {
        // The object counts as one without debug information. A part of it would depend on where the measure
        // was exceeded.
        return ObjectIndex { problems: reader.found.problems, ..ObjectIndex::default() };
    }
    if reader.found.areas.is_empty() {
        reader.areas_of_table(find(".debug_aranges"));
    }
    reader.finish(public)
}

/// Whether a section contains units.
fn is_of_units(name: &str) -> bool {
    matches!(name, ".debug_info" | ".debug_types")
}

/// The object's debug sections that are in the output or that the linker took out of it for the index.
pub(super) fn debug_sections<'o, 'a>(
    object: &'o dyn Debugged<'a>,
    is_in_output: &dyn Fn(SectionId) -> bool,
) -> Vec<Section<'o, 'a>> {
    let is_debug = |&index: &usize| {
        let name = object.section_name(index);
        name.starts_with(b".debug_") || name.starts_with(b".zdebug_")
    };
    (1..object.section_count())
        .filter(is_debug)
        .filter(|&index| is_in_output(object.section_id(index as u32)))
        .map(|index| {
            let name = String::from_utf8_lossy(object.section_name(index)).replacen(".zdebug_", ".debug_", 1);
            Section::new(object, index as u32, name)
        })
        .collect()
}

/// The header index of a unit's section, and the unit's offset in it.
type Key = (u32, u64);
/// Names that compilers list, by unit.
type Public<'a> = Vec<public_names::Set<'a>>;

struct ObjectReader<'o, 's, 'a> {
    object: &'o dyn Debugged<'a>,
    is_in_output: &'o dyn Fn(SectionId) -> bool,
    source: &'o dyn InputSource,
    store: &'a InputStore,
    dwarf: Dwarf<'s, 'a>,
    tables: Tables,
    found: ObjectIndex<'a>,
    /// Names from entries. For each unit with such names, its number and how many names it has.
    entries: EntryNames,
    entry_units: Vec<(u32, usize)>,
    /// Units whose names a compiler lists, and whether the main function is among them.
    listed: HashMap<Key, bool>,
    /// Files that units refer to (`.dwo`).
    split_files: HashSet<PathBuf>,
}

impl<'s, 'a> ObjectReader<'_, 's, 'a> {
    /// Reads the lists of names. A list that does not say its section belongs to the first `.debug_info`.
    fn public_names(&mut self, sections: &[Section<'_, 'a>]) -> Public<'a> {
        let first = sections.iter().find(|section| section.name == ".debug_info").map_or(0, |s| s.index);
        let is_list = |name: &str| matches!(name, ".debug_gnu_pubnames" | ".debug_gnu_pubtypes");
        let mut public = Vec::new();
        for section in sections.iter().filter(|section| is_list(&section.name)) {
            match public_names::read(section) {
                Ok(sets) => public.extend(sets),
                Err((offset, what)) => self.problem(section.index, offset, what),
            }
        }
        for set in &mut public {
            let section = *set.section.get_or_insert(first);
            let has_main = set.names.contains(&(MAIN, Attributes::FUNCTION));
            *self.listed.entry((section, set.offset)).or_default() |= has_main;
        }
        public
    }

    fn problem(&mut self, section: u32, offset: u64, what: String) {
        self.found.problems.push(Problem { section, offset, what, split: false });
    }

    fn units(&mut self, section: &'s Section<'_, 'a>, public: &Public<'a>) {
        let in_types = section.name == ".debug_types";
        if in_types {
            self.dwarf.debug_types = section.reader().into();
        } else {
            self.dwarf.debug_info = section.reader().into();
        }
        let (mut units, mut types) = (self.dwarf.units(), self.dwarf.type_units());
        loop {
            let header = if in_types { types.next() } else { units.next() };
            let header = match header {
                Ok(Some(header)) => header,
                Ok(None) => return,
                Err(error) => return self.problem(section.index, 0, error.to_string()),
            };
            let offset = header.offset().0 as u64;
            let place = UnitPlace {
                section: self.object.section_id(section.index),
                offset,
                length: header.length_including_self() as u64,
            };
            let result = match header.type_() {
                UnitType::Type { type_signature, type_offset } => {
                    let type_offset = type_offset.0 as u64;
                    let signature = type_signature.0;
                    self.found.type_units.push(TypeUnit { place, type_offset, signature, in_types });
                    let number = (self.found.type_units.len() as u32 - 1) | TYPE_UNIT;
                    if public.is_empty() { self.names_of(header, number) } else { Ok(()) }
                }
                _ => self.compile_unit(header, place, section.index),
            };
            if let Err(error) = result {
                self.problem(section.index, offset, error.to_string());
            }
            if self.entries.measure.is_spent() {
                return;
            }
        }
    }

    fn compile_unit(
        &mut self,
        header: gimli::UnitHeader<super::dwarf::Reader<'s, 'a>>,
        place: UnitPlace,
        section: u32,
    ) -> Result<()> {
        let number = self.found.units.len() as u32;
        self.found.units.push(place);
        let unit = self.tables.unit(&self.dwarf, header, &mut self.entries.measure)?;
        let mut ranges = self.dwarf.unit_ranges(&unit)?;
        while let Some(range) = ranges.next()? {
            // Several units may share one list.
            self.entries.measure.take(size_of::<Area>() as u64)?;
            self.area(number, range.begin, range.end);
        }
        if let Some(&has_main) = self.listed.get(&(section, place.offset)) {
            if has_main && self.found.main.is_none() {
                let language = entries::language(&unit, &mut self.entries.measure)?;
                self.found.main = Some(MainFunction { name: MAIN, language, is_stated: false });
            }
            return Ok(());
        }
        if let Some(path) = split::path(&self.dwarf, &unit, &mut self.entries.measure)? {
            self.split_names(path, number, section, place.offset);
            return Ok(());
        }
        self.add_names(&unit, number)
    }

    fn names_of(
        &mut self,
        header: gimli::UnitHeader<super::dwarf::Reader<'s, 'a>>,
        number: u32,
    ) -> Result<()> {
        let unit = self.tables.unit(&self.dwarf, header, &mut self.entries.measure)?;
        self.add_names(&unit, number)
    }

    fn add_names(&mut self, unit: &Unit<'s, 'a>, number: u32) -> Result<()> {
        let before = self.entries.names.len();
        let result = entries::read(&self.dwarf, unit, &mut self.entries);
        self.entry_units.push((number, self.entries.names.len() - before));
        result
    }

    fn split_names(&mut self, path: PathBuf, number: u32, section: u32, offset: u64) {
        let before = self.entries.names.len();
        let is_new = !self.split_files.contains(&path);
        let result = split::read(self.object, &path, is_new, self.source, self.store, &mut self.entries);
        self.entry_units.push((number, self.entries.names.len() - before));
        if let Err(what) = result {
            let what = format!("{}: {what}", path.display());
            self.found.problems.push(Problem { section, offset, what, split: true });
        }
        self.split_files.insert(path);
    }

    /// Adds addresses of a unit, if their section has them and is in the output.
    fn area(&mut self, unit: u32, begin: u64, end: u64) {
        let (Some((index, start)), Some((other, end))) = (place(begin), place(end)) else { return };
        let Some(size) = self.object.section_size(index as usize) else { return };
        let section = self.object.section_id(index);
        if index == other && start < end && end <= size && (self.is_in_output)(section) {
            self.found.areas.push(Area { section, range: (start, end), unit });
        }
    }

    /// Reads `.debug_aranges`, for compilers whose units do not state their addresses (DWARF 2).
    fn areas_of_table(&mut self, section: &'s Section<'_, 'a>) {
        let table = gimli::DebugAranges::from(section.reader());
        let mut headers = table.headers();
        // If several sections have units, the table means the first section that has a unit at this offset.
        let mut unit_at: HashMap<u64, u32> = HashMap::new();
        for (unit, row) in self.found.units.iter().zip(0..) {
            unit_at.entry(unit.offset).or_insert(row);
        }
        while let Ok(Some(header)) = headers.next() {
            let offset = header.debug_info_offset().0 as u64;
            let Some(&unit) = unit_at.get(&offset) else { continue };
            let mut entries = header.entries();
            while let Ok(Some(entry)) = entries.next() {
                let range = entry.range();
                self.area(unit, range.begin, range.end);
            }
        }
    }

    /// Joins the names from all sources.
    fn finish(mut self, public: Public<'a>) -> ObjectIndex<'a> {
        let base = self.object.section_id(0).0;
        let rows = self.found.units.iter().zip(0..);
        let unit_of: HashMap<Key, u32> =
            rows.map(|(unit, row)| ((unit.section.0 - base, unit.offset), row)).collect();
        for set in public {
            let key = (set.section.unwrap_or(0), set.offset);
            let Some(&unit) = unit_of.get(&key) else { continue };
            self.found.names.extend(set.names.iter().map(|&(text, kind)| Name::new(text, unit, kind)));
        }
        let texts: &'a [u8] = if self.entries.texts.is_empty() {
            &[]
        } else {
            self.store.keep(std::mem::take(&mut self.entries.texts))
        };
        let units = self.entry_units.iter().flat_map(|&(unit, count)| std::iter::repeat_n(unit, count));
        for ((range, attributes), unit) in self.entries.iter().zip(units) {
            self.found.names.push(Name::new(&texts[range], unit, attributes));
        }
        let of_entries = self.entries.main.map(|main| MainFunction {
            name: &texts[self.entries.range(main.name)],
            language: main.language,
            is_stated: main.is_stated,
        });
        self.found.main = of_entries.or(self.found.main);
        self.found
    }
}
