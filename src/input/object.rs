//! An object file: views of its tables, and the ids that its symbols and sections have.
//!
//! Parsing checks only what every later pass relies on: headers inside the file, one symbol table, string
//! tables that end. A pass that needs the contents of a section looks at them then. An archive member that is
//! never extracted is parsed this far and no further.

use super::measure::Budget;
use super::packed::CompressedSection;
use super::usage::SymbolUse;
use crate::arch::machine::SHN_LARGE_COMMON;
use crate::diag::words::shown;
use crate::elf::consts as elf;
use crate::elf::{Ehdr, Rela, Shdr, Sym, string_at, table, whole_table};
use crate::ids::{FileId, SectionId, SymbolId};
use std::fmt;
use zerocopy::FromBytes;
use zerocopy::byteorder::{ByteOrder, U32};

/// The name of a file in messages: `path` or `archive(member)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileName<'a> {
    /// The path as it was found.
    pub path: &'a str,
    /// The name of the archive member, if the path is that of an archive.
    pub member: Option<&'a str>,
}

impl fmt::Display for FileName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.member {
            Some(member) => write!(f, "{}({member})", self.path),
            None => f.write_str(self.path),
        }
    }
}

/// An error in a file's structure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// What was found, and what was expected.
    pub what: String,
    /// The offset in the file, in bytes.
    pub offset: u64,
}

impl Malformed {
    /// An error at an offset in the file.
    pub fn at(offset: u64, what: impl Into<String>) -> Self {
        Malformed { what: what.into(), offset }
    }

    /// The error that these parts of a file use the same bytes more often than any compiler makes them do.
    pub fn overlap(what: &str) -> Self {
        Malformed::at(0, format!("the {what} overlap beyond measure"))
    }
}

/// The place of a symbol's definition in an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SymbolPlace {
    /// The object does not define it.
    Undefined,
    /// It is in the section with this header index.
    Section(u32),
    /// It is an absolute value, in no section.
    Absolute,
    /// It is a common block.
    Common,
}

/// The first section type that means something to one application alone (`SHT_LOUSER`). The linker cannot
/// know whether such sections may be joined and moved.
const FIRST_OF_APPLICATIONS: u32 = 0x8000_0000;

/// Intermediate code of a compiler in an object (link-time optimization).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Intermediate {
    /// None.
    #[default]
    No,
    /// Intermediate code beside machine code, which can be linked instead (`-ffat-lto-objects`).
    Beside,
    /// Intermediate code without machine code.
    Only,
}

/// A definition `name@@VERSION` or `name@VERSION` of an object (`.symver`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionedSymbol<'a> {
    /// Index in the object's symbol table.
    pub symbol: u32,
    /// The version's name.
    pub version: &'a [u8],
    /// Whether it has `@@`, so that plain references bind to this version.
    pub default: bool,
}

/// Relocations of an `SHT_REL` or `SHT_CREL` section, as `SHT_RELA` entries.
#[derive(Clone, Copy, Debug)]
pub struct ImplicitTable<'a, E: ByteOrder> {
    /// Header index of the `SHT_REL` or `SHT_CREL` section.
    pub section: u32,
    /// Its relocations, with their addends.
    pub relocations: &'a [Rela<E>],
    /// Whether the addends were in the fields that are relocated.
    pub from_places: bool,
}

