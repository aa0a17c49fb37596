//! Proves kernel modules: two out-of-tree modules are built with Debian's kernel headers, once with GNU ld
//! and then in every way in which this linker treats SFrame under `-r`. They are compared and verified, and
//! Debian's kernel loads them in an emulated machine.

use super::boot::{Files, boot};
use super::kernel::tree::Linker;
use super::packages::{self, Tools};
use super::proof::Proof;
use super::same;
use crate::commands::output;
use crate::peers;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// The modules.
const MODULES: [&str; 2] = ["proof_core", "proof_client"];

/// A way to build the modules.
struct Variant {
    name: &'static str,
    /// The options of this linker; `None` if GNU ld links.
    options: Option<&'static str>,
    /// If the assembler emits frames, the section that must contain them in the end.
    frames: Option<&'static str>,
    /// Whether the link of the module also gets `linker-scripts/kernel-module.ld`.
    script: bool,
}

const VARIANTS: [Variant; 5] = [
    Variant { name: "gnu", options: None, frames: None, script: false },
    Variant { name: "plain", options: Some(""), frames: None, script: false },
    Variant { name: "index", options: Some("--sframe-index"), frames: Some(".sframe_idx"), script: false },
    Variant { name: "named", options: Some("--sframe-index"), frames: Some(".sframe"), script: true },
    Variant { name: "merge", options: Some("--sframe=merge"), frames: Some(".sframe"), script: false },
];

/// What the machine does: it loads each pair, uses it, changes a parameter, and unloads it.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
dmesg -c > /dev/console.first
# The firmware leaves its last line open.
echo
uname -r
for variant in VARIANTS; do
    echo "== $variant"
    insmod /modules/$variant/proof_core.ko word=hello scale=4
    insmod /modules/$variant/proof_client.ko start=100
    cat /proc/sframe_proof
    echo 1 > /sys/module/proof_core/parameters/negate
    echo 5 > /sys/module/proof_core/parameters/scale
    cat /proc/sframe_proof
    (cd /sys/module/proof_core/parameters && grep . *)
    rmmod proof_client
    rmmod proof_core
    dmesg -c | grep -E 'proof_|Unknown|BUG|WARN|Oops' | grep -v taint | sed 's/^\[[^]]*\] //'
done
echo "== end"
reboot -f
"#;

/// The expected output for each pair.
const EXPECTED: &str = "\
one 4
seven 28
twenty 80
calls 6, sum 42, fault -14
one -5
seven -35
twenty -100
calls 9, sum 42, fault -14
negate:1
scale:5
word:hello
proof_core: loaded, word hello, scale 4
proof_client: sum 212 of 3 rows, 3 calls
proof_client: unloaded
proof_core: unloaded after 9 calls
";

pub fn modules(proof: &mut Proof, sframe: &Path) -> Result<()> {
    let tools = Tools::prepare()?;
    let headers = headers()?;
    let assembler = peers::program("as")?;
    let (_, version) = proof.assembler_folder("as", &assembler)?;
    let release = headers.file_name().unwrap_or_default().to_string_lossy().into_owned();
    proof.note(format!("{release}; frames by {version}\n"))?;

    for variant in &VARIANTS {
        build(proof, &tools, &headers, variant)?;
    }
    compare(proof)?;
    frames(proof, sframe)?;
    load(proof, &tools)
}

/// Debian's headers. Their makefile is changed to point to where they were unpacked.
fn headers() -> Result<PathBuf> {
    let root = packages::unpack("amd64", "linux-headers-amd64", "linux-")?;
    let sources = root.join("usr/src");
    let common = packages::entry(&sources, "linux-headers-")?;
    let own = PathBuf::from(common.display().to_string().replace("-common", "-amd64"));
    std::fs::write(own.join("Makefile"), format!("include {}/Makefile\n", common.display()))?;
    Ok(own)
}

/// Builds both modules and moves them to a folder with the variant's name. All variants are built in the same
/// folder, because debug information names it.
fn build(proof: &Proof, tools: &Tools, headers: &Path, variant: &Variant) -> Result<()> {
    let folder = proof.folder.join("modules");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    for entry in std::fs::read_dir(crate::folders::workspace().join("tests/fixtures/kernel/modules"))? {
        let entry = entry?;
        std::fs::copy(entry.path(), folder.join(entry.file_name()))?;
    }
    let mut command = tools.command("make");
    command.arg("-C").arg(headers).args(["-j2", "modules"]).arg(format!("M={}", folder.display()));
    match variant.options {
        None => command.arg("LD=ld.bfd"),
        Some(options) => {
            let linker = Linker { prefix: &proof.prefix, front: None, options };
            command.arg(format!("LD={}", linker.write(&proof.folder, "ld.bfd")?.display()))
        }
    };
    if variant.frames.is_some() {
        let flags =
            format!("-B{}/ -Wa,--gsframe -fasynchronous-unwind-tables", proof.folder.join("as").display());
        command.args([format!("KCFLAGS={flags}"), format!("KAFLAGS={flags}")]);
    }
    if variant.script {
        let script = crate::folders::workspace().join("linker-scripts/kernel-module.ld");
        command.arg(format!("LDFLAGS_MODULE=-T {}", script.display()));
    }
    output(&mut command).with_context(|| variant.name)?;
    let result = proof.folder.join(variant.name);
    let _ = std::fs::remove_dir_all(&result);
    Ok(std::fs::rename(folder, result)?)
}

