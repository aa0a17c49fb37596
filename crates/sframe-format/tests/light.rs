//! Units, the light linking form: the vectors of `LIGHT.md`, and the same rows as in V3.

mod common;

use sframe_format::convert::convert;
use sframe_format::light::{UNIT_HEADER_SIZE, Unit};
use sframe_format::verify::{Context, FindingKind, verify};
use sframe_format::write::{Encoder, Function, Options};
use sframe_format::{
    Abi, BlobMut, CfaRule, ErrorKind, Frame, Location, Piece, RegisterRule, Rules, Section, SectionIndex,
    Version,
};

const X86_64: &str = "11 de 01 00 37 00 00 00 03 00 f8 00 \
    f4 0f 00 00 00 00 00 00 10 00 00 00 02 00 00 00 00  00 03 08  01 05 10 f0 \
    ec 0f 00 00 00 00 00 00 04 00 00 00 01 00 00 00 00  00 00";
const S390X: &str = "de 11 01 00 00 00 00 20 04 00 00 00 \
    00 00 00 00 00 00 10 00 00 00 00 08 00 01 00 00 00  00 03 00";
const UNKNOWN: &str = "11 de 09 00 0d 00 00 00 aa aa aa aa aa";

fn bytes(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

fn frame(register: u32, cfa: i64, fp: RegisterRule, ra: RegisterRule) -> Rules {
    Rules::Frame(Frame { cfa: CfaRule::register(register, cfa), ra, fp, mangled: false })
}

#[test]
fn the_vectors_say_what_the_specification_says() {
    let data = bytes(X86_64);
    let section = Section::new(&data, 0x1000).strict();
    let rules = |pc| section.lookup(pc).unwrap().map(|found| found.row.rules);
    let (ra, fp) = (RegisterRule::Saved(Location::at_cfa(-8)), RegisterRule::Saved(Location::at_cfa(-16)));
    assert_eq!(rules(0x2000), Some(frame(7, 8, RegisterRule::Unchanged, ra)));
    assert_eq!(rules(0x200f), Some(frame(7, 16, fp, ra)));
    assert_eq!(rules(0x2010), Some(Rules::Outermost));
    assert_eq!(rules(0x2014), None);
    assert!(verify(&section, &Context { abi: Some(Abi::Amd64), ..Context::default() }).is_empty());

    let data = bytes(S390X);
    let section = Section::new(&data, 0).strict();
    let found = section.lookup(0x100c).unwrap().unwrap();
    assert_eq!(found.abi, Abi::S390x);
    let unchanged = RegisterRule::Unchanged;
    assert_eq!(found.row.rules, frame(15, 160, unchanged, unchanged));
}

/// Units start at any byte, with zeros between them. Blobs after them start at a multiple of 8.
#[test]
fn a_walk_goes_from_unit_to_unit_by_their_lengths() {
    let (known, unknown) = (bytes(X86_64), bytes(UNKNOWN));
    let mut blob = vec![0xe2, 0xde, 3, 4, 3, 0, 0xf8];
    blob.resize(28, 0);
    let mut data = [&known[..], &unknown, &[0; 3], &known].concat();
    data.resize(data.len().next_multiple_of(8), 0);
    let end = data.len();
    data.extend(blob);
    let pieces: Vec<_> = Section::new(&data, 0).pieces().collect();
    let seen = pieces.iter().map(|piece| match piece {
        Piece::Blob(blob) => (blob.offset(), blob.data().len(), blob.header_offset()),
        Piece::Gap(gap) => {
            assert_eq!(gap.error.kind, ErrorKind::UnitVersion { found: 9 });
            assert_eq!(gap.error.kind.unknown_version(), Some(9));
            (gap.offset, gap.length, gap.offset)
        }
    });
    let second = known.len() + unknown.len() + 3;
    let expected = [
        (12, 24, 0),
        (36, 19, 0),
        (known.len(), 13, known.len()),
        (second + 12, 24, second),
        (second + 36, 19, second),
        (end, 28, end),
    ];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
}

#[test]
fn a_broken_function_ends_its_unit_only() {
    let known = bytes(X86_64);
    let mut broken = known.clone();
    // The word size code of the first row.
    broken[30] |= 0x60;
    let data = [broken, known.clone()].concat();
    let section = Section::new(&data, 0);
    let gaps = section.pieces().filter_map(|piece| match piece {
        Piece::Gap(gap) => Some((gap.offset, gap.length, gap.error.kind)),
        Piece::Blob(_) => None,
    });
    assert_eq!(gaps.collect::<Vec<_>>(), [(12, known.len() - 12, ErrorKind::DataWordSize { found: 3 })]);
    assert_eq!(section.blobs().count(), 2);
    let findings = verify(&section, &Context::default());
    assert!(
        findings.iter().any(|finding| matches!(finding.kind, FindingKind::Gap(_)) && finding.offset == 30)
    );
    let mut long = bytes(X86_64);
    long[4] = 0xff;
    let kind = Section::new(&long, 0).pieces().next();
    let Some(Piece::Gap(gap)) = kind else { panic!("{kind:?}") };
    assert!(matches!(gap.error.kind, ErrorKind::Truncated { what: "unit", needed: 0xff, available: 0x37 }));
    assert_eq!((gap.offset, gap.length), (0, 0x37));
}

#[test]
fn a_dead_function_covers_nothing() {
    let mut data = bytes(X86_64);
    let section = Section::new(&data, 0x1000);
    let header = *section.blobs().nth(1).unwrap().header();
    let mut blob = BlobMut::with_header(header, &mut data[36..], 0x1024);
    blob.set_function_start(0, 0x3000).unwrap();
    blob.set_sorted(true);
    blob.mark_dead(&[0]).unwrap();
    assert_eq!(blob.as_blob().function_address(0), Some(0x1024));
    assert_eq!(data[36..48], [0; 12]);
    let mut unchanged = bytes(X86_64);
    unchanged[36..48].fill(0);
    assert_eq!(data, unchanged);
    assert_eq!(SectionIndex::new(data, 0x1000).lookup(0x1024), Ok(None));
}

/// The functions of a blob as a unit, with its start fields filled for a section at `address`.
fn unit(blob: &sframe_format::Blob<'_>, address: u64) -> Option<Vec<u8>> {
    let mut encoder = Encoder::new(Options::new(blob.header().abi));
    let (mut ids, mut starts) = (Vec::new(), Vec::new());
    for fde in blob.fdes() {
        ids.push(encoder.add(&Function::read(blob, &fde).ok()?).ok()?);
        starts.push(fde.address);
    }
    let mut out = Vec::new();
    let places = encoder.write_unit(&ids, &mut out).unwrap();
    for (place, start) in places.into_iter().zip(starts) {
        let value = start.wrapping_sub(address + u64::from(place)) as i64;
        out[place as usize..][..8].copy_from_slice(&blob.header().endian.i64_bytes(value));
    }
    Some(out)
}

/// Converts every linked fixture to units, compares the answers, and converts back to the same V3.
#[test]
fn units_answer_as_blobs_do() {
    let mut compared = 0;
    for fixture in common::all().iter().filter(|fixture| fixture.address != 0) {
        let section = Section::new(&fixture.data, fixture.address);
        let Some(blob) = section.blobs().next().filter(|blob| blob.header().fde_count > 0) else { continue };
        let Some(data) = unit(&blob, 0x77_0001) else { continue };
        let abi = blob.header().abi;
        let light = Section::new(&data, 0x77_0001).strict();
        let index = SectionIndex::new(&data[..], 0x77_0001);
        assert!(index.gaps().is_empty());
        for fde in blob.fdes().filter(|fde| fde.size != 0) {
            for pc in
                [fde.address, fde.address + u64::from(fde.size / 2), fde.address + u64::from(fde.size) - 1]
            {
                let row = |section: &Section<'_>| section.lookup(pc).unwrap().map(|found| found.row.rules);
                assert_eq!(
                    row(&light),
                    row(&Section::new(blob.data(), blob.address())),
                    "{}: {pc:#x}",
                    fixture.name()
                );
                assert_eq!(index.lookup(pc).unwrap().map(|found| found.row.rules), row(&light));
                compared += 1;
            }
        }
        let options = Options::new(abi);
        let blob = Section::new(blob.data(), blob.address());
        let (ours, theirs) = (convert(&light, options, 0).unwrap(), convert(&blob, options, 0).unwrap());
        assert_eq!(ours.bytes, theirs.bytes, "{}", fixture.name());
    }
    assert!(compared > 300, "{compared}");
}

/// Makes every single-bit change in every byte of a small section, and every truncation. There must be no
/// panic and no endless walk, and the pieces must cover the section in ascending order.
#[test]
fn damage_never_panics() {
    let whole = [bytes(X86_64), bytes(UNKNOWN), vec![0; 2], bytes(S390X), bytes(X86_64)].concat();
    let exercise = |data: &[u8]| {
        let section = Section::new(data, u64::MAX - 40);
        let mut end = 0;
        for piece in section.pieces() {
            let (start, length) = match piece {
                Piece::Blob(blob) => (blob.offset(), blob.data().len()),
                Piece::Gap(gap) => (gap.offset, gap.length),
            };
            assert!(start >= end && length > 0);
            end = start + length;
        }
        assert!(end <= data.len());
        let _ = (section.lookup(0x2000), SectionIndex::new(data, 0x1000).lookup(0x2000));
        verify(&section, &Context::default());
        let _ = convert(&section, Options::new(Abi::Amd64), 0);
    };
    for at in 0..whole.len() {
        exercise(&whole[..at]);
        for value in 0..=255 {
            let mut data = whole.clone();
            data[at] = value;
            exercise(&data);
        }
    }
}

#[test]
fn a_unit_is_refused_where_v3_rows_are_not_written() {
    let encoder = Encoder::new(Options::new(Abi::Amd64).version(Version::V2));
    let mut out = vec![1];
    assert_eq!(encoder.write_unit(&[], &mut out).unwrap_err().kind, ErrorKind::UnitVersion { found: 2 });
    assert_eq!(out, [1]);
    let empty = Encoder::new(Options::new(Abi::S390x));
    out.clear();
    assert!(empty.write_unit(&[], &mut out).unwrap().is_empty());
    assert_eq!(Unit::parse(&out).unwrap().length as usize, UNIT_HEADER_SIZE);
}
