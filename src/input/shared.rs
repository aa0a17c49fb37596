//! A shared library: its dynamic symbols, their versions, and the libraries that it needs.

use super::loaded::Segments;
use super::measure::Budget;
use super::object::{FileName, Malformed, SectionBytes, section_headers, section_range};
use crate::elf::consts as elf;
use crate::elf::{Dyn, Phdr, Shdr, Sym, Verdaux, Verdef, Vernaux, Verneed, string_at, whole_table};
use crate::ids::{SharedId, SymbolId};
use hashbrown::{HashMap, HashSet};
use std::ops::Range;
use zerocopy::byteorder::{ByteOrder, U16};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// One shared library. The tables are views of the file.
pub struct SharedFile<'a, E: ByteOrder> {
    /// Its name, for messages.
    pub name: FileName<'a>,
    /// The whole file.
    pub bytes: &'a [u8],
    /// Section headers. Copied data and warnings in `.gnu.warning.*` need them. A stripped library may have
    /// none.
    pub headers: &'a [Shdr<E>],
    /// `DT_SONAME`, or the name by which the library was found.
    pub soname: &'a [u8],
    /// `DT_NEEDED` entries.
    pub needed: Vec<&'a [u8]>,
    /// `DT_AUDIT`: libraries that audit the dynamic linker when it loads this one.
    pub audit: Vec<&'a [u8]>,
    /// `DT_RUNPATH` and `DT_RPATH`: directories, separated by `:`.
    pub run_paths: Vec<&'a [u8]>,
    /// Whether it is a position-independent executable, and no library.
    pub is_program: bool,
    segments: Segments<'a, E>,
    /// Addresses that cannot be written once the program runs.
    relro: Option<Range<u64>>,
    /// Dynamic symbols; row 0 is the null symbol.
    pub symbols: &'a [Sym<E>],
    /// String table with the names of `symbols`.
    pub symbol_names: &'a [u8],
    /// `.gnu.version`: one word for each symbol. It is empty if there is no such section.
    pub versions: &'a [U16<E>],
    /// Names of the versions that the library defines or needs, by version index. It is empty if there are
    /// none.
    pub version_names: Vec<&'a [u8]>,
    /// Its number in the link.
    pub id: SharedId,
    /// For each symbol: its global, or [`SymbolId::NONE`] if nothing mentions it or can refer to it.
    pub globals: Vec<SymbolId>,
    /// `--as-needed`: whether it gets a `DT_NEEDED` only if it is used.
    pub as_needed: bool,
    /// For `--as-needed`: the globals that files before the library refer to and that it defines.
    pub wanted: Vec<SymbolId>,
}

/// Version of a dynamic symbol (gABI extension, "Symbol Versioning").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SymbolVersion {
    /// Version index. 0 is local, 1 is global without a version, and any other is an index of
    /// [`SharedFile::version_names`].
    pub index: u16,
    /// Whether only references that name the version bind to it.
    pub hidden: bool,
}

/// The libraries outside of the link that libraries of the link need (`DT_NEEDED`), and the symbols that they
/// define.
#[derive(Default)]
pub struct NeededLibraries<'a> {
    /// `DT_NEEDED` names whose libraries were found.
    pub found: HashSet<&'a [u8]>,
    /// For each symbol that these libraries define, the path of the first library that defines it.
    pub definitions: HashMap<&'a [u8], &'a str>,
}

impl<'a, E: ByteOrder> SharedFile<'a, E> {
    /// Parses the dynamic symbol table, the version tables and the dynamic section, which section headers or,
    /// without any, program headers lead to. `hash_entry` is the size of a word of `DT_HASH` in bytes.
    ///
    /// # Errors
    /// The first error in the structure.
    pub fn parse(
        name: FileName<'a>,
        bytes: &'a [u8],
        found_as: &'a [u8],
        hash_entry: u64,
    ) -> Result<Self, Malformed> {
        let (header, headers) = section_headers::<E>(bytes)?;
        let segments = Segments::of(bytes, header);
        let mut shared = SharedFile {
            name,
            bytes,
            headers,
            soname: found_as,
            needed: Vec::new(),
            audit: Vec::new(),
            run_paths: Vec::new(),
            is_program: false,
            segments,
            relro: segments.relro(),
            symbols: &[],
            symbol_names: &[],
            versions: &[],
            version_names: Vec::new(),
            id: SharedId::NONE,
            globals: Vec::new(),
            as_needed: false,
            wanted: Vec::new(),
        };
        if headers.is_empty() {
            shared.read_by_segments(hash_entry)?;
        } else {
            shared.read_by_sections()?;
        }
        shared.check_names()?;
        Ok(shared)
    }

