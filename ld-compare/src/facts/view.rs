//! Reads a linked or relocatable file into rows: sections, symbols, segments, relocations.

use anyhow::{Result, anyhow};
use object::Endianness;
use object::elf;
use object::read::elf::{Dyn, FileHeader, ProgramHeader, Rela, SectionHeader, Sym};

type Header = elf::FileHeader64<Endianness>;

/// A section.
#[derive(Clone, Debug)]
pub struct Section<'data> {
    pub name: String,
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// `sh_addr`.
    pub address: u64,
    /// `sh_size`.
    pub size: u64,
    /// `sh_link`.
    pub link: u32,
    /// `sh_info`.
    pub info: u32,
    /// Contents.
    pub data: &'data [u8],
}

impl Section<'_> {
    /// Whether it is loaded.
    pub fn is_alloc(&self) -> bool {
        self.flags & u64::from(elf::SHF_ALLOC) != 0
    }
}

/// A symbol of either table.
#[derive(Clone, Debug)]
pub struct Symbol {
    /// Name; `NAME@VERSION` in the dynamic table.
    pub name: String,
    /// `st_value`.
    pub value: u64,
    /// `st_size`.
    pub size: u64,
    /// `STB_*`.
    pub binding: u8,
    /// `STT_*`.
    pub kind: u8,
    /// `STV_*`.
    pub visibility: u8,
    /// The number of its section; 0 if undefined, `SHN_ABS` and `SHN_COMMON` as in the file.
    pub section: u32,
}

impl Symbol {
    /// Whether the file defines it.
    pub fn is_defined(&self) -> bool {
        self.section != 0
    }

    /// Whether other files can see it.
    pub fn is_global(&self) -> bool {
        self.binding != elf::STB_LOCAL
    }
}

/// A relocation.
#[derive(Clone, Copy, Debug)]
pub struct Relocation {
    /// `r_offset`.
    pub offset: u64,
    /// `r_type`.
    pub kind: u32,
    /// Number of the symbol, 0 for none.
    pub symbol: u32,
    pub addend: i64,
}

/// A program header.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// `p_type`.
    pub kind: u32,
    /// `p_flags`.
    pub flags: u32,
    /// `p_vaddr`.
    pub address: u64,
    /// `p_memsz`.
    pub size: u64,
}

/// A file.
#[derive(Debug)]
pub struct View<'data> {
    /// `e_type`.
    pub kind: u16,
    /// `e_machine`.
    pub machine: u16,
    /// `e_entry`.
    pub entry: u64,
    /// Byte order.
    pub big: bool,
    /// Sections, including the null section.
    pub sections: Vec<Section<'data>>,
    /// `.symtab`, including the null symbol.
    pub symbols: Vec<Symbol>,
    /// `.dynsym`, including the null symbol.
    pub dynamic_symbols: Vec<Symbol>,
    /// Entries of the dynamic section: tag and value.
    pub dynamic: Vec<(i64, u64)>,
    /// Program headers.
    pub segments: Vec<Segment>,
    /// Relocation sections: the number of the section and its relocations.
    pub relocations: Vec<(usize, Vec<Relocation>)>,
}

impl<'data> View<'data> {
    /// Reads an ELF64 file.
    ///
    /// # Errors
    /// It is something else, or a table reaches beyond its end.
    pub fn parse(bytes: &'data [u8]) -> Result<Self> {
        read(bytes).map_err(|error| anyhow!("{error}"))
    }

    /// The first section with a name.
    pub fn section(&self, name: &str) -> Option<(usize, &Section<'data>)> {
        self.sections.iter().enumerate().find(|(_, section)| section.name == name)
    }

    /// The name of a section by index.
    pub fn section_name(&self, index: u32) -> &str {
        match index as usize {
            0 => "none",
            index => self.sections.get(index).map_or("out of range", |section| &section.name),
        }
    }

