//! Notes that the linker makes (gABI, "Note Section").

use super::synthesis::Synthesis;
use crate::arch::Target;
use crate::cli::{BuildId, MemoryTagMode};
use crate::elf::consts as elf;
use crate::tables::section::{Kind, READ_ONLY, SyntheticSection};
use zerocopy::byteorder::U32;

/// `.note.gnu.build-id`. Its bytes are written when all others have been written.
pub fn build_id<T: Target>() -> Synthesis<T> {
    Synthesis::fixed(|link| {
        let identifier = match &link.config.notes.build_id {
            BuildId::None => return None.into(),
            BuildId::Fast => vec![0; 8],
            BuildId::Md5 | BuildId::Uuid => vec![0; 16],
            BuildId::Sha1 => vec![0; 20],
            BuildId::Sha256 => vec![0; 32],
            BuildId::Hex(bytes) => bytes.clone(),
        };
        let bytes = encode::<T>(b"GNU", elf::NT_GNU_BUILD_ID, &identifier);
        Some(section(Kind::BuildIdNote, b".note.gnu.build-id", link.store.keep(bytes))).into()
    })
}

/// `.note.package`, with `--package-metadata`.
pub fn package<T: Target>() -> Synthesis<T> {
    Synthesis::fixed(|link| {
        let text = link.config.notes.package_metadata.as_ref();
        let Some(text) = text.filter(|_| !link.config.is_relocatable()) else { return None.into() };
        // Its size includes the padding, as in GNU ld and mold.
        let mut text = [&text[..], b"\0"].concat();
        text.resize(text.len().next_multiple_of(4), 0);
        let bytes = encode::<T>(b"FDO", NT_FDO_PACKAGING_METADATA, &text);
        Some(section(Kind::PackageNote, b".note.package", link.store.keep(bytes))).into()
    })
}

/// `.note.android.memtag`, with `--android-memtag-note`: the mode in two bits, then whether the heap and the
/// stacks are tagged (Android's C library, "elf.h").
pub fn memory_tags<T: Target>() -> Synthesis<T> {
    Synthesis::fixed(|link| {
        let tags = link.config.notes.memory_tags;
        let Some(mode) = tags.mode.filter(|_| tags.note && T::MEMORY_TAGS.is_some()) else {
            return None.into();
        };
        if link.config.is_relocatable() {
            return None.into();
        }
        let mode = match mode {
            MemoryTagMode::Asynchronous => 1,
            MemoryTagMode::Synchronous => 2,
        };
        let word = U32::<T::E>::new(mode | u32::from(tags.heap) << 2 | u32::from(tags.stack) << 3);
        let bytes = encode::<T>(b"Android", NT_ANDROID_TYPE_MEMTAG, &word.to_bytes());
        Some(section(Kind::MemoryTagNote, b".note.android.memtag", link.store.keep(bytes))).into()
    })
}

fn section<'a>(kind: Kind, name: &'static [u8], bytes: &'a [u8]) -> SyntheticSection<'a> {
    SyntheticSection::of_bytes(kind, name, elf::SHT_NOTE, READ_ONLY, 4, bytes)
}

/// The note type of package metadata, in the name space `FDO` (systemd, "Package Metadata for Executable
/// Files").
const NT_FDO_PACKAGING_METADATA: u32 = 0xcafe_1a7e;

/// The note type of memory tagging, in the name space `Android`.
const NT_ANDROID_TYPE_MEMTAG: u32 = 4;

/// The offset of the descriptor in a note whose name has three letters, in bytes.
pub const DESCRIPTOR_OFFSET: usize = 16;

/// A note with 4-byte alignment. `name` comes without its NUL.
pub fn encode<T: Target>(name: &[u8], kind: u32, descriptor: &[u8]) -> Vec<u8> {
    let word = |value: usize| U32::<T::E>::new(value as u32).to_bytes();
    let mut out = Vec::with_capacity(DESCRIPTOR_OFFSET + descriptor.len() + 4);
    out.extend(word(name.len() + 1));
    out.extend(word(descriptor.len()));
    out.extend(word(kind as usize));
    out.extend(name);
    out.push(0);
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend(descriptor);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::x86_64::X86_64;
    use crate::elf::notes::{Note, notes};
    use zerocopy::byteorder::LittleEndian;

    #[test]
    fn encoded_notes_read_back_the_same() {
        let bytes = encode::<X86_64>(b"GNU", 3, &[1, 2, 3, 4, 5]);
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(&bytes[DESCRIPTOR_OFFSET..][..5], [1, 2, 3, 4, 5]);
        let all: Vec<_> = notes::<LittleEndian>(&bytes, 4).collect();
        assert_eq!(all, [Note { name: b"GNU", kind: 3, descriptor: &[1, 2, 3, 4, 5] }]);
    }
}
