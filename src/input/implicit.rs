//! Relocations in other forms than `SHT_RELA`: `SHT_REL`, whose addends are in the fields that they relocate
//! (gABI, "Relocation"), and `SHT_CREL`, whose entries are differences in LEB128, with or without addends
//! (gABI proposal "Compact relocations", as LLVM writes it).
//!
//! The ABIs of the three machines demand `SHT_RELA`. But LLVM writes the call graph profile with `SHT_REL`,
//! because its entries need no addend, and other producers may choose the smaller form too. The linker reads
//! such sections once, when it indexes the object, into a table with addends. After that, only `-r` and
//! `--emit-relocs` know the difference: they write addends back into the fields where they were.

use super::InputStore;
use super::object::{ImplicitTable, Malformed, ObjectFile, SHT_CREL};
use super::packed::unpack;
use crate::arch::Target;
use crate::elf::consts as elf;
use crate::elf::{Rel, Rela, whole_table};
use std::borrow::Cow;
use zerocopy::IntoBytes;
use zerocopy::byteorder::{ByteOrder, I64, U64};

/// Reads the `SHT_REL` and `SHT_CREL` sections of an object. [`ObjectFile::relocation_sections`] must be
/// filled. The addend of a place outside the section counts as 0; the scan of relocations reports such a
/// place.
///
/// # Errors
/// The first `SHT_CREL` section that is cut short.
pub fn read<'a, T: Target>(
    object: &mut ObjectFile<'a, T::E>,
    store: &'a InputStore,
) -> Result<(), Malformed> {
    let mut found: Vec<ImplicitTable<'a, T::E>> = Vec::new();
    for (target, &section) in object.relocation_sections.iter().enumerate().filter(|&(_, &table)| table != 0)
    {
        let Some(header) = object.headers.get(section as usize) else { continue };
        let (table, from_places) = match header.sh_type.get() {
            elf::SHT_REL => {
                (whole_table(object.section_bytes(section as usize).unwrap_or_default()).to_vec(), true)
            }
            SHT_CREL => {
                let bytes = object.section_bytes(section as usize).unwrap_or_default();
                let (compact, explicit) = compact(bytes).ok_or_else(|| {
                    let name = object.section_name_lossy(section as usize);
                    let what = format!("the compact relocations of section {name} are cut short");
                    Malformed::at(header.sh_offset.get(), what)
                })?;
                if explicit {
                    let relocations = whole_table(store.keep(compact.as_bytes()));
                    found.push(ImplicitTable { section, relocations, from_places: false });
                    continue;
                }
                let plain = |entry: &Rela<T::E>| Rel { r_offset: entry.r_offset, r_info: entry.r_info };
                (compact.iter().map(plain).collect(), true)
            }
            _ => continue,
        };
        let relocations = with_addends::<T>(object, target, &table);
        let relocations = whole_table(store.keep(relocations.as_bytes()));
        found.push(ImplicitTable { section, relocations, from_places });
    }
    found.sort_unstable_by_key(|table| table.section);
    object.implicit = found;
    Ok(())
}

/// Decodes `SHT_CREL`. Returns the entries, and whether they have addends; `None` if the section is cut
/// short.
fn compact<E: ByteOrder>(mut bytes: &[u8]) -> Option<(Vec<Rela<E>>, bool)> {
    let header = unsigned(&mut bytes)?;
    let (count, explicit, shift) = (header >> 3, header & 4 != 0, header & 3);
    // Each entry takes at least one byte.
    if count > bytes.len() as u64 {
        return None;
    }
    let flag_bits = if explicit { 3 } else { 2 };
    let (mut offset, mut symbol, mut kind, mut addend) = (0u64, 0u32, 0u32, 0i64);
    let mut entries = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let (&first, rest) = bytes.split_first()?;
        bytes = rest;
        // The first byte has the flags and the low bits of the difference of offsets. More bits may follow.
        offset = offset.wrapping_add(u64::from(first >> flag_bits));
        if first >= 0x80 {
            let more = unsigned(&mut bytes)? << (7 - flag_bits);
            offset = offset.wrapping_add(more).wrapping_sub(0x80 >> flag_bits);
        }
        if first & 1 != 0 {
            symbol = symbol.wrapping_add(signed(&mut bytes)? as u32);
        }
        if first & 2 != 0 {
            kind = kind.wrapping_add(signed(&mut bytes)? as u32);
        }
        if explicit && first & 4 != 0 {
            addend = addend.wrapping_add(signed(&mut bytes)?);
        }
        entries.push(Rela {
            r_offset: U64::new(offset << shift),
            r_info: U64::new(u64::from(symbol) << 32 | u64::from(kind)),
            r_addend: I64::new(addend),
        });
    }
    Some((entries, explicit))
}

