//! Builds and boots kernels from Debian's source: the machines, and a small configuration for each.
//!
//! Some parts of x86 are linked with `-m elf_i386` (the real-mode blob and the first boot stage). This linker
//! has no 32-bit machine. So a script in front of it looks at `-m` and gives these links to GNU ld.

use super::super::boot::{Files, boot};
use super::super::packages::{self, Tools};
use super::super::proof::Proof;
use crate::commands::output;
use crate::records;
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One machine's kernel.
pub struct Machine {
    /// This linker's name for it; the configuration is `tests/fixtures/kernel/NAME.config`.
    pub name: &'static str,
    /// The name in the kernel's build.
    pub arch: &'static str,
    /// Debian's name.
    pub debian: &'static str,
    /// Prefix of the names of its compiler and other tools.
    pub cross: &'static str,
    /// The boot image, relative to the build's folder.
    pub image: &'static str,
    pub emulator: &'static str,
    pub words: &'static [&'static str],
    pub console: &'static str,
}

impl Machine {
    /// The name of GNU ld for it.
    pub fn gnu(&self) -> String {
        format!("{}ld.bfd", self.cross)
    }
}

const MACHINES: [Machine; 3] = [
    Machine {
        name: "x86-64",
        arch: "x86_64",
        debian: "amd64",
        cross: "",
        image: "arch/x86/boot/bzImage",
        emulator: "qemu-system-x86_64",
        words: &[],
        console: "ttyS0",
    },
    Machine {
        name: "arm64",
        arch: "arm64",
        debian: "arm64",
        cross: "aarch64-linux-gnu-",
        image: "arch/arm64/boot/Image.gz",
        emulator: "qemu-system-aarch64",
        words: &["-machine", "virt", "-cpu", "cortex-a57"],
        console: "ttyAMA0",
    },
    Machine {
        name: "s390x",
        arch: "s390",
        debian: "s390x",
        cross: "s390x-linux-gnu-",
        image: "arch/s390/boot/bzImage",
        emulator: "qemu-system-s390x",
        words: &[],
        console: "ttyS0",
    },
];

/// A linker for kernels.
pub struct Linker<'a> {
    /// The folder that contains sframe-ld as `ld`.
    pub prefix: &'a Path,
    /// A script that adds arguments to its command line, and runs `SFRAME_LD`.
    pub front: Option<&'a Path>,
    /// Options for all links.
    pub options: &'a str,
}

impl Linker<'_> {
    /// Writes the script that stands in front of it, and returns the script's path. The linker `gnu` links
    /// 32-bit x86. The command lines go to a file with the script's name and `.log`.
    pub fn write(&self, folder: &Path, gnu: &str) -> Result<PathBuf> {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join("ld");
        let own = self.prefix.join("ld");
        let text = format!(
            "#!/bin/sh\n\
             # No 32-bit machine here: elf_i386 is GNU ld's.\n\
             for word in \"$@\"; do\n  case $word in elf_i386)\n    echo \"{gnu} $PWD $*\" >>'{log}'\n    exec {gnu} \"$@\" ;;\n  esac\ndone\n\
             echo \"sframe-ld $PWD $*\" >>'{log}'\n\
             export SFRAME_LD='{own}' SFRAME_LD_IDENTITY=gnu SFRAME_LD_OPTIONS='{options}'\n\
             exec '{program}' \"$@\"\n",
            log = path.with_extension("log").display(),
            own = own.display(),
            options = self.options,
            program = self.front.unwrap_or(&own).display(),
        );
        std::fs::write(&path, text)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        Ok(path)
    }
}

/// Debian's kernel source, unpacked.
fn source(tools: &Tools) -> Result<PathBuf> {
    let root = packages::unpack("amd64", "linux-source", "linux-source-")?;
    let archive = packages::entry(&root.join("usr/src"), "linux-source-")?;
    if archive.is_dir() {
        return Ok(archive);
    }
    let folder = packages::folder()?;
    let name = archive.file_stem().and_then(|name| Path::new(name).file_stem()).context("no name")?;
    let unpacked = folder.join(name);
    if !unpacked.join("Kbuild").exists() {
        output(tools.command("tar").arg("-C").arg(&folder).arg("-xf").arg(&archive))?;
    }
    Ok(unpacked)
}

/// The tools and the unpacked source.
pub type Tree<'a> = (&'a Tools, &'a Path);

/// The machines whose kernels are wanted.
#[derive(clap::Args)]
pub struct Machines {
    /// Only this machine; repeat it for more
    #[arg(long = "machine", value_parser = MACHINES.each_ref().map(|machine| machine.name))]
    names: Vec<String>,
}

/// Proves something about the kernels of the named machines, or of all if none is named. What the record of
/// an earlier run says about the other machines stays.
pub fn each_machine(
    proof: &mut Proof,
    record: &str,
    machines: &Machines,
    prove: impl Fn(&mut Proof, Tree<'_>, &'static Machine) -> Result<()>,
) -> Result<()> {
    let tools = Tools::prepare()?;
    let source = source(&tools)?;
    let record = std::fs::read_to_string(records::path(record));
    let record = record.unwrap_or_default();
    for machine in &MACHINES {
        if machines.names.is_empty() || machines.names.iter().any(|name| *name == machine.name) {
            prove(proof, (&tools, &source), machine).with_context(|| machine.name)?;
        } else if let Some(section) = record.split("\n## ").find(|section| section.starts_with(machine.name))
        {
            writeln!(proof.record, "\n## {}", section.trim_end())?;
        }
    }
    Ok(())
}

