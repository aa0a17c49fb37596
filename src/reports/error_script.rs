//! `--error-handling-script`: runs a program that says more about missing symbols and libraries.
//!
//! The arguments are those of GNU ld and lld: `undefined-symbol` or `missing-lib`, and the name. The script
//! prints to the linker's own streams. GNU ld ignores its exit status. Here, as in lld, a script that fails
//! is an error, because its text is missing from the report. The linker reports each kind of failure once.

use crate::diag::{Code, Diagnostic, Severity};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Calls `script` once for each missing symbol and library, up to `limit` of them. Returns a diagnostic for
/// each kind of failure. A script that cannot be run is not called again.
pub fn run(script: &Path, diagnostics: &[Diagnostic], limit: usize) -> Vec<Diagnostic> {
    let mut called = HashSet::new();
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    let missing = errors.filter_map(|diagnostic| match (diagnostic.code, &diagnostic.subject) {
        (Code::UndefinedSymbol, Some(name)) => Some(("undefined-symbol", name)),
        (Code::LibraryNotFound, Some(name)) => Some(("missing-lib", name)),
        _ => None,
    });
    let mut failures: Vec<Diagnostic> = Vec::new();
    for (kind, name) in missing.filter(|&missing| called.insert(missing)).take(limit) {
        let mut command = Command::new(script);
        command.arg(kind).arg(OsStr::from_bytes(name)).stdin(Stdio::null());
        let result = command.status();
        let failure = match &result {
            Ok(status) if status.success() => continue,
            Ok(status) => format!("fails with {status}"),
            Err(error) => format!("cannot be run: {error}"),
        };
        let message = format!("the error handling script {} {failure}", script.display());
        if failures.iter().all(|known| known.message != message) {
            let arguments = format!("called with: {kind} {}", String::from_utf8_lossy(name));
            failures.push(Diagnostic::error(Code::ErrorScript, message).note(arguments));
        }
        if result.is_err() {
            break;
        }
    }
    failures
}
