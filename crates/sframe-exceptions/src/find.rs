//! The hooks of libgcc: `_Unwind_Find_FDE` and `_dl_find_object`.
//!
//! Another definition in the program's objects or archives counts instead, because these are weak: that of
//! the C library in a static program, and that of an unwinder that finds frames in its own way (`modules`).

use core::ffi::{c_int, c_void};
use core::mem::transmute;
use core::ptr::null;
#[cfg(feature = "shared")]
use core::sync::atomic::{AtomicBool, Ordering};

use crate::arena::{Arena, Made};
#[cfg(not(feature = "shared"))]
use crate::module::Module;
use crate::place::{Place, header_of, next_find_fde, next_find_object};
use crate::registered;
use crate::search_table;
use crate::synthesize::Frame;
use crate::system::{self, Bases, Object};

static ARENA: Arena = Arena::new();

/// Whether anybody has asked for an FDE.
#[cfg(feature = "shared")]
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// libgcc's look-up of the FDE for an address.
///
/// Most code without a table has an FDE that its module's `.eh_frame_hdr` leads to. It is looked up here,
/// because the next definition would ask the dynamic linker again, and so the other hook. The next definition
/// knows more: frames that programs registered, and headers of other forms.
///
/// # Safety
/// `bases` can be written.
unsafe extern "C" fn sframe_exceptions_find_fde(pc: *const c_void, bases: *mut Bases) -> *const u8 {
    #[cfg(feature = "shared")]
    if !IS_ASKED.load(Ordering::Relaxed) {
        IS_ASKED.store(true, Ordering::Relaxed);
    }
    let address = pc as u64;
    let (fde, function) = match ARENA.hot(address) {
        Some(made) => (made.fde(), made.function),
        None => {
            let module = Place::of(pc);
            let known = match made(&module, address) {
                Some(made) => Some((made.fde(), made.function)),
                // SAFETY: the header is that of a loaded module.
                None => module.search_table.and_then(|header| unsafe { search_table::find(header, address) }),
            };
            match known {
                Some(known) => known,
                None => {
                    // SAFETY: this call goes on.
                    return unsafe { registered::find(address, bases) }
                        .or_else(|| Some(unsafe { next_find_fde()?(pc, bases) }))
                        .unwrap_or(null());
                }
            }
        }
    };
    // SAFETY: as the caller says.
    unsafe { bases.write(Bases { text: null(), data: null(), function: function as *const c_void }) };
    fde
}

/// glibc's look-up of a module, for copies of libgcc that do not ask for FDEs here.
unsafe extern "C" fn sframe_exceptions_find_object(pc: *const c_void, object: *mut Object) -> c_int {
    let Some(next) = next_find_object() else { return -1 };
    // SAFETY: this call goes on.
    let result = unsafe { next(pc, object) };
    if result != 0 {
        return result;
    }
    // SAFETY: the next definition filled it.
    let place = Place { start: header_of(unsafe { &*object }), search_table: None };
    if let Some(made) = ARENA.hot(pc as u64).or_else(|| made(&place, pc as u64)) {
        // SAFETY: as above.
        unsafe { (*object).eh_frame = made.header().cast() };
    }
    result
}

weak!("_Unwind_Find_FDE", sframe_exceptions_find_fde);
weak!("_dl_find_object", sframe_exceptions_find_object);

/// The frame for an address in a module, if the module's table has it.
fn made(place: &Place, pc: u64) -> Option<&'static Made> {
    let table = place.unwind_table()?;
    let found = table.look_up_whole(pc).ok()??;
    let frame = Frame::new(table.header().abi, &found)?;
    let made = ARENA.keep::<system::Kernel>(&frame, found.function, found.start, found.size)?;
    if place.is_program() {
        ARENA.remember(pc, made);
    }
    Some(made)
}

/// Runs at start-up.
#[used]
#[unsafe(link_section = ".init_array")]
static CHECK: extern "C" fn() = check;

/// Looks for what look-ups need, while that is no matter of signals. Then it asks the unwinder for a function
/// that only the table knows. If it does not find it, no exception would find its handler, and the program
/// would end without a word at the first one.
#[cfg(not(feature = "shared"))]
extern "C" fn check() {
    let (_, _) = (next_find_fde(), next_find_object());
    // SAFETY: this is the program's own header, or null.
    let module = unsafe { Module::at(system::program()) };
    if module.is_none() && !system::program().is_null() {
        system::stop(
            "the program headers are not where the linker put them, so that nothing finds the table, and no exception \
             would be caught: a tool has changed the program since its link, such as BOLT, which moves code that the \
             table describes, too; let no such tool change it, or link with --unwind-table=none\n",
        );
    }
    let Some(module) = module.filter(|module| module.table.is_some()) else {
        // Programs that keep `.eh_frame` beside the table, or load libraries with tables, need no check.
        return;
    };
    let own = check as *const () as u64;
    let found = module.unwind_table().map(|table| table.look_up_whole(own).map(|found| found.is_some()));
    match found {
        Some(Ok(true)) => {}
        Some(Ok(false)) => return,
        Some(Err(_)) | None => {
            system::stop("the program's table is damaged, so no exception would be caught\n")
        }
    }
    #[cfg(feature = "full")]
    crate::full::check();
    // SAFETY: the symbol is libgcc's function of this type.
    if unsafe { enclosing(own) }.is_some_and(|found| found != own) {
        system::stop(
            "the unwinder does not look functions up in this program, so no exception would be caught: another \
             definition of _Unwind_Find_FDE comes before the program's, or the program does not export its own; \
             link with --unwind-table=none\n",
        );
    }
}

/// Looks whether libgcc asks this library: it asks the first definition, and a library that is loaded late
/// has a later one.
#[cfg(feature = "shared")]
extern "C" fn check() {
    let (_, _) = (next_find_fde(), next_find_object());
    // SAFETY: the address is that of a function.
    let asked = unsafe { enclosing(check as *const () as u64) };
    if asked.is_some() && !IS_ASKED.load(Ordering::Relaxed) {
        system::stop(
            "the unwinder does not look functions up in this library, so exceptions would not pass libraries with a \
             table: LD_PRELOAD it, or link the program with it before -lgcc_s\n",
        );
    }
}

/// Asks libgcc for the function of an address. `None`: there is no libgcc.
///
/// # Safety
/// There are no conditions.
unsafe fn enclosing(address: u64) -> Option<u64> {
    type Enclosing = unsafe extern "C" fn(*const c_void) -> *const c_void;
    let name = c"_Unwind_FindEnclosingFunction";
    let asked = match system::enclosing_function() {
        0 => system::of_libgcc(name),
        found => found,
    };
    // SAFETY: the symbol is libgcc's function of this type.
    let ask = || unsafe { transmute::<usize, Enclosing>(asked)((address + 1) as *const c_void) };
    (asked != 0).then(|| ask() as u64)
}
