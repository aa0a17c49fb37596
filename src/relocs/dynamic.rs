//! The entries of `.rela.dyn`, `.rela.plt` and `.relr.dyn`, from all sources: places in sections, words of
//! the GOT, copies. Only jump slots are elsewhere (see [`crate::synth::reldyn`]).
//!
//! The layout needs the sizes of these tables before any address is known, and the entries need the
//! addresses. So [`count`] runs before the layout. After it, [`of_site`] gives the entry of a place in a
//! section, and [`own`] those of the linker's own tables. If the two disagreed, a table would overflow. So
//! both walk the same sources with the same functions.

use super::address;
use super::slots::{self, Packs, Word, packs};
use crate::arch::Target;
use crate::decision::decide::DynamicKind;
use crate::decision::site::DynRelocSite;
use crate::phase::{DynamicRow, Geometry, Inputs, Live, Located, Numbered, Scanned};
use crate::symbols::{Needs, SymbolFlags};
use crate::tables::section::Kind;
use parallel::{ParallelSlice, ParallelSort};

/// One entry of `.rela.dyn` or `.rela.plt`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// Address of the place.
    pub address: u64,
    /// Its type (`R_*`).
    pub kind: u32,
    /// Row in `.dynsym`, or 0.
    pub symbol: u32,
    /// Its addend. It is in `.rela.*`, not in the place.
    pub addend: u64,
}

/// Numbers of entries by kind.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Relative relocations in `.rela.dyn`.
    pub relative: u64,
    /// Relative relocations in `.relr.dyn`.
    pub packed: u64,
    /// Those of signed pointers that the table of these can express at some addresses.
    pub signed_packed: u64,
    /// `R_*_IRELATIVE`: results of resolvers. In an output that no dynamic linker relocates, signed pointers,
    /// too.
    pub irelative: u64,
    /// All others in `.rela.dyn`.
    pub other: u64,
}

impl Counts {
    fn add(&mut self, more: Counts) {
        self.relative += more.relative;
        self.packed += more.packed;
        self.signed_packed += more.signed_packed;
        self.irelative += more.irelative;
        self.other += more.other;
    }

    fn word<T: Target>(&mut self, link: &Live<'_, T>, packs: Packs, row: &DynamicRow, word: Word) {
        match word.relocation.map(|relocation| relocation.kind) {
            None => {}
            Some(kind) if is_packed_word(link, packs, row, kind) => self.packed += 1,
            Some(kind) if kind == T::DYNAMIC.relative => self.relative += 1,
            Some(kind) if is_for_start_up::<T>(kind, irelative_in_plt(link)) => self.irelative += 1,
            Some(_) => self.other += 1,
        }
    }
}

/// Whether start-up code carries out relocations of this type, if no dynamic linker does (`alone`): results
/// of resolvers, and signed pointers.
fn is_for_start_up<T: Target>(kind: u32, alone: bool) -> bool {
    kind == T::DYNAMIC.irelative || alone && T::SIGNED.is_some_and(|signed| signed.has(kind))
}

/// Whether all `R_*_IRELATIVE` entries are in `.rela.plt`. In a program without a dynamic section, start-up
/// code looks for them there, between `__rela_iplt_start` and `__rela_iplt_end`. A dynamic output has only
/// those of functions with PLT entries there.
pub fn irelative_in_plt<T: Target>(link: &Inputs<'_, T>) -> bool {
    !link.is_dynamic()
}

/// Whether a dynamic output puts the relocation of this GOT word into `.rela.plt`.
fn is_of_plt<T: Target>(row: &DynamicRow, kind: u32) -> bool {
    kind == T::DYNAMIC.irelative && row.plt_got.is_some()
}

/// Whether a packed table can express a place. It can if the address will be even. The place of an address of
/// a tagged global must be free to say where the tag comes from ([`beside_tags`]).
fn is_packable<T: Target>(link: &Scanned<'_, T>, site: &DynRelocSite) -> bool {
    site.offset().is_multiple_of(2)
        && link.section_info(site.section).align >= 2
        && !link.tagged.has(site.symbol)
}

/// Whether `.relr.dyn` has the relocation of a row's word of the GOT.
fn is_packed_word<T: Target>(link: &Live<'_, T>, packs: Packs, row: &DynamicRow, kind: u32) -> bool {
    packs.plain && kind == T::DYNAMIC.relative && !link.tagged.has(row.symbol)
}

/// The kind of a site, now that all needs are known. If an `STT_GNU_IFUNC` function has a canonical PLT
/// entry, that entry is its address, so the site becomes relative. A site with the address of a GOT slot is
/// relative, too.
fn settled_kind<T: Target>(link: &Scanned<'_, T>, site: &DynRelocSite) -> DynamicKind {
    let is_canonical = |id| link.symbol_needs(id).contains(Needs::CANONICAL_PLT);
    match site.kind() {
        DynamicKind::Resolved if is_canonical(site.symbol) => DynamicKind::Relative,
        DynamicKind::TpSlot => DynamicKind::Relative,
        kind => kind,
    }
}

