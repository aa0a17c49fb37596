//! Judges what a program did with each linker. The majority of the other linkers is right.

use super::bench::Bench;
use super::link::{Way, steps};
use super::program::Program;
use crate::cases::Case;
use crate::peers::{Family, Linker};
use crate::run::{Limits, Run, Status, run};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Generous limits: a link takes milliseconds, but hundreds may run at the same time.
const LIMITS: Limits = Limits { time: 300.0, memory: 16384, output: 2048 };

/// The outcome of a link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The linker refused, with these messages.
    Refused(String),
    /// There is no answer and no vote. A signal, an assertion or the time limit ended the linker, or a signal
    /// or the time limit ended its program. No program is meant to end in this way, and two that do may do it
    /// in different places. Or the linker refused a library that it had made itself: then one of its two
    /// steps is wrong.
    Broken(String),
    /// The program ran to this end, and printed this text.
    Ran(String, String),
}

impl Outcome {
    /// Whether two outcomes are the same; the texts of messages do not matter.
    pub fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Outcome::Refused(_), Outcome::Refused(_)) => true,
            (Outcome::Broken(_), _) | (_, Outcome::Broken(_)) => false,
            _ => self == other,
        }
    }

    /// Whether two linkers vote for the same outcome. They must agree. If both refuse, their messages must
    /// also be about the same symbol: if one lacks a relocation and the other finds an address out of range,
    /// that says nothing about the program.
    fn votes_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Outcome::Refused(one), Outcome::Refused(other)) => {
                one == other || !named_symbols(one).is_disjoint(&named_symbols(other))
            }
            _ => self.agrees(other),
        }
    }
}

/// The program's symbols in a linker's messages. A symbol is `kind_number`; files and functions are
/// `unit_number`.
fn named_symbols(said: &str) -> BTreeSet<&str> {
    let words = said.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_symbol = |word: &&str| {
        let number = word.rsplit_once('_');
        number.is_some_and(|(kind, number)| {
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            is_number && kind != "unit" && !kind.starts_with("R_")
        })
    };
    words.filter(is_symbol).collect()
}

/// The values that a program noted, by the number of the note.
fn notes(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once(' ')).collect()
}

/// The numbers of a program's notes, in order.
fn order(text: &str) -> Vec<&str> {
    text.lines().map(|line| line.split_once(' ').map_or(line, |(id, _)| id)).collect()
}

/// The judgement on all linkers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All agree.
    Agreed,
    /// The majority of the others disagrees with this project's linker: the number of one of them. 0 if this
    /// project's outcome is [`Outcome::Broken`].
    OursDiffers(usize),
    /// These linkers disagree with the rest.
    OthersDiffer(Vec<usize>),
    /// The others have no majority.
    Unsettled,
}

/// The case for one way to link, for a family of linkers.
pub fn case(bench: &Bench, program: &Program, way: &Way, family: Family, folder: &Path) -> Case {
    Case {
        name: format!("{}-{}", bench.machine.name(), program.seed),
        machine: bench.machine,
        folder: folder.to_owned(),
        steps: steps(program, way, family, &bench.place),
        keep: None,
    }
}

/// Links in one way with one linker and runs the program.
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
            match ran.status {
                Status::Exit(_) => Outcome::Ran(ran.status.to_string(), ran.messages),
                _ => Outcome::Broken(format!("the program ends with {}", ran.status)),
            }
        }
        _ => failure(linked.status, &linked.messages, &linked.taken),
    };
    Ok((outcome, linked))
}

/// The outcome of a link that failed; `taken` are the linker's own earlier outputs that it read.
fn failure(status: Status, messages: &str, taken: &[PathBuf]) -> Outcome {
    let said = format!("{status}: {messages}");
    // Only the file with the error counts. Others are named below it because they refer to a symbol. If an
    // object that `-r` wrote is wrong, its inputs usually are the reason.
    let error = first_error(&said);
    let mut libraries =
        taken.iter().filter(|file| file.extension().is_some_and(|extension| extension == "so"));
    let names_own = libraries.any(|library| error.contains(&*library.to_string_lossy()));
    let refused = matches!(status, Status::Exit(_)) && !said.contains("assertion fail") && !names_own;
    if refused { Outcome::Refused(said) } else { Outcome::Broken(said) }
}

/// Judges the outcomes; the first one is this project's.
pub fn judge(outcomes: &[Outcome]) -> Verdict {
    let Some((ours, others)) = outcomes.split_first() else { return Verdict::Unsettled };
    if let Outcome::Broken(_) = ours {
        return Verdict::OursDiffers(0);
    }
    if others.iter().all(|other| other.agrees(ours)) {
        return Verdict::Agreed;
    }
    match majority(others, Outcome::votes_with) {
        Some(best) if !others[best].agrees(ours) => Verdict::OursDiffers(best + 1),
        Some(_) => others_differ(outcomes),
        None => judge_notes(outcomes),
    }
}

