//! Proves that other linkers can link whole objects: as they are, through the wrapper around linkers, and
//! with the plugin. Each output is compared with what the same linker makes from objects that were split
//! beforehand, and with this linker's rows.

use super::proof::Proof;
use super::tools::{self, dead_relocations, peer};
use super::violations;
use crate::commands::output;
use crate::folders;
use crate::install::{Plugin, Program, SframeCommand, Wrapper};
use crate::records::Measured;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

/// Each link is timed this many times; the shortest time counts.
const RUNS: usize = 5;
/// The linkers, by the start of their folders' names, and whether they can load the plugin.
const LINKERS: [(&str, bool); 5] =
    [("bfd", true), ("gold", true), ("lld", false), ("mold", false), ("wild", false)];

/// The programs that split objects.
pub struct Splitters<'a> {
    pub sframe: &'a Path,
    pub plugin: &'a Path,
}

/// A project: its objects as the assembler made them, and the same objects, split beforehand.
struct Project {
    whole: Vec<String>,
    split: Vec<String>,
}

/// A way to link.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Plain,
    Beforehand,
    Own,
    FirstThroughWrapper,
    ThroughWrapper,
    Plugin,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Plain => "as they are",
            Way::Beforehand => "split beforehand",
            Way::Own => "--sframe-split",
            Way::FirstThroughWrapper => "wrapper, empty cache",
            Way::ThroughWrapper => "wrapper again",
            Way::Plugin => "plugin",
        }
    }
}

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    command: SframeCommand,
    #[command(flatten)]
    wrapper: Wrapper,
    #[command(flatten)]
    plugin: Plugin,
}

/// A project that the wrapper around assemblers splits, and the same project with what other linkers can
/// load.
pub fn split_project(proof: &mut Proof, arguments: &Arguments) -> Result<()> {
    let sframe = arguments.command.path()?;
    tools::split_project(proof, &sframe, &arguments.wrapper.path()?)?;
    prove(proof, &Splitters { sframe: &sframe, plugin: &arguments.plugin.path()? })
}

/// Links the project of `split-project`, and one with several hundred objects, in every way.
fn prove(proof: &mut Proof, splitters: &Splitters<'_>) -> Result<()> {
    let of = |folder: &str| tools::objects(tools::OBJECTS).map(|name| format!("{folder}/{name}")).collect();
    let project = Project { whole: of("whole"), split: of("split") };
    proof.note(format!(
        "\n## {} whole objects, by way of the wrapper and the plugin\n",
        project.whole.len()
    ))?;
    table(proof, splitters, &project)?;
    let project = small(proof, splitters.sframe)?;
    proof.note(format!("\n## The same with {} small objects\n", project.whole.len()))?;
    table(proof, splitters, &project)
}

/// The project in which `violations` hides a violation; here every object has frames.
fn small(proof: &Proof, sframe: &Path) -> Result<Project> {
    let folder = proof.folder.join("small");
    for name in ["whole", "split"] {
        std::fs::create_dir_all(folder.join(name))?;
    }
    violations::write_project(&folder)?;
    let numbers: Vec<usize> = (0..violations::OBJECTS).collect();
    for batch in numbers.chunks(50) {
        let mut command = Command::new("g++");
        command
            .current_dir(folder.join("whole"))
            .arg(format!("-B{}", proof.folder.join("plain-as").display()));
        command.args(["-O1", "-fPIC", "-ffunction-sections", "-Wa,--gsframe", "-c"]);
        output(command.args(batch.iter().map(|number| format!("../m{number}.cc"))))?;
    }
    for number in numbers {
        let name = format!("m{number}.o");
        proof
            .tool(sframe, &["split", "-o", &format!("small/split/{name}"), &format!("small/whole/{name}")])?;
    }
    let of =
        |kind: &str| (0..violations::OBJECTS).map(|number| format!("small/{kind}/m{number}.o")).collect();
    Ok(Project { whole: of("whole"), split: of("split") })
}

