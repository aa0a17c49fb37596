//! `--busy N`: other processes keep processors busy while links are timed, as other jobs of a build do. A
//! linker that arranges its threads for an idle machine must do well there, too.

use anyhow::{Context, Result};
use std::process::{Child, Command, Stdio};

/// The processes; they end when this is dropped.
pub struct Busy(Vec<Child>);

impl Busy {
    /// Starts `count` processes.
    ///
    /// # Errors
    /// There is no shell.
    pub fn start(count: usize) -> Result<Self> {
        let mut busy = Busy(Vec::with_capacity(count));
        for _ in 0..count {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            busy.0.push(command.spawn().context("cannot start sh")?);
        }
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
