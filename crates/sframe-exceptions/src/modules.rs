//! The hook of all who look for frames by program headers: `dl_iterate_phdr`.
//!
//! LLVM's libunwind, libgcc before version 12 in shared libraries, and many others find a module's frames by
//! `PT_GNU_EH_FRAME`. Modules with a table get one more of these here, which leads to the whole table,
//! expanded ([`crate::expand`]). That is made when somebody asks for the first time, and stays for good,
//! since unwinders keep what they found. It is the last program header: unwinders take the last one of a
//! kind. Readers that take the first one, and look where it is in the file, find that of the file.
//!
//! There is no lock: of two threads that expand the same table, both may keep theirs.

use core::ffi::{c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr::{copy_nonoverlapping, from_ref, null, null_mut, write};
use core::slice;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use sframe_format::CompactTable;
use sframe_format::compact::PT_SFRAME_UNWIND;

use crate::arena::{Pages, sum};
use crate::expand::{Measured, expand};
use crate::module::{MOST_HEADERS, Module, PT_GNU_EH_FRAME, ProgramHeader};
use crate::place::known;
use crate::search_table::{self, Pairs};
use crate::system::{self, Kernel};

/// `struct dl_phdr_info` of `<link.h>`.
#[repr(C)]
pub struct Info {
    /// What the module's addresses are moved by.
    pub bias: u64,
    /// Its path.
    pub name: *const c_char,
    /// Its program headers.
    pub headers: *const ProgramHeader,
    /// Their number.
    pub count: u16,
    loaded: u64,
    unloaded: u64,
}

/// The size of the structure in C libraries that count unloaded modules.
const SIZE_WITH_COUNTS: usize = size_of::<Info>();

/// What is called for each module.
pub type Callback = unsafe extern "C" fn(*mut Info, usize, *mut c_void) -> c_int;
type Iterate = unsafe extern "C" fn(Callback, *mut c_void) -> c_int;

/// An expanded table, for good. The program headers follow, and then the `.eh_frame_hdr`.
struct Expanded {
    next: *const Expanded,
    table: &'static [u8],
    bias: u64,
    /// A sum of the table's bytes: another module may come to its place.
    sum: u64,
    /// The number of modules that were unloaded when the table was last compared.
    unloaded: AtomicU64,
    headers: *const ProgramHeader,
    count: u16,
}

static ALL: AtomicPtr<Expanded> = AtomicPtr::new(null_mut());

struct Asker {
    callback: Callback,
    data: *mut c_void,
}

/// # Safety
/// As for the C library's function.
unsafe extern "C" fn sframe_exceptions_iterate(callback: Callback, data: *mut c_void) -> c_int {
    let asker = Asker { callback, data };
    // SAFETY: the asker lives until this call returns.
    unsafe { iterate(pass_on, from_ref(&asker).cast_mut().cast()) }
}

weak!("dl_iterate_phdr", sframe_exceptions_iterate);

/// Calls for each module, as the C library describes it.
///
/// # Safety
/// As for the C library's function.
pub unsafe fn iterate(callback: Callback, data: *mut c_void) -> c_int {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let next = known(&NEXT, || match system::next(c"dl_iterate_phdr") {
        0 => system::static_iterate(),
        next => next,
    });
    // SAFETY: as the caller says; the symbol is the C library's function of this type.
    unsafe {
        match next {
            Some(next) => transmute::<usize, Iterate>(next)(callback, data),
            None => only_the_program(callback, data),
        }
    }
}

/// # Safety
/// As for the C library's function.
unsafe fn only_the_program(callback: Callback, data: *mut c_void) -> c_int {
    let start = system::program();
    // SAFETY: this is the program's own header, or null; as the caller says.
    unsafe {
        let (Some(module), Some(headers)) = (Module::at(start), Module::headers(start)) else { return 0 };
        let (name, count) = (c"".as_ptr(), headers.len() as u16);
        let mut info =
            Info { bias: module.bias, name, headers: headers.as_ptr(), count, loaded: 1, unloaded: 0 };
        callback(&raw mut info, SIZE_WITH_COUNTS, data)
    }
}

/// # Safety
/// The C library describes a module that is loaded, and `asker` is an [`Asker`].
unsafe extern "C" fn pass_on(info: *mut Info, size: usize, asker: *mut c_void) -> c_int {
    // SAFETY: as the caller says. The description is the caller's own, and is as before when this returns.
    unsafe {
        let asker = &*asker.cast::<Asker>();
        let (headers, count) = ((*info).headers, (*info).count);
        if let Some(expanded) = expanded(info, size) {
            ((*info).headers, (*info).count) = (expanded.headers, expanded.count);
        }
        let result = (asker.callback)(info, size, asker.data);
        ((*info).headers, (*info).count) = (headers, count);
        result
    }
}

/// The expanded table of a module. `None`: it has no table, or `.eh_frame` says as much, or there is no
/// memory.
///
/// # Safety
/// The C library describes a module that is loaded.
unsafe fn expanded(info: *mut Info, size: usize) -> Option<&'static Expanded> {
    // SAFETY: as the caller says.
    unsafe {
        let headers = slice::from_raw_parts((*info).headers, (*info).count.into());
        if headers.len() >= MOST_HEADERS || headers.iter().all(|header| header.kind != PT_SFRAME_UNWIND) {
            return None;
        }
        let module = Module::of(headers, (*info).bias);
        let table = module.table?;
        let unloaded = if size >= SIZE_WITH_COUNTS { Some((*info).unloaded) } else { None };
        let mut at = ALL.load(Ordering::Acquire).cast_const();
        while let Some(known) = at.as_ref() {
            if known.is(table, module.bias, unloaded) {
                return Some(known);
            }
            at = known.next;
        }
        let made = make(&module, headers, unloaded)?;
        let mut first = ALL.load(Ordering::Acquire);
        loop {
            (*made).next = first;
            match ALL.compare_exchange(first, made, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return made.as_ref(),
                Err(now) => first = now,
            }
        }
    }
}

