//! `.rela.dyn` and `.rela.plt`: the relocations that the dynamic linker applies.
//!
//! The order of `.rela.dyn` saves time at start-up (`-z combreloc`). Relative relocations come first, by
//! address, so that the dynamic linker runs through them without looking at symbols (`DT_RELACOUNT`). Then
//! come the others by symbol, so that each symbol is looked up once. Resolvers come last, because they may
//! call functions that the other relocations bind.

use super::synthesis::{Create, Grow, Size, Synthesis, Write};
use super::{android, relr};
use crate::arch::Target;
use crate::decision::site::DynRelocSite;
use crate::elf::Rela;
use crate::elf::consts as elf;
use crate::ids::Slot;
use crate::phase::{Extent, Located, Numbered};
use crate::region::{Region, copy_bytes};
use crate::relocs::address;
use crate::relocs::dynamic::{self, Entry};
use crate::relocs::slots::packs;
use crate::symbols::{Definition, SymbolFlags};
use crate::tables::section::{Kind, READ_ONLY, SyntheticSection, WORD};
use parallel::{IntoParallel, ParallelSlice, ParallelSort, join};
use zerocopy::FromBytes;
use zerocopy::byteorder::{I64, U64};

/// Size of an entry in bytes.
pub const ENTRY: u64 = 24;

/// One job stores so many entries.
const BATCH: usize = 8192;

/// `.rela.dyn`.
pub fn rela_dyn<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            let packed = (android::SHT_ANDROID_RELA, 1);
            let (sh_type, entsize) = if android::is_wanted(link) { packed } else { (elf::SHT_RELA, ENTRY) };
            let section = || SyntheticSection::new(Kind::RelaDyn, b".rela.dyn", sh_type, READ_ONLY, WORD);
            link.is_dynamic().then(|| section().entries(entsize)).into()
        }),
        size: Size::Needed(|link| Extent { size: sizes(link, &link.counts).0, align: WORD }),
        grow: Grow::Symbols(needed_size),
        write: Write::Jobs(|link, _, out| write(link, out)),
    }
}

/// `.rela.plt`. Static programs have one, too, for `STT_GNU_IFUNC`. Start-up code finds it between
/// `__rela_iplt_start` and `__rela_iplt_end`, which the scripts put around sections of its other name.
pub fn rela_plt<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            let name: &[u8] = if dynamic::irelative_in_plt(link) { b".rela.iplt" } else { b".rela.plt" };
            let flags = READ_ONLY | elf::SHF_INFO_LINK;
            let section = || SyntheticSection::new(Kind::RelaPlt, name, elf::SHT_RELA, flags, WORD);
            (!link.config.is_relocatable()).then(|| section().entries(ENTRY)).into()
        }),
        size: Size::Needed(|link| Extent { size: sizes(link, &link.counts).1, align: WORD }),
        grow: Grow::Never,
        write: Write::Bytes(|link, _, out| write_plt(link, out)),
    }
}

/// The sizes of `.rela.dyn` and `.rela.plt` in bytes, for these counts.
fn sizes<T: Target>(link: &Numbered<'_, T>, counts: &dynamic::Counts) -> (u64, u64) {
    let (mut rela, mut plt) = (counts.relative + counts.other, u64::from(link.slots.plt));
    let resolved =
        if dynamic::irelative_in_plt(link) { counts.irelative } else { link.slots.resolved.into() };
    plt += resolved;
    rela += counts.irelative - resolved;
    let rela_size = if android::is_wanted(link) { android::first_guess(rela) } else { rela * ENTRY };
    (rela_size, plt * ENTRY)
}

/// The size in bytes that `.rela.dyn` needs at these addresses: in Android's packed form, or if it takes the
/// signed pointers that `.relr.auth.dyn` cannot express. `None` if there is no such section, or its size
/// depends on no address.
fn needed_size<T: Target>(link: &Located<'_, T>) -> Option<u64> {
    if android::is_wanted(link) {
        let is_used = relr::is_used(link, Kind::RelaDyn) || relr::is_used(link, Kind::SignedRelrDyn);
        let needed = || entries(link);
        return is_used
            .then(needed)
            .filter(|entries| !entries.is_empty())
            .map(|entries| android::encode(&entries).len() as u64);
    }
    relr::is_used(link, Kind::SignedRelrDyn).then(|| entries(link).len() as u64 * ENTRY)
}

/// The entries of `.rela.dyn`, in their order.
pub fn entries<T: Target>(link: &Located<'_, T>) -> Vec<Entry> {
    let order = Order::new(link);
    let mut entries = Vec::new();
    order.stretches.iter().for_each(|stretch| order.each(link, stretch, |entry| entries.push(entry)));
    entries.extend(&order.rest);
    entries
}

