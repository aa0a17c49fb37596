//! System calls, and functions of other libraries that may be missing: a static program has no dynamic
//! linker, and an old C library no `_dl_find_object`.
//!
//! The system calls are made directly. The C library's functions may belong to a sanitizer, which is not
//! ready when the first exception flies.

use core::arch::{asm, global_asm};
use core::ffi::{c_char, c_int, c_void};
use core::mem::transmute;

use crate::module::Module;

/// `struct dwarf_eh_bases` of libgcc.
#[repr(C)]
pub struct Bases {
    pub text: *const c_void,
    pub data: *const c_void,
    pub function: *const c_void,
}

/// `struct dl_find_object` of glibc (`<dlfcn.h>`), on machines without `dlfo_eh_dbase`.
#[repr(C)]
pub struct Object {
    pub flags: u64,
    pub start: *const u8,
    pub end: *const u8,
    pub link_map: *const c_void,
    pub eh_frame: *const c_void,
    pub reserved: [u64; 7],
}

/// What other definitions of the hooks look like.
pub type FindFde = unsafe extern "C" fn(*const c_void, *mut Bases) -> *const u8;
pub type FindObject = unsafe extern "C" fn(*const c_void, *mut Object) -> c_int;
type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type Dlopen = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;

// A weak reference is null if nobody defines the symbol. Rust has no weak references, so the assembler makes
// a list of their addresses.
global_asm!(
    ".pushsection .data.rel.ro.sframe_imports, \"aw\", %progbits",
    ".balign 8",
    ".hidden sframe_exceptions_imports",
    ".globl sframe_exceptions_imports",
    "sframe_exceptions_imports:",
    ".weak dlsym",
    ".8byte dlsym",
    ".weak __ehdr_start",
    ".hidden __ehdr_start",
    ".8byte __ehdr_start",
    ".weak __dl_iterate_phdr",
    ".hidden __dl_iterate_phdr",
    ".8byte __dl_iterate_phdr",
    ".popsection",
);
#[cfg(not(feature = "full"))]
global_asm!(
    ".pushsection .data.rel.ro.sframe_unwinder, \"aw\", %progbits",
    ".balign 8",
    ".hidden sframe_exceptions_unwinder",
    ".globl sframe_exceptions_unwinder",
    "sframe_exceptions_unwinder:",
    ".weak _Unwind_FindEnclosingFunction",
    ".8byte _Unwind_FindEnclosingFunction",
    ".popsection",
);

// GNU_PROPERTY_X86_FEATURE_1_AND: GNU_PROPERTY_X86_FEATURE_1_SHSTK. Shadow stacks are as they must be after
// everything here, so programs with it may have them. Indirect branches would need marks (IBT) that Rust does
// not make.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".pushsection .note.gnu.property, \"a\", %note",
    ".balign 8",
    ".4byte 4, 16, 5",
    ".asciz \"GNU\"",
    ".4byte 0xc0000002, 4, 2, 0",
    ".popsection",
);

unsafe extern "C" {
    static sframe_exceptions_imports: [usize; 3];
}

fn import(place: usize) -> usize {
    // SAFETY: the list is above, and nobody writes to it after the program was relocated.
    unsafe { sframe_exceptions_imports }.get(place).copied().unwrap_or(0)
}

/// The file header of the program, or null if it is not loaded. A shared library does not ask: its own header
/// has the name.
pub fn program() -> *const u8 {
    if cfg!(feature = "shared") { core::ptr::null() } else { import(1) as *const u8 }
}

/// The C library's `dl_iterate_phdr` in a static program, by its other name; else 0.
pub fn static_iterate() -> usize {
    import(2)
}

/// libgcc's function that names the function of an address, if this program has a libgcc.
pub fn enclosing_function() -> usize {
    #[cfg(not(feature = "full"))]
    {
        unsafe extern "C" {
            static sframe_exceptions_unwinder: usize;
        }
        // SAFETY: it is above, and nobody writes to it after the program was relocated.
        unsafe { sframe_exceptions_unwinder }
    }
    #[cfg(feature = "full")]
    0
}

/// The handle that means: behind the definition in the caller's module.
const NEXT: *mut c_void = -1isize as *mut c_void;

/// The next definition of a symbol behind this program's; 0 if there is none.
pub fn next(name: &core::ffi::CStr) -> usize {
    symbol(NEXT, name)
}

/// The first definition of a symbol, as shared libraries see it; 0 if there is none.
#[cfg(feature = "full")]
pub fn first(name: &core::ffi::CStr) -> usize {
    symbol(core::ptr::null_mut(), name)
}

/// A symbol of libgcc_s, if that is loaded; else 0.
pub fn of_libgcc(name: &core::ffi::CStr) -> usize {
    const LAZY_AND_LOADED: c_int = 1 | 4;
    // Static C libraries warn of every mention of it.
    let dlopen = symbol(core::ptr::null_mut(), c"dlopen");
    if dlopen == 0 {
        return 0;
    }
    // SAFETY: the symbol is the C library's function of this type.
    let handle = unsafe { transmute::<usize, Dlopen>(dlopen)(c"libgcc_s.so.1".as_ptr(), LAZY_AND_LOADED) };
    if handle.is_null() { 0 } else { symbol(handle, name) }
}

