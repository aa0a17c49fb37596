//! Relaxation of x86-64 instructions (psABI, "Linker Optimization" B.1 and B.2; "ELF Handling For
//! Thread-Local Storage" 5).
//!
//! A compiler that cannot know which module will define a symbol loads the symbol's address from the GOT. If
//! the output turns out to define the symbol itself, its code can compute the address, and needs no load from
//! memory:
//!
//! ```text
//! 48 8b 05 disp32    mov x@GOTPCREL(%rip), %rax
//! 48 8d 05 disp32    lea x(%rip), %rax
//! ```
//!
//! In the same way, the linker turns calls through the GOT into direct calls, and TLS sequences into those of
//! a cheaper model.
//!
//! The opcode decides whether a rewriting applies, never the relocation type alone. Assemblers also put the
//! relaxable types on instructions that have no other form, such as `push x@GOTPCREL(%rip)`. Such an
//! instruction keeps its GOT slot.

use super::relocs::Family;
use crate::arch::relocation::{Mode, Relaxed, RelocBase, RelocExpr, Rewritten, Site, SymbolFacts};
use crate::elf::consts as elf;

/// A rewriting of the bytes around a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edit {
    /// The value changes, in 4 bytes.
    Value,
    /// The value changes, in 8 bytes.
    WideValue,
    /// The last `length` of `bytes` go in front of the field, and the value plus `adjust` goes into the
    /// field.
    Prefix {
        /// New bytes, right-aligned.
        bytes: [u8; 6],
        /// Number of them that are used.
        length: u8,
        /// Added to the value, in bytes.
        adjust: i8,
    },
    /// A two-byte opcode becomes one byte. The field moves one byte ahead, which leaves one byte behind it.
    Shorter {
        /// New opcode.
        opcode: u8,
        /// Byte behind the instruction.
        filler: u8,
    },
    /// A sequence replaces all bytes.
    Sequence(&'static Sequence),
}

/// The replacement of an instruction sequence.
#[derive(PartialEq, Eq, Debug)]
pub struct Sequence {
    /// How far ahead of the relocation's field the sequence begins.
    before: usize,
    /// New bytes, with zeros for the field.
    bytes: &'static [u8],
    /// Where the 4-byte field is among them, if there is one.
    field: Option<usize>,
    /// Added to the value, in bytes.
    adjust: i64,
}

/// `mov %fs:0, %rax`
macro_rules! load_thread_pointer {
    ($($rest:literal),*) => { &[0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, $($rest),*] };
}

/// `mov %fs:0,%rax; lea x@tpoff(%rax),%rax`
static GD_TO_LE: Sequence = Sequence {
    before: 4,
    bytes: load_thread_pointer!(0x48, 0x8d, 0x80, 0, 0, 0, 0),
    field: Some(12),
    adjust: 4,
};
/// `mov %fs:0,%rax; add x@gottpoff(%rip),%rax`
static GD_TO_IE: Sequence = Sequence {
    before: 4,
    bytes: load_thread_pointer!(0x48, 0x03, 0x05, 0, 0, 0, 0),
    field: Some(12),
    adjust: -8,
};
/// The same for the large code model, followed by `nopw 0(%rax,%rax,1)`.
static GD_LARGE_TO_LE: Sequence = Sequence {
    before: 3,
    bytes: load_thread_pointer!(0x48, 0x8d, 0x80, 0, 0, 0, 0, 0x66, 0x0f, 0x1f, 0x44, 0, 0),
    field: Some(12),
    adjust: 4,
};
static GD_LARGE_TO_IE: Sequence = Sequence {
    before: 3,
    bytes: load_thread_pointer!(0x48, 0x03, 0x05, 0, 0, 0, 0, 0x66, 0x0f, 0x1f, 0x44, 0, 0),
    field: Some(12),
    adjust: -9,
};
/// `mov %fs:0,%rax` with prefixes that fill 12, 13 and 22 bytes.
static LD_TO_LE: Sequence = Sequence {
    before: 3,
    bytes: &[0x66, 0x66, 0x66, 0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0],
    field: None,
    adjust: 0,
};
static LD_INDIRECT_TO_LE: Sequence = Sequence {
    before: 3,
    bytes: &[0x66, 0x66, 0x66, 0x66, 0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0],
    field: None,
    adjust: 0,
};
static LD_LARGE_TO_LE: Sequence = Sequence {
    before: 3,
    bytes: &[
        0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0,
        0,
    ],
    field: None,
    adjust: 0,
};
/// `xchg %ax,%ax` replaces `call *(%rax)`.
static NO_CALL: Sequence = Sequence { before: 0, bytes: &[0x66, 0x90], field: None, adjust: 0 };
/// `nopl (%rax)` replaces `call *(%eax)`.
static NO_CALL_ADDR32: Sequence = Sequence { before: 0, bytes: &[0x0f, 0x1f, 0x00], field: None, adjust: 0 };

