//! Compact tables give V3's answer for every address, and damage never makes a reader panic.

mod common;

use proptest::prelude::*;
use sframe_format::compact::{
    Builder, CompactTable, HEADER_SIZE, InTurn, Joined, Pages, Shapes, join, write_table,
};
use sframe_format::convert::convert;
use sframe_format::write::{Function, Options, write_sorted};
use sframe_format::{
    Abi, Blob, CfaRule, Frame, Location, RegisterRule, Row, Rules, SectionIndex, UnwindRules, Version,
};

const ADDRESS: u64 = 0x7000_0000;

/// The row of an SFrame section for an address, in the form that a compact table returns.
fn by_section(index: &SectionIndex<&[u8]>, pc: u64) -> Option<UnwindRules> {
    let found = index.lookup(pc).expect("rows are sound")?;
    Some(UnwindRules { abi: found.abi, signal: found.is_signal(), rules: found.row.rules })
}

fn by_table(table: &CompactTable<&[u8]>, pc: u64) -> Option<UnwindRules> {
    let found = table.lookup(pc).expect("the table is sound")?;
    assert!(found.start <= pc && pc - found.start < u64::from(found.size), "{pc:#x}: {found:?}");
    Some(found.rules)
}

/// Makes both tables of functions that V3 can express, and compares the answers around every row.
fn assert_same_answers(abi: Abi, functions: &[(u64, Function)]) {
    let v3 = write_sorted(Options::new(abi), ADDRESS, functions).unwrap();
    let left_out: Vec<usize> = v3.left_out.iter().map(|(place, _)| *place).collect();
    let kept: Vec<(u64, Function)> = (0..)
        .zip(functions)
        .filter(|(place, _)| !left_out.contains(place))
        .map(|(_, function)| function.clone())
        .collect();
    assert_parts_make_the_same(abi, &v3.bytes);
    let index = SectionIndex::new(&v3.bytes[..], ADDRESS);
    let written = write_table(abi, ADDRESS, &kept).unwrap();
    assert_eq!(written.left_out, []);
    let table = CompactTable::parse(&written.bytes[..], ADDRESS).unwrap();
    table.check().unwrap();
    for (start, function) in &kept {
        let rows = function.rows.iter().map(|row| u64::from(row.start));
        let pieces = (0..u64::from(function.size)).step_by(0x8000);
        for offset in rows.chain(pieces).chain([u64::from(function.size)]) {
            for pc in [start + offset, (start + offset).wrapping_sub(1), start + offset + 1] {
                assert_eq!(by_table(&table, pc), by_section(&index, pc), "{pc:#x}");
            }
        }
    }
}

/// Checks that undecoded functions, read in two parts, give the same table as decoded functions that are
/// added one by one.
fn assert_parts_make_the_same(abi: Abi, bytes: &[u8]) {
    let blob = Blob::parse(bytes, ADDRESS).unwrap();
    let fdes: Vec<_> = blob.fdes().collect();
    let mut whole = Builder::new(abi);
    let decoded: Vec<_> = fdes
        .iter()
        .map(|fde| (fde.address, whole.add(&Function::read(&blob, fde).unwrap()).unwrap()))
        .collect();
    let (first, second) = fdes.split_at(fdes.len() / 2);
    let (mut builders, mut uses) = (Vec::new(), Vec::new());
    for (part, half) in [first, second].into_iter().enumerate() {
        let mut builder = Builder::new(abi);
        uses.extend(half.iter().map(|fde| (part, builder.add_encoded(&blob, fde).unwrap().unwrap())));
        builders.push(builder);
    }
    let Joined { collected, numbers, .. } = join(&builders, uses.iter().copied(), &InTurn).unwrap();
    let shapes = uses.iter().map(|&(part, own)| numbers[part][own.0 as usize]);
    let parts: Vec<_> = fdes.iter().map(|fde| fde.address).zip(shapes).collect();
    let table = |shapes: Shapes, functions| shapes.to_bytes(ADDRESS, functions).unwrap();
    let whole = table(whole.finish().unwrap(), &decoded);
    assert!(whole == table(collected.finish().unwrap(), &parts), "the parts make another table");
}

