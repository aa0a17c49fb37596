//! Jumps that something leads to, behind conditions that would be turned around.
//!
//! ```text
//! f:         je    next                        f:         jne   other
//! .L1:       jmp   other            ->         .L1:
//! next:      ...                               next:      ...
//! ```
//!
//! Code that comes to `.L1` from elsewhere has to go to `other`, and would run on into `next`. With
//! `-fbasic-block-sections`, such a jump is a section of its own. In other code it stays. Branches in the
//! section itself have no relocation, so whoever finds the jump looks for them ([`Target::tail`]).

use super::jumps::Jumps;
use crate::arch::Target;
use crate::arch::relocation::{LONGEST_TAIL, RelocBase};
use crate::elf::consts as elf;
use crate::elf::{Rela, is_alloc};
use crate::ids::SectionId;
use crate::input::object::SymbolPlace;
use crate::input::{ObjectFile, SectionClass};
use crate::phase::Contents;
use parallel::ParallelSlice;

/// The sections with such a jump.
pub fn of_turned<T: Target>(link: &Contents<'_, T>, jumps: &Jumps) -> Vec<SectionId> {
    if jumps.list.iter().all(|jump| jump.flipped.is_none()) {
        return Vec::new();
    }
    let of_object = |object: &ObjectFile<'_, T::E>| {
        let mut found = Vec::new();
        let turned = |section: u32| {
            let standing = link.folds.standing(object.section_id(section));
            jumps.is_flipped(standing).then_some(standing)
        };
        if (1..object.headers.len() as u32).all(|section| turned(section).is_none()) {
            return found;
        }
        for (index, symbol) in object.symbols.iter().enumerate().skip(1) {
            let SymbolPlace::Section(section) = object.symbol_place(index) else { continue };
            let at_jump = |standing: &SectionId| jumps.size(*standing) == Some(symbol.st_value.get());
            found.extend(turned(section).filter(|_| symbol.kind() != elf::STT_SECTION).filter(at_jump));
        }
        for index in (1..object.headers.len()).filter(|&index| holds_references(link, object, index)) {
            let is_code = object.headers[index].sh_flags.get() & elf::SHF_EXECINSTR != 0;
            let code = object.section_bytes(index).ok().filter(|_| is_code).unwrap_or_default();
            for relocation in object.relocations(index) {
                let SymbolPlace::Section(section) = object.symbol_place(relocation.symbol() as usize) else {
                    continue;
                };
                let may_lead = |standing: &SectionId| {
                    jumps.size(*standing).is_some_and(|at| may_lead::<T>(object, relocation, code, at))
                };
                found.extend(turned(section).filter(may_lead));
            }
        }
        found
    };
    link.objects.par_iter().flat_map_iter(of_object).collect()
}

/// Whether code may follow the references of a section. Records of frames only describe code.
fn holds_references<T: Target>(link: &Contents<'_, T>, object: &ObjectFile<'_, T::E>, index: usize) -> bool {
    let describes = SectionClass::EH_FRAME | SectionClass::SFRAME;
    let class = link.class_of(object.section_id(index as u32));
    is_alloc(object.headers[index].sh_flags.get()) && !class.intersects(describes)
}

/// Whether a relocation in code, or in data if `code` is empty, may lead to an offset in the section of its
/// symbol. A distance that is no branch's may count from the start of a table, which is anywhere before the
/// relocation.
fn may_lead<T: Target>(
    object: &ObjectFile<'_, T::E>,
    relocation: &Rela<T::E>,
    code: &[u8],
    offset: u64,
) -> bool {
    let Some(symbol) = object.symbols.get(relocation.symbol() as usize) else { return false };
    let target = symbol.st_value.get().wrapping_add_signed(relocation.r_addend.get());
    let place = relocation.r_offset.get();
    if usize::try_from(place).is_ok_and(|place| T::is_direct_branch(code, place)) {
        return target.wrapping_add_signed(T::BRANCH_BIAS) == offset;
    }
    if T::reloc_info(relocation.kind()).is_none_or(|info| info.base != RelocBase::Place) {
        return target == offset;
    }
    // In an instruction, a distance counts from the end.
    (target.saturating_sub(place)..=target.saturating_add(LONGEST_TAIL)).contains(&offset)
}
