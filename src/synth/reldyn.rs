//! `.rela.dyn` and `.rela.plt`.
//!
//! Order of `.rela.dyn` (`-z combreloc`): relative relocations by address, so that the dynamic
//! linker runs through them without looking at symbols (`DT_RELACOUNT`); then by symbol, so that
//! each is looked up once; resolvers last, because they may call functions that the others bind.

use super::android;
use crate::arch::Target;
use crate::elf::Rela;
use crate::ids::Slot;
use crate::phase::{Numbered, Placed};
use crate::region::Region;
use crate::relocs::address;
use crate::relocs::dynamic::{self, Entry};
use crate::tables::section::Kind;
use rayon::prelude::*;
use zerocopy::FromBytes;
use zerocopy::byteorder::{I64, U64};

/// Size of an entry in bytes.
pub const ENTRY: u64 = 24;

/// Entries that one job stores.
const BATCH: usize = 8192;

/// Sizes of `.rela.dyn` and `.rela.plt` in bytes, for these counts.
pub fn sizes<T: Target>(link: &Numbered<'_, T>, counts: &dynamic::Counts) -> (u64, u64) {
    let (mut rela, mut plt) = (counts.relative + counts.other, u64::from(link.slots.plt));
    let resolved =
        if dynamic::irelative_in_plt(link) { counts.irelative } else { link.slots.resolved.into() };
    plt += resolved;
    rela += counts.irelative - resolved;
    let rela_size = if android::is_wanted(link) { android::first_guess(rela) } else { rela * ENTRY };
    (rela_size, plt * ENTRY)
}

/// Makes `.rela.dyn` in Android's packed form as large as the present addresses need; whether it grew. It
/// never shrinks.
pub fn update_size<T: Target>(link: &mut Placed<'_, T>) -> bool {
    if !android::is_wanted(link) {
        return false;
    }
    let Some(row) = link.synthetics.find(Kind::RelaDyn) else { return false };
    if link.synthetics.section(row).size == 0 {
        return false;
    }
    let needed = android::encode(&entries(link)).len() as u64;
    let section = &mut link.synthetics.rows[row as usize];
    let grows = needed > section.size;
    section.size = section.size.max(needed);
    grows
}

/// The entries of `.rela.dyn`, in their order.
pub fn entries<T: Target>(link: &Placed<'_, T>) -> Vec<Entry> {
    let mut lists = dynamic::collect(link);
    if dynamic::irelative_in_plt(link) {
        lists.iter_mut().for_each(|entries| entries.retain(|entry| entry.kind != T::DYNAMIC.irelative));
    }
    sort::<T>(&lists, link.config.relocations.combine)
}

