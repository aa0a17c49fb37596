//! A table of rules gives its section's answers, or leaves the answer to the section.

mod common;

use pretty_assertions::assert_eq;
use sframe_format::table::TableAnswer;
use sframe_format::write::{Encoder, Function, Options, write_sorted};
use sframe_format::{
    Abi, BlobMut, CfaRule, FileRows, Frame, FrameAddress, Location, Module, ModuleId, RegisterRule,
    Registers, Row, RuleCache, RuleTable, Rules, SectionIndex, UnwindRules, Unwinder,
};

fn rules(cfa_offset: i64) -> Rules {
    Rules::Frame(Frame {
        cfa: CfaRule::register(7, cfa_offset),
        ra: RegisterRule::Saved(Location::at_cfa(-8)),
        fp: RegisterRule::Unchanged,
        mangled: false,
    })
}

/// A function of 16 bytes with a row for each start and CFA offset.
fn function(rows: &[(u32, i64)]) -> Function {
    let rows = rows.iter().map(|&(start, offset)| Row { start, rules: rules(offset) }).collect();
    Function { size: 16, rows, ..Function::default() }
}

fn section(functions: &[(u64, Function)]) -> Vec<u8> {
    write_sorted(Options::new(Abi::Amd64), 0x9000, functions).unwrap().bytes
}

/// The table's answer for each address, after comparing it with the section.
fn listed(bytes: &[u8], addresses: impl IntoIterator<Item = u64>) -> Vec<Option<i64>> {
    let index = SectionIndex::new(bytes, 0x9000);
    let table = RuleTable::new(&index).unwrap();
    let one = |address| {
        common::exercise::assert_agrees(&table, &index, address);
        match table.find(address) {
            TableAnswer::Row(UnwindRules { rules: Rules::Frame(frame), .. }) => Some(frame.cfa.offset),
            TableAnswer::Row(_) => panic!("{address:#x}"),
            TableAnswer::NoRow => None,
            TableAnswer::Elsewhere => Some(-1),
        }
    };
    addresses.into_iter().map(one).collect()
}

#[test]
fn rows_hold_from_their_start_to_the_next_and_no_farther_than_the_function() {
    let functions = [
        (0x1000, function(&[(0, 8), (1, 16), (12, 8)])),
        (0x1010, function(&[(4, 8), (5, 24)])),
        (0x1030, function(&[(0, 8)])),
    ];
    let addresses = [
        0xfff,
        0x1000,
        0x1001,
        0x100b,
        0x100c,
        0x100f,
        0x1010,
        0x1014,
        0x1015,
        0x101f,
        0x1020,
        0x102f,
        0x1030,
        0x103f,
        0x1040,
        u64::MAX,
    ];
    let expected =
        [0, 8, 16, 16, 8, 8, 0, 8, 24, 24, 0, 0, 8, 8, 0, 0].map(|offset| (offset != 0).then_some(offset));
    assert_eq!(listed(&section(&functions), addresses), expected);
}

#[test]
fn functions_far_apart_share_blocks_and_too_far_ones_have_no_table() {
    let functions = [(0x1000, function(&[(0, 8)])), (0x1000 + 0xf000_0000, function(&[(0, 16), (3, 24)]))];
    let far = 0xf000_1000;
    let expected = [Some(8), None, None, Some(16), Some(24), None];
    assert_eq!(
        listed(&section(&functions), [0x100f, 0x1010, far - 1, far + 2, far + 15, far + 16]),
        expected
    );
    let functions = [(0x1000, Function { size: u32::MAX, ..function(&[(0, 8)]) })];
    assert_eq!(listed(&section(&functions), [0x1000, 0xffff_ffff, 1 << 40]), [Some(8), Some(8), None]);
    let functions = [(0x1000, function(&[(0, 8)])), (1 << 40, function(&[(0, 8)]))];
    let bytes = section(&functions);
    assert!(RuleTable::new(&SectionIndex::new(&*bytes, 0x9000)).is_none());
}

