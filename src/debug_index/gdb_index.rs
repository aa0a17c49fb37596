//! The format of `.gdb_index`, versions 7 and 9 (GDB manual, "Index Section Format").
//!
//! ```text
//! header | compilation units | type units | address areas | hash table | main function
//!        | pool: lists of units, then names
//! ```
//!
//! A slot of the hash table points to a name in the pool and to the list of the units that have this name.
//! All words are little-endian on every machine. Every gdb since 2012 reads version 7. Only version 9 has the
//! language and the name of the main function, which gdb 15 and later read: without it, gdb takes a program
//! for one of C until it stops in a function of another language.
//!
//! [`Symbols`] joins the names of all objects. Each different name is in the pool once, and names with equal
//! lists of units share one list. The size of the pool depends neither on addresses nor on the order of
//! units, so the linker knows the section's size before the layout.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use parallel::{IntoParallel, ParallelSlice, join};
use std::hash::BuildHasher;

/// Size of the version and the offsets of the tables.
const HEADER: usize = 24;
/// What version 9 adds: one more offset in the header, and the main function's language and name.
const OFFSET: usize = 4;
const MAIN: usize = 8;
const UNIT: usize = 16;
const TYPE_UNIT: usize = 24;
const AREA: usize = 20;
const SLOT: usize = 8;
/// The largest number of units that a list of units can express.
pub const MAX_UNITS: usize = 1 << 24;
/// Number of shards. The top bits of a name's hash choose its shard.
const SHARDS: usize = 32;

/// The kind of a name, and a bit that says whether only its own unit sees it. An entry in a list of units has
/// them in its upper 8 bits, and so has `.debug_gnu_pubnames`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Attributes(pub u8);

impl Attributes {
    /// A type, or a namespace.
    pub const TYPE: Attributes = Attributes(1 << 4);
    /// A variable, an enumerator or a constant.
    pub const VARIABLE: Attributes = Attributes(2 << 4);
    /// A function.
    pub const FUNCTION: Attributes = Attributes(3 << 4);
    const STATIC: u8 = 1 << 7;

    /// The same kind, visible only in its own unit if `is_static`.
    #[must_use]
    pub fn with_static(self, is_static: bool) -> Attributes {
        Attributes(self.0 & !Self::STATIC | if is_static { Self::STATIC } else { 0 })
    }
}

/// A name of an object.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    /// Its bytes, with its scopes in front.
    pub text: &'a [u8],
    hash: u32,
    /// The number of its unit.
    pub unit: u32,
    /// Its kind.
    pub attributes: Attributes,
}

impl<'a> Name<'a> {
    /// Makes a name of a unit.
    pub fn new(text: &'a [u8], unit: u32, attributes: Attributes) -> Self {
        let hash = FixedState::with_seed(0x6764_6269_6478).hash_one(text);
        Name { text, hash: (hash >> 32) as u32, unit, attributes }
    }

    fn shard(&self) -> usize {
        (self.hash >> (32 - SHARDS.trailing_zeros())) as usize
    }

    fn entry(&self) -> u32 {
        u32::from(self.attributes.0) << 24 | self.unit
    }
}

/// The names of all objects, each once, with their lists of units.
#[derive(Debug, Default)]
pub struct Symbols<'a> {
    shards: Vec<Shard<'a>>,
}

/// Names whose hashes share their top bits.
#[derive(Debug, Default)]
struct Shard<'a> {
    /// In order of their first occurrence.
    names: Vec<&'a [u8]>,
    /// The row of each name's list.
    list_of: Vec<u32>,
    /// The different lists, one after the other.
    entries: Vec<u32>,
    /// The end of each list in `entries`.
    ends: Vec<u32>,
    /// Size in bytes of all lists, and of all names.
    list_bytes: u64,
    name_bytes: u64,
}

