//! Relocatable objects as data that can be edited and written again.
//!
//! An ELF file refers to its parts by offsets and indices. If one section goes, all of these change.
//! [`Object`] is an `ET_REL` file without them: sections contain their relocations, groups list their
//! members, and references are rows in lists. So the reducer can delete any row. Reading checks every bound.
//! Writing makes a valid ELF64 file (gABI: group headers before their members, locals before globals in the
//! symbol table, `.rela.X` in X's group).

use anyhow::{Context, Result, bail, ensure};
use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, SectionHeader, Sym};

/// A relocatable object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// `e_machine`.
    pub machine: u16,
    /// Byte order.
    pub big: bool,
    /// `e_flags`.
    pub flags: u32,
    /// OS ABI byte of the header.
    pub os_abi: u8,
    /// Sections with contents; symbol tables, string tables, relocation sections and group headers are not
    /// among them.
    pub sections: Vec<Section>,
    /// Symbols, without the null symbol.
    pub symbols: Vec<Symbol>,
    /// Section groups.
    pub groups: Vec<Group>,
}

/// A section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    pub name: String,
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// `sh_addralign`.
    pub align: u64,
    /// `sh_entsize`.
    pub entry_size: u64,
    /// Contents; empty for `SHT_NOBITS`.
    pub data: Vec<u8>,
    /// Size in bytes.
    pub size: u64,
    /// The section that `sh_link` refers to (`SHF_LINK_ORDER`).
    pub link: Option<usize>,
    /// Relocations by offset.
    pub relocations: Vec<Relocation>,
}

/// A relocation with addend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Offset in its section.
    pub offset: u64,
    /// Row of its symbol; `None` for the null symbol.
    pub symbol: Option<usize>,
    /// Type number.
    pub kind: u32,
    pub addend: i64,
}

/// Where a symbol is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere.
    Undefined,
    /// `SHN_ABS`.
    Absolute,
    /// `SHN_COMMON`.
    Common,
    /// In the section of this row.
    Section(usize),
    /// In the group header of this row: gas puts a signature there if no other symbol has that name.
    Group(usize),
}

/// A symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Name; empty for section symbols.
    pub name: String,
    /// Where it is defined.
    pub place: Place,
    /// `st_value`.
    pub value: u64,
    /// `st_size`.
    pub size: u64,
    /// `STB_*`.
    pub binding: u8,
    /// `STT_*`.
    pub kind: u8,
    /// `st_other`.
    pub other: u8,
}

/// A section group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Row of the signature's symbol.
    pub signature: usize,
    /// First word: `GRP_COMDAT`.
    pub flags: u32,
    /// Rows of its members.
    pub members: Vec<usize>,
}

impl Group {
    /// Whether a copy in another object excludes this group.
    pub fn is_comdat(&self) -> bool {
        self.flags & elf::GRP_COMDAT != 0
    }
}

type Header = elf::FileHeader64<Endianness>;

