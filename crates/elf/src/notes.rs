//! Note sections: name, type and descriptor (gABI, "Note Section").

use zerocopy::byteorder::{ByteOrder, U32};

/// One note; its fields are slices of the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note<'a> {
    /// Name without its final NUL.
    pub name: &'a [u8],
    /// `NT_*`, in the name's own number space.
    pub kind: u32,
    /// Contents; their form depends on name and kind.
    pub descriptor: &'a [u8],
}

/// Walks the notes of a section whose entries are aligned to `align` (4 or 8) bytes. The walk ends at the
/// first note that does not fit.
pub fn notes<E: ByteOrder>(mut bytes: &[u8], align: usize) -> impl Iterator<Item = Note<'_>> {
    let align = if align == 8 { 8 } else { 4 };
    std::iter::from_fn(move || {
        let name_size = word::<E>(bytes, 0)? as usize;
        let descriptor_size = word::<E>(bytes, 4)? as usize;
        let kind = word::<E>(bytes, 8)?;
        let name = bytes.get(12..12usize.checked_add(name_size)?)?;
        let start = (12 + name_size).next_multiple_of(align);
        let end = start.checked_add(descriptor_size)?;
        let descriptor = bytes.get(start..end)?;
        bytes = bytes.get(end.next_multiple_of(align)..).unwrap_or(&[]);
        Some(Note { name: name.strip_suffix(b"\0").unwrap_or(name), kind, descriptor })
    })
}

fn word<E: ByteOrder>(bytes: &[u8], at: usize) -> Option<u32> {
    let field: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(U32::<E>::from_bytes(field).get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::byteorder::LittleEndian;

    #[test]
    fn walks_and_stops_at_the_truncated_one() {
        let mut bytes = vec![4, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0];
        bytes.extend(b"GNU\0abcde\0\0\0");
        bytes.extend([4, 0, 0, 0, 200, 0, 0, 0, 1, 0, 0, 0]);
        let all: Vec<_> = notes::<LittleEndian>(&bytes, 4).collect();
        assert_eq!(all, [Note { name: b"GNU", kind: 3, descriptor: b"abcde" }]);
    }
}