/// One relocatable object. The tables are views of the file.
#[derive(Clone)]
pub struct ObjectFile<'a, E: ByteOrder> {
    /// Its name, for messages.
    pub name: FileName<'a>,
    /// The whole file (or member).
    pub bytes: &'a [u8],
    /// Contents that the linker made for sections of this object (parts of [`crate::sframe::split`], reversed
    /// arrays). Headers name them by offsets that count on from the end of `bytes`.
    pub made: &'a [u8],
    /// `e_flags`.
    pub flags: u32,
    /// Section headers; row 0 is the null section.
    pub headers: &'a [Shdr<E>],
    /// Section name table.
    pub section_names: &'a [u8],
    /// Symbols; row 0 is the null symbol.
    pub symbols: &'a [Sym<E>],
    /// Symbol name table.
    pub symbol_names: &'a [u8],
    /// Section header index of the symbol table, 0 if there is none.
    pub symtab_index: u32,
    /// `SHT_SYMTAB_SHNDX`: section indices of symbols with `SHN_XINDEX`.
    pub extended: &'a [U32<E>],
    /// Index of the first symbol that is not local.
    pub first_global: u32,
    /// For each section header: the index of the `SHT_RELA`, `SHT_REL` or `SHT_CREL` section that
    /// applies to it, 0 if none.
    pub relocation_sections: Vec<u32>,
    /// `SHT_LLVM_DEPENDENT_LIBRARIES` sections: names of libraries, each with a zero at its end.
    pub dependent_libraries: Vec<u32>,
    /// The relocations of `SHT_REL` and `SHT_CREL` sections as entries with addends, ascending by section.
    /// [`super::implicit::read`] fills it.
    pub implicit: Vec<ImplicitTable<'a, E>>,
    /// Its SFrame inputs ([`super::sframe::is_input`]), ascending.
    pub sframes: Vec<u32>,
    /// The sections that passes look for by type or name ([`super::section_class::is_special`]), ascending.
    pub special: Vec<u32>,
    /// Section header index of the call graph profile ([`super::call_graph`]), 0 if there is none.
    pub profile: u32,
    /// Its number in the link; [`FileId::NONE`] until the file is known to take part.
    pub id: FileId,
    /// [`SectionId`] of section header 0.
    pub first_section: u32,
    /// [`SymbolId`] of symbol 0. The other local symbols follow.
    pub first_local: u32,
    /// For each symbol from `first_global` on: the global of its name.
    pub globals: Vec<SymbolId>,
    /// For each of these symbols: what the object does with that name.
    pub usages: Vec<SymbolUse>,
    /// The symbols with a version of their own, in the order of the symbol table.
    pub versioned: Vec<VersionedSymbol<'a>>,
    /// The compressed sections, ascending. [`ObjectFile::headers`] has their unpacked type, size and
    /// alignment.
    pub packed: Vec<CompressedSection<'a>>,
    /// `--just-symbols`: its contents are not linked, and all its definitions are absolute.
    pub just_symbols: bool,
    /// Whether `--exclude-libs` applies, so that its definitions are not exported.
    pub hide_symbols: bool,
    /// Its intermediate code, if it has any.
    pub intermediate: Intermediate,
}

impl<'a, E: ByteOrder> ObjectFile<'a, E> {
    /// Parses the headers and the symbol table.
    ///
    /// # Errors
    /// The first error in the file's structure.
    pub fn parse(name: FileName<'a>, bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (ehdr, headers) = section_headers::<E>(bytes)?;
        let mut object = ObjectFile {
            name,
            bytes,
            made: &[],
            flags: ehdr.e_flags.get(),
            headers,
            section_names: section_name_table(bytes, ehdr, headers)?,
            symbols: &[],
            symbol_names: &[],
            symtab_index: 0,
            extended: &[],
            first_global: 0,
            relocation_sections: Vec::new(),
            dependent_libraries: Vec::new(),
            implicit: Vec::new(),
            sframes: Vec::new(),
            special: Vec::new(),
            profile: 0,
            id: FileId::NONE,
            first_section: 0,
            first_local: 0,
            globals: Vec::new(),
            usages: Vec::new(),
            versioned: Vec::new(),
            packed: Vec::new(),
            just_symbols: false,
            hide_symbols: false,
            intermediate: Intermediate::No,
        };
        object.read_symbol_table()?;
        Ok(object)
    }

    /// Refuses an object whose section names overlap too often (see [`super::measure`]). The linker checks
    /// this only for objects that take part in the link, before any pass goes through their sections.
    ///
    /// # Errors
    /// The names have more bytes than the name table and the headers may stand for.
    pub fn check_section_names(&self) -> Result<(), Malformed> {
        let table = self.section_names.len() as u64;
        let measure = || Budget::of(table + size_of_val(self.headers) as u64);
        // With few sections or a small name table, the names cannot be too long, whatever they are. Then no
        // name need be read to its end.
        if measure().take((self.headers.len() as u64).saturating_mul(table)).is_ok() {
            return Ok(());
        }
        let mut measure = measure();
        (0..self.headers.len()).try_for_each(|index| {
            let name = self.section_name(index).len() as u64;
            measure.take(name).map_err(|_| Malformed::overlap("names of its sections"))
        })
    }

