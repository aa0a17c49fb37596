//! Recognises the kind of a file from its first bytes.

use object::elf;

/// The kind of an input file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// Relocatable ELF object.
    Object,
    /// ELF shared library.
    Shared,
    /// ELF file of another type (executable, core).
    OtherElf,
    /// ELF file of 32 bits.
    Elf32,
    /// ELF file that ends inside of its header.
    CutElf,
    /// Archive, `!<arch>`.
    Archive,
    /// Thin archive, `!<thin>`.
    ThinArchive,
    /// LLVM bitcode.
    Bitcode,
    /// Perhaps a linker script: no zero byte among the first 512.
    Text,
    /// A file without bytes.
    Empty,
    /// None of these kinds.
    Unknown,
}

/// Bytes of the header of an ELF file of 64 bits.
const HEADER: usize = 64;

/// The kind that the first bytes of a file show.
pub fn file_kind(bytes: &[u8]) -> FileKind {
    match bytes {
        [] => FileKind::Empty,
        _ if bytes.starts_with(&elf::ELFMAG) => elf_kind(bytes),
        _ if bytes.starts_with(b"!<arch>\n") => FileKind::Archive,
        _ if bytes.starts_with(b"!<thin>\n") => FileKind::ThinArchive,
        _ if bytes.starts_with(b"BC\xc0\xde") || bytes.starts_with(b"\xde\xc0\x17\x0b") => FileKind::Bitcode,
        _ if bytes[..bytes.len().min(512)].contains(&0) => FileKind::Unknown,
        _ => FileKind::Text,
    }
}

fn elf_kind(bytes: &[u8]) -> FileKind {
    if bytes.get(4) == Some(&elf::ELFCLASS32) {
        return FileKind::Elf32;
    }
    if bytes.len() < HEADER {
        return FileKind::CutElf;
    }
    let kind = &bytes[16..18];
    let kind = match bytes.get(5) {
        Some(&elf::ELFDATA2MSB) => u16::from_be_bytes([kind[0], kind[1]]),
        _ => u16::from_le_bytes([kind[0], kind[1]]),
    };
    match kind {
        elf::ET_REL => FileKind::Object,
        elf::ET_DYN => FileKind::Shared,
        _ => FileKind::OtherElf,
    }
}

/// `e_machine` and whether the file is big-endian; `None` if the header is cut short.
pub fn machine(bytes: &[u8]) -> Option<(u16, bool)> {
    let field = bytes.get(18..20)?;
    let big = *bytes.get(5)? == elf::ELFDATA2MSB;
    let word = [field[0], field[1]];
    Some((if big { u16::from_be_bytes(word) } else { u16::from_le_bytes(word) }, big))
}
