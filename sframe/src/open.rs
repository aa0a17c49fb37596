//! Reads the input files of the subcommands.
//!
//! Executables, shared libraries, relocatable objects, archives and raw sections all become an [`Input`]:
//! SFrame sections and call frame information that contain addresses, and names for these addresses. In a
//! relocatable object nothing has an address yet. So this module lays its sections out one after the other
//! and applies its relocations. Messages about such an object name sections and offsets, because its
//! addresses are made up.

use super::addends;
use super::places::{PlacedSection, Places, Symbol};
use super::segments::Segments;
use super::table_section::{self, TableSection};
use crate::ranges::joined;
use files::archive::ThinArchiveBytes;
use files::{InputSource, InputStore, SystemSource, open_regular};
use memmap2::Mmap;
use object::Endian as _;
use object::elf;
use object::read::archive::ArchiveFile;
use object::read::elf::{FileHeader, Rela, SectionHeader, SectionTable, Sym, SymbolTable};
use object::{Endianness, SectionIndex, SymbolIndex};
use sframe_format::compact::is_of_bolt;
use sframe_format::verify::Relocation;
use sframe_format::{Abi, BlobMut, PT_GNU_SFRAME, Section, compact};
use sframe_sections::is_sframe;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::io::Read;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// An input that cannot be used, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file name; for a member of an archive, with the member in parentheses.
    pub file: String,
    /// What was found, and what was expected.
    pub message: String,
}

impl Problem {
    /// A problem with a file.
    pub fn new(file: impl Into<String>, message: impl Into<String>) -> Self {
        Self { file: file.into(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.message)
    }
}

impl std::error::Error for Problem {}

/// The kinds of input files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The bytes of one section, without a file around them.
    Raw,
    /// `ET_REL`: this module assigns the addresses.
    Relocatable,
    /// An executable or a shared library.
    Linked,
}

/// A section with frame information; its relocations are applied.
#[derive(Clone, Debug)]
pub struct FrameSection<'data> {
    /// Its bytes.
    pub data: Cow<'data, [u8]>,
    /// Address of the first byte.
    pub address: u64,
}

/// An SFrame section.
#[derive(Clone, Debug)]
pub struct SFrameSection<'data> {
    /// Name.
    pub name: String,
    /// Its bytes; relocations are applied.
    pub data: Cow<'data, [u8]>,
    /// Its address; in a relocatable object, the one that this module gave it.
    pub address: u64,
    /// The relocations of a relocatable object, without `R_*_NONE`.
    pub relocations: Vec<Relocation>,
    /// Each relocation's offset in this section and its target, ascending.
    pub targets: Vec<(u64, Target)>,
    /// Whether this command made it from `.eh_frame` or a compact table. Then no file contains it.
    pub derived: bool,
}

/// The target of a relocation of an SFrame section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A place in a section of the object: section number, section name, offset.
    Place(usize, String, u64),
    /// A symbol that the object does not define.
    Undefined(String),
}

impl<'data> SFrameSection<'data> {
    /// The section in the form that readers of the format crate take.
    pub fn section(&self) -> Section<'_> {
        Section::new(&self.data, self.address)
    }

    /// Whether it contains units of the light form.
    pub fn is_light(&self) -> bool {
        self.section().blobs().next().is_some_and(|blob| blob.header().is_light())
    }

    /// Whether it contains the rows of a compact table, which says less than SFrame does.
    pub fn is_of_table(&self) -> bool {
        self.derived && table_section::is_name(&self.name)
    }

    /// The target of the relocation at an offset.
    pub fn target_at(&self, offset: usize) -> Option<&Target> {
        let at = self.targets.binary_search_by_key(&(offset as u64), |(at, _)| *at).ok()?;
        self.targets.get(at).map(|(_, target)| target)
    }
}

