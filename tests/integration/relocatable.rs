//! `-r` merges objects and keeps relocations and groups, and the result links and runs.

use crate::on_every_machine;
use crate::support::elf::*;
use crate::support::{Machine, Work};

fn a_merged_object_links_and_runs_like_its_parts(machine: &'static Machine) {
    let work = Work::on(machine);
    let a = work.cc("a", "#include <cstdio>\n#include <string>\nint helper(const std::string &); static int once = 3;\nint main() { try { std::printf(\"%d\\n\", helper(\"abc\") + once); throw 1; } catch (int) { std::puts(\"caught\"); } }", &["-g"]);
    let b = work.cc(
        "b",
        "#include <string>\nint helper(const std::string &s) { return (int)s.size() * 10; }",
        &["-g"],
    );
    work.ld(&["-r", "-o", "merged.o", &a, &b]).quiet();
    let elf = work.elf("merged.o");
    assert_eq!((elf.kind, elf.segments.len(), elf.entry), (ET_REL, 0, 0));
    assert!(elf.sections.iter().all(|s| s.addr == 0));
    assert!(
        elf.find(".eh_frame_hdr").is_none() && elf.find(".dynamic").is_none() && elf.find(".got").is_none()
    );
    work.gxx(&["-o", "program", "merged.o"]).quiet();
    assert_eq!(work.run("program"), "33\ncaught\n");
    work.ld(&["-r", "-o", "twice.o", "merged.o"]).quiet();
    work.gxx(&["-o", "program", "twice.o"]).quiet();
    assert_eq!(work.run("program"), "33\ncaught\n");
}

#[test]
fn sections_merge_by_exact_name_and_relocations_follow() {
    let work = Work::new();
    let a = work.s("a", ".text\nnop\n.data\n.quad target+4\n.section .text.x,\"ax\"\nnop\n");
    let b = work.s(
        "b",
        ".text\n.globl target\ntarget: ret\nlocal: nop\n.data\n.quad local\n.section .text.x,\"ax\"\nnop\n",
    );
    work.ld(&["-r", "-o", "merged.o", &a, &b]).quiet();
    let elf = work.elf("merged.o");
    let text = elf.section(".text");
    assert_eq!(elf.section(".text.x").size, 2);
    let symbols = elf.symbols();
    let relocations = elf.relocations_for(elf.section(".data").index);
    assert_eq!(relocations.len(), 2);
    let place = |r: &Relocation| {
        let symbol = &symbols[r.symbol];
        (symbol.section as usize == text.index, symbol.value.wrapping_add_signed(r.addend))
    };
    let target = elf.symbol("target").value;
    assert_eq!(symbols[relocations[0].symbol].name, "target");
    assert_eq!((relocations[0].offset, place(&relocations[0])), (0, (true, target + 4)));
    assert_eq!((relocations[1].offset, place(&relocations[1])), (8, (true, target + 1)));
    let rela = elf.find(".rela.data").unwrap();
    assert_eq!((rela.info as usize, rela.flags & 0x40), (elf.section(".data").index, 0x40), "SHF_INFO_LINK");
}

#[test]
fn undefined_weak_and_common_symbols_stay_what_they_are() {
    let work = Work::new();
    let a = work.c("a", "int common; extern int undefined; __attribute__((weak)) extern int weak; __attribute__((weak)) int weak_here = 1; int *p[] = {&common, &undefined, &weak};", &["-fcommon"]);
    work.ld(&["-r", "-o", "merged.o", &a]).quiet();
    let elf = work.elf("merged.o");
    assert_eq!(elf.symbol("common").section, SHN_COMMON);
    assert_eq!((elf.symbol("undefined").section, elf.symbol("undefined").binding), (SHN_UNDEF, STB_GLOBAL));
    assert_eq!((elf.symbol("weak").section, elf.symbol("weak").binding), (SHN_UNDEF, STB_WEAK));
    assert_eq!(elf.symbol("weak_here").binding, STB_WEAK);
    work.ld(&["-r", "-d", "-o", "allocated.o", &a]).quiet();
    let elf = work.elf("allocated.o");
    let common = elf.symbol("common");
    assert_eq!(elf.sections[common.section as usize].name, ".bss");
}

