//! The command `sframe-ld`: arguments in, exit status out. All the work is the library's.

#[cfg(feature = "mimalloc")]
use mimalloc::MiMalloc as Heap;
use sframe_ld::Memory;
use sframe_ld::cli::{self, Color, Environment, Invocation};
use sframe_ld::diag::{Diagnostic, RenderOptions, Severity, Sink, render, share_help};
use sframe_ld::input::{SystemSource, lost};
use sframe_ld::output::detach;
use sframe_ld::output::interrupt::remove_temporaries;
use sframe_ld::tool::redirect;
#[cfg(not(feature = "mimalloc"))]
use std::alloc::System as Heap;
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// GNU libc's heaps grow page by page, each time with a system call that blocks page faults of other
/// threads, and with one heap for all threads they wait for each other: either takes some 5 % of a
/// small link.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

struct Allocator;

/// Whether the system has refused memory. The code that asked for it does without, or aborts.
static REFUSED: AtomicBool = AtomicBool::new(false);

fn noted(memory: *mut u8) -> *mut u8 {
    if memory.is_null() {
        REFUSED.store(true, Ordering::Relaxed);
    }
    memory
}

// SAFETY: all calls go to the heap.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise; so in all of these.
        noted(unsafe { Heap.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        noted(unsafe { Heap.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        noted(unsafe { Heap.realloc(memory, layout, size) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { Heap.dealloc(memory, layout) }
    }
}

fn main() -> ExitCode {
    handle_signals();
    let mut arguments = std::env::args_os();
    let program = program_name(arguments.next());
    lost::end_with_message(&program, remove_temporaries);
    let arguments: Vec<OsString> = arguments.collect();
    if let Some(command) = redirect::command(&arguments) {
        return redirect::run(command);
    }
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let (options, identity, run_path) =
        (variable("SFRAME_LD_OPTIONS"), variable("SFRAME_LD_IDENTITY"), variable("LD_RUN_PATH"));
    let environment = Environment {
        program: &program,
        options: options.as_deref(),
        identity: identity.as_deref(),
        run_path: run_path.as_deref(),
    };
    let sink = Sink::default();
    let invocation = cli::parse(&arguments, &environment, &|path: &Path| std::fs::read(path), &sink);
    match invocation {
        Ok(Invocation::Print(text)) => {
            show(sink.into_sorted(), &program, None);
            print(&text);
            ExitCode::SUCCESS
        }
        Ok(Invocation::Link(config, inputs)) => {
            let early = sink.into_sorted();
            if let Some(banner) = &config.banner {
                print(banner);
            }
            let outcome = sframe_ld::link(&config, &inputs, &SystemSource, early, Memory::Left);
            print(&outcome.printed);
            show(outcome.diagnostics, &program, Some(&config));
            if config.reports.time_report {
                eprint!("{}", outcome.timings.report());
            }
            // Not with sanitizers (builds without `mimalloc`), which do not support processes that share memory.
            if !config.foreground && cfg!(feature = "mimalloc") {
                detach::leave_memory_behind(outcome.replaced.as_ref());
            }
            end(if outcome.succeeded { 0 } else { 1 })
        }
        Err(_) => {
            show(sink.into_sorted(), &program, None);
            ExitCode::FAILURE
        }
    }
}

/// Ends the process without exit handlers, which only free memory, for some 2 % of the time of a small
/// link.
fn end(status: i32) -> ! {
    let _ = std::io::stdout().flush();
    // SAFETY: nothing runs behind it in this process.
    unsafe { libc::_exit(status) }
}

/// Makes signals that end or abort the process remove temporary files first. A file that grows beyond its limit
/// (`SIGXFSZ`) becomes an ordinary error.
fn handle_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGABRT] {
        // SAFETY: the structures are valid, zeroes included; the handler calls only
        // async-signal-safe functions.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            // A signal that the caller has its programs ignore (`nohup`) stays ignored.
            if libc::sigaction(signal, std::ptr::null(), &mut action) != 0
                || action.sa_sigaction != libc::SIG_DFL
            {
                continue;
            }
            action.sa_sigaction = end_by as extern "C" fn(libc::c_int) as libc::sighandler_t;
            action.sa_flags = libc::SA_RESETHAND;
            libc::sigfillset(&mut action.sa_mask);
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
    // SAFETY: no handler is involved.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Cleans up and ends the process by the same signal, so that the caller sees why it ended.
extern "C" fn end_by(signal: libc::c_int) {
    remove_temporaries();
    if signal == libc::SIGABRT && REFUSED.load(Ordering::Relaxed) {
        let message = b"sframe-ld: error: the system has no more memory for this link\n";
        // SAFETY: system calls; nothing runs behind the second one.
        unsafe {
            libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len());
            libc::_exit(1)
        }
    }
    // Its handler is reset and it is blocked: it comes again when this one returns.
    // SAFETY: a system call.
    unsafe { libc::raise(signal) };
}

/// `ld` in messages when called as `ld`, otherwise `sframe-ld`.
fn program_name(argument: Option<OsString>) -> String {
    let name = argument.as_deref().and_then(|path| Path::new(path).file_name());
    name.map_or_else(|| "sframe-ld".into(), |name| name.to_string_lossy().into_owned())
}

/// Prints on standard output; a closed pipe is not an error worth failing for.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn show(mut diagnostics: Vec<Diagnostic>, program: &str, config: Option<&cli::Config>) {
    let stderr = std::io::stderr();
    let variable = |name: &str| std::env::var_os(name);
    let color = config.map_or(Color::Auto, |config| config.diagnostics.color).is_on(
        stderr.is_terminal(),
        variable("NO_COLOR").as_deref(),
        variable("TERM").as_deref(),
    );
    let options = RenderOptions { program: program.into(), color };
    let limit =
        config.and_then(|config| config.diagnostics.error_limit).map_or(usize::MAX, |limit| limit.get());
    let is_error = |diagnostic: &&Diagnostic| diagnostic.severity == Severity::Error;
    let end = diagnostics.iter().enumerate().filter(|(_, it)| is_error(it)).nth(limit).map(|(end, _)| end);
    let rest = diagnostics.split_off(end.unwrap_or(diagnostics.len()));
    share_help(&mut diagnostics);
    let mut stderr = stderr.lock();
    for diagnostic in &diagnostics {
        let _ = stderr.write_all(render(diagnostic, &options).as_bytes());
    }
    let more = rest.iter().filter(is_error).count();
    if more > 0 {
        let _ = writeln!(stderr, "{program}: {more} more errors; --error-limit=0 shows all");
    }
}
