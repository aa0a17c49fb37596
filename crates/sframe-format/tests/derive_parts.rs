//! Which parts of an FDE become functions, and which entries can be read.
#![cfg(feature = "derive")]

use sframe_format::Abi;
use sframe_format::derive::{Reason, for_each, for_each_linked};
use sframe_format::write::Function;

/// An entry: its length, then its bytes, padded to a multiple of 8.
fn entry(bytes: &[u8], section: &mut Vec<u8>) {
    let length = (4 + bytes.len()).next_multiple_of(8) - 4;
    section.extend((length as u32).to_le_bytes());
    section.extend(bytes);
    section.resize(section.len() + length - bytes.len(), 0);
}

/// A CIE: CFA = rsp + 8 and the return address at CFA - 8, or AArch64's CFA = sp. Its FDEs have addresses of
/// 4 bytes.
fn cie(abi: Abi, letters: &str, data: &[u8], section: &mut Vec<u8>) {
    let mut bytes = vec![0, 0, 0, 0, 1];
    bytes.extend(letters.as_bytes());
    bytes.extend([0, 1, 0x78]);
    bytes.push(abi.return_address() as u8);
    bytes.push(data.len() as u8);
    bytes.extend(data);
    bytes.extend(if abi.is_aarch64() { &[0x0c, 31, 0][..] } else { &[0x0c, 7, 8, 0x90, 1] });
    entry(&bytes, section);
}

/// An FDE of 64 bytes for the last CIE, which is at `cie`.
fn fde(cie: usize, instructions: &[u8], section: &mut Vec<u8>) {
    let mut bytes = ((section.len() + 4 - cie) as u32).to_le_bytes().to_vec();
    bytes.extend([0, 0, 0, 0, 64, 0, 0, 0, 0]);
    bytes.extend(instructions);
    entry(&bytes, section);
}

/// Offset and size of each part, with the rows or the reason why it has none.
type Part = (u64, u64, Result<Vec<String>, Reason>);

fn part(source: sframe_format::derive::Source, result: Result<&Function, Reason>) -> Part {
    let rows = |function: &Function| {
        assert_eq!(u64::from(function.size), source.size);
        function.rows.iter().map(ToString::to_string).collect()
    };
    (source.before, source.size, result.map(rows))
}

fn parts(abi: Abi, section: &[u8]) -> Vec<Part> {
    let mut parts = Vec::new();
    for_each(abi, section, 0, |source, result| parts.push(part(source, result))).unwrap();
    parts
}

fn parts_of(abi: Abi, letters: &str, data: &[u8], instructions: &[u8]) -> Vec<Part> {
    let mut section = Vec::new();
    cie(abi, letters, data, &mut section);
    fde(0, instructions, &mut section);
    parts(abi, &section)
}

fn rows(text: &[&str]) -> Result<Vec<String>, Reason> {
    Ok(text.iter().map(|&row| row.to_owned()).collect())
}

/// "zR", relative addresses of 4 bytes.
const PLAIN: (&str, &[u8]) = ("zR", &[0x1b]);

#[test]
fn rows_before_and_behind_one_without_a_form_are_kept() {
    // From byte 4 on rsp + 16; from 8 to 16 the CFA is an expression; then rsp + 16 again, rsp + 8 from 20
    // on.
    let code = [0x44, 0x0e, 16, 0x44, 0x0a, 0x0f, 2, 0x30, 0x30, 0x48, 0x0b, 0x44, 0x0e, 8];
    let found = parts_of(Abi::Amd64, PLAIN.0, PLAIN.1, &code);
    let expected = [
        (0, 8, rows(&["0: cfa=r7+8 fp=u ra=*(cfa-8)", "4: cfa=r7+16 fp=u ra=*(cfa-8)"])),
        (8, 8, Err(Reason::CfaExpression)),
        (16, 48, rows(&["0: cfa=r7+16 fp=u ra=*(cfa-8)", "4: cfa=r7+8 fp=u ra=*(cfa-8)"])),
    ];
    assert_eq!(found, expected);
}