fn groups_stay_with_their_relocation_sections(machine: &'static Machine) {
    let work = Work::on(machine);
    let inline =
        "extern int outside; inline __attribute__((noinline)) int twice(int x) { return x * 2 + outside; }\n";
    let a = work.cc("a", &format!("int outside = 0;\n{inline}int use_a() {{ return twice(1); }}"), &[]);
    let b =
        work.cc("b", &format!("{inline}int use_a(); int main() {{ return twice(1) + use_a() - 4; }}"), &[]);
    work.ld(&["-r", "-o", "merged.o", &a, &b]).ok();
    let elf = work.elf("merged.o");
    let group = elf.group("_Z5twicei");
    assert_eq!(group.flags, 1);
    let mut names = elf.member_names(&group);
    names.sort_unstable();
    assert_eq!(names, [".rela.text._Z5twicei", ".text._Z5twicei"]);
    for &member in &group.members {
        assert!(elf.sections[member].flags & SHF_GROUP != 0);
        assert!(group.index < member, "a group header precedes its members");
    }
    let grouped = elf.sections.iter().filter(|s| s.flags & SHF_GROUP != 0).count();
    assert_eq!(grouped, group.members.len());
    let c = work.cc("c", &format!("{inline}int use_c() {{ return twice(3); }}"), &[]);
    work.gxx(&["-o", "program", "merged.o", &c]).quiet();
    work.run("program");
}

fn frames_of_a_losing_copy_do_not_survive(machine: &'static Machine) {
    let work = Work::on(machine);
    let inline = "inline __attribute__((noinline)) int twice(int x) { volatile int y = x; return y * 2; }\n";
    let a = work.cc("a", &format!("{inline}int use_a() {{ return twice(1); }}"), &[]);
    let b =
        work.cc("b", &format!("{inline}int use_a(); int main() {{ return twice(1) + use_a() - 4; }}"), &[]);
    work.ld(&["-r", "-o", "merged.o", &a, &b]).ok();
    work.gxx(&["-o", "program", "merged.o"]).quiet();
    work.run("program");
    let elf = work.elf("program");
    let fdes = crate::support::eh_frame::check(&elf);
    let twice = elf.symbol("_Z5twicei").value;
    assert_eq!(fdes.iter().filter(|f| f.start == twice).count(), 1);
}

#[test]
fn strip_and_discard_options_remove_symbols_and_debug_sections() {
    let work = Work::new();
    let a = work.c(
        "a",
        "static int inner(void) { return 1; } int outer(void) { return inner(); }",
        &["-g", "-O0"],
    );
    work.ld(&["-r", "-S", "-o", "nodebug.o", &a]).quiet();
    assert!(work.elf("nodebug.o").section_names().iter().all(|n| !n.contains("debug")));
    work.ld(&["-r", "-x", "-o", "nolocals.o", &a]).quiet();
    assert!(work.elf("nolocals.o").find_symbol("inner").is_none());
    work.ld(&["-r", "-o", "all.o", &a]).quiet();
    assert!(work.elf("all.o").find_symbol("inner").is_some());
}

#[test]
fn modes_that_do_not_fit_together_are_refused() {
    let work = Work::new();
    let a = work.c("a", "int a;", &[]);
    for other in ["-shared", "-pie"] {
        work.ld(&["-r", other, "-o", "out", &a]).fails().says(&["-r", other.trim_start_matches('-')]);
    }
}

#[test]
fn dynamic_options_are_accepted_and_without_effect() {
    let work = Work::new();
    let a = work.c("a", "int a(void) { return 1; }", &[]);
    work.gcc(&["-r", "-o", "merged.o", &a]).quiet();
    work.ld(&[
        "-r",
        "-o",
        "merged.o",
        &a,
        "--eh-frame-hdr",
        "--hash-style=gnu",
        "-z",
        "now",
        "-dynamic-linker",
        "/x",
    ])
    .quiet();
    let elf = work.elf("merged.o");
    assert!(elf.find(".interp").is_none() && elf.find(".gnu.hash").is_none());
}