/// Counts all entries except jump slots.
pub fn count<T: Target>(link: &Numbered<'_, T>) -> Counts {
    let (packs, alone) = (packs(link), irelative_in_plt(link));
    let mut counts = link
        .reloc_needs
        .sites
        .par_iter()
        .map(|sites| {
            let mut counts = Counts::default();
            for site in sites {
                match settled_kind(link, site) {
                    DynamicKind::Relative if packs.plain && is_packable(link, site) => counts.packed += 1,
                    DynamicKind::Relative => counts.relative += 1,
                    DynamicKind::SignedRelative if packs.signed && is_packable(link, site) => {
                        counts.signed_packed += 1;
                    }
                    kind if is_for_start_up::<T>(type_of::<T>(kind), alone) => counts.irelative += 1,
                    _ => counts.other += 1,
                }
            }
            counts
        })
        .reduce(Counts::default, |mut sum, more| {
            sum.add(more);
            sum
        });
    slots::for_all_words(link, &mut |row, word| counts.word(link, packs, row, word));
    counts.other += link.copies.all.len() as u64;
    counts
}

/// The type of a site's entry. `None`: the site is in a packed table.
#[inline]
pub fn type_of_site<T: Target>(link: &Located<'_, T>, packs: Packs, site: &DynRelocSite) -> Option<u32> {
    let kind = settled_kind(link, site);
    let packed = match kind {
        DynamicKind::Relative => packs.plain && is_packable(link, site),
        DynamicKind::SignedRelative => packs.signed && is_signed_packed(link, site),
        _ => false,
    };
    (!packed).then(|| type_of::<T>(kind))
}

/// Whether `.relr.auth.dyn` can express the place of a signed pointer. The upper half of the place says how
/// to sign it, so the target's address must fit the lower half. Readers may take that for a signed number.
fn is_signed_packed<T: Target>(link: &Located<'_, T>, site: &DynRelocSite) -> bool {
    is_packable(link, site) && signed_target(link, site) < 1 << 31
}

/// The address that a signed pointer to this output has before it is relocated and signed.
fn signed_target<T: Target>(link: &Located<'_, T>, site: &DynRelocSite) -> u64 {
    if link.symbol_flags(site.symbol).contains(SymbolFlags::IFUNC) {
        address::plt(link, site.symbol).wrapping_add_signed(site.addend)
    } else {
        site_target(link, site)
    }
}

/// What the linker writes into the lower half of a signed pointer to this output: for a packed table, the
/// address. Otherwise the addend is in `.rela.dyn`, and these bits are 0.
pub fn lower_half<T: Target>(link: &Located<'_, T>, site: &DynRelocSite) -> u64 {
    if packs(link).signed && is_signed_packed(link, site) { signed_target(link, site) } else { 0 }
}

/// What the linker writes into a place that `.rela.dyn` makes relative, in an output with tagged globals.
/// `None` for other places.
///
/// The dynamic linker takes the tag from the memory at the address plus what the place holds (Memtag ABI,
/// "Extended semantics of `R_AARCH64_RELATIVE`"). If the address is outside its variable, the place leads it
/// back to the start of the variable. Otherwise it must hold 0.
pub fn beside_tags<T: Target>(link: &Located<'_, T>, site: &DynRelocSite) -> Option<i64> {
    if settled_kind(link, site) != DynamicKind::Relative {
        return None;
    }
    type_of_site(link, packs(link), site)?;
    let size = link.tagged.size(site.symbol);
    let is_inside = size.is_none_or(|size| u64::try_from(site.addend).is_ok_and(|addend| addend < size));
    Some(if is_inside { 0 } else { site.addend.wrapping_neg() })
}

/// The type of an entry of a settled kind.
fn type_of<T: Target>(kind: DynamicKind) -> u32 {
    let dynamic = &T::DYNAMIC;
    match kind {
        DynamicKind::Relative | DynamicKind::TpSlot => dynamic.relative,
        DynamicKind::Symbolic => dynamic.absolute,
        DynamicKind::Resolved => dynamic.irelative,
        DynamicKind::TpOffset => dynamic.tpoff,
        DynamicKind::DtpOffset => dynamic.dtpoff,
        DynamicKind::SignedRelative => T::SIGNED.map_or(dynamic.none, |signed| signed.relative),
        DynamicKind::SignedSymbolic => T::SIGNED.map_or(dynamic.none, |signed| signed.absolute),
        DynamicKind::Size { wide } => dynamic.sizes[usize::from(wide)],
    }
}

/// The entry of a site.
pub fn of_site<T: Target>(link: &Located<'_, T>, site: &DynRelocSite) -> Entry {
    let place = address::place(link, site.section, site.offset());
    let imported = link.symbol_flags(site.symbol).contains(SymbolFlags::IMPORTED);
    let (symbol, value) = match site.kind() {
        DynamicKind::TpSlot => (0, 0),
        _ if imported => (link.dynamic.row(site.symbol), site.addend as u64),
        _ => (0, site_target(link, site)),
    };
    let kind = settled_kind(link, site);
    let addend = match kind {
        DynamicKind::Relative | DynamicKind::TpSlot => match site.kind() {
            DynamicKind::Resolved => address::plt(link, site.symbol).wrapping_add_signed(site.addend),
            DynamicKind::TpSlot => address::tp_slot(link, site.symbol).wrapping_add_signed(site.addend),
            _ => value,
        },
        DynamicKind::SignedRelative => signed_target(link, site),
        DynamicKind::TpOffset if symbol == 0 => address::in_tls_block(link, site.symbol, value, site.addend),
        _ => value,
    };
    let kind = type_of::<T>(kind);
    Entry { address: place, kind, symbol, addend }
}

