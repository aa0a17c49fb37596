//! The goal of a reduction, and the test whether the linkers still show it.

use super::state::State;
use crate::cases::Case;
use crate::differ;
use crate::facts::messages::{self, Message};
use crate::facts::{self, Inputs};
use crate::peers::Linker;
use crate::run::{self, Limits};
use anyhow::Result;
use indicatif::ProgressBar;
use regex::Regex;
use std::time::{Duration, Instant};

/// The goal, prepared for tests.
pub enum Wish {
    Message(Regex),
    Topic(String, Option<String>),
    Difference(glob::Pattern),
    Crash(i32),
}

/// Tests whether the goal holds with all linkers.
pub struct Tester<'a> {
    pub wish: Wish,
    pub linkers: Vec<Linker>,
    pub all: Vec<Linker>,
    pub limits: &'a Limits,
    pub bar: ProgressBar,
    pub tests: usize,
    pub started: Instant,
    pub budget: Duration,
    pub phase: &'static str,
}

impl Tester<'_> {
    /// Sets the name of the kind of parts that a pass leaves out.
    pub fn phase(&mut self, name: &'static str) {
        self.phase = name;
        self.bar.set_message(name);
    }

    /// Whether the time is up.
    pub fn is_over(&self) -> bool {
        self.started.elapsed() > self.budget
    }

    /// Whether a link still shows the goal. If the time is up, the answer is `false`, so that every pass
    /// ends.
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
    pub fn shows(&self, case: &Case, linkers: &[Linker]) -> Result<bool> {
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

/// The goal in words.
pub fn describe(wish: &Wish) -> String {
    match wish {
        Wish::Message(regex) => format!("a message that matches `{regex}`"),
        Wish::Topic(topic, None) => format!("a message about {topic}"),
        Wish::Topic(topic, Some(subject)) => format!("a message about {topic} that names {subject}"),
        Wish::Difference(pattern) => format!("the difference `{pattern}`"),
        Wish::Crash(0) => "a crash".into(),
        Wish::Crash(signal) => format!("an end by signal {signal}"),
    }
}