fn rules(cfa: i64, fp: Option<i32>) -> Rules {
    let fp = fp.map_or(RegisterRule::Unchanged, |fp| RegisterRule::Saved(Location::at_cfa(fp)));
    let ra = RegisterRule::Saved(Location::at_cfa(-8));
    Rules::Frame(Frame { cfa: CfaRule::register(7, cfa), ra, fp, mangled: false })
}

fn rows(rows: &[(u32, Rules)]) -> Vec<Row> {
    rows.iter().map(|&(start, rules)| Row { start, rules }).collect()
}

fn push_and_pop() -> Vec<Row> {
    rows(&[(0, rules(8, None)), (1, rules(16, Some(-16))), (30, rules(8, None))])
}

fn function(size: u32, rows: Vec<Row>) -> Function {
    Function { size, rows, ..Function::default() }
}

#[test]
fn padding_between_functions_has_no_row() {
    let functions = [(0x1000, function(31, push_and_pop())), (0x1020, function(31, push_and_pop()))];
    assert_same_answers(Abi::Amd64, &functions);
    let written = write_table(Abi::Amd64, ADDRESS, &functions).unwrap();
    let table = CompactTable::parse(&written.bytes[..], ADDRESS).unwrap();
    assert_eq!(by_table(&table, 0x101f), None);
    assert_eq!(table.pieces().count(), 2);
    let shapes: Vec<usize> = table.pieces().map(|piece| piece.shape_offset()).collect();
    assert_eq!(shapes[0], shapes[1], "equal functions share their shape");
}

#[test]
fn long_functions_are_pieces_with_the_same_answers() {
    let many = (0..300).map(|row| (row * 3, rules(8 + i64::from(row % 7) * 8, None))).collect::<Vec<_>>();
    let functions = [
        (0x1000, function(0x2_0000, push_and_pop())),
        (0x2_1000, function(900, rows(&many))),
        (0x100_0000, function(0x35_4321, rows(&[(0, rules(8, None)), (0x11_0000, rules(24, None))]))),
        (0x9_0000_0000, function(16, rows(&[(4, rules(8, None))]))),
    ];
    assert_same_answers(Abi::Amd64, &functions);
}

/// A function may reach to the last address and beyond. Only a damaged one does, but both forms give the same
/// answer for it.
#[test]
fn the_last_address_has_a_row() {
    for size in [0xffff, 0x1_0000, 0x1_0001, 0x7f00_0000] {
        let last = function(size, rows(&[(0, rules(8, None))]));
        let start = u64::MAX - 0xffff;
        let written = write_table(Abi::Amd64, ADDRESS, &[(start, last)]).unwrap();
        let table = CompactTable::parse(&written.bytes[..], ADDRESS).unwrap();
        table.check().unwrap();
        for pc in [start - 1, start, u64::MAX - 1, u64::MAX, 0] {
            let covered = pc >= start && pc - start < size.into();
            assert_eq!(by_table(&table, pc).is_some(), covered, "{size:#x} bytes, {pc:#x}");
        }
    }
}

#[test]
fn repetitions_are_kept_as_such() {
    for (size, repeat) in [(160, 16), (0x4_0000, 16), (100, 48), (0x2_0000 + 5, 7), (16, 16), (10, 16)] {
        let plt = rows(&[(0, rules(8, None)), (6, rules(16, None))]);
        let plt = Function { size, repeat_size: Some(repeat), rows: plt, ..Function::default() };
        let after = (0x1000 + u64::from(size), function(20, push_and_pop()[..1].to_vec()));
        assert_same_answers(Abi::Amd64, &[(0x1000, plt), after]);
    }
}

