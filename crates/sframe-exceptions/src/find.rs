//! The hooks: `_Unwind_Find_FDE` and `_dl_find_object`.

use core::arch::global_asm;
use core::ffi::{c_int, c_void};
use core::mem::transmute;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::arena::{Arena, Made};
use crate::module::Module;
use crate::search_table;
use crate::synthesize::Frame;
use crate::system::{self, Bases, FindFde, FindObject, Object};

static ARENA: Arena = Arena::new();

/// What the program's addresses are moved by.
static BIAS: AtomicU64 = AtomicU64::new(UNKNOWN);
const UNKNOWN: u64 = u64::MAX;

/// The next definitions of the hooks. 0: not found yet.
static NEXT_FIND_FDE: AtomicUsize = AtomicUsize::new(0);
static NEXT_FIND_OBJECT: AtomicUsize = AtomicUsize::new(0);

/// libgcc's look-up of the FDE for an address.
///
/// Most code without a table has an FDE that its module's `.eh_frame_hdr` leads to. It is looked up here,
/// because the next definition would ask the dynamic linker again, and so the other hook. The next definition
/// knows more: frames that programs registered, and headers of other forms.
///
/// # Safety
/// `bases` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Unwind_Find_FDE(pc: *const c_void, bases: *mut Bases) -> *const u8 {
    let address = pc as u64;
    let (fde, function) = match ARENA.hot(address) {
        Some(made) => (made.fde(), made.function),
        None => {
            let module = Place::of(pc);
            let known = match module.made(address) {
                Some(made) => Some((made.fde(), made.function)),
                // SAFETY: the header is that of a loaded module.
                None => module.search_table.and_then(|header| unsafe { search_table::find(header, address) }),
            };
            match known {
                Some(known) => known,
                // SAFETY: this call goes on.
                None => return next_find_fde().map_or(null(), |next| unsafe { next(pc, bases) }),
            }
        }
    };
    // SAFETY: as the caller says.
    unsafe { bases.write(Bases { text: null(), data: null(), function: function as *const c_void }) };
    fde
}

/// glibc's look-up of a module, for copies of libgcc that do not ask for FDEs here.
#[unsafe(no_mangle)]
unsafe extern "C" fn sframe_exceptions_find_object(pc: *const c_void, object: *mut Object) -> c_int {
    let Some(next) = next_find_object() else { return -1 };
    // SAFETY: this call goes on.
    let result = unsafe { next(pc, object) };
    if result != 0 {
        return result;
    }
    // SAFETY: the next definition filled it.
    let place = Place { start: header_of(unsafe { &*object }), search_table: None };
    if let Some(made) = ARENA.hot(pc as u64).or_else(|| place.made(pc as u64)) {
        // SAFETY: as above.
        unsafe { (*object).eh_frame = made.header().cast() };
    }
    result
}

// The C library of a static program may need its own definition, which then counts, because this one is weak.
macro_rules! define_find_object {
    ($jump:literal) => {
        global_asm!(
            ".pushsection .text.sframe_find_object, \"ax\", %progbits",
            ".weak _dl_find_object",
            ".type _dl_find_object, %function",
            "_dl_find_object:",
            ".cfi_startproc",
            concat!($jump, " {}"),
            ".cfi_endproc",
            ".size _dl_find_object, . - _dl_find_object",
            ".popsection",
            sym sframe_exceptions_find_object,
        );
    };
}
#[cfg(target_arch = "x86_64")]
define_find_object!("jmp");
#[cfg(target_arch = "aarch64")]
define_find_object!("b");
#[cfg(target_arch = "s390x")]
define_find_object!("jg");

/// The module of an address.
struct Place {
    start: *const u8,
    search_table: Option<*const u8>,
}

impl Place {
    /// The module in which an address lies. Without a dynamic linker it can only be the program.
    fn of(pc: *const c_void) -> Self {
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

    /// The frame for an address in the module, if the module's table has it.
    fn made(&self, pc: u64) -> Option<&'static Made> {
        // SAFETY: the dynamic linker says that a segment of a module is there, or it is the program.
        let table = unsafe { Module::at(self.start) }?.unwind_table()?;
        let found = table.look_up_whole(pc).ok()??;
        let frame = Frame::new(table.header().abi, &found)?;
        let made = ARENA.keep::<system::Kernel>(&frame, found.function, found.start, found.size)?;
        if self.start == system::program() {
            // The program is never unloaded.
            ARENA.remember(pc, made);
        }
        Some(made)
    }
}

/// Where the file header of a module is, if it is loaded. glibc may name the start of one segment only, if
/// the kernel mapped the module: so the program is told by what its addresses are moved by.
fn header_of(object: &Object) -> *const u8 {
    // SAFETY: the first member of `struct link_map` is `l_addr`.
    let moved_by = unsafe { object.link_map.cast::<u64>().as_ref() };
    let mut bias = BIAS.load(Ordering::Relaxed);
    if bias == UNKNOWN {
        // SAFETY: this is the program's own header, or null.
        bias = unsafe { Module::at(system::program()) }.map_or(UNKNOWN, |module| module.bias);
        BIAS.store(bias, Ordering::Relaxed);
    }
    if moved_by == Some(&bias) { system::program() } else { object.start }
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

fn next_find_fde() -> Option<FindFde> {
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

fn next_find_object() -> Option<FindObject> {
    let found = known(&NEXT_FIND_OBJECT, || system::next(c"_dl_find_object"))?;
    // SAFETY: the symbol is glibc's function of this type.
    Some(unsafe { transmute::<usize, FindObject>(found) })
}

/// A definition that was found before, or is found now. A search that finds nothing is repeated, because
/// libgcc_s may be loaded later.
fn known(place: &AtomicUsize, search: impl FnOnce() -> usize) -> Option<usize> {
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

/// Runs at start-up.
#[used]
#[unsafe(link_section = ".init_array")]
static CHECK: extern "C" fn() = check;

/// Looks for what look-ups need, while that is no matter of signals. Then it asks the unwinder for a function
/// that only the table knows. If it does not find it, no exception would find its handler, and the program
/// would end without a word at the first one.
extern "C" fn check() {
    let (_, _) = (next_find_fde(), next_find_object());
    // SAFETY: this is the program's own header, or null.
    let module = unsafe { Module::at(system::program()) };
    let Some(table) = module.and_then(|module| module.unwind_table()) else {
        // Programs that keep `.eh_frame` beside the table, or load libraries with tables, need no check.
        return;
    };
    let own = check as *const () as u64;
    if !table.look_up_whole(own).is_ok_and(|found| found.is_some()) {
        return;
    }
    type Enclosing = unsafe extern "C" fn(*const c_void) -> *const c_void;
    let name = c"_Unwind_FindEnclosingFunction";
    let asked = match system::enclosing_function() {
        0 => system::of_libgcc(name),
        found => found,
    };
    if asked == 0 {
        return;
    }
    // SAFETY: the symbol is libgcc's function of this type.
    let found = unsafe { transmute::<usize, Enclosing>(asked)((own + 1) as *const c_void) };
    if found as u64 != own {
        system::stop(
            "the unwinder does not look functions up in this program, so no exception would be caught: another \
             definition of _Unwind_Find_FDE comes before the program's, or the program does not export its own; \
             link with --unwind-table=none\n",
        );
    }
}
