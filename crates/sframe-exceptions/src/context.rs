//! The registers of a frame, and the way to its caller.
//!
//! A context holds the values of registers, not the addresses where they are saved: a step loads the few that
//! a function saved, and whoever enters a landing pad loads all of them. Caller-saved registers of a frame
//! that called are not known, and hold what they held further in.

use core::ptr::read_unaligned;

use crate::expression;
#[cfg(target_arch = "x86_64")]
use crate::registers::SHADOW_STACK;
use crate::registers::{ABI, PROGRAM_COUNTER, Registers, STACK_POINTER};
use crate::row::{Cfa, How, Load, Row, Rule, flags};

const BIAS: u64 = ABI.cfa_bias() as u64;

/// Marks contexts of this unwinder: libgcc's begin with the address of a register, and no address has this
/// value. To compare its odd half is enough, and takes less time.
const MAGIC: u64 = 0x8000_6d72_6677_7501;

/// Steps to callers that are not further up the stack. Stacks may be switched, but a damaged table or a
/// damaged stack must not send the unwinder in circles.
const MOST_STEPS_BACK: u32 = 4096;

/// What personality routines and callbacks see as `struct _Unwind_Context`.
#[repr(C)]
#[derive(Clone)]
pub struct Context {
    magic: u64,
    /// The registers, as they were in the frame.
    pub registers: Registers,
    /// The CFA of the frame's callee, which is the frame's stack pointer on most machines.
    pub cfa: u64,
    /// Whether the frame was interrupted, so that the program counter is at the next instruction and not
    /// behind a call.
    pub interrupted: bool,
    /// Address of its function, once its row was found; 0 if there is none, and something else before.
    pub function: u64,
    /// Address of its language-specific data, or 0, with the function.
    pub data: u64,
    steps_back: u32,
}

impl Context {
    /// The frame that had these registers when it called.
    pub fn new(registers: &Registers) -> Self {
        Self {
            magic: MAGIC,
            registers: *registers,
            cfa: registers[STACK_POINTER].wrapping_add(BIAS),
            interrupted: false,
            function: 0,
            data: 0,
            steps_back: 0,
        }
    }

    /// The same where the registers already are, which assembly just wrote: to read them in larger pieces
    /// than they were written takes as long as a whole step.
    ///
    /// # Safety
    /// `at` can be written, and has the registers.
    pub unsafe fn begin<'context>(at: *mut Self) -> &'context mut Self {
        // SAFETY: as the caller says; all fields are written, or were.
        unsafe {
            (&raw mut (*at).magic).write(MAGIC);
            (&raw mut (*at).cfa).write((*at).registers[STACK_POINTER].wrapping_add(BIAS));
            (&raw mut (*at).interrupted).write(false);
            (&raw mut (*at).function).write(0);
            (&raw mut (*at).data).write(0);
            (&raw mut (*at).steps_back).write(0);
            &mut *at
        }
    }

    /// Whether a context is one of this unwinder.
    ///
    /// # Safety
    /// It is a context of some unwinder.
    pub unsafe fn is_own(context: *const Self) -> bool {
        let low_half = usize::from(cfg!(target_endian = "big"));
        // SAFETY: as the caller says; contexts of all unwinders are larger than a word.
        unsafe { context.cast::<u32>().add(low_half).read() == MAGIC as u32 }
    }

    /// The address whose row describes the frame.
    pub fn address(&self) -> u64 {
        self.registers[PROGRAM_COUNTER].wrapping_sub(u64::from(!self.interrupted))
    }

    /// What tells a frame from all others, in `private_2` of exceptions. libgcc computes the same.
    pub fn identity(&self) -> u64 {
        self.cfa.wrapping_sub(self.interrupted.into())
    }

    /// Goes to the caller. `None`: there is none, which address 0 then says, or the way goes in circles.
    ///
    /// # Safety
    /// The row describes the frame, and the stack is that of a thread.
    #[inline]
    pub unsafe fn step(&mut self, row: &Row, signed: impl Fn(u64, u64, bool) -> u64) -> Option<()> {
        let (place, offset) = row.head().near_cfa();
        let went = match self.registers.get(place) {
            // SAFETY: as the caller says.
            _ if row.has(flags::OUTERMOST | flags::FAR) => unsafe { self.step_far(row, signed) },
            // SAFETY: as the caller says.
            Some(register) => unsafe { self.step_near(row, register.wrapping_add_signed(offset), signed) },
            None => None,
        };
        if went.is_none() {
            (self.function, self.data) = (0, 0);
        }
        went
    }

