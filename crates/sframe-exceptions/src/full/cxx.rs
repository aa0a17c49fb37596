//! The personality routine of C++, whose answers [`pads`](crate::pads) knows.
//!
//! It is told by its name, and must be the one of the C++ library: whoever puts another one before it wants
//! it to be asked. The library's is in one module with `__cxa_call_unexpected`, since both C++ libraries have
//! the two in one object file: a program without a dynamic linker that has its own routine lacks the other.
//! Nobody takes the other's address, so that is never one of the program's procedure linkage table, as the
//! routine's is where code is not position-independent; what that leads to is not known, and it is asked.
//! A program may also wrap the library's routine (`--wrap`).

use core::arch::global_asm;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::module::Module;
use crate::place::{Place, next_find_object};
use crate::system;

/// Its address, once the program was relocated. 0: it is not known.
static ROUTINE: AtomicU64 = AtomicU64::new(0);

// The routine; what a program has that wraps it; what comes with it.
global_asm!(
    ".pushsection .data.rel.ro.sframe_cxx, \"aw\", %progbits",
    ".balign 8",
    ".hidden sframe_exceptions_cxx",
    ".globl sframe_exceptions_cxx",
    "sframe_exceptions_cxx:",
    ".weak __gxx_personality_v0",
    ".8byte __gxx_personality_v0",
    ".weak __real___gxx_personality_v0",
    ".8byte __real___gxx_personality_v0",
    ".weak __cxa_call_unexpected",
    ".8byte __cxa_call_unexpected",
    ".popsection",
);

unsafe extern "C" {
    static sframe_exceptions_cxx: [usize; 3];
}

/// Finds the routine, before any code of the program runs.
pub fn note() {
    // SAFETY: the list is above, and nobody writes to it after the program was relocated.
    let [routine, wrapped, companion] = unsafe { sframe_exceptions_cxx };
    if routine != 0 && wrapped == 0 && companion != 0 && are_together(routine, companion) {
        ROUTINE.store(routine as u64, Ordering::Relaxed);
    }
}

/// Whether two addresses are in one module.
fn are_together(one: usize, other: usize) -> bool {
    if next_find_object().is_none() {
        // SAFETY: this is the program's own header, or null.
        return unsafe { Module::at(system::program()) }.is_some_and(|module| !module.is_dynamic);
    }
    let [one, other] = [one, other].map(|address| Place::of(address as *const c_void).start);
    one == other && !one.is_null()
}

/// Whether a personality routine is that of C++.
pub fn is_routine(personality: u64) -> bool {
    personality != 0 && personality == ROUTINE.load(Ordering::Relaxed)
}
