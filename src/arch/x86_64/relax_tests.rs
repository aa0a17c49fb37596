//! Tests every rewriting by its bytes, and the instructions that must stay.

use super::*;
use crate::arch::Target;
use crate::arch::relocation::NextRelocation;
use crate::arch::x86_64::X86_64;
use crate::cli::CallNop;

const GOTPCREL: u32 = 9;
const GOTPCRELX: u32 = 41;
const REX_GOTPCRELX: u32 = 42;
const CODE_4_GOTPCRELX: u32 = 43;
const CODE_5_GOTPCRELX: u32 = 46;
const CODE_6_GOTPCRELX: u32 = 49;
const TLSGD: u32 = 19;
const TLSLD: u32 = 20;
const DTPOFF32: u32 = 21;
const DTPOFF64: u32 = 17;
const GOTTPOFF: u32 = 22;
const CODE_4_GOTTPOFF: u32 = 44;
const CODE_6_GOTTPOFF: u32 = 50;
const TLSDESC: u32 = 34;
const TLSDESC_CALL: u32 = 35;
const CODE_4_TLSDESC: u32 = 45;

const EXECUTABLE: Mode = Mode {
    shared: false,
    position_independent: false,
    relax: true,
    relocates_itself: false,
    low_addresses: true,
    copy: true,
    text_relocations: false,
    call_nop: CallNop { byte: 0x67, after: false },
};
const PIE: Mode = Mode { position_independent: true, low_addresses: false, ..EXECUTABLE };
const SHARED: Mode = Mode { shared: true, ..PIE };

/// Hexadecimal bytes; `....` is the 4-byte field.
fn bytes(text: &str) -> (Vec<u8>, usize) {
    let text = text.replace(' ', "");
    let field = text.find("........").map_or(0, |at| at / 2);
    let digits = text.replace('.', "0");
    let bytes = (0..digits.len() / 2)
        .map(|index| u8::from_str_radix(&digits[index * 2..index * 2 + 2], 16).expect("hexadecimal"))
        .collect();
    (bytes, field)
}

/// One check: the facts about a relocation at the dots. The tests use 0x11223344 as its value.
struct Case {
    kind: u32,
    facts: SymbolFacts,
    addend: i64,
    next: Option<(u32, u64)>,
    code: bool,
}

impl Default for Case {
    fn default() -> Self {
        Case { kind: 0, facts: SymbolFacts::empty(), addend: -4, next: None, code: true }
    }
}

fn relaxed_at(case: &Case, mode: &Mode, bytes: &[u8], offset: usize) -> Option<Relaxed<Edit>> {
    let site = Site {
        symbol: 0,
        facts: case.facts,
        bytes,
        offset,
        addend: case.addend,
        writable: false,
        code: case.code,
        next: case.next.map(|(kind, offset)| NextRelocation { kind, offset, symbol: 0, addend: 0 }),
    };
    X86_64::relax(X86_64::reloc_info(case.kind).expect("a known type"), &site, mode)
}

fn check(case: Case, mode: &Mode, before: &str, expr: RelocExpr, base: RelocBase, after: &str, adjust: i64) {
    let (mut section, offset) = bytes(before);
    let relaxed = relaxed_at(&case, mode, &section, offset).unwrap_or_else(|| panic!("{before} stays"));
    assert_eq!((relaxed.expr, relaxed.base), (expr, base), "{before}");
    X86_64::edit(relaxed.edit, &mut section, offset, 0x1122_3344, 0).expect("the value fits");
    let (mut expected, _) = bytes(after);
    let field = after.replace(' ', "").find("........");
    if let Some(field) = field {
        let value = (0x1122_3344 + adjust) as u32;
        expected[field / 2..field / 2 + 4].copy_from_slice(&value.to_le_bytes());
        let overflow = X86_64::edit(relaxed.edit, &mut bytes(before).0, offset, 0x8000_0100, 0);
        assert!(overflow.is_err(), "{before} takes too large a value");
    }
    assert_eq!(section, expected, "{before}");
}

fn stays(case: Case, mode: &Mode, before: &str) {
    let (section, offset) = bytes(before);
    assert_eq!(relaxed_at(&case, mode, &section, offset), None, "{before}");
}

fn got(kind: u32) -> Case {
    Case { kind, ..Case::default() }
}

