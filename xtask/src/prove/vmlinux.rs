//! Proves a kernel that contains its frames: Debian's kernel source is compiled with frames, vmlinux is
//! linked with `.sframe_idx` by `examples/kernel/ld-vmlinux`, and boots. Then the guest reads the section
//! through `/proc/kcore`.
//!
//! What the guest reads must be the section of the file, byte for byte. It must verify by itself and against
//! `.eh_frame`, and its functions must be those that the guest's `/proc/kallsyms` lists. This source of Linux
//! (6.1) has no reader of SFrame that could be tested, too.

use super::kernel::tree::{self, Build, Linker, Machine, each_machine};
use super::proof::Proof;
use crate::commands::{output, version};
use crate::install::{Program, SframeCommand};
use crate::{folders, peers};
use anyhow::{Context, Result, ensure};
use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, SymbolKind, elf};
use sframe_format::{Fde, Section};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// Makes compilers write call frame information; it comes after kbuild's own option against it.
const TABLES: &str = "-fasynchronous-unwind-tables";
/// What the guest needs to read its own memory.
const OPTIONS: &str = "CONFIG_PROC_KCORE=y\n";

/// The first program. It finds the section by its symbols, and the section's place in `/proc/kcore` by the
/// program headers there.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
address() { awk -v name=$1 '$3 == name { print "0x" $1 }' /proc/kallsyms; }
start=$(address __start_sframe)
size=$(($(address __stop_sframe) - start))
# Where the program headers are, how large and how many.
set -- $(od -A n -t d8 -j 32 -N 8 /proc/kcore) $(od -A n -t d2 -j 54 -N 4 /proc/kcore)
header=$1 width=$2 count=$3 place=
while [ $count -gt 0 ]; do
    # Type and flags, offset, address, physical address, sizes in file and memory, alignment.
    set -- $(od -A n -v -t d8 -j $header -N 56 /proc/kcore)
    if [ $3 -le $((start)) ] && [ $((start)) -lt $(($3 + $6)) ]; then
        place=$(($2 + start - $3))
    fi
    header=$((header + width)) count=$((count - 1))
done
dd if=/proc/kcore of=/index bs=65536 iflag=skip_bytes,count_bytes skip=$place count=$size 2>/dev/null
echo "== hello from $(uname -srm)"
echo "== place $start $size"
echo "== index"
gzip -c /index | base64
echo "== functions"
awk '$2 ~ /[tTwW]/ { print $1 }' /proc/kallsyms | gzip -c | base64
echo "== end"
reboot -f
"#;

/// Builds and boots the kernels of the named machines; all of them if none is named.
#[derive(clap::Args)]
pub struct Wanted {
    #[command(flatten)]
    kernels: tree::Machines,
    #[command(flatten)]
    command: SframeCommand,
}

pub fn vmlinux(proof: &mut Proof, wanted: &Wanted) -> Result<()> {
    let sframe = &wanted.command.path()?;
    let front = crate::folders::workspace().join("examples/kernel/ld-vmlinux");
    let prefix = proof.prefix.clone();
    let linker = Linker { prefix: &prefix, front: Some(&front), options: "" };
    each_machine(proof, "vmlinux", &wanted.kernels, |proof, tree, machine| {
        let build = Build::new(tree, machine, "vmlinux", &linker)?;
        let (flags, said) = frames(machine, &build.folder)?;
        let version = build.all(OPTIONS, &[&format!("KCFLAGS={flags}")])?;
        proof.note(format!(
            "\n## {}: Linux {version}, {}\n\n- {said}",
            machine.name,
            crate::records::today()?
        ))?;
        let table = Table::read(&build.folder.join("vmlinux"))?;
        proof.note(format!("- {}", table.place()))?;
        rows(proof, sframe, &build)?;
        let console = build.run(INIT, &[], " nokaslr")?;
        proof.note(format!("- {}", build.sizes()?))?;
        guest(proof, sframe, &build, &table, &console)
    })
}

