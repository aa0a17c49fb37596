//! Names of frames; files.

use crate::samples::CFrame;
use crate::tracker::Tracker;
use crate::values::fail;
use stacks::files::{FileId, MappedFile, hexadecimal};
use stacks::process::Place;
use stacks::profile::Name;
use stacks::session::Frame;
use std::ffi::{CString, c_char, c_int, c_void};

/// Flags of [`CName`].
const KNOWN: u32 = 1;
const INLINED: u32 = 2;
const OFFSET: u32 = 4;

/// `sframe_name` in C.
#[repr(C)]
pub struct CName {
    /// The function.
    pub function: *const c_char,
    /// The file that contains it.
    pub file: *const c_char,
    /// Its source file, or null.
    pub source: *const c_char,
    /// Bytes from its start.
    pub offset: u64,
    /// The line in the source file.
    pub line: u32,
    /// `enum sframe_name_flag`.
    pub flags: u32,
}

/// Says what is at an address; see the header.
///
/// # Safety
/// The tracker is valid, and `frame` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_place(
    tracker: *mut Tracker,
    pid: u32,
    address: u64,
    returns: c_int,
    frame: *mut CFrame,
) {
    // SAFETY: as the caller says.
    let found = unsafe { &*tracker }.session.frame_at(pid, address, returns != 0);
    // SAFETY: as the caller says.
    unsafe { frame.write(CFrame::new((pid, pid), 0, &found)) };
}

/// What the frame is in Rust.
fn of_c(frame: &CFrame) -> Frame {
    let place = match frame.place {
        0 => Place::File(FileId(frame.file), frame.own),
        1 => Place::Anonymous(frame.pid, frame.own),
        3 => Place::Kernel(frame.own),
        4 => Place::NotSampled,
        _ => Place::Unmapped(frame.own),
    };
    Frame { address: frame.address, place, returns: frame.returns != 0, source: None }
}

/// A text for C, up to its first 0.
fn c_text(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

/// Names a frame; see the header.
///
/// # Safety
/// The tracker and the frame are valid, and `callback` may be called with `arg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_names(
    tracker: *mut Tracker,
    frame: *const CFrame,
    inlined: c_int,
    callback: Option<unsafe extern "C" fn(name: *const CName, arg: *mut c_void) -> c_int>,
    arg: *mut c_void,
) -> c_int {
    let Some(callback) = callback else { return fail(libc::EINVAL) };
    // SAFETY: as the caller says. The borrow ends before the first callback.
    let names = unsafe { (&mut *tracker).names(&of_c(&*frame), inlined != 0) };
    for name in &names {
        let (function, file) = (c_text(&name.function), c_text(&name.file));
        let source = name.place.as_ref().map(|(source, _)| c_text(source));
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        let said = CName {
            function: function.as_ptr(),
            file: file.as_ptr(),
            source: source.as_ref().map_or(std::ptr::null(), |source| source.as_ptr()),
            offset: name.offset.unwrap_or(0),
            line: name.place.as_ref().map_or(0, |(_, line)| *line),
            flags: flag(name.known, KNOWN)
                | flag(name.inlined, INLINED)
                | flag(name.offset.is_some(), OFFSET),
        };
        // SAFETY: as the caller says.
        let answer = unsafe { callback(&raw const said, arg) };
        if answer != 0 {
            return answer;
        }
    }
    0
}

impl Tracker {
    fn names(&mut self, frame: &Frame, inlined: bool) -> Vec<Name> {
        let names = self.namer.names(self.session.files(), &self.kernel, frame, inlined);
        self.session.close_unused();
        names
    }

    fn file(&self, file: u32) -> Option<&MappedFile> {
        self.session.files().get(FileId(file))
    }
}

/// `sframe_module` in C.
#[repr(C)]
pub struct CModule {
    start: u64,
    end: u64,
    bias: u64,
    file: u32,
}

/// Lists the mappings of a process; see the header.
///
/// # Safety
/// The tracker is valid, and `callback` may be called with `arg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_modules(
    tracker: *mut Tracker,
    pid: u32,
    callback: Option<unsafe extern "C" fn(module: *const CModule, arg: *mut c_void) -> c_int>,
    arg: *mut c_void,
) -> c_int {
    let Some(callback) = callback else { return fail(libc::EINVAL) };
    // SAFETY: as the caller says. The borrow ends before the first callback.
    let modules: Option<Vec<CModule>> = unsafe { &*tracker }.session.modules(pid).map(|modules| {
        let of = |module: &sframe_format::Module<_>| CModule {
            start: module.range().start,
            end: module.range().end,
            bias: module.bias(),
            file: module.id().0 as u32,
        };
        modules.iter().map(of).collect()
    });
    let Some(modules) = modules else { return fail(libc::ESRCH) };
    for module in &modules {
        // SAFETY: as the caller says.
        let answer = unsafe { callback(module, arg) };
        if answer != 0 {
            return answer;
        }
    }
    0
}

/// Writes a text as `snprintf` does.
///
/// # Safety
/// `buffer` has room for `size` bytes.
unsafe fn write(text: &str, buffer: *mut c_char, size: usize) -> usize {
    if let Some(room) = size.checked_sub(1) {
        let count = text.len().min(room);
        // SAFETY: as the caller says.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast::<u8>(), count);
            buffer.add(count).write(0);
        }
    }
    text.len()
}

/// The path of a file; see the header.
///
/// # Safety
/// The tracker is valid, and `buffer` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_file_path(
    tracker: *mut Tracker,
    file: u32,
    buffer: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: as the caller says.
    unsafe { write((*tracker).file(file).map_or("", |file| &file.path), buffer, size) }
}

/// The build-id of a file; see the header.
///
/// # Safety
/// As for [`sframe_tracker_file_path`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_file_build_id(
    tracker: *mut Tracker,
    file: u32,
    buffer: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: as the caller says.
    unsafe {
        let id = (*tracker).file(file).and_then(|file| file.build_id().map(hexadecimal));
        write(&id.unwrap_or_default(), buffer, size)
    }
}

/// Why a file could not be used; see the header.
///
/// # Safety
/// As for [`sframe_tracker_file_path`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sframe_tracker_file_error(
    tracker: *mut Tracker,
    file: u32,
    buffer: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: as the caller says.
    unsafe {
        let reason = (*tracker).file(file).and_then(|file| file.image().err());
        write(reason.unwrap_or_default(), buffer, size)
    }
}