impl<'a> Symbols<'a> {
    /// Joins the names of objects, which must come in link order.
    pub fn join(objects: &[Vec<Name<'a>>]) -> Self {
        // For each object and shard, the rows of its names.
        let sorted: Vec<Vec<Vec<u32>>> = objects.par_iter().map(|names| by_shard(names)).collect();
        let shards = (0..SHARDS).into_par_iter().map(|number| {
            let rows = objects.iter().zip(&sorted);
            let names =
                rows.flat_map(|(names, sorted)| sorted[number].iter().map(|&row| names[row as usize]));
            Shard::fill(names)
        });
        Symbols { shards: shards.collect() }
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.names.len()).sum()
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots of the hash table: a power of two. A quarter of them or more stay empty.
    fn slots(&self) -> usize {
        match self.len() {
            0 => 0,
            count => (count * 4 / 3 + 1).next_power_of_two().max(1024),
        }
    }

    fn pool_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.list_bytes + shard.name_bytes).sum()
    }
}

fn by_shard(names: &[Name<'_>]) -> Vec<Vec<u32>> {
    let mut sorted = vec![Vec::new(); SHARDS];
    for (row, name) in names.iter().enumerate() {
        sorted[name.shard()].push(row as u32);
    }
    sorted
}

impl<'a> Shard<'a> {
    fn fill(names: impl Iterator<Item = Name<'a>>) -> Self {
        let mut shard = Shard::default();
        let mut table: HashTable<(u32, u32)> = HashTable::new();
        let mut uses: Vec<(u32, u32)> = Vec::new();
        for name in names {
            let same =
                |&(hash, row): &(u32, u32)| hash == name.hash && shard.names[row as usize] == name.text;
            let row = match table.entry(spread(name.hash), same, |&(hash, _)| spread(hash)) {
                Entry::Occupied(entry) => entry.get().1,
                Entry::Vacant(entry) => {
                    let row = shard.names.len() as u32;
                    entry.insert((name.hash, row));
                    shard.names.push(name.text);
                    row
                }
            };
            uses.push((row, name.entry()));
        }
        uses.sort_unstable();
        uses.dedup();
        shard.name_bytes = shard.names.iter().map(|name| name.len() as u64 + 1).sum();
        shard.share_lists(&uses);
        shard
    }

    /// Records the list of each name. `uses` are sorted pairs of a name and an entry.
    fn share_lists(&mut self, uses: &[(u32, u32)]) {
        let hasher = FixedState::with_seed(0x6c69_7374);
        let mut table: HashTable<u32> = HashTable::new();
        for list in uses.chunk_by(|a, b| a.0 == b.0) {
            let start = self.entries.len();
            self.entries.extend(list.iter().map(|&(_, entry)| entry));
            let hash_of = |list: &[u32]| hasher.hash_one(list);
            let added = &self.entries[start..];
            let hash = hash_of(added);
            let same = |&list: &u32| &self.entries[self.list(list)] == added;
            let number = match table.find(hash, same) {
                Some(&known) => {
                    self.entries.truncate(start);
                    known
                }
                None => {
                    let next = self.ends.len() as u32;
                    self.ends.push(self.entries.len() as u32);
                    self.list_bytes += 4 + 4 * list.len() as u64;
                    table.insert_unique(hash, next, |&list| hash_of(&self.entries[self.list(list)]));
                    next
                }
            };
            self.list_of.push(number);
        }
    }

    fn list(&self, number: u32) -> std::ops::Range<usize> {
        let start = (number as usize).checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        start..self.ends[number as usize] as usize
    }

    /// Writes the lists. `renumber` maps a unit to its number in the output.
    fn write_lists(&self, renumber: &dyn Fn(u32) -> u32, out: &mut [u8]) {
        let mut out = Out(out);
        let mut list = Vec::new();
        for number in 0..self.ends.len() as u32 {
            list.clear();
            let unit_bits = MAX_UNITS as u32 - 1;
            let entries = self.entries[self.list(number)].iter();
            list.extend(entries.map(|&entry| entry & !unit_bits | renumber(entry & unit_bits)));
            list.sort_unstable_by_key(|&entry| (entry & unit_bits, entry));
            out.word(list.len() as u32);
            list.iter().for_each(|&entry| out.word(entry));
        }
    }

    /// The offset of a name among those of the shard, in bytes.
    fn offset_of(&self, name: &[u8]) -> Option<usize> {
        let row = self.names.iter().position(|known| *known == name)?;
        Some(self.names[..row].iter().map(|name| name.len() + 1).sum())
    }

    fn write_names(&self, out: &mut [u8]) {
        let mut out = Out(out);
        for name in &self.names {
            out.bytes(name);
            out.bytes(&[0]);
        }
    }
}

/// Spreads a hash over the upper bits, from which the table takes its slots, too.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The contents of the section.
pub struct Index<'s, 'a> {
    /// Offset in `.debug_info`, and length including the length field, ascending.
    pub units: &'s [(u64, u64)],
    /// Offset in `.debug_types` (or `.debug_info`), offset of the type in the unit, signature.
    pub type_units: &'s [(u64, u64, u64)],
    /// First address, end address, and the number of a unit.
    pub areas: &'s [(u64, u64, u32)],
    /// The names. Their unit numbers count `type_units` after `units`.
    pub symbols: &'s Symbols<'a>,
    /// What only version 9 has.
    pub shortcuts: Shortcuts<'a>,
}

/// What gdb would look for in each unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Shortcuts<'a> {
    /// Version 7 has none.
    #[default]
    None,
    /// The main function, if it is known.
    Main(Option<MainFunction<'a>>),
}

/// The function with which a program begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MainFunction<'a> {
    /// Its name, with its scopes in front.
    pub name: &'a [u8],
    /// Its language (`DW_LANG`).
    pub language: u16,
    /// Whether debug information calls it the main function (`DW_AT_main_subprogram`). Otherwise it is one of
    /// that name.
    pub is_stated: bool,
}

