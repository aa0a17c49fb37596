//! `bench file-systems`: links whose output goes to one file system or another, and ways of writing it there.
//!
//! Each file system is made in a file, which is mounted for the time of its links; tmpfs needs no file. Two
//! tables say how it does: one of links, as [`super::cores`] makes it, and one of the ways of writing
//! ([`super::ways`]) among which the linker had to choose.

use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::peers::Linker;
use anyhow::{Context, Result, bail};

use super::case::must_run;
use super::cores;
use super::link::Bench;
use super::measure::median;
use super::page::{self, Conditions};
use super::ways::{self, Way};

/// Bytes of a file system.
const SIZE: u64 = 6 << 30;

/// The file systems: the name, the command that makes one in a file, and the package that has the command.
const KINDS: [(&str, &[&str], &str); 4] = [
    ("ext4", &["mkfs.ext4", "-q"], "e2fsprogs"),
    ("xfs", &["mkfs.xfs", "-q"], "xfsprogs"),
    ("btrfs", &["mkfs.btrfs", "-q"], "btrfs-progs"),
    ("tmpfs", &[], ""),
];

/// Makes the page. The file systems lie in `directory`.
///
/// # Errors
/// This is not root, or a link of this linker fails.
pub fn render(
    benches: &[Bench],
    linkers: &[Linker],
    conditions: Conditions,
    directory: &Path,
) -> Result<String> {
    let mut text = String::new();
    let Conditions { rounds, processors, .. } = conditions;
    page::begin(&mut text, "Where outputs are written, and how", "bench file-systems --write")?;
    writeln!(
        text,
        "Each file system is made in a file of the machine's own one, tmpfs in memory. Medians of {rounds} rounds in turns, on \
         {processors} processors.\nTwo times stand in a cell: over the output of the round before, and where none was.\n"
    )?;
    page::versions(&mut text, linkers)?;
    for (kind, make, package) in KINDS {
        writeln!(text, "\n## {kind}")?;
        let Some(mounted) = Mounted::new(directory, kind, make)? else {
            writeln!(text, "\nNot measured: `{}` is missing (package {package}).", make[0])?;
            continue;
        };
        for bench in benches {
            eprintln!("{kind}: {}", bench.workload.name());
            let bench = bench.with_outputs(mounted.folder.clone());
            writeln!(text, "\n{}: {}\n", bench.workload.name(), bench.workload.description())?;
            cores::compare(&mut text, &bench, linkers, conditions)?;
        }
        eprintln!("{kind}: ways of writing");
        ways_of(&mut text, &mounted.folder, conditions)?;
    }
    Ok(text)
}

/// A mounted file system, which goes when this is dropped.
struct Mounted {
    folder: PathBuf,
    image: Option<PathBuf>,
}

impl Mounted {
    /// Makes and mounts one; `None` if the command that makes it is missing.
    fn new(directory: &Path, kind: &str, make: &[&str]) -> Result<Option<Self>> {
        let folder = std::path::absolute(directory)?.join("file-systems").join(kind);
        std::fs::create_dir_all(&folder)?;
        let point = folder.display().to_string();
        let words = match make.split_first() {
            // Huge pages only where a mapping asks for them.
            None => format!("-t tmpfs -o huge=advise,size={SIZE} tmpfs {point}"),
            Some((program, options)) => {
                let image = folder.with_extension("image");
                File::create(&image)?.set_len(SIZE)?;
                let mut command = std::process::Command::new(program);
                match command.args(options).arg(&image).output() {
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                    Err(error) => return Err(error).with_context(|| format!("cannot start {program}")),
                    Ok(output) if !output.status.success() => {
                        bail!("{program} fails: {}", String::from_utf8_lossy(&output.stderr))
                    }
                    Ok(_) => format!("-o loop {} {point}", image.display()),
                }
            }
        };
        let words: Vec<String> = words.split(' ').map(String::from).collect();
        must_run(Path::new("."), "mount", &words).context("a file system can be mounted by root")?;
        let image = (!make.is_empty()).then(|| folder.with_extension("image"));
        Ok(Some(Mounted { folder, image }))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let words = [self.folder.display().to_string()];
        if let Err(error) = must_run(Path::new("."), "umount", &words) {
            eprintln!("{error}");
        }
        if let Some(image) = &self.image {
            drop(std::fs::remove_file(image));
        }
    }
}

/// The times of one way with one number of threads.
#[derive(Default)]
struct Times {
    over: Vec<ways::Cost>,
    fresh: Vec<ways::Cost>,
}

/// The table of the ways of writing.
fn ways_of(text: &mut String, folder: &Path, conditions: Conditions) -> Result<()> {
    let threads: Vec<usize> = cores::columns(conditions.processors).into_iter().flatten().collect();
    let path = folder.join("written");
    let mut found: Vec<(Way, Result<Vec<Times>, String>)> =
        Way::ALL.iter().map(|&way| (way, Ok(threads.iter().map(|_| Times::default()).collect()))).collect();
    for round in 0..=conditions.rounds {
        for (way, times) in &mut found {
            let Ok(all) = times else { continue };
            let once = |(times, &threads): (&mut Times, &usize)| {
                let fresh = ways::write(*way, threads, &path, false)?;
                let over = ways::write(*way, threads, &path, true)?;
                // The first round only warms up.
                if round > 0 {
                    times.fresh.push(fresh);
                    times.over.push(over);
                }
                Ok(())
            };
            let ended: std::io::Result<()> = all.iter_mut().zip(&threads).try_for_each(once);
            if let Err(error) = ended {
                *times = Err(error.to_string());
            }
        }
    }
    drop(std::fs::remove_file(&path));
    writeln!(
        text,
        "\n192 MiB in pieces, each made in the processor's cache before it is written, ms (processor time over an old file):\n"
    )?;
    cores::head(text, "way, threads", &threads.iter().copied().map(Some).collect::<Vec<_>>())?;
    for (way, times) in found {
        write!(text, "| {} |", way.name())?;
        match times {
            Ok(all) => all.iter().try_for_each(|times| write!(text, " {} |", cell(times)))?,
            Err(problem) => {
                write!(text, " {}{}", problem.replace('|', "/"), " |".repeat(threads.len()))?;
            }
        }
        writeln!(text)?;
    }
    Ok(())
}

fn cell(times: &Times) -> String {
    let of = |costs: &[ways::Cost], time: fn(&ways::Cost) -> Duration| {
        median(costs.iter().map(|cost| time(cost).as_secs_f64() * 1e3)).unwrap_or_default()
    };
    let (over, fresh) = (of(&times.over, |cost| cost.wall), of(&times.fresh, |cost| cost.wall));
    format!("{over:.0} / {fresh:.0} ({:.0})", of(&times.over, |cost| cost.cpu))
}
