//! What every page of `benches/` begins with: by which command, when, on which machine, by which versions.

use std::fmt::Write;
use std::process::Command;

use ::peers::Linker;
use anyhow::Result;

/// How often and on what links run.
#[derive(Clone, Copy)]
pub struct Conditions {
    /// Counted rounds.
    pub rounds: u64,
    /// Processors that each linker could use.
    pub processors: usize,
    /// Other processes that ran meanwhile.
    pub busy: usize,
}

/// The heading, and by what the page was written: the words of `cargo xtask`.
///
/// # Errors
/// There is no command `date`.
pub fn begin(text: &mut String, title: &str, words: &str) -> Result<()> {
    let output = Command::new("date").args(["-u", "+%F"]).output()?;
    let date = String::from_utf8_lossy(&output.stdout).trim().to_string();
    writeln!(text, "# {title}\n")?;
    writeln!(text, "Written by `cargo xtask {words}` on {date}, on {}.\n", machine())?;
    Ok(())
}

/// The table of the linkers' versions.
///
/// # Errors
/// None in practice, because a `String` takes everything.
pub fn versions(text: &mut String, linkers: &[Linker]) -> Result<()> {
    writeln!(text, "| linker | version |\n|---|---|")?;
    for linker in linkers {
        writeln!(text, "| {} | {} |", linker.name, linker.version)?;
    }
    Ok(())
}

/// Describes the machine: processors, memory, system.
fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once([':', '='])?.1.trim().trim_matches('"').to_string())
    };
    let processors = read("/proc/cpuinfo");
    let count = processors.lines().filter(|line| line.starts_with("processor")).count();
    let model = field(&processors, "model name").unwrap_or("processors of unknown model".into());
    let memory = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
    let memory: u64 = memory.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let system = field(&read("/etc/os-release"), "PRETTY_NAME").unwrap_or("Linux".into());
    format!("{count} × {model}, {} GiB of memory, {system}", memory.div_ceil(1024 * 1024))
}
