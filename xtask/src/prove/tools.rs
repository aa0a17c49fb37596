//! Proves the tools around the linker: `attach` on well-known programs, and a project that is built through
//! the assembler wrapper.

use super::proof::Proof;
use crate::commands::output;
use crate::{install, peers};
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs, and arguments that make each show that it works, wherever it lies.
const PROGRAMS: [(&str, &[&str]); 26] = [
    ("bash", &["-c", "for i in 1 2 3; do echo $((i * i)); done; trap 'echo bye' EXIT"]),
    ("python3", &["-c", "import json, ctypes, re; print(json.dumps([re.sub('a', 'b', 'banana'), 1 / 3]))"]),
    ("git", &["--version"]),
    ("cc1", &["-quiet", "-O2", "program.i", "-o", "-"]),
    ("cc1plus", &["-quiet", "-O2", "program.ii", "-o", "-"]),
    ("gcc", &["-dumpmachine"]),
    ("as", &["--version"]),
    ("ld", &["--version"]),
    ("cargo", &["--version", "--verbose"]),
    ("rustc", &["--version", "--verbose"]),
    (
        "perl",
        &[
            "-e",
            "my %h = map { $_ => $_ ** 2 } 1 .. 9; print join(',', map { $h{$_} } sort keys %h), \"\\n\"",
        ],
    ),
    ("gdb", &["--batch", "-ex", "print 6 * 7"]),
    ("vim", &["--version"]),
    ("node", &["-e", "console.log([1, 2, 3].map(x => x * x).join())"]),
    ("sqlite3", &[":memory:", "select sum(value) from generate_series(1, 10)"]),
    ("openssl", &["dgst", "-sha256", "program.i"]),
    ("curl", &["--version"]),
    ("ssh", &["-G", "example.org"]),
    ("make", &["--version"]),
    ("tar", &["--version"]),
    ("find", &["program.i"]),
    ("grep", &["-c", "int", "program.i"]),
    ("sed", &["-n", "s/int/long/p", "program.i"]),
    ("sort", &["-r", "program.i"]),
    ("xz", &["--version"]),
    ("ls", &["program.i"]),
];

/// Libraries, each with a command that loads it.
const LIBRARIES: [(&str, &[&str]); 3] = [
    ("libc.so.6", &["bash", "-c", "cat /proc/self/maps; printf '%s\\n' {1..3} | sort -r"]),
    ("libstdc++.so.6", &["sh", "-c", "./throws && grep -m1 x /proc/self/maps"]),
    ("libm.so.6", &["sh", "-c", "./sine"]),
];

const THROWS: &str = "#include <iostream>\n#include <fstream>\n#include <stdexcept>\nint main() { try { throw std::runtime_error(\"caught\"); }\n\
     catch (std::exception &e) { std::cout << e.what() << '\\n' << std::ifstream(\"/proc/self/maps\").rdbuf(); } }\n";

const SINE: &str = "#include <math.h>\n#include <stdio.h>\nint main(int count, char **words) { FILE *maps = fopen(\"/proc/self/maps\", \"r\");\n\
     printf(\"%.6f\\n\", sin(count)); for (int c; words && (c = getc(maps)) != EOF;) putchar(c); }\n";

/// At least this many files must have been tried.
const ENOUGH: usize = 20;

