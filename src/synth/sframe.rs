//! The linker's own SFrame sections: a table of functions, and the index of `.sframe`.
//! [`crate::sframe_output`] decides what they hold.

use super::synthesis::{Create, Grow, Size, Synthesis, Write, bytes};
use crate::arch::Target;
use crate::sframe::collect::Table;
use crate::sframe_output::{absorb, compact, overlay, table};

/// `.sframe_idx`, `.sframe_compact` or a merged `.sframe`.
pub fn functions<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| absorb::section(link, link.described).into()),
        size: Size::Numbered(|link| {
            bytes(link.chosen.table.as_ref().map_or(0, |table| match &link.chosen.compact {
                Some(compact) => compact::first_guess(compact, table),
                None => table.size(),
            }))
        }),
        grow: Grow::Functions(|link, chosen, added| match &chosen.compact {
            Some(_) => compact::needed_size(link, chosen),
            None => chosen.table.as_ref().filter(|_| added > 0).map(Table::size),
        }),
        write: Write::Jobs(|link, section, out| {
            let address = link.section_address(section.id);
            match &link.chosen.compact {
                Some(compact) => out.fill(|out| compact::write(link, compact, address, out)),
                None => table::write(link, address, out),
            }
        }),
    }
}

/// The sorted index at the start of `.sframe`.
pub fn overlay<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| overlay::section(link.config).into()),
        size: Size::Numbered(|link| bytes(overlay::size(link, link.chosen))),
        grow: Grow::Functions(|link, _, added| overlay::size_with(link, added)),
        write: Write::Together,
    }
}
