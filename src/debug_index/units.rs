//! Prepares units for reading, within the measure of their file.
//!
//! A unit takes only a few bytes. Many units may refer to one table of abbreviations, to the middle of
//! another one, or to one line table, and a reader that follows each reference takes quadratic time. So this
//! module keeps each table of abbreviations that it has read. No index needs line tables, so it does not read
//! them (gimli by itself would read one line table header for each unit).

use super::dwarf::{Dwarf, Reader, Unit};
use crate::input::measure::{Budget, Exceeded};
use gimli::{
    Abbreviations, AttributeValue as Value, DebugAbbrevOffset, Reader as _, Section, UnitHeader, UnitType,
};
use hashbrown::HashMap;
use std::fmt;
use std::sync::Arc;

/// The memory that a table of abbreviations takes, as a multiple of its own bytes.
const TABLE_FACTOR: u64 = 16;

/// Why debug information cannot be read.
#[derive(Debug)]
pub enum Unreadable {
    /// Its encoding is wrong.
    Malformed(gimli::Error),
    /// It uses the same bytes too often.
    Exceeded,
}

/// The result of reading debug information.
pub type Result<V> = std::result::Result<V, Unreadable>;

impl From<gimli::Error> for Unreadable {
    fn from(error: gimli::Error) -> Self {
        Unreadable::Malformed(error)
    }
}

impl From<Exceeded> for Unreadable {
    fn from(Exceeded: Exceeded) -> Self {
        Unreadable::Exceeded
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Malformed(error) => error.fmt(f),
            Unreadable::Exceeded => f.write_str(
                "names, ranges of addresses or abbreviations of its units overlap beyond measure, so the index omits this file",
            ),
        }
    }
}

/// The tables of abbreviations of a file, by offset.
#[derive(Default)]
pub struct Tables(HashMap<DebugAbbrevOffset, Arc<Abbreviations>>);

impl Tables {
    /// Reads a unit, without its line table.
    ///
    /// # Errors
    /// The encoding of its abbreviations or its first entry is wrong, or the measure is exceeded.
    pub fn unit<'s, 'a>(
        &mut self,
        dwarf: &Dwarf<'s, 'a>,
        header: UnitHeader<Reader<'s, 'a>>,
        measure: &mut Budget,
    ) -> Result<Unit<'s, 'a>> {
        let offset = header.debug_abbrev_offset();
        let abbreviations = match self.0.get(&offset) {
            Some(known) => known.clone(),
            None => {
                measure.take(table_length(dwarf, offset)?.saturating_mul(TABLE_FACTOR))?;
                let read = dwarf.abbreviations(&header)?;
                self.0.insert(offset, read.clone());
                read
            }
        };
        let (encoding, kind) = (header.encoding(), dwarf.file_type);
        let dwo_id = match header.type_() {
            UnitType::Skeleton(id) | UnitType::SplitCompilation(id) => Some(id),
            _ => None,
        };
        let mut unit = Unit {
            header,
            abbreviations,
            name: None,
            comp_dir: None,
            low_pc: 0,
            str_offsets_base: gimli::DebugStrOffsetsBase::default_for_encoding_and_file(encoding, kind),
            addr_base: gimli::DebugAddrBase(0),
            loclists_base: gimli::DebugLocListsBase::default_for_encoding_and_file(encoding, kind),
            rnglists_base: gimli::DebugRngListsBase::default_for_encoding_and_file(encoding, kind),
            line_program: None,
            dwo_id,
        };
        read_first_entry(dwarf, &mut unit, measure)?;
        Ok(unit)
    }
}

/// Reads what the first entry of a unit says of the whole unit.
fn read_first_entry<'s, 'a>(
    dwarf: &Dwarf<'s, 'a>,
    unit: &mut Unit<'s, 'a>,
    measure: &mut Budget,
) -> Result<()> {
    // The entry itself holds the bases for its addresses and strings, so these come first.
    let (mut folder, mut low) = (None, None);
    let abbreviations = unit.abbreviations.clone();
    let mut entries = unit.header.entries_raw(&abbreviations, None)?;
    let first = entries.read_abbreviation()?.ok_or(gimli::Error::MissingUnitDie)?;
    measure.take(first.attributes().len() as u64)?;
    for &specification in first.attributes() {
        let attribute = entries.read_attribute(specification)?;
        match (attribute.name(), attribute.value()) {
            (gimli::DW_AT_comp_dir, value) => folder = Some(value),
            (gimli::DW_AT_low_pc, value) => low = Some(value),
            (_, Value::DebugStrOffsetsBase(base)) => unit.str_offsets_base = base,
            (_, Value::DebugAddrBase(base)) => unit.addr_base = base,
            (_, Value::DebugLocListsBase(base)) => unit.loclists_base = base,
            (_, Value::DebugRngListsBase(base)) => unit.rnglists_base = base,
            (gimli::DW_AT_GNU_dwo_id, Value::DwoId(id)) => unit.dwo_id = unit.dwo_id.or(Some(id)),
            _ => {}
        }
    }
    unit.comp_dir = folder.and_then(|value| dwarf.attr_string(unit, value).ok());
    if let Some(value) = low {
        unit.low_pc = dwarf.attr_address(unit, value)?.unwrap_or(0);
    }
    Ok(())
}

/// Size in bytes of the table of abbreviations at this offset, up to the first error.
fn table_length(dwarf: &Dwarf<'_, '_>, offset: DebugAbbrevOffset) -> gimli::Result<u64> {
    let mut rest = dwarf.debug_abbrev.reader().clone();
    rest.skip(offset.0)?;
    let start = rest.len();
    // The error comes up again when the table is read.
    let _ = skip_table(&mut rest);
    Ok((start - rest.len()) as u64)
}

fn skip_table(rest: &mut impl gimli::Reader) -> gimli::Result<()> {
    while rest.read_uleb128()? != 0 {
        rest.read_uleb128()?;
        rest.read_u8()?;
        loop {
            let (name, form) = (rest.read_uleb128()?, rest.read_uleb128()?);
            if form == u64::from(gimli::DW_FORM_implicit_const.0) {
                rest.read_sleb128()?;
            }
            if (name, form) == (0, 0) {
                break;
            }
        }
    }
    Ok(())
}
