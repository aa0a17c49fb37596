//! Writes a report as one page that needs no other file: a matrix whose cells open.
//!
//! The page has no script. `<details>` opens cells, a media query chooses dark or light, and the rules for
//! printing fit the matrix on paper.

use crate::baseline::Judgement;
use crate::compare::{CaseReport, LinkerReport, Report};
use crate::differ::causes;
use crate::facts::Aspect;
use crate::table::covered;
use diagnostics::words::count;
use std::fmt::Write;

/// How a cell looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Nothing to report.
    Good,
    /// A difference to look at.
    Doubtful,
    /// The linker refused.
    Refused,
    /// The linker died, or its output is damaged.
    Broken,
}

impl Mood {
    fn class(self) -> &'static str {
        match self {
            Mood::Good => "good",
            Mood::Doubtful => "doubtful",
            Mood::Refused => "refused",
            Mood::Broken => "broken",
        }
    }

    /// A sign for readers who do not see the colour.
    fn sign(self) -> &'static str {
        match self {
            Mood::Good => "●",
            Mood::Doubtful => "▲",
            Mood::Refused => "■",
            Mood::Broken => "✕",
        }
    }
}

/// A cell: a short text, and lines that it shows when it opens.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its look.
    pub mood: Mood,
    pub text: String,
    /// The lines that it shows when it opens; empty if there are none.
    pub detail: String,
}

/// A row of the matrix.
#[derive(Clone, Debug)]
pub struct Line {
    /// Rows of the same group stand together under its name.
    pub group: String,
    /// What the group is about.
    pub about: String,
    /// Name of the row.
    pub name: String,
    /// One cell for each column.
    pub cells: Vec<Cell>,
}

/// A matrix.
#[derive(Clone, Debug)]
pub struct Part {
    /// Heading.
    pub title: String,
    /// Name and version of each linker.
    pub columns: Vec<(String, String)>,
    /// Rows.
    pub lines: Vec<Line>,
}