/// Writes `.rela.dyn`.
fn write<T: Target>(link: &Located<'_, T>, mut out: Region<'_>) {
    if android::is_wanted(link) {
        // The number of entries tells readers where to stop. Zeros remain behind them.
        return out.fill(|out| copy_bytes(&android::encode(&entries(link)), out));
    }
    let order = Order::new(link);
    let mut jobs = Vec::new();
    let mut stretches = &order.stretches[..];
    while !stretches.is_empty() {
        let mut size = 0;
        let count = stretches.iter().take_while(|stretch| {
            let fits = size < BATCH;
            size += if fits { stretch.len() } else { 0 };
            fits
        });
        let (part, after) = stretches.split_at(count.count());
        jobs.push((part, out.take_first(size as u64 * ENTRY)));
        stretches = after;
    }
    join(
        || jobs.into_par_iter().for_each(|(part, region)| order.store(link, part, region)),
        || out.fill(|out| store::<T>(&order.rest, out)),
    );
}

/// Entries that follow one another in a list, are sorted by address, lie in one section, and ascend.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Stretch {
    /// The addresses of the first and the last entry.
    first: u64,
    last: u64,
    list: u32,
    /// The places of the entries in the list.
    start: u32,
    end: u32,
}

impl Stretch {
    fn len(&self) -> usize {
        (self.end - self.start) as usize
    }
}

/// The order of `.rela.dyn`. A large program has hundreds of thousands of entries. Nearly all are relative
/// and sorted by address, and the entries of a section mostly ascend already. So whole stretches are sorted,
/// and the entries are made only when they are stored.
struct Order<'l> {
    /// By address.
    stretches: Vec<Stretch>,
    /// The lists that stretches are parts of: the places in each object, ...
    sites: &'l [Vec<DynRelocSite>],
    /// ... and, as the last list, entries of the linker's own tables by address.
    own: Vec<Entry>,
    /// The entries behind them: those that are sorted by symbol, then those that call resolvers.
    rest: Vec<Entry>,
}

/// The rows in `.dynsym` of the functions that this output chooses by resolvers. The dynamic linker calls the
/// resolver when it relocates a place that names such a function, and a resolver may read any relocated data.
/// So these entries, and `R_*_IRELATIVE`, stand behind all others.
struct Resolvers(Vec<u32>);

impl Resolvers {
    fn new<T: Target>(link: &Located<'_, T>) -> Self {
        let is_resolver = |id| {
            link.symbol_flags(id).contains(SymbolFlags::IFUNC)
                && matches!(link.definition(id), Definition::Object { .. })
        };
        let chosen = link.dynamic.symbols.iter().filter(|symbol| is_resolver(symbol.id));
        let mut rows: Vec<u32> = chosen.map(|symbol| link.dynamic.row(symbol.id)).collect();
        rows.sort_unstable();
        Resolvers(rows)
    }

    fn has(&self, entry: &Entry) -> bool {
        self.0.binary_search(&entry.symbol).is_ok()
    }
}

impl<'l> Order<'l> {
    fn new<T: Target>(link: &'l Located<'_, T>) -> Self {
        let combine = link.config.relocations.combine;
        let resolvers = Resolvers::new(link);
        let goes_by_address =
            |kind: u32| if combine { kind == T::DYNAMIC.relative } else { kind != T::DYNAMIC.irelative };
        let packs = packs(link);
        let sites = &link.reloc_needs.sites[..];
        let found: Vec<(Vec<Stretch>, Vec<Entry>)> = sites
            .par_iter()
            .enumerate()
            .map(|(list, sites)| {
                let mut rest = Vec::new();
                let places = sites.iter().map(|site| {
                    let kind = dynamic::type_of_site(link, packs, site)?;
                    let is_late = || !combine && resolvers.has(&dynamic::of_site(link, site));
                    if goes_by_address(kind) && !is_late() {
                        return Some((site.section.0, address::place(link, site.section, site.offset())));
                    }
                    rest.push(dynamic::of_site(link, site));
                    None
                });
                (stretches(list as u32, places), rest)
            })
            .collect();
        let (mut own, mut rest): (Vec<Entry>, Vec<Entry>) = dynamic::own(link)
            .into_iter()
            .partition(|entry| goes_by_address(entry.kind) && !resolvers.has(entry));
        own.par_sort_by_key(|entry| key::<T>(combine, entry));
        let mut all = Vec::with_capacity(found.iter().map(|(stretches, _)| stretches.len()).sum());
        for (stretches, others) in &found {
            all.extend_from_slice(stretches);
            rest.extend_from_slice(others);
        }
        // Words that follow one another lie in one section.
        let tables = own.iter().zip(0..).map(|(entry, word)| entry.address.wrapping_sub(8 * word) as u32);
        let places = own.iter().zip(tables).map(|(entry, table)| Some((table, entry.address)));
        all.append(&mut stretches(sites.len() as u32, places));
        if dynamic::irelative_in_plt(link) {
            rest.retain(|entry| entry.kind != T::DYNAMIC.irelative);
        }
        let is_resolved = |entry: &Entry| entry.kind == T::DYNAMIC.irelative;
        rest.par_sort_by_key(|entry| (is_resolved(entry), resolvers.has(entry), key::<T>(combine, entry)));
        let mut order = Order { stretches: all, sites, own, rest };
        if !put_in_order(&mut order.stretches) {
            order.sort_all(link);
        }
        order
    }

