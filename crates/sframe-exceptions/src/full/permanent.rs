//! Which addresses never change their meaning: those of the program, and of the libraries that it was started
//! with. A library that is loaded later may be unloaded, and another one may come to its place.
//!
//! The dynamic linker calls the program's `.preinit_array` before any library runs, so what is loaded then is
//! what the program was started with.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::slice;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::cxx;
use crate::module::PT_LOAD;
use crate::modules::{self, Info};

/// Modules that are noted. Rows of others are looked up each time.
const MOST: usize = 128;

struct Range {
    start: AtomicU64,
    end: AtomicU64,
}

static RANGES: [Range; MOST] = [const { Range { start: AtomicU64::new(0), end: AtomicU64::new(0) } }; MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);

#[used]
#[unsafe(link_section = ".preinit_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    // SAFETY: the callback is of the right type.
    unsafe { modules::iterate(add, null_mut()) };
    cxx::note();
}

/// # Safety
/// The C library describes a module that is loaded.
unsafe extern "C" fn add(info: *mut Info, _: usize, _: *mut c_void) -> c_int {
    // SAFETY: as the caller says.
    let (info, headers) = unsafe { (&*info, slice::from_raw_parts((*info).headers, (*info).count.into())) };
    let loaded = || headers.iter().filter(|header| header.kind == PT_LOAD);
    let start = loaded().map(|header| header.address).min();
    let end = loaded().map(|header| header.address.wrapping_add(header.memory_size)).max();
    let number = COUNT.load(Ordering::Relaxed);
    if let (Some(start), Some(end), Some(range)) = (start, end, RANGES.get(number)) {
        range.start.store(info.bias.wrapping_add(start), Ordering::Relaxed);
        range.end.store(info.bias.wrapping_add(end), Ordering::Relaxed);
        COUNT.store(number + 1, Ordering::Release);
    }
    0
}

/// Whether an address belongs to a module that the program was started with.
pub fn contains(address: u64) -> bool {
    let ranges = RANGES.get(..COUNT.load(Ordering::Acquire)).unwrap_or_default();
    ranges.iter().any(|range| {
        let [start, end] = [&range.start, &range.end].map(|bound| bound.load(Ordering::Relaxed));
        (start..end).contains(&address)
    })
}
