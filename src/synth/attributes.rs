//! `.gnu.attributes`: the compilers' notes about the ABI of each object, merged into one section (GNU as
//! manual, "Object Attributes").
//!
//! An attribute has a number and a value. If its number is even, the value is a number; if it is odd, a text;
//! one attribute has both. The largest number becomes the merged one, because higher numbers stand for more
//! demanding ABIs. Attributes of single sections and symbols are skipped, because no compiler writes any.

use super::synthesis::{Created, Synthesis};
use crate::arch::Target;
use crate::diag::{Code, Diagnostic, Location};
use crate::ids::SectionId;
use crate::input::ObjectFile;
use crate::phase::{Inputs, SectionStates};
use crate::tables::section::{Kind, SyntheticSection};
use parallel::ParallelSlice;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use zerocopy::byteorder::{ByteOrder, U32};

/// `.gnu.attributes`, if an object has one.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis::fixed(|link| {
        let (contents, absorbed) = merge(link, link.sections);
        let section = |contents| {
            let (name, bytes) = (b".gnu.attributes", link.store.keep(contents));
            SyntheticSection::of_bytes(Kind::GnuAttributes, name, SHT_GNU_ATTRIBUTES, 0, 1, bytes)
        };
        let contents = Some(contents).filter(|contents: &Vec<u8>| !contents.is_empty());
        let sections = contents.map(section).into_iter().collect();
        Created { sections, absorbed, ..Created::default() }
    })
}

/// `SHT_GNU_ATTRIBUTES`.
pub const SHT_GNU_ATTRIBUTES: u32 = 0x6fff_fff5;
/// The only version of the format.
const VERSION: u8 = b'A';
/// The vendor whose attributes are merged.
const VENDOR: &[u8] = b"gnu\0";
/// Attributes of the whole file.
const TAG_FILE: u8 = 1;
/// The attribute whose value is a number and a text.
const TAG_COMPATIBILITY: u64 = 32;

/// The value of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Value<'a> {
    number: u64,
    text: &'a [u8],
}

/// The attributes of an object, by number.
type Attributes<'a> = BTreeMap<u64, Value<'a>>;

/// Merges the sections of all objects. Returns the contents, which are empty if there are no attributes, and
/// the sections that were merged.
fn merge<T: Target>(link: &Inputs<'_, T>, states: &SectionStates) -> (Vec<u8>, Vec<SectionId>) {
    let mut absorbed = Vec::new();
    let found: Vec<_> = link.objects.par_iter().map(|object| read(link, states, object)).collect();
    let found: Vec<Attributes<'_>> = found
        .into_iter()
        .map(|(attributes, read)| {
            absorbed.extend(read);
            attributes
        })
        .collect();
    let mut merged: BTreeMap<u64, (Value<'_>, usize)> = BTreeMap::new();
    for (row, attributes) in found.iter().enumerate() {
        if link.objects[row].just_symbols {
            continue;
        }
        for (&tag, &value) in attributes {
            match merged.entry(tag) {
                Entry::Vacant(entry) => {
                    entry.insert((value, row));
                }
                Entry::Occupied(mut entry) => {
                    let &(known, first) = entry.get();
                    report_conflict(link, tag, (first, known.number), (row, value.number));
                    if value.number > known.number {
                        entry.insert((value, row));
                    }
                }
            }
        }
    }
    let contents = encode::<T::E>(merged.iter().map(|(&tag, &(value, _))| (tag, value)));
    (contents, absorbed)
}

/// The attributes of an object, and the sections that hold them.
fn read<'a, T: Target>(
    link: &Inputs<'a, T>,
    states: &SectionStates,
    object: &ObjectFile<'a, T::E>,
) -> (Attributes<'a>, Vec<SectionId>) {
    let (mut attributes, mut sections) = (Attributes::new(), Vec::new());
    for index in object.special.iter().map(|&index| index as usize) {
        let id = object.section_id(index as u32);
        if object.headers[index].sh_type.get() != SHT_GNU_ATTRIBUTES || !states.is_alive(id) {
            continue;
        }
        sections.push(id);
        let bytes = object.section_bytes(index).unwrap_or(&[]);
        if read_section::<T::E>(bytes, &mut attributes).is_none() {
            link.sink.report(
                Diagnostic::warning(
                    Code::MalformedInput,
                    "object attributes are cut short or have a wrong size; they are read up to there",
                )
                .at(Location::Section {
                    file: object.name.to_string(),
                    section: object.section_name_lossy(index),
                    offset: 0,
                })
                .ordered(object.id.0, index as u32, 0),
            );
        }
    }
    (attributes, sections)
}

/// Reads a section: a version; for each vendor a length and a name; then lists of attributes, each with its
/// scope (file, section or symbol). `None` if the section is malformed.
fn read_section<'a, E: ByteOrder>(bytes: &'a [u8], attributes: &mut Attributes<'a>) -> Option<()> {
    let Some((&version, mut rest)) = bytes.split_first() else { return Some(()) };
    if version != VERSION {
        return None;
    }
    while !rest.is_empty() {
        let (of_vendor, next) = split_sized::<E>(rest, 0)?;
        rest = next;
        let Some(mut lists) = of_vendor.strip_prefix(VENDOR) else { continue };
        while let Some(&about) = lists.first() {
            let (list, next) = split_sized::<E>(lists, 1)?;
            lists = next;
            if about == TAG_FILE {
                read_list(list, attributes)?;
            }
        }
    }
    Some(())
}

