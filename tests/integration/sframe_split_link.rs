//! `--sframe-split`: objects with one `.sframe` for all their text link as if the assembler had split it.

use crate::need;
use crate::support::elf::*;
use crate::support::sframe::{output_blobs, v3_source};
use crate::support::{Work, tools};

const VERSIONS: [&str; 4] = ["v1-gas2.40", "v2-gas2.44", "v2e1-gas2.45", "v3-gas2.47"];
const MAIN: &str = "
int ext(int x) { return x + 1; }
int use_a(int); int use_b(int);
int main() { return use_a(1) - use_b(1); }
";

/// Two files that define the same COMDAT groups and have one `.sframe` each for all their text, and both
/// after `sframe split`.
fn objects(work: &Work, version: &str) -> [String; 5] {
    let main = work.cc("main", MAIN, &["-fPIE"]);
    let [inl, inl2] = ["inl", "inl2"].map(|name| work.fixture(&format!("{version}/{name}.x86_64.o")));
    let [first, second] = [("first.o", &inl), ("second.o", &inl2)].map(|(out, object)| {
        work.sframe(&["split", "-o", out, object]).quiet();
        out.to_owned()
    });
    [main, inl, inl2, first, second]
}

#[test]
fn outputs_are_those_of_split_objects() {
    for version in VERSIONS {
        let work = Work::new();
        let [main, inl, inl2, first, second] = objects(&work, version);
        work.gxx(&["-o", "refused", &main, &inl, &inl2]).fails();
        for options in [&["-no-pie"][..], &["-pie"], &["-no-pie", "-static"], &["-pie", "-Wl,--gc-sections"]]
        {
            let link = |out: &str, objects: [&String; 3], more: &[&str]| {
                let mut args = vec!["-o", out, "-Wl,--build-id=none"];
                args.extend(objects.map(String::as_str));
                args.extend(options.iter().chain(more));
                work.gxx(&args).quiet();
            };
            link("whole", [&main, &inl, &inl2], &["-Wl,--sframe-split"]);
            link("split", [&main, &first, &second], &[]);
            assert!(work.read("whole") == work.read("split"), "{version} {options:?}");
            work.run("whole");
            check_every_text_is_described(&work, "whole");
        }
        work.ld(&["-r", "--sframe-split", "-o", "whole.o", &inl, &inl2]).quiet();
        work.ld(&["-r", "-o", "split.o", &first, &second]).quiet();
        assert!(work.read("whole.o") == work.read("split.o"), "{version} -r");
        work.gxx(&["-o", "later", &main, "whole.o"]).quiet();
        check_every_text_is_described(&work, "later");
    }
}

/// Checks that a file has no dead row and verifies.
#[track_caller]
fn check_every_text_is_described(work: &Work, file: &str) {
    let elf = work.elf_unchecked(file);
    let rows: Vec<_> = output_blobs(&elf).into_iter().flat_map(|blob| blob.rows).collect();
    assert!(!rows.is_empty() && rows.iter().all(|row| row.size > 0), "{rows:x?}");
    for name in ["use_a", "use_b", "_Z13shared_inlinei"] {
        if let Some(symbol) = elf.find_symbol(name) {
            assert_eq!(rows.iter().filter(|row| row.start == symbol.value).count(), 1, "{name}");
        }
    }
    let verified = work.verified(file);
    assert!(verified.contains(", 0 wrong"), "{verified}");
}

#[test]
fn groups_and_order_stay_under_r() {
    let work = Work::new();
    let [_, inl, inl2, ..] = objects(&work, "v3-gas2.47");
    work.ld(&["-r", "--sframe-split", "-o", "all.o", &inl, &inl2]).quiet();
    let elf = work.elf_unchecked("all.o");
    let groups = elf.groups();
    let frames = elf.sections_named(".sframe");
    assert!(frames.len() > 3, "{frames:?}");
    for section in frames {
        let text = &elf.sections[section.link as usize];
        assert!(section.flags & SHF_LINK_ORDER != 0 && text.flags & SHF_EXECINSTR != 0);
        let group = |index: usize| groups.iter().find(|g| g.members.contains(&index)).map(|g| g.index);
        assert_eq!(group(section.index), group(text.index), "{}", text.name);
        assert!(elf.relocations_for(section.index).iter().all(|r| r.kind != 0), "a dead relocation");
    }
}

