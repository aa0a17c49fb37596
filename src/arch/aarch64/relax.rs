//! Relaxation of AArch64 code: addresses without the GOT, and TLS models that need no call.
//!
//! ELF for the Arm 64-bit Architecture, "Relocation optimization", and the TLS chapters of its System V ABI
//! list the sequences that a linker may rewrite. The linker decides about each relocation alone, but a
//! half-rewritten sequence would be broken code. So where the ABI wants a sequence in one piece, each
//! decision looks at all bytes of the sequence, and all come to the same answer. TLS descriptor sequences use
//! fixed registers, so the linker always rewrites them.

use super::instructions::*;
use super::relocs::{Family, Field, encode};
use crate::arch::relocation::{Mode, Relaxed, RelocBase, RelocExpr, Rewritten, Site, SymbolFacts};
use crate::elf::Rela;
use crate::elf::consts as elf;
use zerocopy::byteorder::ByteOrder;

/// A rewriting of instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edit {
    /// The instruction becomes `nop`.
    Nothing,
    /// `adrp` and its successor compute the address without the GOT: `nop; adr` if it is near, else
    /// `adrp; add`.
    Address,
    /// The instruction stays; its field gets the value.
    Field(Field),
    /// `movz` of the high half into the destination.
    MoveHigh,
    /// The same into x0.
    MoveHighToX0,
    /// `movk` of the low half into the destination.
    MoveLow,
    /// `movz` of the low half into the destination. The high half is 0.
    MoveAlone,
    /// `movk` of the low half into the base register.
    MoveLowToBase,
    /// `ldr` of a slot into its base register.
    LoadToBase,
    /// `ldr` of a slot near the instruction into the destination.
    LoadLiteral,
    /// The same load, into x0.
    LoadToX0,
    /// `movk x0; mrs x1, tpidr_el0; add x0, x1, x0`
    GeneralToLocal,
    /// `ldr x0, [x0, slot]; mrs x1, tpidr_el0; add x0, x1, x0`
    GeneralToInitial,
    /// `mrs x0, tpidr_el0`
    ThreadPointer,
    /// `add x0, x0, low; add x0, x0, high`
    AddToX0,
    /// The pointer becomes 0.
    Null,
    /// The instruction stays.
    Keep,
    /// The value is the instruction.
    Replace,
}

/// The rewriting that applies at a site, if any does.
pub fn relax(family: Family, site: &Site<'_>, mode: &Mode) -> Option<Relaxed<Edit>> {
    match family {
        Family::Fixed => None,
        Family::Branch => branch(site),
        Family::AddressPage if is_absent(site) => page_of_nothing(site),
        Family::AddressPage => address(site, mode, elf::R_AARCH64_ADD_ABS_LO12_NC, is_add),
        Family::GotPage if site.addend == 0 => address(site, mode, elf::R_AARCH64_LD64_GOT_LO12_NC, is_load),
        Family::GotPage => None,
        Family::Pointer => is_absent(site).then(|| relaxed(RelocExpr::Nothing, RelocBase::Zero, Edit::Null)),
        Family::Patch => patch(site),
        // The TLS blocks of a library have no fixed distance from the thread pointer.
        _ if mode.shared => None,
        Family::GeneralPage | Family::GeneralLow => general_dynamic(family, site),
        Family::LocalPage | Family::LocalLow => local_dynamic(family, site),
        Family::InitialPage | Family::InitialLow => initial_exec(family, site),
        _ => Some(descriptor(family, site.has(SymbolFacts::IMPORTED))),
    }
}

fn relaxed(expr: RelocExpr, base: RelocBase, edit: Edit) -> Relaxed<Edit> {
    Relaxed { expr, base, edit, takes_next: false }
}

/// Whether no module defines the symbol or will define it.
fn is_absent(site: &Site<'_>) -> bool {
    site.is_bound() && site.has(SymbolFacts::UNDEFINED_WEAK)
}

/// A branch to an undefined weak function becomes `nop` (AAELF64, "Call and Jump relocations").
fn branch(site: &Site<'_>) -> Option<Relaxed<Edit>> {
    is_absent(site).then(|| relaxed(RelocExpr::Nothing, RelocBase::Zero, Edit::Nothing))
}

/// An instruction that is replaced by `S + A` if a symbol is defined, which must be a number (AAELF64,
/// "Structure protection"). Then another relocation of the same instruction counts no longer.
fn patch(site: &Site<'_>) -> Option<Relaxed<Edit>> {
    if site.symbol == 0 || is_absent(site) {
        return Some(relaxed(RelocExpr::Nothing, RelocBase::Zero, Edit::Keep));
    }
    let replaced = Relaxed {
        takes_next: site.next.is_some_and(|next| next.offset == site.offset as u64),
        ..relaxed(RelocExpr::Symbol, RelocBase::Zero, Edit::Replace)
    };
    (site.is_bound() && site.has(SymbolFacts::ABSOLUTE)).then_some(replaced)
}

