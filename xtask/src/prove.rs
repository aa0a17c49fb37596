//! Large links that CI has no time for: each builds something well known with the linker, checks
//! that it works, and records the results under `tests/proofs/`.

use crate::bench::{case::Case, programs};
use crate::{install, peers};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

mod bare;
mod boot;
mod compare;
mod index;
mod kernel;
mod machines;
mod modules;
mod packages;
mod same;
mod thunks;
mod tools;
mod violations;

/// The release that is built.
const RIPGREP_VERSION: &str = "14.1.1";
/// The package whose source holds sqlite's amalgamation.
const SQLITE_CRATE: &str = "libsqlite3-sys";

#[derive(clap::Args)]
pub struct Arguments {
    /// What to prove (all if none)
    names: Vec<Name>,
    /// With `kernel`: this machine's only (x86-64, arm64, s390x), and more by repeating it
    #[arg(long = "machine")]
    machines: Vec<String>,
    /// With `bare`: the proofs too that need nothing but what the root has and fetches
    #[arg(long)]
    proofs: bool,
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
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Name {
    /// sframe-ld links itself: the second generation passes the tests and equals the third
    #[value(name = "self")]
    Itself,
    /// ripgrep, through cargo
    Ripgrep,
    /// A C++ compiler from Debian's static archives of libclang and LLVM
    Llvm,
    /// sqlite3's amalgamation, in every kind of output
    Sqlite,
    /// sframe attach on twenty and more well-known binaries
    Attach,
    /// A C++ project built through the assembler wrapper, linked by gold, lld and this linker
    SplitProject,
    /// The index of a C++ project of several hundred objects, in every kind of output
    Index,
    /// zstd, sqlite, a C++ project and a Rust program for the other machines, in every SFrame mode
    Machines,
    /// An AArch64 program of 300 MiB of code whose calls need thousands of thunks
    Thunks,
    /// Links of every kind, for three machines, held against every other linker
    Compare,
    /// The matrix of section-group violations, and one that is reduced
    Violations,
    /// Kernel modules, built with Debian's headers and loaded into its kernel
    Modules,
    /// Kernels for three machines, built from Debian's source and booted
    Kernel,
    /// The README's two commands in a fresh clone in a minimal root of the distribution
    Bare,
}

pub fn run(arguments: Arguments) -> Result<()> {
    let all = [
        Name::Sqlite,
        Name::Ripgrep,
        Name::Itself,
        Name::Llvm,
        Name::Attach,
        Name::SplitProject,
        Name::Index,
        Name::Machines,
        Name::Thunks,
        Name::Compare,
        Name::Violations,
        Name::Modules,
        Name::Kernel,
        Name::Bare,
    ];
    let names = if arguments.names.is_empty() { all.to_vec() } else { arguments.names };
    if names.iter().any(|name| *name != Name::Bare) {
        for line in peers::prepare(&peers::folder(), true)? {
            println!("not to be had: {line}");
        }
    }
    let linker = arguments.linker.path()?;
    for name in names {
        let (file, mut proof) = match name {
            Name::Itself => ("self", Proof::new("self", &linker)?),
            Name::Ripgrep => ("ripgrep", Proof::new("ripgrep", &linker)?),
            Name::Llvm => ("llvm", Proof::new("llvm", &linker)?),
            Name::Sqlite => ("sqlite", Proof::new("sqlite", &linker)?),
            Name::Attach => ("attach", Proof::new("attach", &linker)?),
            Name::SplitProject => ("split-project", Proof::new("split-project", &linker)?),
            Name::Index => ("index", Proof::new("index", &linker)?),
            Name::Machines => ("machines", Proof::new("machines", &linker)?),
            Name::Thunks => ("thunks", Proof::new("thunks", &linker)?),
            Name::Compare => ("compare", Proof::new("compare", &linker)?),
            Name::Violations => ("violations", Proof::new("violations", &linker)?),
            Name::Modules => ("modules", Proof::new("modules", &linker)?),
            Name::Kernel => ("kernel", Proof::new("kernel", &linker)?),
            Name::Bare => ("bare", Proof::new("bare", &linker)?),
        };
        match name {
            Name::Itself => itself(&mut proof)?,
            Name::Ripgrep => ripgrep(&mut proof)?,
            Name::Llvm => llvm(&mut proof)?,
            Name::Sqlite => sqlite(&mut proof)?,
            Name::Attach => tools::attach(&mut proof, &arguments.command.path()?)?,
            Name::Compare => compare::compare(&mut proof, &arguments.comparer.path()?)?,
            Name::Violations => {
                violations::violations(&mut proof, &arguments.comparer.path()?, !arguments.no_record)?;
            }
            Name::Index => index::index(&mut proof, &arguments.command.path()?)?,
            Name::Machines => machines::machines(&mut proof, &arguments.command.path()?)?,
            Name::Thunks => thunks::thunks(&mut proof, &arguments.command.path()?)?,
            Name::Modules => modules::modules(&mut proof, &arguments.command.path()?)?,
            Name::Bare => bare::bare(&mut proof, arguments.proofs)?,
            Name::Kernel => kernel::kernels(&mut proof, &arguments.machines)?,
            Name::SplitProject => {
                tools::split_project(&mut proof, &arguments.command.path()?, &arguments.wrapper.path()?)?;
            }
        }
        if !arguments.no_record {
            let folder = crate::workspace().join("tests/proofs");
            std::fs::create_dir_all(&folder)?;
            std::fs::write(folder.join(format!("{file}.md")), &proof.record)?;
        }
    }
    Ok(())
}

/// A proof on its way: its folder, the linker laid out for `gcc -B`, and the record so far.
struct Proof {
    folder: PathBuf,
    prefix: PathBuf,
    record: String,
}

impl Proof {
    fn new(name: &str, linker: &Path) -> Result<Self> {
        let folder = crate::target().join("prove").join(name);
        std::fs::create_dir_all(&folder)?;
        let folder = folder.canonicalize()?;
        let prefix = install::install(linker, &folder.join("installed"))?;
        let mut proof = Proof { folder, prefix, record: String::new() };
        let date = first_line(Command::new("date").arg("+%Y-%m-%d"))?;
        let version = first_line(Command::new(linker).arg("--version"))?;
        proof.note(format!("# `cargo xtask prove {name}`\n\n{date}, {version}, {}\n", compiler()?))?;
        Ok(proof)
    }