/// A page.
#[derive(Clone, Debug)]
pub struct Page {
    /// Heading.
    pub title: String,
    /// What it is about, in a sentence or two.
    pub lead: String,
    /// What it shows, in sentences; `**` and backquotes have their Markdown meaning.
    pub notes: Vec<String>,
    /// What the four looks of a cell mean, in the order of [`Mood`].
    pub key: [&'static str; 4],
    /// The date on which it was made.
    pub date: String,
    /// Its matrices.
    pub parts: Vec<Part>,
}

/// The key of pages about links.
pub const LINKS: [&str; 4] =
    ["links, says nothing", "warns, or differs", "refuses", "crashes, times out, or does damage in silence"];

const STYLE: &str = "
:root { color-scheme: light dark; --paper:#fbfaf7; --ink:#1d2126; --soft:#6a7078; --line:#dcd8cf; --head:#f1eee7;
  --good:#2c7a51; --good-wash:#e8f3ec; --doubtful:#8f6400; --doubtful-wash:#fbf1d8; --refused:#a93226;
  --refused-wash:#fae8e4; --broken:#5b2a86; --broken-wash:#efe6f7; }
@media (prefers-color-scheme: dark) { :root { --paper:#15181c; --ink:#e4e2dc; --soft:#949aa3; --line:#2d3239;
  --head:#1c2026; --good:#74c69a; --good-wash:#17271f; --doubtful:#e3b95c; --doubtful-wash:#2a2415;
  --refused:#f08a7a; --refused-wash:#301c1a; --broken:#c79bf0; --broken-wash:#271c33; } }
* { box-sizing: border-box; }
body { margin:0; background:var(--paper); color:var(--ink); font:15px/1.5 ui-sans-serif,system-ui,'DejaVu Sans',sans-serif; }
main { width:fit-content; min-width:100%; padding:2.5rem 2rem 4rem; }
header, h2, .notes, footer { position:sticky; left:2rem; max-width:calc(100vw - 4rem); }
header { border-bottom:3px solid var(--ink); padding-bottom:1.1rem; margin-bottom:1.4rem; }
h1 { font:600 2.1rem/1.15 ui-serif,Georgia,'DejaVu Serif',serif; letter-spacing:-.01em; margin:0 0 .5rem; }
h2 { font:600 1.15rem/1.3 ui-serif,Georgia,'DejaVu Serif',serif; margin:2.4rem 0 .7rem; }
.lead { max-width:52rem; margin:0; color:var(--soft); }
.key { display:flex; flex-wrap:wrap; gap:.4rem 1.4rem; padding:0; margin:1rem 0 0; list-style:none; font-size:.86rem; }
.key b, .sign { font-size:.72em; margin-right:.45em; }
.good { --c:var(--good); --w:var(--good-wash); } .doubtful { --c:var(--doubtful); --w:var(--doubtful-wash); }
.refused { --c:var(--refused); --w:var(--refused-wash); } .broken { --c:var(--broken); --w:var(--broken-wash); }
.key li, .sign { color:var(--c); }
.notes { margin:1.4rem 0 0; padding:0 0 0 1.2rem; font-size:.9rem; } .notes li { max-width:60rem; margin:.2rem 0; }
.matrix { border:1px solid var(--line); }
table { border-collapse:separate; border-spacing:0; width:100%; font-size:.82rem; font-variant-numeric:tabular-nums; }
th, td { text-align:left; vertical-align:top; border-bottom:1px solid var(--line); }
thead th { position:sticky; top:0; background:var(--head); padding:.55rem .6rem; z-index:2; font-weight:600; }
thead small { display:block; font-weight:400; color:var(--soft); font-size:.72rem; max-width:11rem; line-height:1.3; }
thead th:first-child { left:0; z-index:3; }
tbody th { position:sticky; left:0; background:var(--paper); padding:.4rem .7rem; font-weight:500; white-space:nowrap; z-index:1; }
tr.group th { background:var(--head); padding:.5rem .7rem; font-weight:600; white-space:normal; }
tr.group span { position:sticky; left:.7rem; }
tr.group small { font-weight:400; color:var(--soft); margin-left:.6em; }
td { padding:0; background:var(--w); min-width:9rem; border-left:1px solid var(--line); }
td > div, summary { padding:.4rem .6rem; }
summary { cursor:pointer; list-style:none; display:flex; gap:.5em; }
summary::after { content:'\u{25b8}'; margin-left:auto; color:var(--c); }
details[open] > summary::after { content:'\u{25be}'; }
.key .opens { color:var(--soft); }
summary::-webkit-details-marker { display:none; }
summary:hover, summary:focus-visible { box-shadow:inset 3px 0 0 var(--c); outline:none; }
details[open] > summary { border-bottom:1px dashed var(--c); }
pre { margin:0; padding:.6rem; font:11.5px/1.45 ui-monospace,'DejaVu Sans Mono',monospace; white-space:pre-wrap;
  overflow-wrap:anywhere; min-width:24rem; max-width:44rem; }
footer { margin-top:2.5rem; color:var(--soft); font-size:.82rem; }
@media print { @page { size:A3 landscape; margin:12mm; } body { font-size:11px; } main { padding:0; max-width:none; }
  .matrix { border:0; } thead th, tbody th, header, h2, .notes, footer, tr.group span { position:static; }
  summary::after { content:none; } main { width:auto; } td, th { break-inside:avoid; }
  td { print-color-adjust:exact; -webkit-print-color-adjust:exact; min-width:0; } tr { break-inside:avoid; }
  thead { display:table-header-group; } h2 { break-after:avoid; } }
";

/// Writes a page as HTML.
pub fn write(page: &Page) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{0}</title>\n<style>{STYLE}</style>\n<main>\n<header><h1>{0}</h1>\n<p class=\"lead\">{1}</p>\n<ul class=\"key\">",
        escape(&page.title),
        escape(&page.lead)
    );
    let moods = [Mood::Good, Mood::Doubtful, Mood::Refused, Mood::Broken];
    for (mood, text) in moods.into_iter().zip(page.key) {
        let _ = write!(html, "<li class=\"{}\"><b>{}</b>{text}</li>", mood.class(), mood.sign());
    }
    html.push_str("<li class=\"opens\"><b>\u{25b8}</b>opens to the details</li></ul></header>\n");
    write_notes(&mut html, &page.notes);
    page.parts.iter().for_each(|part| write_part(&mut html, part));
    let _ =
        writeln!(html, "<footer>Made by ld-compare on {}.</footer>\n</main>\n</html>", escape(&page.date));
    html
}

fn write_notes(html: &mut String, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    html.push_str("<ul class=\"notes\">");
    for note in notes {
        let _ = write!(html, "<li>{}</li>", marked_up(note));
    }
    html.push_str("</ul>\n");
}

/// Converts a sentence from Markdown; it knows the two kinds of marks that notes use.
fn marked_up(text: &str) -> String {
    let mut html = escape(text);
    for (mark, open, close) in [("**", "<b>", "</b>"), ("`", "<code>", "</code>")] {
        while let Some((before, rest)) = html.split_once(mark) {
            let Some((inside, after)) = rest.split_once(mark) else { break };
            html = format!("{before}{open}{inside}{close}{after}");
        }
    }
    html
}

fn write_part(html: &mut String, part: &Part) {
    let _ = writeln!(
        html,
        "<section><h2>{}</h2>\n<div class=\"matrix\"><table>\n<thead><tr><th></th>",
        escape(&part.title)
    );
    for (name, version) in &part.columns {
        let _ = write!(html, "<th scope=\"col\">{}<small>{}</small></th>", escape(name), escape(version));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    let mut group = None;
    for line in &part.lines {
        if group != Some(&line.group) && !line.group.is_empty() {
            let _ = writeln!(
                html,
                "<tr class=\"group\"><th colspan=\"{}\"><span>{}<small>{}</small></span></th></tr>",
                part.columns.len() + 1,
                escape(&line.group),
                escape(&line.about)
            );
        }
        group = Some(&line.group);
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(&line.name));
        line.cells.iter().for_each(|cell| write_cell(html, cell));
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div></section>\n");
}

fn write_cell(html: &mut String, cell: &Cell) {
    let label =
        format!("<span><span class=\"sign\">{}</span>{}</span>", cell.mood.sign(), escape(&cell.text));
    let _ = if cell.detail.is_empty() {
        write!(html, "<td class=\"{}\"><div>{label}</div></td>", cell.mood.class())
    } else {
        write!(
            html,
            "<td class=\"{}\"><details><summary>{label}</summary><pre>{}</pre></details></td>",
            cell.mood.class(),
            escape(&cell.detail)
        )
    };
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A comparison as a page. Each machine has its own linkers, so it gets its own matrix.
pub fn page(report: &Report) -> Page {
    let mut parts: Vec<Part> = Vec::new();
    for case in &report.cases {
        let columns: Vec<(String, String)> = case
            .results
            .iter()
            .map(|result| (result.linker.name.clone(), result.linker.version.clone()))
            .collect();
        let line = line(case);
        match parts.iter_mut().find(|part| part.title == case.machine.name() && part.columns == columns) {
            Some(part) => part.lines.push(line),
            None => parts.push(Part { title: case.machine.name().into(), columns, lines: vec![line] }),
        }
    }
    let links: usize = report.cases.iter().map(|case| case.results.len()).sum();
    Page {
        title: "Linkers compared".into(),
        key: LINKS,
        lead: format!(
            "{}, {}. A cell counts what a linker does otherwise than the majority of the others; open it for the causes.",
            count(report.cases.len() as u64, "case"),
            count(links as u64, "link")
        ),
        notes: Vec::new(),
        date: report.date.clone(),
        parts,
    }
}

fn line(case: &CaseReport) -> Line {
    Line {
        group: String::new(),
        about: String::new(),
        name: case.name.clone(),
        cells: case.results.iter().map(cell).collect(),
    }
}

fn cell(result: &LinkerReport) -> Cell {
    let status = result.facts.status;
    let accepted = |judgement: &Option<Judgement>| matches!(judgement, Some(Judgement::Accepted(_)));
    let open = result.differences.iter().filter(|judged| !accepted(&judged.judgement)).count();
    let known = result.differences.len() - open;
    let mood = match status {
        crate::run::Status::Exit(0) if open == 0 => Mood::Good,
        crate::run::Status::Exit(0) => Mood::Doubtful,
        crate::run::Status::Exit(_) => Mood::Refused,
        _ => Mood::Broken,
    };
    let mut text = match open {
        _ if !status.is_success() => status.to_string(),
        0 => "as the majority".to_owned(),
        open => format!("{open} differ"),
    };
    if known > 0 {
        let _ = write!(text, " ({known} known)");
    }
    Cell { mood, text, detail: detail(result) }
}

fn detail(result: &LinkerReport) -> String {
    let facts = &result.facts;
    let size = facts.size.map_or("no output".into(), |size| count(size, "byte"));
    let mut text = format!(
        "{}, {size}, {:.0} ms; .eh_frame: {}; SFrame: {}\n",
        facts.status,
        facts.seconds * 1000.0,
        covered(result, Aspect::EhFrame),
        covered(result, Aspect::Sframe)
    );
    let differences: Vec<_> = result.differences.iter().map(|judged| judged.difference.clone()).collect();
    for cause in causes(&differences) {
        let shown: Vec<&str> = cause.keys.iter().take(12).map(String::as_str).collect();
        let more = cause.keys.len().saturating_sub(12);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = writeln!(text, "\n{}: {}\n    {}{more}", cause.aspect.name(), cause.how, shown.join(", "));
    }
    if !result.said.trim().is_empty() {
        let _ = write!(text, "\n{}", result.said.trim());
    }
    text
}
