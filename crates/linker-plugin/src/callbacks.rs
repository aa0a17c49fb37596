//! The functions that plugins call.

use crate::abi::{self, RawFile, RawSymbol, Transfer, TransferValue, level, status, tag};
use crate::facts::{Added, Binding, Level, LinkFacts, Resolution, Symbol, SymbolKind, Visibility};
use crate::state::{self, Open, State};
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;

unsafe extern "C" {
    /// Formats a message and passes it to [`linker_plugin_take_message`].
    fn linker_plugin_message(level: c_int, format: *const c_char, ...) -> c_int;
}

/// The transfer vector for a plugin, with the plugin's options at the end. The state keeps the texts that the
/// vector points to.
pub fn transfer_vector(state: &mut State, link: &LinkFacts, options: &[Vec<u8>]) -> Vec<Transfer> {
    let number = |tag, number| Transfer { tag, value: TransferValue { number } };
    let text =
        |tag, address: usize| Transfer { tag, value: TransferValue { text: address as *const c_char } };
    let call =
        |tag, function: *const ()| Transfer { tag, value: TransferValue { function: function.cast() } };
    let mut vector = vec![
        call(tag::MESSAGE, linker_plugin_message as *const ()),
        number(tag::API_VERSION, abi::API_VERSION),
        number(tag::GNU_LD_VERSION, link.gnu_ld_version),
        number(tag::LINKER_OUTPUT, link.kind as c_int),
        text(tag::OUTPUT_NAME, state.keep(link.output.as_os_str().as_bytes())),
        call(tag::REGISTER_CLAIM_FILE, register_claim_file as *const ()),
        call(tag::REGISTER_CLAIM_FILE_V2, register_claim_file_v2 as *const ()),
        call(tag::REGISTER_ALL_SYMBOLS_READ, register_all_symbols_read as *const ()),
        call(tag::REGISTER_CLEANUP, register_cleanup as *const ()),
        call(tag::REGISTER_NEW_INPUT, register_new_input as *const ()),
        call(tag::ADD_SYMBOLS, add_symbols as *const ()),
        call(tag::ADD_SYMBOLS_V2, add_symbols_v2 as *const ()),
        call(tag::GET_SYMBOLS, get_symbols as *const ()),
        call(tag::GET_SYMBOLS_V2, get_symbols_v2 as *const ()),
        call(tag::GET_SYMBOLS_V3, get_symbols_v3 as *const ()),
        call(tag::GET_INPUT_FILE, get_input_file as *const ()),
        call(tag::GET_VIEW, get_view as *const ()),
        call(tag::RELEASE_INPUT_FILE, release_input_file as *const ()),
        call(tag::ADD_INPUT_FILE, add_input_file as *const ()),
        call(tag::ADD_INPUT_LIBRARY, add_input_library as *const ()),
        call(tag::SET_EXTRA_LIBRARY_PATH, set_extra_library_path as *const ()),
        call(tag::GET_WRAP_SYMBOLS, get_wrap_symbols as *const ()),
        call(tag::GET_API_VERSION, get_api_version as *const ()),
    ];
    vector.extend(options.iter().map(|option| text(tag::OPTION, state.keep(option))));
    vector.push(number(tag::NULL, 0));
    vector
}

/// Receives a formatted message. After a fatal one, the plugin must not continue, because gcc's plugin relies
/// on the linker to exit then. So its thread cleans up and is parked.
#[unsafe(no_mangle)]
extern "C" fn linker_plugin_take_message(raw: c_int, text: *const c_char) -> c_int {
    let text = String::from_utf8_lossy(&bytes(text)).trim_end().to_owned();
    let level = match raw {
        level::INFO => Level::Information,
        level::WARNING => Level::Warning,
        level::FATAL => Level::Fatal,
        _ => Level::Error,
    };
    state::with(|state| state.say(level, text));
    if level == Level::Fatal {
        clean_up_and_park();
    }
    status::OK
}

/// Cleans up, informs the session, and never returns.
fn clean_up_and_park() -> ! {
    let (cleanups, on_fatal) = state::with(|state| {
        state.spent = true;
        (state.take_cleanups(), state.on_fatal.take())
    });
    for cleanup in cleanups {
        // SAFETY: the plugin registered it to be called once, at the end or when the link fails.
        unsafe { cleanup() };
    }
    if let Some(on_fatal) = on_fatal {
        on_fatal();
    }
    loop {
        std::thread::park();
    }
}

