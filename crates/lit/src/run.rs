//! Runs one test: its commands as a shell script, within a time limit.

use crate::conditions::holds;
use crate::test_file::TestFile;
use crate::toolchain::Toolchain;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The outcome of a test. Texts are whole lines.
#[derive(Debug)]
pub enum Outcome {
    Passed,
    /// It cannot run here, for this reason.
    Skipped(String),
    /// It is not for this linker or machine.
    Unsupported,
    /// It failed, as `XFAIL:` expects.
    FailedAsExpected,
    /// The linker differs as `PEER-DIFF:` expects, for the reason given there.
    Differs(String),
    Failed(String),
}

impl Outcome {
    /// lit's word for it, if there is one.
    pub fn word(&self) -> &'static str {
        match self {
            Outcome::Passed => "PASS",
            Outcome::Skipped(_) => "SKIP",
            Outcome::Unsupported => "UNSUPPORTED",
            Outcome::FailedAsExpected => "XFAIL",
            Outcome::Differs(_) => "DIFFERS",
            Outcome::Failed(_) => "FAIL",
        }
    }
}

/// Settings that all tests of a run share.
pub struct Run<'a> {
    pub toolchain: &'a Toolchain,
    /// Folder with the tools of LLVM.
    pub tools: &'a Path,
    /// Folder for outputs of tests.
    pub scratch: PathBuf,
    pub limit: Duration,
    /// Whether a missing tool is a failure.
    pub require_all: bool,
}

impl Run<'_> {
    /// Runs a test and judges its result. `name` is its name in messages.
    pub fn test(&self, name: &str, test: &TestFile) -> Outcome {
        self.judge(name, test).unwrap_or_else(|error| Outcome::Failed(format!("{error:#}\n")))
    }

    fn judge(&self, name: &str, test: &TestFile) -> Result<Outcome> {
        let features = &self.toolchain.features;
        for condition in &test.unsupported {
            if holds(condition, features)? {
                return Ok(Outcome::Unsupported);
            }
        }
        for condition in &test.requires {
            if !holds(condition, features)? {
                // A test of our own options is not for other linkers. Any other unmet condition means a
                // missing tool.
                let missing = self.toolchain.linker_name() == "sframe-ld" || condition != "sframe-ld";
                let reason = format!("requires {condition}");
                return Ok(if missing { self.skipped(reason) } else { Outcome::Unsupported });
            }
        }
        let mut expected = false;
        for condition in &test.fails {
            expected |= holds(condition, features)?;
        }
        let script = match self.script(name, test)? {
            Ok(script) => script,
            Err(reason) => return Ok(self.skipped(reason)),
        };
        let failure = self.execute(&script)?;
        let differs = test.difference(self.toolchain.linker_name());
        Ok(match (failure, expected, differs) {
            (None, false, None) => Outcome::Passed,
            (Some(_), true, _) => Outcome::FailedAsExpected,
            (Some(_), false, Some(reason)) => Outcome::Differs(reason.to_owned()),
            (None, true, _) => Outcome::Failed("passes, though XFAIL: says that it fails\n".into()),
            (None, false, Some(_)) => {
                Outcome::Failed("passes, though PEER-DIFF: says that this linker differs\n".into())
            }
            (Some(text), false, None) => Outcome::Failed(text),
        })
    }

    fn skipped(&self, reason: String) -> Outcome {
        if self.require_all {
            Outcome::Failed(format!("may not be skipped here: {reason}\n"))
        } else {
            Outcome::Skipped(reason)
        }
    }

    /// The shell script for a test, or the name of a missing tool. First removes the files of the test's last
    /// run.
    fn script(&self, name: &str, test: &TestFile) -> Result<Result<String, String>> {
        let stem = self.scratch.join(name);
        let folder = stem.parent().unwrap_or(&self.scratch).to_owned();
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let temporary = PathBuf::from(format!("{}.tmp", stem.display()));
        if temporary.is_dir() {
            std::fs::remove_dir_all(&temporary)?;
        }
        let source_folder = test.path.parent().unwrap_or(Path::new(""));
        let own = [
            ("%s", test.path.display().to_string()),
            ("%S", source_folder.display().to_string()),
            ("%t", temporary.display().to_string()),
            ("%T", folder.display().to_string()),
        ];
        // The status of each line counts, as if `&&` joined the lines.
        let mut script = format!("set -o pipefail\ncd '{}'\n", folder.display());
        for (line, command) in &test.commands {
            let text = match self.toolchain.substitute(command, &own) {
                Ok(text) => text,
                Err(missing) => return Ok(Err(missing)),
            };
            let shown = format!("RUN, line {line}: {text}").replace('\'', "'\\''");
            write!(
                script,
                "{{ {text}\n}} || {{ s=$?; echo '{shown}'; echo \"exit status $s\"; exit 1; }}\n"
            )?;
        }
        Ok(Ok(script))
    }

    /// Runs a script. Returns its messages if it failed.
    fn execute(&self, script: &str) -> Result<Option<String>> {
        let mut output = tempfile::tempfile_in(&self.scratch)?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.tools.to_owned()).chain(std::env::split_paths(&path));
        let mut child = Command::new("bash")
            .args(["--norc", "-c", script])
            .env("PATH", std::env::join_paths(folders)?)
            .env("LC_ALL", "C")
            .env_remove("SFRAME_LD_OPTIONS")
            .env_remove("SFRAME_LD_IDENTITY")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?)
            .process_group(0)
            .spawn()
            .context("cannot start bash")?;
        let status = self.wait(&mut child)?;
        if status.is_some_and(|status| status.success()) {
            return Ok(None);
        }
        use std::io::{Read, Seek};
        let mut bytes = Vec::new();
        output.rewind()?;
        output.read_to_end(&mut bytes)?;
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if status.is_none() {
            writeln!(text, "stopped after {} s", self.limit.as_secs())?;
        }
        Ok(Some(text))
    }

    /// Waits for the end of a process group. At the limit, ends the group and returns `None`.
    fn wait(&self, child: &mut Child) -> Result<Option<ExitStatus>> {
        let end = Instant::now() + self.limit;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= end {
                // SAFETY: sends a signal to the group that this child leads; it has not been waited for.
                unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
                child.wait()?;
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
