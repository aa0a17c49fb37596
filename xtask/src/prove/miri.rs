//! Proves memory safety with Miri: an interpreter that knows every rule of Rust's memory runs the tests of
//! code that is unsafe or reads bytes as structures. It is some hundred times slower than a processor, so
//! tests that repeat for long are left out.

use super::proof::Proof;
use crate::commands::first_line;
use crate::folders;
use anyhow::{Context, Result, ensure};
use std::process::Command;

/// Tests to interpret.
struct Suite {
    package: &'static str,
    about: &'static str,
    /// Options for `cargo test` and for the test program.
    options: &'static [&'static str],
    /// Options for the interpreter, in addition to those of all suites.
    interpreter: &'static str,
}

const SUITES: [Suite; 7] = [
    Suite {
        package: "sframe-format",
        about: "steps, signal frames, copies, units and C's view of tables",
        options: &[
            "--all-features",
            "--test",
            "copy",
            "--test",
            "unwinding",
            "--test",
            "signal_frames",
            "--test",
            "light",
            "--",
            "--skip",
            "damage",
            // `object` skips files whose bytes are not aligned, and an interpreter's memory seldom is.
            "--skip",
            "units_answer",
        ],
        interpreter: "",
    },
    Suite {
        package: "sframe-demangle",
        about: "names of C++ and Rust",
        options: &["--test", "libiberty", "--", "names_of_every_kind"],
        interpreter: "",
    },
    Suite {
        package: "sframe-unwind",
        about: "the C interface over hostile tables and stacks",
        options: &["--test", "hostile"],
        interpreter: "",
    },
    Suite { package: "elf", about: "structures of files, notes", options: &["--lib"], interpreter: "" },
    Suite { package: "sframe-bpf", about: "tables for the kernel", options: &["--lib"], interpreter: "" },
    Suite {
        package: "parallel",
        about: "pieces, places of results",
        // Two tests are about lists of 100,000 items.
        options: &["--lib", "--", "--skip", "are_sorted", "--skip", "many_small_pieces"],
        interpreter: " -Zmiri-ignore-leaks",
    },
    Suite {
        package: "sframe-ld",
        about: "the table of names, flags that threads set",
        options: &["--no-default-features", "--lib", "--", "symbols::"],
        // rayon's threads never end, so what they own counts as leaked.
        interpreter: " -Zmiri-ignore-leaks",
    },
];

pub fn miri(proof: &mut Proof) -> Result<()> {
    let version = first_line(Command::new("cargo").args(["+nightly", "miri", "--version"]))
        .context("a nightly compiler with miri and rust-src is needed")?;
    proof.note(format!("{version}. Each package's tests, as far as they end in minutes.\n"))?;
    proof.note("| package | what | passed |\n|---|---|---:|")?;
    let mut wrong = Vec::new();
    for suite in &SUITES {
        let mut command = Command::new("cargo");
        command
            .current_dir(folders::workspace())
            .args(["+nightly", "miri", "test", "--no-fail-fast", "--package", suite.package])
            .args(suite.options)
            .env("CARGO_TARGET_DIR", proof.folder.join("target"))
            // Tests read their fixtures. rayon follows Tree Borrows, but not the stricter Stacked Borrows.
            .env("MIRIFLAGS", format!("-Zmiri-disable-isolation -Zmiri-tree-borrows{}", suite.interpreter));
        let output = command.output().context("cannot start cargo")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let passed: u64 = text.lines().filter_map(passed).sum();
        proof.note(format!("| {} | {} | {passed} |", suite.package, suite.about))?;
        if !output.status.success() || passed == 0 {
            let messages = String::from_utf8_lossy(&output.stderr);
            wrong.push(format!("{}: {}\n{text}{messages}", suite.package, output.status));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// The number of `test result: ok. 3 passed; …`.
fn passed(line: &str) -> Option<u64> {
    let (_, rest) = line.strip_prefix("test result: ")?.split_once(". ")?;
    rest.split_once(" passed")?.0.parse().ok()
}
