//! What a case is: inputs, a command, and facts that must hold of what the tool made of them.
//!
//! Every fact names the sentence that demands it. Some sentences come from published standards; others are
//! only this project's proposal. Reports keep the two apart, so that no tool is blamed for a rule that nobody
//! has agreed to.

use crate::machine::Machine;
use crate::run::Status;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The tools that a case is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Programs that make objects of assembly texts.
    Assembler,
    /// Programs that make files of objects.
    Linker,
    /// Programs that print `.sframe` sections.
    Reader,
}

impl Kind {
    /// All of them, in the order of a build.
    pub const ALL: [Kind; 3] = [Kind::Assembler, Kind::Linker, Kind::Reader];

    /// The first part of the names of its cases.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Assembler => "assembler",
            Kind::Linker => "linker",
            Kind::Reader => "reader",
        }
    }
}

/// Where the sentence behind a fact stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "standard", content = "place", rename_all = "kebab-case")]
pub enum Source {
    /// The SFrame specification of binutils: a section of it.
    Sframe(&'static str),
    /// The System V gABI: a section of it.
    Gabi(&'static str),
    /// A processor supplement, or the DWARF standard that it refers to.
    Psabi(&'static str),
    /// What GNU binutils, whose project owns the format, document or do in their newest release.
    Gnu(&'static str),
    /// Only this project's proposal: a rule of `docs/design/sframe-rules.md` or another page of it.
    Proposal(&'static str),
}

impl Source {
    /// Whether only this project says so.
    pub fn is_proposal(self) -> bool {
        matches!(self, Source::Proposal(_))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Sframe(place) => write!(f, "SFrame specification, {place}"),
            Source::Gabi(place) => write!(f, "gABI, {place}"),
            Source::Psabi(place) => write!(f, "{place}"),
            Source::Gnu(place) => write!(f, "GNU binutils, {place}"),
            Source::Proposal(place) => write!(f, "proposal, {place}"),
        }
    }
}

/// What a tool did with a case.
#[derive(Debug)]
pub struct Outcome {
    /// How the last command that ran ended.
    pub status: Status,
    /// How many of the commands ran: all of them unless one failed.
    pub ran: usize,
    /// Standard output and standard error.
    pub messages: String,
    /// Standard output alone.
    pub printed: String,
    /// The output of each command that ran; `None` if it wrote none.
    pub outputs: Vec<Option<Vec<u8>>>,
}

impl Outcome {
    /// The output of the last command.
    ///
    /// # Errors
    /// There is none, or a command failed.
    pub fn last(&self) -> Result<&[u8], String> {
        self.output(self.outputs.len().saturating_sub(1))
    }

    /// The output of one command.
    ///
    /// # Errors
    /// There is none, or a command failed.
    pub fn output(&self, step: usize) -> Result<&[u8], String> {
        if !self.status.is_success() {
            return Err(format!("no output to look at: {}", self.status));
        }
        self.outputs.get(step).and_then(Option::as_deref).ok_or_else(|| "it wrote no file".into())
    }

    /// Whether it refused the inputs: it ended by itself, with an error.
    pub fn refused(&self) -> bool {
        matches!(self.status, Status::Exit(code) if code != 0)
    }

    /// Whether it said anything beside what it was asked to print.
    pub fn complained(&self) -> bool {
        self.messages.trim().len() > self.printed.trim().len()
    }
}

/// Looks at an outcome. An error says what was found instead.
pub type Check = Box<dyn Fn(&Outcome) -> Result<(), String> + Send + Sync>;

/// A fact that must hold.
pub struct Fact {
    /// A short name, for baselines.
    pub id: &'static str,
    /// The demand, in a sentence.
    pub says: &'static str,
    /// Who demands it.
    pub source: Source,
    /// Whether it holds.
    pub check: Check,
}

impl Fact {
    /// A fact.
    pub fn new(
        id: &'static str,
        says: &'static str,
        source: Source,
        check: impl Fn(&Outcome) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Fact { id, says, source, check: Box::new(check) }
    }

    /// The same fact, demanded by another sentence.
    #[must_use]
    pub fn by(mut self, source: Source) -> Self {
        self.source = source;
        self
    }
}

impl fmt::Debug for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.id, self.says, self.source)
    }
}

/// One command: arguments for the tool, and the file that it makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Arguments, without `-o` and its value. A linker also gets `-m` with the machine's emulation.
    pub arguments: Vec<String>,
    /// The file that it makes; readers make none.
    pub output: Option<String>,
}

