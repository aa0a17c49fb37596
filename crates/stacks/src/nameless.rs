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
/// (256).
const MAKERS: [(&str, &str, Option<&str>); 6] = [
    ("node", "`node --perf-basic-prof`", None),
    ("libnode.so", "`node --perf-basic-prof`", None),
    (
        "libjvm.so",
        "`java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit` (17 or newer) or, before it ends, `jcmd PID Compiler.perfmap`",
        Some("`java -XX:+PreserveFramePointer`"),
    ),
    ("libcoreclr.so", "`DOTNET_PerfMapEnabled=1`", None),
    ("php8", "`php -d opcache.jit_debug=272`", Some("`php -d opcache.jit_debug=272`")),
    ("libphp.so", "`opcache.jit_debug=272`", Some("`opcache.jit_debug=272`")),
];

/// Sentences about code that programs made while they ran, if many samples pass through such code without
/// names, or if many stacks end there.
pub fn of_made_code(profile: &Profile, names: &Names, files: &Files) -> Vec<String> {
    let is_unnamed = |frame: u32| {
        let place = profile.frames.get(frame as usize).map(|key| key.place);
        matches!(place, Some(Place::Anonymous(..))) && names.of(frame).first().is_some_and(|name| !name.known)
    };
    // Whether each stack has such a frame. Callers come before their callees.
    let mut pass: Vec<bool> = Vec::with_capacity(profile.stacks.len());
    for node in &profile.stacks {
        pass.push(
            pass.get(node.caller as usize).is_some_and(|&of_caller| of_caller) || is_unnamed(node.frame),
        );
    }
    let passes = |row: &&Row| pass.get(row.stack as usize).is_some_and(|&passes| passes);
    let share = |count: usize| 100.0 * count as f64 / profile.rows.len().max(1) as f64;
    let unnamed = share(profile.rows.iter().filter(passes).count());
    let ended = share(profile.rows.iter().filter(|row| row.end == End::Jit).count());
    let is_mapped = |name: &str| {
        let is_name = |path: &str| {
            path.rsplit('/')
                .next()
                .and_then(|last| last.strip_prefix(name))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
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
