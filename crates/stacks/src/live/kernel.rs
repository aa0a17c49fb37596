//! Unwinding in the kernel: keeps the BPF program informed of files and processes.
//!
//! The program starts knowing nothing. It learns of a process when the process's mappings have changed. It
//! gets a file's table when a sample that was unwound in user space has passed through the file. So the
//! kernel holds tables only of code that runs. No stack is lost: if the program cannot unwind a stack yet,
//! the event samples registers and a copy of the stack.

use super::events::Events;
use super::members::Members;
use super::needed;
use super::request::Target;
use super::stale::{Stale, now};
use super::tables::{Ready, Tables};
use crate::bytes::Bytes;
use crate::code::switch::{Back, FramePointer, From, Switch};
use crate::event::Event;
use crate::files::{FileId, MappedFile};
use crate::process::{Place, is_file};
use crate::running::Running;
use crate::session::{Described, Former, Session, Stack};
pub use sframe_bpf::RunTime;
use sframe_bpf::{End, Kernel, Range, Stacks, WayBack};
use sframe_format::Module;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The most code, in bytes, whose tables are made before a command is executed: reading it takes a part of a
/// second.
const MOST_PREPARED: u64 = 32 << 20;

/// A program in the kernel that waits for events.
pub struct InKernel {
    pub(super) kernel: Kernel,
    pub(super) stacks: Option<Stacks>,
    /// Processes whose mappings have changed.
    changed: BTreeSet<u32>,
    /// Processes that describe code which they made, or keep no frame pointers in it.
    describing: HashSet<u32>,
    /// Others of which a stack has ended as if they kept none.
    doubted: HashMap<u32, Doubt>,
    /// Files that a stack has passed through, of which the kernel has no table.
    wanted: BTreeSet<u32>,
    tables: Tables,
    stale: Stale,
}

/// How many stacks of a process have ended as if it kept no frame pointers, and how many there were since the
/// first of them.
#[derive(Default)]
struct Doubt {
    ended: u64,
    all: u64,
}

impl Doubt {
    /// So many are no accident, if they are at least one in so many.
    const LEAST: u64 = 4;
    const SHARE: u64 = 20;

    /// Adds a stack, and says whether there were enough of them.
    fn add(&mut self, ends: bool) -> bool {
        self.ended += u64::from(ends);
        self.all += 1;
        self.ended >= Self::LEAST && self.ended * Self::SHARE >= self.all
    }
}

/// Counts of the program's work.
#[derive(Clone, Debug)]
pub struct KernelReport {
    /// How many stacks ended in each way.
    pub ends: Vec<(End, u64)>,
    /// Frames.
    pub frames: u64,
    /// How long it ran. 0: the kernel did not measure it.
    pub run_time: RunTime,
    /// Bytes of memory for tables.
    pub table_memory: u64,
    /// Bytes of tables.
    pub table_bytes: u64,
}

impl InKernel {
    /// Loads the program. With `both`, samples are also unwound in user space, so that each stack comes
    /// twice.
    ///
    /// # Errors
    /// A sentence with the reason why the kernel does not load the program, and what helps.
    pub fn load(both: bool) -> Result<Self, String> {
        let (kernel, stacks) = Kernel::load(both)?;
        Ok(Self {
            kernel,
            tables: Tables::start()?,
            stacks: Some(stacks),
            changed: BTreeSet::new(),
            describing: HashSet::new(),
            doubted: HashMap::new(),
            wanted: BTreeSet::new(),
            stale: Stale::default(),
        })
    }

    /// Gives the kernel the tables that are sure to be needed, before a command runs: those of the file which
    /// it will execute and of what is mapped with it, and the vDSO's, since all processes have that. Only the
    /// process tells what else it maps.
    pub(super) fn prepare(&mut self, session: &mut Session, target: &Target) {
        let vdso = session.files_mut().open(b"[vdso]", None, None);
        self.tables.ask(session.files(), vdso);
        if let Target::Command(words) = target {
            for file in first_files(session, words) {
                self.tables.ask(session.files(), file);
            }
        }
        self.tables.wait();
        self.send_tables(session);
    }

    /// Attaches the program to all events.
    pub(super) fn attach(&mut self, events: &Events) -> Result<(), String> {
        self.kernel.set_copied(events.copied())?;
        let mut descriptors = events.descriptors();
        descriptors
            .try_for_each(|event| self.kernel.attach(event))
            .map_err(|error| format!("the kernel cannot run a program at samples: {error}"))
    }

