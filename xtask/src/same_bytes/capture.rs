//! Keeps the inputs of every link that a command makes.

use super::corpus::Corpus;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Variables that the linker reads but `--reproduce` does not write down. (It does write down the options in
/// `SFRAME_LD_OPTIONS`.)
const VARIABLES: [&str; 2] = ["SFRAME_LD_IDENTITY", "LD_RUN_PATH"];

#[derive(clap::Args)]
pub struct Link {
    #[arg(long)]
    linker: PathBuf,
    /// The name under which the linker is called
    #[arg(long)]
    program: PathBuf,
    #[arg(last = true)]
    arguments: Vec<std::ffi::OsString>,
}

/// Runs a command with a linker that keeps its inputs. The variables of the tests and of `ld-compare` name
/// that linker.
pub fn run(folder: &Path, linker: &Path, command: &[String]) -> Result<()> {
    let corpus = Corpus::open(folder.to_path_buf())?;
    let before = corpus.names()?.len();
    let wrapper = folder.join("sframe-ld");
    let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
    let text = format!(
        "#!/bin/sh\nexec {} same-bytes --corpus {} link --linker {} --program \"$0\" -- \"$@\"\n",
        quoted(&std::env::current_exe()?),
        quoted(folder),
        quoted(linker)
    );
    std::fs::write(&wrapper, text)?;
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755))?;
    let (program, words) = command.split_first().context("no command")?;
    let status = Command::new(program)
        .args(words)
        .env("SFRAME_TEST_LD", &wrapper)
        .env("SFRAME_LD", &wrapper)
        .env("SFRAME_TEST_OWN", "1")
        .status()
        .with_context(|| format!("cannot run {program}"))?;
    println!("{} links more, {} in all", corpus.names()?.len() - before, corpus.names()?.len());
    ensure!(status.success(), "{program} failed");
    Ok(())
}

/// Makes the link as asked and keeps the inputs.
pub fn link(folder: &Path, link: Link) -> Result<()> {
    let program = link.program.file_name().unwrap_or_default().to_os_string();
    let mut command = Command::new(&link.linker);
    command.arg0(&program).args(&link.arguments);
    let says_reproduce = |word: &std::ffi::OsString| word.to_string_lossy().contains("-reproduce");
    if link.arguments.iter().any(says_reproduce) {
        return Err(command.exec()).context("cannot run the linker");
    }
    let corpus = Corpus::open(folder.to_path_buf())?;
    let archive = corpus.new_file()?;
    command.arg(prefixed("--reproduce=", &archive));
    let status = command.status().context("cannot run the linker")?;
    // If the linker was asked for its version, or an option was wrong, it read nothing.
    if std::fs::metadata(&archive)?.len() > 0 {
        let variables =
            VARIABLES.iter().filter_map(|name| Some((name.to_string(), std::env::var(name).ok()?)));
        let environment: BTreeMap<String, String> = variables.collect();
        corpus.add(&archive, program.to_string_lossy().into_owned(), environment)?;
    }
    drop(archive);
    std::process::exit(status.code().unwrap_or(134));
}

fn prefixed(option: &str, path: &Path) -> std::ffi::OsString {
    let mut word = std::ffi::OsString::from(option);
    word.push(path);
    word
}