fn others_differ(outcomes: &[Outcome]) -> Verdict {
    Verdict::OthersDiffer((1..outcomes.len()).filter(|at| !outcomes[*at].agrees(&outcomes[0])).collect())
}

/// The first element of the largest set of agreeing elements. The set must have at least two elements, and no
/// other set may be as large.
fn majority<T>(all: &[T], agree: impl Fn(&T, &T) -> bool) -> Option<usize> {
    let votes = |at: usize| all.iter().filter(|other| agree(other, &all[at])).count();
    let best = (0..all.len()).max_by_key(|&at| (votes(at), usize::MAX - at))?;
    let rival = (0..all.len()).any(|at| !agree(&all[at], &all[best]) && votes(at) == votes(best));
    (votes(best) >= 2 && !rival).then_some(best)
}

/// Those outcomes after the first whose program ended in the same way: the place of each, and its notes.
fn ended_alike<'a>(outcomes: &'a [Outcome], end: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    outcomes.iter().enumerate().skip(1).filter_map(move |(at, outcome)| match outcome {
        Outcome::Ran(other_end, text) if other_end == end => Some((at, text.as_str())),
        _ => None,
    })
}

/// Judges note by note, if no two programs of other linkers have equal notes: one linker may be wrong in one
/// note, another in another. Every note needs a majority, and so does the order of notes.
fn judge_notes(outcomes: &[Outcome]) -> Verdict {
    let Outcome::Ran(our_end, ours) = &outcomes[0] else { return Verdict::Unsettled };
    let (voters, texts): (Vec<usize>, Vec<&str>) = ended_alike(outcomes, our_end).unzip();
    let orders: Vec<_> = texts.iter().map(|text| order(text)).collect();
    let Some(best) = majority(&orders, |one, other| one == other) else { return Verdict::Unsettled };
    let mut wrong = (orders[best] != order(ours)).then_some(voters[best]);
    let noted: Vec<BTreeMap<&str, &str>> = texts.iter().map(|text| notes(text)).collect();
    let ours = notes(ours);
    for note in noted.iter().flat_map(BTreeMap::keys).chain(ours.keys()) {
        let values: Vec<Option<&&str>> = noted.iter().map(|notes| notes.get(note)).collect();
        let Some(best) = majority(&values, |one, other| one == other) else { return Verdict::Unsettled };
        if values[best] != ours.get(note) {
            wrong = wrong.or(Some(voters[best]));
        }
    }
    wrong.map_or_else(|| others_differ(outcomes), Verdict::OursDiffers)
}

/// Whether the first linker did something that no other linker did: it alone refused, or its program ended in
/// another way, noted in another order, or noted a value that no other program noted. Why not compare whole
/// outcomes: if each of the others is wrong in a note of its own, none equals the first, and yet each value
/// of the first is in one of them.
pub fn stands_alone(outcomes: &[Outcome]) -> bool {
    let Some((first, others)) = outcomes.split_first() else { return false };
    let Outcome::Ran(first_end, first_text) = first else {
        return !others.iter().any(|other| other.agrees(first));
    };
    let texts: Vec<&str> = ended_alike(outcomes, first_end).map(|(_, text)| text).collect();
    let noted: Vec<BTreeMap<&str, &str>> = texts.iter().map(|text| notes(text)).collect();
    let is_shared = |(note, value): (&&str, &&str)| noted.iter().any(|other| other.get(note) == Some(value));
    !texts.iter().any(|text| order(text) == order(first_text)) || !notes(first_text).iter().all(is_shared)
}

/// What other readers say against a file that this project's linker made: readelf, and `sframe verify` if the
/// program has frames.
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

