//! Takes the debug information out of programs and puts it into files of its own, where debuggers look for it
//! by build-id.

use super::tools::files;
use crate::commands;
use anyhow::{Context, Result};
use object::read::archive::ArchiveFile;
use object::{Architecture, Object};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs and shared libraries below a folder, without links. The object of the BPF program is neither.
pub fn elf_files(tree: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for file in files(tree)? {
        let path = tree.join(&file);
        if !path.is_symlink() && is_linked(&path)? {
            found.push(file);
        }
    }
    Ok(found)
}

/// Whether a file is an ELF file of type `ET_EXEC` or `ET_DYN`, in either byte order.
fn is_linked(path: &Path) -> Result<bool> {
    let mut start = Vec::new();
    std::fs::File::open(path)?.take(18).read_to_end(&mut start)?;
    let [0x7f, b'E', b'L', b'F', .., first, second] = start[..] else { return Ok(false) };
    Ok(start.len() == 18 && matches!(first | second, 2 | 3))
}

/// Moves the debug information of the programs from `tree` to `debug`. Archives for other machines stay as
/// they are: binutils of this one does not know them, and they are made without debug information.
pub fn separate(tree: &Path, debug: &Path) -> Result<()> {
    std::fs::create_dir_all(debug)?;
    for file in elf_files(tree)? {
        let path = tree.join(&file);
        let id = build_id(&path)?.with_context(|| format!("{} has no build-id", file.display()))?;
        let (first, rest) = id.split_at(2);
        let to = debug.join(format!("usr/lib/debug/.build-id/{first}/{rest}.debug"));
        std::fs::create_dir_all(to.parent().context("no parent")?)?;
        commands::output(
            Command::new("objcopy")
                .args(["--only-keep-debug", "--compress-debug-sections"])
                .arg(&path)
                .arg(&to),
        )?;
        commands::output(
            Command::new("strip").args(["--strip-unneeded", "--remove-section=.comment"]).arg(&path),
        )?;
    }
    // Archives keep what linkers need.
    for file in files(tree)?.iter().filter(|file| file.extension().is_some_and(|it| it == "a")) {
        let path = tree.join(file);
        if is_native(&path)? {
            let options = ["--strip-debug", "--enable-deterministic-archives"];
            commands::output(Command::new("strip").args(options).arg(&path))?;
        }
    }
    Ok(())
}

/// Whether the first member of an archive is for the machine that this program runs on.
fn is_native(archive: &Path) -> Result<bool> {
    let bytes = std::fs::read(archive)?;
    let members = ArchiveFile::parse(&*bytes)?;
    let member = members.members().next().with_context(|| format!("{} is empty", archive.display()))??;
    let own = match std::env::consts::ARCH {
        "aarch64" => Architecture::Aarch64,
        "s390x" => Architecture::S390x,
        _ => Architecture::X86_64,
    };
    Ok(object::File::parse(member.data(&*bytes)?)?.architecture() == own)
}

fn build_id(path: &Path) -> Result<Option<String>> {
    let bytes = std::fs::read(path)?;
    let file = object::File::parse(&*bytes)?;
    let id = file.build_id()?;
    Ok(id.filter(|id| id.len() > 2).map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect()))
}