/// The rewriting that applies at a site, if any does.
pub fn relax(family: Family, site: &Site<'_>, mode: &Mode) -> Option<Relaxed<Edit>> {
    match family {
        Family::Fixed => None,
        Family::GotLoad | Family::GotLoadRex | Family::GotLoadRex2 | Family::GotLoadMovrs => {
            got_load(family, site, mode)
        }
        // The TLS blocks of a library have no fixed distance from the thread pointer.
        _ if mode.shared => None,
        Family::GeneralDynamic => general_dynamic(site),
        Family::LocalDynamic => local_dynamic(site),
        Family::BlockOffset => block_offset(site, Edit::Value),
        Family::BlockOffsetWide => block_offset(site, Edit::WideValue),
        Family::InitialExec => initial_exec(site),
        Family::InitialExecRex2 => initial_exec_rex2(site),
        Family::InitialExecEvex => initial_exec_evex(site),
        Family::Descriptor | Family::DescriptorRex2 => descriptor(family, site),
        Family::DescriptorCall => descriptor_call(site),
    }
}

fn relaxed(expr: RelocExpr, base: RelocBase, edit: Edit) -> Option<Relaxed<Edit>> {
    Some(Relaxed { expr, base, edit, takes_next: false })
}

/// Replaces the bytes right in front of the field.
fn prefix(new: &[u8], adjust: i8) -> Edit {
    let mut bytes = [0; 6];
    bytes[6 - new.len()..].copy_from_slice(new);
    Edit::Prefix { bytes, length: new.len() as u8, adjust }
}

/// Moves the register from the `reg` field of a REX prefix to its `rm` field.
fn rex_reg_to_rm(rex: u8) -> u8 {
    (rex & !0x05) | ((rex & 0x04) >> 2)
}

/// The same for the payload of a REX2 prefix, whose high half holds the fourth bits.
fn rex2_reg_to_rm(payload: u8) -> u8 {
    (payload & !0x55) | ((payload & 0x44) >> 2)
}

/// A ModRM byte that names the register of `modrm`'s `reg` field directly, with an opcode
/// extension.
fn register_modrm(modrm: u8, extension: u8) -> u8 {
    0xc0 | (extension << 3) | ((modrm >> 3) & 7)
}

/// Whether the operand is `disp32(%rip)`.
fn is_rip_relative(modrm: u8) -> bool {
    modrm & 0xc7 == 0x05
}

