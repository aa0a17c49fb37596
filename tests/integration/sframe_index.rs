//! `--sframe-index` and `--sframe=merge`: one sorted table from inputs of every version, in every kind of
//! output.

use crate::need;
use crate::support::elf::*;
use crate::support::sframe::{Blob, PCREL, SORTED, blobs, v3_source};
use crate::support::{Work, tools};

const PT_GNU_SFRAME: u32 = 0x6474_e554;
/// A program that is linked with the fixtures `inl` and `inl2`.
const MAIN: &str = "
#include <cstdio>
#include <stdexcept>
int ext(int x) { return x + 1; }
int from_c(int x) asm(\"ext\");
int from_c(int x) { return x; }
extern \"C\" void sink(void *) {}
int use_a(int); int use_b(int);
__attribute__((noinline)) int thrower(int x) { if (x) throw std::runtime_error(\"x\"); return 1; }
int main() { try { thrower(1); } catch (std::exception &) { std::puts(\"caught\"); }
  return use_a(1) - use_b(1) - 0; }
";
/// The two modes that make one table, with the section that contains it.
const MODES: [(&str, &str); 2] = [("--sframe-index", ".sframe_idx"), ("--sframe=merge", ".sframe")];

/// Objects of V1, V2 and V3 that share COMDAT groups.
fn mixed(work: &Work) -> Vec<String> {
    let names = ["v1-gas2.40/inl.x86_64.o", "v3-gas2.47/inl2.x86_64.o", "v2-gas2.44/demo.x86_64.o"];
    let mut objects = vec![work.cc("main", MAIN, &[])];
    objects.extend(names.map(|name| work.fixture(name)));
    objects
}

/// The only blob in an output's table, after checks of everything that must be true for each table.
#[track_caller]
fn table(work: &Work, file: &str, section: &str) -> Blob {
    // eu-elflint knows no relocations for a section of this type (`--emit-relocs`).
    let elf = work.elf_unchecked(file);
    if elf.find(&format!(".rela{section}")).is_none() {
        work.lint(file);
    }
    let found = elf.section(section);
    assert_eq!((found.kind, found.flags & SHF_ALLOC), (SHT_GNU_SFRAME, SHF_ALLOC));
    let segment = elf.segment(PT_GNU_SFRAME);
    assert_eq!((segment.addr, segment.file_size), (found.addr, found.data.len() as u64));
    let all = blobs(found);
    let [blob] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(blob.flags, SORTED | PCREL);
    assert!(blob.rows.windows(2).all(|pair| pair[0].start < pair[1].start), "strictly ascending");
    assert!(blob.rows.iter().all(|row| row.size > 0));
    let verified = work.verified(file);
    assert!(verified.contains(" 0 errors, 0 warnings") && verified.contains(", 0 wrong"), "{verified}");
    blob.clone()
}

#[test]
fn every_version_goes_into_the_table_of_every_kind_of_output() {
    let work = Work::new();
    let objects = mixed(&work);
    let inputs: Vec<&str> = objects.iter().map(String::as_str).collect();
    for (mode, section) in MODES {
        let mode = format!("-Wl,{mode}");
        let mut of_kind = Vec::new();
        for kind in [
            &["-no-pie"][..],
            &["-pie"],
            &["-static"],
            &["-Wl,--gc-sections"],
            &["-Wl,-z,ibtplt"],
            &["-Wl,-z,now"],
            &["-Wl,--emit-relocs"],
        ] {
            let args = [&["-o", "program", &mode], kind, &inputs].concat();
            work.gxx(&args).quiet();
            assert_eq!(work.run("program"), "caught\n", "{kind:?}");
            let blob = table(&work, "program", section);
            let elf = work.elf_unchecked("program");
            assert!(section == ".sframe" || elf.find(".sframe").is_none(), "replaced");
            for name in ["_Z5use_ai", "_Z5use_bi", "_Z13shared_inlinei"] {
                assert!(blob.row_at(elf.symbol(name).value).is_some(), "{kind:?}: {name}");
            }
            of_kind.push(blob.rows.len());
        }
        assert!(of_kind[3] < of_kind[1], "collected functions have no rows: {of_kind:?}");
        let args = [&["-shared", "-o", "lib.so", &mode], &inputs[3..]].concat();
        work.gxx(&args).quiet();
        table(&work, "lib.so", section);
    }
}

#[test]
fn relocatable_output_loses_and_doubles_nothing() {
    let work = Work::new();
    let objects = mixed(&work);
    let inputs: Vec<&str> = objects.iter().map(String::as_str).collect();
    work.gxx(&[&["-o", "direct", "-Wl,--sframe-index"], &inputs[..]].concat()).quiet();
    // With -r in between, text may lie elsewhere.
    let rows = |file: &str| {
        let mut rows: Vec<String> = work
            .functions(file)
            .iter()
            .map(|function| function[function.find("\"attributes").expect("attributes")..].to_owned())
            .collect();
        rows.sort();
        rows
    };
    let direct = rows("direct");
    for (mode, section) in MODES {
        work.ld(&[&["-r", mode, "-o", "all.o"], &inputs[..]].concat()).quiet();
        let elf = work.elf_unchecked("all.o");
        let found = elf.section(section);
        let [blob] = &blobs(found)[..] else { panic!() };
        assert_eq!((blob.version, blob.flags), (3, PCREL), "in several sections, so not sorted");
        let relocations = elf.relocations_for(found.index);
        assert!(relocations.iter().all(|r| r.kind == 24));
        let fields: Vec<u64> = relocations.iter().map(|r| r.offset).collect();
        assert_eq!(fields, blob.rows.iter().map(|row| row.field as u64).collect::<Vec<_>>());
        work.ld(&["-r", mode, "-o", "twice.o", "all.o"]).quiet();
        assert_eq!(work.functions("twice.o").len(), work.functions("all.o").len());
        for object in ["all.o", "twice.o"] {
            for (mode, section) in MODES {
                work.gxx(&["-o", "program", &format!("-Wl,{mode}"), object]).quiet();
                table(&work, "program", section);
                assert_eq!(rows("program"), direct);
            }
            work.gxx(&["-o", "program", object]).quiet();
            assert!(work.verified("program").contains(", 0 wrong"));
        }
    }
    // With one text section, the rows are in order, and the flags say so.
    let one = work
        .s("one", &format!(".globl f\nf: nop\ng: nop\n{}", v3_source(".section .sframe,\"a\"", "g", "1")));
    work.ld(&["-r", "--sframe-index", "-o", "out.o", &one]).quiet();
    let elf = work.elf_unchecked("out.o");
    assert_eq!(blobs(elf.section(".sframe_idx"))[0].flags, SORTED | PCREL);
    assert_eq!(elf.relocations_for(elf.section(".sframe_idx").index)[0].addend, 1);
}

#[test]
fn emitted_relocations_compute_what_is_written() {
    let work = Work::new();
    let objects = mixed(&work);
    let inputs: Vec<&str> = objects.iter().map(String::as_str).collect();
    work.gxx(&[&["-o", "program", "-Wl,--sframe-index,--emit-relocs"], &inputs[..]].concat()).quiet();
    let blob = table(&work, "program", ".sframe_idx");
    let elf = work.elf_unchecked("program");
    let symbols = elf.symbols();
    let relocations = elf.relocations_for(elf.section(".sframe_idx").index);
    assert_eq!(relocations.len(), blob.rows.len());
    for (relocation, row) in relocations.iter().zip(&blob.rows) {
        let target = symbols[relocation.symbol].value.wrapping_add_signed(relocation.addend);
        assert_eq!(target, row.start);
        assert_eq!(relocation.offset, elf.section(".sframe_idx").addr + row.field as u64);
    }
}

#[test]
fn plt_entries_have_rows() {
    let work = Work::new();
    let library = work.shared("lib", "int a(void) { return 1; } int b(void) { return 2; }", &[]);
    let source = "int a(void), b(void); int ext(int x) { return x; } void sink(void *p) {}
__attribute__((noinline)) int call(int (*f)(void)) { return f(); }
static int one(void) { return 1; }
static void *choose(void) { return one; }
int chosen(void) __attribute__((ifunc(\"choose\")));
int main(void) { return call(b) + a() + b() + chosen() - 6; }";
    let main = work.c("main", source, &["-fPIE", "-fno-plt", "-fplt"]);
    for options in ["-z,lazy", "-z,now", "-z,ibtplt"] {
        let option = format!("-Wl,--sframe-index,{options}");
        let frames = work.fixture("v3-gas2.47/demo.x86_64.o");
        work.gcc(&["-o", "program", &option, &main, &frames, &library]).quiet();
        work.run("program");
        let blob = table(&work, "program", ".sframe_idx");
        let elf = work.elf("program");
        for name in [".plt", ".plt.sec", ".plt.got"] {
            let Some(section) = elf.find(name) else { continue };
            let inside = |start: u64| (section.addr..section.end()).contains(&start);
            let covered: u64 =
                blob.rows.iter().filter(|row| inside(row.start)).map(|row| u64::from(row.size)).sum();
            assert_eq!(covered, section.data.len() as u64, "{options}: {name}");
        }
        // PLT0 has one word more on its stack than the entry that jumped to it, which pushed a word.
        let plt = elf.section(".plt");
        let rules = |pc: u64| {
            let outcome = work.sframe(&["lookup", "program", &format!("{pc:#x}")]).ok();
            outcome.stdout
        };
        let offset = |text: &str, offset: u32| {
            assert!(text.contains(&format!("cfa=rsp+{offset} ")), "{options}: CFA rsp+{offset}: {text}");
        };
        let pushed = if options == "-z,ibtplt" { 9 } else { 11 };
        offset(&rules(plt.addr), 16);
        offset(&rules(plt.addr + 6), 24);
        offset(&rules(plt.addr + 16), 8);
        offset(&rules(plt.addr + 16 + pushed - 1), 8);
        offset(&rules(plt.addr + 16 + pushed), 16);
        for name in [".plt.sec", ".plt.got"] {
            if let Some(section) = elf.find(name) {
                offset(&rules(section.addr + 6), 8);
            }
        }
        work.gcc(&["-o", "program", &option, "-Wl,--no-sframe-plt", &main, &frames, &library]).quiet();
        let blob = table(&work, "program", ".sframe_idx");
        let plt = work.elf("program").section(".plt").addr;
        assert!(blob.row_at(plt).is_none());
    }
}

/// The sections of a script for a small static program; `frames` has its statements for SFrame.
fn script(work: &Work, frames: &str) -> String {
    let sections = format!(
        "ENTRY(_start) SECTIONS {{ . = 0x400000; .text : {{ *(.text .text.*) }} . = ALIGN(0x1000);
 .rodata : {{ *(.rodata .rodata.* .eh_frame) }} {frames}
 .data : {{ *(.data .data.* .got .got.plt) }} .bss : {{ *(.bss) }}
 .symtab : {{ *(.symtab) }} .strtab : {{ *(.strtab) }} .shstrtab : {{ *(.shstrtab) }}
 /DISCARD/ : {{ *(.comment .note.* .rela.* .plt .plt.* .iplt) }} }}"
    );
    work.write("script.ld", sections)
}

#[test]
fn scripts_place_and_discard_the_index() {
    let work = Work::new();
    let demo = work.fixture("v1-gas2.40/demo.x86_64.o");
    let main = work.fixture("v3-gas2.47/main.x86_64.o");
    let puts = work.s("puts", ".globl puts\nputs: ret\n");
    let link = |frames: &str, options: &[&str]| {
        let script = script(&work, frames);
        work.ld(&[&["-o", "program", "--sframe-index", "-T", &script, &demo, &main, &puts], options].concat())
    };
    let strict = ["--orphan-handling=error"];
    link(".sframe_idx : { *(.sframe_idx) }", &strict).quiet();
    let placed = blobs(work.elf("program").section(".sframe_idx"));
    assert!(placed[0].rows.len() > 3);
    link("mine : { KEEP(*(.sframe_idx)) }", &["--gc-sections", "--orphan-handling=error"]).quiet();
    let elf = work.elf("program");
    let mine = elf.section("mine");
    assert_eq!((mine.kind, elf.segment(PT_GNU_SFRAME).addr), (SHT_GNU_SFRAME, mine.addr));
    link(".sframe : { *(.sframe) }", &strict).fails().says(&[".sframe_idx", "<internal>"]);
    link(".sframe : { *(.sframe) }", &[]).quiet();
    let elf = work.elf("program");
    assert!(elf.find(".sframe").is_none() && elf.find(".sframe_idx").is_some(), "an orphan");
    for frames in ["/DISCARD/ : { *(.sframe_idx) }", "/DISCARD/ : { *(.sframe*) }"] {
        link(frames, &strict).quiet();
        assert!(work.elf("program").section_names().iter().all(|name| !name.contains("sframe")));
    }
    link("/DISCARD/ : { *(.sframe) } .sframe_idx : { *(.sframe_idx) }", &strict).quiet();
    assert_eq!(blobs(work.elf("program").section(".sframe_idx"))[0].rows, placed[0].rows);
    link("OVERLAY : { .a { *demo*(.text.x) *(.sframe_idx) } .b { *(.none) } }", &[]).ok();
    let overlay = "SECTIONS { . = 0x400000; OVERLAY : { .a { *demo*(.text) } .b { *main*(.text) } } }";
    let overlay = work.write("overlay.ld", overlay);
    work.ld(&["-o", "program", "--sframe-index", "-T", &overlay, &demo, &main, &puts])
        .fails()
        .says(&["overlay section .a", "sorted"]);
}

#[test]
fn options_set_version_and_sharing_of_the_table() {
    let work = Work::new();
    let objects = mixed(&work);
    let inputs: Vec<&str> = objects.iter().map(String::as_str).collect();
    let link = |options: &str| work.gxx(&[&["-o", "program", options], &inputs[..]].concat());
    link("-Wl,--sframe-index").quiet();
    let shared = work.elf("program").section(".sframe_idx").data.len();
    let functions = work.functions("program");
    link("-Wl,--sframe-index,--no-sframe-share").quiet();
    assert!(work.elf("program").section(".sframe_idx").data.len() > shared);
    assert_eq!(work.functions("program").len(), functions.len());
    link("-Wl,--sframe-index,--sframe-version=2").quiet();
    assert_eq!(table(&work, "program", ".sframe_idx").version, 2);
    link("-Wl,--sframe-index,-z,nosframe-alloc").quiet();
    let elf = work.elf("program");
    let found = elf.section(".sframe_idx");
    assert_eq!((found.kind, found.flags & SHF_ALLOC, found.addr), (SHT_GNU_SFRAME, 0, 0));
    assert!(elf.segments_of(PT_GNU_SFRAME).is_empty());
    assert!(work.verified("program").contains(", 0 wrong"));
    link("-Wl,--sframe-index,--sframe=merge").fails().says(&["--sframe=merge and --sframe-index"]);
    link("-Wl,--sframe-index=compact").fails().says(&["v3"]);
    // V2 cannot express an undefined return address.
    let outermost = work.fixture("v3-gas2.47/special.x86_64.o");
    work.ld(&["-r", "--sframe-index", "--sframe-version=2", "-o", "two.o", &outermost]).ok().says(&[
        "left out",
        "V2",
        "--sframe-version=3",
    ]);
    work.ld(&["-r", "--sframe-index", "--fatal-warnings", "--sframe-version=2", "-o", "two.o", &outermost])
        .fails();
    // Without functions, there is no section.
    let bare = work.s("bare", ".globl _start\n_start: ret\n");
    work.ld(&["-o", "bare", "--sframe-index", &bare]).quiet();
    assert!(work.elf("bare").find(".sframe_idx").is_none());
}

#[test]
fn functions_out_of_reach_of_version_2_are_named() {
    let work = Work::new();
    let far = format!(
        ".globl _start\n_start: ret\n.section .ltext,\"axl\",@progbits\n.globl far_away\n.type far_away,@function\n\
         far_away: ret\n.size far_away,1\n{}",
        v3_source(".section .sframe,\"a\"", "far_away", "1")
    );
    let far = work.s("far", &far);
    let script = work.write(
        "far.ld",
        "SECTIONS { . = 0x400000; .text : { *(.text) } .sframe_idx : { *(.sframe_idx) } . = 0x200000000; .ltext : { *(.ltext) } }",
    );
    let link = |version: &str| work.ld(&["-o", "program", "--sframe-index", version, "-T", &script, &far]);
    link("--sframe-version=3").quiet();
    assert_eq!(blobs(work.elf("program").section(".sframe_idx"))[0].rows[0].start, 0x2_0000_0000);
    link("--sframe-version=2").fails().says(&["far_away", "2 GiB", "--sframe-version=3"]);
}

#[test]
fn unrecognised_sections_stay_whole() {
    let work = Work::new();
    let objects = mixed(&work);
    let inputs: Vec<&str> = objects.iter().map(String::as_str).collect();
    let unknown = work.s(
        "unknown",
        &format!(
            "known: ret\n{}",
            v3_source(".section .sframe,\"a\"", "known", "1").replace(".byte 3,4,", ".byte 9,4,")
        ),
    );
    let link = |options: &str| work.gxx(&[&["-o", "program", options, &unknown], &inputs[..]].concat());
    let outcome = link("-Wl,--sframe-index").ok();
    outcome.says(&["unknown.o:(.sframe", "version 9", "goes into .sframe unchanged"]);
    let elf = work.elf("program");
    assert_eq!(elf.section(".sframe").data[2], 9);
    assert_eq!(elf.segment(PT_GNU_SFRAME).addr, elf.section(".sframe_idx").addr);
    link("-Wl,--sframe-index,--fatal-warnings").fails().says(&["version 9"]);
    for options in ["-Wl,--sframe-index,--sframe=discard", "-Wl,--sframe=merge"] {
        link(options).ok().says(&["version 9", "left out"]);
        let elf = work.elf("program");
        let left = elf.sections.iter().filter(|section| section.kind == SHT_GNU_SFRAME).count();
        assert_eq!(left, 1, "{options}");
        assert!(work.verified("program").contains(" 0 errors"));
    }
}

/// Every byte of the section is damaged, and it is cut at every length. The linker must print a message or
/// write a table that passes all checks, and it must not lose an undamaged row.
#[test]
fn damaged_inputs_give_a_message_or_a_sound_table() {
    let work = Work::new();
    let good = work.fixture("v3-gas2.47/main.x86_64.o");
    for version in ["v1-gas2.40", "v2e1-gas2.45", "v3-gas2.47"] {
        let damaged = work.fixture(&format!("{version}/inl.x86_64.o"));
        let bytes = work.read(&damaged);
        let elf = Elf::parse(bytes.clone()).unwrap();
        let section = elf.section(".sframe");
        let (start, size) = (section.offset as usize, section.data.len());
        let table = word(&bytes, start + 16 + 8) as usize;
        let interesting = (0..28).chain((28..28 + table).step_by(5)).chain((28 + table..size).step_by(11));
        for at in interesting {
            let mut damage = bytes.clone();
            damage[start + at] ^= 0x41;
            check_damaged(&work, &good, damage, &format!("{version}: byte {at:#x}"));
        }
        let header = bytes
            .windows(24)
            .position(|w| w[..8] == section.offset.to_le_bytes() && w[8..16] == (size as u64).to_le_bytes());
        let header = header.expect("the section's header");
        for length in (1..size).step_by(17) {
            let mut damage = bytes.clone();
            damage[header + 8..header + 16].copy_from_slice(&(length as u64).to_le_bytes());
            check_damaged(&work, &good, damage, &format!("{version}: {length} bytes"));
        }
    }
}

#[track_caller]
fn check_damaged(work: &Work, good: &str, bytes: Vec<u8>, what: &str) {
    let damaged = work.write("damaged.o", bytes);
    let args =
        ["-o", "out", "-e", "0", "--unresolved-symbols=ignore-all", "--sframe-index", "--sframe=discard"];
    let outcome = work.ld(&[&args[..], &[good, &damaged]].concat()).no_crash();
    if outcome.code == Some(1) {
        assert!(outcome.stderr.contains("damaged.o"), "{what}: {outcome}");
        return;
    }
    let elf = work.elf_unchecked("out");
    let table = blobs(elf.section(".sframe_idx"));
    assert!(table[0].row_at(elf.symbol("_start").value).is_some(), "{what}");
    let verified = work.sframe(&["verify", "--verbose", "out"]);
    assert!(verified.stdout.contains(" 0 errors"), "{what}: {verified}");
    if verified.code != Some(0) {
        // A row with a changed offset looks like any other row; nothing in the section shows the damage.
        assert!(outcome.stderr.is_empty(), "{what}: a section that was refused gives no rows: {verified}");
    }
}

#[test]
fn statistics_count_the_functions_taken() {
    let work = Work::new();
    let objects = mixed(&work);
    let inputs: Vec<&str> = objects.iter().map(String::as_str).collect();
    let options = "-Wl,--sframe-index,--stats=json,--gc-sections";
    let outcome = work.gxx(&[&["-o", "program", options], &inputs[..]].concat()).ok();
    let json = outcome.stdout.lines().find(|line| line.starts_with('{')).expect("statistics");
    let stats: serde_json::Value = serde_json::from_str(json).unwrap();
    let frames = &stats["sframe"];
    let blob = table(&work, "program", ".sframe_idx");
    assert_eq!(frames["mode"], "index");
    assert_eq!(frames["own"]["functions"], blob.rows.len());
    assert_eq!(frames["own"]["bytes"], work.elf("program").section(".sframe_idx").data.len());
    assert_eq!(frames["own"]["section"], ".sframe_idx");
    let inputs_of = frames["inputs"].as_array().unwrap();
    let second = inputs_of.iter().find(|input| input["file"].as_str().unwrap().contains("inl2")).unwrap();
    assert_eq!(second["fate"], "taken");
    assert!(second["taken"]["lost_group"].as_u64().unwrap() > 0, "{second}");
    let sum: u64 = inputs_of.iter().filter_map(|input| input["taken"]["functions"].as_u64()).sum();
    assert_eq!(sum + frames["own"]["added"].as_u64().unwrap(), blob.rows.len() as u64);
    let outcome =
        work.gxx(&[&["-o", "program", "-Wl,--sframe-index,--print-sframe"], &inputs[..]].concat()).ok();
    assert!(outcome.stdout.contains("made .sframe_idx: ") && outcome.stdout.contains("of discarded groups"));
}

/// A function that two inputs describe has one row, and an empty function has none. `.sframe` keeps no text
/// alive.
#[test]
fn each_function_has_one_row() {
    let work = Work::new();
    let frames = |symbol: &str, size: &str| v3_source(".section .sframe,\"a\"", symbol, size);
    let a = work.s("a", &format!(".globl _start,f\n_start: call f\nret\nf: nop\nret\n{}", frames("f", "2")));
    let b = work.s(
        "b",
        &format!(
            ".section .text.dead,\"ax\"\ndead: ret\n{}{}{}",
            frames("f", "2"),
            frames("_start", "0"),
            frames("dead", "1")
        ),
    );
    for options in [&[][..], &["--gc-sections"]] {
        let args = [&["-o", "program", "--sframe-index", "--print-sframe", &a, &b], options].concat();
        let outcome = work.ld(&args).ok();
        let elf = work.elf("program");
        let rows = blobs(elf.section(".sframe_idx"))[0].rows.clone();
        assert_eq!(rows.len(), 2 - options.len(), "{rows:?}");
        assert_eq!(elf.find_symbol("dead").is_some(), options.is_empty());
        assert!(outcome.stdout.contains("1 without bytes, 1 described before"), "{outcome}");
    }
}

#[test]
fn gnu_readelf_lists_it_and_it_is_smaller_than_gnu_ld_makes_it() {
    let work = Work::new();
    let readelf = need!(tools::sframe_readelf());
    let assembler = need!(tools::assembler(3));
    let gnu = need!(tools::peer_linker("bfd"));
    let source = "#include <map>\n#include <string>\n#include <vector>\n#include <sstream>\n#include <regex>
int main(int c, char **v) { std::map<std::string, std::vector<int>> m; std::ostringstream o; std::regex r(\"a+b\");
 for (int i = 0; i < c; i++) m[v[i]].push_back(i); for (auto &p : m) o << p.first << p.second.size();
 return std::regex_match(o.str(), r); }";
    work.write("big.cc", source);
    work.command("g++", &["-O1", "-S", "-ffunction-sections", "-o", "big.s", "big.cc"]).ok();
    work.command(&assembler, &["--gsframe", "-o", "big.o", "big.s"]).ok();
    work.gxx(&["-o", "ours", "-Wl,--sframe-index", "big.o"]).quiet();
    let rows = table(&work, "ours", ".sframe_idx").rows.len();
    let listed = work.command(&readelf, &["--sframe=.sframe_idx", "ours"]).quiet().stdout;
    assert_eq!(listed.matches("func idx").count(), rows);
    let directory = work.path("gnu");
    std::fs::create_dir_all(&directory).unwrap();
    std::os::unix::fs::symlink(&gnu, directory.join("ld")).unwrap();
    let option = format!("-B{}", directory.display());
    work.command("g++", &[&option, "-o", "theirs", "big.o"]).ok();
    let ours = work.elf("ours").section(".sframe_idx").data.len();
    let theirs = work.elf_unchecked("theirs");
    let theirs = theirs.find(".sframe").filter(|section| section.data.get(2) == Some(&3));
    let theirs = need!(theirs.ok_or_else(|| "no GNU ld that writes V3".to_owned())).data.len();
    assert!(ours * 100 <= theirs * 85, "{ours} bytes, GNU ld makes {theirs}");
}

/// Inputs in the forms of today's assemblers and of future ones: one section for all text, or a section for
/// each text section, in its group, with link order, or with both. In every kind of link, the table must have
/// the live rows that concatenation keeps.
#[test]
fn inputs_of_every_shape_give_the_same_live_rows() {
    let shapes =
        ["multi", "multiname", "linkorder", "comdat", "comdatlo", "share", "twice", "unsorted", "pad"];
    for shape in shapes {
        let work = Work::new();
        let object = work.fixture(&format!("crafted-v3/{shape}.x86_64.o"));
        let other = work.s("other", ".globl other_start\nother_start: ret\n");
        let base = ["-e", "other_start", "--unresolved-symbols=ignore-all", "--no-sframe-plt"];
        let live = |file: &str| {
            let mut rows = work.functions(file);
            rows.retain(|row| !row.contains("\"size\":0}"));
            rows.dedup();
            rows
        };
        let symbols = work.elf_unchecked(&object).symbols();
        let root = symbols.iter().find(|s| s.section != 0 && !s.name.is_empty() && s.binding != 0);
        let keep = root.map(|symbol| format!("--undefined={}", symbol.name));
        for options in
            [vec![], vec!["--gc-sections"], vec!["--gc-sections", keep.as_deref().unwrap_or("-O1")]]
        {
            let link = |mode: &[&str], input: &str| {
                let args = [&base[..], &options, mode, &["-o", "out", &other, input]].concat();
                work.ld(&args).ok();
                if work.elf_unchecked("out").sections.iter().any(|s| s.kind == SHT_GNU_SFRAME) {
                    live("out")
                } else {
                    Vec::new()
                }
            };
            let concatenated = link(&[], &object);
            for (mode, _) in MODES {
                let found = link(&[mode], &object);
                assert_eq!(found.len(), concatenated.len(), "{shape}: {mode} {options:?}");
                work.ld(&["-r", mode, "-o", "r.o", &object]).ok();
                assert_eq!(link(&[mode], "r.o").len(), found.len(), "{shape}: -r {mode} {options:?}");
                assert!(link(&[], "r.o").len() == found.len(), "{shape}: -r {mode}, then concatenation");
            }
        }
    }
}

/// Today's module loader expects one `.sframe`: V3, field-relative, without an auxiliary header.
#[test]
fn kernel_modules_hold_one_table_as_the_loader_wants_it() {
    let work = Work::new();
    let objects = mixed(&work);
    let inputs: Vec<&str> = objects.iter().map(String::as_str).collect();
    let module =
        work.write("module.lds", "SECTIONS { __ksymtab 0 : ALIGN(8) { *(SORT(___ksymtab+*)) } .text 0 : { *(.text .text.*) } .rodata 0 : { *(.rodata*) } }");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = root.join("linker-scripts/kernel-module.ld");
    let named = named.to_str().expect("a path in UTF-8");
    let ways = [&["--sframe=merge", "-T", &module][..], &["--sframe-index", "-T", &module, "-T", named]];
    let mut found = Vec::new();
    for way in ways {
        let args = [&["-r", "--force-group-allocation", "-o", "module.o"], way, &inputs].concat();
        work.ld(&args).quiet();
        let elf = work.elf_unchecked("module.o");
        let frames: Vec<_> = elf.sections.iter().filter(|s| s.kind == SHT_GNU_SFRAME).collect();
        let [section] = frames.as_slice() else { panic!("{way:?}: {frames:?}") };
        assert_eq!((section.name.as_str(), section.flags & SHF_ALLOC), (".sframe", SHF_ALLOC));
        let [blob] = &blobs(section)[..] else { panic!() };
        assert_eq!((blob.version, blob.flags & PCREL, section.data[7]), (3, PCREL, 0));
        assert!(elf.relocations_for(section.index).iter().all(|relocation| relocation.kind == 24));
        found.push((blob.flags, elf.relocations_for(section.index).len(), section.data.len()));
    }
    assert_eq!(found[0], found[1]);
}
