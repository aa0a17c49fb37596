//! Tests every rewriting by its bytes, and the code that must stay.

use super::*;
use crate::arch::Target;
use crate::arch::relocation::NextRelocation;
use crate::arch::s390x::S390x;
use crate::cli::CallNop;

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
const VALUE: i64 = 0x1122_3344;

/// Hexadecimal bytes. The relocation is at the dots, or else at the start.
fn bytes(text: &str) -> (Vec<u8>, usize) {
    let text = text.replace(' ', "");
    let field = text.find('.').map_or(0, |at| at / 2);
    let digits = text.replace('.', "0");
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal");
    ((0..digits.len()).step_by(2).map(byte).collect(), field)
}

struct Case {
    kind: u32,
    facts: SymbolFacts,
    addend: i64,
    /// Type and offset of the next relocation.
    next: Option<(u32, u64)>,
}

fn case(kind: u32, facts: SymbolFacts) -> Case {
    Case { kind, facts, addend: 0, next: None }
}

fn relaxed_at(case: &Case, mode: &Mode, bytes: &[u8], offset: usize) -> Option<Relaxed<Edit>> {
    let site = Site {
        facts: case.facts,
        symbol: 1,
        bytes,
        offset,
        addend: case.addend,
        writable: false,
        code: true,
        next: case.next.map(|(kind, offset)| NextRelocation { kind, offset, symbol: 0, addend: 0 }),
    };
    S390x::relax(S390x::reloc_info(case.kind).expect("a known type"), &site, mode)
}

fn check(case: Case, mode: &Mode, before: &str, expr: RelocExpr, base: RelocBase, after: &str) {
    let (mut section, offset) = bytes(before);
    let relaxed = relaxed_at(&case, mode, &section, offset).unwrap_or_else(|| panic!("{before} stays"));
    assert_eq!((relaxed.expr, relaxed.base), (expr, base), "{before}");
    edit(relaxed.edit, &mut section, offset, VALUE).expect("the value fits");
    assert_eq!(section, bytes(after).0, "{before}");
}

fn stays(case: Case, mode: &Mode, before: &str) {
    let (section, offset) = bytes(before);
    assert_eq!(relaxed_at(&case, mode, &section, offset), None, "{before}");
}

#[test]
fn loads_become_address_computations() {
    let got = |facts| Case { addend: 2, ..case(elf::R_390_GOTENT, facts) };
    for mode in [&EXECUTABLE, &PIE, &SHARED] {
        check(
            got(SymbolFacts::empty()),
            mode,
            "c4 18 ........",
            RelocExpr::Symbol,
            RelocBase::Place,
            "c0 10 08 91 19 a2",
        );
        check(
            got(SymbolFacts::empty()),
            mode,
            "c4 c8 ........",
            RelocExpr::Symbol,
            RelocBase::Place,
            "c0 c0 08 91 19 a2",
        );
        stays(got(SymbolFacts::IMPORTED), mode, "c4 18 ........");
        stays(got(SymbolFacts::IFUNC), mode, "c4 18 ........");
        stays(got(SymbolFacts::ABSOLUTE), mode, "c4 18 ........");
        stays(got(SymbolFacts::ODD), mode, "c4 18 ........");
        stays(got(SymbolFacts::empty()), mode, "c0 10 ........");
        stays(got(SymbolFacts::empty()), mode, "c4 1d ........");
        stays(case(elf::R_390_GOTENT, SymbolFacts::empty()), mode, "c4 18 ........");
    }
    stays(got(SymbolFacts::empty()), &Mode { relax: false, ..PIE }, "c4 18 ........");
    let distance = Edit::Distance([0xc0, 0x10]);
    for (value, fits) in [(0xffff_fffe, true), (0x1_0000_0000, false), (-0x1_0000_0000, true), (3, false)] {
        assert_eq!(edit(distance, &mut [0; 6], 2, value).is_ok(), fits, "{value}");
    }
}

#[test]
fn calls_for_addresses_go_away() {
    let call = case;
    let (before, load, nop) = ("c0 e5 00000000", "e3 22 c0 00 00 04", "c0 04 00000000");
    for mode in [&EXECUTABLE, &PIE] {
        let (gd, ld) = (elf::R_390_TLS_GDCALL, elf::R_390_TLS_LDCALL);
        check(
            call(gd, SymbolFacts::TLS | SymbolFacts::IMPORTED),
            mode,
            before,
            RelocExpr::Nothing,
            RelocBase::Zero,
            load,
        );
        check(call(gd, SymbolFacts::TLS), mode, before, RelocExpr::Nothing, RelocBase::Zero, nop);
        check(call(ld, SymbolFacts::TLS), mode, before, RelocExpr::Nothing, RelocBase::Zero, nop);
        stays(call(gd, SymbolFacts::TLS), mode, "c0 d5 00000000");
    }
    // The call's own relocation may stand on either side of the mark.
    let (section, _) = bytes(before);
    for (next, taken) in [(None, false), (Some((elf::R_390_PLT32DBL, 2)), true), (Some((20, 8)), false)] {
        let mark = Case { next, ..call(elf::R_390_TLS_GDCALL, SymbolFacts::TLS) };
        assert_eq!(relaxed_at(&mark, &PIE, &section, 0).expect("relaxed").takes_next, taken);
    }
    let function = |next| Case { next: Some(next), ..case(elf::R_390_PLT32DBL, SymbolFacts::IMPORTED) };
    let marked = relaxed_at(&function((elf::R_390_TLS_LDCALL, 0)), &PIE, &section, 2).expect("relaxed");
    assert_eq!((marked.expr, marked.edit), (RelocExpr::Nothing, Edit::Keep));
    assert_eq!(relaxed_at(&function((elf::R_390_TLS_LDCALL, 0)), &SHARED, &section, 2), None);
    assert_eq!(relaxed_at(&function((elf::R_390_TLS_LDCALL, 6)), &PIE, &section, 2), None);
    stays(call(elf::R_390_TLS_GDCALL, SymbolFacts::TLS), &SHARED, before);
    stays(call(elf::R_390_TLS_LDCALL, SymbolFacts::TLS), &SHARED, before);
}