fn got_load(family: Family, site: &Site<'_>, mode: &Mode) -> Option<Relaxed<Edit>> {
    if !(mode.relax || mode.relocates_itself)
        || !site.is_bound()
        || site.addend != -4
        || site.has(SymbolFacts::FAR)
    {
        return None;
    }
    let &[opcode, modrm] = site.around(2, 2)? else { return None };
    let undefined_weak = site.has(SymbolFacts::UNDEFINED_WEAK);
    // In position-independent code, the distance to an absolute number changes with the load address. In
    // other code it may not fit. A number that a script computes is only known when the layout is; if it does
    // not fit then, the load is a far one.
    let small =
        site.facts.intersects(SymbolFacts::SMALL | SymbolFacts::ASSIGNED) && !mode.position_independent;
    if site.has(SymbolFacts::ABSOLUTE) && !undefined_weak && !small {
        return None;
    }
    let number = undefined_weak || small;
    if family == Family::GotLoad && opcode == 0xff && (!number || small && mode.low_addresses) {
        let edit = match modrm {
            0x15 if mode.call_nop.after => Edit::Shorter { opcode: 0xe8, filler: mode.call_nop.byte },
            0x15 => prefix(&[mode.call_nop.byte, 0xe8], 0),
            0x25 => Edit::Shorter { opcode: 0xe9, filler: 0x90 },
            _ => return None,
        };
        return relaxed(RelocExpr::Symbol, RelocBase::Place, edit);
    }
    if !is_rip_relative(modrm) {
        return None;
    }
    if opcode == 0x8b && !number {
        let edit = match family {
            Family::GotLoad | Family::GotLoadRex => prefix(&[0x8d, modrm], 0),
            _ => match movrs_prefix(family, site) {
                Some(movrs) => movrs.instruction(movrs.of_register, [0x8d, modrm], 0),
                None if family == Family::GotLoadRex2 && rex2(site).is_some() => prefix(&[0x8d, modrm], 0),
                None => return None,
            },
        };
        return relaxed(RelocExpr::Symbol, RelocBase::Place, edit);
    }
    // The processor sign-extends the immediate operand, so an address must be low. A small number always
    // fits.
    if !(number || mode.low_addresses) {
        return None;
    }
    let (opcode, modrm) = immediate_form(opcode, modrm)?;
    let edit = match family {
        _ if let Some(movrs) = movrs_prefix(family, site) => {
            movrs.instruction(movrs.of_operand, [opcode, modrm], 4)
        }
        Family::GotLoad if opcode == 0xc7 => prefix(&[opcode, modrm], 4),
        Family::GotLoadRex => {
            let &[rex, ..] = site.around(3, 1)? else { return None };
            if rex & 0xf0 != 0x40 {
                return None;
            }
            prefix(&[rex_reg_to_rm(rex), opcode, modrm], 4)
        }
        Family::GotLoadRex2 => {
            let payload = rex2(site)?;
            prefix(&[rex2_reg_to_rm(payload), opcode, modrm], 4)
        }
        _ => return None,
    };
    relaxed(RelocExpr::Symbol, RelocBase::Zero, edit)
}

/// The payload of a REX2 prefix in front of an opcode of one byte.
fn rex2(site: &Site<'_>) -> Option<u8> {
    let &[0xd5, payload] = site.around(4, 2)? else { return None };
    (payload & 0x80 == 0).then_some(payload)
}

/// The prefixes with which `mov` means the same registers as a `movrs` (`0f 38 8b`, or `8b` of EVEX map 4).
/// `mov` is shorter by the two bytes of the opcode's map, so two prefixes without effect go in front.
struct MovrsPrefix {
    /// The prefix if the register stays in the `reg` field of ModRM.
    of_register: [u8; 2],
    /// The prefix if it moves to the `rm` field.
    of_operand: [u8; 2],
    /// How many bytes these prefixes have: the last ones.
    length: usize,
}

impl MovrsPrefix {
    fn instruction(&self, own: [u8; 2], [opcode, modrm]: [u8; 2], adjust: i8) -> Edit {
        let all = [0x2e, 0x2e, own[0], own[1], opcode, modrm];
        match self.length {
            0 => prefix(&[0x2e, 0x2e, opcode, modrm], adjust),
            1 => prefix(&[0x2e, 0x2e, own[1], opcode, modrm], adjust),
            _ => prefix(&all, adjust),
        }
    }
}

fn movrs_prefix(family: Family, site: &Site<'_>) -> Option<MovrsPrefix> {
    // Most loads are of other families.
    if !matches!(family, Family::GotLoadMovrs | Family::GotLoadRex2) {
        return None;
    }
    // The relocation type says how many bytes of the instruction stand in front of the field.
    if family == Family::GotLoadMovrs
        && let Some(&[0x62, registers, width, 0x08, 0x8b, _]) = site.around(6, 6)
    {
        // Map 4; no vector register, and no prefix of 66, f3 or f2.
        if registers & 0x07 != 4 || width & 0x7f != 0x7c {
            return None;
        }
        // EVEX holds R3 and R4 inverted.
        let (r3, r4) = (!registers >> 7 & 1, !registers >> 4 & 1);
        let payload = r4 << 6 | (width >> 7) << 3 | r3 << 2;
        let (of_register, of_operand) = ([0xd5, payload], [0xd5, rex2_reg_to_rm(payload)]);
        return Some(MovrsPrefix { of_register, of_operand, length: 2 });
    }
    if site.around(4, 3) != Some(&[0x0f, 0x38, 0x8b]) {
        return None;
    }
    match (family, site.around(5, 1)) {
        (Family::GotLoadRex2, _) => Some(MovrsPrefix { of_register: [0; 2], of_operand: [0; 2], length: 0 }),
        (Family::GotLoadMovrs, Some(&[rex])) if rex & 0xf0 == 0x40 => {
            Some(MovrsPrefix { of_register: [0, rex], of_operand: [0, rex_reg_to_rm(rex)], length: 1 })
        }
        _ => None,
    }
}

