//! An edit of a file's sections: new contents for some, and additional sections.

use super::image::Image;
use super::room::Room;
use crate::Problem;
use elf::{Ehdr, Shdr, consts};
use std::collections::BTreeMap;
use std::ops::Range;
use zerocopy::IntoBytes;
use zerocopy::byteorder::{ByteOrder, U16, U32, U64};

/// Alignment of the section header table.
const TABLE_ALIGNMENT: u64 = 8;
/// The largest alignment that contents get in the file, even if a header asks for more.
const MAX_ALIGNMENT: u64 = 1 << 16;

/// Changes to the sections of a file. Callers may change headers as they like through [`Sections::headers`];
/// [`Sections::write`] fills in the sizes and offsets of new contents.
pub struct Sections<'image, 'data, E: ByteOrder> {
    image: &'image Image<'data, E>,
    /// Section headers by number; new ones come after those of the file.
    pub headers: Vec<Shdr<E>>,
    contents: BTreeMap<usize, Vec<u8>>,
}

impl<'image, 'data, E: ByteOrder> Sections<'image, 'data, E> {
    /// An edit that changes nothing yet.
    pub fn new(image: &'image Image<'data, E>) -> Self {
        Self { image, headers: image.sections.clone(), contents: BTreeMap::new() }
    }

    /// Gives a section other contents.
    pub fn replace(&mut self, index: usize, contents: Vec<u8>) {
        self.contents.insert(index, contents);
    }

    /// Adds a section. Returns its number.
    pub fn add(&mut self, header: Shdr<E>, contents: Vec<u8>) -> usize {
        let index = self.headers.len();
        self.headers.push(header);
        self.contents.insert(index, contents);
        index
    }

    /// The new contents of a section, if it has any.
    pub fn replaced(&self, index: usize) -> Option<&[u8]> {
        self.contents.get(&index).map(Vec::as_slice)
    }

    /// The offset of a name in the section name table. If the table does not contain the name, it grows.
    ///
    /// # Errors
    /// The file has no section name table.
    pub fn name(&mut self, name: &[u8]) -> Result<U32<E>, Problem> {
        let table = match self.replaced(self.image.names) {
            Some(table) => table,
            None => self.image.data(self.image.names)?,
        };
        let wanted = [name, &[0]].concat();
        let found = memchr::memmem::find(table, &wanted);
        let offset = found.unwrap_or(table.len());
        if found.is_none() {
            let table = [table, &wanted].concat();
            self.contents.insert(self.image.names, table);
        }
        let too_large = |_| self.image.problem("the section name table is larger than 4 GiB");
        Ok(U32::new(u32::try_from(offset).map_err(too_large)?))
    }

    /// The bytes of the changed file.
    pub fn write(mut self) -> Vec<u8> {
        let mut room = self.room();
        let mut out = self.image.bytes.to_vec();
        for free in room.free() {
            if let Some(bytes) = out.get_mut(free.start as usize..free.end as usize) {
                bytes.fill(0);
            }
        }
        out.truncate(room.end() as usize);
        for (&index, contents) in &self.contents {
            let Some(header) = self.headers.get_mut(index) else { continue };
            let offset = room.take(contents.len() as u64, header.sh_addralign.get().min(MAX_ALIGNMENT));
            header.sh_offset = U64::new(offset);
            header.sh_size = U64::new(contents.len() as u64);
            store(&mut out, offset, contents);
        }
        let table_size = size_of::<Shdr<E>>() * self.headers.len();
        let table_offset = room.take_at_end(table_size as u64, TABLE_ALIGNMENT);
        let mut header = self.image.header;
        header.e_shoff = U64::new(table_offset);
        count_sections(&mut header, &mut self.headers);
        store(&mut out, table_offset, self.headers.as_bytes());
        store(&mut out, 0, header.as_bytes());
        out
    }

    /// The room that replaced contents and the old section header table leave, then the end of the file.
    fn room(&self) -> Room {
        let image = self.image;
        let range = |offset: u64, size: usize| offset..offset.saturating_add(size as u64);
        let table = range(image.header.e_shoff.get(), size_of::<Shdr<E>>() * image.sections.len());
        let program_headers = range(image.header.e_phoff.get(), 56 * image.segments.len());
        let mut kept = vec![range(0, size_of::<Ehdr<E>>()), program_headers];
        let mut freed: Vec<Range<u64>> = vec![table];
        for (index, section) in image.sections.iter().enumerate() {
            if section.sh_type.get() != consts::SHT_NOBITS {
                let list = if self.contents.contains_key(&index) { &mut freed } else { &mut kept };
                list.push(range(section.sh_offset.get(), section.sh_size.get() as usize));
            }
        }
        kept.extend(image.segments.iter().map(|s| range(s.p_offset.get(), s.p_filesz.get() as usize)));
        Room::new(image.bytes.len() as u64, freed, kept)
    }
}

/// Writes the number of sections into the file header, or into section 0 if it is too large for that (gABI,
/// "ELF Header", `e_shnum`).
fn count_sections<E: ByteOrder>(header: &mut Ehdr<E>, sections: &mut [Shdr<E>]) {
    let count = sections.len();
    let fits = count < usize::from(consts::SHN_LORESERVE);
    header.e_shnum = U16::new(if fits { count as u16 } else { 0 });
    if let Some(first) = sections.first_mut() {
        first.sh_size = U64::new(if fits { 0 } else { count as u64 });
    }
}

/// Stores bytes at an offset. If the file is too short, it grows with zeros.
fn store(out: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let start = offset as usize;
    let end = start + bytes.len();
    if out.len() < end {
        out.resize(end, 0);
    }
    out[start..end].copy_from_slice(bytes);
}
