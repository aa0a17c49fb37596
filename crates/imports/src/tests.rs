//! Tests with small crates whose graphs are known.

use super::*;

/// Makes a crate of these files; the first one is its root.
fn crate_of(files: &[(&str, &str)]) -> (tempfile::TempDir, Graph) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let graph = Graph::read(&folder.path().join(files[0].0)).unwrap();
    (folder, graph)
}

fn arrows(graph: &Graph) -> Vec<String> {
    graph.arrows().map(|arrow| format!("{} -> {}", arrow.from, arrow.to)).collect()
}

#[test]
fn a_reexport_leads_to_the_file_that_defines() {
    let (_folder, graph) = crate_of(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::Thing; fn f(_: Thing) {}"),
        ("b/mod.rs", "mod inner; pub use inner::Thing;"),
        ("b/inner.rs", "pub struct Thing;"),
    ]);
    assert_eq!(arrows(&graph), ["a.rs -> b/inner.rs"]);
}

#[test]
fn paths_inside_functions_and_macros_count() {
    let (_folder, graph) = crate_of(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::c; fn f() { crate::b::g(); println!(\"{}\", c::h(super::d::N)); }"),
        ("b.rs", "pub fn g() {}"),
        ("c.rs", "pub fn h(_: u8) -> u8 { 0 }"),
        ("d.rs", "pub const N: u8 = 1;"),
    ]);
    assert_eq!(arrows(&graph), ["a.rs -> b.rs", "a.rs -> c.rs", "a.rs -> d.rs"]);
}

#[test]
fn paths_in_attributes_count() {
    let (_folder, graph) = crate_of(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "struct S { #[arg(short, value_parser = super::b::parse)] field: u8 }"),
        ("b.rs", "pub fn parse() {}"),
    ]);
    assert_eq!(arrows(&graph), ["a.rs -> b.rs"]);
}

#[test]
fn globs_and_modules_inside_a_file_are_followed() {
    let (_folder, graph) = crate_of(&[
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "use crate::b::*; fn f() -> u8 { flag::LIVE } mod inner { fn g() { super::super::b::k() } }",
        ),
        ("b.rs", "pub mod flag { pub const LIVE: u8 = 1; } pub fn k() {}"),
    ]);
    assert_eq!(arrows(&graph), ["a.rs -> b.rs"]);
    assert_eq!(graph.arrows().next().unwrap().uses.len(), 2);
}

#[test]
fn tests_and_names_of_modules_are_no_imports() {
    let (_folder, graph) = crate_of(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b; #[cfg(test)] mod tests { fn f() { crate::b::g() } }"),
        ("b.rs", "pub fn g() {}"),
    ]);
    assert!(arrows(&graph).is_empty());
}

#[test]
fn circles_come_with_the_arrows_that_hold_them() {
    let (_folder, graph) = crate_of(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "pub fn f() { crate::b::g() }"),
        ("b.rs", "pub fn g() { crate::a::f(); crate::c::h() }"),
        ("c.rs", "pub fn h() {}"),
    ]);
    let circles = graph.circles();
    assert_eq!(circles.len(), 1);
    assert_eq!(circles[0].files, ["a.rs", "b.rs"]);
    assert_eq!(circles[0].arrows.len(), 2);
}

#[test]
fn an_order_finds_upward_arrows_and_unknown_files() {
    let (_folder, graph) = crate_of(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "pub fn f() { crate::b::inner::g() }"),
        ("b/mod.rs", "pub mod inner;"),
        ("b/inner.rs", "pub fn g() { crate::c::h() }"),
        ("c.rs", "pub fn h() {}"),
    ]);
    let table = "# Modules\n| module | owns |\n|---|---|\n| `a.rs` | |\n| `b/`, `d/` | |\n# Next";
    let order = Order::from_table(table, "Modules").unwrap();
    let against = order.against(&graph);
    assert_eq!(against.upward.len(), 1);
    assert_eq!((against.upward[0].from, against.upward[0].to), ("a.rs", "b/inner.rs"));
    assert_eq!(against.unknown, ["c.rs"]);
    assert_eq!(against.empty, ["d/"]);
}
