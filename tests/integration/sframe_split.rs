//! `sframe split` and the assembler wrapper: frames for each text section, which every linker takes.

use crate::need;
use crate::support::elf::*;
use crate::support::work::linker_directory;
use crate::support::{Elf, Work, built, tools};
use std::os::unix::fs::symlink;

/// Objects of every version and machine.
const OBJECTS: [&str; 14] = [
    "v1-gas2.40/inl.x86_64.o",
    "v1-gas2.40/demo.aarch64.o",
    "v2-gas2.44/inl.x86_64.o",
    "v2-gas2.44/inl2.aarch64.o",
    "v2e1-gas2.45/inl.s390x.o",
    "v2e1-llvm22/inl.x86_64.o",
    "v3-gas2.47/inl.x86_64.o",
    "v3-gas2.47/inl2.aarch64.o",
    "v3-gas2.47/inl.s390x.o",
    "v3-gas2.47/demo_function_sections.x86_64.o",
    "v3-gas2.47/special.x86_64.o",
    "crafted-v3/share.x86_64.o",
    "crafted-v3/twice.s390x.o",
    "crafted-v3/comdat.x86_64.o",
];

#[test]
fn every_function_stays_and_nothing_else_moves() {
    for name in OBJECTS {
        let work = Work::new();
        let object = work.fixture(name);
        work.sframe(&["split", "-o", "split.o", &object]).quiet();
        assert_eq!(work.functions("split.o"), work.functions(&object), "{name}");
        assert_eq!(work.verified("split.o"), work.verified(&object), "{name}");
        work.command(need!(tools::readelf()), &["-aW", "split.o"]).quiet();
        let (before, after) = (work.read(&object), work.read("split.o"));
        work.sframe(&["split", "split.o"]).quiet();
        assert_eq!(work.read("split.o"), after, "{name}: splitting again changes nothing");
        if before[5] == 1 {
            check_shape(&Elf::parse(before).unwrap(), &Elf::parse(after).unwrap());
        }
    }
}

/// Checks that all sections except SFrame and section groups keep their places, and that the frames belong to
/// one text section each.
fn check_shape(before: &Elf, after: &Elf) {
    let frames_of = |elf: &Elf, section: &Section| {
        section.name.starts_with(".sframe")
            || section.kind == SHT_RELA && { elf.sections[section.info as usize].name.starts_with(".sframe") }
    };
    for (old, new) in before.sections.iter().zip(&after.sections) {
        assert_eq!(old.name, new.name);
        if !frames_of(before, old) && old.kind != SHT_GROUP {
            assert_eq!(
                (&old.data, old.offset, old.flags),
                (&new.data, new.offset, new.flags),
                "{}",
                old.name
            );
        }
    }
    let groups = after.groups();
    for frames in after.sections.iter().filter(|s| s.name.starts_with(".sframe")) {
        let text = &after.sections[frames.link as usize];
        assert!(frames.flags & SHF_LINK_ORDER != 0 && text.flags & SHF_EXECINSTR != 0, "{frames:?}");
        let group = |index: usize| groups.iter().find(|g| g.members.contains(&index)).map(|g| g.index);
        let table =
            after.sections.iter().find(|s| s.kind == SHT_RELA && s.info as usize == frames.index).unwrap();
        assert_eq!(group(frames.index), group(text.index));
        assert_eq!(group(table.index), group(text.index));
        for section in [frames, table] {
            assert_eq!(section.flags & SHF_GROUP != 0, group(text.index).is_some());
        }
        let symbols = after.symbols();
        for relocation in after.relocations_for(frames.index) {
            assert_eq!(usize::from(symbols[relocation.symbol].section), text.index);
        }
    }
}

#[test]
fn objects_without_sframe_stay_as_they_are() {
    let work = Work::new();
    let object = work.c("plain", "int f(int x) { return x + 1; }", &["-ffunction-sections", "-g"]);
    let before = work.read(&object);
    work.sframe(&["split", &object]).quiet();
    work.sframe(&["split", "-o", "copy.o", &object]).quiet();
    assert!(work.read(&object) == before && work.read("copy.o") == before);
}

