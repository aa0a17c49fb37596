//! Tests of merging: wherever a piece went, the output has the same bytes there.

use super::*;
use proptest::prelude::*;
use std::num::NonZeroU32;

fn merges_of(pieces: Pieces, sections: &[(Vec<u8>, u8)], tails: bool) -> (Vec<u8>, u64, MergedSections<'_>) {
    used_of(pieces, sections, &UsedOffsets::default(), tails)
}

fn used_of<'s>(
    pieces: Pieces,
    sections: &'s [(Vec<u8>, u8)],
    used: &UsedOffsets,
    tails: bool,
) -> (Vec<u8>, u64, MergedSections<'s>) {
    let inputs: Vec<_> = sections
        .iter()
        .enumerate()
        .map(|(number, (bytes, align))| MergeInput {
            section: SectionId(number as u32),
            bytes,
            align: *align,
        })
        .collect();
    let mut group = Group::merge(pieces, &inputs, used, tails).expect("small");
    group.section = SectionId(1000);
    let mut out = vec![0xaa; group.size as usize];
    let mut rest = &mut out[..];
    for (shard, bytes) in group.parts() {
        let part = rest.split_off_mut(..bytes as usize).expect("the parts' sum");
        // As in a new file.
        part.fill(0);
        shard.write(part);
    }
    assert!(rest.is_empty());
    let size = group.size;
    let mut merges = MergedSections::new(sections.len());
    let ids: Vec<SectionId> = inputs.iter().map(|input| input.section).collect();
    merges.add(group, &ids);
    (out, size, merges)
}

/// Checks for every offset of every section that the place it went to has the same bytes, and the same
/// alignment.
fn check(pieces: Pieces, sections: &[(Vec<u8>, u8)]) {
    for tails in [false, true] {
        check_places(pieces, sections, &UsedOffsets::default(), tails);
        check_places(pieces, sections, &some_used(sections), tails);
    }
}

/// Divides every other section, and uses some of its offsets.
fn some_used(sections: &[(Vec<u8>, u8)]) -> UsedOffsets {
    let size = |(row, (bytes, _)): (usize, &(Vec<u8>, u8))| {
        Some((SectionId(row as u32), NonZeroU32::new(bytes.len() as u32)?))
    };
    let divided: Vec<_> = sections.iter().enumerate().step_by(2).filter_map(size).collect();
    let used = UsedOffsets::new(sections.len(), &divided);
    for &(section, size) in &divided {
        (3..size.get()).step_by(11).for_each(|offset| used.mark(section, offset.into()));
    }
    used
}

/// Whether the piece at an offset is in use.
fn is_used(bytes: &[u8], offset: usize, pieces: Pieces, used: Option<UsedPieces<'_>>) -> bool {
    let Some(used) = used else { return true };
    let start = (0..=offset).rev().find(|&at| at == 0 || starts_piece(bytes, at, pieces));
    let end = (offset + 1..bytes.len()).find(|&at| starts_piece(bytes, at, pieces));
    (start.expect("a start")..end.unwrap_or(bytes.len())).any(|at| used.any(at..at + 1))
}

fn check_places(pieces: Pieces, sections: &[(Vec<u8>, u8)], used: &UsedOffsets, tails: bool) {
    let (out, _, merges) = used_of(pieces, sections, used, tails);
    for (row, (bytes, align)) in sections.iter().enumerate() {
        for offset in 0..bytes.len() {
            let id = SectionId(row as u32);
            let place = merges.place(id, offset as u64);
            assert_eq!(
                place.is_some(),
                is_used(bytes, offset, pieces, used.of(id)),
                "row {row} offset {offset}"
            );
            assert_eq!(place.is_none(), merges.leaves_out(id, offset as u64), "row {row} offset {offset}");
            let Some((section, place)) = place else { continue };
            assert_eq!(section, SectionId(1000));
            let unit = match pieces {
                Pieces::Strings { unit } => unit as usize,
                Pieces::Constants { size } => size as usize,
            };
            let rest = &bytes[offset..];
            let start = offset.next_multiple_of(unit) - offset;
            let length = match pieces {
                Pieces::Constants { .. } if start == 0 => unit,
                Pieces::Constants { .. } => start,
                Pieces::Strings { .. } => {
                    let whole = rest[start..].chunks_exact(unit).position(|u| u.iter().all(|&b| b == 0));
                    if start > 0 { start } else { (whole.expect("strings end") + 1) * unit }
                }
            };
            assert_eq!(&out[place as usize..][..length], &rest[..length], "row {row} offset {offset}");
            let aligned = offset == 0 || starts_piece(bytes, offset, pieces);
            if aligned {
                let had = if offset == 0 { *align } else { (*align).min(offset.trailing_zeros() as u8) };
                assert_eq!(place % (1 << had), 0, "row {row} offset {offset}");
            }
        }
    }
}

fn starts_piece(bytes: &[u8], offset: usize, pieces: Pieces) -> bool {
    match pieces {
        Pieces::Constants { size } => offset.is_multiple_of(size as usize),
        Pieces::Strings { unit } => {
            let unit = unit as usize;
            offset.is_multiple_of(unit) && bytes[offset - unit..offset].iter().all(|&byte| byte == 0)
        }
    }
}

