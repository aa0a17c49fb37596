//! The command `sframe-ld`: arguments in, exit status out. The links are the library's; what ends in another
//! program is here: `-run` ([`redirect`]), and links for 32 bits ([`fallback`]). So is what depends on where
//! the program is installed ([`runtime`]).

mod background;
mod fallback;
mod redirect;
mod runtime;

use commands::Heap;
use sframe_ld::Memory;
use sframe_ld::cli::{self, Color, Environment, Invocation};
use sframe_ld::diag::{Diagnostic, RenderOptions, Severity, Sink, limit_messages, render, share_help, words};
use sframe_ld::input::{SystemSource, read_arguments};
use sframe_ld::output::detach;
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: Heap = Heap;

fn main() -> ExitCode {
    Heap::keep_freed_memory();
    let mut arguments = std::env::args_os();
    let called_as = arguments.next();
    let program = program_name(called_as.as_deref());
    commands::handle_signals(&program, 1);
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
        enter: Some(|directory| std::env::set_current_dir(directory)),
    };
    let sink = Sink::default();
    let invocation = cli::parse(&arguments, &environment, &read_arguments, &sink);
    match invocation {
        Ok(Invocation::Print(text)) => {
            show(sink.into_sorted(), &program, None);
            print(&text, &program);
            ExitCode::SUCCESS
        }
        Ok(Invocation::Link(config, mut inputs)) => {
            runtime::add(&config, &mut inputs, &sink);
            let early = sink.into_sorted();
            if let Some(banner) = config.banner.as_ref().filter(|_| config.needs_32_bit_linker.is_none()) {
                print(banner, &program);
            }
            let writes_on = config.debug_file().is_some() && is_detached(&config);
            let waiting = writes_on.then(background::start).flatten();
            let delivered = |diagnostics, printed: &str| {
                print(printed, &program);
                show(diagnostics, &program, Some(&config));
                if let Some(waiting) = &waiting {
                    waiting.release();
                }
            };
            let source = &SystemSource;
            let outcome =
                sframe_ld::link_in_steps(&config, &inputs, source, early, Memory::Left, Some(&delivered));
            if let Some(link) = outcome.needs_32_bit_linker.filter(|_| !config.no_fallback) {
                return fallback::run(&program, &link, &arguments);
            }
            print(&outcome.printed, &program);
            show(outcome.diagnostics, &program, Some(&config));
            if config.reports.time_report {
                eprint!("{}", outcome.timings.report());
            }
            if is_detached(&config) && waiting.is_none() {
                detach::free_memory_after_exit(outcome.replaced.as_ref());
            }
            end(if outcome.succeeded { 0 } else { 1 })
        }
        Err(_) => {
            show(sink.into_sorted(), &program, None);
            ExitCode::FAILURE
        }
    }
}

/// Whether the command may leave a process behind. Not with sanitizers (builds without `mimalloc`), which do
/// not support processes that share memory.
fn is_detached(config: &cli::Config) -> bool {
    !config.foreground && cfg!(feature = "mimalloc")
}

/// Ends the process without exit handlers, which only free memory, for some 2 % of the time of a small
/// link.
fn end(status: i32) -> ! {
    #[cfg(writes_profile)]
    write_profile();
    // SAFETY: nothing runs behind it in this process.
    unsafe { libc::_exit(status) }
}

/// Writes what a build with `-Cprofile-generate` has counted, as an exit handler would (`cargo xtask
/// package`).
#[cfg(writes_profile)]
fn write_profile() {
    unsafe extern "C" {
        fn __llvm_profile_write_file() -> i32;
    }
    // SAFETY: the function takes nothing, and may be called at any time.
    if unsafe { __llvm_profile_write_file() } != 0 {
        eprintln!("sframe-ld: cannot write the profile");
    }
}

/// The name in messages: the one that the command was called by, with its folder if that was said, as GNU ld
/// does. Compilers call every linker `ld`, and the folder tells which one it is.
fn program_name(argument: Option<&OsStr>) -> String {
    let name = argument.filter(|name| !name.is_empty());
    name.map_or_else(|| "sframe-ld".into(), |name| words::shown(&name.to_string_lossy()).into_owned())
}

/// Prints on standard output. What is lost there, as on a full disk, is worth a warning: the output is
/// complete. A closed pipe is not even that, because whoever reads has seen enough.
fn print(text: &str, program: &str) {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            let message = format!("cannot write to standard output: {error}");
            commands::tell(program, Severity::Warning, &message);
        }
        _ => {}
    }
}

fn show(mut diagnostics: Vec<Diagnostic>, program: &str, config: Option<&cli::Config>) {
    let stderr = std::io::stderr();
    let color = commands::is_colored(config.map_or(Color::Auto, |config| config.diagnostics.color));
    let visual_studio = config.is_some_and(|config| config.diagnostics.visual_studio);
    let options = RenderOptions { program: program.into(), color, visual_studio };
    let limit =
        config.and_then(|config| config.diagnostics.error_limit).map_or(usize::MAX, std::num::NonZero::get);
    let left = limit_messages(&mut diagnostics, limit);
    share_help(&mut diagnostics);
    let mut stderr = stderr.lock();
    for diagnostic in &diagnostics {
        let _ = stderr.write_all(render(diagnostic, &options).as_bytes());
    }
    for (more, kind) in [(left.warnings, "warning"), (left.errors, "error")] {
        if more > 0 {
            let more = format!("{more} more {}", words::form(more as u64, kind));
            let _ = writeln!(stderr, "{program}: {more}; --error-limit=0 shows all");
        }
    }
}