    fn read_symbol_table(&mut self) -> Result<(), Malformed> {
        let mut total = SectionBytes::of(self.bytes);
        for (index, header) in self.headers.iter().enumerate().skip(1) {
            match header.sh_type.get() {
                elf::SHT_SYMTAB if self.symtab_index != 0 => {
                    return Err(Malformed::at(
                        header.sh_offset.get(),
                        format!("sections {} and {index} are both symbol tables", self.symtab_index),
                    ));
                }
                elf::SHT_SYMTAB => self.symtab_index = index as u32,
                elf::SHT_SYMTAB_SHNDX => self.extended = whole_table(self.section_bytes(index)?),
                SHT_LLVM_DEPENDENT_LIBRARIES => self.dependent_libraries.push(index as u32),
                _ => {}
            }
            total.count(header)?;
            // Sections that are only for compilers are rare. The names of all others need not be read.
            if header.sh_flags.get() & elf::SHF_EXCLUDE != 0 && self.is_intermediate(index) {
                self.intermediate = Intermediate::Beside;
            }
        }
        if self.symtab_index == 0 {
            return Ok(());
        }
        let header = &self.headers[self.symtab_index as usize];
        self.symbols = whole_table(self.section_bytes(self.symtab_index as usize)?);
        let names = header.sh_link.get() as usize;
        if names == 0 || names >= self.headers.len() {
            return Err(Malformed::at(
                header.sh_offset.get(),
                format!("the symbol table's string table is section {names}, which does not exist"),
            ));
        }
        self.symbol_names = self.section_bytes(names)?;
        self.first_global = header.sh_info.get();
        if self.first_global as usize > self.symbols.len() {
            return Err(Malformed::at(
                header.sh_offset.get(),
                format!(
                    "the symbol table has {} symbols and says that the first global is number {}",
                    self.symbols.len(),
                    self.first_global
                ),
            ));
        }
        Ok(())
    }

    /// Whether a section holds intermediate code: gcc's, or clang's (`-ffat-lto-objects`).
    fn is_intermediate(&self, index: usize) -> bool {
        self.section_name_begins(index, b".gnu.lto_") || self.section_name_begins(index, b".llvm.lto\0")
    }

    /// Finds for each section the relocation section that applies to it. The linker does this only for
    /// objects that take part in the link. Returns whether some of them are not `SHT_RELA`, so that
    /// [`super::implicit::read`] must read them.
    ///
    /// # Errors
    /// Two relocation sections for one section, `SHT_RELR` (which no ABI of the three architectures has
    /// in objects), relocations for a section that does not exist, and a loaded section of an application's
    /// own type.
    pub fn index_relocation_sections(&mut self) -> Result<bool, Malformed> {
        self.relocation_sections = vec![0; self.headers.len()];
        let mut implicit = false;
        for (index, header) in self.headers.iter().enumerate().skip(1) {
            let offset = header.sh_offset.get();
            let kind = header.sh_type.get();
            match kind {
                elf::SHT_RELA | elf::SHT_REL | SHT_CREL => {}
                elf::SHT_RELR => {
                    let name = self.section_name_lossy(index);
                    let finding = format!(
                        "section {name} is of type SHT_RELR (relative relocations), which objects of this machine do not use; \
                         expected SHT_RELA, SHT_REL or SHT_CREL"
                    );
                    return Err(Malformed::at(offset, finding));
                }
                FIRST_OF_APPLICATIONS.. if header.sh_flags.get() & elf::SHF_ALLOC != 0 => {
                    let name = self.section_name_lossy(index);
                    let finding = format!(
                        "section {name} is loaded and of type {kind:#x}, which has a meaning for one application alone; \
                         expected a type of the ABI, or a section that is not loaded"
                    );
                    return Err(Malformed::at(offset, finding));
                }
                _ => continue,
            }
            implicit |= kind != elf::SHT_RELA;
            let target = header.sh_info.get() as usize;
            if target == 0 && header.sh_flags.get() & elf::SHF_ALLOC != 0 {
                continue;
            }
            match self.relocation_sections.get_mut(target) {
                Some(slot) if *slot == 0 => *slot = index as u32,
                Some(&mut first) => {
                    return Err(Malformed::at(
                        offset,
                        format!(
                            "sections {first} and {index} both hold relocations for {}",
                            self.section_name_lossy(target)
                        ),
                    ));
                }
                None => {
                    return Err(Malformed::at(
                        offset,
                        format!(
                            "relocations for section {target}, but there are only {}",
                            self.headers.len()
                        ),
                    ));
                }
            }
        }
        Ok(implicit)
    }

