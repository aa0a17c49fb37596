//! Computes the addresses of all symbols, once sections have theirs.
//!
//! Relocations ask for symbols' addresses millions of times. To find an address, the linker has to look up
//! the symbol's object, its section and its output section. It is cheaper to do this once for each symbol, in
//! parallel, than at each relocation.

use crate::arch::Target;
use crate::ids::SymbolId;
use crate::input::ObjectFile;
use crate::input::object::SymbolPlace;
use crate::phase::{Geometry, SectionState};
use crate::relocs::address;
use crate::rows::filled;
use crate::symbols::{Definition, Needs};
use parallel::{IntoParallel, ParallelSlice};

/// The address of each symbol, for [`crate::phase::Located::values`].
pub fn all<T: Target>(link: &Geometry<'_, T>) -> Vec<u64> {
    let mut values = filled(0u64, link.symbols.len());
    let (globals, mut locals) = values.split_at_mut(link.globals.len());
    let mut jobs = Vec::with_capacity(link.objects.len());
    for object in &link.objects {
        let (own, rest) = locals.split_at_mut(object.local_rows());
        locals = rest;
        jobs.push((object, own));
    }
    jobs.into_par_iter().for_each(|(object, values)| {
        for (index, value) in values.iter_mut().enumerate() {
            *value = symbol_address(link, object, index, SymbolId(object.first_local + index as u32));
        }
    });
    globals.par_iter_mut().enumerate().with_min_len(1024).for_each(|(row, value)| {
        *value = global_address(link, SymbolId(row as u32));
    });
    values
}

/// The address of one symbol.
pub fn of<T: Target>(link: &Geometry<'_, T>, id: SymbolId) -> u64 {
    match link.symbol_entry(id) {
        _ if link.globals.contains(id) => global_address(link, id),
        Some((file, index)) => symbol_address(link, &link.objects[file.index()], index as usize, id),
        None => 0,
    }
}

fn global_address<T: Target>(link: &Geometry<'_, T>, id: SymbolId) -> u64 {
    let needs = link.symbol_needs(id);
    if needs.contains(Needs::COPY)
        && let Some(address) = address::copy(link, id)
    {
        return address;
    }
    match link.definition(id) {
        Definition::Shared { .. } if needs.contains(Needs::CANONICAL_PLT) => address::plt(link, id),
        Definition::Object { file, symbol } => {
            symbol_address(link, &link.objects[file.index()], symbol as usize, id)
        }
        Definition::Linker(row) => link.linker_values[row as usize].value,
        Definition::Shared { .. } | Definition::Undefined => 0,
    }
}

#[inline]
fn symbol_address<T: Target>(
    link: &Geometry<'_, T>,
    object: &ObjectFile<'_, T::E>,
    index: usize,
    id: SymbolId,
) -> u64 {
    let Some(symbol) = object.symbols.get(index) else { return 0 };
    match object.symbol_place(index) {
        SymbolPlace::Undefined => 0,
        SymbolPlace::Absolute => symbol.st_value.get(),
        SymbolPlace::Common => match link.common_place(id) {
            Some(common) => link.section_address(common.section).wrapping_add(common.offset),
            None => 0,
        },
        SymbolPlace::Section(section) => {
            let section = object.section_id(section);
            let value = symbol.st_value.get();
            if link.sections.is(section, SectionState::ABSORBED) {
                return link.absorbed_address(section, value);
            }
            if !link.sections.is_alive(section) {
                return 0;
            }
            link.section_address(section).wrapping_add(value)
        }
    }
}