#[test]
fn a_function_ends_where_the_next_begins() {
    let one = rows(&[(0, rules(8, None))]);
    let functions = [
        (0x1000, function(0x5_0000, one.clone())),
        (0x1800, function(4, push_and_pop()[..1].to_vec())),
        (0x1_2000, function(4, one)),
    ];
    assert_same_answers(Abi::Amd64, &functions);
}

#[test]
fn outermost_and_signal_frames_are_told() {
    let signal = Function { signal: true, ..function(9, rows(&[(0, rules(8, Some(-16)))])) };
    let context = Function { signal: true, ..function(9, rows(&[(0, Rules::SignalContext)])) };
    let outermost = function(40, rows(&[(0, Rules::Outermost), (3, rules(8, None))]));
    assert_same_answers(Abi::Amd64, &[(0x1000, signal), (0x1010, context), (0x1020, outermost)]);
}

#[test]
fn more_rules_than_narrow_steps_hold_make_steps_wide() {
    let functions: Vec<(u64, Function)> = (0..5000u64)
        .map(|n| (0x1000 + n * 16, function(16, rows(&[(0, rules(8 + n as i64 * 8, None))]))))
        .collect();
    assert_same_answers(Abi::Amd64, &functions);
    let written = write_table(Abi::Amd64, ADDRESS, &functions).unwrap();
    assert_eq!(CompactTable::parse(&written.bytes[..], 0).unwrap().header().step_width, 4);
}

#[test]
fn a_size_without_addresses_suffices() {
    let mut builder = Builder::new(Abi::Amd64);
    let shape = builder.add(&function(0x300, push_and_pop())).unwrap();
    let shapes = builder.finish().unwrap();
    // Ranges near and far, of any size, with functions anywhere in them.
    for (first, second, step) in
        [(0, 0x10_0000, 0x1000), (0x5000, 0x18_0000, 0x5_0001), (7, 0x900_0000, 0x9_ffff)]
    {
        let ranges = [first..first + 0xf_fff0u64, second..second + 0x14_0000];
        let functions: Vec<_> = ranges
            .iter()
            .flat_map(|range| range.clone().step_by(step).filter(|at| at + 0x300 <= range.end))
            .map(|at| (at, shape))
            .collect();
        let entries = functions.len() as u64 * shapes.entries(shape);
        let size = shapes.size(Pages::of_ranges(ranges), entries);
        let mut bytes = vec![1; size as usize];
        let length = shapes.write(ADDRESS, &functions, &mut bytes).unwrap();
        let table = CompactTable::parse(&bytes[..], ADDRESS).unwrap();
        assert_eq!(table.check().unwrap().rows, 3 * functions.len() as u64);
        assert!(bytes[length..].iter().all(|&byte| byte == 0));
    }
}

