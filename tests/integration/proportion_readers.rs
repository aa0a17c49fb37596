//! The readers' memory must be in proportion to the input. Rows that many functions share take many times
//! their bytes when they are written out.

use crate::support::{Outcome, Work, built};
use sframe_format::compact::{MAX_ROWS, write_table};
use sframe_format::write::{Function, Options, write_sorted};
use sframe_format::{Abi, CfaRule, Frame, Location, RegisterRule, Row, Rules};

/// KiB of address space that the command takes for an empty input.
const MEMORY_OF_NOTHING: usize = 100_000;
/// The subcommands, and how many bytes of memory each may take for a byte of a table. `stat` has all
/// functions in memory at the same time, because it encodes them again.
const READERS: [(&str, usize); 6] = [
    ("dump -", 100),
    ("dump --json -", 100),
    ("dump --readelf -", 100),
    ("verify -", 100),
    ("lookup - 0x1040", 100),
    ("stat -", 500),
];

/// 20,000 equal functions, each with as many rows as an entry of a compact table may have. For each function,
/// a compact table takes 4 bytes and SFrame 20. Its rows in words take some 3 KB of text, and twice as much
/// JSON.
#[test]
fn functions_that_share_all_their_rows() {
    let row = |start: u32| {
        let cfa = CfaRule { register: 7, dereference: false, offset: 8 + i64::from(start) * 8 };
        let ra = RegisterRule::Saved(Location::at_cfa(-8));
        let rules = Frame { cfa, ra, fp: RegisterRule::Unchanged, mangled: false };
        Row { start, rules: Rules::Frame(rules) }
    };
    let size = MAX_ROWS as u32;
    let function = Function { size, rows: (0..size).map(row).collect(), ..Function::default() };
    let functions: Vec<_> =
        (0..20_000).map(|number| (0x1000 + number * u64::from(size), function.clone())).collect();
    let compact = write_table(Abi::Amd64, 0, &functions).unwrap().bytes;
    let sframe = write_sorted(Options::new(Abi::Amd64), 0, &functions).unwrap().bytes;
    let work = Work::new();
    for (bytes, least, most) in [(compact, 15, 16), (sframe, 3, 4)] {
        let rows = 20_000 * MAX_ROWS;
        assert!((rows / most..rows / least).contains(&bytes.len()), "{rows} rows in {} bytes", bytes.len());
        work.write("table", &bytes);
        for (words, factor) in READERS {
            let memory = MEMORY_OF_NOTHING + bytes.len() * factor / 1024;
            let outcome = read_within(&work, memory, &format!("{words} < table"));
            assert_eq!(outcome.code, Some(0), "{words}: {outcome}");
        }
    }
}

/// Runs `sframe` with this number of KiB of address space, and a minute of processor time. With a sanitizer
/// there are no limits, as for links.
fn read_within(work: &Work, memory: usize, words: &str) -> Outcome {
    let limits = match std::env::var_os("SFRAME_TEST_SANITIZER") {
        None => format!("ulimit -v {memory}; ulimit -t 60"),
        Some(_) => String::from(":"),
    };
    let tool = built::sframe();
    work.command("sh", &["-c", &format!("ulimit -c 0; {limits}; exec {tool} {words} > /dev/null")])
}
