//! Tests every rewriting by its bytes before and after, and the code that must stay.

use super::*;
use crate::arch::relocation::NextRelocation;

const EXECUTABLE: Mode = Mode {
    shared: false,
    position_independent: false,
    relax: true,
    relocates_itself: false,
    low_addresses: false,
    copy: true,
    text_relocations: false,
    call_nop: crate::cli::CallNop { after: false, byte: 0x67 },
};
const LIBRARY: Mode = Mode { shared: true, position_independent: true, ..EXECUTABLE };
const PLACE: u64 = 0x40_0ff0;

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn site(code: &[u8], offset: usize, facts: SymbolFacts, next: Option<u32>) -> Site<'_> {
    let next = next.map(|kind| NextRelocation { kind, offset: offset as u64 + 4, symbol: 1, addend: 0 });
    Site { facts, bytes: code, offset, symbol: 1, addend: 0, writable: false, code: true, next }
}

/// The code after the linker has rewritten one relocation with this value. `None`: it stays.
fn rewritten(
    family: Family,
    code: &[u32],
    index: usize,
    facts: SymbolFacts,
    next: Option<u32>,
    value: i64,
) -> Option<(RelocExpr, Vec<u32>)> {
    let mut section = bytes(code);
    let relaxed = relax(family, &site(&bytes(code), index * 4, facts, next), &EXECUTABLE)?;
    edit(relaxed.edit, &mut section, index * 4, value, PLACE + index as u64 * 4).expect("fits");
    let words = section.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    Some((relaxed.expr, words.collect()))
}

const ADRP_X3: u32 = 0x9000_0003;
const ADD_X3_X3: u32 = 0x9100_0063;
const LDR_X3_X3: u32 = 0xf940_0063;
const BL: u32 = 0x9400_0000;

#[test]
fn addresses_by_distance() {
    let low = Some(elf::R_AARCH64_ADD_ABS_LO12_NC);
    let slot = Some(elf::R_AARCH64_LD64_GOT_LO12_NC);
    for (family, second, next) in [(Family::AddressPage, ADD_X3_X3, low), (Family::GotPage, LDR_X3_X3, slot)]
    {
        let at = |value| {
            rewritten(family, &[ADRP_X3, second], 0, SymbolFacts::empty(), next, value).expect("rewritten")
        };
        assert_eq!(at(0x104), (RelocExpr::Symbol, vec![NOP, 0x1000_0803]));
        assert_eq!(at((1 << 20) + 3), (RelocExpr::Symbol, vec![NOP, 0x707f_ffe3]));
        // 0x400ff0 + 0x100004 = 0x500ff4
        assert_eq!(at((1 << 20) + 4), (RelocExpr::Symbol, vec![0x9000_0803, 0x913f_d063]));
        let code = bytes(&[ADRP_X3, second]);
        let stays = |facts, next, mode: &Mode| relax(family, &site(&code, 0, facts, next), mode).is_none();
        assert!(
            stays(SymbolFacts::IMPORTED, next, &EXECUTABLE) && stays(SymbolFacts::IFUNC, next, &EXECUTABLE)
        );
        assert!(
            stays(SymbolFacts::ABSOLUTE, next, &EXECUTABLE) && stays(SymbolFacts::empty(), None, &EXECUTABLE)
        );
        assert!(stays(SymbolFacts::empty(), next, &Mode { relax: false, ..EXECUTABLE }));
        assert!(!stays(SymbolFacts::empty(), next, &LIBRARY), "a library's own symbols");
        let other_register = bytes(&[ADRP_X3, second + 1]);
        assert!(relax(family, &site(&other_register, 0, SymbolFacts::empty(), next), &EXECUTABLE).is_none());
    }
}

#[test]
fn calls_of_nothing_go_on() {
    let absent = SymbolFacts::UNDEFINED_WEAK | SymbolFacts::ABSOLUTE;
    assert_eq!(rewritten(Family::Branch, &[BL], 0, absent, None, 0), Some((RelocExpr::Nothing, vec![NOP])));
    assert_eq!(rewritten(Family::Branch, &[BL], 0, SymbolFacts::empty(), None, 0), None);
}

#[test]
fn addresses_of_nothing_are_zero() {
    let absent = SymbolFacts::UNDEFINED_WEAK | SymbolFacts::ABSOLUTE;
    let page = |facts| rewritten(Family::AddressPage, &[ADRP_X3, ADD_X3_X3], 0, facts, None, 0);
    assert_eq!(page(absent), Some((RelocExpr::Nothing, vec![0xd280_0003, ADD_X3_X3])));
    assert_eq!(page(absent | SymbolFacts::IMPORTED), None);
    assert_eq!(rewritten(Family::AddressPage, &[ADD_X3_X3], 0, absent, None, 0), None);
}

#[test]
fn initial_exec() {
    let code = [ADRP_X3, LDR_X3_X3];
    let page = rewritten(Family::InitialPage, &code, 0, SymbolFacts::TLS, None, 0x12_3450);
    assert_eq!(page, Some((RelocExpr::TpOffset, vec![0xd2a0_0243, LDR_X3_X3])));
    let low = rewritten(Family::InitialLow, &code, 1, SymbolFacts::TLS, None, 0x12_3450);
    assert_eq!(low, Some((RelocExpr::TpOffset, vec![ADRP_X3, 0xf286_8a03])));
    assert_eq!(
        rewritten(Family::InitialPage, &code, 0, SymbolFacts::TLS | SymbolFacts::IMPORTED, None, 0),
        None
    );
    // The two halves need neither be neighbours nor use one register.
    let low = rewritten(Family::InitialLow, &[LDR_X3_X3], 0, SymbolFacts::TLS, None, 0x12_3450);
    assert_eq!(low, Some((RelocExpr::TpOffset, vec![0xf286_8a03])));
    let alone = rewritten(Family::InitialLow, &[LDR_X3_X3 + 1], 0, SymbolFacts::TLS, None, 0x3450);
    assert_eq!(alone, Some((RelocExpr::TpOffset, vec![0xd286_8a04])));
    assert_eq!(rewritten(Family::InitialPage, &[LDR_X3_X3], 0, SymbolFacts::TLS, None, 0), None);
}