impl Object {
    /// Reads an ELF64 relocatable object whose relocations have addends.
    ///
    /// # Errors
    /// It is something else, or its tables contradict each other.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let header = Header::parse(bytes).map_err(|e| anyhow::anyhow!("{e}"))?;
        let endian = header.endian().map_err(|e| anyhow::anyhow!("{e}"))?;
        ensure!(header.e_type.get(endian) == elf::ET_REL, "not a relocatable object");
        let table = header.sections(endian, bytes).map_err(|e| anyhow::anyhow!("{e}"))?;
        // With more sections, section numbers would not fit the 16 bits in the symbol table.
        ensure!(
            table.len() < usize::from(elf::SHN_LORESERVE) / 2,
            "{} sections are too many to rewrite",
            table.len()
        );
        let mut object = Object {
            machine: header.e_machine.get(endian),
            big: endian == Endianness::Big,
            flags: header.e_flags.get(endian),
            os_abi: header.e_ident.os_abi,
            sections: Vec::new(),
            symbols: Vec::new(),
            groups: Vec::new(),
        };
        let mut rows = vec![None; table.len()];
        let mut group_rows = vec![None; table.len()];
        let mut group_count = 0;
        for (index, section) in table.enumerate() {
            match section.sh_type(endian) {
                elf::SHT_NULL | elf::SHT_SYMTAB | elf::SHT_SYMTAB_SHNDX | elf::SHT_RELA => {}
                elf::SHT_STRTAB if section.sh_flags(endian) & u64::from(elf::SHF_ALLOC) == 0 => {}
                elf::SHT_REL => bail!("relocations without addends"),
                elf::SHT_GROUP => {
                    group_rows[index.0] = Some(group_count);
                    group_count += 1;
                }
                kind => {
                    let data = section.data(endian, bytes).map_err(|e| anyhow::anyhow!("{e}"))?.to_vec();
                    let name = table.section_name(endian, section).map_err(|e| anyhow::anyhow!("{e}"))?;
                    rows[index.0] = Some(object.sections.len());
                    object.sections.push(Section {
                        name: String::from_utf8_lossy(name).into_owned(),
                        kind,
                        flags: section.sh_flags(endian),
                        align: section.sh_addralign(endian),
                        entry_size: section.sh_entsize(endian),
                        data,
                        size: section.sh_size(endian),
                        link: None,
                        relocations: Vec::new(),
                    });
                }
            }
        }
        let row_of = |index: usize| rows.get(index).copied().flatten();
        let symbols = table.symbols(endian, bytes, elf::SHT_SYMTAB).map_err(|e| anyhow::anyhow!("{e}"))?;
        for (index, symbol) in symbols.enumerate() {
            if index.0 == 0 {
                continue;
            }
            let place = match symbol.st_shndx(endian) {
                elf::SHN_UNDEF => Place::Undefined,
                elf::SHN_COMMON => Place::Common,
                elf::SHN_ABS => Place::Absolute,
                _ => {
                    let section = symbols.symbol_section(endian, symbol, index);
                    let section = section.map_err(|e| anyhow::anyhow!("{e}"))?.map_or(0, |section| section.0);
                    match (row_of(section), group_rows.get(section).copied().flatten()) {
                        (Some(row), _) => Place::Section(row),
                        (None, Some(group)) => Place::Group(group),
                        // Symbols of relocation sections and string tables carry no information.
                        (None, None) => Place::Absolute,
                    }
                }
            };
            let name = symbols.symbol_name(endian, symbol).map_err(|e| anyhow::anyhow!("{e}"))?;
            object.symbols.push(Symbol {
                name: String::from_utf8_lossy(name).into_owned(),
                place,
                value: symbol.st_value(endian),
                size: symbol.st_size(endian),
                binding: symbol.st_bind(),
                kind: symbol.st_type(),
                other: symbol.st_other(),
            });
        }
        for (index, section) in table.enumerate() {
            if let Some(row) = row_of(index.0) {
                if section.sh_flags(endian) & u64::from(elf::SHF_LINK_ORDER) != 0 {
                    object.sections[row].link = row_of(section.sh_link(endian) as usize);
                }
                continue;
            }
            if let Some((records, _)) = section.rela(endian, bytes).map_err(|e| anyhow::anyhow!("{e}"))? {
                let Some(target) = row_of(section.sh_info(endian) as usize) else { continue };
                for record in records {
                    let symbol = record.r_sym(endian, false) as usize;
                    ensure!(
                        symbol <= object.symbols.len(),
                        "relocation of symbol {symbol}, which there is not"
                    );
                    object.sections[target].relocations.push(Relocation {
                        offset: record.r_offset.get(endian),
                        symbol: symbol.checked_sub(1),
                        kind: record.r_type(endian, false),
                        addend: record.r_addend.get(endian),
                    });
                }
            }
            if let Some((flags, members)) =
                section.group(endian, bytes).map_err(|e| anyhow::anyhow!("{e}"))?
            {
                let signature = (section.sh_info(endian) as usize).checked_sub(1);
                let signature =
                    signature.filter(|row| *row < object.symbols.len()).context("group without signature")?;
                let members =
                    members.iter().filter_map(|member| row_of(member.get(endian) as usize)).collect();
                object.groups.push(Group { signature, flags, members });
            }
        }
        Ok(object)
    }

    /// The name of a group's signature; an unnamed section symbol has the name of its section.
    pub fn signature(&self, group: &Group) -> &str {
        let symbol = &self.symbols[group.signature];
        match symbol.place {
            Place::Section(row) if symbol.name.is_empty() => &self.sections[row].name,
            _ => &symbol.name,
        }
    }

    /// The name of a symbol; a section symbol has the name of its section.
    pub fn symbol_name(&self, row: usize) -> &str {
        self.signature(&Group { signature: row, flags: 0, members: Vec::new() })
    }

    /// The group that contains a section.
    pub fn group_of(&self, section: usize) -> Option<&Group> {
        self.groups.iter().find(|group| group.members.contains(&section))
    }

    /// Keeps the sections, symbols and groups whose flags are set, removes the others, and keeps the object
    /// consistent. A symbol of a removed section becomes undefined if it is global, and is removed otherwise.
    /// Relocations with removed symbols, groups without members and links to removed sections are removed,
    /// too.
    pub fn retain(&mut self, sections: &[bool], symbols: &[bool], groups: &[bool]) {
        let section_rows = renumber(sections);
        let mut group_kept = groups.to_vec();
        for (row, group) in self.groups.iter_mut().enumerate() {
            group.members = group.members.iter().filter_map(|member| section_rows[*member]).collect();
            group_kept[row] &= !group.members.is_empty();
        }
        let group_rows = renumber(&group_kept);
        let mut keep = symbols.to_vec();
        for (group, kept) in self.groups.iter().zip(&group_kept) {
            keep[group.signature] |= kept;
        }
        for (row, symbol) in self.symbols.iter_mut().enumerate() {
            let gone = match symbol.place {
                Place::Section(section) => section_rows[section].is_none(),
                Place::Group(group) => group_rows[group].is_none(),
                _ => false,
            };
            match symbol.place {
                Place::Section(section) if !gone => {
                    symbol.place = Place::Section(section_rows[section].unwrap_or(0));
                }
                Place::Group(group) if !gone => symbol.place = Place::Group(group_rows[group].unwrap_or(0)),
                _ => {}
            }
            if gone {
                let signs =
                    self.groups.iter().zip(&group_kept).any(|(group, kept)| *kept && group.signature == row);
                (symbol.place, symbol.value, symbol.size) = (Place::Undefined, 0, 0);
                keep[row] &= symbol.binding != elf::STB_LOCAL || signs;
                if symbol.kind == elf::STT_SECTION {
                    keep[row] = false;
                }
                symbol.kind = elf::STT_NOTYPE;
            }
        }
        for (row, (group, kept)) in self.groups.iter().zip(&mut group_kept).enumerate() {
            // If the section symbol of a group's signature went, the group has no name any more.
            *kept &= keep[group.signature] && group_rows[row].is_some();
        }
        let symbol_rows = renumber(&keep);
        retain_rows(&mut self.sections, sections);
        retain_rows(&mut self.symbols, &keep);
        retain_rows(&mut self.groups, &group_kept);
        for group in &mut self.groups {
            group.signature = symbol_rows[group.signature].unwrap_or(0);
        }
        for section in &mut self.sections {
            section.link = section.link.and_then(|row| section_rows[row]);
            section.relocations.retain_mut(|relocation| match relocation.symbol {
                None => true,
                Some(row) => {
                    relocation.symbol = symbol_rows[row];
                    relocation.symbol.is_some()
                }
            });
        }
        let members: Vec<usize> = self.groups.iter().flat_map(|group| group.members.clone()).collect();
        for (row, section) in self.sections.iter_mut().enumerate() {
            let bit = u64::from(elf::SHF_GROUP);
            section.flags = if members.contains(&row) { section.flags | bit } else { section.flags & !bit };
            if section.link.is_none() {
                section.flags &= !u64::from(elf::SHF_LINK_ORDER);
            }
        }
    }

    /// The object as an ELF file.
    pub fn write(&self) -> Vec<u8> {
        Writer::new(self).write()
    }
}