/// The page of an undefined weak symbol. Its address is 0 wherever the program is loaded, and `adrp` may not
/// reach 0, so `movz` of 0 replaces it. The instructions that follow add the low 12 bits of the addend, and
/// the addend has no others.
fn page_of_nothing(site: &Site<'_>) -> Option<Relaxed<Edit>> {
    let is_first_page =
        (0..0x1000).contains(&site.addend) && at(site.bytes, site.offset).is_some_and(is_adrp);
    is_first_page.then(|| relaxed(RelocExpr::Nothing, RelocBase::Zero, Edit::MoveAlone))
}

/// Symbols that `adrp` might not reach.
const KEPT: SymbolFacts = SymbolFacts::ABSOLUTE.union(SymbolFacts::UNDEFINED_WEAK).union(SymbolFacts::FAR);

/// Whether some load from the GOT has its two halves apart (AAELF64, "Relocation optimization").
pub fn splits_loads<E: ByteOrder>(relocations: &[Rela<E>]) -> bool {
    let mut rest = relocations.iter().peekable();
    while let Some(first) = rest.next() {
        let is_other_half = |second: &&Rela<E>| {
            second.kind() == elf::R_AARCH64_LD64_GOT_LO12_NC
                && second.symbol() == first.symbol()
                && second.r_offset.get() == first.r_offset.get().wrapping_add(4)
        };
        match first.kind() {
            elf::R_AARCH64_ADR_GOT_PAGE if rest.next_if(is_other_half).is_some() => {}
            elf::R_AARCH64_ADR_GOT_PAGE | elf::R_AARCH64_LD64_GOT_LO12_NC => return true,
            _ => {}
        }
    }
    false
}

/// `adrp xN, page; add xN, xN, low` or `adrp xN, page of slot; ldr xN, [xN, low]`.
fn address(site: &Site<'_>, mode: &Mode, low: u32, is_second: fn(u32) -> bool) -> Option<Relaxed<Edit>> {
    if !mode.relax || !site.is_bound() || site.facts.intersects(KEPT) {
        return None;
    }
    let next = site.next?;
    let goes_with = next.kind == low
        && next.offset == site.offset as u64 + 4
        && next.symbol == site.symbol
        && next.addend == site.addend;
    if !goes_with || !is_one_register(site, site.offset, is_second) {
        return None;
    }
    Some(Relaxed { takes_next: true, ..relaxed(RelocExpr::Symbol, RelocBase::Place, Edit::Address) })
}

/// Whether an `adrp` at this offset precedes an instruction that overwrites its result.
fn is_one_register(site: &Site<'_>, offset: usize, is_second: fn(u32) -> bool) -> bool {
    let (Some(first), Some(second)) = (at(site.bytes, offset), at(site.bytes, offset + 4)) else {
        return false;
    };
    let register = destination(first);
    is_adrp(first) && is_second(second) && base(second) == register && destination(second) == register
}

/// Whether the site is one of the first two instructions of `adrp x0; add x0, x0; bl __tls_get_addr; nop`.
fn is_call_sequence(site: &Site<'_>, first: bool) -> Option<()> {
    let start = if first { site.offset } else { site.offset.checked_sub(4)? };
    let word = |index: usize| at(site.bytes, start + 4 * index);
    let fits = is_one_register(site, start, is_add)
        && destination(word(0)?) == 0
        && is_call(word(2)?)
        && word(3)? == NOP;
    fits.then_some(())
}

/// Whether the next relocation belongs to the call after the `add`.
fn takes_call(site: &Site<'_>) -> bool {
    let at = site.offset as u64 + 4;
    site.next.is_some_and(|next| next.kind == elf::R_AARCH64_CALL26 && next.offset == at)
}

fn general_dynamic(family: Family, site: &Site<'_>) -> Option<Relaxed<Edit>> {
    let first = family == Family::GeneralPage;
    is_call_sequence(site, first)?;
    let imported = site.has(SymbolFacts::IMPORTED);
    Some(match (first, imported) {
        (true, true) => relaxed(RelocExpr::GotTp, RelocBase::PlacePage, Edit::Field(Field::Page)),
        (true, false) => relaxed(RelocExpr::TpOffset, RelocBase::Zero, Edit::MoveHigh),
        (false, true) => Relaxed {
            takes_next: takes_call(site),
            ..relaxed(RelocExpr::GotTp, RelocBase::Page, Edit::GeneralToInitial)
        },
        (false, false) => Relaxed {
            takes_next: takes_call(site),
            ..relaxed(RelocExpr::TpOffset, RelocBase::Zero, Edit::GeneralToLocal)
        },
    })
}