/// A case.
#[derive(Debug)]
pub struct Case {
    /// The tools that it is for.
    pub kind: Kind,
    /// The name without kind and machine: `TOPIC/SUBJECT`.
    pub family: String,
    /// What is in the inputs, in a sentence.
    pub about: String,
    /// The machine of the inputs.
    pub machine: Machine,
    /// A part of the name that tells apart cases of one family and machine, such as a byte order.
    pub variant: Option<&'static str>,
    /// Options that a tool may lack: it is asked for each with inputs that have no difficulty.
    pub needs: Vec<Vec<String>>,
    /// Names and contents of the inputs.
    pub files: Vec<(String, Vec<u8>)>,
    /// The commands.
    pub steps: Vec<Step>,
    /// What must hold.
    pub facts: Vec<Fact>,
}

impl Case {
    /// A case without inputs and facts.
    pub fn new(kind: Kind, machine: Machine, family: &str, about: &str) -> Self {
        Case {
            kind,
            family: family.into(),
            about: about.into(),
            machine,
            variant: None,
            needs: Vec::new(),
            files: Vec::new(),
            steps: Vec::new(),
            facts: Vec::new(),
        }
    }

    /// Its name: `KIND/TOPIC/SUBJECT/MACHINE`.
    pub fn name(&self) -> String {
        let machine = self.machine.name();
        match self.variant {
            None => format!("{}/{}/{machine}", self.kind.name(), self.family),
            Some(variant) => format!("{}/{}/{machine}-{variant}", self.kind.name(), self.family),
        }
    }

    /// The subject's topic.
    pub fn topic(&self) -> &str {
        self.family.split('/').next().unwrap_or_default()
    }

    /// The same case with one more input.
    #[must_use]
    pub fn file(mut self, name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push((name.into(), bytes.into()));
        self
    }

    /// The same case with one more command, whose arguments stand in one text.
    #[must_use]
    pub fn step(mut self, arguments: &str, output: &str) -> Self {
        let arguments = arguments.split_whitespace().map(String::from).collect();
        self.steps.push(Step { arguments, output: (!output.is_empty()).then(|| output.into()) });
        self
    }

    /// The same case for tools that take these options.
    #[must_use]
    pub fn needs(mut self, options: &str) -> Self {
        self.needs.push(options.split_whitespace().map(String::from).collect());
        self
    }

    /// The same case with more facts.
    #[must_use]
    pub fn facts(mut self, facts: impl IntoIterator<Item = Fact>) -> Self {
        self.facts.extend(facts);
        self
    }
}

/// A fact that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The fact's short name.
    pub fact: &'static str,
    /// The demand.
    pub says: &'static str,
    /// Who demands it.
    pub source: Source,
    /// What was found.
    pub found: String,
}

/// What a case shows about a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every fact holds.
    Holds,
    /// Some facts do not.
    Fails(Vec<Failure>),
    /// The tool takes no part, for this reason.
    Absent(String),
}

impl Verdict {
    /// Whether a sentence of a standard is broken, not only a proposal.
    pub fn breaks_standard(&self) -> bool {
        matches!(self, Verdict::Fails(failures) if failures.iter().any(|failure| !failure.source.is_proposal()))
    }
}

/// Judges an outcome by a case's facts.
pub fn judge(case: &Case, outcome: &Outcome) -> Verdict {
    let failures: Vec<Failure> = case
        .facts
        .iter()
        .filter_map(|fact| {
            let found = (fact.check)(outcome).err()?;
            Some(Failure { fact: fact.id, says: fact.says, source: fact.source, found })
        })
        .collect();
    if failures.is_empty() { Verdict::Holds } else { Verdict::Fails(failures) }
}
