//! Compact tables of version 2: what is written is read again at every address, damaged bytes never panic.
#![cfg(feature = "alloc")]

use proptest::prelude::*;
use sframe_format::cfi::{CfiFunction, CfiRow, CfiRows, CfiRuns, RunFunction, Saved};
use sframe_format::compact::{
    Agreed, AgreedRuns, Comparison, Handler, MAX_PERSONALITIES, Personality, write_whole_table,
};
use sframe_format::write::{Inexpressible, LeftOut, Reason};
use sframe_format::{Abi, CompactTable, ErrorKind};

const TABLE: u64 = 0x40_0000;

type Functions = Vec<(u64, CfiFunction, Option<Handler>)>;

/// Compares every answer of a table with the functions that it was made of.
fn compare(abi: Abi, functions: &Functions, bytes: &[u8]) {
    let table = CompactTable::parse(bytes, TABLE).unwrap();
    table.verify().unwrap();
    assert_eq!(table.data(), bytes);
    let comparison = Comparison::new(&table).unwrap().unwrap();
    let (mut rows, mut agreed) = (CfiRows::default(), Agreed::default());
    let (mut runs, mut agreed_runs) = (CfiRuns::default(), AgreedRuns::default());
    let mut says_same = |start: u64, function: &CfiFunction| {
        let function = rows.numbered(function);
        let is_same = comparison.says_same(start, &function, &rows, &mut agreed).unwrap();
        let mut in_runs = RunFunction::default();
        if runs.read(abi, &function, &mut in_runs) {
            let by_runs = comparison.says_same_runs(start, &in_runs, (&runs, &rows), &mut agreed_runs);
            assert_eq!(by_runs, Ok(is_same), "{start:#x}: {function:?}");
        }
        is_same
    };
    for (place, (start, function, handler)) in functions.iter().enumerate() {
        let end =
            functions.get(place + 1).map_or(u64::MAX, |next| next.0).min(start + u64::from(function.size));
        for pc in *start..end {
            let offset = (pc - start) as u32;
            let row = function.rows.iter().rfind(|row| row.start <= offset);
            let found = table.look_up_whole(pc).unwrap();
            assert_eq!(found.is_some(), row.is_some(), "{pc:#x}");
            let Some((row, found)) = row.zip(found) else { continue };
            assert!(found.row(abi).says_same(row), "{pc:#x}: {found:?}, not {row:?}");
            assert_eq!((found.function, found.handler), (*start, *handler), "{pc:#x}");
            assert_eq!((found.rules.signal, found.rules.key_b), (function.signal, function.key_b));
            assert!(found.start <= pc && pc < found.start + u64::from(found.size), "{pc:#x}");
            let last = found.start + u64::from(found.size) - 1;
            assert!(last < end, "{pc:#x}");
            let again = table.look_up_whole(last).unwrap().unwrap();
            assert!(again.row(abi).says_same(row), "{last:#x}");
            // Readers of rules alone find the same.
            let plain = table.lookup(pc).unwrap().unwrap();
            assert_eq!(plain.rules.signal, function.signal);
        }
        assert!(says_same(*start, function), "{start:#x}");
        for other in changes(function) {
            assert!(!says_same(*start, &other), "{start:#x}: {other:?}");
        }
        if let Some((next, ..)) = functions.get(place + 1) {
            let gap = (end..*next).next();
            assert!(gap.is_none_or(|pc| table.look_up_whole(pc).unwrap().is_none()));
        }
    }
}

/// Functions that differ from this one at some address.
fn changes(function: &CfiFunction) -> Vec<CfiFunction> {
    let changed = |change: fn(&mut CfiFunction)| {
        let mut other = function.clone();
        change(&mut other);
        other
    };
    let mut changes = vec![changed(|other| other.size += 1), changed(|other| other.size -= 1)];
    if !function.rows.is_empty() {
        changes.push(changed(|other| other.signal = !other.signal));
        changes.push(changed(|other| other.rows[0].cfa_offset += 8));
        changes.push(changed(|other| other.rows.last_mut().unwrap().args_size += 1));
        changes.push(changed(|other| {
            let (_, saved) = other.rows.last_mut().unwrap().saved.last_mut().unwrap();
            *saved = if *saved == Saved::Undefined { Saved::AtCfa(-8) } else { Saved::Undefined };
        }));
        changes.push(changed(|other| drop(other.rows.remove(0))));
    }
    if let Some(other) = function.rows.windows(2).position(|pair| !pair[0].says_same(&pair[1])) {
        let mut moved = function.clone();
        moved.rows.remove(other + 1);
        changes.push(moved);
    }
    changes
}

