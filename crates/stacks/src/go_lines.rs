//! Inlined functions and source lines of programs of Go, from their own table.
//!
//! The table has values that change from instruction to instruction: the number of the file, the line, and
//! the number of the call that was inlined there (`runtime/symtab.go`). Each is a list of pairs of LEB128
//! numbers: how the value changes, and for how many instructions it then holds. A function's list of inlined
//! calls is among other data, of which only the run time's description of the program says where they begin.

use crate::bytes::{Bytes, Reader};
use crate::go_table::{GoFunction, GoTable, Parts};
use crate::inlines::Line;
use object::{Object, ObjectSection, SectionFlags, elf};
use std::collections::HashMap;

/// The numbers of an inlined call among a function's values, and of their list among its data.
const CALL_NUMBER: usize = 2;
const CALLS: usize = 3;
/// Places in a record, behind its first word: values for the file and the line, the number of other values,
/// the first file of the unit. Since Go 1.20, what follows comes 4 bytes later: the number of data, values.
const FILE: usize = 16;
const LINE: usize = 20;
const VALUE_COUNT: usize = 24;
const UNIT: usize = 28;
const DATA_COUNT: usize = 35;
const VALUES: usize = 36;
/// The most calls that are inlined into one another.
const MAX_DEPTH: usize = 64;
/// The most changes of a value in one function.
const MAX_CHANGES: usize = 1 << 18;
/// Words of the run time's description (`moduledata`): the table, the code, and the data of functions, which
/// come two words later since Go 1.20.
const WORD_OF_CODE: u64 = 22;
const WORD_OF_DATA: u64 = 38;

/// What the table says of instructions.
pub struct GoLines {
    table: GoTable,
    /// The data of functions. `None`: their place is not known.
    data: Option<Bytes>,
}

impl GoLines {
    /// Reads a file. `None`: it has no such table.
    pub fn read(bytes: &Bytes) -> Option<Self> {
        let mut table = GoTable::read(bytes)?;
        table.functions.sort_unstable_by_key(|function| function.start);
        let data = data_of_functions(bytes, &table.parts);
        Some(Self { table, data })
    }

    /// The functions at an address, innermost first. The last one is the function of the table.
    pub fn at(&self, address: u64) -> Vec<Line> {
        let place = self.table.functions.partition_point(|function| function.start <= address);
        let function = place.checked_sub(1).map(|place| &self.table.functions[place]);
        let Some(function) = function.filter(|function| address < function.end) else { return Vec::new() };
        let (mut lines, mut pc) = (Vec::new(), address);
        while lines.len() < MAX_DEPTH {
            let place = self.place(function, pc);
            let call = self.call(function, pc);
            let name = call.map_or_else(|| self.table.name(function), |(name, _)| name);
            let name = String::from_utf8_lossy(name).into();
            lines.push(Line { function: Some(name), place });
            match call {
                Some((_, caller)) => pc = caller,
                None => break,
            }
        }
        lines
    }

    /// The source line of an instruction.
    fn place(&self, function: &GoFunction, pc: u64) -> Option<(String, u32)> {
        let parts = &self.table.parts;
        let file = self.value(function, self.field(function, FILE)?, pc)?;
        let line = self.value(function, self.field(function, LINE)?, pc)?;
        let number = self.field(function, UNIT)?.checked_add(file)?;
        let path = u32_at(&parts.units, parts, (number as usize).checked_mul(4)?)?;
        let path = parts.paths.get(path as usize..)?;
        let path = &path[..memchr::memchr(0, path)?];
        Some((String::from_utf8_lossy(path).into_owned(), line))
    }

