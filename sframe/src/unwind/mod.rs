//! `sframe unwind`: stacks of a process that is no longer there, from a core file or from saved
//! registers and memory.
//!
//! | module | contents |
//! |---|---|
//! | `core` | threads, memory and mapped files of a core file |
//! | `saved` | registers and memory that something saved in plain files |
//! | `mapped` | which mapped files of a core file are loaded where |
//! | `memory` | the memory of both |
//! | `modules` | files at the addresses they were loaded at |
//! | `process` | all of that together |
//! | `words` | the words of a core file's notes |

pub mod core;
mod mapped;
mod memory;
mod modules;
mod process;
mod saved;
mod words;

use super::args::Unwind;
use super::registers;
use super::report::{Outcome, complain, hexadecimal, print_json_array, write};
use diagnostics::words::shown;
use process::{Process, Thread};
use serde::Serialize;
use sframe_format::{Abi, FrameAddress, Registers, RuleCache, StackFrame, UnwindError};
use std::io::{self, Write};

/// Most frames of one stack; a walk in circles ends here.
const MAX_DEPTH: usize = 100_000;

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
    let mut complete = true;
    let mut room = process.frames_at_most();
    // Each stack is printed before the next is walked.
    let stacks = process.threads.iter().map(|thread| {
        let stack = unwind(&process, thread, arguments.demangle, &mut room);
        complete &= stack.stopped.is_none();
        stack
    });
    let printed =
        if arguments.json { print_json_array(stacks) } else { write(|output| write_text(output, stacks)) };
    let outcome = if complete { Outcome::Fine } else { Outcome::Findings };
    outcome.max(Outcome::of(printed))
}

/// Unwinds one thread. `room` is the number of frames that may still be made; it is decreased.
pub fn unwind(process: &Process, thread: &Thread, demangled: bool, room: &mut usize) -> Stack {
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
    for frame in process.modules.unwinder().iter_frames(thread.pc, start, &mut cache, read) {
        if frames.len() == MAX_DEPTH.min(*room) {
            stopped = Some(match frames.len() {
                MAX_DEPTH => {
                    format!("more than {MAX_DEPTH} frames: the stack is that deep, or goes in circles")
                }
                _ => format!(
                    "all threads together have more frames than the saved memory can hold ({} at most): stacks go in circles, \
                     or what was saved is damaged",
                    process.frames_at_most()
                ),
            });
            break;
        }
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
    *room -= frames.len();
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

fn write_text(output: &mut dyn Write, stacks: impl Iterator<Item = Stack>) -> io::Result<()> {
    for stack in stacks {
        writeln!(output, "{}:", shown(&stack.thread))?;
        for (number, frame) in stack.frames.iter().enumerate() {
            writeln!(output, "  #{number:<3} {:>18} {}", frame.address, shown(&frame.place))?;
        }
        if let Some(reason) = &stack.stopped {
            writeln!(output, "  stopped: {}", shown(reason))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