    fn read_by_sections(&mut self) -> Result<(), Malformed> {
        let mut total = SectionBytes::of(self.bytes);
        for header in self.headers {
            total.count(header)?;
            match header.sh_type.get() {
                elf::SHT_DYNSYM => {
                    self.symbols = whole_table(self.contents(header)?);
                    self.symbol_names = self.linked(header)?;
                }
                elf::SHT_GNU_VERSYM => self.versions = whole_table(self.contents(header)?),
                elf::SHT_GNU_VERDEF => {
                    self.read_version_definitions(self.contents(header)?, self.linked(header)?)?;
                }
                elf::SHT_GNU_VERNEED => {
                    self.read_needed_versions(self.contents(header)?, self.linked(header)?)?;
                }
                elf::SHT_DYNAMIC => {
                    self.read_dynamic(whole_table(self.contents(header)?), self.linked(header)?)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_by_segments(&mut self, hash_entry: u64) -> Result<(), Malformed> {
        let Some(tables) = self.segments.tables(hash_entry)? else { return Ok(()) };
        (self.symbols, self.symbol_names) = (tables.symbols, tables.strings);
        self.versions = tables.versions;
        self.read_version_definitions(tables.definitions, tables.strings)?;
        self.read_needed_versions(tables.needed, tables.strings)?;
        self.read_dynamic(tables.dynamic, tables.strings)
    }

    /// Refuses a library whose symbol names overlap too often. Short names are no danger, so the names are
    /// looked at only if the table has long ones.
    fn check_names(&self) -> Result<(), Malformed> {
        let mut start = 0;
        let is_long = |end: usize| end - std::mem::replace(&mut start, end) > LONG_NAME;
        if !memchr::memchr_iter(0, self.symbol_names).any(is_long) {
            return Ok(());
        }
        let mut names = Names::of(self.symbol_names);
        (0..self.symbols.len()).try_for_each(|index| names.count(self.symbol_name(index)))
    }

    fn contents(&self, header: &Shdr<E>) -> Result<&'a [u8], Malformed> {
        section_range(self.bytes, header).ok_or_else(|| {
            Malformed::at(
                header.sh_offset.get(),
                format!("a section of type {:#x} reaches past the end of the file", header.sh_type.get()),
            )
        })
    }

    fn linked(&self, header: &Shdr<E>) -> Result<&'a [u8], Malformed> {
        let link = header.sh_link.get() as usize;
        match self.headers.get(link) {
            Some(strings) => self.contents(strings),
            None => Err(Malformed::at(header.sh_offset.get(), format!("string table {link} does not exist"))),
        }
    }

    fn read_dynamic(&mut self, entries: &[Dyn<E>], strings: &'a [u8]) -> Result<(), Malformed> {
        let mut names = Names::of(strings);
        for entry in entries {
            let tag = entry.d_tag.get();
            if tag == DT_NULL {
                break;
            }
            if tag == elf::DT_FLAGS_1 as u64 {
                self.is_program = entry.d_val.get() & u64::from(elf::DF_1_PIE) != 0;
            }
            if !matches!(tag, DT_SONAME | DT_NEEDED | DT_AUDIT | DT_RPATH | DT_RUNPATH) {
                continue;
            }
            let Some(text) = string_at(strings, entry.d_val.get() as usize) else { continue };
            names.count(text)?;
            match tag {
                DT_SONAME => self.soname = text,
                DT_NEEDED => self.needed.push(text),
                DT_AUDIT => self.audit.push(text),
                _ => self.run_paths.push(text),
            }
        }
        Ok(())
    }

    fn set_version_name(&mut self, index: u16, name: &'a [u8]) {
        let index = usize::from(index & VERSION_INDEX);
        if self.version_names.len() <= index {
            self.version_names.resize(index + 1, b"");
        }
        self.version_names[index] = name;
    }

    fn read_version_definitions(&mut self, bytes: &[u8], strings: &'a [u8]) -> Result<(), Malformed> {
        let mut names = Names::of(strings);
        for (at, definition) in chain(bytes, 0, |entry: &Verdef<E>| entry.vd_next.get()).take(MAX_VERSIONS) {
            let name =
                chain(bytes, at.saturating_add(definition.vd_aux.get() as usize), |_: &Verdaux<E>| 0).next();
            let name = name.and_then(|(_, name)| string_at(strings, name.vda_name.get() as usize));
            if let Some(name) = name {
                names.count(name)?;
                self.set_version_name(definition.vd_ndx.get(), name);
            }
        }
        Ok(())
    }

    fn read_needed_versions(&mut self, bytes: &[u8], strings: &'a [u8]) -> Result<(), Malformed> {
        // Lists that overlap could be read again and again. So all of them together may have no more versions
        // than there are version numbers.
        let (mut left, mut names) = (MAX_VERSIONS, Names::of(strings));
        for (at, library) in chain(bytes, 0, |entry: &Verneed<E>| entry.vn_next.get()).take(MAX_VERSIONS) {
            let first = at.saturating_add(library.vn_aux.get() as usize);
            let versions = chain(bytes, first, |entry: &Vernaux<E>| entry.vna_next.get());
            for (_, version) in versions.take(left.min(library.vn_cnt.get().into())) {
                if let Some(name) = string_at(strings, version.vna_name.get() as usize) {
                    names.count(name)?;
                    self.set_version_name(version.vna_other.get(), name);
                }
                left -= 1;
            }
        }
        Ok(())
    }

    /// Name of a section; empty if it has none.
    pub fn section_name(&self, index: usize) -> &'a [u8] {
        let find = || {
            let (file_header, headers) = section_headers::<E>(self.bytes).ok()?;
            let strings = headers.get(usize::from(file_header.e_shstrndx.get()))?;
            let strings = section_range(self.bytes, strings)?;
            string_at(strings, self.headers.get(index)?.sh_name.get() as usize)
        };
        find().unwrap_or(b"")
    }

    /// Contents of a section, if it has some in the file.
    pub fn section_bytes(&self, index: usize) -> Option<&'a [u8]> {
        section_range(self.bytes, self.headers.get(index)?)
    }

