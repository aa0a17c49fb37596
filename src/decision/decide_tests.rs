//! Tests the table of decisions: relocation, symbol, kind of output.

use super::*;
use crate::arch::s390x::S390x;
use crate::arch::x86_64::X86_64;
use crate::elf::consts as elf;

const STATIC: Mode = Mode {
    shared: false,
    position_independent: false,
    relax: true,
    relocates_itself: false,
    low_addresses: true,
    copy: true,
    text_relocations: false,
    call_nop: crate::cli::CallNop { byte: 0x67, after: false },
};
const PIE: Mode = Mode { position_independent: true, low_addresses: false, ..STATIC };
const SHARED: Mode = Mode { shared: true, ..PIE };

const NONE: Needs = Needs::empty();
const LOCAL: SymbolFacts = SymbolFacts::empty();
const FUNCTION: SymbolFacts = SymbolFacts::IMPORTED.union(SymbolFacts::FUNCTION);
const DATA: SymbolFacts = SymbolFacts::IMPORTED;
const WEAK: SymbolFacts = SymbolFacts::UNDEFINED_WEAK.union(SymbolFacts::ABSOLUTE);

/// Asks with the addends that compilers use: words hold addresses, and instructions count from their ends.
fn ask(kind: u32, facts: SymbolFacts, mode: &Mode, writable: bool) -> Action<X86_64> {
    ask_with(if kind == elf::R_X86_64_64 { 0 } else { -4 }, kind, facts, mode, writable)
}

fn ask_with(addend: i64, kind: u32, facts: SymbolFacts, mode: &Mode, writable: bool) -> Action<X86_64> {
    let site =
        Site { facts, bytes: &[0; 32], offset: 8, symbol: 1, addend, writable, code: true, next: None };
    decide(X86_64::reloc_info(kind).expect("a known type"), &site, mode)
}

/// A decision in short, for tables.
#[derive(PartialEq, Debug)]
enum Short {
    Value(RelocExpr, Needs),
    Dynamic(DynamicKind, Needs),
    Refused(Problem),
}
use Short::{Dynamic, Refused, Value};

fn short(action: Action<X86_64>) -> Short {
    match (action.problem, action.dynamic) {
        (Some(problem), _) => Refused(problem),
        (None, Some(kind)) => Dynamic(kind, action.needs),
        (None, None) => Value(action.expr, action.needs),
    }
}

fn table(rows: &[(u32, SymbolFacts, &Mode, Short)]) {
    for (kind, facts, mode, expected) in rows {
        assert_eq!(&short(ask(*kind, *facts, mode, false)), expected, "{kind} {facts:?} {mode:?}");
    }
}

#[test]
fn local_addresses_are_stored_or_relative() {
    table(&[
        (elf::R_X86_64_64, LOCAL, &STATIC, Value(RelocExpr::Symbol, NONE)),
        (elf::R_X86_64_32, LOCAL, &STATIC, Value(RelocExpr::Symbol, NONE)),
        (elf::R_X86_64_64, LOCAL, &PIE, Dynamic(DynamicKind::Relative, NONE)),
        (elf::R_X86_64_64, LOCAL, &SHARED, Dynamic(DynamicKind::Relative, NONE)),
        (elf::R_X86_64_32, LOCAL, &PIE, Refused(Problem::NeedsPic)),
        (elf::R_X86_64_32S, LOCAL, &SHARED, Refused(Problem::NeedsPic)),
        (elf::R_X86_64_16, LOCAL, &PIE, Refused(Problem::NeedsPic)),
        (elf::R_X86_64_PC32, LOCAL, &SHARED, Value(RelocExpr::Symbol, NONE)),
        (elf::R_X86_64_PC64, LOCAL, &SHARED, Value(RelocExpr::Symbol, NONE)),
        (elf::R_X86_64_PLT32, LOCAL, &SHARED, Value(RelocExpr::Symbol, NONE)),
        (elf::R_X86_64_GOTOFF64, LOCAL, &SHARED, Value(RelocExpr::Symbol, Needs::GOT_BASE)),
        (elf::R_X86_64_PLTOFF64, LOCAL, &SHARED, Value(RelocExpr::Symbol, Needs::GOT_BASE)),
        (elf::R_X86_64_GOTPC64, LOCAL, &SHARED, Value(RelocExpr::GotBase, Needs::GOT_BASE)),
        (elf::R_X86_64_GOT64, LOCAL, &PIE, Value(RelocExpr::GotSlot, Needs::GOT | Needs::GOT_BASE)),
        (elf::R_X86_64_SIZE32, LOCAL, &SHARED, Value(RelocExpr::Size, NONE)),
    ]);
    let wide = || Dynamic(DynamicKind::Size { wide: true }, Needs::DYNSYM);
    let size = |facts, mode, writable| short(ask(elf::R_X86_64_SIZE64, facts, mode, writable));
    assert_eq!(size(DATA, &SHARED, false), wide());
    assert_eq!(size(DATA, &STATIC, true), wide());
    assert_eq!(size(DATA, &STATIC, false), Value(RelocExpr::Size, NONE));
    assert_eq!(size(DATA | SymbolFacts::NO_DEFINITION, &PIE, true), Value(RelocExpr::Size, NONE));
}

