//! The tree of other projects' tools, which `cargo xtask peers` makes, and the tests that lack one of them.
//!
//! Tests of several packages take tools from there. A test that lacks a tool reports its name, and `cargo
//! xtask test` counts these reports from all packages.

use std::io::Write;
use std::path::{Path, PathBuf};

/// The folder: `SFRAME_PEERS`, otherwise `target/peers` in this workspace.
pub fn folder() -> PathBuf {
    match std::env::var_os("SFRAME_PEERS") {
        Some(path) => path.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers"),
    }
}

/// Reports that a test cannot run here. `scratch` is `CARGO_TARGET_TMPDIR` of the test's program.
///
/// # Panics
/// With `SFRAME_TESTS_REQUIRE_ALL=1`: no test may be skipped.
#[track_caller]
pub fn skip(scratch: &Path, test: &str, reason: &str) {
    let required = std::env::var("SFRAME_TESTS_REQUIRE_ALL").is_ok_and(|value| value == "1");
    assert!(!required, "{test} may not be skipped here: {reason}");
    note_skip(scratch, &format!("skipped: {test}: {reason}\n"));
}

/// Writes a line to standard error, past the test harness, which would capture it. Also writes it to
/// `skips.txt` in the scratch folder, where `cargo xtask test` counts it.
pub fn note_skip(scratch: &Path, line: &str) {
    let _ = std::io::stderr().write_all(line.as_bytes());
    let path = scratch.join("skips.txt");
    if let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(path) {
        let _ = file.write_all(line.as_bytes());
    }
}
