//! The tables that the dynamic linker reads: `.dynsym`, `.dynstr`, the hash tables, `.gnu.version*`
//! and `.dynamic`.
//!
//! [`size`] settles which symbols, names and versions there are, when relocations are scanned and
//! before layout; [`write`] fills in addresses.

use super::dynamic::{self, DynamicEntry};
use super::dynstr::DynamicStrings;
use super::symbol_versions::{self, DefinedVersion, NeededLibrary};
use super::{Kind, dynsym, gnu_hash, hash};
use crate::arch::Target;
use crate::ids::SymbolId;
use crate::link::Link;
use crate::phase::Inputs;
use crate::phase::Resolved;
use crate::symbols::Definition;
use crate::symbols::Mentions;
use rayon::prelude::*;
use std::sync::atomic::Ordering;

/// A row of `.dynsym`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DynamicSymbol<'a> {
    /// The global.
    pub id: SymbolId,
    /// Its name, without a version.
    pub name: &'a [u8],
    /// Offset of the name in `.dynstr`.
    pub name_offset: u32,
    /// Hash of the name for `.gnu.hash`.
    pub gnu_hash: u32,
}

/// What the tables are made of.
#[derive(Debug, Default)]
pub struct DynamicTables<'a> {
    /// Rows of `.dynsym` from row 1 on.
    pub symbols: Vec<DynamicSymbol<'a>>,
    /// Position in `symbols` of the first one that others may find here.
    pub first_hashed: usize,
    /// Shape of `.gnu.hash`.
    pub gnu_hash: gnu_hash::Shape,
    /// By global: row of `.dynsym`, 0 if it has none. Empty in static links.
    index_of: Vec<u32>,
    /// Version words of `symbols`.
    pub words: Vec<u16>,
    /// `.dynstr`.
    pub strings: DynamicStrings<'a>,
    /// `.gnu.version_d`.
    pub defined: Vec<DefinedVersion<'a>>,
    /// `.gnu.version_r`.
    pub needed: Vec<NeededLibrary<'a>>,
    /// `.dynamic`, without the null entries at its end.
    pub entries: Vec<DynamicEntry>,
}

/// Settles the contents and sizes of all tables. Relocations are scanned, their tables have their
/// sizes.
pub fn size<T: Target>(link: &mut Link<'_, T>) {
    if !link.is_dynamic() {
        return;
    }
    mark_used_libraries(link);
    let (symbols, first_hashed, gnu_hash) = dynsym::select(link);
    let strings = DynamicStrings::new(symbols.len() + 64);
    let mut tables = DynamicTables { symbols, first_hashed, gnu_hash, strings, ..DynamicTables::default() };
    tables.index_of = index(link, &tables.symbols);
    for symbol in &mut tables.symbols {
        symbol.name_offset = tables.strings.add(symbol.name);
    }
    tables.defined = symbol_versions::defined(link, &mut tables.strings);
    symbol_versions::need(link, &mut tables);
    let (words, defined, needed) = symbol_versions::sizes(&tables);
    let rows = tables.symbols.len() + 1;
    set_size(link, Kind::DynSym, rows as u64 * 24);
    set_size(link, Kind::Hash, hash::size::<T>(rows));
    set_size(link, Kind::GnuHash, gnu_hash.size());
    set_size(link, Kind::VerSym, words);
    set_size(link, Kind::VerDef, defined);
    set_size(link, Kind::VerNeed, needed);
    tables.entries = dynamic::entries(link, &mut tables);
    let spare = 1 + u64::from(link.config.dynamic.spare_tags);
    set_size(link, Kind::Dynamic, (tables.entries.len() as u64 + spare) * dynamic::ENTRY);
    set_size(link, Kind::DynStr, tables.strings.bytes().len() as u64);
    link.dynamic = tables;
    for row in 0..link.synthetics.rows.len() {
        let found = dynsym_index(link, link.synthetics.rows[row].symbol);
        link.synthetics.rows[row].dynsym = if found == 0 { u32::MAX } else { found };
    }
}

fn set_size<T: Target>(link: &mut Link<'_, T>, kind: Kind, size: u64) {
    if let Some(row) = link.synthetics.find(kind) {
        link.synthetics.sections[row as usize].size = size;
    }
}

fn index<T: Target>(link: &Inputs<'_, T>, symbols: &[DynamicSymbol<'_>]) -> Vec<u32> {
    let mut index_of = vec![0; link.globals.len()];
    for (row, symbol) in (1..).zip(symbols) {
        index_of[symbol.id.index()] = row;
    }
    index_of
}

/// Row of a symbol in `.dynsym`; 0 if it has none.
pub fn dynsym_index<T: Target>(link: &Link<'_, T>, id: SymbolId) -> u32 {
    let row = |id: SymbolId| link.dynamic.index_of.get(id.index()).copied().unwrap_or(0);
    match row(id) {
        0 if link.globals.contains(id) => row(dynsym::representative(link, id)),
        found => found,
    }
}

/// Which libraries the output needs: those that something in it refers to by a reference that is
/// not weak, and those that such libraries need but do not name themselves.
fn mark_used_libraries<T: Target>(link: &Link<'_, T>) {
    (0..link.globals.len() as u32).into_par_iter().with_min_len(4096).for_each(|row| {
        let id = SymbolId(row);
        let Definition::Shared { library, .. } = link.definition(id) else { return };
        let wanted = Mentions::IN_OBJECT | Mentions::STRONG_REFERENCE;
        let used = &link.shared[library.index()].used;
        if link.mentions(id).contains(wanted) && link.is_name_used(id) && !used.load(Ordering::Relaxed) {
            used.store(true, Ordering::Relaxed);
        }
    });
    while mark_needed_by_libraries(link) {}
}

/// Marks the libraries that those which are needed take symbols from without naming them.
fn mark_needed_by_libraries<T: Target>(link: &Resolved<'_, T>) -> bool {
    let mut changed = false;
    for library in link.shared.iter().filter(|library| library.is_needed()) {
        for (symbol, &id) in library.symbols.iter().zip(&library.globals) {
            if !id.is_some() || !symbol.is_undefined() || symbol.is_weak() {
                continue;
            }
            let Definition::Shared { library: definer, .. } = link.definition(id) else { continue };
            let definer = &link.shared[definer.index()];
            if definer.is_needed() {
                continue;
            }
            let named =
                link.shared.iter().any(|other| other.is_needed() && other.needed.contains(&definer.soname));
            if !named {
                definer.used.store(true, Ordering::Relaxed);
                changed = true;
            }
        }
    }
    changed
}

/// Writes one of the tables; false if `kind` is none of them.
pub fn write<T: Target>(link: &Link<'_, T>, kind: Kind, out: &mut [u8]) -> bool {
    let tables = &link.dynamic;
    match kind {
        Kind::DynSym => dynsym::write(link, out),
        Kind::DynStr => {
            let bytes = tables.strings.bytes();
            let size = bytes.len().min(out.len());
            out[..size].copy_from_slice(&bytes[..size]);
        }
        Kind::Hash => hash::write::<T>(tables, out),
        Kind::GnuHash => gnu_hash::write::<T>(tables, out),
        Kind::VerSym => symbol_versions::write_words(link, out),
        Kind::VerDef => symbol_versions::write_defined::<T>(tables, out),
        Kind::VerNeed => symbol_versions::write_needed::<T>(tables, out),
        Kind::Dynamic => dynamic::write(link, out),
        _ => return false,
    }
    true
}
