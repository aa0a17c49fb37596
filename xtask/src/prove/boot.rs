//! Boots a kernel in an emulated machine, with files in its memory.

use super::packages::Tools;
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The longest time that a machine may take from power on to power off, all in software.
const LONGEST: Duration = Duration::from_secs(300);

/// The files of an initramfs: a `cpio` archive in the `newc` format.
#[derive(Default)]
pub struct Files {
    bytes: Vec<u8>,
    count: u32,
}

impl Files {
    /// Adds a folder; its path has no leading slash.
    pub fn folder(&mut self, path: &str) -> &mut Self {
        self.entry(path, 0o040755, (0, 0), b"")
    }

    /// Adds a program, a script or a module.
    pub fn file(&mut self, path: &str, contents: &[u8]) -> &mut Self {
        self.entry(path, 0o100755, (0, 0), contents)
    }

    /// Adds the device that the first program talks to.
    pub fn console(&mut self) -> &mut Self {
        self.entry("dev/console", 0o020600, (5, 1), b"")
    }

    /// Adds an entry: a header of hexadecimal numbers, the name, the contents; each part is filled up to four
    /// bytes.
    fn entry(&mut self, path: &str, mode: u32, device: (u32, u32), contents: &[u8]) -> &mut Self {
        self.count += 1;
        let numbers = [
            self.count,
            mode,
            0,
            0,
            1,
            0,
            contents.len() as u32,
            0,
            0,
            device.0,
            device.1,
            path.len() as u32 + 1,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        self.bytes.extend(numbers.iter().flat_map(|number| format!("{number:08x}").into_bytes()));
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.fill();
        self.bytes.extend_from_slice(contents);
        self.fill();
        self
    }

    fn fill(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Writes the archive.
    pub fn write(mut self, path: &Path) -> Result<()> {
        self.entry("TRAILER!!!", 0, (0, 0), b"");
        Ok(std::fs::write(path, self.bytes)?)
    }
}

/// Boots and returns the text on the console. The first program must end with a restart, which ends the
/// machine.
pub fn boot(
    tools: &Tools,
    program: &str,
    words: &[&str],
    kernel: &Path,
    initrd: &Path,
    command_line: &str,
) -> Result<String> {
    let log = initrd.with_extension("console");
    let mut command = tools.command(program);
    for folder in tools.firmware() {
        command.arg("-L").arg(folder);
    }
    command.args(words).args(["-accel", "tcg", "-m", "512", "-nographic", "-no-reboot", "-nic", "none"]);
    command.arg("-kernel").arg(kernel).arg("-initrd").arg(initrd).arg("-append").arg(command_line);
    let file = std::fs::File::create(&log)?;
    command.stdin(Stdio::null()).stderr(file.try_clone()?).stdout(file);
    let mut machine = command.spawn().with_context(|| format!("cannot start {program}"))?;
    let start = Instant::now();
    let status = loop {
        match machine.try_wait()? {
            Some(status) => break status,
            None if start.elapsed() < LONGEST => std::thread::sleep(Duration::from_millis(100)),
            None => {
                machine.kill()?;
                machine.wait()?;
                bail!("the machine did not end in {} s, see {}", LONGEST.as_secs(), log.display());
            }
        }
    };
    let text = String::from_utf8_lossy(&std::fs::read(&log)?).replace('\r', "");
    ensure!(status.success(), "{program} ended with {status}, see {}", log.display());
    Ok(text)
}
