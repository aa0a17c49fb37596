//! `.gdb_index`: writes the index, with the places of its units and addresses in the output.

use super::synthesis::{Create, Created, Grow, Ingredients, Size, Synthesis, Write, bytes};
use crate::arch::Target;
use crate::debug_index::gdb_index::Index;
use crate::debug_index::object::UnitPlace;
use crate::elf::consts as elf;
use crate::phase::Placed;
use crate::tables::section::{Kind, SyntheticSection};

/// `.gdb_index`.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| section(link).unwrap_or_default()),
        size: Size::Numbered(|link| bytes(link.debug_index.size)),
        grow: Grow::Never,
        write: Write::Bytes(|link, _, out| write(link, out)),
    }
}

/// The section, if `--gdb-index` asks for it. Compilers made lists of names for the linker to build it from.
/// The output has no use for these lists, so they are absorbed.
fn section<'a, T: Target>(link: &Ingredients<'_, 'a, T>) -> Option<Created<'a>> {
    if link.config.strip.gdb_index.is_none() || link.config.is_relocatable() {
        return None;
    }
    let lists = link.objects.iter().flat_map(|object| {
        let of_names = |&index: &usize| {
            let name = object.section_name(index);
            let name = name.strip_prefix(b".debug_").or_else(|| name.strip_prefix(b".zdebug_"));
            matches!(name, Some(b"gnu_pubnames" | b"gnu_pubtypes"))
        };
        (1..object.headers.len()).filter(of_names).map(|index| object.section_id(index as u32))
    });
    let section = SyntheticSection::new(Kind::GdbIndex, b".gdb_index", elf::SHT_PROGBITS, 0, 4);
    Some(Created { absorbed: lists.collect(), ..Some(section).into() })
}

/// Writes the section.
fn write<T: Target>(link: &Placed<'_, T>, out: &mut [u8]) {
    let index = &link.debug_index;
    let offset = |place: &UnitPlace| link.layout.offset_of(place.section).wrapping_add(place.offset);
    // Debuggers search for units by their offsets, and a script may change the order of objects.
    let (order, ranks) = ranks(&index.units, &offset);
    let units: Vec<(u64, u64)> =
        order.iter().map(|&row| &index.units[row as usize]).map(|unit| (offset(unit), unit.length)).collect();
    let places: Vec<UnitPlace> = index.type_units.iter().map(|unit| unit.place).collect();
    let (type_order, type_ranks) = self::ranks(&places, &offset);
    let type_units: Vec<(u64, u64, u64)> = type_order
        .iter()
        .map(|&row| &index.type_units[row as usize])
        .map(|unit| (offset(&unit.place), unit.type_offset, unit.signature))
        .collect();
    let areas: Vec<(u64, u64, u32)> = index
        .areas
        .iter()
        .map(|area| {
            let address = link.section_address(area.section);
            let (start, end) = area.range;
            (address.wrapping_add(start), address.wrapping_add(end), ranks[area.unit as usize])
        })
        .collect();
    let first_type = units.len() as u32;
    let renumber = |unit: u32| match unit.checked_sub(first_type) {
        None => ranks[unit as usize],
        Some(row) => first_type + type_ranks[row as usize],
    };
    let (symbols, shortcuts) = (&index.symbols, index.shortcuts);
    Index { units: &units, type_units: &type_units, areas: &areas, symbols, shortcuts }.write(&renumber, out);
}

/// The rows of units in the order of their offsets, and the place of each row in that order.
fn ranks(units: &[UnitPlace], offset: &dyn Fn(&UnitPlace) -> u64) -> (Vec<u32>, Vec<u32>) {
    let mut order: Vec<u32> = (0..units.len() as u32).collect();
    order.sort_by_key(|&row| offset(&units[row as usize]));
    let mut ranks = vec![0; units.len()];
    for (rank, &row) in (0..).zip(&order) {
        ranks[row as usize] = rank;
    }
    (order, ranks)
}