/// The compiler's options for frames, and where the frames come from. One machine's kernel gets them from
/// `.eh_frame`, as with assemblers that do not know SFrame.
fn frames(machine: &Machine, folder: &Path) -> Result<(String, String)> {
    if machine.name == "arm64" {
        return Ok((TABLES.to_owned(), "frames derived from .eh_frame".to_owned()));
    }
    let assembler = peers::program(&format!("{}as", machine.cross))?;
    let prefix = folder.join("as-with-frames");
    std::fs::create_dir_all(&prefix)?;
    folders::link(&assembler, &prefix.join("as"))?;
    let flags = format!("-B{}/ {TABLES} -Wa,--gsframe", prefix.display());
    Ok((flags, format!("frames by {}", version(&assembler)?)))
}

/// The table in the file, and what the file's symbols say about it.
struct Table {
    address: u64,
    data: Vec<u8>,
    /// Start and end of the kernel in memory.
    kernel: [u64; 2],
    /// Functions by address, with size and name.
    functions: BTreeMap<u64, (u64, String)>,
}

impl Table {
    fn read(file: &Path) -> Result<Table> {
        let bytes = std::fs::read(file)?;
        let kernel = object::File::parse(&*bytes)?;
        let section = kernel.section_by_name(".sframe_idx").context("vmlinux has no .sframe_idx")?;
        let flags = SectionFlags::Elf { sh_flags: elf::SHF_ALLOC.into() };
        ensure!(section.flags() == flags, "flags of .sframe_idx: {:?}", section.flags());
        ensure!(kernel.section_by_name(".sframe").is_none(), "vmlinux has .sframe, too");
        let symbol = |name: &str| {
            let symbol = kernel.symbol_by_name(name).with_context(|| format!("no symbol {name}"))?;
            anyhow::Ok(symbol.address())
        };
        let [address, end] = [symbol("__start_sframe")?, symbol("__stop_sframe")?];
        ensure!([address, end - address] == [section.address(), section.size()], "the symbols are elsewhere");
        let memory = [symbol("_stext")?, symbol("_end")?];
        ensure!(memory[0] <= address && end <= memory[1], "{address:x} is not between {memory:x?}");
        let functions = kernel.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
        let mut functions: Vec<_> =
            functions.map(|f| (f.address(), (f.size(), f.name().unwrap_or_default().to_owned()))).collect();
        // If several start at one address, the largest stays.
        functions.sort();
        Ok(Table {
            address,
            data: section.data()?.to_owned(),
            kernel: memory,
            functions: functions.into_iter().collect(),
        })
    }

    fn place(&self) -> String {
        let [start, end] = self.kernel;
        format!(
            "`.sframe_idx`: read-only, {} bytes at 0x{:x}, between `_stext` 0x{start:x} and `_end` 0x{end:x}",
            self.data.len(),
            self.address
        )
    }
}

/// Checks that `sframe verify` finds no fault in the table of vmlinux. A row may contradict `.eh_frame` only
/// if it does so in the objects already.
fn rows(proof: &mut Proof, sframe: &Path, build: &Build<'_>) -> Result<()> {
    let verify = |files: &[&str]| -> Result<(BTreeSet<String>, String)> {
        let mut command = Command::new(sframe);
        command.current_dir(&build.folder).args(["verify", "-v", "--all"]).args(files);
        let report = String::from_utf8(command.output()?.stdout)?;
        ensure!(report.contains(" 0 errors, 0 warnings"), "{report}");
        let (wrong, summary): (Vec<&str>, Vec<&str>) =
            report.lines().map(str::trim).partition(|line| line.contains(": expected "));
        let function = |line: &&str| Some(line.split_once('<')?.1.split_once('+')?.0.to_owned());
        Ok((wrong.iter().filter_map(function).collect(), summary.join("; ")))
    };
    let (wrong, summary) = verify(&["vmlinux"])?;
    ensure!(summary.contains(".eh_frame: ") && summary.contains(" compared"), "{summary}");
    proof.note(format!("- `sframe verify vmlinux`: {summary}"))?;
    if wrong.is_empty() {
        return Ok(());
    }
    let line = build.link_of("vmlinux")?;
    let (before, _) =
        verify(&line.iter().map(String::as_str).filter(|w| w.ends_with(".a")).collect::<Vec<_>>())?;
    let ours: Vec<&String> = wrong.difference(&before).collect();
    ensure!(ours.is_empty(), "functions that are right in their objects: {ours:?}");
    proof.note(format!(
        "  - the rows of these {} functions contradict `.eh_frame` in the objects already: they are the assembler's",
        wrong.len()
    ))
}