    /// The contents of a section: its bytes in the file. They are empty for `SHT_NOBITS`, and for a
    /// compressed section that is not unpacked yet.
    ///
    /// # Errors
    /// The section reaches past the end of the file.
    #[inline]
    pub fn section_bytes(&self, index: usize) -> Result<&'a [u8], Malformed> {
        self.bytes_inside(index).ok_or_else(|| self.outside(index))
    }

    #[inline]
    fn bytes_inside(&self, index: usize) -> Option<&'a [u8]> {
        let header = self.headers.get(index)?;
        if !self.packed.is_empty()
            && let Ok(row) = self.packed.binary_search_by_key(&index, |packed| packed.section as usize)
        {
            return Some(self.packed[row].bytes.get().copied().unwrap_or_default());
        }
        self.range(header)
    }

    /// The error that a section's bytes are not inside the file.
    #[cold]
    fn outside(&self, index: usize) -> Malformed {
        let Some(header) = self.headers.get(index) else {
            return Malformed::at(0, format!("there is no section {index}"));
        };
        Malformed::at(
            header.sh_offset.get(),
            format!(
                "section {} is at {:#x} with size {:#x}, past the end of the file ({:#x})",
                self.section_name_lossy(index),
                header.sh_offset.get(),
                header.sh_size.get(),
                self.bytes.len()
            ),
        )
    }

    /// The bytes that a header names: in the file, or made by the linker.
    #[inline]
    fn range(&self, header: &Shdr<E>) -> Option<&'a [u8]> {
        section_range(self.bytes, header).or_else(|| self.range_made(header))
    }

    #[cold]
    fn range_made(&self, header: &Shdr<E>) -> Option<&'a [u8]> {
        let mut header = *header;
        header.sh_offset.set(header.sh_offset.get().checked_sub(self.bytes.len() as u64)?);
        section_range(self.made, &header)
    }

    /// Whether the linker made the contents of a section. In such an object, the file's own sections are
    /// known to be inside the file.
    pub fn is_generated(&self, index: usize) -> bool {
        self.headers.get(index).is_some_and(|header| {
            header.sh_type.get() != elf::SHT_NOBITS
                && header.sh_size.get() > 0
                && header.sh_offset.get() >= self.bytes.len() as u64
        })
    }

    /// Name of a section; empty if the name table is broken there.
    #[inline]
    pub fn section_name(&self, index: usize) -> &'a [u8] {
        self.headers
            .get(index)
            .and_then(|header| string_at(self.section_names, header.sh_name.get() as usize))
            .unwrap_or(b"")
    }

    /// Whether a section's name begins with `start`. This is quicker than [`ObjectFile::section_name`], which
    /// looks for the name's end.
    #[inline]
    pub fn section_name_begins(&self, index: usize, prefix: &[u8]) -> bool {
        self.section_name_on(index).starts_with(prefix)
    }

    /// The table of section names from a section's name on. It is empty if the table is broken there.
    #[inline]
    pub fn section_name_on(&self, index: usize) -> &'a [u8] {
        let header = self.headers.get(index);
        header.and_then(|header| self.section_names.get(header.sh_name.get() as usize..)).unwrap_or(b"")
    }

    /// `file:(place)` for messages and lists: a section of this file, or a place in one.
    pub fn described(&self, place: &str) -> String {
        shown(&format!("{}:({place})", self.name)).into_owned()
    }

    /// Name of a section as text for messages.
    pub fn section_name_lossy(&self, index: usize) -> String {
        match self.section_name(index) {
            b"" => format!("<section {index}>"),
            name => String::from_utf8_lossy(name).into_owned(),
        }
    }

    /// The relocations of a section. They are empty if it has none, or if they are not inside the file.
    #[inline]
    pub fn relocations(&self, index: usize) -> &'a [Rela<E>] {
        match self.relocation_sections.get(index) {
            Some(&table) if table != 0 => {
                let header = &self.headers[table as usize];
                match header.sh_type.get() {
                    elf::SHT_RELA => self.range(header).map_or(&[], whole_table),
                    _ => self.implicit_table(table),
                }
            }
            _ => &[],
        }
    }

    #[cold]
    fn implicit_table(&self, table: u32) -> &'a [Rela<E>] {
        match self.implicit.binary_search_by_key(&table, |implicit| implicit.section) {
            Ok(row) => self.implicit[row].relocations,
            Err(_) => &[],
        }
    }

    /// Whether the relocations of a section have their addends in the fields that they relocate (`SHT_REL`).
    #[inline]
    pub fn has_implicit_addends(&self, index: usize) -> bool {
        !self.implicit.is_empty()
            && self.relocation_sections.get(index).is_some_and(|&table| {
                let row = self.implicit.binary_search_by_key(&table, |implicit| implicit.section);
                row.is_ok_and(|row| self.implicit[row].from_places)
            })
    }

    /// Name of a symbol; empty if it has none.
    #[inline]
    pub fn symbol_name(&self, index: usize) -> &'a [u8] {
        self.symbols
            .get(index)
            .and_then(|symbol| string_at(self.symbol_names, symbol.st_name.get() as usize))
            .unwrap_or(b"")
    }

    /// The measure for the bytes of its symbols' names, where each name counts separately. Symbols may share
    /// one name, as hundreds of thousands of `$x` and `$d` do in code for AArch64. So the measure also counts
    /// the symbols' entries, because the string table alone does not show how large the object is.
    pub fn measure_of_names(&self) -> Budget {
        Budget::of((self.symbol_names.len() + size_of_val(self.symbols)) as u64)
    }

    /// Whether two symbols have the same section (or are both absolute) and the same value.
    pub fn is_same_place(&self, a: usize, b: usize) -> bool {
        let place = self.symbol_place(a);
        let value = |index: usize| self.symbols.get(index).map(|symbol| symbol.st_value.get());
        matches!(place, SymbolPlace::Section(_) | SymbolPlace::Absolute)
            && place == self.symbol_place(b)
            && value(a) == value(b)
    }

    /// The place of a symbol's definition. A symbol whose section index does not exist counts as undefined;
    /// `select_definitions` reports it ([`Self::is_misplaced`]).
    #[inline]
    pub fn symbol_place(&self, index: usize) -> SymbolPlace {
        let Some(symbol) = self.symbols.get(index) else { return SymbolPlace::Undefined };
        match symbol.st_shndx.get() {
            elf::SHN_UNDEF => SymbolPlace::Undefined,
            _ if self.just_symbols => SymbolPlace::Absolute,
            elf::SHN_ABS => SymbolPlace::Absolute,
            elf::SHN_COMMON => SymbolPlace::Common,
            SHN_LARGE_COMMON => SymbolPlace::Common,
            elf::SHN_XINDEX => match self.extended.get(index) {
                Some(section) => self.checked_section(section.get()),
                None => SymbolPlace::Undefined,
            },
            section if section < elf::SHN_LORESERVE => self.checked_section(section.into()),
            _ => SymbolPlace::Undefined,
        }
    }

    /// Whether a symbol names a section that does not exist.
    pub fn is_misplaced(&self, index: usize) -> bool {
        let place = self.symbols.get(index).map_or(elf::SHN_UNDEF, |symbol| symbol.st_shndx.get());
        let says_section =
            place != elf::SHN_UNDEF && (place < elf::SHN_LORESERVE || place == elf::SHN_XINDEX);
        says_section && self.symbol_place(index) == SymbolPlace::Undefined
    }

    #[inline]
    fn checked_section(&self, section: u32) -> SymbolPlace {
        if section != 0 && (section as usize) < self.headers.len() {
            SymbolPlace::Section(section)
        } else {
            SymbolPlace::Undefined
        }
    }

    /// The section that defines a symbol here, and the symbol's offset in it.
    #[inline]
    pub fn symbol_section(&self, index: u32) -> Option<(SectionId, u64)> {
        match self.symbol_place(index as usize) {
            SymbolPlace::Section(section) => {
                Some((self.section_id(section), self.symbols.get(index as usize)?.st_value.get()))
            }
            _ => None,
        }
    }

    /// `EI_OSABI`: the system that it is for, by number.
    pub fn os_abi(&self) -> u8 {
        self.bytes.get(7).copied().unwrap_or_default()
    }

    /// How many rows of symbol tables the object's local symbols take, from `first_local` on: one for each,
    /// but at least one, for relocations without a symbol.
    pub fn local_rows(&self) -> usize {
        (self.first_global as usize).max(1)
    }

    /// The id of a symbol of this file. An index out of range gives the id of the null symbol.
    #[inline]
    pub fn symbol_id(&self, index: u32) -> SymbolId {
        if index >= self.first_global
            && let Some(&id) = self.globals.get((index - self.first_global) as usize)
        {
            return id;
        }
        let local = if index < self.first_global { index } else { 0 };
        SymbolId(self.first_local + local)
    }

    /// The id of a section of this file.
    #[inline]
    pub fn section_id(&self, index: u32) -> SectionId {
        SectionId(self.first_section + index)
    }

    /// The ids of all sections.
    pub fn section_ids(&self) -> impl Iterator<Item = SectionId> + use<E> {
        (self.first_section..self.first_section + self.headers.len() as u32).map(SectionId)
    }
}

