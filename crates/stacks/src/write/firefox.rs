//! The "processed profile" of the Firefox Profiler, in its version 55. The profiler reads all versions up to
//! its own.
//!
//! A profile consists of tables, each of which is an object of columns. Threads have tables of their own, and
//! share the list of files. All names are there, with lines, so that the profiler needs no files; it finds
//! them by their build-ids if a user asks for assembly or for other names.

mod libs;
mod table;

use crate::named::Named;
use crate::profile::{Profile, Row};
use libs::{Lib, Libs};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};
use table::{Thread, milliseconds};

/// The version of the profile, and that of the format that Firefox itself writes.
const VERSION: u32 = 55;
const GECKO_VERSION: u32 = 24;
/// Categories, by number. The first one is the profiler's own choice for what has none.
const CATEGORIES: [(&str, &str); 3] = [("Other", "grey"), ("Kernel", "orange"), ("User", "yellow")];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    meta: Meta<'a>,
    libs: Vec<Lib<'a>>,
    threads: Vec<Thread<'a>>,
    pages: [(); 0],
    counters: [(); 0],
    profiler_overhead: [(); 0],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    interval: f64,
    start_time: f64,
    product: &'a str,
    imported_from: &'a str,
    categories: Vec<Category>,
    process_type: u32,
    stackwalk: u32,
    debug: bool,
    version: u32,
    preprocessed_profile_version: u32,
    symbolicated: bool,
    uses_only_one_stack_type: bool,
    source_code_is_not_on_searchfox: bool,
    sample_units: Units,
    extensions: Extensions,
    marker_schema: [(); 0],
    paused_ranges: [(); 0],
}

#[derive(Serialize)]
struct Category {
    name: &'static str,
    color: &'static str,
    subcategories: [&'static str; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Units {
    time: &'static str,
    event_delay: &'static str,
    #[serde(rename = "threadCPUDelta")]
    cpu_delta: &'static str,
}

#[derive(Default, Serialize)]
struct Extensions {
    length: u32,
    #[serde(rename = "baseURL")]
    base_url: [(); 0],
    id: [(); 0],
    name: [(); 0],
}

/// Writes all samples: of each thread those of one event together.
pub fn write(named: Named<'_>, to: &mut dyn io::Write) -> io::Result<()> {
    let profile = named.profile;
    let start = profile.rows.iter().filter_map(|row| row.time).min().unwrap_or(0);
    let mut rows: Vec<&Row> = profile.rows.iter().collect();
    rows.sort_by_key(|row| row.time);
    let mut libs = Libs::default();
    let mut threads: BTreeMap<_, Thread<'_>> = BTreeMap::new();
    for row in rows {
        let Some(thread) = profile.threads.get(row.thread as usize) else { continue };
        // The threads of a process are together, and its first one comes first.
        let key = (thread.pid, thread.pid != thread.tid, row.thread, row.event);
        let made = threads.entry(key).or_insert_with(|| Thread::new(thread, event(profile, row)));
        made.add(named, &mut libs, row, start);
    }
    let file = File {
        meta: meta(named),
        libs: libs.all,
        threads: threads.into_values().collect(),
        pages: [],
        counters: [],
        profiler_overhead: [],
    };
    serde_json::to_writer(&mut *to, &file)?;
    to.write_all(b"\n")
}

/// The event of a sample, and whether there are others that have to be told from it.
fn event<'a>(profile: &'a Profile, row: &Row) -> (&'a str, bool) {
    (profile.event(row.event), profile.events.len() > 1)
}

fn meta(named: Named<'_>) -> Meta<'_> {
    let category = |(name, color)| Category { name, color, subcategories: ["Other"] };
    let begun = named.profile.begun.unwrap_or_else(SystemTime::now);
    let begun = begun.duration_since(UNIX_EPOCH).unwrap_or_default();
    Meta {
        interval: interval(named.profile),
        start_time: begun.as_secs_f64() * 1e3,
        product: named.title,
        imported_from: concat!("sframe ", env!("CARGO_PKG_VERSION")),
        categories: CATEGORIES.into_iter().map(category).collect(),
        process_type: 0,
        stackwalk: 1,
        debug: false,
        version: GECKO_VERSION,
        preprocessed_profile_version: VERSION,
        symbolicated: true,
        uses_only_one_stack_type: true,
        source_code_is_not_on_searchfox: true,
        sample_units: Units { time: "ms", event_delay: "ms", cpu_delta: "µs" },
        extensions: Extensions::default(),
        marker_schema: [],
        paused_ranges: [],
    }
}

/// Milliseconds between two samples of a thread that runs: what a sample of processor time stands for.
/// Otherwise, the length of the recording divided by the number of samples. At least a microsecond.
fn interval(profile: &Profile) -> f64 {
    let rows = || profile.rows.iter();
    let times = || rows().filter_map(|row| row.time);
    let length = times().max().unwrap_or(0) - times().min().unwrap_or(0);
    let average = length / rows().len().max(1) as u64;
    let timed = rows().find(|row| table::is_processor_time(profile.event(row.event)));
    milliseconds(timed.map_or(average, |row| row.period).max(1_000))
}
