//! Proves the other machines: well-known C programs, a C++ project with more than a hundred objects, and a
//! Rust program, with frames from the newest assembler, linked in every SFrame mode. All run under an
//! emulator, and `sframe verify` must accept every file.

use super::proof::Proof;
use super::sqlite::{self, crate_source};
use super::tools::write_project;
use crate::commands::{output, version};
use crate::{install, peers};
use anyhow::{Context, Result, ensure};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The machines, by the names of emulators, of the GNU tools and of rustc.
const MACHINES: [(&str, &str, &str); 2] = [
    ("aarch64", "aarch64-linux-gnu", "aarch64-unknown-linux-gnu"),
    ("s390x", "s390x-linux-gnu", "s390x-unknown-linux-gnu"),
];
/// Number of objects in the C++ project.
const OBJECTS: usize = 120;
/// The crate with the source of zstd's library.
pub(super) const ZSTD_CRATE: &str = "zstd-sys";
const KINDS: [&str; 3] = ["-pie", "-no-pie", "-static"];
/// The modes, and whether the file then has frames.
const MODES: [(&str, bool); 8] = [
    ("--sframe=concat,-z,sframe-violation=warning", true),
    ("--sframe=concat,--sframe-split", true),
    ("--sframe=merge", true),
    ("--sframe-index", true),
    ("--sframe-index,--sframe-version=2", true),
    ("--sframe-index,--sframe-from-eh-frame=all", true),
    ("--sframe=merge,--sframe-from-eh-frame=missing", true),
    ("--sframe=discard", false),
];

/// Compresses a text at three levels, decompresses it, and prints whether it shrank to a half.
pub(super) const ZSTD_MAIN: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "zstd.h"
int main(void) {
    enum { SIZE = 1 << 20 };
    char *text = malloc(SIZE), *back = malloc(SIZE), *packed = malloc(ZSTD_compressBound(SIZE));
    unsigned seed = 1;
    for (size_t i = 0; i < SIZE; i++) {
        if (i % 8 == 0) seed = seed * 1103515245 + 12345;
        text[i] = 'a' + (seed >> 16) % 13 + i % 7;
    }
    for (int level = 1; level <= 19; level += 9) {
        size_t size = ZSTD_compress(packed, ZSTD_compressBound(SIZE), text, SIZE, level);
        memset(back, 0, SIZE);
        size_t got = ZSTD_decompress(back, SIZE, packed, size);
        if (ZSTD_isError(size) || got != SIZE || memcmp(text, back, SIZE)) return 1;
        printf("level %d: %d\n", level, size < SIZE / 2);
    }
    packed[100] ^= 1;
    printf("damaged: %d\n", !!ZSTD_isError(ZSTD_decompress(back, SIZE, packed, 50)));
    return 0;
}
"#;
pub(super) const ZSTD_EXPECTED: &str = "level 1: 1\nlevel 10: 1\nlevel 19: 1\ndamaged: 1\n";

const RUST_MAIN: &str = r#"
use std::collections::BTreeMap;
use std::sync::mpsc;
thread_local!(static COUNT: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
fn work(n: u32) -> u32 {
    COUNT.with(|count| count.set(count.get() + n));
    assert!(n != 13, "thirteen");
    COUNT.with(|count| count.get())
}
fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let (sender, receiver) = mpsc::channel();
    let threads: Vec<_> = (10..16).map(|n| {
        let sender = sender.clone();
        std::thread::spawn(move || { let _ = sender.send((n, std::panic::catch_unwind(|| work(n)).is_ok())); work(1) })
    }).collect();
    drop(sender);
    let found: BTreeMap<u32, bool> = receiver.into_iter().collect();
    let sum: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    println!("{found:?} {sum} {:.3}", f64::from(sum).sqrt());
}
"#;
const RUST_EXPECTED: &str = "{10: true, 11: true, 12: true, 13: false, 14: true, 15: true} 81 9.000\n";

pub fn machines(proof: &mut Proof, sframe: &Path) -> Result<()> {
    for (machine, triple, rust) in MACHINES {
        let tools = Tools::find(proof, machine, triple)?;
        proof.note(format!("\n## {machine}\n\n{}, frames by {}\n", tools.compiler, tools.assembler))?;
        proof.note("| program | objects | links | `sframe verify` |\n|---|---|---|---|")?;
        zstd(proof, sframe, &tools)?;
        sqlite(proof, sframe, &tools)?;
        project(proof, sframe, &tools)?;
        rust_program(proof, sframe, &tools, rust)?;
    }
    let modes: Vec<String> = MODES.iter().map(|mode| format!("`{}`", mode.0)).collect();
    proof.note(format!(
        "\nEach C and C++ program was linked as {} with {}; each of the programs says in its `.comment` that \
         sframe-ld linked it, ran under qemu and printed what it should.",
        KINDS.join(", "),
        modes.join(", ")
    ))
}

