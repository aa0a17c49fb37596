//! The facts about a symbol from which [`crate::decision`] decides.

use super::{Bound, Live, Resolved, SectionState, Synthesized};
use crate::arch::Target;
use crate::arch::relocation::SymbolFacts;
use crate::elf::Rela;
use crate::elf::consts as elf;
use crate::ids::SymbolId;
use crate::input::ObjectFile;
use crate::input::object::SymbolPlace;
use crate::symbols::{Definition, SymbolFlags};

/// The facts that [`crate::decision::decide::decide`] takes, for symbol `index` of an object.
#[inline]
pub fn facts<T: Target>(link: &Bound<'_, T>, index: u32, id: SymbolId) -> SymbolFacts {
    if index == 0 {
        return SymbolFacts::ABSOLUTE;
    }
    let facts = SymbolFacts::from(link.symbol_flags(id));
    if !facts.intersects(SymbolFacts::IMPORTED | SymbolFacts::ABSOLUTE) || !link.globals.contains(id) {
        return facts;
    }
    match link.definition(id) {
        Definition::Undefined => facts | SymbolFacts::NO_DEFINITION,
        Definition::Linker(_) if facts.contains(SymbolFacts::ABSOLUTE) => facts | SymbolFacts::ASSIGNED,
        _ => facts,
    }
}

/// The facts of a symbol for `.sframe`. SFrame data describes functions and does not call them. So the symbol
/// means this output's own code there, even if another module may preempt it or a resolver chooses for
/// callers.
#[inline]
pub fn described<T: Target>(link: &Resolved<'_, T>, id: SymbolId, facts: SymbolFacts) -> SymbolFacts {
    match link.definition(id) {
        Definition::Undefined if link.globals.contains(id) => facts,
        Definition::Undefined | Definition::Object { .. } => {
            facts - (SymbolFacts::IMPORTED | SymbolFacts::IFUNC)
        }
        _ => facts,
    }
}

/// Facts about a symbol's place that decide whether a GOT load can be relaxed. They cost look-ups in the
/// defining object, so only GOT relocations ask for them. `facts` has those known so far.
#[inline]
pub fn slot_facts<T: Target>(link: &Synthesized<'_, T>, id: SymbolId, facts: SymbolFacts) -> SymbolFacts {
    let odd = if T::EVEN_TARGETS && !is_even(link, id) { SymbolFacts::ODD } else { SymbolFacts::empty() };
    // Few symbols are absolute. Only for these, the symbol table entry is read again.
    let small =
        if facts.contains(SymbolFacts::ABSOLUTE) { small_fact(link, id) } else { SymbolFacts::empty() };
    odd | large_fact(link, id) | small
}

/// [`SymbolFacts::SMALL`] if an object defines the symbol as an absolute number below 2^31.
fn small_fact<T: Target>(link: &Resolved<'_, T>, id: SymbolId) -> SymbolFacts {
    let Some((file, symbol)) = link.symbol_entry(id) else { return SymbolFacts::empty() };
    let object = &link.objects[file.index()];
    let absolute = object.symbol_place(symbol as usize) == SymbolPlace::Absolute;
    if absolute && object.symbols[symbol as usize].st_value.get() < 1 << 31 {
        SymbolFacts::SMALL
    } else {
        SymbolFacts::empty()
    }
}

/// Whether a symbol's address is even wherever the layout puts its section.
fn is_even<T: Target>(link: &Synthesized<'_, T>, id: SymbolId) -> bool {
    let Some((section, value)) = link.symbol_section(id) else {
        return link.common_block(id).is_some_and(|block| block.align >= 2);
    };
    // The linker may put a merged string at any address, so offsets of `SHF_MERGE` sections prove nothing.
    let info = link.section_info(section);
    value.is_multiple_of(2) && info.align >= 2 && info.flags & elf::SHF_MERGE == 0
}

/// [`SymbolFacts::FAR`] if the symbol is defined in a section of the large code model.
fn large_fact<T: Target>(link: &Resolved<'_, T>, id: SymbolId) -> SymbolFacts {
    if !link.has_large {
        return SymbolFacts::empty();
    }
    match link.symbol_section(id).and_then(|(section, _)| link.locate(section)) {
        Some((object, index)) if object.headers[index as usize].sh_flags.get() & T::SHF_LARGE != 0 => {
            SymbolFacts::FAR
        }
        _ => SymbolFacts::empty(),
    }
}

/// Whether a relocation's symbol lies in a section that is not in the output.
#[inline]
pub fn is_dropped<T: Target>(
    link: &Live<'_, T>,
    object: &ObjectFile<'_, T::E>,
    relocation: &Rela<T::E>,
) -> bool {
    let symbol = relocation.symbol();
    symbol != 0 && link.symbol_flags(object.symbol_id(symbol)).contains(SymbolFlags::DISCARDED)
}

/// Whether `--icf` folded the section that holds a symbol of an object. The symbol still has an address in
/// the output: that of the leader.
#[inline]
pub fn is_folded<T: Target>(link: &Live<'_, T>, object: &ObjectFile<'_, T::E>, index: u32) -> bool {
    link.config.icf.is_on()
        && link
            .referenced_section(object, index)
            .is_some_and(|(section, _)| link.sections.is(section, SectionState::FOLDED))
}

/// Whether a relocation of SFrame data belongs to a dead row. The row's function is not in the output, or it
/// was folded into an equal function, which has a row of its own.
#[inline]
pub fn is_of_dead_row<T: Target>(
    link: &Live<'_, T>,
    object: &ObjectFile<'_, T::E>,
    relocation: &Rela<T::E>,
) -> bool {
    is_dropped(link, object, relocation) || is_folded(link, object, relocation.symbol())
}
