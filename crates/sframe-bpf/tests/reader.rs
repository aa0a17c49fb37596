//! Tests that the look-ups of the kernel's program give the same answers as this crate: the C code, compiled
//! for this machine, answers for every address. If the compiler has sanitizers, they watch it.

mod common;

use object::{Object, ObjectSection};
use sframe_bpf::layout::Table;
use sframe_format::compact::write_table;
use sframe_format::write::Function;
use sframe_format::{
    Abi, Base, CfaRule, CompactTable, Frame, Location, RegisterRule, Row, Rules, UnwindRules, derive,
};
use std::path::{Path, PathBuf};

/// The answers of `enum answer`.
const FOUND: u64 = 0;
const NO_ROW: u64 = 1;

/// What the C code says about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    answer: u64,
    word: u64,
}

/// Compiles the reader.
fn reader(folder: &Path) -> PathBuf {
    common::compile(folder, "reader")
}

/// A table, in the loader's description, and the addresses to look up.
struct Question<'a> {
    bytes: &'a [u8],
    table: Table,
    addresses: &'a [u64],
}

/// What the C code says about each address of each table.
fn ask(program: &Path, questions: &[Question<'_>]) -> Vec<Vec<Answer>> {
    let mut input = Vec::new();
    for Question { bytes, table, addresses } in questions {
        input.extend((bytes.len() as u64).to_ne_bytes());
        input.extend(table.to_bytes());
        input.extend_from_slice(bytes);
        input.extend((addresses.len() as u64).to_ne_bytes());
        input.extend(addresses.iter().flat_map(|address| address.to_ne_bytes()));
    }
    let output = common::run(program, input);
    let mut answers = output.as_chunks::<3>().0.iter().map(|&[answer, word, loads]| {
        assert!(loads <= common::MAX_LOADS, "{loads} loads for one look-up");
        Answer { answer, word }
    });
    let all = questions.iter().map(|question| answers.by_ref().take(question.addresses.len()).collect());
    let all: Vec<Vec<Answer>> = all.collect();
    assert!(questions.iter().zip(&all).all(|(question, answers)| question.addresses.len() == answers.len()));
    all
}

/// The rules that a word means, decoded by `COMPACT.md`.
fn rules(word: u64, table: &CompactTable<&[u8]>) -> UnwindRules {
    let field = |shift: u32, bits: u32| (word << (64 - bits - shift)) as i64 >> (64 - bits);
    let flag = |bit: u32| word >> bit & 1 != 0;
    let saved = |bit: u32, offset: i64| {
        if flag(bit) { RegisterRule::Saved(Location::at_cfa(offset as i32)) } else { RegisterRule::Unchanged }
    };
    let plain = |rules| UnwindRules { abi: Abi::Amd64, signal: false, rules };
    match word >> 61 {
        1 => plain(Rules::Frame(Frame {
            cfa: CfaRule::register(if flag(52) { 6 } else { 7 }, field(0, 22)),
            ra: saved(53, field(38, 14)),
            fp: saved(54, field(22, 16)),
            mangled: flag(55),
        })),
        2 => plain(Rules::Outermost),
        3 => long_rules(&table.data()[table.parts().long_rules + word as u32 as usize * 32..]),
        kind => panic!("rule of kind {kind}"),
    }
}

fn long_rules(bytes: &[u8]) -> UnwindRules {
    let word = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().unwrap());
    let saved = |how: u8, at: usize| {
        let base = if how & 2 == 0 { Base::Cfa } else { Base::Register(word(at)) };
        match how & 1 {
            0 => RegisterRule::Unchanged,
            _ => {
                RegisterRule::Saved(Location { base, offset: word(at + 4) as i32, dereference: how & 4 != 0 })
            }
        }
    };
    let rules = match bytes[31] {
        1 => Rules::Frame(Frame {
            cfa: CfaRule {
                register: word(8),
                dereference: bytes[28] & 1 != 0,
                offset: i64::from_le_bytes(*bytes.first_chunk().unwrap()),
            },
            ra: saved(bytes[29], 12),
            fp: saved(bytes[30], 20),
            mangled: bytes[28] & 2 != 0,
        }),
        2 => Rules::Outermost,
        _ => Rules::SignalContext,
    };
    UnwindRules { abi: Abi::Amd64, signal: bytes[28] & 4 != 0, rules }
}

