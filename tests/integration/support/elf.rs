//! A view of a linked file or object: facts in plain types, and easy questions.
//!
//! The `object` crate reads sections and segments. This module decodes symbols, relocations and dynamic tags,
//! field by field, as the gABI lays them out (64-bit, either byte order).

use object::Endianness;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

pub const SHT_PROGBITS: u32 = 1;
pub const SHT_SYMTAB: u32 = 2;
pub const SHT_RELA: u32 = 4;
pub const SHT_NOTE: u32 = 7;
pub const SHT_NOBITS: u32 = 8;
pub const SHT_DYNSYM: u32 = 11;
pub const SHT_GROUP: u32 = 17;
pub const SHT_RELR: u32 = 19;
pub const SHT_GNU_SFRAME: u32 = 0x6fff_fff4;

pub const SHF_WRITE: u64 = 1;
pub const SHF_ALLOC: u64 = 2;
pub const SHF_EXECINSTR: u64 = 4;
pub const SHF_LINK_ORDER: u64 = 0x80;
pub const SHF_GROUP: u64 = 0x200;
pub const SHF_TLS: u64 = 0x400;
pub const SHF_COMPRESSED: u64 = 0x800;

pub const PT_LOAD: u32 = 1;
pub const PT_DYNAMIC: u32 = 2;
pub const PT_INTERP: u32 = 3;
pub const PT_NOTE: u32 = 4;
pub const PT_TLS: u32 = 7;
pub const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
pub const PT_GNU_STACK: u32 = 0x6474_e551;
pub const PT_GNU_RELRO: u32 = 0x6474_e552;
pub const PT_GNU_PROPERTY: u32 = 0x6474_e553;
pub const PT_PHDR: u32 = 6;
pub const PT_GNU_SFRAME: u32 = 0x6474_e554;

pub const DT_NEEDED: u64 = 1;
pub const DT_HASH: u64 = 4;
pub const DT_INIT: u64 = 12;
pub const DT_FINI: u64 = 13;
pub const DT_SONAME: u64 = 14;
pub const DT_RPATH: u64 = 15;
pub const DT_SYMBOLIC: u64 = 16;
pub const DT_TEXTREL: u64 = 22;
pub const DT_BIND_NOW: u64 = 24;
pub const DT_RUNPATH: u64 = 29;
pub const DT_FLAGS: u64 = 30;
pub const DT_RELR: u64 = 36;
pub const DT_GNU_HASH: u64 = 0x6fff_fef5;
pub const DT_FLAGS_1: u64 = 0x6fff_fffb;

pub const ET_REL: u16 = 1;
pub const ET_EXEC: u16 = 2;
pub const ET_DYN: u16 = 3;

pub const STB_LOCAL: u8 = 0;
pub const STB_GLOBAL: u8 = 1;
pub const STB_WEAK: u8 = 2;
pub const STB_GNU_UNIQUE: u8 = 10;
pub const STT_OBJECT: u8 = 1;
pub const STT_FUNC: u8 = 2;
pub const STT_GNU_IFUNC: u8 = 10;
pub const STV_HIDDEN: u8 = 2;
pub const STV_PROTECTED: u8 = 3;
pub const SHN_UNDEF: u16 = 0;
pub const SHN_ABS: u16 = 0xfff1;
pub const SHN_COMMON: u16 = 0xfff2;

/// Bytes with the byte order of their file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes {
    bytes: Vec<u8>,
    big: bool,
}

impl Bytes {
    /// The entries of a table.
    pub fn entries(&self, size: usize) -> impl Iterator<Item = Bytes> {
        self.bytes.chunks_exact(size).map(|entry| Bytes { bytes: entry.to_vec(), big: self.big })
    }

    /// The bytes from an offset on; `None` if there is no such offset.
    pub fn from(&self, offset: usize) -> Option<Bytes> {
        Some(Bytes { bytes: self.bytes.get(offset..)?.to_vec(), big: self.big })
    }