fn local_dynamic(family: Family, site: &Site<'_>) -> Option<Relaxed<Edit>> {
    let first = family == Family::LocalPage;
    is_call_sequence(site, first)?;
    Some(if first {
        relaxed(RelocExpr::Nothing, RelocBase::Zero, Edit::ThreadPointer)
    } else {
        Relaxed {
            takes_next: takes_call(site),
            ..relaxed(RelocExpr::TlsBlock, RelocBase::Zero, Edit::AddToX0)
        }
    })
}

/// `adrp xN` and `ldr xM, [xN]`, which may stand apart. If the registers differ, xM does not hold the high
/// half of the offset. The load then becomes a `movz` of the low half alone, which suffices up to 64 KiB of
/// thread-local data.
fn initial_exec(family: Family, site: &Site<'_>) -> Option<Relaxed<Edit>> {
    if site.has(SymbolFacts::IMPORTED) {
        return None;
    }
    let instruction = at(site.bytes, site.offset)?;
    let edit = match family {
        Family::InitialPage if is_adrp(instruction) => Edit::MoveHigh,
        Family::InitialPage => return None,
        _ if !is_load(instruction) => return None,
        _ if base(instruction) == destination(instruction) => Edit::MoveLow,
        _ => Edit::MoveAlone,
    };
    Some(relaxed(RelocExpr::TpOffset, RelocBase::Zero, edit))
}

/// Rewrites a TLS descriptor sequence. It leaves the offset from the thread pointer in x0, as before.
fn descriptor(family: Family, imported: bool) -> Relaxed<Edit> {
    let (what, from, edit) = match (family, imported) {
        (Family::DescriptorPage, true) => (RelocExpr::GotTp, RelocBase::PlacePage, Edit::Field(Field::Page)),
        (Family::DescriptorLoad, true) => (RelocExpr::GotTp, RelocBase::Page, Edit::LoadToBase),
        (Family::DescriptorDistance, true) => (RelocExpr::GotTp, RelocBase::Place, Edit::LoadLiteral),
        (Family::DescriptorHigh, true) => {
            (RelocExpr::GotTp, RelocBase::Got, Edit::Field(Field::MoveSigned(16)))
        }
        (Family::DescriptorLow, true) => (RelocExpr::GotTp, RelocBase::Got, Edit::Field(Field::Move(0))),
        (Family::DescriptorIndexed, true) => (RelocExpr::Nothing, RelocBase::Zero, Edit::LoadToX0),
        (Family::DescriptorPage | Family::DescriptorHigh, false) => {
            (RelocExpr::TpOffset, RelocBase::Zero, Edit::MoveHigh)
        }
        (Family::DescriptorLiteral, false) => (RelocExpr::TpOffset, RelocBase::Zero, Edit::MoveHighToX0),
        (Family::DescriptorLoad, false) => (RelocExpr::TpOffset, RelocBase::Zero, Edit::MoveLowToBase),
        (Family::DescriptorLow | Family::DescriptorDistance, false) => {
            (RelocExpr::TpOffset, RelocBase::Zero, Edit::MoveLow)
        }
        _ => (RelocExpr::Nothing, RelocBase::Zero, Edit::Nothing),
    };
    relaxed(what, from, edit)
}

/// Smallest and largest value that fits an edit.
pub fn range(edit: Edit) -> (i64, i64) {
    match edit {
        Edit::Address | Edit::Field(Field::Page) => (-(1 << 32), (1 << 32) - 1),
        Edit::Field(Field::MoveSigned(_)) => (-(1 << 32), (1 << 32) - 1),
        Edit::MoveHigh | Edit::MoveHighToX0 | Edit::MoveLow | Edit::MoveLowToBase | Edit::GeneralToLocal => {
            (0, (1 << 32) - 1)
        }
        Edit::MoveAlone => (0, (1 << 16) - 1),
        Edit::AddToX0 => (0, (1 << 24) - 1),
        Edit::LoadLiteral => (-(1 << 20), (1 << 20) - 1),
        Edit::Nothing | Edit::ThreadPointer | Edit::LoadToX0 | Edit::Field(_) => (i64::MIN, i64::MAX),
        Edit::LoadToBase | Edit::GeneralToInitial => (i64::MIN, i64::MAX),
        Edit::Null | Edit::Keep | Edit::Replace => (i64::MIN, i64::MAX),
    }
}

