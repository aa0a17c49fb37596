//! Names and patterns whose text alone could take for ever: brackets that nothing closes, patterns for every
//! symbol, names in which a demangler repeats parts. The limits are those of `proportion`.

use crate::proportion::{lines, within};
use crate::support::Work;

const START: &str = ".globl _start\n_start: ret\n";

/// A bracket that nothing closes means itself, and so do those after it. Their end is searched for only once.
#[test]
fn patterns_of_open_brackets() {
    let work = Work::new();
    let start = work.s("start", START);
    let brackets = "[".repeat(600_000);
    work.write("section.ld", format!("SECTIONS {{ .text : {{ *(.text {brackets}) }} }}"));
    work.write("file.ld", format!("SECTIONS {{ .text : {{ {brackets}(.text) *(.text) }} }}"));
    for script in ["section.ld", "file.ld"] {
        within(&work, &["-T", script, &start]).ok();
    }
    work.write("versions", format!("V1 {{ global: {brackets}; local: *; }};"));
    within(&work, &["-shared", "--version-script=versions", &start]).ok();
}

/// A long pattern is prepared once, not for each symbol.
#[test]
fn symbols_that_a_long_pattern_is_matched_with() {
    let work = Work::new();
    let start = work.s("start", &format!("{START}{}", lines(20_000, |n| format!(".globl s{n}\ns{n}: nop"))));
    work.write("words", format!("--undefined-glob={}x", "?[a-c]".repeat(20_000)));
    within(&work, &["--gc-sections", "@words", &start]).ok();
}

/// Mangled names may repeat a part of themselves any number of times, and messages and maps show all names.
#[test]
fn names_that_are_shown_again_and_again() {
    let work = Work::new();
    let many = |part: &str| part.repeat(100_000);
    let names = [format!("{}x", many("_GLOBAL__I_")), format!("_ZN{}1A1fEi", many("K"))];
    for name in names {
        let object = work.s("object", &format!("{START}.globl {name}\n{name}: call {name}_\n"));
        let map = ["-Map=out.map", "--cref"];
        within(&work, &[&map[..], &[&object]].concat()).fails().says(&["undefined symbol"]);
    }
}
