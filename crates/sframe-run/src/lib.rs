//! The library of `sframe-ld -run COMMAND`: makes a whole build use sframe-ld.
//!
//! Every program of the build loads it (`LD_PRELOAD`). It replaces the C library's functions that start
//! programs. If such a function is asked to start a linker, which it knows by the name, it starts sframe-ld
//! instead, with the same arguments and the same environment.
//!
//! These functions are called between `vfork` and the start of a program, in memory that belongs to another
//! process. An allocation or a lock there could change or block that process. So the hooks do neither, and
//! everything that they need is made when the library is loaded.
//!
//! `execl`, `execlp` and `execle` have no hooks. Stable Rust cannot define functions with a variable number
//! of arguments, and C libraries implement these with internal functions that nothing can replace. System
//! calls that a program makes without the C library have no hooks either.
//!
//! | variable | meaning |
//! |---|---|
//! | `SFRAME_RUN_LINKER` | path of the linker to start |
//! | `SFRAME_RUN_SAID` | file that exists once a message has said that a program cannot be redirected |

mod names;
mod paths;

use libc::{c_char, c_int, c_void, pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};
use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::OnceLock;

type Words = *const *const c_char;
type Execve = unsafe extern "C" fn(*const c_char, Words, Words) -> c_int;
type Execv = unsafe extern "C" fn(*const c_char, Words) -> c_int;
type Fexecve = unsafe extern "C" fn(c_int, Words, Words) -> c_int;
type Execveat = unsafe extern "C" fn(c_int, *const c_char, Words, Words, c_int) -> c_int;
type Spawn = unsafe extern "C" fn(
    *mut pid_t,
    *const c_char,
    *const posix_spawn_file_actions_t,
    *const posix_spawnattr_t,
    Words,
    Words,
) -> c_int;

/// The functions that the hooks replace, and values from the environment.
struct Behind {
    execve: Execve,
    execvpe: Execve,
    execv: Execv,
    execvp: Execv,
    fexecve: Fexecve,
    /// glibc has it since 2.34.
    execveat: Option<Execveat>,
    spawn: Spawn,
    spawnp: Spawn,
    linker: Option<CString>,
    said: Option<CString>,
}

static BEHIND: OnceLock<Behind> = OnceLock::new();

/// Runs when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = {
    extern "C" fn loaded() {
        behind();
    }
    loaded
};

fn behind() -> &'static Behind {
    BEHIND.get_or_init(|| {
        let variable = |name: &str| {
            use std::os::unix::ffi::OsStringExt;
            CString::new(std::env::var_os(name)?.into_vec()).ok()
        };
        // SAFETY: in every C library that has these functions, they have these types. A null pointer is
        // `None`.
        unsafe {
            Behind {
                execve: std::mem::transmute::<*mut c_void, Execve>(next(c"execve")),
                execvpe: std::mem::transmute::<*mut c_void, Execve>(next(c"execvpe")),
                execv: std::mem::transmute::<*mut c_void, Execv>(next(c"execv")),
                execvp: std::mem::transmute::<*mut c_void, Execv>(next(c"execvp")),
                fexecve: std::mem::transmute::<*mut c_void, Fexecve>(next(c"fexecve")),
                execveat: std::mem::transmute::<*mut c_void, Option<Execveat>>(find(c"execveat")),
                spawn: std::mem::transmute::<*mut c_void, Spawn>(next(c"posix_spawn")),
                spawnp: std::mem::transmute::<*mut c_void, Spawn>(next(c"posix_spawnp")),
                // If sframe-ld itself starts a linker, it wants a link that it cannot make.
                linker: variable("SFRAME_RUN_LINKER").filter(|linker| !is_this_program(linker)),
                said: variable("SFRAME_RUN_SAID"),
            }
        }
    })
}

fn is_this_program(path: &CStr) -> bool {
    use std::os::unix::ffi::OsStrExt;
    std::fs::read_link("/proc/self/exe").is_ok_and(|own| own.as_os_str().as_bytes() == path.to_bytes())
}

