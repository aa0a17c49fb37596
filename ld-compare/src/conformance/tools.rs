//! The tools under test, and how each runs a case.
//!
//! A tool is a name and one or several commands, because most assemblers and some linkers are one program for
//! each machine. Which command serves a machine, and which options it takes, is found by trying them on an
//! input that has no difficulty. What a tool cannot do is no failure of it: its cell stays empty.

use super::case::{Case, Kind, Outcome, Step};
use super::program::{File, Frames};
use crate::machine::Machine;
use crate::peers::{self, Wanted};
use crate::run::{Limits, limited};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A tool.
#[derive(Clone, Debug, Serialize)]
pub struct Tool {
    /// What it is.
    pub kind: Kind,
    /// Its name in reports.
    pub name: String,
    /// First line of `--version` of its first command.
    pub version: String,
    /// Its commands: the program, and words before the arguments of a case.
    #[serde(skip)]
    pub commands: Vec<Vec<String>>,
}

impl Tool {
    /// A tool from `NAME=COMMAND` or from a command, whose program's name it then gets.
    ///
    /// # Errors
    /// The command is empty or cannot be started.
    pub fn named(kind: Kind, words: &str) -> Result<Self> {
        // Options of a command may have a `=`, too.
        let (name, command) = words.split_once('=').filter(|(name, _)| is_name(name)).unwrap_or(("", words));
        let mut command: Vec<String> = command.split_whitespace().map(String::from).collect();
        // Cases run in folders of their own, where a relative path leads nowhere.
        if let Some(program) = command.first_mut().filter(|program| program.contains('/')) {
            *program = std::path::absolute(&*program)?.display().to_string();
        }
        let program = command.first().with_context(|| format!("{words:?} names no program"))?;
        let own = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = if name.is_empty() { own } else { name.to_owned() };
        let version = version(&command).with_context(|| format!("cannot run {program}"))?;
        Ok(Tool { kind, name, version, commands: vec![command] })
    }

    /// Joins tools of one kind and name: several commands of one tool.
    pub fn join(tools: Vec<Tool>) -> Vec<Tool> {
        let mut joined: Vec<Tool> = Vec::new();
        for tool in tools {
            match joined.iter_mut().find(|other| other.kind == tool.kind && other.name == tool.name) {
                Some(other) => other.commands.extend(tool.commands),
                None => joined.push(tool),
            }
        }
        joined
    }
}

/// Whether a text before `=` is a name like `bfd-2.47`, not the start of a command.
fn is_name(text: &str) -> bool {
    !text.starts_with('-') && text.chars().all(|c| c.is_ascii_alphanumeric() || ".-_+".contains(c))
}

/// The first line that a command answers to `--version`. A subcommand may not know the option; then its
/// program is asked.
fn version(command: &[String]) -> Option<String> {
    let ask = |words: &[String]| {
        let output =
            Command::new(&command[0]).args(words).arg("--version").stdin(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // LLVM's tools begin with the name of the project, and with an empty line in some releases.
        let mut lines =
            text.lines().map(str::trim).filter(|line| output.status.success() && !line.is_empty());
        Some(lines.next().map(str::to_owned))
    };
    let line = ask(&command[1..])?;
    Some(line.or_else(|| ask(&[]).flatten()).unwrap_or_else(|| "no version".into()))
}

/// The tools that the command line names; without any, all that the machine has.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Chosen {
    /// An assembler that writes .sframe, as a command [default: those of the folder of peers and PATH]
    #[arg(long = "assembler", value_name = "[NAME=]COMMAND")]
    pub assemblers: Vec<String>,
    /// A linker, as a command
    #[arg(long = "linker", value_name = "[NAME=]COMMAND")]
    pub linkers: Vec<String>,
    /// A program that prints .sframe, as a command to which the file is added
    #[arg(long = "reader", value_name = "[NAME=]COMMAND")]
    pub readers: Vec<String>,
    /// Folder with other projects' tools, as `cargo xtask peers` makes it
    #[arg(long, env = "SFRAME_PEERS", default_value = "target/peers", value_name = "DIR")]
    pub peers: PathBuf,
}

impl Chosen {
    /// The tools.
    ///
    /// # Errors
    /// One that the user named cannot be run, or there is none.
    pub fn find(&self) -> Result<Vec<Tool>> {
        let mut tools = Vec::new();
        let lists = [
            (Kind::Assembler, &self.assemblers),
            (Kind::Linker, &self.linkers),
            (Kind::Reader, &self.readers),
        ];
        for (kind, words) in lists {
            for word in words {
                tools.push(Tool::named(kind, word)?);
            }
        }
        if tools.is_empty() {
            tools = self.installed();
        }
        if tools.is_empty() {
            bail!("no tool: name one by --linker, --assembler or --reader");
        }
        Ok(Tool::join(tools))
    }

