//! The files that the dynamic linker has loaded, including the program and the vDSO.
//!
//! Their frames are copied, because a file may be unloaded while a handler still reads its frames. A file may
//! be shorter than its headers say, and a program may unmap parts of its files. So this module trusts program
//! headers only within segments that are loaded, and reads memory with [`append`].

use crate::memory::append;
use libc::{Elf64_Phdr, c_int, c_void, dl_phdr_info, size_t};
use sframe_format::compact::PT_SFRAME_UNWIND;
use sframe_format::derive::{derive_linked, eh_frame_start};
use sframe_format::write::Options;
use sframe_format::{Abi, CompactTable, Endian, FileRows, PT_GNU_SFRAME};
use std::ffi::CStr;
use std::ops::Range;

/// A loaded file.
pub struct Loaded {
    /// Identifies it among the loaded files.
    pub key: Key,
    /// The bytes of its SFrame segment, and the address that the file has for it.
    sframe: Option<(Vec<u8>, u64)>,
    /// The same for a compact table that stands in place of `.eh_frame`.
    table: Option<(Vec<u8>, u64)>,
    /// The same for `.eh_frame` and `.eh_frame_hdr`.
    eh_frame: Option<[(Vec<u8>, u64); 2]>,
}

/// The name and place of a loaded file. No two files have the same at one time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Path; empty for the program.
    pub path: Vec<u8>,
    /// The number to add to the file's own addresses.
    pub bias: u64,
    /// The first address, and the address after the last byte.
    pub range: (u64, u64),
}

impl Key {
    /// The addresses that it is loaded at.
    pub fn addresses(&self) -> Range<u64> {
        self.range.0..self.range.1
    }
}

impl Loaded {
    /// Code that was made, with the address and the size of its SFrame section. If it is known, the section
    /// is not copied.
    pub fn made(key: Key, (start, size): (u64, u64), is_known: bool) -> Self {
        let mut bytes = Vec::new();
        let is_read = !is_known && append(start, size, &mut bytes);
        Self { key, sframe: is_read.then_some((bytes, start)), table: None, eh_frame: None }
    }

    /// Its rows, in a form for fast look-ups.
    pub fn rows(self, abi: Abi) -> FileRows<Vec<u8>> {
        let mut rows = FileRows::default();
        if let Some((data, address)) = self.sframe {
            rows = FileRows::new(data, address);
        }
        if let Some((data, address)) = self.table
            && let Ok(table) = CompactTable::parse(data, address)
            && table.header().abi == abi
            && table.check().is_ok()
        {
            rows = rows.with_compact(table);
        }
        if let Some([(data, address), (header, at)]) = self.eh_frame
            && let Ok(derived) = derive_linked(Options::new(abi), &data, address, Some((&header, at)), 0)
        {
            rows = rows.with_derived(derived.bytes, 0);
        }
        rows.tabled()
    }
}

/// All files that are loaded now. If `is_known` is true for a file, its frames are not copied.
pub fn loaded(is_known: &mut dyn FnMut(&Key) -> bool) -> Vec<Loaded> {
    let mut request = Request { is_known, found: Vec::new() };
    // SAFETY: the callback gets the request that is passed here, and nothing else.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut request).cast()) };
    request.found
}

struct Request<'a> {
    is_known: &'a mut dyn FnMut(&Key) -> bool,
    found: Vec<Loaded>,
}

unsafe extern "C" fn note(info: *mut dl_phdr_info, _: size_t, request: *mut c_void) -> c_int {
    // SAFETY: the dynamic linker passes a valid description of a file, which stays loaded until this function
    // returns, and the request from `loaded`.
    let (info, request) = unsafe { (&*info, &mut *request.cast::<Request<'_>>()) };
    let headers = if info.dlpi_phdr.is_null() {
        &[]
    } else {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) }
    };
    let path = if info.dlpi_name.is_null() {
        &[]
    } else {
        // SAFETY: as above.
        unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes()
    };
    let file = File { headers, bias: info.dlpi_addr };
    let key = Key { path: path.to_vec(), bias: file.bias, range: file.range() };
    let mut loaded = Loaded { key, sframe: None, table: None, eh_frame: None };
    if !(request.is_known)(&loaded.key) {
        loaded.sframe = file.segment(PT_GNU_SFRAME);
        loaded.table = file.segment(PT_SFRAME_UNWIND);
        loaded.eh_frame = file.eh_frame();
    }
    request.found.push(loaded);
    0
}

/// What the dynamic linker says about a file.
struct File<'a> {
    headers: &'a [Elf64_Phdr],
    bias: u64,
}