#[test]
fn loads_become_address_computations() {
    for mode in [&EXECUTABLE, &PIE, &SHARED] {
        check(
            got(GOTPCRELX),
            mode,
            "8b 05 ........",
            RelocExpr::Symbol,
            RelocBase::Place,
            "8d 05 ........",
            0,
        );
        check(
            got(REX_GOTPCRELX),
            mode,
            "4c 8b 3d ........",
            RelocExpr::Symbol,
            RelocBase::Place,
            "4c 8d 3d ........",
            0,
        );
        let (before, after) = ("d5 48 8b 05 ........", "d5 48 8d 05 ........");
        check(got(CODE_4_GOTPCRELX), mode, before, RelocExpr::Symbol, RelocBase::Place, after, 0);
    }
}

#[test]
fn movrs_becomes_lea_or_mov_with_prefixes_of_no_effect() {
    let (symbol, place, zero) = (RelocExpr::Symbol, RelocBase::Place, RelocBase::Zero);
    for (kind, before, lea, mov) in [
        // The byte in front belongs to another instruction.
        (CODE_4_GOTPCRELX, "48 0f 38 8b 05 ........", "48 2e 2e 8d 05 ........", "48 2e 2e c7 c0 ........"),
        (CODE_5_GOTPCRELX, "4c 0f 38 8b 1d ........", "2e 2e 4c 8d 1d ........", "2e 2e 49 c7 c3 ........"),
        // %r21d, then %r21
        (
            CODE_6_GOTPCRELX,
            "62 e4 7c 08 8b 2d ........",
            "2e 2e d5 40 8d 2d ........",
            "2e 2e d5 10 c7 c5 ........",
        ),
        (
            CODE_6_GOTPCRELX,
            "62 e4 fc 08 8b 2d ........",
            "2e 2e d5 48 8d 2d ........",
            "2e 2e d5 18 c7 c5 ........",
        ),
    ] {
        check(got(kind), &PIE, before, symbol, place, lea, 0);
        let small = Case { facts: SymbolFacts::SMALL | SymbolFacts::ABSOLUTE, ..got(kind) };
        check(small, &EXECUTABLE, before, symbol, zero, mov, 4);
    }
    // An operand size of 16 bits, and loads of map 1 with a REX2 prefix that is not there.
    stays(got(CODE_6_GOTPCRELX), &PIE, "62 e4 7d 08 8b 2d ........");
    stays(got(CODE_5_GOTPCRELX), &PIE, "66 0f 38 8b 05 ........");
    stays(got(CODE_4_GOTPCRELX), &PIE, "90 90 8b 05 ........");
}

#[test]
fn calls_and_jumps_become_direct() {
    check(
        got(GOTPCRELX),
        &SHARED,
        "ff 15 ........",
        RelocExpr::Symbol,
        RelocBase::Place,
        "67 e8 ........",
        0,
    );
    check(got(GOTPCRELX), &PIE, "ff 25 ........", RelocExpr::Symbol, RelocBase::Place, "e9 ........ 90", 1);
    let suffix = Mode { call_nop: CallNop { byte: 0x90, after: true }, ..PIE };
    check(
        got(GOTPCRELX),
        &suffix,
        "ff 15 ........",
        RelocExpr::Symbol,
        RelocBase::Place,
        "e8 ........ 90",
        1,
    );
    let prefix = Mode { call_nop: CallNop { byte: 0x40, after: false }, ..PIE };
    check(
        got(GOTPCRELX),
        &prefix,
        "ff 15 ........",
        RelocExpr::Symbol,
        RelocBase::Place,
        "40 e8 ........",
        0,
    );
}

#[test]
fn operands_become_immediate_at_low_addresses() {
    for (before, after) in [
        ("48 85 05 ........", "48 f7 c0 ........"),
        ("4c 85 3d ........", "49 f7 c7 ........"),
        ("48 03 05 ........", "48 81 c0 ........"),
        ("48 0b 0d ........", "48 81 c9 ........"),
        ("48 13 15 ........", "48 81 d2 ........"),
        ("48 1b 1d ........", "48 81 db ........"),
        ("48 23 25 ........", "48 81 e4 ........"),
        ("48 2b 2d ........", "48 81 ed ........"),
        ("48 33 35 ........", "48 81 f6 ........"),
        ("4c 3b 3d ........", "49 81 ff ........"),
    ] {
        check(got(REX_GOTPCRELX), &EXECUTABLE, before, RelocExpr::Symbol, RelocBase::Zero, after, 4);
        stays(got(REX_GOTPCRELX), &PIE, before);
        stays(got(REX_GOTPCRELX), &Mode { low_addresses: false, ..EXECUTABLE }, before);
    }
    // R4 and R3 become B4 and B3.
    let (before, after) = ("d5 4c 03 05 ........", "d5 19 81 c0 ........");
    check(got(CODE_4_GOTPCRELX), &EXECUTABLE, before, RelocExpr::Symbol, RelocBase::Zero, after, 4);
}

