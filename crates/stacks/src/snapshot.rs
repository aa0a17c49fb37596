//! A process that is no longer there: what was saved of its threads and of its memory.

use crate::memory::Memory;
use sframe_format::{Abi, Registers};

/// A thread whose registers were saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its number.
    pub tid: u32,
    /// The number of the signal that ended the process; 0 if there was none.
    pub signal: u16,
    /// Program counter.
    pub pc: u64,
    /// Registers by DWARF number, as far as they are known.
    pub registers: Vec<Option<u64>>,
    /// The base of its own data, if it is known.
    pub base: Option<u64>,
}

impl Thread {
    /// The registers that a walk starts with.
    pub(crate) fn start(&self, abi: Abi) -> Registers {
        let register = |number: u32| self.registers.get(number as usize).copied().flatten();
        Registers::new(
            register(abi.stack_pointer()).unwrap_or(0),
            register(abi.frame_pointer()).unwrap_or(0),
            register(abi.return_address()).filter(|_| abi != Abi::Amd64),
        )
        .with_others(&self.registers)
    }
}

/// What was saved of a process.
pub struct Snapshot {
    /// Its architecture.
    pub abi: Abi,
    /// Its number.
    pub pid: u32,
    /// The name of its program.
    pub name: Vec<u8>,
    /// Its threads; the kernel writes the one first that the signal came to.
    pub threads: Vec<Thread>,
    /// Its memory, as far as it was saved.
    pub memory: Memory,
    /// Bytes of the files that the memory was saved in.
    pub saved: usize,
}

impl Snapshot {
    /// A process of which nothing is known.
    pub fn new(abi: Abi) -> Self {
        let (name, threads, memory) = (Vec::new(), Vec::new(), Memory::default());
        Self { abi, pid: 0, name, threads, memory, saved: 0 }
    }

    /// The names of the events that its stacks stand for: that of the first thread, and that of the others.
    pub fn events(&self) -> Vec<String> {
        let signal = self.threads.first().map_or(0, |thread| thread.signal);
        let first = if signal == 0 { "saved".into() } else { name_of_signal(signal) };
        vec![first, "saved".into()]
    }
}

/// The name of a signal that leaves a core file, as signal(7) has it.
fn name_of_signal(number: u16) -> String {
    let name = match i32::from(number) {
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        _ => return format!("signal-{number}"),
    };
    name.into()
}
