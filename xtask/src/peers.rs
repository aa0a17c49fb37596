//! Tools of other projects, for the tests and the comparison: fetched by package name through the
//! system's package client and unpacked into a folder of their own. Nothing is installed.
//!
//! Newer suites are named by their word (`trixie`, `sid`); the mirror is the one that apt is
//! configured with. Each suite gets an apt state of its own in which nothing counts as installed,
//! so its packages come with all their libraries and run with their own loader. Packages of the
//! machine's own suite come with what the machine lacks only.
//!
//! The folder that results has one folder per tool and version: `NAME/ld` with `NAME/cmd` (its
//! words, one a line) for a linker, `NAME/as`, `NAME/readelf` and so on for the rest. Which of
//! them a test takes is settled there, by what the tool does.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Version of wild whose required compiler is no newer than ours.
const WILD_VERSION: &str = "0.10.0";
const TRIPLE: &str = "x86_64-linux-gnu";
/// The other machines, as emulators and as packages name them.
const CROSS: [(&str, &str); 2] = [("aarch64", "aarch64-linux-gnu"), ("s390x", "s390x-linux-gnu")];
const BINUTILS: [&str; 10] =
    ["as", "readelf", "objdump", "objcopy", "strip", "nm", "ar", "ranlib", "addr2line", "size"];

#[derive(clap::Args)]
pub struct Arguments {
    /// Fetch only what the tests need
    #[arg(long)]
    for_tests: bool,
    /// Folder to fill (by default `SFRAME_PEERS`, or else target/peers)
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// The folder of the tools.
pub fn folder() -> PathBuf {
    std::env::var_os("SFRAME_PEERS").map_or_else(|| crate::workspace().join("target/peers"), PathBuf::from)
}

/// A program of the tools' folder, or else of `PATH`.
pub fn program(name: &str) -> Option<PathBuf> {
    let folders = std::fs::read_dir(folder()).into_iter().flatten().flatten().map(|e| e.path());
    let mut found: Vec<PathBuf> = folders.map(|f| f.join(name)).filter(|p| p.is_file()).collect();
    found.sort();
    found.pop().or_else(|| on_path(name))
}

pub fn run(arguments: Arguments) -> Result<()> {
    let missing = prepare(&arguments.folder.unwrap_or_else(folder), arguments.for_tests)?;
    for line in &missing {
        println!("not to be had: {line}");
    }
    println!("{} missing", missing.len());
    Ok(())
}

/// One thing to fetch: its name, whether the tests need it, and how.
struct Step {
    name: &'static str,
    for_tests: bool,
    fetch: fn(&Peers) -> Result<()>,
}

const STEPS: [Step; 11] = [
    Step { name: "binutils that emit SFrame V3 (sid)", for_tests: true, fetch: |p| p.binutils("sid") },
    Step { name: "binutils that emit SFrame V2 (trixie)", for_tests: true, fetch: |p| p.binutils("trixie") },
    Step { name: "eu-elflint", for_tests: true, fetch: Peers::elfutils },
    Step { name: "clang", for_tests: true, fetch: Peers::clang },
    Step { name: "compilers and emulators for other machines", for_tests: true, fetch: Peers::cross },
    Step {
        name: "assemblers and linkers for other machines (sid)",
        for_tests: true,
        fetch: Peers::cross_binutils,
    },
    Step { name: "GNU ld (sid)", for_tests: true, fetch: |p| p.gnu_ld("sid") },
    Step { name: "GNU ld and gold (trixie)", for_tests: true, fetch: Peers::gold },
    Step { name: "lld (sid)", for_tests: true, fetch: |p| p.lld("sid") },
    Step { name: "mold (sid)", for_tests: true, fetch: |p| p.mold("sid") },
    Step { name: "wild", for_tests: false, fetch: Peers::wild },
];

/// Fills the folder with what it lacks. Returns what could not be had, each with its reason.
pub fn prepare(folder: &Path, for_tests: bool) -> Result<Vec<String>> {
    std::fs::create_dir_all(folder)?;
    let peers = Peers { folder: folder.canonicalize()? };
    let mut missing = Vec::new();
    for step in STEPS.iter().filter(|s| s.for_tests || !for_tests) {
        let mark = peers.folder.join(format!(".have-{}", step.name.replace([' ', '(', ')'], "-")));
        if mark.exists() {
            continue;
        }
        eprintln!("peers: {}", step.name);
        match (step.fetch)(&peers) {
            Ok(()) => std::fs::write(mark, "")?,
            Err(error) => missing.push(format!("{}: {error:#}", step.name)),
        }
    }
    Ok(missing)
}

struct Peers {
    folder: PathBuf,
}

impl Peers {
    fn binutils(&self, suite: &str) -> Result<()> {
        let root = self.unpack(suite, &["binutils"])?;
        let version = version_of(&root.words(&format!("{TRIPLE}-as")))?;
        for tool in BINUTILS {
            let program = format!("{TRIPLE}-{tool}");
            if root.path.join("usr/bin").join(&program).exists() {
                self.wrap(&format!("binutils-{version}"), tool, &root.words(&program))?;
            }
        }
        Ok(())
    }

