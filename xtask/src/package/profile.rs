//! Makes a profile of the linker from links, by which the compiler then optimises the linker of the packages.
//!
//! A build counts how often each branch is taken. It links what people link: small C++ programs, a static
//! one, Rust with debug information, thousands of small objects; with and without garbage collection, to
//! relocatable objects, with an index of frames, by a script. The inputs are generated here, so a profile
//! needs nothing but the compilers.
//!
//! Two profiles of one commit must be equal, or packages would differ. Links on several threads count how
//! often a thread looked for work, which differs from run to run, so each link has one thread; and a counter
//! that two threads increase at the same time loses counts, so what rayon's own threads do when they find
//! no work is left out ([`LEFT_OUT`]). A search in a hash table takes more or fewer steps by the seed of the
//! table, and seeds are drawn from addresses and from the kernel's random bytes. So addresses are not random,
//! the words and the environment, which lie on the stack, are the same in every folder, and a library gives
//! other bytes than the kernel (`fixed.c`). The linker does nothing by the clock while it counts (`threads`).

use super::release;
use crate::bench::case::{Case, link_line, must_run};
use crate::bench::workload::Workload;
use crate::{commands, folders, peers};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Functions that are left out of the profile: those that wait for work, and those that look for the output
/// among the inputs, by the numbers of files. Names are mangled.
const LEFT_OUT: &str = "rayon_core|crossbeam|reports9overwrite|InputStore5holds";

/// The links, by the case and the arguments that are added to it.
const LINKS: [(Source, &[&str]); 14] = [
    (Source::Bench(Workload::Tiny), &[]),
    (Source::Bench(Workload::Tiny), &["--gc-sections", "--sframe-from-eh-frame=all", "--sframe-index"]),
    (Source::Bench(Workload::Tiny), &["--build-id", "-z", "now", "--hash-style=both"]),
    (Source::Bench(Workload::Static), &[]),
    (Source::Bench(Workload::Static), &["--gc-sections"]),
    (Source::Rust, &["--gc-sections"]),
    (Source::Rust, &["--build-id", "--icf=all"]),
    (Source::Rust, &["--compress-debug-sections=zlib"]),
    (Source::Bench(Workload::Generated500), &["--gc-sections"]),
    (Source::Bench(Workload::Generated500), &["-T", SCRIPT]),
    (Source::Bench(Workload::Generated2000), &[]),
    (Source::Bench(Workload::Generated2000), &["--sframe-from-eh-frame=all", "--sframe-index=compact"]),
    (Source::Objects(Workload::Generated500), &["-r"]),
    (Source::Objects(Workload::Tiny), &["-r", "--sframe-from-eh-frame=all", "--sframe-index"]),
];

/// The linker that counts, from the folder of a case.
const LINKER: &str = "../linker";
/// The library that stands before the kernel's random bytes, from there.
const FIXED: &str = "../fixed.so";
/// A script for links, in the folder of a case.
const SCRIPT: &str = "script.ld";

/// What is linked.
#[derive(Clone, Copy)]
enum Source {
    /// A case of the benchmarks.
    Bench(Workload),
    /// Only the objects of such a case, without start files and libraries.
    Objects(Workload),
    /// A program with a library of Rust.
    Rust,
}

impl Source {
    /// Whether it can be linked on this machine: generated objects are for x86-64.
    fn is_native(self) -> bool {
        let is_generated = self.name().starts_with("generated");
        cfg!(target_arch = "x86_64") || !is_generated
    }

    /// The name of its folder.
    fn name(self) -> String {
        match self {
            Source::Bench(workload) | Source::Objects(workload) => workload.folder(),
            Source::Rust => "rust-library".into(),
        }
    }

    fn prepared(self, folder: &Path) -> Result<Case> {
        match self {
            Source::Bench(workload) | Source::Objects(workload) => workload.prepared(folder),
            Source::Rust => rust(folder),
        }
    }

