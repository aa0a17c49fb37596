//! Proves a C library that is linked by this linker: glibc, configured with `--enable-sframe` and built from
//! its source. Its own `backtrace()` must walk by SFrame, in every mode of a program's link that makes V2,
//! and find what libgcc finds by `.eh_frame`. Its tests of backtraces, signals and jumps must pass.
//!
//! glibc passes `--gsframe` to the assembler, and reads V2 only. So the assembler is that of binutils 2.44,
//! the last one that writes V2, and the linker merges. The programs run by the loader of the build.

use super::glibc::{MODES, Mode, attach, cell};
use super::proof::Proof;
use crate::commands::output;
use crate::{folders, peers};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The places from which the program walks.
const PLACES: [&str; 6] = ["recursion", "library", "qsort", "raise", "fault", "noreturn"];
/// A call that is a function's last instruction returns to the next function's first byte, and glibc's
/// reader looks there (`docs/defects`).
const KNOWN: &str = "noreturn";
/// The parts of glibc's suite that unwind, or leave frames in other ways.
const TESTS: [&str; 4] = ["debug", "setjmp", "signal", "gmon"];
/// Files of the build, by the names that people know.
const FILES: [&str; 4] = ["libc.so", "elf/ld.so", "math/libm.so", "resolv/libresolv.so"];
/// The newest readelf knows the versions that configure wants to see; the rest has to be of one release.
const READELF: &str = "binutils-2.47";
const BINUTILS: &str = "binutils-2.44";

const SOURCES: [(&str, &str); 4] = [
    ("program.c", include_str!("glibc/program.c")),
    ("library.c", include_str!("glibc/library.c")),
    ("backtrace.c", include_str!("glibc/backtrace.c")),
    ("no-libgcc.c", include_str!("glibc/no-libgcc.c")),
];

pub fn glibc_built(proof: &mut Proof, sframe: &Path) -> Result<()> {
    let built = Built::make(proof, sframe)?;
    proof.note(format!(
        "glibc {}, configured with `--enable-sframe`, assembled by binutils 2.44 and linked with\n\
         `--sframe=merge --sframe-version=2`.\n\n\
         | file | bytes | `.eh_frame` | `.sframe` | functions | rows that differ from `.eh_frame` |\n|---|---:|---:|---:|---:|---|",
        built.version
    ))?;
    FILES.iter().try_for_each(|file| built.describe(proof, file))?;
    built.walk(proof)?;
    built.test(proof)
}

/// A built library.
struct Built<'a> {
    version: String,
    /// Where it is built.
    folder: PathBuf,
    /// Where programs are made.
    programs: PathBuf,
    /// The assembler, the linker and the tools beside them.
    tools: PathBuf,
    /// The linker as it is.
    linker: PathBuf,
    sframe: &'a Path,
}

impl<'a> Built<'a> {
    fn make(proof: &Proof, sframe: &'a Path) -> Result<Self> {
        let source = peers::folder().join("glibc");
        let version = fs::read_to_string(source.join("version.h")).context("no glibc (cargo xtask peers)")?;
        let version = version.split('"').nth(3).context("no version of glibc")?.to_owned();
        give_a_manual(&source)?;
        let folder = |name: &str| proof.folder.join(name);
        let built = Built {
            version,
            folder: folder("build"),
            programs: folder("programs"),
            tools: folder("tools"),
            linker: proof.prefix.clone(),
            sframe,
        };
        // make does not know that the linker is another one than in an earlier run.
        for folder in [&built.folder, &built.programs, &built.tools] {
            let _ = fs::remove_dir_all(folder);
            fs::create_dir_all(folder)?;
        }
        built.lay_out_tools()?;
        built.configure(&source)?;
        built.run("make", &["-s", "-j2"])?;
        Ok(built)
    }