/// Splits off a block whose length, in 4 bytes, stands behind `before` others. The length counts all these
/// bytes, too.
pub(super) fn split_sized<E: ByteOrder>(bytes: &[u8], before: usize) -> Option<(&[u8], &[u8])> {
    let field: [u8; 4] = bytes.get(before..before + 4)?.try_into().ok()?;
    let (all, rest) = bytes.split_at_checked(U32::<E>::from_bytes(field).get() as usize)?;
    Some((all.get(before + 4..)?, rest))
}

fn read_list<'a>(mut list: &'a [u8], attributes: &mut Attributes<'a>) -> Option<()> {
    while !list.is_empty() {
        let tag = take_number(&mut list)?;
        let mut value = Value::default();
        if has_number(tag) {
            value.number = take_number(&mut list)?;
        }
        if has_text(tag) {
            let end = memchr::memchr(0, list)?;
            value.text = &list[..end];
            list = &list[end + 1..];
        }
        attributes.insert(tag, value);
    }
    Some(())
}

fn has_number(tag: u64) -> bool {
    tag.is_multiple_of(2)
}

fn has_text(tag: u64) -> bool {
    !has_number(tag) || tag == TAG_COMPATIBILITY
}

/// Takes an unsigned LEB128 number.
pub(super) fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

pub(super) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn encode<'a, E: ByteOrder>(attributes: impl Iterator<Item = (u64, Value<'a>)>) -> Vec<u8> {
    let mut list = Vec::new();
    for (tag, value) in attributes {
        push_number(&mut list, tag);
        if has_number(tag) {
            push_number(&mut list, value.number);
        }
        if has_text(tag) {
            list.extend(value.text);
            list.push(0);
        }
    }
    if list.is_empty() {
        return list;
    }
    let word = |value: usize| U32::<E>::new(value as u32).to_bytes();
    let list_size = 1 + 4 + list.len();
    let mut out = vec![VERSION];
    out.extend(word(4 + VENDOR.len() + list_size));
    out.extend(VENDOR);
    out.push(TAG_FILE);
    out.extend(word(list_size));
    out.extend(list);
    out
}

/// Reports two objects (rows and values) whose values of an attribute contradict each other.
fn report_conflict<T: Target>(link: &Inputs<'_, T>, tag: u64, first: (usize, u64), second: (usize, u64)) {
    let Some((_, name, values)) = T::ABI_ATTRIBUTES.iter().find(|(known, ..)| *known == tag) else { return };
    if first.1 == second.1 || first.1 == 0 || second.1 == 0 {
        return;
    }
    let word = |value: u64| match values.get(value as usize) {
        Some(word) => (*word).to_owned(),
        None => format!("unknown ({value})"),
    };
    let object = &link.objects[second.0];
    link.sink.report(
        Diagnostic::warning(Code::AbiMismatch, format!("{name}: {}", word(second.1)))
            .at(Location::File(object.name.to_string()))
            .note(format!("{name}: {} in {}", word(first.1), link.objects[first.0].name))
            .ordered(object.id.0, 0, 0),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::byteorder::{BigEndian, LittleEndian};

    #[test]
    fn written_attributes_read_back_the_same() {
        let values = [
            (4, Value { number: 300, text: b"" }),
            (5, Value { number: 0, text: b"five" }),
            (32, Value { number: 1, text: b"gnu" }),
        ];
        let bytes = encode::<BigEndian>(values.into_iter());
        assert_eq!(bytes[..14], *b"A\0\0\0\x1cgnu\0\x01\0\0\0\x14");
        let mut read = Attributes::new();
        assert_eq!(read_section::<BigEndian>(&bytes, &mut read), Some(()));
        assert_eq!(read.into_iter().collect::<Vec<_>>(), values);
        assert!(encode::<LittleEndian>(std::iter::empty()).is_empty());
    }

    #[test]
    fn other_vendors_and_sections_are_passed_over() {
        let bytes = b"A\x0b\0\0\0aeabi\0\x01\x14\0\0\0gnu\0\x02\x05\0\0\0\x01\x07\0\0\0\x04\x02";
        let mut read = Attributes::new();
        assert_eq!(read_section::<LittleEndian>(bytes, &mut read), Some(()));
        assert_eq!(read.keys().copied().collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn truncated_sections_are_malformed() {
        let bytes = encode::<LittleEndian>([(4, Value { number: 1, text: b"" })].into_iter());
        for length in 2..bytes.len() {
            let result = read_section::<LittleEndian>(&bytes[..length], &mut Attributes::new());
            assert_eq!(result, None, "{length}");
        }
        assert_eq!(read_section::<LittleEndian>(b"B", &mut Attributes::new()), None);
    }
}