    fn gnu_ld(&self, suite: &str) -> Result<()> {
        let root = self.unpack(suite, &["binutils"])?;
        self.linker("bfd", &root.words(&format!("{TRIPLE}-ld.bfd")))
    }

    fn gold(&self) -> Result<()> {
        self.gnu_ld("trixie")?;
        let root = self.unpack("trixie", &["binutils-gold"])?;
        self.linker("gold", &root.words(&format!("{TRIPLE}-ld.gold")))
    }

    fn lld(&self, suite: &str) -> Result<()> {
        let root = self.unpack(suite, &["lld"])?;
        let program = find(&root.path.join("usr/lib"), "bin/lld").context("no lld in its package")?;
        let mut words = root.loader("ld.lld");
        words.push(program.display().to_string());
        self.linker("lld", &words)
    }

    fn mold(&self, suite: &str) -> Result<()> {
        let root = self.unpack(suite, &["mold"])?;
        self.linker("mold", &root.words("mold"))
    }

    fn wild(&self) -> Result<()> {
        let root = self.folder.join("wild-root");
        run_command(
            Command::new("cargo")
                .args(["install", "wild-linker", "--locked", "--version", WILD_VERSION, "--root"])
                .arg(&root),
        )?;
        self.linker("wild", &[root.join("bin/wild").display().to_string()])
    }

    fn elfutils(&self) -> Result<()> {
        if on_path("eu-elflint").is_some() {
            return Ok(());
        }
        let root = self.unpack_own(&["elfutils"])?;
        self.wrap_own("elfutils", "eu-elflint", &root, &root.join("usr/bin/eu-elflint"))
    }

    fn clang(&self) -> Result<()> {
        if on_path("clang").is_some() && on_path("clang++").is_some() {
            return Ok(());
        }
        let root = self.unpack_own(&["clang"])?;
        for tool in ["clang", "clang++"] {
            let program =
                find(&root.join("usr/lib"), &format!("bin/{tool}")).context("no clang in its package")?;
            self.wrap_own("clang", tool, &root, &program)?;
        }
        Ok(())
    }

    /// Debian's cross compilers and the emulators for their programs.
    fn cross(&self) -> Result<()> {
        let tools = ["gcc", "g++", "ar", "ld.bfd"];
        let names = || CROSS.iter().flat_map(|(_, triple)| tools.map(|tool| format!("{triple}-{tool}")));
        let emulators = || CROSS.iter().map(|(machine, _)| format!("qemu-{machine}"));
        if names().chain(emulators()).all(|name| on_path(&name).is_some()) {
            return Ok(());
        }
        let compilers =
            CROSS.iter().flat_map(|(_, triple)| [format!("gcc-{triple}"), format!("g++-{triple}")]);
        let packages: Vec<String> = compilers.chain(["qemu-user".to_owned()]).collect();
        let root = self.unpack_own(&packages.iter().map(String::as_str).collect::<Vec<_>>())?;
        let bin = root.join("usr/bin");
        for (machine, triple) in CROSS {
            // The compiler finds its parts and headers relative to itself. What it is told are the
            // places of the C library and of the assembler and linker.
            let own = root.join("usr").join(triple);
            for tool in ["gcc", "g++"] {
                let line = format!(
                    "LD_LIBRARY_PATH='{}':\"$LD_LIBRARY_PATH\" exec '{}' --sysroot='{}' -B'{}/bin/' -B'{}/lib/' -L'{}/lib' \"$@\"",
                    root.join("usr/lib").join(TRIPLE).display(),
                    bin.join(format!("{triple}-{tool}")).display(),
                    root.display(),
                    own.display(),
                    own.display(),
                    own.display(),
                );
                self.script("cross", &format!("{triple}-{tool}"), &line)?;
            }
            for tool in ["ar", "ld.bfd", "as"] {
                let name = format!("{triple}-{tool}");
                self.wrap_own("cross", &name, &root, &bin.join(&name))?;
            }
            let emulator = format!("qemu-{machine}");
            self.wrap_own("cross", &emulator, &root, &bin.join(&emulator))?;
        }
        Ok(())
    }