/// One ELF file, or one raw section.
#[derive(Clone, Debug)]
pub struct Input<'data> {
    /// File name, with the member in parentheses for archives.
    pub name: String,
    /// The kind of file.
    pub kind: Kind,
    /// The ABI that the ELF header names; `None` for raw sections.
    pub abi: Option<Abi>,
    /// Size of the file in bytes.
    pub size: u64,
    /// SFrame sections in the order of the section table.
    pub sframe: Vec<SFrameSection<'data>>,
    /// Compact tables of linked files.
    pub compact: Vec<TableSection<'data>>,
    /// `.eh_frame` sections.
    pub eh_frame: Vec<FrameSection<'data>>,
    /// `.eh_frame_hdr`.
    pub eh_frame_hdr: Option<FrameSection<'data>>,
    /// Address ranges of code, ascending and disjoint.
    pub text: Vec<Range<u64>>,
    /// Names for addresses.
    pub places: Places,
    /// Whether the file has a full symbol table (`SHT_SYMTAB`), and not only the dynamic one.
    pub has_symbol_table: bool,
    /// Whether BOLT has rewritten its code ([`is_of_bolt`]).
    pub is_rewritten: bool,
    /// An address after all addresses of the file, where a derived section may lie.
    pub free_address: u64,
}

impl Input<'_> {
    /// The bytes and the address of `.eh_frame_hdr` of a linked file.
    pub fn eh_frame_header(&self) -> Option<(&[u8], u64)> {
        let header = self.eh_frame_hdr.as_ref().filter(|_| self.kind == Kind::Linked)?;
        Some((&header.data, header.address))
    }

    /// Whether it has an SFrame section or a compact table.
    pub fn has_rows(&self) -> bool {
        !self.sframe.is_empty() || !self.compact.is_empty()
    }
}

/// Calls `visit` for a file, or for each ELF member of an archive. `-` is standard input: an ELF file, or the
/// bytes of a section at `raw_address`.
///
/// # Errors
/// The file cannot be read, or is none of these; any error of `visit`.
pub fn for_each_input(
    path: &Path,
    raw_address: u64,
    visit: &mut dyn FnMut(Input<'_>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let name = path.display().to_string();
    let unreadable = |error: std::io::Error| Problem::new(&*name, format!("cannot read: {error}"));
    if name == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map_err(unreadable)?;
        return if bytes.starts_with(&elf::ELFMAG) {
            visit(open_elf("<stdin>", &bytes)?)
        } else {
            visit(raw_section("<stdin>", &bytes, raw_address))
        };
    }
    let (file, metadata) = open_regular(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidInput | std::io::ErrorKind::IsADirectory => {
            Problem::new(&*name, "not a regular file")
        }
        _ => unreadable(error),
    })?;
    if metadata.len() == 0 {
        return Err(Problem::new(name, "the file is empty"));
    }
    // SAFETY: the mapping is private and read-only. If another process truncates the file meanwhile, the
    // command ends with a message (`input::lost`).
    let bytes = unsafe { Mmap::map(&file) }.map_err(unreadable)?;
    if bytes.starts_with(&object::archive::MAGIC) || bytes.starts_with(&object::archive::THIN_MAGIC) {
        open_archive(path, &name, &bytes, visit)
    } else if table_section::begins(&bytes) {
        visit(raw_section(&name, &bytes, raw_address))
    } else {
        visit(open_elf(&name, &bytes)?)
    }
}