/// The differences between two outcomes, one line for each, with the descriptions of the notes.
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
    let (one_notes, other_notes) = (notes(one), notes(other));
    for (id, value) in &one_notes {
        let expected = other_notes.get(id).copied().unwrap_or("nothing");
        if *value != expected {
            let what = described.get(*id).map_or("", String::as_str);
            lines.push(format!("{id}: {value} instead of {expected}: {what}"));
        }
    }
    let missing = other_notes.keys().filter(|id| !one_notes.contains_key(*id));
    lines.extend(
        missing.map(|id| format!("{id}: not noted: {}", described.get(*id).map_or("", String::as_str))),
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

/// The description of each note, from the comments in a program's sources.
fn descriptions(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().extension().is_none_or(|extension| extension != "s" && extension != "c") {
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
    fn refusals_count_together_if_they_name_the_same_symbol() {
        let refused = |said: &str| Outcome::Refused(said.into());
        let unsupported =
            refused("exit 1: unit0.o: relocation R_X_32 against STT_GNU_IFUNC symbol `ifunc_1'");
        let too_far = refused("exit 1: unit0.o:(unit_0): relocation R_X_32 out of range; references ifunc_1");
        let unknown = refused("exit 1: unit0.o:(.text.unit_0): unknown relocation: R_X_32");
        let wordless = refused("exit 1: final link failed");
        assert_eq!(
            judge(&[ran("a 1"), unsupported.clone(), ran("a 1"), too_far]),
            Verdict::OursDiffers(1),
            "both refuse what ifunc_1 is used for"
        );
        for other in [unknown, wordless.clone()] {
            assert_eq!(judge(&[ran("a 1"), unsupported.clone(), ran("a 1"), other]), Verdict::Unsettled);
        }
        assert_eq!(
            judge(&[ran("a 1"), wordless.clone(), ran("a 1"), wordless.clone()]),
            Verdict::OursDiffers(1)
        );
        assert_eq!(judge(&[wordless.clone(), unsupported.clone(), wordless, unsupported]), Verdict::Agreed);
    }

    /// Two linkers export a hidden symbol from a library, each in a way that it cannot read afterwards.
    #[test]
    fn who_refuses_a_library_of_its_own_has_no_vote() {
        let taken = ["/tmp/a/lib0.so", "/tmp/a/joined.o"].map(PathBuf::from);
        let fails = |said: &str| failure(Status::Exit(1), said, &taken);
        let own = fails("fatal: /tmp/a/lib0.so: invalid version index 0 for defined symbol __start_set_1");
        let other = fails("/tmp/a/lib1.so: version node not found for symbol __start_set_1@@V2");
        assert!(matches!(own, Outcome::Broken(_)));
        assert!(matches!(other, Outcome::Refused(_)), "it names its output");
        for of_inputs in [
            "/tmp/a/joined.o:(.text): relocation out of range",
            "error: undefined symbol: data_1\n>>> referenced by /tmp/a/lib0.so",
        ] {
            assert!(matches!(fails(of_inputs), Outcome::Refused(_)));
        }
        assert_eq!(judge(&[ran("a 1"), other.clone(), ran("a 1"), own.clone()]), Verdict::Unsettled);
        assert_eq!(judge(&[own, ran("a 1"), ran("a 1"), other]), Verdict::OursDiffers(0));
    }

    #[test]
    fn without_a_majority_each_note_is_judged() {
        let [a, b, c] = ["a 1\nb 1\nc 1", "a 2\nb 1\nc 1", "a 1\nb 2\nc 1"].map(ran);
        let d = ran("a 1\nb 1\nc 2");
        assert_eq!(
            judge(&[a.clone(), b.clone(), c.clone(), d.clone()]),
            Verdict::OthersDiffer(vec![1, 2, 3])
        );
        assert_eq!(judge(&[ran("a 3\nb 1\nc 1"), b.clone(), c.clone(), d.clone()]), Verdict::OursDiffers(2));
        assert_eq!(judge(&[ran("a 1\nb 1"), b.clone(), c.clone(), d]), Verdict::OursDiffers(1));
        assert_eq!(
            judge(&[a.clone(), b, c.clone(), Outcome::Broken("signal 11".into())]),
            Verdict::Unsettled
        );
        assert_eq!(judge(&[a, ran("a 2\nb 1\nc 1"), c, ran("a 3\nb 1\nc 1")]), Verdict::Unsettled);
    }

    #[test]
    fn a_linker_stands_alone_with_a_value_that_no_other_noted() {
        let broken = || Outcome::Broken("signal 11".into());
        let refused = || Outcome::Refused("no".into());
        let [one_wrong, other_wrong] = ["a 2\nb 1", "a 1\nb 2"].map(ran);
        assert!(!stands_alone(&[ran("a 1\nb 1"), one_wrong.clone(), other_wrong.clone(), broken()]));
        assert!(stands_alone(&[ran("a 3\nb 1"), one_wrong.clone(), other_wrong.clone(), broken()]));
        assert!(stands_alone(&[ran("b 1\na 1"), one_wrong.clone(), other_wrong.clone(), broken()]));
        assert!(stands_alone(&[ran("a 1"), one_wrong.clone(), other_wrong.clone(), broken()]));
        let ended = Outcome::Ran("exit 1".into(), "a 1\nb 1".into());
        assert!(stands_alone(&[ended, one_wrong, other_wrong, broken()]));
        assert!(stands_alone(&[ran("a 1"), refused(), broken(), broken()]));
        assert!(stands_alone(&[refused(), ran("a 1"), ran("a 2"), broken()]));
        assert!(!stands_alone(&[refused(), ran("a 1"), ran("a 2"), refused()]));
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