    /// Name of a symbol; empty if it has none.
    #[inline]
    pub fn symbol_name(&self, index: usize) -> &'a [u8] {
        self.symbols
            .get(index)
            .and_then(|symbol| string_at(self.symbol_names, symbol.st_name.get() as usize))
            .unwrap_or(b"")
    }

    /// Whether a symbol is a definition that references without a version may bind to.
    pub fn is_plain_definition(&self, index: usize) -> bool {
        let Some(symbol) = self.symbols.get(index) else { return false };
        let version = self.symbol_version(index);
        !symbol.is_undefined()
            && !symbol.is_local()
            && !version.hidden
            && version.index != 0
            && self.symbol_names.get(symbol.st_name.get() as usize).is_some_and(|first| *first != 0)
    }

    /// Whether a symbol defines data, of which an executable may take a copy. A number, which has no section,
    /// is none, even if it equals an address.
    pub fn is_data(symbol: &Sym<E>) -> bool {
        !symbol.is_undefined()
            && !symbol.is_local()
            && symbol.st_shndx.get() != elf::SHN_ABS
            && matches!(symbol.kind(), elf::STT_OBJECT | elf::STT_NOTYPE | elf::STT_COMMON)
    }

    /// The version of a symbol. It is global and unversioned if the library has no versions.
    #[inline]
    pub fn symbol_version(&self, index: usize) -> SymbolVersion {
        match self.versions.get(index) {
            Some(word) => {
                SymbolVersion { index: word.get() & VERSION_INDEX, hidden: word.get() & VERSION_HIDDEN != 0 }
            }
            None => SymbolVersion { index: elf::VER_NDX_GLOBAL, hidden: false },
        }
    }

    /// The version that an undefined symbol asks for. `None` if any definition of the name fits.
    pub fn wanted_version(&self, index: usize) -> Option<&'a [u8]> {
        let version = self.symbol_version(index).index;
        (self.symbols[index].is_undefined() && version > elf::VER_NDX_GLOBAL)
            .then(|| self.version_name(version))
    }

    /// Whether undefined symbol `index` may bind to symbol `symbol` of library `definer`, which defines its
    /// name: the versions must agree.
    pub fn takes(&self, index: usize, definer: &SharedFile<'_, E>, symbol: u32) -> bool {
        let defined = definer.symbol_version(symbol as usize).index;
        self.wanted_version(index).is_none_or(|wanted| definer.version_name(defined) == wanted)
    }

    /// Name of a version index, empty for the unversioned ones.
    pub fn version_name(&self, index: u16) -> &'a [u8] {
        self.version_names.get(usize::from(index)).copied().unwrap_or(b"")
    }

    fn section_of(&self, symbol: &Sym<E>) -> Option<&'a Shdr<E>> {
        self.headers.get(usize::from(symbol.st_shndx.get()))
    }

    /// What a symbol's section would say, in a library without section headers.
    fn segment_of(&self, symbol: &Sym<E>) -> Option<&'a Phdr<E>> {
        self.headers.is_empty().then(|| self.segments.at(symbol.st_value.get()))?
    }

    /// Alignment in bytes of a copy of this symbol's data. A library does not tell the alignment of a symbol,
    /// so this is the largest power of two that both its section (or segment) and its address have.
    pub fn data_alignment(&self, symbol: &Sym<E>) -> u64 {
        let section = self.section_of(symbol).map(|header| header.sh_addralign.get());
        let whole = section.or_else(|| Some(self.segment_of(symbol)?.p_align.get()));
        let whole = whole.filter(|align| align.is_power_of_two()).unwrap_or(1);
        match symbol.st_value.get() {
            0 => whole,
            value => whole.min(1 << value.trailing_zeros()),
        }
    }

    /// Whether the symbol's data has contents in the file: its section is not `SHT_NOBITS`.
    pub fn has_bytes(&self, symbol: &Sym<E>) -> bool {
        match self.section_of(symbol) {
            Some(header) => header.sh_type.get() != elf::SHT_NOBITS,
            None => self.headers.is_empty() && self.segments.bytes_at(symbol.st_value.get()).is_some(),
        }
    }

    /// Whether the symbol's data cannot be written once the program runs, so that a copy belongs to RELRO.
    pub fn is_read_only(&self, symbol: &Sym<E>) -> bool {
        self.section_of(symbol).is_some_and(|header| header.sh_flags.get() & elf::SHF_WRITE == 0)
            || self.segment_of(symbol).is_some_and(|segment| segment.p_flags.get() & elf::PF_W == 0)
            || self.relro.as_ref().is_some_and(|range| range.contains(&symbol.st_value.get()))
    }
}