fn open_archive(
    path: &Path,
    name: &str,
    bytes: &[u8],
    visit: &mut dyn FnMut(Input<'_>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let malformed = |error: object::read::Error| Problem::new(name, format!("malformed archive: {error}"));
    let archive = ArchiveFile::parse(bytes).map_err(malformed)?;
    let store = InputStore::default();
    let mut outside = ThinArchiveBytes::new(bytes.len());
    let mut read: HashMap<PathBuf, &[u8]> = HashMap::new();
    for member in archive.members() {
        let member = member.map_err(malformed)?;
        let short = String::from_utf8_lossy(member.name());
        let full = format!("{name}({short})");
        let data: &[u8] = if archive.is_thin() {
            let file = path.with_file_name(OsStr::from_bytes(member.name()));
            match read.get(&file) {
                Some(known) => {
                    outside.count_again(known.len()).map_err(|message| Problem::new(name, message))?;
                    known
                }
                None => {
                    let unreadable = |error| format!("cannot read {}: {error}", file.display());
                    let bytes =
                        SystemSource.read(&file).map_err(|error| Problem::new(&*full, unreadable(error)))?;
                    outside.count(bytes.len());
                    let kept = store.keep_file(bytes);
                    read.insert(file, kept);
                    kept
                }
            }
        } else {
            member.data(bytes).map_err(malformed)?
        };
        if data.starts_with(&elf::ELFMAG) {
            let mut copy = Vec::new();
            visit(open_elf(&full, aligned(data, &mut copy))?)?;
        }
    }
    Ok(())
}

/// Returns the bytes at an address that is aligned for ELF structures, in a copy if necessary. Members of
/// archives may start at any even address.
fn aligned<'data>(data: &'data [u8], copy: &'data mut Vec<u8>) -> &'data [u8] {
    if data.as_ptr().addr().is_multiple_of(8) {
        return data;
    }
    copy.reserve_exact(data.len() + 8);
    let start = copy.as_ptr().addr().next_multiple_of(8) - copy.as_ptr().addr();
    copy.resize(start, 0);
    copy.extend_from_slice(data);
    &copy[start..]
}

/// An input of the bytes of a section, without a file around them: SFrame or a compact table.
pub fn raw_section<'data>(name: &str, bytes: &'data [u8], address: u64) -> Input<'data> {
    let compact = TableSection::of_bytes(bytes, address);
    let section = SFrameSection {
        name: ".sframe".into(),
        data: Cow::Borrowed(bytes),
        address,
        relocations: Vec::new(),
        targets: Vec::new(),
        derived: false,
    };
    Input {
        name: name.into(),
        kind: Kind::Raw,
        abi: None,
        size: bytes.len() as u64,
        sframe: if compact.is_some() { Vec::new() } else { vec![section] },
        compact: compact.into_iter().collect(),
        eh_frame: Vec::new(),
        eh_frame_hdr: None,
        text: Vec::new(),
        places: Places::default(),
        has_symbol_table: false,
        is_rewritten: false,
        free_address: 0,
    }
}

type Header = elf::FileHeader64<Endianness>;
type Elf<'data> = SectionTable<'data, Header>;

/// Reads an ELF file.
///
/// # Errors
/// It is not an ELF file of a machine that SFrame is defined for, or it is malformed.
pub fn open_elf<'data>(name: &str, bytes: &'data [u8]) -> Result<Input<'data>, Problem> {
    let malformed = |error: object::read::Error| Problem::new(name, format!("malformed ELF file: {error}"));
    if !bytes.starts_with(&elf::ELFMAG) {
        return Err(Problem::new(name, "neither an ELF file nor an archive"));
    }
    if bytes.get(4) != Some(&elf::ELFCLASS64) {
        let message = "a 32-bit ELF file; SFrame is defined for 64-bit x86-64, AArch64 and s390x";
        return Err(Problem::new(name, message));
    }
    let header = Header::parse(bytes).map_err(malformed)?;
    let endian = header.endian().map_err(malformed)?;
    let machine = header.e_machine(endian);
    let abi = Abi::from_elf(machine, endian.is_big_endian()).ok_or_else(|| {
        let message = format!("ELF machine {machine}; SFrame is defined for x86-64, AArch64 and s390x");
        Problem::new(name, message)
    })?;
    let relocatable = header.e_type(endian) == elf::ET_REL;
    let sections = header.sections(endian, bytes).map_err(malformed)?;
    let mut relocation_sections: HashMap<usize, Vec<SectionIndex>> = HashMap::new();
    let mut without_addends = HashMap::new();
    for (index, section) in sections.enumerate() {
        let target = section.sh_info(endian) as usize;
        match section.sh_type(endian) {
            elf::SHT_RELA => relocation_sections.entry(target).or_default().push(index),
            elf::SHT_REL => drop(without_addends.insert(target, index)),
            _ => {}
        }
    }
    let reader =
        Reader { name, bytes, endian, abi, relocatable, sections, relocation_sections, without_addends };
    let mut input = reader.read()?;
    let segments = header.program_headers(endian, bytes).map_err(malformed)?;
    if !relocatable {
        add_segments(&mut input, &Segments { all: segments, bytes, endian });
    }
    Ok(input)
}

