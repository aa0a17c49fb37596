//! A scratch directory, the compilers that fill it, and the linker under test.
//!
//! All commands run in the scratch directory, so tests name files by relative paths, and messages are the
//! same on every machine.

use super::elf::SHT_GNU_SFRAME;
use super::machine::{self, Machine};
use super::{Elf, tools};
use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The longest time that a command of a test may take.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The result of a command.
#[derive(Debug)]
pub struct Outcome {
    /// The command line, for messages.
    pub command: String,
    /// The exit status; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Outcome {
    /// Checks that the exit status is 0.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(self.code == Some(0), "should succeed: {self}");
        self
    }

    /// Checks that the exit status is 0 and standard error is empty.
    #[track_caller]
    pub fn quiet(self) -> Self {
        let this = self.ok();
        assert!(this.stderr.is_empty(), "should be silent: {this}");
        this
    }

    /// Checks that the exit status is 1 and there is a message on standard error, not a crash.
    #[track_caller]
    pub fn fails(self) -> Self {
        assert!(self.code == Some(1), "should fail with exit status 1: {self}");
        assert!(!self.stderr.trim().is_empty(), "should say why it fails: {self}");
        self.no_crash()
    }

    /// Checks that neither a signal nor a panic ended it.
    #[track_caller]
    pub fn no_crash(self) -> Self {
        assert!(matches!(self.code, Some(0 | 1)), "should end with exit status 0 or 1: {self}");
        assert!(!self.stderr.contains("panicked"), "should not panic: {self}");
        self
    }

    /// Checks that standard error contains all these texts.
    #[track_caller]
    pub fn says(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.stderr.contains(text), "standard error should hold {text:?}: {self}");
        }
        self
    }

    /// Checks that standard error contains none of these texts.
    #[track_caller]
    pub fn says_not(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(!self.stderr.contains(text), "standard error should not hold {text:?}: {self}");
        }
        self
    }

    /// Both streams, for facts that linkers print on one or the other.
    pub fn output(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "\n$ {}\nexit status: {:?}\nstdout: {}\nstderr: {}",
            self.command, self.code, self.stdout, self.stderr
        )
    }
}

/// The path of the linker under test.
pub fn linker() -> PathBuf {
    match std::env::var_os("SFRAME_TEST_LD") {
        Some(path) => path.into(),
        None => env!("CARGO_BIN_EXE_sframe-ld").into(),
    }
}

/// Names the file to which a link through [`linker_directory`] adds a line.
const LINKS: &str = "SFRAME_TEST_LINKS";

/// The script that replaces the linker in [`linker_directory`]: it adds a line to the file that the variable
/// [`LINKS`] names, and becomes the linker.
const WITNESS: &str = "#!/bin/sh\n\
    echo \"$0\" >> \"${SFRAME_TEST_LINKS:-/dev/null}\"\n\
    exec \"${0%/*}/real/${0##*/}\" \"$@\"\n";

/// A directory that contains the linker under test under every name that compilers look for. [`Work::linked`]
/// checks that a link went through it.
pub fn linker_directory() -> &'static Path {
    static DIRECTORY: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = DIRECTORY.get_or_init(|| {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a scratch directory");
        let real = dir.path().join("real");
        std::fs::create_dir(&real).expect("a directory");
        for name in ["ld", "ld.bfd", "ld.gold", "ld.lld", "ld.mold"] {
            std::os::unix::fs::symlink(linker(), real.join(name)).expect("a link");
            let witness = dir.path().join(name);
            std::fs::write(&witness, WITNESS).expect("a script");
            std::fs::set_permissions(witness, Permissions::from_mode(0o755)).expect("a program");
        }
        let path = dir.path().to_owned();
        (dir, path)
    });
    path
}

/// A scratch directory.
pub struct Work {
    dir: tempfile::TempDir,
    environment: Vec<(String, String)>,
    machine: &'static Machine,
}

impl Work {
    /// An empty scratch directory, for programs of the machine that runs the tests.
    pub fn new() -> Self {
        Self::on(&machine::X86_64)
    }

    /// The same for programs of another machine.
    pub fn on(machine: &'static Machine) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("work-")
            .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
            .expect("a scratch directory");
        Work { dir, environment: Vec::new(), machine }
    }

