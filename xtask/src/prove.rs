//! Large links that CI has no time for: each builds something well known with the linker, checks
//! that it works, and records the results under `tests/proofs/`.

use crate::{install, peers};
use anyhow::Result;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use proof::Proof;

mod bare;
mod boot;
mod bpf;
mod browser;
mod cargo;
mod compact;
mod compare;
mod faults;
mod gdb_index;
mod icf;
mod index;
mod kernel;
mod light;
mod limits;
mod llvm;
mod lto;
mod machines;
mod miri;
mod modules;
pub mod mutants;
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
mod supply_chain;
mod threads;
mod thunks;
mod tools;
mod turns;
mod violations;
mod vmlinux;

#[derive(clap::Args)]
pub struct Arguments {
    /// What to prove (all if none)
    #[arg(value_parser = subjects())]
    names: Vec<&'static Subject>,
    /// With `kernel`, `vmlinux` and `random`: this machine's only (x86-64, arm64 or aarch64, s390x), and more
    /// by repeating it
    #[arg(long = "machine")]
    machines: Vec<String>,
    /// With `rebuild`: this source package only, done or not, and more by repeating it
    #[arg(long = "source", value_name = "PACKAGE")]
    packages: Vec<String>,
    /// With `rebuild`: so many packages at a time, each in a root of its own; 0 to write the page from its
    /// rows only
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// With `rebuild`: the commit that the linker was made of, if it is not this one
    #[arg(long)]
    commit: Option<String>,
    /// With `random`: so many programs of each machine; with `mutants`: so many of these; with
    /// `faults`: so many links for each kind of random moment
    #[arg(long)]
    count: Option<u64>,
    /// With `random` and `mutants`: the first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// With `bare`: the proofs too that need nothing but what the root has and fetches
    #[arg(long)]
    proofs: bool,
    /// With `package`: take programs and libraries from this folder instead of building them
    #[arg(long, value_name = "FOLDER")]
    built: Option<std::path::PathBuf>,
    /// Do not write to tests/proofs
    #[arg(long)]
    no_record: bool,
    #[command(flatten)]
    linker: install::Linker,
    #[command(flatten)]
    command: install::SframeCommand,
    #[command(flatten)]
    wrapper: install::Wrapper,
    #[command(flatten)]
    comparer: install::Comparer,
    #[command(flatten)]
    plugin: install::Plugin,
}

/// A proof.
struct Subject {
    /// On the command line, and of the record.
    name: &'static str,
    about: &'static str,
    /// Whether `bare --proofs` proves it too: it neither builds kernels nor needs anything that only a
    /// developer's machine has.
    in_bare_root: bool,
    prove: fn(&mut Proof, &Arguments) -> Result<()>,
}

