//! Command lines that clap reads.

use crate::{COLOR, is_colored};
use clap::{ColorChoice, Parser};
use diagnostics::Color;
use std::ffi::OsString;

/// Reads a command line whose first word is the program's name. `--color` also holds for errors about the
/// command line, and for everything that [`tell`](crate::tell) says later.
///
/// # Errors
/// The words are wrong, or they ask for help or for the version.
pub fn parse<P: Parser>(words: impl IntoIterator<Item = OsString>) -> Result<P, clap::Error> {
    let words: Vec<OsString> = words.into_iter().collect();
    let mut before = words.iter().map(|word| word.to_string_lossy()).take_while(|word| word != "--");
    let mut choice = None;
    while let Some(word) = before.next() {
        let value = match word.strip_prefix("--color") {
            Some("") => before.next().map(String::from),
            Some(value) => value.strip_prefix('=').map(String::from),
            None => continue,
        };
        choice = match value.as_deref() {
            Some("always") => Some(Color::Always),
            Some("never") => Some(Color::Never),
            _ => choice,
        };
    }
    let of_words = match choice.unwrap_or_default() {
        Color::Auto if is_colored(Color::Auto) => ColorChoice::Auto,
        Color::Auto | Color::Never => ColorChoice::Never,
        Color::Always => ColorChoice::Always,
    };
    let _ = COLOR.set(choice.unwrap_or_default());
    P::from_arg_matches(&P::command().color(of_words).try_get_matches_from(words)?)
}
