//! The module in which an address lies, and the look-ups of others: the dynamic linker's and libgcc's.

use core::ffi::c_void;
use core::mem::transmute;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sframe_format::CompactTable;

use crate::module::Module;
use crate::system::{self, FindFde, FindObject, Object};

/// What the program's addresses are moved by.
static BIAS: AtomicU64 = AtomicU64::new(UNKNOWN);
const UNKNOWN: u64 = u64::MAX;

/// The next definitions of the hooks. 0: not found yet.
static NEXT_FIND_FDE: AtomicUsize = AtomicUsize::new(0);
static NEXT_FIND_OBJECT: AtomicUsize = AtomicUsize::new(0);

/// The module of an address.
pub struct Place {
    /// Where its file header is, if it has one.
    pub start: *const u8,
    /// The address of its `.eh_frame_hdr`.
    pub search_table: Option<*const u8>,
}

impl Place {
    /// The module in which an address lies. Without a dynamic linker it can only be the program.
    pub fn of(pc: *const c_void) -> Self {
        match find_object(pc) {
            Some(object) => {
                let header = object.eh_frame.cast::<u8>();
                let search_table = Some(header).filter(|header| !header.is_null());
                Self { start: header_of(&object), search_table }
            }
            None => {
                let start = system::program();
                // SAFETY: this is the program's own header, or null.
                let module = unsafe { Module::at(start) };
                Self { start, search_table: module.and_then(|module| module.search_table) }
            }
        }
    }

    /// Its unwind table.
    pub fn unwind_table(&self) -> Option<CompactTable<&'static [u8]>> {
        // SAFETY: the dynamic linker says that a segment of a module is there, or it is the program.
        unsafe { Module::at(self.start) }?.unwind_table()
    }

    /// Whether it is the program, which is never unloaded.
    pub fn is_program(&self) -> bool {
        self.start == system::program() && !self.start.is_null()
    }
}

/// Where the file header of a module is, if it is loaded. glibc may name the start of one segment only, if
/// the kernel mapped the module: so the program is told by what its addresses are moved by.
pub fn header_of(object: &Object) -> *const u8 {
    // SAFETY: the first member of `struct link_map` is `l_addr`.
    let moved_by = unsafe { object.link_map.cast::<u64>().as_ref() };
    let mut bias = BIAS.load(Ordering::Relaxed);
    if bias == UNKNOWN {
        // SAFETY: this is the program's own header, or null.
        bias = unsafe { Module::at(system::program()) }.map_or(UNKNOWN, |module| module.bias);
        BIAS.store(bias, Ordering::Relaxed);
    }
    if moved_by == Some(&bias) && bias != UNKNOWN { system::program() } else { object.start }
}

fn find_object(pc: *const c_void) -> Option<Object> {
    let next = next_find_object()?;
    let mut object = Object {
        flags: 0,
        start: null(),
        end: null(),
        link_map: null(),
        eh_frame: null_mut(),
        reserved: [0; 7],
    };
    // SAFETY: the structure is glibc's.
    (unsafe { next(pc, &raw mut object) } == 0).then_some(object)
}

/// libgcc's look-up behind this program's.
pub fn next_find_fde() -> Option<FindFde> {
    let found = known(&NEXT_FIND_FDE, || {
        let name = c"_Unwind_Find_FDE";
        match system::next(name) {
            0 => system::of_libgcc(name),
            next => next,
        }
    })?;
    // SAFETY: the symbol is libgcc's function of this type.
    Some(unsafe { transmute::<usize, FindFde>(found) })
}

/// The dynamic linker's look-up behind this program's.
pub fn next_find_object() -> Option<FindObject> {
    let found = known(&NEXT_FIND_OBJECT, || system::next(c"_dl_find_object"))?;
    // SAFETY: the symbol is glibc's function of this type.
    Some(unsafe { transmute::<usize, FindObject>(found) })
}

/// A definition that was found before, or is found now. A search that finds nothing is repeated, because
/// libgcc_s may be loaded later.
pub fn known(place: &AtomicUsize, search: impl FnOnce() -> usize) -> Option<usize> {
    match place.load(Ordering::Relaxed) {
        0 => match search() {
            0 => None,
            found => {
                place.store(found, Ordering::Relaxed);
                Some(found)
            }
        },
        found => Some(found),
    }
}

/// A function of libgcc_s.
#[cfg(feature = "full")]
pub struct OfLibgcc {
    name: &'static core::ffi::CStr,
    found: AtomicUsize,
}

#[cfg(feature = "full")]
impl OfLibgcc {
    /// The function with this name.
    pub const fn new(name: &'static core::ffi::CStr) -> Self {
        Self { name, found: AtomicUsize::new(0) }
    }

    /// Its address. `None`: libgcc_s is not loaded.
    pub fn address(&self) -> Option<usize> {
        known(&self.found, || match system::next(self.name) {
            0 => system::of_libgcc(self.name),
            next => next,
        })
    }
}