impl Expanded {
    /// Whether it is that of a module with this table, in its place.
    fn is(&self, table: &[u8], bias: u64, unloaded: Option<u64>) -> bool {
        if !core::ptr::eq(self.table, table) || self.bias != bias {
            return false;
        }
        if unloaded == Some(self.unloaded.load(Ordering::Relaxed)) {
            return true;
        }
        let is_same = self.sum == sum(table);
        if let (true, Some(unloaded)) = (is_same, unloaded) {
            self.unloaded.store(unloaded, Ordering::Relaxed);
        }
        is_same
    }
}

/// Expands the table of a module.
///
/// # Safety
/// The module is loaded, and has these program headers.
unsafe fn make(module: &Module, headers: &[ProgramHeader], unloaded: Option<u64>) -> Option<*mut Expanded> {
    let bytes = module.table?;
    let table: CompactTable<&[u8]> = module.unwind_table()?;
    // SAFETY: as the caller says.
    let kept = unsafe {
        if has_frames_of(module, &table) {
            return None;
        }
        module.search_table.and_then(|header| Pairs::of(header))
    };
    let measured = Measured::of(&table, kept)?;
    let before = size_of::<Expanded>() + (headers.len() + 1) * size_of::<ProgramHeader>();
    let whole = before.checked_add(measured.bytes(measured.bounds.0.wrapping_add(1 << 40)))?;
    let start = room(&measured, whole);
    if start.is_null() {
        return None;
    }
    // SAFETY: the pages are fresh, large enough and aligned.
    unsafe {
        let out = start.add(before);
        let at = out as u64;
        let used = measured.bytes(at);
        if expand(&table, kept, &measured, at, slice::from_raw_parts_mut(out, used)).is_none() {
            Kernel::unmap(start, whole);
            return None;
        }
        let copies = start.add(size_of::<Expanded>()).cast::<ProgramHeader>();
        let frames = frames_header(at.wrapping_sub(module.bias), used as u64);
        copy_nonoverlapping(headers.as_ptr(), copies, headers.len());
        write(copies.add(headers.len()), frames);
        let made = Expanded {
            next: null(),
            table: bytes,
            bias: module.bias,
            sum: sum(bytes),
            unloaded: AtomicU64::new(unloaded.unwrap_or(0)),
            headers: copies,
            count: headers.len() as u16 + 1,
        };
        let start = start.cast::<Expanded>();
        write(start, made);
        Some(start)
    }
}

/// Whether `.eh_frame` of a module has what is in its table.
///
/// # Safety
/// The module is loaded.
unsafe fn has_frames_of(module: &Module, table: &CompactTable<&[u8]>) -> bool {
    let (Some(header), Some(first)) = (module.search_table, table.pieces().next()) else { return false };
    // SAFETY: as the caller says.
    let found = unsafe { search_table::find(header, first.address) };
    found.is_some_and(|(_, start)| start == first.address)
}

/// The program header of an expanded table.
fn frames_header(address: u64, size: u64) -> ProgramHeader {
    ProgramHeader {
        kind: PT_GNU_EH_FRAME,
        flags: 4,
        offset: 0,
        address,
        physical: address,
        file_size: size,
        memory_size: size,
        align: 4,
    }
}

/// Pages for an expanded table, so near to the code that 4 bytes lead there if there are such; or null.
fn room(measured: &Measured, size: usize) -> *mut u8 {
    const PAGE: u64 = 1 << 16;
    let (low, high) = measured.bounds;
    // The heap of the program grows from behind its end.
    let below = [26, 28, 29, 30].map(|shift| low.checked_sub((1 << shift) + size as u64));
    let above = [30, 29, 28].map(|shift| high.checked_add(1 << shift));
    for at in below.into_iter().chain(above).flatten() {
        let at = at & !(PAGE - 1);
        let start = if at < PAGE { null_mut() } else { system::map(at as usize, size) };
        if start.is_null() {
            continue;
        }
        if measured.is_near(start as u64) {
            return start;
        }
        Kernel::unmap(start, size);
    }
    Kernel::map(size)
}
