//! Judges what a linker made of a shape, in a few words.

use super::mode::Mode;
use super::shapes::{MARK, Shape, Subject};
use crate::facts::{View, messages};
use crate::run::{Run, Status};
use object::elf;
use serde::Serialize;
use sframe_format::{SHT_GNU_SFRAME, Section};

/// A verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// How the link went: `ok`, `warns`, `complains` (reports errors, but links), `error`, how the linker
    /// died, or `silent` if it reports nothing although its output is wrong.
    pub said: String,
    /// What the output contains.
    pub made: String,
    /// Messages and details, which a report shows when its cell opens.
    pub detail: String,
}

impl Verdict {
    /// Both in one line.
    pub fn text(&self) -> String {
        match (self.said.as_str(), self.made.as_str()) {
            ("ok", made) => made.to_owned(),
            (said, "") => said.to_owned(),
            (said, made) => format!("{said}; {made}"),
        }
    }
}

/// Judges a run.
pub fn judge(shape: &Shape, mode: Mode, run: &Run) -> Verdict {
    let folder = run.folder.path();
    let messages = messages::read(&run.messages, folder);
    let detail = run.messages.replace(&folder.display().to_string(), "OUT").trim().to_owned();
    let said = match run.status {
        Status::Exit(0) if messages.iter().any(|message| message.severity == "error") => "complains",
        Status::Exit(0) if !messages.is_empty() => "warns",
        Status::Exit(0) => "ok",
        Status::Exit(_) => "error",
        Status::Signal(_) => "crash",
        Status::Timeout => "timeout",
    };
    let mut verdict = Verdict { said: said.into(), made: String::new(), detail };
    let Some(path) = run.output.as_deref().filter(|_| run.status.is_success()) else { return verdict };
    let Ok(bytes) = std::fs::read(path) else { return verdict };
    verdict.made = match View::parse(&bytes) {
        Err(error) => format!("unreadable output: {error}"),
        Ok(view) => match shape.subject {
            Subject::Sframe => sframe(&view, mode),
            Subject::Word => word(&view),
            Subject::EhFrame => eh_frame(&view),
            Subject::Members => members(&view),
        },
    };
    if verdict.said == "ok" && mode != Mode::Relocatable && is_damage(shape, &verdict.made) {
        verdict.said = "silent".into();
    }
    verdict
}

/// Whether an output lost frames or contains a dangling address. In sections that are not loaded, a tombstone
/// marks a discarded target.
fn is_damage(shape: &Shape, made: &str) -> bool {
    match shape.subject {
        Subject::Sframe => {
            let described = made.split_once(": ").and_then(|(_, rest)| rest.split_once(" of "));
            let all = described.is_some_and(|(some, rest)| rest.split(' ').next() == Some(some));
            !all || made.contains("dead rows") || made.contains("keeps dead text")
        }
        Subject::Word => {
            made == "a wild value" || (shape.is_loaded() && ["0", "1", "the addend"].contains(&made))
        }
        Subject::EhFrame => made.contains("dead FDEs"),
        Subject::Members => made.contains("bogus"),
    }
}

fn address(view: &View<'_>, name: &str) -> Option<u64> {
    view.symbols.iter().find(|symbol| symbol.name == name && symbol.is_defined()).map(|symbol| symbol.value)
}

const FUNCTIONS: [&str; 4] = ["_start", "shared", "b_fn", "unused"];

fn sframe(view: &View<'_>, mode: Mode) -> String {
    let is_sframe = |section: &&crate::facts::Section<'_>| {
        (section.kind == SHT_GNU_SFRAME || section.name.starts_with(".sframe")) && section.size > 0
    };
    let rows: Vec<_> = view.sections.iter().enumerate().filter(|(_, section)| is_sframe(section)).collect();
    let dead_text = mode == Mode::Gc && address(view, "unused").is_some();
    let keeps = if dead_text { ", keeps dead text" } else { "" };
    if rows.is_empty() {
        return format!("no .sframe{keeps}");
    }
    if view.is_relocatable() {
        return relocatable_sframe(view, &rows);
    }
    let (mut blobs, mut described, mut dead, mut first) = (0, Vec::new(), 0, 0);
    let live: Vec<(u64, &str)> =
        FUNCTIONS.iter().filter_map(|name| Some((address(view, name)?, *name))).collect();
    for (_, section) in &rows {
        for blob in Section::new(section.data, section.address).blobs() {
            blobs += 1;
            for fde in blob.fdes() {
                match live.iter().find(|(address, _)| *address == fde.address && fde.size > 0) {
                    Some((_, name)) => {
                        described.push(*name);
                        first += usize::from(blobs == 1);
                    }
                    None => dead += 1,
                }
            }
        }
    }
    described.sort_unstable();
    described.dedup();
    let form = match blobs {
        0 => "no blob".to_owned(),
        1 => "merged".to_owned(),
        blobs => format!("concat of {blobs}, first has {first}"),
    };
    let dead = if dead > 0 { format!(", {dead} dead rows") } else { String::new() };
    let segment = view.segments.iter().any(|segment| segment.kind == sframe_format::PT_GNU_SFRAME);
    let segment = if segment { "" } else { ", no segment" };
    format!("{form}: {} of {} functions{dead}{keeps}{segment}", described.len(), live.len())
}

