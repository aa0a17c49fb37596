//! The addresses that relocations are computed from.

use crate::arch::Target;
use crate::elf::consts as elf;
use crate::ids::{SectionId, SymbolId};
use crate::input::ObjectFile;
use crate::input::object::SymbolPlace;
use crate::link::Link;
use crate::phase::Resolved;
use crate::phase::state;
use crate::symbols::{Definition, flag};
use crate::symbols::{LinkerSymbolOrigin, Reserved};
use crate::synth::{DynamicRow, Kind, copy, plt};

/// Addresses of the tables, and of the TLS segment. 0 for what the output does not have.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Addresses {
    /// `.got`.
    pub got: u64,
    /// `.got.plt`.
    pub got_plt: u64,
    /// What `_GLOBAL_OFFSET_TABLE_` is and GOT-relative offsets count from.
    pub got_base: u64,
    /// The words of the dynamic linker: the head of `.got.plt` or `.got` (`DT_PLTGOT`).
    pub reserved: u64,
    /// `.plt`.
    pub plt: u64,
    /// `.plt.got`.
    pub plt_got: u64,
    /// `.plt.sec`.
    pub plt_sec: u64,
    /// Copies of libraries' data.
    pub copy_data: u64,
    /// Copies of libraries' read-only data.
    pub copy_relro: u64,
    /// Start of the TLS segment.
    pub tls_start: u64,
    /// The thread pointer, as an address in the initialisation image.
    pub thread_pointer: u64,
}

/// Address of the first synthetic section of a kind; 0 if it is not in the output.
pub fn of_synthetic<T: Target>(link: &Link<'_, T>, kind: Kind) -> u64 {
    match link.synthetics.find(kind) {
        Some(row) => link.section_address(link.synthetic_id(row)),
        None => 0,
    }
}

/// Looks the tables up. Called when addresses are final, before symbol values are filled in.
pub fn look_up<T: Target>(link: &mut Link<'_, T>) {
    let (got, got_plt) = (of_synthetic(link, Kind::Got), of_synthetic(link, Kind::GotPlt));
    let tls = link.layout.tls;
    link.relocations.addresses = Addresses {
        got,
        got_plt,
        got_base: if T::GOT_SYMBOL_IN_GOT_PLT { got_plt } else { got },
        reserved: if T::GOT_PLT_RESERVED > 0 { got_plt } else { got },
        plt: of_synthetic(link, Kind::Plt),
        plt_got: of_synthetic(link, Kind::PltGot),
        plt_sec: of_synthetic(link, Kind::PltSec),
        copy_data: of_synthetic(link, Kind::CopyData),
        copy_relro: of_synthetic(link, Kind::CopyRelro),
        tls_start: tls.start,
        thread_pointer: T::thread_pointer(tls.start, tls.size, tls.align.max(1)),
    };
}

/// Row of a symbol in the tables for the dynamic linker.
#[inline]
pub fn row<'l, T: Target>(link: &'l Link<'_, T>, id: SymbolId) -> Option<&'l DynamicRow> {
    let row = *link.rows.get(id.index())?;
    link.synthetics.rows.get(row as usize)
}

/// Value of a symbol; 0 before values are known.
#[inline]
pub fn value<T: Target>(link: &Link<'_, T>, id: SymbolId) -> u64 {
    link.values.get(id.index()).copied().unwrap_or(0)
}

/// `S + A` for symbol `index` of an object. The one place where an addend may choose among the
/// pieces of a section that was taken apart.
#[inline]
pub fn target<T: Target>(
    link: &Link<'_, T>,
    object: &ObjectFile<'_, T::E>,
    index: u32,
    id: SymbolId,
    addend: i64,
) -> u64 {
    if index < object.first_global
        && let Some(symbol) = object.symbols.get(index as usize)
        && symbol.kind() == elf::STT_SECTION
        && let SymbolPlace::Section(section) = object.symbol_place(index as usize)
    {
        let section = object.section_id(section);
        if link.sections.is(section, state::ABSORBED) {
            let start = symbol.st_value.get();
            // Nobody points into frame records: start-up code of static programs points at where
            // they begin, with the distance from the field to its instruction as the addend.
            return if link.merges.contains(section) {
                link.absorbed_address(section, start.wrapping_add_signed(addend))
            } else {
                link.absorbed_address(section, start).wrapping_add_signed(addend)
            };
        }
    }
    if index == 0 {
        return addend as u64;
    }
    value(link, id).wrapping_add_signed(addend)
}

/// Address of the GOT slot with a symbol's offset from the thread pointer; 0 if it has none.
pub fn tp_slot<T: Target>(link: &Link<'_, T>, id: SymbolId) -> u64 {
    let slot = row(link, id).map_or(u32::MAX, |row| row.got_tp);
    if slot == u32::MAX { 0 } else { link.relocations.addresses.got.wrapping_add(u64::from(slot) * 8) }
}

/// Address of a place of an input section in the output.
#[inline]
pub fn place<T: Target>(link: &Link<'_, T>, section: SectionId, offset: u64) -> u64 {
    if link.sections.is(section, state::ABSORBED) {
        return link.absorbed_address(section, offset);
    }
    link.section_address(section).wrapping_add(offset)
}

/// Whether the symbol is `_TLS_MODULE_BASE_` of an executable. It then stands for the thread
/// pointer: code adds local exec offsets to it.
pub fn is_executable_tls_base<T: Target>(link: &Link<'_, T>, id: SymbolId) -> bool {
    let Definition::Linker(row) = link.definition(id) else { return false };
    !link.mode.shared
        && link
            .linker_symbols
            .get(row as usize)
            .is_some_and(|symbol| symbol.origin == LinkerSymbolOrigin::Reserved(Reserved::TlsModuleBase))
}

/// `S + A - TP` where `target` is `S + A`.
pub fn from_thread_pointer<T: Target>(link: &Link<'_, T>, id: SymbolId, target: u64, addend: i64) -> i64 {
    if is_executable_tls_base(link, id) {
        return addend;
    }
    target.wrapping_sub(link.relocations.addresses.thread_pointer) as i64
}

/// Size of a symbol's definition in bytes; 0 if nothing says it.
pub fn symbol_size<T: Target>(
    link: &Resolved<'_, T>,
    object: &ObjectFile<'_, T::E>,
    index: u32,
    id: SymbolId,
) -> u64 {
    if let Some(block) = link.common_block(id) {
        return block.size;
    }
    let symbol = match link.definition(id) {
        Definition::Object { file, symbol } => {
            link.objects.get(file.index()).and_then(|object| object.symbols.get(symbol as usize))
        }
        Definition::Shared { library, symbol } => {
            link.shared.get(library.index()).and_then(|library| library.symbols.get(symbol as usize))
        }
        _ if link.globals.contains(id) => None,
        _ => object.symbols.get(index as usize),
    };
    symbol.map_or(0, |symbol| symbol.st_size.get())
}

/// The address that a library's symbol has in this program: that of its copy, or of its PLT entry
/// if that is canonical. `None` for all others. Values of symbols start from here.
pub fn of_imported<T: Target>(link: &Link<'_, T>, id: SymbolId) -> Option<u64> {
    let flags = link.symbols.flags(id);
    if flags & flag::IMPORTED == 0 {
        return None;
    }
    if flags & flag::NEEDS_COPY != 0 {
        return copy::address(link, id);
    }
    (flags & flag::NEEDS_CANONICAL_PLT != 0).then(|| plt::address(link, id))
}
