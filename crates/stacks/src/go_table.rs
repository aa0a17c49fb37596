//! The table of functions that programs of Go carry for their own tracebacks, `.gopclntab`.
//!
//! It is loaded, so it is there when a program has been stripped of its symbols. `runtime/symtab.go` and
//! `debug/gosym` define it: a header, then offsets of parts from its start. The functions are pairs of a
//! start and of an offset to a record, and each record begins with the start once more and the offset of a
//! name. This module reads the forms of Go 1.16 and later, of 64-bit programs.

use crate::bytes::{Bytes, Reader};
use object::{Object, ObjectSection};
use sframe_format::Endian;
use std::ops::Range;

/// The first word of the table in Go 1.16, 1.18 and 1.20. Since 1.18, starts count from the start of the
/// code.
const GO_1_16: u32 = 0xffff_fffa;
const GO_1_18: u32 = 0xffff_fff0;
const GO_1_20: u32 = 0xffff_fff1;
/// The flag of functions that write the stack pointer (`abi.FuncFlagSPWrite`), since Go 1.17.
const SWITCHES: u8 = 2;
/// Where flags are in a record, behind its first word; since Go 1.20, 4 bytes later.
const FLAGS: usize = 33;
/// Names of the section. The second is that of programs that can be loaded anywhere.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// Sections that only programs of Go have, and those in which other linkers place the table.
const MARKS: [&str; 2] = [".go.buildinfo", ".note.go.buildid"];
const SHARED: [&str; 2] = [".data.rel.ro", ".rodata"];
/// The most places where it may seem to begin.
const MAX_TRIES: usize = 8;
/// The table is aligned to this.
const ALIGNMENT: u64 = 32;
/// Where the header has the start of the code.
const TEXT_START: u64 = 24;

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoFunction {
    pub start: u64,
    /// Where the next one starts.
    pub end: u64,
    /// The offset of its name.
    pub name: u32,
    /// The offset of its record.
    pub record: usize,
    /// Whether it sets the stack pointer to something else than a place of its own stack.
    pub switches: bool,
}

/// The functions of a program of Go.
pub struct GoTable {
    /// The names. A zero ends each.
    pub names: Bytes,
    pub functions: Vec<GoFunction>,
    pub parts: Parts,
}

/// What the table says of the instructions of functions.
pub struct Parts {
    /// The records of functions.
    pub records: Bytes,
    /// The size of a word in a record, which begins with one.
    pub word: usize,
    /// Whether the records have the form of Go 1.20.
    pub newer: bool,
    /// For each file of a unit of code, the offset of its path.
    pub units: Bytes,
    /// The paths. A zero ends each.
    pub paths: Bytes,
    /// Values that change from instruction to instruction.
    pub steps: Bytes,
    /// What distances of instructions count.
    pub quantum: u64,
    /// The address of the table, and that of the code.
    pub address: u64,
    pub text: u64,
    pub endian: Endian,
}

impl GoTable {
    /// Reads the table of a file. `None`: there is none, or it has another form.
    pub fn read(bytes: &Bytes) -> Option<Self> {
        let file = object::File::parse(&**bytes).ok().filter(Object::is_64)?;
        let endian = if file.is_little_endian() { Endian::Little } else { Endian::Big };
        let (data, address) = section(&file).or_else(|| inside(&file, endian))?;
        let table = Table { data, endian };
        let header = table.header(|| start_of_code(&file, address))?;
        let functions = table.functions(&header)?;
        let part = |offset: u64| bytes.part(data.get(usize::try_from(offset).ok()?..)?);
        let [units, paths, steps] = header.others.map(|offset| part(offset).unwrap_or_default());
        let (records, names) = (part(header.pairs as u64)?, part(header.names as u64)?);
        let Header { word, newer, quantum, text, .. } = header;
        let parts = Parts { records, word, newer, units, paths, steps, quantum, address, text, endian };
        Some(Self { names, functions, parts })
    }

    /// The addresses of all functions.
    pub fn extent(&self) -> Range<u64> {
        let (first, last) = (self.functions.first(), self.functions.last());
        first.map_or(0, |first| first.start)..last.map_or(0, |last| last.end)
    }

    /// The name of a function.
    pub fn name(&self, function: &GoFunction) -> &[u8] {
        let name = self.names.get(function.name as usize..).unwrap_or_default();
        &name[..memchr::memchr(0, name).unwrap_or(name.len())]
    }
}

/// Whether a file is a program of Go, even if it has no table of functions that can be read.
pub fn is_of_go(bytes: &[u8]) -> bool {
    let file = object::File::parse(bytes);
    file.is_ok_and(|file| SECTIONS.iter().chain(&MARKS).any(|name| file.section_by_name(name).is_some()))
}

