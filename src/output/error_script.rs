//! `--error-handling-script`: a program that says more about what is missing.
//!
//! It is called as by GNU ld and lld: with `undefined-symbol` or `missing-lib` and the name. What it
//! prints goes where the linker prints; how it ends changes nothing.

use crate::diag::{Code, Diagnostic, Severity};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Calls `script` once for each missing symbol and library, for at most `limit` of them. The finding
/// says that it cannot be run.
pub fn run(script: &Path, diagnostics: &[Diagnostic], limit: usize) -> Option<Diagnostic> {
    let mut told = HashSet::new();
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    let missing = errors.filter_map(|diagnostic| match (diagnostic.code, &diagnostic.subject) {
        (Code::UndefinedSymbol, Some(name)) => Some(("undefined-symbol", name)),
        (Code::LibraryNotFound, Some(name)) => Some(("missing-lib", name)),
        _ => None,
    });
    let mut calls = missing.filter(|&missing| told.insert(missing)).take(limit);
    calls.find_map(|(what, name)| {
        let mut command = Command::new(script);
        command.arg(what).arg(OsStr::from_bytes(name)).stdin(Stdio::null());
        let error = command.status().err()?;
        let message = format!("cannot run the error handling script {}: {error}", script.display());
        Some(Diagnostic::error(Code::CannotOpen, message))
    })
}
