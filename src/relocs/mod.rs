//! Relocations: what they ask for, what the dynamic linker is left with, what is written.
//!
//! [`decide`] answers for one relocation. `passes::scan_relocations` asks it for every live
//! loaded section and keeps what it learns in [`crate::phase::Asked`] and the flags of symbols;
//! [`apply`] asks again when the output is written. [`undefined`] and [`discarded`] report the references that lead nowhere;
//! [`explain`] tells the whole story of the latter.

pub mod address;
pub mod apply;
pub mod decide;
pub mod discarded;
pub mod dynamic;
pub mod emit;
pub mod explain;
pub mod undefined;

use crate::arch::Target;
use crate::arch::relocation::fact;
use crate::arch::target::PltShape;
use crate::elf::Rela;
use crate::elf::consts as elf;
use crate::ids::{SectionId, SymbolId};
use crate::input::ObjectFile;
use crate::phase::{Bound, Made, Resolved};
use crate::symbols::{Definition, flag};
use address::Addresses;
use decide::DynamicKind;

/// A place that the dynamic linker writes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DynRelocSite {
    /// Section of an object.
    pub section: SectionId,
    /// Offset in that section, in bytes.
    pub offset: u64,
    /// The symbol.
    pub symbol: SymbolId,
    /// Addend.
    pub addend: i64,
    /// What is done.
    pub kind: DynamicKind,
}

/// A reference, kept small because there can be very many.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Reference {
    /// Section that refers.
    pub section: SectionId,
    /// Offset in it, in bytes.
    pub offset: u64,
    /// What it refers to.
    pub symbol: SymbolId,
}

/// What the tables for the dynamic linker are made of.
#[derive(Default)]
pub struct Relocations {
    /// First of two words in `.got` for this module's TLS block, `u32::MAX` if there are none.
    pub tls_module_slot: u32,
    /// Words of `.got`.
    pub got_words: u32,
    /// Entries of `.plt` after the header, words of `.got.plt` after the reserved ones.
    pub plt_count: u32,
    /// Entries of `.plt.got`.
    pub plt_got_count: u32,
    /// How the PLTs are made. Set by `build_synthetics`.
    pub plt_shape: PltShape,
    /// Libraries' data that is copied. Filled by `build_synthetics`.
    pub copies: Vec<crate::synth::copy::Copy>,
    /// `R_*_RELATIVE` at the head of `.rela.dyn` (`DT_RELACOUNT`).
    pub relative_count: u64,
    /// Words of `.relr.dyn`; only grows.
    pub relr_words: u64,
    /// Addresses that relocations are computed from. Set after layout by [`address::look_up`].
    pub addresses: Addresses,
}

/// The facts that [`decide::decide`] takes, for symbol `index` of an object.
#[inline]
pub fn facts<T: Target>(link: &Bound<'_, T>, index: u32, id: SymbolId) -> u32 {
    if index == 0 {
        return flag::ABSOLUTE;
    }
    let facts = link.symbols.flags(id) & fact::FLAGS;
    if facts & flag::IMPORTED != 0 && link.definition(id) == Definition::Undefined {
        return facts | fact::NO_DEFINITION;
    }
    facts
}

/// The facts for a section that describes functions and does not call them (`.sframe`): meant is
/// the definition of this output, though another module's may take its place when it is called.
#[inline]
pub fn described<T: Target>(link: &Resolved<'_, T>, id: SymbolId, facts: u32) -> u32 {
    match link.definition(id) {
        Definition::Undefined if link.globals.contains(id) => facts,
        Definition::Undefined | Definition::Object { .. } => facts & !(flag::IMPORTED | flag::IFUNC),
        _ => facts,
    }
}

/// Facts about where a symbol is that only relocations for its GOT slot ask for: whether the code
/// could do without the slot.
#[inline]
pub fn slot_facts<T: Target>(link: &Made<'_, T>, id: SymbolId) -> u32 {
    let odd = if T::EVEN_TARGETS && !is_even(link, id) { fact::ODD } else { 0 };
    odd | large_fact(link, id)
}

/// Whether a symbol's address is even wherever the layout puts its section.
fn is_even<T: Target>(link: &Made<'_, T>, id: SymbolId) -> bool {
    let Some((section, value)) = link.symbol_section(id) else {
        return link.common_block(id).is_some_and(|block| block.align >= 2);
    };
    // The middle of a merged piece may go anywhere.
    let info = link.section_info(section);
    value.is_multiple_of(2) && info.align >= 2 && info.flags & u64::from(elf::SHF_MERGE) == 0
}

/// [`fact::LARGE`] if the symbol is defined in a section of the large code model.
fn large_fact<T: Target>(link: &Resolved<'_, T>, id: SymbolId) -> u32 {
    if !link.has_large {
        return 0;
    }
    match link.symbol_section(id).and_then(|(section, _)| link.locate(section)) {
        Some((object, index)) if object.headers[index as usize].sh_flags.get() & T::SHF_LARGE != 0 => {
            fact::LARGE
        }
        _ => 0,
    }
}

/// Whether a relocation refers to something that is not in the output.
#[inline]
pub fn is_dropped<T: Target>(
    link: &Bound<'_, T>,
    object: &ObjectFile<'_, T::E>,
    relocation: &Rela<T::E>,
) -> bool {
    let symbol = relocation.symbol();
    symbol != 0 && link.symbols.flags(object.symbol_id(symbol)) & flag::DISCARDED != 0
}