#[test]
fn overlapping_repeating_and_malformed_functions_are_left_to_the_section() {
    let functions = [
        (0x1000, function(&[(0, 8)])),
        (0x1008, function(&[(0, 16)])),
        (0x1020, Function { repeat_size: Some(8), ..function(&[(0, 8), (4, 16)]) }),
        (0x1040, function(&[(0, 32)])),
        (0x1050, function(&[(0, 40)])),
    ];
    let mut bytes = section(&functions);
    let expected = [Some(-1), Some(-1), None, Some(-1), Some(-1), None, Some(32), Some(40)];
    let addresses = [0x1000, 0x1017, 0x1018, 0x1020, 0x102f, 0x1030, 0x1040, 0x1050];
    assert_eq!(listed(&bytes, addresses), expected);
    // The last function's rows are outside.
    let place = 28 + 4 * 16 + 12;
    bytes[place..place + 4].fill(0xff);
    assert_eq!(listed(&bytes, [0x1040, 0x1050, 0x105f, 0x1060]), [Some(32), Some(-1), Some(-1), None]);
}

#[test]
fn shared_rows_cannot_make_a_table_larger_than_its_section_allows() {
    let many: Vec<_> = (0..250).map(|start| (start, 8 + 8 * i64::from(start % 7))).collect();
    let long = Function { size: 256, ..function(&many) };
    let functions: Vec<_> = (0..2000).map(|number| (0x10000 + 256 * number, long.clone())).collect();
    let bytes = write_sorted(Options::new(Abi::Amd64).share(true), 0x9000, &functions).unwrap().bytes;
    let table = RuleTable::new(&SectionIndex::new(&*bytes, 0x9000)).unwrap();
    assert!(bytes.len() < 40_000, "{}", bytes.len());
    assert!(table.size() < 6 * bytes.len() + (256 << 10), "{}", table.size());
    assert_eq!(listed(&bytes, [0x10000, 0x10001, 0x10000 + 256 * 1999]), [Some(8), Some(16), Some(-1)]);
}

#[test]
fn descending_functions_that_claim_to_ascend_have_no_table() {
    for starts in [&[0x2000, 0x1000][..], &[0x1000, 0x3000, 0x2000]] {
        let mut encoder = Encoder::new(Options::new(Abi::Amd64));
        let id = encoder.add(&function(&[(0, 8)])).unwrap();
        let mut bytes = vec![0; encoder.size_with(starts.len())];
        encoder.write_relocatable(&vec![id; starts.len()], true, &mut bytes).unwrap();
        let mut blob = BlobMut::parse(&mut bytes, 0x9000).unwrap();
        for (index, &start) in (0..).zip(starts) {
            blob.set_function_start(index, start).unwrap();
        }
        blob.set_sorted(true);
        assert!(RuleTable::new(&SectionIndex::new(&*bytes, 0x9000)).is_none(), "{starts:x?}");
    }
}

#[test]
fn the_same_row_means_something_else_under_another_header() {
    let blob = |address, at| {
        write_sorted(
            Options::new(Abi::Amd64),
            address,
            &[(at, function(&[(0, 8), (1, 16), (2, 24), (3, 32), (4, 40)]))],
        )
        .unwrap()
        .bytes
    };
    let mut bytes = blob(0x9000, 0x1000);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let second = bytes.len();
    bytes.extend(blob(0x9000 + second as u64, 0x2000));
    // The frame pointer is always saved at CFA - 16.
    bytes[second + 5] = -16i8 as u8;
    assert_eq!(listed(&bytes, [0x1000, 0x2000]), [Some(8), Some(8)]);
}

#[test]
fn concatenated_blobs_have_one_table() {
    let blob = |address, offset| {
        write_sorted(Options::new(Abi::Amd64), address, &[(offset, function(&[(0, 8), (1, 16)]))])
    };
    let mut bytes = blob(0x9000, 0x3000).unwrap().bytes;
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let second = blob(0x9000 + bytes.len() as u64, 0x1000).unwrap().bytes;
    bytes.extend(second);
    assert_eq!(
        listed(&bytes, [0x1000, 0x1001, 0x1010, 0x3000, 0x300f]),
        [8, 16, 0, 8, 16].map(|it| (it != 0).then_some(it))
    );
}