    /// Records the process whose mappings an event changes. The session has not handled it yet.
    pub(super) fn note(&mut self, session: &Session, event: &Event<'_>) {
        match event {
            Event::Mapped(mapped) => {
                let range = mapped.address..mapped.address.saturating_add(mapped.length);
                let modules = session.modules(mapped.pid).unwrap_or_default();
                for module in modules {
                    let old = module.range();
                    let both = old.start.max(range.start)..old.end.min(range.end);
                    let before = Some((FileId(module.id().0 as u32), module.bias()));
                    if !both.is_empty() {
                        self.stale.change(mapped.pid, Former { range: both, file: before });
                    }
                }
                // Code may be made again and again at one place.
                if !mapped.executable || is_file(mapped.path) {
                    for made in session.made_code(mapped.pid) {
                        let both = made.start.max(range.start)..made.end.min(range.end);
                        if !both.is_empty() {
                            self.stale.change(mapped.pid, Former { range: both, file: None });
                        }
                    }
                }
            }
            Event::Named { pid, executed: true, .. } => {
                self.describing.remove(pid);
                self.doubted.remove(pid);
                self.stale.change(*pid, Former { range: 0..u64::MAX, file: None });
            }
            Event::Exited { pid, tid } if pid == tid => {
                self.describing.remove(pid);
                self.doubted.remove(pid);
                self.stale.forget(*pid);
            }
            _ => {}
        }
        match event {
            Event::Mapped(mapped) => self.changed.insert(mapped.pid),
            Event::Named { pid, executed: true, .. } => self.changed.insert(*pid),
            Event::Forked { pid, parent, .. } if pid != parent => self.changed.insert(*pid),
            Event::Exited { pid, .. } => self.changed.insert(*pid),
            _ => false,
        };
    }

    /// Records an event of a process that nobody asked for. The clocks of processors sample all that run, and
    /// copies of their stacks would cost more than all else.
    pub(super) fn decline(&mut self, members: &Members, event: &Event<'_>) {
        match event {
            Event::Sample(sample) if members.excludes(sample.pid) => self.kernel.ignore_process(sample.pid),
            // The number may soon be that of a process which somebody asked for.
            Event::Exited { pid, tid } if pid == tid => self.kernel.remove_process(*pid),
            Event::Forked { pid, parent, .. } if pid != parent => self.kernel.remove_process(*pid),
            _ => {}
        }
    }

    /// The memory of a process of which the program did not know at a time what is there now.
    pub(super) fn stale(&self, pid: u32, time: u64) -> Vec<Former> {
        self.stale.at(pid, time)
    }

    /// Records the tables that a stack needs and the kernel lacks.
    pub(super) fn want(&mut self, stack: &Stack<'_>) {
        for frame in stack.frames {
            if let Place::File(file, _) = frame.place
                && !self.kernel.knows(file.0)
            {
                self.wanted.insert(file.0);
            }
        }
    }

    /// Asks for the tables that stacks need, and gives the kernel those that have been made meanwhile. Errors
    /// are ignored, because such stacks are unwound in user space.
    pub(super) fn send_tables(&mut self, session: &Session) {
        let files = session.files();
        for file in std::mem::take(&mut self.wanted) {
            self.tables.ask(files, FileId(file));
        }
        while let Some(Ready { file, first, table }) = self.tables.ready() {
            files.set_table(file, table.clone());
            match table.as_ref().and_then(|made| Some((made, made.table()?))) {
                Some((made, table)) => {
                    // They come first, so that no stack ends where one of them goes on.
                    for switch in &made.switches {
                        if let Some(way) = way_back(switch) {
                            drop(self.kernel.add_way_back(file.0, switch.at, &way));
                        }
                    }
                    drop(if first == file {
                        self.kernel.add_table(file.0, &table)
                    } else {
                        self.kernel.add_same_table(file.0, first.0)
                    });
                }
                None => self.kernel.add_none(file.0),
            }
        }
    }

    /// Informs the program of the processes whose mappings have changed. Errors are ignored, because their
    /// stacks are unwound in user space.
    pub(super) fn send_processes(&mut self, session: &Session) {
        for pid in std::mem::take(&mut self.changed) {
            match session.modules(pid) {
                Some(modules) => {
                    // A list for debuggers may stay empty, but this is sure to describe what it makes.
                    if !self.describing.contains(&pid)
                        && !session.made_code(pid).is_empty()
                        && session.files().have_virtual_machine(modules)
                    {
                        self.describing.insert(pid);
                    }
                    let ranges = self.ranges(session, pid, modules);
                    // After an error, the program still has the old ones.
                    if self.kernel.set_process(pid, &ranges).is_err() {
                        continue;
                    }
                }
                None => self.kernel.remove_process(pid),
            }
            self.stale.tell(pid, now());
        }
    }

