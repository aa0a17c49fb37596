//! File header, program headers and section headers.

use crate::arch::Target;
use crate::chunks::Chunk;
use crate::cli::OutputMode;
use crate::elf::consts as elf;
use crate::elf::{Ehdr, Phdr, Shdr};
use crate::ids::ChunkId;
use crate::phase::{Image, Placed};
use crate::synth::android::SHT_ANDROID_RELA;
use crate::synth::groups;
use crate::tables::section::Kind;
use zerocopy::byteorder::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// Writes all headers into the file.
pub fn write<T: Target>(link: &Image<'_, T>, file: &mut [u8]) {
    write_sections(link, file);
    write_segments(link, file);
    let header = file_header(link);
    if let Some(out) = file.get_mut(..size_of::<Ehdr<T::E>>()) {
        out.copy_from_slice(header.as_bytes());
    }
}

fn file_header<T: Target>(link: &Image<'_, T>) -> Ehdr<T::E> {
    let mut ident = [0; 16];
    ident[..4].copy_from_slice(&elf::ELFMAG);
    ident[4] = elf::ELFCLASS64;
    ident[5] = T::EI_DATA;
    ident[6] = elf::EV_CURRENT;
    ident[7] = link.os_abi();
    let first = link.file.segments.iter().find(|segment| segment.p_type == elf::PT_LOAD);
    let kind = match link.config.mode {
        // If options or a script place a PIE at an address, it must be loaded there. GNU ld and mold have the
        // same rule.
        OutputMode::Executable { pie: true } if first.is_some_and(|load| load.address != 0) => elf::ET_EXEC,
        OutputMode::Relocatable => elf::ET_REL,
        OutputMode::Shared | OutputMode::Executable { pie: true } => elf::ET_DYN,
        OutputMode::Executable { pie: false } => elf::ET_EXEC,
    };
    let sections = link.file.section_header_count;
    let names = link.chunk_of(Kind::ShStrTab).map_or(0, ChunkId::header_index);
    let reserve = u32::from(elf::SHN_LORESERVE);
    Ehdr {
        e_ident: ident,
        e_type: U16::new(kind),
        e_machine: U16::new(T::E_MACHINE),
        e_version: U32::new(1),
        e_entry: U64::new(link.entry_address),
        e_phoff: U64::new(if link.file.segments.is_empty() { 0 } else { size_of::<Ehdr<T::E>>() as u64 }),
        e_shoff: U64::new(link.file.section_headers_offset),
        e_flags: U32::new(0),
        e_ehsize: U16::new(size_of::<Ehdr<T::E>>() as u16),
        e_phentsize: U16::new(if link.file.segments.is_empty() { 0 } else { size_of::<Phdr<T::E>>() as u16 }),
        e_phnum: U16::new(link.file.segments.len() as u16),
        e_shentsize: U16::new(if sections == 0 { 0 } else { size_of::<Shdr<T::E>>() as u16 }),
        e_shnum: U16::new(if sections >= reserve { 0 } else { sections as u16 }),
        e_shstrndx: U16::new(if names >= reserve { elf::SHN_XINDEX } else { names as u16 }),
    }
}

fn write_segments<T: Target>(link: &Image<'_, T>, file: &mut [u8]) {
    let start = size_of::<Ehdr<T::E>>();
    let size = link.file.segments.len() * size_of::<Phdr<T::E>>();
    let Some(table) = file.get_mut(start..start + size) else { return };
    let Ok(headers) = <[Phdr<T::E>]>::mut_from_bytes(table) else { return };
    for (out, segment) in headers.iter_mut().zip(&link.file.segments) {
        *out = Phdr {
            p_type: U32::new(segment.p_type),
            p_flags: U32::new(segment.flags),
            p_offset: U64::new(segment.offset),
            p_vaddr: U64::new(segment.address),
            p_paddr: U64::new(segment.load_address),
            p_filesz: U64::new(segment.file_size),
            p_memsz: U64::new(segment.memory_size),
            p_align: U64::new(segment.align),
        };
    }
}

