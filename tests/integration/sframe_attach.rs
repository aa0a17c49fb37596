//! `sframe attach`: finished files get frames, and run as before.

use crate::need;
use crate::support::elf::*;
use crate::support::machine::AARCH64;
use crate::support::sframe::output_blobs;
use crate::support::{Elf, Work, tools};

/// Thread-local storage, exceptions, and a large `.bss` that must be zero.
const SOURCE: &str = "
#include <cstdio>
#include <stdexcept>
thread_local int local = 5;
static char zeros[SIZE];
int main(int count, char **) {
    try {
        if (count < 5) throw std::runtime_error(\"thrown\");
    } catch (std::exception &error) {
        for (long i = 0; i < SIZE; i += 64) if (zeros[i]) return 9;
        zeros[SIZE - 1] = 1;
        std::printf(\"%s %d %d\\n\", error.what(), local, zeros[SIZE - 1]);
    }
}";

/// Checks that the segment covers the section, is loaded, and contains one sorted blob.
#[track_caller]
fn check_attached(elf: &Elf, name: &str) {
    let (segment, section) = (elf.segment(PT_GNU_SFRAME), elf.section(name));
    assert_eq!(
        (segment.addr, segment.offset, segment.file_size),
        (section.addr, section.offset, section.size)
    );
    assert_eq!((section.kind, section.flags & SHF_ALLOC), (SHT_GNU_SFRAME, SHF_ALLOC));
    assert!(elf.load_at(section.addr).is_some_and(|load| load.covers(section)));
    let loads = elf.segments_of(PT_LOAD);
    assert!(
        loads.is_sorted_by_key(|load| load.addr)
            && loads.windows(2).all(|w| w[0].addr + w[0].size <= w[1].addr)
    );
    if let Some(table) = elf.segments_of(PT_PHDR).first() {
        let load = elf.load_at(table.addr).expect("the program headers are in memory");
        assert_eq!(table.addr - load.addr, table.offset - load.offset);
    }
}

#[test]
fn programs_of_every_kind_run_with_frames() {
    let work = Work::new();
    work.write("a.cc", SOURCE);
    for kind in ["-pie", "-no-pie", "-static", "-static-pie"] {
        for size in ["-DSIZE=64", "-DSIZE=100000000"] {
            work.command("g++", &["-O1", size, kind, "-o", "program", "a.cc"]).quiet();
            let expected = work.run("program");
            let attach = |from: &str, to: &str| work.sframe(&["attach", "-o", to, from]).ok();
            attach("program", "attached");
            assert_eq!(work.run("attached"), expected, "{kind} {size}");
            work.command(need!(tools::readelf()), &["-aW", "attached"]).quiet();
            let elf = work.elf_unchecked("attached");
            check_attached(&elf, ".sframe");
            assert_eq!(output_blobs(&elf).len(), 1);
            assert!(work.verified("attached").contains(", 0 wrong"));

            work.command(work.tool("strip"), &["-o", "stripped", "program"]).quiet();
            attach("stripped", "attached");
            assert_eq!(work.run("attached"), expected, "{kind} {size} stripped");

            let bare = without_sections(work.read("stripped"));
            work.write("bare", bare);
            if elf.segments_of(PT_GNU_EH_FRAME).is_empty() {
                work.sframe(&["attach", "-o", "attached", "bare"]).says(&["no .eh_frame"]);
                continue;
            }
            attach("bare", "attached");
            work.command("chmod", &["+x", "attached"]).quiet();
            assert_eq!(work.run("attached"), expected, "{kind} {size} without section headers");
        }
    }
}

/// The file without section headers, and without everything that only they name.
fn without_sections(bytes: Vec<u8>) -> Vec<u8> {
    let elf = Elf::parse(bytes.clone()).unwrap();
    let end = elf.segments.iter().map(|s| s.offset + s.file_size).max().unwrap() as usize;
    let mut bytes = bytes;
    bytes.truncate(end);
    bytes[40..48].fill(0);
    bytes[60..64].fill(0);
    bytes
}

#[test]
fn a_section_that_is_there_is_replaced() {
    let work = Work::new();
    let object = work.cc("a", SOURCE, &["-DSIZE=64"]);
    work.gxx(&["-o", "program", &object]).quiet();
    work.sframe(&["attach", "program"]).quiet();
    let first = work.read("program");
    work.sframe(&["attach", "program"]).quiet();
    assert_eq!(work.read("program"), first, "the same functions take the same room");
    // V2 is larger, so it does not fit the old place.
    work.sframe(&["attach", "--sframe-version", "2", "program"]).ok();
    check_attached(&work.elf_unchecked("program"), ".sframe");
    work.sframe(&["attach", "--name", ".sframe_idx", "program"]).ok();
    let elf = work.elf_unchecked("program");
    check_attached(&elf, ".sframe_idx");
    assert_eq!(elf.segments_of(PT_GNU_SFRAME).len(), 1);
    work.command(need!(tools::readelf()), &["-aW", "program"]).quiet();
    assert_eq!(work.run("program"), "thrown 5 1\n");
}

#[test]
fn the_linker_s_table_is_replaced_under_its_own_name() {
    let work = Work::new();
    let object = work.cc("a", SOURCE, &["-DSIZE=64"]);
    work.gxx(&["-o", "program", "-Wl,--sframe-index,--sframe-from-eh-frame=all", &object]).ok();
    for command in ["index", "attach"] {
        work.sframe(&[command, "-o", "changed", "program"]).ok();
        let elf = work.elf_unchecked("changed");
        check_attached(&elf, ".sframe_idx");
        let tables = elf.sections.iter().filter(|section| section.kind == SHT_GNU_SFRAME).count();
        assert_eq!(tables, 1, "{command}: {:?}", elf.section_names());
        assert!(work.verified("changed").contains(", 0 wrong"), "{command}");
        assert_eq!(work.run("changed"), "thrown 5 1\n", "{command}");
    }
}

/// Readers believe every table, so none may stay as it was before a tool moved the code.
#[test]
fn no_other_table_stays_as_it_was() {
    let work = Work::new();
    let object = work.cc("a", SOURCE, &["-DSIZE=64"]);
    let light = work.fixture("v3-gas2.47/inl.x86_64.o");
    work.sframe(&["split", "--light", "-o", "light.o", &light]).quiet();
    let options = "-Wl,--sframe-from-eh-frame=missing,--unresolved-symbols=ignore-all,-z,muldefs";
    work.gxx(&["-o", "program", options, &object, "light.o"]).ok();
    let sizes = |elf: &Elf| [".sframe", ".sframe_light"].map(|name| elf.section(name).size);
    assert!(sizes(&work.elf_unchecked("program")).iter().all(|&size| size > 0));
    work.sframe(&["attach", "-o", "one", "program"]).says(&[".sframe_light is empty now"]);
    let elf = work.elf_unchecked("one");
    check_attached(&elf, ".sframe");
    assert_eq!(elf.section(".sframe_light").size, 0);
    assert!(work.verified("one").contains(", 0 wrong"));
    work.command(need!(tools::readelf()), &["-aW", "one"]).quiet();
    work.sframe(&["attach", "-o", "two", "one"]).quiet();
    assert_eq!(work.read("two"), work.read("one"), "attaching twice changes nothing more");

    work.sframe(&["attach", "--name", ".sframe_idx", "-o", "named", "one"]).says(&[".sframe is empty now"]);
    let elf = work.elf_unchecked("named");
    check_attached(&elf, ".sframe_idx");
    assert_eq!(elf.section(".sframe").size, 0);
    assert_eq!(work.run("named"), "thrown 5 1\n");
}

/// What a tool that moves code leaves: rows for other addresses, here a compact table of zeros.
#[test]
fn a_compact_table_is_made_anew_beside_the_blob() {
    let work = Work::new();
    let object = work.cc("a", SOURCE, &["-DSIZE=64"]);
    work.gxx(&["-o", "program", "-Wl,--sframe-index=compact,--sframe-from-eh-frame=all", &object]).ok();
    let elf = work.elf_unchecked("program");
    let table = elf.section(".sframe_compact");
    let mut stale = elf.bytes.clone();
    let end = (table.offset + table.size) as usize;
    stale[end - table.size as usize / 2..end].fill(0);
    work.write("stale", stale);
    work.command("chmod", &["+x", "stale"]).quiet();
    let outcome = work.sframe(&["verify", "stale"]);
    assert_eq!(outcome.code, Some(1), "{outcome}");
    assert!(outcome.stdout.contains("sframe attach makes the rows anew"), "{outcome}");
    work.sframe(&["attach", "-o", "one", "stale"]).ok();
    let elf = work.elf_unchecked("one");
    check_attached(&elf, ".sframe");
    assert!(elf.section(".sframe_compact").size > 0);
    assert!(work.verified("one").contains(", 0 wrong"));
    assert_eq!(work.run("one"), "thrown 5 1\n");
    work.sframe(&["attach", "-o", "two", "one"]).ok();
    assert_eq!(work.read("two"), work.read("one"));
}

#[test]
fn a_library_with_frames_loads_and_keeps_its_build_id_unless_asked() {
    let work = Work::new();
    work.shared("f", "int f(void) { return 7; }", &["-Wl,--build-id=sha1"]);
    let main = work.c("main", "int f(void); int main(void) { return f() - 7; }", &[]);
    work.gcc(&["-o", "main", &main, "libf.so"]).quiet();
    let identifier = |elf: &Elf| elf.notes(".note.gnu.build-id")[0].2.clone();
    let original = work.elf_unchecked("libf.so");
    work.sframe(&["attach", "-o", "kept.so", "libf.so"]).quiet();
    work.sframe(&["attach", "--build-id=recompute", "libf.so"]).quiet();
    let (kept, new) = (work.elf_unchecked("kept.so"), work.elf_unchecked("libf.so"));
    assert_eq!(identifier(&kept), identifier(&original));
    assert_ne!(identifier(&new), identifier(&original));
    check_attached(&new, ".sframe");
    work.run("main");
}

#[test]
fn an_aarch64_program_runs_too() {
    let work = Work::on(&AARCH64);
    let compiler = need!(AARCH64.tool("g++"));
    work.write("a.cc", SOURCE);
    need!(AARCH64.emulator());
    // The linker does not matter, because attaching is for finished files.
    work.command(compiler, &["-O1", "-DSIZE=64", "-static", "-o", "program", "a.cc"]).ok();
    work.sframe(&["attach", "program"]).ok();
    assert_eq!(work.run("program"), "thrown 5 1\n");
    check_attached(&work.elf_unchecked("program"), ".sframe");
}

#[test]
fn files_that_cannot_be_changed_are_refused() {
    let work = Work::new();
    let refuse = |file: &str, texts: &[&str]| {
        let before = work.read(file);
        let outcome = work.sframe(&["attach", file]).says(texts);
        assert_eq!(outcome.code, Some(2), "{outcome}");
        assert_eq!(work.read(file), before);
    };
    let object = work.c("a", "int main(void) { return 0; }", &[]);
    refuse(&object, &["a relocatable object", "derive"]);
    work.gcc(&["-o", "program", &object]).quiet();
    let program = work.read("program");
    work.write("payload", [&program[..], b"payload"].concat());
    refuse("payload", &["7 bytes behind the end of the ELF file"]);
    work.write("signed", [&program[..], b"~Module signature appended~\n"].concat());
    refuse("signed", &["appended signature"]);
    work.command(work.tool("objcopy"), &["--only-keep-debug", "program", "debug"]).ok();
    work.sframe(&["attach", "debug"]).says(&["debug: "]);
    for length in (64..program.len()).step_by(499) {
        work.write("short", &program[..length]);
        let outcome = work.sframe(&["attach", "-o", "out", "short"]);
        assert!(
            matches!(outcome.code, Some(0 | 2)) && !outcome.stderr.contains("panicked"),
            "{length}: {outcome}"
        );
    }
    // Flips a byte in the header tables, every seventh one.
    let tables = (4..64 + 13 * 56).chain(program.len() - 1000..program.len());
    for place in tables.step_by(7) {
        let mut bytes = program.clone();
        bytes[place] ^= 0xff;
        work.write("odd", bytes);
        let outcome = work.sframe(&["attach", "-o", "out", "odd"]);
        assert!(matches!(outcome.code, Some(0 | 2)), "{place}: {outcome}");
    }
}