/// Every proof, in the order in which they run.
static SUBJECTS: [Subject; 32] = [
    Subject {
        name: "sqlite",
        about: "sqlite3's amalgamation, in every kind of output",
        in_bare_root: true,
        prove: |proof, _| sqlite::sqlite(proof),
    },
    Subject {
        name: "ripgrep",
        about: "ripgrep, through cargo",
        in_bare_root: false,
        prove: |proof, _| cargo::ripgrep(proof),
    },
    Subject {
        name: "self",
        about: "sframe-ld links itself: the second generation passes the tests and equals the third",
        in_bare_root: false,
        prove: |proof, _| cargo::itself(proof),
    },
    Subject {
        name: "llvm",
        about: "A C++ compiler from Debian's static archives of libclang and LLVM",
        in_bare_root: false,
        prove: |proof, _| llvm::llvm(proof),
    },
    Subject {
        name: "lto",
        about: "sqlite, zstd and a C++ project, optimised at link time by gcc's and LLVM's plugins",
        in_bare_root: true,
        prove: |proof, _| lto::lto(proof),
    },
    Subject {
        name: "attach",
        about: "sframe attach on twenty and more well-known binaries",
        in_bare_root: true,
        prove: |proof, arguments| tools::attach(proof, &arguments.command.path()?),
    },
    Subject {
        name: "split-project",
        about: "A C++ project split by the wrapper around assemblers, that around linkers, and the plugin, linked by all linkers",
        in_bare_root: true,
        prove: |proof, arguments| {
            let (command, wrapper) = (arguments.command.path()?, arguments.wrapper.path()?);
            tools::split_project(proof, &command, &wrapper)?;
            let splitters = split_links::Splitters { sframe: &command, plugin: &arguments.plugin.path()? };
            split_links::prove(proof, &splitters)
        },
    },
    Subject {
        name: "icf",
        about: "The LLVM link with equal code folded, beside lld and mold",
        in_bare_root: false,
        prove: |proof, _| icf::icf(proof),
    },
    Subject {
        name: "gdb-index",
        about: "A Rust program with an index of its debug information, beside lld, mold and gdb",
        in_bare_root: false,
        prove: |proof, _| gdb_index::gdb_index(proof),
    },
    Subject {
        name: "index",
        about: "The index of a C++ project of several hundred objects, in every kind of output",
        in_bare_root: false,
        prove: |proof, arguments| index::index(proof, &arguments.command.path()?),
    },
    Subject {
        name: "compact",
        about: "Compact tables of system files and own links, beside .eh_frame, V3 and OpenTelemetry's stack deltas",
        in_bare_root: false,
        prove: |proof, arguments| compact::compact(proof, &arguments.command.path()?),
    },
    Subject {
        name: "light",
        about: "A C++ project in the light linking form, linked by every linker, and sizes of all forms",
        in_bare_root: false,
        prove: |proof, arguments| light::light(proof, &arguments.command.path()?),
    },
    Subject {
        name: "machines",
        about: "zstd, sqlite, a C++ project and a Rust program for the other machines, in every SFrame mode",
        in_bare_root: true,
        prove: |proof, arguments| machines::machines(proof, &arguments.command.path()?),
    },
    Subject {
        name: "thunks",
        about: "An AArch64 program of 300 MiB of code whose calls need thousands of thunks",
        in_bare_root: true,
        prove: |proof, arguments| thunks::thunks(proof, &arguments.command.path()?),
    },
    Subject {
        name: "browser",
        about: "A link as large as a browser's, beside the fast linkers, and how each pass grows",
        in_bare_root: false,
        prove: |proof, _| browser::browser(proof),
    },
    Subject {
        name: "compare",
        about: "Links of every kind, for three machines, held against every other linker",
        in_bare_root: false,
        prove: |proof, arguments| compare::compare(proof, &arguments.comparer.path()?),
    },
    Subject {
        name: "random",
        about: "Thousands of random programs for three machines, linked by every linker, run and compared",
        in_bare_root: false,
        prove: |proof, arguments| {
            let wanted = random::Wanted {
                machines: &arguments.machines,
                count: arguments.count,
                seed: arguments.seed,
            };
            random::random(proof, &arguments.comparer.path()?, &arguments.command.path()?, &wanted)
        },
    },
    Subject {
        name: "threads",
        about: "The benchmarks' links and those of random programs, with 1 to 32 threads: the same bytes",
        in_bare_root: false,
        prove: |proof, arguments| threads::threads(proof, &arguments.comparer.path()?),
    },
    Subject {
        name: "faults",
        about: "A link that is killed, starved, disturbed and surrounded by failures",
        in_bare_root: false,
        prove: |proof, arguments| faults::faults(proof, arguments.count),
    },
    Subject {
        name: "mutants",
        about: "Thousands of damaged inputs by every linker: refused, accepted, or worse",
        in_bare_root: false,
        prove: |proof, arguments| mutants::mutants(proof, arguments.count, arguments.seed),
    },
    Subject {
        name: "sanitizers",
        about: "The linker built with AddressSanitizer and ThreadSanitizer, over the tests and benchmarks' links",
        in_bare_root: false,
        prove: |proof, _| sanitizers::sanitizers(proof),
    },
    Subject {
        name: "miri",
        about: "Tests of what is unsafe, or reads bytes as structures, interpreted",
        in_bare_root: false,
        prove: |proof, _| miri::miri(proof),
    },
    Subject {
        name: "violations",
        about: "The matrix of section-group violations, and one that is reduced",
        in_bare_root: true,
        prove: |proof, arguments| {
            violations::violations(proof, &arguments.comparer.path()?, !arguments.no_record)
        },
    },
    Subject {
        name: "stacks",
        about: "Recordings of real programs, unwound by sframe stacks, framehop and perf script",
        in_bare_root: false,
        prove: |proof, arguments| stacks::stacks(proof, &arguments.command.path()?),
    },
    Subject {
        name: "bpf",
        about: "Stacks of real programs, unwound in the kernel by compact tables and in user space on the same samples",
        in_bare_root: false,
        prove: |proof, _| bpf::bpf(proof),
    },
    Subject {
        name: "modules",
        about: "Kernel modules, built with Debian's headers and loaded into its kernel",
        in_bare_root: true,
        prove: |proof, arguments| modules::modules(proof, &arguments.command.path()?),
    },
    Subject {
        name: "kernel",
        about: "Kernels for three machines, built from Debian's source and booted",
        in_bare_root: false,
        prove: |proof, arguments| kernel::kernels(proof, &arguments.machines),
    },
    Subject {
        name: "vmlinux",
        about: "The same kernels with an SFrame index, which is read from them once they have booted",
        in_bare_root: false,
        prove: |proof, arguments| vmlinux::vmlinux(proof, &arguments.command.path()?, &arguments.machines),
    },
    Subject {
        name: "package",
        about: "The Debian package in a minimal root: installed, used and removed",
        in_bare_root: false,
        prove: |proof, arguments| package::package(proof, arguments.built.as_deref()),
    },
    Subject {
        name: "supply-chain",
        about: "What the crates that are taken from others may do, and the one that is published",
        in_bare_root: false,
        prove: |proof, _| supply_chain::supply_chain(proof),
    },
    Subject {
        name: "rebuild",
        about: "Debian's source packages, built and tested with this linker in the place of GNU ld",
        in_bare_root: false,
        prove: |proof, arguments| {
            let wanted = rebuild::Wanted {
                names: &arguments.packages,
                jobs: arguments.jobs,
                commit: arguments.commit.as_deref(),
                record: !arguments.no_record,
            };
            rebuild::rebuild(proof, &arguments.command.path()?, &wanted)
        },
    },
    Subject {
        name: "bare",
        about: "The README's two commands in a fresh clone in a minimal root of the distribution",
        in_bare_root: false,
        prove: |proof, arguments| {
            let inside = SUBJECTS.iter().filter(|subject| subject.in_bare_root && arguments.proofs);
            bare::bare(proof, &inside.map(|subject| subject.name).collect::<Vec<_>>())
        },
    },
];

