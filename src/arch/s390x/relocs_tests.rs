//! Tests every type: its value, the bits it writes, the ends of its range.

use super::*;
use crate::arch::Target;
use crate::elf::consts as elf;

/// A value at one end of the range, and the bytes that hold it.
type End = (i64, &'static [u8]);
/// The smallest and the largest value.
type Ends = (End, End);
/// Number, first operand, subtracted operand, and the two ends. The place was all ones before.
type Row = (u32, RelocExpr, RelocBase, End, End);

const BYTE: Ends = ((-0x80, &[0x80]), (0xff, &[0xff]));
const HALF: Ends = ((-0x8000, &[0x80, 0]), (0xffff, &[0xff, 0xff]));
const WORD: Ends = ((-0x8000_0000, &[0x80, 0, 0, 0]), (0xffff_ffff, &[0xff, 0xff, 0xff, 0xff]));
const DOUBLE: Ends =
    ((i64::MIN, &[0x80, 0, 0, 0, 0, 0, 0, 0]), (i64::MAX, &[0x7f, 255, 255, 255, 255, 255, 255, 255]));
const NEAR16: Ends = ((-0x8000, &[0x80, 0]), (0x7fff, &[0x7f, 0xff]));
const NEAR32: Ends = ((-0x8000_0000, &[0x80, 0, 0, 0]), (0x7fff_ffff, &[0x7f, 0xff, 0xff, 0xff]));
/// The high digit of the first byte is the base register.
const SHORT: Ends = ((0, &[0xf0, 0]), (0xfff, &[0xff, 0xff]));
/// The last byte belongs to the opcode.
const LONG: Ends = ((-0x8_0000, &[0xf0, 0, 0x80, 0xff]), (0x7_ffff, &[0xff, 0xff, 0x7f, 0xff]));
const HALVES12: Ends = ((-0x1000, &[0xf8, 0]), (0xffe, &[0xf7, 0xff]));
const HALVES16: Ends = ((-0x1_0000, &[0x80, 0]), (0xfffe, &[0x7f, 0xff]));
const HALVES24: Ends = ((-0x100_0000, &[0x80, 0, 0]), (0xff_fffe, &[0x7f, 0xff, 0xff]));
const HALVES32: Ends = ((-0x1_0000_0000, &[0x80, 0, 0, 0]), (0xffff_fffe, &[0x7f, 0xff, 0xff, 0xff]));

const fn of(kind: u32, expr: RelocExpr, base: RelocBase, ends: Ends) -> Row {
    (kind, expr, base, ends.0, ends.1)
}

const ROWS: &[Row] = &[
    of(elf::R_390_8, RelocExpr::Symbol, RelocBase::Zero, BYTE),
    of(elf::R_390_12, RelocExpr::Symbol, RelocBase::Zero, SHORT),
    of(elf::R_390_16, RelocExpr::Symbol, RelocBase::Zero, HALF),
    of(elf::R_390_32, RelocExpr::Symbol, RelocBase::Zero, WORD),
    of(elf::R_390_PC32, RelocExpr::Symbol, RelocBase::Place, NEAR32),
    of(elf::R_390_GOT12, RelocExpr::GotSlot, RelocBase::Got, SHORT),
    of(elf::R_390_GOT32, RelocExpr::GotSlot, RelocBase::Got, WORD),
    of(elf::R_390_PLT32, RelocExpr::Plt, RelocBase::Place, NEAR32),
    of(elf::R_390_GOTOFF32, RelocExpr::Symbol, RelocBase::Got, WORD),
    of(elf::R_390_GOTPC, RelocExpr::GotBase, RelocBase::Place, DOUBLE),
    of(elf::R_390_GOT16, RelocExpr::GotSlot, RelocBase::Got, HALF),
    of(elf::R_390_PC16, RelocExpr::Symbol, RelocBase::Place, NEAR16),
    of(elf::R_390_PC16DBL, RelocExpr::Symbol, RelocBase::Place, HALVES16),
    of(elf::R_390_PLT16DBL, RelocExpr::Plt, RelocBase::Place, HALVES16),
    of(elf::R_390_PC32DBL, RelocExpr::Symbol, RelocBase::Place, HALVES32),
    of(elf::R_390_PLT32DBL, RelocExpr::Plt, RelocBase::Place, HALVES32),
    of(elf::R_390_GOTPCDBL, RelocExpr::GotBase, RelocBase::Place, HALVES32),
    of(elf::R_390_64, RelocExpr::Symbol, RelocBase::Zero, DOUBLE),
    of(elf::R_390_PC64, RelocExpr::Symbol, RelocBase::Place, DOUBLE),
    of(elf::R_390_GOT64, RelocExpr::GotSlot, RelocBase::Got, DOUBLE),
    of(elf::R_390_PLT64, RelocExpr::Plt, RelocBase::Place, DOUBLE),
    of(elf::R_390_GOTENT, RelocExpr::GotSlot, RelocBase::Place, HALVES32),
    of(elf::R_390_GOTOFF16, RelocExpr::Symbol, RelocBase::Got, HALF),
    of(elf::R_390_GOTOFF64, RelocExpr::Symbol, RelocBase::Got, DOUBLE),
    of(elf::R_390_GOTPLT12, RelocExpr::GotSlot, RelocBase::Got, SHORT),
    of(elf::R_390_GOTPLT16, RelocExpr::GotSlot, RelocBase::Got, HALF),
    of(elf::R_390_GOTPLT32, RelocExpr::GotSlot, RelocBase::Got, WORD),
    of(elf::R_390_GOTPLT64, RelocExpr::GotSlot, RelocBase::Got, DOUBLE),
    of(elf::R_390_GOTPLTENT, RelocExpr::GotSlot, RelocBase::Place, HALVES32),
    of(elf::R_390_PLTOFF16, RelocExpr::Plt, RelocBase::Got, HALF),
    of(elf::R_390_PLTOFF32, RelocExpr::Plt, RelocBase::Got, WORD),
    of(elf::R_390_PLTOFF64, RelocExpr::Plt, RelocBase::Got, DOUBLE),
    of(elf::R_390_TLS_GD64, RelocExpr::TlsGd, RelocBase::Got, DOUBLE),
    of(elf::R_390_TLS_GOTIE12, RelocExpr::GotTp, RelocBase::Got, SHORT),
    of(elf::R_390_TLS_GOTIE64, RelocExpr::GotTp, RelocBase::Got, DOUBLE),
    of(elf::R_390_TLS_LDM64, RelocExpr::TlsLd, RelocBase::Got, DOUBLE),
    of(elf::R_390_TLS_IE64, RelocExpr::GotTp, RelocBase::Zero, DOUBLE),
    of(elf::R_390_TLS_IEENT, RelocExpr::GotTp, RelocBase::Place, HALVES32),
    of(elf::R_390_TLS_LE64, RelocExpr::TpOffset, RelocBase::Zero, DOUBLE),
    of(elf::R_390_TLS_LDO64, RelocExpr::DtpOffset, RelocBase::Zero, DOUBLE),
    of(elf::R_390_20, RelocExpr::Symbol, RelocBase::Zero, LONG),
    of(elf::R_390_GOT20, RelocExpr::GotSlot, RelocBase::Got, LONG),
    of(elf::R_390_GOTPLT20, RelocExpr::GotSlot, RelocBase::Got, LONG),
    of(elf::R_390_TLS_GOTIE20, RelocExpr::GotTp, RelocBase::Got, LONG),
    of(62, RelocExpr::Symbol, RelocBase::Place, HALVES12),
    of(63, RelocExpr::Plt, RelocBase::Place, HALVES12),
    of(64, RelocExpr::Symbol, RelocBase::Place, HALVES24),
    of(65, RelocExpr::Plt, RelocBase::Place, HALVES24),
];

#[test]
fn bits_and_ranges() {
    for &(kind, expr, base, low, high) in ROWS {
        let info = S390x::reloc_info(kind).expect("a type of the table");
        assert_eq!((info.expr, info.base), (expr, base), "{}", info.name);
        let step = i64::from(info.multiple);
        for (value, bytes) in [low, high] {
            assert!(info.holds(value), "{} takes {value}", info.name);
            assert_eq!(usize::from(info.size), bytes.len(), "{}", info.name);
            let mut place = [0xff; 10];
            S390x::write_field(info.field, &mut place, value);
            assert_eq!(place[..bytes.len()], *bytes, "{} of {value:#x}", info.name);
            assert!(place[bytes.len()..].iter().all(|&byte| byte == 0xff), "{}", info.name);
        }
        for outside in [low.0.checked_sub(step), high.0.checked_add(step)].into_iter().flatten() {
            assert!(!info.holds(outside), "{} takes {outside}", info.name);
        }
        assert!(step == 1 || !info.holds(1), "{} takes an odd value", info.name);
        let mut short = vec![0xee; usize::from(info.size) - 1];
        S390x::write_field(info.field, &mut short, 0);
        assert!(short.iter().all(|&byte| byte == 0xee), "{}", info.name);
    }
}

#[test]
fn every_type_has_a_row_or_is_a_mark() {
    for kind in 0..300 {
        let Some(info) = S390x::reloc_info(kind) else { continue };
        let listed = ROWS.iter().any(|row| row.0 == kind);
        assert!(listed || info.size == 0, "{}", info.name);
    }
}

#[test]
fn fields_are_read_back() {
    for info in (0..300).filter_map(S390x::reloc_info) {
        for value in [0, 0x16, -0x16] {
            if (info.size > 0 && info.field != Field::Empty) && (value >= 0 || info.min < 0) {
                let mut place = [0x5a; 8];
                write(info.field, &mut place, value);
                assert_eq!(read(info.field, &place), value, "{}", info.name);
            }
        }
    }
    assert_eq!(read(Field::Displacement20, &[0xc3, 0x45, 0x12, 0x04]), 0x12345);
    assert_eq!(read(Field::Word, &[1, 2]), 0, "too short");
}

#[test]
fn displacements_of_five_digits() {
    let mut place = [0xc0, 0, 0, 0x04];
    write(Field::Displacement20, &mut place, 0x12345);
    assert_eq!(place, [0xc3, 0x45, 0x12, 0x04]);
}

#[test]
fn types_of_the_dynamic_linker_are_not_for_objects() {
    for kind in [9, 10, 11, 12, 54, 55, 56, 61, 66, 100, u32::MAX] {
        assert!(S390x::reloc_info(kind).is_none(), "{kind}");
    }
}