#[test]
fn archive_members_are_split_and_the_link_is_reproduced() {
    let work = Work::new();
    let [main, inl, inl2, ..] = objects(&work, "v3-gas2.47");
    let library = work.ar("libinl.a", "", &[&inl, &inl2]);
    work.gxx(&["-o", "direct", &main, &inl, &inl2, "-Wl,--sframe-split,--build-id=none"]).quiet();
    let words = "-Wl,--sframe-split,--build-id=none,--reproduce=all.tar";
    work.gxx(&["-o", "program", &main, &library, words]).quiet();
    assert_eq!(work.functions("program").len(), work.functions("direct").len());
    work.run("program");
    let (tar, original) = (work.read("all.tar"), work.read(&library));
    assert!(memmem(&tar, &original), "the archive is stored as it was read");
}

fn memmem(haystack: &[u8], needle: &[u8]) -> bool {
    let mut at = 0;
    while let Some(found) = haystack[at..].iter().position(|&byte| byte == needle[0]) {
        at += found;
        if haystack[at..].starts_with(needle) {
            return true;
        }
        at += 1;
    }
    false
}

#[test]
fn sections_that_cannot_be_split_stay_whole() {
    let work = Work::new();
    let text = |name: &str| format!(".section .text.{name},\"ax\"\n.globl {name}\n{name}: ret\n");
    let frames = v3_source(".section .sframe,\"a\",@0x6ffffff4", "_start", "1");
    let start = format!("{}{}", text("_start"), text("other"));
    let unknown = work.s("unknown", &format!("{start}{}", frames.replacen("3,4,3", "9,4,3", 1)));
    let outcome = work.ld(&["-o", "program", "--sframe-split", &unknown]).ok();
    outcome.says(&["unknown.o:", ".sframe", "unknown version 9", "stays whole"]);
    assert_eq!(work.elf_unchecked("program").section(".sframe").size, 55);
    let fatal = work.ld(&["-o", "program", "--sframe-split", "--fatal-warnings", &unknown]).fails();
    fatal.says(&["unknown version 9"]);
    let corrupt = work.s("corrupt", &format!("{start}{}", frames.replacen("0xdee2", "0xdee3", 1)));
    let outcome = work.ld(&["-o", "program", "--sframe-split", &corrupt]).ok();
    assert_eq!(outcome.stderr.matches("warning").count(), 1, "{outcome}");
    outcome.says(&["corrupt.o:", "corrupt SFrame data"]);
    let twice = format!("{start}{frames}.reloc .-27, R_X86_64_PC64, other\n");
    let twice = work.s("twice", &twice);
    let outcome = work.ld(&["-o", "program", "--sframe-split", &twice]).ok();
    outcome.says(&["twice.o:", "relocation at 0x1c is not the only one", "stays whole"]);
}

#[test]
fn text_of_old_groups_dies_in_silence() {
    let work = Work::new();
    let once = ".section .gnu.linkonce.t.f,\"ax\"\n.weak f\nf: ret\n";
    let frames = |name: &str| {
        let one = v3_source(".section .sframe,\"a\",@0x6ffffff4", name, "1");
        format!(".section .text.{name},\"ax\"\n.globl {name}\n{name}: ret\n{one}")
    };
    let blob = v3_source(".section .sframe,\"a\",@0x6ffffff4", ".gnu.linkonce.t.f", "1");
    let a = work.s("a", &format!("{once}{}{blob}", frames("_start")));
    let b = work.s("b", &format!("{once}{}{blob}", frames("g")));
    work.ld(&["-o", "refused", &a, &b]).no_crash();
    work.ld(&["-o", "program", "--sframe-split", &a, &b]).quiet();
    let rows: Vec<_> = output_blobs(&work.elf("program")).into_iter().flat_map(|blob| blob.rows).collect();
    assert!(rows.len() == 3 && rows.iter().all(|row| row.size == 1), "{rows:?}");
}