/// The bytes of a text. A null pointer gives none.
fn bytes(text: *const c_char) -> Vec<u8> {
    if text.is_null() {
        return Vec::new();
    }
    // SAFETY: the interface demands a text that ends with a zero byte.
    unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()
}

fn path(text: *const c_char) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&bytes(text)))
}

/// Registers a hook of the plugin that is being called.
fn register(set: impl FnOnce(&mut state::Hooks)) -> c_int {
    state::with(|state| {
        let current = state.current;
        state.plugins.get_mut(current).map_or(status::ERROR, |hooks| {
            set(hooks);
            status::OK
        })
    })
}

extern "C" fn register_claim_file(hook: Option<abi::ClaimFile>) -> c_int {
    register(|hooks| hooks.claim = hook)
}

extern "C" fn register_claim_file_v2(hook: Option<abi::ClaimFileV2>) -> c_int {
    register(|hooks| hooks.claim_v2 = hook)
}

extern "C" fn register_all_symbols_read(hook: Option<abi::Hook>) -> c_int {
    register(|hooks| hooks.all_symbols_read = hook)
}

extern "C" fn register_cleanup(hook: Option<abi::Hook>) -> c_int {
    register(|hooks| hooks.cleanup = hook)
}

extern "C" fn register_new_input(hook: Option<abi::NewInput>) -> c_int {
    register(|hooks| hooks.new_input = hook)
}

/// Works on the file with this handle.
fn on_file(handle: *const c_void, work: impl FnOnce(&mut Open) -> c_int) -> c_int {
    state::with(|state| {
        let file = (handle as usize).checked_sub(1).and_then(|number| state.files.get_mut(number));
        file.map_or(status::BAD_HANDLE, work)
    })
}

/// A plugin's table of symbols.
///
/// # Safety
/// `symbols` must point at `count` of them, unless `count` is 0 or less.
unsafe fn table<'t>(count: c_int, symbols: *mut RawSymbol) -> &'t mut [RawSymbol] {
    match usize::try_from(count) {
        Ok(count) if count > 0 && !symbols.is_null() => {
            // SAFETY: the caller's promise.
            unsafe { std::slice::from_raw_parts_mut(symbols, count) }
        }
        _ => &mut [],
    }
}

/// Symbols of version 1 have no types: their bytes are not initialized.
extern "C" fn add_symbols(handle: *mut c_void, count: c_int, symbols: *const RawSymbol) -> c_int {
    add(handle, count, symbols, |_| SymbolKind::Unknown)
}

extern "C" fn add_symbols_v2(handle: *mut c_void, count: c_int, symbols: *const RawSymbol) -> c_int {
    add(handle, count, symbols, |raw| SymbolKind::from_raw(raw.facts.kind, raw.facts.section_kind))
}

fn add(
    handle: *mut c_void,
    count: c_int,
    symbols: *const RawSymbol,
    kind: impl Fn(&RawSymbol) -> SymbolKind,
) -> c_int {
    let optional = |text: *mut c_char| (!text.is_null()).then(|| bytes(text)).filter(|text| !text.is_empty());
    let convert = |raw: &RawSymbol| {
        Some(Symbol {
            name: bytes(raw.name),
            version: optional(raw.version),
            binding: Binding::from_raw(raw.facts.definition)?,
            visibility: Visibility::from_raw(raw.visibility)?,
            kind: kind(raw),
            size: raw.size,
            comdat: optional(raw.comdat_key),
        })
    };
    // SAFETY: the plugin hands over a table of this length; it is only read.
    let raw = unsafe { table(count, symbols.cast_mut()) };
    let Some(found) = raw.iter().map(convert).collect::<Option<Vec<Symbol>>>() else { return status::ERROR };
    on_file(handle, |file| {
        file.symbols.extend(found);
        status::OK
    })
}

extern "C" fn get_symbols(handle: *const c_void, count: c_int, symbols: *mut RawSymbol) -> c_int {
    resolve(handle, count, symbols, 1)
}

extern "C" fn get_symbols_v2(handle: *const c_void, count: c_int, symbols: *mut RawSymbol) -> c_int {
    resolve(handle, count, symbols, 2)
}