fn relocatable_sframe(view: &View<'_>, rows: &[(usize, &crate::facts::Section<'_>)]) -> String {
    let grouped = rows.iter().filter(|(_, section)| section.flags & u64::from(elf::SHF_GROUP) != 0).count();
    let linked = rows.iter().filter(|(_, section)| section.flags & u64::from(elf::SHF_LINK_ORDER) != 0);
    let right =
        linked.clone().filter(|(_, section)| view.section_name(section.link).starts_with(".text")).count();
    let linked = linked.count();
    let mut relocations = 0;
    let mut none = 0;
    for (index, records) in &view.relocations {
        if rows.iter().any(|(row, _)| *row == view.sections[*index].info as usize) {
            relocations += records.iter().filter(|record| record.kind != 0).count();
            none += records.iter().filter(|record| record.kind == 0).count();
        }
    }
    let blobs: usize = rows.iter().map(|(_, section)| Section::new(section.data, 0).blobs().count()).sum();
    let mut text = match rows.len() {
        1 => format!("1 section, {blobs} blob{}", if blobs == 1 { "" } else { "s" }),
        sections => format!("{sections} sections, {blobs} blobs"),
    };
    text.push_str(&format!(", {relocations} relocations"));
    if none > 0 {
        text.push_str(&format!(" + {none} NONE"));
    }
    if grouped > 0 {
        text.push_str(&format!(", {grouped} in group"));
    }
    if linked > 0 {
        text.push_str(&format!(", {linked} link order"));
        if right < linked {
            text.push_str(&format!(" ({} bogus)", linked - right));
        }
    }
    text
}

/// The word after the mark.
fn word(view: &View<'_>) -> String {
    let pattern = if view.big { MARK.to_be_bytes() } else { MARK.to_le_bytes() };
    let mut found = None;
    for (index, section) in view.sections.iter().enumerate() {
        if let Some(at) = section.data.windows(8).position(|window| window == pattern) {
            found = Some((index, section, at + 8));
        }
    }
    let Some((index, section, at)) = found else { return "section dropped".into() };
    if view.is_relocatable() {
        return relocation_at(view, index, at as u64);
    }
    let bytes: [u8; 8] =
        section.data.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default();
    let value = if view.big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) };
    match (value, address(view, "shared")) {
        (value, Some(shared)) if value == shared + 4 => "the kept copy's address".into(),
        (0, _) => "0".into(),
        (1, _) => "1".into(),
        (u64::MAX, _) => "-1".into(),
        (4, _) => "the addend".into(),
        _ => "a wild value".into(),
    }
}

fn relocation_at(view: &View<'_>, section: usize, offset: u64) -> String {
    let records = view.relocations.iter().filter(|(index, _)| view.sections[*index].info as usize == section);
    let record = records.flat_map(|(_, records)| records).find(|record| record.offset == offset);
    match record {
        None => "relocation removed".into(),
        Some(record) if record.kind == 0 => "relocation NONE".into(),
        Some(record) if record.symbol == 0 => "relocation without symbol".into(),
        Some(record) => {
            let symbol = view.symbols.get(record.symbol as usize);
            let place = symbol.map_or("none", |symbol| view.section_name(symbol.section));
            match place {
                "none" => "relocation to an undefined symbol".into(),
                ".text.shared" => "relocation to the kept copy".into(),
                place => format!("relocation to {place}"),
            }
        }
    }
}

fn eh_frame(view: &View<'_>) -> String {
    let Some((index, section)) = view.section(".eh_frame") else { return "no .eh_frame".into() };
    if view.is_relocatable() {
        let records = view.relocations.iter().filter(|(row, _)| view.sections[*row].info as usize == index);
        let count: usize =
            records.map(|(_, records)| records.iter().filter(|record| record.kind != 0).count()).sum();
        return format!("{count} relocations in {} bytes", section.size);
    }
    let starts = crate::facts::eh_frame_functions(view).unwrap_or_default();
    let live: Vec<u64> = FUNCTIONS.iter().filter_map(|name| address(view, name)).collect();
    let covered = live.iter().filter(|address| starts.contains(address)).count();
    let dead = starts.iter().filter(|start| !live.contains(start)).count();
    let dead = if dead > 0 { format!(", {dead} dead FDEs") } else { String::new() };
    format!("{covered} of {} functions{dead}", live.len())
}

/// The shape's symbols, each kept or gone, and the sections with its metadata.
fn members(view: &View<'_>) -> String {
    let mut found = Vec::new();
    for name in ["user", "own", "meta", "twice", "only_b", "one", "two"] {
        let symbol = view.symbols.iter().find(|symbol| symbol.name == name);
        match symbol {
            Some(symbol) if symbol.is_defined() => found.push(name.to_owned()),
            Some(_) => found.push(format!("{name} undefined")),
            None => {}
        }
    }
    if let Some((_, section)) = view.section(".meta")
        && section.flags & u64::from(elf::SHF_LINK_ORDER) != 0
    {
        found.push(match view.section_name(section.link) {
            name if name.starts_with(".text") => "link order".into(),
            _ => "bogus link order".into(),
        });
    }
    if view.is_relocatable() {
        let groups = view.sections.iter().filter(|section| section.kind == elf::SHT_GROUP).count();
        found.push(format!("{groups} groups"));
    }
    if found.is_empty() { "nothing of it left".into() } else { found.join(", ") }
}
