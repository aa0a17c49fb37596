//! Frames that a program registers, of code that it made: just-in-time compilers do.
//!
//! Where there is another unwinder, in a shared library, it learns of them: these functions hand them on, and
//! the hooks ask it. A static program has no other, so the lists are kept here. The functions are weak: an
//! unwinder that is linked into the program has its own.
//!
//! A registered list takes a slot. Slots have sequence numbers, odd while somebody writes, so that a look-up
//! in a signal handler waits for nobody. Slots come in pages, for good, and are taken again when their list
//! is deregistered. A look-up reads the bounds of all lists, one after the other: it is made only for code
//! that no module has.

use core::ffi::{CStr, c_void};
use core::mem::transmute;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

use crate::arena::Pages;
use crate::list::{Origins, fdes};
use crate::system::{self, Bases, Kernel};

/// Slots of a chunk.
const SLOTS: usize = 1000;

/// Words of a slot: what was registered, whether that is an array of lists, the lowest address of its code
/// and that behind the highest, what its pointers count from, and what the caller keeps with it.
const WORDS: usize = 7;

struct Slot {
    sequence: AtomicU64,
    words: [AtomicU64; WORDS],
}

#[repr(C)]
struct Chunk {
    next: AtomicPtr<Chunk>,
    used: AtomicUsize,
    slots: [Slot; SLOTS],
}

static FIRST: AtomicPtr<Chunk> = AtomicPtr::new(null_mut());

/// What was registered.
#[derive(Clone, Copy)]
struct Registered {
    /// A list of FDEs, or an array of pointers to such that ends with a null pointer.
    begin: *const c_void,
    is_array: bool,
    bounds: (u64, u64),
    origins: Origins,
    object: *mut c_void,
}

impl Registered {
    fn words(&self) -> [u64; WORDS] {
        let Self { begin, is_array, bounds, origins, object } = *self;
        [begin as u64, is_array.into(), bounds.0, bounds.1, origins.text, origins.data, object as u64]
    }

    fn of(words: [u64; WORDS]) -> Self {
        let [begin, is_array, low, high, text, data, object] = words;
        Self {
            begin: begin as *const c_void,
            is_array: is_array != 0,
            bounds: (low, high),
            origins: Origins { text, data },
            object: object as *mut c_void,
        }
    }

    /// The lists.
    ///
    /// # Safety
    /// They are still there.
    unsafe fn lists(&self) -> impl Iterator<Item = *const u8> + use<> {
        let Self { begin, is_array, .. } = *self;
        let mut place = 0;
        core::iter::from_fn(move || {
            let list = match (is_array, place) {
                // SAFETY: as the caller says.
                (true, _) => unsafe { begin.cast::<*const u8>().add(place).read() },
                (false, 0) => begin.cast(),
                (false, _) => null(),
            };
            place += 1;
            (!list.is_null()).then_some(list)
        })
    }
}

impl Slot {
    fn read(&self) -> Option<Registered> {
        let sequence = self.sequence.load(Ordering::Acquire);
        if sequence & 1 != 0 {
            return None;
        }
        let mut words = [0; WORDS];
        for (value, word) in words.iter_mut().zip(&self.words) {
            *value = word.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        let is_same = self.sequence.load(Ordering::Relaxed) == sequence;
        Some(Registered::of(words)).filter(|found| is_same && !found.begin.is_null())
    }

    /// Replaces what the slot has, if it is what was found (null: nothing). `false`: somebody was faster.
    fn replace(&self, found: *const c_void, by: Option<&Registered>) -> bool {
        let sequence = self.sequence.load(Ordering::Relaxed);
        let writing = sequence.wrapping_add(1);
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        if sequence & 1 != 0 || self.sequence.compare_exchange(sequence, writing, success, failure).is_err() {
            return false;
        }
        fence(Ordering::Release);
        let is_as_found = self.words[0].load(Ordering::Relaxed) == found as u64;
        if is_as_found {
            let words = by.map_or([0; WORDS], Registered::words);
            for (word, value) in self.words.iter().zip(words) {
                word.store(value, Ordering::Relaxed);
            }
        }
        self.sequence.store(sequence.wrapping_add(2), Ordering::Release);
        is_as_found
    }
}

/// All slots that were ever taken.
fn slots() -> impl Iterator<Item = &'static Slot> {
    let mut chunk = FIRST.load(Ordering::Acquire).cast_const();
    let mut place = 0;
    core::iter::from_fn(move || {
        loop {
            // SAFETY: chunks stay for good.
            let known = unsafe { chunk.as_ref() }?;
            if let Some(slot) = known.slots.get(place).filter(|_| place < known.used.load(Ordering::Acquire))
            {
                place += 1;
                return Some(slot);
            }
            (chunk, place) = (known.next.load(Ordering::Acquire), 0);
        }
    })
}

/// Keeps what was registered. Without memory it is lost, as with libgcc.
fn keep(registered: &Registered) {
    if slots()
        .any(|slot| slot.words[0].load(Ordering::Relaxed) == 0 && slot.replace(null(), Some(registered)))
    {
        return;
    }
    loop {
        let first = FIRST.load(Ordering::Acquire);
        // SAFETY: chunks stay for good.
        if let Some(chunk) = unsafe { first.as_ref() } {
            let place = chunk.used.fetch_add(1, Ordering::AcqRel);
            if let Some(slot) = chunk.slots.get(place) {
                if slot.replace(null(), Some(registered)) {
                    return;
                }
                continue;
            }
        }
        let fresh = Kernel::map(size_of::<Chunk>()).cast::<Chunk>();
        if fresh.is_null() {
            return;
        }
        // SAFETY: the pages are fresh and zero, which is a chunk without slots.
        unsafe { (*fresh).next.store(first, Ordering::Relaxed) };
        if FIRST.compare_exchange(first, fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
            Kernel::unmap(fresh.cast(), size_of::<Chunk>());
        }
    }
}