fn table(proof: &mut Proof, splitters: &Splitters<'_>, project: &Project) -> Result<()> {
    let own = proof.prefix.join("ld");
    proof.note("| linker | objects | result | functions with frames | wrong | rows | ms |\n|---|---|---|---|---|---|---|")?;
    let mut links = Links { splitters, project, ours: None };
    links.all(proof, "sframe-ld", &own, &[Way::Plain, Way::Beforehand, Way::Own, Way::Plugin])?;
    for (family, serves) in LINKERS {
        let Ok(linker) = peer(family) else {
            println!("{family}: not to be had");
            continue;
        };
        let mut ways = vec![Way::Plain, Way::Beforehand, Way::FirstThroughWrapper, Way::ThroughWrapper];
        ways.extend(serves.then_some(Way::Plugin));
        links.all(proof, family, &linker, &ways)?;
    }
    Ok(())
}

/// The links of one project.
struct Links<'a> {
    splitters: &'a Splitters<'a>,
    project: &'a Project,
    /// The rows of this linker.
    ours: Option<Vec<String>>,
}

impl Links<'_> {
    fn all(&mut self, proof: &mut Proof, family: &str, linker: &Path, ways: &[Way]) -> Result<()> {
        let mut rows = None;
        for &way in ways {
            self.one(proof, (family, linker), way, &mut rows)
                .with_context(|| format!("{family}, {}", way.name()))?;
        }
        Ok(())
    }

    /// Links, compares the output with the same linker's output for split objects, and records the result.
    fn one(
        &mut self,
        proof: &mut Proof,
        (family, linker): (&str, &Path),
        way: Way,
        expected: &mut Option<Vec<String>>,
    ) -> Result<()> {
        let out = "by-other";
        let mut best = f64::INFINITY;
        let mut result = None;
        let runs = if way == Way::FirstThroughWrapper { 1 } else { RUNS };
        for _ in 0..runs {
            let mut command = self.command(proof, linker, way, out)?;
            let begin = Instant::now();
            result = Some(command.output()?);
            best = best.min(begin.elapsed().as_secs_f64());
        }
        let result = result.context("no link")?;
        let said = String::from_utf8_lossy(&result.stderr).into_owned();
        let line =
            |rest: String| format!("| {family} | {} | {rest} | {:.0} |", way.name(), Measured(best * 1000.0));
        if !result.status.success() {
            ensure!(way == Way::Plain && said.contains("discarded section"), "{said}");
            return proof.note(line("refused: relocations to discarded sections | | | ".into()));
        }
        ensure!(way == Way::Plain || said.is_empty(), "{said}");
        let text = proof.tool(proof.folder.join(out), &[]).or_else(|_| ended(&proof.folder.join(out)))?;
        let report = String::from_utf8_lossy(&verified(&proof.folder, self.splitters.sframe, out)?.stdout)
            .into_owned();
        let found = rows(&proof.tool(self.splitters.sframe, &["dump", "--json", out]).unwrap_or_default());
        let judged = match way {
            Way::Plain => String::new(),
            Way::Beforehand => self.against_ours(&found, expected),
            _ => {
                let expected = expected.as_ref().context("no link of split objects")?;
                ensure!(found == *expected, "other rows than of objects that were split beforehand");
                ensure!(way != Way::Plugin || self.relocatable(proof, linker)?, "dead relocations under -r");
                "the same".into()
            }
        };
        let judged_by = report.lines().find(|line| line.contains(".eh_frame:")).unwrap_or_default();
        let wrong = judged_by.split(" wrong").next().and_then(|it| it.rsplit(' ').next()).unwrap_or("?");
        proof.note(line(format!("runs, says {} | {} | {wrong} | {judged}", text.trim(), found.len())))
    }

    /// Compares the rows that the linker makes from split objects with this linker's rows.
    fn against_ours(&mut self, found: &[String], expected: &mut Option<Vec<String>>) -> String {
        *expected = Some(found.to_vec());
        match &self.ours {
            None => {
                self.ours = Some(found.to_vec());
                "ours".into()
            }
            Some(ours) if ours == found => "as ours".into(),
            Some(ours) => {
                let more = found.iter().filter(|row| ours.binary_search(row).is_err()).count();
                let less = ours.iter().filter(|row| found.binary_search(row).is_err()).count();
                format!("{more} that ours has not, {less} fewer")
            }
        }
    }

    /// Whether an output of `-r` with the plugin has no reference to discarded text.
    fn relocatable(&self, proof: &Proof, linker: &Path) -> Result<bool> {
        let mut command = Command::new(linker);
        command.current_dir(&proof.folder).arg("-plugin").arg(self.splitters.plugin);
        output(command.args(["-r", "-o", "by-other.o"]).args(&self.project.whole))?;
        Ok(dead_relocations(&proof.tool("readelf", &["-rW", "by-other.o"])?) == 0)
    }

    fn command(&self, proof: &Proof, linker: &Path, way: Way, out: &str) -> Result<Command> {
        let _ = std::fs::remove_file(proof.folder.join(out));
        let mut command = Command::new("g++");
        command.current_dir(&proof.folder);
        let folder = match way {
            Way::FirstThroughWrapper | Way::ThroughWrapper => {
                let cache = proof.folder.join("wrap-cache");
                if way == Way::FirstThroughWrapper && cache.exists() {
                    std::fs::remove_dir_all(&cache)?;
                }
                command.env("SFRAME_REAL_LD", linker).env("SFRAME_WRAP_CACHE", cache);
                self.wrapper(proof)?
            }
            _ => linker.parent().context("no folder")?.to_owned(),
        };
        command.arg(format!("-B{}", folder.display())).args(["-pie", "-o", out]);
        match way {
            Way::Own => drop(command.arg("-Wl,--sframe-split")),
            Way::Plugin => drop(command.arg(format!("-Wl,-plugin,{}", self.splitters.plugin.display()))),
            _ => {}
        }
        let inputs = if way == Way::Beforehand { &self.project.split } else { &self.project.whole };
        command.args(inputs);
        Ok(command)
    }

    /// A folder in which the command `sframe` is the linker.
    fn wrapper(&self, proof: &Proof) -> Result<PathBuf> {
        let folder = proof.folder.join("wrapper");
        std::fs::create_dir_all(&folder)?;
        folders::link(self.splitters.sframe, &folder.join("ld"))?;
        Ok(folder)
    }
}

