//! Objects that are made byte by byte, for forms that no assembler emits.

/// A section of a handmade object. Numbers in `link`, `info` and group data count from 1, the first section
/// that was added; `.symtab`, `.strtab` and `.shstrtab` come after all of these.
#[derive(Clone, Default)]
pub struct RawSection {
    pub name: &'static str,
    pub kind: u32,
    pub flags: u64,
    pub link: Link,
    pub info: u32,
    pub align: u64,
    pub entsize: u64,
    pub data: Vec<u8>,
}

/// The contents of `sh_link`.
#[derive(Clone, Copy, Default)]
pub enum Link {
    /// This number.
    Index(u32),
    /// The index of `.symtab`.
    #[default]
    Symtab,
}

/// A symbol of a handmade object.
#[derive(Clone)]
pub struct RawSymbol {
    pub name: &'static str,
    /// Binding and type, as in `st_info`.
    pub info: u8,
    pub section: u16,
    pub value: u64,
}

/// The bytes of an x86-64 relocatable object. Local symbols must come first.
pub fn object(sections: &[RawSection], symbols: &[RawSymbol]) -> Vec<u8> {
    let mut strings = vec![0u8];
    let mut intern = |name: &str| {
        let at = strings.len() as u32;
        strings.extend(name.bytes());
        strings.push(0);
        at
    };
    let mut symtab = vec![0u8; 24];
    for symbol in symbols {
        symtab.extend(intern(symbol.name).to_le_bytes());
        symtab.extend([symbol.info, 0]);
        symtab.extend(symbol.section.to_le_bytes());
        symtab.extend(symbol.value.to_le_bytes());
        symtab.extend([0; 8]);
    }
    let symtab_index = sections.len() as u32 + 1;
    let locals = 1 + symbols.iter().take_while(|s| s.info >> 4 == 0).count() as u32;
    let mut all = sections.to_vec();
    let table = |name, kind, link, info, align, entsize, data| RawSection {
        name,
        kind,
        flags: 0,
        link: Link::Index(link),
        info,
        align,
        entsize,
        data,
    };
    all.push(table(".symtab", 2, symtab_index + 1, locals, 8, 24, symtab));
    all.push(table(".strtab", 3, 0, 0, 1, 0, Vec::new()));
    let names: Vec<u32> = all.iter().map(|s| intern(s.name)).collect();
    all[symtab_index as usize].data = strings;

    let mut bytes = vec![0u8; 64];
    let mut headers = vec![0u8; 64];
    for (section, name) in all.iter().zip(names) {
        while !bytes.len().is_multiple_of(section.align.max(1) as usize) {
            bytes.push(0);
        }
        let link = match section.link {
            Link::Index(index) => index,
            Link::Symtab => symtab_index,
        };
        headers.extend(name.to_le_bytes());
        headers.extend(section.kind.to_le_bytes());
        headers.extend(section.flags.to_le_bytes());
        headers.extend(0u64.to_le_bytes());
        headers.extend((bytes.len() as u64).to_le_bytes());
        headers.extend((section.data.len() as u64).to_le_bytes());
        headers.extend(link.to_le_bytes());
        headers.extend(section.info.to_le_bytes());
        headers.extend(section.align.to_le_bytes());
        headers.extend(section.entsize.to_le_bytes());
        bytes.extend(&section.data);
    }
    while !bytes.len().is_multiple_of(8) {
        bytes.push(0);
    }
    let header_offset = bytes.len() as u64;
    bytes.extend(headers);
    bytes[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x3e\0");
    bytes[20..24].copy_from_slice(&1u32.to_le_bytes());
    bytes[40..48].copy_from_slice(&header_offset.to_le_bytes());
    bytes[52..54].copy_from_slice(&64u16.to_le_bytes());
    bytes[58..60].copy_from_slice(&64u16.to_le_bytes());
    bytes[60..62].copy_from_slice(&(all.len() as u16 + 1).to_le_bytes());
    bytes[62..64].copy_from_slice(&(symtab_index as u16 + 1).to_le_bytes());
    bytes
}

/// 4-byte little-endian words, for group data.
pub fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}
