//! Stacks of whole processes, from a recording of `perf` or from running programs.
//!
//! Events come from a file ([`recording`]) or from the kernel ([`live`]): files are mapped, processes fork,
//! execute and end, and samples are taken with the user's registers and a copy of the top of the stack. A
//! [`session`] follows the processes, unwinds each sample, and passes it on with its frames. Each frame says
//! how it was found. A sample that does not reach the root says why. A [`profile`] stores frames and stacks
//! that samples share only once, and the writers of [`mod@write`] make files of it for people and for tools.
//!
//! | module | contents |
//! |---|---|
//! | [`bytes`] | bytes that are mapped or owned; reading words in a byte order |
//! | `digits` | numbers as text |
//! | [`event`] | records of `perf_event_open(2)` as values |
//! | [`recording`] | the files that `perf record` writes |
//! | [`core_file`], [`memory`], [`snapshot`] | what core files, or other files, have saved of a process |
//! | [`image`], `build_id`, `vdso` | ELF files: segments, rows, build-ids; the kernel's own |
//! | `rows`, `debug_file` | their rows, made as samples ask for them; debug information that was split off |
//! | [`registers`] | their numbers in samples |
//! | `code`, `extents` | rows for code that no file describes, read off its instructions; ways to other stacks |
//! | [`table`] | their compact tables, for the kernel |
//! | `symbols`, `go_table`, `go_lines`, `inlines` | names for their addresses |
//! | `jit_map` | names of code that programs made while they ran |
//! | `in_memory`, `jit_objects`, `hotspot`, `process_memory` | such code, by what is in memory |
//! | `jit_object`, `hotspot_frame`, `made_code` | how its frames are left |
//! | `name`, [`namer`], [`kernel`] | the names of a frame; names of the kernel's functions |
//! | [`files`], `shelf` | one cache of files for all processes, with a bound on those that are open |
//! | [`process`] | which process has mapped which file where |
//! | [`running`], [`present`] | where the files of a process that runs can be opened; what it has mapped |
//! | [`session`], `walk`, `saved`, `calls` | from events to stacks |
//! | [`profile`] | many samples as one tree of stacks, and names for its frames |
//! | [`named`], [`nameless`] | a profile with the names of its frames; what helps if many have none |
//! | [`modules`] | what a profile says of the files of its frames |
//! | [`script`] | profiles from the text of `perf script` |
//! | [`functions`], [`renamed`] | samples by function, and their changes from one profile to another |
//! | [`statistics`] | how many stacks reached the root, and why the others did not |
//! | [`coverage`] | how far apart samples are, and where some are missing |
//! | [`mod@write`] | text, folded stacks, JSON, pprof, Firefox, HTML; a file to write them from again |
//! | [`live`] | samples of programs that run |
//!
//! This crate does not trust recordings: no bytes make it panic, and it uses memory in proportion to their
//! number. It maps files. If another program truncates a file while this crate reads it, the system raises
//! SIGBUS. The crate installs no handler for that; the command `sframe` does, and ends with a message that
//! names the file.
//!
//! ```
//! use sframe_format::Abi;
//! use stacks::session::{Session, Settings};
//!
//! let mut settings = Settings::default();
//! settings.files.here = true;
//! let mut session = Session::new(Abi::Amd64, settings);
//! let pid = std::process::id();
//! session.add_running(pid).expect("this process runs");
//! let files = session.modules(pid).expect("it is known");
//! assert!(!files.is_empty());
//! ```
//!
//! # Programs that run
//!
//! [`live::record`] samples programs until they end. [`live::Recorder`] does the same for a program with a
//! loop of events: it has a descriptor to wait for, and reading does not wait. Both can be stopped at any
//! time, and frames can be named meanwhile ([`namer`]).
//!
//! # For days
//!
//! Profiles grow with their samples, so a recording that goes on writes one file after another. A profile
//! and its counts are set aside between two samples, and none is lost:
//!
//! ```no_run
//! use stacks::kernel::Kernel;
//! use stacks::live::{Request, Target, Turn, record};
//! use stacks::profile::Profile;
//! use stacks::session::{Settings, Stack};
//! use stacks::write::{Format, Kept, write};
//! use std::cell::RefCell;
//! use std::sync::atomic::AtomicBool;
//!
//! # fn main() -> Result<(), String> {
//! let (profile, mut number) = (RefCell::new(Profile::new(false)), 0);
//! let mut watch = |turn: &mut Turn<'_>| {
//!     if profile.borrow().size() > 64 << 20 {
//!         let old = profile.replace(Profile::new(false));
//!         let (events, statistics) = (turn.events(), turn.statistics());
//!         let files = (turn.session.files(), &Kernel::running());
//!         // `Names::extend` and `Kept::with_names` name them a few at a time.
//!         let mut kept = Kept::new(old, files, &statistics, false, "all programs");
//!         kept.profile.events = events;
//!         number += 1;
//!         let file = std::fs::File::create(format!("stacks-{number}.sframe-profile"));
//!         file.and_then(|mut file| write(Format::Profile, kept.named(), &mut file)).expect("room on the disk");
//!     }
//! };
//! let mut take = |stack: &Stack<'_>| profile.borrow_mut().add(stack);
//! let mut settings = Settings::default();
//! settings.files.bound.files = Some(4096);
//! record(&Request::new(Target::Machine), settings, None, &AtomicBool::new(false), &mut watch, &mut take)?;
//! # Ok(())
//! # }
//! ```
//!
//! [`files::Bound`] bounds the files that are open; [`session::Session::ended`] lists processes of which
//! nothing is needed any more.
#![warn(missing_docs)]

mod build_id;
mod by_address;
pub mod bytes;
mod calls;
mod code;
pub mod core_file;
pub mod coverage;
mod debug_file;
mod digits;
pub mod event;
mod extents;
pub mod files;
pub mod functions;
mod go_lines;
mod go_table;
mod hotspot;
mod hotspot_frame;
pub mod image;
mod in_memory;
mod inlines;
mod jit_dump;
mod jit_map;
mod jit_object;
mod jit_objects;
pub mod kernel;
pub mod live;
mod made_code;
pub mod memory;
pub mod modules;
mod name;
pub mod named;
pub mod nameless;
pub mod namer;
pub mod present;
pub mod process;
mod process_memory;
pub mod profile;
pub mod recording;
mod red_zone;
pub mod registers;
pub mod renamed;
mod rows;
pub mod running;
mod saved;
pub mod script;
mod sections;
pub mod session;
mod shelf;
pub mod snapshot;
mod stack_memory;
pub mod statistics;
mod step;
mod symbols;
pub mod table;
mod ticks;
mod vdso;
mod walk;
pub mod write;

/// The examples of the page that people see first.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