/// The exit status of a program that prints nothing; a signal is a failure.
fn ended(program: &Path) -> Result<String> {
    let status = Command::new(program).status()?;
    match status.code() {
        Some(code) => Ok(format!("{code}")),
        None => bail!("{} ended with {status}", program.display()),
    }
}

/// Runs `sframe verify`. Its findings are counted, and may exist: GNU ld's own rows for PLTs are wrong.
fn verified(folder: &Path, sframe: &Path, file: &str) -> Result<Output> {
    Ok(Command::new(sframe).current_dir(folder).args(["verify", file]).output()?)
}

/// Size, attributes and rows of every function that has a symbol, sorted.
fn rows(json: &str) -> Vec<String> {
    let dump: Value = serde_json::from_str(json).unwrap_or_default();
    let list = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let files = dump.as_array().cloned().unwrap_or_default();
    let sections = files.iter().flat_map(|file| list(file, "sections"));
    let blobs = sections.flat_map(|section| list(&section, "blobs"));
    let named =
        blobs.flat_map(|blob| list(&blob, "functions")).filter(|function| function["symbol"].is_string());
    let mut rows: Vec<String> =
        named.map(|it| format!("{} {} {}", it["size"], it["attributes"], it["rows"])).collect();
    rows.sort();
    rows
}
