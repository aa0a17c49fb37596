//! What a program did by each linker, and who is right: the majority of the others.

use super::bench::Bench;
use super::link::{Way, steps};
use super::program::Program;
use crate::cases::Case;
use crate::peers::{Family, Linker};
use crate::run::{Limits, Run, Status, run};
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Links take milliseconds, but hundreds of others may run beside them.
const LIMITS: Limits = Limits { time: 300.0, memory: 16384, output: 2048 };

/// What came of a link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The linker refused; its messages.
    Refused(String),
    /// The linker gave no answer: a signal, an assertion of its own, or time ended it. It has no vote.
    Broken(String),
    /// The program ran to this end, and printed this.
    Ran(String, String),
}

impl Outcome {
    /// Whether two are the same; texts of messages do not count.
    pub fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Outcome::Refused(_), Outcome::Refused(_)) => true,
            (Outcome::Broken(_), _) | (_, Outcome::Broken(_)) => false,
            _ => self == other,
        }
    }
}

/// The judgement over all linkers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All agree.
    Agreed,
    /// The majority of the others disagrees with this project's linker.
    OursDiffers(usize),
    /// These disagree with the rest.
    OthersDiffer(Vec<usize>),
    /// The others have no majority.
    Unsettled,
}

/// The case of a way, for a family of linkers.
pub fn case(bench: &Bench, program: &Program, way: &Way, family: Family, folder: &Path) -> Case {
    Case {
        name: format!("{}-{}", bench.machine.name(), program.seed),
        machine: bench.machine,
        folder: folder.to_owned(),
        steps: steps(program, way, family, &bench.place),
        keep: None,
    }
}

/// Links a way by one linker and runs the program.
///
/// # Errors
/// The linker or the program cannot be started.
pub fn outcome(
    bench: &Bench,
    linker: &Linker,
    program: &Program,
    way: &Way,
    folder: &Path,
) -> Result<(Outcome, Run)> {
    let linked = run(linker, &case(bench, program, way, linker.family, folder), &LIMITS)?;
    let outcome = match (&linked.output, linked.status) {
        (Some(output), Status::Exit(0)) => {
            let ran = bench.run(output)?;
            Outcome::Ran(ran.status.to_string(), ran.messages)
        }
        _ => {
            let said = format!("{}: {}", linked.status, linked.messages);
            let refused = matches!(linked.status, Status::Exit(_)) && !said.contains("assertion fail");
            if refused { Outcome::Refused(said) } else { Outcome::Broken(said) }
        }
    };
    Ok((outcome, linked))
}

/// The judgement; the first outcome is this project's.
pub fn judge(outcomes: &[Outcome]) -> Verdict {
    let Some((ours, others)) = outcomes.split_first() else { return Verdict::Unsettled };
    if let Outcome::Broken(_) = ours {
        return Verdict::OursDiffers(0);
    }
    if others.iter().all(|other| other.agrees(ours)) {
        return Verdict::Agreed;
    }
    let votes = |at: &usize| others.iter().filter(|other| other.agrees(&others[*at])).count();
    let Some(best) = (0..others.len()).max_by_key(|at| (votes(at), usize::MAX - at)) else {
        return Verdict::Unsettled;
    };
    let rival = (0..others.len()).any(|at| !others[at].agrees(&others[best]) && votes(&at) == votes(&best));
    if votes(&best) < 2 || rival {
        return Verdict::Unsettled;
    }
    if !others[best].agrees(ours) {
        return Verdict::OursDiffers(best + 1);
    }
    Verdict::OthersDiffer((1..outcomes.len()).filter(|at| !outcomes[*at].agrees(ours)).collect())
}

/// Complaints of other readers about a file of ours: of readelf, and of `sframe verify` if the program has frames.
///
/// # Errors
/// A reader cannot be started.
pub fn complaints(
    bench: &Bench,
    sframe: Option<&Path>,
    framed: bool,
    linked: &Run,
) -> Result<Option<String>> {
    let Some(output) = &linked.output else { return Ok(None) };
    let read = Command::new(&bench.readelf).arg("-aW").arg(output).env("LC_ALL", "C").output()?;
    let said = String::from_utf8_lossy(&read.stderr).into_owned();
    if !said.is_empty() || !read.status.success() {
        return Ok(Some(format!("readelf -aW: {said}")));
    }
    if let (Some(sframe), true) = (sframe, framed) {
        let read = Command::new(sframe).arg("verify").arg(output).output()?;
        if !read.status.success() {
            let text = [read.stdout, read.stderr].concat();
            return Ok(Some(format!("sframe verify: {}", String::from_utf8_lossy(&text))));
        }
    }
    Ok(None)
}

