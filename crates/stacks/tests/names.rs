//! Tests the names of functions of files that have no symbol table.

mod common;

use common::Writer;
use common::unwound::{Unwound, fixture};
use stacks::kernel::Kernel;
use stacks::profile::{Name, Names};

const STACK: u64 = 0x7ffe_0000_1000;

/// Samples of a program, one at each of some instructions.
fn samples(program: &str, places: &[u64]) -> Unwound {
    let mut writer = Writer::default();
    writer.mmap(7, (0x40_0000, 0x1000, 0), &fixture(&format!("tests/fixtures/{program}")), 2);
    for (time, &ip) in (10..).zip(places) {
        writer.sample(7, time, [STACK, 5, ip], &[], &[]);
    }
    Unwound::of(&writer)
}

/// The names of each sample's first frame, innermost first.
fn names(unwound: &Unwound, inlined: bool) -> Vec<Vec<Name>> {
    let names = Names::new(&unwound.profile, &unwound.files, &Kernel::default(), inlined);
    let first = |stack| unwound.profile.frames_of(stack).next().expect("a frame");
    unwound.profile.rows.iter().map(|row| names.of(first(row.stack)).to_vec()).collect()
}

#[test]
fn a_function_without_a_symbol_is_named_by_its_start() {
    let unwound = samples("expressions", &[0x40_00c8, 0x40_00d0, 0x40_00e2, 0x40_00dd]);
    let names = names(&unwound, false);
    let found: Vec<_> = names.iter().map(|names| (&*names[0].function, names[0].offset)).collect();
    // Between two functions, nothing says where code starts.
    let plus = "expressions+0x4000c0";
    let expected = [
        (plus, Some(8)),
        (plus, Some(16)),
        ("expressions+0x4000e0", Some(2)),
        ("expressions+0x4000dd", None),
    ];
    assert_eq!(found, expected);
    assert!(names.iter().all(|names| !names[0].known));
}

/// The functions at an address of a program, innermost first, and whether each is inlined.
fn functions(program: &str, address: u64) -> Vec<(String, bool)> {
    let names = names(&samples(program, &[address]), true);
    names[0].iter().map(|name| (name.function.to_string(), name.inlined)).collect()
}

#[test]
fn symbols_that_are_compressed_into_a_file_are_read() {
    for (address, function) in [(0x40_00c8, "plus"), (0x40_00e2, "branch"), (0x40_00b0, "_start")] {
        assert_eq!(functions("mini", address), [(function.to_owned(), false)]);
    }
}

/// dwz moves it to a file that is shared, split DWARF to a file for each object or to one for all.
#[test]
fn inlined_functions_are_found_wherever_their_description_is() {
    for program in ["inlined_dwz", "inlined_split", "inlined_package"] {
        let expected = [("inner".to_owned(), true), ("outer".to_owned(), false)];
        assert_eq!(functions(program, 0x40_00fa), expected, "{program}");
        assert_eq!(functions(program, 0x40_011b), expected[1..], "{program}");
    }
}
