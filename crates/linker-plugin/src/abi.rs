//! The binary interface between linker and plugin, as specified by GNU's plugin interface (binutils
//! `include/plugin-api.h`, gcc wiki "whopr/driver").

#![allow(missing_docs, reason = "the interface's own page says what each field is")]

use std::ffi::{c_char, c_int, c_void};

/// Version of the interface.
pub const API_VERSION: c_int = 1;
/// The newest negotiated version (`get_api_version`): plugins use `get_symbols` 3 and `add_symbols` 2.
pub const NEGOTIATED_VERSION: c_int = 1;

/// Results of calls in both directions.
pub mod status {
    use std::ffi::c_int;

    /// Success.
    pub const OK: c_int = 0;
    /// The file takes no part in the link.
    pub const NO_SYMBOLS: c_int = 1;
    /// No file has this handle.
    pub const BAD_HANDLE: c_int = 2;
    /// Any other error.
    pub const ERROR: c_int = 3;
}

/// Kinds of entries of the transfer vector, which a plugin gets when it is loaded.
pub mod tag {
    use std::ffi::c_int;

    pub const NULL: c_int = 0;
    pub const API_VERSION: c_int = 1;
    pub const GOLD_VERSION: c_int = 2;
    pub const LINKER_OUTPUT: c_int = 3;
    pub const OPTION: c_int = 4;
    pub const REGISTER_CLAIM_FILE: c_int = 5;
    pub const REGISTER_ALL_SYMBOLS_READ: c_int = 6;
    pub const REGISTER_CLEANUP: c_int = 7;
    pub const ADD_SYMBOLS: c_int = 8;
    pub const GET_SYMBOLS: c_int = 9;
    pub const ADD_INPUT_FILE: c_int = 10;
    pub const MESSAGE: c_int = 11;
    pub const GET_INPUT_FILE: c_int = 12;
    pub const RELEASE_INPUT_FILE: c_int = 13;
    pub const ADD_INPUT_LIBRARY: c_int = 14;
    pub const OUTPUT_NAME: c_int = 15;
    pub const SET_EXTRA_LIBRARY_PATH: c_int = 16;
    pub const GNU_LD_VERSION: c_int = 17;
    pub const GET_VIEW: c_int = 18;
    pub const GET_SYMBOLS_V2: c_int = 25;
    pub const GET_SYMBOLS_V3: c_int = 28;
    pub const REGISTER_NEW_INPUT: c_int = 31;
    pub const GET_WRAP_SYMBOLS: c_int = 32;
    pub const ADD_SYMBOLS_V2: c_int = 33;
    pub const GET_API_VERSION: c_int = 34;
    pub const REGISTER_CLAIM_FILE_V2: c_int = 35;
}

/// Levels of messages.
pub mod level {
    use std::ffi::c_int;

    pub const INFO: c_int = 0;
    pub const WARNING: c_int = 1;
    /// The link continues, and fails in the end.
    pub const ERROR: c_int = 2;
    /// The linker ends immediately.
    pub const FATAL: c_int = 3;
}

/// The value of an entry in the transfer vector. The entry's tag says which field is valid.
#[repr(C)]
#[derive(Clone, Copy)]
pub union TransferValue {
    pub number: c_int,
    pub text: *const c_char,
    pub function: *const c_void,
}

/// An entry of the transfer vector.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Transfer {
    pub tag: c_int,
    pub value: TransferValue,
}

/// A file as plugins see it.
#[repr(C)]
pub struct RawFile {
    /// Path of the file. For an archive member, the path of the archive.
    pub name: *const c_char,
    pub fd: c_int,
    /// Offset of the archive member in the file, in bytes.
    pub offset: libc::off_t,
    pub size: libc::off_t,
    pub handle: *mut c_void,
}

/// A symbol of a claimed file.
#[repr(C)]
pub struct RawSymbol {
    pub name: *mut c_char,
    pub version: *mut c_char,
    pub facts: RawFacts,
    pub visibility: c_int,
    pub size: u64,
    pub comdat_key: *mut c_char,
    pub resolution: c_int,
}

/// What kind of symbol it is. Version 1 of the interface has one `int` here for the definition, and its low
/// byte is in the same place.
#[repr(C)]
#[cfg(target_endian = "little")]
pub struct RawFacts {
    pub definition: u8,
    pub kind: u8,
    pub section_kind: u8,
    pub unused: u8,
}

/// The same on big-endian hosts.
#[repr(C)]
#[cfg(target_endian = "big")]
pub struct RawFacts {
    pub unused: u8,
    pub section_kind: u8,
    pub kind: u8,
    pub definition: u8,
}

/// The one function that a plugin exports.
pub type Onload = unsafe extern "C" fn(*const Transfer) -> c_int;
pub type ClaimFile = unsafe extern "C" fn(*const RawFile, *mut c_int) -> c_int;
pub type ClaimFileV2 = unsafe extern "C" fn(*const RawFile, *mut c_int, c_int) -> c_int;
/// `all_symbols_read` and `cleanup`.
pub type Hook = unsafe extern "C" fn() -> c_int;
pub type NewInput = unsafe extern "C" fn(*const RawFile) -> c_int;

/// `register_claim_file`.
pub type RegisterClaimFile = unsafe extern "C" fn(Option<ClaimFile>) -> c_int;
/// `register_all_symbols_read` and `register_cleanup`.
pub type RegisterHook = unsafe extern "C" fn(Option<Hook>) -> c_int;
/// `add_symbols`: a claimed file's handle, the number of symbols, and the symbols. Linkers may keep the
/// pointers.
pub type AddSymbols = unsafe extern "C" fn(*mut c_void, c_int, *const RawSymbol) -> c_int;
/// `get_symbols`: fills in how the symbols are resolved.
pub type GetSymbols = unsafe extern "C" fn(*const c_void, c_int, *mut RawSymbol) -> c_int;
/// `add_input_file`.
pub type AddInputFile = unsafe extern "C" fn(*const c_char) -> c_int;
/// `message`: a level, and text with arguments like those of `printf`.
pub type SendMessage = unsafe extern "C" fn(c_int, *const c_char, ...) -> c_int;
/// `get_api_version`: gets the plugin's name and version, and the smallest and largest version of the
/// interface that it supports. Fills in the linker's name and version. Returns the version to use.
pub type GetApiVersion = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    c_int,
    c_int,
    *mut *const c_char,
    *mut *const c_char,
) -> c_int;

const _: () = assert!(size_of::<RawSymbol>() == 48 && size_of::<Transfer>() == 16);