/// Compares what the guest printed with the file.
fn guest(proof: &mut Proof, sframe: &Path, build: &Build<'_>, table: &Table, console: &str) -> Result<()> {
    let part = |name: &str| -> Result<&str> {
        let (_, rest) = console.split_once(&format!("== {name}")).with_context(|| format!("no {name}"))?;
        Ok(rest.split("== ").next().unwrap_or("").trim())
    };
    let bytes = |name: &str| -> Result<Vec<u8>> {
        let file = build.folder.join(format!("guest.{name}"));
        std::fs::write(file.with_extension("base64"), part(name)?)?;
        let command = "base64 -d <\"$1\" | gzip -dc >\"$2\"";
        let mut shell = Command::new("sh");
        shell.args(["-ec", command, "sh"]).arg(file.with_extension("base64")).arg(&file);
        output(&mut shell)?;
        Ok(std::fs::read(&file)?)
    };
    let (index, listed) = (bytes("index")?, String::from_utf8(bytes("functions")?)?);
    let place = format!("0x{:016x} {}", table.address, table.data.len());
    ensure!(part("place")? == place, "the guest's section is at {}, not {place}", part("place")?);
    ensure!(index == table.data, "the guest reads other bytes than the file has");
    let system = part("hello from")?;
    proof.note(format!("- in {system}, `/proc/kcore` has the same {} bytes there", index.len()))?;
    let address = format!("0x{:x}", table.address);
    let mut verify = Command::new(sframe);
    verify.args(["verify", "-v", "--address", &address, "-"]);
    let report = output(verify.stdin(File::open(build.folder.join("guest.index"))?))?;
    ensure!(report.contains(" 0 errors, 0 warnings"), "{report}");
    proof.note(format!("  - `sframe verify --address {address} -`: {}", report.trim()))?;
    proof.note(format!("  - {}", functions(table, &index, &listed)?))
}

/// Checks that every function of the table is a function of the kernel, by the addresses that the guest
/// listed, or a weak definition that another one replaced. The latter is code between functions, without a
/// symbol.
fn functions(table: &Table, index: &[u8], listed: &str) -> Result<String> {
    let listed: BTreeSet<u64> =
        listed.lines().map(|line| u64::from_str_radix(line, 16)).collect::<Result<_, _>>()?;
    let section = Section::new(index, table.address);
    let rows: Vec<Fde> = section.blobs().flat_map(|blob| blob.fdes().collect::<Vec<_>>()).collect();
    let (known, replaced): (Vec<&Fde>, Vec<&Fde>) = rows.iter().partition(|f| listed.contains(&f.address));
    for function in &replaced {
        let (start, end) = (function.address, function.address + u64::from(function.size));
        let before = table.functions.range(..start).next_back();
        let within = before.filter(|(address, (size, _))| **address + size > start);
        ensure!(within.is_none(), "a row for {start:x}, which is inside of {within:?}");
        ensure!(listed.range(start..end).next().is_none(), "{start:x} to {end:x} holds another function");
    }
    let sized = |address: u64| table.functions.get(&address).filter(|(size, _)| *size > 0);
    let other = known.iter().filter_map(|f| Some((f, sized(f.address)?)));
    let other: Vec<&str> = other
        .filter(|(f, (size, _))| *size != u64::from(f.size))
        .map(|(_, (_, name))| name.as_str())
        .collect();
    ensure!(other.is_empty(), "of another size than their symbols: {other:?}");
    Ok(format!(
        "{} functions: {} at addresses that `/proc/kallsyms` lists (of {} there), as large as their symbols say; \
         {} without a symbol, between functions: weak definitions that others replace",
        rows.len(),
        known.len(),
        listed.len(),
        replaced.len(),
    ))
}
