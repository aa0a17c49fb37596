//! The link that gets the faults, and the judgement of how it ended.

use super::super::limits::{self, Ended, Limits};
use super::super::proof::Proof;
use crate::commands::output;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMITS: Limits = Limits { processor: 60, clock: 120, address_space: u64::MAX, file: u64::MAX };

/// The words of the link after the linker and its output.
const WORDS: &[&str] = &[
    "-pie",
    "-e",
    "start",
    "main.o",
    "libf.a",
    "libg.so",
    "--build-id",
    "--gc-sections",
    "--dynamic-list=list",
];

const SOURCES: &[(&str, &str)] = &[
    (
        "main.c",
        "int f(int); int g(int); long table[300000] = {1}; int start(void) { return f(1) + g(2) + table[3]; }",
    ),
    ("f.c", "const char *word(void) { return \"some words\"; } int f(int n) { return n + word()[n]; }"),
    ("g.c", "int g(int n) { return 2 * n; }"),
];

/// How a link may end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// With the output that the link makes without faults.
    New,
    /// With a message, exit status 1, and the old output in place.
    Old,
    /// A signal from the proof ended it, and the output is complete, old or new.
    Killed,
    /// In any other way.
    Wrong,
}

/// A folder with the inputs, and the output that the link makes from them.
pub struct Bench {
    pub folder: PathBuf,
    pub linker: PathBuf,
    pub expected: Vec<u8>,
    injector: PathBuf,
}

/// What lies in the output's place before each link.
pub const OLD: &[u8] = b"the old output";

impl Bench {
    pub fn new(proof: &Proof) -> Result<Bench> {
        let folder = proof.folder.join("work");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("out"))?;
        for (name, text) in SOURCES {
            std::fs::write(folder.join(name), text)?;
        }
        std::fs::write(folder.join("list"), "{ f; };")?;
        let linker = proof.prefix.join("ld");
        let source = crate::folders::workspace().join("tests/integration/support/faults.c").canonicalize()?;
        for words in [
            "gcc -c -O1 -g -fPIC main.c f.c g.c",
            "ar rc libf.a f.o",
            "gcc -shared -nostdlib -o libg.so g.o",
            &format!("gcc -O1 -o injector {}", source.display()),
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            output(Command::new(words[0]).args(&words[1..]).current_dir(&folder))?;
        }
        let injector = folder.join("injector");
        let mut bench = Bench { folder, linker, expected: Vec::new(), injector };
        bench.reset()?;
        let ended = bench.run(bench.command("out/program"))?;
        ensure!(ended.status.success(), "{}", ended.said);
        bench.expected = std::fs::read(bench.out())?;
        Ok(bench)
    }

    pub fn out(&self) -> PathBuf {
        self.folder.join("out/program")
    }

    /// Puts the old output back.
    pub fn reset(&self) -> Result<()> {
        let _ = std::fs::remove_file(self.out());
        Ok(std::fs::write(self.out(), OLD)?)
    }

    /// The link, in words for a shell.
    pub fn words(&self, out: &str) -> String {
        format!("{} -o {out} {}", self.linker.display(), WORDS.join(" "))
    }

    pub fn command(&self, out: &str) -> Command {
        let mut command = Command::new(&self.linker);
        command.current_dir(&self.folder).args(["-o", out]).args(WORDS);
        command
    }

    /// The link in a shell that prepares its surroundings; `LINK` in the script stands for it.
    pub fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("bash");
        command.current_dir(&self.folder).args(["-c", &script.replace("LINK", &self.words("out/program"))]);
        command
    }

    /// The link with a call that fails: the one at this place, and from there on every `every`-th one.
    pub fn fault(&self, at: usize, every: usize, what: &str, calls: &str) -> Command {
        let mut command = Command::new(&self.injector);
        command.current_dir(&self.folder).args(["calls", &at.to_string(), &every.to_string(), what, calls]);
        command.arg(&self.linker).args(["-o", "out/program"]).args(WORDS);
        command
    }

    /// The calls that the linker makes, without those that start its process.
    pub fn calls(&self, calls: &str) -> Result<std::ops::Range<usize>> {
        let mut version = Command::new(&self.injector);
        version.current_dir(&self.folder).args(["calls", "999999", "0", "0", calls]);
        self.run_command(version.arg(&self.linker).arg("--version"))?;
        let count =
            || -> Result<usize> { Ok(std::fs::read_to_string(self.folder.join("calls"))?.lines().count()) };
        let started = count()?;
        self.run(self.fault(999_999, 0, "0", calls))?;
        Ok(started..count()?)
    }

    pub fn run(&self, mut command: Command) -> Result<Ended> {
        self.run_command(&mut command)
    }

    fn run_command(&self, command: &mut Command) -> Result<Ended> {
        limits::run(command, LIMITS, &self.folder.join("log"))
    }

    /// Judges how a link ended, by its status and its output.
    pub fn judge(&self, ended: &Ended) -> Result<End> {
        let output = std::fs::read(self.out()).context("the output is gone")?;
        let (old, new) = (output == OLD, output == self.expected);
        Ok(match (ended.status.code(), ended.signal()) {
            (_, Some(libc::SIGKILL | libc::SIGINT)) if old || new => End::Killed,
            (Some(0), _) if new => End::New,
            (Some(1), _) if old && !ended.said.trim().is_empty() && !ended.said.contains("panicked") => {
                End::Old
            }
            _ => End::Wrong,
        })
    }

    /// Whether another file lies beside the output.
    pub fn has_litter(&self) -> Result<bool> {
        Ok(std::fs::read_dir(self.folder.join("out"))?.count() != 1)
    }

    /// Whether the next link makes the output and removes what a killed one left.
    pub fn next_link_is_clean(&self) -> Result<bool> {
        let ended = self.run(self.command("out/program"))?;
        Ok(ended.status.success() && std::fs::read(self.out())? == self.expected && !self.has_litter()?)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Writes a file again in place, so that its inode stays. At the end it writes the header once more, as
/// assemblers do. On many file systems, times of change have ticks: if someone opens the file and sees only
/// writes of the same tick, they cannot know that more came.
pub fn overwrite(path: &Path, bytes: &[u8]) -> Result<()> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(path)?;
    file.set_len(bytes.len() as u64)?;
    file.write_all_at(bytes, 0)?;
    std::thread::sleep(TICK);
    Ok(file.write_all_at(&bytes[..64.min(bytes.len())], 0)?)
}

/// The longest tick that is usual, and some more.
const TICK: Duration = Duration::from_millis(25);
