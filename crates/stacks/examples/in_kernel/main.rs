//! Samples a command, unwinds each sample in the kernel and in user space, and prints the differences as
//! JSON.
//!
//! `in_kernel FOLDER COMMAND...`. At a sample, the event runs the kernel's program and also makes its usual
//! record, with registers and a copy of the stack. Both results belong to one thread and follow each other,
//! in either order. The example writes the compact tables of the kernel into the folder.

use serde::Serialize;
use stacks::files::{Files, Options};
use stacks::live::{InKernel, KernelReport, Request, Target, record};
use stacks::modules::Modules;
use stacks::process::Place;
use stacks::session::{Settings, Stack};
use stacks::statistics::End;
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The largest part of a stack that the kernel copies.
const STACK: u32 = 65528;
/// The two stacks of one sample are less far apart than this, in nanoseconds. Samples of a thread are twice
/// as far apart.
const CLOSE: u64 = 500_000;
/// Length of the start of the run, in nanoseconds from the first sample. During the start, user space reads
/// the files that a program begins with.
const START: u64 = 500_000_000;

/// The user part of a stack.
struct Walk {
    time: u64,
    in_kernel: bool,
    end: End,
    addresses: Vec<u64>,
    /// Whether the innermost frame is in code that the program made.
    made: bool,
}

#[derive(Default, Serialize)]
struct Counted {
    pairs: u64,
    equal: u64,
}

#[derive(Default, Serialize)]
struct Comparison {
    /// Samples that both sides have unwound, with user frames on at least one side.
    pairs: u64,
    /// Pairs with equal frames that both reached the root, or both did not.
    equal: u64,
    /// The same two counts without the start of the run.
    later: Counted,
    /// Samples without user frames on either side.
    without_user_part: u64,
    /// Samples that only one side has, because records were lost or the recording ended in between.
    single: u64,
    /// The number of unequal pairs, by reason.
    reasons: BTreeMap<String, u64>,
    deepest: usize,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    comparison: Comparison,
    lost: u64,
    /// Number of times that the kernel's program ran. `frames` and `nanoseconds` are sums over these runs.
    samples: u64,
    frames: u64,
    nanoseconds: u64,
    table_bytes: u64,
    table_memory: u64,
    tables: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1);
    let folder = words.next().ok_or("a folder and a command are wanted")?;
    let request = Request { stack_size: Some(STACK), ..Request::new(Target::Command(words.collect())) };
    let settings = Settings { files: Options { measure: true, ..Options::default() }, ..Settings::default() };
    let in_kernel = InKernel::load(true)?;
    let mut threads: HashMap<u32, Vec<Walk>> = HashMap::new();
    let mut take = |stack: &Stack<'_>| threads.entry(stack.tid).or_default().push(walk(stack));
    let stop = AtomicBool::new(false);
    let recorded = record(&request, settings, Some(in_kernel), &stop, &mut |_| (), &mut take)?;
    let mut comparison = Comparison::default();
    let start = threads.values().flatten().map(|walk| walk.time).min().unwrap_or(0);
    let later = start + START;
    threads.into_values().for_each(|walks| compare(walks, later, &recorded.files, &mut comparison));
    let tables = write_tables(&recorded.files, Path::new(&folder))?;
    let KernelReport { frames, run_time, table_memory, table_bytes, .. } =
        recorded.in_kernel.ok_or("nothing was unwound in the kernel")?;
    let report = Report {
        comparison,
        lost: recorded.statistics.lost,
        samples: run_time.samples,
        frames,
        nanoseconds: run_time.nanoseconds,
        table_bytes,
        table_memory,
        tables,
    };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

fn walk(stack: &Stack<'_>) -> Walk {
    let user = stack.frames.iter().filter(|frame| !matches!(frame.place, Place::Kernel(_)));
    Walk {
        time: stack.time.unwrap_or(0),
        in_kernel: stack.in_kernel,
        end: stack.end,
        made: user.clone().next().is_some_and(|frame| matches!(frame.place, Place::Anonymous(..))),
        addresses: user.map(|frame| frame.address).collect(),
    }
}

/// Pairs the stacks of a thread. `later` is the end of the start of the run.
fn compare(mut walks: Vec<Walk>, later: u64, files: &Files, found: &mut Comparison) {
    walks.sort_by_key(|walk| walk.time);
    let mut walks = walks.into_iter().peekable();
    while let Some(first) = walks.next() {
        let other = |second: &Walk| {
            second.in_kernel != first.in_kernel
                && second.time - first.time < CLOSE
                && second.addresses.first() == first.addresses.first()
        };
        let Some(second) = walks.next_if(other) else {
            found.single += 1;
            continue;
        };
        let (first, second) = if first.in_kernel { (first, second) } else { (second, first) };
        if first.addresses.is_empty() && second.addresses.is_empty() {
            found.without_user_part += 1;
            continue;
        }
        found.pairs += 1;
        found.deepest = found.deepest.max(first.addresses.len());
        let equal = first.addresses == second.addresses && first.end.is_rooted() == second.end.is_rooted();
        if first.time >= later {
            found.later.pairs += 1;
            found.later.equal += u64::from(equal);
        }
        if equal {
            found.equal += 1;
        } else {
            *found.reasons.entry(reason(&first, &second, files)).or_default() += 1;
        }
    }
}

fn reason(kernel: &Walk, user: &Walk, files: &Files) -> String {
    let common = kernel.addresses.len().min(user.addresses.len());
    if kernel.made && has_one_more(&kernel.addresses, &user.addresses) {
        return "user space left out the caller of made code at its first or last instruction".into();
    }
    if kernel.addresses[..common] != user.addresses[..common] {
        return "frames differ".into();
    }
    if kernel.addresses.len() > common || kernel.end.is_rooted() && !user.end.is_rooted() {
        return format!("user space ended first: {}", user.end.describe(&Modules::of(files)));
    }
    format!("the kernel ended first: {}", kernel.end.describe(&Modules::of(files)))
}

/// Whether a stack has a frame behind the innermost one that the other one lacks.
fn has_one_more(longer: &[u64], shorter: &[u64]) -> bool {
    let ([first, _, longer @ ..], [same, shorter @ ..]) = (longer, shorter) else { return false };
    let common = longer.len().min(shorter.len());
    first == same && longer[..common] == shorter[..common]
}

/// Writes the tables. Returns their names.
fn write_tables(files: &Files, folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let mut names = Vec::new();
    for (id, file) in files.iter().filter(|(_, file)| file.has_table()) {
        let Some(table) = files.table(id).and_then(stacks::table::Table::table) else { continue };
        let name = format!("{}-{}", id.0, file.name().replace(['[', ']'], ""));
        std::fs::write(folder.join(&name), table.data())?;
        names.push(name);
    }
    Ok(names)
}
