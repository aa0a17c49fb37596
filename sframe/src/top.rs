//! `sframe top`: which functions run now, in the terminal.
//!
//! The samples of each interval are a profile of their own, which is named, counted and thrown away. On a
//! terminal, each table replaces the one before; elsewhere, tables follow one another.

use super::args::Top;
use super::open::Problem;
use super::report::{self, Outcome, complain};
use super::sampling::{request, stop_by_signals, stopped};
use super::stack_output::settings;
use diagnostics::words::count;
use stacks::files::Files;
use stacks::functions::Counts;
use stacks::kernel::Kernel;
use stacks::live::{Progress, Turn, record};
use stacks::modules::Modules;
use stacks::named::Named;
use stacks::profile::{Names, Profile};
use stacks::statistics::Report;
use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::Ordering;

/// The escape codes that are used (ECMA-48; the other screen is xterm's): another screen without a cursor,
/// and back; to the first line; erase the rest of a line, and of the screen; bold, and plain.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const END_OF_LINE: &str = "\x1b[K";
const END_OF_SCREEN: &str = "\x1b[J";
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";
/// Lines of a table that is not on a terminal, and columns if nobody says how many there are.
const LINES: usize = 20;
const COLUMNS: usize = 100;
/// Lines of the head of a table.
const HEAD: usize = 3;

/// Shows functions until the user or the programs end it.
pub fn run(arguments: &Top) -> ExitCode {
    match show(arguments) {
        Ok(status) => ExitCode::from(status),
        Err(problem) => {
            complain(&problem);
            Outcome::Unusable.exit_code()
        }
    }
}

fn show(arguments: &Top) -> Result<u8, Problem> {
    let (request, title) = request(&arguments.target);
    stop_by_signals();
    let kernel = Kernel::running();
    let profile = RefCell::new(Profile::new(false));
    let (mut screen, mut shown, mut failed) = (None, Progress::default(), None);
    let mut watch = |turn: &mut Turn<'_>| {
        let (now, files) = (turn.progress, turn.session.files());
        // The screen is taken when samples can come, so that a refusal is seen on the user's own.
        let screen = screen.get_or_insert_with(Screen::take);
        if screen.is_left() {
            stopped().store(true, Ordering::Relaxed);
        }
        if now.elapsed - shown.elapsed < arguments.interval {
            return;
        }
        let passed = profile.replace(Profile::new(false));
        let (rows, columns) = screen.size();
        let head = Head { title: &title, now, before: shown };
        let table = table(&head, passed, (files, &kernel), (rows, columns));
        failed = screen.print(&table).err();
        if failed.is_some() {
            stopped().store(true, Ordering::Relaxed);
        }
        shown = now;
    };
    let settings = settings(&arguments.rows, None, false);
    let mut take = |stack: &stacks::session::Stack<'_>| profile.borrow_mut().add(stack);
    let recorded = record(&request, settings, None, stopped(), &mut watch, &mut take);
    drop(screen);
    let recorded = recorded.map_err(|message| Problem::new(&*title, message))?;
    match failed {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            return Err(Problem::new("standard output", format!("cannot write: {error}")));
        }
        _ => {}
    }
    // What came since the last table, if there has been none yet.
    if shown.samples == 0 && !profile.borrow().rows.is_empty() {
        let now = Progress { samples: recorded.statistics.samples, ..Progress::default() };
        let head = Head { title: &title, now, before: Progress::default() };
        let table = table(&head, profile.take(), (&recorded.files, &kernel), (LINES, COLUMNS));
        report::print(&(table.join("\n") + "\n"))?;
    }
    Ok(recorded.status.and_then(|status| u8::try_from(status).ok()).unwrap_or(0))
}

/// What the first line says.
struct Head<'a> {
    title: &'a str,
    now: Progress,
    before: Progress,
}

