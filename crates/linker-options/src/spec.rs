//! The description of an option: its names, its value, its effect.
//!
//! All options are in one static table ([`super::table::GROUPS`]). The parser, `--help`, the suggestions and
//! the tests read it, and nothing else knows an option's name. The [`Effect`] of an entry also says how the
//! option is written, so the two cannot disagree.
//!
//! Options are spelled as in GNU ld:
//! - a name of one character follows one dash; its value is joined or separate (`-ofile`,
//!   `-o file`);
//! - a longer name follows one dash or two; its value is `=value` or separate. Names that start
//!   with `o` need two dashes, because `-omagic` is `-o magic`;
//! - an exact long name wins over a single letter with a joined value: `-entry=x` is `--entry=x`
//!   and never `-e ntry=x`;
//! - a long name may be cut short (`--gc-section`) if no other option begins in the same way and the argument
//!   has no other meaning.

use super::state::State;
use super::values::Outcome;

/// The effect of an option, which also says whether and how it takes a value.
#[derive(Clone, Copy)]
pub enum Effect {
    /// Takes nothing.
    Flag(fn(&mut State<'_>)),
    /// Takes nothing. It is an error in a wrong place.
    Positional(fn(&mut State<'_>) -> Outcome),
    /// Takes a value, joined or separate.
    Value(fn(&mut State<'_>, &[u8]) -> Outcome),
    /// Takes `=value` or nothing.
    Optional(fn(&mut State<'_>, Option<&[u8]>) -> Outcome),
    /// Takes nothing. It is accepted and does nothing.
    IgnoredFlag,
    /// Takes a value, joined or separate. It is accepted and does nothing.
    IgnoredValue,
    /// Takes `=value` or nothing. It is accepted and does nothing.
    IgnoredOptional,
    /// Stands for every option that begins with the name. They are accepted and do nothing.
    IgnoredPrefix,
}

/// What an option reaches outside of the link. Where a command line comes from somebody else, as in a bug
/// report, this tells which of its options are safe to carry out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Nothing.
    Link,
    /// It reads a file or a folder, which its value names.
    Reads,
    /// It writes a file; the output is one too. An option that does nothing here counts as what other linkers
    /// do with it.
    Writes,
    /// It runs a program or loads a library.
    Runs,
}

/// One option, with all its names.
#[derive(Clone, Copy)]
pub struct OptionSpec {
    /// Names without dashes, the best-known one first.
    pub names: &'static [&'static str],
    /// The name of the value in `--help`; empty if the option takes none.
    pub value_name: &'static str,
    /// One line for `--help` and `docs/options.md`. It must make sense on its own: neither text shows it
    /// beside the option's opposite.
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

/// An option that takes nothing and may be in a wrong place.
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

/// Options that are accepted and do nothing. `effect` says how they are written.
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

/// An option or a word of `-z` that other linkers have and this linker refuses.
pub struct Refused {
    /// Names without dashes.
    pub names: &'static [&'static str],
    /// The reason, or the option to use instead.
    pub why: &'static str,
}

impl OptionSpec {
    /// Sets what the option reaches outside of the link.
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