/// Adds to a linked file's input what no section header led to.
fn add_segments<'data>(input: &mut Input<'data>, segments: &Segments<'_, 'data>) {
    if input.sframe.is_empty() {
        let found = segments.of(PT_GNU_SFRAME);
        let raw = found.filter_map(|(data, at)| raw_section("PT_GNU_SFRAME", data, at).sframe.pop());
        input.sframe = raw.map(|section| SFrameSection { name: "PT_GNU_SFRAME".into(), ..section }).collect();
    }
    if input.compact.is_empty() {
        let tables = segments.of(compact::PT_SFRAME_UNWIND);
        input.compact.extend(tables.map(|(data, at)| TableSection::new(table_section::SEGMENT, data, at)));
    }
    if input.text.is_empty() {
        input.text = segments.code();
    }
    if input.eh_frame.is_empty()
        && let Some(frames) = segments.eh_frame()
    {
        let [header, frames] =
            frames.map(|(data, address)| FrameSection { data: Cow::Borrowed(data), address });
        input.eh_frame_hdr = Some(header);
        input.eh_frame.push(frames);
    }
}

/// Gap between sections of a relocatable object, so that the end of one section is not the start of the next.
const GAP: u64 = 16;

struct Reader<'a, 'data> {
    name: &'a str,
    bytes: &'data [u8],
    endian: Endianness,
    abi: Abi,
    relocatable: bool,
    sections: Elf<'data>,
    /// The relocation sections of each section that has one.
    relocation_sections: HashMap<usize, Vec<SectionIndex>>,
    /// For each section that has relocations without addends, the section that contains them.
    without_addends: HashMap<usize, SectionIndex>,
}

/// A relocation with its target.
struct Resolved {
    offset: u64,
    kind: u32,
    target: Target,
    address: Option<u64>,
}