    /// Makes the folder that `gcc -B` takes its tools from.
    fn lay_out_tools(&self) -> Result<()> {
        let of = |folder: &str, name: &str| peers::folder().join(folder).join(name);
        for name in ["ar", "as", "nm", "objcopy", "objdump", "ranlib", "strip"] {
            folders::link(of(BINUTILS, name), &self.tools.join(name))?;
        }
        folders::link(of(READELF, "readelf"), &self.tools.join("readelf"))?;
        let script = self.tools.join("ld");
        let linker = self.linker.join("ld");
        let start = format!("#!/bin/sh\nexec '{}' --sframe=merge --sframe-version=2", linker.display());
        fs::write(&script, start + " \"$@\"\n")?;
        Ok(fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?)
    }

    fn configure(&self, source: &Path) -> Result<()> {
        let compiler = |name: &str, program: &str| format!("{name}={program} -B{}", self.tools.display());
        let words = [
            compiler("CC", "gcc"),
            compiler("CXX", "g++"),
            "--prefix=/usr".into(),
            "--enable-sframe".into(),
            "--disable-werror".into(),
            "--disable-nscd".into(),
            "--disable-timezone-tools".into(),
        ];
        let configure = source.join("configure").display().to_string();
        self.run(&configure, &words.each_ref().map(String::as_str)).map(drop)
    }

    /// Runs a command in the folder of the build.
    fn run(&self, program: &str, words: &[&str]) -> Result<String> {
        let path = std::env::var("PATH").unwrap_or_default();
        let tools = peers::folder().join("glibc-tools");
        let mut command = Command::new(program);
        command.current_dir(&self.folder).args(words);
        command.env("PATH", format!("{}:{}:{path}", self.tools.display(), tools.display()));
        output(&mut command)
    }

    /// A row of a file: its size, its frames, and what `sframe verify` says of them.
    fn describe(&self, proof: &mut Proof, file: &str) -> Result<()> {
        let path = self.folder.join(file);
        crate::install::made_here(&path)?;
        let bytes = fs::read(&path)?;
        let elf = object::File::parse(&*bytes)?;
        let size = |name: &str| {
            use object::{Object, ObjectSection};
            elf.section_by_name(name).map_or(0, |section| section.size())
        };
        // It ends with 1 where rows differ.
        let said = Command::new(self.sframe).arg("verify").arg(&path).output()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let functions = said.lines().find_map(|line| line.split_once("SFrame V2, ")?.1.split(' ').next());
        let functions = functions.with_context(|| format!("no table in V2 in {file}:\n{said}"))?;
        let differ: Vec<&str> =
            said.lines().filter_map(|line| line.split_once(": wrong ")?.1.split(['<', '+']).nth(1)).collect();
        let differ = if differ.is_empty() {
            "none".into()
        } else {
            format!("the assembler's of {}", differ.join(", "))
        };
        proof.note(format!(
            "| {file} | {} | {} | {} | {functions} | {differ} |",
            bytes.len(),
            size(".eh_frame"),
            size(".sframe")
        ))
    }

    /// Walks in a program of every mode.
    fn walk(&self, proof: &mut Proof) -> Result<()> {
        let own = |name: &str, text: &str| fs::write(self.programs.join(name), text);
        SOURCES.iter().try_for_each(|(name, text)| own(name, text))?;
        for (name, option) in [("program", "-fno-pie"), ("backtrace", "-fno-pie"), ("library", "-fPIC")] {
            let (object, source) = (format!("{name}.o"), format!("{name}.c"));
            self.gcc(&["-O2", "-Wa,--gsframe", option, "-c", "-o", &object, &source])?;
        }
        self.gcc(&[
            "-shared",
            "-fPIC",
            "-nostdlib",
            "-Wl,-soname,libgcc_s.so.1",
            "-o",
            "libgcc_s.so.1",
            "no-libgcc.c",
        ])?;
        proof.note(format!(
            "\nThe frames that `backtrace()` finds without libgcc, which are all that libgcc finds by `.eh_frame`; *gives up*: it would walk by\n\
             `.eh_frame`.\n\n| table of the program | {} |\n|---|{}",
            PLACES.join(" | "),
            "---|".repeat(PLACES.len())
        ))?;
        let mut wrong = Vec::new();
        for mode in &MODES {
            self.link(mode)?;
            let cells = PLACES.map(|place| self.walk_from(place)).into_iter().collect::<Result<Vec<_>>>()?;
            proof.note(format!("| {} | {} |", mode.name, cells.join(" | ")))?;
            let unlike = PLACES.iter().zip(&cells).filter(|(_, cell)| !mode.expects(cell));
            let unlike = unlike.filter(|(place, _)| !(mode.is_read && **place == KNOWN));
            wrong.extend(unlike.map(|(place, cell)| format!("{}, {place}: {cell}", mode.name)));
        }
        ensure!(wrong.is_empty(), "not as libgcc walks:\n{}", wrong.join("\n"));
        Ok(())
    }

