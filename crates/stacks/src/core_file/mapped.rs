//! The files that a core file says were mapped (`NT_FILE`), and where each of them is loaded.
//!
//! A process maps a file to run it or to read it, or both: a debugger or a profiler reads the libraries that
//! it runs. Only what is executable is a place that code is loaded at. That the segments of the core file
//! say.

use super::words::Words;
use crate::build_id;
use crate::memory::Memory;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The ranges of addresses of a process and whether code may run there.
#[derive(Default)]
pub struct Protections {
    /// Ascending by start, once they are all there.
    ranges: Vec<(Range<u64>, bool)>,
}

impl Protections {
    /// Those that the segments of a core file say.
    pub fn new(mut ranges: Vec<(Range<u64>, bool)>) -> Self {
        ranges.sort_by_key(|(range, _)| range.start);
        Self { ranges }
    }

    /// Whether code may run at an address; `None` if nothing is known of it.
    fn executable(&self, address: u64) -> Option<bool> {
        let place = self.ranges.partition_point(|(range, _)| range.start <= address).checked_sub(1)?;
        self.ranges.get(place).filter(|(range, _)| address < range.end).map(|(_, executable)| *executable)
    }
}

#[derive(Clone)]
struct Mapping {
    addresses: Range<u64>,
    /// Offset in the file, in bytes.
    offset: u64,
}

/// A part of a file that is mapped as code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Code {
    /// Where it is.
    pub addresses: Range<u64>,
    /// Its offset in the file, in bytes.
    pub offset: u64,
    /// The build-id that the process saw in the file, if memory tells.
    pub build_id: Option<Vec<u8>>,
}

/// A file that was mapped.
pub struct MappedFile {
    /// Its path. The kernel puts ` (deleted)` behind it if the file is no longer there.
    pub path: PathBuf,
    /// Ascending by address, as the kernel writes them.
    mappings: Vec<Mapping>,
}

impl MappedFile {
    /// The parts of it that are mapped as code; none if it was only read. Where a core file has no segment
    /// for its code, it is the first mapping without a segment: `gcore` leaves out what the file holds, which
    /// is its code but not its header.
    pub fn code(&self, protections: &Protections, memory: &Memory) -> Vec<Code> {
        let executable = |mapping: &Mapping| protections.executable(mapping.addresses.start);
        let code = |mapping: &Mapping, build_id: &Option<Vec<u8>>| Code {
            addresses: mapping.addresses.clone(),
            offset: mapping.offset,
            build_id: build_id.clone(),
        };
        let (mut found, mut header) = (Vec::new(), None);
        for mapping in &self.mappings {
            // A file's segments lie behind its header, in the order of their addresses.
            if mapping.offset == 0 {
                header = build_id::in_memory(|address| memory.from(address), mapping.addresses.start);
            }
            if executable(mapping) == Some(true) {
                found.push(code(mapping, &header));
            }
        }
        if found.is_empty() {
            let unknown = self.mappings.iter().filter(|mapping| executable(mapping).is_none());
            let first = unknown.min_by_key(|mapping| mapping.offset);
            found.extend(first.map(|mapping| code(mapping, &header)));
        }
        found
    }
}

/// The files of an `NT_FILE` note: count, page size, then start, end and offset in pages of each,
/// then the names. In the order of names.
pub fn mapped_files(words: &Words<'_>) -> Vec<MappedFile> {
    let mut files: BTreeMap<&[u8], Vec<Mapping>> = BTreeMap::new();
    let (Some(count), Some(page)) = (words.at(0), words.at(8)) else { return Vec::new() };
    let fits = (words.bytes.len() as u64).saturating_sub(16) / 24;
    let count = count.min(fits) as usize;
    let names = words.bytes.get(16 + 24 * count..).unwrap_or_default().split(|&byte| byte == 0);
    for (place, name) in names.take(count).enumerate() {
        let entry = 16 + 24 * place;
        let (Some(start), Some(end), Some(offset)) =
            (words.at(entry), words.at(entry + 8), words.at(entry + 16))
        else {
            break;
        };
        let mapping = Mapping { addresses: start..end, offset: offset.saturating_mul(page) };
        files.entry(name).or_default().push(mapping);
    }
    let file = |(name, mappings): (&[u8], _)| MappedFile {
        path: OsStr::from_bytes(name.strip_suffix(b" (deleted)").unwrap_or(name)).into(),
        mappings,
    };
    files.into_iter().map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `gcore` writes the page of the header and data, and has no segment for code, which the file holds.
    #[test]
    fn code_without_a_segment_is_between_what_has_one() {
        let mapping = |offset: u64| Mapping { addresses: 0x7000_0000 + offset..0x7000_1000 + offset, offset };
        let file = MappedFile { path: "p".into(), mappings: [0, 0x1000, 0x2000, 0x3000].map(mapping).into() };
        let of = |offset: u64, executable| (0x7000_0000 + offset..0x7000_1000 + offset, executable);
        let places = |ranges| {
            let code = file.code(&Protections::new(ranges), &Memory::default());
            code.into_iter().map(|code| (code.addresses.start, code.offset)).collect::<Vec<_>>()
        };
        let text = [(0x7000_1000, 0x1000)];
        assert_eq!(places(vec![of(0, false), of(0x3000, false)]), text);
        assert_eq!(places(vec![of(0, false), of(0x1000, true), of(0x3000, false)]), text);
        assert_eq!(places((0..4u64).map(|page| of(page << 12, false)).collect()), []);
    }
}
