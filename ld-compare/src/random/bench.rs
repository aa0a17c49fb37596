//! The tools and the runtime of a machine: what it takes to make, link and run programs.

use super::assembly;
use super::c;
use super::compiled::Compiled;
use super::link::{Place, Way};
use super::plugin::Plugin;
use super::program::{Home, Lto, Program};
use crate::cases::build;
use crate::machine::Machine;
use crate::peers::{Family, Linker, Wanted, on_path, tool};
use crate::run::{Finished, Limits, limited};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The variants of the runtime: the object, and the words for the compiler.
const RUNTIMES: [(&str, &[&str]); 4] = [
    ("runtime-static.o", &["-fno-pie"]),
    ("runtime-static-pie.o", &["-fPIE", "-DPIE"]),
    ("runtime-dynamic.o", &["-fPIE", "-DDYNAMIC"]),
    ("runtime-library.o", &["-fPIC", "-DLIBRARY"]),
];

/// Everything that programs for a machine need.
pub struct Bench {
    /// The machine.
    pub machine: Machine,
    /// One linker of each family, this project's first.
    pub linkers: Vec<Linker>,
    /// Where the dynamic linkers are.
    pub place: Place,
    /// The `readelf` that reads this project's outputs.
    pub readelf: PathBuf,
    assembler: PathBuf,
    archiver: PathBuf,
    compiler: PathBuf,
    /// The compiler's plugin for link-time optimization.
    plugin: Option<Plugin>,
    /// The emulator and its arguments.
    emulator: Vec<String>,
    runtimes: TempDir,
}

impl Bench {
    /// Finds the tools and compiles the runtime.
    ///
    /// # Errors
    /// A tool is missing, or the compiler refuses the runtime.
    pub fn new(machine: Machine, wanted: &Wanted) -> Result<Self> {
        let find = |name: &str| {
            let found = tool(&wanted.peers, &machine.tool(name));
            found.with_context(|| format!("no {} in {}", machine.tool(name), wanted.peers.display()))
        };
        let mut linkers: Vec<Linker> = Vec::new();
        for linker in wanted.find(machine)? {
            let voting = matches!(linker.family, Family::SFrameLd | Family::Gnu | Family::Lld | Family::Mold);
            // The last linker of a family is the newest.
            linkers.retain(|other| other.family != linker.family || linker.is_ours() || !voting);
            let known = linkers.iter().any(|other| other.family == linker.family);
            linkers.extend(Some(linker).filter(|_| voting && !known));
        }
        ensure!(
            linkers.first().is_some_and(Linker::is_ours),
            "no sframe-ld: name it with --linker or SFRAME_LD"
        );
        let native = Machine::native() == Some(machine);
        let interpreter = match machine {
            Machine::X86_64 => "/lib64/ld-linux-x86-64.so.2",
            Machine::Aarch64 => "/lib/ld-linux-aarch64.so.1",
            Machine::S390x => "/lib/ld64.so.1",
        };
        let root = std::path::absolute(wanted.peers.join("root-own/usr").join(machine.triple()))?;
        let file = interpreter.rsplit('/').next().unwrap_or_default();
        let (libraries, emulator) = if native {
            let named = Command::new("gcc").arg("-print-file-name=libc.so.6").output()?;
            let library = String::from_utf8_lossy(&named.stdout).trim().to_owned();
            ([interpreter.to_owned(), library], Vec::new())
        } else {
            let emulator = format!("qemu-{}", machine.name());
            let emulator = tool(&wanted.peers, &emulator).with_context(|| format!("no {emulator}"))?;
            let words = [emulator.display().to_string(), "-L".into(), root.display().to_string()];
            (
                [file, "libc.so.6"].map(|name| root.join("lib").join(name).display().to_string()),
                words.to_vec(),
            )
        };
        let runtimes = tempfile::Builder::new().prefix("ld-compare-random-").tempdir()?;
        std::fs::write(runtimes.path().join("runtime.c"), include_str!("runtime.c"))?;
        let compiler = if native { PathBuf::from("gcc") } else { find("gcc")? };
        for (object, words) in RUNTIMES {
            let common = "-O1 -ffreestanding -fno-stack-protector -fno-builtin -fcf-protection=none -w -c";
            let common = if machine == Machine::X86_64 {
                common.to_owned()
            } else {
                common.replace("-fcf-protection=none ", "")
            };
            let mut command = vec![compiler.display().to_string()];
            command.extend(common.split(' ').chain(words.iter().copied()).map(String::from));
            command.extend(["-o", object, "runtime.c"].map(String::from));
            build(&command, runtimes.path())?;
        }
        let plugin = if native { Plugin::new(&compiler, &linkers, runtimes.path())? } else { None };
        let words = plugin.as_ref().map_or_else(Vec::new, Plugin::words);
        Ok(Bench {
            machine,
            linkers,
            place: Place { interpreter, libraries, plugin: words },
            readelf: tool(&wanted.peers, "readelf").or_else(|| on_path("readelf")).context("no readelf")?,
            assembler: find("as")?,
            archiver: find("ar")?,
            compiler,
            plugin,
            emulator,
            runtimes,
        })
    }

