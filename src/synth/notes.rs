//! Notes that the linker makes (gABI, "Note Section").

use crate::arch::Target;
use zerocopy::byteorder::U32;

/// Note type of package metadata, in the name space `FDO` (systemd, "Package Metadata for
/// Executable Files").
pub const NT_FDO_PACKAGING_METADATA: u32 = 0xcafe_1a7e;

/// Offset of the descriptor of a note whose name has three letters, in bytes.
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
