//! `.gnu.version`, `.gnu.version_d`, `.gnu.version_r` (Linux Standard Base, "Symbol Versioning").
//!
//! Index 0 means a local symbol, and index 1 the output without a version. Then come the versions that the
//! output defines, and then those that it needs from libraries. An output without versions has none of these
//! tables.

use super::hash::hash;
use super::synthesis::{Create, Grow, Size, Synthesis, Write, bytes};
use crate::arch::Target;
use crate::arch::target::PltTags;
use crate::elf::consts as elf;
use crate::elf::{Verdaux, Verdef, Vernaux, Verneed};
use crate::ids::SharedId;
use crate::input::shared::VERSION_HIDDEN;
use crate::phase::{Inputs, Numbered, Resolved};
use crate::region::copy_bytes;
use crate::symbols::Definition;
use crate::symbols::MentionedBy;
use crate::symbols::versions::{FIRST_VERSION, too_many};
use crate::tables::dynamic_tables::{DefinedVersion, DynamicTables, NeededLibrary, NeededVersion};
use crate::tables::dynstr::DynamicStrings;
use crate::tables::section::{Kind, READ_ONLY, SyntheticSection, WORD};
use std::collections::BTreeMap;
use zerocopy::IntoBytes;
use zerocopy::byteorder::{U16, U32};

/// The versions that the output defines, with the base version first. There are none if no version script and
/// no `.symver` names any.
pub fn defined<'a, T: Target>(
    link: &Resolved<'a, T>,
    strings: &mut DynamicStrings<'a>,
) -> Vec<DefinedVersion<'a>> {
    if link.versions.definitions.is_empty() {
        return Vec::new();
    }
    let base = link.store.keep(link.config.output_name());
    let names = vec![strings.add(base)];
    let mut all =
        vec![DefinedVersion { name: base, index: elf::VER_NDX_GLOBAL, flags: elf::VER_FLG_BASE, names }];
    for (index, definition) in (FIRST_VERSION..).zip(&link.versions.definitions) {
        let mut names = vec![strings.add(definition.name)];
        names.extend(definition.parents.iter().map(|parent| strings.add(parent)));
        let flags = if definition.weak { elf::VER_FLG_WEAK } else { 0 };
        all.push(DefinedVersion { name: definition.name, index, flags, names });
    }
    all
}

/// Finds the versions that the output needs, and gives each dynamic symbol its version word. The rows of
/// `.dynsym` are final by now. `packs` tells whether the output has `.relr.dyn`.
pub fn need<'a, T: Target>(link: &Numbered<'a, T>, packs: bool, tables: &mut DynamicTables<'a>) {
    let mut needed: BTreeMap<(SharedId, u16), bool> = BTreeMap::new();
    for symbol in &tables.symbols {
        if let Some((key, weak)) = needed_version(link, tables, symbol.id) {
            *needed.entry(key).or_insert(true) &= weak;
        }
    }
    let count = link.versions.definitions.len() + needed.len();
    if let Some(finding) = too_many(count) {
        link.sink.report(finding);
        needed.clear();
    }
    let mut next = FIRST_VERSION + link.versions.definitions.len() as u16;
    let mut index_of: BTreeMap<(SharedId, u16), u16> = BTreeMap::new();
    let mut libraries: Vec<(SharedId, NeededLibrary<'a>)> = Vec::new();
    for (&(library, version), &weak) in &needed {
        let file = &link.shared[library.index()];
        if libraries.last().is_none_or(|last| last.0 != library) {
            let entry = NeededLibrary { file: tables.strings.add(file.soname), versions: Vec::new() };
            libraries.push((library, entry));
        }
        let name = match version {
            // `--default-imported-symver`
            elf::VER_NDX_GLOBAL => file.soname,
            _ => file.version_name(version),
        };
        let name_offset = tables.strings.add(name);
        if let Some((_, entry)) = libraries.last_mut() {
            entry.versions.push(NeededVersion { name, name_offset, index: next, weak });
        }
        index_of.insert((library, version), next);
        next += 1;
    }
    tables.words.clear();
    for symbol in &tables.symbols {
        tables.words.push(match link.definition(symbol.id) {
            Definition::Shared { .. } => needed_version(link, tables, symbol.id)
                .and_then(|(key, _)| index_of.get(&key).copied())
                .unwrap_or(elf::VER_NDX_GLOBAL),
            Definition::Undefined => elf::VER_NDX_GLOBAL,
            Definition::Object { .. } | Definition::Linker(_) => link.versions.words[symbol.id.index()],
        });
    }
    for feature in features(link, packs) {
        add_version_of_feature(link, tables, &mut libraries, feature, &mut next);
    }
    tables.needed = libraries.into_iter().map(|(_, library)| library).collect();
}