/// Whether a table says at every address what a function says.
fn is_said(abi: Abi, table: &CompactTable<&[u8]>, start: u64, function: &CfiFunction) -> bool {
    (start..start + u64::from(function.size)).all(|pc| {
        let row = function.rows.iter().rfind(|row| u64::from(row.start) <= pc - start);
        match (table.look_up_whole(pc), row) {
            (Ok(None), None) => true,
            (Ok(Some(found)), Some(row)) => {
                let flags = (found.rules.signal, found.rules.key_b) == (function.signal, function.key_b);
                flags && found.function == start && found.row(abi).says_same(row)
            }
            _ => false,
        }
    })
}

fn saved() -> impl Strategy<Value = Saved> {
    prop_oneof![
        6 => (-40i64..4).prop_map(|slot| Saved::AtCfa(slot * 8)),
        1 => (-70_000i64..70_000).prop_map(Saved::AtCfa),
        1 => (-300i64..300).prop_map(Saved::CfaPlus),
        1 => (0u32..100).prop_map(Saved::In),
        1 => Just(Saved::Undefined),
    ]
}

fn row(abi: Abi) -> impl Strategy<Value = CfiRow> {
    let registers = prop::collection::btree_map(0u32..100, saved(), 0..7);
    let args_size = prop_oneof![4 => Just(0u64), 1 => 1u64..5000];
    (0u32..33, -200i64..3000, registers, any::<bool>(), args_size).prop_map(
        move |(cfa_register, cfa_offset, mut saved, signed, args_size)| {
            // A lost return address has no form.
            saved.insert(abi.return_address(), Saved::AtCfa(-8));
            let saved = saved.into_iter().collect();
            CfiRow {
                start: 0,
                cfa_register,
                cfa_offset,
                saved,
                signed: signed && abi.is_aarch64(),
                args_size,
            }
        },
    )
}

fn function(abi: Abi) -> impl Strategy<Value = CfiFunction> {
    let size = prop_oneof![4 => 1u32..40, 2 => 40u32..400, 1 => 60_000u32..150_000];
    let pool = prop::collection::vec(row(abi), 1..4);
    let rows = prop_oneof![4 => 1usize..6, 1 => 60usize..140];
    (size, pool, rows, any::<u8>()).prop_map(move |(size, pool, count, flags)| {
        let distance = (size / count as u32).max(1);
        let rows = (0..count as u32).map(|number| {
            let row = &pool[(number as usize * 7 + usize::from(flags)) % pool.len()];
            CfiRow { start: number * distance + u32::from(flags % 5 == 0), ..row.clone() }
        });
        let rows = rows.take_while(|row| row.start < size).collect();
        CfiFunction { size, signal: flags % 7 == 0, key_b: abi.is_aarch64() && flags % 3 == 0, rows }
    })
}

fn handler() -> impl Strategy<Value = Option<Handler>> {
    let personality = (0u64..2, any::<bool>())
        .prop_map(|(number, indirect)| Personality { address: TABLE + 0x9000 + number * 8, indirect });
    let lsda =
        prop_oneof![5 => (0u64..5000).prop_map(Some), 1 => (0u64..200_000).prop_map(Some), 1 => Just(None)];
    let some = (personality, lsda)
        .prop_map(|(personality, lsda)| Handler { personality, lsda: lsda.map(|at| TABLE + 0x1_0000 + at) });
    prop_oneof![2 => Just(None), 3 => some.prop_map(Some)]
}

fn functions(abi: Abi) -> impl Strategy<Value = Functions> {
    let one = (0u64..300, function(abi), handler());
    prop::collection::vec(one, 1..12).prop_map(|list| {
        let mut at = 0x1000;
        let place = |(gap, function, handler): (u64, CfiFunction, Option<Handler>)| {
            // Every fourth gap is one of half a megabyte, so that there are regions.
            let start = at + gap + if gap % 4 == 3 { 1 << 19 } else { 0 };
            at = start + u64::from(function.size);
            (start, function, handler)
        };
        list.into_iter().map(place).collect()
    })
}

fn any_abi() -> impl Strategy<Value = (Abi, Functions)> {
    prop_oneof![Just(Abi::Amd64), Just(Abi::AArch64Little), Just(Abi::AArch64Big), Just(Abi::S390x)]
        .prop_flat_map(|abi| functions(abi).prop_map(move |functions| (abi, functions)))
}