#[test]
fn undefined_weak_is_zero_everywhere() {
    let weak = || Case { facts: SymbolFacts::UNDEFINED_WEAK | SymbolFacts::ABSOLUTE, ..got(REX_GOTPCRELX) };
    for mode in [&EXECUTABLE, &PIE, &SHARED] {
        check(weak(), mode, "4c 8b 3d ........", RelocExpr::Symbol, RelocBase::Zero, "49 c7 c7 ........", 4);
        check(weak(), mode, "48 3b 05 ........", RelocExpr::Symbol, RelocBase::Zero, "48 81 f8 ........", 4);
    }
    let weak = || Case { facts: SymbolFacts::UNDEFINED_WEAK | SymbolFacts::ABSOLUTE, ..got(GOTPCRELX) };
    check(weak(), &PIE, "8b 05 ........", RelocExpr::Symbol, RelocBase::Zero, "c7 c0 ........", 4);
    stays(weak(), &PIE, "ff 15 ........");
}

#[test]
fn small_numbers_are_immediates_in_fixed_code() {
    let small = |kind| Case { facts: SymbolFacts::SMALL | SymbolFacts::ABSOLUTE, ..got(kind) };
    let far = Mode { low_addresses: false, ..EXECUTABLE };
    for mode in [&EXECUTABLE, &far] {
        let (before, after) = ("48 8b 05 ........", "48 c7 c0 ........");
        check(small(REX_GOTPCRELX), mode, before, RelocExpr::Symbol, RelocBase::Zero, after, 4);
        let facts = SymbolFacts::ASSIGNED | SymbolFacts::ABSOLUTE;
        let assigned = Case { facts, ..got(REX_GOTPCRELX) };
        check(assigned, mode, before, RelocExpr::Symbol, RelocBase::Zero, after, 4);
    }
    check(
        small(GOTPCRELX),
        &EXECUTABLE,
        "ff 15 ........",
        RelocExpr::Symbol,
        RelocBase::Place,
        "67 e8 ........",
        0,
    );
    stays(small(GOTPCRELX), &far, "ff 15 ........");
    stays(small(REX_GOTPCRELX), &PIE, "48 8b 05 ........");
}

#[test]
fn other_instructions_keep_their_slot() {
    // push, inc, a register operand, an unknown opcode
    for before in ["ff 35 ........", "ff 05 ........", "8b 45 ........", "2a 05 ........"] {
        stays(got(GOTPCRELX), &EXECUTABLE, before);
        stays(got(GOTPCRELX), &SHARED, before);
    }
    stays(got(REX_GOTPCRELX), &EXECUTABLE, "48 ff 35 ........");
    stays(got(REX_GOTPCRELX), &EXECUTABLE, "0f 03 05 ........");
    stays(got(GOTPCREL), &EXECUTABLE, "48 8b 05 ........");
    stays(got(46), &EXECUTABLE, "62 f4 fc 18 03 05 ........");
    stays(got(49), &EXECUTABLE, "62 f4 fc 18 03 05 ........");
}

#[test]
fn loads_stay_where_the_address_is_not_settled_or_far() {
    for facts in [SymbolFacts::IMPORTED, SymbolFacts::IFUNC, SymbolFacts::ABSOLUTE, SymbolFacts::FAR] {
        stays(Case { facts, ..got(REX_GOTPCRELX) }, &EXECUTABLE, "48 8b 05 ........");
    }
    stays(Case { addend: 0, ..got(REX_GOTPCRELX) }, &EXECUTABLE, "48 8b 05 ........");
    stays(got(REX_GOTPCRELX), &Mode { relax: false, ..EXECUTABLE }, "48 8b 05 ........");
    let (section, _) = bytes("8b 05");
    assert_eq!(relaxed_at(&got(GOTPCRELX), &EXECUTABLE, &section, 1), None);
}

/// The sequences that call `__tls_get_addr`, with the type and place of the call's relocation.
const GD_SEQUENCES: &[(&str, u32, u64)] = &[
    ("66 48 8d 3d ........ 66 66 48 e8 00000000", 4, 12),
    ("66 48 8d 3d ........ 66 66 48 e8 00000000", 2, 12),
    ("66 48 8d 3d ........ 66 48 ff 15 00000000", 41, 12),
    ("66 48 8d 3d ........ 66 48 ff 15 00000000", 9, 12),
    ("66 48 8d 3d ........ 66 48 67 e8 00000000", 4, 12),
];
const GD_LARGE: [&str; 2] = [
    "48 8d 3d ........ 48 b8 0000000000000000 48 01 d8 ff d0",
    "48 8d 3d ........ 48 b8 0000000000000000 4c 01 f8 ff d0",
];
const THREAD_POINTER: &str = "64 48 8b 04 25 00000000";

