//! `ld-compare reduce`: a failing link made as small as it can be.
//!
//! The goal names the behaviour that must stay: a message, by its topic or by a pattern, or a difference from the
//! majority. Delta debugging leaves out options and inputs, members of archives, then sections, groups, relocations,
//! symbols and bytes inside objects, as long as the goal holds. The rest is written with an assembly form, a script and
//! a text fit for a bug report.

mod archive;
mod assembly;
mod ddmin;
mod passes;
mod state;
mod write;

use crate::cases::Case;
use crate::differ;
use crate::facts::messages::{self, Message};
use crate::facts::{self, Inputs};
use crate::peers::{Linker, Wanted};
use crate::run::{self, Limits};
use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use regex::Regex;
use state::{State, Word};
use std::path::Path;
use std::time::{Duration, Instant};

/// What the reduced link must still show, with every linker that `--linker` names. If nothing is said: the first
/// error that the linker reports now.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Goal {
    /// A regular expression that what the linker says must match
    #[arg(long, value_name = "REGEX", group = "goal")]
    pub message: Option<String>,
    /// A topic of messages, in any linker's words: discarded-reference, undefined, duplicate, overflow, ...
    #[arg(long, value_name = "TOPIC[:SUBJECT]", group = "goal")]
    pub topic: Option<String>,
    /// A difference from the majority of all linkers, as `run` prints it; * stands for anything
    #[arg(long, value_name = "ASPECT: KEY: HOW", group = "goal")]
    pub difference: Option<String>,
    /// The signal that ends the linker, or any if 0
    #[arg(long, value_name = "SIGNAL", group = "goal")]
    pub crash: Option<i32>,
    /// Seconds after which what is reached is written
    #[arg(long, default_value_t = 900, value_name = "SECONDS")]
    pub budget: u64,
}

/// The goal, ready to be asked.
enum Wish {
    Message(Regex),
    Topic(String, Option<String>),
    Difference(glob::Pattern),
    Crash(i32),
}

/// Asks linkers whether the goal holds.
pub struct Tester<'a> {
    wish: Wish,
    linkers: Vec<Linker>,
    all: Vec<Linker>,
    limits: &'a Limits,
    bar: ProgressBar,
    tests: usize,
    started: Instant,
    budget: Duration,
    phase: &'static str,
}