impl Shortcuts<'_> {
    fn size(self) -> usize {
        if self == Shortcuts::None { 0 } else { OFFSET + MAIN }
    }
}

/// Size in bytes of a section with these units, type units and areas. `None`: an offset would not fit 32
/// bits.
pub fn size(
    (units, type_units, areas): (usize, usize, usize),
    symbols: &Symbols<'_>,
    shortcuts: Shortcuts<'_>,
) -> Option<u64> {
    let tables = HEADER + units * UNIT + type_units * TYPE_UNIT + areas * AREA + symbols.slots() * SLOT;
    let size = (tables + shortcuts.size()) as u64 + symbols.pool_bytes();
    (size <= u64::from(u32::MAX)).then_some(size)
}

impl Index<'_, '_> {
    /// Writes the section into `out`, which has the section's size. `renumber` maps a unit of the symbols to
    /// its number in the output.
    pub fn write(&self, renumber: &(dyn Fn(u32) -> u32 + Sync), out: &mut [u8]) {
        let (tables, pool) = out.split_at_mut(out.len() - self.symbols.pool_bytes() as usize);
        let (version, header, main) = match self.shortcuts {
            Shortcuts::None => (7, HEADER, 0),
            Shortcuts::Main(_) => (9, HEADER + OFFSET, MAIN),
        };
        let mut starts = vec![header];
        let sizes = [self.units.len() * UNIT, self.type_units.len() * TYPE_UNIT, self.areas.len() * AREA];
        starts.extend(sizes.iter().scan(starts[0], |start, size| {
            *start += size;
            Some(*start)
        }));
        let end_of_slots = tables.len() - main;
        let (head, slots) = tables.split_at_mut(starts[3]);
        let (slots, main) = slots.split_at_mut(end_of_slots - starts[3]);
        if version == 9 {
            starts.push(end_of_slots);
        }
        starts.push(end_of_slots + main.len());
        self.write_main(&mut Out(main));
        join(
            || {
                let mut head = Out(head);
                head.word(version);
                starts.iter().for_each(|&start| head.word(start as u32));
                self.write_tables(&mut head);
            },
            || join(|| self.write_slots(slots), || self.write_pool(renumber, pool)),
        );
    }