/// The tools that make and run programs for a machine.
struct Tools {
    machine: &'static str,
    triple: &'static str,
    /// The folder in which the compiler finds the assembler.
    folder: PathBuf,
    emulator: PathBuf,
    compiler: String,
    assembler: String,
}

impl Tools {
    fn find(proof: &Proof, machine: &'static str, triple: &'static str) -> Result<Self> {
        let assembler = peers::program(&format!("{triple}-as"))?;
        let emulator = peers::program(&format!("qemu-{machine}"))?;
        let (folder, assembler) = proof.assembler_folder(&format!("as-{machine}"), &assembler)?;
        let compiler = version(peers::program(&format!("{triple}-gcc"))?)?;
        Ok(Tools { machine, triple, folder, emulator, compiler, assembler })
    }

    fn driver(&self, name: &str) -> Result<PathBuf> {
        peers::program(&format!("{}-{name}", self.triple))
    }

    /// Runs a program of the machine.
    fn run(&self, proof: &Proof, program: &str) -> Result<String> {
        proof.tool(&self.emulator, &["-L", &peers::sysroot(self.triple).display().to_string(), program])
    }

    /// Compiles sources, two at a time; returns the objects.
    fn compile(
        &self,
        proof: &Proof,
        name: &str,
        driver: &str,
        sources: &[PathBuf],
        flags: &str,
    ) -> Result<Vec<String>> {
        let folder = format!("{name}-{}", self.machine);
        std::fs::create_dir_all(proof.folder.join(&folder))?;
        let object = |number: usize, source: &Path| {
            format!("{folder}/{number}-{}.o", source.file_stem().unwrap_or_default().to_string_lossy())
        };
        let objects: Vec<String> = sources.iter().enumerate().map(|(n, source)| object(n, source)).collect();
        let mut rules = format!("all: {}\n", objects.join(" "));
        for (source, object) in sources.iter().zip(&objects) {
            let source = source.display();
            writeln!(rules, "{object}: {source}\n\t$(CC) -B$(AS) -Wa,--gsframe {flags} -c -o $@ {source}")?;
        }
        let makefile = format!("{folder}/Makefile");
        std::fs::write(proof.folder.join(&makefile), rules)?;
        let mut command = Command::new(peers::program("make")?);
        command.current_dir(&proof.folder).args(["-j2", "-s", "-B", "-f", &makefile]);
        command.arg(format!("CC={}", self.driver(driver)?.display()));
        command.arg(format!("AS={}/", self.folder.display()));
        output(&mut command)?;
        Ok(objects)
    }
}

fn zstd(proof: &mut Proof, sframe: &Path, tools: &Tools) -> Result<()> {
    let library = crate_source(proof, ZSTD_CRATE)?.join("zstd/lib");
    std::fs::write(proof.folder.join("zstd-main.c"), ZSTD_MAIN)?;
    let mut sources = vec![PathBuf::from("zstd-main.c")];
    for part in ["common", "compress", "decompress"] {
        let folder = std::fs::read_dir(library.join(part)).context("no zstd in its crate")?;
        let files = folder.collect::<std::io::Result<Vec<_>>>()?.into_iter().map(|entry| entry.path());
        sources.extend(files.filter(|path| path.extension().is_some_and(|extension| extension == "c")));
    }
    sources.sort();
    let flags = format!("-O2 -fPIE -I{}", library.display());
    let objects = tools.compile(proof, "zstd", "gcc", &sources, &flags)?;
    every_mode(proof, sframe, tools, ("zstd", "gcc"), &objects, |text| text == ZSTD_EXPECTED)
}

fn sqlite(proof: &mut Proof, sframe: &Path, tools: &Tools) -> Result<()> {
    let source = sqlite::source(proof)?;
    std::fs::write(proof.folder.join("sqlite-main.c"), sqlite::MAIN)?;
    let sources = [PathBuf::from("sqlite-main.c"), source.join("sqlite3.c")];
    let flags = format!(
        "-O1 -fPIE -ffunction-sections -DSQLITE_ENABLE_FTS5 -DSQLITE_ENABLE_MATH_FUNCTIONS -I{}",
        source.display()
    );
    let objects = tools.compile(proof, "sqlite", "gcc", &sources, &flags)?;
    every_mode(proof, sframe, tools, ("sqlite", "gcc"), &objects, |text| text == sqlite::EXPECTED)
}

