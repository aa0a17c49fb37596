//! The saved state of a process that an unwinder needs: threads, memory, loaded files.

use super::memory::Memory;
use super::modules::Modules;
use crate::open::Problem;
use sframe_format::Abi;

/// A thread to unwind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its name: `thread 1234`.
    pub name: String,
    /// Program counter.
    pub pc: u64,
    /// Registers by DWARF number, as far as they are known.
    pub registers: Vec<Option<u64>>,
}

/// The state of a process, for the unwinder.
pub struct Process {
    /// Architecture.
    pub abi: Abi,
    /// Threads in the order of the file.
    pub threads: Vec<Thread>,
    /// Memory, as far as it was saved.
    pub memory: Memory,
    /// Files and where they are loaded.
    pub modules: Modules,
    /// Bytes of the files that the memory was saved in.
    pub saved: usize,
}

impl Process {
    /// Most frames of all threads together: every frame except the topmost of a thread has a word on a stack.
    /// Without that bound, a small file with many threads whose stacks go in circles would give any number of
    /// frames.
    pub fn frames_at_most(&self) -> usize {
        self.threads.len() + self.saved / size_of::<u64>()
    }
}

/// An error in an argument.
pub fn bad(argument: &str, message: impl Into<String>) -> Problem {
    Problem::new(argument, message)
}
