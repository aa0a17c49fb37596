//! Changes to an object's sections: other contents, or fewer bytes.
//!
//! An object's tables are views of its file, so a pass that wants other contents puts them into bytes that
//! the link owns ([`ObjectFile::made`]). Headers then name these, and later passes see an ordinary object.

use super::object::ObjectFile;
use super::store::InputStore;
use crate::elf::consts as elf;
use crate::elf::{Rela, Shdr, whole_table};
use zerocopy::IntoBytes;
use zerocopy::byteorder::ByteOrder;

/// An object's changed section headers, and the bytes with the new contents.
pub struct Edit<'a, E: ByteOrder> {
    headers: Vec<Shdr<E>>,
    made: Vec<u8>,
    /// Tables that are no `SHT_RELA` sections: the row in [`ObjectFile::implicit`], and its new relocations.
    implicit: Vec<(usize, &'a [Rela<E>])>,
    /// The header indices of sections with other contents.
    replaced: Vec<u32>,
}

impl<'a, E: ByteOrder> Edit<'a, E> {
    /// No change yet.
    pub fn new(object: &ObjectFile<'a, E>) -> Self {
        Edit {
            headers: object.headers.to_vec(),
            made: object.made.to_vec(),
            implicit: Vec::new(),
            replaced: Vec::new(),
        }
    }

    /// Gives a section other contents. Its header then names a place behind the end of the file.
    pub fn replace(&mut self, object: &ObjectFile<'a, E>, index: usize, contents: &[u8]) {
        self.headers[index].sh_offset.set(object.bytes.len() as u64 + self.made.len() as u64);
        self.headers[index].sh_size.set(contents.len() as u64);
        self.made.extend(contents);
        self.replaced.push(index as u32);
    }

    /// Leaves the first bytes of a section.
    pub fn truncate(&mut self, index: usize, size: u64) {
        self.headers[index].sh_size.set(size);
    }

    /// Gives a section other relocations.
    pub fn replace_relocations(
        &mut self,
        object: &ObjectFile<'a, E>,
        index: usize,
        relocations: &[Rela<E>],
        store: &'a InputStore,
    ) {
        match table(object, index) {
            Table::Explicit(table) => self.replace(object, table, relocations.as_bytes()),
            Table::Implicit(row) => {
                self.implicit.push((row, whole_table(store.keep(relocations.as_bytes()))));
            }
            Table::Missing => {}
        }
    }

    /// Leaves the first relocations of a section.
    pub fn truncate_relocations(&mut self, object: &ObjectFile<'a, E>, index: usize, count: usize) {
        match table(object, index) {
            Table::Explicit(table) => self.truncate(table, (count * size_of::<Rela<E>>()) as u64),
            Table::Implicit(row) => {
                let relocations = object.implicit[row].relocations;
                self.implicit.push((row, &relocations[..count.min(relocations.len())]));
            }
            Table::Missing => {}
        }
    }

    /// Carries the changes out.
    pub fn finish(mut self, object: &mut ObjectFile<'a, E>, store: &'a InputStore) {
        object.headers = whole_table(store.keep(self.headers.as_bytes()));
        if self.made.len() > object.made.len() {
            object.made = store.keep(self.made);
        }
        // A packed section that has other contents now is packed no more.
        self.replaced.sort_unstable();
        object.packed.retain(|packed| self.replaced.binary_search(&packed.section).is_err());
        for (row, relocations) in self.implicit {
            object.implicit[row].relocations = relocations;
        }
    }
}

/// Where the relocations of a section are.
enum Table {
    /// In the `SHT_RELA` section of this index.
    Explicit(usize),
    /// In this row of [`ObjectFile::implicit`].
    Implicit(usize),
    /// Nowhere.
    Missing,
}

fn table<E: ByteOrder>(object: &ObjectFile<'_, E>, index: usize) -> Table {
    let table = object.relocation_sections.get(index).map_or(0, |&table| table as usize);
    if table == 0 {
        Table::Missing
    } else if object.headers[table].sh_type.get() == elf::SHT_RELA {
        Table::Explicit(table)
    } else {
        let row = object.implicit.binary_search_by_key(&(table as u32), |implicit| implicit.section);
        row.map_or(Table::Missing, Table::Implicit)
    }
}
