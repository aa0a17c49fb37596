//! Finds the source line and the function of a place in an object, for error messages.
//!
//! The DWARF of an object is not relocated yet. This module relocates it, to addresses whose upper bits are
//! the header index of a section and whose lower bits are the offset in it. It reads an object only when an
//! error shows a place in it, and only once. If the debug information is broken, it finds no lines.

use super::ObjectFile;
use super::object::SymbolPlace;
use super::packed::{CompressedSection, Format, unpack};
use crate::diag::demangle::shown;
use crate::elf::consts as elf;
use crate::ids::FileId;
use gimli::{AttributeValue, EndianSlice, RunTimeEndian, SectionId};
use hashbrown::HashMap;
use object::read::elf::ElfFile64;
use object::{CompressionFormat, Endianness, Object, ObjectSection, ObjectSymbol, RelocationTarget};
use std::num::NonZeroU64;
use zerocopy::byteorder::ByteOrder;

/// At most this many objects are read for messages, so that thousands of errors do not take minutes.
const OBJECTS: usize = 64;
/// At most this many symbols are looked at to find the functions and variables around places.
const SYMBOLS: usize = 20_000_000;
/// How many bits of an address are the offset in its section.
const OFFSET_BITS: u32 = 40;

type Bytes<'d> = EndianSlice<'d, RunTimeEndian>;

/// The line of a message for `more` references beyond those that it shows.
pub fn referenced_more(more: u64) -> String {
    let times = if more == 1 { "time" } else { "times" };
    format!("referenced {more} more {times}")
}

/// What a message says of a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlaceRole {
    /// The place refers to a symbol.
    Referenced,
    /// The place defines a symbol.
    Defined,
}

impl PlaceRole {
    /// The words before the place.
    pub fn words(self) -> &'static str {
        match self {
            PlaceRole::Referenced => "referenced by",
            PlaceRole::Defined => "defined at",
        }
    }
}

/// The debug information of objects. Each object is read when a message first needs it.
#[derive(Default)]
pub struct SourceLines {
    objects: HashMap<FileId, Lines>,
    /// How many symbols were looked at.
    passed: usize,
}

impl SourceLines {
    /// The lines of a message about a place: what happens there, with the source line if debug information
    /// gives it; then the place in the object, and the function around it.
    pub fn notes<E: ByteOrder>(
        &mut self,
        deed: PlaceRole,
        object: &ObjectFile<'_, E>,
        section: u32,
        offset: u64,
        demangled: bool,
    ) -> Vec<String> {
        let mut place =
            format!("{}:({}+{offset:#x})", object.name, object.section_name_lossy(section as usize));
        if let Some(name) = self.function_around(object, section, offset) {
            place = format!("{place} in function {}", shown(name, demangled));
        }
        let words = deed.words();
        match self.find(deed, object, section, offset) {
            Some(source) => vec![format!("{words} {source}"), place],
            None => vec![format!("{words} {place}")],
        }
    }

    /// The function and the source line of a place that a message names already: `in function NAME at
    /// FILE:LINE`. `None`: neither is known.
    pub fn around<E: ByteOrder>(
        &mut self,
        object: &ObjectFile<'_, E>,
        section: u32,
        offset: u64,
        demangled: bool,
    ) -> Option<String> {
        let function = self.function_around(object, section, offset);
        let function = function.map(|name| format!("in function {}", shown(name, demangled)));
        let source = self.find(PlaceRole::Referenced, object, section, offset);
        let words: Vec<String> =
            function.into_iter().chain(source.map(|source| format!("at {source}"))).collect();
        (!words.is_empty()).then(|| words.join(" "))
    }

    /// `file:line (path:line)` of a place.
    fn find<E: ByteOrder>(
        &mut self,
        deed: PlaceRole,
        object: &ObjectFile<'_, E>,
        section: u32,
        offset: u64,
    ) -> Option<String> {
        if self.objects.len() >= OBJECTS && !self.objects.contains_key(&object.id) {
            return None;
        }
        self.objects.entry(object.id).or_insert_with(|| Lines::read(object.bytes).unwrap_or_default());
        let code = object.headers.get(section as usize)?.sh_flags.get() & elf::SHF_EXECINSTR != 0;
        let start = if code { offset } else { self.variable_around(object, section, offset)? };
        let lines = self.objects.get(&object.id)?;
        lines.find(address(section as usize, start)?, code, deed)
    }

