//! Proof of whole kernels: Debian's kernel source, a small configuration for each machine, everything linked by this linker,
//! booted in an emulated machine to a shell script in an initramfs.
//!
//! The parts of x86 that are linked with `-m elf_i386` (the real-mode blob and the first boot stage) go to GNU ld, by a
//! script in front of the linker that looks at `-m`: this linker has no 32-bit machine.

use super::boot::{Files, boot};
use super::packages::{self, Tools};
use super::proof::{Proof, output};
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One machine's kernel.
struct Machine {
    /// As this linker names it; the configuration is `tests/fixtures/kernel/NAME.config`.
    name: &'static str,
    /// As the kernel's build does.
    arch: &'static str,
    /// As Debian does.
    debian: &'static str,
    /// Prefix of the names of the compiler and other tools.
    cross: &'static str,
    /// The boot image, from the build's folder.
    image: &'static str,
    emulator: &'static str,
    words: &'static [&'static str],
    console: &'static str,
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

/// The module that the script loads.
const MODULE: &str = "lib/test_printf.ko";

/// The first program: it shows that system calls, signals, files and modules work.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
echo "== hello from $(uname -srm)"
echo "== sum $(seq 1 100 | awk '{ sum += $1 } END { print sum }')"
echo "== symbols $(grep -c . /proc/kallsyms)"
insmod /test_printf.ko
echo "== $(dmesg | grep -o 'test_printf: all [0-9]* tests passed')"
echo "== vdso $(grep -c vdso /proc/self/maps)"
rmmod test_printf
echo "== complaints $(dmesg | grep -c -E 'BUG|WARNING|Oops|ORC|unwind')"
echo "== end"
reboot -f
"#;

/// Writes the script that stands in front of the linker, and returns its path. The linker `gnu` links 32-bit x86. The
/// command lines go to a file of the same name with `.log`.
pub fn linker(folder: &Path, prefix: &Path, gnu: &str, options: &str) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("ld");
    let text = format!(
        "#!/bin/sh\n\
         # No 32-bit machine here: elf_i386 is GNU ld's.\n\
         for word in \"$@\"; do\n  case $word in elf_i386)\n    echo \"{gnu} $PWD $*\" >>'{log}'\n    exec {gnu} \"$@\" ;;\n  esac\ndone\n\
         echo \"sframe-ld $PWD $*\" >>'{log}'\n\
         SFRAME_LD_IDENTITY=gnu SFRAME_LD_OPTIONS='{options}' exec '{prefix}/ld' \"$@\"\n",
        log = path.with_extension("log").display(),
        prefix = prefix.display(),
    );
    std::fs::write(&path, text)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// Builds and boots the kernels of the named machines, all if none is named.
pub fn kernels(proof: &mut Proof, names: &[String]) -> Result<()> {
    let tools = Tools::prepare()?;
    for name in names {
        ensure!(
            MACHINES.iter().any(|machine| machine.name == *name),
            "{name}: not one of x86-64, arm64, s390x"
        );
    }
    let source = source(&tools)?;
    let record = std::fs::read_to_string(crate::folders::workspace().join("tests/proofs/kernel.md"))
        .unwrap_or_default();
    for machine in &MACHINES {
        if names.is_empty() || names.iter().any(|name| *name == machine.name) {
            kernel(proof, &tools, &source, machine).with_context(|| machine.name)?;
        } else if let Some(section) = record.split("\n## ").find(|section| section.starts_with(machine.name))
        {
            // The record of an earlier run stays.
            writeln!(proof.record, "\n## {}", section.trim_end())?;
        }
    }
    Ok(())
}

/// Debian's source of the kernel, unpacked.
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

