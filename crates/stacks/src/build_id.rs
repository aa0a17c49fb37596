//! The build-id of an ELF file, as the file has it or as memory holds it where the file was loaded.

use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader};
use std::path::{Path, PathBuf};

/// So many bytes of a header and of notes are looked at in memory: what a core file has of a file that it
/// only names. Any number of mappings of a damaged one may lead to the same bytes.
const PAGE: usize = 0x1000;

type Header = elf::FileHeader64<Endianness>;
type Segment = elf::ProgramHeader64<Endianness>;

/// The build-id by the notes of a file, if it has one.
pub fn of_file(endian: Endianness, bytes: &[u8], segments: &[Segment]) -> Option<Vec<u8>> {
    in_notes(endian, segments, |segment| segment.data(endian, bytes).ok())
}

/// The build-id of the file whose header memory holds at `address`, if its notes are there, too. `memory`
/// gives the bytes from an address on, as far as they are known.
pub fn in_memory<'data>(memory: impl Fn(u64) -> Option<&'data [u8]>, address: u64) -> Option<Vec<u8>> {
    let bytes = memory(address)?;
    let bytes = &bytes[..bytes.len().min(PAGE)];
    let header = Header::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, bytes).ok()?;
    let first = segments.iter().find(|s| s.p_type(endian) == elf::PT_LOAD && s.p_offset(endian) == 0)?;
    let bias = address.wrapping_sub(first.p_vaddr(endian));
    let mut left = PAGE;
    in_notes(endian, segments, |segment| {
        let size = usize::try_from(segment.p_filesz(endian)).ok()?;
        left = left.checked_sub(size)?;
        memory(segment.p_vaddr(endian).wrapping_add(bias))?.get(..size)
    })
}

fn in_notes<'data>(
    endian: Endianness,
    segments: &[Segment],
    mut contents: impl FnMut(&Segment) -> Option<&'data [u8]>,
) -> Option<Vec<u8>> {
    segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_NOTE).find_map(|segment| {
        let mut notes =
            NoteIterator::<Header>::new(endian, segment.p_align(endian), contents(segment)?).ok()?;
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                return Some(note.desc().to_vec());
            }
        }
        None
    })
}

/// `FOLDER/ab/cdef…`.
pub(crate) fn build_id_path(folder: &Path, id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first()?;
    Some(folder.join(hexadecimal(&[*first])).join(hexadecimal(rest)))
}

/// Bytes as hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
