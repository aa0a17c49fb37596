//! Proves what becomes of frames after the link. A program is linked in every form of output, for every
//! machine, and every well-known tool that changes finished files changes it: strip and objcopy of all
//! projects, dwz, debugedit, patchelf, UPX, BOLT, and what distributions run on their packages.
//!
//! The program throws, and walks its own stack. A tool is good for a form if the program then prints what it
//! printed, if `sframe` says that all rows are true, and if the program header still leads to the section.
//! Where something broke, `sframe attach` must make frames that are true again, unless no program is left.

mod editors;
mod forms;
mod judge;

use super::proof::Proof;
use crate::commands::output;
use crate::{exceptions, folders, peers};
use anyhow::{Context, Result, bail, ensure};
use editors::{EDITORS, Editor};
use forms::{FORMS, Form};
use judge::Shown;
use sframe_format::compact::PT_SFRAME_UNWIND;
use sframe_format::{PT_GNU_SFRAME, compact};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const MACHINES: [&str; 3] = ["x86_64", "aarch64", "s390x"];

/// The words for what a tool broke, and what they mean.
const LEGEND: [(&str, &str); 9] = [
    ("refuses", "the tool ends with an error and makes no file"),
    ("fails", "the program no longer runs to its end"),
    ("other walks", "the program runs, and its walks find other frames or fewer of them by the table"),
    ("no table", "neither a section header nor a program header leads to the table"),
    ("wrong rows", "`sframe verify` finds rows that are not true, or cannot read them"),
    ("other rows", "all rows are true, but they are not those of before"),
    ("no segment", "the program header is gone"),
    ("segment elsewhere", "the program header does not lead to the section, or not into a loaded segment"),
    ("no section", "the file has section headers, and none for the table"),
];

pub fn after_link(proof: &mut Proof, sframe: &Path) -> Result<()> {
    let runtimes = exceptions::build(&proof.folder.join("runtime"))?;
    let mut used = BTreeMap::new();
    for machine in MACHINES {
        let runtime = runtimes.iter().find(|path| path.to_string_lossy().ends_with(&format!("-{machine}.a")));
        let runtime = runtime.with_context(|| format!("no standard library of Rust for {machine}"))?;
        let place = Place::make(proof, sframe, machine, runtime)?;
        proof.note(format!("\n## {machine}\n"))?;
        let names: Vec<&str> = FORMS.iter().map(|form| form.name).collect();
        proof.note(format!("| tool | {} |\n|---|{}", names.join(" | "), "---|".repeat(FORMS.len())))?;
        for (tool, cells) in joined(place.rows(&mut used)?) {
            proof.note(format!("| {tool} | {} |", cells.join(" | ")))?;
        }
    }
    legend(proof, &used)
}

/// What the words of the cells mean.
fn legend(proof: &mut Proof, used: &BTreeMap<String, usize>) -> Result<()> {
    let good = used.get("true").copied().unwrap_or(0);
    let all: usize = used.values().sum();
    proof.note(format!(
        "\nOf {all} files, {good} are as true as before. `true`: the program runs, throws and walks as before, `sframe \
         verify` says that all rows are true and as many as before, and the program header leads to the section. Else:\n"
    ))?;
    for (word, meaning) in LEGEND {
        proof.note(format!("- *{word}*: {meaning}"))?;
    }
    proof.note(
        "- *attach helps*: `sframe attach` gave the file frames that are true, and the program ran and walked by them\n\
         - —: the tool does not take files of this kind",
    )
}

/// A row: a tool, its version, and a cell for each form.
type Row = (&'static str, String, Vec<String>);

/// Rows of versions of a tool that have the same results are one row.
fn joined(rows: Vec<Row>) -> Vec<(String, Vec<String>)> {
    let mut all: Vec<Row> = Vec::new();
    for (name, version, cells) in rows {
        match all.iter_mut().find(|row| row.0 == name && row.2 == cells) {
            Some(row) => row.1 = format!("{}, {version}", row.1),
            None => all.push((name, version, cells)),
        }
    }
    let title = |name: &str, version: &str| format!("{name} {version}").trim_end().to_owned();
    all.into_iter().map(|(name, version, cells)| (title(name, &version), cells)).collect()
}

/// A program as the linker made it.
struct Linked {
    file: PathBuf,
    shown: Shown,
}

/// A folder with what programs of a machine are made of and run with.
struct Place<'a> {
    machine: &'static str,
    folder: PathBuf,
    sframe: &'a Path,
    driver: PathBuf,
    prefix: PathBuf,
    runtime: &'a Path,
    emulator: Vec<String>,
    gnu: Vec<(String, PathBuf)>,
}