fn kernel(proof: &mut Proof, tools: &Tools, source: &Path, machine: &Machine) -> Result<()> {
    let build = packages::folder()?.join(format!("build-{}", machine.name));
    std::fs::create_dir_all(&build)?;
    let gnu = format!("{}ld.bfd", machine.cross);
    let linker = linker(&build, &proof.prefix, &gnu, "")?;
    let make = |words: &[&str]| -> Result<String> {
        let mut command = tools.command("make");
        command.arg("-C").arg(source).arg("-j2").arg(format!("O={}", build.display()));
        command.arg(format!("ARCH={}", machine.arch)).arg(format!("CROSS_COMPILE={}", machine.cross));
        command.arg(format!("LD={}", linker.display())).args(words);
        // The kernel's banner must not depend on who builds it and when.
        command
            .env("KBUILD_BUILD_TIMESTAMP", "2026-01-01")
            .env("KBUILD_BUILD_USER", "proof")
            .env("KBUILD_BUILD_HOST", "proof");
        output(&mut command)
    };
    let fragment = crate::folders::workspace().join(format!("tests/fixtures/kernel/{}.config", machine.name));
    make(&[&format!("KCONFIG_ALLCONFIG={}", fragment.display()), "allnoconfig"])?;
    let wanted = std::fs::read_to_string(&fragment)?;
    let configuration = std::fs::read_to_string(build.join(".config"))?;
    let lacking: Vec<&str> = wanted
        .lines()
        .filter(|line| line.starts_with("CONFIG_"))
        .filter(|line| !configuration.lines().any(|l| l == *line))
        .collect();
    ensure!(lacking.is_empty(), "the source has no {lacking:?}");
    forget_links(&linker)?;
    let said = make(&["all"])?;
    let complaints: Vec<&str> =
        said.lines().filter(|line| line.contains("ld: ") || line.contains("sframe-ld: ")).collect();
    ensure!(complaints.is_empty(), "{}", complaints.join("\n"));

    let version = configuration.lines().find_map(|line| line.strip_prefix("# Linux/")).unwrap_or("");
    // "arm64 6.1.99 Kernel Configuration"
    let version = version.split(' ').nth(1).unwrap_or("").to_owned();
    let day = proof.tool("date", &["+%Y-%m-%d"])?;
    proof.note(format!("\n## {}: Linux {version}, {}\n", machine.name, day.trim()))?;
    links(proof, &linker, &gnu)?;
    proof.note(format!("- {}", peer(proof, &linker, &gnu, &build)?))?;
    run(proof, tools, machine, &build)
}

/// Removes the results of an earlier run's links, and their list: all is linked anew.
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

/// Notes the links, each with its linker.
fn links(proof: &mut Proof, linker: &Path, gnu: &str) -> Result<()> {
    let log = std::fs::read_to_string(linker.with_extension("log"))?;
    let output = |line: &&str| {
        let mut words = line.split(' ');
        words.find(|word| *word == "-o").and_then(|_| words.next()).map(str::to_owned)
    };
    let by = |name: &str| -> Vec<String> {
        let start = format!("{name} ");
        let mut all: Vec<String> =
            log.lines().filter(|line| line.starts_with(&start)).filter_map(|line| output(&line)).collect();
        all.sort();
        all.dedup();
        // Probes of options link into the folder for temporary files.
        all.retain(|file| !file.starts_with('/'));
        all
    };
    let ours = by("sframe-ld");
    ensure!(ours.iter().any(|file| file == "vmlinux"), "sframe-ld linked {ours:?}, and not vmlinux");
    proof.note(format!("- linked by sframe-ld: {}", ours.join(", ")))?;
    let theirs = by(gnu);
    if !theirs.is_empty() {
        proof.note(format!("- linked by GNU ld, as 32-bit x86: {}", theirs.join(", ")))?;
    }
    Ok(())
}

