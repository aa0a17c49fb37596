//! Relocations whose addends lie in the fields that they relocate (`SHT_REL`; gABI, "Relocation").
//!
//! The ABIs of the three machines want `SHT_RELA`, but LLVM writes the call graph profile with `SHT_REL`, whose entries
//! need no addend, and other producers may take the smaller form too. An object's `SHT_REL` sections are read once,
//! when it is indexed, into a table with addends; nothing later knows the difference but `-r` and `--emit-relocs`,
//! which write such sections again as they were.

use super::InputStore;
use super::object::{ImplicitTable, ObjectFile};
use super::packed::unpack;
use crate::arch::Target;
use crate::elf::consts as elf;
use crate::elf::{Rel, Rela, whole_table};
use std::borrow::Cow;
use zerocopy::IntoBytes;
use zerocopy::byteorder::{ByteOrder, I64};

/// Reads the `SHT_REL` sections of an object, once [`ObjectFile::relocation_sections`] is filled. Places outside the
/// section count as 0; the scan of relocations reports them.
pub fn read<'a, T: Target>(object: &mut ObjectFile<'a, T::E>, store: &'a InputStore) {
    let is_implicit = |table: u32| {
        let header = object.headers.get(table as usize);
        table != 0 && header.is_some_and(|header| header.sh_type.get() == elf::SHT_REL)
    };
    let targets = object.relocation_sections.iter().enumerate().filter(|&(_, &table)| is_implicit(table));
    let mut found: Vec<ImplicitTable<'a, T::E>> = targets
        .map(|(target, &section)| {
            let relocations = with_addends::<T>(object, target, section as usize);
            ImplicitTable { section, relocations: whole_table(store.keep(relocations.as_bytes())) }
        })
        .collect();
    found.sort_unstable_by_key(|table| table.section);
    object.implicit = found;
}

fn with_addends<T: Target>(object: &ObjectFile<'_, T::E>, target: usize, section: usize) -> Vec<Rela<T::E>> {
    let table: &[Rel<T::E>] = whole_table(object.section_bytes(section).unwrap_or_default());
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

/// The bytes that hold the addends; those of a compressed section are unpacked for this only.
fn contents<'a, E: ByteOrder>(object: &ObjectFile<'a, E>, section: usize) -> Cow<'a, [u8]> {
    let packed = object.packed.iter().find(|packed| packed.section as usize == section);
    match packed {
        Some(packed) => unpack(packed).unwrap_or_default().into(),
        None => object.section_bytes(section).unwrap_or_default().into(),
    }
}