#[test]
fn objects_that_cannot_be_split_are_refused_and_left_alone() {
    let work = Work::new();
    let refuse = |file: &str, texts: &[&str]| {
        let before = work.read(file);
        let outcome = work.sframe(&["split", file]).says(texts);
        assert_eq!(outcome.code, Some(2), "{outcome}");
        assert_eq!(work.read(file), before);
    };
    refuse(&work.fixture("crafted-v3/padnz.x86_64.o"), &["no SFrame blob that can be split", ".sframe"]);
    refuse(&work.fixture("crafted-v3/overlay.x86_64.o"), &["the relocation at 0x6c is not at the start"]);
    refuse(&work.fixture("linked/prog.x86_64.ld2.47"), &["a linked file"]);
    refuse(&work.write("text", "hello"), &["text: no ELF file"]);
    refuse(&work.write("lib.a", "!<arch>\n"), &["an archive"]);
    let module =
        [work.read(&work.fixture("v3-gas2.47/inl.x86_64.o")), b"~Module signature appended~\n".to_vec()];
    refuse(&work.write("m.ko", module.concat()), &["appended signature"]);
    let whole = work.read(&work.fixture("v3-gas2.47/inl.x86_64.o"));
    for length in (0..whole.len()).step_by(97) {
        work.write("short.o", &whole[..length]);
        let outcome = work.sframe(&["split", "-o", "out.o", "short.o"]);
        assert!(
            matches!(outcome.code, Some(0 | 2)) && !outcome.stderr.contains("panicked"),
            "{length}: {outcome}"
        );
    }
}

#[test]
fn one_output_takes_one_input() {
    let work = Work::new();
    let objects = ["v3-gas2.47/inl.x86_64.o", "v3-gas2.47/inl2.x86_64.o"].map(|name| work.fixture(name));
    let outcome =
        work.sframe(&["split", "-o", "x.o", &objects[0], &objects[1]]).says(&["--output: for one input"]);
    assert_eq!(outcome.code, Some(2), "{outcome}");
    assert!(!work.exists("x.o"));
    work.sframe(&["split", &objects[0], &objects[1]]).quiet();
}

#[test]
fn objects_beyond_reserved_section_numbers_are_split() {
    const COUNT: usize = 22_000;
    let work = Work::new();
    let function = |n: usize| {
        format!(
            ".section .t{n},\"ax\"\nf{n}:.cfi_startproc\nnop\n.cfi_def_cfa_offset 16\nret\n.cfi_endproc\n"
        )
    };
    let source: String = (0..COUNT).map(function).collect();
    work.write("many.s", source);
    let assembler = need!(tools::assembler(3));
    work.command(assembler, &["--gsframe", "-o", "many.o", "many.s"]).quiet();
    let before = work.functions("many.o");
    assert_eq!(before.len(), COUNT);
    work.sframe(&["split", "many.o"]).quiet();
    assert_eq!(work.functions("many.o"), before);
    let elf = Elf::parse(work.read("many.o")).unwrap();
    assert!(elf.sections.len() > 0xff00 && elf.bytes[60..62] == [0, 0], "{}", elf.sections.len());
    work.ld(&["-r", "-o", "again.o", "many.o"]).quiet();
    assert_eq!(work.functions("again.o"), before);
}

/// Two files with the same inline function, and one function that nobody calls.
const MAIN: &str = "#include <cstdio>\n#include \"inl.h\"\nint b(int);\nint main() { printf(\"%d %d\\n\", shared(2), b(3)); }";
const OTHER: &str =
    "#include \"inl.h\"\nint b(int x) { return shared(x) * 2; }\nint unused(int x) { return x * 3; }";
const HEADER: &str =
    "__attribute__((noinline)) inline int shared(int x) { volatile int a[4] = {x}; return a[0] + 1; }";

