//! The last result of each proof, in `tests/proofs/`: short pages that are kept in the tree, so that its
//! history shows when a result changes.
//!
//! Only [`write()`] writes there. If the result is the same, it leaves the page alone, so a proof that runs
//! again changes nothing. Some figures differ in every run: the date, versions of tools, times. These are
//! [`Measured`]: the page shows them, but a difference in them is not a new result.

use crate::commands::first_line;
use anyhow::{Context, Result};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The marks around measured figures, in texts on their way to [`write()`]; they are characters for private
/// use.
const MARKS: [char; 2] = ['\u{e000}', '\u{e001}'];

/// A figure that differs in every run. Its text contains no `|` and no newline.
pub struct Measured<T>(pub T);

impl<T: fmt::Display> fmt::Display for Measured<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", MARKS[0])?;
        self.0.fmt(f)?;
        write!(f, "{}", MARKS[1])
    }
}

/// Today, as year, month and day.
///
/// # Errors
/// There is no `date`.
pub fn today() -> Result<Measured<String>> {
    first_line(Command::new("date").arg("+%Y-%m-%d")).map(Measured)
}

/// The record of a chore.
pub fn path(name: &str) -> PathBuf {
    crate::folders::workspace().join("tests/proofs").join(name).with_extension("md")
}

/// A text without marks, as people read it.
pub fn shown(text: &str) -> String {
    text.replace(MARKS, "")
}

/// Writes a record if the result differs from the one in the file; says whether it does.
///
/// # Errors
/// It cannot be written.
pub fn write(name: &str, text: &str) -> Result<()> {
    let path = path(name);
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    if is_same_result(&old, text) {
        println!("the result is that of {}", path.display());
        return Ok(());
    }
    replace(&path, shown(text).as_bytes())?;
    println!("a new result: {}", path.display());
    Ok(())
}

/// Replaces a file. Someone who reads it meanwhile, or after an interruption, finds either the old bytes or
/// the new ones.
///
/// # Errors
/// It cannot be written.
pub fn replace(file: &Path, bytes: &[u8]) -> Result<()> {
    let new = file.with_extension("new");
    std::fs::write(&new, bytes).with_context(|| new.display().to_string())?;
    std::fs::rename(&new, file).with_context(|| file.display().to_string())
}

/// Whether a record and a marked text say the same, except for measured figures.
fn is_same_result(record: &str, text: &str) -> bool {
    // The parts at odd places are measured.
    let mut rest = Some(record);
    let mut after_figure = false;
    for (place, part) in text.split(MARKS).enumerate() {
        if place % 2 == 1 {
            after_figure = true;
        } else {
            rest = rest.and_then(|rest| skip(rest, part, after_figure));
        }
    }
    // Nothing comes after a figure at the end.
    rest.is_some_and(|rest| rest.is_empty() || text.ends_with(MARKS[1]) && !rest.contains(['|', '\n']))
}

/// What follows a part in a record. The record starts with the part, or with a figure and then the part.
fn skip<'a>(record: &'a str, part: &str, after_figure: bool) -> Option<&'a str> {
    if !after_figure {
        return record.strip_prefix(part);
    }
    let (figure, rest) = record.split_once(part)?;
    (!figure.contains(['|', '\n'])).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_result_is_a_new_one() {
        let text = |date: &str, count: u32, time: &str| {
            format!("{}\n\n| links | {count} | {} |\n{} s", Measured(date), Measured(time), Measured(time))
        };
        let record = shown(&text("2026-11-25, gcc 12", 3, "0.25"));
        assert_eq!(record, "2026-11-25, gcc 12\n\n| links | 3 | 0.25 |\n0.25 s");
        assert!(is_same_result(&record, &text("2027-01-02, gcc 14", 3, "18")));
        assert!(!is_same_result(&record, &text("2026-11-25, gcc 12", 4, "0.25")), "another count");
        assert!(!is_same_result(&format!("{record}\nmore"), &text("2026-11-25", 3, "1")), "less text");
        assert!(!is_same_result("", &text("2026-11-25", 3, "1")), "the first record");
        assert!(is_same_result("in 3", &format!("in {}", Measured(4))), "a figure at the end");
        assert!(!is_same_result("in 3\n", &format!("in {}", Measured(4))));
    }
}