/// The symbol is undefined, and options say not to report it.
const IGNORED: SymbolFacts = SymbolFacts::ABSOLUTE.union(SymbolFacts::NO_DEFINITION);

#[test]
fn absolute_and_undefined_weak_symbols_keep_their_numbers() {
    table(&[
        (elf::R_X86_64_64, SymbolFacts::ABSOLUTE, &PIE, Value(RelocExpr::Symbol, NONE)),
        (elf::R_X86_64_32, SymbolFacts::ABSOLUTE, &SHARED, Value(RelocExpr::Symbol, NONE)),
        (elf::R_X86_64_PC32, SymbolFacts::ABSOLUTE, &STATIC, Value(RelocExpr::Symbol, NONE)),
        (elf::R_X86_64_PC32, SymbolFacts::ABSOLUTE, &PIE, Refused(Problem::AbsoluteDistance)),
        (elf::R_X86_64_PLT32, SymbolFacts::ABSOLUTE, &STATIC, Value(RelocExpr::Symbol, NONE)),
        (elf::R_X86_64_PLT32, SymbolFacts::ABSOLUTE, &PIE, Value(RelocExpr::Plt, Needs::PLT | Needs::GOT)),
        (elf::R_X86_64_PC32, IGNORED, &PIE, Value(RelocExpr::Symbol, NONE)),
        (elf::R_X86_64_PC32, WEAK, &PIE, Refused(Problem::DistanceToNothing)),
        (elf::R_X86_64_PLT32, WEAK, &PIE, Value(RelocExpr::Symbol, NONE)),
        (elf::R_X86_64_64, WEAK, &PIE, Value(RelocExpr::Symbol, NONE)),
    ]);
}

#[test]
fn functions_of_libraries_get_plt_entries() {
    let call = Needs::PLT | Needs::DYNSYM;
    let canonical = call | Needs::CANONICAL_PLT;
    let got = Needs::GOT | Needs::DYNSYM;
    table(&[
        (elf::R_X86_64_PLT32, FUNCTION, &STATIC, Value(RelocExpr::Plt, call)),
        (elf::R_X86_64_PLT32, FUNCTION, &SHARED, Value(RelocExpr::Plt, call)),
        (elf::R_X86_64_PLTOFF64, FUNCTION, &SHARED, Value(RelocExpr::Plt, call | Needs::GOT_BASE)),
        (elf::R_X86_64_PC32, FUNCTION, &STATIC, Value(RelocExpr::Plt, canonical)),
        (elf::R_X86_64_PC32, FUNCTION, &PIE, Value(RelocExpr::Plt, canonical)),
        (elf::R_X86_64_PC32, FUNCTION, &SHARED, Refused(Problem::NeedsPic)),
        (elf::R_X86_64_32, FUNCTION, &STATIC, Value(RelocExpr::Plt, canonical)),
        (elf::R_X86_64_32, FUNCTION, &PIE, Refused(Problem::NeedsPic)),
        (elf::R_X86_64_64, FUNCTION, &STATIC, Value(RelocExpr::Plt, canonical)),
        (elf::R_X86_64_64, FUNCTION, &PIE, Dynamic(DynamicKind::Symbolic, Needs::DYNSYM)),
        (elf::R_X86_64_REX_GOTPCRELX, FUNCTION, &PIE, Value(RelocExpr::GotSlot, got)),
    ]);
    let in_data = ask(elf::R_X86_64_64, FUNCTION, &STATIC, true);
    assert_eq!(short(in_data), Dynamic(DynamicKind::Symbolic, Needs::DYNSYM));
}