/// Writes `.rela.dyn`.
pub fn write<T: Target>(link: &Placed<'_, T>, mut out: Region<'_>) {
    let entries = entries(link);
    if android::is_wanted(link) {
        // Readers know from the number of entries that a rest is none.
        return out.fill(|out| {
            let bytes = android::encode(&entries);
            let size = bytes.len().min(out.len());
            out[..size].copy_from_slice(&bytes[..size]);
        });
    }
    let batches: Vec<(&[Entry], Region<'_>)> = entries
        .chunks(BATCH)
        .map(|entries| (entries, out.take_first(entries.len() as u64 * ENTRY)))
        .collect();
    batches.into_par_iter().for_each(|(entries, region)| region.fill(|out| store::<T>(entries, out)));
}

/// Entries that share a bucket, on average.
const PER_BUCKET: usize = 32;

/// Sorts the entries of all lists. Nearly all are relative and go by address: they are put into buckets, each of which
/// covers an equal stretch of addresses, and the rest into a last one. Sections come one after the other, so a bucket is
/// nearly in order.
fn sort<T: Target>(lists: &[Vec<Entry>], combine: bool) -> Vec<Entry> {
    let entries = || lists.iter().flatten();
    let count = lists.iter().map(Vec::len).sum();
    let is_resolved = |entry: &Entry| entry.kind == T::DYNAMIC.irelative;
    let goes_by_address =
        |entry: &Entry| if combine { entry.kind == T::DYNAMIC.relative } else { !is_resolved(entry) };
    let addresses = entries().filter(|entry| goes_by_address(entry)).map(|entry| entry.address);
    let (least, greatest) =
        addresses.fold((u64::MAX, 0), |(least, most), address| (least.min(address), most.max(address)));
    let last = count / PER_BUCKET + 1;
    // As many bits as keep the greatest address below the last bucket.
    let bits = u64::BITS - (greatest.saturating_sub(least) / last as u64).leading_zeros();
    let bucket_of = |entry: &Entry| {
        if !goes_by_address(entry) {
            return last;
        }
        (entry.address - least).checked_shr(bits).unwrap_or(0) as usize
    };
    let mut ends = vec![0; last + 1];
    entries().for_each(|entry| ends[bucket_of(entry)] += 1);
    let mut sum = 0;
    for end in &mut ends {
        sum += std::mem::replace(end, sum);
    }
    let mut sorted = vec![Entry::default(); count];
    for entry in entries() {
        let end = &mut ends[bucket_of(entry)];
        sorted[*end] = *entry;
        *end += 1;
    }
    let mut rest = &mut sorted[..];
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let buckets: Vec<&mut [Entry]> =
        starts.zip(&ends).filter_map(|(start, end)| rest.split_off_mut(..end - start)).collect();
    buckets.into_par_iter().with_min_len(PER_BUCKET).for_each(|bucket| {
        // Entries that are equal in all of these are the same.
        bucket.sort_unstable_by_key(|entry| {
            let group = if combine { entry.symbol } else { 0 };
            (is_resolved(entry), group, entry.address, entry.kind, entry.symbol, entry.addend)
        });
    });
    sorted
}

/// Writes `.rela.plt`: jump slots in the order of `.plt`, then `R_*_IRELATIVE`.
pub fn write_plt<T: Target>(link: &Placed<'_, T>, out: &mut [u8]) {
    let count = link.slots.plt as usize;
    let mut entries = vec![Entry { address: 0, kind: T::DYNAMIC.none, symbol: 0, addend: 0 }; count];
    for row in &link.rows {
        let Some(slot) = row.plt.map(Slot::number) else { continue };
        if let Some(entry) = entries.get_mut(slot as usize) {
            *entry = Entry {
                address: address::plt_slot(link, slot),
                kind: T::DYNAMIC.jump_slot,
                symbol: link.dynamic.row(row.symbol),
                addend: 0,
            };
        }
    }
    entries.extend(dynamic::resolved_in_plt(link));
    store::<T>(&entries, out);
}

fn store<T: Target>(entries: &[Entry], out: &mut [u8]) {
    let Ok(out) = <[Rela<T::E>]>::mut_from_bytes(out) else { return };
    out.iter_mut().zip(entries).for_each(|(out, entry)| {
        *out = Rela {
            r_offset: U64::new(entry.address),
            r_info: U64::new(u64::from(entry.symbol) << 32 | u64::from(entry.kind)),
            r_addend: I64::new(entry.addend as i64),
        };
    });
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
        let entries = vec![
            entry(elf::R_X86_64_IRELATIVE, 0, 0x10),
            entry(elf::R_X86_64_64, 2, 0x20),
            entry(elf::R_X86_64_RELATIVE, 0, 0x90),
            entry(elf::R_X86_64_GLOB_DAT, 1, 0x80),
            entry(elf::R_X86_64_RELATIVE, 0, 0x30),
            entry(elf::R_X86_64_64, 1, 0x70),
        ];
        let addresses = |entries: Vec<Entry>| entries.iter().map(|entry| entry.address).collect::<Vec<u64>>();
        assert_eq!(
            addresses(sort::<X86_64>(std::slice::from_ref(&entries), true)),
            [0x30, 0x90, 0x70, 0x80, 0x20, 0x10]
        );
        assert_eq!(addresses(sort::<X86_64>(&[entries], false)), [0x20, 0x30, 0x70, 0x80, 0x90, 0x10]);
        assert!(sort::<X86_64>(&[], true).is_empty());
    }

    proptest! {
        #[test]
        fn buckets_change_nothing_about_the_order(
            addresses in vec(any::<u64>(), 0..300), bits in 0u32..64, combine: bool, kinds in vec(0usize..4, 300),
        ) {
            const KINDS: [u32; 4] =
                [elf::R_X86_64_RELATIVE, elf::R_X86_64_IRELATIVE, elf::R_X86_64_64, elf::R_X86_64_GLOB_DAT];
            // Addresses are far apart or close together. Relative relocations have no symbol.
            let entries: Vec<Entry> = (addresses.iter().zip(&kinds))
                .map(|(address, &kind)| entry(KINDS[kind], (kind as u32).min((address % 3) as u32), address >> bits))
                .collect();
            let mut expected = entries.clone();
            expected.sort_by_key(|entry| {
                let class = match entry.kind {
                    elf::R_X86_64_RELATIVE if combine => 0,
                    elf::R_X86_64_IRELATIVE => 2,
                    _ => 1,
                };
                (class, if combine { entry.symbol } else { 0 }, entry.address, entry.kind, entry.symbol)
            });
            // In one list or in several.
            let (first, second) = entries.split_at(entries.len() / 3);
            prop_assert_eq!(sort::<X86_64>(&[first.into(), vec![], second.into()], combine), &expected[..]);
            prop_assert_eq!(sort::<X86_64>(&[entries], combine), expected);
        }
    }
}
