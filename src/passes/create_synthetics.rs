//! Makes the synthetic sections that this link may need.
//!
//! Whether a section is needed and how large it is shows only later (relocations, layout), but
//! scripts match names, so every section that may be needed exists from here on; the layout drops
//! sections that stay empty. Contents that are known already (notes, the interpreter's path) are set
//! at once. Types, flags and entry sizes are those of GNU ld.

use crate::arch::Target;
use crate::arch::machine::SHN_LARGE_COMMON;
use crate::arch::target::PltShape;
use crate::cli::{BuildId, OutputMode, SortCommon, Strip};
use crate::elf::consts as elf;
use crate::frames::Frames;
use crate::ids::{FileId, SectionId};
use crate::phase::{CommonPlace, Inputs, Made, Resolved};
use crate::plan::LayoutPlan;
use crate::relocs::dynamic;
use crate::sframe::collect;
use crate::sframe_output;
use crate::symbols::Definition;
use crate::synth::{
    android, attributes, debug_names, eh_frame, eh_frame_hdr, gdb_index, notes, property_note,
};
use crate::tables::section::{Kind, SyntheticSection, SyntheticSections};

const A: u64 = elf::SHF_ALLOC as u64;
const AW: u64 = A | elf::SHF_WRITE as u64;
const AX: u64 = A | elf::SHF_EXECINSTR as u64;
const WORD: u64 = 8;

/// Makes the synthetic sections, and allocates common blocks.
pub fn run<'a, T: Target>(
    resolved: Resolved<'a, T>,
    plan: &LayoutPlan,
    frames: Frames<'a, T::E>,
    described: collect::Inputs,
) -> Made<'a, T> {
    let synthetic = SyntheticSections::default();
    let mut made = Made {
        resolved,
        frames,
        described,
        synthetic,
        features: 0,
        plt_shape: PltShape::default(),
        common_places: Vec::new(),
    };
    let link = &mut made;
    add_notes(link);
    if !link.config.is_relocatable() {
        if link.is_dynamic() {
            add_dynamic_tables(link);
        }
        add_linkage_tables(link);
        for section in [eh_frame::section(link), eh_frame_hdr::section(link)].into_iter().flatten() {
            link.synthetic.rows.push(section);
        }
        if !plan.replaces_default {
            add_comment(link);
        }
    }
    let own = [
        sframe_output::absorb::section(link),
        sframe_output::overlay::section(link),
        gdb_index::section(link),
        debug_names::section(link),
    ];
    link.synthetic.rows.extend(own.into_iter().flatten());
    if plan.allocates_commons(link.config) {
        add_commons(link);
    }
    add_symbol_tables(link);
    link.resolved.sections.add_alive(link.synthetic.rows.len());
    made
}

fn add<T: Target>(
    link: &mut Made<'_, T>,
    kind: Kind,
    name: &'static str,
    (sh_type, flags): (u32, u64),
    (align, entsize): (u64, u64),
) {
    let section = SyntheticSection::new(kind, name.as_bytes(), sh_type, flags, align);
    link.synthetic.rows.push(SyntheticSection { entsize, ..section });
}

/// Adds a section with final contents.
fn add_bytes<'a, T: Target>(
    link: &mut Made<'a, T>,
    kind: Kind,
    name: &'static str,
    (sh_type, flags): (u32, u64),
    align: u64,
    bytes: Vec<u8>,
) {
    let bytes = link.store.keep(bytes);
    let section = SyntheticSection::new(kind, name.as_bytes(), sh_type, flags, align);
    link.synthetic.rows.push(SyntheticSection { size: bytes.len() as u64, bytes, ..section });
}

fn add_notes<T: Target>(link: &mut Made<'_, T>) {
    let note = (elf::SHT_NOTE, A);
    let properties = property_note::merge(&mut link.resolved);
    link.features = properties.features;
    link.plt_shape = T::plt_shape(&link.config.properties, properties.features);
    if !properties.note.is_empty() {
        add_bytes(link, Kind::PropertyNote, ".note.gnu.property", note, WORD, properties.note);
    }
    if let Some(kind) = T::BUILD_ATTRIBUTES.filter(|_| !properties.attributes.is_empty()) {
        add_bytes(link, Kind::Bytes, ".ARM.attributes", (kind, 0), 1, properties.attributes);
    }
    let attributes = attributes::merge(&mut link.resolved);
    if !attributes.is_empty() {
        let kind = (attributes::SHT_GNU_ATTRIBUTES, 0);
        add_bytes(link, Kind::Bytes, ".gnu.attributes", kind, 1, attributes);
    }
    let build_id = match &link.config.notes.build_id {
        BuildId::None => None,
        BuildId::Fast => Some(vec![0; 8]),
        BuildId::Md5 | BuildId::Uuid => Some(vec![0; 16]),
        BuildId::Sha1 => Some(vec![0; 20]),
        BuildId::Hex(bytes) => Some(bytes.clone()),
    };
    if let Some(identifier) = build_id {
        let bytes = notes::encode::<T>(b"GNU", elf::NT_GNU_BUILD_ID, &identifier);
        add_bytes(link, Kind::BuildIdNote, ".note.gnu.build-id", note, 4, bytes);
    }
    if let Some(text) = &link.config.notes.package_metadata
        && !link.config.is_relocatable()
    {
        // Its size counts the padding, too, as in GNU ld and mold.
        let mut text = [&text[..], b"\0"].concat();
        text.resize(text.len().next_multiple_of(4), 0);
        let bytes = notes::encode::<T>(b"FDO", notes::NT_FDO_PACKAGING_METADATA, &text);
        add_bytes(link, Kind::PackageNote, ".note.package", note, 4, bytes);
    }
}