/// Objects as today's assemblers make them from a C++ program.
#[test]
fn programs_of_today_link_and_run() {
    let work = Work::new();
    let assembler = need!(tools::assembler(3));
    let header = "#include <stdexcept>\n#include <cstdio>\n#include <map>\n#include <string>\n\
        inline int shared(int x) { if (x > 100) throw std::runtime_error(\"too large\"); return x * 2; }\n\
        template <class T> int count(T x) { std::map<std::string, T> m; m[\"a\"] = x; m[\"b\"] = x; return int(m.size()) + shared(x); }\n";
    let main = "int b(int);\nint main() { try { b(200); } catch (std::exception &e) { std::puts(e.what()); } std::printf(\"%d\\n\", b(3) + count(1)); }";
    let other =
        "int b(int x) { return count(x) + count('a' - 96); }\nint unused(int x) { return count(x * 3L); }";
    for (name, text) in [("main", main), ("other", other)] {
        let (source, assembly, object) = (format!("{name}.cc"), format!("{name}.s"), format!("{name}.o"));
        work.write(&source, format!("{header}{text}"));
        work.command("g++", &["-S", "-O1", "-fPIC", "-ffunction-sections", "-o", &assembly, &source]).quiet();
        work.command(&assembler, &["--gsframe", "-o", &object, &assembly]).quiet();
        assert_eq!(work.elf_unchecked(&object).sections_named(".sframe").len(), 1);
    }
    work.gxx(&["-o", "refused", "main.o", "other.o"]).fails();
    let mut sizes = Vec::new();
    for options in [&["-no-pie"][..], &["-pie", "-Wl,--gc-sections"], &["-static-pie"], &["-static"]] {
        let mut args = vec!["-o", "program", "-Wl,--sframe-split", "main.o", "other.o"];
        args.extend(options);
        work.gxx(&args).quiet();
        assert_eq!(work.run("program"), "too large\n16\n", "{options:?}");
        let verified = work.verified("program");
        assert!(verified.contains(", 0 wrong"), "{verified}");
        sizes.push(work.functions("program").len());
    }
    assert!(sizes[1] < sizes[0], "frames of collected text go: {sizes:?}");
    work.gxx(&["-shared", "-o", "libother.so", "-Wl,--sframe-split", "other.o"]).quiet();
    work.gxx(&["-o", "program", "-Wl,--sframe-split", "main.o", "libother.so"]).quiet();
    assert_eq!(work.run("program"), "too large\n16\n");
}

/// Every byte of the frames and their relocations is damaged in turn, and they are cut at every length. There
/// may be a message or none, but never a crash, and never a row that describes other text.
#[test]
fn damage_is_told_and_never_split_wrong() {
    let work = Work::new();
    let object = work.fixture("v3-gas2.47/inl.x86_64.o");
    let elf = work.elf_unchecked(&object);
    let whole = work.read(&object);
    let link = |bytes: &[u8], what: &str| {
        work.write("damaged.o", bytes);
        let outcome = work.ld(&["-r", "--sframe-split", "-o", "out.o", "damaged.o"]).no_crash();
        if outcome.code == Some(0) {
            let told = outcome.stderr.contains("sframe");
            let dump = work.sframe(&["dump", "out.o"]);
            let dumped = dump.code == Some(0) || dump.stderr.contains("no SFrame section");
            assert!(told || dumped, "{what}: {outcome}");
        }
    };
    let frames = elf.section(".sframe");
    for name in [".sframe", ".rela.sframe"] {
        let section = elf.section(name);
        for at in (section.offset..section.offset + section.size).step_by(5) {
            let mut bytes = whole.clone();
            bytes[at as usize] ^= 0xff;
            link(&bytes, &format!("{name}+{:#x}", at - section.offset));
        }
    }
    let headers = whole.len() - elf.sections.len() * 64;
    let size_field = headers + frames.index * 64 + 32;
    assert_eq!(whole[size_field..size_field + 8], frames.size.to_le_bytes(), "headers are at the end");
    for size in (0..frames.size).step_by(3) {
        let mut bytes = whole.clone();
        bytes[size_field..size_field + 8].copy_from_slice(&size.to_le_bytes());
        link(&bytes, &format!("size {size}"));
    }
}
