//! Cases: links that can be run again with any linker.
//!
//! A case is a folder and one or several command lines ("steps") for a linker, without `-o`. Each step names
//! its output, which goes elsewhere; later steps may take it as an input by that name. Cases come from
//! - the command line: `ld-compare run -- ARGUMENTS`;
//! - a folder with a `case.json`, which `ld-compare capture` and `reduce` write, or a folder of such folders;
//!   a `case.json` can contain commands that build the inputs from sources;
//! - a tarball of `--reproduce` (lld, sframe-ld): its `response.txt` is the command line.
//!
//! Tarballs come from strangers, with their bug reports. So they are only data: their command lines run
//! nothing, write nothing and name no file outside ([`arguments`]), and a tarball with links or devices is
//! refused. Folders are the user's own, so their commands are run.

use crate::arguments::{self, Author};
use crate::machine::Machine;
use anyhow::{Context, Result, bail, ensure};
use files::{InputSource, SystemSource};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tar::EntryType;
use tempfile::TempDir;

/// The file that makes a folder a case.
pub const FILE: &str = "case.json";

/// One command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Arguments, without `-o` and its value.
    pub arguments: Vec<String>,
    /// File name of the output.
    pub output: String,
}

/// A link.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name in reports.
    pub name: String,
    /// The machine whose linkers take part.
    pub machine: Machine,
    /// Working directory of all steps.
    pub folder: PathBuf,
    /// The command lines; the output of the last one is judged.
    pub steps: Vec<Step>,
    /// Keeps a temporary folder alive.
    pub keep: Option<Arc<TempDir>>,
}

/// The contents of `case.json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CaseFile {
    /// Name in reports; if there is none, that of the folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The machine; if there is none, the inputs decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// Commands that make the inputs, run in a copy of the folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub build: Vec<Vec<String>>,
    /// The command lines.
    pub steps: Vec<Step>,
}

impl Case {
    /// A case with one step in a folder, from the arguments that a linker got. It leaves out options that
    /// name outputs, and options that run programs or plugins, because these belong to one linker.
    ///
    /// # Errors
    /// No input says which machine it is for.
    pub fn new(name: &str, folder: &Path, arguments: Vec<String>) -> Result<Self> {
        Self::by(Author::User, name, folder, arguments)
    }

    fn by(author: Author, name: &str, folder: &Path, arguments: Vec<String>) -> Result<Self> {
        let (arguments, output) = arguments::of_case(author, folder, arguments)?;
        let machine =
            machine_of(folder, &arguments).context("no input says which machine this link is for")?;
        let output =
            Path::new(&output).file_name().map_or("a.out".into(), |name| name.to_string_lossy().into());
        let folder = std::path::absolute(folder)?;
        Ok(Case { name: name.into(), machine, folder, steps: vec![Step { arguments, output }], keep: None })
    }

    /// All cases at a path: a tarball, a folder with a case, or a folder of folders.
    ///
    /// # Errors
    /// There is none, or one cannot be read or built.
    pub fn load(path: &Path) -> Result<Vec<Self>> {
        if path.is_file() {
            let case = if path.ends_with(FILE) { load_folder(parent(path)) } else { load_tarball(path) };
            return Ok(vec![case.with_context(|| path.display().to_string())?]);
        }
        if path.join(FILE).is_file() {
            return Ok(vec![load_folder(path).with_context(|| path.display().to_string())?]);
        }
        let entries = std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        folders.retain(|folder| folder.join(FILE).is_file());
        folders.sort();
        ensure!(!folders.is_empty(), "{} holds no {FILE}, nor does a folder in it", path.display());
        folders
            .iter()
            .map(|folder| load_folder(folder).with_context(|| folder.display().to_string()))
            .collect()
    }

    /// The arguments of the judged step.
    pub fn arguments(&self) -> &[String] {
        self.steps.last().map_or(&[], |step| &step.arguments)
    }