#[test]
fn tables_answer_for_most_bytes_of_every_fixture() {
    let (mut rows, mut all) = (0, 0);
    for fixture in common::all().iter().filter(|fixture| !fixture.relocatable) {
        let index = SectionIndex::new(&*fixture.data, fixture.address);
        let Some(table) = RuleTable::new(&index) else { continue };
        for blob in index.section().blobs() {
            for fde in blob.fdes() {
                for pc in fde.address..fde.address + u64::from(fde.size) {
                    common::exercise::assert_agrees(&table, &index, pc);
                    rows += usize::from(matches!(table.find(pc), TableAnswer::Row(_)));
                    all += 1;
                }
            }
        }
    }
    assert!(rows * 10 > all * 9, "{rows} of {all}");
}

#[test]
fn an_unwinder_asks_the_cache_first_then_the_table_then_the_section() {
    let functions =
        [(0x1000, function(&[(0, 8)])), (0x1010, Function { repeat_size: Some(8), ..function(&[(0, 16)]) })];
    let rows = FileRows::new(section(&functions), 0x9000).tabled();
    let mut unwinder = Unwinder::new(Abi::Amd64);
    unwinder.add_module(Module::new(ModuleId(1), 0x1_1000..0x1_2000, 0x1_0000, rows));
    let mut cache: RuleCache = RuleCache::new();
    let mut step = |pc| {
        let mut registers = Registers::new(0x8000, 0, None);
        let caller = unwinder.unwind_frame(
            FrameAddress::InstructionPointer(pc),
            &mut registers,
            &mut cache,
            &mut |address| Ok(address),
        );
        (caller.ok().flatten().map(|caller| caller.address.address()), cache.statistics())
    };
    assert_eq!(step(0x1_1004), (Some(0x8000), (0, 1)));
    assert_eq!(step(0x1_1014), (Some(0x8008), (0, 2)));
    assert_eq!(step(0x1_1014), (Some(0x8008), (1, 2)));
    assert_eq!(step(0x1_1020), (None, (1, 3)));
}

#[test]
fn a_step_by_known_rules_is_that_of_any_other_or_changes_nothing() {
    // Rules that fit a word, and those of a realigned stack, which do not.
    let flexible = Row {
        rules: Rules::Frame(Frame {
            cfa: CfaRule { dereference: true, ..CfaRule::register(6, -8) },
            ra: RegisterRule::Saved(Location::at_cfa(-8)),
            fp: RegisterRule::Unchanged,
            mangled: false,
        }),
        ..function(&[(0, 8)]).rows[0]
    };
    let functions =
        [(0x1000, function(&[(0, 8)])), (0x1100, Function { rows: vec![flexible], ..function(&[(0, 8)]) })];
    let mut unwinder = Unwinder::new(Abi::Amd64);
    let rows = FileRows::new(section(&functions), 0x9000);
    unwinder.add_module(Module::new(ModuleId(1), 0x1_1000..0x1_2000, 0x1_0000, rows));
    let mut cache: RuleCache = RuleCache::new();
    let start = Registers::new(0x8000, 0x8108, None);
    // Memory: every word is the one above it, up to a last one; a return address of 0; none.
    let memories: [fn(u64) -> Result<u64, ()>; 3] = [|address| Ok(address + 8), |_| Ok(0), |_| Err(())];
    for (pc, fits) in [(0x1_1004, true), (0x1_1104, false), (0x1_1f00, false), (0x9_0000, false)] {
        let at = FrameAddress::InstructionPointer(pc);
        for mut read in memories {
            let mut by_any = start;
            cache.clear();
            let mut known = start;
            assert_eq!(
                unwinder.unwind_known(at, &mut known, &mut cache, &mut read),
                None,
                "not in the cache"
            );
            assert_eq!(known, start);
            let caller = unwinder.unwind_frame(at, &mut by_any, &mut cache, &mut read);
            let (hits, misses) = cache.statistics();
            let step = unwinder.unwind_known(at, &mut known, &mut cache, &mut read);
            let expected = caller.ok().flatten().filter(|_| fits);
            assert_eq!((step, known), (expected, if expected.is_some() { by_any } else { start }), "{pc:#x}");
            assert_eq!(cache.statistics(), (hits + u64::from(step.is_some()), misses));
        }
    }
}