    /// Overwrites bytes.
    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Overwrites a number of 8 bytes.
    pub fn put_quad(&mut self, at: usize, value: u64) {
        self.put(at, &if self.big { value.to_be_bytes() } else { value.to_le_bytes() });
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes from which numbers are read.
pub trait Numbers {
    /// The bytes of a number, the least significant one first.
    fn bytes_at<const N: usize>(&self, at: usize) -> [u8; N];
}

impl Numbers for [u8] {
    fn bytes_at<const N: usize>(&self, at: usize) -> [u8; N] {
        self[at..at + N].try_into().unwrap()
    }
}

impl Numbers for Vec<u8> {
    fn bytes_at<const N: usize>(&self, at: usize) -> [u8; N] {
        self[..].bytes_at(at)
    }
}

impl Numbers for Bytes {
    fn bytes_at<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes: [u8; N] = self.bytes.bytes_at(at);
        if self.big {
            bytes.reverse();
        }
        bytes
    }
}

/// A section header and its bytes (none for `SHT_NOBITS`).
#[derive(Clone, Debug)]
pub struct Section {
    pub index: usize,
    pub name: String,
    pub kind: u32,
    pub flags: u64,
    pub addr: u64,
    pub offset: u64,
    pub size: u64,
    pub link: u32,
    pub info: u32,
    pub align: u64,
    pub entsize: u64,
    pub data: Bytes,
}

impl Section {
    /// The address after its last byte.
    pub fn end(&self) -> u64 {
        self.addr + self.size
    }

    /// The 4-byte words of the section.
    pub fn words(&self) -> Vec<u32> {
        self.data.entries(4).map(|entry| word(&entry, 0)).collect()
    }

    /// The 8-byte words of the section.
    pub fn quads(&self) -> Vec<u64> {
        self.data.entries(8).map(|entry| quad(&entry, 0)).collect()
    }

    /// The NUL-terminated strings of the section.
    pub fn strings(&self) -> Vec<String> {
        self.data
            .split(|&b| b == 0)
            .filter(|s| !s.is_empty())
            .map(|s| String::from_utf8_lossy(s).into_owned())
            .collect()
    }
}

/// One program header.
#[derive(Clone, Debug)]
pub struct Segment {
    pub kind: u32,
    /// 1 execute, 2 write, 4 read.
    pub flags: u32,
    pub offset: u64,
    pub addr: u64,
    pub load_addr: u64,
    pub file_size: u64,
    pub size: u64,
    pub align: u64,
}

impl Segment {
    /// Whether the addresses of a section lie inside.
    pub fn covers(&self, section: &Section) -> bool {
        self.addr <= section.addr && section.end() <= self.addr + self.size
    }
}

/// One symbol.
#[derive(Clone, Debug, PartialEq)]
pub struct Symbol {
    pub index: usize,
    pub name: String,
    pub binding: u8,
    pub kind: u8,
    pub visibility: u8,
    /// The machine's own bits of `st_other`.
    pub other: u8,
    pub section: u16,
    pub value: u64,
    pub size: u64,
    /// The version's name, only in `.dynsym`: `V` for a hidden version (`@V`), `@V` for a default version
    /// (`@@V`).
    pub version: Option<String>,
}

/// One relocation.
#[derive(Clone, Debug)]
pub struct Relocation {
    pub offset: u64,
    pub kind: u32,
    pub symbol: usize,
    pub addend: i64,
}

/// A section group of an object.
#[derive(Clone, Debug)]
pub struct Group {
    /// Index of the `SHT_GROUP` section.
    pub index: usize,
    /// The flag word; 1 for COMDAT.
    pub flags: u32,
    /// Name of the signature symbol.
    pub signature: String,
    /// Section indices of the members.
    pub members: Vec<usize>,
}

/// A parsed file.
pub struct Elf {
    pub bytes: Vec<u8>,
    pub kind: u16,
    pub entry: u64,
    pub sections: Vec<Section>,
    pub segments: Vec<Segment>,
    big: bool,
}

impl Elf {
    /// Parses a 64-bit ELF file.
    pub fn parse(bytes: Vec<u8>) -> Result<Elf, String> {
        let data: &[u8] = &bytes;
        let fail = |e: object::read::Error| e.to_string();
        let header = object::elf::FileHeader64::<Endianness>::parse(data).map_err(fail)?;
        let order = header.endian().map_err(fail)?;
        let big = order == Endianness::Big;
        let table = header.sections(order, data).map_err(fail)?;
        let mut sections = Vec::new();
        for (index, s) in table.enumerate() {
            sections.push(Section {
                index: index.0,
                name: String::from_utf8_lossy(table.section_name(order, s).unwrap_or(b"")).into_owned(),
                kind: s.sh_type(order),
                flags: s.sh_flags(order),
                addr: s.sh_addr(order),
                offset: s.sh_offset(order),
                size: s.sh_size(order),
                link: s.sh_link(order),
                info: s.sh_info(order),
                align: s.sh_addralign(order),
                entsize: s.sh_entsize(order),
                data: Bytes { bytes: s.data(order, data).map_err(fail)?.to_vec(), big },
            });
        }
        let segments = header
            .program_headers(order, data)
            .map_err(fail)?
            .iter()
            .map(|p| Segment {
                kind: p.p_type(order),
                flags: p.p_flags(order),
                offset: p.p_offset(order),
                addr: p.p_vaddr(order),
                load_addr: p.p_paddr(order),
                file_size: p.p_filesz(order),
                size: p.p_memsz(order),
                align: p.p_align(order),
            })
            .collect();
        Ok(Elf { kind: header.e_type(order), entry: header.e_entry(order), sections, segments, bytes, big })
    }

