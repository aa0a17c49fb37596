//! Walks the files and folders of subcommands that take many. It reads files in parallel, and gives their
//! results in order.
//!
//! The sizes of files differ by orders of magnitude, and only one thread reads a file. If each thread got the
//! same number of files, one would work long after the others. So each thread takes the next file when it is
//! done with one.

use super::open::{Input, Problem, for_each_input};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use object::elf::ELFMAG;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// From this number of files on, the command shows its progress.
const MANY: usize = 8;

/// What came of looking at an input.
pub enum FileResult<T> {
    /// The command looked at it.
    Done(T),
    /// It cannot be used.
    Problem(Problem),
    /// It contains nothing to look at. Its name, and whether the command line named it.
    Nothing(String, bool),
}

/// Calls `look` for every file that the command line names, and for every ELF file below every folder that it
/// names. `look` returns `None` if a file has nothing to look at. Several threads call it; the results are in
/// the order of the files.
pub fn for_each_file<T: Send + Sync>(
    paths: &[PathBuf],
    raw_address: u64,
    look: &(dyn Fn(Input<'_>) -> Result<Option<T>, Problem> + Sync),
) -> Vec<FileResult<T>> {
    let files: Vec<(PathBuf, bool)> = paths.iter().flat_map(|path| files(path)).collect();
    let progress = progress(files.len());
    let results: Vec<OnceLock<Vec<FileResult<T>>>> = files.iter().map(|_| OnceLock::new()).collect();
    in_parallel(files.len(), &|row| {
        let (path, named) = &files[row];
        let _ = results[row].set(look_at(path, *named, raw_address, look));
        progress.inc(1);
    });
    progress.finish_and_clear();
    results.into_iter().filter_map(OnceLock::into_inner).flatten().collect()
}

/// Calls `work` for every number below `count`, in this thread and in one for each other processor. If the
/// system gives fewer threads (`ulimit -u`, `ulimit -v`), those that exist do all the work.
fn in_parallel(count: usize, work: &(dyn Fn(usize) + Sync)) {
    let next = AtomicUsize::new(0);
    let take = || {
        loop {
            let row = next.fetch_add(1, Ordering::Relaxed);
            if row >= count {
                return;
            }
            work(row);
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(count);
    thread::scope(|scope| {
        for _ in 1..threads {
            if thread::Builder::new().spawn_scoped(scope, take).is_err() {
                break;
            }
        }
        take();
    });
}

fn look_at<T>(
    path: &Path,
    named: bool,
    raw_address: u64,
    look: &(dyn Fn(Input<'_>) -> Result<Option<T>, Problem> + Sync),
) -> Vec<FileResult<T>> {
    let mut results = Vec::new();
    let result = for_each_input(path, raw_address, &mut |input| {
        results.extend(match look(input) {
            Ok(Some(done)) => Some(FileResult::Done(done)),
            Ok(None) => None,
            Err(problem) => Some(FileResult::Problem(problem)),
        });
        Ok(())
    });
    match result {
        Err(problem) => results.push(FileResult::Problem(problem)),
        Ok(()) if results.is_empty() => {
            results.push(FileResult::Nothing(path.display().to_string(), named));
        }
        Ok(()) => {}
    }
    results
}

/// A progress bar if there are many files and a terminal.
fn progress(count: usize) -> ProgressBar {
    let target = if count < MANY { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(count as u64), target);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} files, {eta} left") {
        bar.set_style(style);
    }
    bar
}

/// The file itself, or the ELF files in a folder and below it, sorted by path; links are not followed. The
/// flag says whether the command line named the file.
fn files(path: &Path) -> Vec<(PathBuf, bool)> {
    if !path.is_dir() {
        return vec![(path.into(), true)];
    }
    let (mut found, mut folders) = (Vec::new(), vec![path.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() && is_elf(&entry.path()) => found.push((entry.path(), false)),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// Whether a file is a 64-bit ELF file.
fn is_elf(path: &Path) -> bool {
    let mut start = [0; 5];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start.starts_with(&ELFMAG) && start[4] == object::elf::ELFCLASS64
}