impl File<'_> {
    fn loads(&self) -> impl Iterator<Item = &Elf64_Phdr> {
        self.headers.iter().filter(|header| header.p_type == libc::PT_LOAD)
    }

    /// The first address, and the address after the last byte.
    fn range(&self) -> (u64, u64) {
        let start = self.loads().map(|load| load.p_vaddr).min().unwrap_or(0);
        let end = self.loads().map(|load| load.p_vaddr.saturating_add(load.p_memsz)).max().unwrap_or(0);
        (self.bias.wrapping_add(start), self.bias.wrapping_add(end))
    }

    /// How many bytes the segment at an address has in the file, from that address on.
    fn room(&self, address: u64) -> Option<u64> {
        let room = |load: &Elf64_Phdr| load.p_filesz.checked_sub(address.checked_sub(load.p_vaddr)?);
        self.loads().filter_map(room).find(|&room| room > 0)
    }

    /// The bytes of the first segment of a type, and its address. The segment must lie in a loaded one and be
    /// readable.
    fn segment(&self, kind: u32) -> Option<(Vec<u8>, u64)> {
        let header = self.headers.iter().find(|header| header.p_type == kind)?;
        let mut bytes = Vec::new();
        let inside = self.room(header.p_vaddr)? >= header.p_memsz;
        let read = inside && append(self.bias.wrapping_add(header.p_vaddr), header.p_memsz, &mut bytes);
        read.then_some((bytes, header.p_vaddr))
    }

    /// `.eh_frame` and `.eh_frame_hdr`.
    fn eh_frame(&self) -> Option<[(Vec<u8>, u64); 2]> {
        let (table, at) = self.segment(libc::PT_GNU_EH_FRAME)?;
        let start = eh_frame_start(Endian::NATIVE, &table, at)?;
        let (last, mut left) = (last_listed(&table, at, start), self.room(start)?);
        let mut more = |bytes: &mut Vec<u8>| {
            let next = self.bias.wrapping_add(start).wrapping_add(bytes.len() as u64);
            let size = left.min(PIECE);
            left -= size;
            size > 0 && append(next, size, bytes)
        };
        Some([(records(&mut more, last), start), (table, at)])
    }
}

/// Bytes of `.eh_frame` that are read at a time. Only its records say where it ends.
const PIECE: u64 = 64 << 10;

/// Offset of the last FDE in the `.eh_frame` at `start` that the table points to; 0 without a table.
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

/// The records that `more` reads piece by piece, up to the word of zeros that ends them. More records may
/// follow: `last` is the offset of one that is known to exist. `more` returns false when nothing more can be
/// read.
fn records(more: &mut dyn FnMut(&mut Vec<u8>) -> bool, last: usize) -> Vec<u8> {
    let (mut bytes, mut end) = (Vec::new(), 0usize);
    let mut has = |bytes: &mut Vec<u8>, size: usize| {
        while bytes.len() < size && more(bytes) {}
        bytes.len() >= size
    };
    while has(&mut bytes, end + 4) {
        let length = bytes[end..].first_chunk().map_or(0, |length| u32::from_ne_bytes(*length) as usize);
        if length == 0 && end >= last || !has(&mut bytes, end + 4 + length) {
            break;
        }
        end += 4 + length;
    }
    bytes.truncate(end);
    bytes
}

#[cfg(test)]
mod tests {
    use super::{File, last_listed, loaded};
    use libc::Elf64_Phdr;
    use sframe_format::PT_GNU_SFRAME;

    /// The records in `bytes`, read in pieces of 5 bytes.
    fn records(bytes: &[u8], last: usize) -> Vec<u8> {
        let mut more = |read: &mut Vec<u8>| {
            let rest = &bytes[read.len()..];
            read.extend_from_slice(&rest[..rest.len().min(5)]);
            !rest.is_empty()
        };
        super::records(&mut more, last)
    }

    /// Changes the program headers of every file in this process, as if they were damaged. Nothing may be
    /// read that does not exist. read that is not there.
    #[test]
    fn headers_of_frames_may_say_anything() {
        let words = vec![0x1111_1111_1111_1111u64; 64];
        let (start, size) = (words.as_ptr() as u64, 8 * words.len() as u64);
        let header = |p_type, p_vaddr, p_size| Elf64_Phdr {
            p_type,
            p_flags: libc::PF_R,
            p_offset: 0,
            p_vaddr,
            p_paddr: 0,
            p_filesz: p_size,
            p_memsz: p_size,
            p_align: 8,
        };
        let places = [0, 1, size - 4, size, size + 1, 1 << 45, 1 << 63, u64::MAX];
        // The size of the segment is that of all words, or claims more than exists.
        for segment in [size, 1 << 46] {
            for (address, length) in places.iter().flat_map(|&at| places.map(|length| (at, length))) {
                for kind in [PT_GNU_SFRAME, libc::PT_GNU_EH_FRAME] {
                    let headers = [header(libc::PT_LOAD, 0, segment), header(kind, address, length)];
                    let file = File { headers: &headers, bias: start };
                    let found = file.segment(kind);
                    assert!(file.eh_frame().is_none());
                    let is_there = address < size && length <= size - address;
                    if segment == size {
                        assert_eq!(found.is_some(), is_there, "{length:#x} bytes at {address:#x}");
                    }
                    assert!(found.is_none_or(|(bytes, _)| bytes.len() as u64 == length));
                    file.range();
                }
            }
        }
        assert!(loaded(&mut |_| false).iter().any(|file| file.eh_frame.is_some()));
    }

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