    /// Assemblers that emit SFrame for the machines, and the newest GNU ld.
    fn cross_binutils(&self) -> Result<()> {
        let packages = CROSS.map(|(_, triple)| format!("binutils-{triple}"));
        let root = self.unpack("sid", &packages.each_ref().map(String::as_str))?;
        for (_, triple) in CROSS {
            let words = root.words(&format!("{triple}-as"));
            let folder = format!("binutils-{}", version_of(&words)?);
            self.wrap(&folder, &format!("{triple}-as"), &words)?;
            self.wrap(&folder, &format!("{triple}-ld"), &root.words(&format!("{triple}-ld.bfd")))?;
        }
        Ok(())
    }

    /// Writes `NAME-VERSION/ld` and `cmd`.
    fn linker(&self, name: &str, words: &[String]) -> Result<()> {
        let folder = format!("{name}-{}", version_of(words)?);
        self.wrap(&folder, "ld", words)?;
        Ok(std::fs::write(self.folder.join(folder).join("cmd"), words.join("\n") + "\n")?)
    }

    /// Writes `FOLDER/TOOL`, a script that runs the words with its own arguments after them.
    fn wrap(&self, folder: &str, tool: &str, words: &[String]) -> Result<()> {
        let quoted: Vec<String> = words.iter().map(|w| format!("'{w}'")).collect();
        self.script(folder, tool, &format!("exec {} \"$@\"", quoted.join(" ")))
    }

    /// The same for a program of the machine's own suite, with the libraries unpacked beside it.
    fn wrap_own(&self, folder: &str, tool: &str, root: &Path, program: &Path) -> Result<()> {
        let libraries = root.join("usr/lib").join(TRIPLE);
        let line = format!(
            "LD_LIBRARY_PATH='{}':\"$LD_LIBRARY_PATH\" exec '{}' \"$@\"",
            libraries.display(),
            program.display()
        );
        self.script(folder, tool, &line)
    }

    fn script(&self, folder: &str, tool: &str, line: &str) -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let folder = self.folder.join(folder);
        std::fs::create_dir_all(&folder)?;
        let path = folder.join(tool);
        std::fs::write(&path, format!("#!/bin/sh\n{line}\n"))?;
        Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?)
    }

    /// Unpacks packages of a named suite with everything that they depend on.
    fn unpack(&self, suite: &str, packages: &[&str]) -> Result<Root> {
        let view = self.folder.join("apt").join(suite);
        let sources = format!("deb {} {suite} main\n", mirror()?);
        let options = apt_options(&view, Some(&sources))?;
        let root = self.folder.join(format!("root-{suite}"));
        fetch_and_unpack(&view, &options, packages, &root)?;
        Ok(Root { path: root })
    }

    /// Unpacks packages of the machine's own suite, with those dependencies that it lacks.
    fn unpack_own(&self, packages: &[&str]) -> Result<PathBuf> {
        let view = self.folder.join("apt/own");
        let options = apt_options(&view, None)?;
        let root = self.folder.join("root-own");
        fetch_and_unpack(&view, &options, packages, &root)?;
        Ok(root)
    }
}

/// A tree of unpacked packages with a C library of its own.
struct Root {
    path: PathBuf,
}

impl Root {
    /// Words that start a program of `usr/bin` with the tree's own loader and libraries.
    fn words(&self, program: &str) -> Vec<String> {
        let path = self.path.join("usr/bin").join(program).display().to_string();
        let mut words = self.loader(&path);
        words.push(path);
        words
    }