/// How an outcome differs from another, in a line each, with what the program's text says of the notes.
pub fn difference(found: &Outcome, expected: &Outcome, folder: &Path) -> Vec<String> {
    let (one, other) = match (found, expected) {
        (Outcome::Ran(one_end, one), Outcome::Ran(other_end, other)) => {
            if one_end != other_end {
                return vec![format!("ends with {one_end} instead of {other_end}")];
            }
            (one, other)
        }
        (Outcome::Broken(said), _) => return vec![format!("gives no answer: {}", first_error(said))],
        (_, Outcome::Broken(said)) => return vec![format!("others give no answer: {}", first_error(said))],
        (Outcome::Refused(said), _) => return vec![format!("refuses: {}", first_error(said))],
        (_, Outcome::Refused(said)) => return vec![format!("accepts, others refuse: {}", first_error(said))],
    };
    let described = descriptions(folder);
    let mut lines = Vec::new();
    let notes = |text: &str| -> BTreeMap<String, String> {
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        pairs.map(|(id, value)| (id.to_owned(), value.to_owned())).collect()
    };
    let (one_notes, other_notes) = (notes(one), notes(other));
    for (id, value) in &one_notes {
        let expected = other_notes.get(id).map_or("nothing", String::as_str);
        if value != expected {
            let what = described.get(id).map_or("", String::as_str);
            lines.push(format!("{id}: {value} instead of {expected}: {what}"));
        }
    }
    let missing = other_notes.keys().filter(|id| !one_notes.contains_key(*id));
    lines.extend(
        missing.map(|id| format!("{id}: not noted: {}", described.get(id).map_or("", String::as_str))),
    );
    if lines.is_empty() {
        let mut pairs = one.lines().zip(other.lines());
        let at = pairs.find(|(one, other)| one != other);
        lines.push(format!("another order: {at:?}"));
    }
    lines
}

fn first_error(said: &str) -> String {
    let error = |line: &&str| line.contains("error") || line.contains("fatal") || line.contains("undefined");
    let line = said.lines().find(error).or(said.lines().next()).unwrap_or_default();
    line.chars().take(300).collect()
}

/// What the comments of a program's texts say of each note.
fn descriptions(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().extension().is_none_or(|extension| extension != "s") {
            continue;
        }
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        for line in text.lines() {
            let Some(rest) = line.strip_prefix("# ").or(line.strip_prefix("// ")) else { continue };
            if let Some((id, what)) = rest.split_once(": ") {
                found.insert(id.to_owned(), format!("{}: {what}", entry.file_name().to_string_lossy()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(text: &str) -> Outcome {
        Outcome::Ran("ok".into(), text.into())
    }

    #[test]
    fn the_majority_of_the_others_is_right() {
        let refused = || Outcome::Refused("no".into());
        assert_eq!(judge(&[ran("1"), ran("1"), ran("1"), ran("1")]), Verdict::Agreed);
        assert_eq!(judge(&[ran("2"), ran("1"), ran("1"), ran("3")]), Verdict::OursDiffers(1));
        assert_eq!(judge(&[ran("1"), ran("1"), refused(), ran("1")]), Verdict::OthersDiffer(vec![2]));
        assert_eq!(judge(&[refused(), ran("1"), refused(), ran("2")]), Verdict::Unsettled);
        assert_eq!(judge(&[ran("1"), ran("1"), ran("2")]), Verdict::Unsettled);
        let broken = || Outcome::Broken("signal 11".into());
        assert_eq!(judge(&[ran("1"), broken(), refused(), ran("1")]), Verdict::Unsettled);
        assert_eq!(judge(&[ran("1"), broken(), ran("1"), ran("1")]), Verdict::OthersDiffer(vec![1]));
        assert_eq!(judge(&[broken(), ran("1"), ran("1"), ran("1")]), Verdict::OursDiffers(0));
    }
}
