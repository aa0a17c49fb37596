//! The description of an option: its names, its value, its effect.
//!
//! All options stand in one static table ([`super::table::GROUPS`]); the parser, `--help`, the
//! suggestions and the tests read it, and nothing else knows an option's name. An entry's
//! [`Effect`] fixes how it is written, so the two cannot disagree.
//!
//! Spelling, as GNU ld has it:
//! - a name of one character follows one dash; its value is joined or separate (`-ofile`,
//!   `-o file`);
//! - a longer name follows one dash or two; its value is `=value` or separate. Names that start
//!   with `o` need two dashes, because `-omagic` is `-o magic`;
//! - an exact long name wins over a single letter with a joined value: `-entry=x` is `--entry=x`
//!   and never `-e ntry=x`;
//! - a long name may be cut short where only one option starts so (`--gc-section`), if the argument
//!   is nothing else.

use super::state::State;
use super::values::Outcome;

/// The effect of an option, which also says whether and how it takes a value.
#[derive(Clone, Copy)]
pub enum Effect {
    /// Takes nothing.
    Flag(fn(&mut State<'_>)),
    /// Takes nothing, and may be out of place.
    Positional(fn(&mut State<'_>) -> Outcome),
    /// Takes a value, joined or separate.
    Value(fn(&mut State<'_>, &[u8]) -> Outcome),
    /// Takes `=value` or nothing.
    Optional(fn(&mut State<'_>, Option<&[u8]>) -> Outcome),
    /// Takes nothing; accepted and without effect.
    IgnoredFlag,
    /// Takes a value, joined or separate; accepted and without effect.
    IgnoredValue,
    /// Takes `=value` or nothing; accepted and without effect.
    IgnoredOptional,
    /// Every option that starts so; accepted and without effect.
    IgnoredPrefix,
}

/// What an option reaches outside of the link. Command lines that are data, as those in a bug report, keep
/// only what they may reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Nothing.
    Link,
    /// Its value is a file or a folder, which is read.
    Reads,
    /// A file is written, the output too. An option without effect here counts as what other linkers do with
    /// it.
    Writes,
    /// A program is run, or a library is loaded.
    Runs,
}

/// One option, with all its names.
#[derive(Clone, Copy)]
pub struct OptionSpec {
    /// Names without dashes, the one that people know first.
    pub names: &'static [&'static str],
    /// Name of the value in `--help`; empty where there is none.
    pub value_name: &'static str,
    /// One line for `--help`.
    pub help: &'static str,
    /// Its effect, with the form of its value.
    pub effect: Effect,
    /// What it reaches outside of the link.
    pub reach: Reach,
}

/// An option that takes nothing.
pub const fn flag(
    names: &'static [&'static str],
    help: &'static str,
    effect: fn(&mut State<'_>),
) -> OptionSpec {
    OptionSpec { names, value_name: "", help, effect: Effect::Flag(effect), reach: Reach::Link }
}

/// An option that takes nothing and may be out of place.
pub const fn positional(
    names: &'static [&'static str],
    help: &'static str,
    effect: fn(&mut State<'_>) -> Outcome,
) -> OptionSpec {
    OptionSpec { names, value_name: "", help, effect: Effect::Positional(effect), reach: Reach::Link }
}

/// An option that takes a value.
pub const fn value(
    names: &'static [&'static str],
    value_name: &'static str,
    help: &'static str,
    effect: fn(&mut State<'_>, &[u8]) -> Outcome,
) -> OptionSpec {
    OptionSpec { names, value_name, help, effect: Effect::Value(effect), reach: Reach::Link }
}

/// An option that takes `=value` or nothing.
pub const fn optional(
    names: &'static [&'static str],
    value_name: &'static str,
    help: &'static str,
    effect: fn(&mut State<'_>, Option<&[u8]>) -> Outcome,
) -> OptionSpec {
    OptionSpec { names, value_name, help, effect: Effect::Optional(effect), reach: Reach::Link }
}

/// Options of a kind that are accepted and have no effect.
pub const fn ignored(names: &'static [&'static str], help: &'static str, effect: Effect) -> OptionSpec {
    OptionSpec { names, value_name: "", help, effect, reach: Reach::Link }
}

/// Options under one heading of `--help`.
pub struct OptionGroup {
    /// The heading.
    pub title: &'static str,
    /// The options in the order of `--help`.
    pub options: &'static [OptionSpec],
}

/// An option or a word of `-z` that other linkers have and this one does not carry out.
pub struct Refused {
    /// Names without dashes.
    pub names: &'static [&'static str],
    /// The reason, or the option to use instead.
    pub why: &'static str,
}

impl OptionSpec {
    /// The option, which reaches so far.
    pub const fn reaches(mut self, reach: Reach) -> Self {
        self.reach = reach;
        self
    }

    /// Whether a value must follow.
    pub fn needs_value(&self) -> bool {
        matches!(self.effect, Effect::Value(_) | Effect::IgnoredValue)
    }

    /// Whether `=value` may follow.
    pub fn takes_value(&self) -> bool {
        self.needs_value() || matches!(self.effect, Effect::Optional(_) | Effect::IgnoredOptional)
    }
}

/// Whether a long name may follow a single dash.
pub fn allows_single_dash(name: &str) -> bool {
    !name.starts_with('o')
}

/// A name with its dashes, as people write it.
pub fn dashed(name: &str) -> String {
    if name.len() == 1 { format!("-{name}") } else { format!("--{name}") }
}