    /// The only section with a name.
    #[track_caller]
    pub fn section(&self, name: &str) -> &Section {
        let all = self.sections_named(name);
        assert!(
            all.len() == 1,
            "expected one section {name}, found {}: {:?}",
            all.len(),
            self.section_names()
        );
        all[0]
    }

    /// The section with a name, if there is one.
    pub fn find(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|s| s.name == name)
    }

    /// All sections with a name, in order.
    pub fn sections_named(&self, name: &str) -> Vec<&Section> {
        self.sections.iter().filter(|s| s.name == name).collect()
    }

    /// The names of all sections in order, without the null section.
    pub fn section_names(&self) -> Vec<&str> {
        self.sections.iter().skip(1).map(|s| s.name.as_str()).collect()
    }

    /// The only segment of a type.
    #[track_caller]
    pub fn segment(&self, kind: u32) -> &Segment {
        let all = self.segments_of(kind);
        assert!(all.len() == 1, "expected one segment {kind:#x}, found {}: {:#x?}", all.len(), self.segments);
        all[0]
    }

    /// All segments of a type.
    pub fn segments_of(&self, kind: u32) -> Vec<&Segment> {
        self.segments.iter().filter(|s| s.kind == kind).collect()
    }

    /// The loaded segment that covers an address.
    pub fn load_at(&self, addr: u64) -> Option<&Segment> {
        self.segments.iter().find(|s| s.kind == PT_LOAD && (s.addr..s.addr + s.size).contains(&addr))
    }

    /// The bytes at an address, as loaded from the file.
    #[track_caller]
    pub fn at(&self, addr: u64, size: usize) -> &[u8] {
        for s in &self.sections {
            if s.flags & SHF_ALLOC != 0
                && s.kind != SHT_NOBITS
                && s.flags & SHF_TLS == 0
                && s.addr <= addr
                && addr + size as u64 <= s.end()
            {
                let start = (addr - s.addr) as usize;
                return &s.data[start..start + size];
            }
        }
        panic!("nothing at {addr:#x}");
    }

    /// The 8-byte word at an address.
    #[track_caller]
    pub fn quad_at(&self, addr: u64) -> u64 {
        quad(&Bytes { bytes: self.at(addr, 8).to_vec(), big: self.big }, 0)
    }

    /// `.symtab`.
    pub fn symbols(&self) -> Vec<Symbol> {
        self.symbols_of(SHT_SYMTAB)
    }

    /// `.dynsym`, with versions.
    pub fn dynamic_symbols(&self) -> Vec<Symbol> {
        let mut symbols = self.symbols_of(SHT_DYNSYM);
        let names = self.version_names();
        if let Some(versions) = self.find(".gnu.version") {
            for (symbol, entry) in symbols.iter_mut().zip(versions.data.entries(2)) {
                let raw = half(&entry, 0);
                let name = names.iter().find(|(index, _)| *index == raw & 0x7fff).map(|(_, n)| n.clone());
                symbol.version = name.map(|n| if raw & 0x8000 == 0 { format!("@{n}") } else { n });
            }
        }
        symbols
    }