/// Carries out an edit. `offset` is that of the relocation, and `place` its address. [`relax`] has checked
/// the bytes.
pub fn edit(edit: Edit, section: &mut [u8], offset: usize, value: i64, place: u64) -> Result<(), i64> {
    let old = at(section, offset).unwrap_or(0);
    let mut write = |index: usize, instruction: u32| put(section, offset + 4 * index, instruction);
    match edit {
        Edit::Nothing => write(0, NOP),
        Edit::Null => {
            write(0, 0);
            write(1, 0);
        }
        Edit::Keep => {}
        Edit::Replace => write(0, value as u32),
        Edit::Address => return write_address(section, offset, value, place),
        Edit::Field(field) => write(0, encode(field, old, value)),
        Edit::MoveHigh => write(0, encode(Field::Move(16), MOVZ_HIGH | destination(old), value)),
        Edit::MoveHighToX0 => write(0, encode(Field::Move(16), MOVZ_HIGH, value)),
        Edit::MoveLow => write(0, encode(Field::Move(0), MOVK | destination(old), value)),
        Edit::MoveAlone => write(0, encode(Field::Move(0), MOVZ | destination(old), value)),
        Edit::MoveLowToBase => write(0, encode(Field::Move(0), MOVK | base(old), value)),
        Edit::LoadToBase => {
            let register = base(old);
            write(0, encode(Field::Low12(3), LDR | register << 5 | register, value));
        }
        Edit::LoadLiteral => write(0, encode(Field::Branch19, LDR_LITERAL | destination(old), value)),
        Edit::LoadToX0 => write(0, old & !0x1f),
        Edit::GeneralToLocal | Edit::GeneralToInitial => {
            write(
                0,
                match edit {
                    Edit::GeneralToLocal => encode(Field::Move(0), MOVK, value),
                    _ => encode(Field::Low12(3), LDR, value),
                },
            );
            write(1, MRS | 1);
            write(2, ADD_X0_X1_X0);
        }
        Edit::ThreadPointer => write(0, MRS),
        Edit::AddToX0 => {
            write(0, encode(Field::Low12(0), ADD, value));
            let high = if value >> 12 == 0 { NOP } else { encode(Field::High12, ADD_HIGH, value) };
            write(1, high);
        }
    }
    let (min, max) = range(edit);
    if (min..=max).contains(&value) { Ok(()) } else { Err(value) }
}

/// What describes the instructions of an edit: an address without the GOT, and those in which a call of
/// `__tls_get_addr` was. `distance` is that of the symbol from the first instruction.
pub fn relocations_of_edit(edit: Edit, distance: i64) -> [Option<Rewritten>; 2] {
    let nothing = Rewritten::of(elf::R_AARCH64_NONE);
    match edit {
        Edit::Address if near(distance).is_some() => {
            [Some(nothing), Some(Rewritten::of(elf::R_AARCH64_ADR_PREL_LO21))]
        }
        Edit::Address => {
            let types = [elf::R_AARCH64_ADR_PREL_PG_HI21, elf::R_AARCH64_ADD_ABS_LO12_NC];
            types.map(|kind| Some(Rewritten::of(kind)))
        }
        Edit::GeneralToLocal | Edit::GeneralToInitial | Edit::AddToX0 => [None, Some(nothing)],
        _ => [None; 2],
    }
}

/// The distance from the second of two instructions, if `adr` can hold it.
fn near(distance: i64) -> Option<i64> {
    let near = distance.wrapping_sub(4);
    (-(1 << 20)..1 << 20).contains(&near).then_some(near)
}

/// Writes `nop; adr` or `adrp; add`. The value is the distance from the first instruction.
fn write_address(section: &mut [u8], offset: usize, value: i64, place: u64) -> Result<(), i64> {
    let register = at(section, offset).map_or(0, destination);
    let (first, second) = if let Some(near) = near(value) {
        (NOP, encode(Field::Distance, ADR | register, near))
    } else {
        let target = place.wrapping_add_signed(value);
        let pages = (target & !0xfff).wrapping_sub(place & !0xfff) as i64;
        if !(-(1 << 32)..1 << 32).contains(&pages) {
            return Err(pages);
        }
        (
            encode(Field::Page, ADRP | register, pages),
            encode(Field::Low12(0), ADD | register << 5 | register, target as i64),
        )
    };
    put(section, offset, first);
    put(section, offset + 4, second);
    Ok(())
}

fn put(section: &mut [u8], at: usize, instruction: u32) {
    if let Some(place) = section.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<4>) {
        *place = instruction.to_le_bytes();
    }
}

#[cfg(test)]
#[path = "relax_tests.rs"]
mod tests;
