//! Proofs: large links that CI has no time for. Each builds something well known with the linker, checks that
//! it works, and records the results under `tests/proofs/`.
//!
//! Each proof is a subcommand with its own arguments: a type that the proof's module declares, or `()`. For a
//! new proof, write a module and add an entry to [`subjects`].

use crate::install::{self, Comparer, Program, SframeCommand};
use crate::{peers, records};
use anyhow::Result;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};
use proof::Proof;
use std::path::Path;

mod after_link;
mod bare;
mod boot;
mod bpf;
mod browser;
mod call_graphs;
mod cargo;
mod compact;
mod compare;
mod exceptions;
mod faults;
mod gdb_index;
mod glibc;
mod glibc_built;
mod icf;
mod index;
mod kernel;
mod libsframe;
mod light;
mod limits;
mod llvm;
mod lto;
mod machines;
mod miri;
mod modules;
pub mod mutants;
mod newcomers;
mod overhead;
mod package;
mod packages;
mod proof;
mod random;
mod rebuild;
mod same;
mod sanitizers;
mod split_links;
mod sqlite;
mod stacks;
mod suites;
mod supply_chain;
mod system_files;
mod threads;
mod thunks;
mod tools;
mod turns;
mod unwind_compiler;
mod unwind_table;
mod violations;
mod vmlinux;

/// The chosen proof, with its arguments from the command line.
pub struct Arguments {
    subject: Subject,
    common: Common,
    matches: ArgMatches,
}

/// The arguments that every proof takes.
#[derive(clap::Args)]
struct Common {
    /// Do not write to tests/proofs
    #[arg(long)]
    no_record: bool,
    #[command(flatten)]
    linker: install::Linker,
}

/// How a proof runs, with its arguments from the command line.
type Run = dyn Fn(&mut Proof, &ArgMatches) -> Result<()>;

/// A proof.
struct Subject {
    /// Its name on the command line, and of its record.
    name: &'static str,
    about: &'static str,
    /// Whether `bare --proofs` runs it too. Such a proof builds no kernels, and needs nothing that only a
    /// developer's machine has.
    in_bare_root: bool,
    /// Whether it takes tools of other projects from the folder of peers. Roots of the distribution fetch
    /// their own.
    needs_peers: bool,
    augment: fn(Command) -> Command,
    prove: Box<Run>,
}

impl Subject {
    /// A proof with the arguments `A`.
    fn new<A: Args + 'static>(
        name: &'static str,
        about: &'static str,
        prove: fn(&mut Proof, &A) -> Result<()>,
    ) -> Self {
        Subject {
            name,
            about,
            in_bare_root: false,
            needs_peers: true,
            augment: A::augment_args,
            prove: Box::new(move |proof, matches| prove(proof, &A::from_arg_matches(matches)?)),
        }
    }

    /// A proof without arguments of its own.
    fn plain(name: &'static str, about: &'static str, prove: fn(&mut Proof) -> Result<()>) -> Self {
        let prove = Box::new(move |proof: &mut Proof, _: &ArgMatches| prove(proof));
        Subject { prove, ..Subject::new(name, about, |_, ()| Ok(())) }
    }

    /// A proof about a program; it gets the program's path.
    fn of<P: Program + 'static>(
        name: &'static str,
        about: &'static str,
        prove: fn(&mut Proof, &Path) -> Result<()>,
    ) -> Self {
        let prove = move |proof: &mut Proof, matches: &ArgMatches| {
            prove(proof, &P::from_arg_matches(matches)?.path()?)
        };
        Subject {
            augment: P::augment_args,
            prove: Box::new(prove),
            ..Subject::new(name, about, |_, ()| Ok(()))
        }
    }

    fn in_bare_root(self) -> Self {
        Subject { in_bare_root: true, ..self }
    }

    fn without_peers(self) -> Self {
        Subject { needs_peers: false, ..self }
    }

    fn command(&self) -> Command {
        (self.augment)(Common::augment_args(Command::new(self.name))).about(self.about)
    }
}

