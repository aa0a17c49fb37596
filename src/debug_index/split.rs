//! Split debug information (`-gsplit-dwarf`): reads the file with the entries of a skeleton unit.
//!
//! The linker reads the file only if the object itself lists no names for the unit.

use super::dwarf::{Dwarf, Section, Unit};
use super::entries::{self, EntryNames};
use super::units::{Result as Reading, Tables, Unreadable};
use super::view::Debugged;
use crate::input::measure::Budget;
use crate::input::source_lines::section_bytes;
use crate::input::{InputSource, InputStore};
use gimli::{Reader, SectionId};
use object::Endianness;
use object::read::elf::ElfFile64;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The path of the file that a skeleton unit refers to. `None`: the unit is no skeleton.
pub fn path<'s, 'a>(
    dwarf: &Dwarf<'s, 'a>,
    unit: &Unit<'s, 'a>,
    measure: &mut Budget,
) -> Reading<Option<PathBuf>> {
    let Some(name) = unit.dwo_name()? else { return Ok(None) };
    let name = dwarf.attr_string(unit, name)?;
    let name = name.to_slice()?;
    let folder = match &unit.comp_dir {
        Some(folder) => folder.to_slice()?.into_owned(),
        None => Vec::new(),
    };
    measure.take((folder.len() + name.len()) as u64)?;
    Ok(Some(Path::new(OsStr::from_bytes(&folder)).join(OsStr::from_bytes(&name))))
}

/// Adds the names of all units in the file. `is_new` files raise the measure; any number of units may refer
/// to one file.
///
/// # Errors
/// The file cannot be read, or the measure is exceeded.
pub fn read<'a>(
    object: &dyn Debugged<'a>,
    path: &Path,
    is_new: bool,
    source: &dyn InputSource,
    store: &'a InputStore,
    found: &mut EntryNames,
) -> Result<(), String> {
    let bytes = store.keep_file(source.read(path).map_err(|error| error.to_string())?);
    let file = ElfFile64::<Endianness>::parse(bytes).map_err(|error| error.to_string())?;
    if is_new {
        found.measure.extend(bytes.len() as u64);
    }
    let empty = Section::empty(object);
    let measure = &mut found.measure;
    let reader =
        |bytes: &'a [u8]| gimli::RelocateReader::new(gimli::EndianSlice::new(bytes, object.endian()), &empty);
    let mut dwarf: Dwarf<'_, 'a> = gimli::Dwarf::load(|id: SectionId| {
        let bytes = id.dwo_name().and_then(|name| section_bytes(&file, name)).unwrap_or_default();
        if is_new {
            measure.extend(bytes.len() as u64);
        }
        measure.take(bytes.len() as u64)?;
        Ok::<_, Unreadable>(reader(store.keep(bytes)))
    })
    .map_err(|error| error.to_string())?;
    dwarf.file_type = gimli::DwarfFileType::Dwo;
    let mut units = dwarf.units();
    let mut types = dwarf.type_units();
    let mut tables = Tables::default();
    let headers = std::iter::from_fn(|| units.next().transpose().or_else(|| types.next().transpose()));
    for header in headers {
        let header = header.map_err(|error| error.to_string())?;
        let unit = tables.unit(&dwarf, header, &mut found.measure).map_err(|error| error.to_string())?;
        entries::read(&dwarf, &unit, found).map_err(|error| error.to_string())?;
    }
    Ok(())
}
