//! Function descriptor entries (SFrame V1 and V2, "SFrame FDE"; V3, "SFrame Function Descriptor Entries").
//!
//! | version | start field | size | FRE location | rest |
//! |---|---|---|---|---|
//! | V1, 17 bytes | i32 at 0 | u32 at 4 | u32 at 8 | row count u32 at 12, info at 16 |
//! | V2, 20 bytes | i32 at 0 | u32 at 4 | u32 at 8 | as V1, repetition block u8 at 17, two zeros |
//! | V3, 16 bytes | i64 at 0 | u32 at 8 | u32 at 12 | 5-byte attribute in the FRE sub-section |

use crate::blob::Blob;

/// One entry of the FDE array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fde {
    /// Index in the array, counted from 0.
    pub index: u32,
    /// Offset of the entry from the start of the section. The entry begins with its start field, so a
    /// relocation for this FDE has the same offset.
    pub offset: usize,
    /// Width of the start field in bytes: 4 in V1 and V2, 8 in V3.
    pub start_width: u8,
    /// The start field as stored, sign-extended.
    pub raw_start: i64,
    /// Address of the function, decoded from the start field by version and flags. It means nothing in a
    /// relocatable object, where the field's relocation says which function it is.
    pub address: u64,
    /// Size of the function in bytes.
    pub size: u32,
    /// Offset of the rows from the start of the FRE sub-section. It leads to the first FRE in V1 and V2, and
    /// to the 5-byte attribute in front of it in V3. 0 in a [unit](crate::light).
    pub fre_offset: u32,
    /// Number of FREs, info byte and repetition block in V1 and V2. (V3 has them in the attribute.)
    pub(crate) inline: Option<(u32, u8, u8)>,
}

impl Fde {
    #[inline]
    pub(crate) fn read(blob: &Blob<'_>, index: u32) -> Option<Self> {
        let header = blob.header();
        let (endian, version) = (header.endian, header.version);
        if index >= header.fde_count {
            return None;
        }
        let position = index as usize * header.fde_size();
        let entry = blob.fde_bytes().get(position..position + header.fde_size())?;
        let wide = version.start_width() == 8;
        let raw_start = if wide { endian.read_i64(entry, 0)? } else { i64::from(endian.read_i32(entry, 0)?) };
        let rest = usize::from(version.start_width());
        let inline = if wide {
            None
        } else {
            let repeat = entry.get(17).copied().unwrap_or(header.abi.v1_repeat_size());
            Some((endian.read_u32(entry, 12)?, *entry.get(16)?, repeat))
        };
        Some(Self {
            index,
            offset: blob.offset() + header.fde_array().start + position,
            start_width: version.start_width(),
            raw_start,
            address: blob.decode_start(raw_start, index),
            size: endian.read_u32(entry, rest)?,
            fre_offset: if header.is_light() { 0 } else { endian.read_u32(entry, rest + 4)? },
            inline,
        })
    }
}

impl<'data> Blob<'data> {
    /// The FDEs in the order of the array.
    pub fn fdes(&self) -> Fdes<'data> {
        Fdes::new(*self)
    }

    /// FDE `index`, counted from 0, or `None` past the end of the array.
    #[inline]
    pub fn fde(&self, index: u32) -> Option<Fde> {
        Fde::read(self, index)
    }
}

/// Iterator over the [FDEs](Blob::fdes) of a blob.
#[derive(Clone, Debug)]
pub struct Fdes<'data> {
    blob: Blob<'data>,
    next: u32,
}

impl<'data> Fdes<'data> {
    pub(crate) fn new(blob: Blob<'data>) -> Self {
        Self { blob, next: 0 }
    }
}

impl Iterator for Fdes<'_> {
    type Item = Fde;

    fn next(&mut self) -> Option<Fde> {
        let fde = Fde::read(&self.blob, self.next)?;
        self.next += 1;
        Some(fde)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.blob.header().fde_count - self.next) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Fdes<'_> {}