/// Every proof.
fn subjects() -> Vec<Subject> {
    vec![
        Subject::plain("sqlite", "sqlite3's amalgamation, in every kind of output", sqlite::sqlite)
            .in_bare_root(),
        Subject::plain("ripgrep", "ripgrep, through cargo", cargo::ripgrep),
        Subject::plain(
            "self",
            "sframe-ld links itself: the second generation equals the third and passes the tests",
            cargo::itself,
        ),
        Subject::plain(
            "llvm",
            "A C++ compiler from Debian's static archives of libclang and LLVM",
            llvm::llvm,
        ),
        Subject::plain(
            "lto",
            "sqlite, zstd and a C++ project, optimised at link time by gcc's and LLVM's plugins",
            lto::lto,
        )
        .in_bare_root(),
        Subject::plain("suites", "mold's own tests, by this linker and by mold", suites::suites),
        Subject::of::<SframeCommand>(
            "attach",
            "sframe attach on twenty and more well-known binaries",
            tools::attach,
        )
        .in_bare_root(),
        Subject::of::<SframeCommand>(
            "after-link",
            "strip, objcopy, dwz, patchelf, UPX, BOLT and others, on every form of output",
            after_link::after_link,
        ),
        Subject::of::<SframeCommand>(
            "glibc",
            "glibc's own SFrame reader, in programs that are linked in every mode",
            glibc::glibc,
        ),
        Subject::of::<SframeCommand>(
            "glibc-built",
            "glibc, built with --enable-sframe and linked by this linker: its backtrace() and its tests",
            glibc_built::glibc_built,
        ),
        Subject::new(
            "libsframe",
            "Every SFrame section that the tests link, read by libsframe, readelf, objdump and llvm-readobj",
            libsframe::libsframe,
        ),
        Subject::new(
            "split-project",
            "A C++ project split by both wrappers and the plugin, linked by all linkers",
            split_links::split_project,
        )
        .in_bare_root(),
        Subject::plain("icf", "The LLVM link with equal code folded, beside lld and mold", icf::icf),
        Subject::plain(
            "gdb-index",
            "A Rust program with an index of its debug information, beside lld, mold and gdb",
            gdb_index::gdb_index,
        ),
        Subject::of::<SframeCommand>(
            "index",
            "The index of a C++ project of several hundred objects, in every kind of output",
            index::index,
        ),
        Subject::of::<SframeCommand>(
            "compact",
            "Compact tables beside .eh_frame, V3 and OpenTelemetry's stack deltas",
            compact::compact,
        ),
        Subject::of::<SframeCommand>(
            "unwind-table",
            "Tables in place of .eh_frame: every register at every address of well-known files",
            unwind_table::unwind_table,
        ),
        Subject::new(
            "exceptions",
            "Tests of exceptions by gcc, LLVM, Rust and glibc, by one table in place of .eh_frame",
            exceptions::exceptions,
        ),
        Subject::plain(
            "unwind-compiler",
            "A C++ compiler with one table in place of .eh_frame, which compiles itself; what its link costs",
            unwind_compiler::unwind_compiler,
        ),
        Subject::of::<SframeCommand>(
            "light",
            "A C++ project in the light linking form, linked by every linker, and sizes of all forms",
            light::light,
        ),
        Subject::of::<SframeCommand>(
            "machines",
            "zstd, sqlite, a C++ project and a Rust program for the other machines, in every SFrame mode",
            machines::machines,
        )
        .in_bare_root(),
        Subject::of::<SframeCommand>(
            "thunks",
            "An AArch64 program of 300 MiB of code whose calls need thousands of thunks",
            thunks::thunks,
        )
        .in_bare_root(),
        Subject::plain(
            "browser",
            "A link as large as a browser's, beside the fast linkers, and how each pass grows",
            browser::browser,
        ),
        Subject::of::<Comparer>(
            "compare",
            "Links of every kind, for three machines, held against every other linker",
            compare::compare,
        ),
        Subject::new(
            "random",
            "Thousands of random programs for three machines, linked by every linker, run and compared",
            random::random,
        ),
        Subject::of::<Comparer>(
            "threads",
            "The benchmarks' links and those of random programs, with 1 to 32 threads: the same bytes",
            threads::threads,
        ),
        Subject::new(
            "faults",
            "A link that is killed, starved, disturbed and surrounded by failures",
            faults::faults,
        ),
        Subject::new(
            "mutants",
            "Thousands of damaged inputs by every linker: refused, accepted, or worse",
            mutants::mutants,
        ),
        Subject::plain(
            "sanitizers",
            "AddressSanitizer and ThreadSanitizer over the tests and benchmarks' links",
            sanitizers::sanitizers,
        ),
        Subject::plain(
            "miri",
            "Tests of what is unsafe, or reads bytes as structures, interpreted",
            miri::miri,
        ),
        Subject::of::<Comparer>(
            "violations",
            "The matrix of section-group violations, and one that is reduced",
            violations::violations,
        )
        .in_bare_root(),
        Subject::of::<SframeCommand>(
            "stacks",
            "Recordings of real programs, unwound by sframe stacks, framehop and perf script",
            stacks::stacks,
        ),
        Subject::of::<SframeCommand>(
            "call-graphs",
            "Profiles of programs whose callers are all known, by sframe, in the kernel, and by perf script",
            call_graphs::call_graphs,
        ),
        Subject::of::<SframeCommand>(
            "overhead",
            "What sframe record and perf record cost a program at three rates, on an idle machine",
            overhead::overhead,
        ),
        Subject::plain(
            "bpf",
            "Stacks of real programs, unwound in the kernel and in user space on the same samples",
            bpf::bpf,
        ),
        Subject::of::<SframeCommand>(
            "modules",
            "Kernel modules, built with Debian's headers and loaded into its kernel",
            modules::modules,
        )
        .in_bare_root(),
        Subject::new(
            "kernel",
            "Kernels for three machines, built from Debian's source and booted",
            kernel::kernels,
        ),
        Subject::new(
            "vmlinux",
            "The same kernels with an SFrame index, which is read from them once they run",
            vmlinux::vmlinux,
        ),
        Subject::new(
            "package",
            "The packages in minimal roots: installed, used and removed",
            package::package,
        ),
        Subject::plain(
            "newcomers",
            "The first changes of CONTRIBUTING.md: each applies, compiles and passes its tests",
            newcomers::newcomers,
        ),
        Subject::plain(
            "supply-chain",
            "What the crates that are taken from others may do, and the one that is published",
            supply_chain::supply_chain,
        ),
        Subject::new(
            "rebuild",
            "Debian's source packages, built and tested with this linker in the place of GNU ld",
            rebuild::rebuild,
        )
        .without_peers(),
        Subject::new(
            "bare",
            "The README's two commands in a fresh clone in a minimal root of the distribution",
            in_minimal_root,
        )
        .without_peers(),
    ]
}

