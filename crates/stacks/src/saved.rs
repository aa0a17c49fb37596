//! Values of registers that rows do not track.
//!
//! In a few frames, the CFA counts from a register that is neither the stack pointer nor the frame pointer:
//! the dynamic linker's code for lazy binding aligns its stack and keeps the old stack pointer in `rbx`. The
//! functions that it calls may have saved that register and changed it. So this module walks their frames a
//! second time, and `.eh_frame` says where each frame saved the register.

use crate::files::Files;
use crate::process::{Place, Process};
use crate::step::{SLOTS, step};
use sframe_format::abi::Register;
use sframe_format::{Base, FrameAddress, Location, RegisterRule, Registers, RuleCache, UnwindError};

/// The values of such registers along one stack. The stack is walked once for each register, no matter how
/// many frames need it.
pub struct Trail<'a> {
    pc: u64,
    registers: &'a Registers,
    followed: Vec<Followed>,
}

/// A register that has been followed up to a frame.
struct Followed {
    register: Register,
    /// Its value in that frame. `None`: unknown.
    value: Option<u64>,
    /// Steps from the topmost frame.
    steps: usize,
    at: FrameAddress,
    registers: Registers,
}

impl<'a> Trail<'a> {
    /// Starts at the instruction at `pc` with `registers`.
    pub fn new(pc: u64, registers: &'a Registers) -> Self {
        Trail { pc, registers, followed: Vec::new() }
    }

    /// The value of a register in the frame that is `steps` steps from the topmost one. For one register,
    /// `steps` must not decrease from call to call.
    #[cold]
    pub fn value_after(
        &mut self,
        within: (&Process, &Files),
        cache: &mut RuleCache<SLOTS>,
        steps: usize,
        register: Register,
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<u64> {
        let known = self.followed.iter().position(|followed| followed.register == register);
        let place = known.unwrap_or_else(|| {
            let value = self.registers.get(within.0.unwinder().abi(), register);
            let at = FrameAddress::InstructionPointer(self.pc);
            self.followed.push(Followed { register, value, steps: 0, at, registers: *self.registers });
            self.followed.len() - 1
        });
        let followed = &mut self.followed[place];
        while followed.steps < steps {
            followed.step(within, cache, read)?;
        }
        followed.value
    }
}

impl Followed {
    /// Goes on to the caller. `None`: there is no caller, or the register's value there is unknown.
    fn step(
        &mut self,
        (process, files): (&Process, &Files),
        cache: &mut RuleCache<SLOTS>,
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<()> {
        let (abi, register) = (process.unwinder().abi(), self.register);
        let registers = &mut self.registers;
        let mut caller = step(process, files, self.at, registers, cache, read);
        // The CFA of this frame may count from the register, too.
        if matches!(caller, Err(UnwindError::Register { register: needed }) if needed == register) {
            registers.set(abi, register, self.value?);
            caller = step(process, files, self.at, registers, cache, read);
        }
        let caller = caller.ok()??;
        // The kernel saves all registers in a signal frame.
        self.value = match registers.get(abi, register) {
            Some(known) => Some(known),
            None => {
                let Place::File(file, own) = process.place(self.at.lookup_address()) else { return None };
                match files.get(file)?.register_at(own, register)? {
                    RegisterRule::Unchanged => self.value,
                    RegisterRule::Saved(Location { base: Base::Cfa, offset, dereference: true }) => {
                        let cfa = registers.sp.wrapping_add_signed(abi.cfa_bias());
                        read(cfa.wrapping_add_signed(offset.into())).ok()
                    }
                    RegisterRule::Saved(_) => None,
                }
            }
        };
        (self.at, self.steps) = (caller.address, self.steps + 1);
        Some(())
    }
}
