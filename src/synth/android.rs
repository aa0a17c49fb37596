//! `.rela.dyn` in Android's packed form (`--pack-dyn-relocs=android`): `APS2`, then numbers in SLEB128.
//!
//! A `Rela` entry takes 24 bytes, but most entries of a library lie close to the entry before, are of the
//! same type, and name no symbol. So the packed form stores differences to the entry before. Entries that
//! have something in common form a group, which says it once. The format is that of Bionic's dynamic linker.

use crate::arch::Target;
use crate::phase::Inputs;
use crate::relocs::dynamic::Entry;

/// `SHT_ANDROID_RELA`.
pub const SHT_ANDROID_RELA: u32 = 0x6000_0002;

const MAGIC: &[u8] = b"APS2";

/// All entries of the group have the same info word.
const BY_INFO: i64 = 1;
/// All entries have the same distance to the entry before.
const BY_DISTANCE: i64 = 2;
/// The entries have addends.
const HAS_ADDEND: i64 = 8;

/// So many entries at one distance are worth a group of their own.
const LONG_STRETCH: usize = 4;

/// Whether `.rela.dyn` is packed.
pub fn is_wanted<T: Target>(link: &Inputs<'_, T>) -> bool {
    link.config.relocations.pack_android && link.is_dynamic()
}

/// A lower limit of the size in bytes for `count` entries, with which the layout starts.
pub fn first_guess(count: u64) -> u64 {
    if count == 0 { 0 } else { MAGIC.len() as u64 + 2 }
}

/// Encodes entries in the given order.
pub fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut packed = Packed { bytes: MAGIC.to_vec(), address: 0, addend: 0 };
    packed.number(entries.len() as i64);
    packed.number(0);
    for same in entries.chunk_by(|a, b| info(a) == info(b)) {
        let mut rest = same;
        while !rest.is_empty() {
            let (group, by_distance) = next_group(rest, packed.address);
            packed.group(&rest[..group], by_distance);
            rest = &rest[group..];
        }
    }
    packed.bytes
}

fn info(entry: &Entry) -> u64 {
    u64::from(entry.symbol) << 32 | u64::from(entry.kind)
}

/// The number of entries in the next group, and whether each entry is as far from the one before as the first
/// entry is from `address`. All `entries` have the same info word.
fn next_group(entries: &[Entry], address: u64) -> (usize, bool) {
    let distance = |at: usize| {
        let before = at.checked_sub(1).map_or(address, |at| entries[at].address);
        entries[at].address.wrapping_sub(before)
    };
    let mut start = 0;
    while start < entries.len() {
        let end = (start..entries.len()).find(|&at| distance(at) != distance(start)).unwrap_or(entries.len());
        if end - start >= LONG_STRETCH {
            return if start == 0 { (end, true) } else { (start, false) };
        }
        start = end;
    }
    (entries.len(), false)
}

struct Packed {
    bytes: Vec<u8>,
    /// The address of the entry before.
    address: u64,
    /// The addend of the entry before.
    addend: u64,
}

impl Packed {
    /// Appends a number in SLEB128 (DWARF 5, 7.6).
    fn number(&mut self, mut number: i64) {
        loop {
            let byte = (number & 0x7f) as u8;
            number >>= 7;
            let is_negative = byte & 0x40 != 0;
            if number == if is_negative { -1 } else { 0 } {
                self.bytes.push(byte);
                return;
            }
            self.bytes.push(byte | 0x80);
        }
    }

    /// Appends a group of entries with one info word.
    fn group(&mut self, entries: &[Entry], by_distance: bool) {
        let has_addend = entries.iter().any(|entry| entry.addend != 0);
        let flag = |set: bool, flag: i64| if set { flag } else { 0 };
        self.number(entries.len() as i64);
        self.number(BY_INFO | flag(by_distance, BY_DISTANCE) | flag(has_addend, HAS_ADDEND));
        if by_distance {
            self.number(entries[0].address.wrapping_sub(self.address) as i64);
        }
        self.number(info(&entries[0]) as i64);
        if !has_addend {
            self.addend = 0;
        }
        for entry in entries {
            if !by_distance {
                self.number(entry.address.wrapping_sub(self.address) as i64);
            }
            self.address = entry.address;
            if has_addend {
                self.number(entry.addend.wrapping_sub(self.addend) as i64);
                self.addend = entry.addend;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads numbers as a dynamic linker does.
    struct Reader<'r>(&'r [u8]);

    impl Reader<'_> {
        fn number(&mut self) -> i64 {
            let (mut value, mut shift) = (0i64, 0);
            loop {
                let byte = self.0[0];
                self.0 = &self.0[1..];
                value |= i64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    return if byte & 0x40 != 0 && shift < 64 { value | -1 << shift } else { value };
                }
            }
        }
    }

    fn decode(bytes: &[u8]) -> Vec<Entry> {
        let mut reader = Reader(bytes.strip_prefix(MAGIC).unwrap());
        let count = reader.number() as usize;
        let (mut address, mut addend) = (reader.number(), 0);
        let mut entries = Vec::new();
        while entries.len() < count {
            let (size, flags) = (reader.number(), reader.number());
            let distance = if flags & BY_DISTANCE != 0 { Some(reader.number()) } else { None };
            let info = reader.number() as u64;
            if flags & HAS_ADDEND == 0 {
                addend = 0;
            }
            for _ in 0..size {
                address = address.wrapping_add(distance.unwrap_or_else(|| reader.number()));
                if flags & HAS_ADDEND != 0 {
                    addend = reader.number().wrapping_add(addend);
                }
                let (kind, symbol) = (info as u32, (info >> 32) as u32);
                entries.push(Entry { address: address as u64, kind, symbol, addend: addend as u64 });
            }
        }
        entries
    }

    #[test]
    fn packed_entries_are_read_as_the_same_entries() {
        let entry = |address: u64, kind, symbol, addend| Entry { address, kind, symbol, addend };
        let table = (0..40).map(|n| entry(0x2000 + 8 * n, 8, 0, 0x1000 + 64 * n));
        let mut entries = vec![entry(0x1008, 8, 0, 0x9123), entry(0x1020, 8, 0, 0x40)];
        entries.extend(table);
        entries.push(entry(0x2ff1, 8, 0, u64::MAX));
        entries.extend([entry(0x1000, 6, 0x8000_0001, 0), entry(0x1010, 6, 0x8000_0001, 0)]);
        entries.extend([entry(0x7fff_ffff_0000, 1, 3, 1 << 63), entry(0x18, 37, 0, 0x1234)]);
        assert_eq!(decode(&encode(&entries)), entries);
        assert!(encode(&entries).len() < entries.len() * 5);
        assert_eq!(decode(&encode(&[])), []);
    }

    #[test]
    fn first_guess_is_no_more_than_needed() {
        for count in 0..20 {
            let entries: Vec<Entry> =
                (0..count).map(|n| Entry { address: n * 8, kind: 8, symbol: 0, addend: n * 4 }).collect();
            assert!(count == 0 || encode(&entries).len() as u64 >= first_guess(count), "{count}");
        }
    }
}