impl<'a> Place<'a> {
    /// Compiles the program, with frames in every form of objects.
    fn make(proof: &Proof, sframe: &'a Path, machine: &'static str, runtime: &'a Path) -> Result<Self> {
        let folder = proof.folder.join(machine);
        std::fs::create_dir_all(&folder)?;
        let triple = format!("{machine}-linux-gnu");
        let is_own = machine == "x86_64";
        let named = |name: &str| if is_own { name.to_owned() } else { format!("{triple}-{name}") };
        let driver = if is_own { "g++".into() } else { peers::program(&named("g++"))? };
        let emulator = if is_own {
            Vec::new()
        } else {
            let program = peers::program(&format!("qemu-{machine}"))?;
            vec![program.display().to_string(), "-L".into(), peers::sysroot(&triple).display().to_string()]
        };
        let (assembler, _) =
            proof.assembler_folder(&format!("as-{machine}"), &peers::program(&named("as"))?)?;
        let gnu = editors::gnu_folders(&proof.folder, machine)?;
        let prefix = proof.prefix.clone();
        let place = Place { machine, folder, sframe, driver, prefix, runtime, emulator, gnu };
        place.compile(&assembler)?;
        Ok(place)
    }

    fn command(&self, program: &Path, words: &[&str]) -> Result<String> {
        output(Command::new(program).current_dir(&self.folder).args(words))
    }

    fn compile(&self, assembler: &Path) -> Result<()> {
        std::fs::write(self.folder.join("program.cc"), include_str!("after_link/program.cc"))?;
        let include = format!("-I{}", folders::workspace().join("crates/sframe-unwind/include").display());
        let assembler = format!("-B{}", assembler.display());
        let words = ["-O2", "-g", "-fPIE", "-ffunction-sections", "-Wa,--gsframe", &include, &assembler];
        self.command(&self.driver, &[&words[..], &["-c", "-o", "whole.o", "program.cc"]].concat())?;
        self.command(self.sframe, &["split", "-o", "split.o", "whole.o"])?;
        self.command(self.sframe, &["split", "--light", "-o", "light.o", "whole.o"])?;
        self.build_library()
    }

    /// Builds `libsframe_unwind.so`, by which the program walks.
    fn build_library(&self) -> Result<()> {
        let triple = format!("{}-unknown-linux-gnu", self.machine);
        let mut cargo = Command::new("cargo");
        cargo.current_dir(folders::workspace());
        cargo.args(["build", "--quiet", "-p", "sframe-unwind", "--target", &triple]);
        let linker = self.driver.to_string_lossy().replace("g++", "gcc");
        cargo.env(format!("CARGO_TARGET_{}_LINKER", triple.to_uppercase().replace('-', "_")), linker);
        ensure!(cargo.status()?.success(), "libsframe_unwind does not build for {triple}");
        let built = folders::target().join(triple).join("debug/libsframe_unwind.so");
        for name in ["libsframe_unwind.so", "libsframe_unwind.so.1"] {
            std::fs::copy(&built, self.folder.join(name))?;
        }
        Ok(())
    }

    /// Links the program in a form.
    fn link(&self, form: &Form, more: &[&str], out: &str) -> Result<PathBuf> {
        let folder = self.folder.display();
        let prefix = format!("-B{}", self.prefix.display());
        let options = format!("-Wl,{}", form.options);
        let runtime = format!("-Wl,--unwind-runtime-archive={}", self.runtime.display());
        let rpath = format!("-Wl,-rpath,{folder}");
        let mut words =
            vec!["-pie", &prefix, "-o", out, form.object, "libsframe_unwind.so", &options, &rpath];
        if form.segment == Some(PT_SFRAME_UNWIND) {
            words.push(&runtime);
        }
        words.extend(more);
        self.command(&self.driver, &words)?;
        Ok(self.folder.join(out))
    }

    fn shown(&self, file: &Path, form: &Form) -> Result<Shown> {
        Shown::of(file, form, self.sframe, &self.emulator)
    }