#[test]
fn general_dynamic_in_executables() {
    for &(before, kind, offset) in GD_SEQUENCES {
        let case = |facts| Case { facts, next: Some((kind, offset)), ..got(TLSGD) };
        let exec = format!("{THREAD_POINTER} 48 8d 80 ........");
        check(case(SymbolFacts::TLS), &PIE, before, RelocExpr::TpOffset, RelocBase::Zero, &exec, 4);
        let initial = format!("{THREAD_POINTER} 48 03 05 ........");
        let imported = SymbolFacts::TLS | SymbolFacts::IMPORTED;
        check(case(imported), &EXECUTABLE, before, RelocExpr::GotTp, RelocBase::Place, &initial, -8);
        stays(case(SymbolFacts::TLS), &SHARED, before);
        stays(Case { next: None, ..got(TLSGD) }, &PIE, before);
        stays(Case { next: Some((kind, offset + 1)), ..got(TLSGD) }, &PIE, before);
    }
    for before in GD_LARGE {
        let case = |facts| Case { facts, next: Some((31, 9)), ..got(TLSGD) };
        let exec = format!("{THREAD_POINTER} 48 8d 80 ........ 66 0f 1f 44 00 00");
        check(case(SymbolFacts::TLS), &PIE, before, RelocExpr::TpOffset, RelocBase::Zero, &exec, 4);
        let initial = format!("{THREAD_POINTER} 48 03 05 ........ 66 0f 1f 44 00 00");
        check(case(SymbolFacts::IMPORTED), &PIE, before, RelocExpr::GotTp, RelocBase::Place, &initial, -9);
    }
}

#[test]
fn the_call_of_a_rewritten_sequence_is_done_with() {
    let (section, offset) = bytes(GD_SEQUENCES[0].0);
    let case = Case { next: Some((4, 12)), ..got(TLSGD) };
    assert!(relaxed_at(&case, &PIE, &section, offset).is_some_and(|relaxed| relaxed.takes_next));
}

#[test]
fn local_dynamic_in_executables() {
    for (before, kind, offset, after) in [
        ("48 8d 3d ........ e8 00000000", 4, 8, "66 66 66"),
        ("48 8d 3d ........ ff 15 00000000", 41, 9, "66 66 66 66"),
        ("48 8d 3d ........ 67 e8 00000000", 4, 9, "66 66 66 66"),
        (GD_LARGE[0], 31, 9, "66 66 66 66 2e 0f 1f 84 00 00 00 00 00"),
        (GD_LARGE[1], 31, 9, "66 66 66 66 2e 0f 1f 84 00 00 00 00 00"),
    ] {
        let case = || Case { next: Some((kind, offset)), ..got(TLSLD) };
        let after = format!("{after} {THREAD_POINTER}");
        check(case(), &PIE, before, RelocExpr::Nothing, RelocBase::Zero, &after, 0);
        stays(case(), &SHARED, before);
        stays(Case { next: None, ..got(TLSLD) }, &PIE, before);
    }
}

#[test]
fn block_offsets_follow_the_model_of_the_code() {
    for kind in [DTPOFF32, DTPOFF64] {
        let case = |code| Case { code, addend: 0, ..got(kind) };
        let section = [0; 8];
        let relaxed = relaxed_at(&case(true), &PIE, &section, 0);
        assert!(relaxed.is_some_and(|relaxed| (relaxed.expr, relaxed.base) == (RelocExpr::TpOffset, RelocBase::Zero)));
        assert_eq!(relaxed_at(&case(false), &PIE, &section, 0), None);
        assert_eq!(relaxed_at(&case(true), &SHARED, &section, 0), None);
    }
    let wide = relaxed_at(&Case { addend: 0, ..got(DTPOFF64) }, &PIE, &[0; 8], 0).map(|relaxed| relaxed.edit);
    let mut section = [0; 8];
    X86_64::edit(wide.expect("rewritten"), &mut section, 0, -16, 0).expect("fits");
    assert_eq!(section, (-16i64).to_le_bytes());
}