    /// Makes and sorts all entries, if the relocations of some section do not ascend.
    fn sort_all<T: Target>(&mut self, link: &Located<'_, T>) {
        let mut entries = Vec::new();
        self.stretches.iter().for_each(|stretch| self.each(link, stretch, |entry| entries.push(entry)));
        entries.par_sort_by_key(|entry| key::<T>(link.config.relocations.combine, entry));
        let places = entries.iter().map(|entry| Some((0, entry.address)));
        self.stretches = stretches(self.sites.len() as u32, places);
        self.own = entries;
    }

    /// Calls `visit` with the entries of a stretch.
    fn each<T: Target>(&self, link: &Located<'_, T>, stretch: &Stretch, mut visit: impl FnMut(Entry)) {
        let range = stretch.start as usize..stretch.end as usize;
        match self.sites.get(stretch.list as usize) {
            Some(sites) => sites[range].iter().for_each(|site| visit(dynamic::of_site(link, site))),
            None => self.own[range].iter().for_each(|&entry| visit(entry)),
        }
    }

    fn store<T: Target>(&self, link: &Located<'_, T>, stretches: &[Stretch], region: Region<'_>) {
        region.fill(|out| {
            let Ok(out) = <[Rela<T::E>]>::mut_from_bytes(out) else { return };
            let mut out = out.iter_mut();
            for stretch in stretches {
                self.each(link, stretch, |entry| {
                    if let Some(out) = out.next() {
                        *out = encoded::<T>(&entry);
                    }
                });
            }
        });
    }
}

/// The sort key of an entry. Entries with equal keys are the same.
fn key<T: Target>(combine: bool, entry: &Entry) -> (bool, u32, u64, u32, u32, u64) {
    let group = if combine { entry.symbol } else { 0 };
    let is_resolved = entry.kind == T::DYNAMIC.irelative;
    (is_resolved, group, entry.address, entry.kind, entry.symbol, entry.addend)
}

/// The stretches of a list. `places` has the section and the address of each entry, or `None` if the entry is
/// not sorted by address.
fn stretches(list: u32, places: impl Iterator<Item = Option<(u32, u64)>>) -> Vec<Stretch> {
    let mut found: Vec<Stretch> = Vec::new();
    // The section of the stretch that the next entry may join.
    let mut open = None;
    for (place, start) in places.zip(0..) {
        let Some((section, address)) = place else {
            open = None;
            continue;
        };
        match found.last_mut() {
            Some(last) if open == Some(section) && address > last.last && last.len() < BATCH => {
                (last.last, last.end) = (address, start + 1);
            }
            _ => found.push(Stretch { first: address, last: address, list, start, end: start + 1 }),
        }
        open = Some(section);
    }
    found
}

/// Sorts stretches by address. Returns false if some overlap, because then their entries are not in order.
fn put_in_order(stretches: &mut [Stretch]) -> bool {
    stretches.par_sort_unstable();
    stretches.windows(2).all(|pair| pair[0].last < pair[1].first)
}