/// The next function with this name after the one in this library, or null.
fn find(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// The next function with a name that every C library has.
fn next(name: &CStr) -> *mut c_void {
    let found = find(name);
    if found.is_null() {
        std::process::abort();
    }
    found
}

impl Behind {
    /// The program to start instead of `path` if that is a linker. If it starts a program that would not load
    /// this library, a message says so, once.
    ///
    /// # Safety
    /// `path` is null or ends with a zero, and `words` ends with a null.
    unsafe fn instead(&self, path: *const c_char, words: Words) -> Option<&CStr> {
        let linker = self.linker.as_deref()?;
        if path.is_null() {
            return None;
        }
        // SAFETY: as the caller promises.
        let name = unsafe { CStr::from_ptr(path) };
        if names::is_linker(name.to_bytes()) {
            // SAFETY: as the caller promises.
            if unsafe { is_foreign(words) } {
                self.say(name, "links for a machine of 32 bits; that link is left to it");
                return None;
            }
            return Some(linker);
        }
        if let Some(why) = escapes(name) {
            self.say(name, why);
        }
        None
    }

    /// Says why links cannot be redirected; only once in a whole build.
    fn say(&self, program: &CStr, why: &str) {
        let Some(said) = &self.said else { return };
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY | libc::O_CLOEXEC;
        // SAFETY: the name ends with a zero.
        let file = unsafe { libc::open(said.as_ptr(), flags, 0o600) };
        if file < 0 {
            return;
        }
        for part in [&b"sframe-ld -run: "[..], program.to_bytes(), b" ", why.as_bytes(), b"\n"] {
            // SAFETY: the part has this length.
            unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
        }
        // SAFETY: this function has opened it above.
        unsafe { libc::close(file) };
    }
}

/// Whether the arguments of a linker ask for a 32-bit program, which sframe-ld does not link.
///
/// # Safety
/// `words` is null or ends with a null.
unsafe fn is_foreign(words: Words) -> bool {
    let mut at = words;
    let mut emulation = false;
    loop {
        // SAFETY: the loop stops at the null.
        let word = unsafe {
            if at.is_null() || (*at).is_null() {
                return false;
            }
            CStr::from_ptr(*at)
        };
        let word = word.to_bytes();
        let value = if emulation { Some(word) } else { word.strip_prefix(b"-m") };
        if value.is_some_and(names::is_32_bit) {
            return true;
        }
        emulation = word == b"-m";
        // SAFETY: the loop has not reached the null.
        at = unsafe { at.add(1) };
    }
}

/// Why a program does not load this library, so that its links cannot be redirected. This reads the file with
/// system calls only. Names that are looked up on `PATH` are not checked.
fn escapes(path: &CStr) -> Option<&'static str> {
    if !path.to_bytes().contains(&b'/') {
        return None;
    }
    // SAFETY: the name ends with a zero, and a stat of zeros is valid.
    let (file, status) = unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        libc::fstat(file, &mut status);
        (file, status)
    };
    let mut start = [0; 4096];
    // SAFETY: the buffer has this length, and the file is open.
    let length = unsafe {
        let length = libc::pread(file, start.as_mut_ptr().cast(), start.len(), 0);
        libc::close(file);
        length
    };
    let start = start.get(..usize::try_from(length).ok()?)?;
    // SAFETY: a system call without arguments.
    let privileged = status.st_mode & (libc::S_ISUID | libc::S_ISGID) != 0 && unsafe { libc::geteuid() } != 0;
    if privileged {
        return Some("runs with other privileges; links that it starts are not redirected");
    }
    names::is_static(start).then_some("is linked statically; links that it starts are not redirected")
}

macro_rules! replaced {
    ($path:expr, $words:expr) => {
        // SAFETY: the hook's caller promises what the hidden function requires.
        unsafe { behind().instead($path, $words) }.map(CStr::as_ptr)
    };
}

/// Replaces the C library's function; see execve(2).
///
/// # Safety
/// The same as for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const c_char, words: Words, environment: Words) -> c_int {
    let path = replaced!(path, words).unwrap_or(path);
    // SAFETY: as the caller promises.
    unsafe { (behind().execve)(path, words, environment) }
}

/// Replaces the C library's function; see exec(3).
///
/// # Safety
/// The same as for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(file: *const c_char, words: Words, environment: Words) -> c_int {
    let file = replaced!(file, words).unwrap_or(file);
    // SAFETY: as the caller promises.
    unsafe { (behind().execvpe)(file, words, environment) }
}

/// Replaces the C library's function; see exec(3).
///
/// # Safety
/// The same as for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, words: Words) -> c_int {
    let path = replaced!(path, words).unwrap_or(path);
    // SAFETY: as the caller promises.
    unsafe { (behind().execv)(path, words) }
}

/// Replaces the C library's function; see exec(3).
///
/// # Safety
/// The same as for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, words: Words) -> c_int {
    let file = replaced!(file, words).unwrap_or(file);
    // SAFETY: as the caller promises.
    unsafe { (behind().execvp)(file, words) }
}

/// Replaces the C library's function; see fexecve(3).
///
/// # Safety
/// The same as for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(file: c_int, words: Words, environment: Words) -> c_int {
    let mut buffer = paths::EMPTY;
    let path = paths::of_open(file, &mut buffer).map_or(ptr::null(), CStr::as_ptr);
    match replaced!(path, words) {
        // SAFETY: as the caller promises.
        Some(linker) => unsafe { (behind().execve)(linker, words, environment) },
        // SAFETY: as the caller promises.
        None => unsafe { (behind().fexecve)(file, words, environment) },
    }
}

/// Replaces the C library's function; see execveat(2).
///
/// # Safety
/// The same as for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execveat(
    folder: c_int,
    path: *const c_char,
    words: Words,
    environment: Words,
    flags: c_int,
) -> c_int {
    let mut buffer = paths::EMPTY;
    let named = if path.is_null() {
        None
    } else {
        // SAFETY: as the caller promises.
        paths::started(folder, unsafe { CStr::from_ptr(path) }, &mut buffer)
    };
    let named = named.map_or(ptr::null(), CStr::as_ptr);
    // The linker's path is absolute, so the folder does not matter.
    let path = replaced!(named, words).unwrap_or(path);
    match behind().execveat {
        // SAFETY: as the caller promises.
        Some(execveat) => unsafe { execveat(folder, path, words, environment, flags) },
        // SAFETY: as the caller promises; these are the arguments of the system call.
        None => unsafe {
            libc::syscall(libc::SYS_execveat, folder, path, words, environment, flags) as c_int
        },
    }
}

/// Replaces the C library's function; see posix_spawn(3).
///
/// # Safety
/// The same as for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    process: *mut pid_t,
    path: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    words: Words,
    environment: Words,
) -> c_int {
    let path = replaced!(path, words).unwrap_or(path);
    // SAFETY: as the caller promises.
    unsafe { (behind().spawn)(process, path, actions, attributes, words, environment) }
}

/// Replaces the C library's function; see posix_spawn(3).
///
/// # Safety
/// The same as for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    process: *mut pid_t,
    file: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    words: Words,
    environment: Words,
) -> c_int {
    let file = replaced!(file, words).unwrap_or(file);
    // SAFETY: as the caller promises.
    unsafe { (behind().spawnp)(process, file, actions, attributes, words, environment) }
}