fn project(proof: &mut Proof, sframe: &Path, tools: &Tools) -> Result<()> {
    write_project(&proof.folder, OBJECTS)?;
    let names = (0..OBJECTS).map(|n| format!("part{n}.cc")).chain(["main.cc".to_owned()]);
    let sources: Vec<PathBuf> = names.map(PathBuf::from).collect();
    let objects = tools.compile(proof, "project", "g++", &sources, "-O1 -fPIE -ffunction-sections")?;
    let mut said = None;
    every_mode(proof, sframe, tools, ("project", "g++"), &objects, |text| {
        // All others must print what the first one printed.
        text.trim().parse::<i64>().is_ok() && said.get_or_insert_with(|| text.to_owned()) == text
    })
}

/// Links objects in every way, runs the programs and verifies them.
fn every_mode(
    proof: &mut Proof,
    sframe: &Path,
    tools: &Tools,
    (name, driver): (&str, &str),
    objects: &[String],
    mut is_right: impl FnMut(&str) -> bool,
) -> Result<()> {
    let program = format!("{name}-{}.out", tools.machine);
    let mut count = 0;
    for kind in KINDS {
        for (mode, framed) in MODES {
            let mut command = Command::new(tools.driver(driver)?);
            command.current_dir(&proof.folder).arg(format!("-B{}", proof.prefix.display()));
            command.args([kind, &format!("-Wl,{mode}"), "-o", &program]).args(objects);
            output(command.args(["-lm", "-lpthread"])).with_context(|| format!("{name} {kind} {mode}"))?;
            let text = tools.run(proof, &program).with_context(|| format!("{name} {kind} {mode}"))?;
            ensure!(is_right(&text), "{name} {kind} {mode} says {text:?}");
            verify(proof, sframe, &program, framed).with_context(|| format!("{name} {kind} {mode}"))?;
            count += 1;
        }
    }
    proof.note(format!("| {name} | {} | {count}, all run | 0 errors, 0 wrong |", objects.len()))
}

fn verify(proof: &Proof, sframe: &Path, program: &str, framed: bool) -> Result<()> {
    install::made_here(&proof.folder.join(program))?;
    let headers = proof.tool("readelf", &["-SW", program])?;
    ensure!(headers.contains(" .sframe") == framed, "frames are there or not, but should not be so");
    if framed {
        let report = proof.tool(sframe, &["verify", program])?;
        let agrees = report.contains(" 0 wrong") || !report.contains(" wrong");
        ensure!(report.contains(" 0 errors") && agrees, "{report}");
    }
    Ok(())
}

/// A Rust program with an index that is derived from its `.eh_frame`.
fn rust_program(proof: &mut Proof, sframe: &Path, tools: &Tools, target: &str) -> Result<()> {
    if peers::rust_library(target).is_err() {
        return proof.note(format!("| Rust | | no target {target} to be had | |"));
    }
    std::fs::write(proof.folder.join("program.rs"), RUST_MAIN)?;
    let program = format!("rust-{}.out", tools.machine);
    let linker = format!("-Clinker={}", tools.driver("gcc")?.display());
    let prefix = format!("-Clink-arg=-B{}", proof.prefix.display());
    let mut count = 0;
    for level in ["-Copt-level=0", "-Copt-level=2"] {
        for (kind, index) in [
            ("-Crelocation-model=pie", "-Clink-arg=-Wl,--sframe-index,--sframe-from-eh-frame=all"),
            ("-Ctarget-feature=+crt-static", "-Clink-arg=-Wl,--sframe=merge,--sframe-from-eh-frame=all"),
        ] {
            // Debian's C library for s390x has no start-up code for static PIEs, which rustc would make.
            let model = if kind.contains("static") { "-Crelocation-model=static" } else { kind };
            let words = [
                "program.rs",
                "--edition=2024",
                "--target",
                target,
                &linker,
                &prefix,
                level,
                kind,
                model,
                index,
            ];
            proof.tool("rustc", &[&words[..], &["-o", &program]].concat())?;
            let text = tools.run(proof, &program)?;
            ensure!(text == RUST_EXPECTED, "Rust {kind} says {text:?}");
            verify(proof, sframe, &program, true)?;
            count += 1;
        }
    }
    proof.note(format!("| Rust | std's | {count}, all run | 0 errors, 0 wrong |"))
}
