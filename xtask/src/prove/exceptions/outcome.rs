//! How a program of a test ended and what it printed, and whether that is what another one does.

use crate::children::output_within;
use anyhow::Result;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// How often the usual program runs again where another one differs from it.
const AGAIN: usize = 3;

pub struct Outcome {
    pub status: ExitStatus,
    /// Standard output and error, without what depends on the run.
    prints: [String; 2],
    pub time: Duration,
}

impl Outcome {
    pub fn of(command: &mut Command) -> Result<Self> {
        let start = Instant::now();
        let output = output_within(command, LIMIT)?;
        let prints = [output.stdout, output.stderr].map(|bytes| steady(&String::from_utf8_lossy(&bytes)));
        Ok(Outcome { status: output.status, prints, time: start.elapsed() })
    }

    fn is(&self, other: &Outcome) -> bool {
        self.status == other.status && self.prints == other.prints
    }

    /// Whether this is what the usual program does. If not, both run again: threads race in some tests, so a
    /// program is one of two that do the same if it ever does what the other one has ever done. Where the
    /// usual program itself prints something else every time, only the end counts.
    pub fn is_one_of(
        &self,
        usual: &Outcome,
        run_usual: impl Fn() -> Result<Outcome>,
        run_this: impl Fn() -> Result<Outcome>,
    ) -> Result<bool> {
        let (mut these, mut others) = (Vec::new(), Vec::new());
        let is_seen = |these: &[Outcome], others: &[Outcome]| {
            let is_other = |one: &Outcome| one.is(usual) || others.iter().any(|other| one.is(other));
            is_other(self) || these.iter().any(is_other)
        };
        for _ in 0..AGAIN {
            if is_seen(&these, &others) {
                return Ok(true);
            }
            others.push(run_usual()?);
            these.push(run_this()?);
        }
        let prints_vary = others.iter().any(|other| other.prints != usual.prints);
        let ends = usual.status == self.status || others.iter().any(|other| other.status == self.status);
        Ok(is_seen(&these, &others) || prints_vary && ends)
    }
}

/// An outcome in a few words.
pub fn said(outcome: Option<&Outcome>) -> String {
    let Some(outcome) = outcome else { return "no program".into() };
    let last = outcome.prints.iter().rev().find_map(|text| text.lines().last()).unwrap_or_default();
    format!("{} ({last})", outcome.status)
}

/// A text without addresses, which differ between layouts, and without the numbers of threads and the times
/// that Rust prints: `thread 'main' (1234)`, `finished in 0.02s`. Of the two names that glibc has for one
/// function, Rust's backtraces show either, by the order in which an unstable sort leaves them.
fn steady(text: &str) -> String {
    let text = &text.replace("__libc_start_main_impl", "__libc_start_main");
    let text = without(text, "0x", |c| c.is_ascii_hexdigit());
    let text = without(&text, "' (", |c| c.is_ascii_digit());
    without(&text, "finished in ", |c| c.is_ascii_digit() || c == '.')
}

/// A text without the characters of a kind that stand behind these words.
fn without(text: &str, words: &str, is_of_kind: impl Fn(char) -> bool) -> String {
    let mut parts = text.split(words);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push_str(words);
        kept.push_str(part.trim_start_matches(&is_of_kind));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::{Outcome, steady};
    use std::process::Command;

    fn shell(line: &str) -> Outcome {
        Outcome::of(Command::new("sh").args(["-c", line])).unwrap()
    }

    #[test]
    fn what_depends_on_the_run_is_no_part_of_what_a_program_prints() {
        let text = "at 0x55a1 in f+0x10\nthread 'main' (4711) panicked at a.rs:12:3, finished in 0.02s";
        assert_eq!(steady(text), "at 0x in f+0x\nthread 'main' () panicked at a.rs:12:3, finished in s");
        assert_eq!(steady("35: __libc_start_main_impl\n"), steady("35: __libc_start_main\n"));
    }

    #[test]
    fn an_end_counts_always_and_prints_where_the_usual_program_repeats_itself() {
        let is = |one: &str, usual: &str, again: &str| {
            shell(one).is_one_of(&shell(usual), || Ok(shell(again)), || Ok(shell(one))).unwrap()
        };
        assert!(is("echo a; exit 3", "echo a; exit 3", "exit 4"));
        assert!(!is("echo b", "echo a", "echo a"));
        assert!(is("echo b", "echo a", "echo $$"));
        assert!(is("echo b; exit 1", "echo a", "echo b; exit 1"));
        assert!(!is("kill -9 $$", "exit 1", "echo $$"));
        // A race that has another end than usual the first time.
        let race =
            shell("echo b").is_one_of(&shell("echo a"), || Ok(shell("echo a")), || Ok(shell("echo a")));
        assert!(race.unwrap());
    }
}
