//! The tree of other projects' tools that `cargo xtask peers` makes, and tests that lack one of them.
//!
//! Tests of several packages take tools from there. One that lacks a tool says so by name and is counted by
//! `cargo xtask test`, wherever it stands.

use std::io::Write;
use std::path::{Path, PathBuf};

/// The folder: `SFRAME_PEERS`, else `target/peers` of this workspace.
pub fn folder() -> PathBuf {
    match std::env::var_os("SFRAME_PEERS") {
        Some(path) => path.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers"),
    }
}

/// Reports that a test cannot run here; `scratch` is `CARGO_TARGET_TMPDIR` of the test's program.
///
/// # Panics
/// With `SFRAME_TESTS_REQUIRE_ALL=1`: no test may be skipped.
#[track_caller]
pub fn skip(scratch: &Path, test: &str, reason: &str) {
    let required = std::env::var("SFRAME_TESTS_REQUIRE_ALL").is_ok_and(|value| value == "1");
    assert!(!required, "{test} may not be skipped here: {reason}");
    note_skip(scratch, &format!("skipped: {test}: {reason}\n"));
}

/// Writes a line past the test harness's capture to standard error, and to `skips.txt` in the scratch folder,
/// which `cargo xtask test` counts.
pub fn note_skip(scratch: &Path, line: &str) {
    let _ = std::io::stderr().write_all(line.as_bytes());
    let path = scratch.join("skips.txt");
    if let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(path) {
        let _ = file.write_all(line.as_bytes());
    }
}
