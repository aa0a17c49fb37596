//! Proves link-time optimization: GNU ld, mold and this linker link sqlite, zstd and a C++ project, with
//! gcc's plugin and with LLVM's.
//!
//! The programs must print the same. The compiler takes most of the time of such a link. The C++ project is
//! linked in turns, so that the times of one round come from the machine in the same state. Rust is linked as
//! rustc optimizes it, and also together with C, through the plugin of the LLVM that rustc is made with.

use super::machines::{ZSTD_CRATE, ZSTD_EXPECTED, ZSTD_MAIN};
use super::proof::Proof;
use super::sqlite::{self, crate_source};
use super::tools::{peer, write_project};
use crate::bench::measure::{self, Cost};
use crate::commands::output;
use crate::{apt, peers};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Number of objects in the C++ project.
const OBJECTS: usize = 40;
/// Number of links of the C++ project by each linker, in turns.
const ROUNDS: usize = 5;

/// A program, its sources, and its output; `None` if any output is right that all linkers agree on.
struct Project {
    name: &'static str,
    is_cxx: bool,
    /// The first one stays an object, the others become members of an archive.
    sources: Vec<PathBuf>,
    flags: Vec<String>,
    libraries: &'static [&'static str],
    expected: Option<&'static str>,
}

/// A compiler for C and for C++, its archiver, and the option that chooses its linker.
struct Compiler {
    name: &'static str,
    drivers: [PathBuf; 2],
    archiver: PathBuf,
}

pub fn lto(proof: &mut Proof) -> Result<()> {
    let linkers = [
        ("GNU ld", peer("bfd")?),
        ("mold", by_itself(proof, &peer("mold")?)?),
        ("sframe-ld", proof.prefix.join("ld")),
    ];
    for (family, linker) in &linkers[..2] {
        let version = proof.tool(linker, &["--version"])?;
        proof.note(format!("{family}: {}\n", version.lines().next().unwrap_or("")))?;
    }
    let compilers = [
        Compiler { name: "gcc", drivers: ["gcc".into(), "g++".into()], archiver: "gcc-ar".into() },
        Compiler {
            name: "clang",
            drivers: [peers::program("clang")?, peers::program("clang++")?],
            archiver: "ar".into(),
        },
    ];
    proof
        .note("| project | compiler | linker | result | bytes | CPU seconds |\n|---|---|---|---|---|---|")?;
    let mut timed = Vec::new();
    for project in [sqlite_project(proof)?, zstd_project(proof)?, cxx_project(proof)?] {
        let mut said = project.expected.map(str::to_owned);
        for compiler in &compilers {
            let inputs = compile(proof, &project, compiler)?;
            let mut able = Vec::new();
            for (family, linker) in &linkers {
                let text = match link(proof, &project, compiler, &inputs, (family, linker)) {
                    Err(error) if *family != "sframe-ld" => {
                        // A linker that starts itself again does not find its libraries if they belong to
                        // another system.
                        note_failure(proof, &[project.name, compiler.name, family], &error)?;
                        continue;
                    }
                    text => text?,
                };
                let expected = said.get_or_insert_with(|| text.clone());
                ensure!(*expected == text, "{}, {}, {family}: {text}", project.name, compiler.name);
                able.push((*family, linker.as_path()));
            }
            if project.is_cxx {
                timed.push(in_turns(proof, &project, compiler, &inputs, &able)?);
            }
        }
    }
    rust(proof, &linkers)?;
    with_c(proof, &linkers)?;
    proof.note(format!(
        "\nThe C++ project in {ROUNDS} rounds in turns: medians of seconds, and to those of GNU ld.\n\n\
         | compiler | linker | wall | to GNU ld | CPU | to GNU ld |\n|---|---|---|---|---|---|"
    ))?;
    timed.into_iter().flatten().try_for_each(|row| proof.note(row))
}

/// Writes the rows of a table of times.
fn in_turns(
    proof: &Proof,
    project: &Project,
    compiler: &Compiler,
    inputs: &[String; 2],
    linkers: &[(&str, &Path)],
) -> Result<Vec<String>> {
    let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); linkers.len()];
    for round in 0..ROUNDS {
        for turn in 0..linkers.len() {
            let number = (turn + round) % linkers.len();
            costs[number].push(run_link(proof, project, compiler, inputs, linkers[number])?);
        }
    }
    let median =
        |costs: &[Cost], of: fn(&Cost) -> f64| measure::median(costs.iter().map(of)).unwrap_or(f64::NAN);
    let times = costs.iter().map(|costs| (median(costs, |cost| cost.wall), median(costs, |cost| cost.cpu)));
    let times: Vec<(f64, f64)> = times.collect();
    let rows = linkers.iter().zip(&times).map(|((family, _), (wall, cpu))| {
        let (first_wall, first_cpu) = times[0];
        let ratios = (wall / first_wall, cpu / first_cpu);
        format!("| {} | {family} | {wall:.2} | {:.2} | {cpu:.2} | {:.2} |", compiler.name, ratios.0, ratios.1)
    });
    Ok(rows.collect())
}