/// Reads an unsigned LEB128 number.
fn unsigned(bytes: &mut &[u8]) -> Option<u64> {
    let (mut value, mut shift) = (0u64, 0u32);
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        shift += 7;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
}

/// Reads a signed LEB128 number.
fn signed(bytes: &mut &[u8]) -> Option<i64> {
    let before = *bytes;
    let value = unsigned(bytes)?;
    let length = before.len() - bytes.len();
    let negative = before[length - 1] & 0x40 != 0;
    let sign = if negative { u64::MAX.checked_shl(7 * length as u32).unwrap_or(0) } else { 0 };
    Some((value | sign) as i64)
}

fn with_addends<T: Target>(
    object: &ObjectFile<'_, T::E>,
    target: usize,
    table: &[Rel<T::E>],
) -> Vec<Rela<T::E>> {
    let contents = contents(object, target);
    let addend = |relocation: &Rel<T::E>| {
        let info = T::reloc_info(relocation.r_info.get() as u32)?;
        let start = usize::try_from(relocation.r_offset.get()).ok()?;
        let place = contents.get(start..start.checked_add(info.size.into())?)?;
        Some(T::read_field(T::addend_field(info.field), place))
    };
    let explicit = |relocation: &Rel<T::E>| Rela {
        r_offset: relocation.r_offset,
        r_info: relocation.r_info,
        r_addend: I64::new(addend(relocation).unwrap_or(0)),
    };
    table.iter().map(explicit).collect()
}

/// The bytes that hold the addends. A compressed section is unpacked only for this.
fn contents<'a, E: ByteOrder>(object: &ObjectFile<'a, E>, section: usize) -> Cow<'a, [u8]> {
    let packed = object.packed.binary_search_by_key(&section, |packed| packed.section as usize);
    match packed {
        Ok(row) => unpack(&object.packed[row]).unwrap_or_default().into(),
        Err(_) => object.section_bytes(section).unwrap_or_default().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::byteorder::LittleEndian;

    #[test]
    fn compact_relocations_are_differences() {
        // Two entries with addends. The first has offset 0x20, symbol 3, type 2 and addend -4. The second is
        // 0x1010 further and has symbol 2, with the same type and addend.
        let bytes = [2 << 3 | 4, 0x80 | 0x07, 0x02, 3, 2, 0x7c, 0x80 | 0x01, 0x81, 0x02, 0x7f];
        let (entries, explicit) = compact::<LittleEndian>(&bytes).unwrap();
        let fields: Vec<_> = entries
            .iter()
            .map(|entry| (entry.r_offset.get(), entry.r_info.get(), entry.r_addend.get()))
            .collect();
        assert!(explicit);
        assert_eq!(fields[0], (0x20, 3 << 32 | 2, -4));
        assert_eq!(fields[1].1, 2 << 32 | 2);
        for end in 0..bytes.len() {
            assert!(compact::<LittleEndian>(&bytes[..end]).is_none(), "{end}");
        }
        assert_eq!(signed(&mut &[0xff, 0x7e][..]), Some(-129));
        assert_eq!(unsigned(&mut &[0xff; 12][..]), None);
    }
}
