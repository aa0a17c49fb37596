//! Proves whole kernels: this linker makes every link of Debian's kernel source, in a small configuration for
//! each machine. The kernel boots in an emulated machine and runs a shell script in an initramfs.

pub mod tree;

use super::proof::Proof;
use crate::commands::output;
use anyhow::{Result, ensure};
use std::fmt::Write;
use std::path::Path;
use tree::{Build, Linker, Machines, each_machine};

/// The module that the script loads.
const MODULE: &str = "lib/test_printf.ko";

/// The first program. It shows that system calls, signals, files and modules work.
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

/// Builds and boots the kernels of the named machines; all of them if none is named.
pub fn kernels(proof: &mut Proof, machines: &Machines) -> Result<()> {
    let prefix = proof.prefix.clone();
    let linker = Linker { prefix: &prefix, front: None, options: "" };
    each_machine(proof, "kernel", machines, |proof, tree, machine| {
        let build = Build::new(tree, machine, "build", &linker)?;
        let version = build.all("", &[])?;
        proof.note(format!("\n## {}: Linux {version}, {}\n", machine.name, crate::records::today()?))?;
        links(proof, &build.linker, &machine.gnu())?;
        proof.note(format!("- {}", peer(proof, &build)?))?;
        run(proof, &build)
    })
}

/// Lists the links, each with its linker.
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
        // Tests of options link into the folder for temporary files.
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

/// Links vmlinux once more with GNU ld, with the same arguments, and compares the tables of sections. Symbol
/// tables are left out, and so are emitted relocations, which x86's build takes from the file.
fn peer(proof: &Proof, build: &Build<'_>) -> Result<String> {
    let words = build.link_of("vmlinux")?.into_iter();
    let words = words.map(|word| if word == "vmlinux" { "vmlinux.gnu".to_owned() } else { word });
    let words: Vec<String> = words.filter(|word| !word.starts_with("-Map=")).collect();
    output(build.command(&build.machine.gnu()).args(&words))?;
    let table = |name: &str| -> Result<Vec<[String; 2]>> {
        let text = proof.tool("readelf", &["-SW", &build.folder.join(name).display().to_string()])?;
        let rows = text
            .lines()
            .filter_map(|line| line.split_once("] "))
            .filter(|(start, _)| start.trim().starts_with('['));
        let fields = rows.map(|(_, row)| row.split_whitespace().collect::<Vec<_>>());
        // Name, type, address, offset in the file, size.
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

fn run(proof: &mut Proof, build: &Build<'_>) -> Result<()> {
    let module = build.folder.join(MODULE);
    let console = build.run(INIT, &[("test_printf.ko", &module)], "")?;
    let said: Vec<&str> =
        console.lines().filter_map(|line| line.split_once("== ").map(|(_, said)| said)).collect();
    for expected in ["sum 5050", "tests passed", "vdso 1", "complaints 0"] {
        ensure!(said.iter().any(|line| line.ends_with(expected)), "no {expected:?} in:\n{console}");
    }
    proof.note(format!("- {}, whose script says:\n\n```\n{}\n```", build.sizes()?, said.join("\n")))
}
