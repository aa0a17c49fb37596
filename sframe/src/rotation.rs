//! One file after another, for recordings that run for days.
//!
//! When a file is due, its samples and their counts are set aside, and the next samples are those of the next
//! file. The frames get their names between samples, a few at a time, since names are in the files of the
//! session. A thread of its own then writes the file, so that samples do not wait for a disk either. While a
//! file is named or written, the next one is not due.
//!
//! No file takes the place of another one: not of one that another recording has written in the same second,
//! nor of one from before the clock was set back.

use super::args::{Record, StackOutput};
use super::destination;
use super::open::Problem;
use super::report::{complain, tell, warn};
use super::rotate::{When, stamp, stamped};
use super::sampling::is_asked_to_rotate;
use super::stack_output::{Plan, summary, warnings, write_kept};
use stacks::files::Files;
use stacks::kernel::Kernel;
use stacks::live::{Recorded, Turn};
use stacks::namer::Namer;
use stacks::profile::{Names, Profile};
use stacks::statistics::Statistics;
use stacks::write::Kept;
use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant, SystemTime};

/// How long frames are named before samples have their turn again.
const SLICE: Duration = Duration::from_millis(20);

/// Files of a recording.
pub struct Rotation {
    when: When,
    output: StackOutput,
    title: String,
    /// When the samples of the next file began, and its stamp.
    begun: Instant,
    /// When the present file began, as people count time.
    begun_at: SystemTime,
    stamp: (String, u32),
    naming: Option<Naming>,
    /// Processes that had ended then. Only that file has frames of theirs.
    ended: Vec<u32>,
    jobs: SyncSender<Job>,
    done: Receiver<Result<String, Problem>>,
    /// Files that are being written, and those that have been.
    writing: usize,
    written: usize,
    failed: Option<Problem>,
    /// Warnings that were given: one recording gives each once.
    said: HashSet<String>,
}

/// Samples whose frames get names.
struct Naming {
    profile: Profile,
    names: Names,
    namer: Namer,
    kernel: Kernel,
    statistics: Statistics,
    stamp: (String, u32),
}

/// What the thread writes: a profile, to files with a stamp.
struct Job {
    kept: Kept,
    /// The files, without the stamp.
    output: StackOutput,
    stamp: (String, u32),
}

/// How often another name is tried, if another program has taken the one that was free.
const TRIES: usize = 8;