/// The relocation that describes a load which no longer goes through the GOT.
pub fn relocation_of_load(family: Family, edit: Edit) -> Option<Rewritten> {
    let (kind, offset, addend) = match edit {
        Edit::Shorter { .. } => (elf::R_X86_64_PC32, -1, 0),
        Edit::Prefix { adjust: 0, .. } => (elf::R_X86_64_PC32, 0, 0),
        Edit::Prefix { adjust, .. } if family == Family::GotLoad => (elf::R_X86_64_32, 0, adjust.into()),
        Edit::Prefix { adjust, .. } => (elf::R_X86_64_32S, 0, adjust.into()),
        _ => return None,
    };
    Some(Rewritten { kind, offset, addend })
}

/// `op x(%rip), %reg` as `op $imm32, %reg`.
fn immediate_form(opcode: u8, modrm: u8) -> Option<(u8, u8)> {
    match opcode {
        0x8b => Some((0xc7, register_modrm(modrm, 0))),
        // test
        0x85 => Some((0xf7, register_modrm(modrm, 0))),
        // add, or, adc, sbb, and, sub, xor, cmp
        0x03 | 0x0b | 0x13 | 0x1b | 0x23 | 0x2b | 0x33 | 0x3b => {
            Some((0x81, register_modrm(modrm, opcode >> 3)))
        }
        _ => None,
    }
}

/// Whether the next relocation belongs to the call of `__tls_get_addr`, this far behind the field.
fn call_follows(site: &Site<'_>, distance: u64, large: bool) -> bool {
    let Some(next) = site.next else { return false };
    let fits = if large {
        next.kind == elf::R_X86_64_PLTOFF64
    } else {
        matches!(
            next.kind,
            elf::R_X86_64_PLT32
                | elf::R_X86_64_PC32
                | elf::R_X86_64_GOTPCREL
                | elf::R_X86_64_GOTPCRELX
                | elf::R_X86_64_REX_GOTPCRELX
        )
    };
    fits && next.offset == site.offset as u64 + distance
}

/// `lea x(%rip),%rdi; movabs $__tls_get_addr@pltoff,%rax; add %rbx or %r15,%rax; call *%rax`
fn is_large_model_call(site: &Site<'_>) -> bool {
    let Some(bytes) = site.around(3, 22) else { return false };
    bytes[..3] == [0x48, 0x8d, 0x3d]
        && bytes[7..9] == [0x48, 0xb8]
        && matches!(bytes[17..20], [0x48, 0x01, 0xd8] | [0x4c, 0x01, 0xf8])
        && bytes[20..] == [0xff, 0xd0]
        && call_follows(site, 6, true)
}

fn general_dynamic(site: &Site<'_>) -> Option<Relaxed<Edit>> {
    let small = site.around(4, 16).is_some_and(|bytes| {
        bytes[..4] == [0x66, 0x48, 0x8d, 0x3d]
            && matches!(
                bytes[8..12],
                // call; call *x@GOTPCREL(%rip); call with an addr32 prefix
                [0x66, 0x66, 0x48, 0xe8] | [0x66, 0x48, 0xff, 0x15] | [0x66, 0x48, 0x67, 0xe8]
            )
            && call_follows(site, 8, false)
    });
    if !small && !is_large_model_call(site) {
        return None;
    }
    let (expr, base, sequence) = match (site.has(SymbolFacts::IMPORTED), small) {
        (true, true) => (RelocExpr::GotTp, RelocBase::Place, &GD_TO_IE),
        (true, false) => (RelocExpr::GotTp, RelocBase::Place, &GD_LARGE_TO_IE),
        (false, true) => (RelocExpr::TpOffset, RelocBase::Zero, &GD_TO_LE),
        (false, false) => (RelocExpr::TpOffset, RelocBase::Zero, &GD_LARGE_TO_LE),
    };
    Some(Relaxed { expr, base, edit: Edit::Sequence(sequence), takes_next: true })
}

