//! Records the links of a build.
//!
//! `ld-compare capture --log DIR -- LD ARGUMENTS...` writes a case into a new folder below DIR and then runs
//! the linker with its own arguments. For whole builds, `--setup FOLDER` makes a folder with links to this
//! program that have the names of linkers (`ld`, `ld.bfd` and so on). `gcc -BFOLDER` then finds this program
//! instead of its linker.
//!
//! A build may change or remove its inputs later, so they are copied. A case only refers to files of the
//! system (below `/usr`, `/lib` or the link's sysroot, where scripts name each other by path) and to members
//! of thin archives.

use crate::args::{Capture, check_folder};
use crate::cases::{Case, CaseFile, FILE, System};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use diagnostics::Severity;
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The file with the settings, beside the links in a set-up folder.
const SETTINGS: &str = "ld-compare.json";
/// Names by which compilers look for a linker.
const NAMES: [&str; 6] = ["ld", "ld.bfd", "ld.gold", "ld.lld", "ld.mold", "ld.wild"];

#[derive(Serialize, Deserialize)]
struct Settings {
    log: PathBuf,
    real: PathBuf,
}

/// Runs `ld-compare capture`; its exit status is the linker's.
///
/// # Errors
/// The folders cannot be written, or the linker cannot be run.
pub fn run(arguments: &Capture) -> Result<ExitCode> {
    let log = std::path::absolute(&arguments.log)?;
    check_folder(Some(&log))?;
    check_folder(arguments.setup.as_deref())?;
    if let Some(folder) = &arguments.setup {
        set_up(folder, log, &arguments.real)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some((real, rest)) = arguments.link.split_first() else {
        bail!("give a linker and its arguments after --, or a folder to --setup");
    };
    record_and_link(&log, Path::new(real), rest)
}

fn set_up(folder: &Path, log: PathBuf, real: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let program = std::env::current_exe()?;
    for name in NAMES {
        let link = folder.join(name);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&program, &link)
            .with_context(|| format!("cannot make {}", link.display()))?;
    }
    let real = match real.components().count() {
        1 => crate::peers::on_path(&real.to_string_lossy())
            .with_context(|| format!("no {} on PATH", real.display()))?,
        _ => std::path::absolute(real)?,
    };
    let settings = Settings { log, real };
    std::fs::write(folder.join(SETTINGS), serde_json::to_string_pretty(&settings)? + "\n")?;
    Ok(())
}

/// If this program was called by a linker's name from a set-up folder, records and links. Returns the exit
/// status.
pub fn as_linker() -> Option<ExitCode> {
    let mut words = std::env::args();
    let called = words.next()?;
    let name = Path::new(&called).file_name()?.to_string_lossy().into_owned();
    if !NAMES.contains(&&*name) {
        return None;
    }
    let place = if called.contains('/') { PathBuf::from(&called) } else { crate::peers::on_path(&called)? };
    let arguments: Vec<String> = words.collect();
    let result = std::fs::read_to_string(place.with_file_name(SETTINGS))
        .context("this folder was not made by ld-compare capture --setup")
        .and_then(|text| Ok(serde_json::from_str::<Settings>(&text)?))
        .and_then(|settings| record_and_link(&settings.log, &settings.real, &arguments));
    Some(result.unwrap_or_else(|error| {
        commands::tell("ld-compare", Severity::Error, &format!("{error:#}"));
        ExitCode::from(2)
    }))
}

fn record_and_link(log: &Path, real: &Path, arguments: &[String]) -> Result<ExitCode> {
    // A build also asks its linker for version and help. If a command cannot be recorded, the build must go
    // on.
    if let Err(error) = record(log, arguments) {
        commands::tell("ld-compare", Severity::Warning, &format!("not recorded: {error:#}"));
    }
    let error = Command::new(real).args(arguments).exec();
    Err(error).with_context(|| format!("cannot run {}", real.display()))
}

/// Writes a case for a command line and returns its folder; `None` if the command line links nothing.
///
/// # Errors
/// The folder cannot be written, or an input cannot be read.
pub fn record(log: &Path, arguments: &[String]) -> Result<Option<PathBuf>> {
    let inputs = |word: &String| !word.starts_with('-') && Path::new(word).is_file() || word.starts_with('@');
    if !arguments.iter().any(inputs) {
        return Ok(None);
    }
    let here = std::env::current_dir()?;
    let case = Case::new("captured", &here, arguments.to_vec())?;
    let mut step = case.steps.into_iter().next().context("no step")?;
    let folder = new_folder(log, &step.output)?;
    let system = System::of(arguments, &here);
    let mut copies = Copies { folder: &folder, from: &here, system, made: BTreeMap::new() };
    let mut words = step.arguments.into_iter();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        if word == "-L" {
            let Some(path) = words.next() else { continue };
            kept.push(word);
            kept.push(copies.library_folder(&path, arguments)?);
        } else {
            kept.push(copies.word(word, arguments)?);
        }
    }
    step.arguments = kept;
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let file = CaseFile { name, machine: Some(case.machine), build: Vec::new(), steps: vec![step] };
    std::fs::write(folder.join(FILE), serde_json::to_string_pretty(&file)? + "\n")?;
    Ok(Some(folder))
}

