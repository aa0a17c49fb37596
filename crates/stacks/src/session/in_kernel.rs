//! Stacks that the program in the kernel has unwound.

use super::{CONTEXT_LEAST, Session, Stack, Waiting, note};
use crate::files::{FileId, Files};
use crate::made_code::has_no_frame_pointer;
use crate::process::{Last, Place, Process};
use crate::statistics::End;
use crate::walk::{Frame, end_of_stack, ends_after_scheduling, is_plausible, switched};
use sframe_format::{FrameAddress, Source};
use std::ops::Range;

/// What memory held of which the program in the kernel did not know yet that it holds something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Former {
    /// The memory.
    pub range: Range<u64>,
    /// The file that the program knew there, and how far its addresses were raised. `None`: any.
    pub file: Option<(FileId, u64)>,
}

/// Whether code that a process made is left in another way than by a frame pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Described {
    /// It is: by call frame information or rows of the process, or by what follows a call.
    Yes,
    /// The stack ended at its innermost instruction, and those behind that know of no frame pointer. But an
    /// instruction that runs may be anywhere: in a regular expression, for instance, that calls parts of
    /// itself, though the function around them keeps a frame pointer. Only many such stacks tell.
    Perhaps,
    /// The stack has met no such code.
    No,
}

impl Session {
    /// Handles a stack that was unwound in the kernel. Of the memory at `stale`, the program there still knew
    /// the file before, so a frame in it has a caller only if the rules of both files are the same. Says
    /// whether the process describes code that it made, which the program left by a frame pointer: such a
    /// frame has no caller either.
    pub fn unwound(
        &mut self,
        sample: &sframe_bpf::Sample<'_>,
        stale: &[Former],
        take: &mut dyn FnMut(&Stack<'_>),
    ) -> Described {
        self.frames.clear();
        // The first word is a mark, as in a recorded call chain.
        let kernel = sample.kernel_frames().filter(|&address| address < CONTEXT_LEAST);
        for (place, address) in kernel.enumerate() {
            // As in call chains, only the first address is the instruction itself.
            note(&mut self.frames, self.processes.get(sample.pid), address, true, place == 0);
        }
        self.statistics.kernel_frames += self.frames.len() as u64;
        self.statistics.in_kernel += 1;
        let (process, mut last) = (self.processes.get(sample.pid), Last::default());
        let (mut source, mut guessed, mut is_wrong) = (Source::Topmost, false, false);
        let mut described = Described::No;
        let mut frames = sample.user_frames().peekable();
        while let Some((address, returns)) = frames.next() {
            // The program in the kernel looks for the call only behind code that a process made.
            guessed |= matches!(source, Source::Instructions | Source::FramePointer);
            is_wrong = guessed
                && returns
                && !is_plausible(process, &self.files, FrameAddress::ReturnAddress(address));
            // What the program in the kernel says of a goroutine may hold of another one by now.
            let is_last = returns && ends_after_scheduling(&self.files, &self.frames);
            if is_wrong || is_last {
                break;
            }
            let inside = address.wrapping_sub(returns.into());
            let place = process.place_after(&mut last, inside);
            self.frames.push(Frame { address, place, returns, source: Some(source) });
            is_wrong = !stale.is_empty() && !agree(&self.files, stale, place, inside);
            if is_wrong {
                break;
            }
            let next_returns = frames.peek().is_some_and(|(_, returns)| *returns);
            // The table of this frame's file leads to the caller.
            let table = match place {
                Place::File(file, own) => self.files.table(file).map(|table| table.source_at(own)),
                _ => None,
            };
            let maker = if table.is_none() { process.maker_at(inside, &self.files) } else { None };
            if let Some(pid) = maker
                && (next_returns || !returns)
            {
                let stops = frames.peek().is_none();
                described = describes(&self.files, process, pid, (address, returns), stops);
                is_wrong = described != Described::No;
                if is_wrong {
                    break;
                }
            }
            source = match (table, place) {
                (Some(source), _) => source,
                _ if maker.is_some() && next_returns => Source::FramePointer,
                (None, Place::File(..)) if maker.is_none() => Source::EhFrame,
                _ => Source::SignalContext,
            };
        }
        let reached = if is_wrong { sframe_bpf::End::NoRows } else { sample.end };
        let end = self.end_in_kernel(sample.pid, reached, guessed || source == Source::Instructions);
        let frames = std::mem::take(&mut self.frames);
        let sframe_bpf::Sample { pid, tid, cpu, time, period, .. } = *sample;
        let (cpu, time) = (Some(cpu), Some(time));
        let unwound = Waiting { pid, tid, event: 0, cpu, time, period, frames, in_kernel: true };
        self.frames = self.pass_on(unwound, end, take);
        described
    }

    /// Translates the end of a walk in the kernel.
    fn end_in_kernel(&mut self, pid: u32, end: sframe_bpf::End, guessed: bool) -> End {
        use sframe_bpf::End as Kernel;
        let file = match self.frames.last() {
            Some(Frame { place: Place::File(file, _), .. }) => Some(*file),
            _ => None,
        };
        match (end, file) {
            (Kernel::Root, Some(_)) => self.frames.last().map_or(End::Root, |last| {
                let address = last.address;
                let at = if last.returns {
                    FrameAddress::ReturnAddress(address)
                } else {
                    FrameAddress::InstructionPointer(address)
                };
                end_of_stack(self.processes.get(pid), &self.files, at, guessed)
            }),
            (Kernel::Root, None) => End::Root,
            (Kernel::TooDeep | Kernel::RingFull, _) => End::TooDeep,
            (Kernel::NoTable | Kernel::NoRows, Some(file)) => match self.frames.last() {
                Some(&Frame { address, place: Place::File(_, own), returns: true, .. }) => {
                    let at = FrameAddress::ReturnAddress(address);
                    switched(&self.files, (file, own), at).unwrap_or(End::NoRows(file))
                }
                _ => End::NoRows(file),
            },
            (Kernel::Malformed, Some(file)) => End::Malformed(file),
            (Kernel::Memory, _) => End::Memory,
            (Kernel::Register, _) => End::Register,
            (Kernel::NoProgress, _) => End::NoProgress,
            (Kernel::Narrow, _) => End::Narrow,
            _ if matches!(self.frames.last(), Some(Frame { place: Place::Anonymous(..), .. })) => End::Jit,
            _ => End::Unmapped,
        }
    }
}

/// Whether a process says how code that it made is left, at an instruction or behind the call in front of
/// one, or its instructions say that a frame pointer is not the way. At an instruction that runs, they do not
/// count if a frame pointer has led to a caller, so that the stack does not end there.
#[cold]
fn describes(
    files: &Files,
    process: &Process,
    pid: u32,
    (address, returns): (u64, bool),
    stops: bool,
) -> Described {
    let inside = address.wrapping_sub(returns.into());
    let is_listed = files.jit_dump(pid).is_some_and(|dump| dump.describes(inside))
        || files.jit_object(pid, process.unwinder().modules(), inside).is_some();
    if is_listed {
        return Described::Yes;
    }
    let abi = process.unwinder().abi();
    let rules = || files.ask_made_code(pid, |code| code.rules_at(address, returns));
    match (returns || stops) && rules().is_some_and(|rules| has_no_frame_pointer(abi, &rules, returns)) {
        true if returns => Described::Yes,
        true => Described::Perhaps,
        false => Described::No,
    }
}

/// Whether a step from an address by the rows of the file that was there before is right.
#[cold]
fn agree(files: &Files, stale: &[Former], place: Place, address: u64) -> bool {
    let rules = |file: FileId, own: u64| {
        let found = files.table(file)?.table()?.lookup(own).ok()??;
        Some(found.rules)
    };
    // If it has changed more than once, the program knew what was there first.
    let first = stale.iter().find(|former| former.range.contains(&address));
    first.is_none_or(|former| match (former.file, place) {
        (Some((file, bias)), Place::File(now, own)) => {
            let known = rules(file, address.wrapping_sub(bias));
            known.is_some() && known == rules(now, own)
        }
        _ => false,
    })
}
