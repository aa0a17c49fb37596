//! Rows that a writer copies as stored, and rows that it must decode and encode.

use sframe_format::write::{Encoder, Function, Options};
use sframe_format::{Abi, Blob, Flags, Header, Section, Version};

/// A V3 section with one function of 32 bytes, with this attribute and these rows.
fn section(attribute: [u8; 3], count: u16, rows: &[u8]) -> Vec<u8> {
    let header = Header {
        version: Version::V3,
        endian: Abi::Amd64.endian(),
        flags: Flags::SORTED.with(Flags::FIELD_RELATIVE, true),
        abi: Abi::Amd64,
        fixed_fp_offset: 0,
        fixed_ra_offset: -8,
        auxiliary_length: 0,
        fde_count: 1,
        fre_count: count.into(),
        fre_length: 5 + rows.len() as u32,
        fde_offset: 0,
        fre_offset: 16,
        unit_distance: 0,
    };
    let fde = [&0x1000i64.to_le_bytes()[..], &32u32.to_le_bytes(), &[0; 4]].concat();
    [&header.to_bytes()[..], &fde, &count.to_le_bytes(), &attribute, rows].concat()
}

/// Whether the function is copied. If it is, checks that encoding gives the same bytes.
fn is_copied(bytes: &[u8]) -> bool {
    let blob: Blob<'_> = Section::new(bytes, 0).strict().blob_at(0).unwrap();
    let fde = blob.fde(0).unwrap();
    let options = Options::new(Abi::Amd64);
    let (mut by_copy, mut by_rows) = (Encoder::new(options), Encoder::new(options));
    let Some((id, _)) = by_copy.copy(&blob, &fde, &blob.attributes(&fde).unwrap()) else { return false };
    assert_eq!(by_rows.add(&Function::read(&blob, &fde).unwrap()), Ok(id));
    let written = [&by_copy, &by_rows].map(|encoder| {
        let mut bytes = vec![0; encoder.size()];
        encoder.write_relocatable(&[id], false, &mut bytes).unwrap();
        bytes
    });
    assert_eq!(written[0], written[1]);
    true
}

const PLAIN: [u8; 3] = [0, 0, 0];
/// One word of one byte, counted from the stack pointer; two; one of two bytes; none.
const ONE: u8 = 0x03;
const TWO: u8 = 0x05;
const WIDE: u8 = 0x23;
const NONE: u8 = 0x00;

#[test]
fn rows_in_the_encoders_form_are_copied() {
    assert!(is_copied(&section(PLAIN, 1, &[0, ONE, 8])));
    assert!(is_copied(&section(PLAIN, 3, &[0, ONE, 8, 1, TWO, 16, 0xf0, 4, ONE, 8])));
    assert!(is_copied(&section(PLAIN, 2, &[0, ONE, 8, 4, NONE])));
    assert!(is_copied(&section(PLAIN, 2, &[0, ONE, 8, 4, WIDE, 0x00, 0x01])));
    // Starts of two bytes become narrower.
    assert!(is_copied(&section([1, 0, 0], 2, &[0, 0, ONE, 8, 4, 0, TWO, 16, 0xf0])));
    // A signal frame.
    assert!(is_copied(&section([0x80, 0, 0], 1, &[0, ONE, 8])));
}

#[test]
fn rows_in_another_form_are_not_copied() {
    let others: [(&str, Vec<u8>); 10] = [
        ("neighbours are equal", section(PLAIN, 2, &[0, ONE, 8, 4, ONE, 8])),
        ("neighbours are equal, another follows", section(PLAIN, 3, &[0, ONE, 8, 4, ONE, 8, 5, ONE, 9])),
        ("a word of two bytes needs one", section(PLAIN, 1, &[0, WIDE, 8, 0])),
        ("a negative one too", section(PLAIN, 1, &[0, WIDE, 0x80, 0xff])),
        ("a row without words says sp", section(PLAIN, 1, &[0, 0x01])),
        ("a row without words has a size", section(PLAIN, 1, &[0, 0x20])),
        ("a row begins at the function's end", section(PLAIN, 2, &[0, ONE, 8, 32, ONE, 16])),
        ("rows go back", section(PLAIN, 2, &[4, ONE, 8, 0, ONE, 16])),
        ("an info byte is not in use on x86-64", section(PLAIN, 1, &[0, ONE | 0x80, 8])),
        ("rows repeat", section([0x10, 0, 8], 1, &[0, ONE, 8])),
    ];
    for (why, bytes) in others {
        assert!(!is_copied(&bytes), "{why}");
    }
}