/// Compiles the two files through the wrapper, with frames from this assembler.
fn build(work: &mut Work, assembler: &str) {
    work.env("SFRAME_REAL_AS", assembler);
    let folder = work.path("wrapper");
    std::fs::create_dir(&folder).unwrap();
    symlink(built::sframe_as(), folder.join("as")).unwrap();
    work.write("inl.h", HEADER);
    let prefix = format!("-B{}", folder.display());
    for (name, text) in [("main", MAIN), ("other", OTHER)] {
        let (source, object) = (work.write(&format!("{name}.cc"), text), format!("{name}.o"));
        let words =
            ["-c", "-O1", "-fPIE", "-ffunction-sections", &prefix, "-Wa,--gsframe", "-o", &object, &source];
        work.command("g++", &words).quiet();
        assert!(work.elf_unchecked(&object).sections_named(".sframe").len() > 1, "{name} is split");
    }
}

#[test]
fn every_linker_takes_split_objects() {
    let mut work = Work::new();
    let assembler = need!(tools::assembler(3)).display().to_string();
    build(&mut work, &assembler);
    let families = ["sframe", "bfd", "gold", "lld", "mold"];
    for family in families {
        let linker = match family {
            "sframe" => linker_directory().join("ld"),
            _ => need!(tools::peer_linker(family)),
        };
        let prefix = format!("-B{}", linker.parent().unwrap().display());
        for flag in ["-Wl,-z,now", "-Wl,--gc-sections"] {
            let words = [prefix.as_str(), "-pie", flag, "-o", "program", "main.o", "other.o"];
            let outcome = match family {
                "sframe" => work.linked("g++", &words),
                _ => work.command("g++", &words),
            };
            let outcome = outcome.ok();
            assert!(!outcome.stderr.contains("sframe"), "{family} {outcome}");
            assert_eq!(work.run("program"), "3 8\n", "{family}");
        }
        work.command(&linker, &["-r", "-o", "all.o", "main.o", "other.o"]).ok();
        let all = work.elf_unchecked("all.o");
        for frames in all.sections.iter().filter(|s| s.name == ".sframe" && s.size > 0) {
            assert!(
                all.relocations_for(frames.index).iter().all(|r| r.kind != 0),
                "{family}: a dead relocation"
            );
        }
    }
}

#[test]
fn the_wrapper_is_the_assembler_but_for_the_split() {
    let mut work = Work::new();
    let assembler = need!(tools::assembler(3)).display().to_string();
    work.env("SFRAME_REAL_AS", &assembler);
    work.write("bad.s", "nonsense %%\n");
    let (ours, theirs) =
        (work.sframe_as(&["bad.s", "-o", "bad.o"]), work.command(&assembler, &["bad.s", "-o", "bad.o"]));
    assert_eq!((ours.code, ours.stderr), (theirs.code, theirs.stderr));
    let version = work.sframe_as(&["--version"]).quiet().stdout;
    assert_eq!(version, work.command(&assembler, &["--version"]).quiet().stdout);

    work.write("plain.s", ".globl f\nf: ret\n.section .text.g\ng: ret\n");
    work.sframe_as(&["plain.s", "-o", "ours.o"]).quiet();
    work.command(&assembler, &["plain.s", "-o", "theirs.o"]).quiet();
    assert_eq!(work.read("ours.o"), work.read("theirs.o"));

    let two = |n: u8| format!("f{n}: .cfi_startproc\nret\n.cfi_endproc\n");
    work.write("two.s", format!("{}.section .text.g,\"ax\"\n{}", two(1), two(2)));
    work.write("words", "--gsframe two.s -o 'by file.o'");
    work.sframe_as(&["@words"]).quiet();
    work.sframe_as(&["--gsframe", "two.s"]).quiet();
    for object in ["by file.o", "a.out"] {
        assert_eq!(work.elf_unchecked(object).sections_named(".sframe").len(), 2, "{object}");
    }
    work.command(&assembler, &["--gsframe", "two.s", "-o", "a.out"]).quiet();
    work.sframe_as(&["--version"]).quiet();
    assert_eq!(
        work.elf_unchecked("a.out").sections_named(".sframe").len(),
        1,
        "a.out was not written by --version"
    );
}