    /// The function that holds a place.
    fn function_around<'a, E: ByteOrder>(
        &mut self,
        object: &ObjectFile<'a, E>,
        section: u32,
        offset: u64,
    ) -> Option<&'a [u8]> {
        let row = self.symbol_around(object, section, offset, elf::STT_FUNC)?;
        Some(object.symbol_name(row)).filter(|name| !name.is_empty())
    }

    /// The start of the variable that holds a place.
    fn variable_around<E: ByteOrder>(
        &mut self,
        object: &ObjectFile<'_, E>,
        section: u32,
        offset: u64,
    ) -> Option<u64> {
        let row = self.symbol_around(object, section, offset, elf::STT_OBJECT)?;
        Some(object.symbols[row].st_value.get())
    }

    fn symbol_around<E: ByteOrder>(
        &mut self,
        object: &ObjectFile<'_, E>,
        section: u32,
        offset: u64,
        kind: u8,
    ) -> Option<usize> {
        if self.passed > SYMBOLS {
            return None;
        }
        self.passed += object.symbols.len();
        (1..object.symbols.len()).find(|&row| {
            let symbol = &object.symbols[row];
            let start = symbol.st_value.get();
            symbol.st_info & 0xf == kind
                && start <= offset
                && (offset - start < symbol.st_size.get() || offset == start)
                && object.symbol_place(row) == SymbolPlace::Section(section)
        })
    }
}

fn address(section: usize, offset: u64) -> Option<u64> {
    let section = u64::try_from(section).ok()?.checked_add(1)?;
    (offset >> OFFSET_BITS == 0 && section >> (64 - OFFSET_BITS) == 0)
        .then_some(section << OFFSET_BITS | offset)
}

/// A line of code, from an address on. Line 0 ends the sequence before it.
#[derive(Clone, Copy)]
struct Row {
    address: u64,
    file: u32,
    line: u64,
}

/// The debug information of an object.
#[derive(Default)]
struct Lines {
    /// Sorted by address. At one address, an end comes before a start.
    rows: Vec<Row>,
    /// The declarations of variables: by address, the file and the line.
    variables: HashMap<u64, (u32, u64)>,
    files: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Lines {
    fn read(bytes: &[u8]) -> Option<Self> {
        let file = ElfFile64::<Endianness>::parse(bytes).ok()?;
        let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let loaded = gimli::DwarfSections::<Vec<u8>>::load(|id: SectionId| {
            Ok::<_, gimli::Error>(section_bytes(&file, id.name()).unwrap_or_default())
        });
        let loaded = loaded.ok()?;
        let dwarf = loaded.borrow(|section| EndianSlice::new(section, endian));
        let mut lines = Lines::default();
        let mut units = dwarf.units();
        while let Ok(Some(header)) = units.next() {
            let Ok(unit) = dwarf.unit(header) else { continue };
            // Rows before a broken one are still good.
            let _ = lines.read_rows(&dwarf, &unit);
            let _ = lines.read_variables(&dwarf, &unit);
        }
        lines.rows.sort_by_key(|row| (row.address, row.line != 0));
        Some(lines)
    }

    fn read_rows(
        &mut self,
        dwarf: &gimli::Dwarf<Bytes<'_>>,
        unit: &gimli::Unit<Bytes<'_>>,
    ) -> gimli::Result<()> {
        let Some(program) = unit.line_program.clone() else { return Ok(()) };
        let mut known: HashMap<u64, u32> = HashMap::new();
        let mut rows = program.rows();
        while let Some((header, row)) = rows.next_row()? {
            let index = row.file_index();
            let file = match known.get(&index) {
                Some(&file) => file,
                None => {
                    let file = self.file(dwarf, unit, header, index);
                    known.insert(index, file);
                    file
                }
            };
            let line = if row.end_sequence() { 0 } else { row.line().map_or(0, NonZeroU64::get) };
            self.rows.push(Row { address: row.address(), file, line });
        }
        Ok(())
    }

    /// Reads the variables of a unit that have a fixed address.
    fn read_variables(
        &mut self,
        dwarf: &gimli::Dwarf<Bytes<'_>>,
        unit: &gimli::Unit<Bytes<'_>>,
    ) -> gimli::Result<()> {
        let Some(program) = &unit.line_program else { return Ok(()) };
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            if entry.tag() != gimli::DW_TAG_variable {
                continue;
            }
            let Some(AttributeValue::Exprloc(place)) = entry.attr_value(gimli::DW_AT_location) else {
                continue;
            };
            let mut operations = place.operations(unit.encoding());
            let Ok(Some(gimli::Operation::Address { address })) = operations.next() else { continue };
            // If a variable is defined outside of its class, its declaration is elsewhere.
            let number = |name| entry.attr_value(name).and_then(|value| value.udata_value());
            let declared = match entry.attr_value(gimli::DW_AT_decl_file) {
                Some(AttributeValue::FileIndex(index)) => Some(index),
                value => value.and_then(|value| value.udata_value()),
            };
            if let (Some(index), Some(line)) = (declared, number(gimli::DW_AT_decl_line)) {
                let file = self.file(dwarf, unit, program.header(), index);
                self.variables.insert(address, (file, line));
            }
        }
        Ok(())
    }