    /// The indices and names of versions: defined ones and needed ones.
    pub fn version_names(&self) -> Vec<(u16, String)> {
        let mut names = Vec::new();
        for (name, needed) in [(".gnu.version_d", false), (".gnu.version_r", true)] {
            let Some(section) = self.find(name) else { continue };
            let strings = &self.sections[section.link as usize].data;
            let (data, mut at) = (&section.data, 0);
            for _ in 0..section.info {
                let (count, mut aux, next) = if needed {
                    (half(data, at + 2), at + word(data, at + 8) as usize, word(data, at + 12))
                } else {
                    (1, at + word(data, at + 12) as usize, word(data, at + 16))
                };
                for _ in 0..count {
                    if needed {
                        names.push((half(data, aux + 6), text(strings, word(data, aux + 8))));
                        aux += word(data, aux + 12) as usize;
                    } else {
                        names.push((half(data, at + 4), text(strings, word(data, aux))));
                    }
                }
                at += next as usize;
            }
        }
        names
    }

    /// The symbol with a name in `.symtab`.
    #[track_caller]
    pub fn symbol(&self, name: &str) -> Symbol {
        self.find_symbol(name).unwrap_or_else(|| panic!("no symbol {name} in .symtab"))
    }

    /// The symbol with a name in `.symtab`, if there is one.
    pub fn find_symbol(&self, name: &str) -> Option<Symbol> {
        self.symbols().into_iter().find(|s| s.name == name)
    }

    /// The symbol with a name in `.dynsym`, if there is one.
    pub fn find_dynamic(&self, name: &str) -> Option<Symbol> {
        self.dynamic_symbols().into_iter().find(|s| s.name == name)
    }

    /// The symbol with a name in `.dynsym`.
    #[track_caller]
    pub fn dynamic(&self, name: &str) -> Symbol {
        self.find_dynamic(name).unwrap_or_else(|| panic!("no symbol {name} in .dynsym"))
    }

    fn symbols_of(&self, kind: u32) -> Vec<Symbol> {
        let Some(section) = self.sections.iter().find(|s| s.kind == kind) else { return Vec::new() };
        let strings = &self.sections[section.link as usize].data;
        let entries = section.data.entries(24).enumerate();
        entries
            .map(|(index, e)| {
                let section = half(&e, 6);
                let mut name = text(strings, word(&e, 0));
                if e[4] & 15 == 3 && name.is_empty() {
                    name = self.sections.get(section as usize).map_or(String::new(), |s| s.name.clone());
                }
                Symbol {
                    index,
                    name,
                    binding: e[4] >> 4,
                    kind: e[4] & 15,
                    visibility: e[5] & 3,
                    other: e[5] & !3,
                    section,
                    value: quad(&e, 8),
                    size: quad(&e, 16),
                    version: None,
                }
            })
            .collect()
    }

    /// The relocations of one `SHT_RELA` section.
    pub fn relocations_in(&self, section: &Section) -> Vec<Relocation> {
        let entries = section.data.entries(24);
        entries
            .map(|e| Relocation {
                offset: quad(&e, 0),
                kind: quad(&e, 8) as u32,
                symbol: (quad(&e, 8) >> 32) as usize,
                addend: quad(&e, 16) as i64,
            })
            .collect()
    }

    /// The relocations of an object's section with this number.
    pub fn relocations_for(&self, index: usize) -> Vec<Relocation> {
        let of = |s: &&Section| s.kind == SHT_RELA && s.info as usize == index && s.flags & SHF_ALLOC == 0;
        self.sections.iter().filter(of).flat_map(|s| self.relocations_in(s)).collect()
    }

    /// All dynamic relocations (`.rela.dyn`, `.rela.plt`).
    pub fn dynamic_relocations(&self) -> Vec<Relocation> {
        let dynamic = |s: &&Section| s.kind == SHT_RELA && s.flags & SHF_ALLOC != 0;
        self.sections.iter().filter(dynamic).flat_map(|s| self.relocations_in(s)).collect()
    }

    /// The dynamic relocations of one type, each with the name of its symbol.
    pub fn dynamic_relocations_of(&self, kind: u32) -> Vec<(Relocation, String)> {
        let symbols = self.dynamic_symbols();
        let name = |r: &Relocation| symbols.get(r.symbol).map_or(String::new(), |s| s.name.clone());
        let all = self.dynamic_relocations();
        all.into_iter().filter(|r| r.kind == kind).map(|r| (r.clone(), name(&r))).collect()
    }