/// The lines of a table: a head, and the functions with the largest shares of their own.
fn table(
    head: &Head<'_>,
    mut profile: Profile,
    (files, kernel): (&Files, &Kernel),
    (rows, columns): (usize, usize),
) -> Vec<String> {
    profile.events = vec![String::new()];
    let names = Names::new(&profile, files, kernel, false);
    let (modules, report) = (Modules::of(files), Report::default());
    let named =
        Named { profile: &profile, names: &names, modules: &modules, report: &report, title: head.title };
    let counts = Counts::new(named, |row| row.event == 0, |file| file);
    let mut functions: Vec<_> = counts.functions.iter().collect();
    functions.sort_by_key(|(_, count)| std::cmp::Reverse((count.own, count.total)));
    let seconds = (head.now.elapsed - head.before.elapsed).as_secs_f64();
    let rate =
        if seconds > 0.0 { format!(", {:.0}/s", counts.samples as f64 / seconds) } else { String::new() };
    let lost = head.now.lost - head.before.lost;
    let lost = if lost > 0 { format!(", {lost} lost") } else { String::new() };
    let threads: std::collections::BTreeSet<u32> = profile.rows.iter().map(|row| row.thread).collect();
    let first = format!(
        "{}: {}{rate}{lost}, {}, {} s",
        head.title,
        count(counts.samples, "sample"),
        count(threads.len() as u64, "thread"),
        head.now.elapsed.as_secs()
    );
    let mut lines = vec![cut(&first, columns), String::new(), cut("   self    total  function", columns)];
    let share = |part: u64| 100.0 * part as f64 / counts.samples.max(1) as f64;
    for (&(name, file), samples) in functions.into_iter().take(rows.saturating_sub(HEAD + 1)) {
        let line = format!("{:6.2}%  {:6.2}%  {name}  ({file})", share(samples.own), share(samples.total));
        lines.push(cut(&line, columns));
    }
    lines
}

/// As much of a text as a line has room for. Control characters, which a terminal would obey, become spaces.
fn cut(text: &str, columns: usize) -> String {
    let mut letters: Vec<char> =
        text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if letters.len() > columns {
        letters.truncate(columns.saturating_sub(1));
        letters.push('…');
    }
    letters.into_iter().collect()
}

/// Where tables go: a terminal of its own, which is given back at the end, or standard output.
struct Screen {
    /// How the terminal was, as `stty` says it, if keys are read one by one.
    keys: Option<String>,
    is_terminal: bool,
}

/// What `stty` (POSIX) says of the terminal, after these changes. `None`: there is no terminal.
fn stty(changes: &[&str]) -> Option<String> {
    let mut command = Command::new("stty");
    let output = command.args(changes).stdin(Stdio::inherit()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl Screen {
    fn take() -> Self {
        let is_terminal = io::stdout().is_terminal();
        let mut keys = None;
        if is_terminal {
            let mut output = io::stdout().lock();
            let _ = write!(output, "{ENTER}").and_then(|()| output.flush());
            keys = stty(&["-g"]);
            // Reads return at once, also without a key. Ctrl-C stays a signal.
            keys = keys.filter(|_| stty(&["-icanon", "-echo", "min", "0", "time", "0"]).is_some());
        }
        Self { keys, is_terminal }
    }

    /// Whether the user has pressed q.
    fn is_left(&self) -> bool {
        let mut pressed = [0; 64];
        let count = if self.keys.is_some() { io::stdin().lock().read(&mut pressed).unwrap_or(0) } else { 0 };
        pressed[..count].iter().any(|key| matches!(key, b'q' | b'Q'))
    }

    /// Lines and columns.
    fn size(&self) -> (usize, usize) {
        let said = if self.is_terminal { stty(&["size"]) } else { None };
        let size = said.and_then(|said| {
            let (rows, columns) = said.split_once(' ')?;
            Some((rows.parse().ok()?, columns.parse().ok()?))
        });
        size.filter(|&(rows, columns)| rows > 0 && columns > 0).unwrap_or((LINES, COLUMNS))
    }

    fn print(&self, lines: &[String]) -> io::Result<()> {
        let mut text = String::new();
        if self.is_terminal {
            text.push_str(HOME);
        }
        for (number, line) in lines.iter().enumerate() {
            let is_title = self.is_terminal && number + 1 == HEAD;
            let (bold, plain) = if is_title { (BOLD, PLAIN) } else { ("", "") };
            let rest = if self.is_terminal { END_OF_LINE } else { "" };
            let _ = writeln!(text, "{bold}{line}{plain}{rest}");
        }
        text.push_str(if self.is_terminal { END_OF_SCREEN } else { "\n" });
        let mut output = io::stdout().lock();
        output.write_all(text.as_bytes())?;
        output.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(before) = &self.keys {
            stty(&[before]);
        }
        if self.is_terminal {
            let mut output = io::stdout().lock();
            let _ = write!(output, "{LEAVE}").and_then(|()| output.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn lines_are_cut_and_obeyed_by_no_terminal() {
        assert_eq!(cut("abc\x1b[2Jdef", 6), "abc […");
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abc", 0), "…");
    }
}