/// Writes a row for a link with another linker that failed.
fn note_failure(proof: &mut Proof, row: &[&str], error: &anyhow::Error) -> Result<()> {
    let text = format!("{error:#}");
    let reason = text.lines().find(|line| line.contains("mold") || line.contains("ld:")).unwrap_or("fails");
    proof.note(format!("| {} | {} | | |", row.join(" | "), reason.trim().replace('|', "/")))
}

fn sqlite_project(proof: &Proof) -> Result<Project> {
    let source = sqlite::source(proof)?;
    std::fs::write(proof.folder.join("sqlite-main.c"), sqlite::MAIN)?;
    Ok(Project {
        name: "sqlite",
        is_cxx: false,
        sources: vec!["sqlite-main.c".into(), source.join("sqlite3.c")],
        flags: vec![format!("-I{}", source.display()), "-DSQLITE_ENABLE_MATH_FUNCTIONS".into()],
        libraries: &["-lm"],
        expected: Some(sqlite::EXPECTED),
    })
}

fn zstd_project(proof: &Proof) -> Result<Project> {
    let library = crate_source(proof, ZSTD_CRATE)?.join("zstd/lib");
    std::fs::write(proof.folder.join("zstd-main.c"), ZSTD_MAIN)?;
    let mut members = BTreeSet::new();
    for part in ["common", "compress", "decompress"] {
        let folder = std::fs::read_dir(library.join(part)).context("no zstd in its crate")?;
        let files = folder.flatten().map(|entry| entry.path());
        members.extend(files.filter(|path| path.extension().is_some_and(|it| it == "c")));
    }
    Ok(Project {
        name: "zstd",
        is_cxx: false,
        sources: std::iter::once("zstd-main.c".into()).chain(members).collect(),
        flags: vec![format!("-I{}", library.display()), "-DZSTD_DISABLE_ASM".into()],
        libraries: &[],
        expected: Some(ZSTD_EXPECTED),
    })
}

fn cxx_project(proof: &Proof) -> Result<Project> {
    write_project(&proof.folder, OBJECTS)?;
    let members = (0..OBJECTS).map(|number| format!("part{number}.cc").into());
    Ok(Project {
        name: "C++ project",
        is_cxx: true,
        sources: std::iter::once("main.cc".into()).chain(members).collect(),
        flags: Vec::new(),
        libraries: &[],
        expected: None,
    })
}

/// Compiles to intermediate code; returns the object and the archive.
fn compile(proof: &Proof, project: &Project, compiler: &Compiler) -> Result<[String; 2]> {
    let folder = format!("{}-{}", project.name.replace(' ', "-"), compiler.name);
    let _ = std::fs::remove_dir_all(proof.folder.join(&folder));
    std::fs::create_dir_all(proof.folder.join(&folder))?;
    let driver = &compiler.drivers[usize::from(project.is_cxx)];
    let mut objects = Vec::new();
    for source in &project.sources {
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        let (object, source) = (format!("{folder}/{stem}.o"), source.display().to_string());
        let flags = project.flags.iter().map(String::as_str);
        let words = ["-O2", "-flto", "-fPIE", "-ffunction-sections", "-c", "-o", &object, &source];
        proof.tool(driver, &words.into_iter().chain(flags).collect::<Vec<_>>())?;
        objects.push(object);
    }
    let archive = format!("{folder}/all.a");
    let members = objects[1..].iter().map(String::as_str);
    proof.tool(&compiler.archiver, &["rcs", &archive].into_iter().chain(members).collect::<Vec<_>>())?;
    Ok([objects.swap_remove(0), archive])
}

/// Links, checks this linker's output, and returns what the program prints.
fn link(
    proof: &mut Proof,
    project: &Project,
    compiler: &Compiler,
    inputs: &[String; 2],
    (family, linker): (&str, &Path),
) -> Result<String> {
    let cost = run_link(proof, project, compiler, inputs, (family, linker))?;
    let program = program_of(project, compiler, family);
    let path = proof.folder.join(&program);
    if family == "sframe-ld" {
        crate::install::made_here(&path)?;
        proof.tool("readelf", &["-aW", &program])?;
    }
    let text = proof.tool(&path, &[])?;
    let size = std::fs::metadata(&path)?.len();
    proof.note(format!(
        "| {} | {} | {family} | links, runs, says the same | {size} | {:.1} |",
        project.name, compiler.name, cost.cpu
    ))?;
    Ok(text)
}