impl Tester<'_> {
    /// Names the kind of parts that are being left out.
    pub fn phase(&mut self, name: &'static str) {
        self.phase = name;
        self.bar.set_message(name);
    }

    /// Whether the time is up.
    pub fn is_over(&self) -> bool {
        self.started.elapsed() > self.budget
    }

    /// Whether a link still shows the goal. When the time is up, none does, so that every pass ends.
    pub fn holds(&mut self, state: &State) -> bool {
        if self.is_over() {
            return false;
        }
        self.tests += 1;
        self.bar.set_position(self.tests as u64);
        let held = self.holds_anyway(state).unwrap_or(false);
        if held {
            let objects = state.inputs().count();
            self.bar.set_message(format!("{}: {objects} objects, {} words", self.phase, state.words.len()));
        }
        held
    }

    fn holds_anyway(&self, state: &State) -> Result<bool> {
        let folder = tempfile::Builder::new().prefix("ld-compare-reduce-").tempdir()?;
        let case = state.case(folder.path(), false)?;
        self.shows(&case, &self.linkers)
    }

    /// Whether all of these linkers show the goal.
    fn shows(&self, case: &Case, linkers: &[Linker]) -> Result<bool> {
        if let Wish::Difference(pattern) = &self.wish {
            return self.differs(case, pattern, linkers);
        }
        for linker in linkers {
            let run = run::run(linker, case, self.limits)?;
            let shown = match &self.wish {
                Wish::Message(regex) => regex.is_match(&run.messages),
                Wish::Topic(topic, subject) => {
                    let fits = |message: &Message| {
                        message.topic == *topic
                            && subject.as_ref().is_none_or(|subject| message.subject == *subject)
                    };
                    messages::read(&run.messages, run.folder.path()).iter().any(fits)
                }
                Wish::Crash(signal) => {
                    matches!(run.status, run::Status::Signal(number) if *signal == 0 || number == *signal)
                }
                Wish::Difference(_) => false,
            };
            if !shown {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn differs(&self, case: &Case, pattern: &glob::Pattern, linkers: &[Linker]) -> Result<bool> {
        let inputs = Inputs::read(case);
        let mut facts = Vec::new();
        for linker in &self.all {
            facts.push(facts::gather(&run::run(linker, case, self.limits)?, &inputs));
        }
        let found = differ::differ(&self.all, &facts);
        let rows = self.all.iter().zip(&found.by_linker);
        let mut rows =
            rows.filter(|(linker, _)| linkers.iter().any(|wanted| wanted.version == linker.version));
        Ok(rows.all(|(_, differences)| differences.iter().any(|found| pattern.matches(&found.line()))))
    }
}

/// Reduces a case into a folder; gives a summary.
///
/// # Errors
/// The link does not show the goal, a linker is not there, or the folder cannot be written.
pub fn run(case: Case, goal: &Goal, wanted: &Wanted, limits: &Limits, output: &Path) -> Result<String> {
    let all = Wanted { linkers: Vec::new(), peers: wanted.peers.clone() };
    let all = all.find(case.machine).unwrap_or_default();
    let linkers = if wanted.linkers.is_empty() {
        all.first().cloned().into_iter().collect()
    } else {
        wanted.find(case.machine)?
    };
    ensure!(!linkers.is_empty(), "no linker to reduce with: name one with --linker");
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    // The template is a constant, so that it can only be right.
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {pos} links  {msg}") {
        bar.set_style(style);
    }
    let mut tester = Tester {
        wish: wish(goal, &case, &linkers[0], limits)?,
        linkers,
        all,
        limits,
        bar,
        tests: 0,
        started: Instant::now(),
        budget: Duration::from_secs(goal.budget),
        phase: "",
    };
    let state = State::new(&case);
    ensure!(tester.holds(&state), "the link as it is does not show {}", describe(&tester.wish));
    let (objects, bytes) = (state.inputs().count(), state.size());
    let state = passes::run(with_help(state, &mut tester), &mut tester)?;
    tester.bar.finish_and_clear();
    let seconds = tester.started.elapsed().as_secs_f64();
    let before = format!("{objects} objects of {bytes} bytes");
    write::write(&state, &tester, &before, seconds, output)
}

/// An option that lets links go on without the parts left out, if the goal holds with it; the passes take it
/// away again if they can.
fn with_help(state: State, tester: &mut Tester<'_>) -> State {
    let mut helped = state.clone();
    helped.words.push(Word::Plain(vec!["--unresolved-symbols=ignore-all".into()]));
    if tester.holds(&helped) { helped } else { state }
}

fn wish(goal: &Goal, case: &Case, linker: &Linker, limits: &Limits) -> Result<Wish> {
    if let Some(text) = &goal.message {
        return Ok(Wish::Message(Regex::new(text).context("--message is no regular expression")?));
    }
    if let Some(text) = &goal.topic {
        return Ok(match text.split_once(':') {
            Some((topic, subject)) => Wish::Topic(topic.into(), Some(subject.into())),
            None => Wish::Topic(text.clone(), None),
        });
    }
    if let Some(text) = &goal.difference {
        let text = text.replace('[', "[[]").replace('?', "[?]");
        return Ok(Wish::Difference(glob::Pattern::new(&text).context("--difference")?));
    }
    if let Some(signal) = goal.crash {
        return Ok(Wish::Crash(signal));
    }
    let run = run::run(linker, case, limits)?;
    let messages = messages::read(&run.messages, run.folder.path());
    let gravest = messages.iter().find(|message| message.severity == "error").or(messages.first());
    let Some(message) = gravest else {
        bail!(
            "{} has nothing to say about this link: choose what to look for with --topic, --message or --difference",
            linker.name
        );
    };
    Ok(match message.topic.as_str() {
        "other" => Wish::Message(Regex::new(&regex::escape(&message.text))?),
        topic => Wish::Topic(topic.into(), None),
    })
}

fn describe(wish: &Wish) -> String {
    match wish {
        Wish::Message(regex) => format!("a message that matches `{regex}`"),
        Wish::Topic(topic, None) => format!("a message about {topic}"),
        Wish::Topic(topic, Some(subject)) => format!("a message about {topic} that names {subject}"),
        Wish::Difference(pattern) => format!("the difference `{pattern}`"),
        Wish::Crash(0) => "a crash".into(),
        Wish::Crash(signal) => format!("an end by signal {signal}"),
    }
}
