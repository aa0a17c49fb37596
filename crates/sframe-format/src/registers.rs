//! The registers that unwinding follows from frame to frame.

use core::hint::select_unpredictable;

use crate::abi::{Abi, Register};

/// Number of registers that [`Registers`] has room for besides the stack and frame pointers, by DWARF number.
const OTHERS: usize = 32;

/// The registers that unwinding follows.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer (rbp, x29, r11).
    pub fp: u64,
    /// Link register (x30, r14). It is known in a frame that has called no other function. x86-64 has none.
    pub link: Option<u64>,
    /// AArch64: number of bits in a code address. The bits above are stripped from signed return addresses.
    pub address_bits: u8,
    /// A bit for each DWARF number whose value in `others` is known. Flexible rules may need them in a frame
    /// that has called no other function: the first frame, or one that a signal interrupted.
    known: u32,
    others: [u64; OTHERS],
}

impl PartialEq for Registers {
    fn eq(&self, other: &Self) -> bool {
        let all = |registers: &Self| {
            (registers.sp, registers.fp, registers.link, registers.address_bits, registers.known)
        };
        all(self) == all(other) && (0..OTHERS as u32).all(|number| self.other(number) == other.other(number))
    }
}

impl Eq for Registers {}

impl Registers {
    /// Registers of the topmost frame, 48-bit code addresses.
    #[inline]
    pub fn new(sp: u64, fp: u64, link: Option<u64>) -> Self {
        Self { sp, fp, link, address_bits: 48, known: 0, others: [0; OTHERS] }
    }

    /// The same with further registers, by DWARF number. Numbers from 32 on are ignored.
    #[must_use]
    pub fn with_others(mut self, others: &[Option<u64>]) -> Self {
        for (number, value) in others.iter().enumerate().take(OTHERS) {
            if let Some(value) = value {
                self.known |= 1 << number;
                self.others[number] = *value;
            }
        }
        self
    }

    /// Sets the register with this DWARF number. A number of 32 or more is ignored, unless it is that of the
    /// return address.
    #[inline]
    pub fn set(&mut self, abi: Abi, register: Register, value: u64) {
        if register == abi.stack_pointer() {
            self.sp = value;
        } else if register == abi.frame_pointer() {
            self.fp = value;
        } else if register == abi.return_address() {
            self.link = Some(value);
        } else if let Some(other) = self.others.get_mut(register as usize) {
            *other = value;
            self.known |= 1 << register;
        }
    }

    /// The value of the register with this DWARF number. `None`: it is unknown in this frame.
    #[inline]
    pub fn get(&self, abi: Abi, register: Register) -> Option<u64> {
        // No processor can predict which of the two registers it is.
        if register == abi.stack_pointer() || register == abi.frame_pointer() {
            return Some(select_unpredictable(register == abi.stack_pointer(), self.sp, self.fp));
        }
        match register {
            number if number == abi.return_address() && self.link.is_some() => self.link,
            number => self.other(number),
        }
    }

    /// Enters the frame of a caller, in which only stack and frame pointer are known.
    #[inline]
    pub(crate) fn enter_caller(&mut self, sp: u64, fp: u64) {
        (self.sp, self.fp, self.link, self.known) = (sp, fp, None, 0);
    }

    #[inline]
    fn other(&self, register: Register) -> Option<u64> {
        let known = register < OTHERS as u32 && self.known >> register & 1 != 0;
        self.others.get(register as usize).copied().filter(|_| known)
    }

    /// A return address without its authentication bits. Bit 55 tells user addresses from kernel addresses.
    #[inline]
    pub(crate) fn strip(&self, address: u64) -> u64 {
        let mask = u64::MAX.checked_shl(self.address_bits.into()).unwrap_or(0);
        if address >> 55 & 1 == 0 { address & !mask } else { address | mask }
    }
}