/// Links vmlinux once more, by GNU ld with the same words, and compares the tables of sections. Tables of symbols are left
/// out, and emitted relocations, which x86's build takes from the file.
fn peer(proof: &Proof, linker: &Path, gnu: &str, build: &Path) -> Result<String> {
    let log = std::fs::read_to_string(linker.with_extension("log"))?;
    let line = log.lines().rev().find(|line| line.contains(" -o vmlinux ")).context("no link of vmlinux")?;
    let words = line.split(' ').skip(2).map(|word| if word == "vmlinux" { "vmlinux.gnu" } else { word });
    let words: Vec<&str> = words.filter(|word| !word.starts_with("-Map=")).collect();
    output(Command::new(gnu).current_dir(build).args(&words))?;
    let table = |name: &str| -> Result<Vec<[String; 2]>> {
        let text = proof.tool("readelf", &["-SW", &build.join(name).display().to_string()])?;
        let rows = text
            .lines()
            .filter_map(|line| line.split_once("] "))
            .filter(|(start, _)| start.trim().starts_with('['));
        let fields = rows.map(|(_, row)| row.split_whitespace().collect::<Vec<_>>());
        // Name, type, address, place in the file, size.
        let emitted = |row: &Vec<&str>| row[1] == "RELA" && row[2].trim_matches('0').is_empty();
        let told = fields
            .filter(|row| row.len() > 6 && !emitted(row) && !row[1].ends_with("TAB") && row[0] != ".comment");
        let size = |size: &str| format!("{:0>1}", size.trim_start_matches('0'));
        Ok(told.map(|row| [row[0].to_owned(), size(row[4])]).collect())
    };
    let (ours, theirs) = (table("vmlinux")?, table("vmlinux.gnu")?);
    let size =
        |table: &[[String; 2]], name: &str| table.iter().find(|row| row[0] == name).map(|row| row[1].clone());
    let lacking = |table: &[[String; 2]], other: &[[String; 2]]| {
        let names =
            other.iter().filter(|row| size(table, &row[0]).is_none()).map(|row| format!("`{}`", row[0]));
        names.collect::<Vec<_>>().join(", ")
    };
    let mut said = format!("sections of vmlinux: {}, by GNU ld {}", ours.len(), theirs.len());
    for (who, names) in [("only here", lacking(&theirs, &ours)), ("only GNU ld's", lacking(&ours, &theirs))] {
        if !names.is_empty() {
            write!(said, "; {who}: {names}")?;
        }
    }
    let both = ours.iter().filter_map(|row| Some((row, size(&theirs, &row[0])?)));
    let (same, other): (Vec<_>, Vec<_>) = both.partition(|(row, size)| row[1] == *size);
    write!(said, "; {} of the same size", same.len())?;
    let other: Vec<String> =
        other.iter().map(|(row, size)| format!("`{}` 0x{} (0x{size})", row[0], row[1])).collect();
    if !other.is_empty() {
        write!(said, ", of another size (GNU ld's in parentheses): {}", other.join(", "))?;
    }
    Ok(said)
}

fn run(proof: &mut Proof, tools: &Tools, machine: &Machine, build: &Path) -> Result<()> {
    let busybox = packages::unpack(machine.debian, "busybox-static", "")?;
    let mut files = Files::default();
    for folder in ["dev", "proc", "sys", "bin"] {
        files.folder(folder);
    }
    files
        .console()
        .file("bin/busybox", &std::fs::read(busybox.join("bin/busybox"))?)
        .file("init", INIT.as_bytes());
    files.file("test_printf.ko", &std::fs::read(build.join(MODULE))?);
    let initrd = build.join("initramfs.cpio");
    files.write(&initrd)?;
    let image = build.join(machine.image);
    let line = format!("console={} panic=-1 quiet", machine.console);
    let console = boot(tools, machine.emulator, machine.words, &image, &initrd, &line)?;
    let said: Vec<&str> =
        console.lines().filter_map(|line| line.split_once("== ").map(|(_, said)| said)).collect();
    if said.last() != Some(&"end") {
        bail!("the machine did not get to the end:\n{console}");
    }
    for expected in ["sum 5050", "tests passed", "vdso 1", "complaints 0"] {
        ensure!(said.iter().any(|line| line.ends_with(expected)), "no {expected:?} in:\n{console}");
    }
    let size = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.len());
    proof.note(format!(
        "- vmlinux: {} bytes; {}: {} bytes; boots in {}, whose script says:\n\n```\n{}\n```",
        size(&build.join("vmlinux"))?,
        machine.image,
        size(&image)?,
        machine.emulator,
        said.join("\n")
    ))
}