fn renumber(kept: &[bool]) -> Vec<Option<usize>> {
    let mut next = 0;
    let row = |kept: &bool| {
        kept.then(|| {
            next += 1;
            next - 1
        })
    };
    kept.iter().map(row).collect()
}

fn retain_rows<T>(rows: &mut Vec<T>, kept: &[bool]) {
    let mut flags = kept.iter();
    rows.retain(|_| flags.next().copied().unwrap_or(true));
}

/// Lays out the tables of an object one after the other.
struct Writer<'a> {
    object: &'a Object,
    bytes: Vec<u8>,
    names: Vec<u8>,
    headers: Vec<[u64; 10]>,
}

/// Size of the ELF header and of a section header in bytes.
const HEADER: usize = 64;

impl<'a> Writer<'a> {
    fn new(object: &'a Object) -> Self {
        Writer { object, bytes: vec![0; HEADER], names: vec![0], headers: vec![[0; 10]] }
    }

    fn put(&mut self, value: u64, width: usize) {
        if self.object.big {
            self.bytes.extend(&value.to_be_bytes()[8 - width..]);
        } else {
            self.bytes.extend(&value.to_le_bytes()[..width]);
        }
    }

    fn align(&mut self, to: u64) -> u64 {
        let to = to.clamp(1, 1 << 16).next_power_of_two() as usize;
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
        self.bytes.len() as u64
    }

