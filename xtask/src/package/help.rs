//! What programs say of themselves (`--help`).

use crate::commands;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// What a program says of itself.
pub struct Help {
    pub text: String,
    /// Its commands, and what it says of each.
    pub commands: Vec<(String, String)>,
}

impl Help {
    /// What a program prints.
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

    /// All of it.
    pub fn whole(&self) -> String {
        let commands = self.commands.iter().map(|(name, text)| format!("\n{name}\n{text}"));
        std::iter::once(self.text.clone()).chain(commands).collect()
    }
}
