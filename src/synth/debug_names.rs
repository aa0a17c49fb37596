//! `.debug_names`: writes the joined index, with the places of its strings and units in the output.

use super::synthesis::{Create, Created, Grow, Ingredients, Size, Synthesis, Write, bytes};
use crate::arch::Target;
use crate::debug_index::view::endian;
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::phase::Placed;
use crate::tables::section::{Kind, SyntheticSection};

/// `.debug_names`.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| section(link).unwrap_or_default()),
        size: Size::Numbered(|link| bytes(link.name_index.size)),
        grow: Grow::Never,
        write: Write::Bytes(|link, _, out| write(link, out)),
    }
}

/// The section, if `--debug-names` asks for it and an object has such an index. The objects' own sections are
/// then absorbed.
fn section<'a, T: Target>(link: &Ingredients<'_, 'a, T>) -> Option<Created<'a>> {
    if !link.config.strip.debug_names || link.config.is_relocatable() {
        return None;
    }
    let indexes = link.objects.iter().flat_map(|object| {
        let is_index =
            |&index: &usize| matches!(object.section_name(index), b".debug_names" | b".zdebug_names");
        (1..object.headers.len()).filter(is_index).map(|index| object.section_id(index as u32))
    });
    let absorbed: Vec<_> = indexes.collect();
    let section = SyntheticSection::new(Kind::DebugNames, b".debug_names", elf::SHT_PROGBITS, 0, 4);
    (!absorbed.is_empty()).then(|| Created { absorbed, ..Some(section).into() })
}

/// Writes the section.
fn write<T: Target>(link: &Placed<'_, T>, out: &mut [u8]) {
    let offset = |(section, offset)| {
        // The strings have been merged, so their offsets have changed.
        let place = link.final_place(section, offset);
        place.map_or(0, |(section, offset)| link.layout.offset_of(section).wrapping_add(offset))
    };
    if !link.name_index.write(endian::<T::E>(), &offset, out) {
        let message = "the debug information is larger than 4 GiB, which .debug_names cannot express";
        link.sink.report(Diagnostic::error(Code::DebugInfo, message).help("compile with -gdwarf64"));
    }
}
