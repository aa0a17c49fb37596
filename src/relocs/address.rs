//! Computes the addresses that relocations need: of symbols, GOT slots, PLT entries, copies and places.

use crate::arch::Target;
use crate::arch::target::PltEntry;
use crate::elf::is_alloc;
use crate::ids::{SectionId, Slot, SymbolId};
use crate::input::ObjectFile;
use crate::input::object::SymbolPlace;
use crate::phase::{Copy, DynamicRow, Geometry, Located, Numbered, Placed, Resolved, Scanned, SectionState};
use crate::symbols::{Definition, Needs, SymbolFlags};
use crate::symbols::{LinkerSymbolOrigin, Reserved};
use crate::tables::section::Kind;

/// Address of the first synthetic section of this kind. 0 if it is not in the output.
pub fn of_synthetic<T: Target>(link: &Geometry<'_, T>, kind: Kind) -> u64 {
    match link.synthetics.find(kind) {
        Some(row) => link.section_address(link.synthetic_id(row)),
        None => 0,
    }
}

/// The value of symbol `index` of an object in the prevailing copy of its discarded section, where a section
/// that is not loaded refers to another one of its name. With `-g3`, the macros of a header are a
/// `.debug_macro` in a group, which those of each file import, so all files import the copy that is kept.
/// The copy has the same name and size. Code and data of a discarded group have no such address: debug
/// information would describe the kept function once more.
pub fn of_kept_copy<T: Target>(
    link: &Placed<'_, T>,
    object: &ObjectFile<'_, T::E>,
    referring: u32,
    index: u32,
) -> Option<u64> {
    let SymbolPlace::Section(lost) = object.symbol_place(index as usize) else { return None };
    let header = &object.headers[lost as usize];
    // Most references of debug information to discarded sections are to code.
    if is_alloc(header.sh_flags.get()) {
        return None;
    }
    let name = object.section_name(lost as usize);
    if name != object.section_name(referring as usize) {
        return None;
    }
    let entry = link.groups.of_section(object.id, lost).filter(|entry| entry.discarded)?;
    let (keeper, group) = (&link.objects[entry.prevailing.index()], &link.groups.prevailing(entry)?.group);
    let is_copy = |member: &&u32| {
        let size = keeper.headers[**member as usize].sh_size.get();
        keeper.section_name(**member as usize) == name && size == header.sh_size.get()
    };
    let kept = keeper.section_id(*group.members.iter().find(is_copy)?);
    let value = object.symbols[index as usize].st_value.get();
    link.sections.is_alive(kept).then(|| link.section_address(kept).wrapping_add(value))
}

/// Address of a symbol, as in [`Located::values`].
#[inline]
pub fn value<T: Target>(link: &Located<'_, T>, id: SymbolId) -> u64 {
    link.values.get(id.index()).copied().unwrap_or(0)
}