/// A kernel that is being built: its folder, and the script in front of the linker.
pub struct Build<'a> {
    tools: &'a Tools,
    source: &'a Path,
    pub machine: &'static Machine,
    pub folder: PathBuf,
    pub linker: PathBuf,
}

impl<'a> Build<'a> {
    /// Prepares a folder with this name; the machine's name is added.
    pub fn new(
        (tools, source): Tree<'a>,
        machine: &'static Machine,
        name: &str,
        linker: &Linker<'_>,
    ) -> Result<Self> {
        let folder = packages::folder()?.join(format!("{name}-{}", machine.name));
        std::fs::create_dir_all(&folder)?;
        let linker = linker.write(&folder, &machine.gnu())?;
        Ok(Build { tools, source, machine, folder, linker })
    }

    /// A command that finds the tools.
    pub fn command(&self, program: &str) -> Command {
        let mut command = self.tools.command(program);
        command.current_dir(&self.folder);
        command
    }

    fn make(&self, words: &[&str]) -> Result<String> {
        let mut command = self.tools.command("make");
        command.arg("-C").arg(self.source).arg("-j2").arg(format!("O={}", self.folder.display()));
        command.arg(format!("ARCH={}", self.machine.arch));
        command.arg(format!("CROSS_COMPILE={}", self.machine.cross));
        command.arg(format!("LD={}", self.linker.display())).args(words);
        // The banner of the kernel must not depend on who builds it, and when.
        command
            .env("KBUILD_BUILD_TIMESTAMP", "2026-01-01")
            .env("KBUILD_BUILD_USER", "proof")
            .env("KBUILD_BUILD_HOST", "proof");
        output(&mut command)
    }

    /// Configures the kernel with the machine's options and with `more`, builds it, makes all links again,
    /// and returns its version.
    pub fn all(&self, more: &str, words: &[&str]) -> Result<String> {
        let options = format!("tests/fixtures/kernel/{}.config", self.machine.name);
        let wanted = std::fs::read_to_string(crate::folders::workspace().join(options))? + more;
        let fragment = self.folder.join("wanted.config");
        std::fs::write(&fragment, &wanted)?;
        self.make(&[&format!("KCONFIG_ALLCONFIG={}", fragment.display()), "allnoconfig"])?;
        let configuration = std::fs::read_to_string(self.folder.join(".config"))?;
        let lacking: Vec<&str> = wanted
            .lines()
            .filter(|line| line.starts_with("CONFIG_"))
            .filter(|line| !configuration.lines().any(|l| l == *line))
            .collect();
        ensure!(lacking.is_empty(), "the source has no {lacking:?}");
        forget_links(&self.linker)?;
        let said = self.make(&[words, &["all"]].concat())?;
        let complaints: Vec<&str> =
            said.lines().filter(|line| line.contains("ld: ") || line.contains("sframe-ld: ")).collect();
        ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
        let version = configuration.lines().find_map(|line| line.strip_prefix("# Linux/")).unwrap_or("");
        // "arm64 6.1.99 Kernel Configuration"
        Ok(version.split(' ').nth(1).unwrap_or("").to_owned())
    }

    /// The command line of the last link of a file, without the linker.
    pub fn link_of(&self, file: &str) -> Result<Vec<String>> {
        let log = std::fs::read_to_string(self.linker.with_extension("log"))?;
        let links = log.lines().rev();
        let mut links = links.filter(|line| line.contains(&format!(" -o {file} ")));
        let line = links.next().with_context(|| format!("no link of {file}"))?;
        Ok(line.split(' ').skip(2).map(str::to_owned).collect())
    }

    /// Boots, runs a script with busybox and these further files, and returns the text on the console. The
    /// script must end with `== end` and a restart.
    pub fn run(&self, script: &str, more: &[(&str, &Path)], words: &str) -> Result<String> {
        let busybox = packages::unpack(self.machine.debian, "busybox-static", "")?;
        let mut files = Files::default();
        for folder in ["dev", "proc", "sys", "bin"] {
            files.folder(folder);
        }
        files
            .console()
            .file("bin/busybox", &std::fs::read(busybox.join("bin/busybox"))?)
            .file("init", script.as_bytes());
        for (name, path) in more {
            files.file(name, &std::fs::read(path)?);
        }
        let initrd = self.folder.join("initramfs.cpio");
        files.write(&initrd)?;
        let image = self.folder.join(self.machine.image);
        let line = format!("console={} panic=-1 quiet{words}", self.machine.console);
        let console = boot(self.tools, self.machine.emulator, self.machine.words, &image, &initrd, &line)?;
        if !console.lines().any(|line| line.ends_with("== end")) {
            bail!("the machine did not get to the end:\n{console}");
        }
        Ok(console)
    }

    /// The sizes of the results, and where the kernel boots.
    pub fn sizes(&self) -> Result<String> {
        let Machine { image, emulator, .. } = self.machine;
        let size = |name: &str| std::fs::metadata(self.folder.join(name)).map(|metadata| metadata.len());
        let (kernel, boots) = (size("vmlinux")?, size(image)?);
        Ok(format!("vmlinux: {kernel} bytes; {image}: {boots} bytes; boots in {emulator}"))
    }
}

/// Removes the results of an earlier run's links and their list, so that everything is linked again.
fn forget_links(linker: &Path) -> Result<()> {
    let log = linker.with_extension("log");
    for line in std::fs::read_to_string(&log).unwrap_or_default().lines() {
        let mut words = line.split(' ').skip(1);
        let folder = words.next().unwrap_or("");
        if let Some(file) = words.skip_while(|word| *word != "-o").nth(1) {
            let _ = std::fs::remove_file(Path::new(folder).join(file));
        }
    }
    let _ = std::fs::remove_file(log);
    Ok(())
}
