//! The C interface, which `include/sframe-unwind.h` declares and describes.

use crate::local::{End, Frame, Local, NATIVE};
use crate::made;
pub use crate::made::Code;
use sframe_format::{
    Abi, FileRows, FrameAddress, Module, ModuleId, Registers, RuleCache, Source, UnwindError, Unwinder,
};
use std::ffi::{c_char, c_int, c_void};

static LOCAL: Local = Local::new();

/// `sframe_frame` in C.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CFrame {
    address: u64,
    sp: u64,
    source: c_int,
}

/// The number in `enum sframe_source`.
fn source_number(source: Option<Source>) -> c_int {
    match source {
        None | Some(Source::Topmost) => 0,
        Some(Source::Sframe) => 1,
        Some(Source::EhFrame) => 2,
        Some(Source::SignalContext) => 3,
        Some(Source::FramePointer) => 4,
        Some(Source::Instructions) => 5,
    }
}

/// The number in `enum sframe_end` for an error.
fn error_number(error: UnwindError) -> c_int {
    match error {
        UnwindError::NoInformation { .. } => 3,
        UnwindError::Memory { .. } => 4,
        UnwindError::Register { .. } => 5,
        UnwindError::NoProgress { .. } => 6,
        _ => 7,
    }
}

fn end_number(end: End) -> c_int {
    match end {
        End::Root => 1,
        End::Full => 2,
        End::Stopped(error) => error_number(error),
        End::Busy => 8,
    }
}

/// The text for a number of `enum sframe_end`; see the header.
#[unsafe(no_mangle)]
pub extern "C" fn sframe_end_text(end: c_int) -> *const c_char {
    let text = match end {
        0 => c"the caller was found",
        1 => c"the outermost frame was reached",
        2 => c"there is no room for more frames",
        3 => c"no rows cover the code",
        4 => c"memory could not be read",
        5 => c"the value of a register is needed and not known",
        6 => c"the caller's frame would not lie above",
        7 => c"the rows are malformed",
        8 => c"sframe_refresh has not run, or too many threads walk at this time",
        _ => c"no such end",
    };
    text.as_ptr()
}

/// Reads the loaded files; see the header.
#[unsafe(no_mangle)]
pub extern "C" fn sframe_refresh() {
    LOCAL.refresh();
}

/// Tells of code that was made; see the header.
///
/// # Safety
/// `code` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_jit_register(code: *const Code) -> c_int {
    // SAFETY: as the caller says.
    if made::register(unsafe { *code }) { 0 } else { -1 }
}

/// Tells that code is gone; see the header.
#[unsafe(no_mangle)]
pub extern "C" fn sframe_jit_unregister(sframe_start: u64) -> c_int {
    if made::unregister(sframe_start) { 0 } else { -1 }
}

/// The frames of this thread; see the header.
///
/// # Safety
/// `frames` has room for `capacity` frames, `end` is null or writable, and `context` is null or the argument
/// that a signal handler got.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn sframe_backtrace(
    context: *const c_void,
    frames: *mut CFrame,
    capacity: usize,
    end: *mut c_int,
) -> usize {
    // The frames are on the stack, because a signal handler must not allocate. So their number is limited.
    let mut found = [Frame::default(); MOST];
    let room = capacity.min(MOST);
    let (count, ended) = if context.is_null() {
        // The frame of this function comes first, and is left out.
        let (count, ended) = LOCAL.walk_from_here(&mut found[..(room + 1).min(MOST)]);
        found.rotate_left(1);
        (count.saturating_sub(1).min(room), ended)
    } else {
        // SAFETY: as the caller says.
        unsafe { LOCAL.walk(context.cast(), &mut found[..room]) }
    };
    for (place, frame) in found.iter().take(count).enumerate() {
        let source = source_number(frame.source);
        // SAFETY: `count` is at most the capacity.
        unsafe { frames.add(place).write(CFrame { address: frame.address, sp: frame.sp, source }) };
    }
    // SAFETY: as the caller says.
    if let Some(end) = unsafe { end.as_mut() } {
        *end = end_number(ended);
    }
    count
}

/// The most frames that one call returns.
const MOST: usize = 256;

/// `sframe_unwinder` in C: unwinds another process, or a saved stack.
pub struct CUnwinder {
    unwinder: Unwinder<Vec<u8>>,
    cache: RuleCache<512>,
    registers: Registers,
    at: FrameAddress,
}

/// `sframe_read` in C: reads the word at an address; returns 0 if it could.
type Read = unsafe extern "C" fn(address: u64, word: *mut u64, data: *mut c_void) -> c_int;