impl Rotation {
    /// Prepares what `--rotate` asks for. `output`: the files, without stamps. `None`: it is not asked for.
    ///
    /// # Errors
    /// The output goes to no files, files cannot be made there, or there is no thread to write them.
    pub fn begin(arguments: &Record, output: &StackOutput, title: &str) -> Result<Option<Self>, Problem> {
        let Some(when) = arguments.rotation.rotate else { return Ok(None) };
        let plan = Plan::new(output, None)?;
        if plan.prints() {
            return Err(Problem::new("--rotate", "its files have names; name one with -o or --html"));
        }
        for path in plan.files() {
            if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
                return Err(Problem::new(
                    path.display().to_string(),
                    "no file; --rotate writes files beside it",
                ));
            }
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            destination::check_folder(folder.unwrap_or(Path::new(".")))
                .map_err(|message| Problem::new(path.display().to_string(), message))?;
        }
        let ((jobs, waiting), (results, done)) = (sync_channel(1), sync_channel(2));
        let keep = arguments.rotation.keep;
        let write = move || write_files(&waiting, &results, keep);
        std::thread::Builder::new()
            .name("writer".into())
            .spawn(write)
            .map_err(|error| Problem::new("--rotate", format!("no thread can be started: {error}")))?;
        Ok(Some(Self {
            when,
            output: output.clone(),
            title: title.to_owned(),
            begun: Instant::now(),
            begun_at: SystemTime::now(),
            stamp: (stamp(SystemTime::now()), 1),
            naming: None,
            ended: Vec::new(),
            jobs,
            done,
            writing: 0,
            written: 0,
            failed: None,
            said: HashSet::new(),
        }))
    }

    /// Does what is due between samples.
    pub fn turn(&mut self, turn: &mut Turn<'_>, profile: &RefCell<Profile>) {
        loop {
            match self.done.try_recv() {
                Ok(result) => self.take(result),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    self.lose_writer();
                    break;
                }
            }
        }
        if self.naming.is_none() && self.writing == 0 && self.is_due(&profile.borrow()) {
            let next = Profile::new(profile.borrow().keeps_addresses());
            let events = turn.events();
            let statistics = turn.statistics();
            self.ended = turn.session.ended();
            self.set_aside(profile.replace(next), statistics, events);
        }
        if self.naming.is_none() {
            return;
        }
        self.name(turn.session.files(), Some(Instant::now() + SLICE));
        turn.session.close_unused();
        if self.naming.is_none() {
            for pid in std::mem::take(&mut self.ended) {
                // The number may be that of another process by now.
                if !turn.session.knows(pid) {
                    turn.session.forget(pid);
                }
            }
        }
    }

    fn is_due(&self, profile: &Profile) -> bool {
        let due = match self.when {
            When::Time(time) => self.begun.elapsed() >= time,
            When::Size(size) => profile.size() >= size,
            When::Signal => false,
        };
        is_asked_to_rotate() || due
    }

    /// Lets the next file begin.
    fn set_aside(&mut self, mut profile: Profile, statistics: Statistics, events: Vec<String>) {
        profile.events = events;
        profile.notes = statistics.coverage.notes();
        let moment = SystemTime::now();
        profile.begun = Some(std::mem::replace(&mut self.begun_at, moment));
        let now = stamp(moment);
        let number = if now == self.stamp.0 { self.stamp.1 + 1 } else { 1 };
        let stamp = std::mem::replace(&mut self.stamp, (now, number));
        self.begun = self.when.next(self.begun, Instant::now());
        let (names, namer, kernel) = (Names::default(), Namer::default(), Kernel::running());
        self.naming = Some(Naming { profile, names, namer, kernel, statistics, stamp });
    }

    /// Names frames up to a moment, and has the file written when all have names.
    fn name(&mut self, files: &Files, until: Option<Instant>) {
        let inlined = self.output.inline;
        let Some(mut naming) = self.naming.take() else { return };
        let with = (&mut naming.namer, until);
        if !naming.names.extend(&naming.profile, (files, &naming.kernel), inlined, with) {
            self.naming = Some(naming);
            return;
        }
        let Naming { profile, names, statistics, stamp, .. } = naming;
        let kept = Kept::with_names(profile, names, files, &statistics, &self.title);
        for sentence in warnings(&kept, files) {
            // Their numbers differ from file to file.
            if self.said.insert(sentence.chars().filter(|letter| !letter.is_ascii_digit()).collect()) {
                warn(&sentence);
            }
        }
        match self.jobs.send(Job { kept, output: self.output.clone(), stamp }) {
            Ok(()) => self.writing += 1,
            Err(_) => self.lose_writer(),
        }
    }

    /// Notes that the thread that writes files has ended, which it does not do by itself.
    fn lose_writer(&mut self) {
        self.writing = 0;
        self.failed = Some(Problem::new("--rotate", "the thread that writes files has ended"));
    }

    /// Notes what became of a file.
    fn take(&mut self, result: Result<String, Problem>) {
        (self.writing, self.written) = (self.writing - 1, self.written + 1);
        match result {
            Ok(said) => tell(&said),
            Err(problem) => {
                // The recording goes on: the next file may have room.
                complain(&problem);
                self.failed = Some(problem);
            }
        }
    }

    /// Writes the last file, which has the samples since the one before.
    ///
    /// # Errors
    /// A file could not be written.
    pub fn end(mut self, profile: Profile, recorded: &Recorded) -> Result<(), Problem> {
        self.name(&recorded.files, None);
        if !profile.rows.is_empty() || self.writing + self.written == 0 {
            self.set_aside(profile, recorded.statistics.clone(), recorded.events.clone());
            self.name(&recorded.files, None);
        }
        while self.writing > 0 {
            match self.done.recv() {
                Ok(result) => self.take(result),
                Err(_) => self.lose_writer(),
            }
        }
        match self.failed {
            Some(problem) => Err(Problem::new("--rotate", format!("a file is missing: {problem}"))),
            None => Ok(()),
        }
    }
}

