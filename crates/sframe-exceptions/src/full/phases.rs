//! Throwing, resuming, forced unwinding, walking ("Itanium C++ ABI: Exception Handling", 1.3 and 1.6).

use core::ffi::{c_int, c_void};
use core::mem::transmute;
use core::ptr::null_mut;

use super::landing::{self, authenticated, stripped};
use super::rows;
use crate::context::Context;
use crate::place::OfLibgcc;
use crate::registers::{LANDING, PROGRAM_COUNTER, STACK_POINTER};
use crate::row::{Pad, Row};
use crate::system;

/// `_Unwind_Reason_Code`.
pub type Reason = c_int;
pub const NO_REASON: Reason = 0;
pub const FATAL_PHASE_2_ERROR: Reason = 2;
pub const FATAL_PHASE_1_ERROR: Reason = 3;
pub const END_OF_STACK: Reason = 5;
pub const HANDLER_FOUND: Reason = 6;
pub const INSTALL_CONTEXT: Reason = 7;
pub const CONTINUE_UNWIND: Reason = 8;

/// `_Unwind_Action`.
const SEARCH_PHASE: c_int = 1;
const CLEANUP_PHASE: c_int = 2;
const HANDLER_FRAME: c_int = 4;
const FORCE_UNWIND: c_int = 8;
const END_OF_STACK_REACHED: c_int = 16;

/// `struct _Unwind_Exception`.
#[repr(C, align(16))]
pub struct Exception {
    class: u64,
    pub cleanup: Option<unsafe extern "C" fn(Reason, *mut Exception)>,
    /// The stop function of a forced unwinding, or 0.
    stop: usize,
    /// Its argument; or what tells the frame that handles the exception ([`Context::identity`]).
    detail: u64,
}

type Personality = unsafe extern "C" fn(c_int, c_int, u64, *mut Exception, *mut Context) -> Reason;
pub type Stop = unsafe extern "C" fn(c_int, c_int, u64, *mut Exception, *mut Context, *mut c_void) -> Reason;
pub type Trace = unsafe extern "C" fn(*mut Context, *mut c_void) -> Reason;

/// What the personality routine says of a frame, which it is only asked if that is not known.
///
/// # Safety
/// The row is that of the context's frame.
#[inline]
unsafe fn ask(row: &Row, actions: c_int, exception: *mut Exception, context: &mut Context) -> Reason {
    if row.personality == 0 {
        return CONTINUE_UNWIND;
    }
    if row.pad != Pad::ASK && actions & (HANDLER_FRAME | FORCE_UNWIND) == 0 {
        if row.pad == Pad::NONE || actions & SEARCH_PHASE != 0 {
            return CONTINUE_UNWIND;
        }
        let [of_exception, of_kind] = LANDING;
        (context.registers[of_exception], context.registers[of_kind]) = (exception as u64, 0);
        context.registers[PROGRAM_COUNTER] = row.function.wrapping_add(row.pad.word().into());
        return INSTALL_CONTEXT;
    }
    // SAFETY: tables and FDEs name routines of this type; the exception is the caller's.
    unsafe {
        let personality = transmute::<usize, Personality>(row.personality as usize);
        personality(1, actions, (*exception).class, exception, context)
    }
}

/// Looks for a handler, and then goes there. [`INSTALL_CONTEXT`]: the context is that of a landing pad.
///
/// # Safety
/// The context is that of a frame on the stack of this thread.
unsafe fn raise(exception: *mut Exception, context: &mut Context, row: &mut Row) -> Reason {
    let mut searching = context.clone();
    // SAFETY: rows lead from frame to frame.
    unsafe {
        loop {
            if !rows::find(&mut searching, row) {
                return END_OF_STACK;
            }
            match ask(row, SEARCH_PHASE, exception, &mut searching) {
                HANDLER_FOUND => break,
                CONTINUE_UNWIND => {}
                _ => return FATAL_PHASE_1_ERROR,
            }
            if searching.step(row, authenticated).is_none() {
                return END_OF_STACK;
            }
        }
        ((*exception).stop, (*exception).detail) = (0, searching.identity());
        clean_up(exception, context, row)
    }
}