    /// The call at an instruction that was inlined: the name of its function, and an instruction of the
    /// caller.
    fn call(&self, function: &GoFunction, pc: u64) -> Option<(&[u8], u64)> {
        let parts = &self.table.parts;
        let values = VALUES + if parts.newer { 4 } else { 0 };
        let count = self.field(function, VALUE_COUNT)? as usize;
        if count <= CALL_NUMBER || parts.word == 8 {
            return None;
        }
        let number = self.value(function, self.field(function, values + 4 * CALL_NUMBER)?, pc)?;
        let data_count = function.record.checked_add(parts.word + values - (VALUES - DATA_COUNT))?;
        if usize::from(*parts.records.get(data_count)?) <= CALLS {
            return None;
        }
        let calls = self.field(function, count.checked_add(CALLS)?.checked_mul(4)?.checked_add(values)?)?;
        let (size, name, caller) = if parts.newer { (16, 4, 8) } else { (20, 12, 16) };
        let entry = (number as usize).checked_mul(size)?.checked_add(calls as usize)?;
        let word = |at: usize| u32_at(self.data.as_deref()?, parts, entry.checked_add(at)?);
        let (name, caller) = (self.name(word(name)?)?, function.start.checked_add(word(caller)?.into())?);
        (caller < function.end && caller != pc).then_some((name, caller))
    }

    /// The name at an offset where one begins.
    fn name(&self, offset: u32) -> Option<&[u8]> {
        let names = &self.table.names;
        let before = (offset as usize).checked_sub(1).map_or(Some(&0), |before| names.get(before));
        let name = names.get(offset as usize..).filter(|_| before == Some(&0))?;
        let name = &name[..memchr::memchr(0, name)?];
        (!name.is_empty()).then_some(name)
    }

    /// A number of a function's record.
    fn field(&self, function: &GoFunction, at: usize) -> Option<u32> {
        let parts = &self.table.parts;
        u32_at(&parts.records, parts, function.record.checked_add(parts.word)?.checked_add(at)?)
    }

    /// The value at an instruction that begins at an offset. `None`: there is none, or it is less than 0.
    fn value(&self, function: &GoFunction, offset: u32, pc: u64) -> Option<u32> {
        let parts = &self.table.parts;
        let bytes = parts.steps.get(offset as usize..).filter(|_| offset > 0)?;
        let mut reader = Reader::new(bytes, parts.endian);
        let (mut value, mut end) = (-1_i32, function.start);
        for change in 0..MAX_CHANGES {
            let by = leb128(&mut reader)?;
            if by == 0 && change > 0 {
                return None;
            }
            value = value.wrapping_add((by >> 1).cast_signed() ^ -(by & 1).cast_signed());
            end = end.wrapping_add(u64::from(leb128(&mut reader)?).wrapping_mul(parts.quantum));
            if pc < end {
                return u32::try_from(value).ok();
            }
        }
        None
    }
}

fn u32_at(bytes: &[u8], parts: &Parts, at: usize) -> Option<u32> {
    Reader::new(bytes.get(at..)?, parts.endian).u32()
}