    fn name(&mut self, name: &str) -> u64 {
        let at = self.names.len() as u64;
        self.names.extend(name.bytes());
        self.names.push(0);
        at
    }

    /// The symbols in the order of the table: locals first.
    fn symbol_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.object.symbols.len()).collect();
        order.sort_by_key(|row| (self.object.symbols[*row].binding != elf::STB_LOCAL, *row));
        order
    }

    fn write(mut self) -> Vec<u8> {
        let object = self.object;
        let order = self.symbol_order();
        let mut numbers = vec![0u64; order.len()];
        order.iter().enumerate().for_each(|(place, row)| numbers[*row] = place as u64 + 1);
        // The section numbers: null, group headers, each section followed by its relocations, the symbol
        // table, two string tables.
        let first = 1 + object.groups.len() as u64;
        let mut next = first;
        let mut indices = Vec::new();
        for section in &object.sections {
            indices.push(next);
            next += 1 + u64::from(!section.relocations.is_empty());
        }
        let symtab = next;
        for group in &object.groups {
            let at = self.align(4);
            self.put(group.flags.into(), 4);
            for &member in &group.members {
                self.put(indices[member], 4);
                if !object.sections[member].relocations.is_empty() {
                    self.put(indices[member] + 1, 4);
                }
            }
            let (name, size) = (self.name(".group"), self.bytes.len() as u64 - at);
            let (kind, signature) = (elf::SHT_GROUP.into(), numbers[group.signature]);
            self.headers.push([name, kind, 0, 0, at, size, symtab, signature, 4, 4]);
        }
        for (row, section) in object.sections.iter().enumerate() {
            self.section(row, section, &indices, &numbers, symtab);
        }
        self.symbols(&order, &indices, symtab);
        let at = self.bytes.len() as u64;
        let name = self.name(".shstrtab");
        let names = std::mem::take(&mut self.names);
        self.bytes.extend(&names);
        self.headers.push([name, elf::SHT_STRTAB.into(), 0, 0, at, names.len() as u64, 0, 0, 1, 0]);
        self.finish()
    }

    fn section(&mut self, row: usize, section: &Section, indices: &[u64], numbers: &[u64], symtab: u64) {
        let at = self.align(section.align);
        self.bytes.extend(&section.data);
        let name = self.name(&section.name);
        let link = section.link.map_or(0, |target| indices[target]);
        self.headers.push([
            name,
            section.kind.into(),
            section.flags,
            0,
            at,
            section.size,
            link,
            0,
            section.align,
            section.entry_size,
        ]);
        if section.relocations.is_empty() {
            return;
        }
        let at = self.align(8);
        for relocation in &section.relocations {
            let symbol = relocation.symbol.map_or(0, |row| numbers[row]);
            self.put(relocation.offset, 8);
            self.put(symbol << 32 | u64::from(relocation.kind), 8);
            self.put(relocation.addend as u64, 8);
        }
        let size = self.bytes.len() as u64 - at;
        let name = self.name(&format!(".rela{}", section.name));
        let flags = u64::from(elf::SHF_INFO_LINK) | section.flags & u64::from(elf::SHF_GROUP);
        self.headers.push([name, elf::SHT_RELA.into(), flags, 0, at, size, symtab, indices[row], 8, 24]);
    }

    fn symbols(&mut self, order: &[usize], indices: &[u64], symtab: u64) {
        let object = self.object;
        let at = self.align(8);
        self.bytes.extend([0; 24]);
        let mut strings = vec![0u8];
        for &row in order {
            let symbol = &object.symbols[row];
            let name = if symbol.name.is_empty() { 0 } else { strings.len() as u64 };
            if name != 0 {
                strings.extend(symbol.name.bytes());
                strings.push(0);
            }
            let section = match symbol.place {
                Place::Undefined => 0,
                Place::Absolute => elf::SHN_ABS.into(),
                Place::Common => elf::SHN_COMMON.into(),
                Place::Section(section) => indices[section],
                Place::Group(group) => 1 + group as u64,
            };
            self.put(name, 4);
            self.put((symbol.binding << 4 | symbol.kind & 15).into(), 1);
            self.put(symbol.other.into(), 1);
            self.put(section, 2);
            self.put(symbol.value, 8);
            self.put(symbol.size, 8);
        }
        let size = self.bytes.len() as u64 - at;
        let locals =
            order.iter().filter(|row| object.symbols[**row].binding == elf::STB_LOCAL).count() as u64 + 1;
        let name = self.name(".symtab");
        self.headers.push([name, elf::SHT_SYMTAB.into(), 0, 0, at, size, symtab + 1, locals, 8, 24]);
        let at = self.bytes.len() as u64;
        self.bytes.extend(&strings);
        let name = self.name(".strtab");
        self.headers.push([name, elf::SHT_STRTAB.into(), 0, 0, at, strings.len() as u64, 0, 0, 1, 0]);
    }

    fn finish(mut self) -> Vec<u8> {
        let at = self.align(8);
        let headers = std::mem::take(&mut self.headers);
        for header in &headers {
            let widths = [4, 4, 8, 8, 8, 8, 4, 4, 8, 8];
            header.iter().zip(widths).for_each(|(value, width)| self.put(*value, width));
        }
        let rest = std::mem::take(&mut self.bytes);
        let object = self.object;
        self.bytes.extend(b"\x7fELF\x02");
        self.bytes.extend([if object.big { 2 } else { 1 }, 1, object.os_abi]);
        self.bytes.extend([0; 8]);
        let count = headers.len() as u64;
        let fields: [(u64, usize); 13] = [
            (elf::ET_REL.into(), 2),
            (object.machine.into(), 2),
            (1, 4),
            (0, 8),
            (0, 8),
            (at, 8),
            (object.flags.into(), 4),
            (HEADER as u64, 2),
            (0, 2),
            (0, 2),
            (HEADER as u64, 2),
            (count, 2),
            (count - 1, 2),
        ];
        fields.into_iter().for_each(|(value, width)| self.put(value, width));
        self.bytes.extend(&rest[HEADER..]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn symbol(name: &str, place: Place, binding: u8) -> Symbol {
        Symbol { name: name.into(), place, value: 0, size: 0, binding, kind: elf::STT_NOTYPE, other: 0 }
    }

    fn section(name: &str, flags: u32, relocations: Vec<Relocation>) -> Section {
        Section {
            name: name.into(),
            kind: elf::SHT_PROGBITS,
            flags: flags.into(),
            align: 8,
            data: vec![1; 16],
            size: 16,
            relocations,
            ..Section::default()
        }
    }

    /// A group of code and metadata, and data that refers to the code.
    fn object(big: bool) -> Object {
        let to = |symbol| Relocation { offset: 8, symbol: Some(symbol), kind: 1, addend: -4 };
        let mut meta = section(".meta", elf::SHF_ALLOC | elf::SHF_GROUP | elf::SHF_LINK_ORDER, vec![to(0)]);
        meta.link = Some(0);
        Object {
            machine: if big { 22 } else { 62 },
            big,
            flags: 0,
            os_abi: 0,
            sections: vec![
                section(".text.f", elf::SHF_ALLOC | elf::SHF_EXECINSTR | elf::SHF_GROUP, Vec::new()),
                meta,
                section(".data", elf::SHF_ALLOC | elf::SHF_WRITE, vec![to(0), to(1), to(2)]),
            ],
            symbols: vec![
                symbol("", Place::Section(0), elf::STB_LOCAL),
                symbol("f", Place::Section(0), elf::STB_WEAK),
                symbol("gone", Place::Undefined, elf::STB_GLOBAL),
            ],
            groups: vec![Group { signature: 1, flags: elf::GRP_COMDAT, members: vec![0, 1] }],
        }
    }

    #[test]
    fn written_objects_are_read_back() {
        for big in [false, true] {
            let object = object(big);
            assert_eq!(Object::parse(&object.write()).unwrap(), object);
        }
    }

    #[test]
    fn removing_a_section_leaves_a_sound_object() {
        let mut object = object(false);
        object.retain(&[false, true, true], &[true; 3], &[true]);
        assert_eq!(object.sections.len(), 2);
        assert_eq!(object.groups[0].members, [0]);
        assert_eq!(
            (object.sections[0].link, object.sections[0].flags),
            (None, u64::from(elf::SHF_ALLOC | elf::SHF_GROUP))
        );
        // The section symbol is gone with all relocations against it. The global symbol is undefined now.
        let names: Vec<(&str, Place)> = object.symbols.iter().map(|s| (s.name.as_str(), s.place)).collect();
        assert_eq!(names, [("f", Place::Undefined), ("gone", Place::Undefined)]);
        assert_eq!(object.sections[1].relocations.len(), 2);
        assert_eq!(Object::parse(&object.write()).unwrap(), object);
    }

    #[test]
    fn removing_a_group_frees_its_members() {
        let mut object = object(true);
        object.retain(&[true; 3], &[true; 3], &[false]);
        assert!(object.groups.is_empty());
        assert!(object.sections.iter().all(|section| section.flags & u64::from(elf::SHF_GROUP) == 0));
        assert_eq!(Object::parse(&object.write()).unwrap(), object);
    }

    #[test]
    fn other_files_are_refused() {
        assert!(Object::parse(b"not an object").is_err());
        let mut executable = object(false).write();
        executable[16] = 2;
        assert!(Object::parse(&executable).unwrap_err().to_string().contains("relocatable"));
        let whole = object(false).write();
        for end in 0..whole.len() {
            // Any result is right, as long as nothing panics.
            let _ = Object::parse(&whole[..end]);
        }
    }
}