#[test]
fn data_of_libraries_is_copied_or_refused() {
    let copy = Needs::COPY | Needs::DYNSYM;
    let no_copy = Mode { copy: false, ..STATIC };
    let text = Mode { text_relocations: true, ..STATIC };
    table(&[
        (elf::R_X86_64_PC32, DATA, &STATIC, Value(RelocExpr::Symbol, copy)),
        (elf::R_X86_64_PC32, DATA, &PIE, Value(RelocExpr::Symbol, copy)),
        (elf::R_X86_64_PC32, DATA, &SHARED, Refused(Problem::NeedsPic)),
        (elf::R_X86_64_GOTOFF64, DATA, &SHARED, Refused(Problem::NeedsPic)),
        (elf::R_X86_64_32S, DATA, &STATIC, Value(RelocExpr::Symbol, copy)),
        (elf::R_X86_64_64, DATA, &STATIC, Value(RelocExpr::Symbol, copy)),
        (elf::R_X86_64_PC32, DATA, &no_copy, Refused(Problem::CopyForbidden)),
        (elf::R_X86_64_64, DATA, &text, Dynamic(DynamicKind::Symbolic, Needs::DYNSYM)),
        (elf::R_X86_64_PC32, DATA | SymbolFacts::NO_DEFINITION, &PIE, Refused(Problem::DistanceToNothing)),
    ]);
}

#[test]
fn indirect_functions_get_plt_entries() {
    let ifunc = SymbolFacts::IFUNC | SymbolFacts::FUNCTION;
    let exported = ifunc | SymbolFacts::EXPORTED;
    let canonical = Needs::PLT | Needs::CANONICAL_PLT;
    table(&[
        (elf::R_X86_64_PLT32, ifunc, &STATIC, Value(RelocExpr::Plt, Needs::PLT)),
        (elf::R_X86_64_PLT32, ifunc, &SHARED, Value(RelocExpr::Plt, Needs::PLT)),
        (elf::R_X86_64_PC32, ifunc, &PIE, Value(RelocExpr::Plt, canonical)),
        (elf::R_X86_64_64, ifunc, &STATIC, Value(RelocExpr::Plt, canonical)),
        (elf::R_X86_64_32, ifunc, &STATIC, Value(RelocExpr::Plt, canonical)),
        (elf::R_X86_64_64, ifunc, &PIE, Dynamic(DynamicKind::Resolved, NONE)),
        (elf::R_X86_64_32, ifunc, &PIE, Refused(Problem::NeedsPic)),
        (elf::R_X86_64_REX_GOTPCRELX, ifunc, &STATIC, Value(RelocExpr::GotSlot, Needs::GOT)),
        (elf::R_X86_64_REX_GOTPCRELX, exported, &STATIC, Value(RelocExpr::GotSlot, Needs::GOT | canonical)),
        (elf::R_X86_64_REX_GOTPCRELX, exported, &PIE, Value(RelocExpr::GotSlot, Needs::GOT)),
    ]);
    let behind = ask_with(8, elf::R_X86_64_64, ifunc, &PIE, true);
    assert_eq!(short(behind), Dynamic(DynamicKind::Resolved, canonical));
}