/// Adds the dynamic linker's tables: `.interp`, `.dynsym`, `.dynamic` and others.
fn add_dynamic_tables<T: Target>(link: &mut Made<'_, T>) {
    let dynamic = &link.config.dynamic;
    if let Some(path) = interpreter(link) {
        let path = [&path[..], b"\0"].concat();
        add_bytes(link, Kind::Interp, ".interp", (elf::SHT_PROGBITS, A), 1, path);
    }
    if dynamic.hash_style.sysv {
        add(link, Kind::Hash, ".hash", (elf::SHT_HASH, A), (WORD, T::SYSV_HASH_ENTRY));
    }
    if dynamic.hash_style.gnu {
        add(link, Kind::GnuHash, ".gnu.hash", (elf::SHT_GNU_HASH, A), (WORD, 0));
    }
    add(link, Kind::DynSym, ".dynsym", (elf::SHT_DYNSYM, A), (WORD, 24));
    add(link, Kind::DynStr, ".dynstr", (elf::SHT_STRTAB, A), (1, 0));
    add(link, Kind::VerSym, ".gnu.version", (elf::SHT_GNU_VERSYM, A), (2, 2));
    add(link, Kind::VerDef, ".gnu.version_d", (elf::SHT_GNU_VERDEF, A), (WORD, 0));
    add(link, Kind::VerNeed, ".gnu.version_r", (elf::SHT_GNU_VERNEED, A), (WORD, 0));
    if android::is_wanted(link) {
        add(link, Kind::RelaDyn, ".rela.dyn", (android::SHT_ANDROID_RELA, A), (WORD, 1));
    } else {
        add(link, Kind::RelaDyn, ".rela.dyn", (elf::SHT_RELA, A), (WORD, 24));
    }
    if link.config.relocations.pack_relative {
        let sh_type =
            if link.config.relocations.android_relr_tags { SHT_ANDROID_RELR } else { elf::SHT_RELR };
        add(link, Kind::RelrDyn, ".relr.dyn", (sh_type, A), (WORD, WORD));
    }
    let flags = if dynamic.read_only_dynamic { A } else { AW };
    add(link, Kind::Dynamic, ".dynamic", (elf::SHT_DYNAMIC, flags), (WORD, 16));
    if matches!(link.config.mode, OutputMode::Executable { .. }) && !link.shared.is_empty() {
        add(link, Kind::CopyData, ".dynbss", (elf::SHT_NOBITS, AW), (1, 0));
        add(link, Kind::CopyRelro, ".data.rel.ro", (elf::SHT_PROGBITS, AW), (1, 0));
    }
}

/// `SHT_ANDROID_RELR`, the number that RELR had before the gABI took it in.
const SHT_ANDROID_RELR: u32 = 0x6fff_ff00;

/// The path for `PT_INTERP`; `None` for outputs that no dynamic linker starts.
fn interpreter<T: Target>(link: &Inputs<'_, T>) -> Option<Vec<u8>> {
    let config = link.config;
    if config.is_shared() || config.dynamic.no_dynamic_linker || config.static_link {
        return None;
    }
    Some(match &config.dynamic.dynamic_linker {
        Some(path) => path.as_os_str().as_encoded_bytes().to_vec(),
        None => T::INTERPRETER.as_bytes().to_vec(),
    })
}

/// Adds `.got`, `.plt` and their relocations. Static programs have them too, for `STT_GNU_IFUNC`.
fn add_linkage_tables<T: Target>(link: &mut Made<'_, T>) {
    let plt = link.plt_shape;
    let info = A | u64::from(elf::SHF_INFO_LINK);
    // Start-up code of static programs finds the table between `__rela_iplt_start` and `__rela_iplt_end`,
    // which the scripts put around sections of this name.
    let rela_plt = if dynamic::irelative_in_plt(link) { ".rela.iplt" } else { ".rela.plt" };
    add(link, Kind::RelaPlt, rela_plt, (elf::SHT_RELA, info), (WORD, 24));
    add(link, Kind::Plt, ".plt", (elf::SHT_PROGBITS, AX), (plt.align, plt.entry));
    add(link, Kind::PltGot, ".plt.got", (elf::SHT_PROGBITS, AX), (plt.direct_entry, plt.direct_entry));
    if plt.split {
        let shape = (plt.align, plt.direct_entry);
        add(link, Kind::PltSec, ".plt.sec", (elf::SHT_PROGBITS, AX), shape);
    }
    add(link, Kind::Got, ".got", (elf::SHT_PROGBITS, AW), (WORD, WORD));
    add(link, Kind::GotPlt, ".got.plt", (elf::SHT_PROGBITS, AW), (WORD, WORD));
}

