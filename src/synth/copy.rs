//! Copies of libraries' data (`R_*_COPY`).
//!
//! A program whose code has the address of a library's variable built in gets room for a copy of
//! it, and the library uses the copy. All names of the variable must then mean the copy, so
//! symbols at one address of one library share it and all are exported.

use crate::arch::Target;
use crate::elf::consts as elf;
use crate::ids::{SharedId, SymbolId};
use crate::input::SharedFile;
use crate::link::Link;
use crate::relocs::address;
use crate::symbols::{Definition, flag};
use hashbrown::HashMap;
use zerocopy::byteorder::ByteOrder;

/// Room for one copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copy {
    /// The symbol that the relocation names.
    pub symbol: SymbolId,
    /// The library.
    pub library: SharedId,
    /// Address in the library.
    pub value: u64,
    /// Size in bytes, the largest that a name of it has.
    pub size: u64,
    /// The data is read-only once the program is loaded.
    pub relro: bool,
    /// Offset in the section of copies, in bytes.
    pub offset: u64,
}

/// Sizes and alignments of the two sections, in bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Size.
    pub size: u64,
    /// Alignment.
    pub align: u64,
}

/// Finds what is copied, and marks all names of it. Gives the extents of the writable section and
/// of the read-only one.
pub fn collect<T: Target>(link: &mut Link<'_, T>) -> (Extent, Extent) {
    let wanted: Vec<SymbolId> =
        link.globals.ids().filter(|&id| link.symbols.flags(id) & flag::NEEDS_COPY != 0).collect();
    let mut extents = [Extent { size: 0, align: 1 }; 2];
    let mut aliases = Aliases::default();
    let mut copies: Vec<Copy> = Vec::new();
    let mut seen: HashMap<(SharedId, u64), ()> = HashMap::new();
    for id in wanted {
        let Definition::Shared { library, symbol } = link.definition(id) else { continue };
        let file = &link.shared[library.index()];
        let Some(definition) = file.symbols.get(symbol as usize) else { continue };
        let value = definition.st_value.get();
        if seen.insert((library, value), ()).is_some() {
            continue;
        }
        let names = aliases.of(library, file, value);
        let size = names.iter().map(|&row| file.symbols[row as usize].st_size.get()).max().unwrap_or(0);
        let relro = link.config.layout.relro && file.is_read_only(definition);
        let extent = &mut extents[usize::from(relro)];
        let align = file.data_alignment(definition);
        let offset = extent.size.next_multiple_of(align);
        extent.align = extent.align.max(align);
        extent.size = offset.saturating_add(size);
        copies.push(Copy { symbol: id, library, value, size, relro, offset });
        for &row in names {
            let Some(&alias) = file.globals.get(row as usize) else { continue };
            if alias.is_some() && link.definition(alias) == (Definition::Shared { library, symbol: row }) {
                link.symbols.set(alias, flag::NEEDS_COPY | flag::NEEDS_DYNSYM | flag::EXPORTED);
            }
        }
    }
    link.relocations.copies = copies;
    (extents[0], extents[1])
}

/// The data symbols of libraries, sorted by address; made for the libraries that need it.
#[derive(Default)]
struct Aliases {
    sorted: HashMap<SharedId, Vec<u32>>,
}

impl Aliases {
    fn of<E: ByteOrder>(&mut self, library: SharedId, file: &SharedFile<'_, E>, value: u64) -> &[u32] {
        let rows = self.sorted.entry(library).or_insert_with(|| {
            let is_data = |row: &u32| {
                let symbol = &file.symbols[*row as usize];
                !symbol.is_undefined()
                    && !symbol.is_local()
                    && matches!(symbol.kind(), elf::STT_OBJECT | elf::STT_NOTYPE | elf::STT_COMMON)
            };
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

/// Row of a symbol's copy: which place of which library it names.
pub fn find<T: Target>(link: &Link<'_, T>, id: SymbolId) -> Option<u32> {
    let Definition::Shared { library, symbol } = link.definition(id) else { return None };
    let value = link.shared.get(library.index())?.symbols.get(symbol as usize)?.st_value.get();
    let same = |copy: &Copy| copy.library == library && copy.value == value;
    link.relocations.copies.iter().position(same).map(|row| row as u32)
}

/// Address of a copy.
pub fn address_of<T: Target>(link: &Link<'_, T>, copy: &Copy) -> u64 {
    let addresses = &link.relocations.addresses;
    let section = if copy.relro { addresses.copy_relro } else { addresses.copy_data };
    section.wrapping_add(copy.offset)
}

/// Address of the copy that a symbol names; `None` if it has none.
pub fn address<T: Target>(link: &Link<'_, T>, id: SymbolId) -> Option<u64> {
    let row = address::row(link, id)?.copy;
    link.relocations.copies.get(row as usize).map(|copy| address_of(link, copy))
}
