//! The look-ups of the kernel's program give the crate's answers: the same C, compiled for the host, is asked for every address.

use object::{Object, ObjectSection};
use sframe_bpf::layout::Table;
use sframe_format::compact::write_table;
use sframe_format::write::Function;
use sframe_format::{
    Abi, Base, CfaRule, CompactTable, Frame, Location, RegisterRule, Row, Rules, UnwindRules, derive,
};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The answers of `enum answer`.
const FOUND: u64 = 0;
const NO_ROW: u64 = 1;

/// Compiles the reader.
fn reader(folder: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join("reader");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-I"]).arg(root.join("../../examples/bpf"));
    compiler.arg("-o").arg(&program).arg(root.join("tests/reader.c"));
    assert!(compiler.status().unwrap().success());
    program
}

/// What the C says of each address.
fn ask(program: &Path, bytes: &[u8], table: &Table, addresses: &[u64]) -> Vec<(u64, u64)> {
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = (bytes.len() as u64).to_ne_bytes().to_vec();
    input.extend(table.to_bytes());
    input.extend(bytes);
    input.extend(addresses.iter().flat_map(|address| address.to_ne_bytes()));
    let mut to = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || to.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    let word = |bytes: &[u8]| u64::from_ne_bytes(*bytes.first_chunk().unwrap());
    output.stdout.chunks_exact(16).map(|pair| (word(pair), word(&pair[8..]))).collect()
}

/// The rules that a word means, read off `COMPACT.md`.
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

/// A table in memory behind others, and every address that it covers with some around them.
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

/// Asks both for every address.
#[track_caller]
fn compare(bytes: &[u8], address: u64) {
    let folder = tempfile::tempdir().unwrap();
    let program = reader(folder.path());
    let table = CompactTable::parse(bytes, address).unwrap();
    table.check().unwrap();
    let all = addresses(&table);
    let place = 4096;
    let answers = ask(&program, &placed(bytes, place), &Table::new(&table, place).unwrap(), &all);
    assert_eq!(answers.len(), all.len());
    let mut found = 0;
    for (&pc, (answer, word)) in all.iter().zip(answers) {
        let expected = table.lookup(pc).unwrap().map(|row| row.rules);
        let said = match answer {
            FOUND => Some(rules(word, &table)),
            NO_ROW => None,
            other => panic!("{pc:#x}: answer {other}"),
        };
        assert_eq!(said, expected, "{pc:#x}");
        found += usize::from(said.is_some());
    }
    assert!(found > 0);
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

/// Functions of all kinds: rows that repeat, many rows, many bytes, far apart, rules that fit no word, a signal frame.
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
    // Enough different ones for long numbers of steps, on several pages.
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
    // Elsewhere this very program has rows of every common kind too.
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

#[test]
fn a_damaged_table_is_read_to_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let program = reader(folder.path());
    let bytes = write_table(Abi::Amd64, 0, &functions()[..7]).unwrap().bytes;
    let sound = CompactTable::parse(&bytes[..], 0).unwrap();
    let description = Table::new(&sound, 0).unwrap();
    let some: Vec<u64> = addresses(&sound).into_iter().step_by(701).collect();
    // The description is of the sound table; the loader hands no other to the kernel.
    for (place, value) in (40..bytes.len()).zip([0, 0xff, 0x7f, 0x0f, 1].into_iter().cycle()).step_by(3) {
        let mut damaged = bytes.clone();
        damaged[place] = value;
        assert_eq!(ask(&program, &damaged, &description, &some).len(), some.len());
    }
}
