//! Where HotSpot keeps what: the tables that it has for debuggers.
//!
//! `gHotSpotVMStructs` points to an array of fields, `gHotSpotVMTypes` to one of types; an entry without a
//! name ends each (`vmStructs.hpp`). Debuggers that run as programs of Java themselves (`jhsdb`) read them,
//! so the form of entries has not changed since the tables exist.

use crate::process_memory::ProcessMemory;
use hashbrown::HashMap;

/// The largest number of entries of a table, and of bytes of a name.
const MAX_ENTRIES: u64 = 1 << 13;
const MAX_NAME: usize = 64;
/// Words of an entry: the names of type and field, the name of the field's type, whether it is static, its
/// offset, its address.
const FIELD_WORDS: usize = 6;
/// Words of an entry: the names of the type and of that before it, three flags in two words, its size.
const TYPE_WORDS: usize = 5;

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The offset in what has it, or the address of a static one.
    pub place: u64,
    /// Bytes, at most 8.
    pub size: u8,
}

impl Field {
    /// Its value in what starts at an address.
    pub fn of(self, memory: &ProcessMemory, object: u64) -> Option<u64> {
        memory.number(object.checked_add(self.place)?, self.size)
    }

    /// Its value in what starts at an address, where it is a signed number.
    pub fn signed_of(self, memory: &ProcessMemory, object: u64) -> Option<i64> {
        let unused = 64_u32.checked_sub(8 * u32::from(self.size))?;
        Some(((self.of(memory, object)? << unused) as i64) >> unused)
    }

    /// The value of a static one.
    pub fn value(self, memory: &ProcessMemory) -> Option<u64> {
        self.of(memory, 0)
    }
}

/// The fields and the sizes of some types.
pub struct Fields {
    fields: HashMap<(Vec<u8>, Vec<u8>), Field>,
    sizes: HashMap<Vec<u8>, u64>,
}

impl Fields {
    /// Reads both tables. The addresses are those of the variables that point to them.
    pub fn read(memory: &ProcessMemory, structs: u64, types: u64) -> Option<Self> {
        let mut names = Names { memory, known: HashMap::new() };
        let (mut fields, mut sizes) = (HashMap::new(), HashMap::new());
        for [name, _, _, _, size] in entries::<TYPE_WORDS>(memory, types)? {
            sizes.insert(names.at(name)?, size);
        }
        for words in entries::<FIELD_WORDS>(memory, structs)? {
            let [owner, name, of, is_static, offset, address] = words;
            let key = (names.at(owner)?, names.at(name)?);
            let of = names.at(of).unwrap_or_default();
            let size = sizes.get(&of).and_then(|&size| word_size(size)).unwrap_or_else(|| size_of(&of));
            let place = if is_static as u32 == 0 { offset } else { address };
            fields.insert(key, Field { place, size });
        }
        Some(Self { fields, sizes })
    }

    /// A field of one of some types: it has moved from one to another between versions.
    pub fn field(&self, owners: &[&str], name: &str) -> Option<Field> {
        let find = |owner: &&str| self.fields.get(&(owner.as_bytes().to_vec(), name.as_bytes().to_vec()));
        owners.iter().find_map(find).copied()
    }

    /// The size of a type, in bytes.
    pub fn size(&self, name: &str) -> Option<u64> {
        self.sizes.get(name.as_bytes()).copied()
    }
}

/// The entries of a table, up to the one without a name.
fn entries<const WORDS: usize>(memory: &ProcessMemory, pointer: u64) -> Option<Vec<[u64; WORDS]>> {
    let first = memory.number(pointer, 8)?;
    let mut all = Vec::new();
    for number in 0..MAX_ENTRIES {
        let words = memory.words(first.checked_add(number * 8 * WORDS as u64)?, WORDS)?;
        let entry: [u64; WORDS] = words.try_into().ok()?;
        if entry[0] == 0 {
            return Some(all);
        }
        all.push(entry);
    }
    None
}

/// The bytes of a field of a type that has this size, if a field of the type can be a number.
fn word_size(size: u64) -> Option<u8> {
    matches!(size, 1 | 2 | 4 | 8).then_some(size as u8)
}

/// The bytes of a field by the name of its type, which has no entry of its own: not all integers have one in
/// all versions. Of what is larger than a word, only the place counts.
fn size_of(name: &[u8]) -> u8 {
    match name {
        b"bool" | b"u1" | b"uint8_t" | b"int8_t" | b"jbyte" => 1,
        b"u2" | b"s2" | b"uint16_t" | b"int16_t" | b"jshort" | b"short" | b"unsigned short" => 2,
        b"int" | b"jint" | b"juint" | b"uint" | b"u4" | b"unsigned int" | b"uint32_t" | b"int32_t" => 4,
        _ => 8,
    }
}

/// Names, most of which are those of many entries.
struct Names<'a> {
    memory: &'a ProcessMemory,
    known: HashMap<u64, Vec<u8>>,
}

impl Names<'_> {
    fn at(&mut self, address: u64) -> Option<Vec<u8>> {
        if let Some(known) = self.known.get(&address) {
            return Some(known.clone());
        }
        let text = self.memory.text(address, MAX_NAME)?;
        self.known.insert(address, text.clone());
        Some(text)
    }
}
