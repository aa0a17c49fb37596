//! Which files lack the names of functions that samples are in.

use crate::files::{FileId, Files, hexadecimal};
use crate::process::Place;
use crate::profile::{Names, Profile, Row};
use crate::statistics::End;
use std::collections::BTreeMap;

/// A file fits the list if so many of a hundred samples are in its functions without names.
const LEAST_SHARE: f64 = 5.0;

/// For each file, of how many samples the innermost function has no name: sentences about those where it is
/// many, the worst first. A file that could not be read at all is not among them.
pub fn nameless(profile: &Profile, names: &Names, files: &Files) -> Vec<String> {
    let mut counts: BTreeMap<FileId, usize> = BTreeMap::new();
    for row in &profile.rows {
        let Some(frame) = profile.frames_of(row.stack).next() else { continue };
        let is_known = names.of(frame).first().is_none_or(|name| name.known);
        if let Place::File(file, _) = profile.frames[frame as usize].place
            && !is_known
        {
            *counts.entry(file).or_default() += 1;
        }
    }
    let share = |count: usize| 100.0 * count as f64 / profile.rows.len().max(1) as f64;
    let mut many: Vec<_> = counts.into_iter().filter(|(_, count)| share(*count) >= LEAST_SHARE).collect();
    many.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let sentence = |(file, count): (FileId, usize)| {
        let file = files.get(file).filter(|file| file.image().is_ok())?;
        let remedy = match file.build_id() {
            Some(id) => format!(
                "no debug file has its build-id, {}; a package of the distribution may have it, or debuginfod (DEBUGINFOD_URLS)",
                hexadecimal(id)
            ),
            None => "it has no build-id to find a debug file by".to_owned(),
        };
        let share = share(count);
        Some(format!("{}: {share:.0} % of the samples are in functions without names: {remedy}", file.path))
    };
    many.into_iter().filter_map(sentence).collect()
}

/// Programs that make code, by a file that they have mapped: how they name it, and how they keep a frame
/// pointer in it or describe its frames, if they do not do so anyway. PHP writes a list (16), and tells gdb
/// (256), but not of the code that its library makes of patterns.
const MAKERS: [(&str, &str, Option<&str>); 9] = [
    ("node", "`node --perf-basic-prof`", None),
    ("libnode.so", "`node --perf-basic-prof`", None),
    (
        "libjvm.so",
        "`java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit` (17 or newer) or, before it ends, `jcmd PID Compiler.perfmap`",
        Some("`java -XX:+PreserveFramePointer`"),
    ),
    ("libcoreclr.so", "`DOTNET_PerfMapEnabled=1`", None),
    ("mono-sgen", "`mono --jitmap`", None),
    ("libmonosgen-2.0.so", "`MONO_ENV_OPTIONS=--jitmap`", None),
    ("beam.smp", "`erl +JPperf true`", None),
    ("php8", "`php -d opcache.jit_debug=272`", Some("`php -d opcache.jit_debug=272 -d pcre.jit=0`")),
    ("libphp.so", "`opcache.jit_debug=272`", Some("`opcache.jit_debug=272` and `pcre.jit=0`")),
];

/// Sentences about code that programs made while they ran, if many samples pass through such code without
/// names, or if many stacks end there.
pub fn of_made_code(profile: &Profile, names: &Names, files: &Files) -> Vec<String> {
    let is_unnamed = |frame: u32| {
        let place = profile.frames.get(frame as usize).map(|key| key.place);
        matches!(place, Some(Place::Anonymous(..))) && names.of(frame).first().is_some_and(|name| !name.known)
    };
    let share = |count: usize| 100.0 * count as f64 / profile.rows.len().max(1) as f64;
    let unnamed = share_through(profile, is_unnamed);
    let ended = share(profile.rows.iter().filter(|row| row.end == End::Jit).count());
    let is_mapped = |name: &str| {
        let is_name = |path: &str| {
            last_of(path).strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        files.iter().any(|(_, file)| is_name(&file.path))
    };
    let makers: Vec<_> = MAKERS.iter().filter(|(file, ..)| is_mapped(file)).collect();
    let names_it = makers.iter().map(|maker| maker.1).collect::<Vec<_>>().join(", ");
    let keeps = makers.iter().filter_map(|maker| maker.2).collect::<Vec<_>>().join(", ");
    let mut all = Vec::new();
    if unnamed >= LEAST_SHARE {
        let remedy = if makers.is_empty() {
            "it can write their names to /tmp/perf-PID.map or a jitdump".into()
        } else {
            format!("{names_it} writes them to /tmp/perf-PID.map")
        };
        all.push(format!(
            "{unnamed:.0} % of the samples pass through functions without names that a program made while it ran: {remedy}"
        ));
    }
    if ended >= LEAST_SHARE {
        let remedy = if keeps.is_empty() {
            "the program may have an option for that, or describe it in a jitdump".into()
        } else {
            format!("{keeps} helps")
        };
        all.push(format!(
            "{ended:.0} % of the stacks end in code that a program made while it ran, and nothing says how it is left: {remedy}"
        ));
    }
    all
}

/// A sentence about functions of scripts that have no frames of their own, if many samples are in an
/// interpreter that could give them some.
pub fn of_scripts(profile: &Profile, names: &Names, files: &Files) -> Option<String> {
    /// What the names of functions of Python begin with.
    const FUNCTION: &str = "py::";
    let of_frame = |frame: u32| names.of(frame).first().map_or("", |name| &name.function);
    if (0..profile.frames.len() as u32).any(|frame| of_frame(frame).starts_with(FUNCTION)) {
        return None;
    }
    let is_python = |frame: u32| match profile.frames.get(frame as usize).map(|key| key.place) {
        Some(Place::File(file, _)) => files.get(file).is_some_and(|file| is_of_python(&file.path)),
        _ => false,
    };
    let share = share_through(profile, is_python);
    (share >= LEAST_SHARE).then(|| {
        format!(
            "{share:.0} % of the samples are in Python, and the script's own functions have no frames: `python3 -X perf` gives them some (Python 3.12 or newer)"
        )
    })
}

/// Whether a path is that of CPython, as a program or as a library.
fn is_of_python(path: &str) -> bool {
    let name = last_of(path);
    let version = name.strip_prefix("lib").unwrap_or(name).strip_prefix("python3.");
    version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
}

/// The last part of a path.
fn last_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The percentage of the samples whose stacks have such a frame.
fn share_through(profile: &Profile, is_such: impl Fn(u32) -> bool) -> f64 {
    // For each stack. Callers come before their callees.
    let mut pass: Vec<bool> = Vec::with_capacity(profile.stacks.len());
    for node in &profile.stacks {
        let of_caller = pass.get(node.caller as usize).is_some_and(|&of_caller| of_caller);
        pass.push(of_caller || is_such(node.frame));
    }
    let passes = |row: &&Row| pass.get(row.stack as usize).is_some_and(|&passes| passes);
    100.0 * profile.rows.iter().filter(passes).count() as f64 / profile.rows.len().max(1) as f64
}