    /// The executable memory of a process.
    fn ranges(&self, session: &Session, pid: u32, modules: &[Module<Bytes>]) -> Vec<Range> {
        let follows = !self.describing.contains(&pid);
        let of_file = |module: &Module<_>| {
            let file = module.id().0 as u32;
            let is_made = follows && session.files().get(FileId(file)).is_some_and(MappedFile::is_foreign);
            Range {
                start: module.range().start,
                end: module.range().end,
                bias: if is_made { 0 } else { module.bias() },
                file: if is_made { Range::MADE } else { file },
                pid,
            }
        };
        let mut ranges: Vec<Range> = modules.iter().map(of_file).collect();
        if follows {
            let made = session.made_code(pid).into_iter();
            ranges.extend(made.map(|made| Range {
                start: made.start,
                end: made.end,
                bias: 0,
                file: Range::MADE,
                pid,
            }));
            ranges.sort_unstable_by_key(|range| range.start);
        }
        ranges
    }

    /// Records what a stack says of the code that a process made. Frame pointers are no longer followed there
    /// if they do not lead out of it.
    pub(super) fn learn(&mut self, pid: u32, described: Described) {
        let is_sure = match described {
            Described::Yes => true,
            Described::Perhaps => self.doubted.entry(pid).or_default().add(true),
            Described::No if self.doubted.is_empty() => false,
            Described::No => self.doubted.get_mut(&pid).is_some_and(|doubt| doubt.add(false)),
        };
        if is_sure && self.describing.insert(pid) {
            self.changed.insert(pid);
        }
    }

    /// Counts of the program's work.
    pub(super) fn report(&mut self) -> Result<KernelReport, String> {
        let (ends, frames) = self.kernel.counts()?;
        let run_time = self.kernel.run_time().unwrap_or_default();
        let (table_memory, table_bytes) = self.kernel.table_bytes();
        Ok(KernelReport { ends, frames, run_time, table_memory, table_bytes })
    }
}

/// The files that a command maps before it runs, as far as they can be read before that.
fn first_files(session: &mut Session, words: &[OsString]) -> Vec<FileId> {
    let Some(path) = words.first().and_then(|word| executed(Path::new(word))) else { return Vec::new() };
    let mut room = MOST_PREPARED;
    let mut found = Vec::new();
    for (path, image) in needed::of_program(path) {
        let size = image.code().map(|segment| segment.size).fold(0, u64::saturating_add);
        // Of a large program, the libraries that it shares with others are still worth their time.
        let Some(left) = room.checked_sub(size) else { continue };
        room = left;
        // Its mapping names it by the path and the build-id.
        let running = Running { pid: std::process::id(), range: 0..0, identity: None };
        let file = path.as_os_str().as_bytes();
        found.push(session.files_mut().open(file, image.build_id(), Some(&running)));
    }
    found
}

/// The file that a command executes: at a path, or in a folder of `PATH`.
fn executed(word: &Path) -> Option<PathBuf> {
    if word.components().count() > 1 || word.is_absolute() {
        return word.canonicalize().ok();
    }
    let folders = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&folders).map(|folder| folder.join(word));
    places.find(|place| place.is_file())?.canonicalize().ok()
}

/// The form of a way back for the program. `None`: it has too many words.
fn way_back(switch: &Switch) -> Option<WayBack> {
    let Some(back) = &switch.back else { return Some(WayBack::default()) };
    let Back { from, path, minus, cfa, fp, pc, below } = back;
    let from = match from {
        From::Thread => WayBack::FROM_THREAD,
        From::Stack => WayBack::FROM_STACK,
        From::Frame => WayBack::FROM_FRAME,
    };
    let mut way = WayBack { from, count: path.len() as u32, cfa: *cfa, ..WayBack::default() };
    way.words.get_mut(..path.len())?.copy_from_slice(path);
    let mut set = |flag: u32, value: Option<i32>| {
        way.flags |= if value.is_some() { flag } else { 0 };
        value.unwrap_or(0)
    };
    let (minus, pc) = (set(WayBack::SUBTRACTS, *minus), set(WayBack::PC_BESIDE, *pc));
    let below = set(WayBack::MOVES, *below);
    let fp = match *fp {
        FramePointer::Kept => 0,
        FramePointer::AtCfa(offset) => set(WayBack::FP_AT_CFA, Some(offset)),
        FramePointer::Beside(offset) => set(WayBack::FP_BESIDE, Some(offset)),
    };
    Some(WayBack { minus, pc, below, fp, ..way })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_keeps_no_frame_pointers_if_many_stacks_say_so() {
        let learned_after = |every: usize| {
            let mut doubt = Doubt::default();
            (0..100_000).find(|number| doubt.add(number % every == 0))
        };
        assert_eq!((learned_after(1), learned_after(2)), (Some(3), Some(6)));
        assert_eq!((learned_after(20), learned_after(30), learned_after(1000)), (Some(60), None, None));
    }
}
