//! Relaxation of s390x code (ABI supplement, "ELF Handling For Thread-Local Storage", s390x code sequences).
//!
//! A thread-local sequence consists of a literal, which an ordinary load takes to a register, and a marked
//! instruction that works on that register. Literal and marked instruction may stand in different sections,
//! so neither decision can look at the other. The linker rewrites both by the symbol and the kind of output
//! alone, and so they agree:
//!
//! | from | to | literal | marked instruction |
//! |---|---|---|---|
//! | general dynamic | initial exec | offset of the slot in the GOT | `lg %r2,0(%r2,%r12)` |
//! | general dynamic | local exec | offset from the thread pointer | none |
//! | local dynamic | local exec | 0 | none |
//! | initial exec | local exec | offset from the thread pointer | copy of the register |

use super::relocs::{Family, Field, write};
use crate::arch::relocation::{Mode, Relaxed, RelocBase, RelocExpr, Site, SymbolFacts};
use crate::elf::consts as elf;

/// A rewriting of the bytes around a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edit {
    /// No change.
    Keep,
    /// The literal gets the value.
    Literal,
    /// New bytes replace the six bytes at the relocation.
    Instruction([u8; 6]),
    /// The instruction begins with these bytes, followed by the value in halfwords. It starts two bytes
    /// before the field.
    Distance([u8; 2]),
    /// The same, with the value as an immediate operand.
    Immediate {
        /// First bytes.
        bytes: [u8; 2],
        /// Added to the value, in bytes.
        adjust: i8,
    },
}

/// `brcl 0,.`: six bytes without effect.
const NOP: [u8; 6] = [0xc0, 0x04, 0, 0, 0, 0];
/// `lg %r2,0(%r2,%r12)`
const LOAD_SLOT: [u8; 6] = [0xe3, 0x22, 0xc0, 0, 0, 0x04];

/// The rewriting that applies at a site, if any does.
pub fn relax(family: Family, site: &Site<'_>, mode: &Mode) -> Option<Relaxed<Edit>> {
    let imported = site.has(SymbolFacts::IMPORTED);
    match family {
        Family::Fixed => None,
        Family::GotEntry => got_entry(site, mode),
        // The TLS blocks of a library have no fixed distance from the thread pointer.
        _ if mode.shared => None,
        Family::Call => marked_call(site),
        Family::GeneralDynamic if imported => literal(RelocExpr::GotTp, RelocBase::Got),
        Family::GeneralDynamic | Family::BlockOffset => literal(RelocExpr::TpOffset, RelocBase::Zero),
        Family::GeneralDynamicCall => call(site, if imported { LOAD_SLOT } else { NOP }),
        Family::LocalDynamic => literal(RelocExpr::Nothing, RelocBase::Zero),
        Family::LocalDynamicCall => call(site, NOP),
        Family::InitialExecLoad if imported => relaxed(RelocExpr::Nothing, RelocBase::Zero, Edit::Keep),
        Family::InitialExec | Family::InitialExecEntry | Family::InitialExecDisplacement if imported => None,
        Family::InitialExec => literal(RelocExpr::TpOffset, RelocBase::Zero),
        Family::InitialExecLoad => copy_register(site),
        Family::InitialExecEntry => entry_load(site),
        Family::InitialExecDisplacement => displacement_load(site),
    }
}

fn relaxed(expr: RelocExpr, base: RelocBase, edit: Edit) -> Option<Relaxed<Edit>> {
    Some(Relaxed { expr, base, edit, takes_next: false })
}

fn literal(expr: RelocExpr, base: RelocBase) -> Option<Relaxed<Edit>> {
    relaxed(expr, base, Edit::Literal)
}

/// `lgrl %r,x@GOTENT` becomes `larl %r,x`. It stays for absolute symbols: these may be anywhere, even out of
/// reach.
fn got_entry(site: &Site<'_>, mode: &Mode) -> Option<Relaxed<Edit>> {
    if !mode.relax
        || !site.is_bound()
        || site.addend != 2
        || site.facts.intersects(SymbolFacts::ABSOLUTE | SymbolFacts::ODD | SymbolFacts::FAR)
    {
        return None;
    }
    let &[0xc4, register] = site.around(2, 2)? else { return None };
    if register & 0x0f != 0x08 {
        return None;
    }
    relaxed(RelocExpr::Symbol, RelocBase::Place, Edit::Distance([0xc0, register & 0xf0]))
}

/// Whether the instruction is `larl %r,x@PLT`, by which compilers take the address of any function.
pub fn is_address_load(site: &Site<'_>) -> bool {
    matches!(site.around(2, 2), Some(&[0xc0, register]) if register & 0x0f == 0)
}

/// Whether the operand at this offset belongs to `brasl`, `brcl`, `bras` or `brc`.
pub fn is_branch(bytes: &[u8], offset: usize) -> bool {
    let opcode = offset.checked_sub(2).and_then(|start| bytes.get(start..offset));
    matches!(opcode, Some(&[0xc0 | 0xa7, register]) if matches!(register & 0x0f, 4 | 5))
}

