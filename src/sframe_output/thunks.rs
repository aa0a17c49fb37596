//! Rows for thunks, which the layout makes after `build_sframe` has chosen all other functions.
//!
//! A thunk for a call touches neither the stack nor the return address, so one row describes it. The loop of
//! the layout makes thunks and never removes one. Each thunk gets its function at once, because the function
//! makes the table larger, and the layout must see that.
//!
//! An instruction that was moved away from an erratum still runs in the frame of its function. So it gets the
//! rows that hold at its old place, or none if its function has none. If inputs stay in `.sframe` as they
//! are, the table does not contain their functions, and the linker reads these inputs again.

use super::{absorb, overlay, plt};
use crate::arch::Target;
use crate::arch::target::PltFrame;
use crate::arch::thunk::ThunkForm;
use crate::ids::FileId;
use crate::phase::{Contents, Geometry};
use crate::sframe::collect::{Batch, Chosen, CollectedFunction, Place, Role, Table, unite};
use crate::sframe::read;
use crate::tables::pools::{Purpose, Thunk, Thunks};
use crate::tables::section::Kind;
use sframe_format::write::{Encoder, Function, FunctionId, Taken};
use sframe_format::{Blob, Row};
use std::collections::BTreeSet;

/// The frame in all of a thunk: the thunk pushes nothing.
pub(super) const FRAME: PltFrame = PltFrame { start: 0, pushed: 0, return_address: None };

/// Adds functions for new thunks to the table. Returns their number.
pub fn describe<T: Target>(link: &Geometry<'_, T>, thunks: &Thunks, chosen: &mut Chosen) -> usize {
    if !link.config.sframe.plt || thunks.all.is_empty() || link.synthetics.find(Kind::SFrame).is_none() {
        return 0;
    }
    // The output omits an empty table. A thunk alone brings the table into the output only beside inputs that
    // stay, or if an option demands it.
    let alone = link.config.sframe.plt_alone || overlay::is_wanted(link.config);
    let Some(table) = chosen.table.as_mut().filter(|table| alone || !table.functions.is_empty()) else {
        return 0;
    };
    let new = &thunks.all[table.thunks..];
    let beside = functions_beside(link, new);
    let call = Function { rows: vec![plt::row_of::<T>(&FRAME)], ..Function::default() };
    let before = table.functions.len();
    for thunk in new {
        let size = T::thunk_size(thunk.form) as u32;
        let moved = match thunk.purpose {
            Purpose::Moved(section, offset) => Some(Place { section, offset }),
            Purpose::Call(_) | Purpose::Word(_) | Purpose::Landing(_) => None,
        };
        let function = match moved {
            Some(place) => {
                let size = T::thunk_size(ThunkForm::Moved);
                let mut tables = std::iter::once(&*table).chain(&beside);
                tables.find_map(|table| frame_at(table, place, size))
            }
            None => Some(call.clone()),
        };
        if let Some(mut function) = function {
            function.size = size;
            if table.encoder.add(&function).is_ok() {
                let section = thunks.pools[thunk.pool as usize].section;
                let place = Place { section, offset: thunk.offset };
                let rows = function.rows.len() as u32;
                table.functions.push(CollectedFunction { place, size, rows });
                table.veneers += usize::from(moved.is_some());
            }
        }
    }
    table.thunks = thunks.all.len();
    if let Some(plts) = &mut chosen.plts {
        plts.note(&table.functions[before..]);
    }
    table.functions.len() - before
}

/// The functions that inputs in `.sframe` describe, in the objects that instructions were moved from.
fn functions_beside<T: Target>(link: &Contents<'_, T>, thunks: &[Thunk]) -> Option<Table> {
    if !matches!(absorb::role_of_inputs(link), None | Some(Role::Present)) {
        return None;
    }
    let moved = thunks.iter().filter_map(|thunk| match thunk.purpose {
        Purpose::Moved(section, _) => link.section_file(section),
        Purpose::Call(_) | Purpose::Word(_) | Purpose::Landing(_) => None,
    });
    let objects: BTreeSet<FileId> = moved.collect();
    let batches: Vec<Batch> = objects
        .into_iter()
        .map(|file| read::object(link, &link.sections, &link.objects[file.index()]))
        .collect();
    (!batches.is_empty()).then(|| unite(link, &link.sections, &batches))
}

/// The rows that hold for `size` bytes at a place, as a function of its own. `None`: the table describes no
/// function there.
fn frame_at(table: &Table, place: Place, size: u64) -> Option<Function> {
    let settled = &table.functions[..table.settled];
    let number = settled.partition_point(|function| function.place <= place).checked_sub(1)?;
    let start = settled[number].place;
    if start.section != place.section || place.offset - start.offset >= settled[number].size.into() {
        return None;
    }
    let mut alone = Encoder::new(table.encoder.options().share(false));
    let id = alone.take(&table.encoder, FunctionId(number as u32), &mut Taken::default()).ok()?;
    let mut bytes = vec![0; alone.size()];
    alone.write(0, &[(0, id)], &mut bytes).ok()?;
    let blob = Blob::parse(&bytes, 0).ok()?;
    let mut function = Function::read(&blob, &blob.fde(0)?).ok()?;
    let at = u32::try_from(place.offset - start.offset).ok()?;
    let end = at.saturating_add(u32::try_from(size).ok()?);
    let last = function.rows.iter().rposition(|row| row.start <= at)?;
    let rows = function.rows[last..].iter().take_while(|row| row.start < end);
    function.rows = rows.map(|row| Row { start: row.start.saturating_sub(at), ..*row }).collect();
    Some(function)
}