/// The FDE of an address among registered frames.
///
/// # Safety
/// The code at the address, and so its frames, are still there. `bases` can be written.
pub unsafe fn find(address: u64, bases: *mut Bases) -> Option<*const u8> {
    for slot in slots() {
        let Some(registered) = slot.read() else { continue };
        if !(registered.bounds.0..registered.bounds.1).contains(&address) {
            continue;
        }
        let Registered { origins: Origins { text, data }, .. } = registered;
        // SAFETY: as the caller says.
        unsafe {
            let mut all = registered.lists().flat_map(|list| fdes(list, registered.origins));
            if let Some(found) = all.find(|found| address.wrapping_sub(found.start) < found.size) {
                let function = found.start as *const c_void;
                bases.write(Bases { text: text as *const c_void, data: data as *const c_void, function });
                return Some(found.fde);
            }
        }
    }
    None
}

/// # Safety
/// As libgcc says of its functions.
unsafe fn register(begin: *const c_void, is_array: bool, object: *mut c_void, origins: Origins) {
    let mut registered = Registered { begin, is_array, bounds: (u64::MAX, 0), origins, object };
    // SAFETY: as the caller says.
    unsafe {
        for found in registered.lists().flat_map(|list| fdes(list, origins)) {
            let (low, high) = registered.bounds;
            registered.bounds = (low.min(found.start), high.max(found.start.saturating_add(found.size)));
        }
    }
    if !begin.is_null() {
        keep(&registered);
    }
}

/// Defines the functions that register frames, with their arguments besides `begin`.
macro_rules! registers {
    ($($own:ident, $name:literal, $is_array:literal, ($($argument:ident: $kind:ty),*), $object:expr, $text:expr, $data:expr;)*) => {
        $(
            /// # Safety
            /// As libgcc says.
            unsafe extern "C" fn $own(begin: *const c_void $(, $argument: $kind)*) {
                type Register = unsafe extern "C" fn(*const c_void $(, $kind)*);
                let other = behind(name(concat!($name, "\0")));
                // SAFETY: as the caller says; the symbol is another unwinder's function of this type.
                unsafe {
                    if other != 0 {
                        return transmute::<usize, Register>(other)(begin $(, $argument)*);
                    }
                    register(begin, $is_array, $object, Origins { text: $text as u64, data: $data as u64 });
                }
            }

            weak!($name, $own);
        )*
    };
}

const fn name(bytes: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(bytes.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!(),
    }
}

/// The function of the unwinder that the program's libraries have, if they have one; else 0.
fn behind(name: &'static CStr) -> usize {
    match system::next(name) {
        0 => system::of_libgcc(name),
        next => next,
    }
}

type Pointer = *mut c_void;
registers! {
    sframe_register, "__register_frame", false, (), null_mut(), 0, 0;
    sframe_register_array, "__register_frame_table", true, (), null_mut(), 0, 0;
    sframe_register_info, "__register_frame_info", false, (object: Pointer), object, 0, 0;
    sframe_register_info_array, "__register_frame_info_table", true, (object: Pointer), object, 0, 0;
    sframe_register_info_bases, "__register_frame_info_bases", false,
        (object: Pointer, text: Pointer, data: Pointer), object, text, data;
    sframe_register_info_array_bases, "__register_frame_info_table_bases", true,
        (object: Pointer, text: Pointer, data: Pointer), object, text, data;
}

/// Forgets what was registered, and returns what the caller kept with it.
///
/// # Safety
/// As libgcc says of its function.
unsafe fn deregister(begin: *const c_void, name: &'static CStr) -> *mut c_void {
    for slot in slots() {
        if let Some(registered) = slot.read().filter(|registered| registered.begin == begin)
            && slot.replace(begin, None)
        {
            return registered.object;
        }
    }
    type Deregister = unsafe extern "C" fn(*const c_void) -> *mut c_void;
    let other = behind(name);
    // SAFETY: the symbol is another unwinder's function; this call goes on.
    if other == 0 { null_mut() } else { unsafe { transmute::<usize, Deregister>(other)(begin) } }
}

/// # Safety
/// As libgcc says.
unsafe extern "C" fn sframe_deregister(begin: *const c_void) {
    // SAFETY: as the caller says.
    unsafe { deregister(begin, c"__deregister_frame") };
}

/// # Safety
/// As libgcc says.
unsafe extern "C" fn sframe_deregister_info(begin: *const c_void) -> *mut c_void {
    // SAFETY: as the caller says.
    unsafe { deregister(begin, c"__deregister_frame_info") }
}

/// libgcc's other function calls this one, so each hands on to its own name.
///
/// # Safety
/// As libgcc says.
unsafe extern "C" fn sframe_deregister_info_bases(begin: *const c_void) -> *mut c_void {
    // SAFETY: as the caller says.
    unsafe { deregister(begin, c"__deregister_frame_info_bases") }
}

weak!("__deregister_frame", sframe_deregister);
weak!("__deregister_frame_info", sframe_deregister_info);
weak!("__deregister_frame_info_bases", sframe_deregister_info_bases);