/// The library to which an imported symbol is bound, with the index of the version there, and whether all
/// references are weak.
fn needed_version<T: Target>(
    link: &Resolved<'_, T>,
    tables: &DynamicTables<'_>,
    id: crate::ids::SymbolId,
) -> Option<((SharedId, u16), bool)> {
    let Definition::Shared { library, symbol } = link.definition(id) else { return None };
    let file = &link.shared[library.index()];
    let version = file.symbol_version(symbol as usize).index;
    let is_named = version > elf::VER_NDX_GLOBAL && !file.version_name(version).is_empty();
    if !(is_named || link.config.symbols.default_imported_symver) || !tables.needs(library) {
        return None;
    }
    let version = if is_named { version } else { elf::VER_NDX_GLOBAL };
    Some(((library, version), !link.mentions(id).contains(MentionedBy::STRONG_REFERENCE)))
}

/// Something that the output needs of the C library.
#[derive(Clone, Copy)]
struct Feature {
    /// The version by which the C library tells that it has the feature, such as `GLIBC_ABI_DT_RELR`.
    version: &'static [u8],
    /// Whether the version is asked for even if the C library of the link does not have it.
    always: bool,
}

fn features<T: Target>(link: &Numbered<'_, T>, packs: bool) -> Vec<Feature> {
    let mut features = Vec::new();
    if packs && !link.config.relocations.android_relr_tags {
        features.push(Feature { version: b"GLIBC_ABI_DT_RELR", always: true });
    }
    // The tags are information: every C library runs the output correctly.
    if let Some(PltTags { version, .. }) = T::PLT_TAGS
        && link.config.dynamic.mark_plt
    {
        features.push(Feature { version, always: false });
    }
    let wanted = link.config.dynamic.tls_desc_version;
    if let Some(version) = T::TLS_DESC_VERSION
        && wanted != Some(false)
        && link.rows.iter().any(|row| row.tls_desc.is_some())
    {
        features.push(Feature { version, always: wanted == Some(true) });
    }
    features
}

/// Adds such a version of the C library to the needed versions, if the output needs any version of it. Then
/// the dynamic linker of an older C library refuses to start the program. Without it, the program would start
/// and run wrong.
fn add_version_of_feature<'a, T: Target>(
    link: &Inputs<'a, T>,
    tables: &mut DynamicTables<'a>,
    libraries: &mut [(SharedId, NeededLibrary<'a>)],
    feature: Feature,
    next: &mut u16,
) {
    for (library, needed) in libraries {
        let is_libc = link.shared[library.index()].soname.starts_with(b"libc.so.");
        let versions = &mut needed.versions;
        if !is_libc || !versions.iter().any(|version| version.name.starts_with(b"GLIBC_2.")) {
            continue;
        }
        let name = feature.version;
        if !feature.always && !link.shared[library.index()].version_names.contains(&name) {
            return;
        }
        if *next < VERSION_HIDDEN && versions.iter().all(|version| version.name != name) {
            let name_offset = tables.strings.add(name);
            versions.push(NeededVersion { name, name_offset, index: *next, weak: false });
            *next += 1;
        }
        return;
    }
}

/// `.gnu.version`.
pub fn words<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            let section =
                || SyntheticSection::new(Kind::VerSym, b".gnu.version", elf::SHT_GNU_VERSYM, READ_ONLY, 2);
            link.is_dynamic().then(|| section().entries(2)).into()
        }),
        size: Size::Numbered(|link| bytes(sizes(&link.dynamic).0)),
        grow: Grow::Never,
        write: Write::Bytes(|link, _, out| write_words::<T>(&link.dynamic, out)),
    }
}

