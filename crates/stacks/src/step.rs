//! Steps from a frame to its caller: by rows, or else by call frame information that has no form as rows, or
//! that a program has written of code that it made.

use crate::files::Files;
use crate::process::{Place, Process};
use sframe_format::{FrameAddress, Registers, RuleCache, Source, StackFrame, UnwindError};

/// Number of slots in the cache, which serves many processes.
pub const SLOTS: usize = 4096;

/// Steps to the caller by rows, or else by other call frame information.
#[inline]
pub fn step<F: FnMut(u64) -> Result<u64, ()>>(
    process: &Process,
    files: &Files,
    at: FrameAddress,
    registers: &mut Registers,
    cache: &mut RuleCache<SLOTS>,
    read: &mut F,
) -> Result<Option<StackFrame>, UnwindError> {
    match process.unwinder().unwind_frame(at, registers, cache, read) {
        Err(error @ UnwindError::NoInformation { .. }) => {
            step_by_cfi(process, files, at, registers, read).unwrap_or(Err(error))
        }
        step => step,
    }
}

#[cold]
fn step_by_cfi<F: FnMut(u64) -> Result<u64, ()>>(
    process: &Process,
    files: &Files,
    at: FrameAddress,
    registers: &mut Registers,
    read: &mut F,
) -> Option<Result<Option<StackFrame>, UnwindError>> {
    let topmost = matches!(at, FrameAddress::InstructionPointer(_));
    let (step, source) = match process.place(at.lookup_address()) {
        Place::File(file, own) => (files.get(file)?.step_at(own, topmost, registers, read)?, Source::EhFrame),
        Place::Anonymous(pid, address) => {
            let dumped = files.jit_dump(pid);
            match dumped.and_then(|dump| dump.step_at(address, topmost, registers, read)) {
                Some(step) => (step, Source::EhFrame),
                None => {
                    let modules = process.unwinder().modules();
                    let object = files.jit_object(pid, modules, address)?;
                    object.step_at(address, topmost, registers, read)?
                }
            }
        }
        _ => return None,
    };
    if matches!(step, Err(UnwindError::NoInformation { .. })) {
        return None;
    }
    Some(step.map(|caller| caller.map(|address| StackFrame { address, source })))
}
