//! Runs a linker on a case, with limits.
//!
//! The output goes into a new temporary folder, never to a device. There are limits on time, on memory, and
//! on the size of each file that the linker writes. So an endless loop or a lack of memory is an ordinary
//! outcome.

use crate::cases::Case;
use crate::peers::Linker;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The limits of a run.
#[derive(clap::Args, Clone, Debug)]
pub struct Limits {
    /// Seconds that one link may take
    #[arg(id = "time-limit", long, default_value_t = 60.0, value_name = "SECONDS")]
    pub time: f64,
    /// Address space of one linker, in MiB
    #[arg(id = "memory-limit", long, default_value_t = 16384, value_name = "MIB")]
    pub memory: u64,
    /// Size of each file that it writes, in MiB
    #[arg(id = "output-limit", long, default_value_t = 2048, value_name = "MIB")]
    pub output: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { time: 60.0, memory: 16384, output: 2048 }
    }
}

/// How many bytes of messages are kept.
const MESSAGES: u64 = 1 << 20;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It ended by itself.
    Exit(i32),
    /// A signal ended it.
    Signal(i32),
    /// It took too long.
    Timeout,
}

impl Status {
    /// Whether the link succeeded.
    pub fn is_success(self) -> bool {
        self == Status::Exit(0)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Exit(0) => write!(f, "ok"),
            Status::Exit(code) => write!(f, "exit {code}"),
            Status::Signal(signal) => write!(f, "signal {signal}"),
            Status::Timeout => write!(f, "timeout"),
        }
    }
}

/// A finished run. The folder with the outputs lives as long as this.
pub struct Run {
    /// How it ended. If a step fails, the case ends.
    pub status: Status,
    /// Its standard error and output.
    pub messages: String,
    /// Wall time of the last step, in seconds.
    pub seconds: f64,
    /// The output, if the last step wrote one.
    pub output: Option<PathBuf>,
    /// The outputs of earlier steps that the last step read.
    pub taken: Vec<PathBuf>,
    /// Folder of all outputs.
    pub folder: TempDir,
}

/// Runs all steps of a case.
///
/// # Errors
/// The linker cannot be started, or there is no room for the temporary folder.
pub fn run(linker: &Linker, case: &Case, limits: &Limits) -> Result<Run> {
    let folder = tempfile::Builder::new().prefix("ld-compare-").tempdir()?;
    let mut run = Run {
        status: Status::Exit(0),
        messages: String::new(),
        seconds: 0.0,
        output: None,
        taken: Vec::new(),
        folder,
    };
    for (number, step) in case.steps.iter().enumerate() {
        let output = run.folder.path().join(&step.output);
        let mut command = Command::new(&linker.command[0]);
        command.args(&linker.command[1..]).current_dir(&case.folder);
        command.arg("-o").arg(&output);
        run.taken.clear();
        for argument in &step.arguments {
            if case.steps[..number].iter().any(|earlier| earlier.output == *argument) {
                let taken = run.folder.path().join(argument);
                command.arg(&taken);
                run.taken.push(taken);
            } else {
                command.arg(argument);
            }
        }
        let finished =
            limited(&mut command, limits).with_context(|| format!("cannot run {}", linker.name))?;
        run.messages.push_str(&finished.messages);
        (run.status, run.seconds) = (finished.status, finished.seconds);
        run.output = output.is_file().then_some(output);
        if !run.status.is_success() {
            break;
        }
    }
    Ok(run)
}

/// A command that ran with limits and has ended.
pub struct Finished {
    /// How it ended.
    pub status: Status,
    /// Standard output and standard error.
    pub messages: String,
    /// Standard output alone.
    pub printed: String,
    /// Wall time in seconds.
    pub seconds: f64,
}

/// Runs any command with limits. Its messages are in the language of the C locale.
///
/// # Errors
/// The command cannot be started.
pub fn limited(command: &mut Command, limits: &Limits) -> std::io::Result<Finished> {
    let (memory, output) = (limits.memory << 20, limits.output << 20);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("LC_ALL", "C").process_group(0);
    let limit = move || {
        for (resource, value) in
            [(libc::RLIMIT_AS, memory), (libc::RLIMIT_FSIZE, output), (libc::RLIMIT_CORE, 0)]
        {
            let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
            // SAFETY: the structure lives until the call returns, and the call only changes this process.
            if unsafe { libc::setrlimit(resource, &limit) } != 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec, only setrlimit is called, which is safe there.
    unsafe { command.pre_exec(limit) };
    let started = Instant::now();
    let mut child = command.spawn()?;
    let readers = [read_all(child.stdout.take()), read_all(child.stderr.take())];
    let status = wait(&mut child, Duration::from_secs_f64(limits.time.clamp(0.0, 1e6)))?;
    let seconds = started.elapsed().as_secs_f64();
    let texts = readers.map(|reader| reader.join().unwrap_or_default());
    let messages = texts.concat();
    let [printed, _] = texts;
    Ok(Finished { status, messages, printed, seconds })
}

fn read_all(stream: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let Some(mut stream) = stream else { return String::new() };
        let mut bytes = Vec::new();
        let _ = stream.by_ref().take(MESSAGES).read_to_end(&mut bytes);
        // Read the rest too, so that the writer does not block.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits until a child ends. After the time limit, it kills the child and its descendants.
fn wait(child: &mut Child, time: Duration) -> std::io::Result<Status> {
    let started = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status_of(status));
        }
        if started.elapsed() >= time {
            // SAFETY: this sends a signal to the group of processes that this child leads.
            unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
            child.wait()?;
            return Ok(Status::Timeout);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

fn status_of(status: ExitStatus) -> Status {
    match status.code() {
        Some(code) => Status::Exit(code),
        None => Status::Signal(status.signal().unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limits: &Limits) -> Finished {
        limited(Command::new("sh").args(["-c", script]), limits).unwrap()
    }

    #[test]
    fn limits_end_runs_that_exceed_them() {
        let limits = Limits { time: 0.2, output: 1, ..Limits::default() };
        assert_eq!(shell("sleep 30", &limits).status, Status::Timeout);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("large").display().to_string();
        let limits = Limits { output: 1, ..Limits::default() };
        let large = shell(&format!("head -c 3000000 /dev/zero > {file}"), &limits);
        assert_ne!(large.status, Status::Exit(0));
        assert!(std::fs::metadata(file).unwrap().len() <= 1 << 20);
    }

    #[test]
    fn messages_and_status_are_kept() {
        let finished = shell("echo out; echo err >&2; exit 3", &Limits::default());
        assert_eq!((finished.status, finished.messages.as_str()), (Status::Exit(3), "out\nerr\n"));
        assert_eq!(shell("kill -11 $$", &Limits::default()).status, Status::Signal(11));
    }
}