    fn gcc(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new("gcc");
        let folders = [&self.linker, &self.tools].map(|folder| format!("-B{}", folder.display()));
        command.current_dir(&self.programs).args(folders).args(words);
        output(&mut command)
    }

    fn link(&self, mode: &Mode) -> Result<()> {
        let options = mode.words();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        self.gcc(&[&["-shared", "-o", "library.so", "library.o"], &options[..]].concat())?;
        let objects =
            ["-no-pie", "-static-libgcc", "-o", "program", "program.o", "backtrace.o", "./library.so"];
        self.gcc(&[&objects[..], &options].concat())?;
        let files = ["library.so", "program"].map(|name| self.programs.join(name));
        files.iter().filter(|_| mode.attach).try_for_each(|file| attach(self.sframe, file, file))
    }

    fn walk_from(&self, place: &str) -> Result<String> {
        let libraries = format!("{}:{}", self.folder.display(), self.programs.display());
        let mut command = Command::new(self.folder.join("elf/ld.so"));
        command.current_dir(&self.programs).args(["--library-path", &libraries, "./program", place]);
        let said = output(&mut command)?;
        let line = said.lines().find_map(|line| line.strip_prefix(place)?.strip_prefix(' '));
        cell(line.with_context(|| format!("{said:?} from the program"))?)
    }

    /// Runs glibc's own tests.
    fn test(&self, proof: &mut Proof) -> Result<()> {
        proof.note("\n| glibc's tests | pass | not here | want an installed root | fail |\n|---|---:|---:|---:|---:|")?;
        let mut failed = Vec::new();
        for part in TESTS {
            let source = format!("-C{}", peers::folder().join("glibc").join(part).display());
            let objects = format!("objdir={}", self.folder.display());
            // It ends with an error where a test fails.
            let _ = self.run("make", &["-s", "-k", &source, &objects, "check"]);
            let results = fs::read_to_string(self.folder.join(part).join("subdir-tests.sum"))?;
            let named =
                |word: &str| results.lines().filter_map(|line| line.strip_prefix(word)).collect::<Vec<_>>();
            let (apart, fails): (Vec<_>, Vec<_>) =
                named("FAIL: ").into_iter().partition(|test| self.wants_root(test));
            let (pass, not_here) =
                (named("PASS: ").len(), named("UNSUPPORTED: ").len() + named("XFAIL: ").len());
            proof.note(format!("| {part} | {pass} | {not_here} | {} | {} |", apart.len(), fails.len()))?;
            ensure!(pass > 0, "no test of {part} has run");
            failed.extend(fails.into_iter().map(str::to_owned));
        }
        ensure!(failed.is_empty(), "these tests of glibc fail: {}", failed.join(", "));
        Ok(())
    }

    /// Whether a test could not run because the library is not installed into a root.
    fn wants_root(&self, test: &str) -> bool {
        let said = fs::read_to_string(self.folder.join(format!("{test}.out")));
        said.is_ok_and(|said| said.contains("Cannot create testroot lock"))
    }
}

/// Debian's archive lacks the manual, because of its licence, and the build goes into its folder.
fn give_a_manual(source: &Path) -> Result<()> {
    let makefile = source.join("manual/Makefile");
    if !makefile.exists() {
        fs::create_dir_all(source.join("manual"))?;
        fs::write(makefile, "subdir := manual\ninclude ../Makeconfig\ninclude ../Rules\n")?;
    }
    Ok(())
}
