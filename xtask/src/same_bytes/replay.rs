//! Makes captured links again, with several numbers of threads.

use super::corpus::{Case, Corpus};
use super::facets::{Facets, Runs};
use crate::children::output_within;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// The numbers of threads with which each link is repeated.
pub const THREADS: [usize; 5] = [1, 2, 3, 8, 32];

/// The longest time for a link. Inputs of tests may make an older linker wait for ever.
const LIMIT: Duration = Duration::from_secs(20);

/// Makes these links with these numbers of threads, some links at the same time, and passes on the results
/// of each.
pub fn all(
    corpus: &Corpus,
    linker: &Path,
    names: &[String],
    threads: &[usize],
    jobs: usize,
    take: &mut dyn FnMut(&str, Result<Runs>),
) {
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            let (sender, names, next) = (sender.clone(), names, &next);
            scope.spawn(move || {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let runs = corpus.case(name).and_then(|case| one(corpus, linker, &case, threads));
                    if sender.send((name, runs)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        results.into_iter().for_each(|(name, runs)| take(name, runs));
    });
}

fn one(corpus: &Corpus, linker: &Path, case: &Case, threads: &[usize]) -> Result<Runs> {
    let scratch = corpus.scratch()?;
    let folder = scratch.path();
    corpus.unpack(case, folder)?;
    let mut before = stamps(folder)?;
    let mut runs = Vec::new();
    for &threads in threads {
        let mut facets = link(linker, case, folder, threads)?;
        for (path, stamp) in stamps(folder)? {
            if before.get(&path) == Some(&stamp) {
                continue;
            }
            let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
            facets.insert(format!("file {name}"), hash(&std::fs::read(&path)?, folder));
            std::fs::remove_file(&path)?;
        }
        // Tests may also write over their inputs.
        let gone: Vec<&PathBuf> = before.keys().filter(|path| !path.exists()).collect();
        for path in &gone {
            let name = path.strip_prefix(folder).unwrap_or(path).display().to_string();
            corpus.unpack_file(case, &name, folder)?;
        }
        if !gone.is_empty() {
            before = stamps(folder)?;
        }
        let is_killed = facets.get("status").is_some_and(|status| status.starts_with("signal: 9"));
        runs.push((threads, facets));
        if is_killed {
            // It reached the time limit, and would do so again.
            break;
        }
    }
    Ok(runs)
}

/// Makes a link once, and returns the contents of the files that it writes.
pub fn outputs(corpus: &Corpus, linker: &Path, case: &Case) -> Result<Vec<Vec<u8>>> {
    let scratch = corpus.scratch()?;
    corpus.unpack(case, scratch.path())?;
    let before = stamps(scratch.path())?;
    link(linker, case, scratch.path(), 2)?;
    let after = stamps(scratch.path())?.into_iter();
    let written = after.filter(|(path, stamp)| before.get(path) != Some(stamp));
    written.map(|(path, _)| std::fs::read(&path).with_context(|| path.display().to_string())).collect()
}

fn link(linker: &Path, case: &Case, folder: &Path, threads: usize) -> Result<Facets> {
    let mut command = Command::new(linker);
    command.arg0(&case.program).current_dir(folder).env_clear().envs(&case.environment);
    command.arg("@response.txt").arg(format!("--threads={threads}"));
    if std::fs::read(folder.join("response.txt")).is_ok_and(|words| separates(&words)) {
        // Otherwise the debug file may still be written when it is read here.
        command.arg("--no-detach");
    }
    let output =
        output_within(&mut command, LIMIT).with_context(|| format!("cannot run {}", linker.display()))?;
    Ok(Facets::from([
        ("status".into(), output.status.to_string()),
        ("stdout".into(), hash(&output.stdout, folder)),
        ("stderr".into(), hash(&output.stderr, folder)),
    ]))
}

/// Whether a link writes debug information to a file of its own, in the background.
fn separates(words: &[u8]) -> bool {
    memchr::memmem::find(words, b"--separate-debug-file").is_some()
}

/// Hashes bytes that may contain the name of the temporary folder, which differs each time.
fn hash(bytes: &[u8], folder: &Path) -> String {
    let name = folder.as_os_str().as_bytes();
    let mut hasher = blake3::Hasher::new();
    let mut rest = bytes;
    while let Some(at) = memchr::memmem::find(rest, name) {
        hasher.update(&rest[..at]).update(b"FOLDER");
        rest = &rest[at + name.len()..];
    }
    hasher.update(rest).finalize().to_hex().to_string()
}

/// A value that changes when a file is written: the file itself, its length and its time.
type Stamp = (u64, u64, i64, i64);

fn stamps(folder: &Path) -> Result<BTreeMap<PathBuf, Stamp>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let (path, data) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
            if data.is_dir() {
                folders.push(path);
            } else {
                found.insert(path, (data.ino(), data.len(), data.mtime(), data.mtime_nsec()));
            }
        }
    }
    Ok(found)
}
