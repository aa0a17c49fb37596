//! `.shstrtab`: the names of the output sections.

use hashbrown::HashMap;

/// The string table of section names.
#[derive(Default, Debug)]
pub struct SectionNames {
    /// The offset of each name, by chunk.
    pub offsets: Vec<u32>,
    /// Contents of the section.
    pub bytes: Vec<u8>,
}

impl SectionNames {
    /// Lists names by chunk. Equal names are listed once.
    pub fn new<'a>(all: impl ExactSizeIterator<Item = &'a [u8]>) -> Self {
        let mut names = SectionNames { offsets: Vec::with_capacity(all.len()), bytes: vec![0] };
        let mut seen: HashMap<&[u8], u32, foldhash::fast::FixedState> = HashMap::default();
        for name in all {
            let bytes = &mut names.bytes;
            let offset = *seen.entry(name).or_insert_with(|| {
                let offset = bytes.len() as u32;
                bytes.extend_from_slice(name);
                bytes.push(0);
                offset
            });
            names.offsets.push(offset);
        }
        names
    }
}
