//! The interface of the `framehop` crate (feature `framehop`): code that is generic over `framehop::Unwinder`
//! accepts an [`Unwinder`] of this crate.
//!
//! framehop's iterator takes every address except the first for a return address. So after a signal frame, it
//! looks up the byte before the interrupted instruction. Its errors are a closed list: code without rows
//! gives `DidNotAdvance`, unless the unwinder follows frame pointers ([`Unwinder::follow_frame_pointers`]),
//! as framehop itself always does.

use core::ops::Deref;

use ::framehop::{Error, FrameAddress as Address};

use crate::cache::RuleCache;
use crate::unwind::{FrameAddress, Registers, UnwindError};
use crate::unwinder::{Module, Unwinder};

impl<D: Deref<Target = [u8]>> ::framehop::Unwinder for Unwinder<D> {
    type UnwindRegs = Registers;
    type Cache = RuleCache;
    type Module = Module<D>;

    fn add_module(&mut self, module: Module<D>) {
        self.add_module(module);
    }

    fn remove_module(&mut self, start: u64) {
        self.remove_module(start);
    }

    fn max_known_code_address(&self) -> u64 {
        self.modules().last().map_or(0, |module| module.range().end)
    }

    fn unwind_frame<F>(
        &self,
        address: Address,
        registers: &mut Registers,
        cache: &mut RuleCache,
        read_stack: &mut F,
    ) -> Result<Option<u64>, Error>
    where
        F: FnMut(u64) -> Result<u64, ()>,
    {
        let address = match address {
            Address::InstructionPointer(pc) => FrameAddress::InstructionPointer(pc),
            Address::ReturnAddress(address) => FrameAddress::ReturnAddress(address.get()),
        };
        match self.unwind_frame(address, registers, cache, read_stack) {
            Ok(caller) => Ok(caller.map(|frame| frame.address.address())),
            Err(UnwindError::Memory { address }) => Err(Error::CouldNotReadStack(address)),
            Err(UnwindError::NoProgress { .. }) => Err(Error::FramepointerUnwindingMovedBackwards),
            Err(_) => Err(Error::DidNotAdvance),
        }
    }
}