    /// Adds a line to the record, and shows it. Paths of this machine are left out.
    fn note(&mut self, line: impl AsRef<str>) -> Result<()> {
        let line = plain(line.as_ref()).replace(&self.folder.display().to_string(), ".");
        println!("{line}");
        Ok(writeln!(self.record, "{line}")?)
    }

    fn tool(&self, program: impl AsRef<Path>, arguments: &[&str]) -> Result<String> {
        let program = program.as_ref();
        let mut command = Command::new(program);
        command.current_dir(&self.folder).args(arguments);
        output(&mut command).with_context(|| format!("{} {}", program.display(), arguments.join(" ")))
    }

    /// Demands that this linker made a program and that neither readelf nor eu-elflint complains of
    /// it.
    fn check(&mut self, program: &Path) -> Result<()> {
        let bytes = std::fs::read(program)?;
        install::made_here(program)?;
        let dump = Command::new("readelf").arg("-aW").arg(program).output()?;
        let complaints = String::from_utf8_lossy(&dump.stderr).into_owned();
        ensure!(dump.status.success() && complaints.is_empty(), "readelf: {complaints}");
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.note(format!(
            "- {name}: {} bytes, made by sframe-ld, `readelf -aW` has no complaint",
            bytes.len()
        ))?;
        self.lint(program)
    }