/// `S + A` for symbol `index` of an object; `id` is its id. If the symbol is the section symbol of an
/// absorbed section, the addend selects a piece of the section, so it is added before the look-up of the
/// piece.
#[inline]
pub fn target<T: Target>(
    link: &Located<'_, T>,
    object: &ObjectFile<'_, T::E>,
    index: u32,
    id: SymbolId,
    addend: i64,
) -> u64 {
    if index < object.first_global
        && link.symbol_flags(id).contains(SymbolFlags::SECTION)
        && let Some(symbol) = object.symbols.get(index as usize)
        && let SymbolPlace::Section(section) = object.symbol_place(index as usize)
    {
        let section = object.section_id(section);
        if link.sections.is(section, SectionState::ABSORBED) {
            let start = symbol.st_value.get();
            // Addends select pieces of merged sections only. In an `.eh_frame` section, code refers at most
            // to the beginning (start-up code of static programs does). The addend then only makes up for the
            // distance from the field to the end of the instruction.
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

/// Whether `S + A` is in a string or constant that the output does not have, because nothing live refers to
/// it. The arguments are those of [`target`].
#[inline]
pub fn is_left_out<T: Target>(
    link: &Scanned<'_, T>,
    object: &ObjectFile<'_, T::E>,
    index: u32,
    addend: i64,
) -> bool {
    if !link.merges.is_partial() || index == 0 {
        return false;
    }
    let Some((section, start)) = link.referenced_section(object, index) else { return false };
    let selects = link.symbol_flags(object.symbol_id(index)).contains(SymbolFlags::SECTION);
    let offset = if selects { start.wrapping_add_signed(addend) } else { start };
    link.merges.leaves_out(section, offset)
}

/// Address of the GOT slot with a symbol's offset from the thread pointer. 0 if the symbol has no such slot.
pub fn tp_slot<T: Target>(link: &Geometry<'_, T>, id: SymbolId) -> u64 {
    link.row(id).and_then(|row| row.got_tp).map_or(0, |slot| got_word(link, slot))
}

/// Address of the byte at this offset of an input section. In an absorbed section, it is the address of the
/// piece there. 0 if the byte is not in the output.
#[inline]
pub fn place<T: Target>(link: &Geometry<'_, T>, section: SectionId, offset: u64) -> u64 {
    if link.sections.is(section, SectionState::ABSORBED) {
        return link.absorbed_address(section, offset);
    }
    link.section_address(section).wrapping_add(offset)
}

/// Whether the symbol is `_TLS_MODULE_BASE_` of an executable. There, it means the thread pointer, because
/// relaxed code adds local-exec offsets to it.
pub fn is_executable_tls_base<T: Target>(link: &Resolved<'_, T>, id: SymbolId) -> bool {
    let Definition::Linker(row) = link.definition(id) else { return false };
    !link.mode.shared
        && link
            .linker_symbols
            .get(row as usize)
            .is_some_and(|symbol| symbol.origin == LinkerSymbolOrigin::Reserved(Reserved::TlsModuleBase))
}

/// `S + A - TP`, where `target` is `S + A`. An undefined symbol counts as lying at the thread pointer: the
/// distance from address 0 might not fit the field.
pub fn from_thread_pointer<T: Target>(link: &Geometry<'_, T>, id: SymbolId, target: u64, addend: i64) -> i64 {
    if link.definitions.is_undefined(id) || is_executable_tls_base(link, id) {
        return addend;
    }
    target.wrapping_sub(link.addresses.thread_pointer) as i64
}

/// The offset of `target` (`S + A`) in this module's TLS block. An undefined symbol counts as lying at the
/// start of the block.
pub fn in_tls_block<T: Target>(link: &Geometry<'_, T>, id: SymbolId, target: u64, addend: i64) -> u64 {
    if link.definitions.is_undefined(id) {
        return addend as u64;
    }
    target.wrapping_sub(link.addresses.tls_start)
}

/// Size of a symbol's definition in bytes; 0 if unknown.
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

/// Whether other modules take a symbol's PLT entry for its address. They do with a canonical entry. In a
/// position-dependent program, they also do with an exported `STT_GNU_IFUNC` function that has an entry.
pub fn is_plt_entry<T: Target>(link: &Numbered<'_, T>, id: SymbolId) -> bool {
    let flags = link.symbol_flags(id);
    let is_called = || link.row(id).is_some_and(|row| row.plt_got.is_some());
    link.symbol_needs(id).contains(Needs::CANONICAL_PLT)
        || !link.mode.position_independent
            && flags & (SymbolFlags::IFUNC | SymbolFlags::EXPORTED)
                == SymbolFlags::IFUNC | SymbolFlags::EXPORTED
            && is_called()
}

/// Address of a word of `.got`.
pub fn got_word<T: Target>(link: &Geometry<'_, T>, word: Slot) -> u64 {
    link.addresses.got.wrapping_add(u64::from(word.number()) * 8)
}

/// Address of a symbol's PLT entry; 0 if it has none.
#[inline]
pub fn plt<T: Target>(link: &Geometry<'_, T>, id: SymbolId) -> u64 {
    link.row(id).map_or(0, |row| plt_of_row(link, row))
}

/// Address of a row's PLT entry; 0 if it has none.
pub fn plt_of_row<T: Target>(link: &Geometry<'_, T>, row: &DynamicRow) -> u64 {
    let at = &link.addresses;
    match link.plt_place(row) {
        Some((Kind::PltGot, offset)) => at.plt_got.wrapping_add(offset),
        Some((Kind::PltSec, offset)) => at.plt_sec.wrapping_add(offset),
        Some((_, offset)) => at.plt.wrapping_add(offset),
        None => 0,
    }
}

/// Address of the word in `.got.plt` that entry `index` of `.plt` jumps through.
pub fn plt_slot<T: Target>(link: &Geometry<'_, T>, index: u32) -> u64 {
    link.addresses.got_plt.wrapping_add((T::GOT_PLT_RESERVED + u64::from(index)) * 8)
}

/// The addresses that a machine needs to write entry `index` of `.plt`.
pub fn plt_entry<T: Target>(link: &Geometry<'_, T>, index: u32) -> PltEntry {
    let plt = link.addresses.plt;
    let entry = plt.wrapping_add(link.plt_shape.lazy_entry(index));
    PltEntry { plt, entry, slot: plt_slot(link, index), index }
}

/// Address of a copy.
pub fn of_copy<T: Target>(link: &Geometry<'_, T>, copy: &Copy) -> u64 {
    let section = if copy.relro { link.addresses.copy_relro } else { link.addresses.copy_data };
    section.wrapping_add(copy.offset)
}

/// Address of the copy of a library's variable. `None`: the symbol has no copy.
pub fn copy<T: Target>(link: &Geometry<'_, T>, id: SymbolId) -> Option<u64> {
    link.copy(link.row(id)?).map(|copy| of_copy(link, copy))
}
