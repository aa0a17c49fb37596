//! Finds the linkers of this machine and identifies them.
//!
//! They are in the folder of peers (`SFRAME_PEERS`, which `cargo xtask peers` makes: `NAME/ld`, and
//! `NAME/MACHINE/ld` for other machines) and on `PATH`; `--linker NAME=COMMAND` adds any other. This
//! project's linker is the one that `SFRAME_LD` names, otherwise the one beside this program.

use crate::machine::Machine;
use ::peers::PATH_NAMES;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

pub use ::peers::{Family, Linker};

/// Which linkers are wanted.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Wanted {
    /// A linker: a name in the folder of peers or on PATH, or NAME=COMMAND [default: all that are found]
    #[arg(long = "linker", value_name = "NAME[=COMMAND]")]
    pub linkers: Vec<String>,
    /// Folder with the other linkers, as `cargo xtask peers` makes it
    #[arg(long, env = "SFRAME_PEERS", default_value = "target/peers", value_name = "DIR")]
    pub peers: PathBuf,
}

impl Wanted {
    /// The linkers for a machine: this project's first, then the others by name. Linkers that only link for
    /// other machines are left out.
    ///
    /// # Errors
    /// A linker that the user named does not exist or does not answer to `--version`, or no linker is found.
    pub fn find(&self, machine: Machine) -> Result<Vec<Linker>> {
        let found = if self.linkers.is_empty() {
            self.all(machine)
        } else {
            let found: Result<Vec<_>> = self.linkers.iter().map(|word| self.named(word, machine)).collect();
            found?.into_iter().flatten().collect()
        };
        if found.is_empty() {
            bail!("no linker for {} in {} or on PATH", machine.name(), self.peers.display());
        }
        Ok(found)
    }

    fn named(&self, word: &str, machine: Machine) -> Result<Option<Linker>> {
        let (name, command) = match word.split_once('=') {
            Some((name, command)) => (name, command.split_whitespace().map(String::from).collect()),
            None => {
                let of = |machine| self.candidates(machine).into_iter().find(|(name, _)| name == word);
                match of(machine) {
                    Some((_, command)) => (word, command),
                    None if Machine::ALL.into_iter().any(|other| of(other).is_some()) => return Ok(None),
                    None => bail!("no linker {word} in {} or on PATH", self.peers.display()),
                }
            }
        };
        let linker = Linker::probe(name, command);
        linker.map(Some).with_context(|| format!("{word} does not answer to --version"))
    }

    fn all(&self, machine: Machine) -> Vec<Linker> {
        let mut found: Vec<Linker> = Vec::new();
        for (name, command) in self.candidates(machine) {
            let Some(linker) = Linker::probe(&name, command) else { continue };
            // A linker from `PATH` only fills a gap. Such names mean whatever is installed.
            let known = |other: &Linker| {
                if PATH_NAMES.contains(&&*linker.name) {
                    other.family == linker.family
                } else {
                    other.version == linker.version
                }
            };
            if linker.family != Family::Other && !found.iter().any(known) {
                found.push(linker);
            }
        }
        found
    }

    /// Names and commands; the preferred ones come first.
    fn candidates(&self, machine: Machine) -> Vec<(String, Vec<String>)> {
        let mut found = Vec::new();
        let mut add = |name: &str, path: PathBuf| {
            if path.is_file() {
                found.push((name.to_owned(), vec![path.display().to_string()]));
            }
        };
        let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join("sframe-ld")));
        // Tests run from a folder below the folder of the programs.
        let above = beside.as_deref().and_then(|path| Some(path.parent()?.parent()?.join("sframe-ld")));
        let chosen = std::env::var_os("SFRAME_LD").map(PathBuf::from);
        chosen.into_iter().chain(beside).chain(above).for_each(|path| add("sframe-ld", path));
        let entries = std::fs::read_dir(&self.peers).into_iter().flatten().flatten();
        let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        folders.sort();
        for folder in folders {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let program = match machine {
                Machine::X86_64 => folder.join("ld"),
                other => folder.join(other.name()).join("ld"),
            };
            // A path that names a folder works from every working directory only if it is absolute.
            add(&name, std::path::absolute(&program).unwrap_or(program));
        }
        for name in ["sframe-ld"].into_iter().chain(PATH_NAMES.iter().copied()) {
            let one_machine = matches!(name, "ld.bfd" | "ld.gold");
            let file = if one_machine { machine.tool(name) } else { name.to_owned() };
            on_path(&file).into_iter().for_each(|path| add(name, path));
        }
        found
    }
}

/// The program of a name on `PATH`.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// An assembler for a machine: the newest one in the folder of peers, otherwise the one on `PATH`.
pub fn assembler(peers: &Path, machine: Machine) -> Option<PathBuf> {
    let name = machine.tool("as");
    tool(peers, &name).or_else(|| on_path(&name))
}

/// The newest program with a name in the folder of peers.
pub fn tool(peers: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(peers).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        entries.map(|entry| entry.path().join(name)).filter(|path| path.is_file()).collect();
    found.sort();
    found.pop().and_then(|path| std::path::absolute(path).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linker_can_be_given_as_a_command() {
        let wanted = Wanted { linkers: vec!["mine=echo GNU ld".into()], peers: "nowhere".into() };
        let found = wanted.find(Machine::X86_64).unwrap();
        assert_eq!((found[0].name.as_str(), found[0].version.as_str()), ("mine", "GNU ld --version"));
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("bfd-9")).unwrap();
        std::os::unix::fs::symlink("/bin/echo", folder.path().join("bfd-9/ld")).unwrap();
        let words = ["bfd-9", "mine=echo GNU ld"].map(String::from);
        let wanted = Wanted { linkers: words.into(), peers: folder.path().into() };
        let names =
            |machine| wanted.find(machine).unwrap().into_iter().map(|linker| linker.name).collect::<Vec<_>>();
        assert_eq!(names(Machine::X86_64), ["bfd-9", "mine"]);
        assert_eq!(names(Machine::S390x), ["mine"], "a linker of another machine is left out");
        let unknown = Wanted { linkers: vec!["no-such-linker".into()], peers: "nowhere".into() };
        assert!(unknown.find(Machine::X86_64).unwrap_err().to_string().contains("no-such-linker"));
    }
}