    /// Demands that eu-elflint reports nothing but findings that are known to be no fault, and notes those
    /// by kind.
    fn lint(&mut self, program: &Path) -> Result<()> {
        let elflint = peers::program("eu-elflint")?;
        let output = Command::new(elflint).args(["--gnu-ld", "-q"]).arg(program).output()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
        let mut unknown = Vec::new();
        for line in text.lines() {
            match elflint_known().find(|pattern| fits(line, pattern)) {
                Some(pattern) => *counted.entry(pattern).or_default() += 1,
                None => unknown.push(line),
            }
        }
        ensure!(unknown.is_empty(), "eu-elflint on {}:\n{}", program.display(), unknown.join("\n"));
        let known: Vec<String> = counted.iter().map(|(what, n)| format!("{n} of `{what}`")).collect();
        let known = if known.is_empty() { "no complaint".into() } else { known.join(", ") };
        self.note(format!("  - `eu-elflint --gnu-ld`: {known}"))
    }
}

/// A text without the control characters of terminals: escape sequences (ECMA-48) and others.
fn plain(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        if character == '\x1b' {
            // `ESC [` takes parameters up to a letter, any other escape one character.
            if rest.next() == Some('[') {
                while rest.next().is_some_and(|c| !c.is_ascii_alphabetic()) {}
            }
        } else if !character.is_control() || matches!(character, '\n' | '\t') {
            kept.push(character);
        }
    }
    kept
}

/// Findings that eu-elflint reports for good files too; the file tells why.
fn elflint_known() -> impl Iterator<Item = &'static str> {
    include_str!("../../tests/elflint-known.txt").lines().filter(|l| !l.is_empty() && !l.starts_with('#'))
}

/// Whether a line holds the parts of a pattern between its asterisks, in this order.
fn fits(line: &str, pattern: &str) -> bool {
    let mut rest = Some(line);
    for part in pattern.split('*') {
        rest = rest.and_then(|r| r.split_once(part)).map(|(_, after)| after);
    }
    rest.is_some()
}

/// The flags that make rustc reach the linker in a folder.
fn rust_flags(prefix: &Path) -> String {
    format!("-Clink-self-contained=-linker -Clink-arg=-B{}", prefix.display())
}

fn itself(proof: &mut Proof) -> Result<()> {
    let target = proof.folder.join("target");
    let program = target.join("release/sframe-ld");
    let mut generations = Vec::new();
    for generation in 2..=3 {
        // Same objects and same flags: only the linker behind them differs.
        forget_link(&target, "sframe_ld")?;
        let mut command = Command::new("cargo");
        command.current_dir(crate::workspace()).args(["build", "--release", "--quiet", "--bin", "sframe-ld"]);
        command.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", rust_flags(&proof.prefix));
        output(&mut command).with_context(|| format!("generation {generation}"))?;
        proof.note(format!("\nGeneration {generation}, linked by generation {}:", generation - 1))?;
        proof.check(&program)?;
        generations.push(std::fs::read(&program)?);
        proof.prefix = install::install(&program, &proof.folder.join("installed"))?;
    }
    ensure!(generations[0] == generations[1], "generations 2 and 3 differ");
    proof.note("\nGenerations 2 and 3 are the same, byte for byte.")?;
    let mut command = Command::new("cargo");
    command.current_dir(crate::workspace()).args(["test", "--test", "integration"]);
    let linker = proof.folder.join("installed/bin/sframe-ld");
    command.env("SFRAME_TEST_LD", linker).env("SFRAME_TEST_OWN", "1");
    command.env("SFRAME_PEERS", peers::folder());
    let text = output(&mut command)?;
    let result = text.lines().find(|l| l.starts_with("test result")).unwrap_or("").to_owned();
    proof.note(format!("The integration tests with generation 3: {result}"))
}