#[test]
fn strings_are_merged_and_comment_is_kept() {
    let work = Work::new();
    let a = work.c("a", "const char *a(void) { return \"the same words\"; }", &[]);
    let b = work.c("b", "const char *b(void) { return \"the same words\"; }", &[]);
    let main = work.c("main", "#include <stdio.h>\nconst char *a(void); const char *b(void);\nint main(void) { printf(\"%s %d\\n\", a(), a() == b()); }", &[]);
    work.ld(&["-r", "-o", "merged.o", &a, &b, &main]).quiet();
    work.gcc(&["-o", "program", "merged.o"]).quiet();
    assert_eq!(work.run("program"), "the same words 1\n");
    assert!(work.elf("merged.o").find(".comment").is_some());
}

fn tls_init_arrays_and_ifuncs_survive(machine: &'static Machine) {
    let work = Work::on(machine);
    let a = work.c("a", "#include <stdio.h>\n__thread int t = 4; static int f1(void) { return 5; } static int (*ch(void))(void) { return f1; } int pick(void) __attribute__((ifunc(\"ch\"))); __attribute__((constructor(200))) static void first(void) { printf(\"200 \"); }", &["-fPIC"]);
    let b = work.c("b", "#include <stdio.h>\nextern __thread int t; int pick(void); __attribute__((constructor(150))) static void zero(void) { printf(\"150 \"); }\nint main(void) { printf(\"%d %d\\n\", t, pick()); }", &["-fPIC"]);
    work.ld(&["-r", "-o", "merged.o", &a, &b]).quiet();
    for link in ["-pie", "-no-pie", "-static"] {
        work.gcc(&[link, "-o", "program", "merged.o"]).quiet();
        assert_eq!(work.run("program"), "150 200 4 5\n", "{link}");
    }
}

#[test]
fn forcing_groups_open_merges_their_members() {
    let work = Work::new();
    let inline = "inline __attribute__((noinline)) int twice(int x) { volatile int y = x; return y * 2; }\n";
    let a = work.cc("a", &format!("{inline}int use_a() {{ return twice(1); }}"), &[]);
    let b =
        work.cc("b", &format!("{inline}int use_a(); int main() {{ return twice(1) + use_a() - 4; }}"), &[]);
    work.write("merge.ld", "SECTIONS { .text 0 : { *(.text .text.*) } }");
    work.ld(&["-r", "--force-group-allocation", "-T", "merge.ld", "-o", "merged.o", &a, &b]).ok();
    let elf = work.elf("merged.o");
    assert!(elf.groups().is_empty());
    assert!(elf.sections.iter().all(|s| s.flags & SHF_GROUP == 0));
    assert_eq!(elf.symbol("_Z5twicei").section, elf.section(".text").index as u16);
    let counted = elf.symbols().iter().filter(|s| s.name == "_Z5twicei").count();
    assert_eq!(counted, 1);
    work.gxx(&["-o", "program", "merged.o"]).quiet();
    work.run("program");
}

/// Local symbols that sign groups stay, wherever they are defined, and keep their meaning.
#[test]
fn groups_signed_by_local_symbols_stay_apart() {
    let work = Work::new();
    let grouped = |name: &str, value: u32| {
        format!(
            ".globl {name}\n.section .data.{name},\"awG\",@progbits,local_{name},comdat\n{name}: .long {value}\n.quad {name}\n"
        )
    };
    let a = work.s("a", &format!("{}{}", grouped("first", 1), grouped("second", 2)));
    let b = work.s("b", &grouped("second", 3));
    for options in [&[][..], &["-x"], &["-X"]] {
        work.ld(&[&["-r", "-o", "merged.o", &a, &b], options].concat()).quiet();
        let elf = work.elf("merged.o");
        assert_eq!(elf.groups().len(), 2, "{options:?}");
        for name in ["first", "second"] {
            let group = elf.group(&format!("local_{name}"));
            let mut members = elf.member_names(&group);
            members.sort_unstable();
            assert_eq!(members, [format!(".data.{name}"), format!(".rela.data.{name}")]);
        }
        assert_eq!(elf.section(".data.second").words()[0], 2, "the first copy prevails");
    }
    let c = work.s("c", &format!(".globl _start\n_start: ret\n{}", grouped("second", 4)));
    work.ld(&["-o", "program", "merged.o", &c]).quiet();
    let elf = work.elf("program");
    assert_eq!(elf.at(elf.symbol("second").value, 4), 2u32.to_le_bytes());
}