/// Compares this linker's files with GNU ld's.
fn compare(proof: &mut Proof) -> Result<()> {
    proof.note("Without frames, the same as GNU ld makes, up to order:\n")?;
    for name in ["proof_core.o", "proof_core.ko", "proof_client.ko"] {
        let said = same::same(&proof.folder.join("plain").join(name), &proof.folder.join("gnu").join(name))
            .with_context(|| name.to_owned())?;
        proof.note(format!("- {name}: {said}"))?;
    }
    for name in ["proof_core.mod.c", "proof_client.mod.c", "Module.symvers"] {
        let read = |variant: &str| -> Result<Vec<String>> {
            let text = std::fs::read_to_string(proof.folder.join(variant).join(name))?;
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            Ok(lines)
        };
        let (ours, theirs) = (read("plain")?, read("gnu")?);
        ensure!(ours == theirs, "{name} differs:\n{ours:#?}\n{theirs:#?}");
        proof.note(format!("- {name}, by modpost: the same {} lines", ours.len()))?;
    }
    Ok(())
}

/// Each module has one table, which must verify.
fn frames(proof: &mut Proof, sframe: &Path) -> Result<()> {
    proof.note("\n| variant | module | section | bytes | `sframe verify` |\n|---|---|---|---|---|")?;
    for variant in &VARIANTS {
        let Some(section) = variant.frames else { continue };
        for module in MODULES {
            let file = format!("{}/{module}.ko", variant.name);
            let headers = proof.tool("readelf", &["-SW", &file])?;
            let found: Vec<&str> = headers.lines().filter(|line| line.contains(" .sframe")).collect();
            ensure!(found.len() == 1, "{file}: {found:?}");
            let mut fields = found[0].split_whitespace().skip_while(|word| !word.starts_with(".sframe"));
            let name = fields.next().unwrap_or("");
            ensure!(name == section, "{file} has {name}, not {section}");
            let size = usize::from_str_radix(fields.nth(3).context("no size")?, 16)?;
            let report = proof.tool(sframe, &["verify", &file])?;
            ensure!(report.contains(" 0 errors, 0 warnings") && report.contains(", 0 wrong"), "{report}");
            let said = report
                .lines()
                .map(|line| line.trim().trim_start_matches(&format!("{file}: ")))
                .collect::<Vec<_>>();
            proof.note(format!(
                "| {} | {module} | {section} | {size} | {} |",
                variant.name,
                said.join("; ")
            ))?;
        }
    }
    Ok(())
}

/// Debian's kernel loads all of them.
fn load(proof: &mut Proof, tools: &Tools) -> Result<()> {
    let image = packages::unpack("amd64", "linux-image-amd64", "linux-image-")?;
    let busybox = packages::unpack("amd64", "busybox-static", "")?;
    let mut files = Files::default();
    for folder in ["dev", "proc", "sys", "bin", "modules"] {
        files.folder(folder);
    }
    files.console().file("bin/busybox", &std::fs::read(busybox.join("bin/busybox"))?);
    for variant in &VARIANTS {
        files.folder(&format!("modules/{}", variant.name));
        for module in MODULES {
            let file = format!("{}/{module}.ko", variant.name);
            files.file(&format!("modules/{file}"), &std::fs::read(proof.folder.join(&file))?);
        }
    }
    let names = VARIANTS.map(|variant| variant.name).join(" ");
    files.file("init", INIT.replace("VARIANTS", &names).as_bytes());
    let initrd = proof.folder.join("modules.cpio");
    files.write(&initrd)?;
    let kernel = packages::entry(&image.join("boot"), "vmlinuz-")?;
    let console = boot(tools, "qemu-system-x86_64", &[], &kernel, &initrd, "console=ttyS0 quiet panic=-1")?;
    ensure!(console.contains("== end"), "the machine did not get to the end:\n{console}");
    let mut parts = console.split("== ");
    let release = parts.next().unwrap_or("").trim().lines().last().unwrap_or("").to_owned();
    for part in parts.filter(|part| !part.starts_with("end")) {
        let (variant, said) = part.split_once('\n').context("nothing said")?;
        ensure!(said == EXPECTED, "{variant} says:\n{said}\nnot:\n{EXPECTED}");
    }
    proof.note(format!(
        "\nIn Linux {release} on an emulated machine, each pair ({names}) loads, works, takes parameters, and unloads; it says:\n\n```\n{EXPECTED}```"
    ))
}
