//! Rows for thunks, which the layout makes when everything else of the table is settled.
//!
//! A thunk that a call goes through leaves the stack and the return address alone: one row describes it. Thunks come
//! inside the layout's loop and never go away again; each gets its function at once, for that makes the table larger.
//!
//! An instruction that was moved away from an erratum runs in the frame of the function that it was taken from. It has
//! no row here.

use super::collect::{Described, Origin, Place};
use super::plt;
use crate::arch::Target;
use crate::arch::target::PltFrame;
use crate::link::Link;
use crate::synth::Kind;
use crate::synth::thunks::Purpose;
use sframe_format::write::Function;

/// At the start of a thunk and all through it.
const FRAME: PltFrame = PltFrame { start: 0, pushed: 0, return_address: None };

/// Describes thunks that are new. Gives whether the table has grown.
pub fn update_size<T: Target>(link: &mut Link<'_, T>) -> bool {
    if !link.config.sframe.plt || link.thunks.all.is_empty() {
        return false;
    }
    let Some(row) = link.synthetics.find(Kind::SFrame) else { return false };
    // A table of nothing is not in the output, and does not come into it for the sake of a thunk.
    let Some(table) = link.sframe.table.as_mut().filter(|table| !table.functions.is_empty()) else {
        return false;
    };
    let mut function = Function { rows: vec![plt::row_of::<T>(&FRAME)], ..Function::default() };
    let own = link.sframe.batches.iter_mut().find(|batch| batch.origin == Origin::Plt);
    let before = table.functions.len();
    for thunk in &link.thunks.all[table.thunks..] {
        let size = T::thunk_size(thunk.form) as u32;
        function.size = size;
        if !matches!(thunk.purpose, Purpose::Moved(..)) && table.encoder.add(&function).is_ok() {
            let place =
                Place { section: link.thunks.pools[thunk.pool as usize].section, offset: thunk.offset };
            table.functions.push(Described { place, size, rows: 1 });
        }
    }
    table.thunks = link.thunks.all.len();
    if let Some(own) = own {
        own.functions.extend_from_slice(&table.functions[before..]);
    }
    link.synthetics.sections[row as usize].size = table.encoder.size() as u64;
    table.functions.len() > before
}
