//! Copies of libraries' data (`R_*_COPY`).
//!
//! Code that is not position-independent has addresses built in, also the address of a variable of a library.
//! The library may lie anywhere, so the program cannot know this address. Therefore the program gets room for
//! a copy of the variable, and the library uses the copy, too, through its GOT:
//!
//! ```text
//! libc.so    stdout at any address; its own code reads the GOT: finds the copy
//! program    .dynbss: stdout, 8 bytes; its code has this address built in
//! ```
//!
//! If the library has other names for the same variable, they must also mean the copy. Otherwise a write
//! through one name would not be seen through another. So all symbols at one address of a library share a
//! copy, and all are exported.

use super::synthesis::{Create, Grow, Size, Synthesis, Write};
use crate::arch::Target;
use crate::cli::OutputMode;
use crate::elf::consts as elf;
use crate::ids::{SharedId, SymbolId};
use crate::input::SharedFile;
use crate::phase::{Copies, Copy, Inputs, Scanned};
use crate::symbols::{Definition, Needs};
use crate::tables::section::{Kind, SyntheticSection, WRITABLE};
use hashbrown::HashMap;
use zerocopy::byteorder::ByteOrder;

/// `.dynbss`: copies of data.
pub fn data<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            let section = || SyntheticSection::new(Kind::CopyData, b".dynbss", elf::SHT_NOBITS, WRITABLE, 1);
            copies(link).then(section).into()
        }),
        size: Size::Needed(|link| link.copies.data),
        grow: Grow::Never,
        write: Write::Nothing,
    }
}

/// `.data.rel.ro`: copies of read-only data.
pub fn relro<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            let (name, sh_type) = (b".data.rel.ro", elf::SHT_PROGBITS);
            let section = || SyntheticSection::new(Kind::CopyRelro, name, sh_type, WRITABLE, 1);
            copies(link).then(section).into()
        }),
        size: Size::Needed(|link| link.copies.relro),
        grow: Grow::Never,
        write: Write::Nothing,
    }
}

/// Whether the output may have copies.
fn copies<T: Target>(link: &Inputs<'_, T>) -> bool {
    matches!(link.config.mode, OutputMode::Executable { .. }) && !link.shared.is_empty()
}

/// Makes room for each variable of a library that needs a copy. Returns the copies and all names of the
/// variables.
pub fn collect<T: Target>(link: &Scanned<'_, T>) -> (Copies, Vec<SymbolId>) {
    let wanted: Vec<SymbolId> =
        link.globals.ids().filter(|&id| link.symbol_needs(id).contains(Needs::COPY)).collect();
    let mut aliases = Aliases::default();
    let (mut copies, mut all_names) = (Copies::default(), Vec::new());
    let mut seen: HashMap<(SharedId, u64), ()> = HashMap::new();
    let blocks = &link.definitions.replaced_commons;
    let replaced = |id| blocks.binary_search_by_key(&id, |block| block.symbol).ok().map(|row| blocks[row]);
    for id in wanted {
        let Definition::Shared { library, symbol } = link.definition(id) else { continue };
        let file = &link.shared[library.index()];
        let Some(definition) = file.symbols.get(symbol as usize) else { continue };
        let value = definition.st_value.get();
        if seen.insert((library, value), ()).is_some() {
            continue;
        }
        let names = aliases.of(library, file, value);
        let mut size = names.iter().map(|&row| file.symbols[row as usize].st_size.get()).max().unwrap_or(0);
        let relro = link.config.layout.relro && file.is_read_only(definition);
        let extent = if relro { &mut copies.relro } else { &mut copies.data };
        let mut align = file.data_alignment(definition);
        // The dynamic linker copies as many bytes as the named symbol has.
        let mut largest = (definition.st_size.get(), id);
        for &row in names {
            let Some(&alias) = file.globals.get(row as usize) else { continue };
            if alias.is_some() && link.definition(alias) == (Definition::Shared { library, symbol: row }) {
                all_names.push(alias);
                let copied = file.symbols[row as usize].st_size.get();
                if copied > largest.0 {
                    largest = (copied, alias);
                }
                // If code declares the variable larger than the library does, it uses all of that room.
                if let Some(block) = replaced(alias) {
                    (size, align) = (size.max(block.size), align.max(block.align));
                }
            }
        }
        let offset = extent.size.next_multiple_of(align);
        extent.align = extent.align.max(align);
        extent.size = offset.saturating_add(size);
        copies.all.push(Copy { symbol: largest.1, library, value, size, relro, offset });
    }
    (copies, all_names)
}

/// The data symbols of libraries, sorted by address. The list of a library is made when it is needed.
#[derive(Default)]
struct Aliases {
    sorted: HashMap<SharedId, Vec<u32>>,
}

impl Aliases {
    fn of<E: ByteOrder>(&mut self, library: SharedId, file: &SharedFile<'_, E>, value: u64) -> &[u32] {
        let rows = self.sorted.entry(library).or_insert_with(|| {
            let is_data = |row: &u32| SharedFile::is_data(&file.symbols[*row as usize]);
            let mut rows: Vec<u32> = (1..file.symbols.len() as u32).filter(is_data).collect();
            rows.sort_by_key(|&row| (file.symbols[row as usize].st_value.get(), row));
            rows
        });
        let address = |row: &u32| file.symbols[*row as usize].st_value.get();
        let start = rows.partition_point(|row| address(row) < value);
        let end = rows.partition_point(|row| address(row) <= value);
        &rows[start..end]
    }
}