/// Names with more bytes than this are counted.
const LONG_NAME: usize = 4096;

/// Takes the names of a table from the table's measure, because they may overlap.
struct Names(Budget);

impl Names {
    fn of(table: &[u8]) -> Self {
        Names(Budget::of(table.len() as u64))
    }

    fn count(&mut self, name: &[u8]) -> Result<(), Malformed> {
        self.0.take(name.len() as u64).map_err(|_| Malformed::overlap("names of its symbols"))
    }
}

/// The entries of a version table from an offset on, each with its offset. `next` gives the distance to the
/// next entry; it is 0 at the last one.
fn chain<'b, R: FromBytes + KnownLayout + Immutable + Unaligned + 'b>(
    bytes: &'b [u8],
    first: usize,
    next: impl Fn(&R) -> u32,
) -> impl Iterator<Item = (usize, &'b R)> {
    let entry = move |at: usize| {
        let (entry, _) = R::ref_from_prefix(bytes.get(at..)?).ok()?;
        Some((at, entry))
    };
    std::iter::successors(entry(first), move |&(at, last)| match next(last) {
        0 => None,
        distance => entry(at.saturating_add(distance as usize)),
    })
}

/// The most versions that [`VERSION_INDEX`] can tell apart.
const MAX_VERSIONS: usize = VERSION_INDEX as usize + 1;

/// The low bits of a version word, which are the index.
pub const VERSION_INDEX: u16 = 0x7fff;
/// The high bit of a version word, which says that the version is hidden.
pub const VERSION_HIDDEN: u16 = 0x8000;
const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_SONAME: u64 = 14;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;
const DT_AUDIT: u64 = 0x6fff_fefc;