#[test]
fn initial_exec_in_executables() {
    for (kind, before, after) in [
        (GOTTPOFF, "48 8b 05 ........", "48 c7 c0 ........"),
        (GOTTPOFF, "4c 8b 3d ........", "49 c7 c7 ........"),
        (GOTTPOFF, "48 03 05 ........", "48 8d 80 ........"),
        (GOTTPOFF, "4c 03 3d ........", "4d 8d bf ........"),
        // rsp and r12
        (GOTTPOFF, "48 03 25 ........", "48 81 c4 ........"),
        (GOTTPOFF, "4c 03 25 ........", "49 81 c4 ........"),
        (CODE_4_GOTTPOFF, "d5 48 8b 05 ........", "d5 18 c7 c0 ........"),
        (CODE_4_GOTTPOFF, "d5 4c 03 0d ........", "d5 19 81 c1 ........"),
        // add x@gottpoff(%rip), %r16, %r17: R4 becomes B4
        (CODE_6_GOTTPOFF, "62 e4 f4 10 03 05 ........", "62 fc f4 10 81 c0 ........"),
        (CODE_6_GOTTPOFF, "62 74 f4 10 01 05 ........", "62 d4 f4 10 81 c0 ........"),
    ] {
        check(
            Case { facts: SymbolFacts::TLS, ..got(kind) },
            &PIE,
            before,
            RelocExpr::TpOffset,
            RelocBase::Zero,
            after,
            4,
        );
        stays(Case { facts: SymbolFacts::TLS | SymbolFacts::IMPORTED, ..got(kind) }, &PIE, before);
        stays(Case { facts: SymbolFacts::TLS, ..got(kind) }, &SHARED, before);
    }
    stays(got(GOTTPOFF), &PIE, "48 3b 05 ........");
    stays(got(GOTTPOFF), &PIE, "0f 8b 05 ........");
    stays(got(47), &PIE, "62 f4 fc 18 03 05 ........");
}

#[test]
fn descriptors_in_executables() {
    for (kind, before, exec, initial) in [
        (TLSDESC, "48 8d 05 ........", "48 c7 c0 ........", "48 8b 05 ........"),
        (TLSDESC, "4c 8d 3d ........", "49 c7 c7 ........", "4c 8b 3d ........"),
        (CODE_4_TLSDESC, "d5 48 8d 05 ........", "d5 18 c7 c0 ........", "d5 48 8b 05 ........"),
    ] {
        let case = |facts| Case { facts, ..got(kind) };
        check(case(SymbolFacts::TLS), &PIE, before, RelocExpr::TpOffset, RelocBase::Zero, exec, 4);
        check(case(SymbolFacts::IMPORTED), &PIE, before, RelocExpr::GotTp, RelocBase::Place, initial, 0);
        stays(case(SymbolFacts::TLS), &SHARED, before);
    }
    stays(got(TLSDESC), &PIE, "48 8b 05 ........");
    for (call, nop) in [("ff 10", "66 90"), ("67 ff 10", "0f 1f 00")] {
        let case = || Case { addend: 0, ..got(TLSDESC_CALL) };
        check(case(), &PIE, call, RelocExpr::Nothing, RelocBase::Zero, nop, 0);
        stays(case(), &SHARED, call);
    }
    stays(got(TLSDESC_CALL), &PIE, "ff 11");
}

#[test]
fn the_thread_pointer_ends_the_segment() {
    assert_eq!(X86_64::thread_pointer(0x4000, 0x24, 0x20), 0x4040);
    assert_eq!(X86_64::thread_pointer(0x4000, 0x40, 0x20), 0x4040);
    // The segment starts off its alignment, but the thread pointer is aligned (GNU ld, lld; glibc places the
    // block so).
    assert_eq!(X86_64::thread_pointer(0x4008, 0x10, 0x20), 0x4020);
    assert_eq!(X86_64::thread_pointer(0, 0, 0), 0);
}

#[test]
fn jumps_are_found_behind_landing_pads() {
    let jmp = [0xe9, 0, 0, 0, 0];
    let pad = [0xf3, 0x0f, 0x1e, 0xfa];
    assert_eq!(jump_at(&jmp, 0), Some(1));
    assert_eq!(jump_at(&[&pad[..], &jmp].concat(), 0), Some(5));
    assert_eq!(jump_at(&[&[0x90][..], &pad, &jmp].concat(), 1), Some(6));
    assert_eq!(jump_at(&[&[0xe8][..], &jmp].concat(), 0), None);
    assert_eq!(jump_at(&pad, 0), None);
    assert_eq!(jump_at(&pad, 9), None);
}