/// Removes the files that cargo has linked of a program, so that it links it again.
fn forget_link(target: &Path, program: &str) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(target.join("release/deps")) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.strip_prefix(program).is_some_and(|rest| rest.starts_with('-')) && path.extension().is_none()
        {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn ripgrep(proof: &mut Proof) -> Result<()> {
    let target = proof.folder.join("target");
    forget_link(&target, "rg")?;
    let mut command = Command::new("cargo");
    command.args(["install", "ripgrep", "--locked", "--force", "--version", RIPGREP_VERSION, "--root"]);
    command.arg(proof.folder.join("root")).env("CARGO_TARGET_DIR", target);
    command.env("RUSTFLAGS", rust_flags(&proof.prefix));
    output(&mut command)?;
    let program = proof.folder.join("root/bin/rg");
    proof.check(&program)?;
    let version = proof.tool(&program, &["--version"])?;
    proof.note(format!("- says {:?}", version.lines().next().unwrap_or("")))?;
    let source = crate::workspace().join("src").display().to_string();
    let ours = proof.tool(&program, &["--no-config", "-c", "--sort", "path", r"\bfn \w+\(", &source])?;
    let grep = proof.tool("grep", &["-rcP", r"\bfn \w+\(", &source])?;
    let sum =
        |text: &str| text.lines().filter_map(|l| l.rsplit(':').next()?.parse::<u64>().ok()).sum::<u64>();
    ensure!(sum(&ours) == sum(&grep) && sum(&ours) > 0, "rg counts {}, grep {}", sum(&ours), sum(&grep));
    proof.note("- counts the functions of `src` as grep does")
}

fn llvm(proof: &mut Proof) -> Result<()> {
    let folder = proof.folder.join("case");
    std::fs::create_dir_all(&folder)?;
    let case = match Case::load(&folder) {
        Some(case) => case,
        None => {
            let case = programs::prepare_llvm(&folder)?;
            case.save(&folder)?;
            case
        }
    };
    let program = folder.join("compiler");
    let mut command = Command::new(proof.folder.join("installed/bin/sframe-ld"));
    command.current_dir(&folder).args(&case.link).arg("-o").arg(&program);
    output(&mut command)?;
    proof.check(&program)?;
    case.check(&folder, &program).map_err(anyhow::Error::msg)?;
    let archives = case.link.iter().filter(|a| a.ends_with(".a")).count();
    proof.note(format!(
        "- {archives} archives named; the linked compiler compiles C++ to s390x assembly as expected"
    ))
}

/// Makes tables, indices and a trigger, and asks questions whose answers are known.
const SQLITE_MAIN: &str = r#"
#include <stdio.h>
#include "sqlite3.h"
static int row(void *unused, int n, char **values, char **names) {
    (void)unused; (void)names;
    for (int i = 0; i < n; i++) printf("%s%s", i ? "|" : "", values[i] ? values[i] : "null");
    puts("");
    return 0;
}
int main(void) {
    sqlite3 *db;
    char *message = 0;
    const char *script =
        "create table t(id integer primary key, name text unique, x real);"
        "create table log(what text);"
        "create trigger tr after insert on t begin insert into log values (new.name); end;"
        "with recursive n(i) as (values(1) union all select i + 1 from n where i < 1000)"
        " insert into t select i, printf('name%04d', i), i * 0.5 from n;"
        "create index ix on t(x);"
        "select count(*), sum(x), max(name), round(avg(sqrt(x * x)), 2) from t;"
        "select count(*) from log;"
        "select group_concat(name, ',') from (select name from t where x between 10 and 11 order by x desc);"
        "select json_extract('{\"a\":[1,2,{\"b\":3}]}', '$.a[2].b');"
        "pragma integrity_check;";
    if (sqlite3_open(":memory:", &db) || sqlite3_exec(db, script, row, 0, &message)) {
        printf("error: %s\n", message ? message : "open");
        return 1;
    }
    return sqlite3_close(db);
}
"#;
const SQLITE_EXPECTED: &str = "1000|250250.0|name1000|250.25\n1000\nname0022,name0021,name0020\n3\nok\n";

fn sqlite(proof: &mut Proof) -> Result<()> {
    let source = sqlite_source(proof)?;
    std::fs::write(proof.folder.join("main.c"), SQLITE_MAIN)?;
    let include = format!("-I{}", source.display());
    let amalgamation = source.join("sqlite3.c").display().to_string();
    let features = ["-DSQLITE_ENABLE_FTS5", "-DSQLITE_ENABLE_RTREE", "-DSQLITE_ENABLE_MATH_FUNCTIONS"];
    let common = ["-O1", "-g", "-ffunction-sections", "-fdata-sections", "-c", &include];
    for (kind, flag) in [("pie", "-fPIE"), ("no-pie", "-fno-PIE"), ("pic", "-fPIC")] {
        let (object, main) = (format!("sqlite3-{kind}.o"), format!("main-{kind}.o"));
        proof.tool("gcc", &[&common[..], &features, &[flag, "-o", &object, &amalgamation]].concat())?;
        proof.tool("gcc", &[&common[..], &[flag, "-o", &main, "main.c"]].concat())?;
    }
    let prefix = format!("-B{}", proof.prefix.display());
    for (name, kind, options) in [
        ("pie", "pie", &["-pie"][..]),
        ("no-pie", "no-pie", &["-no-pie"]),
        ("static", "no-pie", &["-static"]),
        ("static-pie", "pie", &["-static-pie"]),
        ("gc", "pie", &["-pie", "-Wl,--gc-sections", "-Wl,-z,pack-relative-relocs"]),
        ("relocatable", "no-pie", &["-r"]),
    ] {
        let (object, main) = (format!("sqlite3-{kind}.o"), format!("main-{kind}.o"));
        let libraries = if name == "relocatable" { &[][..] } else { &["-lm", "-lpthread"] };
        proof.tool("gcc", &[&[&prefix, "-o", name, &main, &object][..], options, libraries].concat())?;
        if name != "relocatable" {
            run_sqlite(proof, name)?;
        }
    }
    proof.tool("gcc", &[&prefix, "-no-pie", "-o", "twice", "relocatable", "-lm", "-lpthread"])?;
    run_sqlite(proof, "twice")?;
    proof.tool("gcc", &[&prefix, "-shared", "-o", "libsqlite3.so", "sqlite3-pic.o", "-lm"])?;
    let library = proof.folder.join("libsqlite3.so");
    proof.check(&library)?;
    let run_path = format!("-Wl,-rpath,{}", proof.folder.display());
    proof.tool("gcc", &[&prefix, "-o", "shared", "main-pie.o", "-L.", "-lsqlite3", &run_path])?;
    run_sqlite(proof, "shared")
}

fn run_sqlite(proof: &mut Proof, name: &str) -> Result<()> {
    let program = proof.folder.join(name);
    proof.check(&program)?;
    let text = proof.tool(&program, &[])?;
    ensure!(text == SQLITE_EXPECTED, "{name} says {text:?}");
    proof.note(format!("- {name}: answers are right"))
}

/// The folder of the amalgamation, from the crate that bundles it.
fn sqlite_source(proof: &Proof) -> Result<PathBuf> {
    let source = crate_source(proof, SQLITE_CRATE)?.join("sqlite3");
    ensure!(source.join("sqlite3.c").exists(), "{SQLITE_CRATE} holds no amalgamation");
    Ok(source)
}

/// The folder of a crate that bundles sources of another project, fetched by cargo.
fn crate_source(proof: &Proof, name: &str) -> Result<PathBuf> {
    let folder = proof.folder.join("crate").join(name);
    std::fs::create_dir_all(folder.join("src"))?;
    std::fs::write(folder.join("src/lib.rs"), "")?;
    let manifest = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\n{name} = \"*\"\n[workspace]\n"
    );
    std::fs::write(folder.join("Cargo.toml"), manifest)?;
    let mut command = Command::new("cargo");
    command.current_dir(&folder).args(["metadata", "--format-version", "1"]);
    let metadata: serde_json::Value = serde_json::from_str(&output(&mut command)?)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let package = packages.iter().find(|p| p["name"] == name).context("no such package")?;
    let manifest = package["manifest_path"].as_str().context("no path")?;
    Ok(Path::new(manifest).with_file_name(""))
}

/// Runs a command and returns its standard output; its messages are in the error if it fails.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output().context("cannot start")?;
    if !output.status.success() {
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        bail!("failed with {}:\n{out}{err}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn first_line(command: &mut Command) -> Result<String> {
    Ok(output(command)?.lines().next().unwrap_or("").to_owned())
}

fn compiler() -> Result<String> {
    let gcc = first_line(Command::new("gcc").arg("--version"))?;
    Ok(format!("{gcc}, {}", first_line(Command::new("rustc").arg("--version"))?))
}

#[cfg(test)]
mod tests {
    #[test]
    fn records_hold_no_control_characters() {
        let console = "In \x1bc\x1b[?7l\x1b[2J6.1.0 on\r a\x07 machine:\n\n\tall";
        assert_eq!(super::plain(console), "In 6.1.0 on a machine:\n\n\tall");
        assert_eq!(super::plain("cut \x1b["), "cut ");
    }
}
