//! The row of an address, from whoever has it.

use core::ffi::c_void;
use core::ptr::null;

use sframe_format::cfi::Saved;
use sframe_format::signal::KernelFrame;

use super::{cxx, permanent};
use crate::cache::Cache;
use crate::context::Context;
use crate::fde;
use crate::pads;
use crate::place::{Place, next_find_fde};
use crate::registered;
use crate::registers::{ABI, PROGRAM_COUNTER, STACK_POINTER, is_native};
use crate::row::{Cfa, How, Row, Rule, flags};
use crate::search_table;
use crate::system::{self, Bases};

static CACHE: Cache = Cache::new();

/// Fills in the row that describes a frame, and tells the context whose frame it is. `false`: nobody knows.
///
/// # Safety
/// The context is that of a frame on the stack of this thread.
#[inline]
pub unsafe fn find(context: &mut Context, row: &mut Row) -> bool {
    // SAFETY: as the caller says.
    if !CACHE.get(context.address(), row) && unsafe { search(context, row) }.is_none() {
        (context.function, context.data) = (0, 0);
        return false;
    }
    (context.function, context.data) = (row.function, row.data);
    true
}

/// # Safety
/// As [`find`] says.
#[cold]
#[inline(never)]
unsafe fn search(context: &Context, row: &mut Row) -> Option<()> {
    let address = context.address();
    let place = Place::of(address as *const c_void);
    // SAFETY: the modules are loaded, since their code is on the stack.
    unsafe {
        if by_table(&place, address, row).or_else(|| by_header(&place, address, row)).is_some() {
            if place.is_program() || permanent::contains(address) {
                if cxx::is_routine(row.personality) {
                    row.pad = pads::of(row.function, row.data, address);
                }
                CACHE.put(address, row);
            }
            return Some(());
        }
        by_registered(address, row).or_else(|| by_kernel(context, row))
    }
}

/// # Safety
/// The module is loaded.
unsafe fn by_table(place: &Place, address: u64, row: &mut Row) -> Option<()> {
    let table = place.unwind_table().filter(|table| is_native(table.header().abi))?;
    // SAFETY: as the caller says.
    unsafe { row.take(ABI, &table.look_up_whole(address).ok()??) }
}

/// # Safety
/// The module is loaded.
unsafe fn by_header(place: &Place, address: u64, row: &mut Row) -> Option<()> {
    // SAFETY: as the caller says.
    unsafe {
        let (fde, _) = search_table::find(place.search_table?, address)?;
        fde::read(fde, 0, 0, address, row)
    }
}

/// Frames that were registered with the program or with libgcc, and headers of rare forms.
///
/// # Safety
/// The code at the address is still there.
unsafe fn by_registered(address: u64, row: &mut Row) -> Option<()> {
    let mut bases = Bases { text: null(), data: null(), function: null() };
    // SAFETY: as the caller says; libgcc writes to the bases, and returns an FDE or null.
    unsafe {
        let fde = match registered::find(address, &raw mut bases) {
            Some(fde) => fde,
            None => next_find_fde()?(address as *const c_void, &raw mut bases),
        };
        if fde.is_null() { None } else { fde::read(fde, bases.text as u64, bases.data as u64, address, row) }
    }
}

/// The frame that the kernel made for a signal handler, for which the trampoline has no row.
///
/// # Safety
/// As [`find`] says.
unsafe fn by_kernel(context: &Context, row: &mut Row) -> Option<()> {
    let mut read = |at: u64| {
        if !system::is_readable(at) {
            return Err(());
        }
        // SAFETY: the word can be read.
        Ok(unsafe { (at as *const u64).read_unaligned() })
    };
    let frame = KernelFrame::of(ABI, context.registers[PROGRAM_COUNTER], &mut read)?;
    row.clear(PROGRAM_COUNTER as u8);
    let at = context.registers[STACK_POINTER];
    row.set_cfa(Cfa::Register { place: STACK_POINTER as u8, offset: 0 });
    for (register, at) in frame.registers().chain([(ABI.stack_pointer(), frame.stack_pointer)]) {
        row.restore(register, Saved::AtCfa(at as i64))?;
    }
    let (value, place) = (frame.program_counter as i32, PROGRAM_COUNTER as u8);
    row.push(Rule { value, length: 0, place, how: How::AtCfa })?;
    row.set(flags::SIGNAL, !frame.is_behind(at, &mut read));
    Some(())
}
