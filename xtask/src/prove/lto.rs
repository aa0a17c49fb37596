//! Proof of link-time optimization: sqlite, zstd and a C++ project by gcc's plugin and by LLVM's, linked by GNU ld,
//! mold and this linker.
//!
//! The programs must say the same. Most of the time of such a link is the compiler's, so one measurement of each
//! tells that no linker stands in its way, and no more.

use super::machines::{ZSTD_CRATE, ZSTD_EXPECTED, ZSTD_MAIN};
use super::proof::{Proof, output};
use super::sqlite::{self, crate_source};
use super::tools::{peer, write_project};
use crate::peers;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Objects of the C++ project.
const OBJECTS: usize = 40;

/// A program, its sources, and its output; `None`: whatever the first one says.
struct Project {
    name: &'static str,
    is_cxx: bool,
    /// The first stays an object, the others become members of an archive.
    sources: Vec<PathBuf>,
    flags: Vec<String>,
    libraries: &'static [&'static str],
    expected: Option<&'static str>,
}

/// A compiler for C and for C++, its archiver, and how it is told of a linker.
struct Compiler {
    name: &'static str,
    drivers: [PathBuf; 2],
    archiver: PathBuf,
}

pub fn lto(proof: &mut Proof) -> Result<()> {
    let linkers = [("GNU ld", peer("bfd")?), ("mold", peer("mold")?), ("sframe-ld", proof.prefix.join("ld"))];
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
    proof.note("| project | compiler | linker | result | bytes | seconds |\n|---|---|---|---|---|---|")?;
    for project in [sqlite_project(proof)?, zstd_project(proof)?, cxx_project(proof)?] {
        let mut said = project.expected.map(str::to_owned);
        for compiler in &compilers {
            let inputs = compile(proof, &project, compiler)?;
            for (family, linker) in &linkers {
                let text = match link(proof, &project, compiler, &inputs, (family, linker)) {
                    Err(error) if *family != "sframe-ld" => {
                        // One that starts itself again does not find its libraries beside another system's.
                        note_failure(proof, &[project.name, compiler.name, family], &error)?;
                        continue;
                    }
                    text => text?,
                };
                let expected = said.get_or_insert_with(|| text.clone());
                ensure!(*expected == text, "{}, {}, {family}: {text}", project.name, compiler.name);
            }
        }
    }
    rust(proof, &linkers)
}

/// A row for a link by another linker that failed.
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

/// Compiles to intermediate code; gives the object and the archive.
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

/// Links, checks this linker's output, and gives what the program says.
fn link(
    proof: &mut Proof,
    project: &Project,
    compiler: &Compiler,
    [main, archive]: &[String; 2],
    (family, linker): (&str, &Path),
) -> Result<String> {
    let driver = &compiler.drivers[usize::from(project.is_cxx)];
    let program = format!("{}-{}-{}", project.name, compiler.name, family).replace([' ', '+'], "-");
    let choice = match compiler.name {
        "clang" => format!("--ld-path={}", linker.display()),
        _ => format!("-B{}", folder_of(proof, family, linker)?.display()),
    };
    let fixed = [&choice, "-O2", "-flto", "-pie", "-o", &program, main, archive];
    let start = Instant::now();
    proof.tool(driver, &[&fixed[..], project.libraries].concat())?;
    let seconds = start.elapsed().as_secs_f64();
    let path = proof.folder.join(&program);
    if family == "sframe-ld" {
        crate::install::made_here(&path)?;
        proof.tool("readelf", &["-aW", &program])?;
    }
    let text = proof.tool(&path, &[])?;
    let size = std::fs::metadata(&path)?.len();
    proof.note(format!(
        "| {} | {} | {family} | links, runs, says the same | {size} | {seconds:.1} |",
        project.name, compiler.name
    ))?;
    Ok(text)
}

/// A folder for `gcc -B` where `ld` is this linker.
fn folder_of(proof: &Proof, family: &str, linker: &Path) -> Result<PathBuf> {
    let folder = proof.folder.join(format!("by-{}", family.replace(' ', "-")));
    std::fs::create_dir_all(&folder)?;
    // rustc asks for lld, gcc for nothing in particular.
    for name in ["ld", "ld.lld"] {
        let name = folder.join(name);
        let _ = std::fs::remove_file(&name);
        std::os::unix::fs::symlink(linker, name)?;
    }
    Ok(folder)
}

/// rustc optimises a whole program itself and needs no plugin; what comes out is linked all the same.
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
        let start = Instant::now();
        output(command.args(["-o", &program, "words.rs"]))?;
        let seconds = start.elapsed().as_secs_f64();
        let text = proof.tool(proof.folder.join(&program), &[])?;
        ensure!(text == "{\"a\": 3, \"b\": 2, \"c\": 1} true\n", "{family}: {text}");
        let size = std::fs::metadata(proof.folder.join(&program))?.len();
        proof.note(format!(
            "| Rust | rustc, fat | {family} | links, runs, says the same | {size} | {seconds:.1} |"
        ))?;
    }
    Ok(())
}