/// Writes files until nobody sends more, and removes those that are too many.
fn write_files(jobs: &Receiver<Job>, done: &SyncSender<Result<String, Problem>>, keep: Option<usize>) {
    let mut written: VecDeque<Vec<PathBuf>> = VecDeque::new();
    for job in jobs {
        let (files, result) = write_job(&job);
        drop(job);
        // Of two files, one may be there where the other could not be written.
        if files.iter().any(|path| is_there(path)) {
            written.push_back(files);
        }
        while keep.is_some_and(|keep| written.len() > keep) {
            for path in written.pop_front().unwrap_or_default() {
                // Somebody may have moved it away.
                let _ = std::fs::remove_file(path);
            }
        }
        if done.send(result).is_err() {
            return;
        }
    }
}

/// Writes the files of a job. Returns their names, and what to tell the user of them.
fn write_job(Job { kept, output, stamp }: &Job) -> (Vec<PathBuf>, Result<String, Problem>) {
    let mut tries = TRIES;
    loop {
        let named = free(output, stamp);
        let result = Plan::new(&named, None).and_then(|plan| write_kept(&plan.renamed(), kept));
        let written: Vec<PathBuf> = files(&named).cloned().collect();
        // Of two files, the first may be this one's.
        let is_taken = result.is_err() && matches!(&written[..], [only] if is_there(only));
        if is_taken && tries > 0 {
            tries -= 1;
            continue;
        }
        let names: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
        let said = result.map(|()| format!("{}: {}", names.join(" and "), summary(&kept.profile)));
        return (if is_taken { Vec::new() } else { written }, said);
    }
}

/// The files with a stamp, and the first number with which none of them is there.
fn free(output: &StackOutput, (stamp, first): &(String, u32)) -> StackOutput {
    let with = |number: u32| {
        let of = |path: &PathBuf| stamped(path, stamp, number);
        let mut named = output.clone();
        (named.output, named.html) = (output.output.as_ref().map(of), output.html.as_ref().map(of));
        named
    };
    (*first..)
        .map(with)
        .find(|named| !files(named).any(|path| is_there(path)))
        .unwrap_or_else(|| with(*first))
}

fn files(output: &StackOutput) -> impl Iterator<Item = &PathBuf> {
    output.output.iter().chain(&output.html)
}

fn is_there(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{StackOutput, files, free};
    use std::path::PathBuf;

    #[test]
    fn files_that_are_there_keep_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let output = StackOutput {
            format: None,
            output: Some(folder.path().join("s.json")),
            html: Some(folder.path().join("s.html")),
            inline: false,
            stats: None,
        };
        let stamp = ("T".to_owned(), 1);
        let names = || -> Vec<String> {
            let named = free(&output, &stamp);
            let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
            files(&named).map(name).collect()
        };
        assert_eq!(names(), ["s-T.json", "s-T.html"]);
        // One of both is enough, and a broken link is one.
        std::os::unix::fs::symlink("nowhere", folder.path().join("s-T.html")).unwrap();
        assert_eq!(names(), ["s-T-2.json", "s-T-2.html"]);
        std::fs::write(folder.path().join("s-T-2.json"), "").unwrap();
        assert_eq!(names(), ["s-T-3.json", "s-T-3.html"]);
    }
}
