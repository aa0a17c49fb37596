//! `.shstrtab`: names of the output sections.

use crate::layout::Chunk;
use hashbrown::HashMap;

/// The string table of section names.
#[derive(Default, Debug)]
pub struct SectionNames {
    /// By chunk: offset of its name.
    pub offsets: Vec<u32>,
    /// The table.
    pub bytes: Vec<u8>,
}

impl SectionNames {
    /// Lists the names of all output sections that have a header, equal ones once.
    pub fn new(chunks: &[Chunk<'_>]) -> Self {
        let mut names = SectionNames { offsets: Vec::with_capacity(chunks.len()), bytes: vec![0] };
        let mut seen: HashMap<&[u8], u32, foldhash::fast::FixedState> = HashMap::default();
        for chunk in chunks {
            if chunk.header_index == 0 {
                names.offsets.push(0);
                continue;
            }
            let bytes = &mut names.bytes;
            let offset = *seen.entry(chunk.name).or_insert_with(|| {
                let offset = bytes.len() as u32;
                bytes.extend_from_slice(chunk.name);
                bytes.push(0);
                offset
            });
            names.offsets.push(offset);
        }
        names
    }
}
