//! Tests of whole command lines.

mod drivers;
mod effects;
mod page;
mod spelling;

use super::*;
use diagnostics::{Aborted, Code, Diagnostic, Sink};
use std::ffi::OsString;
use std::io;
use std::path::Path;

/// The files that tests may name.
fn files(name: &Path) -> io::Result<Vec<u8>> {
    match name.to_str() {
        Some("options.rsp") => Ok(b"-o 'two words' @more.rsp b.o".to_vec()),
        Some("more.rsp") => Ok(b"-la\\\\b \"-L/some dir\"".to_vec()),
        Some("symbols.o") => Ok(b"\x7fELF".to_vec()),
        Some("remap.txt") => Ok(b"# comment\n*/a.o b.o\n\nc.* /dev/null # gone\n d.o=e=.o \n".to_vec()),
        Some("bad-remap.txt") => Ok(b"just-one\n".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

/// The result of a command line, and everything that was reported.
fn run_in(
    arguments: &[&str],
    environment: &Environment<'_>,
) -> (Result<Invocation, Aborted>, Vec<Diagnostic>) {
    let sink = Sink::default();
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    let result = parse(&arguments, environment, &files, &sink);
    (result, sink.into_sorted())
}

fn run(arguments: &[&str]) -> (Result<Invocation, Aborted>, Vec<Diagnostic>) {
    run_in(arguments, &Environment { program: "ld", enter: Some(|_| Ok(())), ..Environment::default() })
}

/// The link that a command line asks for. Nothing may be reported.
fn link(arguments: &[&str]) -> (Config, Vec<InputSpec>) {
    let (result, diagnostics) = run(arguments);
    assert_eq!(diagnostics, [], "{arguments:?}");
    match result {
        Ok(Invocation::Link(config, inputs)) => (*config, inputs),
        other => panic!("{arguments:?}: {other:?}"),
    }
}

fn config(arguments: &[&str]) -> Config {
    link(&[arguments, &["a.o"]].concat()).0
}

fn inputs(arguments: &[&str]) -> Vec<InputSpec> {
    link(arguments).1
}

/// The only error of a command line, which must fail.
fn error(arguments: &[&str]) -> Diagnostic {
    let (result, mut diagnostics) = run(arguments);
    assert_eq!(result, Err(Aborted), "{arguments:?}");
    assert_eq!(diagnostics.len(), 1, "{diagnostics:?}");
    diagnostics.remove(0)
}

/// The only warning of a command line, which must link.
fn warning(arguments: &[&str]) -> Diagnostic {
    let (result, mut diagnostics) = run(arguments);
    assert!(result.is_ok(), "{arguments:?}: {diagnostics:?}");
    assert_eq!(diagnostics.len(), 1, "{diagnostics:?}");
    diagnostics.remove(0)
}

fn printed(arguments: &[&str]) -> String {
    match run(arguments) {
        (Ok(Invocation::Print(text)), diagnostics) if diagnostics.is_empty() => text,
        other => panic!("{arguments:?}: {other:?}"),
    }
}