extern "C" fn get_symbols_v3(handle: *const c_void, count: c_int, symbols: *mut RawSymbol) -> c_int {
    resolve(handle, count, symbols, 3)
}

/// Writes resolutions. Versions 1 and 2 cannot say that a file takes no part, so all its symbols are
/// reported as preempted. Version 1 knows no exported definitions.
fn resolve(handle: *const c_void, count: c_int, symbols: *mut RawSymbol, version: u8) -> c_int {
    // SAFETY: the plugin hands over a table of this length to be filled.
    let raw = unsafe { table(count, symbols) };
    on_file(handle, |file| {
        let Some(resolutions) = &file.resolutions else {
            if version >= 3 {
                return status::NO_SYMBOLS;
            }
            raw.iter_mut().for_each(|symbol| symbol.resolution = Resolution::PreemptedByCode as c_int);
            return status::OK;
        };
        if resolutions.len() < raw.len() {
            return status::ERROR;
        }
        for (symbol, &resolution) in raw.iter_mut().zip(resolutions) {
            let known = match resolution {
                Resolution::PrevailingExported if version < 2 => Resolution::Prevailing,
                other => other,
            };
            symbol.resolution = known as c_int;
        }
        status::OK
    })
}

extern "C" fn get_input_file(handle: *const c_void, raw: *mut RawFile) -> c_int {
    on_file(handle, |file| {
        if file.descriptor.is_none() {
            file.descriptor = std::fs::File::open(&file.path).ok();
        }
        let Some(descriptor) = &file.descriptor else { return status::ERROR };
        let filled = RawFile {
            name: file.name.as_ptr(),
            fd: descriptor.as_raw_fd(),
            offset: file.offset as libc::off_t,
            size: file.size as libc::off_t,
            handle: handle.cast_mut(),
        };
        // SAFETY: the plugin hands over a place for one.
        unsafe { ptr::write(raw, filled) };
        status::OK
    })
}

extern "C" fn release_input_file(handle: *const c_void) -> c_int {
    on_file(handle, |file| {
        file.descriptor = None;
        status::OK
    })
}

extern "C" fn get_view(handle: *const c_void, view: *mut *const c_void) -> c_int {
    on_file(handle, |file| {
        if file.view.is_none() {
            file.view = map(file);
        }
        let Some(mapped) = &file.view else { return status::ERROR };
        // SAFETY: the plugin hands over a place for one. The mapping lasts until the session ends.
        unsafe { ptr::write(view, mapped.as_ptr().cast()) };
        status::OK
    })
}

fn map(file: &Open) -> Option<memmap2::Mmap> {
    let opened = std::fs::File::open(&file.path).ok()?;
    let size = usize::try_from(file.size).ok()?;
    // SAFETY: the mapping is private and read-only; the linker maps the same file.
    unsafe { memmap2::MmapOptions::new().offset(file.offset).len(size).map(&opened) }.ok()
}

fn added(what: Added) -> c_int {
    state::with(|state| state.added.push(what));
    status::OK
}

extern "C" fn add_input_file(name: *const c_char) -> c_int {
    added(Added::File(path(name)))
}

extern "C" fn add_input_library(name: *const c_char) -> c_int {
    added(Added::Library(bytes(name)))
}

extern "C" fn set_extra_library_path(name: *const c_char) -> c_int {
    added(Added::Directory(path(name)))
}

extern "C" fn get_wrap_symbols(count: *mut u64, names: *mut *const *const c_char) -> c_int {
    state::with(|state| {
        // SAFETY: the plugin hands over places for both. A `usize` holds a pointer, and the table
        // stays as it is until the session ends.
        unsafe {
            ptr::write(count, state.wrapped.len() as u64);
            ptr::write(names, state.wrapped.as_ptr().cast());
        }
    });
    status::OK
}

extern "C" fn get_api_version(
    _plugin: *const c_char,
    _plugin_version: *const c_char,
    least: c_int,
    greatest: c_int,
    linker: *mut *const c_char,
    linker_version: *mut *const c_char,
) -> c_int {
    let (name, version) = state::with(|state| state.linker);
    // SAFETY: the plugin hands over places for both, and the texts stay until the session ends.
    unsafe {
        ptr::write(linker, name as *const c_char);
        ptr::write(linker_version, version as *const c_char);
    }
    abi::NEGOTIATED_VERSION.clamp(least, greatest.max(least))
}