/// A table in memory that follows others. Returns all of it.
fn placed(table: &[u8], place: u32) -> Vec<u8> {
    [vec![0xa5; place as usize], table.to_vec()].concat()
}

fn addresses(table: &CompactTable<&[u8]>) -> Vec<u64> {
    let mut all = Vec::new();
    for piece in table.pieces() {
        all.extend(piece.address - 2..piece.address + u64::from(piece.size().unwrap()) + 2);
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Asks both readers about every address.
#[track_caller]
fn compare(bytes: &[u8], address: u64) {
    let folder = tempfile::tempdir().unwrap();
    let program = reader(folder.path());
    let table = CompactTable::parse(bytes, address).unwrap();
    table.check().unwrap();
    let all = addresses(&table);
    let place = 4096;
    let described = Table::new(&table, place).unwrap();
    let question = Question { bytes: &placed(bytes, place), table: described, addresses: &all };
    let answers = ask(&program, &[question]).remove(0);
    assert!(agree(&table, &all, &answers) > 0);
}

/// Checks that the C code's answers are those of a sound table. Returns how many rows were found.
#[track_caller]
fn agree(table: &CompactTable<&[u8]>, addresses: &[u64], answers: &[Answer]) -> usize {
    let mut found = 0;
    for (&pc, &Answer { answer, word }) in addresses.iter().zip(answers) {
        let expected = table.lookup(pc).unwrap().map(|row| row.rules);
        let said = match answer {
            FOUND => Some(rules(word, table)),
            NO_ROW => None,
            other => panic!("{pc:#x}: answer {other}"),
        };
        assert_eq!(said, expected, "{pc:#x}");
        found += usize::from(said.is_some());
    }
    found
}

fn frame(offset: i64) -> Rules {
    Rules::Frame(Frame {
        cfa: CfaRule::register(7, offset),
        ra: RegisterRule::Saved(Location::at_cfa(-8)),
        fp: RegisterRule::Unchanged,
        mangled: false,
    })
}

fn function(size: u32, rows: &[(u32, Rules)]) -> Function {
    Function {
        size,
        rows: rows.iter().map(|&(start, rules)| Row { start, rules }).collect(),
        ..Function::default()
    }
}

/// Functions of all kinds: repeating rows, many rows, many bytes, far apart, rules that fit no word, a signal
/// frame.
fn functions() -> Vec<(u64, Function)> {
    let odd = Rules::Frame(Frame {
        cfa: CfaRule { register: 10, dereference: true, offset: -8 },
        ra: RegisterRule::Saved(Location::at_cfa(-8)),
        fp: RegisterRule::Saved(Location { base: Base::Register(6), offset: 0, dereference: true }),
        mangled: false,
    });
    let many: Vec<(u32, Rules)> = (0..300).map(|row| (row * 3, frame(8 + 8 * i64::from(row % 50)))).collect();
    let table = Function { repeat_size: Some(16), ..function(4000, &[(0, frame(16)), (6, frame(24))]) };
    let signal = Function { signal: true, ..function(9, &[(0, odd)]) };
    let mut all = vec![
        (0x1000, function(31, &[(0, frame(8)), (1, frame(16)), (30, frame(8))])),
        (0x1100, function(1000, &many)),
        (0x2000, table),
        (0x3ff0, function(90_000, &[(0, frame(8)), (70_000, frame(4_000_000)), (89_999, Rules::Outermost)])),
        (0x50_0000, function(40, &[(0, odd), (20, frame(1 << 40))])),
        (0x50_0040, signal),
        (0x7000_0000, function(5, &[(2, frame(8))])),
    ];
    // Enough different functions for long step numbers and for several pages.
    for number in 0..9000u32 {
        let rows = [(0, frame(8)), (1 + number % 20, frame(16 + 8 * i64::from(number)))];
        all.push((0x60_0000 + u64::from(number) * 24, function(23, &rows)));
    }
    all
}

#[test]
fn rows_of_all_kinds_are_found_as_the_crate_finds_them() {
    let functions = functions();
    for address in [0, 0x9000_0000] {
        compare(&write_table(Abi::Amd64, address, &functions).unwrap().bytes, address);
    }
}

#[test]
fn every_address_of_the_c_library_is_found_as_the_crate_finds_it() {
    let path = Path::new("/usr/lib/x86_64-linux-gnu/libc.so.6");
    // On other systems, this program itself has rows of every common kind, too.
    let own = std::env::current_exe().unwrap();
    let bytes = std::fs::read(if path.exists() { path } else { own.as_path() }).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let frames = file.section_by_name(".eh_frame").unwrap();
    let mut functions = Vec::new();
    derive::for_each(
        Abi::Amd64,
        frames.data().unwrap(),
        frames.address(),
        |source, result: Result<&Function, _>| {
            functions.extend(result.ok().map(|function| (source.address, function.clone())));
        },
    )
    .unwrap();
    compare(&write_table(Abi::Amd64, 0, &functions).unwrap().bytes, 0);
}

/// Asks about damaged tables, some hundred at a time. `describe` gives the description that the loader would
/// pass to the kernel. If a table is still sound, the answers must be those of this crate.
fn ask_damaged(tables: &[Vec<u8>], addresses: &[u64], describe: impl Fn(&[u8]) -> Option<Table>) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let program = reader(folder.path());
    let mut sound = 0;
    for tables in tables.chunks(500) {
        let described: Vec<_> = tables.iter().filter_map(|bytes| Some((bytes, describe(bytes)?))).collect();
        let questions: Vec<_> =
            described.iter().map(|&(bytes, table)| Question { bytes, table, addresses }).collect();
        let answers = ask(&program, &questions);
        for ((bytes, _), answers) in described.iter().zip(answers) {
            let Ok(table) = CompactTable::parse(&bytes[..], 0) else { continue };
            if table.header().abi == Abi::Amd64 && table.check().is_ok() {
                agree(&table, addresses, &answers);
                sound += 1;
            }
        }
    }
    sound
}

/// A table with rows of all kinds, and some of the addresses that it covers.
fn table_and_addresses() -> (Vec<u8>, Vec<u64>) {
    let bytes = write_table(Abi::Amd64, 0, &functions()[..7]).unwrap().bytes;
    let all = addresses(&CompactTable::parse(&bytes[..], 0).unwrap());
    (bytes, all.into_iter().step_by(3001).chain([0, u64::MAX, 0x1001, 0x2005, 0x50_0041]).collect())
}

/// The description is that of the sound table, as if the bytes in the kernel had changed later.
#[test]
fn damage_of_any_byte_behind_the_header_is_survived() {
    let (bytes, addresses) = table_and_addresses();
    let description = Table::new(&CompactTable::parse(&bytes[..], 0).unwrap(), 0).unwrap();
    let damage = |at: usize| {
        [0, 1, 0x0f, 0x7f, 0x80, 0xe0, 0xff].map(|value| {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            damaged
        })
    };
    let tables: Vec<Vec<u8>> = (40..bytes.len()).flat_map(damage).collect();
    assert!(ask_damaged(&tables, &addresses, |_| Some(description)) > 0);
}

/// The loader reads the description from the damaged table itself. In reality it passes only sound tables to
/// the kernel; here it passes all.
#[test]
fn a_damaged_header_is_survived() {
    let (bytes, addresses) = table_and_addresses();
    let mut tables = Vec::new();
    for at in 0..40 {
        for value in 0..=255 {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            tables.push(damaged);
        }
    }
    // The sizes of the parts add up to the table's length, so parts can lie anywhere in it.
    let mut random = common::Random(1);
    for _ in 0..3000 {
        let mut damaged = bytes.clone();
        (damaged[6], damaged[7]) = ([2, 4][random.below(2)], [2, 3, 4][random.below(3)]);
        let each = [16, 8, 32, 4, usize::from(damaged[6]), 2 + usize::from(damaged[7])];
        let mut left = bytes.len() - 40 - 4;
        for (place, each) in (12..).step_by(4).zip(each) {
            let part = 1 + random.below(4);
            let count = random.below(left / each / part + 1);
            left -= count * each;
            damaged[place..place + 4].copy_from_slice(&(count as u32).to_le_bytes());
        }
        damaged[36..40].copy_from_slice(&(left as u32).to_le_bytes());
        assert!(CompactTable::parse(&damaged[..], 0).is_ok());
        tables.push(damaged);
    }
    let describe = |bytes: &[u8]| Table::new(&CompactTable::parse(bytes, 0).ok()?, 0);
    assert!(ask_damaged(&tables, &addresses, describe) > 0);
}