fn program_of(project: &Project, compiler: &Compiler, family: &str) -> String {
    format!("{}-{}-{}", project.name, compiler.name, family).replace([' ', '+'], "-")
}

/// One link, including the compilation of intermediate code.
fn run_link(
    proof: &Proof,
    project: &Project,
    compiler: &Compiler,
    [main, archive]: &[String; 2],
    (family, linker): (&str, &Path),
) -> Result<Cost> {
    let driver = compiler.drivers[usize::from(project.is_cxx)].display().to_string();
    let program = program_of(project, compiler, family);
    let choice = match compiler.name {
        "clang" => format!("--ld-path={}", linker.display()),
        _ => format!("-B{}", folder_of(proof, family, linker)?.display()),
    };
    let fixed = [&driver, &choice, "-O2", "-flto", "-pie", "-o", &program, main, archive];
    let words = fixed.into_iter().chain(project.libraries.iter().copied()).map(str::to_owned);
    let run = measure::measure(&proof.folder, 2, &words.collect::<Vec<_>>())?;
    ensure!(run.cost.success, "{driver} by {family}: {}", run.messages);
    Ok(run.cost)
}

/// A folder for `gcc -B` in which `ld` is this linker.
fn folder_of(proof: &Proof, family: &str, linker: &Path) -> Result<PathBuf> {
    let folder = proof.folder.join(format!("by-{}", family.replace(' ', "-")));
    std::fs::create_dir_all(&folder)?;
    // rustc asks for lld, gcc for no particular linker.
    for name in ["ld", "ld.lld"] {
        crate::folders::link(linker, &folder.join(name))?;
    }
    Ok(folder)
}

/// rustc optimizes a whole program itself and needs no plugin; the result is linked like any other.
fn rust(proof: &mut Proof, linkers: &[(&str, PathBuf)]) -> Result<()> {
    let source = "use std::collections::BTreeMap;\nfn main() {\n    let mut words = BTreeMap::new();\n    \
        for word in \"a b a c b a\".split(' ') { *words.entry(word).or_insert(0) += 1; }\n    \
        let caught = std::panic::catch_unwind(|| words[\"z\"]).is_err();\n    println!(\"{words:?} {caught}\");\n}\n";
    std::fs::write(proof.folder.join("words.rs"), source)?;
    for (family, linker) in linkers {
        let prefix = format!("-Clink-arg=-B{}", folder_of(proof, family, linker)?.display());
        let mut command = Command::new("rustc");
        let program = format!("words-{}", family.replace(' ', "-"));
        command.current_dir(&proof.folder).args([
            "-O",
            "-Clto=fat",
            "-Clink-self-contained=-linker",
            &prefix,
        ]);
        output(command.args(["-o", &program, "words.rs"]))?;
        let text = proof.tool(proof.folder.join(&program), &[])?;
        ensure!(text == "{\"a\": 3, \"b\": 2, \"c\": 1} true\n", "{family}: {text}");
        let size = std::fs::metadata(proof.folder.join(&program))?.len();
        proof.note(format!("| Rust | rustc, fat | {family} | links, runs, says the same | {size} | |"))?;
    }
    Ok(())
}

