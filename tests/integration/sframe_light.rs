//! The light linking form: units instead of blobs, with every linker and in every mode.

use crate::need;
use crate::on_every_machine;
use crate::support::elf::*;
use crate::support::machine::Machine;
use crate::support::work::linker_directory;
use crate::support::{Work, built, tools};
use std::os::unix::fs::symlink;

const SHT_SFRAME_LIGHT: u32 = 0x6073_666c;
const LIGHT: &str = ".sframe_light";

const MAIN: &str = "#include <cstdio>\n#include <stdexcept>\n#include \"inl.h\"\nint b(int);
int main() { try { printf(\"%d\\n\", b(3)); thrower(shared(1)); } catch (const std::runtime_error &e) { puts(e.what()); } }";
const OTHER: &str = "#include \"inl.h\"\nint b(int x) { return shared(x) * 2; }\nint unused(int x) { return thrower(x) * 3; }";
const HEADER: &str = "#include <stdexcept>
__attribute__((noinline)) inline int shared(int x) { volatile int a[4] = {x}; return a[0] + 1; }
template <class T> __attribute__((noinline)) T thrower(T x) { if (x > 1) throw std::runtime_error(\"thrown\"); return x; }";

/// Compiles the two files through the assembler wrapper to `main.o` and `other.o`, with this prefix.
fn build(work: &mut Work, prefix: &str, light: bool, flags: &[&str]) {
    work.env("SFRAME_AS_LIGHT", if light { "1" } else { "0" });
    let folder = work.path("wrapper");
    if !folder.exists() {
        std::fs::create_dir(&folder).unwrap();
        symlink(built::sframe_as(), folder.join("as")).unwrap();
    }
    work.write("inl.h", HEADER);
    let wrapper = format!("-B{}", folder.display());
    for (name, text) in [("main", MAIN), ("other", OTHER)] {
        let (source, object) = (work.write(&format!("{name}.cc"), text), format!("{prefix}{name}.o"));
        let mut words = vec!["-c", "-O1", "-fPIE", &wrapper, "-Wa,--gsframe", "-o", &object, &source];
        words.extend(flags);
        work.command("g++", &words).quiet();
        let named = |name: &str| work.elf_unchecked(&object).sections_named(name).len();
        let name = if light { LIGHT } else { ".sframe" };
        assert!(named(name) > 1 && named(LIGHT) + named(".sframe") == named(name), "{object}");
    }
}

/// The functions that have names, with their sizes and rows, without what the form and the layout change.
fn rows(work: &Work, file: &str) -> Vec<String> {
    let functions = work.functions(file).into_iter().map(|line| {
        let (_, json) = line.split_once(' ').unwrap();
        let mut function: serde_json::Value = serde_json::from_str(json).unwrap();
        let fields = function.as_object_mut().unwrap();
        fields.remove("address");
        if let Some(attributes) = fields.get_mut("attributes").and_then(|it| it.as_object_mut()) {
            attributes.remove("start_width");
        }
        function
    });
    // GNU ld's own table also has its PLTs.
    let named = functions.filter(|it| it["symbol"].as_str().is_some_and(|name| !name.contains("plt")));
    let mut lines: Vec<String> = named.map(|function| function.to_string()).collect();
    lines.sort();
    lines
}

#[track_caller]
fn verifies(work: &Work, file: &str) {
    let verified = work.verified(file);
    let compared = verified.contains(", 0 wrong") || verified.contains("no .eh_frame to compare with");
    assert!(verified.contains(", 0 errors") && compared, "{file}: {verified}");
}

#[test]
fn splitting_into_units_keeps_every_row_of_every_version() {
    let objects = [
        "v1-gas2.40/inl.x86_64.o",
        "v2-gas2.44/inl2.aarch64.o",
        "v2e1-gas2.45/inl.s390x.o",
        "v2e1-llvm22/inl.x86_64.o",
        "v3-gas2.47/inl.x86_64.o",
        "v3-gas2.47/inl.s390x.o",
        "v3-gas2.47/inl2.aarch64.o",
        "v3-gas2.47/demo_function_sections.x86_64.o",
        "crafted-v3/share.x86_64.o",
    ];
    for name in objects {
        let work = Work::new();
        let object = work.fixture(name);
        work.sframe(&["split", "--light", "-o", "light.o", &object]).quiet();
        assert_eq!(rows(&work, "light.o"), rows(&work, &object), "{name}");
        verifies(&work, "light.o");
        work.command(need!(tools::readelf()), &["-SrW", "light.o"]).ok();
        let light = work.read("light.o");
        work.sframe(&["split", "--light", "light.o"]).quiet();
        work.sframe(&["split", "light.o"]).quiet();
        assert_eq!(work.read("light.o"), light, "{name}: splitting again changes nothing");
    }
}

#[test]
fn units_are_tied_to_their_text() {
    let work = Work::new();
    work.sframe(&["split", "--light", "-o", "light.o", &work.fixture("v3-gas2.47/inl.x86_64.o")]).quiet();
    let elf = work.elf_unchecked("light.o");
    let groups = elf.groups();
    let units = elf.sections_named(LIGHT);
    assert!(units.len() > 2 && elf.sections_named(".sframe").is_empty());
    for section in units {
        assert_eq!((section.kind, section.align), (SHT_SFRAME_LIGHT, 1));
        let group = |index: usize| groups.iter().find(|g| g.members.contains(&index)).map(|g| g.index);
        assert_eq!(group(section.index), group(section.link as usize));
        assert!(section.flags & SHF_LINK_ORDER != 0);
        let relocations = elf.relocations_for(section.index);
        assert!(!relocations.is_empty() && relocations.iter().all(|relocation| relocation.kind == 24));
    }
}

/// GNU ld, gold, lld, mold and this linker concatenate units, and so does wild if it was fetched. The rows
/// are the same as with V3.
#[test]
fn every_linker_takes_units() {
    let mut work = Work::new();
    let assembler = need!(tools::assembler(3)).display().to_string();
    work.env("SFRAME_REAL_AS", &assembler);
    for flags in [&["-ffunction-sections"][..], &[]] {
        build(&mut work, "v3-", false, flags);
        build(&mut work, "light-", true, flags);
        let expected = {
            let ours = format!("-B{}", linker_directory().display());
            work.linked("g++", &[&ours, "-pie", "-o", "expected", "v3-main.o", "v3-other.o"]).ok();
            rows(&work, "expected")
        };
        assert!(expected.len() >= 5, "{expected:?}");
        for family in ["sframe", "bfd", "gold", "lld", "mold", "wild"] {
            // wild is built from source, which takes long, so the tests do not require it.
            if family == "wild" && tools::peer_linker(family).is_err() {
                continue;
            }
            let linker = match family {
                "sframe" => linker_directory().join("ld"),
                _ => need!(tools::peer_linker(family)),
            };
            let prefix = format!("-B{}", linker.parent().unwrap().display());
            // By default, wild collects garbage, and units go with it.
            let keep = "-Wl,--no-gc-sections";
            let words = [prefix.as_str(), "-pie", "-o", "program", "light-main.o", "light-other.o", keep];
            let outcome = work.command("g++", &words).ok();
            assert!(!outcome.stderr.contains("sframe"), "{family} {outcome}");
            assert_eq!(work.run("program"), "8\nthrown\n", "{family}");
            assert_eq!(rows(&work, "program"), expected, "{family}");
            verifies(&work, "program");
            let elf = work.elf_unchecked("program");
            assert!(!elf.sections_named(LIGHT).is_empty(), "{family}");
            let collected = [&words[..], &["-Wl,--gc-sections"]].concat();
            work.command("g++", &collected).ok();
            assert_eq!(work.run("program"), "8\nthrown\n", "{family} --gc-sections");
            // The same with one object that the linker made from both.
            work.command(&linker, &["-r", "-o", "all.o", "light-main.o", "light-other.o"]).ok();
            work.gxx(&["-pie", "-o", "program", "all.o"]).ok();
            assert_eq!(work.run("program"), "8\nthrown\n", "{family} -r");
            verifies(&work, "program");
        }
    }
}

/// Every mode of this linker takes units in the same way as blobs.
#[test]
fn every_mode_takes_units() {
    let mut work = Work::new();
    let assembler = need!(tools::assembler(3)).display().to_string();
    work.env("SFRAME_REAL_AS", &assembler);
    build(&mut work, "v3-", false, &["-ffunction-sections"]);
    build(&mut work, "light-", true, &["-ffunction-sections"]);
    for options in [
        "-Wl,--sframe-index",
        "-Wl,--sframe=merge",
        "-Wl,--sframe=merge,--sframe-version=2",
        "-Wl,--sframe-index,--gc-sections",
        "-Wl,--sframe-index,--icf=all",
        "-Wl,--sframe-from-eh-frame=all,--sframe-index",
    ] {
        let link = |form: &str| {
            let [main, other] = ["main", "other"].map(|name| format!("{form}-{name}.o"));
            work.gxx(&["-pie", "-Wl,--build-id=none", options, "-o", form, &main, &other]).quiet();
        };
        link("v3");
        link("light");
        assert!(work.read("v3") == work.read("light"), "{options}");
        assert!(work.elf_unchecked("light").sections_named(LIGHT).is_empty());
    }
    // Concatenated into a section of its own, without padding and without a segment.
    work.gxx(&["-pie", "-Wl,--gc-sections", "-o", "program", "light-main.o", "light-other.o"]).quiet();
    let elf = work.elf_unchecked("program");
    let [section] = elf.sections_named(LIGHT)[..] else { panic!("one {LIGHT}") };
    assert_eq!((section.kind, section.align), (SHT_SFRAME_LIGHT, 1));
    assert!(elf.segments.iter().all(|segment| segment.kind != 0x6474_e554), "no PT_GNU_SFRAME");
    let names: Vec<String> = rows(&work, "program");
    assert!(names.iter().all(|line| !line.contains("unused")), "{names:?}");
    for option in ["-Wl,--sframe=discard", "-Wl,-z,nosframe-alloc"] {
        work.gxx(&["-pie", option, "-o", "program", "light-main.o", "light-other.o"]).quiet();
        let elf = work.elf_unchecked("program");
        let sections = elf.sections_named(LIGHT);
        assert!(sections.iter().all(|section| section.flags & 2 == 0), "{option}");
        assert_eq!(sections.is_empty(), option.contains("discard"));
    }
    // One object of each form.
    work.gxx(&["-pie", "-o", "program", "light-main.o", "v3-other.o"]).quiet();
    let functions = rows(&work, "program");
    work.gxx(&["-pie", "-o", "program", "v3-main.o", "v3-other.o"]).quiet();
    assert_eq!(functions, rows(&work, "program"));
}

/// A compact table is the same, in whichever form its rows came. An overlay is an index of blobs, so it
/// leaves units alone.
#[test]
fn compact_tables_take_units_and_overlays_name_them() {
    let mut work = Work::new();
    let assembler = need!(tools::assembler(3)).display().to_string();
    work.env("SFRAME_REAL_AS", &assembler);
    build(&mut work, "v3-", false, &["-ffunction-sections"]);
    build(&mut work, "light-", true, &["-ffunction-sections"]);
    let link = |form: &str, options: &str| {
        let [main, other] = ["main", "other"].map(|name| format!("{form}-{name}.o"));
        work.gxx(&["-pie", "-Wl,--build-id=none", options, "-o", form, &main, &other]).ok()
    };
    let compact = "-Wl,--sframe-index=compact,--sframe=discard";
    assert_eq!([link("v3", compact).stderr, link("light", compact).stderr], ["", ""]);
    assert!(work.read("v3") == work.read("light"));
    assert!(work.elf_unchecked("light").find(".sframe_compact").is_some());
    assert_eq!(work.run("light"), "8\nthrown\n");
    verifies(&work, "light");
    // Beside the table, they are concatenated as they would be without one.
    link("light", "-Wl,--sframe-index=compact");
    let elf = work.elf_unchecked("light");
    assert!(elf.find(".sframe_compact").is_some() && elf.find(LIGHT).is_some());
    verifies(&work, "light");
    link("light", "-Wl,--sframe-index=overlay").says(&[
        "an overlay does not index light SFrame units",
        "they stay in their own section, .sframe_light",
    ]);
    assert!(work.elf_unchecked("light").find(LIGHT).is_some());
    verifies(&work, "light");
}

#[test]
fn units_stay_with_their_text_under_r() {
    let mut work = Work::new();
    let assembler = need!(tools::assembler(3)).display().to_string();
    work.env("SFRAME_REAL_AS", &assembler);
    build(&mut work, "", true, &["-ffunction-sections"]);
    work.ld(&["-r", "-o", "all.o", "main.o", "other.o"]).quiet();
    let elf = work.elf_unchecked("all.o");
    let groups = elf.groups();
    let units = elf.sections_named(LIGHT);
    assert!(units.len() > 4);
    for section in units {
        assert_eq!(section.kind, SHT_SFRAME_LIGHT);
        let group = |index: usize| groups.iter().find(|g| g.members.contains(&index)).map(|g| g.index);
        assert_eq!(group(section.index), group(section.link as usize));
        assert!(elf.relocations_for(section.index).iter().all(|r| r.kind == 24));
    }
    verifies(&work, "all.o");
    // One section with the units of several text sections, as a linker without link order would make it, is
    // split.
    let script = work.write("one.ld", "SECTIONS { .sframe_light 0 : { *(.sframe_light) } }");
    work.ld(&["-r", "--force-group-allocation", "-T", &script, "-o", "one.o", "main.o", "other.o"]).ok();
    let before = rows(&work, "one.o");
    work.sframe(&["split", "one.o"]).quiet();
    assert!(work.elf_unchecked("one.o").sections_named(LIGHT).len() > 1);
    assert_eq!(rows(&work, "one.o"), before);
}

on_every_machine!(units_are_relocated_and_read);

fn units_are_relocated_and_read(machine: &'static Machine) {
    let work = Work::on(machine);
    let assembler = need!(machine.sframe_assembler());
    let function = |name: &str| {
        format!(
            ".section .text.{name},\"ax\"\n.globl {name}\n{name}: .cfi_startproc\nnop\n.cfi_def_cfa_offset 176\nnop\n.cfi_endproc\n"
        )
    };
    work.write("two.s", function("_start") + &function("other"));
    work.command(&assembler, &["--gsframe", "-o", "two.o", "two.s"]).quiet();
    work.sframe(&["split", "--light", "-o", "light.o", "two.o"]).quiet();
    assert_eq!(rows(&work, "light.o"), rows(&work, "two.o"));
    for options in [&[][..], &["-pie"], &["--gc-sections", "--undefined=other"], &["--emit-relocs"]] {
        let link = |out: &str, object: &str| {
            let words = [&["-o", out, object], options].concat();
            work.ld(&words).quiet();
        };
        link("v3", "two.o");
        link("light", "light.o");
        assert_eq!(rows(&work, "light"), rows(&work, "v3"), "{options:?}");
        assert_eq!(rows(&work, "light").len(), 2, "{options:?}");
        let found = work.sframe(&["lookup", "light", "other+1"]).quiet().stdout;
        assert!(found.contains("light unit"), "{found}");
        verifies(&work, "light");
    }
}

#[test]
fn units_of_unknown_versions_pass_and_their_dead_functions_are_told_of() {
    let work = Work::new();
    let unit = |version: u8| {
        format!(
            ".section .sframe_light,\"a\",@{SHT_SFRAME_LIGHT}\n1: .2byte 0xde11\n.byte {version}, 0\n.4byte 2f - 1b\n\
         .byte 3, 0, 0xf8, 0\n.8byte _start - .\n.4byte 1\n.2byte 1\n.byte 0, 0, 0\n.byte 0, 3, 8\n2:\n"
        )
    };
    let start = ".text\n.globl _start\n_start: ret\n";
    let known = work.s("known", &format!("{start}{}", unit(1)));
    let unknown = work.s("unknown", &format!("{start}{}", unit(7)));
    work.ld(&["-o", "known", &known]).quiet();
    work.sframe(&["lookup", "known", "_start"]).quiet();
    work.ld(&["-o", "unknown", &unknown]).quiet();
    let text = work.sframe(&["dump", "unknown"]).output();
    assert!(text.contains("32 bytes at 0x0: no blob: version of the light unit is 7, expected 1"), "{text}");
    let outcome = work.ld(&["--sframe-index", "-o", "unknown", &unknown]).ok();
    outcome.says(&["light SFrame version 7 is not known; version 1 is", "goes into .sframe_light unchanged"]);
    let broken = work.s("broken", &format!("{start}{}", unit(1).replace("0, 3, 8", "0, 0x63, 8")));
    work.ld(&["-o", "broken", &broken]).ok().says(&["corrupt SFrame data", "data word size code is 3"]);
}