    fn write_tables(&self, out: &mut Out<'_>) {
        for &(offset, length) in self.units {
            out.long(offset);
            out.long(length);
        }
        for &(offset, type_offset, signature) in self.type_units {
            out.long(offset);
            out.long(type_offset);
            out.long(signature);
        }
        for &(start, end, unit) in self.areas {
            out.long(start);
            out.long(end);
            out.word(unit);
        }
    }

    /// Writes the main function's language, and its name's offset in the pool. Language 0 stands for none.
    fn write_main(&self, out: &mut Out<'_>) {
        let Shortcuts::Main(main) = self.shortcuts else { return };
        let shards = &self.symbols.shards;
        let mut start = shards.iter().map(|shard| shard.list_bytes).sum::<u64>();
        let found = main.and_then(|main| {
            shards.iter().find_map(|shard| {
                let place = shard.offset_of(main.name).map(|offset| start + offset as u64);
                start += shard.name_bytes;
                place.map(|place| (u32::from(main.language), place as u32))
            })
        });
        let (language, place) = found.unwrap_or_default();
        out.word(language);
        out.word(place);
    }

    /// Writes the hash table. A slot holds the offsets of a name and of its list in the pool.
    fn write_slots(&self, out: &mut [u8]) {
        let count = self.symbols.slots();
        let mut slots = vec![(0u32, 0u32); count];
        let lists: u64 = self.symbols.shards.iter().map(|shard| shard.list_bytes).sum();
        let (mut list, mut text) = (0u32, lists as u32);
        for shard in &self.symbols.shards {
            let mut places = vec![0u32; shard.ends.len()];
            for (number, place) in (0..).zip(&mut places) {
                *place = list;
                list += 4 + 4 * shard.list(number).len() as u32;
            }
            for (name, &own) in shard.names.iter().zip(&shard.list_of) {
                let hash = hash(name) as usize;
                let step = hash.wrapping_mul(17) & (count - 1) | 1;
                let mut slot = hash & (count - 1);
                // A slot of 0 is empty: the pool begins with the lists, so no name has offset 0.
                while slots[slot].0 != 0 {
                    slot = (slot + step) & (count - 1);
                }
                slots[slot] = (text, places[own as usize]);
                text += name.len() as u32 + 1;
            }
        }
        let mut out = Out(out);
        for (name, list) in slots {
            out.word(name);
            out.word(list);
        }
    }

    fn write_pool(&self, renumber: &(dyn Fn(u32) -> u32 + Sync), mut pool: &mut [u8]) {
        let mut parts = Vec::new();
        for shard in &self.symbols.shards {
            parts.extend(pool.split_off_mut(..shard.list_bytes as usize).map(|part| (shard, true, part)));
        }
        for shard in &self.symbols.shards {
            parts.extend(pool.split_off_mut(..shard.name_bytes as usize).map(|part| (shard, false, part)));
        }
        parts.into_par_iter().for_each(|(shard, is_lists, part)| {
            if is_lists { shard.write_lists(renumber, part) } else { shard.write_names(part) }
        });
    }
}

/// The hash of a name. It does not tell upper case from lower case.
fn hash(name: &[u8]) -> u32 {
    name.iter().fold(0u32, |hash, byte| {
        hash.wrapping_mul(67).wrapping_add(byte.to_ascii_lowercase().into()).wrapping_sub(113)
    })
}

/// Bytes that are filled from their start.
struct Out<'o>(&'o mut [u8]);

