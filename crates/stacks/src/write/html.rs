//! A page with a flame graph, in one file that fetches nothing.
//!
//! The samples become one tree by the names of their functions. The page (`page.html` with `page.css` and
//! `page.js`) counts the samples that its reader chooses (by thread, event and time), and draws them. So it
//! contains as JSON the tree without counts, callers before callees, and the samples: how many there are of
//! each thread, event, node, line, and slot of time. Columns are arrays of their own.
//!
//! A page that compares two profiles has the samples of both, in one tree.

use super::tree::{Event, Nodes, Rows, Thread, Tree};
use crate::named::Named;
use crate::renamed::Renamed;
use serde::Serialize;
use std::io;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Placeholders in the page.
const PLACES: [&str; 4] = ["@TITLE@", "@STYLE@", "@SCRIPT@", "@DATA@"];

#[derive(Serialize)]
struct Data<'a> {
    title: &'a str,
    /// What the profiles are called, if there are two.
    sides: Vec<&'a str>,
    notes: &'a [String],
    statistics: String,
    events: Vec<Event<'a>>,
    threads: Vec<Thread<'a>>,
    names: Vec<&'a str>,
    files: Vec<&'a str>,
    /// Source files and lines. The first is empty.
    lines: Vec<String>,
    /// The length of the recording in nanoseconds.
    length: u64,
    nodes: Nodes,
    rows: Rows,
}

/// Writes the page.
pub fn write(named: Named<'_>, to: &mut dyn io::Write) -> io::Result<()> {
    page(&[named], named.title, to)
}

/// Writes a page that compares two profiles.
///
/// # Errors
/// Those of the writer.
pub fn write_difference(before: Named<'_>, after: Named<'_>, to: &mut dyn io::Write) -> io::Result<()> {
    page(&[before, after], &format!("{} → {}", before.title, after.title), to)
}

fn page(sides: &[Named<'_>], title: &str, to: &mut dyn io::Write) -> io::Result<()> {
    let mut tree = Tree::default();
    if let [before, after] = *sides {
        tree.renamed = Some(Renamed::between(before, after));
    }
    sides.iter().enumerate().for_each(|(side, &named)| tree.add(side as u8, named));
    let last = sides.last();
    let data = Data {
        title,
        sides: if sides.len() > 1 { sides.iter().map(|named| named.title).collect() } else { Vec::new() },
        notes: last.map_or(&[], |named| &named.profile.notes),
        statistics: last.map(|named| named.report.text()).unwrap_or_default(),
        events: tree.events.all,
        threads: tree.threads.all,
        names: tree.names.all,
        files: tree.files.all,
        lines: tree.lines.all,
        length: tree.length,
        nodes: tree.nodes,
        rows: tree.rows,
    };
    // Without this, a name could end the element that contains the data.
    let data = serde_json::to_string(&data)?.replace('<', "\\u003c");
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    let values = [&*title, STYLE, SCRIPT, &data];
    let mut rest = PAGE;
    let next = |rest: &str| {
        let found =
            PLACES.iter().zip(values).filter_map(|(name, value)| Some((rest.find(name)?, name, value)));
        found.min_by_key(|(at, _, _)| *at)
    };
    while let Some((at, name, value)) = next(rest) {
        write!(to, "{}{value}", &rest[..at])?;
        rest = &rest[at + name.len()..];
    }
    to.write_all(rest.as_bytes())
}