/// `SHT_LLVM_DEPENDENT_LIBRARIES`: libraries that `#pragma comment(lib, "NAME")` asks for. The crate with the
/// other constants lacks it.
pub const SHT_LLVM_DEPENDENT_LIBRARIES: u32 = 0x6fff_4c04;
/// `SHT_LLVM_ADDRSIG`: the symbols of the object whose addresses a program may compare, as ULEB128 numbers.
pub const SHT_LLVM_ADDRSIG: u32 = 0x6fff_4c03;
/// `SHT_CREL`, the compact relocation format that is proposed for the gABI. The crate with the other
/// constants lacks it.
pub const SHT_CREL: u32 = 0x4000_0014;

/// The sections of a file may together have this many times the file's size. Usually each has bytes of its
/// own, but tools might let a few sections share theirs.
const MAX_REUSE: u64 = 4;

/// Counts the bytes of a file's sections. A header is small, so many headers that name the same bytes could
/// stand for any number of bytes.
pub(super) struct SectionBytes<'a> {
    bytes: &'a [u8],
    left: u64,
}

impl<'a> SectionBytes<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        SectionBytes { bytes, left: (bytes.len() as u64).saturating_mul(MAX_REUSE) }
    }

    #[inline]
    pub(super) fn count<E: ByteOrder>(&mut self, header: &Shdr<E>) -> Result<(), Malformed> {
        let size = section_range(self.bytes, header).map_or(0, <[u8]>::len);
        let left = self.left.checked_sub(size as u64);
        self.left = left.ok_or_else(|| Malformed::overlap("contents of its sections"))?;
        Ok(())
    }
}

