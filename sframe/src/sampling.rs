//! What `sframe record` and `sframe top` sample, and what ends it.

use super::args::Sampled;
use stacks::live::{Clock, Request, Target};
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by Ctrl-C.
static STOP: AtomicBool = AtomicBool::new(false);

/// The flag that ends a recording.
pub fn stopped() -> &'static AtomicBool {
    &STOP
}

/// What to record, and its name.
pub fn request(arguments: &Sampled) -> (Request, String) {
    let words: Vec<_> = arguments.command.iter().map(|word| word.to_string_lossy()).collect();
    let mut meanwhile = arguments.command.clone();
    let (target, title) = if let Some(folder) = &arguments.cgroup {
        (Target::Group(folder.clone()), folder.display().to_string())
    } else if arguments.all {
        (Target::Machine, "all programs".into())
    } else if !arguments.pid.is_empty() {
        let numbers: Vec<_> = arguments.pid.iter().map(u32::to_string).collect();
        let noun = if numbers.len() == 1 { "process" } else { "processes" };
        (Target::Processes(arguments.pid.clone()), format!("{noun} {}", numbers.join(", ")))
    } else {
        (Target::Command(std::mem::take(&mut meanwhile)), words.join(" "))
    };
    let clock = match (arguments.per_processor, arguments.per_thread) {
        (true, _) => Clock::Processor,
        (_, true) => Clock::Thread,
        _ => Clock::Auto,
    };
    let request = Request {
        meanwhile,
        events: arguments.event.clone(),
        frequency: arguments.frequency,
        stack_size: arguments.stack_size,
        duration: arguments.duration,
        clock,
        off_cpu: arguments.off_cpu,
        ..Request::new(target)
    };
    (request, title)
}

/// Set by SIGUSR2.
static ROTATE: AtomicBool = AtomicBool::new(false);

/// Whether SIGUSR2 has come since this was asked last.
pub fn is_asked_to_rotate() -> bool {
    ROTATE.swap(false, Ordering::Relaxed)
}

/// Makes SIGUSR2 ask for a new file instead of ending this process.
pub fn rotate_by_signal() {
    extern "C" fn rotate(_: libc::c_int) {
        ROTATE.store(true, Ordering::Relaxed);
    }
    let handler = rotate as extern "C" fn(libc::c_int);
    // SAFETY: the handler only sets a flag.
    unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
}

/// Makes Ctrl-C and a request to terminate finish the recording instead of ending this process.
pub fn stop_by_signals() {
    extern "C" fn stop(_: libc::c_int) {
        STOP.store(true, Ordering::Relaxed);
    }
    let handler = stop as extern "C" fn(libc::c_int);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only sets a flag.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}
