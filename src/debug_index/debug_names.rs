//! The name index of a link: `.debug_names` (DWARF 5, section 6.1.1), joined from the indexes of its objects.
//!
//! The section consists of a header, the units, a hash table, the names, abbreviations and the entry pool:
//!
//! ```text
//! header | units | buckets | hash, string and entries of each name | abbreviations | entries
//! ```
//!
//! A name that several objects have appears once, with the entries of all of them. Names are sorted by
//! bucket, so a reader finds all names of a bucket in a row. No size depends on an address, so the linker
//! knows the section's size before the layout.

use super::name_tables::{Entry, FOREIGN, Name, ObjectNames, Parent, Place, Shape, push_uleb};
use gimli::{DwForm, RunTimeEndian};
use hashbrown::HashMap;
use parallel::{IntoParallel, ParallelSlice, ParallelSort};
use std::collections::BTreeMap;
use std::ops::Range;

/// Names that one job writes.
const JOB: usize = 4096;

/// The index of a link.
#[derive(Debug, Default)]
pub struct NameIndex<'a> {
    objects: Vec<ObjectPart<'a>>,
    /// Signatures of type units in other files. Each is in the list once.
    foreign: Vec<u64>,
    /// Number of compilation units, and of type units that the link itself has.
    units: usize,
    type_units: usize,
    /// The names that objects use. Equal names are neighbours.
    uses: Vec<NameUse>,
    /// Names in the order of the output.
    names: Vec<JoinedName>,
    buckets: u32,
    abbreviations: Vec<u8>,
    augmentation: &'a [u8],
    /// Whether offsets have 64 bits.
    long: bool,
    /// Size of the entries in bytes.
    pool: u64,
    /// Size of the section in bytes; 0 if there is nothing to index.
    pub size: u64,
}

/// The index of one object, and its numbers in the index of the link.
#[derive(Debug)]
struct ObjectPart<'a> {
    own: ObjectNames<'a>,
    /// Rows of its first units in the link.
    unit: u32,
    type_unit: u32,
    /// Rows of its foreign type units in the link.
    foreign: Vec<u32>,
    /// The abbreviation code of each shape.
    codes: Vec<u32>,
    /// The offset of each entry in the entry pool.
    places: Vec<u32>,
}

/// A name of an object.
#[derive(Clone, Copy, Debug)]
struct NameUse {
    hash: u32,
    object: u32,
    name: u32,
}

/// A name of the link.
#[derive(Clone, Copy, Debug)]
struct JoinedName {
    hash: u32,
    /// Its range of [`NameIndex::uses`], without the end.
    uses: (u32, u32),
    /// Offset of its entries in the entry pool.
    place: u32,
}