/// The bytes that a header names, if they are inside the file.
#[inline]
pub fn section_range<'a, E: ByteOrder>(bytes: &'a [u8], header: &Shdr<E>) -> Option<&'a [u8]> {
    if header.sh_type.get() == elf::SHT_NOBITS {
        return Some(&[]);
    }
    let start = usize::try_from(header.sh_offset.get()).ok()?;
    let end = start.checked_add(usize::try_from(header.sh_size.get()).ok()?)?;
    bytes.get(start..end)
}

/// The file header and all section headers (with the gABI's extension for very many sections).
///
/// # Errors
/// The headers are outside the file, or have another size.
pub fn section_headers<E: ByteOrder>(bytes: &[u8]) -> Result<(&Ehdr<E>, &[Shdr<E>]), Malformed> {
    let (ehdr, _) = Ehdr::<E>::ref_from_prefix(bytes)
        .map_err(|_| Malformed::at(0, format!("{} bytes are too few for an ELF header", bytes.len())))?;
    let offset = ehdr.e_shoff.get();
    if offset == 0 {
        return Ok((ehdr, &[]));
    }
    if usize::from(ehdr.e_shentsize.get()) != size_of::<Shdr<E>>() {
        return Err(Malformed::at(
            58,
            format!(
                "section headers have {} bytes, expected {}",
                ehdr.e_shentsize.get(),
                size_of::<Shdr<E>>()
            ),
        ));
    }
    let outside = |count: u64| {
        Malformed::at(
            40,
            format!(
                "{count} section headers at {offset:#x} are not inside the file of {:#x} bytes",
                bytes.len()
            ),
        )
    };
    let rest = usize::try_from(offset).ok().and_then(|start| bytes.get(start..)).ok_or_else(|| outside(1))?;
    let count = match ehdr.e_shnum.get() {
        0 => {
            let first = table::<Shdr<E>>(rest, 1).ok_or_else(|| outside(1))?;
            first[0].sh_size.get()
        }
        count => count.into(),
    };
    let headers =
        usize::try_from(count).ok().and_then(|count| table(rest, count)).ok_or_else(|| outside(count))?;
    if headers.len() >= u32::MAX as usize {
        return Err(outside(count));
    }
    Ok((ehdr, headers))
}

fn section_name_table<'a, E: ByteOrder>(
    bytes: &'a [u8],
    ehdr: &Ehdr<E>,
    headers: &[Shdr<E>],
) -> Result<&'a [u8], Malformed> {
    let index = match ehdr.e_shstrndx.get() {
        elf::SHN_UNDEF => return Ok(&[]),
        elf::SHN_XINDEX => headers.first().map_or(0, |first| first.sh_link.get() as usize),
        index => index.into(),
    };
    headers.get(index).and_then(|header| section_range(bytes, header)).ok_or_else(|| {
        Malformed::at(62, format!("the section name table (section {index}) is not inside the file"))
    })
}