/// Rust and C as one program: rustc and the clang of its LLVM give their intermediate code to that LLVM's
/// plugin, and functions of one language are inlined into the other.
fn with_c(proof: &mut Proof, linkers: &[(&str, PathBuf)]) -> Result<()> {
    let version = output(Command::new("rustc").arg("-vV"))?;
    let version = version.lines().find_map(|line| line.strip_prefix("LLVM version: "));
    let version = version.context("rustc does not say its LLVM's version")?.to_owned();
    let major = version.split('.').next().unwrap_or_default().to_owned();
    let view = peers::folder().join("apt/lto");
    let root = view.join(format!("llvm-{major}"));
    let names = [format!("clang-{major}"), format!("llvm-{major}-linker-tools")];
    let names = names.each_ref().map(String::as_str);
    if let Err(error) = apt::fetch_and_unpack(&view, &apt::options(&view, None)?, &names, &root) {
        let reason = format!("{error:#}");
        let reason = reason.lines().next().unwrap_or_default();
        return proof
            .note(format!("\nRust with C is not shown: no clang of rustc's LLVM {version}: {reason}"));
    }
    let programs = root.join(format!("usr/lib/llvm-{major}"));
    let libraries = root.join("usr/lib/x86_64-linux-gnu").display().to_string();
    let clang =
        script(proof, "clang-of-rust", &libraries, &[&programs.join("bin/clang").display().to_string()])?;
    std::fs::write(
        proof.folder.join("scaled.c"),
        "int from_rust(int);\nint scaled(int value) { return from_rust(value) + 1; }\n",
    )?;
    std::fs::write(
        proof.folder.join("both.rs"),
        "unsafe extern \"C\" { fn scaled(value: i32) -> i32; }\n\
         #[unsafe(no_mangle)] pub extern \"C\" fn from_rust(value: i32) -> i32 { value * 3 }\n\
         fn main() { println!(\"{}\", unsafe { scaled(14) }); }\n",
    )?;
    proof.tool(&clang, &["-O2", "-flto=thin", "-fPIC", "-c", "-o", "scaled.o", "scaled.c"])?;
    let plugin = format!("-Clinker-plugin-lto={}", programs.join("lib/LLVMgold.so").display());
    let driver = format!("-Clinker={}", clang.display());
    for (family, linker) in linkers {
        let name = format!("ld-{}", family.replace(' ', "-"));
        let words = command_words(linker, &libraries)?;
        let linker = script(proof, &name, &libraries, &words.iter().map(String::as_str).collect::<Vec<_>>())?;
        let chosen = format!("-Clink-arg=--ld-path={}", linker.display());
        let program = format!("both-{}", family.replace(' ', "-"));
        let fixed = ["-O", "--edition=2024", &plugin, &driver, "-Clink-self-contained=-linker", &chosen];
        let rest = ["-Clink-arg=scaled.o", "-o", &program, "both.rs"];
        proof.tool("rustc", &[&fixed[..], &rest].concat())?;
        let text = proof.tool(proof.folder.join(&program), &[])?;
        ensure!(text == "43\n", "{family}: {text}");
        let symbols = proof.tool("nm", &[&program])?;
        let is_left = |line: &str| line.ends_with(" scaled") || line.ends_with(" from_rust");
        ensure!(
            !symbols.lines().any(is_left),
            "{family}: a function was not inlined into the other language"
        );
        if *family == "sframe-ld" {
            crate::install::made_here(&proof.folder.join(&program))?;
        }
        let size = std::fs::metadata(proof.folder.join(&program))?.len();
        proof.note(format!(
            "| Rust with C | rustc and clang {major} | {family} | links, runs, both functions inlined | {size} | |"
        ))?;
    }
    Ok(())
}

/// A linker as a program of this system, if it only needs its allocator to run. With a plugin, mold starts
/// itself again by the name of the running program. For the unpacked tools, that is the loader of another
/// system.
fn by_itself(proof: &Proof, linker: &Path) -> Result<PathBuf> {
    let words = command_words(linker, "")?;
    let folders = words.iter().position(|word| word == "--library-path").and_then(|at| words.get(at + 1));
    let (Some(folders), Some(program)) = (folders, words.last()) else { return Ok(linker.to_owned()) };
    let own = proof.folder.join("allocator");
    std::fs::create_dir_all(&own)?;
    for folder in folders.split(':') {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with("libmimalloc.so.") {
                std::fs::copy(entry.path(), own.join(entry.file_name()))?;
            }
        }
    }
    let script = script(proof, "mold-by-itself", &own.display().to_string(), &[program.as_str()])?;
    let runs = Command::new(&script).arg("--version").output().is_ok_and(|output| output.status.success());
    Ok(if runs { script } else { linker.to_owned() })
}

/// The words of a linker's command. A linker of another system has its own library folders; LLVM's folder is
/// added to them.
fn command_words(linker: &Path, libraries: &str) -> Result<Vec<String>> {
    let Ok(text) = std::fs::read_to_string(linker.with_file_name("cmd")) else {
        return Ok(vec![linker.display().to_string()]);
    };
    let mut words: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if let Some(at) = words.iter().position(|word| word == "--library-path") {
        let folders = words.get_mut(at + 1).context("a path without folders")?;
        folders.push_str(&format!(":{libraries}"));
    }
    Ok(words)
}

/// A command that starts another command with its own libraries.
fn script(proof: &Proof, name: &str, libraries: &str, words: &[&str]) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let path = proof.folder.join(name);
    let words = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    std::fs::write(
        &path,
        format!(
            "#!/bin/sh\nLD_LIBRARY_PATH='{libraries}'\"${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\" exec {words} \"$@\"\n"
        ),
    )?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}
