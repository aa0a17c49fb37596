//! What the commands share around their libraries: the heap, the colours of messages, the search for the
//! programs that wrappers replace ([`programs`]), and an orderly end by a signal.
//!
//! A library neither chooses a heap nor installs signal handlers. Each command does both in its first lines:
//! it names [`Heap`] as its allocator and calls [`handle_signals`]. From then on, a signal that ends the
//! process first removes its temporary files. If memory runs out or a mapped file becomes shorter, the
//! process ends with a message and the command's exit status for errors, and not by a signal.

#[cfg(feature = "clap")]
mod arguments;
mod lost;
pub mod programs;
mod stack;

#[cfg(feature = "clap")]
pub use arguments::parse;

use diagnostics::words::plain;
use diagnostics::{Code, Color, Diagnostic, RenderOptions, Severity, render};
use files::interrupt::remove_temporaries;
#[cfg(feature = "mimalloc")]
use mimalloc::MiMalloc as Inner;
#[cfg(not(feature = "mimalloc"))]
use std::alloc::System as Inner;
use std::alloc::{GlobalAlloc, Layout};
use std::io::{IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The heap of all commands, which notes whether the system refused memory.
///
/// GNU libc's own heaps are slower. They grow page by page, each time with a system call that blocks page
/// faults of other threads; and if all threads share one heap, they wait for each other. Either takes some 5
/// % of a small link.
pub struct Heap;

#[cfg(feature = "mimalloc")]
mod settings {
    //! The settings of mimalloc, which has no names for them but its C header.

    use std::ffi::{c_int, c_long};

    /// `mi_option_purge_delay`: after so many milliseconds, memory that was freed goes back to the system; it
    /// never does at -1.
    pub const PURGE_DELAY: c_int = 15;

    unsafe extern "C" {
        /// Changes a setting that no environment variable gives.
        pub safe fn mi_option_set_default(option: c_int, value: c_long);
        #[cfg(test)]
        pub safe fn mi_option_get(option: c_int) -> c_long;
    }
}

impl Heap {
    /// Keeps all memory that is freed for what is allocated later. A command that is over in some seconds
    /// gives nothing to anybody by giving memory back sooner, but has to find it again, page by page.
    pub fn keep_freed_memory() {
        #[cfg(feature = "mimalloc")]
        settings::mi_option_set_default(settings::PURGE_DELAY, -1);
    }
}

/// Whether the system has refused memory. The code that wanted it goes on without it, or aborts.
static REFUSED: AtomicBool = AtomicBool::new(false);

#[inline]
fn noted(memory: *mut u8) -> *mut u8 {
    if memory.is_null() {
        REFUSED.store(true, Ordering::Relaxed);
    }
    memory
}

// SAFETY: all calls go to the inner heap. They are inlined into the command, although that is another crate.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises of `GlobalAlloc`, here and in the functions below.
        noted(unsafe { Inner.alloc(layout) })
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        noted(unsafe { Inner.alloc_zeroed(layout) })
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        noted(unsafe { Inner.realloc(memory, layout, size) })
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { Inner.dealloc(memory, layout) }
    }
}

/// The colours that `--color` of a command asks for (`parse`); `auto` until then.
static COLOR: OnceLock<Color> = OnceLock::new();

/// Whether messages on standard error are coloured.
pub fn is_colored(choice: Color) -> bool {
    let variable = |name: &str| std::env::var_os(name);
    let (no_color, term) = (variable("NO_COLOR"), variable("TERM"));
    choice.is_on(std::io::stderr().is_terminal(), no_color.as_deref(), term.as_deref())
}

/// Says something on standard error in the name of a program. It has the linker's form: one line, and the
/// word `error` or `warning` in colour.
pub fn tell(program: &str, severity: Severity, text: &str) {
    let color = is_colored(COLOR.get().copied().unwrap_or_default());
    let said = match severity {
        Severity::Note => format!("{program}: {}\n", plain(text)),
        _ => {
            let options = RenderOptions { program: program.into(), color, visual_studio: false };
            render(&Diagnostic::new(severity, Code::Internal, text), &options)
        }
    };
    let _ = std::io::stderr().write_all(said.as_bytes());
}

/// The message for a process without memory, and its exit status. Both are made beforehand, because a signal
/// handler cannot make them.
struct NoMemory {
    message: Vec<u8>,
    status: i32,
}

static NO_MEMORY: OnceLock<NoMemory> = OnceLock::new();

/// Makes a signal that ends or aborts the process remove temporary files first. If memory has run out, or
/// pages of a mapped file are lost, the process ends with a message in the name of `program` and with exit
/// status `status`. A file that grows beyond its limit (`SIGXFSZ`) becomes an ordinary error. The first
/// thread of the process calls it.
pub fn handle_signals(program: &str, status: i32) {
    lost::end_with_message(program, remove_temporaries, status);
    let help = ">>> help: raise the limit (ulimit -v), or let fewer programs run at the same time";
    let message = format!("{program}: error: the system has no more memory\n{help}\n").into_bytes();
    let _ = NO_MEMORY.set(NoMemory { message, status });
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGABRT] {
        // SAFETY: the structures are valid, also where they are zero. The handler calls only
        // async-signal-safe functions.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            // If the caller made its programs ignore a signal, as `nohup` does, it stays ignored.
            if libc::sigaction(signal, std::ptr::null(), &mut action) != 0
                || action.sa_sigaction != libc::SIG_DFL
            {
                continue;
            }
            action.sa_sigaction = end_by as extern "C" fn(libc::c_int) as libc::sighandler_t;
            libc::sigfillset(&mut action.sa_mask);
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
    // SAFETY: no handler is involved.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    if !stack::take() {
        REFUSED.store(true, Ordering::Relaxed);
        std::process::abort();
    }
}

/// Cleans up and ends the process by the same signal, so that the caller sees why the process ended.
extern "C" fn end_by(signal: libc::c_int) {
    remove_temporaries();
    if signal == libc::SIGABRT
        && REFUSED.load(Ordering::Relaxed)
        && let Some(end) = NO_MEMORY.get()
    {
        // SAFETY: these are system calls, and nothing runs after the second one.
        unsafe {
            libc::write(libc::STDERR_FILENO, end.message.as_ptr().cast(), end.message.len());
            libc::_exit(end.status)
        }
    }
    // The signal is blocked, so it arrives when this handler returns. It had this handler until now: where it
    // came again, or other threads aborted too, they wait for the removal.
    // SAFETY: these are system calls.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

#[cfg(all(test, feature = "mimalloc"))]
mod tests {
    use super::Heap;
    use super::settings::{PURGE_DELAY, mi_option_get};

    /// Nothing else says that the number is still that of the setting.
    #[test]
    fn freed_memory_is_kept_on_demand() {
        assert_eq!(mi_option_get(PURGE_DELAY), 1000, "mimalloc's default, which no other setting has");
        Heap::keep_freed_memory();
        assert_eq!(mi_option_get(PURGE_DELAY), -1);
    }
}