    /// The addresses in `.relr.dyn`.
    pub fn relr(&self) -> Vec<u64> {
        let section = self.sections.iter().find(|s| s.kind == SHT_RELR);
        section.map_or(Vec::new(), Self::places)
    }

    /// The addresses in the packed table of this name.
    pub fn packed_places(&self, name: &str) -> Vec<u64> {
        self.find(name).map_or(Vec::new(), Self::places)
    }

    fn places(section: &Section) -> Vec<u64> {
        let (mut addresses, mut base) = (Vec::new(), 0);
        for entry in section.quads() {
            if entry & 1 == 0 {
                addresses.push(entry);
                base = entry + 8;
            } else {
                let bits = (0..63).filter(|bit| entry >> (bit + 1) & 1 != 0);
                addresses.extend(bits.map(|bit| base + 8 * bit));
                base += 8 * 63;
            }
        }
        addresses
    }

    /// The values of a dynamic tag.
    pub fn tags(&self, tag: u64) -> Vec<u64> {
        let Some(section) = self.find(".dynamic") else { return Vec::new() };
        let entries = section.data.entries(16).map(|e| (quad(&e, 0), quad(&e, 8)));
        entries.take_while(|e| e.0 != 0).filter(|e| e.0 == tag).map(|e| e.1).collect()
    }

    /// The strings of a dynamic tag.
    pub fn tag_strings(&self, tag: u64) -> Vec<String> {
        let Some(strings) = self.find(".dynstr") else { return Vec::new() };
        self.tags(tag).iter().map(|&at| text(&strings.data, at as u32)).collect()
    }

    /// `DT_NEEDED` in order.
    pub fn needed(&self) -> Vec<String> {
        self.tag_strings(DT_NEEDED)
    }

    /// The notes of a section: owner, type and descriptor.
    #[track_caller]
    pub fn notes(&self, section: &str) -> Vec<(String, u32, Vec<u8>)> {
        let section = self.section(section);
        let align = section.align.max(4) as usize;
        let (data, mut at, mut notes) = (&section.data, 0, Vec::new());
        while at + 12 <= data.len() {
            let (name, size) = (word(data, at) as usize, word(data, at + 4) as usize);
            let start = (at + 12 + name).next_multiple_of(4);
            let start = if align == 8 { start.next_multiple_of(8) } else { start };
            notes.push((text(data, at as u32 + 12), word(data, at + 8), data[start..start + size].to_vec()));
            at = (start + size).next_multiple_of(align);
        }
        notes
    }

    /// The section groups, in order.
    pub fn groups(&self) -> Vec<Group> {
        let symbols = self.symbols();
        let of = |s: &Section| {
            let words = s.words();
            Group {
                index: s.index,
                flags: words[0],
                signature: symbols.get(s.info as usize).map_or(String::new(), |x| x.name.clone()),
                members: words[1..].iter().map(|&w| w as usize).collect(),
            }
        };
        self.sections.iter().filter(|s| s.kind == SHT_GROUP).map(of).collect()
    }

    /// The only group with a signature.
    #[track_caller]
    pub fn group(&self, signature: &str) -> Group {
        let mut all: Vec<_> = self.groups().into_iter().filter(|g| g.signature == signature).collect();
        assert!(all.len() == 1, "expected one group {signature}: {:?}", self.groups());
        all.remove(0)
    }

    /// The names of the sections in a group.
    pub fn member_names(&self, group: &Group) -> Vec<&str> {
        group.members.iter().map(|&m| self.sections[m].name.as_str()).collect()
    }
}

/// The 2-byte number at an offset.
pub fn half(data: &(impl Numbers + ?Sized), at: usize) -> u16 {
    u16::from_le_bytes(data.bytes_at(at))
}

/// The 4-byte number at an offset.
pub fn word(data: &(impl Numbers + ?Sized), at: usize) -> u32 {
    u32::from_le_bytes(data.bytes_at(at))
}

/// The 8-byte number at an offset.
pub fn quad(data: &(impl Numbers + ?Sized), at: usize) -> u64 {
    u64::from_le_bytes(data.bytes_at(at))
}

/// The NUL-terminated string at an offset.
pub fn text(data: &[u8], at: u32) -> String {
    let rest = data.get(at as usize..).unwrap_or(b"");
    let end = rest.iter().position(|&b| b == 0).unwrap_or(rest.len());
    String::from_utf8_lossy(&rest[..end]).into_owned()
}
