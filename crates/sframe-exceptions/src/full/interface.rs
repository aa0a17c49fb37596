//! What personality routines, stop functions and callbacks ask about a frame, and the end of exceptions.
//!
//! Contexts may be libgcc's: glibc ends threads by libgcc_s, whose contexts reach the personality routines of
//! the program's own functions. Those questions go to libgcc_s.

use core::ffi::{CStr, c_int, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, Ordering};

use super::phases::{self, Exception, Trace};
use crate::context::Context;
use crate::place::OfLibgcc;
use crate::registers::{PROGRAM_COUNTER, place};
use crate::system;

/// A function of libgcc_s, which answers for a context of its own kind.
///
/// Its tables are made when it unwinds for the first time. The context may come from another copy of libgcc,
/// in a shared library, so that may not have happened yet.
fn of_libgcc(function: &OfLibgcc) -> usize {
    static BACKTRACE: OfLibgcc = OfLibgcc::new(c"_Unwind_Backtrace");
    static IS_READY: AtomicBool = AtomicBool::new(false);
    type Backtrace = unsafe extern "C" fn(Trace, *mut c_void) -> c_int;
    unsafe extern "C" fn stop(_: *mut Context, _: *mut c_void) -> c_int {
        phases::END_OF_STACK
    }
    let (Some(address), Some(backtrace)) = (function.address(), BACKTRACE.address()) else {
        system::abort("a context is not one of this unwinder\n")
    };
    if !IS_READY.load(Ordering::Acquire) {
        // SAFETY: the symbol is libgcc's function of this type.
        unsafe { transmute::<usize, Backtrace>(backtrace)(stop, null_mut()) };
        IS_READY.store(true, Ordering::Release);
    }
    address
}

/// Defines a function that answers by our context, or has libgcc_s answer.
macro_rules! question {
    ($name:ident, $spelled:literal, ($context:ident $(, $argument:ident: $kind:ty)*) -> $result:ty, $own:expr) => {
        #[doc = concat!("`", $spelled, "`.")]
        ///
        /// # Safety
        /// The context is one that an unwinder handed out.
        #[unsafe(export_name = $spelled)]
        unsafe extern "C" fn $name($context: *mut Context $(, $argument: $kind)*) -> $result {
            /// It stands by itself, so that the usual way saves no registers.
            #[cold]
            #[inline(never)]
            unsafe extern "C" fn of_other(context: *mut Context $(, $argument: $kind)*) -> $result {
                static OTHER: OfLibgcc = OfLibgcc::new(match CStr::from_bytes_with_nul(concat!($spelled, "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!(),
                });
                type Function = unsafe extern "C" fn(*mut Context $(, $kind)*) -> $result;
                // SAFETY: as the caller says; the symbol is libgcc's function of this type.
                unsafe { transmute::<usize, Function>(of_libgcc(&OTHER))(context $(, $argument)*) }
            }
            // SAFETY: as the caller says.
            unsafe {
                if Context::is_own($context) {
                    let $context = &mut *$context;
                    return $own;
                }
                of_other($context $(, $argument)*)
            }
        }
    };
}

question!(get_register, "_Unwind_GetGR", (context, register: c_int) -> u64, {
    register_of(context, register).map_or(0, |value| *value)
});
question!(set_register, "_Unwind_SetGR", (context, register: c_int, value: u64) -> (), {
    if let Some(place) = register_of(context, register) {
        *place = value;
    }
});
question!(get_address, "_Unwind_GetIP", (context) -> u64, context.registers[PROGRAM_COUNTER]);
question!(get_address_and_kind, "_Unwind_GetIPInfo", (context, interrupted: *mut c_int) -> u64, {
    *interrupted = context.interrupted.into();
    context.registers[PROGRAM_COUNTER]
});
question!(set_address, "_Unwind_SetIP", (context, address: u64) -> (), {
    context.registers[PROGRAM_COUNTER] = address;
});
question!(get_cfa, "_Unwind_GetCFA", (context) -> u64, context.cfa);
question!(get_data, "_Unwind_GetLanguageSpecificData", (context) -> u64, context.data);
question!(get_start, "_Unwind_GetRegionStart", (context) -> u64, context.function);
// No machine here has pointers that count from data or text.
question!(get_data_base, "_Unwind_GetDataRelBase", (context) -> u64, {
    let _ = context;
    0
});
question!(get_text_base, "_Unwind_GetTextRelBase", (context) -> u64, {
    let _ = context;
    0
});

fn register_of(context: &mut Context, register: c_int) -> Option<&mut u64> {
    context.registers.get_mut(place(u32::try_from(register).ok()?)?)
}

/// `_Unwind_DeleteException`.
///
/// # Safety
/// The exception is caught, and nobody needs it any more.
#[unsafe(export_name = "_Unwind_DeleteException")]
unsafe extern "C" fn delete_exception(exception: *mut Exception) {
    const FOREIGN_EXCEPTION_CAUGHT: c_int = 1;
    // SAFETY: as the caller says.
    unsafe {
        if let Some(cleanup) = (*exception).cleanup {
            cleanup(FOREIGN_EXCEPTION_CAUGHT, exception);
        }
    }
}

/// `_Unwind_FindEnclosingFunction`: of the address before, which is in the call if this is a return address.
#[unsafe(export_name = "_Unwind_FindEnclosingFunction")]
extern "C" fn find_enclosing_function(address: *const c_void) -> *mut c_void {
    if address.is_null() { null_mut() } else { phases::enclosing_function(address as u64) }
}