/// Attaches frames to real programs, which must then behave as before.
pub fn attach(proof: &mut Proof, sframe: &Path) -> Result<()> {
    let readelf = peers::program("readelf")?;
    std::fs::write(
        proof.folder.join("program.i"),
        "int f(int x) { return x * 3; }\nint main(void) { return f(0); }\n",
    )?;
    std::fs::write(
        proof.folder.join("program.ii"),
        "struct A { virtual ~A(); int x; }; A::~A() { x = 1; }\n",
    )?;
    std::fs::write(proof.folder.join("throws.cc"), THROWS)?;
    proof.tool("g++", &["-O1", "-o", "throws", "throws.cc"])?;
    std::fs::write(proof.folder.join("sine.c"), SINE)?;
    proof.tool("gcc", &["-O1", "-o", "sine", "sine.c", "-lm"])?;
    proof.note("| file | kind | bytes before | after | functions | runs |\n|---|---|---|---|---|---|")?;
    let mut count = 0;
    for (name, words) in PROGRAMS {
        let Some(original) = locate(name)? else {
            proof.note(format!("| {name} | not here | | | | |"))?;
            continue;
        };
        let new = proof.folder.join("new").join(name);
        let (kind, functions) = attach_one(proof, sframe, &readelf, &original, &new, count)?;
        let run = |program: &Path| {
            let mut command = Command::new(program);
            // Programs that look for their files relative to their own place find them through these
            // variables.
            command
                .arg0(name)
                .current_dir(&proof.folder)
                .args(words)
                .env("LC_ALL", "C")
                .env("PYTHONHOME", "/usr");
            command.env_remove("SFRAME_PEERS").env("LD_LIBRARY_PATH", library_folder(&original));
            output(&mut command).with_context(|| name.to_owned())
        };
        let (before, after) = (run(&original)?, run(&new)?);
        ensure!(
            before.replace(&shown(&original), "") == after.replace(&shown(&new), ""),
            "{name}: {before:?}, {after:?}"
        );
        row(proof, name, &kind, (&original, &new), &functions)?;
        count += 1;
    }
    for (name, words) in LIBRARIES {
        let original = PathBuf::from(proof.tool("gcc", &[&format!("-print-file-name={name}")])?.trim())
            .canonicalize()?;
        let new = proof.folder.join("lib").join(name);
        let (kind, functions) = attach_one(proof, sframe, &readelf, &original, &new, count)?;
        let mut command = Command::new(words[0]);
        command.current_dir(&proof.folder).args(&words[1..]).env("LD_LIBRARY_PATH", proof.folder.join("lib"));
        let text = output(&mut command)?;
        let loaded = text.contains(&shown(&new)) || name == "libstdc++.so.6" && text.contains("caught");
        ensure!(loaded, "{name} was not loaded: {text}");
        row(proof, name, &kind, (&original, &new), &functions)?;
        count += 1;
    }
    let loader = Path::new("/lib64/ld-linux-x86-64.so.2").canonicalize()?;
    let new = proof.folder.join("new/ld.so");
    let (kind, functions) = attach_one(proof, sframe, &readelf, &loader, &new, count)?;
    let text = proof.tool(&new, &["/bin/bash", "-c", "echo loaded"])?;
    ensure!(text == "loaded\n", "ld.so says {text:?}");
    row(proof, "ld.so", &kind, (&loader, &new), &functions)?;
    ensure!(count + 1 >= ENOUGH, "only {} files here, expected {ENOUGH}", count + 1);
    proof.note(format!(
        "\n{} files. Each does what it did before; `readelf -aW` has no new complaint and shows `.sframe` and `GNU_SFRAME`; \
         every row agrees with `.eh_frame` (`sframe verify`). Every third was stripped before, and got a new build-id.",
        count + 1
    ))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn row(
    proof: &mut Proof,
    name: &str,
    kind: &str,
    (before, after): (&Path, &Path),
    functions: &str,
) -> Result<()> {
    let size = |path: &Path| std::fs::metadata(path).map(|m| m.len());
    proof.note(format!("| {name} | {kind} | {} | {} | {functions} | yes |", size(before)?, size(after)?))
}

/// The program with a name: gcc's own, the one behind rustup's proxies, or one on `PATH`.
fn locate(name: &str) -> Result<Option<PathBuf>> {
    let path = match name {
        "cc1" | "cc1plus" => output(Command::new("gcc").arg(format!("-print-prog-name={name}")))?,
        "cargo" | "rustc" => {
            let root = output(Command::new("rustc").args(["--print", "sysroot"]))?;
            format!("{}/bin/{name}", root.trim())
        }
        _ => format!("/usr/bin/{name}"),
    };
    let path = PathBuf::from(path.trim());
    let elf = std::fs::read(&path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"));
    Ok(if elf { Some(path.canonicalize()?) } else { None })
}

/// The folder with a program's own libraries, if it is beside the program's folder.
fn library_folder(program: &Path) -> PathBuf {
    program.parent().and_then(Path::parent).unwrap_or(Path::new("/usr")).join("lib")
}

/// Copies a file, attaches frames and checks the result. Returns the kind of the file and the number of its
/// functions.
fn attach_one(
    proof: &Proof,
    sframe: &Path,
    readelf: &Path,
    original: &Path,
    new: &Path,
    number: usize,
) -> Result<(String, String)> {
    std::fs::create_dir_all(new.parent().context("no folder")?)?;
    let _ = std::fs::remove_file(new);
    let file = shown(new);
    let mut words = vec!["attach"];
    if number % 3 == 2 {
        proof.tool("strip", &["-o", &file, &shown(original)])?;
        let notes = proof.tool(readelf, &["-nW", &file])?;
        words.extend(notes.contains("Build ID").then_some("--build-id=recompute"));
    } else {
        std::fs::copy(original, new)?;
    }
    words.push(&file);
    let dump = || Command::new(readelf).arg("-aW").arg(new).output();
    let before = dump()?;
    proof.tool(sframe, &words)?;
    let after = dump()?;
    let (text, complaints) = (String::from_utf8_lossy(&after.stdout), String::from_utf8_lossy(&after.stderr));
    let same = after.status.success() && after.stderr == before.stderr;
    ensure!(same, "{file}: readelf has something new to say: {complaints}");
    ensure!(text.contains(" .sframe ") && text.contains("GNU_SFRAME "), "{file}: readelf shows no SFrame");
    let report = proof.tool(sframe, &["verify", "--verbose", &file])?;
    let functions =
        report.split("SFrame V3, ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("?").to_owned();
    let kind =
        text.lines().find_map(|line| line.trim().strip_prefix("Type:")).unwrap_or("").trim().to_owned();
    let kind = if number % 3 == 2 { format!("{kind}, stripped") } else { kind };
    Ok((kind, functions))
}

/// Objects in the project.
pub(super) const OBJECTS: usize = 120;

/// Builds a C++ project with and without the assembler wrapper, and links both with gold, lld and this
/// linker.
pub fn split_project(proof: &mut Proof, sframe: &Path, wrapper: &Path) -> Result<()> {
    let wrapper = install::install_assembler(wrapper, &proof.folder.join("installed"))?;
    let assembler = peers::program("as")?;
    let (plain, version) = proof.assembler_folder("plain-as", &assembler)?;
    proof.note(format!("{OBJECTS} objects, frames by {version}\n"))?;

    write_project(&proof.folder, OBJECTS)?;
    for (folder, prefix) in [("whole", &plain), ("split", &wrapper)] {
        std::fs::create_dir_all(proof.folder.join(folder))?;
        compile(proof, ("g++", "*.cc"), folder, prefix, &assembler)?;
    }
    let mut parts = 0;
    for name in objects(OBJECTS) {
        let report = |folder: &str| -> Result<String> {
            let file = format!("{folder}/{name}");
            Ok(proof.tool(sframe, &["verify", "--verbose", &file])?.replace(&file, "FILE"))
        };
        let (before, after) = (report("whole")?, report("split")?);
        ensure!(before == after && before.contains(" 0 wrong"), "{name}: {before}\n{after}");
        parts += proof.tool("readelf", &["-SW", &format!("split/{name}")])?.matches(" .sframe ").count();
    }
    proof
        .note(format!("`sframe verify` says the same of every object before and after; {parts} parts.\n"))?;
    let ours = proof.prefix.join("ld");
    proof.note("| linker | objects | mode | result | functions with frames |\n|---|---|---|---|---|")?;
    for (family, linker) in [("gold", peer("gold")?), ("lld", peer("lld")?), ("sframe-ld", ours)] {
        for folder in ["whole", "split"] {
            for mode in ["final", "--gc-sections", "-r"] {
                link(proof, sframe, (family, &linker), folder, mode)?;
            }
        }
    }
    Ok(())
}

/// The names of the project's objects.
pub(super) fn objects(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|n| format!("part{n}.o")).chain(["main.o".to_owned()])
}

/// A linker in the folder of tools.
pub(super) fn peer(family: &str) -> Result<PathBuf> {
    let folders = std::fs::read_dir(peers::folder()).context("no peers; run cargo xtask peers")?;
    let named = |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(family));
    let mut found: Vec<PathBuf> =
        folders.flatten().map(|e| e.path()).filter(named).map(|p| p.join("ld")).collect();
    found.retain(|path| path.is_file());
    found.sort();
    found.pop().with_context(|| format!("no {family}; run cargo xtask peers"))
}

/// Writes sources that share templates, inline functions and virtual tables, throw exceptions, and contain
/// code that nobody calls.
pub(super) fn write_project(folder: &Path, count: usize) -> Result<()> {
    let header = "#include <map>\n#include <stdexcept>\n#include <string>\n#include <vector>\n\
        struct Shape { virtual ~Shape() {} virtual int area(int) const { return 0; } };\n\
        template <int N> struct Square : Shape { int area(int x) const override { return check(x) * x * N; }\n\
          static int check(int x) { if (x > 1000) throw std::out_of_range(std::to_string(x)); return x; } };\n\
        inline std::map<std::string, int> &counts() { static std::map<std::string, int> map; return map; }\n\
        inline int count(const std::string &name, int n) { return counts()[name] += n; }\n\
        template <class T> int sum(const std::vector<T> &all) { int s = 0; for (auto &x : all) s += x; return s; }\n";
    write_new(&folder.join("project.h"), header)?;
    let (mut declared, mut called) = (String::new(), String::new());
    for n in 0..count {
        let text = format!(
            "#include \"project.h\"\nnamespace {{ struct Local : Square<{kind}> {{ int area(int x) const override {{\n\
             return Square<{kind}>::area(x) + {n}; }} }}; }}\n\
             int part{n}(int x) {{ Local local; const Shape &shape = local; std::vector<int> all(x, {n});\n\
             try {{ return count(\"part\", shape.area(x)) + sum(all) + shape.area(x + {far}); }}\n\
             catch (std::out_of_range &error) {{ return count(error.what(), 1); }} }}\n\
             int unused{n}(int x) {{ std::string s(x, 'u'); return count(s, {n}); }}\n",
            kind = n % 7,
            far = if n % 3 == 0 { 2000 } else { 0 },
        );
        write_new(&folder.join(format!("part{n}.cc")), &text)?;
        writeln!(declared, "int part{n}(int);")?;
        writeln!(called, "sum += part{n}({});", n % 5)?;
    }
    let main = format!(
        "#include <cstdio>\n{declared}int main() {{ long sum = 0;\n{called}std::printf(\"%ld\\n\", sum); }}\n"
    );
    write_new(&folder.join("main.cc"), &main)
}

/// Writes a file, unless it has these contents already: otherwise the objects made from it would count as
/// old.
fn write_new(path: &Path, text: &str) -> Result<()> {
    let known = std::fs::read(path).is_ok_and(|old| old == text.as_bytes());
    if !known {
        std::fs::write(path, text)?;
    }
    Ok(())
}

/// Compiles the sources whose names match, two at a time as a build would. Objects that are up to date stay.
pub(super) fn compile(
    proof: &Proof,
    (compiler, sources): (&str, &str),
    folder: &str,
    prefix: &Path,
    assembler: &Path,
) -> Result<()> {
    let makefile = "objects:=$(patsubst %.cc,$(OUT)/%.o,$(wildcard $(SOURCES)))\n.PHONY: all\nall: $(objects)\n\
         $(OUT)/%.o: %.cc project.h $(AS)/as\n\t$(CXX) -B$(AS) -O1 -fPIC -ffunction-sections -Wa,--gsframe -c -o $@ $<\n";
    write_new(&proof.folder.join("Makefile"), makefile)?;
    std::fs::create_dir_all(proof.folder.join(folder))?;
    let mut command = Command::new(peers::program("make")?);
    command.current_dir(&proof.folder).args(["-j2", "-s"]).env("SFRAME_REAL_AS", assembler);
    command.arg(format!("OUT={folder}")).arg(format!("AS={}", prefix.display()));
    command.arg(format!("CXX={compiler}")).arg(format!("SOURCES={sources}"));
    output(&mut command).map(|_| ())
}

/// Links, checks the output against the known behaviour of the linker, and records it.
fn link(
    proof: &mut Proof,
    sframe: &Path,
    (family, linker): (&str, &Path),
    folder: &str,
    mode: &str,
) -> Result<()> {
    let out = format!("{folder}/{family}{}", mode.replace('-', "_"));
    let inputs: Vec<String> = objects(OBJECTS).map(|name| format!("{folder}/{name}")).collect();
    let mut command = if mode == "-r" {
        let mut command = Command::new(linker);
        command.args(["-r", "-o", &out]);
        command
    } else {
        let mut command = Command::new("g++");
        command.arg(format!("-B{}", linker.parent().context("no folder")?.display()));
        command.args(["-pie", "-o", &out]).args((mode == "--gc-sections").then_some("-Wl,--gc-sections"));
        command
    };
    let _ = std::fs::remove_file(proof.folder.join(&out));
    let result = command.current_dir(&proof.folder).args(&inputs).output()?;
    let linked = result.status.success();
    let text = String::from_utf8_lossy(&result.stderr).into_owned();
    let violation = text.contains("discarded section");
    // In a plain final link, lld and gold refuse whole sections, and so does this linker without its own
    // splitting.
    let refused = folder == "whole" && mode == "final";
    ensure!(linked != refused || family == "sframe-ld", "{family} {folder} {mode}: {text}");
    ensure!(folder == "whole" || text.is_empty(), "{family} {folder} {mode}: {text}");
    let mut verdict = match (linked, violation) {
        (false, true) => "refused: relocations to discarded sections",
        (false, false) => bail!("{family} {folder} {mode}: {text}"),
        (true, true) => "links, complains of discarded sections",
        (true, false) => "links",
    }
    .to_owned();
    let mut functions = String::new();
    if linked {
        let dump = Command::new(sframe).args(["dump", &out]).current_dir(&proof.folder).output()?;
        let count =
            String::from_utf8_lossy(&dump.stdout).lines().filter(|l| l.starts_with("    function ")).count();
        functions = count.to_string();
        if mode == "-r" {
            let dead = dead_relocations(&proof.tool("readelf", &["-rW", &out])?);
            ensure!(folder == "whole" || dead == 0, "{family}: {dead} dead relocations");
            write!(verdict, ", {dead} dead relocations in .rela.sframe")?;
        } else {
            if family == "sframe-ld" {
                install::made_here(&proof.folder.join(&out))?;
            }
            let text = proof.tool(proof.folder.join(&out), &[])?;
            ensure!(text.trim().parse::<i64>().is_ok(), "{out} says {text:?}");
            ensure!(
                count > 0 || family == "gold" && mode == "--gc-sections" || folder == "whole",
                "{out} lost its frames"
            );
            write!(verdict, ", runs, says {}", text.trim())?;
        }
        if folder == "split" && count > 0 {
            proof.tool(sframe, &["verify", &out])?;
        }
    }
    proof.note(format!("| {family} | {folder} | {mode} | {verdict} | {functions} |"))
}

/// The number of relocations of SFrame sections that a linker left without meaning, from the output of
/// `readelf -rW`.
pub(super) fn dead_relocations(text: &str) -> usize {
    let tables = text.split("Relocation section ").filter(|table| table.starts_with("'.rela.sframe'"));
    tables.map(|table| table.matches("R_X86_64_NONE").count()).sum()
}