#[test]
fn literals_follow_their_calls() {
    let (literal, value) = ("0000000000000000", "0000000011223344");
    for mode in [&EXECUTABLE, &PIE] {
        for kind in [elf::R_390_TLS_GD64, elf::R_390_TLS_IE64, elf::R_390_TLS_GOTIE64, elf::R_390_TLS_LDO64] {
            check(case(kind, SymbolFacts::TLS), mode, literal, RelocExpr::TpOffset, RelocBase::Zero, value);
        }
        let imported = SymbolFacts::TLS | SymbolFacts::IMPORTED;
        check(case(elf::R_390_TLS_GD64, imported), mode, literal, RelocExpr::GotTp, RelocBase::Got, value);
        stays(case(elf::R_390_TLS_IE64, imported), mode, literal);
        stays(case(elf::R_390_TLS_GOTIE64, imported), mode, literal);
        let module =
            relaxed_at(&case(elf::R_390_TLS_LDM64, SymbolFacts::TLS), mode, &[0; 8], 0).expect("relaxed");
        assert_eq!(
            (module.expr, module.base, module.edit),
            (RelocExpr::Nothing, RelocBase::Zero, Edit::Literal)
        );
    }
    for kind in [elf::R_390_TLS_GD64, elf::R_390_TLS_LDM64, elf::R_390_TLS_LDO64, elf::R_390_TLS_GOTIE64] {
        stays(case(kind, SymbolFacts::TLS), &SHARED, literal);
    }
}

#[test]
fn initial_exec_loads() {
    let load = |facts| case(elf::R_390_TLS_LOAD, facts);
    for (before, after) in [
        ("e3 21 c0 00 00 04", "eb 21 00 00 00 0d"),
        ("e3 2c 10 00 00 04", "eb 21 00 00 00 0d"),
        ("e3 20 30 00 00 04", "eb 23 00 00 00 0d"),
        ("e3 23 00 00 00 04", "eb 23 00 00 00 0d"),
        ("e3 ff c0 00 00 04", "eb ff 00 00 00 0d"),
    ] {
        check(load(SymbolFacts::TLS), &PIE, before, RelocExpr::Nothing, RelocBase::Zero, after);
        check(
            load(SymbolFacts::TLS | SymbolFacts::IMPORTED),
            &PIE,
            before,
            RelocExpr::Nothing,
            RelocBase::Zero,
            before,
        );
        stays(load(SymbolFacts::TLS), &SHARED, before);
    }
    for before in ["e3 21 c0 08 00 04", "e3 21 c0 00 00 14", "58 21 c0 00 00 04", "e3 20 00 00 00 04"] {
        stays(load(SymbolFacts::TLS), &PIE, before);
    }
}

#[test]
fn slots_become_immediates() {
    let entry = |facts| Case { addend: 2, ..case(elf::R_390_TLS_IEENT, facts) };
    check(
        entry(SymbolFacts::TLS),
        &PIE,
        "c4 78 ........",
        RelocExpr::TpOffset,
        RelocBase::Zero,
        "c0 71 11 22 33 42",
    );
    stays(entry(SymbolFacts::TLS), &PIE, "c0 70 ........");
    stays(entry(SymbolFacts::TLS | SymbolFacts::IMPORTED), &PIE, "c4 78 ........");
    stays(entry(SymbolFacts::TLS), &SHARED, "c4 78 ........");
    let near = |facts| case(elf::R_390_TLS_GOTIE20, facts);
    for before in ["e3 70 c. .. .. 04", "e3 7c 0. .. .. 04"] {
        let before = before.replace(' ', "");
        let (mut section, _) = bytes(&before);
        let relaxed = relaxed_at(&near(SymbolFacts::TLS), &PIE, &section, 2).expect("relaxed");
        assert_eq!((relaxed.expr, relaxed.base), (RelocExpr::TpOffset, RelocBase::Zero));
        edit(relaxed.edit, &mut section, 2, VALUE).expect("the value fits");
        assert_eq!(section, [0xc0, 0x71, 0x11, 0x22, 0x33, 0x44]);
        assert!(edit(relaxed.edit, &mut section, 2, 0x8000_0000).is_err());
        assert_eq!(
            relaxed_at(&near(SymbolFacts::TLS | SymbolFacts::IMPORTED), &PIE, &bytes(&before).0, 2),
            None
        );
    }
    assert_eq!(relaxed_at(&near(SymbolFacts::TLS), &PIE, &[0xe3, 0x71, 0xc0, 0, 0, 4], 2), None);
}

#[test]
fn addresses_of_functions() {
    let info = S390x::reloc_info(elf::R_390_PLT32DBL).expect("a known type");
    for (bytes, takes) in [([0xc0, 0x10, 0, 0, 0, 0], true), ([0xc0, 0xe5, 0, 0, 0, 0], false)] {
        let site = Site {
            facts: SymbolFacts::empty(),
            bytes: &bytes,
            offset: 2,
            addend: 2,
            writable: false,
            code: true,
            next: None,
            symbol: 1,
        };
        assert_eq!(S390x::takes_address(info, &site), takes);
    }
}
