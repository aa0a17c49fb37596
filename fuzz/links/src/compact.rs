//! Relocations in the compact form that LLVM writes on request: `SHT_CREL` (gABI proposal "Compact
//! relocations").
//!
//! A header has the count, an addend bit and a shift. The entries follow as differences; all numbers are in
//! LEB128. The result is nearly always shorter than the `SHT_RELA` table, so in a written object it replaces
//! the table in place.

use arbitrary::{Result, Unstructured};
use ld_compare::model::Relocation;
use object::elf;
use sframe_ld::input::object::SHT_CREL;

/// Where a file header has the offset, the number and the name table of section headers; the size of a
/// section header, and of an entry.
const TABLE: usize = 0x28;
const COUNT: usize = 0x3c;
const NAMES: usize = 0x3e;
const HEADER: usize = 64;
const ENTRY: usize = 24;

/// An object that was written.
struct Written<'a> {
    bytes: &'a mut [u8],
    big: bool,
}

impl Written<'_> {
    fn number(&self, at: usize, size: usize) -> u64 {
        let next = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        let bytes = &self.bytes[at..at + size];
        if self.big { bytes.iter().fold(0, next) } else { bytes.iter().rev().fold(0, next) }
    }

    fn put(&mut self, at: usize, size: usize, value: u64) {
        let place = &mut self.bytes[at..at + size];
        if self.big {
            place.copy_from_slice(&value.to_be_bytes()[8 - size..]);
        } else {
            place.copy_from_slice(&value.to_le_bytes()[..size]);
        }
    }

    fn relocations(&self, header: usize) -> Vec<Relocation> {
        let (start, size) = (self.number(header + 0x18, 8) as usize, self.number(header + 0x20, 8) as usize);
        let entry = |at: usize| {
            let info = self.number(at + 8, 8);
            let addend = self.number(at + 16, 8) as i64;
            // The number of the symbol, because there are no rows here.
            Relocation {
                offset: self.number(at, 8),
                symbol: Some((info >> 32) as usize),
                kind: info as u32,
                addend,
            }
        };
        (start..start + size).step_by(ENTRY).map(entry).collect()
    }
}

/// Converts some of the relocation tables of an object to compact ones, with names `.crel.*`.
pub fn some(from: &mut Unstructured<'_>, object: &mut [u8], big: bool) -> Result<()> {
    let mut object = Written { bytes: object, big };
    let table = object.number(TABLE, 8) as usize;
    let header = |number: u64| table + HEADER * number as usize;
    let names = object.number(header(object.number(NAMES, 2)) + 0x18, 8) as usize;
    for number in 1..object.number(COUNT, 2) {
        let header = header(number);
        if object.number(header + 4, 4) != u64::from(elf::SHT_RELA) || from.int_in_range(0..=3)? == 0 {
            continue;
        }
        let has_addends = from.int_in_range(0..=3)? != 0;
        let packed = packed(&object.relocations(header), has_addends);
        let (start, size) = (object.number(header + 0x18, 8) as usize, object.number(header + 0x20, 8));
        if packed.len() as u64 > size {
            continue;
        }
        object.bytes[start..start + packed.len()].copy_from_slice(&packed);
        let name = names + object.number(header, 4) as usize;
        object.bytes[name..name + 5].copy_from_slice(b".crel");
        object.put(header + 4, 4, SHT_CREL.into());
        object.put(header + 0x20, 8, packed.len() as u64);
        // The alignment, and the size of an entry.
        object.put(header + 0x30, 8, 1);
        object.put(header + 0x38, 8, 1);
    }
    Ok(())
}

/// Relocations in the compact form.
fn packed(all: &[Relocation], has_addends: bool) -> Vec<u8> {
    let shift = all.iter().fold(3, |shift, relocation| relocation.offset.trailing_zeros().min(shift));
    let mut bytes = Vec::new();
    unsigned(&mut bytes, (all.len() as u64) << 3 | u64::from(has_addends) << 2 | u64::from(shift));
    let flag_bits = if has_addends { 3 } else { 2 };
    let (mut offset, mut symbol, mut kind, mut addend) = (0u64, 0u32, 0u32, 0i64);
    for relocation in all {
        let to = relocation.symbol.unwrap_or(0) as u32;
        let distance = (relocation.offset >> shift).wrapping_sub(offset);
        let differs = [to != symbol, relocation.kind != kind, has_addends && relocation.addend != addend];
        let flags = differs.iter().rev().fold(0, |flags, &differs| flags << 1 | u8::from(differs));
        let first = (distance << flag_bits) as u8 & 0x7f | flags;
        if distance < 0x80 >> flag_bits {
            bytes.push(first);
        } else {
            bytes.push(first | 0x80);
            unsigned(&mut bytes, distance >> (7 - flag_bits));
        }
        let differences = [
            i64::from(to.wrapping_sub(symbol) as i32),
            i64::from(relocation.kind.wrapping_sub(kind) as i32),
            relocation.addend.wrapping_sub(addend),
        ];
        differences
            .iter()
            .zip(differs)
            .filter(|(_, differs)| *differs)
            .for_each(|(&d, _)| signed(&mut bytes, d));
        (offset, symbol, kind, addend) = (relocation.offset >> shift, to, relocation.kind, relocation.addend);
    }
    bytes
}

/// Adds an unsigned LEB128 number.
fn unsigned(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Adds a signed LEB128 number.
fn signed(bytes: &mut Vec<u8>, mut value: i64) {
    while !(-0x40..0x40).contains(&value) {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8 & 0x7f);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the linker's reader: two entries with addends.
    #[test]
    fn entries_are_differences() {
        let of = |offset, symbol| Relocation { offset, symbol: Some(symbol), kind: 2, addend: -4 };
        let bytes = packed(&[of(0x20, 3), of(0x1030, 2)], true);
        // Offsets are multiples of 8. The next entries are 4 and 0x202 further.
        assert_eq!(bytes, [2 << 3 | 4 | 3, 4 << 3 | 7, 3, 2, 0x7c, 0x80 | 2 << 3 | 1, 0x20, 0x7f]);
        // Backwards, and without addends.
        assert_eq!(packed(&[of(9, 0), of(8, 0)], false)[..3], [2 << 3, 9 << 2 | 2, 2]);
    }
}