impl<'data> Reader<'_, 'data> {
    fn malformed(&self, error: object::read::Error) -> Problem {
        Problem::new(self.name, format!("malformed ELF file: {error}"))
    }

    fn section_name(&self, section: &elf::SectionHeader64<Endianness>) -> String {
        let name = self.sections.section_name(self.endian, section).unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }

    fn read(&self) -> Result<Input<'data>, Problem> {
        let endian = self.endian;
        let addresses = self.addresses()?;
        let address_of = |index: SectionIndex| addresses.get(index.0).copied().flatten();
        let table = self.symbol_table()?;
        let mut input = Input {
            name: self.name.into(),
            kind: if self.relocatable { Kind::Relocatable } else { Kind::Linked },
            abi: Some(self.abi),
            size: self.bytes.len() as u64,
            sframe: Vec::new(),
            compact: Vec::new(),
            eh_frame: Vec::new(),
            eh_frame_hdr: None,
            text: Vec::new(),
            places: Places::default(),
            has_symbol_table: self.sections.iter().any(|s| s.sh_type(endian) == elf::SHT_SYMTAB),
            is_rewritten: self.sections.iter().any(|header| is_of_bolt(self.section_name(header).as_bytes())),
            free_address: 0,
        };
        let mut placed = Vec::new();
        for (index, header) in self.sections.enumerate() {
            let Some(address) = address_of(index) else { continue };
            let name = self.section_name(header);
            let kind = header.sh_type(endian);
            let size = header.sh_size(endian);
            input.free_address = input.free_address.max(address.saturating_add(size));
            if is_sframe(kind, name.as_bytes()) && size > 0 {
                input.sframe.push(self.sframe(index, header, address, name.clone(), &table, &addresses)?);
            } else if table_section::is_name(&name) && kind == elf::SHT_PROGBITS && !self.relocatable {
                input.compact.push(TableSection::new(&name, self.data(header)?, address));
            } else if self.is_eh_frame(&name) && kind != elf::SHT_NOBITS {
                input.eh_frame.push(self.eh_frame(index, header, address, &table, &addresses)?);
            } else if name == ".eh_frame_hdr" && kind != elf::SHT_NOBITS {
                input.eh_frame_hdr = Some(FrameSection { data: Cow::Borrowed(self.data(header)?), address });
            }
            if header.sh_flags(endian) & u64::from(elf::SHF_ALLOC) != 0 {
                let executable = header.sh_flags(endian) & u64::from(elf::SHF_EXECINSTR) != 0;
                placed.push(PlacedSection { index: index.0, name, address, size, executable });
            }
        }
        input.free_address = input.free_address.saturating_add(0xfff) & !0xfff;
        input.text = text_ranges(&placed);
        let symbols = self.symbols(&table, &addresses);
        input.places = Places::new(placed, symbols, self.relocatable);
        Ok(input)
    }

    /// Whether a section of this name contains call frame information. Objects may also have `.eh_frame.*`,
    /// which linkers put into `.eh_frame`.
    fn is_eh_frame(&self, name: &str) -> bool {
        name == ".eh_frame" || self.relocatable && name.starts_with(".eh_frame.")
    }

    /// The address of each section; `None` for sections that are not loaded and contain no frames.
    fn addresses(&self) -> Result<Vec<Option<u64>>, Problem> {
        let endian = self.endian;
        let wanted = |header: &elf::SectionHeader64<Endianness>| {
            let name = self.section_name(header);
            let alloc = header.sh_flags(endian) & u64::from(elf::SHF_ALLOC) != 0;
            // SFrame and `.eh_frame` need not be loaded; in kernels they are not.
            let frames = is_sframe(header.sh_type(endian), name.as_bytes()) || self.is_eh_frame(&name);
            let code = header.sh_flags(endian) & u64::from(elf::SHF_EXECINSTR) != 0;
            (alloc || frames, code || frames)
        };
        if !self.relocatable {
            let address = |header| wanted(header).0.then(|| header.sh_addr(endian));
            return Ok(self.sections.iter().map(address).collect());
        }
        // Code and frames come first. Otherwise large data could lie between them, out of reach for 32-bit
        // fields.
        let mut addresses = vec![None; self.sections.len()];
        let mut next = 0x1000u64;
        for first in [true, false] {
            for (index, header) in self.sections.enumerate() {
                let (placed, close) = wanted(header);
                if !placed || close != first {
                    continue;
                }
                let alignment = header.sh_addralign(endian).max(16);
                let end = next
                    .checked_next_multiple_of(alignment)
                    .and_then(|address| Some((address, address.checked_add(header.sh_size(endian))?)))
                    .and_then(|(address, end)| Some((address, end.checked_add(GAP)?)));
                let Some((address, end)) = end else {
                    let message = format!("section {} is too large", self.section_name(header));
                    return Err(Problem::new(self.name, message));
                };
                addresses[index.0] = Some(address);
                next = end;
            }
        }
        Ok(addresses)
    }

    fn symbol_table(&self) -> Result<SymbolTable<'data, Header>, Problem> {
        for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
            let table = self.sections.symbols(self.endian, self.bytes, kind);
            let table = table.map_err(|error| self.malformed(error))?;
            if !table.is_empty() {
                return Ok(table);
            }
        }
        Ok(SymbolTable::default())
    }

    fn symbols(&self, table: &SymbolTable<'data, Header>, addresses: &[Option<u64>]) -> Vec<Symbol> {
        let endian = self.endian;
        let symbol = |(index, symbol): (SymbolIndex, &elf::Sym64<Endianness>)| {
            if matches!(symbol.st_type(), elf::STT_SECTION | elf::STT_FILE | elf::STT_TLS) {
                return None;
            }
            let section = table.symbol_section(endian, symbol, index).ok()??;
            let base = addresses.get(section.0).copied().flatten()?;
            let name = table.symbol_name(endian, symbol).ok()?;
            // `$x` and `$d` only separate code from data (AArch64 ELF ABI, "Mapping symbols").
            if name.is_empty() || name.starts_with(b"$") {
                return None;
            }
            let value = symbol.st_value(endian);
            Some(Symbol {
                address: if self.relocatable { base.wrapping_add(value) } else { value },
                size: symbol.st_size(endian),
                name: String::from_utf8_lossy(name).into_owned(),
                function: matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC),
                global: symbol.st_bind() != elf::STB_LOCAL,
            })
        };
        table.enumerate().filter_map(symbol).collect()
    }

    /// The relocations of a section, ordered by offset.
    fn relocations(
        &self,
        index: SectionIndex,
        table: &SymbolTable<'data, Header>,
        addresses: &[Option<u64>],
    ) -> Result<Vec<Resolved>, Problem> {
        let endian = self.endian;
        if let Some(&found) = self.without_addends.get(&index.0) {
            let name = |index| self.sections.section(index).map(|header| self.section_name(header));
            let name = |index| name(index).map_err(|error| self.malformed(error));
            let message = format!("section {}: {}", name(found)?, addends::missing(&name(index)?));
            return Err(Problem::new(self.name, message));
        }
        let mut resolved = Vec::new();
        for &section in self.relocation_sections.get(&index.0).into_iter().flatten() {
            let header = self.sections.section(section).map_err(|error| self.malformed(error))?;
            let relocations = header.rela(endian, self.bytes).map_err(|error| self.malformed(error))?;
            for relocation in relocations.iter().flat_map(|(relocations, _)| relocations.iter()) {
                let (target, address) = self.resolve(relocation, table, addresses)?;
                let kind = relocation.r_type(endian, false);
                resolved.push(Resolved { offset: relocation.r_offset(endian), kind, target, address });
            }
        }
        resolved.sort_by_key(|relocation| relocation.offset);
        Ok(resolved)
    }

    /// The target of a relocation, as symbol and addend, and its address if the object defines it.
    fn resolve(
        &self,
        relocation: &elf::Rela64<Endianness>,
        table: &SymbolTable<'data, Header>,
        addresses: &[Option<u64>],
    ) -> Result<(Target, Option<u64>), Problem> {
        let endian = self.endian;
        let addend = relocation.r_addend(endian);
        let Some(index) = relocation.symbol(endian, false) else {
            return Ok((Target::Undefined(String::new()), None));
        };
        let symbol = table.symbol(index).map_err(|error| self.malformed(error))?;
        let name = table.symbol_name(endian, symbol).unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        let section = table.symbol_section(endian, symbol, index).map_err(|error| self.malformed(error))?;
        let Some(section) = section else { return Ok((Target::Undefined(name), None)) };
        let offset = symbol.st_value(endian).wrapping_add_signed(addend);
        let header = self.sections.section(section).map_err(|error| self.malformed(error))?;
        let address = addresses.get(section.0).copied().flatten().map(|base| base.wrapping_add(offset));
        Ok((Target::Place(section.0, self.section_name(header), offset), address))
    }

    fn data(&self, header: &elf::SectionHeader64<Endianness>) -> Result<&'data [u8], Problem> {
        header.data(self.endian, self.bytes).map_err(|error| {
            Problem::new(self.name, format!("section {}: {error}", self.section_name(header)))
        })
    }

    fn sframe(
        &self,
        index: SectionIndex,
        header: &elf::SectionHeader64<Endianness>,
        address: u64,
        name: String,
        table: &SymbolTable<'data, Header>,
        addresses: &[Option<u64>],
    ) -> Result<SFrameSection<'data>, Problem> {
        let stored = self.data(header)?;
        let mut section = SFrameSection {
            name,
            data: Cow::Borrowed(stored),
            address,
            relocations: Vec::new(),
            targets: Vec::new(),
            derived: false,
        };
        if !self.relocatable {
            return Ok(section);
        }
        let relocations = self.relocations(index, table, addresses)?;
        let starts: Vec<_> = relocations.iter().filter(|r| r.kind != 0).collect();
        section.relocations = starts.iter().map(|r| Relocation { offset: r.offset, kind: r.kind }).collect();
        section.targets = starts.iter().map(|r| (r.offset, r.target.clone())).collect();
        let mut data = stored.to_vec();
        let headers: Vec<_> = section
            .section()
            .blobs()
            .map(|blob| (blob.offset(), blob.data().len(), *blob.header()))
            .collect();
        for (offset, size, header) in headers {
            let Some(bytes) = data.get_mut(offset..) else { continue };
            let mut blob = BlobMut::with_header(header, bytes, address.wrapping_add(offset as u64));
            let own = |limit: usize| starts.partition_point(|relocation| relocation.offset < limit as u64);
            for relocation in &starts[own(offset)..own(offset + size)] {
                let fde =
                    (relocation.offset as usize).checked_sub(offset).and_then(|at| blob.header().fde_at(at));
                let (Some(fde), Some(target)) = (fde, relocation.address) else { continue };
                blob.set_function_start(fde, target)
                    .map_err(|error| Problem::new(self.name, format!("section {}: {error}", section.name)))?;
            }
        }
        section.data = Cow::Owned(data);
        Ok(section)
    }

    fn eh_frame(
        &self,
        index: SectionIndex,
        header: &elf::SectionHeader64<Endianness>,
        address: u64,
        table: &SymbolTable<'data, Header>,
        addresses: &[Option<u64>],
    ) -> Result<FrameSection<'data>, Problem> {
        let mut data = Cow::Borrowed(self.data(header)?);
        if self.relocatable {
            let bytes = data.to_mut();
            for relocation in self.relocations(index, table, addresses)? {
                let Some((width, relative)) = data_relocation(self.abi, relocation.kind) else { continue };
                // Undefined symbols are personality routines. No reader here needs their addresses.
                let value = relocation.address.unwrap_or(0);
                let place = address.wrapping_add(relocation.offset);
                let value = if relative { value.wrapping_sub(place) } else { value };
                let start = relocation.offset as usize;
                let field = start.checked_add(width).and_then(|end| bytes.get_mut(start..end));
                let Some(field) = field else { continue };
                match self.endian {
                    Endianness::Little => field.copy_from_slice(&value.to_le_bytes()[..width]),
                    Endianness::Big => field.copy_from_slice(&value.to_be_bytes()[8 - width..]),
                }
            }
        }
        Ok(FrameSection { data, address })
    }
}