/// The bytes of a test vector of `COMPACT.md`.
fn vector(number: u32) -> String {
    let title = format!("## Test vector {number}");
    include_str!("../COMPACT.md")
        .lines()
        .skip_while(|&line| line != title)
        .skip_while(|line| !line.starts_with("```"))
        .skip(1)
        .take_while(|line| !line.starts_with("```"))
        .filter_map(|line| line.split('|').next())
        .flat_map(|bytes| bytes.chars().filter(|c| !c.is_whitespace()))
        .collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_specified_bytes_are_written() {
    let written = write_table(Abi::Amd64, 0x2000, &[(0x1000, function(31, push_and_pop()))]).unwrap();
    assert_eq!(hexadecimal(&written.bytes), vector(1));
    let frame = |register, offset, ra| {
        let cfa = CfaRule::register(register, offset);
        Rules::Frame(Frame { cfa, ra, fp: RegisterRule::Unchanged, mangled: false })
    };
    let unchanged = RegisterRule::Unchanged;
    let jumps = rows(&[(0, frame(15, 160, unchanged)), (4, frame(15, 168, unchanged))]);
    let jumps = Function { repeat_size: Some(32), ..function(64, jumps) };
    let in_f0 = RegisterRule::Saved(Location::in_register(16));
    let far = function(300, rows(&[(0, frame(11, 2_000_000, in_f0))]));
    let written = write_table(Abi::S390x, 0x1_0000, &[(0x1000, jumps), (0x10_0000, far)]).unwrap();
    assert_eq!(hexadecimal(&written.bytes), vector(2));
}

#[test]
fn every_fixture_gives_its_own_answers() {
    let mut any = 0;
    for fixture in common::all().into_iter().filter(|fixture| !fixture.data.is_empty()) {
        let section = sframe_format::Section::new(&fixture.data, fixture.address);
        let Some(abi) = section.blobs().next().map(|blob| blob.header().abi) else { continue };
        let options = Options::new(abi).version(Version::V3);
        let Ok(v3) = convert(&section, options, ADDRESS) else { continue };
        let blob = sframe_format::Blob::parse(&v3.bytes, ADDRESS).unwrap();
        let functions: Vec<(u64, Function)> =
            blob.fdes().map(|fde| (fde.address, Function::read(&blob, &fde).unwrap())).collect();
        any += functions.len();
        assert_same_answers(abi, &functions);
    }
    assert!(any > 100, "{any} functions");
}

#[test]
fn damage_of_any_byte_is_survived() {
    let plt = Function {
        size: 64,
        repeat_size: Some(16),
        rows: rows(&[(0, rules(8, None)), (6, rules(16, None))]),
        ..Function::default()
    };
    let flexible = rows(&[(0, rules(8, None)), (4, rules(1 << 30, Some(-1 << 20)))]);
    let functions = [
        (0x1000, function(31, push_and_pop())),
        (0x1020, plt),
        (0x2_0000, function(0x3_0000, flexible)),
        (0x90_0000, function(31, push_and_pop())),
    ];
    let sound = write_table(Abi::Amd64, ADDRESS, &functions).unwrap().bytes;
    for at in 0..sound.len() {
        for value in 0..=255 {
            let mut bytes = sound.clone();
            bytes[at] = value;
            common::exercise::compact(&[&ADDRESS.to_le_bytes(), &bytes[..]].concat());
        }
    }
    for length in 0..sound.len() {
        assert!(CompactTable::parse(&sound[..length], 0).is_err(), "{length}");
    }
    assert!(sound.len() > HEADER_SIZE);
}

/// Rows of an entry, and one more for the error.
const MAX_ROWS_READ: usize = sframe_format::compact::MAX_ROWS + 2;

/// Whatever a shape says, its rows come to an end, and so do the entries.
#[test]
fn rows_and_entries_of_damaged_tables_are_bounded() {
    let many: Vec<(u32, Rules)> =
        (0..64).map(|row| (row * 20, rules(8 + 8 * i64::from(row), None))).collect();
    let functions = [(0x1000, function(31, push_and_pop())), (0x2_0000, function(1300, rows(&many)))];
    let sound = write_table(Abi::Amd64, ADDRESS, &functions).unwrap().bytes;
    let mut longest = 0;
    for at in 0..sound.len() {
        for value in [0, 1, 0x0f, 0x7f, 0x80, 0xe0, 0xff] {
            let mut bytes = sound.clone();
            bytes[at] = value;
            let Ok(table) = CompactTable::parse(&bytes[..], ADDRESS) else { continue };
            let entries = table.header().entries as usize;
            assert!(table.pieces().take(entries + 1).count() <= entries);
            for piece in table.pieces() {
                let rows = piece.rows().take(MAX_ROWS_READ + 1).count();
                assert!(rows <= MAX_ROWS_READ, "{rows} rows");
                longest = longest.max(rows);
            }
        }
    }
    assert!(longest > 64, "no damaged entry had more rows than a sound one: {longest}");
}

/// If regions refer to the same pages again and again, a walk must not visit each page once for each region.
#[test]
fn pages_are_walked_over_once() {
    let functions = [0, 0x1000_0000, 0x2000_0000].map(|at| (0x1000 + at, function(31, push_and_pop())));
    let sound = write_table(Abi::Amd64, ADDRESS, &functions).unwrap().bytes;
    let table = CompactTable::parse(&sound[..], ADDRESS).unwrap();
    let (header, parts) = (*table.header(), *table.parts());
    assert_eq!((header.regions, header.pages, table.pieces().count()), (3, 3, 3));
    let mut bytes = sound.clone();
    // Both regions refer to the pages of the first two.
    for region in [parts.regions, parts.regions + 16] {
        bytes[region + 8..region + 16].copy_from_slice(&2u64.to_le_bytes());
    }
    let table = CompactTable::parse(&bytes[..], ADDRESS).unwrap();
    assert!(table.check().is_err());
    // The walk has visited as many pages as the table has before it comes to the third region.
    assert_eq!(table.pieces().count(), 2);
}

fn location() -> impl Strategy<Value = RegisterRule> {
    prop_oneof![
        Just(RegisterRule::Unchanged),
        (-4000..4000i32).prop_map(|offset| RegisterRule::Saved(Location::at_cfa(offset * 8))),
        (0..20u32).prop_map(|register| RegisterRule::Saved(Location::in_register(register))),
    ]
}

fn any_rules(abi: Abi) -> impl Strategy<Value = Rules> {
    let frame = (0..3u8, 0..2_000_000i64, location(), location(), any::<bool>());
    let frame = frame.prop_map(move |(register, offset, ra, fp, mangled)| {
        let register = [abi.stack_pointer(), abi.frame_pointer(), 3][usize::from(register)];
        // x86-64 rows cannot leave the return address in its register.
        let ra = match ra {
            RegisterRule::Unchanged if abi == Abi::Amd64 => RegisterRule::Saved(Location::at_cfa(-8)),
            ra => ra,
        };
        let cfa = CfaRule::register(register, offset * 8);
        Rules::Frame(Frame { cfa, ra, fp, mangled: mangled && abi.is_aarch64() })
    });
    prop_oneof![9 => frame, 1 => Just(Rules::Outermost)]
}

fn any_functions() -> impl Strategy<Value = (Abi, Vec<(u64, Function)>)> {
    let abi =
        prop_oneof![Just(Abi::Amd64), Just(Abi::AArch64Little), Just(Abi::AArch64Big), Just(Abi::S390x)];
    abi.prop_flat_map(|abi| {
        let gaps = prop_oneof![3 => 1..40u32, 1 => 1..100_000u32];
        let rows = prop::collection::vec((gaps, any_rules(abi)), 1..90);
        let repeat = prop::option::weighted(0.1, 1..=255u8);
        let function = (0..3u32, rows, 1..70_000u32, any::<bool>(), repeat);
        let function = function.prop_map(|(first, rows, tail, signal, repeat_size)| {
            let mut start = first;
            let row = |(gap, rules)| {
                let row = Row { start, rules };
                start += gap;
                row
            };
            let mut rows: Vec<Row> = rows.into_iter().map(row).collect();
            if let Some(repeat) = repeat_size {
                rows.retain(|row| row.start < u32::from(repeat));
            }
            Function { size: start + tail, signal, repeat_size, rows, ..Function::default() }
        });
        let gap = prop_oneof![3 => 0..64u64, 1 => 0..0x20_0000u64];
        (Just(abi), prop::collection::vec((gap, function), 1..10))
    })
    .prop_map(|(abi, functions)| {
        let mut address = 0x40_0000;
        let place = |(gap, function): (u64, Function)| {
            let start = address + gap;
            address = start + u64::from(function.size);
            (start, function)
        };
        (abi, functions.into_iter().filter(|(_, f)| !f.rows.is_empty()).map(place).collect())
    })
}

proptest! {
    #[test]
    fn any_functions_have_the_answers_of_v3((abi, functions) in any_functions()) {
        assert_same_answers(abi, &functions);
    }
}
