//! The test of `docs/options.md`, the page that says for every option of GNU ld, lld and mold what this
//! linker does with it.
//!
//! What this linker does comes from the tables. Which peers have an option is written in the page itself, and
//! another test (`tests/integration/option_page.rs`) compares that with their `--help`. After a change of a
//! table, `SFRAME_BLESS=1 cargo test -p linker-options --lib page_of_options` writes the page again.

use crate::spec::{Effect, dashed};
use crate::table;
use crate::table::refused::{REFUSED, REFUSED_WORDS};
use crate::z::WORDS;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const INTRODUCTION: &str = "\
# Options of other linkers

This page lists every option of this linker, of GNU ld 2.47, of lld 23 and of mold 3, and says what this linker
does with it. `works`: the option does what the peers' manuals say. `no-op`: the linker accepts the option and
ignores it, because the output is right without it. `refused`: the link fails as with an unknown option, so that
a build system that probes for the option sees that it is missing. A star at the end of a name stands for every
option that begins with it. An unknown word of `-z` is a warning, as in GNU ld.

The page is made from the tables in `crates/linker-options` (`table/`, `z.rs`). One test compares it with these
tables, and another one compares its second column with the peers' `--help`.

";

/// An option's name as the page shows it, what this linker does with it, and a remark.
type Row = (String, &'static str, &'static str);

fn options() -> Vec<Row> {
    let mut rows = Vec::new();
    for option in table::all() {
        let (here, star) = match option.effect {
            Effect::IgnoredFlag | Effect::IgnoredValue | Effect::IgnoredOptional => ("no-op", ""),
            Effect::IgnoredPrefix => ("no-op", "*"),
            _ => ("works", ""),
        };
        let names = option.names.iter().map(|name| format!("{}{star}", dashed(name)));
        rows.extend(names.map(|name| (name, here, option.help)));
    }
    for refused in REFUSED {
        rows.extend(refused.names.iter().map(|name| (dashed(name), "refused", refused.why)));
    }
    rows
}

fn words() -> Vec<Row> {
    let known = WORDS.iter().flat_map(|word| word.names.iter().map(|name| (*name, "works", word.help)));
    let refused = REFUSED_WORDS.iter();
    let refused = refused.flat_map(|word| word.names.iter().map(|name| (*name, "refused", word.why)));
    known.chain(refused).map(|(name, here, remark)| (format!("-z {name}"), here, remark)).collect()
}

/// The second column of the page, by the first.
fn peers_of(page: &str) -> BTreeMap<String, String> {
    let cells = page.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        Some((name.to_owned(), rest.split('|').next()?.trim().to_owned()))
    });
    cells.collect()
}

fn append_table(page: &mut String, title: &str, mut rows: Vec<Row>, peers: &BTreeMap<String, String>) {
    let key = |name: &str| name.trim_start_matches('-').to_lowercase();
    rows.sort_by(|a, b| (key(&a.0), &a.0).cmp(&(key(&b.0), &b.0)));
    let _ = writeln!(page, "| {title} | peers | here | what it does, or why not |\n|---|---|---|---|");
    for (name, here, remark) in rows {
        let peers = peers.get(&name).map_or("", String::as_str);
        let _ = writeln!(page, "| `{name}` | {peers} | {here} | {} |", remark.replace('|', "\\|"));
    }
}

#[test]
fn page_of_options_says_what_the_tables_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/options.md");
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let peers = peers_of(&found);
    let mut page = INTRODUCTION.to_owned();
    append_table(&mut page, "option", options(), &peers);
    page.push('\n');
    append_table(&mut page, "word", words(), &peers);
    if std::env::var_os("SFRAME_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
        return;
    }
    let differing = page.lines().zip(found.lines()).find(|(expected, found)| expected != found);
    assert!(
        page == found,
        "docs/options.md is stale; SFRAME_BLESS=1 cargo test -p linker-options --lib page_of_options writes it: {differing:?}"
    );
}