/// The section that holds nothing else.
fn section<'data>(file: &object::File<'data>) -> Option<(&'data [u8], u64)> {
    let section = SECTIONS.iter().find_map(|name| file.section_by_name(name))?;
    Some((section.data().ok()?, section.address()))
}

/// The table inside a larger section. Its end is not known.
fn inside<'data>(file: &object::File<'data>, endian: Endian) -> Option<(&'data [u8], u64)> {
    MARKS.iter().find_map(|name| file.section_by_name(name))?;
    SHARED.iter().find_map(|name| {
        let section = file.section_by_name(name)?;
        let (data, address) = (section.data().ok()?, section.address());
        let first = address.checked_next_multiple_of(ALIGNMENT)? - address;
        let places = (usize::try_from(first).ok()?..data.len()).step_by(ALIGNMENT as usize);
        let tables = places.map(|place| (&data[place..], address.wrapping_add(place as u64)));
        let headed = tables.filter_map(|(data, address)| {
            let table = Table { data, endian };
            let header = table.header(|| 0).filter(|header| header.count > 0)?;
            Some((table, header, address))
        });
        let whole = |(table, header, _): &(Table<'_>, Header, u64)| table.functions(header).is_some();
        headed.take(MAX_TRIES).find(whole).map(|(table, _, address)| (table.data, address))
    })
}

/// Where the code starts that the table at an address is of, if its header does not say so: in a program that
/// can be loaded anywhere, a relocation does, and newer versions leave it to the section.
fn start_of_code(file: &object::File<'_>, table: u64) -> u64 {
    let relocations = file.dynamic_relocations().into_iter().flatten();
    let mut starts = relocations.filter(|(place, _)| *place == table.wrapping_add(TEXT_START));
    let start = starts.next().map(|(_, relocation)| relocation.addend() as u64);
    start.unwrap_or_else(|| file.section_by_name(".text").map_or(0, |text| text.address()))
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
    /// Whether it is that of Go 1.20 or later, whose records have one more field.
    newer: bool,
    /// Offsets of the files of units, of their paths and of the values of instructions.
    others: [u64; 3],
    /// What distances of instructions count.
    quantum: u64,
}

impl<'data> Table<'data> {
    /// `text` is where the code starts if the header does not say so.
    fn header(&self, text: impl Fn() -> u64) -> Option<Header> {
        let mut reader = Reader::new(self.data, self.endian);
        let version = reader.u32()?;
        let [0, 0, quantum, 8] = *reader.take(4)? else { return None };
        let (relative, newer) = match version {
            GO_1_16 => (false, false),
            GO_1_18 => (true, false),
            GO_1_20 => (true, true),
            _ => return None,
        };
        let (count, _files) = (usize::try_from(reader.u64()?).ok()?, reader.u64()?);
        let stated = if relative { reader.u64()? } else { 0 };
        let (names, others) = (reader.u64()?, [reader.u64()?, reader.u64()?, reader.u64()?]);
        let text = if relative && stated == 0 { text() } else { stated };
        let (names, pairs) = (usize::try_from(names).ok()?, usize::try_from(reader.u64()?).ok()?);
        let (word, quantum) = (if relative { 4 } else { 8 }, quantum.into());
        Some(Header { count, text, names, pairs, word, newer, others, quantum })
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
            let named = self.name(records, record, header.word);
            let flags = record.saturating_add(header.word + FLAGS + if header.newer { 4 } else { 0 });
            let switches = records.get(flags).is_some_and(|flags| flags & SWITCHES != 0);
            functions.extend(named.map(|name| GoFunction { start, end, name, record, switches }));
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

#[cfg(test)]
mod tests {
    use super::{GoFunction, GoTable};
    use crate::bytes::Bytes;
    use object::{Object, ObjectSection};
    use std::path::Path;

    fn fixture() -> Bytes {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/go_table_moved");
        Bytes::open(&path).unwrap()
    }

    #[test]
    fn a_table_without_a_section_of_its_own_is_found() {
        let bytes = fixture();
        let file = object::File::parse(&*bytes).unwrap();
        let go = file.section_by_name(".text").unwrap().address().next_multiple_of(32) + 32;
        let table = GoTable::read(&bytes).unwrap();
        let read = |function: &GoFunction| {
            let GoFunction { start, end, switches, .. } = *function;
            (std::str::from_utf8(table.name(function)).unwrap().to_owned(), start..end, switches)
        };
        let found: Vec<_> = table.functions.iter().map(read).collect();
        let expected =
            [("main.first".into(), go..go + 32, true), ("main.second".into(), go + 32..go + 64, false)];
        assert_eq!(found, expected);
        assert_eq!(table.extent(), go..go + 64);
    }

    #[test]
    fn damaged_tables_are_read_to_an_end() {
        let bytes = fixture();
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = bytes.to_vec();
                damaged[at] = value;
                GoTable::read(&damaged.into());
            }
        }
    }
}