    /// The words of the link.
    fn words(self, case: &Case) -> Vec<String> {
        let is_wanted = |word: &&String| match self {
            Source::Objects(_) => word.ends_with(".o") && !word.starts_with('/'),
            _ => true,
        };
        case.link.iter().filter(is_wanted).cloned().collect()
    }
}

/// Makes the profile in a folder, and returns the flag by which rustc uses it. `flags` are those of the build
/// that will use it.
///
/// # Errors
/// No `llvm-profdata` of rustc's version was fetched, or a build or a link fails.
pub fn flag(folder: &Path, flags: &str) -> Result<String> {
    let merge = peers::program("llvm-profdata")?;
    std::fs::create_dir_all(folder)?;
    let folder = folder.canonicalize()?;
    let counts = folder.join("counts");
    let _ = std::fs::remove_dir_all(&counts);
    std::fs::write(folder.join("fixed.c"), include_str!("profile/fixed.c"))?;
    must_run(&folder, "gcc", &["-O2", "-shared", "-fPIC", "-o", "fixed.so", "fixed.c"].map(String::from))?;
    folders::link(&counting_linker(&folder, flags, &counts)?, &folder.join("linker"))?;
    for (source, arguments) in LINKS.into_iter().filter(|(source, _)| source.is_native()) {
        link(&folder, source, arguments)?;
    }
    let profile = folder.join("linker.profdata");
    let mut command = Command::new(merge);
    command.arg("merge").arg(format!("--no-function={LEFT_OUT}")).arg("-o").arg(&profile).arg(&counts);
    commands::output(&mut command)?;
    Ok(format!("-Cprofile-use={}", profile.display()))
}

/// Builds the linker that counts. It has the code generation of the final one, because a profile fits only
/// the same functions.
fn counting_linker(folder: &Path, flags: &str, counts: &Path) -> Result<PathBuf> {
    let flags = format!("{flags} -Cprofile-generate={} --cfg=writes_profile", counts.display());
    release::linker(&folder.join("build"), &flags)
}

fn link(folder: &Path, source: Source, arguments: &[&str]) -> Result<()> {
    let folder = folder.join(source.name());
    let case = source.prepared(&folder)?;
    if arguments.contains(&SCRIPT) {
        std::fs::copy(crate::folders::workspace().join("linker-scripts/pie.ld"), folder.join(SCRIPT))?;
    }
    let mut words = source.words(&case);
    words.extend(arguments.iter().map(|&word| word.to_owned()));
    // A process that frees memory after the end would write its counts over those of the link.
    words.extend(["--threads=1", "--no-detach", "-o", "output"].map(String::from));
    let output = folder.join("output");
    let _ = std::fs::remove_file(&output);
    // The second time, the old output is there, as in most builds.
    for _ in 0..2 {
        let mut command = Command::new("setarch");
        command.current_dir(&folder).env_clear().env("LD_PRELOAD", FIXED);
        command.args(["--addr-no-randomize", LINKER]).args(&words);
        commands::output(&mut command).with_context(|| format!("{} {arguments:?}", source.name()))?;
    }
    ensure!(output.is_file(), "no output of {}", source.name());
    Ok(())
}

/// A C program with a static library of Rust, which has debug information.
fn rust(folder: &Path) -> Result<Case> {
    if let Some(case) = Case::load(folder) {
        return Ok(case);
    }
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("program.rs"), include_str!("profile/program.rs"))?;
    std::fs::write(folder.join("main.c"), include_str!("profile/main.c"))?;
    let rustc = ["-g", "--edition=2024", "--crate-type=staticlib", "program.rs"].map(String::from);
    must_run(folder, "rustc", &rustc)?;
    must_run(folder, "gcc", &["-g", "-O2", "-c", "main.c"].map(String::from))?;
    let link = link_line(folder, "gcc", &["main.o", "libprogram.a", "-lm", "-ldl"].map(String::from))?;
    let case = Case::new(link, &[], &[]);
    case.save(folder)?;
    Ok(case)
}