/// Goes to the frame with the handler, or to a landing pad on the way.
///
/// # Safety
/// As [`raise`] says.
unsafe fn clean_up(exception: *mut Exception, context: &mut Context, row: &mut Row) -> Reason {
    // SAFETY: as the caller says.
    unsafe {
        loop {
            if !rows::find(context, row) {
                return FATAL_PHASE_2_ERROR;
            }
            let handles = context.identity() == (*exception).detail;
            let actions = CLEANUP_PHASE | if handles { HANDLER_FRAME } else { 0 };
            match ask(row, actions, exception, context) {
                INSTALL_CONTEXT => return INSTALL_CONTEXT,
                CONTINUE_UNWIND if !handles => {}
                _ => return FATAL_PHASE_2_ERROR,
            }
            if context.step(row, authenticated).is_none() {
                return FATAL_PHASE_2_ERROR;
            }
        }
    }
}

/// Lets a stop function decide at each frame.
///
/// # Safety
/// As [`raise`] says; the exception names a stop function.
#[inline(never)]
unsafe fn force(exception: *mut Exception, context: &mut Context, row: &mut Row) -> Reason {
    // SAFETY: as the caller says.
    unsafe {
        let (stop, argument) = (transmute::<usize, Stop>((*exception).stop), (*exception).detail);
        let mut is_last = false;
        loop {
            is_last = is_last || !rows::find(context, row);
            let end = if is_last { END_OF_STACK_REACHED } else { 0 };
            let actions = FORCE_UNWIND | CLEANUP_PHASE;
            let class = (*exception).class;
            if stop(1, actions | end, class, exception, context, argument as *mut c_void) != NO_REASON {
                return FATAL_PHASE_2_ERROR;
            }
            if is_last {
                return END_OF_STACK;
            }
            match ask(row, actions, exception, context) {
                INSTALL_CONTEXT => return INSTALL_CONTEXT,
                CONTINUE_UNWIND => {}
                _ => return FATAL_PHASE_2_ERROR,
            }
            is_last = context.step(row, authenticated).is_none();
        }
    }
}

/// Unwinds, and enters the landing pad. It returns the reason if there is none.
///
/// # Safety
/// The context has the registers of a frame on the stack of this thread; `how` goes from there to a landing
/// pad.
#[inline(always)]
unsafe fn unwind(context: *mut Context, how: impl FnOnce(&mut Context, &mut Row) -> Reason) -> Reason {
    // SAFETY: as the caller says.
    let context = unsafe { Context::begin(context) };
    let mut row = Row::new();
    let reason = how(context, &mut row);
    if reason != INSTALL_CONTEXT {
        return reason;
    }
    let stack_pointer = &mut context.registers[STACK_POINTER];
    *stack_pointer = stack_pointer.wrapping_add(row.args_size.into());
    debug_hook(context.cfa as *const c_void, context.registers[PROGRAM_COUNTER] as *const c_void);
    // SAFETY: as the caller says.
    unsafe { landing::load(&context.registers) }
}

/// Debuggers stop here when an exception is about to be handled.
#[unsafe(export_name = "_Unwind_DebugHook")]
#[inline(never)]
extern "C" fn debug_hook(cfa: *const c_void, handler: *const c_void) {
    let (cfa, handler) = (cfa as usize, handler as usize);
    // SAFETY: there is no instruction. The arguments are needed, so calls pass them.
    unsafe {
        core::arch::asm!("/* {} {} */", in(reg) cfa, in(reg) handler, options(nomem, nostack, preserves_flags));
    }
}

/// `_Unwind_RaiseException`, once its caller's registers are in a context.
///
/// # Safety
/// The context has the registers of the caller, which throws the exception.
pub unsafe extern "C" fn raise_exception(exception: *mut Exception, context: *mut Context) -> Reason {
    // SAFETY: as the caller says.
    unsafe { unwind(context, |context, row| raise(exception, context, row)) }
}

