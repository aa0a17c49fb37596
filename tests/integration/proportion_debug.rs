//! Debug information whose units, names and tables refer to the same bytes. The limits are those of
//! `proportion`. If an object exceeds them, it is left out of the index with a warning.

use crate::proportion::{lines, within};
use crate::support::Work;

const BEYOND: &str = "overlap beyond measure";
/// The abbreviation of a unit that has a name, and of a unit that has ranges of addresses.
const UNIT: &str = ".byte 1, 0x11, 1, 3, 8, 0, 0";
const UNIT_OF_RANGES: &str = ".byte 1, 0x11, 0, 0x55, 0x17, 0, 0";

/// A name of a million bytes.
const LONG: &str = ".section .debug_str,\"\",@progbits\n.fill 1000000, 1, 'x'\n.byte 0\n";

/// Units of version 5; each is made from its number.
fn units(count: usize, unit: impl Fn(usize) -> (String, String)) -> String {
    let units = lines(count, |n| {
        let (table, entries) = unit(n);
        format!(".4byte .Le{n}-.Ls{n}\n.Ls{n}: .2byte 5\n.byte 1, 8\n.4byte {table}\n{entries}\n.Le{n}:")
    });
    format!(".section .debug_info,\"\",@progbits\n{units}")
}

/// One unit with these entries.
fn unit(entries: &str) -> String {
    units(1, |_| ("0".to_owned(), format!(".byte 1\n.asciz \"c\"\n{entries}\n.byte 0")))
}

fn abbreviations(text: &str) -> String {
    format!(".section .debug_abbrev,\"\",@progbits\n{text}\n.byte 0\n")
}

/// Links an object with this debug information; the index must leave it out.
fn is_beyond(work: &Work, text: &str) {
    let object = work.s("object", &format!(".globl _start\n_start: ret\n.zero 5000\n{text}"));
    for option in ["--gdb-index", "--debug-names"] {
        let outcome = within(work, &[&object, option]).ok();
        if option == if text.contains(".debug_names") { "--debug-names" } else { "--gdb-index" } {
            outcome.says(&[
                "object.o",
                BEYOND,
                "debuggers will not find all names of this file by the index",
            ]);
        }
    }
    // An index of names also contains those that came before the limit.
    let (size, factor) = (work.read(&object).len(), if text.contains(".debug_names") { 64 } else { 1 });
    assert!(work.read("out").len() < size * factor + 100_000);
}

/// Names of scopes that include all their outer scopes; names of variables; several definitions of one
/// declaration.
#[test]
fn names_that_share_their_bytes() {
    let work = Work::new();
    let named = |tag: u32, children: u32| format!(".byte 2, {tag}, {children}, 3, 14, 0, 0");
    for tag in [0x39, 0x13] {
        let scopes = unit(&lines(2000, |n| format!(".byte 2\n.4byte {n}")));
        is_beyond(
            &work,
            &[abbreviations(&format!("{UNIT}\n{}", named(tag, 1))), scopes, LONG.into()].concat(),
        );
    }
    let entries = unit(&lines(20_000, |n| format!(".byte 2\n.4byte {n}")));
    let variables = abbreviations(&format!("{UNIT}\n{}", named(0x34, 0)));
    is_beyond(&work, &[&variables, &entries, LONG].concat());
    // A declaration (external, in a class), and definitions that refer to it.
    let declared = ".byte 3, 0x34, 0, 3, 14, 0x3c, 0x19, 0, 0\n.byte 4, 0x34, 0, 0x47, 0x13, 0, 0";
    let text = format!(".byte 3\n.4byte 0\n{}", lines(20_000, |_| ".byte 4\n.4byte 15".to_owned()));
    let declared = abbreviations(&format!("{UNIT}\n{declared}"));
    is_beyond(&work, &[&declared, &unit(&text), LONG].concat());
}