/// Writes `.rela.plt`: jump slots in the order of `.plt`, then `R_*_IRELATIVE`. Where tags describe the PLT
/// (`-z mark-plt`), the addend of a jump slot is the address of the jump in the entry that calls go to: the
/// dynamic linker may put a direct jump there. It looks functions up by name, so the addend means nothing
/// else.
fn write_plt<T: Target>(link: &Located<'_, T>, out: &mut [u8]) {
    let count = link.slots.plt as usize;
    let jump = T::PLT_TAGS
        .filter(|_| link.config.dynamic.mark_plt)
        .map(|tags| if link.plt_shape.split { tags.jump_in_split_entry } else { 0 });
    let mut entries = vec![Entry { address: 0, kind: T::DYNAMIC.none, symbol: 0, addend: 0 }; count];
    for row in &link.rows {
        let Some(slot) = row.plt.map(Slot::number) else { continue };
        if let Some(entry) = entries.get_mut(slot as usize) {
            *entry = Entry {
                address: address::plt_slot(link, slot),
                kind: T::DYNAMIC.jump_slot,
                symbol: link.dynamic.row(row.symbol),
                addend: jump.map_or(0, |jump| address::plt_of_row(link, row).wrapping_add(jump)),
            };
        }
    }
    entries.extend(dynamic::resolved_in_plt(link));
    store::<T>(&entries, out);
}

fn store<T: Target>(entries: &[Entry], out: &mut [u8]) {
    let Ok(out) = <[Rela<T::E>]>::mut_from_bytes(out) else { return };
    out.iter_mut().zip(entries).for_each(|(out, entry)| *out = encoded::<T>(entry));
}

fn encoded<T: Target>(entry: &Entry) -> Rela<T::E> {
    Rela {
        r_offset: U64::new(entry.address),
        r_info: U64::new(u64::from(entry.symbol) << 32 | u64::from(entry.kind)),
        r_addend: I64::new(entry.addend as i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::x86_64::X86_64;
    use crate::elf::consts as elf;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn entry(kind: u32, symbol: u32, address: u64) -> Entry {
        Entry { address, kind, symbol, addend: 0 }
    }

    #[test]
    fn relative_entries_come_first_and_resolvers_last() {
        let mut entries = vec![
            entry(elf::R_X86_64_IRELATIVE, 0, 0x10),
            entry(elf::R_X86_64_64, 2, 0x20),
            entry(elf::R_X86_64_RELATIVE, 0, 0x90),
            entry(elf::R_X86_64_GLOB_DAT, 1, 0x80),
            entry(elf::R_X86_64_RELATIVE, 0, 0x30),
            entry(elf::R_X86_64_64, 1, 0x70),
        ];
        let addresses = |entries: &[Entry]| entries.iter().map(|entry| entry.address).collect::<Vec<u64>>();
        entries.sort_by_key(|entry| key::<X86_64>(true, entry));
        assert_eq!(addresses(&entries), [0x30, 0x90, 0x70, 0x80, 0x20, 0x10]);
        entries.sort_by_key(|entry| key::<X86_64>(false, entry));
        assert_eq!(addresses(&entries), [0x20, 0x30, 0x70, 0x80, 0x90, 0x10]);
    }

    #[test]
    fn stretches_end_where_order_or_section_does() {
        let places =
            [Some((1, 8)), Some((1, 16)), None, Some((1, 24)), Some((2, 32)), Some((2, 32)), Some((2, 40))];
        let found = stretches(7, places.into_iter());
        let ranges: Vec<_> = found.iter().map(|it| (it.list, it.start..it.end, it.first, it.last)).collect();
        assert_eq!(ranges, [(7, 0..2, 8, 16), (7, 3..4, 24, 24), (7, 4..5, 32, 32), (7, 5..7, 32, 40)]);
    }

    proptest! {
        #[test]
        fn stretches_in_order_have_their_entries_in_order(
            lists in vec(vec((0u32..3, 0u64..40), 0..8), 1..4), ascending: bool,
        ) {
            let mut lists: Vec<Vec<(u32, u64)>> = lists;
            if ascending {
                // The sections lie apart, as layouts place them.
                for (number, list) in (0..).zip(&mut lists) {
                    list.iter_mut().for_each(|(section, address)| *address += 1000 * (3 * number + u64::from(*section)));
                    list.sort_unstable();
                    list.dedup();
                }
            }
            let mut found: Vec<Stretch> = Vec::new();
            for (number, list) in (0..).zip(&lists) {
                found.extend(stretches(number, list.iter().copied().map(Some)));
            }
            let in_order = put_in_order(&mut found);
            prop_assert!(in_order || !ascending);
            let entries = |it: &Stretch| lists[it.list as usize][it.start as usize..it.end as usize].to_vec();
            let order: Vec<u64> = found.iter().flat_map(entries).map(|(_, address)| address).collect();
            let mut expected: Vec<u64> = lists.iter().flatten().map(|&(_, address)| address).collect();
            expected.sort_unstable();
            prop_assert_eq!(order.len(), expected.len());
            prop_assert!(!in_order || order == expected);
        }
    }
}
