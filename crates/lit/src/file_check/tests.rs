//! Each case is a check file, an input, and whether LLVM's FileCheck accepts it.

use super::*;

fn passes(flags: &[&str], checks: &str, input: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("checks"), checks).unwrap();
    std::fs::write(path("input"), input).unwrap();
    let words = [&["FileCheck"], flags].concat();
    let mut arguments = Arguments::parse_from(words.into_iter().chain(["checks"]));
    (arguments.check_file, arguments.input_file) = (path("checks"), path("input"));
    check_files(&arguments).unwrap().is_none()
}

#[track_caller]
fn good(checks: &str, input: &str) {
    assert!(passes(&[], checks, input), "should pass:\n{checks}\n---\n{input}");
}

#[track_caller]
fn bad(checks: &str, input: &str) {
    assert!(!passes(&[], checks, input), "should fail:\n{checks}\n---\n{input}");
}

#[test]
fn plain_checks_come_in_order() {
    good("CHECK: a\nCHECK: b\n", "x a y\nz\nb\n");
    good("CHECK: a\nCHECK: b\n", "a b\n");
    bad("CHECK: b\nCHECK: a\n", "a\nb\n");
    bad("CHECK: a\nCHECK: a\n", "a\n");
}

#[test]
fn blanks_are_one_unless_strict() {
    good("CHECK:    a b\n", "a \t  b\n");
    assert!(!passes(&["--strict-whitespace"], "CHECK: a b\n", "a  b\n"));
}

#[test]
fn next_same_and_empty_hold_the_line() {
    good("CHECK: a\nCHECK-NEXT: b\nCHECK-SAME: c\nCHECK-EMPTY:\nCHECK-NEXT: d\n", "a\nb c\n\nd\n");
    bad("CHECK: a\nCHECK-NEXT: b\n", "a\nx\nb\n");
    bad("CHECK: a\nCHECK-NEXT: b\n", "a b\nb\n");
    bad("CHECK: a\nCHECK-SAME: b\n", "a\nb\n");
    bad("CHECK: a\nCHECK-EMPTY:\n", "a\nb\n\n");
}

#[test]
fn not_looks_between_its_neighbours() {
    good("CHECK: a\nCHECK-NOT: x\nCHECK: b\n", "x\na\nb x\n");
    bad("CHECK: a\nCHECK-NOT: x\nCHECK: b\n", "a\nx\nb\n");
    bad("CHECK: a\nCHECK-NOT: x\n", "a\ny\nx\n");
    bad("CHECK-NOT: x\nCHECK: a\n", "x\na\n");
}

#[test]
fn dag_matches_in_any_order_without_overlap() {
    good("CHECK-DAG: a\nCHECK-DAG: b\nCHECK: c\n", "b\na\nc\n");
    bad("CHECK-DAG: a\nCHECK-DAG: a\n", "a\n");
    bad("CHECK-DAG: a\nCHECK-DAG: c\nCHECK: b\n", "a\nb\nc\n");
    bad("CHECK-DAG: a\nCHECK-NOT: x\nCHECK-DAG: b\n", "a\nx\nb\n");
    good("CHECK-DAG: [[N:[0-9]+]] f\nCHECK-DAG: {{0+}}[[#%x,A:]] 8 g\n", "0040 8 g\n12 f\n");
}

#[test]
fn labels_part_the_input() {
    let checks = "CHECK-LABEL: one\nCHECK: a\nCHECK-LABEL: two\nCHECK: b\n";
    good(checks, "one\na\ntwo\nb\n");
    bad(checks, "one\ntwo\na\nb\n");
    bad("CHECK-LABEL: one\nCHECK-NOT: a\nCHECK-LABEL: two\n", "one\na\ntwo\n");
}

#[test]
fn counts_repeat_their_directive() {
    good("CHECK-COUNT-2: a\nCHECK-NOT: a\n", "a\na\n");
    bad("CHECK-COUNT-2: a\nCHECK-NOT: a\n", "a\na\na\n");
    bad("CHECK-COUNT-3: a\n", "a\na\n");
}

#[test]
fn variables_hold_texts_and_numbers() {
    good("CHECK: f=[[F:[a-z]+]]\nCHECK: g=[[F]]\n", "f=abc\ng=abc\n");
    bad("CHECK: f=[[F:[a-z]+]]\nCHECK: g=[[F]]\n", "f=abc\ng=abd\n");
    good("CHECK: [[X:[0-9]+]] [[X]]\n", "12 12\n");
    good("CHECK: at {{0*}}[[#%x,A:]]\nCHECK: at 0x[[#A+0x10]]\n", "at 00401ff0\nat 0x402000\n");
    bad("CHECK: at [[#%x,A:]]\nCHECK: at [[#A+1]]\n", "at 10\nat 12\n");
    good("CHECK: [[#N:]]\nCHECK: [[#mul(N,2)-1]]\n", "7\n13\n");
    good("CHECK: [[#%.8x,A:]]\nCHECK: [[#A+1]]\n", "0000000f\n00000010\n");
    assert!(passes(&["-DX=a.c", "-D#N=12"], "CHECK: [[X]] [[#N+1]]\n", "a.c 13\n"));
    bad("CHECK: [[NONE]]\n", "NONE\n");
}

#[test]
fn expressions_stay_in_their_line() {
    good("CHECK: {{^}}b{{$}}\n", "ab\nb\n");
    good("CHECK: {{([0-9]{4})}}x\n", "1234x\n");
    bad("CHECK: a{{[^z]*}}b\n", "a\nb\n");
    good("CHECK: [0] [[ a [[[#N:]]]\n", "[0] [[ a [7]\n");
}

#[test]
fn options_change_the_comparison() {
    assert!(passes(&["--check-prefixes=A,B"], "A: a\nB: b\nCHECK: no\n", "a\nb\n"));
    assert!(!passes(&["--implicit-check-not=warning"], "CHECK: b\n", "warning\nb\n"));
    assert!(!passes(&["--implicit-check-not=warning"], "CHECK: b\n", "b\nwarning\n"));
    assert!(!passes(&["--match-full-lines"], "CHECK: a\n", "a b\n"));
    assert!(passes(&["--match-full-lines"], "CHECK: a\n", " a \n"));
    assert!(passes(&["--ignore-case"], "CHECK: ABC\n", "abc\n"));
    assert!(passes(&["--allow-empty"], "CHECK-NOT: a\n", ""));
    assert!(!passes(&[], "CHECK-NOT: a\n", ""));
    assert!(passes(&[], "RUN: x CHECK: no\nMYCHECK: no\nCHECK: a\n", "a\n"));
}