    /// Whether the judged step is a relocatable link.
    pub fn is_relocatable(&self) -> bool {
        self.arguments().iter().any(|word| matches!(&**word, "-r" | "--relocatable" | "-i"))
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn load_folder(folder: &Path) -> Result<Case> {
    let text = std::fs::read_to_string(folder.join(FILE))?;
    let file: CaseFile = serde_json::from_str(&text).with_context(|| format!("{FILE} is not a case"))?;
    ensure!(!file.steps.is_empty(), "{FILE} has no steps");
    let mut keep = None;
    let mut place = std::path::absolute(folder)?;
    if !file.build.is_empty() {
        let copy = tempfile::Builder::new().prefix("ld-compare-case-").tempdir()?;
        copy_folder(folder, copy.path())?;
        for command in &file.build {
            build(command, copy.path())?;
        }
        place = copy.path().to_owned();
        keep = Some(Arc::new(copy));
    }
    let first = &file.steps[0].arguments;
    let machine = file.machine.or_else(|| machine_of(&place, first));
    let machine = machine.with_context(|| format!("{FILE} names no machine, and no input says it"))?;
    // Use the folder's own name, not the name of the copy in which the inputs are built.
    let own = std::path::absolute(folder)?
        .file_name()
        .map_or(String::new(), |name| name.to_string_lossy().into_owned());
    Ok(Case { name: file.name.unwrap_or(own), machine, folder: place, steps: file.steps, keep })
}

/// Runs a command that makes inputs.
///
/// # Errors
/// It cannot be started or it fails; the error contains its messages.
pub fn build(command: &[String], folder: &Path) -> Result<()> {
    let (program, rest) = command.split_first().context("an empty build command")?;
    let output = Command::new(program).args(rest).current_dir(folder).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!("{} failed: {}", command.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_folder(&path, &target)?;
        } else {
            std::fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

fn load_tarball(path: &Path) -> Result<Case> {
    let holder = tempfile::Builder::new().prefix("ld-compare-case-").tempdir()?;
    let file = std::fs::File::open(path)?;
    unpack(file, holder.path()).context("not a tarball of --reproduce")?;
    let mut places = vec![holder.path().to_owned()];
    places.extend(std::fs::read_dir(holder.path())?.flatten().map(|entry| entry.path()));
    let place = places.into_iter().find(|place| place.join("response.txt").is_file());
    let place = place.context("no response.txt: not a tarball of --reproduce")?;
    let words = arguments::words_of(&std::fs::read_to_string(place.join("response.txt"))?);
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut case = Case::by(Author::Stranger, &name, &place, words)?;
    case.keep = Some(Arc::new(holder));
    Ok(case)
}

/// Unpacks the files and folders of a tarball, with the user's permissions.
fn unpack(tarball: File, folder: &Path) -> Result<()> {
    for entry in tar::Archive::new(tarball).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        ensure!(arguments::stays_inside(&path), "{} leads out of the tarball's folder", path.display());
        let target = folder.join(&path);
        match entry.header().entry_type() {
            EntryType::XGlobalHeader => {}
            EntryType::Directory => std::fs::create_dir_all(target)?,
            EntryType::Regular | EntryType::Continuous => {
                std::fs::create_dir_all(target.parent().unwrap_or(folder))?;
                std::io::copy(&mut entry, &mut File::create(target)?)?;
            }
            _ => bail!("{} is neither a file nor a folder", path.display()),
        }
    }
    Ok(())
}

fn machine_of(folder: &Path, arguments: &[String]) -> Option<Machine> {
    let by_input = arguments.iter().filter(|word| !word.starts_with('-')).find_map(|word| {
        let bytes = SystemSource.read(&folder.join(word)).ok()?;
        machine_of_bytes(&bytes).or_else(|| {
            let archive = object::read::archive::ArchiveFile::parse(&*bytes).ok()?;
            let member = archive.members().flatten().next()?;
            machine_of_bytes(member.data(&*bytes).ok()?)
        })
    });
    by_input.or_else(|| {
        let at = arguments.iter().position(|word| word == "-m")?;
        let emulation = arguments.get(at + 1)?;
        Machine::ALL.into_iter().find(|machine| machine.emulation() == emulation)
    })
}

fn machine_of_bytes(bytes: &[u8]) -> Option<Machine> {
    if !bytes.starts_with(b"\x7fELF") {
        return None;
    }
    let field = [*bytes.get(18)?, *bytes.get(19)?];
    let number = if bytes.get(5) == Some(&2) { u16::from_be_bytes(field) } else { u16::from_le_bytes(field) };
    Machine::from_number(number)
}

/// The folders that no build changes: those of the system, and the sysroot of a link.
pub struct System {
    sysroot: Option<PathBuf>,
}

impl System {
    /// The folders for a link whose command runs in `here`.
    pub fn of(arguments: &[String], here: &Path) -> Self {
        let joined = arguments.iter().rev().find_map(|word| word.strip_prefix("--sysroot="));
        let option = arguments.iter().rposition(|word| word == "--sysroot");
        let apart = option.and_then(|at| arguments.get(at + 1)).map(String::as_str);
        let named = joined.or(apart).filter(|path| !["", "/"].contains(path));
        System { sysroot: named.map(|path| here.join(path)) }
    }

    /// Whether an absolute path leads below one of these folders.
    pub fn holds(&self, path: &Path) -> bool {
        ["/usr", "/lib", "/lib64", "/opt", "/nix"].iter().any(|prefix| path.starts_with(prefix))
            || self.sysroot.as_ref().is_some_and(|sysroot| {
                path.starts_with(sysroot)
                    || sysroot.canonicalize().is_ok_and(|sysroot| path.starts_with(sysroot))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a tarball with one entry of a type. Returns the reason why the case refuses it.
    fn refused(name: &str, kind: EntryType, response: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.tar");
        let mut tarball = tar::Builder::new(File::create(&path).unwrap());
        let mut header = tar::Header::new_gnu();
        // The setter of the crate refuses such names.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_size(0);
        header.as_old_mut().linkname[..4].copy_from_slice(b"/etc");
        header.set_cksum();
        tarball.append(&header, &b""[..]).unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_size(response.len() as u64);
        tarball.append_data(&mut header, "case/response.txt", response.as_bytes()).unwrap();
        drop(tarball.into_inner().unwrap());
        let found = format!("{:#}", Case::load(&path).unwrap_err());
        assert!(!folder.path().join("out").exists());
        found
    }

    #[test]
    fn tarballs_hold_files_that_stay_inside() {
        for (name, kind) in [("case/../../out", EntryType::Regular), ("/tmp/out", EntryType::Regular)] {
            let found = refused(name, kind, "a.o");
            assert!(found.contains("leads out of the tarball's folder"), "{found}");
        }
        for kind in [EntryType::Symlink, EntryType::Link, EntryType::Fifo, EntryType::Char] {
            let found = refused("case/a.o", kind, "a.o");
            assert!(found.contains("case/a.o is neither a file nor a folder"), "{found}");
        }
        let found = refused("case/a.o", EntryType::Regular, "-m elf_x86_64 /etc/passwd");
        assert!(found.contains("/etc/passwd leads out of the case's folder"), "{found}");
    }

    #[test]
    fn a_folder_without_a_case_says_so() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Case::load(folder.path()).unwrap_err().to_string().contains("case.json"));
        std::fs::write(folder.path().join(FILE), "{\"steps\": []}").unwrap();
        assert!(format!("{:#}", Case::load(folder.path()).unwrap_err()).contains("no steps"));
    }
}