/// Joins the indexes of objects, which must come in link order.
///
/// # Errors
/// What is too large for the format.
pub fn join(objects: Vec<ObjectNames<'_>>) -> Result<NameIndex<'_>, String> {
    let mut index = NameIndex::default();
    let mut known = objects.iter().filter_map(|object| object.augmentation);
    let Some(augmentation) = known.next() else { return Ok(index) };
    index.augmentation = if known.all(|other| other == augmentation) { augmentation } else { b"" };
    index.long = objects.iter().any(|object| object.long);
    index.number_units(objects);
    index.abbreviate();
    index.join_names();
    index
        .place_entries()
        .ok_or("its entries would be larger than 4 GiB, which its offsets cannot express")?;
    index.size = index.parts().last().map_or(0, |part| part.end as u64) + index.pool;
    Ok(index)
}

impl<'a> NameIndex<'a> {
    fn number_units(&mut self, objects: Vec<ObjectNames<'a>>) {
        let mut rows: HashMap<u64, u32> = HashMap::new();
        for own in objects {
            let foreign = own.foreign.iter().map(|&signature| {
                *rows.entry(signature).or_insert_with(|| {
                    self.foreign.push(signature);
                    self.foreign.len() as u32 - 1
                })
            });
            let foreign = foreign.collect();
            let (unit, type_unit) = (self.units as u32, self.type_units as u32);
            self.units += own.units.len();
            self.type_units += own.type_units.len();
            self.objects.push(ObjectPart {
                own,
                unit,
                type_unit,
                foreign,
                codes: Vec::new(),
                places: Vec::new(),
            });
        }
    }

    /// Gives each shape that occurs its abbreviation code.
    fn abbreviate(&mut self) {
        let shapes = self.objects.iter().flat_map(|object| &object.own.shapes);
        let mut codes: BTreeMap<Shape, u32> = shapes.map(|shape| (shape.clone(), 0)).collect();
        for ((shape, code), number) in codes.iter_mut().zip(1..) {
            *code = number;
            let out = &mut self.abbreviations;
            push_uleb(out, number.into());
            push_uleb(out, shape.tag.0.into());
            let widths =
                (data_form(width(self.units)), data_form(width(self.type_units + self.foreign.len())));
            let own = [
                shape.unit.then_some((gimli::DW_IDX_compile_unit, widths.0)),
                shape.type_unit.then_some((gimli::DW_IDX_type_unit, widths.1)),
                Some((gimli::DW_IDX_die_offset, gimli::DW_FORM_ref4)),
                match shape.parent {
                    Parent::Unstated => None,
                    Parent::NotIndexed => Some((gimli::DW_IDX_parent, gimli::DW_FORM_flag_present)),
                    Parent::Entry => Some((gimli::DW_IDX_parent, gimli::DW_FORM_ref4)),
                },
            ];
            let own = own.into_iter().flatten().map(|(name, form)| (name.0, form));
            for (name, form) in own.chain(shape.more.iter().copied()).chain([(0, DwForm(0))]) {
                push_uleb(out, name.into());
                push_uleb(out, form.0.into());
            }
        }
        self.abbreviations.push(0);
        for object in &mut self.objects {
            object.codes = object.own.shapes.iter().map(|shape| codes[shape]).collect();
        }
    }

    /// Joins equal names, and sorts names by bucket.
    fn join_names(&mut self) {
        let objects = &self.objects;
        let uses = objects.par_iter().enumerate().flat_map_iter(|(number, object)| {
            let names = object.own.names.iter().zip(0u32..);
            names.map(move |(name, row)| NameUse { hash: name.hash, object: number as u32, name: row })
        });
        let mut uses: Vec<NameUse> = uses.collect();
        uses.par_sort_unstable_by(|a, b| {
            let texts = || self.name(a).text.cmp(self.name(b).text);
            let order = || (a.object, a.name).cmp(&(b.object, b.name));
            a.hash.cmp(&b.hash).then_with(texts).then_with(order)
        });
        let mut start = 0;
        let same = |a: &NameUse, b: &NameUse| a.hash == b.hash && self.name(a).text == self.name(b).text;
        let names = uses.chunk_by(same).map(|uses| {
            let first = start;
            start += uses.len() as u32;
            JoinedName { hash: uses[0].hash, uses: (first, start), place: 0 }
        });
        let mut names: Vec<JoinedName> = names.collect();
        let hashes = names.chunk_by(|a, b| a.hash == b.hash).count() as u32;
        // LLVM chooses the same number of buckets.
        let buckets = match hashes {
            0 => 0,
            1..=16 => hashes,
            17..=1024 => hashes / 2,
            _ => hashes / 4,
        };
        names.par_sort_by_key(|name| (name.hash % buckets, name.uses));
        (self.uses, self.names, self.buckets) = (uses, names, buckets);
    }

    fn name(&self, of: &NameUse) -> &Name<'a> {
        &self.objects[of.object as usize].own.names[of.name as usize]
    }

    /// Places all entries, name by name. `None`: an offset does not fit.
    fn place_entries(&mut self) -> Option<()> {
        let widths = self.widths();
        for object in &mut self.objects {
            object.places = vec![0; object.own.entries.len()];
        }
        let mut place = 0u64;
        for name in &mut self.names {
            name.place = u32::try_from(place).ok()?;
            for of in &self.uses[range(name.uses)] {
                let object = &mut self.objects[of.object as usize];
                let entries = range(object.own.names[of.name as usize].entries);
                for row in entries {
                    object.places[row] = u32::try_from(place).ok()?;
                    let entry = &object.own.entries[row];
                    let shape = &object.own.shapes[entry.shape as usize];
                    let code = uleb_length(object.codes[entry.shape as usize]);
                    place += (code + entry_length(entry, shape, widths)) as u64;
                }
            }
            place += 1;
        }
        self.pool = place;
        u32::try_from(place).ok().map(|_| ())
    }

    /// Widths in bytes of the numbers of compilation units and of type units.
    fn widths(&self) -> (usize, usize) {
        (width(self.units), width(self.type_units + self.foreign.len()))
    }

    /// Size in bytes of an offset in another section.
    fn offset_width(&self) -> usize {
        if self.long { 8 } else { 4 }
    }

    /// The byte ranges of the parts before the entries: header, units, type units, foreign ones, buckets,
    /// hashes, strings, offsets of entries, abbreviations.
    fn parts(&self) -> [Range<usize>; 9] {
        let (offset, names) = (self.offset_width(), self.names.len());
        let first = if self.long { 12 } else { 4 };
        let sizes = [
            first + 2 + 2 + 7 * 4 + self.augmentation.len().next_multiple_of(4),
            self.units * offset,
            self.type_units * offset,
            self.foreign.len() * 8,
            self.buckets as usize * 4,
            names * 4,
            names * offset,
            names * offset,
            self.abbreviations.len(),
        ];
        let mut end = 0;
        sizes.map(|size| {
            end += size;
            end - size..end
        })
    }

    /// Writes the section into `out`, which has the section's size. `offset` maps a place of an object to an
    /// offset in its output section. Returns whether all offsets fit.
    pub fn write(
        &self,
        endian: RunTimeEndian,
        offset: &(dyn Fn(Place) -> u64 + Sync),
        out: &mut [u8],
    ) -> bool {
        let parts = self.parts();
        let (tables, pool) = out.split_at_mut(parts[8].end);
        let mut slices = Vec::with_capacity(parts.len());
        let mut rest = tables;
        for part in &parts {
            let (slice, others) = rest.split_at_mut(part.len());
            slices.push(Out { bytes: slice, endian });
            rest = others;
        }
        let mut slices = slices.into_iter();
        let mut next = || slices.next().unwrap_or(Out { bytes: &mut [], endian });
        self.write_header(next());
        let width = self.offset_width();
        let mut fits = true;
        let mut place = |out: &mut Out<'_>, at: Place| {
            let offset = offset(at);
            fits &= self.long || offset <= u64::from(u32::MAX);
            out.number(offset, width);
        };
        let (mut units, mut type_units) = (next(), next());
        for object in &self.objects {
            object.own.units.iter().for_each(|&unit| place(&mut units, unit));
            object.own.type_units.iter().for_each(|&unit| place(&mut type_units, unit));
        }
        let mut foreign = next();
        self.foreign.iter().for_each(|&signature| foreign.number(signature, 8));
        self.write_buckets(next());
        let (mut hashes, mut strings, mut entries) = (next(), next(), next());
        for name in &self.names {
            hashes.number(name.hash.into(), 4);
            place(&mut strings, self.name(&self.uses[name.uses.0 as usize]).string);
            entries.number(name.place.into(), width);
        }
        next().bytes.copy_from_slice(&self.abbreviations);
        self.write_entries(endian, pool);
        fits
    }

    fn write_header(&self, mut out: Out<'_>) {
        let first = if self.long { 12 } else { 4 };
        if self.long {
            out.number(u32::MAX.into(), 4);
        }
        out.number(self.size - first, if self.long { 8 } else { 4 });
        out.number(5, 2);
        out.number(0, 2);
        let counts =
            [self.units, self.type_units, self.foreign.len(), self.buckets as usize, self.names.len()];
        let counts = counts.into_iter().chain([self.abbreviations.len(), self.augmentation.len()]);
        counts.for_each(|count| out.number(count as u64, 4));
        out.bytes[..self.augmentation.len()].copy_from_slice(self.augmentation);
        out.bytes[self.augmentation.len()..].fill(0);
    }

    /// Writes the number of each bucket's first name, counted from 1. An empty bucket gets 0.
    fn write_buckets(&self, mut out: Out<'_>) {
        let mut firsts = vec![0u32; self.buckets as usize];
        for (row, name) in self.names.iter().enumerate().rev() {
            firsts[(name.hash % self.buckets) as usize] = row as u32 + 1;
        }
        firsts.into_iter().for_each(|first| out.number(first.into(), 4));
    }

    fn write_entries(&self, endian: RunTimeEndian, mut pool: &mut [u8]) {
        let mut jobs = Vec::new();
        for (number, names) in self.names.chunks(JOB).enumerate() {
            let next = self.names.get((number + 1) * JOB);
            let end = next.map_or(self.pool, |name| name.place.into()) - u64::from(names[0].place);
            jobs.extend(pool.split_off_mut(..end as usize).map(|bytes| (names, bytes)));
        }
        jobs.into_par_iter().for_each(|(names, bytes)| {
            let mut out = Out { bytes, endian };
            for name in names {
                for of in &self.uses[range(name.uses)] {
                    let object = &self.objects[of.object as usize];
                    let entries = range(object.own.names[of.name as usize].entries);
                    entries.for_each(|row| self.write_entry(object, &object.own.entries[row], &mut out));
                }
                out.number(0, 1);
            }
        });
    }

    fn write_entry(&self, object: &ObjectPart<'_>, entry: &Entry, out: &mut Out<'_>) {
        let shape = &object.own.shapes[entry.shape as usize];
        let widths = self.widths();
        out.uleb(object.codes[entry.shape as usize]);
        if shape.unit {
            out.number((object.unit + entry.unit).into(), widths.0);
        }
        if shape.type_unit {
            let row = match entry.type_unit & FOREIGN {
                0 => object.type_unit + entry.type_unit,
                _ => self.type_units as u32 + object.foreign[(entry.type_unit & !FOREIGN) as usize],
            };
            out.number(row.into(), widths.1);
        }
        out.number(entry.offset.into(), 4);
        if shape.parent == Parent::Entry {
            out.number(object.places[entry.parent as usize].into(), 4);
        }
        object.own.more[range(entry.more)].iter().for_each(|&byte| out.number(byte.into(), 1));
    }
}