/// Records of discarded functions keep `R_*_NONE` relocations, because GNU ld expects one in each.
#[test]
fn records_of_discarded_functions_get_none_relocations() {
    let work = Work::new();
    let function = ".globl _start\n.text\n_start: .cfi_startproc\ncall f\nret\n.cfi_endproc\n.section .text.f,\"axG\",@progbits,f,comdat\n.weak f\nf: .cfi_startproc\nret\n.cfi_endproc\n";
    let a = work.s("a", function);
    let b = work.s("b", &function.replace("_start:", "other:").replace("globl _start", "globl other"));
    work.ld(&["-r", "-o", "merged.o", &a, &b]).quiet();
    let elf = work.elf("merged.o");
    let frames = elf.section(".eh_frame");
    let relocations = elf.relocations_for(frames.index);
    assert_eq!(relocations.len(), 4);
    let meaningless: Vec<_> = relocations.iter().filter(|r| r.kind == 0).collect();
    assert_eq!(meaningless.len(), 1);
    assert_eq!((meaningless[0].symbol, meaningless[0].addend), (0, 0));
}

/// A list of ranges ends at 0. So a reference to a discarded section gets another value, a tombstone, and no
/// later link can set it.
#[test]
fn debug_sections_get_tombstones() {
    let work = Work::new();
    let text = ".section .text.f,\"axG\",@progbits,f,comdat\n.weak f\nf: ret\n.Lend:\n";
    let debug = ".section .debug_ranges,\"\",@progbits\n.quad f+0, .Lend, 0, 0\n.section .debug_info,\"\",@progbits\n.quad .Lend\n";
    let a = work.s(
        "a",
        ".globl _start\n_start: call f\n.section .text.f,\"axG\",@progbits,f,comdat\n.weak f\nf: ret\n",
    );
    let b = work.s("b", &format!("{text}{debug}"));
    work.ld(&["-r", "-o", "merged.o", &a, &b]).quiet();
    let elf = work.elf("merged.o");
    let ranges = elf.section(".debug_ranges");
    assert_eq!(ranges.quads(), [0, 1, 0, 0], "the prevailing f keeps its relocation, the local label gets 1");
    assert_eq!(elf.relocations_for(ranges.index).len(), 1);
    assert_eq!(elf.section(".debug_info").quads(), [0]);
    assert!(elf.find(".rela.debug_info").is_none());
}

/// Relocations double the number of sections, so long section numbers start earlier.
#[test]
fn very_many_sections_have_long_numbers() {
    let work = Work::new();
    const COUNT: usize = 33_000;
    let source: String = (0..COUNT)
        .map(|i| {
            format!(".section .text.f{i},\"ax\",@progbits\n.globl f{i}\nf{i}: call f{}\n", (i + 1) % COUNT)
        })
        .collect();
    let a = work.s("a", &source);
    work.ld(&["-r", "-o", "merged.o", &a]).quiet();
    let bytes = std::fs::read(work.path("merged.o")).unwrap();
    assert_eq!(half(&bytes, 60), 0, "e_shnum");
    work.ld(&["-e", "f0", "-o", "direct", &a]).quiet();
    work.ld(&["-e", "f0", "-o", "through", "merged.o"]).quiet();
    assert_eq!(work.elf("direct").section(".text").data, work.elf("through").section(".text").data);
}

#[test]
fn garbage_of_relocatable_output_is_collected() {
    let work = Work::new();
    let a =
        work.c("a", "int dead(void) { return 1; } int live(void) { return 2; }", &["-ffunction-sections"]);
    work.ld(&["-r", "--gc-sections", "-u", "live", "-o", "merged.o", &a]).quiet();
    let elf = work.elf("merged.o");
    assert!(elf.find(".text.live").is_some() && elf.find(".text.dead").is_none());
    assert!(elf.find_symbol("dead").is_none());
}

