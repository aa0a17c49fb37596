//! Checks `proportion.md`, the table of what inputs can multiply: each pass of the linker has a row, and each
//! row names a test that exists.

use std::collections::BTreeSet;
use std::path::Path;

/// The rows: the cells, without the bars between them.
fn rows() -> Vec<Vec<&'static str>> {
    let lines = include_str!("proportion.md").lines().filter(|line| line.starts_with("| ")).skip(1);
    let rows = lines.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>());
    rows.collect()
}

/// The texts in backquotes.
fn quoted(cell: &str) -> BTreeSet<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The functions in these test files that are tests.
fn tests() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let texts: Vec<String> = texts.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let names = texts.iter().flat_map(|text| text.split("#[test]\nfn ").skip(1));
    names.map(|rest| rest[..rest.find('(').unwrap()].to_owned()).collect()
}

#[test]
fn each_pass_has_a_row_and_each_row_a_test() {
    let (rows, tests) = (rows(), tests());
    assert!(rows.len() > 50);
    for row in &rows {
        let [_, what, bound, by] = row[..] else { panic!("{row:?} has not four cells") };
        assert!(!what.is_empty() && !bound.is_empty() && !quoted(by).is_empty(), "{row:?}");
        for test in quoted(by) {
            assert!(tests.contains(test), "there is no test `{test}`: {row:?}");
        }
    }
    let named: BTreeSet<&str> = rows.iter().flat_map(|row| quoted(row[0])).collect();
    let passes = include_str!("../../src/passes/mod.rs").lines();
    let passes = passes.filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let missing: Vec<&str> = passes.filter(|pass| !named.contains(pass)).collect();
    assert!(missing.is_empty(), "passes without a row: {missing:?}");
}
