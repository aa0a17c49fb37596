//! `ld-compare reduce`: makes a failing link as small as possible.
//!
//! A bug report with a link of 400 objects helps nobody; one with two functions shows the mistake. The goal
//! says which behaviour must stay: a message, by its topic or by a pattern, or a difference from the
//! majority. Delta debugging (`ddmin`) leaves out everything that the goal does not need: options and inputs,
//! members of archives, then sections, groups, relocations, symbols and bytes inside objects. The result is a
//! folder for a bug report, with assembly, a script and a text.

pub mod archive;
mod assembly;
mod ddmin;
pub mod exercise;
mod passes;
mod state;
mod tester;
mod write;

use crate::cases::Case;
use crate::facts::messages;
use crate::peers::{Linker, Wanted};
use crate::run::{self, Limits};
use anyhow::{Context, Result, bail, ensure};
use diagnostics::words::count;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use regex::Regex;
use state::{State, Word};
use std::path::Path;
use std::time::{Duration, Instant};
use tester::{Tester, Wish, describe};

/// What the reduced link must still show, with every linker that `--linker` names [default: the first error
/// that the linker reports now]
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Goal {
    /// A regular expression that must match what the linker prints
    #[arg(long, value_name = "REGEX", group = "goal")]
    pub message: Option<String>,
    /// A topic of messages, in any linker's words: discarded-reference, undefined, duplicate, overflow, ...
    #[arg(long, value_name = "TOPIC[:SUBJECT]", group = "goal")]
    pub topic: Option<String>,
    /// A difference from the majority of all linkers, as `run` prints it; * matches anything
    #[arg(long, value_name = "ASPECT: KEY: HOW", group = "goal")]
    pub difference: Option<String>,
    /// The signal that ends the linker; 0 is any signal
    #[arg(long, value_name = "SIGNAL", group = "goal")]
    pub crash: Option<i32>,
    /// Seconds after which the smallest link so far is written
    #[arg(long, default_value_t = 900, value_name = "SECONDS")]
    pub budget: u64,
}

/// Reduces a case into a folder and returns a summary.
///
/// # Errors
/// The link does not show the goal, a linker does not exist, or the folder cannot be written.
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
    // The template is a constant, so this cannot fail.
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
    let before = format!("{} of {}", count(objects as u64, "object"), count(bytes as u64, "byte"));
    write::write(&state, &tester, &before, seconds, output)
}

/// Adds an option that lets a link go on if parts are missing, provided that the goal holds with it. The
/// passes remove the option again if they can.
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