    /// The program in every form, as it is before any tool; `None` where the linker refuses the options.
    fn linked(&self, more: &[&str]) -> Result<Vec<Option<Linked>>> {
        let mut all = Vec::new();
        for (number, form) in FORMS.iter().enumerate() {
            let linked = self.link(form, more, &format!("in-{number}-{}", more.len()));
            let Ok(file) = linked else {
                linked.map(drop).or_else(|error| if more.is_empty() { Err(error) } else { Ok(()) })?;
                all.push(None);
                continue;
            };
            let shown = self.shown(&file, form)?;
            if let Some(problem) = shown.first_problem(form) {
                bail!("{} {}, as it was linked: {problem}\n{}", self.machine, form.name, shown.text());
            }
            all.push(Some(Linked { file, shown }));
        }
        Ok(all)
    }

    /// The results of all tools; counts them by what they say.
    fn rows(&self, used: &mut BTreeMap<String, usize>) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        let mut linked = BTreeMap::new();
        for editor in EDITORS.iter().filter(|editor| editor.machines.contains(&self.machine)) {
            let versions = editor.folders(&self.gnu);
            if versions.is_empty() {
                println!("not fetched: {}", editor.program);
                continue;
            }
            if !linked.contains_key(editor.links_with) {
                linked.insert(editor.links_with, self.linked(editor.links_with)?);
            }
            for (version, path) in versions {
                let mut cells = Vec::new();
                for (form, before) in FORMS.iter().zip(&linked[editor.links_with]) {
                    let cell =
                        before.as_ref().map(|before| self.cell(editor, form, &path, before)).transpose()?;
                    let cell = cell.inspect(|cell| *used.entry(cell.clone()).or_default() += 1);
                    let cell = cell.unwrap_or_else(|| "—".into());
                    println!("{} {version}, {}, {}: {cell}", editor.name, self.machine, form.name);
                    cells.push(cell);
                }
                rows.push((editor.name, version, cells));
            }
        }
        Ok(rows)
    }

    /// Lets a tool change a file, and says what still holds.
    fn cell(&self, editor: &Editor, form: &Form, path: &[PathBuf], before: &Linked) -> Result<String> {
        let folder = self.folder.join("changed");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)?;
        std::fs::copy(&before.file, folder.join("in"))?;
        if let Err(error) = edit(editor, &folder, path) {
            println!("    {}", format!("{error:#}").replace('\n', "\n    "));
            return Ok("refuses".into());
        }
        let out = folder.join("out");
        let after = self.shown(&out, form)?;
        let broken = after.broken(&before.shown, form);
        if broken.is_empty() {
            return Ok("true".into());
        }
        println!("  before:\n{}  after:\n{}", before.shown.text(), after.text());
        let helps = if self.heals(form, &out)? { "; attach helps" } else { "" };
        Ok(format!("{}{helps}", broken.join(", ")))
    }

    /// Whether `sframe attach` gives a file that a tool has changed frames that are true.
    fn heals(&self, form: &Form, file: &Path) -> Result<bool> {
        // A table in place of `.eh_frame` is only made by the linker. The others, but for the compact one,
        // become one blob.
        if form.segment == Some(PT_SFRAME_UNWIND) {
            return Ok(false);
        }
        let name = if form.segment.is_some() || form.section == compact::SECTION_NAME {
            form.section
        } else {
            ".sframe"
        };
        let new = Form {
            section: name,
            segment: (name != compact::SECTION_NAME).then_some(PT_GNU_SFRAME),
            ..*form
        };
        let healed = file.with_file_name("healed");
        let words =
            ["attach", "--name", name, "-o", &healed.display().to_string(), &file.display().to_string()];
        if let Err(error) = self.command(self.sframe, &words) {
            println!("  attach: {error:#}");
            return Ok(false);
        }
        let shown = self.shown(&healed, &new)?;
        println!("  attached:\n{}", shown.text());
        Ok(shown.is_healed(&new))
    }
}

/// Runs the line of a tool.
fn edit(editor: &Editor, folder: &Path, path: &[PathBuf]) -> Result<()> {
    let mut folders: Vec<PathBuf> = path.to_vec();
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut command = Command::new("sh");
    command.current_dir(folder).env("PATH", std::env::join_paths(folders)?);
    output(command.args(["-c", editor.line])).map(drop)?;
    ensure!(folder.join("out").is_file(), "{} made no file", editor.name);
    Ok(())
}
