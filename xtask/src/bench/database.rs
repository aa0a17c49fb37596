//! A C++ database with SFrame: RocksDB from Debian's static archive, with three hundred objects and their
//! many COMDAT groups.
//!
//! The archive has no frames. Each of its objects gets frames from its `.eh_frame` (`sframe derive`), split
//! by text section (`sframe split`). The command line names all objects, so that every linker takes the same
//! ones.

use std::path::Path;

use anyhow::{Context, Result, bail};
use object::Object;
use object::read::archive::ArchiveFile;

use super::build::release_build;
use super::case::{Case, link_line, must_run};
use super::programs::{library_folder, strings};

/// The database, what its headers need, and the static libraries that it calls.
const PACKAGES: [&str; 7] = [
    "librocksdb-dev",
    "libgflags-dev",
    "libsnappy-dev",
    "libbz2-dev",
    "zlib1g-dev",
    "liblz4-dev",
    "libzstd-dev",
];
const LIBRARIES: [&str; 6] = ["libgflags.a", "libsnappy.a", "libbz2.a", "libz.a", "liblz4.a", "libzstd.a"];

/// Fetches the packages into `folder`; nothing is installed.
///
/// # Errors
/// The package client fails, the archive contains no objects, or `sframe` cannot be built or fails.
pub fn prepare(folder: &Path) -> Result<Case> {
    let sframe = release_build(Path::new("."), "sframe")?;
    let folder = &folder.canonicalize()?;
    unpack(folder)?;
    let libraries = library_folder(folder)?;
    let mut inputs = vec!["main.o".to_string()];
    for name in objects(folder, &libraries.join("librocksdb.a"))? {
        // Some objects contain nothing for this machine.
        if has_frames(&folder.join(&name))? {
            must_run(folder, &sframe, &strings(&["derive", &name]))?;
            must_run(folder, &sframe, &strings(&["split", &name]))?;
        }
        inputs.push(name);
    }
    std::fs::write(folder.join("main.cpp"), include_str!("programs/database_main.cpp"))?;
    let compile = ["-O1", "-std=c++17", "-isystem", "root/usr/include", "-c", "main.cpp"];
    must_run(folder, "g++", &strings(&compile))?;
    inputs.extend(LIBRARIES.map(|name| libraries.join(name).display().to_string()));
    inputs.push("-lpthread".into());
    let link = link_line(folder, "g++", &inputs)?;
    Ok(Case::new(link, &[], &["300 keys, the last is 299\n"]))
}

fn has_frames(object: &Path) -> Result<bool> {
    let bytes = std::fs::read(object)?;
    Ok(object::File::parse(&*bytes)?.section_by_name(".eh_frame").is_some())
}

fn unpack(folder: &Path) -> Result<()> {
    let packages = folder.join("packages");
    std::fs::create_dir_all(&packages)?;
    must_run(&packages, "apt-get", &strings(&[&["download"], &PACKAGES[..]].concat()))?;
    for entry in std::fs::read_dir(&packages)? {
        must_run(folder, "dpkg-deb", &strings(&["-x", &entry?.path().display().to_string(), "root"]))?;
    }
    Ok(())
}

/// Extracts the members of an archive. Their names get numbers, because two members may have the same name.
fn objects(folder: &Path, archive: &Path) -> Result<Vec<String>> {
    std::fs::create_dir_all(folder.join("objects"))?;
    let bytes = std::fs::read(folder.join(archive))?;
    let mut names = vec![];
    for (number, member) in ArchiveFile::parse(&*bytes)?.members().enumerate() {
        let member = member?;
        let name = format!("objects/{number:03}-{}", String::from_utf8_lossy(member.name()));
        let data = member.data(&*bytes).with_context(|| format!("cannot read member {name}"))?;
        std::fs::write(folder.join(&name), data)?;
        names.push(name);
    }
    if names.is_empty() {
        bail!("{} holds no objects", archive.display());
    }
    Ok(names)
}
