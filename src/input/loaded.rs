//! A shared library's tables as the dynamic linker finds them, for libraries without section headers
//! (`strip --strip-section-headers`, `-z nosectionheader`).
//!
//! `PT_DYNAMIC` lists the addresses of the tables, and `PT_LOAD` says where in the file an address is. Only
//! the string table has a size there. Symbols are as many as the hash table counts, because nobody could look
//! up others, and version tables are chains, which may go on to the end of their segment.

use super::object::Malformed;
use crate::elf::consts as elf;
use crate::elf::{Dyn, Ehdr, Phdr, Sym, table, whole_table};
use std::ops::Range;
use zerocopy::byteorder::{ByteOrder, U16, U32, U64};

/// The program headers of a library, and the file that they describe.
#[derive(Clone, Copy)]
pub struct Segments<'a, E: ByteOrder> {
    bytes: &'a [u8],
    headers: &'a [Phdr<E>],
}

/// The tables. A table that the library lacks is empty.
pub struct LoadedTables<'a, E: ByteOrder> {
    /// The dynamic section, up to the end of its segment.
    pub dynamic: &'a [Dyn<E>],
    /// The names that all other tables refer to.
    pub strings: &'a [u8],
    /// Dynamic symbols; row 0 is the null symbol.
    pub symbols: &'a [Sym<E>],
    /// The version word of each symbol.
    pub versions: &'a [U16<E>],
    /// Version definitions, and what follows them in the segment.
    pub definitions: &'a [u8],
    /// Needed versions, and what follows them in the segment.
    pub needed: &'a [u8],
}

impl<'a, E: ByteOrder> Segments<'a, E> {
    /// The segments that a file header names; none if they are not inside the file.
    pub fn of(bytes: &'a [u8], header: &Ehdr<E>) -> Self {
        let start = usize::try_from(header.e_phoff.get()).ok();
        let rest = start.and_then(|start| bytes.get(start..));
        let headers = rest.and_then(|rest| table(rest, header.e_phnum.get().into()));
        Segments { bytes, headers: headers.unwrap_or(&[]) }
    }

    /// The segment that is loaded to an address.
    pub fn at(&self, address: u64) -> Option<&'a Phdr<E>> {
        let covers = |segment: &&Phdr<E>| {
            segment.p_type.get() == elf::PT_LOAD
                && address.checked_sub(segment.p_vaddr.get()).is_some_and(|at| at < segment.p_memsz.get())
        };
        self.headers.iter().find(covers)
    }

    /// The bytes of the file from an address on, up to the end of the segment.
    pub fn bytes_at(&self, address: u64) -> Option<&'a [u8]> {
        let segment = self.at(address)?;
        let start = usize::try_from(segment.p_offset.get()).ok()?;
        let end = start.checked_add(usize::try_from(segment.p_filesz.get()).ok()?)?;
        let skipped = usize::try_from(address - segment.p_vaddr.get()).ok()?;
        self.bytes.get(start..end)?.get(skipped..).filter(|rest| !rest.is_empty())
    }

    /// The addresses that `PT_GNU_RELRO` covers. A file should have one such segment; dynamic linkers use the
    /// last one.
    pub fn relro(&self) -> Option<Range<u64>> {
        let relro = self.headers.iter().rfind(|segment| segment.p_type.get() == elf::PT_GNU_RELRO)?;
        let start = relro.p_vaddr.get();
        Some(start..start.saturating_add(relro.p_memsz.get()))
    }

    /// The tables that `PT_DYNAMIC` leads to; `None` without that segment. `hash_entry` is the size of a word
    /// of `DT_HASH` in bytes, which depends on the machine.
    ///
    /// # Errors
    /// A table is not in the bytes that a segment has in the file.
    pub fn tables(&self, hash_entry: u64) -> Result<Option<LoadedTables<'a, E>>, Malformed> {
        let segment = self.headers.iter().find(|segment| segment.p_type.get() == elf::PT_DYNAMIC);
        let Some(segment) = segment else { return Ok(None) };
        let dynamic: &[Dyn<E>] = whole_table(self.table_at("PT_DYNAMIC", segment.p_vaddr.get())?);
        let entries = dynamic.iter().take_while(|entry| entry.d_tag.get() != elf::DT_NULL as u64);
        let value = |tag: i64| entries.clone().find(|e| e.d_tag.get() == tag as u64).map(|e| e.d_val.get());
        let found = |name: &str, tag: i64| value(tag).map_or(Ok(&[][..]), |at| self.table_at(name, at));

        let strings = found("DT_STRTAB", elf::DT_STRTAB)?;
        let size = value(elf::DT_STRSZ).and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX);
        let count = match value(elf::DT_HASH) {
            Some(_) => rows_of_hash::<E>(found("DT_HASH", elf::DT_HASH)?, hash_entry),
            None => rows_of_gnu_hash::<E>(found("DT_GNU_HASH", elf::DT_GNU_HASH)?),
        };
        let (symbols, versions) = (found("DT_SYMTAB", elf::DT_SYMTAB)?, found("DT_VERSYM", elf::DT_VERSYM)?);
        let count = count.unwrap_or(0);
        Ok(Some(LoadedTables {
            dynamic,
            strings: &strings[..strings.len().min(size)],
            symbols: table(symbols, count).ok_or_else(|| self.too_many("symbols", symbols, count))?,
            versions: if versions.is_empty() {
                &[]
            } else {
                table(versions, count).ok_or_else(|| self.too_many("version words", versions, count))?
            },
            definitions: found("DT_VERDEF", elf::DT_VERDEF)?,
            needed: found("DT_VERNEED", elf::DT_VERNEED)?,
        }))
    }

    fn table_at(&self, name: &str, address: u64) -> Result<&'a [u8], Malformed> {
        self.bytes_at(address).ok_or_else(|| {
            let what = format!("{name} is at address {address:#x}, which no segment loads from this file");
            Malformed::at(0, what)
        })
    }

    fn too_many(&self, what: &str, table: &[u8], count: usize) -> Malformed {
        let offset = table.as_ptr().addr().saturating_sub(self.bytes.as_ptr().addr());
        let length = table.len();
        Malformed::at(
            offset as u64,
            format!(
                "the hash table counts {count} {what}; their segment ends {length:#x} bytes after the first"
            ),
        )
    }
}