#[test]
fn malformed_rows_are_not_copied() {
    assert!(!is_copied(&section(PLAIN, 1, &[0, 0x63, 8, 0, 0, 0])), "words of eight bytes");
    assert!(!is_copied(&section(PLAIN, 1, &[0, 0x60])), "no words of eight bytes");
    assert!(!is_copied(&section(PLAIN, 2, &[0, ONE, 8])), "a row is missing");
    assert!(!is_copied(&section(PLAIN, 1, &[0, TWO, 8])), "a word is missing");
    assert!(!is_copied(&section(PLAIN, 1, &[0, 0x1f, 8, 0, 0, 0, 0, 0, 0, 0, 0])), "fifteen words");
}

/// The same section, whose function has `size` bytes.
fn resized(section: &[u8], size: u32) -> Vec<u8> {
    let mut bytes = section.to_vec();
    bytes[36..40].copy_from_slice(&size.to_le_bytes());
    bytes
}

/// A writer for a batch knows functions that it took before by their bytes.
#[test]
fn functions_after_others_are_copied_as_if_they_were_the_first() {
    let two = section(PLAIN, 2, &[0, ONE, 8, 20, ONE, 16]);
    let longer = section(PLAIN, 2, &[0, ONE, 8, 20, ONE, 16, 24, ONE, 8]);
    let wide = section([1, 0, 0], 2, &[0, 0, ONE, 8, 20, 0, ONE, 16]);
    let all = [
        ("the bytes are the same", two.clone(), true),
        ("the function is larger", resized(&two, 4000), true),
        ("the last row is its last byte", resized(&two, 21), true),
        ("the last row is behind its end", resized(&two, 20), false),
        ("the last word differs", section(PLAIN, 2, &[0, ONE, 8, 20, ONE, 24]), true),
        ("a start differs", section(PLAIN, 2, &[0, ONE, 8, 21, ONE, 16]), true),
        ("it is a signal frame", section([0x80, 0, 0], 2, &[0, ONE, 8, 20, ONE, 16]), true),
        ("it has the first row alone", section(PLAIN, 1, &[0, ONE, 8]), true),
        ("it has a row more", section(PLAIN, 3, &[0, ONE, 8, 20, ONE, 16, 24, ONE, 8]), true),
        ("a row of another function follows", longer, true),
        ("its starts are wider", wide.clone(), true),
        ("its starts are wider, and the last row is behind its end", resized(&wide, 20), false),
        ("a row is missing", section(PLAIN, 2, &[0, ONE, 8]), false),
    ];
    let options = Options::new(Abi::Amd64);
    for (_, before, _) in &all {
        for (why, bytes, is_copied) in &all {
            let (mut alone, mut after) = (Encoder::for_batch(options), Encoder::for_batch(options));
            let copy = |encoder: &mut Encoder, bytes: &[u8]| {
                let blob: Blob<'_> = Section::new(bytes, 0).strict().blob_at(0).unwrap();
                let fde = blob.fde(0).unwrap();
                encoder.copy(&blob, &fde, &blob.attributes(&fde).unwrap())
            };
            copy(&mut after, before);
            let (first, second) = (copy(&mut alone, bytes), copy(&mut after, bytes));
            assert_eq!(first.is_some(), *is_copied, "{why}");
            assert_eq!(first.map(|it| it.1), second.map(|it| it.1), "{why}");
            let unwinding = |encoder: &Encoder, id| format!("{:?}", encoder.unwinding(id));
            let written = first.map(|(id, _)| unwinding(&alone, id));
            assert_eq!(written, second.map(|(id, _)| unwinding(&after, id)), "{why}");
        }
    }
}
