//! Tests every type at both ends of its range: the value reads back from the instruction, and one step
//! further does not fit.

use super::*;

/// All types, with their numbers.
fn all() -> impl Iterator<Item = (u32, &'static Info)> {
    (0..1100).filter_map(|number| Some((number, info(number)?)))
}

/// Reads a field as the processor does, or as the program does if it is data.
fn read(field: Field, place: &[u8; 8]) -> i64 {
    let double = i64::from_le_bytes(*place);
    let word = double as u32;
    let bits = |low: u32, count: u32| i64::from(word >> low & ((1u64 << count) - 1) as u32);
    let signed = |value: i64, count: u32| value << (64 - count) >> (64 - count);
    match field {
        Field::Empty => 0,
        Field::Half => i64::from(word as u16),
        Field::Word | Field::SignedPointer => i64::from(word),
        Field::Double => double,
        Field::Branch26 => signed(bits(0, 26), 26) * 4,
        Field::Branch19 => signed(bits(5, 19), 19) * 4,
        Field::Branch14 => signed(bits(5, 14), 14) * 4,
        Field::Distance => signed(bits(5, 19) << 2 | bits(29, 2), 21),
        Field::Page => signed(bits(5, 19) << 2 | bits(29, 2), 21) << 12,
        Field::Low12(shift) => bits(10, 12) << shift,
        Field::High12 => bits(10, 12) << 12,
        Field::Slot15 => bits(10, 12) << 3,
        Field::Move(shift) => bits(5, 16) << shift,
        Field::MoveSigned(shift) if word & 1 << 30 == 0 => !(bits(5, 16) << shift),
        Field::MoveSigned(shift) => bits(5, 16) << shift,
    }
}

/// The part of a value that a field holds.
fn part(field: Field, value: i64) -> i64 {
    match field {
        Field::Empty => 0,
        Field::Half => value & 0xffff,
        Field::Word | Field::SignedPointer => value & 0xffff_ffff,
        Field::Page => value << 31 >> 31 & !0xfff,
        Field::Low12(_) => value & 0xfff,
        Field::High12 => value & 0xff_f000,
        Field::Move(shift) => value & 0xffff << shift,
        Field::MoveSigned(shift) if value < 0 => !(!value & 0xffff << shift),
        Field::MoveSigned(shift) => value & 0xffff << shift,
        _ => value,
    }
}

#[test]
fn addends_are_read_from_their_fields() {
    for field in all().map(|(_, info)| addend_field(info.field)).filter(|&field| field != Field::Empty) {
        // A scaled field has more bits than the low twelve, which are all that the instruction stores.
        let scaled = matches!(field, Field::Low12(1..));
        for value in [0, 0x7f0, -0x7f0].into_iter().filter(|&value| value >= 0 || !scaled) {
            let value = if field == Field::High12 { value << 12 } else { value };
            let mut place = [0x5a; 8];
            write(field, &mut place, value);
            assert_eq!(super::read(field, &place), value, "{field:?}");
        }
    }
    assert_eq!(addend_field(Field::Page), Field::Distance);
    assert_eq!(super::read(Field::Double, &[1, 2, 3, 4]), 0, "too short");
}

#[test]
fn fields_hold_the_ends_of_their_range() {
    for (number, info) in all() {
        let multiple = i64::from(info.multiple);
        let (min, max) = match (info.min, info.max) {
            (i64::MIN, _) => (-0x1234_5678_9abc_def0, 0x1234_5678_9abc_def0),
            (min, max) => (min, max / multiple * multiple),
        };
        for value in [min, max, 0x50 * multiple.max(1)] {
            assert!(info.holds(value), "{}: {value:#x}", info.name);
            for content in [0u64, u64::MAX] {
                let mut place = content.to_le_bytes();
                write(info.field, &mut place, value);
                assert_eq!(
                    read(info.field, &place),
                    part(info.field, value),
                    "type {number}, {}: {value:#x} in {content:#x}",
                    info.name
                );
            }
        }
        if info.min != i64::MIN {
            assert!(!info.holds(min - multiple) && !info.holds(max + multiple), "{}", info.name);
        }
        if info.multiple > 1 {
            assert!(!info.holds(multiple / 2), "{}", info.name);
        }
    }
}

#[test]
fn nothing_but_the_field_changes() {
    for (_, info) in all().filter(|(_, info)| info.size == 4) {
        let changed = [0u32, u32::MAX].map(|content| {
            let mut ones = content.to_le_bytes();
            let mut zeros = content.to_le_bytes();
            write(info.field, &mut ones, !0);
            write(info.field, &mut zeros, 0);
            u32::from_le_bytes(ones) ^ u32::from_le_bytes(zeros)
        });
        let expected = match info.field {
            Field::Empty => 0,
            Field::Word => u32::MAX,
            Field::Branch26 => 0x03ff_ffff,
            Field::Branch19 => 0x00ff_ffe0,
            Field::Branch14 => 0x0007_ffe0,
            Field::Distance | Field::Page => 0x60ff_ffe0,
            Field::Low12(shift) => (0xfff >> shift) << 10,
            Field::High12 | Field::Slot15 => 0x003f_fc00,
            Field::Move(_) => 0x001f_ffe0,
            // Only movz and movn differ; the other bits are zeros in both.
            Field::MoveSigned(_) => 1 << 30,
            Field::Half | Field::Double | Field::SignedPointer => unreachable!("sizes 2 and 8"),
        };
        assert_eq!(changed, [expected; 2], "{}", info.name);
    }
}

#[test]
fn numbers_and_names_are_those_of_the_abi() {
    let name = |number| info(number).map(|info| info.name);
    for (number, expected) in [
        (0, "R_AARCH64_NONE"),
        (257, "R_AARCH64_ABS64"),
        (283, "R_AARCH64_CALL26"),
        (299, "R_AARCH64_LDST128_ABS_LO12_NC"),
        (313, "R_AARCH64_LD64_GOTPAGE_LO15"),
        (317, "R_AARCH64_FUNCINIT64"),
        (541, "R_AARCH64_TLSIE_ADR_GOTTPREL_PAGE21"),
        (569, "R_AARCH64_TLSDESC_CALL"),
        (573, "R_AARCH64_TLSLD_LDST128_DTPREL_LO12_NC"),
        (580, "R_AARCH64_AUTH_ABS64"),
        (598, "R_AARCH64_AUTH_TLSDESC_CALL"),
    ] {
        assert_eq!(name(number), Some(expected));
    }
    assert_eq!([281, 318, 574, 579, 599, 1024].map(name), [None; 6]);
    assert_eq!(all().count(), 140);
}