fn range((start, end): (u32, u32)) -> Range<usize> {
    start as usize..end as usize
}

/// Size in bytes of a field that holds numbers below `count`.
fn width(count: usize) -> usize {
    match count {
        0..=0x100 => 1,
        0x101..=0x1_0000 => 2,
        _ => 4,
    }
}

fn data_form(width: usize) -> DwForm {
    match width {
        1 => gimli::DW_FORM_data1,
        2 => gimli::DW_FORM_data2,
        _ => gimli::DW_FORM_data4,
    }
}

/// Size of an entry in bytes, without its abbreviation code.
fn entry_length(entry: &Entry, shape: &Shape, widths: (usize, usize)) -> usize {
    let unit = if shape.unit { widths.0 } else { 0 };
    let type_unit = if shape.type_unit { widths.1 } else { 0 };
    let parent = if shape.parent == Parent::Entry { 4 } else { 0 };
    unit + type_unit + 4 + parent + range(entry.more).len()
}

fn uleb_length(number: u32) -> usize {
    (32 - (number | 1).leading_zeros() as usize).div_ceil(7)
}

/// Bytes that are filled from their start.
struct Out<'o> {
    bytes: &'o mut [u8],
    endian: RunTimeEndian,
}

impl Out<'_> {
    fn number(&mut self, number: u64, width: usize) {
        let Some(place) = self.bytes.split_off_mut(..width) else { return };
        match self.endian {
            RunTimeEndian::Little => place.copy_from_slice(&number.to_le_bytes()[..width]),
            RunTimeEndian::Big => place.copy_from_slice(&number.to_be_bytes()[8 - width..]),
        }
    }

    fn uleb(&mut self, mut number: u32) {
        while number >= 0x80 {
            self.number((number & 0x7f | 0x80).into(), 1);
            number >>= 7;
        }
        self.number(number.into(), 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_that_are_written() {
        for number in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u32::MAX] {
            let mut bytes = Vec::new();
            push_uleb(&mut bytes, number.into());
            assert_eq!(bytes.len(), uleb_length(number), "{number:#x}");
        }
        assert_eq!([0, 1, 256, 257, 65536, 65537].map(width), [1, 1, 1, 2, 2, 4]);
    }
}