/// SFrame cannot express a lost register.
#[test]
fn a_lost_frame_pointer_is_not_an_unchanged_one() {
    for (abi, register) in [(Abi::Amd64, 6), (Abi::AArch64Little, 29)] {
        let found = parts_of(abi, PLAIN.0, PLAIN.1, &[0x44, 0x07, register, 0x44, 0x08, register]);
        let kinds: Vec<_> = found.iter().map(|(at, _, rows)| (*at, rows.as_ref().err())).collect();
        assert_eq!(kinds, [(0, None), (4, Some(&Reason::LostFramePointer)), (8, None)], "{abi}");
    }
}

#[test]
fn rows_before_an_unknown_instruction_are_kept() {
    let found = parts_of(Abi::Amd64, PLAIN.0, PLAIN.1, &[0x44, 0x0e, 16, 0x44, 0x3f, 0x44, 0x0e, 8]);
    assert_eq!(found[0], (0, 8, rows(&["0: cfa=r7+8 fp=u ra=*(cfa-8)", "4: cfa=r7+16 fp=u ra=*(cfa-8)"])));
    assert!(matches!(found[1..], [(8, 56, Err(Reason::Cfi(_)))]), "{found:?}");
}

#[test]
fn old_and_new_instructions_are_read() {
    // DW_CFA_GNU_negative_offset_extended: CFA - offset * factor, here CFA + 2 * 8 with the factor -8.
    let found = parts_of(Abi::Amd64, PLAIN.0, PLAIN.1, &[0x44, 0x2f, 6, 2]);
    let expected = rows(&["0: cfa=r7+8 fp=u ra=*(cfa-8)", "4: cfa=r7+8 fp=*(cfa+16) ra=*(cfa-8)"]);
    assert_eq!(found, [(0, 64, expected)]);
    // DW_CFA_AARCH64_negate_ra_state_with_pc: the return address is signed, with or without the program
    // counter.
    let found = parts_of(Abi::AArch64Little, PLAIN.0, PLAIN.1, &[0x44, 0x2c, 0x44, 0x2c]);
    let signed: Vec<bool> = found[0].2.as_ref().unwrap().iter().map(|row| row.ends_with("[s]")).collect();
    assert_eq!(signed, [false, true, false], "{found:?}");
    // x86-64 does not have this instruction.
    assert!(parts_of(Abi::Amd64, PLAIN.0, PLAIN.1, &[0x44, 0x2c])[1].2.is_err());
}

#[test]
fn augmentations_are_read() {
    let plain = parts_of(Abi::AArch64Little, PLAIN.0, PLAIN.1, &[0x44, 0x0e, 16]);
    for (letters, data) in [
        // Omitted language-specific data.
        ("zLR", &[0xff, 0x1b][..]),
        ("zPLR", &[0x9b, 1, 2, 3, 4, 0xff, 0x1b]),
        ("zRB", &[0x1b]),
        ("zRG", &[0x1b]),
    ] {
        assert_eq!(parts_of(Abi::AArch64Little, letters, data, &[0x44, 0x0e, 16]), plain, "{letters}");
    }
    assert!(parts_of(Abi::AArch64Little, "zQ", &[0x1b], &[])[0].2.is_err());
}

/// `ld -r` of some linkers leaves terminators in the middle of a section.
#[test]
fn objects_are_read_behind_terminators() {
    let mut section = Vec::new();
    cie(Abi::Amd64, PLAIN.0, PLAIN.1, &mut section);
    fde(0, &[], &mut section);
    section.extend([0; 8]);
    let second = section.len();
    cie(Abi::Amd64, PLAIN.0, PLAIN.1, &mut section);
    fde(second, &[], &mut section);
    section.extend([0; 4]);
    assert_eq!(parts(Abi::Amd64, &section).len(), 2);
    // A walk of a linked section ends there.
    let mut linked = 0;
    for_each_linked(Abi::Amd64, &section, 0, None, |_, _| linked += 1).unwrap();
    assert_eq!(linked, 1);
    section.extend([0xff, 0, 0, 0]);
    assert!(for_each(Abi::Amd64, &section, 0, |_, _| {}).is_err());
}
