//! Measures the cost of one link: wall time, CPU time and peak memory of the whole process tree.
//!
//! Linkers such as mold and wild fork: the first process returns as soon as the output is complete, while its
//! child still cleans up. If only the first process were measured, the child's work would cost nothing. So a
//! process of its own (`xtask measure`) runs the link, adopts orphans (`PR_SET_CHILD_SUBREAPER`) and waits
//! for all of them:
//! - Wall time ends when the first process exits, because a build waits no longer.
//! - CPU time is user and system time of every process, from `wait4`, including the cleaning up. The part of
//!   it that is used after the first process ended is also given by itself, to the system's clock tick.
//! - Faults are those of every process, from `wait4`.
//! - Peak memory is the larger of two numbers: the greatest `ru_maxrss` of any process, and the greatest sum
//!   of the resident sizes of all processes in the tree, taken every few milliseconds. Resident pages of
//!   mapped files count, as they do everywhere.
//!
//! The separate process also keeps the numbers clean. The kernel lets a child inherit the peak of the process
//! that started it, and this process is small.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::children;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

const SAMPLE_EVERY: Duration = Duration::from_millis(4);

#[derive(clap::Args)]
pub struct Arguments {
    /// Folder to run the command in
    #[arg(long)]
    directory: PathBuf,
    /// Confine the command to this number of processors
    #[arg(long)]
    processors: usize,
    /// The command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// The cost of one run: times in seconds, memory in bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cost {
    pub wall: f64,
    pub cpu: f64,
    /// The part of `cpu` that was used after the first process had ended.
    pub cpu_behind: f64,
    /// Page faults.
    pub faults: u64,
    pub peak_memory: u64,
    pub success: bool,
}

/// One measured run and the command's messages.
pub struct Run {
    pub cost: Cost,
    pub messages: String,
}

/// The value in the middle, or the mean of the two in the middle; `None` without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let (lower, upper) = (values.get(values.len().wrapping_sub(1) / 2)?, values.get(values.len() / 2)?);
    Some((lower + upper) / 2.0)
}

/// Runs `command` in `directory` on `processors` processors, through `xtask measure`.
pub fn measure(directory: &Path, processors: usize, command: &[String]) -> Result<Run> {
    let output = Command::new(std::env::current_exe()?)
        .args(["measure", "--processors", &processors.to_string(), "--directory"])
        .arg(directory)
        .arg("--")
        .args(command)
        .stdin(Stdio::null())
        .output()
        .context("cannot run xtask measure")?;
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        bail!("cannot measure {}: {messages}", command[0]);
    }
    Ok(Run { cost: serde_json::from_slice(&output.stdout)?, messages })
}

/// The subcommand `xtask measure`: prints a [`Cost`] as JSON. The command's own output goes to standard
/// error.
pub fn run(arguments: Arguments) -> Result<()> {
    adopt_orphans()?;
    confine(arguments.processors)?;
    let (program, rest) = arguments.command.split_first().context("no command")?;
    let started = Instant::now();
    let child = Command::new(program)
        .args(rest)
        .current_dir(&arguments.directory)
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    let cost = wait_for_tree(child.id() as libc::pid_t, started)?;
    serde_json::to_writer(std::io::stdout(), &cost)?;
    std::io::stdout().flush()?;
    Ok(())
}

fn adopt_orphans() -> Result<()> {
    // SAFETY: this sets a flag of this process, and no pointers are involved.
    let result = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    if result != 0 {
        bail!("cannot adopt orphans: {}", std::io::Error::last_os_error());
    }
    Ok(())
}

/// Confines this process to the first `processors` of those that it may run on. Children inherit that.
fn confine(processors: usize) -> Result<()> {
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: both sets are plain bit masks of the given size, and live during the calls.
    let result = unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        let mut chosen: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size, &mut allowed);
        let usable = (0..libc::CPU_SETSIZE as usize).filter(|&number| libc::CPU_ISSET(number, &allowed));
        usable.take(processors).for_each(|number| libc::CPU_SET(number, &mut chosen));
        libc::sched_setaffinity(0, size, &chosen)
    };
    if result != 0 {
        bail!("cannot confine to {processors} processors: {}", std::io::Error::last_os_error());
    }
    Ok(())
}

/// Waits until no descendant is left, and adds up their usage.
fn wait_for_tree(first: libc::pid_t, started: Instant) -> Result<Cost> {
    let done = AtomicBool::new(false);
    let sampled_peak = AtomicU64::new(0);
    let mut cost = Cost { wall: 0.0, cpu: 0.0, cpu_behind: 0.0, faults: 0, peak_memory: 0, success: false };
    let mut cpu_until_end = 0.0;
    std::thread::scope(|scope| {
        scope.spawn(|| sample(&done, &sampled_peak));
        while let Some((process, status, usage)) = wait_for_any() {
            cost.cpu += children::processor_time(&usage).as_secs_f64();
            cost.faults += (usage.ru_minflt + usage.ru_majflt) as u64;
            if process == first {
                cost.wall = started.elapsed().as_secs_f64();
                cost.success = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
                let running = descendants(std::process::id()).into_iter().filter_map(cpu_so_far);
                cpu_until_end = cost.cpu + running.sum::<f64>();
            }
            cost.peak_memory = cost.peak_memory.max(usage.ru_maxrss as u64 * 1024);
        }
        done.store(true, Ordering::Relaxed);
    });
    cost.cpu_behind = (cost.cpu - cpu_until_end).max(0.0);
    cost.peak_memory = cost.peak_memory.max(sampled_peak.into_inner());
    Ok(cost)
}

/// The next child that ended; `None` if there are no more children.
fn wait_for_any() -> Option<(libc::pid_t, i32, libc::rusage)> {
    let mut status = 0;
    // SAFETY: `rusage` is plain data that may be all zeros, and both pointers outlive the call.
    let (process, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(-1, &mut status, 0, &mut usage), usage)
    };
    (process > 0).then_some((process, status, usage))
}

/// Keeps the greatest sum of resident sizes that it sees until `done`. It sleeps first: a linker may look,
/// when it starts, how busy the machine is, and must not find its observer.
fn sample(done: &AtomicBool, peak: &AtomicU64) {
    std::thread::sleep(SAMPLE_EVERY);
    while !done.load(Ordering::Relaxed) {
        let resident = descendants(std::process::id()).into_iter().filter_map(resident_size).sum();
        peak.fetch_max(resident, Ordering::Relaxed);
        std::thread::sleep(SAMPLE_EVERY);
    }
}

/// The descendants of a process, except for those that vanish meanwhile.
fn descendants(process: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut open = vec![process];
    while let Some(process) = open.pop() {
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{process}/task")) else { continue };
        for task in tasks.flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|word| word.parse().ok());
            open.extend(children.filter(|child| found.insert(*child)));
        }
    }
    found
}

/// User and system time of a process and all its threads, in seconds.
fn cpu_so_far(process: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name may contain anything; it ends at the last parenthesis. Fields 14 and 15 count from 1.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    // SAFETY: this asks for a constant of the system.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Some((ticks()? + ticks()?) as f64 / per_second as f64)
}

fn resident_size(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    // SAFETY: this asks for a constant of the system.
    Some(pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64)
}