fn local_dynamic(site: &Site<'_>) -> Option<Relaxed<Edit>> {
    let starts = site.around(3, 3) == Some(&[0x48, 0x8d, 0x3d]);
    let call = site.around(0, 6).map_or([0; 2], |bytes| [bytes[4], bytes[5]]);
    let sequence = match call {
        [0xe8, _] if starts && site.around(3, 12).is_some() && call_follows(site, 5, false) => &LD_TO_LE,
        [0xff, 0x15] | [0x67, 0xe8]
            if starts && site.around(3, 13).is_some() && call_follows(site, 6, false) =>
        {
            &LD_INDIRECT_TO_LE
        }
        _ if is_large_model_call(site) => &LD_LARGE_TO_LE,
        _ => return None,
    };
    Some(Relaxed {
        expr: RelocExpr::Nothing,
        base: RelocBase::Zero,
        edit: Edit::Sequence(sequence),
        takes_next: true,
    })
}

/// Code adds this offset to the result of the local dynamic sequence, which in an executable is the thread
/// pointer. In data (and debug information) the offset keeps the meaning that its type's name says.
fn block_offset(site: &Site<'_>, edit: Edit) -> Option<Relaxed<Edit>> {
    if site.code { relaxed(RelocExpr::TpOffset, RelocBase::Zero, edit) } else { None }
}

fn initial_exec(site: &Site<'_>) -> Option<Relaxed<Edit>> {
    let &[rex, opcode, modrm] = site.around(3, 3)? else { return None };
    if site.has(SymbolFacts::IMPORTED) || rex & !0x04 != 0x48 || !is_rip_relative(modrm) {
        return None;
    }
    let register = (modrm >> 3) & 7;
    let new_rex = rex_reg_to_rm(rex);
    let bytes = match opcode {
        0x8b => [new_rex, 0xc7, register_modrm(modrm, 0)],
        // As a base register, %rsp and %r12 would need a SIB byte.
        0x03 if register == 4 => [new_rex, 0x81, register_modrm(modrm, 0)],
        // lea x(%reg),%reg, as in the psABI's table. It does not set the flags, but code after the original
        // add cannot rely on them.
        0x03 => [rex | new_rex, 0x8d, 0x80 | (register << 3) | register],
        _ => return None,
    };
    relaxed(RelocExpr::TpOffset, RelocBase::Zero, prefix(&bytes, 4))
}

fn initial_exec_rex2(site: &Site<'_>) -> Option<Relaxed<Edit>> {
    let &[0xd5, payload, opcode, modrm] = site.around(4, 4)? else { return None };
    if site.has(SymbolFacts::IMPORTED) || payload & 0x80 != 0 || !is_rip_relative(modrm) {
        return None;
    }
    let opcode = match opcode {
        0x8b => 0xc7,
        0x03 => 0x81,
        _ => return None,
    };
    let bytes = [0xd5, rex2_reg_to_rm(payload), opcode, register_modrm(modrm, 0)];
    relaxed(RelocExpr::TpOffset, RelocBase::Zero, prefix(&bytes, 4))
}

/// `add x@gottpoff(%rip), %reg1, %reg2` (either order of the first two).
fn initial_exec_evex(site: &Site<'_>) -> Option<Relaxed<Edit>> {
    let &[0x62, payload, second, third, 0x01 | 0x03, modrm] = site.around(6, 6)? else { return None };
    if site.has(SymbolFacts::IMPORTED) || !is_rip_relative(modrm) {
        return None;
    }
    // Payload 0 holds R3, X3, B3 and R4 inverted, then B4 as it is, then the opcode map.
    let inverted_b3 = (payload >> 7) << 5;
    let b4 = (!(payload >> 4) & 1) << 3;
    let payload = (payload & 0x47) | 0x90 | inverted_b3 | b4;
    let bytes = [0x62, payload, second, third, 0x81, register_modrm(modrm, 0)];
    relaxed(RelocExpr::TpOffset, RelocBase::Zero, prefix(&bytes, 4))
}

