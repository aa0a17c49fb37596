//! `sframe diff`: two profiles compared, function by function, as text, JSON or a page in red and blue.

use super::args::{Diff, DiffForm, RowSources, StackRows};
use super::destination::{self, Way};
use super::open::Problem;
use super::report::{self, Outcome, complain};
use super::samples::{Samples, Unwound};
use super::stack_output::{settings, write_whole};
use serde::Serialize;
use stacks::functions::{Change, Counts, changes};
use stacks::renamed::Renamed;
use stacks::write::{Kept, write_difference};
use std::io::{self, Write};
use std::path::Path;

/// Compares two profiles.
pub fn run(arguments: &Diff) -> Outcome {
    Outcome::of(compare(arguments))
}

fn compare(arguments: &Diff) -> Result<(), Problem> {
    let output = arguments.output.as_deref().filter(|path| path.as_os_str() != "-");
    let by_name = |path: &Path| match path.extension()?.to_str()? {
        "html" | "htm" => Some(DiffForm::Html),
        "json" => Some(DiffForm::Json),
        _ => None,
    };
    let form = arguments.format.or_else(|| by_name(output?)).unwrap_or(DiffForm::Text);
    if let Some(path) = output {
        let check = || {
            destination::check(path, Way::Written)?;
            [&arguments.before, &arguments.after]
                .iter()
                .try_for_each(|input| destination::check_apart(path, input))
        };
        check().map_err(|message| Problem::new(path.display().to_string(), message))?;
    }
    let (before, after) = (read(&arguments.before, arguments)?, read(&arguments.after, arguments)?);
    let write = |to: &mut dyn Write| match form {
        DiffForm::Html => write_difference(before.named(), after.named(), to),
        DiffForm::Json => write_json(&before, &after, arguments, to),
        DiffForm::Text => write_text(&before, &after, arguments, to),
    };
    match output {
        Some(path) => write_whole(path, write),
        None => report::write(write),
    }
}

fn read(path: &Path, arguments: &Diff) -> Result<Kept, Problem> {
    let rows = StackRows { sources: RowSources::All, frame_pointers: false };
    match Samples::read(path, settings(&rows, arguments.sysroot.clone(), false), false)? {
        Samples::Kept(kept) => Ok(*kept),
        Samples::Recorded(unwound) => {
            let Unwound { profile, files, statistics, kernel, damage } = *unwound;
            damage.iter().for_each(complain);
            let title = path.display().to_string();
            Ok(Kept::new(profile, (&files, &kernel), &statistics, arguments.inline, &title))
        }
    }
}

/// How many samples there are, and how many of these are periods that were not sampled, the changes to tell
/// of, and the number of those that are left out because chance explains them.
fn told<'a>(before: &'a Kept, after: &'a Kept, arguments: &Diff) -> ([[u64; 2]; 2], Vec<Change<'a>>, usize) {
    // Samples of other events do not say for how long something ran.
    let renamed = Renamed::between(before.named(), after.named());
    let counts = [before, after]
        .map(|kept| Counts::new(kept.named(), |row| row.event == 0, |file| renamed.file(file)));
    let all = changes(&counts[0], &counts[1]);
    let count = all.len();
    let sure: Vec<_> = all.into_iter().filter(|change| change.is_sure || arguments.all).collect();
    let left = count - sure.len();
    (counts.map(|counts| [counts.samples, counts.unsampled]), sure, left)
}

fn write_text(before: &Kept, after: &Kept, arguments: &Diff, to: &mut dyn Write) -> io::Result<()> {
    let (samples, changes, left) = told(before, after, arguments);
    let told = |[all, unsampled]: [u64; 2]| match unsampled {
        0 => format!("{all} samples"),
        _ => format!("{} samples, {unsampled} periods not sampled", all - unsampled),
    };
    writeln!(to, "before: {} ({})", before.title, told(samples[0]))?;
    writeln!(to, "after:  {} ({})\n", after.title, told(samples[1]))?;
    writeln!(to, "           self, %                    total, %")?;
    writeln!(to, " before   after  change     before   after  change  function")?;
    let shown = if arguments.all { changes.len() } else { changes.len().min(arguments.top) };
    for change in &changes[..shown] {
        let columns = |[before, after]: [f64; 2]| {
            format!("{:7.2} {:7.2} {:+7.2}", 100.0 * before, 100.0 * after, 100.0 * (after - before))
        };
        let (name, file) = change.function;
        writeln!(
            to,
            "{}    {}  {} ({})",
            columns(change.own),
            columns(change.total),
            clean(name),
            clean(file)
        )?;
    }
    if changes.len() > shown {
        writeln!(to, "\n{} more functions changed; --top shows more", changes.len() - shown)?;
    }
    if left > 0 {
        writeln!(to, "\n{left} functions have changed no more than samples do by chance; --all shows them")?;
    }
    Ok(())
}

/// A name without characters that a terminal would obey.
fn clean(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[derive(Serialize)]
struct JsonChange<'a> {
    function: &'a str,
    file: &'a str,
    self_samples: [u64; 2],
    total_samples: [u64; 2],
    self_share: [f64; 2],
    total_share: [f64; 2],
    sure: bool,
}

fn write_json(before: &Kept, after: &Kept, arguments: &Diff, to: &mut dyn Write) -> io::Result<()> {
    let (samples, changes, _) = told(before, after, arguments);
    let functions: Vec<_> = changes
        .iter()
        .map(|change| JsonChange {
            function: change.function.0,
            file: change.function.1,
            self_samples: change.counts.map(|count| count.own),
            total_samples: change.counts.map(|count| count.total),
            self_share: change.own,
            total_share: change.total,
            sure: change.is_sure,
        })
        .collect();
    serde_json::to_writer_pretty(
        &mut *to,
        &serde_json::json!({ "samples": samples.map(|[all, _]| all), "functions": functions }),
    )?;
    writeln!(to)
}