impl Out<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        if let Some(place) = self.0.split_off_mut(..bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    fn word(&mut self, word: u32) {
        self.bytes(&word.to_le_bytes());
    }

    fn long(&mut self, long: u64) {
        self.bytes(&long.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    /// Looks a name up as gdb does, and returns its list of units.
    fn look_up(bytes: &[u8], name: &str) -> Option<Vec<u32>> {
        let (table, pool) = (word(bytes, 16) as usize, word(bytes, 20) as usize);
        let count = (pool - table) / SLOT;
        let hash = hash(name.as_bytes()) as usize;
        let mut slot = hash & (count - 1);
        loop {
            let at = table + slot * SLOT;
            let (text, list) = (pool + word(bytes, at) as usize, pool + word(bytes, at + 4) as usize);
            if (text, list) == (pool, pool) {
                return None;
            }
            if bytes[text..].split(|&byte| byte == 0).next() == Some(name.as_bytes()) {
                return Some(
                    (1..=word(bytes, list) as usize).map(|row| word(bytes, list + 4 * row)).collect(),
                );
            }
            slot = (slot + (hash.wrapping_mul(17) & (count - 1) | 1)) & (count - 1);
        }
    }

    #[test]
    fn names_are_found_with_all_their_units_in_their_final_numbers() {
        let texts: Vec<String> = (0..3000).map(|number| format!("name_{number}")).collect();
        let object = |unit: u32| {
            let kind = Attributes::FUNCTION.with_static(unit == 1);
            texts
                .iter()
                .skip(unit as usize * 1000)
                .map(|text| Name::new(text.as_bytes(), unit, kind))
                .collect()
        };
        let symbols = Symbols::join(&[object(0), object(1), object(1)]);
        let units = [(0, 10), (10, 20)];
        let mut out = vec![0; size((2, 0, 1), &symbols, Shortcuts::None).unwrap() as usize];
        let (areas, shortcuts) = (&[(16, 32, 1)], Shortcuts::None);
        let index = Index { units: &units, type_units: &[], areas, symbols: &symbols, shortcuts };
        index.write(&|unit| 1 - unit, &mut out);
        assert_eq!(word(&out, 0), 7);
        assert_eq!(look_up(&out, "name_5"), Some(vec![0x3000_0001]));
        assert_eq!(look_up(&out, "name_2999"), Some(vec![0xb000_0000, 0x3000_0001]));
        assert_eq!(look_up(&out, "name_3000"), None);
        // Two lists serve all the names of a shard.
        assert!(symbols.shards.iter().all(|shard| shard.ends.len() == 2));
    }

    #[test]
    fn a_section_without_names_has_no_hash_table() {
        let symbols = Symbols::join(&[]);
        let size = size((1, 1, 0), &symbols, Shortcuts::None);
        assert_eq!(size, Some((HEADER + UNIT + TYPE_UNIT) as u64));
    }

    #[test]
    fn version_9_names_the_main_function() {
        let names = ["other", "main", "more"].map(|name| Name::new(name.as_bytes(), 0, Attributes::FUNCTION));
        let symbols = Symbols::join(&[names.to_vec()]);
        let written = |main: Option<&'static str>| {
            let main =
                main.map(|name| MainFunction { name: name.as_bytes(), language: 0x1c, is_stated: true });
            let shortcuts = Shortcuts::Main(main);
            let mut out = vec![0; size((1, 0, 1), &symbols, shortcuts).unwrap() as usize];
            let areas = &[(16, 32, 0)];
            Index { units: &[(0, 10)], type_units: &[], areas, symbols: &symbols, shortcuts }
                .write(&|unit| unit, &mut out);
            let header: Vec<usize> = (0..7).map(|row| word(&out, 4 * row) as usize).collect();
            // The hash table has 1,024 slots.
            assert_eq!(header, [9, 28, 44, 44, 64, 64 + 8192, 64 + 8192 + 8]);
            let name = &out[header[6] + word(&out, header[5] + 4) as usize..];
            let name = name.split(|&byte| byte == 0).next().unwrap();
            (word(&out, header[5]), String::from_utf8_lossy(name).into_owned())
        };
        assert_eq!(written(Some("main")), (0x1c, "main".into()));
        assert_eq!(written(None).0, 0);
        assert_eq!(written(Some("missing")).0, 0);
    }
}