/// Names this linker in `.comment`, as compilers name themselves. The caller leaves it out if a script
/// replaces the default one: such an image holds only what its script asks for.
fn add_comment<T: Target>(link: &mut Made<'_, T>) {
    const TEXT: &str = concat!("Linker: sframe-ld ", env!("CARGO_PKG_VERSION"), "\0");
    let flags = u64::from(elf::SHF_MERGE | elf::SHF_STRINGS);
    let section = SyntheticSection::new(Kind::Bytes, b".comment", elf::SHT_PROGBITS, flags, 1);
    let bytes = TEXT.as_bytes();
    link.synthetic.rows.push(SyntheticSection { entsize: 1, size: bytes.len() as u64, bytes, ..section });
}

fn add_symbol_tables<T: Target>(link: &mut Made<'_, T>) {
    if link.config.layout.no_section_headers {
        return;
    }
    if link.config.is_relocatable() || link.config.strip.strip != Strip::All {
        add(link, Kind::SymTab, ".symtab", (elf::SHT_SYMTAB, 0), (WORD, 24));
        add(link, Kind::SymTabShndx, ".symtab_shndx", (elf::SHT_SYMTAB_SHNDX, 0), (4, 4));
        add(link, Kind::StrTab, ".strtab", (elf::SHT_STRTAB, 0), (1, 0));
    }
    add(link, Kind::ShStrTab, ".shstrtab", (elf::SHT_STRTAB, 0), (1, 0));
}

/// The kind of an object's common section that a block goes to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CommonKind {
    Plain,
    Tls,
    Large,
}

/// Makes one section per object and kind, as scripts expect it (`file.o(COMMON)`), and places the blocks in
/// it.
fn add_commons<T: Target>(link: &mut Made<'_, T>) {
    let blocks = &link.definitions.commons;
    let mut order: Vec<(FileId, CommonKind, u32, usize)> = blocks
        .iter()
        .enumerate()
        .filter_map(|(row, block)| {
            let Definition::Object { file, symbol } = link.definition(block.symbol) else { return None };
            Some((file, common_kind(link, file, symbol), symbol, row))
        })
        .collect();
    order.sort_unstable();
    let mut places = vec![None; blocks.len()];
    for group in order.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let blocks = &link.definitions.commons;
        let mut rows: Vec<usize> = group.iter().map(|entry| entry.3).collect();
        match link.config.layout.sort_common {
            SortCommon::None => {}
            SortCommon::Ascending => rows.sort_by_key(|&row| blocks[row].align),
            SortCommon::Descending => rows.sort_by_key(|&row| std::cmp::Reverse(blocks[row].align)),
        }
        add_common_section(link, group[0].0, group[0].1, &rows, &mut places);
    }
    link.common_places = places;
}

fn common_kind<T: Target>(link: &Inputs<'_, T>, file: FileId, symbol: u32) -> CommonKind {
    let symbol = &link.objects[file.index()].symbols[symbol as usize];
    if symbol.kind() == elf::STT_TLS {
        CommonKind::Tls
    } else if T::SHF_LARGE != 0 && symbol.st_shndx.get() == SHN_LARGE_COMMON {
        CommonKind::Large
    } else {
        CommonKind::Plain
    }
}

fn add_common_section<T: Target>(
    link: &mut Made<'_, T>,
    file: FileId,
    kind: CommonKind,
    rows: &[usize],
    places: &mut [Option<CommonPlace>],
) {
    let (name, flags) = match kind {
        CommonKind::Plain => (&b"COMMON"[..], AW),
        CommonKind::Tls => (&b".tcommon"[..], AW | u64::from(elf::SHF_TLS)),
        CommonKind::Large => (&b"LARGE_COMMON"[..], AW | T::SHF_LARGE),
    };
    let id = SectionId::from_index(link.section_count());
    let section = SyntheticSection::new(Kind::Common, name, elf::SHT_NOBITS, flags, 1);
    let mut section = SyntheticSection { file: Some(file), ..section };
    for &row in rows {
        let offset = section.append_block(&link.definitions.commons[row]);
        places[row] = Some(CommonPlace { section: id, offset });
    }
    link.synthetic.rows.push(section);
}