fn write_sections<T: Target>(link: &Image<'_, T>, file: &mut [u8]) {
    let (layout, file_plan) = (&link.layout, &link.file);
    if file_plan.section_headers_offset == 0 {
        return;
    }
    let start = file_plan.section_headers_offset as usize;
    let size = file_plan.section_header_count as usize * size_of::<Shdr<T::E>>();
    let Some(table) = file.get_mut(start..start + size) else { return };
    let Ok(headers) = <[Shdr<T::E>]>::mut_from_bytes(table) else { return };
    for (index, (chunk, section)) in layout.chunks.iter().zip(&link.file_sections).enumerate() {
        let (sh_link, sh_info) = link_and_info(link, ChunkId::from_index(index), chunk);
        headers[index + 1] = Shdr {
            sh_name: U32::new(link.names.offsets[index]),
            sh_type: U32::new(section.sh_type),
            sh_flags: U64::new(section.flags),
            sh_addr: U64::new(chunk.address),
            sh_offset: U64::new(section.offset),
            sh_size: U64::new(section.size),
            sh_link: U32::new(sh_link),
            sh_info: U32::new(sh_info),
            sh_addralign: U64::new(section.align),
            sh_entsize: U64::new(chunk.entsize),
        };
    }
    // gABI: a number that does not fit the file header goes to the header of the null section.
    let reserve = u32::from(elf::SHN_LORESERVE);
    if file_plan.section_header_count >= reserve {
        headers[0].sh_size.set(file_plan.section_header_count.into());
    }
    let names = link.chunk_of(Kind::ShStrTab).map_or(0, ChunkId::header_index);
    if names >= reserve {
        headers[0].sh_link.set(names);
    }
}

/// `sh_link` and `sh_info`, by the kind of section (gABI, figure "sh_link and sh_info").
fn link_and_info<T: Target>(link: &Placed<'_, T>, id: ChunkId, chunk: &Chunk<'_>) -> (u32, u32) {
    let index_of = |kind: Kind| link.chunk_of(kind).map_or(0, ChunkId::header_index);
    if let Some(pair) = relocatable_link_and_info(link, id) {
        return pair;
    }
    match chunk.sh_type {
        elf::SHT_DYNSYM => (index_of(Kind::DynStr), 1),
        elf::SHT_HASH | elf::SHT_GNU_HASH | elf::SHT_GNU_VERSYM => (index_of(Kind::DynSym), 0),
        elf::SHT_DYNAMIC => (index_of(Kind::DynStr), 0),
        elf::SHT_GNU_VERDEF => (index_of(Kind::DynStr), link.dynamic.defined.len() as u32),
        elf::SHT_GNU_VERNEED => (index_of(Kind::DynStr), link.dynamic.needed.len() as u32),
        elf::SHT_RELA if chunk.flags & elf::SHF_INFO_LINK != 0 => {
            let slots = match index_of(Kind::GotPlt) {
                0 => index_of(Kind::Got),
                slots => slots,
            };
            (index_of(Kind::DynSym), slots)
        }
        elf::SHT_RELA | SHT_ANDROID_RELA => (index_of(Kind::DynSym), 0),
        elf::SHT_SYMTAB => (index_of(Kind::StrTab), link.symtab.first_global),
        elf::SHT_SYMTAB_SHNDX => (index_of(Kind::SymTab), 0),
        _ if chunk.flags & elf::SHF_LINK_ORDER != 0 => {
            let target = chunk.link_order.and_then(|target| link.output_chunk(target));
            (target.map_or(0, ChunkId::header_index), 0)
        }
        _ => (stab_strings(link, chunk).map_or(0, ChunkId::header_index), 0),
    }
}

/// The strings of a section of stabs: `.stabstr` for `.stab`, `.stab.exclstr` for `.stab.excl`. Debuggers
/// find them by `sh_link`.
fn stab_strings<T: Target>(link: &Placed<'_, T>, chunk: &Chunk<'_>) -> Option<ChunkId> {
    if !chunk.name.starts_with(b".stab") {
        return None;
    }
    let strings = link.layout.find(&[chunk.name, b"str"].concat())?;
    (link.layout.chunks[strings.index()].sh_type == elf::SHT_STRTAB).then_some(strings)
}

/// `sh_link` and `sh_info` of relocation sections and groups in relocatable output.
fn relocatable_link_and_info<T: Target>(link: &Placed<'_, T>, id: ChunkId) -> Option<(u32, u32)> {
    let item = *link.layout.chunks.get(id.index())?.items.first()?;
    let row = link.synthetic_row(item)?;
    let symtab = || link.chunk_of(Kind::SymTab).map_or(0, ChunkId::header_index);
    match link.synthetics.section(row).kind {
        Kind::OutputRelocations(row) => {
            let target = link.output_relocations[row as usize].target;
            Some((symtab(), target.header_index()))
        }
        Kind::OutputGroup(row) => {
            let group = &link.output_groups[row as usize];
            Some((symtab(), groups::signature_index(link, group)))
        }
        _ => None,
    }
}