/// `.gnu.version_d`.
pub fn definitions<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            let (name, sh_type) = (b".gnu.version_d", elf::SHT_GNU_VERDEF);
            let section = || SyntheticSection::new(Kind::VerDef, name, sh_type, READ_ONLY, WORD);
            link.is_dynamic().then(section).into()
        }),
        size: Size::Numbered(|link| bytes(sizes(&link.dynamic).1)),
        grow: Grow::Never,
        write: Write::Bytes(|link, _, out| write_defined::<T>(&link.dynamic, out)),
    }
}

/// `.gnu.version_r`.
pub fn needs<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            let (name, sh_type) = (b".gnu.version_r", elf::SHT_GNU_VERNEED);
            let section = || SyntheticSection::new(Kind::VerNeed, name, sh_type, READ_ONLY, WORD);
            link.is_dynamic().then(section).into()
        }),
        size: Size::Numbered(|link| bytes(sizes(&link.dynamic).2)),
        grow: Grow::Never,
        write: Write::Bytes(|link, _, out| write_needed::<T>(&link.dynamic, out)),
    }
}

/// The sizes of the three tables in bytes.
fn sizes(tables: &DynamicTables<'_>) -> (u64, u64, u64) {
    if tables.defined.is_empty() && tables.needed.is_empty() {
        return (0, 0, 0);
    }
    let defined: usize = tables.defined.iter().map(|version| 20 + 8 * version.names.len()).sum();
    let needed: usize = tables.needed.iter().map(|library| 16 + 16 * library.versions.len()).sum();
    (2 * (tables.symbols.len() as u64 + 1), defined as u64, needed as u64)
}

/// Writes `.gnu.version`.
fn write_words<T: Target>(tables: &DynamicTables<'_>, out: &mut [u8]) {
    let words = tables.words.iter().copied();
    for (place, word) in out.chunks_exact_mut(2).zip(std::iter::once(elf::VER_NDX_LOCAL).chain(words)) {
        place.copy_from_slice(&U16::<T::E>::new(word).to_bytes());
    }
}

/// Writes `.gnu.version_d`.
fn write_defined<T: Target>(tables: &DynamicTables<'_>, out: &mut [u8]) {
    let mut bytes = Vec::with_capacity(out.len());
    for (row, version) in tables.defined.iter().enumerate() {
        let count = version.names.len() as u32;
        let last = row + 1 == tables.defined.len();
        let definition = Verdef::<T::E> {
            vd_version: U16::new(elf::VER_DEF_CURRENT),
            vd_flags: U16::new(version.flags),
            vd_ndx: U16::new(version.index),
            vd_cnt: U16::new(count as u16),
            vd_hash: U32::new(hash(version.name)),
            vd_aux: U32::new(20),
            vd_next: U32::new(if last { 0 } else { 20 + 8 * count }),
        };
        bytes.extend(definition.as_bytes());
        for (position, &name) in (1..).zip(&version.names) {
            let next = if position == count { 0 } else { 8 };
            let aux = Verdaux::<T::E> { vda_name: U32::new(name), vda_next: U32::new(next) };
            bytes.extend(aux.as_bytes());
        }
    }
    copy_bytes(&bytes, out);
}

/// Writes `.gnu.version_r`.
fn write_needed<T: Target>(tables: &DynamicTables<'_>, out: &mut [u8]) {
    let mut bytes = Vec::with_capacity(out.len());
    for (row, library) in tables.needed.iter().enumerate() {
        let count = library.versions.len() as u32;
        let last = row + 1 == tables.needed.len();
        let head = Verneed::<T::E> {
            vn_version: U16::new(elf::VER_NEED_CURRENT),
            vn_cnt: U16::new(count as u16),
            vn_file: U32::new(library.file),
            vn_aux: U32::new(16),
            vn_next: U32::new(if last { 0 } else { 16 + 16 * count }),
        };
        bytes.extend(head.as_bytes());
        for (position, version) in (1..).zip(&library.versions) {
            let aux = Vernaux::<T::E> {
                vna_hash: U32::new(hash(version.name)),
                vna_flags: U16::new(if version.weak { elf::VER_FLG_WEAK } else { 0 }),
                vna_other: U16::new(version.index),
                vna_name: U32::new(version.name_offset),
                vna_next: U32::new(if position == count { 0 } else { 16 }),
            };
            bytes.extend(aux.as_bytes());
        }
    }
    copy_bytes(&bytes, out);
}
