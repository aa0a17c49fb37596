//! The files that the dynamic linker has loaded, the program and the vDSO among them.
//!
//! Their frames are copied: a file may be unloaded while a handler still looks at it.

use libc::{Elf64_Phdr, c_int, c_void, dl_phdr_info, size_t};
use sframe_format::derive::derive;
use sframe_format::write::Options;
use sframe_format::{Abi, FileRows, PT_GNU_SFRAME};
use std::ffi::CStr;
use std::ops::Range;

/// A loaded file.
pub struct Loaded {
    /// Identifies it among the loaded files.
    pub key: Key,
    /// The bytes of its SFrame segment, and its address as the file states it.
    sframe: Option<(Vec<u8>, u64)>,
    /// The same for `.eh_frame`.
    eh_frame: Option<(Vec<u8>, u64)>,
}

/// The name and place of a loaded file, which no two files have at one time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Path; empty for the program.
    pub path: Vec<u8>,
    /// What is added to the file's own addresses.
    pub bias: u64,
    /// First address, and the address behind the last.
    pub range: (u64, u64),
}

impl Key {
    /// The addresses it is loaded at.
    pub fn addresses(&self) -> Range<u64> {
        self.range.0..self.range.1
    }
}

impl Loaded {
    /// Its rows, laid out for speed.
    pub fn rows(self, abi: Abi) -> FileRows<Vec<u8>> {
        let mut rows = FileRows::default();
        if let Some((data, address)) = self.sframe {
            rows = FileRows::new(data, address);
        }
        if let Some((data, address)) = self.eh_frame
            && let Ok(derived) = derive(Options::new(abi), &data, address, 0)
        {
            rows = rows.with_derived(derived.bytes, 0);
        }
        rows.tabled()
    }
}

/// All files that are loaded now. Frames of files for which `is_known` is true are not copied.
pub fn loaded(is_known: &mut dyn FnMut(&Key) -> bool) -> Vec<Loaded> {
    let mut request = Request { is_known, found: Vec::new() };
    // SAFETY: the callback gets the request that is passed with it, and nothing else.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut request).cast()) };
    request.found
}

struct Request<'a> {
    is_known: &'a mut dyn FnMut(&Key) -> bool,
    found: Vec<Loaded>,
}

unsafe extern "C" fn note(info: *mut dl_phdr_info, _: size_t, request: *mut c_void) -> c_int {
    // SAFETY: the dynamic linker passes a valid description of a file that stays loaded until this returns, and `loaded` its
    // request. Segments lie where their headers say.
    unsafe {
        let (info, request) = (&*info, &mut *request.cast::<Request<'_>>());
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        let bias = info.dlpi_addr;
        let path = if info.dlpi_name.is_null() { &[] } else { CStr::from_ptr(info.dlpi_name).to_bytes() };
        let loads = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        let start = loads().map(|load| load.p_vaddr).min().unwrap_or(0);
        let end = loads().map(|load| load.p_vaddr + load.p_memsz).max().unwrap_or(0);
        let range = (bias.wrapping_add(start), bias.wrapping_add(end));
        let key = Key { path: path.to_vec(), bias, range };
        let mut loaded = Loaded { key, sframe: None, eh_frame: None };
        if !(request.is_known)(&loaded.key) {
            let bytes = |address: u64, size: u64| {
                std::slice::from_raw_parts(bias.wrapping_add(address) as *const u8, size as usize)
            };
            let of = |kind: u32| headers.iter().find(|header| header.p_type == kind);
            loaded.sframe = of(PT_GNU_SFRAME)
                .map(|header| (bytes(header.p_vaddr, header.p_memsz).to_vec(), header.p_vaddr));
            loaded.eh_frame = of(libc::PT_GNU_EH_FRAME).and_then(|header| {
                let start = eh_frame_start(bytes(header.p_vaddr, header.p_memsz), header.p_vaddr)?;
                let end = |load: &Elf64_Phdr| load.p_vaddr + load.p_filesz;
                let load = loads().find(|load| load.p_vaddr <= start && start < end(load))?;
                Some((records(bytes(start, end(load) - start)).to_vec(), start))
            });
        }
        request.found.push(loaded);
    }
    0
}

/// The address of `.eh_frame` by `.eh_frame_hdr` (LSB, "The .eh_frame_hdr section"), which linkers write as a distance of 4
/// bytes from its own place.
fn eh_frame_start(header: &[u8], address: u64) -> Option<u64> {
    let [1, 0x1b, _, _, distance @ ..] = header else { return None };
    let distance = i32::from_ne_bytes(*distance.first_chunk()?);
    Some((address + 4).wrapping_add_signed(distance.into()))
}

/// The records at the start of `bytes`, up to the zero word that ends them.
fn records(bytes: &[u8]) -> &[u8] {
    let mut end = 0;
    while let Some(length) = bytes.get(end..).and_then(|rest| rest.first_chunk()) {
        let length = u32::from_ne_bytes(*length) as usize;
        if length == 0 || bytes.len() - end - 4 < length {
            break;
        }
        end += 4 + length;
    }
    &bytes[..end]
}
