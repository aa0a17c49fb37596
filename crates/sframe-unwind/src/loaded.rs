//! The files that the dynamic linker has loaded, the program and the vDSO among them.
//!
//! Their frames are copied: a file may be unloaded while a handler still looks at it.

use libc::{Elf64_Phdr, c_int, c_void, dl_phdr_info, size_t};
use sframe_format::derive::derive_linked;
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
    /// The same of `.eh_frame` and `.eh_frame_hdr`.
    eh_frame: Option<[(Vec<u8>, u64); 2]>,
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
        if let Some([(data, address), (header, at)]) = self.eh_frame
            && let Ok(derived) = derive_linked(Options::new(abi), &data, address, Some((&header, at)), 0)
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
                let (table, at) = (bytes(header.p_vaddr, header.p_memsz), header.p_vaddr);
                let start = eh_frame_start(table, at)?;
                let end = |load: &Elf64_Phdr| load.p_vaddr + load.p_filesz;
                let load = loads().find(|load| load.p_vaddr <= start && start < end(load))?;
                let records = records(bytes(start, end(load) - start), last_listed(table, at, start));
                Some([(records.to_vec(), start), (table.to_vec(), at)])
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

/// Offset of the last FDE in the `.eh_frame` at `start` that a table leads to; 0 without one.
fn last_listed(header: &[u8], address: u64, start: u64) -> usize {
    let [1, 0x1b, 0x03, 0x3b, _, _, _, _, count @ ..] = header else { return 0 };
    let Some((count, entries)) = count.split_first_chunk() else { return 0 };
    let entries = entries.as_chunks::<8>().0.iter().take(u32::from_ne_bytes(*count) as usize);
    let offset = |&[_, _, _, _, a, b, c, d]: &[u8; 8]| {
        let distance = i64::from(i32::from_ne_bytes([a, b, c, d]));
        address.wrapping_add_signed(distance).wrapping_sub(start) as usize
    };
    entries.map(offset).max().unwrap_or(0)
}

/// The records at the start of `bytes`, up to the word of zeros that ends them. Behind it may be others: `last` is the offset
/// of one that is known to be there.
fn records(bytes: &[u8], last: usize) -> &[u8] {
    let mut end = 0;
    while let Some(length) = bytes.get(end..).and_then(|rest| rest.first_chunk()) {
        let length = u32::from_ne_bytes(*length) as usize;
        if length == 0 && end >= last || bytes.len() - end - 4 < length {
            break;
        }
        end += 4 + length;
    }
    &bytes[..end]
}

#[cfg(test)]
mod tests {
    use super::{last_listed, records};

    #[test]
    fn records_behind_a_terminator_are_those_that_the_table_leads_to() {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let bytes = words(&[4, 0, 4, 8, 0, 0, 4, 8, 0, 77]);
        assert_eq!(records(&bytes, 0).len(), 16);
        assert_eq!(records(&bytes, 8).len(), 16);
        assert_eq!(records(&bytes, 24).len(), 32);
        let table = |offsets: &[u32]| {
            let entries = offsets.iter().flat_map(|offset| [0, 0x1000 + offset]);
            let head = [u32::from_ne_bytes([1, 0x1b, 3, 0x3b]), 0xffc, offsets.len() as u32];
            words(&head.into_iter().chain(entries).collect::<Vec<_>>())
        };
        assert_eq!(last_listed(&table(&[8]), 0x4000, 0x5000), 8);
        assert_eq!(last_listed(&table(&[24, 8]), 0x4000, 0x5000), 24);
        assert_eq!(last_listed(&table(&[]), 0x4000, 0x5000), 0);
        assert_eq!(last_listed(b"\x01", 0x4000, 0x5000), 0);
    }
}
