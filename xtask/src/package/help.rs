//! What programs print for `--help`.

use crate::commands;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// What a program prints for `--help`.
pub struct Help {
    pub text: String,
    /// Its commands, each with what its own `--help` prints.
    pub commands: Vec<(String, String)>,
}

impl Help {
    /// Asks a program.
    pub fn of(program: &Path) -> Result<Self> {
        let text = commands::output(Command::new(program).arg("--help"))?;
        let mut commands = Vec::new();
        let list = text.split_once("\nCommands:\n").map_or("", |(_, list)| list);
        for line in list.lines().take_while(|line| !line.is_empty()) {
            let name = line.split_whitespace().next().unwrap_or("help");
            if name != "help" {
                commands
                    .push((name.to_owned(), commands::output(Command::new(program).args([name, "--help"]))?));
            }
        }
        Ok(Self { text, commands })
    }

    /// Everything that the program and its commands print.
    pub fn whole(&self) -> String {
        let commands = self.commands.iter().map(|(name, text)| format!("\n{name}\n{text}"));
        std::iter::once(self.text.clone()).chain(commands).collect()
    }
}