    /// The loaded section that contains an address.
    pub fn section_at(&self, address: u64) -> Option<(usize, &Section<'data>)> {
        let holds = |section: &Section<'_>| {
            // `.tbss` takes no addresses.
            let thread_local =
                section.flags & u64::from(elf::SHF_TLS) != 0 && section.kind == elf::SHT_NOBITS;
            let inside = section.address <= address && address.wrapping_sub(section.address) < section.size;
            section.is_alloc() && !thread_local && inside
        };
        self.sections.iter().enumerate().find(|(_, section)| holds(section))
    }

    /// Whether the file is relocatable.
    pub fn is_relocatable(&self) -> bool {
        self.kind == elf::ET_REL
    }
}

fn read(bytes: &[u8]) -> object::read::Result<View<'_>> {
    let header = Header::parse(bytes)?;
    let endian = header.endian()?;
    let table = header.sections(endian, bytes)?;
    let mut view = View {
        kind: header.e_type.get(endian),
        machine: header.e_machine.get(endian),
        entry: header.e_entry.get(endian),
        big: endian == Endianness::Big,
        sections: Vec::with_capacity(table.len()),
        symbols: Vec::new(),
        dynamic_symbols: Vec::new(),
        dynamic: Vec::new(),
        segments: Vec::new(),
        relocations: Vec::new(),
    };
    for (index, section) in table.enumerate() {
        let name = table.section_name(endian, section).unwrap_or_default();
        view.sections.push(Section {
            name: String::from_utf8_lossy(name).into_owned(),
            kind: section.sh_type(endian),
            flags: section.sh_flags(endian),
            address: section.sh_addr(endian),
            size: section.sh_size(endian),
            link: section.sh_link(endian),
            info: section.sh_info(endian),
            data: section.data(endian, bytes).unwrap_or_default(),
        });
        // If gold has removed all relocations of a section, it writes a relocation section that points
        // nowhere.
        if let Some((records, _)) = section.rela(endian, bytes).unwrap_or_default() {
            let relocation = |record: &elf::Rela64<Endianness>| Relocation {
                offset: record.r_offset(endian),
                kind: record.r_type(endian, false),
                symbol: record.r_sym(endian, false),
                addend: record.r_addend(endian),
            };
            view.relocations.push((index.0, records.iter().map(relocation).collect()));
        }
    }
    let versions = table.versions(endian, bytes)?;
    for (kind, into) in [(elf::SHT_SYMTAB, &mut view.symbols), (elf::SHT_DYNSYM, &mut view.dynamic_symbols)] {
        let symbols = table.symbols(endian, bytes, kind)?;
        for (index, symbol) in symbols.enumerate() {
            let name = symbols.symbol_name(endian, symbol).unwrap_or_default();
            let mut name = String::from_utf8_lossy(name).into_owned();
            if let Some(versions) = versions.as_ref().filter(|_| kind == elf::SHT_DYNSYM) {
                let number = versions.version_index(endian, index);
                if let Ok(Some(version)) = versions.version(number) {
                    name = format!("{name}@{}", String::from_utf8_lossy(version.name()));
                }
            }
            let section = match symbol.st_shndx(endian) {
                elf::SHN_XINDEX => {
                    symbols.symbol_section(endian, symbol, index)?.map_or(0, |index| index.0 as u32)
                }
                other => other.into(),
            };
            into.push(Symbol {
                name,
                value: symbol.st_value(endian),
                size: symbol.st_size(endian),
                binding: symbol.st_bind(),
                kind: symbol.st_type(),
                visibility: symbol.st_visibility(),
                section,
            });
        }
    }
    if let Some((entries, _)) = table.dynamic(endian, bytes)? {
        let entries = entries.iter().map(|entry| (entry.d_tag(endian), entry.d_val(endian)));
        view.dynamic = entries.take_while(|(tag, _)| *tag != elf::DT_NULL).collect();
    }
    for segment in header.program_headers(endian, bytes)? {
        view.segments.push(Segment {
            kind: segment.p_type(endian),
            flags: segment.p_flags(endian),
            address: segment.p_vaddr(endian),
            size: segment.p_memsz(endian),
        });
    }
    Ok(view)
}