#[test]
fn units_that_share_a_list_of_ranges() {
    let work = Work::new();
    let list = lines(50_000, |n| format!(".byte 4\n.uleb128 {}, {}", n % 4000, n % 4000 + 2));
    let ranges = format!(
        ".section .debug_rnglists,\"\",@progbits\n.4byte 2f-1f\n1: .2byte 5\n.byte 8, 0\n.4byte 0\n\
         .byte 5\n.quad _start\n{list}\n.byte 0\n2:\n"
    );
    let units = units(1000, |_| ("0".to_owned(), ".byte 1\n.4byte 12".to_owned()));
    is_beyond(&work, &[abbreviations(UNIT_OF_RANGES), units, ranges].concat());
}

/// Each unit starts at another abbreviation of the same table. Abbreviations may have any number of
/// attributes that take no bytes.
#[test]
fn abbreviations_that_are_used_again() {
    let work = Work::new();
    let count = 20_000;
    let table = lines(count, |n| format!(".La{n}: .uleb128 {}\n.byte 0x11, 0, 0, 0", n + 1));
    let units = units(count, |n| (format!(".La{n}-.La0"), format!(".uleb128 {}", n + 1)));
    is_beyond(&work, &[abbreviations(&table), units].concat());
    let flags = ".rept 50000\n.byte 0x3f, 0x19\n.endr\n.byte 0, 0";
    for inside in ["", ".byte 3\n"] {
        let text = format!("{UNIT}\n.byte 2, 0x34, 0\n{flags}\n.byte 3, 0x2e, 1, 0, 0");
        is_beyond(&work, &[abbreviations(&text), unit(&format!("{inside}.fill 300000, 1, 2"))].concat());
    }
}

/// No index needs the line tables of units.
#[test]
fn units_that_share_a_line_table() {
    let work = Work::new();
    let lines = ".section .debug_line,\"\",@progbits\n.4byte 2f-1f\n1: .2byte 4\n.4byte 2f-3f\n3: .byte 1,1,1,-5,14,1\n\
                 .byte 0\n.rept 100000\n.asciz \"f\"\n.byte 0,0,0\n.endr\n.byte 0\n2:\n";
    let abbreviation = abbreviations(".byte 1, 0x11, 0, 0x10, 0x17, 0x11, 1, 0x12, 7, 0, 0");
    let units = units(20_000, |_| ("0".to_owned(), ".byte 1\n.4byte 0\n.quad _start, 1".to_owned()));
    let text = [".globl _start\n_start: ret\n", &abbreviation, &units, lines].concat();
    let object = work.s("object", &text);
    within(&work, &[&object, "--gdb-index"]).quiet();
    let index = work.elf_unchecked("out").section(".gdb_index").data.clone();
    assert_eq!(index.len(), 24 + 20_000 * (16 + 20), "units and their addresses");
}

/// Tables of addresses refer to their units by offset.
#[test]
fn tables_of_addresses_of_many_units() {
    let work = Work::new();
    let count = 40_000;
    let tables = lines(count, |n| {
        format!(".4byte 28\n.2byte 2\n.4byte .Lu{n}-.Lu0\n.byte 8, 0\n.4byte 0\n.quad 0, 0")
    });
    let units = lines(count, |n| format!(".Lu{n}: .4byte 9\n.2byte 5\n.byte 1, 8\n.4byte 0\n.byte 1"));
    let object = work.s(
        "object",
        &format!(
            ".globl _start\n_start: ret\n{}.section .debug_info,\"\",@progbits\n{units}\
             .section .debug_aranges,\"\",@progbits\n{tables}",
            abbreviations(".byte 1, 0x11, 0, 0, 0")
        ),
    );
    within(&work, &[&object, "--gdb-index"]).quiet();
}

