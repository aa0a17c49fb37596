//! Joins the indexes of all objects, and numbers their units in link order.

use super::gdb_index::{self, MAX_UNITS, MainFunction, Name, Shortcuts, Symbols};
use super::object::{Area, ObjectIndex, TYPE_UNIT, TypeUnit, UnitPlace};
use parallel::ParallelSlice;

/// The index of a link, before units have addresses in the output.
#[derive(Debug, Default)]
pub struct DebugIndex<'a> {
    /// Compilation units, in link order.
    pub units: Vec<UnitPlace>,
    /// Type units, in link order.
    pub type_units: Vec<TypeUnit>,
    /// Addresses that units cover.
    pub areas: Vec<Area>,
    /// The names. Their unit numbers count `type_units` after `units`.
    pub symbols: Symbols<'a>,
    /// The main function, if the version of the format has it.
    pub shortcuts: Shortcuts<'a>,
    /// Size of the section in bytes.
    pub size: u64,
}

/// Joins the indexes of objects, which must come in link order, for an index with or without a main
/// function.
///
/// # Errors
/// What is too large for the format.
pub fn join(mut objects: Vec<ObjectIndex<'_>>, with_main: bool) -> Result<DebugIndex<'_>, String> {
    drop_unlisted_types(&mut objects);
    let units: usize = objects.iter().map(|object| object.units.len()).sum();
    let type_units: usize = objects.iter().map(|object| object.type_units.len()).sum();
    if units + type_units > MAX_UNITS {
        return Err(format!("the link has {} units, the section can name {MAX_UNITS}", units + type_units));
    }
    if units + type_units == 0 {
        return Ok(DebugIndex::default());
    }
    let mut bases = Vec::with_capacity(objects.len());
    let (mut unit, mut type_unit) = (0, units as u32);
    for object in &objects {
        bases.push((unit, type_unit));
        unit += object.units.len() as u32;
        type_unit += object.type_units.len() as u32;
    }
    let names = objects.par_iter_mut().zip(&bases).map(|(object, &(unit, type_unit))| {
        let mut names = std::mem::take(&mut object.names);
        names.iter_mut().for_each(|name| name.unit = numbered(name, unit, type_unit));
        names
    });
    let names: Vec<Vec<Name<'_>>> = names.collect();
    let symbols = Symbols::join(&names);
    let areas = objects.iter().zip(&bases);
    let areas: Vec<Area> = areas
        .flat_map(|(object, &(base, _))| {
            object.areas.iter().map(move |area| Area { unit: area.unit + base, ..*area })
        })
        .collect();
    let shortcuts = if with_main { Shortcuts::Main(main_function(&objects)) } else { Shortcuts::None };
    let size = gdb_index::size((units, type_units, areas.len()), &symbols, shortcuts)
        .ok_or("it would be larger than 4 GiB, which its offsets cannot express")?;
    Ok(DebugIndex {
        units: objects.iter().flat_map(|object| object.units.iter().copied()).collect(),
        type_units: objects.iter().flat_map(|object| object.type_units.iter().copied()).collect(),
        areas,
        symbols,
        shortcuts,
        size,
    })
}

/// The first function that debug information calls the main function, or else the first one of that name.
fn main_function<'a>(objects: &[ObjectIndex<'a>]) -> Option<MainFunction<'a>> {
    let all = || objects.iter().filter_map(|object| object.main);
    all().find(|main| main.is_stated).or_else(|| all().next())
}

fn numbered(name: &Name<'_>, unit: u32, type_unit: u32) -> u32 {
    match name.unit & TYPE_UNIT {
        0 => name.unit + unit,
        _ => (name.unit & !TYPE_UNIT) + type_unit,
    }
}

/// Drops the type units that the list cannot express. The list does not say in which section a type unit
/// lies, so a reader assumes `.debug_types` if there is one. Then the list must omit type units of DWARF 5.
/// Debuggers still find these by their signatures.
fn drop_unlisted_types(objects: &mut [ObjectIndex<'_>]) {
    let all = || objects.iter().flat_map(|object| &object.type_units);
    if !all().any(|unit| unit.in_types) || all().all(|unit| unit.in_types) {
        return;
    }
    for object in objects {
        let mut kept = 0;
        let numbers: Vec<Option<u32>> = object
            .type_units
            .iter()
            .map(|unit| {
                kept += u32::from(unit.in_types);
                unit.in_types.then(|| kept - 1)
            })
            .collect();
        object.type_units.retain(|unit| unit.in_types);
        object.names.retain_mut(|name| {
            if name.unit & TYPE_UNIT == 0 {
                return true;
            }
            let number = numbers[(name.unit & !TYPE_UNIT) as usize];
            name.unit = number.unwrap_or(0) | TYPE_UNIT;
            number.is_some()
        });
    }
}