#[test]
fn tls_models_relax_by_kind_of_output() {
    let (local, imported) = (SymbolFacts::TLS, SymbolFacts::TLS | SymbolFacts::IMPORTED);
    let absent = imported | SymbolFacts::NO_DEFINITION;
    let gd = Needs::TLS_GD;
    let ie = Needs::GOT_TP;
    let dynsym = Needs::DYNSYM;
    table(&[
        (elf::R_X86_64_TPOFF32, local, &PIE, Value(RelocExpr::TpOffset, NONE)),
        (elf::R_X86_64_TPOFF32, local, &SHARED, Refused(Problem::NeedsTlsModel)),
        (elf::R_X86_64_TPOFF32, imported, &PIE, Refused(Problem::NeedsTlsModel)),
        (elf::R_X86_64_TPOFF32, absent, &PIE, Value(RelocExpr::TpOffset, NONE)),
        (elf::R_X86_64_TPOFF32, absent, &SHARED, Refused(Problem::NeedsTlsModel)),
        (elf::R_X86_64_TPOFF64, absent, &PIE, Value(RelocExpr::TpOffset, NONE)),
        (elf::R_X86_64_TPOFF64, local, &SHARED, Dynamic(DynamicKind::TpOffset, Needs::STATIC_TLS)),
        (elf::R_X86_64_TPOFF64, imported, &PIE, Dynamic(DynamicKind::TpOffset, dynsym)),
        (elf::R_X86_64_GOTTPOFF, local, &SHARED, Value(RelocExpr::GotTp, ie | Needs::STATIC_TLS)),
        (elf::R_X86_64_GOTTPOFF, imported, &PIE, Value(RelocExpr::GotTp, ie | dynsym)),
        // This is not the psABI's sequence. The code keeps its GOT pair, which works in executables, too.
        (elf::R_X86_64_TLSGD, local, &PIE, Value(RelocExpr::TlsGd, gd)),
        (elf::R_X86_64_TLSGD, imported, &SHARED, Value(RelocExpr::TlsGd, gd | dynsym)),
        (elf::R_X86_64_TLSLD, LOCAL, &SHARED, Value(RelocExpr::TlsLd, Needs::TLS_MODULE)),
        (elf::R_X86_64_TLSLD, LOCAL, &PIE, Refused(Problem::UnexpectedInstruction)),
        (elf::R_X86_64_DTPOFF32, local, &SHARED, Value(RelocExpr::DtpOffset, NONE)),
        (elf::R_X86_64_DTPOFF32, local, &PIE, Value(RelocExpr::TpOffset, NONE)),
        (elf::R_X86_64_DTPOFF64, imported, &SHARED, Refused(Problem::NeedsTlsModel)),
        (
            elf::R_X86_64_DTPOFF64,
            imported | SymbolFacts::EXPORTED,
            &SHARED,
            Value(RelocExpr::DtpOffset, NONE),
        ),
        (
            elf::R_X86_64_DTPOFF32,
            imported | SymbolFacts::EXPORTED,
            &SHARED,
            Value(RelocExpr::DtpOffset, NONE),
        ),
        (elf::R_X86_64_DTPOFF32, absent, &SHARED, Value(RelocExpr::DtpOffset, NONE)),
        (elf::R_X86_64_DTPOFF32, imported, &SHARED, Refused(Problem::NeedsTlsModel)),
        (elf::R_X86_64_GOTPC32_TLSDESC, local, &SHARED, Value(RelocExpr::TlsDesc, Needs::TLS_DESC)),
        (elf::R_X86_64_GOTPC32_TLSDESC, local, &PIE, Refused(Problem::UnexpectedInstruction)),
        (elf::R_X86_64_TLSDESC_CALL, local, &SHARED, Value(RelocExpr::Nothing, NONE)),
    ]);
}

#[test]
fn a_rewritten_sequence_needs_the_slot_of_its_new_model() {
    let bytes = [0x48, 0x8d, 0x05, 0, 0, 0, 0];
    let facts = SymbolFacts::TLS | SymbolFacts::IMPORTED;
    let site = Site {
        facts,
        bytes: &bytes,
        offset: 3,
        symbol: 1,
        addend: -4,
        writable: false,
        code: true,
        next: None,
    };
    let info = X86_64::reloc_info(elf::R_X86_64_GOTPC32_TLSDESC).expect("a known type");
    let action = decide(info, &site, &PIE);
    assert!(action.edit.is_some());
    assert_eq!((action.expr, action.needs), (RelocExpr::GotTp, Needs::GOT_TP | Needs::DYNSYM));
}

#[test]
fn a_word_of_data_may_hold_an_offset_in_another_module() {
    let of_library = SymbolFacts::TLS | SymbolFacts::IMPORTED;
    let site = |facts| Site {
        facts,
        bytes: &[0; 8],
        offset: 0,
        symbol: 1,
        addend: 0,
        writable: true,
        code: false,
        next: None,
    };
    let info = X86_64::reloc_info(elf::R_X86_64_DTPOFF64).expect("a known type");
    assert_eq!(decide(info, &site(of_library), &SHARED).dynamic, Some(DynamicKind::DtpOffset));
    // For local-dynamic accesses, all linkers take this module's own definition.
    assert_eq!(decide(info, &site(of_library | SymbolFacts::EXPORTED), &SHARED).dynamic, None);
}