/// Many units whose names are in one other file.
#[test]
fn units_that_name_one_file() {
    let work = Work::new();
    let named = abbreviations(&format!("{UNIT}\n.byte 2, 0x34, 0, 3, 8, 0, 0"));
    let entries = unit(&lines(20_000, |n| format!(".byte 2\n.asciz \"name{n}\"")));
    let both = [named, entries].concat();
    let split = both.replace(".debug_abbrev", ".debug_abbrev.dwo").replace(".debug_info", ".debug_info.dwo");
    work.s("names", &split);
    // A few such units are indexed as usual, thousands are not.
    let abbreviation = abbreviations(".byte 1, 0x4a, 0, 0x76, 8, 0, 0");
    let skeletons = |count| units(count, |_| ("0".to_owned(), ".byte 1\n.asciz \"names.o\"".to_owned()));
    let object = |count| {
        let text = [".globl _start\n_start: ret\n.zero 5000\n", &abbreviation, &skeletons(count)].concat();
        work.s("object", &text)
    };
    within(&work, &[&object(3), "--gdb-index"]).quiet();
    within(&work, &[&object(4000), "--gdb-index"]).ok().says(&["object.o", BEYOND]);
    assert!(work.elf_unchecked("out").find(".gdb_index").is_none());
}

/// An index of names: offsets of the strings, offsets of the entries, abbreviations, entries.
fn names(count: usize, parts: [&str; 4]) -> String {
    let [strings, entries, abbreviations, pool] = parts;
    format!(
        ".section .debug_info,\"\",@progbits\n.Lunit: .quad 1\n\
         .section .debug_names,\"\",@progbits\n.4byte .Lend-.Lstart\n.Lstart: .2byte 5, 0\n\
         .4byte 1, 0, 0, 0, {count}, .Lpool-.Labbreviations, 0\n.4byte .Lunit\n{strings}\n{entries}\n\
         .Labbreviations:\n{abbreviations}\n.byte 0\n.Lpool:\n{pool}\n.byte 0\n.Lend:\n"
    )
}

#[test]
fn name_indexes_that_use_their_bytes_again() {
    let work = Work::new();
    let (count, many) = (6000, 20_000);
    let one = format!(".fill {count}, 4, 0");
    let entry = ".byte 1, 0x34, 3, 0x13, 0, 0";
    let other = lines(count, |n| format!(".4byte {n}"));
    let short = ".section .debug_str,\"\",@progbits\n.asciz \"name\"\n";
    // Names that are ends of other names.
    let text = names(count, [&other, &one, entry, ".byte 1\n.4byte 0"]);
    is_beyond(&work, &(text + LONG));
    // All names have the same entries, or each has those from another one on.
    let entries = format!(".rept {count}\n.byte 1\n.4byte 0\n.endr");
    let further = lines(count, |n| format!(".4byte {}", 5 * n));
    for offsets in [&one, &further] {
        is_beyond(&work, &(names(count, [&one, offsets, entry, &entries]) + short));
    }
    // Entries of one byte with any number of attributes.
    let flags = ".byte 1, 0x34, 3, 0x13\n.rept 10000\n.byte 6, 0x19\n.endr\n.byte 0, 0";
    is_beyond(&work, &(names(1, [".4byte 0", ".4byte 0", flags, &entries]) + short));
    // The last of many different abbreviations.
    let abbreviations = lines(many, |n| format!(".uleb128 {}, {}\n.byte 3, 0x13, 0, 0", n + 1, n + 1));
    let last = format!(".rept 15000\n.uleb128 {many}\n.4byte 0\n.endr");
    is_beyond(&work, &(names(1, [".4byte 0", ".4byte 0", &abbreviations, &last]) + short));
}

/// Each entry has its own form.
#[test]
fn name_indexes_of_many_forms() {
    let work = Work::new();
    let count = 10_000;
    let abbreviations = lines(count, |n| format!(".uleb128 {}, {}\n.byte 3, 0x13, 0, 0", n + 1, n + 1));
    let entries = lines(count, |n| format!(".uleb128 {}\n.4byte 0", n + 1));
    let text = names(1, [".4byte 0", ".4byte 0", &abbreviations, &entries]);
    let object = work.s(
        "object",
        &format!(
            ".globl _start\n_start: ret\n{text}.section .debug_str,\"\",@progbits\n.asciz \"name\"\n.fill 2000000, 1, 0"
        ),
    );
    within(&work, &[&object, "--debug-names"]).quiet();
    assert!(work.elf_unchecked("out").section(".debug_names").data.len() > 10 * count);
}