/// Makes a new folder. No other link of the build gets the same one, even if several run at the same time.
fn new_folder(log: &Path, output: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(log).with_context(|| format!("cannot make {}", log.display()))?;
    for number in 1..100_000 {
        let folder = log.join(format!("{number:04}-{output}"));
        // A file claims the number, so that the number is unique, whatever the rest of the folder's name is.
        let claim = log.join(format!(".{number:04}"));
        match std::fs::OpenOptions::new().write(true).create_new(true).open(&claim) {
            Ok(_) => {
                std::fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
                return Ok(folder);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("cannot write {}", claim.display())),
        }
    }
    bail!("{} is full", log.display())
}

struct Copies<'a> {
    folder: &'a Path,
    from: &'a Path,
    system: System,
    made: BTreeMap<PathBuf, String>,
}

impl Copies<'_> {
    /// Copies the files that an argument names: an input, or the value of an option that names a file.
    fn word(&mut self, word: String, all: &[String]) -> Result<String> {
        if let Some(path) = word.strip_prefix("-L").filter(|path| !path.is_empty()) {
            return Ok(format!("-L{}", self.library_folder(path, all)?));
        }
        if !word.starts_with('-') {
            return self.file(&word);
        }
        match word.split_once('=').or_else(|| word.strip_prefix("-T").map(|path| ("-T", path))) {
            Some((option, value)) if self.from.join(value).is_file() => {
                let value = self.file(value)?;
                let sign = if option == "-T" && !word.contains('=') { "" } else { "=" };
                Ok(format!("{option}{sign}{value}"))
            }
            _ => Ok(word),
        }
    }

    /// Copies a file into the case and returns its name there.
    fn file(&mut self, word: &str) -> Result<String> {
        let path = self.from.join(word);
        if word.is_empty() || !path.is_file() {
            return Ok(word.to_owned());
        }
        let path = path.canonicalize()?;
        let is_thin = std::fs::File::open(&path).is_ok_and(|mut file| {
            let mut magic = [0; 8];
            std::io::Read::read_exact(&mut file, &mut magic).is_ok() && magic == object::archive::THIN_MAGIC
        });
        if self.system.holds(&path) || is_thin {
            // The name may matter (`-dynamic-linker`), so it stays if any folder can find the file by it.
            let absolute = Path::new(word).is_absolute();
            return Ok(if absolute { word.to_owned() } else { path.display().to_string() });
        }
        if let Some(name) = self.made.get(&path) {
            return Ok(name.clone());
        }
        let own = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = format!("inputs/{}/{own}", self.made.len());
        self.copy(&path, &name)?;
        self.made.insert(path, name.clone());
        Ok(name)
    }

    fn copy(&self, path: &Path, name: &str) -> Result<()> {
        let target = self.folder.join(name);
        std::fs::create_dir_all(target.parent().unwrap_or(self.folder))?;
        std::fs::copy(path, &target).with_context(|| format!("cannot copy {}", path.display()))?;
        Ok(())
    }

    /// Copies those libraries of a folder that the command line asks for. Returns the folder's name in the
    /// case.
    fn library_folder(&mut self, word: &str, all: &[String]) -> Result<String> {
        let path = self.from.join(word);
        let path = path.canonicalize().unwrap_or(path);
        if self.system.holds(&path) || word.starts_with('=') {
            return Ok(if word.starts_with('=') { word.to_owned() } else { path.display().to_string() });
        }
        let name = format!("inputs/L{}", self.made.len());
        self.made.insert(path.join("(libraries)"), name.clone());
        for library in all.iter().filter_map(|word| word.strip_prefix("-l")) {
            let files = match library.strip_prefix(':') {
                Some(file) => vec![file.to_owned()],
                None => vec![format!("lib{library}.so"), format!("lib{library}.a")],
            };
            for file in files.iter().filter(|file| path.join(file).is_file()) {
                self.copy(&path.join(file), &format!("{name}/{file}"))?;
            }
        }
        std::fs::create_dir_all(self.folder.join(&name))?;
        Ok(name)
    }
}