    /// The machine that programs are for.
    pub fn machine(&self) -> &'static Machine {
        self.machine
    }

    /// Sets an environment variable for all later commands.
    pub fn env(&mut self, name: &str, value: &str) {
        self.environment.push((name.into(), value.into()));
    }

    /// The absolute path of a file in the scratch directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file.
    #[track_caller]
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, content).unwrap_or_else(|e| panic!("write {name}: {e}"));
        name.into()
    }

    /// Writes a file that can be run.
    #[track_caller]
    pub fn write_program(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let name = self.write(name, content);
        std::fs::set_permissions(self.path(&name), Permissions::from_mode(0o755)).expect("a program");
        name
    }

    /// Copies a sample object from a real assembler (`tests/fixtures/sframe`, or `SFRAME_FIXTURES`) into the
    /// scratch directory. Returns its name there.
    #[track_caller]
    pub fn fixture(&self, path: &str) -> String {
        let root = match std::env::var_os("SFRAME_FIXTURES") {
            Some(root) => PathBuf::from(root),
            None => Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sframe"),
        };
        let bytes = std::fs::read(root.join(path)).unwrap_or_else(|e| panic!("fixture {path}: {e}"));
        self.write(&path.replace('/', "-"), bytes)
    }

    /// Reads a file.
    #[track_caller]
    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|e| panic!("read {name}: {e}"))
    }

    /// Whether a file exists.
    pub fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Compiles C source to `NAME.o`, with `-O1` and `flags`. Returns the object's name.
    #[track_caller]
    pub fn c(&self, name: &str, source: &str, flags: &[&str]) -> String {
        self.compile("gcc", name, "c", source, flags)
    }

    /// Compiles C++ source to `NAME.o`.
    #[track_caller]
    pub fn cc(&self, name: &str, source: &str, flags: &[&str]) -> String {
        self.compile("g++", name, "cc", source, flags)
    }

    /// Assembles to `NAME.o`, and adds a `.note.GNU-stack`.
    #[track_caller]
    pub fn s(&self, name: &str, source: &str) -> String {
        let source = format!("{source}\n.section .note.GNU-stack,\"\",@progbits\n");
        self.compile("gcc", name, "s", &source, &[])
    }

    /// A compiler, an archiver or another GNU tool for the machine.
    #[track_caller]
    pub fn tool(&self, name: &str) -> PathBuf {
        self.machine.tool(name).unwrap_or_else(|reason| panic!("{reason}"))
    }

    #[track_caller]
    fn compile(&self, compiler: &str, name: &str, suffix: &str, source: &str, flags: &[&str]) -> String {
        let file = self.write(&format!("{name}.{suffix}"), source);
        let object = format!("{name}.o");
        let mut args = vec!["-c", "-O1", "-o", &object, &file];
        args.extend(flags);
        self.command(self.tool(compiler), &args).ok();
        object
    }

    /// Links through `gcc -B`; warnings are allowed.
    #[track_caller]
    pub fn gcc(&self, args: &[&str]) -> Outcome {
        self.drive(self.tool("gcc"), args)
    }

    /// Links through `g++ -B`.
    #[track_caller]
    pub fn gxx(&self, args: &[&str]) -> Outcome {
        self.drive(self.tool("g++"), args)
    }

    /// Links through any compiler driver that takes `-B`.
    #[track_caller]
    pub fn drive(&self, driver: impl AsRef<OsStr>, args: &[&str]) -> Outcome {
        let prefix = format!("-B{}", linker_directory().display());
        let mut all = vec![prefix.as_str()];
        all.extend(args);
        self.linked(driver, &all)
    }

    /// Runs a program that links, and checks that it did so through [`linker_directory`]. If a driver finds
    /// another linker first, every later check would be meaningless.
    #[track_caller]
    pub fn linked(&self, driver: impl AsRef<OsStr>, args: &[&str]) -> Outcome {
        let links = self.path(LINKS);
        let _ = std::fs::remove_file(&links);
        let outcome = self.command(driver, args);
        assert!(links.exists(), "linked by another linker, or not at all: {outcome}");
        outcome
    }

    /// Whether the linker under test made an output, by its `.comment`.
    #[track_caller]
    pub fn made_here(&self, file: &str) -> bool {
        self.elf_unchecked(file).section(".comment").strings().iter().any(|text| text.contains("sframe-ld"))
    }

    /// Makes `libNAME.so` from a position-independent C source.
    #[track_caller]
    pub fn shared(&self, name: &str, source: &str, flags: &[&str]) -> String {
        let object = self.c(&format!("{name}-so"), source, &["-fPIC"]);
        let library = format!("lib{name}.so");
        let mut args = vec!["-shared", "-o", &library, &object];
        args.extend(flags);
        self.gcc(&args).ok();
        library
    }

    /// Runs the linker under test itself.
    #[track_caller]
    pub fn ld(&self, args: &[&str]) -> Outcome {
        self.command(linker(), args)
    }

    /// Packs objects into an archive with `ar rcsFLAGS`.
    #[track_caller]
    pub fn ar(&self, archive: &str, flags: &str, members: &[&str]) -> String {
        let flags = format!("rcs{flags}");
        let mut args = vec![flags.as_str(), archive];
        args.extend(members);
        self.command(self.tool("ar"), &args).ok();
        archive.into()
    }

    /// Runs a program of the scratch directory and returns its output. It must end with status 0.
    #[track_caller]
    pub fn run(&self, program: &str) -> String {
        self.run_any(program).ok().stdout
    }

    /// Runs a program of the scratch directory, whatever its exit status is. It finds libraries beside it.
    #[track_caller]
    pub fn run_any(&self, program: &str) -> Outcome {
        let program = self.path(program);
        let emulator = self.machine.emulator().unwrap_or_else(|reason| panic!("{reason}"));
        let Some(emulator) = emulator else { return self.command(program, &[]) };
        let sysroot = self.machine.sysroot();
        self.command(emulator, &["-L", &sysroot.to_string_lossy(), &program.to_string_lossy()])
    }

    /// Checks that `readelf -aW` and `eu-elflint --gnu-ld` have no complaint.
    #[track_caller]
    pub fn lint(&self, file: &str) {
        match tools::readelf() {
            Ok(readelf) => {
                self.command(readelf, &["-aW", file]).quiet();
            }
            Err(reason) => tools::skip("support::work::lint", &reason),
        }
        // Other linkers have their own quirks, so these are only judged if that is asked for.
        let judged = tools::own_linker().or_else(|_| match std::env::var_os("SFRAME_TEST_LINT") {
            Some(_) => Ok(()),
            None => Err("eu-elflint judges other linkers with SFRAME_TEST_LINT only".into()),
        });
        match judged.and_then(|()| tools::elflint()) {
            Ok(elflint) => {
                let outcome = self.command(elflint, &["--gnu-ld", "-q", file]);
                let bad: Vec<&str> = outcome
                    .stdout
                    .lines()
                    .chain(outcome.stderr.lines())
                    .filter(|line| !tools::known_to_elflint(self.machine().name, line))
                    .collect();
                assert!(bad.is_empty(), "eu-elflint on {file}: {bad:#?}");
            }
            Err(reason) => tools::skip("support::work::lint", &reason),
        }
    }

    /// The parsed output, after checks that `readelf` and `eu-elflint` have no complaint, and that no version
    /// of GNU's SFrame reader ends with a signal.
    #[track_caller]
    pub fn elf(&self, name: &str) -> Elf {
        self.lint(name);
        let elf = self.elf_unchecked(name);
        if elf.sections.iter().any(|section| section.kind == SHT_GNU_SFRAME) {
            self.read_by_gnu(name);
        }
        elf
    }

    /// Lets every available version of `readelf` read a file's SFrame sections. It may refuse an SFrame
    /// version that it does not know, but it must not die. Returns what each one printed.
    #[track_caller]
    pub fn read_by_gnu(&self, file: &str) -> Vec<Outcome> {
        let mut read = Vec::new();
        for readelf in tools::peer_programs("readelf") {
            for section in [".sframe", ".sframe_idx"] {
                let outcome = self.command(&readelf, &[&format!("--sframe={section}"), file]);
                assert!(outcome.code.is_some(), "a signal ended it: {outcome}");
                read.push(outcome);
            }
        }
        if read.is_empty() {
            tools::skip("support::work::read_by_gnu", "no readelf of other versions (cargo xtask peers)");
        }
        read
    }

    /// The parsed output, for files that are odd on purpose.
    #[track_caller]
    pub fn elf_unchecked(&self, name: &str) -> Elf {
        Elf::parse(self.read(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// Runs any command in the scratch directory.
    #[track_caller]
    pub fn command(&self, program: impl AsRef<OsStr>, args: &[&str]) -> Outcome {
        let program = program.as_ref();
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.dir.path())
            .env("LC_ALL", "C")
            .env("LD_LIBRARY_PATH", self.dir.path())
            .env(LINKS, self.path(LINKS))
            .env_remove("SFRAME_LD_OPTIONS")
            .env_remove("SFRAME_LD_IDENTITY")
            // Whoever runs the tests may have a jobserver.
            .env_remove("MAKEFLAGS")
            .env_remove("CARGO_MAKEFLAGS")
            .env_remove("MFLAGS")
            .envs(self.environment.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let text = format!("{} {}", program.to_string_lossy(), args.join(" "));
        let mut child = spawned(&mut command).unwrap_or_else(|e| panic!("cannot start {text}: {e}"));
        let stdout = drain(child.stdout.take());
        let stderr = drain(child.stderr.take());
        let start = Instant::now();
        let mut pause = Duration::from_micros(500);
        let status = loop {
            if let Some(status) = child.try_wait().expect("wait") {
                break status;
            }
            if start.elapsed() > TIME_LIMIT {
                let _ = child.kill();
                panic!("took more than {TIME_LIMIT:?}: {text}");
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        };
        let join = |t: std::thread::JoinHandle<Vec<u8>>| {
            String::from_utf8_lossy(&t.join().expect("reader")).into_owned()
        };
        Outcome { command: text, code: status.code(), stdout: join(stdout), stderr: join(stderr) }
    }
}

fn drain(pipe: Option<impl std::io::Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Starts a command. A program that was just written may be busy for a moment: a process that another test
/// started meanwhile has the file open until it executes its own program.
fn spawned(command: &mut Command) -> std::io::Result<std::process::Child> {
    let begun = Instant::now();
    loop {
        match command.spawn() {
            Err(error)
                if error.kind() == std::io::ErrorKind::ExecutableFileBusy && begun.elapsed() < TIME_LIMIT =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            result => return result,
        }
    }
}