/// `_Unwind_Resume_or_Rethrow`.
///
/// # Safety
/// As [`raise_exception`] says.
pub unsafe extern "C" fn resume_or_rethrow(exception: *mut Exception, context: *mut Context) -> Reason {
    // SAFETY: as the caller says.
    unsafe {
        if (*exception).stop == 0 {
            return unwind(context, |context, row| raise(exception, context, row));
        }
        static OTHER: OfLibgcc = OfLibgcc::new(c"_Unwind_Resume_or_Rethrow");
        type Rethrow = unsafe extern "C" fn(*mut Exception) -> Reason;
        match OTHER.address() {
            None => unwind(context, |context, row| force(exception, context, row)),
            Some(other) => transmute::<usize, Rethrow>(other)(exception),
        }
    }
}

/// `_Unwind_Resume`.
///
/// # Safety
/// The context has the registers of a landing pad that was entered with the exception.
pub unsafe extern "C" fn resume(exception: *mut Exception, context: *mut Context) -> ! {
    // SAFETY: as the caller says.
    unsafe {
        if (*exception).stop == 0 {
            unwind(context, |context, row| clean_up(exception, context, row));
        } else {
            static OTHER: OfLibgcc = OfLibgcc::new(c"_Unwind_Resume");
            type Resume = unsafe extern "C" fn(*mut Exception) -> !;
            match OTHER.address() {
                None => _ = unwind(context, |context, row| force(exception, context, row)),
                Some(other) => transmute::<usize, Resume>(other)(exception),
            }
        }
    }
    system::abort("an exception cannot go on: a frame on its way is not known\n")
}

/// `_Unwind_ForcedUnwind`.
///
/// # Safety
/// As [`raise_exception`] says.
pub unsafe extern "C" fn forced_unwind(
    exception: *mut Exception,
    stop: Stop,
    argument: *mut c_void,
    context: *mut Context,
) -> Reason {
    static OTHER: OfLibgcc = OfLibgcc::new(c"_Unwind_ForcedUnwind");
    type Force = unsafe extern "C" fn(*mut Exception, Stop, *mut c_void) -> Reason;
    // SAFETY: as the caller says.
    unsafe {
        match OTHER.address() {
            None => {
                ((*exception).stop, (*exception).detail) = (stop as usize, argument as u64);
                unwind(context, |context, row| force(exception, context, row))
            }
            Some(other) => transmute::<usize, Force>(other)(exception, stop, argument),
        }
    }
}

/// `_Unwind_Backtrace`.
///
/// # Safety
/// The context has the registers of the caller.
pub unsafe extern "C" fn backtrace(trace: Trace, argument: *mut c_void, context: *mut Context) -> Reason {
    let mut row = Row::new();
    // SAFETY: as the caller says.
    unsafe {
        let context = Context::begin(context);
        let mut is_last = false;
        loop {
            is_last = is_last || !rows::find(context, &mut row);
            if trace(&raw mut *context, argument) != NO_REASON {
                return FATAL_PHASE_1_ERROR;
            }
            if is_last {
                return END_OF_STACK;
            }
            is_last = context.step(&row, stripped).is_none();
            // libgcc shows the end of a stack, too: a frame at address 0.
            if is_last && context.registers[PROGRAM_COUNTER] != 0 {
                return END_OF_STACK;
            }
        }
    }
}

/// The function of an address, or null.
pub fn enclosing_function(address: u64) -> *mut c_void {
    let mut registers = [0; crate::registers::REGISTERS];
    registers[PROGRAM_COUNTER] = address;
    let mut context = Context::new(&registers);
    // SAFETY: a stack pointer of 0 cannot be read, so no signal frame is looked for.
    let is_known = unsafe { rows::find(&mut context, &mut Row::new()) };
    if is_known { context.function as *mut c_void } else { null_mut() }
}