#[test]
fn an_entry_that_is_asked_for_is_an_offset_in_its_section() {
    let work = Work::new();
    let a = work.s("a", ".globl f, _start\n_start: nop\nf: ret\n");
    let b = work.s("b", "nop\n");
    work.ld(&["-r", "-e", "f", "-o", "merged.o", &b, &a]).quiet();
    let elf = work.elf("merged.o");
    assert_ne!(elf.entry, 0);
    assert_eq!(elf.entry, elf.symbol("f").value);
    work.ld(&["-r", "-o", "merged.o", &b, &a]).quiet();
    assert_eq!(work.elf("merged.o").entry, 0, "nobody asked for `_start`");
    let outcome = work.ld(&["-r", "-e", "g", "-o", "merged.o", &b, &a]).ok();
    assert!(outcome.stderr.contains("cannot find entry symbol g; not setting start address"), "{outcome}");
    assert_eq!(work.elf("merged.o").entry, 0);
}

/// A program with two local variables of each kind. A reference to the second one must not become one to the
/// first.
const LOCALS: &str = r#"
static __thread int first = 1, second = 11, zero, nought;
static int one = 1, two = 2;
static __attribute__((noinline, used)) int other(int x) { return x; }
static __attribute__((noinline, used)) int plus(int x) { return x + 5; }
static __attribute__((noinline)) int hundred(int x) { return x + 100; }
typedef int function(int);
static function *resolve(void) { return hundred; }
static int chosen(int) __attribute__((ifunc("resolve"), used));
int *variable(void) { return &second; }
int *zeros(void) { return &nought; }
int load(void) { int *p; LOAD(two, p); return *p; }
function *get(void) { function *f; LOAD(plus, f); return f; }
int main(void) {
    first++; zero++; one++;
    return *variable() == 11 && *zeros() == 0 && load() == 2 && get()(1) == 6 && chosen(1) == 101 && other(1) == 1 ? 0 : 1;
}"#;

/// Loads the address of a symbol; from the GOT if assemblers allow that.
fn got_load(machine: &Machine) -> &'static str {
    match machine.name {
        "x86_64" => r#"__asm__("movq " #name "@GOTPCREL(%%rip), %0" : "=r"(to))"#,
        // For the GOT slot of a local symbol, older assemblers use the section's symbol.
        "aarch64" => "to = (void *)&name",
        _ => r#"__asm__("lgrl %0, " #name "@GOTENT" : "=r"(to))"#,
    }
}

/// A GOT or TLS slot belongs to its symbol, so options that drop local symbols keep such symbols.
fn local_symbols_with_slots_stay(machine: &'static Machine) {
    for (name, flags) in machine.tls_models {
        let work = Work::on(machine);
        let source = format!("#define LOAD(name, to) {}\n{LOCALS}", got_load(machine));
        let a = work.c("a", &source, &[&["-O1", "-fPIC", "-fno-toplevel-reorder"], *flags].concat());
        work.write("list", "main\n");
        for options in [&["-x"][..], &["-X"], &["--discard-all", "-S"], &["--retain-symbols-file", "list"]] {
            work.ld(&[&["-r", "-o", "merged.o", &a], options].concat()).quiet();
            let elf = work.elf("merged.o");
            let in_got: &[&str] = if machine.name == "aarch64" { &[] } else { &["two", "plus"] };
            for symbol in ["second", "nought", "chosen"].iter().chain(in_got) {
                assert!(elf.find_symbol(symbol).is_some(), "{name} {options:?}: {symbol}");
            }
            assert_eq!(elf.find_symbol("hundred").is_some(), options == ["-X"], "{name} {options:?}");
            work.gcc(&["-o", "program", "merged.o"]).quiet();
            work.run("program");
        }
    }
}

on_every_machine!(
    a_merged_object_links_and_runs_like_its_parts,
    frames_of_a_losing_copy_do_not_survive,
    tls_init_arrays_and_ifuncs_survive,
    groups_stay_with_their_relocation_sections,
    local_symbols_with_slots_stay,
);