    /// The number of file `index` of a line program: its row in the list of paths. A path consists of the
    /// folder in which the compiler ran, the file's folder and its name.
    fn file(
        &mut self,
        dwarf: &gimli::Dwarf<Bytes<'_>>,
        unit: &gimli::Unit<Bytes<'_>>,
        header: &gimli::LineProgramHeader<Bytes<'_>>,
        index: u64,
    ) -> u32 {
        let text = |value| dwarf.attr_string(unit, value).map(|text| text.to_string_lossy().into_owned());
        let mut path = String::new();
        if let Some(entry) = header.file(index) {
            path = text(entry.path_name()).unwrap_or_default();
            if let Some(folder) = entry.directory(header).and_then(|folder| text(folder).ok()) {
                path = joined(&folder, path);
            }
        }
        if let Some(folder) = unit.comp_dir {
            path = joined(&folder.to_string_lossy(), path);
        }
        let next = self.files.len() as u32;
        let files = &mut self.files;
        *self.numbers.entry(path).or_insert_with_key(|path| {
            files.push(path.clone());
            next
        })
    }

    fn find(&self, address: u64, code: bool, deed: PlaceRole) -> Option<String> {
        let (file, line) = if code {
            let next = self.rows.partition_point(|row| row.address <= address);
            let mut row = self.rows.get(next.checked_sub(1)?)?;
            if deed == PlaceRole::Defined {
                // A function begins at its first line, even if the compiler has moved other lines to its
                // first address.
                let begin = self.rows.partition_point(|row| row.address < address);
                row = self.rows[begin..next].iter().find(|row| row.line != 0).unwrap_or(row);
            }
            (row.address >> OFFSET_BITS == address >> OFFSET_BITS).then_some((row.file, row.line))?
        } else {
            *self.variables.get(&address)?
        };
        let path = self.files.get(file as usize).filter(|path| !path.is_empty() && line != 0)?;
        let name = path.rsplit('/').next().unwrap_or(path);
        Some(if name == path { format!("{name}:{line}") } else { format!("{name}:{line} ({path}:{line})") })
    }
}

/// A path in a folder.
fn joined(folder: &str, path: String) -> String {
    if path.starts_with('/') || folder.is_empty() || path.is_empty() {
        path
    } else {
        format!("{}/{}", folder.trim_end_matches('/'), path.trim_start_matches("./"))
    }
}

/// The unpacked and relocated contents of a debug section.
pub fn section_bytes(file: &ElfFile64<'_, Endianness>, name: &str) -> Option<Vec<u8>> {
    let section = file.section_by_name(name)?;
    let data = section.compressed_data().ok()?;
    let format = match data.format {
        CompressionFormat::Zlib => Some(Format::Zlib),
        CompressionFormat::Zstandard => Some(Format::Zstd),
        CompressionFormat::None => None,
        _ => return None,
    };
    let mut bytes = match format {
        None => data.data.to_vec(),
        Some(format) => {
            let size = data.uncompressed_size;
            let packed =
                CompressedSection { section: 0, format, packed: data.data, size, bytes: Default::default() };
            if !packed.is_plausible() {
                return None;
            }
            unpack(&packed).ok()?
        }
    };
    for (offset, relocation) in section.relocations() {
        if relocation.kind() == object::RelocationKind::Absolute {
            relocate(file, &mut bytes, offset, &relocation);
        }
    }
    Some(bytes)
}

/// Writes a field. It gets an address if it is wide enough for one, otherwise an offset in a section.
fn relocate(
    file: &ElfFile64<'_, Endianness>,
    bytes: &mut [u8],
    offset: u64,
    relocation: &object::Relocation,
) -> Option<()> {
    let RelocationTarget::Symbol(index) = relocation.target() else { return None };
    let symbol = file.symbol_by_index(index).ok()?;
    let value = symbol.address().wrapping_add_signed(relocation.addend());
    let start = usize::try_from(offset).ok()?;
    let width = usize::from(relocation.size() / 8);
    let field = bytes.get_mut(start..start.checked_add(width)?)?;
    let value = match (width, symbol.section_index()) {
        (8, Some(section)) if !is_debug(file, section) => address(section.0, value)?,
        _ => value,
    };
    match (file.is_little_endian(), width) {
        (true, 4 | 8) => field.copy_from_slice(&value.to_le_bytes()[..width]),
        (false, 4 | 8) => field.copy_from_slice(&value.to_be_bytes()[8 - width..]),
        _ => return None,
    }
    Some(())
}

/// Whether this is a debug section. Debug sections refer to each other by offsets, even in 64-bit DWARF.
fn is_debug(file: &ElfFile64<'_, Endianness>, section: object::SectionIndex) -> bool {
    let name = file.section_by_index(section).ok().and_then(|section| section.name_bytes().ok());
    name.is_some_and(|name| name.starts_with(b".debug_") || name.starts_with(b".zdebug_"))
}