/// The width in bytes of a relocation and whether it is PC-relative, for the types that assemblers put into
/// `.eh_frame` (x86-64, AArch64 and s390x psABI).
fn data_relocation(abi: Abi, kind: u32) -> Option<(usize, bool)> {
    match (abi, kind) {
        (Abi::Amd64, elf::R_X86_64_PC32) | (Abi::S390x, elf::R_390_PC32) => Some((4, true)),
        (Abi::Amd64, elf::R_X86_64_PC64) | (Abi::S390x, elf::R_390_PC64) => Some((8, true)),
        (Abi::Amd64, elf::R_X86_64_32 | elf::R_X86_64_32S) | (Abi::S390x, elf::R_390_32) => Some((4, false)),
        (Abi::Amd64, elf::R_X86_64_64) | (Abi::S390x, elf::R_390_64) => Some((8, false)),
        (abi, elf::R_AARCH64_PREL32) if abi.is_aarch64() => Some((4, true)),
        (abi, elf::R_AARCH64_PREL64) if abi.is_aarch64() => Some((8, true)),
        (abi, elf::R_AARCH64_ABS32) if abi.is_aarch64() => Some((4, false)),
        (abi, elf::R_AARCH64_ABS64) if abi.is_aarch64() => Some((8, false)),
        _ => None,
    }
}

/// The address ranges of code in ascending order; neighbours are joined.
fn text_ranges(sections: &[PlacedSection]) -> Vec<Range<u64>> {
    let code = sections.iter().filter(|section| section.executable && section.size > 0);
    joined(code.map(|section| section.address..section.address.saturating_add(section.size)).collect())
}