/// Reads a subject's name.
fn subjects() -> impl TypedValueParser<Value = &'static Subject> {
    let names = SUBJECTS.iter().map(|subject| PossibleValue::new(subject.name).help(subject.about));
    PossibleValuesParser::new(names)
        .try_map(|name| SUBJECTS.iter().find(|subject| subject.name == name).ok_or("no such proof"))
}

pub fn run(mut arguments: Arguments) -> Result<()> {
    let mut subjects = std::mem::take(&mut arguments.names);
    if subjects.is_empty() {
        subjects = SUBJECTS.iter().collect();
    }
    // Roots of the distribution fetch for themselves.
    if subjects.iter().any(|subject| !["bare", "rebuild"].contains(&subject.name)) {
        for line in peers::prepare(&peers::folder(), true)? {
            println!("not to be had: {line}");
        }
    }
    let linker = arguments.linker.path()?;
    for subject in subjects {
        let mut proof = Proof::new(subject.name, &linker)?;
        (subject.prove)(&mut proof, &arguments)?;
        if !arguments.no_record {
            let folder = proof::records();
            std::fs::create_dir_all(&folder)?;
            std::fs::write(folder.join(format!("{}.md", subject.name)), &proof.record)?;
        }
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

    #[test]
    fn every_subject_is_found_by_its_name_and_no_other_word_is() {
        for subject in &SUBJECTS {
            let read = CommandLine::try_parse_from(["prove", subject.name]).ok().unwrap();
            assert_eq!(
                read.arguments.names.iter().map(|found| found.about).collect::<Vec<_>>(),
                [subject.about]
            );
        }
        let refused = CommandLine::try_parse_from(["prove", "everything"]).err().unwrap().to_string();
        let all = SUBJECTS.each_ref().map(|subject| subject.name).join(", ");
        assert!(refused.contains(&format!("[possible values: {all}]")), "{refused}");
    }
}