    /// A step whose CFA is known, by a row that only loads.
    ///
    /// # Safety
    /// As [`Context::step`] says.
    #[inline(always)]
    unsafe fn step_near(
        &mut self,
        row: &Row,
        cfa: u64,
        signed: impl Fn(u64, u64, bool) -> u64,
    ) -> Option<()> {
        // SAFETY: loads only have places of registers; as the caller says, the row names places on the stack.
        let mut take = |load: Load| unsafe {
            let value = read_unaligned(cfa.wrapping_add_signed(load.offset()) as *const u64);
            *self.registers.get_unchecked_mut(load.place()) = value;
        };
        for pair in row.pairs() {
            let [first, second] = pair.loads();
            take(first);
            take(second);
        }
        // Only code that was interrupted can still have its return address in a register.
        if !row.has(flags::HAS_RETURN_ADDRESS) && !self.interrupted {
            return None;
        }
        if !row.has(flags::HAS_STACK_POINTER) {
            self.registers[STACK_POINTER] = cfa.wrapping_sub(BIAS);
        }
        let mut target = *self.registers.get(row.head().return_address())?;
        if row.has(flags::SIGNED) {
            target = signed(target, cfa, row.has(flags::KEY_B));
        }
        // Behind a signal frame this need not be the CFA of the row.
        let cfa = self.registers[STACK_POINTER].wrapping_add(BIAS);
        if cfa <= self.cfa {
            self.steps_back += 1;
        }
        self.registers[PROGRAM_COUNTER] = target;
        // A frame has a return address there, and a signal frame a word that the kernel knows it by.
        #[cfg(target_arch = "x86_64")]
        {
            let shadow_stack = &mut self.registers[SHADOW_STACK];
            *shadow_stack = shadow_stack.wrapping_add(8);
        }
        (self.cfa, self.interrupted) = (cfa, row.has(flags::SIGNAL));
        (target != 0 && self.steps_back < MOST_STEPS_BACK).then_some(())
    }

    /// A step for which the head and the loads are not enough, or that there is none to.
    ///
    /// # Safety
    /// As [`Context::step`] says.
    #[cold]
    #[inline(never)]
    unsafe fn step_far(&mut self, row: &Row, signed: impl Fn(u64, u64, bool) -> u64) -> Option<()> {
        if row.has(flags::OUTERMOST) {
            self.registers[PROGRAM_COUNTER] = 0;
            return None;
        }
        let cfa = match row.cfa() {
            Cfa::Register { place, offset } => {
                self.registers.get(usize::from(place))?.wrapping_add_signed(offset)
            }
            // SAFETY: as the caller says.
            Cfa::Expression(block) => unsafe { expression::evaluate(block, None, &self.registers) }?,
        };
        // SAFETY: as the caller says.
        unsafe {
            self.step_others(row, cfa)?;
            self.step_near(row, cfa, signed)
        }
    }

    /// The part of a step that needs more than loads.
    ///
    /// # Safety
    /// As [`Context::step`] says.
    unsafe fn step_others(&mut self, row: &Row, cfa: u64) -> Option<()> {
        let before = self.registers;
        for rule in row.others() {
            // SAFETY: as the caller says.
            let value = unsafe { other_value(row, rule, cfa, &before) }?;
            *self.registers.get_mut(usize::from(rule.place))? = value;
        }
        Some(())
    }
}

/// What a rule says that does not only load.
///
/// # Safety
/// As [`Context::step`] says; `before` are the registers of the frame.
unsafe fn other_value(row: &Row, rule: &Rule, cfa: u64, before: &Registers) -> Option<u64> {
    let at_cfa = cfa.wrapping_add_signed(rule.value.into());
    // SAFETY: as the caller says.
    unsafe {
        Some(match rule.how {
            How::AtCfa => read_unaligned(at_cfa as *const u64),
            How::CfaPlus => at_cfa,
            How::In => *before.get(usize::try_from(rule.value).ok()?)?,
            How::AtExpression => {
                read_unaligned(expression::evaluate(row.block(rule), Some(cfa), before)? as *const u64)
            }
            How::IsExpression => expression::evaluate(row.block(rule), Some(cfa), before)?,
        })
    }
}
