//! `sframe unwind`: stacks of a process that is no longer there, from a core file or from saved
//! registers and memory.
//!
//! | module | contents |
//! |---|---|
//! | `core` | threads, memory and mapped files of a core file |
//! | `saved` | registers and memory that something saved in plain files |
//! | `memory` | the memory of both |
//! | `modules` | files at the addresses they were loaded at |
//! | `process` | all of that together |

pub mod core;
mod memory;
mod modules;
mod process;
mod saved;

use super::args::Unwind;
use super::registers;
use super::report::{Outcome, complain, hexadecimal, output, print_json};
use process::{Process, Thread};
use serde::Serialize;
use sframe_format::{Abi, FrameAddress, Registers, RuleCache, StackFrame, UnwindError};
use std::io::{self, Write};

/// Frames of one stack at most; a stack that goes in circles ends here.
const DEEPEST: usize = 100_000;

/// The frames of a thread.
#[derive(Debug, Serialize)]
pub struct Stack {
    thread: String,
    frames: Vec<FrameReport>,
    /// Why unwinding stopped before the end of the stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
}

#[derive(Debug, Serialize)]
struct FrameReport {
    address: String,
    kind: &'static str,
    /// What led to this frame.
    source: &'static str,
    place: String,
}

/// Unwinds every thread.
pub fn run(arguments: &Unwind) -> Outcome {
    let process = match &arguments.core {
        Some(path) => core::read(path, arguments),
        None => saved::read(arguments),
    };
    let process = match process {
        Ok(process) => process,
        Err(problem) => {
            complain(&problem);
            return Outcome::Unusable;
        }
    };
    for problem in process.modules.problems() {
        complain(problem);
    }
    let stacks: Vec<Stack> =
        process.threads.iter().map(|thread| unwind(&process, thread, arguments.demangle)).collect();
    if arguments.json {
        print_json(&stacks);
    } else {
        let mut output = output();
        let _ = write_text(&mut output, &stacks).and_then(|()| output.flush());
    }
    let complete = stacks.iter().all(|stack| stack.stopped.is_none());
    if complete { Outcome::Fine } else { Outcome::Findings }
}

/// Unwinds one thread.
pub fn unwind(process: &Process, thread: &Thread, demangled: bool) -> Stack {
    let abi = process.abi;
    let register = |number: u32| thread.registers.get(number as usize).copied().flatten();
    let start = Registers::new(
        register(abi.stack_pointer()).unwrap_or(0),
        register(abi.frame_pointer()).unwrap_or(0),
        register(abi.return_address()).filter(|_| abi != Abi::Amd64),
    )
    .with_others(&thread.registers);
    let mut cache = RuleCache::<512>::new();
    let read = |address| process.memory.word(abi.endian(), address).ok_or(());
    let (mut frames, mut stopped) = (Vec::new(), None);
    for frame in process.modules.unwinder().iter_frames(thread.pc, start, &mut cache, read).take(DEEPEST) {
        match frame {
            Ok(StackFrame { address, source }) => frames.push(FrameReport {
                address: hexadecimal(address.address()),
                source: source.name(),
                kind: match address {
                    FrameAddress::InstructionPointer(_) => "instruction-pointer",
                    FrameAddress::ReturnAddress(_) => "return-address",
                },
                place: process.modules.describe(address.address(), address.lookup_address(), demangled),
            }),
            Err(error) => stopped = Some(reason(abi, error)),
        }
    }
    if frames.len() == DEEPEST {
        stopped = Some(format!("more than {DEEPEST} frames"));
    }
    Stack { thread: thread.name.clone(), frames, stopped }
}

fn reason(abi: Abi, error: UnwindError) -> String {
    match error {
        UnwindError::Register { register } => {
            let name = registers::register(abi, register);
            format!("register {name} is needed, but its value is unknown here")
        }
        error => error.to_string(),
    }
}

fn write_text(output: &mut dyn Write, stacks: &[Stack]) -> io::Result<()> {
    for stack in stacks {
        writeln!(output, "{}:", stack.thread)?;
        for (number, frame) in stack.frames.iter().enumerate() {
            writeln!(output, "  #{number:<3} {:>18} {}", frame.address, frame.place)?;
        }
        if let Some(reason) = &stack.stopped {
            writeln!(output, "  stopped: {reason}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