    /// Every tool that is found without being named.
    fn installed(&self) -> Vec<Tool> {
        let mut tools = Vec::new();
        let wanted = Wanted { linkers: Vec::new(), peers: self.peers.clone() };
        for machine in Machine::ALL {
            for linker in wanted.find(machine).unwrap_or_default() {
                let name = if linker.is_ours() { "sframe-ld".to_owned() } else { linker.name };
                let known =
                    tools.iter().any(|tool: &Tool| tool.name == name && tool.commands[0] == linker.command);
                if !known {
                    let commands = vec![linker.command];
                    tools.push(Tool { kind: Kind::Linker, name, version: linker.version, commands });
                }
            }
        }
        let mut add = |kind, name: &str, words: Vec<String>| tools.extend(tool(kind, name, words));
        for (folder, path) in self.folders() {
            for machine in Machine::ALL {
                let program = path.join(machine.tool("as"));
                if program.is_file() {
                    let name = folder.replace("binutils", "gas");
                    add(Kind::Assembler, &name, vec![program.display().to_string(), "--gsframe".into()]);
                }
            }
            let llvm = path.join("llvm-mc");
            if llvm.is_file() {
                add(Kind::Assembler, &folder, vec![llvm.display().to_string(), "--filetype=obj".into()]);
            }
            // The linker of the same release, where the tests' own linkers are older.
            let lld = path.join("ld.lld");
            if lld.is_file() {
                add(Kind::Linker, &folder.replace("llvm-mc", "lld"), vec![lld.display().to_string()]);
            }
            for (program, option, prefix) in [
                ("readelf", "--sframe", "readelf"),
                ("objdump", "--sframe", "objdump"),
                ("llvm-readobj", "--sframe", "llvm-readobj"),
            ] {
                let file = path.join(program);
                if file.is_file() {
                    let number = folder.rsplit_once('-').map_or("", |(_, number)| number);
                    let words = vec![file.display().to_string(), option.into()];
                    add(Kind::Reader, &format!("{prefix}-{number}"), words);
                }
            }
        }
        if let Some(sframe) = ours("sframe") {
            add(Kind::Reader, "sframe", vec![sframe.display().to_string(), "dump".into(), "--json".into()]);
        }
        // Without a folder of peers, what the system has.
        let lacks =
            |tools: &[Tool], kind| !tools.iter().any(|tool| tool.kind == kind && tool.name != "sframe");
        for (kind, program, option) in
            [(Kind::Assembler, "as", "--gsframe"), (Kind::Reader, "readelf", "--sframe")]
        {
            if lacks(&tools, kind)
                && let Some(path) = peers::on_path(program)
            {
                tools.extend(tool(kind, program, vec![path.display().to_string(), option.into()]));
            }
        }
        tools
    }

    fn folders(&self) -> Vec<(String, PathBuf)> {
        let entries = std::fs::read_dir(&self.peers).into_iter().flatten().flatten();
        let mut folders: Vec<(String, PathBuf)> = entries
            .filter_map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                Some((name, std::path::absolute(entry.path()).ok()?))
            })
            .collect();
        folders.sort();
        folders
    }
}

/// A tool of one command, if it can be started.
fn tool(kind: Kind, name: &str, words: Vec<String>) -> Option<Tool> {
    let version = version(&words)?;
    Some(Tool { kind, name: name.into(), version, commands: vec![words] })
}

/// A program of this project, beside this one or in the folder above (where tests run).
fn ours(name: &str) -> Option<PathBuf> {
    let here = std::env::current_exe().ok()?;
    let folder = here.parent()?;
    [Some(folder), folder.parent()]
        .into_iter()
        .flatten()
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .or_else(|| peers::on_path(name))
}

/// Runs cases by one tool, and remembers what it can do.
pub struct Runner<'a> {
    tool: &'a Tool,
    limits: &'a Limits,
    /// The command for each machine, once it was asked for.
    commands: BTreeMap<Machine, Option<Vec<String>>>,
    /// Whether it takes these options for this machine.
    options: BTreeMap<(Machine, Vec<String>), bool>,
}

impl<'a> Runner<'a> {
    /// A runner of a tool.
    pub fn new(tool: &'a Tool, limits: &'a Limits) -> Self {
        Runner { tool, limits, commands: BTreeMap::new(), options: BTreeMap::new() }
    }