/// The number of dynamic symbols in a `DT_HASH` table: its second word, the number of chains (gABI, "Hash
/// Table"). `None` if the table is cut short.
fn rows_of_hash<E: ByteOrder>(hash: &[u8], entry: u64) -> Option<usize> {
    if entry == 8 {
        usize::try_from(table::<U64<E>>(hash, 2)?[1].get()).ok()
    } else {
        Some(table::<U32<E>>(hash, 2)?[1].get() as usize)
    }
}

/// The number of dynamic symbols in a `DT_GNU_HASH` table. It has no such number: the last row is the end of
/// the chain that starts last. Rows below the first hashed one are counted, too. `None` if the table is cut
/// short.
fn rows_of_gnu_hash<E: ByteOrder>(hash: &[u8]) -> Option<usize> {
    let head = table::<U32<E>>(hash, 4)?;
    let [buckets, first, filter] = [0, 1, 2].map(|word| head[word].get() as usize);
    let rest = hash.get(16..)?.get(filter.checked_mul(8)?..)?;
    let last = table::<U32<E>>(rest, buckets)?.iter().map(|row| row.get() as usize).max().unwrap_or(0);
    let Some(start) = last.checked_sub(first) else { return Some(first) };
    let chains = whole_table::<U32<E>>(rest.get(buckets * 4..)?);
    let length = chains.get(start..)?.iter().position(|hash| hash.get() & 1 != 0)?;
    Some(last + length + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;
    use zerocopy::byteorder::LittleEndian;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn gnu_hash_counts_to_the_end_of_its_last_chain() {
        let rows = |of: &[u32]| rows_of_gnu_hash::<LittleEndian>(&words(of));
        // Two buckets, rows from 3 on, a filter of one word: chains 3, 4 and 5, 6, 7.
        let table = [2, 3, 1, 6, 0, 0, 3, 5, 10, 11, 12, 14, 17];
        assert_eq!(rows(&table), Some(8));
        for length in 0..table.len() {
            assert_eq!(rows(&table[..length]), None, "cut after {length} words");
        }
        assert_eq!(rows(&[1, 2, 1, 0, 0, 0, 0]), Some(2), "no row is hashed");
        assert_eq!(rows(&[u32::MAX, 1, u32::MAX, 0, 0]), None);
    }

    #[test]
    fn hash_has_words_of_the_machine() {
        assert_eq!(rows_of_hash::<LittleEndian>(&words(&[1, 7, 0]), 4), Some(7));
        assert_eq!(rows_of_hash::<LittleEndian>(&words(&[1, 0, 7, 0]), 8), Some(7));
        assert_eq!(rows_of_hash::<LittleEndian>(&words(&[1]), 4), None);
    }

    #[test]
    fn addresses_are_inside_the_bytes_of_a_segment() {
        let bytes = [7u8; 0x30];
        let mut header = Phdr::<LittleEndian>::new_zeroed();
        header.p_type.set(elf::PT_LOAD);
        header.p_vaddr.set(0x1000);
        header.p_offset.set(0x10);
        header.p_filesz.set(0x20);
        header.p_memsz.set(0x40);
        let headers = [header];
        let segments = Segments { bytes: &bytes, headers: &headers };
        let length = |address| segments.bytes_at(address).map(<[u8]>::len);
        assert_eq!((length(0x1000), length(0x101f)), (Some(0x20), Some(1)));
        assert_eq!((length(0xfff), length(0x1020), length(0x1040)), (None, None, None));
        assert!(segments.at(0x103f).is_some() && segments.at(0x1040).is_none());
        let past = [Phdr { p_filesz: 0x21.into(), ..header }];
        assert_eq!(Segments { bytes: &bytes, headers: &past }.bytes_at(0x1000), None);
    }
}