/// Creates an unwinder; see the header.
#[unsafe(no_mangle)]
pub extern "C" fn sframe_unwinder_new(machine: c_int) -> *mut CUnwinder {
    let abi = match machine {
        0 => Some(NATIVE),
        number => u8::try_from(number).ok().and_then(Abi::from_byte),
    };
    let Some(abi) = abi else { return std::ptr::null_mut() };
    Box::into_raw(Box::new(CUnwinder {
        unwinder: Unwinder::new(abi),
        cache: RuleCache::new(),
        registers: Registers::new(0, 0, None),
        at: FrameAddress::InstructionPointer(0),
    }))
}

/// Frees an unwinder; see the header.
///
/// # Safety
/// It is null, or [`sframe_unwinder_new`] returned it and it was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_unwinder_free(unwinder: *mut CUnwinder) {
    if !unwinder.is_null() {
        // SAFETY: as the caller says.
        drop(unsafe { Box::from_raw(unwinder) });
    }
}

/// `sframe_section` in C.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Section {
    bytes: *const u8,
    size: usize,
    address: u64,
}

impl Section {
    /// A copy of the bytes, and the address.
    unsafe fn copy(section: *const Self) -> Option<(Vec<u8>, u64)> {
        // SAFETY: the caller in C promises that the pointer is null or valid.
        let section = unsafe { section.as_ref() }?;
        // SAFETY: as above.
        let bytes = unsafe { elements(section.bytes, section.size) };
        Some((bytes.to_vec(), section.address))
    }
}

/// The elements at a place. If there are none, the place may be null: C programs may pass that, but a Rust
/// slice must not be null.
///
/// # Safety
/// There are `count` elements, and nothing changes them during `'e`.
unsafe fn elements<'e, T>(start: *const T, count: usize) -> &'e [T] {
    if start.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { std::slice::from_raw_parts(start, count) }
}

/// Adds a file; see the header.
///
/// # Safety
/// The unwinder is valid, and each section is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_unwinder_add(
    unwinder: *mut CUnwinder,
    id: u64,
    start: u64,
    end: u64,
    bias: u64,
    sframe: *const Section,
    eh_frame: *const Section,
) -> c_int {
    // SAFETY: as the caller says.
    let (unwinder, own, eh_frame) =
        unsafe { (&mut *unwinder, Section::copy(sframe), Section::copy(eh_frame)) };
    let mut rows = own.map_or_else(FileRows::default, |(data, address)| FileRows::new(data, address));
    let mut status = 0;
    if let Some((data, address)) = eh_frame {
        let options = sframe_format::write::Options::new(unwinder.unwinder.abi());
        match sframe_format::derive::derive(options, &data, address, 0) {
            Ok(derived) => rows = rows.with_derived(derived.bytes, 0),
            Err(_) => status = -1,
        }
    }
    unwinder.unwinder.add_module(Module::new(ModuleId(id), start..end, bias, rows.tabled()));
    status
}

/// Removes a file; see the header.
///
/// # Safety
/// The unwinder is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_unwinder_remove(unwinder: *mut CUnwinder, start: u64) {
    // SAFETY: as the caller says.
    unsafe { &mut *unwinder }.unwinder.remove_module(start);
}

/// Sets the topmost frame; see the header.
///
/// # Safety
/// The unwinder is valid; `values` and `known` have `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_unwinder_begin(
    unwinder: *mut CUnwinder,
    pc: u64,
    values: *const u64,
    known: *const u8,
    count: usize,
) {
    // SAFETY: as the caller says.
    let (unwinder, values, known) =
        unsafe { (&mut *unwinder, elements(values, count), elements(known, count)) };
    let abi = unwinder.unwinder.abi();
    unwinder.registers = Registers::new(0, 0, None);
    for (number, (&value, &known)) in (0..).zip(values.iter().zip(known)) {
        if known != 0 {
            unwinder.registers.set(abi, number, value);
        }
    }
    unwinder.at = FrameAddress::InstructionPointer(pc);
}

/// Goes to the caller; see the header.
///
/// # Safety
/// The unwinder is valid, `frame` is writable, and `read` may be called with `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_unwinder_step(
    unwinder: *mut CUnwinder,
    read: Read,
    data: *mut c_void,
    frame: *mut CFrame,
) -> c_int {
    // SAFETY: as the caller says.
    let CUnwinder { unwinder, cache, registers, at } = unsafe { &mut *unwinder };
    let mut read = |address| {
        let mut word = 0;
        // SAFETY: as the caller says.
        if unsafe { read(address, &raw mut word, data) } == 0 { Ok(word) } else { Err(()) }
    };
    match unwinder.unwind_frame(*at, registers, cache, &mut read) {
        Ok(Some(caller)) => {
            *at = caller.address;
            let source = source_number(Some(caller.source));
            // SAFETY: as the caller says.
            unsafe { frame.write(CFrame { address: caller.address.address(), sp: registers.sp, source }) };
            0
        }
        Ok(None) => 1,
        Err(error) => error_number(error),
    }
}
