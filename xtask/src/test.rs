//! Runs all tests and fetches the tools that they need. At the end it lists the tests that were skipped.

use crate::peers;
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::process::Command;

#[derive(clap::Args)]
pub struct Arguments {
    /// Fail instead of skipping a test whose tool is missing
    #[arg(long)]
    require_all: bool,
    /// Arguments for `cargo test` (`-- FILTER` to run some)
    #[arg(last = true)]
    rest: Vec<String>,
}

pub fn run(arguments: Arguments) -> Result<()> {
    let folder = peers::folder();
    let missing = peers::prepare(&folder, true)?;
    let skips = crate::folders::target().join("tmp/skips.txt");
    let _ = std::fs::remove_file(&skips);
    let mut command = Command::new("cargo");
    command.current_dir(crate::folders::workspace()).env("SFRAME_PEERS", folder.canonicalize()?);
    command.args(["test", "--workspace", "--no-fail-fast"]);
    if arguments.require_all {
        command.env("SFRAME_TESTS_REQUIRE_ALL", "1");
    }
    if !arguments.rest.is_empty() {
        command.arg("--").args(&arguments.rest);
    }
    let status = command.status()?;
    for line in &missing {
        println!("not to be had: {line}");
    }
    let text = std::fs::read_to_string(&skips).unwrap_or_default();
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    text.lines().for_each(|line| *counted.entry(line).or_default() += 1);
    for (line, count) in &counted {
        println!("{line} ({count})");
    }
    println!("{} skips", text.lines().count());
    if !status.success() {
        bail!("tests failed");
    }
    Ok(())
}