/// The relocation of a call that a mark replaces. GNU as writes it before the mark, which is then the next
/// relocation.
fn marked_call(site: &Site<'_>) -> Option<Relaxed<Edit>> {
    let next = site.next?;
    let is_mark = matches!(next.kind, elf::R_390_TLS_GDCALL | elf::R_390_TLS_LDCALL);
    if !is_mark || next.offset.checked_add(2) != Some(site.offset as u64) || !is_call(site, 2) {
        return None;
    }
    relaxed(RelocExpr::Nothing, RelocBase::Zero, Edit::Keep)
}

/// Whether a `brasl` begins `before` bytes ahead of the site.
fn is_call(site: &Site<'_>, before: usize) -> bool {
    site.around(before, 6).is_some_and(|bytes| bytes[..2] == [0xc0, 0xe5])
}

/// Rewrites `brasl %r14,__tls_get_offset@PLT`. If the call's own relocation follows the mark, the edit takes
/// that, too.
fn call(site: &Site<'_>, instruction: [u8; 6]) -> Option<Relaxed<Edit>> {
    if !is_call(site, 0) {
        return None;
    }
    let takes_next = site.next.is_some_and(|next| {
        matches!(next.kind, elf::R_390_PLT32DBL | elf::R_390_PC32DBL) && next.offset == site.offset as u64 + 2
    });
    Some(Relaxed {
        expr: RelocExpr::Nothing,
        base: RelocBase::Zero,
        edit: Edit::Instruction(instruction),
        takes_next,
    })
}

/// `lg %r,0(%l)`, with or without the GOT's base `%r12` as the other register, becomes
/// `sllg %r,%l,0`.
fn copy_register(site: &Site<'_>) -> Option<Relaxed<Edit>> {
    let &[0xe3, target, base, 0, 0, 0x04] = site.around(0, 6)? else { return None };
    if base & 0x0f != 0 {
        return None;
    }
    let literal = match (target & 0x0f, base >> 4) {
        (literal, 0 | 12) | (0 | 12, literal) if literal != 0 => literal,
        _ => return None,
    };
    let instruction = [0xeb, target & 0xf0 | literal, 0, 0, 0, 0x0d];
    relaxed(RelocExpr::Nothing, RelocBase::Zero, Edit::Instruction(instruction))
}

/// `lgrl %r,x@INDNTPOFF` becomes `lgfi %r,offset`. The form with `larl` computes the slot's address. It
/// stays, because no relocation marks the load that follows.
fn entry_load(site: &Site<'_>) -> Option<Relaxed<Edit>> {
    let &[0xc4, register] = site.around(2, 2)? else { return None };
    if register & 0x0f != 0x08 || site.addend != 2 {
        return None;
    }
    // The addend counts from the start of the instruction.
    let edit = Edit::Immediate { bytes: [0xc0, register & 0xf0 | 0x01], adjust: -2 };
    relaxed(RelocExpr::TpOffset, RelocBase::Zero, edit)
}

/// `lg %r,x@GOTNTPOFF(%r12)` becomes `lgfi %r,offset`.
fn displacement_load(site: &Site<'_>) -> Option<Relaxed<Edit>> {
    let &[0xe3, registers, base, _, _, 0x04] = site.around(2, 6)? else { return None };
    if !matches!((registers & 0x0f, base >> 4), (0, 12) | (12, 0)) || site.addend != 0 {
        return None;
    }
    let edit = Edit::Immediate { bytes: [0xc0, registers & 0xf0 | 0x01], adjust: 0 };
    relaxed(RelocExpr::TpOffset, RelocBase::Zero, edit)
}

/// Carries out an edit at the offset of the relocation. [`relax`] has checked the bytes.
pub fn edit(edit: Edit, section: &mut [u8], offset: usize, value: i64) -> Result<(), i64> {
    let mut value = value;
    match edit {
        Edit::Keep => {}
        Edit::Literal => store(section, offset, Field::Double, value),
        Edit::Instruction(bytes) => put(section, offset, &bytes),
        Edit::Distance(bytes) => {
            put(section, offset.wrapping_sub(2), &bytes);
            store(section, offset, Field::Doubled32, value);
            if value & 1 != 0 {
                return Err(value);
            }
        }
        Edit::Immediate { bytes, adjust } => {
            value = value.wrapping_add(adjust.into());
            put(section, offset.wrapping_sub(2), &bytes);
            store(section, offset, Field::Word, value);
        }
    }
    let (min, max) = range(edit);
    if value >= min && value <= max { Ok(()) } else { Err(value) }
}

/// Smallest and largest value that fits an edit.
pub fn range(edit: Edit) -> (i64, i64) {
    match edit {
        Edit::Keep | Edit::Literal | Edit::Instruction(_) => (i64::MIN, i64::MAX),
        Edit::Distance(_) => (-0x1_0000_0000, 0xffff_fffe),
        Edit::Immediate { .. } => (i32::MIN.into(), i32::MAX.into()),
    }
}

fn put(section: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = at.checked_add(bytes.len()).and_then(|end| section.get_mut(at..end)) {
        place.copy_from_slice(bytes);
    }
}

fn store(section: &mut [u8], at: usize, field: Field, value: i64) {
    if let Some(place) = section.get_mut(at..) {
        write(field, place, value);
    }
}

#[cfg(test)]
#[path = "relax_tests.rs"]
mod tests;
