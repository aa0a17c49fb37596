//! The table of functions that programs of Go carry for their own tracebacks, `.gopclntab`.
//!
//! It is loaded, so it is there when a program has been stripped of its symbols. `runtime/symtab.go` and
//! `debug/gosym` define it: a header, then offsets of parts from its start. The functions are pairs of a
//! start and of an offset to a record, and each record begins with the start once more and the offset of a
//! name. This module reads the forms of Go 1.16 and later, of 64-bit programs.

use crate::bytes::{Bytes, Reader};
use object::{Object, ObjectSection};
use sframe_format::Endian;

/// The first word of the table in Go 1.16, 1.18 and 1.20. Since 1.18, starts count from the start of the
/// code.
const GO_1_16: u32 = 0xffff_fffa;
const GO_1_18: u32 = 0xffff_fff0;
const GO_1_20: u32 = 0xffff_fff1;
/// Names of the section. The second is that of programs that can be loaded anywhere.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoFunction {
    pub start: u64,
    /// Where the next one starts.
    pub end: u64,
    /// The offset of its name.
    pub name: u32,
}

/// The functions of a program of Go.
pub struct GoTable {
    /// The names. A zero ends each.
    pub names: Bytes,
    pub functions: Vec<GoFunction>,
}

impl GoTable {
    /// Reads the table of a file. `None`: there is none, or it has another form.
    pub fn read(bytes: &Bytes) -> Option<Self> {
        let file = object::File::parse(&**bytes).ok().filter(Object::is_64)?;
        let section = SECTIONS.iter().find_map(|name| file.section_by_name(name))?;
        let text = file.section_by_name(".text").map_or(0, |text| text.address());
        let endian = if file.is_little_endian() { Endian::Little } else { Endian::Big };
        let table = Table { data: section.data().ok()?, endian };
        let header = table.header(text)?;
        let names = bytes.part(table.data.get(header.names..)?)?;
        Some(Self { names, functions: table.functions(&header)? })
    }
}

struct Table<'data> {
    data: &'data [u8],
    endian: Endian,
}

struct Header {
    /// Number of functions.
    count: usize,
    /// What starts count from.
    text: u64,
    /// Offset of the names.
    names: usize,
    /// Offset of the pairs.
    pairs: usize,
    /// Size of each word of a pair.
    word: usize,
}

impl<'data> Table<'data> {
    /// `text` is where the code starts. Newer programs do not repeat it in the header.
    fn header(&self, text: u64) -> Option<Header> {
        let mut reader = Reader::new(self.data, self.endian);
        let version = reader.u32()?;
        let [0, 0, _, 8] = reader.take(4)? else { return None };
        let relative = match version {
            GO_1_16 => false,
            GO_1_18 | GO_1_20 => true,
            _ => return None,
        };
        let (count, _files) = (usize::try_from(reader.u64()?).ok()?, reader.u64()?);
        let stated = if relative { reader.u64()? } else { 0 };
        let (names, _units, _paths, _steps) = (reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?);
        let text = if relative && stated == 0 { text } else { stated };
        let (names, pairs) = (usize::try_from(names).ok()?, usize::try_from(reader.u64()?).ok()?);
        Some(Header { count, text, names, pairs, word: if relative { 4 } else { 8 } })
    }

    /// The functions. The start of one more ends the last.
    fn functions(&self, header: &Header) -> Option<Vec<GoFunction>> {
        let records = self.data.get(header.pairs..)?;
        let size = header.count.checked_mul(2)?.checked_add(1)?.checked_mul(header.word)?;
        let mut reader = Reader::new(records.get(..size)?, self.endian);
        let mut word = || if header.word == 4 { reader.u32().map(u64::from) } else { reader.u64() };
        let mut functions = Vec::with_capacity(header.count);
        let mut start = header.text.wrapping_add(word()?);
        for _ in 0..header.count {
            let (record, end) = (usize::try_from(word()?).ok()?, header.text.wrapping_add(word()?));
            let name = self.name(records, record, header.word);
            functions.extend(name.map(|name| GoFunction { start, end, name }));
            start = end;
        }
        Some(functions)
    }

    /// The offset of the name in a record.
    fn name(&self, records: &[u8], record: usize, word: usize) -> Option<u32> {
        let mut reader = Reader::new(records.get(record..)?, self.endian);
        reader.take(word)?;
        reader.u32()
    }
}