    /// The command for a machine.
    ///
    /// # Errors
    /// No room for temporary files.
    pub fn command(&mut self, machine: Machine) -> Result<Option<Vec<String>>> {
        if let Some(found) = self.commands.get(&machine) {
            return Ok(found.clone());
        }
        let mut chosen = None;
        for command in &self.tool.commands {
            let case = plain(self.tool.kind, machine);
            let outcome = execute(command, &case, self.limits)?;
            let fits = match self.tool.kind {
                // Whether a reader knows the version of this input is what its cases ask.
                Kind::Reader => outcome.ran > 0,
                Kind::Assembler | Kind::Linker => is_for(&outcome, machine),
            };
            if fits {
                chosen = Some(command.clone());
                break;
            }
        }
        self.commands.insert(machine, chosen.clone());
        Ok(chosen)
    }

    /// Why the tool takes no part in a case; `None` if it does.
    ///
    /// # Errors
    /// No room for temporary files.
    pub fn absent(&mut self, case: &Case) -> Result<Option<String>> {
        let Some(command) = self.command(case.machine)? else {
            return Ok(Some(format!("not for {}", case.machine.name())));
        };
        for words in &case.needs {
            let key = (case.machine, words.clone());
            if !self.options.contains_key(&key) {
                let mut simple = plain(self.tool.kind, case.machine);
                simple.steps[0].arguments.extend(words.iter().cloned());
                // What the option names may be a file of the case.
                simple.files.extend(
                    case.files
                        .iter()
                        .filter(|(name, _)| words.iter().any(|word| word.contains(name)))
                        .cloned(),
                );
                let takes = execute(&command, &simple, self.limits)?.status.is_success();
                self.options.insert(key.clone(), takes);
            }
            if !self.options[&key] {
                return Ok(Some(format!("without {}", words.join(" "))));
            }
        }
        Ok(None)
    }

    /// Runs a case.
    ///
    /// # Errors
    /// No room for temporary files, or the tool has no command for the machine.
    pub fn run(&mut self, case: &Case) -> Result<Outcome> {
        let command = self.command(case.machine)?.context("no command for this machine")?;
        execute(&command, case, self.limits)
    }
}

/// Whether a first output is a file for a machine.
fn is_for(outcome: &Outcome, machine: Machine) -> bool {
    let Ok(bytes) = outcome.output(0) else { return false };
    let Some(&[a, b]) = bytes.get(18..20) else { return false };
    let number = if bytes.get(5) == Some(&2) { [a, b] } else { [b, a] };
    u16::from_be_bytes(number) == machine.dialect().number
}

/// An input without difficulties, for questions about a tool.
fn plain(kind: Kind, machine: Machine) -> Case {
    let case = Case::new(kind, machine, "plain", "");
    let object = || File::new(machine).function("_start").frames(Frames::of(&["_start"])).write();
    match kind {
        Kind::Assembler => case.file("a.s", ".text\nf:\n .4byte 0\n").step("a.s", "a.o"),
        Kind::Linker => case.file("a.o", object()).step("a.o", "out"),
        Kind::Reader => case.file("a.o", object()).step("a.o", ""),
    }
}

/// The words of one command of a case.
pub fn words(command: &[String], case: &Case, step: &Step) -> Vec<String> {
    let mut words = command.to_vec();
    if case.kind == Kind::Linker {
        words.extend(["-m".into(), case.machine.emulation().into()]);
    }
    if let Some(output) = &step.output {
        words.extend(["-o".into(), output.clone()]);
    }
    words.extend(step.arguments.iter().cloned());
    words
}

/// Runs the commands of a case in a new folder, until one fails.
///
/// # Errors
/// No room for temporary files, or the program cannot be started.
pub fn execute(command: &[String], case: &Case, limits: &Limits) -> Result<Outcome> {
    let folder = tempfile::Builder::new().prefix("ld-compare-conformance-").tempdir()?;
    for (name, bytes) in &case.files {
        std::fs::write(folder.path().join(name), bytes)?;
    }
    let mut outcome = Outcome {
        status: crate::run::Status::Exit(0),
        ran: 0,
        messages: String::new(),
        printed: String::new(),
        outputs: Vec::new(),
    };
    for step in &case.steps {
        let words = words(command, case, step);
        let mut process = Command::new(&words[0]);
        process.args(&words[1..]).current_dir(folder.path());
        let finished = limited(&mut process, limits).with_context(|| format!("cannot run {}", words[0]))?;
        outcome.status = finished.status;
        outcome.ran += 1;
        outcome.printed.push_str(&finished.printed);
        outcome.messages.push_str(&finished.messages);
        let output = step.output.as_ref().map(|name| folder.path().join(name));
        outcome.outputs.push(output.and_then(|path| std::fs::read(path).ok()));
        if !outcome.status.is_success() {
            break;
        }
    }
    Ok(outcome)
}
