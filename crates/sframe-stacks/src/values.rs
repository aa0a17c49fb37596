//! Pointers and sized structures of C as values.

use std::ffi::{CStr, c_char, c_int};

/// Sets `errno` and returns -1.
pub fn fail(error: c_int) -> c_int {
    // SAFETY: every thread has an `errno`.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// The elements at a place. If there are none, the place may be null: C programs may pass that, but a Rust
/// slice must not be null.
///
/// # Safety
/// There are `count` elements, and nothing changes them during `'e`.
pub unsafe fn elements<'e, T>(start: *const T, count: usize) -> &'e [T] {
    if start.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { std::slice::from_raw_parts(start, count) }
}

/// The bytes of a text without its 0. None for null.
///
/// # Safety
/// It is null, or a text that ends with a 0 and does not change during `'e`.
pub unsafe fn text<'e>(start: *const c_char) -> Option<&'e [u8]> {
    // SAFETY: as the caller says.
    (!start.is_null()).then(|| unsafe { CStr::from_ptr(start) }.to_bytes())
}

/// A structure that begins with its size: the fields that the caller's version of it has, and zeros.
///
/// # Safety
/// `T` is a structure of C whose bits may all be 0, and begins with a `usize`; `given` is null, or points to
/// as many bytes as its first field says.
pub unsafe fn sized<T>(given: *const T) -> Option<T> {
    if given.is_null() {
        return None;
    }
    // SAFETY: as the caller says; no more is copied than both have.
    unsafe {
        let size = given.cast::<usize>().read();
        let mut value = std::mem::zeroed::<T>();
        std::ptr::copy_nonoverlapping(
            given.cast::<u8>(),
            (&raw mut value).cast::<u8>(),
            size.min(size_of::<T>()),
        );
        Some(value)
    }
}

/// Fills in a structure that begins with its size, as far as the caller's version of it goes.
///
/// # Safety
/// `T` is a structure of C without padding and begins with a `usize`; `to` is null, or points to as many
/// writable bytes as its first field says.
pub unsafe fn fill<T>(to: *mut T, value: &T) {
    if to.is_null() {
        return;
    }
    // SAFETY: as the caller says. The size stays as it is.
    unsafe {
        let size = to.cast::<usize>().read().min(size_of::<T>());
        let first = size_of::<usize>();
        let from = std::ptr::from_ref(value).cast::<u8>();
        if size > first {
            std::ptr::copy_nonoverlapping(from.add(first), to.cast::<u8>().add(first), size - first);
        }
    }
}