#[test]
fn function_addresses_taken_through_the_plt_are_entries() {
    let info = S390x::reloc_info(elf::R_390_PLT32DBL).expect("a known type");
    let needs = |bytes: &[u8; 6], facts, mode| {
        let site =
            Site { facts, bytes, offset: 2, symbol: 1, addend: 2, writable: false, code: true, next: None };
        let action = decide(info, &site, mode);
        assert_eq!((action.expr, action.problem), (RelocExpr::Plt, None));
        action.needs
    };
    let (call, load) = ([0xc0, 0xe5, 0, 0, 0, 0], [0xc0, 0x10, 0, 0, 0, 0]);
    let called = Needs::PLT | Needs::DYNSYM;
    for mode in [&STATIC, &PIE] {
        assert_eq!(needs(&call, FUNCTION, mode), called);
        assert_eq!(needs(&load, FUNCTION, mode), called | Needs::CANONICAL_PLT);
        assert_eq!(needs(&load, DATA, mode), called | Needs::CANONICAL_PLT, "its library says no type");
        assert_eq!(needs(&load, SymbolFacts::IFUNC, mode), Needs::PLT | Needs::CANONICAL_PLT);
    }
    assert_eq!(needs(&load, FUNCTION, &SHARED), called);
}

#[test]
fn slot_addresses_in_words_are_left_to_the_dynamic_linker() {
    let info = S390x::reloc_info(elf::R_390_TLS_IE64).expect("a known type");
    let ask = |facts, mode| {
        let bytes = &[0; 8];
        let site =
            Site { facts, bytes, offset: 0, symbol: 1, addend: 0, writable: true, code: false, next: None };
        decide(info, &site, mode)
    };
    let imported = SymbolFacts::TLS | SymbolFacts::IMPORTED;
    let slot = Needs::GOT_TP | Needs::DYNSYM;
    assert_eq!(
        (ask(SymbolFacts::TLS, &PIE).expr, ask(SymbolFacts::TLS, &PIE).dynamic),
        (RelocExpr::TpOffset, None)
    );
    let fixed = ask(imported, &STATIC);
    assert_eq!((fixed.expr, fixed.dynamic, fixed.needs), (RelocExpr::GotTp, None, slot));
    let moved = ask(imported, &PIE);
    assert_eq!((moved.dynamic, moved.needs), (Some(DynamicKind::TpSlot), slot));
    let shared = ask(SymbolFacts::TLS, &SHARED);
    let needs = Needs::GOT_TP | Needs::STATIC_TLS;
    assert_eq!((shared.dynamic, shared.needs), (Some(DynamicKind::TpSlot), needs));
}

/// Tries all types of a machine with each bit of the facts, for every kind of output.
fn plain_decisions_are_those_of_decide<T: Target>() {
    let fields = |action: &Action<T>| {
        let Action { expr, base, edit, takes_next, needs, dynamic, problem } = action;
        (*expr, *base, edit.is_some(), *takes_next, *needs, *dynamic, *problem)
    };
    let mut count = 0;
    for info in (0..2048).filter_map(T::reloc_info) {
        for facts in (0..16).map(|bit| SymbolFacts::from_bits_truncate(1 << bit)).chain([LOCAL]) {
            let Some(plain) = plain(info, facts) else { continue };
            for mode in [&STATIC, &PIE, &SHARED] {
                let bytes = &[0; 32];
                let site = Site {
                    facts,
                    bytes,
                    offset: 8,
                    symbol: 1,
                    addend: 0,
                    writable: false,
                    code: true,
                    next: None,
                };
                assert!(
                    fields(&plain) == fields(&decide(info, &site, mode)),
                    "{} {facts:?} {mode:?}",
                    info.name
                );
                count += 1;
            }
        }
    }
    assert!(count > 0, "some relocation is plain");
}

#[test]
fn plain_decisions_are_those_of_decide_on_every_machine() {
    plain_decisions_are_those_of_decide::<X86_64>();
    plain_decisions_are_those_of_decide::<crate::arch::aarch64::AArch64>();
    plain_decisions_are_those_of_decide::<S390x>();
}