fn symbol(handle: *mut c_void, name: &core::ffi::CStr) -> usize {
    // SAFETY: this is the program's own header, or null.
    let is_dynamic = unsafe { Module::at(program()) }.is_none_or(|module| module.is_dynamic);
    match import(0) {
        0 => 0,
        // A static program has the function without a dynamic linker behind it.
        _ if !is_dynamic => 0,
        // SAFETY: the symbol is the C library's function of this type.
        dlsym => unsafe { transmute::<usize, Dlsym>(dlsym)(handle, name.as_ptr()) as usize },
    }
}

fn say(message: &str) {
    const INTRODUCTION: &str = "sframe unwind table: ";
    for text in [INTRODUCTION, message] {
        call(numbers::WRITE, [2, text.as_ptr() as usize, text.len(), 0, 0, 0]);
    }
}

/// Writes a message and lets the C library abort the process, so that there is a core to look at.
#[cfg(feature = "full")]
pub fn abort(message: &str) -> ! {
    unsafe extern "C" {
        safe fn abort() -> !;
    }
    say(message);
    abort()
}

/// Whether the eight bytes at an address can be read. The kernel reads a set of signals there, and then
/// refuses to do with them what it does not know.
#[cfg(feature = "full")]
pub fn is_readable(address: u64) -> bool {
    const BAD_ADDRESS: usize = -14isize as usize;
    const UNKNOWN: usize = i32::MAX as usize;
    call(numbers::RT_SIGPROCMASK, [UNKNOWN, address as usize, 0, 8, 0, 0]) != BAD_ADDRESS && address != 0
}

/// Writes a message and ends the process.
pub fn stop(message: &str) -> ! {
    say(message);
    call(numbers::EXIT_GROUP, [127, 0, 0, 0, 0, 0]);
    loop {
        core::hint::spin_loop();
    }
}

/// The kernel, as a source of pages.
pub struct Kernel;

impl crate::arena::Pages for Kernel {
    fn map(size: usize) -> *mut u8 {
        map(0, size)
    }

    fn unmap(start: *mut u8, size: usize) {
        call(numbers::MUNMAP, [start as usize, size, 0, 0, 0, 0]);
    }
}

/// Zeroed pages at an address if they are free, else where the kernel has some; or null.
pub fn map(at: usize, size: usize) -> *mut u8 {
    const READ_AND_WRITE: usize = 3;
    const PRIVATE_AND_ANONYMOUS: usize = 0x22;
    let arguments = [at, size, READ_AND_WRITE, PRIVATE_AND_ANONYMOUS, usize::MAX, 0];
    // The s390x call takes its arguments in memory.
    let result = if cfg!(target_arch = "s390x") {
        call(numbers::MMAP, [arguments.as_ptr() as usize, 0, 0, 0, 0, 0])
    } else {
        call(numbers::MMAP, arguments)
    };
    if result > -4096isize as usize { core::ptr::null_mut() } else { result as *mut u8 }
}

#[cfg(target_arch = "x86_64")]
mod numbers {
    pub const WRITE: usize = 1;
    pub const MMAP: usize = 9;
    #[cfg(feature = "full")]
    pub const RT_SIGPROCMASK: usize = 14;
    pub const MUNMAP: usize = 11;
    pub const EXIT_GROUP: usize = 231;
}

#[cfg(target_arch = "aarch64")]
mod numbers {
    pub const WRITE: usize = 64;
    pub const MMAP: usize = 222;
    #[cfg(feature = "full")]
    pub const RT_SIGPROCMASK: usize = 135;
    pub const MUNMAP: usize = 215;
    pub const EXIT_GROUP: usize = 94;
}

#[cfg(target_arch = "s390x")]
mod numbers {
    pub const WRITE: usize = 4;
    pub const MMAP: usize = 90;
    #[cfg(feature = "full")]
    pub const RT_SIGPROCMASK: usize = 175;
    pub const MUNMAP: usize = 91;
    pub const EXIT_GROUP: usize = 248;
}

fn call(number: usize, arguments: [usize; 6]) -> usize {
    let [a, b, c, d, e, f] = arguments;
    let mut result;
    // SAFETY: the calls above only touch memory that is theirs.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    // SAFETY: the same.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a => result, in("x1") b, in("x2") c, in("x3") d,
            in("x4") e, in("x5") f, options(nostack));
    }
    // SAFETY: the same.
    #[cfg(target_arch = "s390x")]
    unsafe {
        asm!("svc 0", in("r1") number, inlateout("r2") a => result, in("r3") b, in("r4") c, in("r5") d,
            in("r6") e, in("r7") f, options(nostack));
    }
    result
}