fn descriptor(family: Family, site: &Site<'_>) -> Option<Relaxed<Edit>> {
    let &[before, opcode, modrm] = site.around(3, 3)? else { return None };
    let fits = match family {
        Family::Descriptor => before & !0x04 == 0x48,
        _ => before & 0x80 == 0 && site.around(4, 1) == Some(&[0xd5]),
    };
    if !fits || opcode != 0x8d || !is_rip_relative(modrm) {
        return None;
    }
    if site.has(SymbolFacts::IMPORTED) {
        return relaxed(RelocExpr::GotTp, RelocBase::Place, prefix(&[0x8b, modrm], 0));
    }
    let before = match family {
        Family::Descriptor => rex_reg_to_rm(before),
        _ => rex2_reg_to_rm(before),
    };
    relaxed(RelocExpr::TpOffset, RelocBase::Zero, prefix(&[before, 0xc7, register_modrm(modrm, 0)], 4))
}

fn descriptor_call(site: &Site<'_>) -> Option<Relaxed<Edit>> {
    let sequence = match site.around(0, 2)? {
        [0xff, 0x10] => &NO_CALL,
        [0x67, 0xff] if site.around(0, 3) == Some(&[0x67, 0xff, 0x10]) => &NO_CALL_ADDR32,
        _ => return None,
    };
    relaxed(RelocExpr::Nothing, RelocBase::Zero, Edit::Sequence(sequence))
}

/// Carries out an edit at the offset of the relocation. [`relax`] has checked the bytes.
pub fn edit(edit: Edit, section: &mut [u8], offset: usize, value: i64) -> Result<(), i64> {
    match edit {
        Edit::Value => store(section, offset, value),
        Edit::WideValue => {
            put(section, offset, &value.to_le_bytes());
            Ok(())
        }
        Edit::Prefix { bytes, length, adjust } => {
            let length = usize::from(length).min(6);
            put(section, offset.wrapping_sub(length), &bytes[6 - length..]);
            store(section, offset, value.wrapping_add(adjust.into()))
        }
        Edit::Shorter { opcode, filler } => {
            put(section, offset.wrapping_sub(2), &[opcode]);
            put(section, offset.wrapping_add(3), &[filler]);
            store(section, offset.wrapping_sub(1), value.wrapping_add(1))
        }
        Edit::Sequence(sequence) => {
            let start = offset.wrapping_sub(sequence.before);
            put(section, start, sequence.bytes);
            match sequence.field {
                Some(field) => store(section, start.wrapping_add(field), value.wrapping_add(sequence.adjust)),
                None => Ok(()),
            }
        }
    }
}

fn put(section: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = at.checked_add(bytes.len()).and_then(|end| section.get_mut(at..end)) {
        place.copy_from_slice(bytes);
    }
}

fn store(section: &mut [u8], at: usize, value: i64) -> Result<(), i64> {
    put(section, at, &(value as u32).to_le_bytes());
    if i32::try_from(value).is_ok() { Ok(()) } else { Err(value) }
}

#[cfg(test)]
#[path = "relax_tests.rs"]
mod tests;

/// Whether the operand at this offset belongs to `call`, `jmp` or a conditional jump. An instruction that
/// takes an address has a ModRM byte of another form before it.
pub fn is_direct_branch(bytes: &[u8], offset: usize) -> bool {
    match opcode(bytes, offset) {
        Some([_, 0xe8 | 0xe9]) => true,
        Some([0x0f, condition]) => condition & 0xf0 == 0x80,
        _ => false,
    }
}

/// The offset of the operand of the `jmp` that stands at this offset, alone or behind an `endbr64`.
pub fn jump_at(code: &[u8], offset: usize) -> Option<usize> {
    const JMP: u8 = 0xe9;
    let pad = super::landing_pads::LANDING_PAD.mark;
    let start = if code.get(offset..)?.starts_with(&pad) { offset + pad.len() } else { offset };
    (*code.get(start)? == JMP).then_some(start + 1)
}

/// Whether the operand at this offset belongs to `call *x(%rip)` or `jmp *x(%rip)`.
pub fn is_indirect_branch(bytes: &[u8], offset: usize) -> bool {
    matches!(opcode(bytes, offset), Some([0xff, 0x15 | 0x25]))
}

/// The two bytes before an operand. If the section begins with a one-byte opcode, 0 stands for the byte
/// before it.
fn opcode(bytes: &[u8], offset: usize) -> Option<[u8; 2]> {
    let last = *bytes.get(offset.checked_sub(1)?)?;
    let first = offset.checked_sub(2).map_or(0, |at| bytes[at]);
    Some([first, last])
}