#[test]
fn a_string_that_ends_another_shares_its_tail_if_asked() {
    let sections = [(b"table\0able\0".to_vec(), 0), (b"stable\0".to_vec(), 0)];
    let sizes = [false, true].map(|tails| merges_of(Pieces::Strings { unit: 1 }, &sections, tails).1);
    assert_eq!(sizes, [6 + 5 + 7, 7]);
}

#[test]
fn pieces_that_nothing_uses_take_no_room() {
    let sections = [(b"usage\0ok\0end\0".to_vec(), 0), (b"ok\0usage\0".to_vec(), 0)];
    let size = |row: u32, bytes| (SectionId(row), NonZeroU32::new(bytes).expect("not 0"));
    let used = UsedOffsets::new(2, &[size(0, 13), size(1, 9)]);
    // One reference to the "k", and one behind the end.
    for offset in [7, 99] {
        used.mark(SectionId(0), offset);
    }
    used.mark_all(SectionId(1));
    let (out, _, merges) = used_of(Pieces::Strings { unit: 1 }, &sections, &used, false);
    assert_eq!(out, b"ok\0end\0usage\0");
    let places = [0, 6, 9].map(|offset| merges.place(SectionId(0), offset).map(|(_, place)| place));
    assert_eq!(places, [None, Some(0), Some(3)]);
    assert_eq!(merges.place(SectionId(1), 3), Some((SectionId(1000), 7)));
}

#[test]
fn equal_strings_are_kept_once() {
    let sections = [(b"one\0two\0".to_vec(), 0), (b"two\0three\0one\0".to_vec(), 0)];
    let (out, ..) = merges_of(Pieces::Strings { unit: 1 }, &sections, false);
    assert_eq!(out, b"one\0two\0three\0");
    check(Pieces::Strings { unit: 1 }, &sections);
}

#[test]
fn the_strictest_occurrence_sets_the_alignment() {
    let sections = [(b"a\0long\0".to_vec(), 0), (b"long\0\0\0\0tail\0".to_vec(), 3)];
    check(Pieces::Strings { unit: 1 }, &sections);
}

#[test]
fn many_sections_give_the_same_bytes_for_any_number_of_threads() {
    let sections: Vec<(Vec<u8>, u8)> = (0..400u32)
        .map(|number| {
            let strings = (0..300u32).map(|n| format!("symbol_{}\0", (n * 30 + number) % 9000));
            (strings.collect::<String>().into_bytes(), 0)
        })
        .collect();
    let run = |threads| {
        let pool = rayon_core::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| merges_of(Pieces::Strings { unit: 1 }, &sections, false).0)
    };
    let one = run(1);
    assert_eq!(one.len(), (0..9000).map(|n| format!("symbol_{n}\0").len()).sum::<usize>());
    assert_eq!(one, run(3));
    assert_eq!(one, run(8));
    check(Pieces::Strings { unit: 1 }, &sections[..20]);
}

#[test]
fn an_offset_behind_the_end_goes_with_the_last_piece() {
    let sections = [(b"ab\0cd\0".to_vec(), 0), (b"ab\0".to_vec(), 0)];
    let (_, _, merges) = merges_of(Pieces::Strings { unit: 1 }, &sections, false);
    assert_eq!(merges.place(SectionId(1), 3), Some((SectionId(1000), 3)));
    assert_eq!(merges.place(SectionId(0), 6), Some((SectionId(1000), 6)));
    assert_eq!(merges.place(SectionId(2), 0), None);
}

#[test]
fn strings_longer_than_a_word_of_bits_are_found_from_any_offset() {
    let lengths = [63, 64, 65, 127, 128, 0, 0, 1000, 62, 1];
    for unit in [1, 2, 4] {
        let string = |length: usize| [vec![b'a'; length * unit], vec![0; unit]].concat();
        let section = |first: usize| lengths[first..].iter().flat_map(|&length| string(length)).collect();
        let sections: Vec<_> = (0..lengths.len()).map(|first| (section(first), 0)).collect();
        check(Pieces::Strings { unit: unit as u32 }, &sections);
    }
}

proptest! {
    #[test]
    fn strings_keep_their_bytes(
        texts in prop::collection::vec((prop::collection::vec(0u8..3, 0..700), 0u8..5), 1..8),
        unit in prop::sample::select(vec![1u32, 2, 4]),
    ) {
        let sections: Vec<_> = texts
            .into_iter()
            .map(|(mut bytes, align)| {
                bytes.truncate(bytes.len() / unit as usize * unit as usize);
                bytes.extend(vec![0; unit as usize]);
                (bytes, align)
            })
            .collect();
        check(Pieces::Strings { unit }, &sections);
    }

    #[test]
    fn constants_keep_their_bytes(
        words in prop::collection::vec((prop::collection::vec(0u8..2, 0..300), 0u8..6), 1..8),
        size in 1u32..20,
    ) {
        let sections: Vec<_> = words
            .into_iter()
            .map(|(mut bytes, align)| {
                bytes.truncate(bytes.len() / size as usize * size as usize);
                bytes.extend(vec![1; size as usize]);
                (bytes, align)
            })
            .collect();
        check(Pieces::Constants { size }, &sections);
    }
}