/// `S + A` of a site.
pub fn site_target<T: Target>(link: &Located<'_, T>, site: &DynRelocSite) -> u64 {
    let Some((object, _)) = link.locate(site.section) else { return 0 };
    let index = if link.globals.contains(site.symbol) {
        // `target` uses the index for local symbols only.
        u32::MAX
    } else {
        site.symbol.0.wrapping_sub(object.first_local)
    };
    address::target(link, object, index, site.symbol, site.addend)
}

/// The entries of `.rela.plt` for start-up code or behind the jump slots: `R_*_IRELATIVE`, sorted by address,
/// behind those of signed pointers, which resolvers may read.
pub fn resolved_in_plt<T: Target>(link: &Located<'_, T>) -> Vec<Entry> {
    let mut entries = Vec::new();
    if irelative_in_plt(link) {
        let sites = link.reloc_needs.sites.iter().flatten();
        let is_here = |entry: &Entry| is_for_start_up::<T>(entry.kind, true);
        entries.extend(sites.map(|site| of_site(link, site)).chain(own(link)).filter(is_here));
    } else if link.slots.resolved > 0 {
        for_each_got_entry(link, |row, entry| {
            if is_of_plt::<T>(row, entry.kind) {
                entries.push(entry);
            }
        });
    }
    entries.par_sort_by_key(|entry| (entry.kind == T::DYNAMIC.irelative, entry.address));
    entries
}

/// The entries of `.rela.dyn` for words of the GOT and for copies, unsorted. In a static output, those of
/// `.rela.plt` are among them.
pub fn own<T: Target>(link: &Located<'_, T>) -> Vec<Entry> {
    let (packs, all_in_plt) = (packs(link), irelative_in_plt(link));
    let mut entries = Vec::new();
    for_each_got_entry(link, |row, entry| {
        let is_elsewhere =
            is_packed_word(link, packs, row, entry.kind) || !all_in_plt && is_of_plt::<T>(row, entry.kind);
        if !is_elsewhere {
            entries.push(entry);
        }
    });
    for copied in &link.copies.all {
        entries.push(Entry {
            address: address::of_copy(link, copied),
            kind: T::DYNAMIC.copy,
            symbol: link.dynamic.row(copied.symbol),
            addend: 0,
        });
    }
    entries
}

/// The addresses in `.relr.dyn`, sorted.
pub fn packed_places<T: Target>(link: &Geometry<'_, T>) -> Vec<u64> {
    let is_packed =
        |site: &&DynRelocSite| settled_kind(link, site) == DynamicKind::Relative && is_packable(link, site);
    let mut places: Vec<u64> = link
        .reloc_needs
        .sites
        .par_iter()
        .flat_map_iter(|sites| {
            let packed = sites.iter().filter(is_packed);
            packed.map(|site| address::place(link, site.section, site.offset()))
        })
        .collect();
    let got = address::of_synthetic(link, Kind::Got);
    let packs = packs(link);
    slots::for_all_words(link, &mut |row, word| {
        if word.relocation.is_some_and(|relocation| is_packed_word(link, packs, row, relocation.kind)) {
            places.push(got.wrapping_add(u64::from(word.index.number()) * 8));
        }
    });
    places.par_sort_unstable();
    places.dedup();
    places
}

/// The addresses in `.relr.auth.dyn`, sorted.
pub fn signed_places<T: Target>(link: &Located<'_, T>) -> Vec<u64> {
    let is_packed = |site: &&DynRelocSite| {
        settled_kind(link, site) == DynamicKind::SignedRelative && is_signed_packed(link, site)
    };
    let packed = |sites: &'_ Vec<DynRelocSite>| -> Vec<u64> {
        let packed = sites.iter().filter(is_packed);
        packed.map(|site| address::place(link, site.section, site.offset())).collect()
    };
    let mut places: Vec<u64> = link.reloc_needs.sites.par_iter().flat_map_iter(packed).collect();
    places.par_sort_unstable();
    places.dedup();
    places
}

fn for_each_got_entry<T: Target>(link: &Located<'_, T>, mut visit: impl FnMut(&DynamicRow, Entry)) {
    slots::for_all_words(link, &mut |row, word| {
        let Some(relocation) = word.relocation else { return };
        let entry = Entry {
            address: address::got_word(link, word.index),
            kind: relocation.kind,
            symbol: relocation.symbol.map_or(0, |symbol| link.dynamic.row(symbol)),
            addend: slots::number(link, row, word.content),
        };
        visit(row, entry);
    });
}