    /// Writes a program's objects and their sources into a folder.
    ///
    /// # Errors
    /// The assembler refuses a source, or the folder cannot be written.
    pub fn make(&self, program: &Program, folder: &Path) -> Result<()> {
        for (object, _) in RUNTIMES {
            std::fs::copy(self.runtimes.path().join(object), folder.join(object))?;
        }
        if program.versioned {
            std::fs::write(folder.join("versions.map"), &program.versions)?;
        }
        for (number, unit) in program.units.iter().enumerate() {
            let name = format!("unit{number}");
            let framed = program.framed && !program.writes_frames(number);
            if let Some(compiled) = &unit.compiled {
                std::fs::write(folder.join(format!("{name}.c")), c::unit(program, number))?;
                if self.compile(program, folder, &name, compiled)? {
                    continue;
                }
            } else {
                std::fs::write(folder.join(format!("{name}.s")), assembly::unit(program, number))?;
            }
            self.assemble(program, folder, &name, framed)?;
        }
        std::fs::write(folder.join("main.s"), assembly::main(program))?;
        self.assemble(program, folder, "main", program.framed)?;
        if let Some(plugin) = self.plugin.as_ref().filter(|_| program.is_optimized()) {
            plugin.copy_to(folder)?;
        }
        let members = program.units.iter().enumerate().filter(|(_, unit)| unit.home == Home::Archive);
        let members: Vec<String> = members.map(|(number, _)| format!("unit{number}.o")).collect();
        if !members.is_empty() {
            let mut command = vec![self.archiver.display().to_string()];
            if let Some(plugin) = self.plugin.as_ref().filter(|_| program.is_optimized()) {
                command.extend(["--plugin".to_owned(), plugin.library.clone()]);
            }
            command.extend(["rcs", "archive.a"].map(String::from));
            command.extend(members);
            build(&command, folder)?;
        }
        Ok(())
    }

    /// Compiles a unit. Returns whether that already makes the object. Otherwise the compiler only makes
    /// assembly, and the machine's assembler, which knows more than the compiler's, makes the object.
    fn compile(&self, program: &Program, folder: &Path, name: &str, compiled: &Compiled) -> Result<bool> {
        let mut command = vec![self.compiler.display().to_string()];
        command.extend(compiled.words.iter().cloned());
        command.extend(match (compiled.lto, program.lto) {
            (true, Some(Lto::Fat)) => vec!["-flto".into(), "-ffat-lto-objects".into(), "-c".into()],
            (true, _) => vec!["-flto".to_owned(), "-c".into()],
            (false, _) => vec!["-S".to_owned()],
        });
        let end = if compiled.lto { "o" } else { "s" };
        command.extend(["-o".into(), format!("{name}.{end}"), format!("{name}.c")]);
        build(&command, folder).with_context(|| format!("seed {}", program.seed))?;
        Ok(compiled.lto)
    }

    /// The linkers that can link a program in this way, this project's first.
    pub fn suitable(&self, program: &Program, way: &Way) -> Vec<&Linker> {
        let suits = |linker: &&Linker| way.suits(program, linker.family);
        let by_itself = |linker| match &self.plugin {
            Some(plugin) if program.is_optimized() => plugin.restarted(linker),
            _ => linker,
        };
        self.linkers.iter().filter(suits).map(by_itself).collect()
    }

    fn assemble(&self, program: &Program, folder: &Path, name: &str, framed: bool) -> Result<()> {
        let source = format!("{name}.s");
        let mut command = vec![self.assembler.display().to_string()];
        command.extend(framed.then(|| "--gsframe".to_owned()));
        command.extend(["-o".into(), format!("{name}.o"), source]);
        build(&command, folder).with_context(|| format!("seed {}", program.seed))
    }

    /// Runs a linked program.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn run(&self, program: &Path) -> Result<Finished> {
        let mut words = self.emulator.iter();
        let mut command = match words.next() {
            Some(emulator) => Command::new(emulator),
            None => Command::new(program),
        };
        command.args(words);
        if !self.emulator.is_empty() {
            command.arg(program);
        }
        let limits = Limits { time: 120.0, memory: 1 << 20, output: 64 };
        limited(&mut command, &limits).with_context(|| format!("cannot run {}", program.display()))
    }
}