/// The proof in a minimal root of the distribution, together with the other proofs that run there if they are
/// wanted.
fn in_minimal_root(proof: &mut Proof, wanted: &bare::Wanted) -> Result<()> {
    let subjects = subjects();
    let inside = subjects.iter().filter(|subject| subject.in_bare_root && wanted.proofs);
    bare::bare(proof, &inside.map(|subject| subject.name).collect::<Vec<_>>())
}

impl Args for Arguments {
    fn augment_args(command: Command) -> Command {
        let commands = subjects().into_iter().map(|subject| subject.command());
        command.subcommand_required(true).arg_required_else_help(true).subcommands(commands)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Arguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let (name, matches) = matches.subcommand().expect("clap demands a subject");
        let subject = subjects().into_iter().find(|subject| subject.name == name);
        let subject = subject.expect("clap knows the subjects");
        Ok(Arguments { subject, common: Common::from_arg_matches(matches)?, matches: matches.clone() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { subject, common, matches } = arguments;
    if subject.needs_peers {
        for line in peers::prepare(&peers::folder(), true)? {
            println!("not to be had: {line}");
        }
    }
    let mut proof = Proof::new(subject.name, &common.linker.path()?, !common.no_record)?;
    (subject.prove)(&mut proof, matches)?;
    if proof.is_recorded {
        records::write(subject.name, &proof.record)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn help(words: &[&str]) -> String {
        CommandLine::try_parse_from(words).err().expect("help ends the parsing").to_string()
    }

    #[test]
    fn every_subject_is_found_by_its_name_and_no_other_word_is() {
        for subject in subjects() {
            let read = CommandLine::try_parse_from(["prove", subject.name]).ok().unwrap();
            assert_eq!(read.arguments.subject.about, subject.about);
        }
        let refused = help(&["prove", "everything"]);
        assert!(refused.contains("unrecognized subcommand 'everything'"), "{refused}");
    }

    #[test]
    fn each_subject_has_its_own_arguments() {
        let (random, sqlite) = (help(&["prove", "random", "--help"]), help(&["prove", "sqlite", "--help"]));
        for option in ["--no-record", "--linker"] {
            assert!(random.contains(option) && sqlite.contains(option), "{option}");
        }
        for option in ["--machine", "--count", "--seed"] {
            assert!(random.contains(option) && !sqlite.contains(option), "{option}: {random}{sqlite}");
        }
        assert!(!random.contains("--jobs") && help(&["prove", "rebuild", "--help"]).contains("--jobs"));
    }
}
