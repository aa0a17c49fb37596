//! Runs the tests of `lit-tests/` alone, with this linker or a peer.

use crate::peers;
use anyhow::{Result, bail};
use std::process::Command;

#[derive(clap::Args)]
pub struct Arguments {
    /// Filters and flags of the runner: texts in paths of tests, `--ld NAME[=COMMAND]`, `--verbose`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let folder = peers::folder();
    for line in peers::prepare(&folder, true)? {
        println!("not to be had: {line}");
    }
    let mut command = Command::new("cargo");
    command.current_dir(crate::folders::workspace()).env("SFRAME_PEERS", folder.canonicalize()?);
    command.args(["test", "--quiet", "--test", "lit", "--"]).args(&arguments.rest);
    if !command.status()?.success() {
        bail!("tests failed");
    }
    Ok(())
}