/// The table of functions as far as they have a form: registers above 127 have none, for instance.
fn table_of(abi: Abi, functions: &Functions) -> Vec<u8> {
    write_whole_table(abi, TABLE, functions).unwrap().bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_at_every_address((abi, functions) in any_abi()) {
        compare(abi, &functions, &table_of(abi, &functions));
    }

    #[test]
    fn damaged_tables_are_refused_or_answer(
        (abi, functions) in any_abi(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = table_of(abi, &functions);
        for (place, value) in damage {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        let Ok(table) = CompactTable::parse(&bytes[..], TABLE) else { return Ok(()) };
        let is_valid = table.verify().is_ok();
        if let Ok(Some(comparison)) = Comparison::new(&table) {
            let (mut rows, mut agreed) = (CfiRows::default(), Agreed::default());
            for (start, function, _) in &functions {
                let numbered = rows.numbered(function);
                let is_same = comparison.says_same(*start, &numbered, &rows, &mut agreed).unwrap_or(false);
                prop_assert!(!is_same || !is_valid || is_said(abi, &table, *start, function));
            }
        }
        for pc in (0x1000..0x30_0000).step_by(97) {
            if let Ok(Some(found)) = table.look_up_whole(pc) {
                prop_assert!(found.rules.others.count() <= 32);
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let start = [0x54, 0x43, 0x46, 0x53, 2, 3, 2, 2];
        bytes.splice(..bytes.len().min(8), start);
        if let Ok(table) = CompactTable::parse(&bytes[..], TABLE) {
            let _ = (table.verify(), table.look_up_whole(TABLE));
        }
    }
}

fn one_function(abi: Abi, saved: Vec<(u32, Saved)>) -> Functions {
    let row = CfiRow { cfa_register: abi.stack_pointer(), cfa_offset: 16, saved, ..CfiRow::default() };
    vec![(0x1000, CfiFunction { size: 16, rows: vec![row], ..CfiFunction::default() }, None)]
}

/// All numbers are little-endian, also for s390x.
#[test]
fn one_byte_order_on_every_machine() {
    let saved = |abi: Abi| vec![(abi.return_address(), Saved::AtCfa(-48))];
    let of = |abi| table_of(abi, &one_function(abi, saved(abi)));
    let (big, little) = (of(Abi::S390x), of(Abi::Amd64));
    assert_eq!(big[..4], little[..4]);
    let rules = 64 + 16 + 8..64 + 16 + 16;
    assert_eq!((big[5], &big[rules.clone()]), (4, &little[rules]));
    CompactTable::parse(&big[..], TABLE).unwrap().verify().unwrap();
}

#[test]
fn what_has_no_form_is_refused() {
    let refused = |saved| {
        let mut functions = one_function(Abi::Amd64, saved);
        functions[0].1.rows[0].saved.push((16, Saved::AtCfa(-8)));
        functions[0].1.rows[0].saved.sort_unstable();
        let written = write_whole_table(Abi::Amd64, TABLE, &functions).unwrap();
        let has_functions = CompactTable::parse(&written.bytes[..], TABLE).unwrap().header().entries > 0;
        assert_eq!(has_functions, written.left_out.is_empty());
        !has_functions
    };
    assert!(!refused(vec![(127, Saved::AtCfa(-16))]));
    assert!(refused(vec![(128, Saved::AtCfa(-16))]));
    assert!(refused(vec![(3, Saved::AtCfa(1 << 40))]));
    assert!(refused((20..53).map(|register| (register, Saved::AtCfa(-16))).collect()));
    let far = one_function(Abi::Amd64, vec![(3, Saved::AtCfa(1 << 40)), (16, Saved::AtCfa(-8))]);
    let refusal = Inexpressible { row: Some(0), reason: Reason::NoForm };
    let written = write_whole_table(Abi::Amd64, TABLE, &far).unwrap();
    assert_eq!(written.left_out, [(0, LeftOut::Inexpressible(refusal))]);
}

/// A byte names the routine of a handler, and four bytes lead to it and to its data.
#[test]
fn handlers_that_a_table_cannot_name_are_refused() {
    let of = |handlers: &mut dyn Iterator<Item = (u64, u64)>| {
        let (_, function, _) = one_function(Abi::Amd64, vec![(16, Saved::AtCfa(-8))]).remove(0);
        let place = |(number, (address, lsda))| {
            let personality = Personality { address, indirect: false };
            (number * 16, function.clone(), Some(Handler { personality, lsda: Some(lsda) }))
        };
        let functions: Functions = (0u64..).zip(handlers).map(place).collect();
        write_whole_table(Abi::Amd64, TABLE, &functions).map_err(|error| error.kind)
    };
    let routines = |count: usize| of(&mut (0..count as u64).map(|number| (number, TABLE)));
    assert!(routines(MAX_PERSONALITIES).is_ok());
    let what = "different personality routines";
    assert_eq!(routines(MAX_PERSONALITIES + 1), Err(ErrorKind::CompactFull { what }));
    let far = |what, address| Err(ErrorKind::CompactFar { what, address, table: TABLE });
    let address = TABLE + (1 << 31);
    assert_eq!(of(&mut [(address, TABLE)].into_iter()), far("a personality routine", address));
    // Data counts from the byte before the first, of which the table has the distance.
    let what = "language-specific data";
    assert_eq!(of(&mut [(TABLE, address + 1)].into_iter()), far(what, address));
    let address = TABLE + (1 << 32);
    assert_eq!(of(&mut [(TABLE, TABLE), (TABLE, address)].into_iter()), far(what, address));
    assert!(of(&mut [(TABLE, TABLE), (TABLE, address - 2)].into_iter()).is_ok());
}

/// A lost frame pointer is not an unchanged one.
#[test]
fn a_lost_frame_pointer_is_said() {
    let saved = vec![(6, Saved::Undefined), (16, Saved::AtCfa(-8))];
    let functions = one_function(Abi::Amd64, saved.clone());
    let bytes = table_of(Abi::Amd64, &functions);
    let table = CompactTable::parse(&bytes[..], TABLE).unwrap();
    let found = table.look_up_whole(0x1004).unwrap().unwrap();
    assert_eq!(found.row(Abi::Amd64).saved, saved);
}

/// The largest numbers in the list of continued entries lead nowhere.
#[test]
fn continued_entries_are_checked_up_to_the_largest_number() {
    let mut functions = one_function(Abi::Amd64, vec![(16, Saved::AtCfa(-8))]);
    functions[0].1.size = 200_000;
    let bytes = table_of(Abi::Amd64, &functions);
    let table = CompactTable::parse(&bytes[..], TABLE).unwrap();
    assert_eq!(table.header().whole.continued, 3);
    for word in (table.parts().continued..table.parts().end).step_by(4) {
        let mut damaged = bytes.clone();
        damaged[word..word + 4].fill(0xff);
        assert!(CompactTable::parse(&damaged[..], TABLE).unwrap().verify().is_err(), "{word:#x}");
    }
}

/// A row by a rule that the table does not have is no row without a rule.
#[test]
fn a_comparison_reports_rules_that_are_missing() {
    let mut functions = one_function(Abi::Amd64, vec![(16, Saved::AtCfa(-8))]);
    functions[0].1.rows[0].start = 4;
    let bytes = table_of(Abi::Amd64, &functions);
    let table = CompactTable::parse(&bytes[..], TABLE).unwrap();
    let steps = table.parts().steps..table.parts().starts;
    for step in steps.step_by(2).skip(1) {
        let mut damaged = bytes.clone();
        damaged[step..step + 2].copy_from_slice(&[bytes[step] | 0xf0, 0xff]);
        let table = CompactTable::parse(&damaged[..], TABLE).unwrap();
        let comparison = Comparison::new(&table).unwrap().unwrap();
        let mut rows = CfiRows::default();
        let function = rows.numbered(&functions[0].1);
        let says_same = comparison.says_same(0x1000, &function, &rows, &mut Agreed::default());
        assert!(says_same.is_err(), "{step:#x}");
    }
}

/// The bytes of a test vector of `COMPACT.md`.
fn vector(number: u32) -> String {
    let title = format!("### Test vector {number}");
    let lines = include_str!("../COMPACT.md").lines().skip_while(|&line| line != title);
    let lines = lines.skip_while(|line| !line.starts_with("```")).skip(1);
    let lines = lines.take_while(|line| !line.starts_with("```")).filter_map(|line| line.split('|').next());
    lines.flat_map(|bytes| bytes.chars().filter(|c| !c.is_whitespace())).collect()
}

#[test]
fn the_specified_bytes_are_written() {
    let row = |start, cfa_offset, others: &[(u32, Saved)]| {
        let saved = [others, &[(16, Saved::AtCfa(-8))]].concat();
        CfiRow { start, cfa_register: 7, cfa_offset, saved, ..CfiRow::default() }
    };
    let rows = vec![row(0, 8, &[]), row(1, 16, &[(3, Saved::AtCfa(-16))]), row(30, 8, &[])];
    let saves = CfiFunction { size: 31, rows, ..CfiFunction::default() };
    let lost =
        CfiFunction { size: 16, rows: vec![row(0, 8, &[(6, Saved::Undefined)])], ..CfiFunction::default() };
    let personality = Personality { address: 0x3000, indirect: true };
    let handler = Handler { personality, lsda: Some(0x2801) };
    let functions = vec![(0x1000, saves, Some(handler)), (0x1020, lost, None)];
    let bytes = write_whole_table(Abi::Amd64, 0x2000, &functions).unwrap().bytes;
    let found: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(found, vector(3));
}