/// An unsigned number of at most 32 bits.
fn leb128(reader: &mut Reader<'_>) -> Option<u32> {
    let mut number = 0;
    for shift in (0..32).step_by(7) {
        let byte = *reader.take(1)?.first()?;
        number |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// The data of functions, which begin where the run time's description of the program says.
fn data_of_functions(bytes: &Bytes, parts: &Parts) -> Option<Bytes> {
    let file = object::File::parse(&**bytes).ok()?;
    let start = described(&file, parts).or_else(|| described_by_relocations(&file, parts))?;
    let section = file
        .sections()
        .find(|section| start.checked_sub(section.address()).is_some_and(|offset| offset < section.size()))?;
    let data = section.data().ok()?;
    bytes.part(data.get(usize::try_from(start - section.address()).ok()?..)?)
}

fn word_of_data(parts: &Parts) -> u64 {
    WORD_OF_DATA + if parts.newer { 2 } else { 0 }
}

/// Where the data of functions begin, by the words of a description.
fn described(file: &object::File<'_>, parts: &Parts) -> Option<u64> {
    let is_written =
        |flags| matches!(flags, SectionFlags::Elf { sh_flags } if sh_flags & u64::from(elf::SHF_WRITE) != 0);
    file.sections().filter(|section| is_written(section.flags())).find_map(|section| {
        let data = section.data().ok()?;
        let word = |at: usize| Reader::new(data.get(at..)?, parts.endian).u64();
        let code = 8 * WORD_OF_CODE as usize;
        let is_description = |at: &usize| {
            word(*at) == Some(parts.address) && at.checked_add(code).and_then(word) == Some(parts.text)
        };
        let at = (0..data.len()).step_by(8).find(is_description)?;
        word(at.checked_add(8 * word_of_data(parts) as usize)?)
    })
}

/// The same in a program that can be loaded anywhere, whose words are made by relocations.
fn described_by_relocations(file: &object::File<'_>, parts: &Parts) -> Option<u64> {
    let relocations = file.dynamic_relocations()?;
    let words: HashMap<u64, u64> =
        relocations.map(|(place, relocation)| (place, relocation.addend() as u64)).collect();
    let at = |place: u64, word: u64| words.get(&place.wrapping_add(8 * word)).copied();
    let is_description = |(place, word): &(&u64, &u64)| {
        **word == parts.address && at(**place, WORD_OF_CODE) == Some(parts.text)
    };
    let place = words.iter().filter(is_description).map(|(&place, _)| place).min()?;
    at(place, word_of_data(parts))
}

#[cfg(test)]
mod tests {
    use super::GoLines;
    use crate::bytes::Bytes;
    use std::path::Path;

    fn fixture(name: &str) -> Bytes {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        Bytes::open(&folder.join(name)).unwrap()
    }

    /// The functions and lines at an offset in the function of a fixture.
    fn lines(lines: &GoLines, offset: u64) -> Vec<String> {
        let found = lines.at(lines.table.functions[0].start + offset);
        let text = |line: &crate::inlines::Line| {
            let place = line.place.as_ref().map(|(file, line)| format!(" {file}:{line}"));
            format!("{}{}", line.function.as_deref().unwrap(), place.unwrap_or_default())
        };
        found.iter().map(text).collect()
    }

    #[test]
    fn inlined_calls_have_their_lines_and_those_of_their_callers() {
        for name in ["go_lines", "go_lines_old", "go_lines_moved"] {
            let own = GoLines::read(&fixture(name)).unwrap();
            let (inner, outer) = ("main.inner run.go:20", "main.run run.go:10");
            assert_eq!(lines(&own, 3), [outer], "{name}");
            assert_eq!(lines(&own, 4), [inner, outer], "{name}");
            assert_eq!(lines(&own, 11), ["main.innermost run.go:30", inner, outer], "{name}");
            assert_eq!(lines(&own, 31), ["main.run run.go:11"], "{name}");
            assert!(lines(&own, 32).is_empty(), "{name}");
        }
    }

    /// Without the data of functions, there are lines, but no inlined calls.
    #[test]
    fn a_program_that_does_not_describe_itself_has_lines() {
        let mut bytes = fixture("go_lines").to_vec();
        let own = GoLines::read(&fixture("go_lines")).unwrap();
        let description = [&own.table.parts.address.to_le_bytes()[..], &[0; 16]].concat();
        let place = memchr::memmem::rfind(&bytes, &description).unwrap();
        bytes[place] ^= 1;
        let found = GoLines::read(&bytes.into()).unwrap();
        assert!(found.data.is_none());
        assert_eq!(lines(&found, 11), ["main.run run.go:30"]);
    }

    /// Names begin behind the end of another one, and calls are inlined into the function itself.
    #[test]
    fn calls_that_cannot_be_are_left_out() {
        let whole = fixture("go_lines");
        let own = GoLines::read(&whole).unwrap();
        let calls = own.data.as_ref().unwrap().as_ptr().addr() - whole.as_ptr().addr() + 8;
        for (at, value) in [(4, 10), (4, 0xff), (8, 32), (8, 4)] {
            let mut bytes = whole.to_vec();
            bytes[calls + at] = value;
            let found = GoLines::read(&bytes.into()).unwrap();
            assert_eq!(lines(&found, 4), ["main.run run.go:20"], "{at} {value}");
        }
    }

    #[test]
    fn damaged_programs_are_read_to_an_end() {
        for name in ["go_lines", "go_lines_moved"] {
            let bytes = fixture(name);
            let start = GoLines::read(&bytes).unwrap().table.functions[0].start;
            for at in 0..bytes.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut damaged = bytes.to_vec();
                    damaged[at] = value;
                    if let Some(own) = GoLines::read(&damaged.into()) {
                        (start..start + 32).for_each(|pc| drop(own.at(pc)));
                    }
                }
            }
        }
    }
}