#[test]
fn general_dynamic() {
    let code = [ADRP, ADD, BL, NOP];
    let call = Some(elf::R_AARCH64_CALL26);
    let page = rewritten(Family::GeneralPage, &code, 0, SymbolFacts::TLS, None, 0x1_0010);
    assert_eq!(page, Some((RelocExpr::TpOffset, vec![0xd2a0_0020, ADD, BL, NOP])));
    let low = rewritten(Family::GeneralLow, &code, 1, SymbolFacts::TLS, call, 0x1_0010);
    assert_eq!(low, Some((RelocExpr::TpOffset, vec![ADRP, 0xf280_0200, 0xd53b_d041, 0x8b00_0020])));
    let imported = SymbolFacts::TLS | SymbolFacts::IMPORTED;
    let low = rewritten(Family::GeneralLow, &code, 1, imported, call, 0x18);
    assert_eq!(low, Some((RelocExpr::GotTp, vec![ADRP, 0xf940_0c00, 0xd53b_d041, 0x8b00_0020])));
    // Without the nop, the ABI does not count it as one sequence.
    assert_eq!(rewritten(Family::GeneralPage, &[ADRP, ADD, BL, BL], 0, SymbolFacts::TLS, None, 0), None);
    let found = relax(Family::GeneralLow, &site(&bytes(&code), 4, SymbolFacts::TLS, call), &EXECUTABLE);
    assert!(found.is_some_and(|found| found.takes_next));
    assert_eq!(relax(Family::GeneralLow, &site(&bytes(&code), 4, SymbolFacts::TLS, call), &LIBRARY), None);
}

#[test]
fn local_dynamic() {
    let code = [ADRP, ADD, BL, NOP];
    let page = rewritten(Family::LocalPage, &code, 0, SymbolFacts::empty(), None, 0);
    assert_eq!(page, Some((RelocExpr::Nothing, vec![0xd53b_d040, ADD, BL, NOP])));
    let low = rewritten(Family::LocalLow, &code, 1, SymbolFacts::empty(), None, 16);
    assert_eq!(low, Some((RelocExpr::TlsBlock, vec![ADRP, 0x9100_4000, NOP, NOP])));
    let low = rewritten(Family::LocalLow, &code, 1, SymbolFacts::empty(), None, 0x1_0000);
    assert_eq!(low, Some((RelocExpr::TlsBlock, vec![ADRP, 0x9100_0000, 0x9140_4000, NOP])));
}

#[test]
fn descriptors() {
    // adrp x0; ldr x1, [x0]; add x0, x0; blr x1
    let code = [ADRP, 0xf940_0001, ADD, 0xd63f_0020];
    let (own, imported) = (SymbolFacts::TLS, SymbolFacts::TLS | SymbolFacts::IMPORTED);
    let families =
        [Family::DescriptorPage, Family::DescriptorLoad, Family::DescriptorRest, Family::DescriptorRest];
    let local = [0xd2a0_0020, 0xf280_0300, NOP, NOP];
    let initial = [0xb000_0000, 0xf940_0c00, NOP, NOP];
    for (index, family) in families.into_iter().enumerate() {
        let (_, words) = rewritten(family, &code, index, own, None, 0x1_0018).expect("rewritten");
        assert_eq!(words[index], local[index]);
        let value = if index == 0 { 0x1000 } else { 0x18 };
        let (_, words) = rewritten(family, &code, index, imported, None, value).expect("rewritten");
        assert_eq!(words[index], initial[index]);
    }
    // ldr x1, ...; adr x0, ...
    let tiny = [0x5800_0001, 0x1000_0000];
    let word = |family, index, facts, value| {
        rewritten(family, &tiny, index, facts, None, value).expect("rewritten").1[index]
    };
    assert_eq!(word(Family::DescriptorLiteral, 0, own, 0x1_0018), 0xd2a0_0020);
    assert_eq!(word(Family::DescriptorDistance, 1, own, 0x1_0018), 0xf280_0300);
    assert_eq!(word(Family::DescriptorLiteral, 0, imported, 0), NOP);
    assert_eq!(word(Family::DescriptorDistance, 1, imported, 0x40), 0x5800_0200);
}

#[test]
fn values_that_do_not_fit_are_told() {
    let mut section = bytes(&[ADRP_X3]);
    assert_eq!(edit(Edit::MoveHigh, &mut section, 0, 1 << 32, PLACE), Err(1 << 32));
    assert_eq!(edit(Edit::MoveHigh, &mut section, 0, -1, PLACE), Err(-1));
    assert_eq!(edit(Edit::MoveAlone, &mut section, 0, 1 << 16, PLACE), Err(1 << 16));
    assert!(edit(Edit::Address, &mut bytes(&[ADRP_X3, ADD_X3_X3]), 0, 1 << 33, PLACE).is_err());
}
