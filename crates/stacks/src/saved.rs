//! Registers that rows do not follow.
//!
//! A few frames count from a register that is neither stack nor frame pointer: the dynamic linker's code for late binding
//! aligns its stack and keeps the old one in `rbx`. Its value there is what the frames within have left in it, so these are
//! walked a second time, and `.eh_frame` says of each where it saved the register.

use crate::files::Files;
use crate::process::{Place, Process};
use sframe_format::abi::Register;
use sframe_format::{Base, FrameAddress, Location, RegisterRule, Registers, RuleCache, UnwindError};

/// The value of a register in the frame that `steps` steps lead to, from the instruction at `pc` with `registers`.
#[cold]
pub fn register_after<const SLOTS: usize>(
    (process, files): (&Process, &Files),
    cache: &mut RuleCache<SLOTS>,
    (pc, mut registers): (u64, Registers),
    steps: usize,
    register: Register,
    read: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Option<u64> {
    let abi = process.unwinder().abi();
    let mut at = FrameAddress::InstructionPointer(pc);
    let mut value = registers.get(abi, register);
    for _ in 0..steps {
        let mut step = process.unwinder().unwind_frame(at, &mut registers, cache, read);
        // One of the frames within may count from the register, too.
        if matches!(step, Err(UnwindError::Register { register: needed }) if needed == register) {
            registers.set(abi, register, value?);
            step = process.unwinder().unwind_frame(at, &mut registers, cache, read);
        }
        let caller = step.ok()??;
        // At a signal frame the kernel saved them all.
        value = match registers.get(abi, register) {
            Some(known) => Some(known),
            None => {
                let Place::File(file, own) = process.place(at.lookup_address()) else { return None };
                match files.get(file)?.register_at(own, register)? {
                    RegisterRule::Unchanged => value,
                    RegisterRule::Saved(Location { base: Base::Cfa, offset, dereference: true }) => {
                        let cfa = registers.sp.wrapping_add_signed(abi.cfa_bias());
                        read(cfa.wrapping_add_signed(offset.into())).ok()
                    }
                    RegisterRule::Saved(_) => None,
                }
            }
        };
        at = caller.address;
    }
    value
}