    fn loader(&self, name: &str) -> Vec<String> {
        let libraries = self.path.join("usr/lib").join(TRIPLE);
        let loader = libraries.join("ld-linux-x86-64.so.2").display().to_string();
        vec![loader, "--library-path".into(), libraries.display().to_string(), "--argv0".into(), name.into()]
    }
}

/// The mirror of the distribution that apt is configured with.
fn mirror() -> Result<String> {
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", "$(REPO_URI)", "Identifier: Packages"])
        .output()
        .context("no apt-get")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = text.lines().find(|l| l.trim_end_matches('/').ends_with("/debian"));
    found.map(str::to_owned).context("apt's configuration names no Debian mirror")
}

/// Options that give apt a state of its own. With `sources`, nothing counts as installed.
pub(crate) fn apt_options(view: &Path, sources: Option<&str>) -> Result<Vec<String>> {
    for folder in ["lists/partial", "cache/archives/partial", "state"] {
        std::fs::create_dir_all(view.join(folder))?;
    }
    let at = |name: &str| view.join(name).display().to_string();
    let mut options = vec![
        format!("Dir::State={}", at("state")),
        format!("Dir::State::Lists={}", at("lists")),
        format!("Dir::Cache={}", at("cache")),
        "Acquire::Languages=none".into(),
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".into(),
        "APT::Sandbox::User=root".into(),
        "Debug::NoLocking=1".into(),
    ];
    match sources {
        Some(text) => {
            std::fs::write(view.join("sources.list"), text)?;
            std::fs::write(view.join("status"), "")?;
            options.push(format!("Dir::Etc::sourcelist={}", at("sources.list")));
            options.push("Dir::Etc::sourceparts=-".into());
            options.push(format!("Dir::State::status={}", at("status")));
        }
        None => options.push("Dir::State::status=/var/lib/dpkg/status".into()),
    }
    Ok(options)
}

/// Downloads packages with what they need, and unpacks what is new into the root.
pub(crate) fn fetch_and_unpack(
    view: &Path,
    options: &[String],
    packages: &[&str],
    root: &Path,
) -> Result<()> {
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        for option in options {
            command.args(["-o", option]);
        }
        command.args(words);
        run_command(&mut command)
    };
    let marker = view.join("updated");
    if !marker.exists() {
        apt(&["update", "-qq"])?;
        std::fs::write(&marker, "")?;
    }
    let mut words = vec!["install", "-qq", "-y", "--no-install-recommends", "--download-only"];
    words.extend(packages);
    apt(&words)?;
    std::fs::create_dir_all(root)?;
    for entry in std::fs::read_dir(view.join("cache/archives"))? {
        let package = entry?.path();
        let mark = package.with_extension("unpacked");
        if package.extension().is_some_and(|e| e == "deb") && !mark.exists() {
            run_command(Command::new("dpkg").arg("-x").arg(&package).arg(root))?;
            std::fs::write(mark, "")?;
        }
    }
    Ok(())
}

/// Runs a command; what it said is in the error if it fails.
pub(crate) fn run_command(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("no message").to_owned();
        bail!("{program} failed: {last}");
    }
    Ok(())
}

/// The first two numbers of what a program says for `--version`, as in `2.44`; one where there is
/// no more.
fn version_of(words: &[String]) -> Result<String> {
    let output = Command::new(&words[0]).args(&words[1..]).arg("--version").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().next().context("says nothing for --version")?;
    let number = |w: &&str| w.starts_with(|c: char| c.is_ascii_digit()) && w.contains('.');
    let mut numbers = line.split([' ', '(', ')', '-', '+']).filter(number);
    // GNU's lines end with the version; others have it first.
    let version = if line.starts_with("GNU") { numbers.next_back() } else { numbers.next() };
    let version = version.with_context(|| format!("no version in {line:?}"))?;
    Ok(version.split('.').take(2).collect::<Vec<_>>().join("."))
}

/// The file of a name in any folder below, the last in order of paths.
fn find(folder: &Path, suffix: &str) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|e| e.path().join(suffix))
        .filter(|p| p.exists())
        .collect();
    found.sort();
    found.pop()
}

pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
