//! Hello as every kind of output, through gcc and clang.

use crate::need;
use crate::on_every_machine;
use crate::support::elf::*;
use crate::support::{Machine, Work, tools};

const HELLO_C: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(int argc, char **argv) {
    int numbers[] = {3, 1, 2};
    qsort(numbers, 3, sizeof *numbers, compare);
    printf("hello %d %d%d%d\n", argc, numbers[0], numbers[1], numbers[2]);
    return 0;
}
"#;

const HELLO_CC: &str = r#"
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
struct Shape { virtual ~Shape() = default; virtual std::string name() const = 0; };
struct Disc : Shape { std::string name() const override { return "disc"; } };
int main() {
    std::map<std::string, std::unique_ptr<Shape>> shapes;
    shapes["a"] = std::make_unique<Disc>();
    try {
        std::cout << shapes.at("a")->name() << '\n';
        shapes.at("b");
    } catch (const std::out_of_range &) {
        std::cout << "caught\n";
    }
}
"#;

/// Flags for the compiler, flags for the link, the ELF type, and whether the file names an interpreter.
struct Form {
    compile: &'static [&'static str],
    link: &'static [&'static str],
    kind: u16,
    dynamic: bool,
}

const FORMS: [Form; 4] = [
    Form { compile: &["-fPIE"], link: &["-pie"], kind: ET_DYN, dynamic: true },
    Form { compile: &["-fno-PIE"], link: &["-no-pie"], kind: ET_EXEC, dynamic: true },
    Form { compile: &["-fno-PIE"], link: &["-static"], kind: ET_EXEC, dynamic: false },
    Form { compile: &["-fPIE"], link: &["-static-pie"], kind: ET_DYN, dynamic: false },
];

fn check_form(elf: &Elf, form: &Form) {
    assert_eq!(elf.kind, form.kind);
    assert_eq!(elf.segments_of(PT_INTERP).len(), usize::from(form.dynamic));
    assert!(elf.load_at(elf.entry).is_some_and(|s| s.flags & 1 != 0), "the entry is executable");
    assert_eq!(elf.symbol("_start").value, elf.entry);
    if form.dynamic {
        assert!(elf.needed().iter().any(|n| n == "libc.so.6"), "{:?}", elf.needed());
    } else {
        assert!(elf.needed().is_empty());
        // A reference that was relaxed away (__tls_get_addr) is no reason to look elsewhere.
        let strong = |s: &Symbol| s.section == 0 && s.binding == STB_GLOBAL && !s.name.is_empty();
        let wanted: Vec<Symbol> = elf.dynamic_symbols().into_iter().filter(strong).collect();
        assert!(wanted.is_empty(), "nothing can be imported: {wanted:?}");
    }
    if form.kind == ET_DYN {
        let flags_1 = elf.tags(DT_FLAGS_1).first().copied().unwrap_or(0);
        assert!(flags_1 & 0x0800_0000 != 0, "DF_1_PIE: {flags_1:#x}");
    }
    check_segments(elf);
}

/// Checks what the loader requires of segments.
fn check_segments(elf: &Elf) {
    let loads = elf.segments_of(PT_LOAD);
    assert!(loads.is_sorted_by(|a, b| a.addr + a.size <= b.addr), "PT_LOAD ascend: {loads:#x?}");
    for load in &loads {
        assert_eq!(load.addr % load.align, load.offset % load.align, "{load:#x?}");
        assert!(load.flags & 3 != 3, "writable and executable: {load:#x?}");
    }
    assert_eq!(elf.segment(PT_GNU_STACK).flags & 1, 0, "no executable stack");
    for section in elf.sections.iter().filter(|s| s.flags & SHF_ALLOC != 0 && s.size > 0) {
        if section.kind == SHT_NOBITS && section.flags & SHF_TLS != 0 {
            continue;
        }
        let load = elf.load_at(section.addr).unwrap_or_else(|| panic!("{} is not loaded", section.name));
        assert!(load.covers(section), "{} leaves its segment", section.name);
        if section.flags & SHF_EXECINSTR != 0 {
            assert!(load.flags & 1 != 0, "{} is not executable", section.name);
        }
    }
}

fn c_programs_of_every_form_run(machine: &'static Machine) {
    for form in FORMS.iter().filter(|form| machine.links(form.link[0])) {
        let work = Work::on(machine);
        let object = work.c("hello", HELLO_C, form.compile);
        let mut args = vec!["-o", "hello", &object];
        args.extend(form.link);
        work.gcc(&args).quiet();
        assert_eq!(work.run("hello"), "hello 1 123\n");
        check_form(&work.elf("hello"), form);
    }
}

fn cpp_programs_of_every_form_run(machine: &'static Machine) {
    for form in FORMS.iter().filter(|form| machine.links(form.link[0])) {
        let work = Work::on(machine);
        let object = work.cc("hello", HELLO_CC, form.compile);
        let mut args = vec!["-o", "hello", &object];
        args.extend(form.link);
        work.gxx(&args).quiet();
        assert_eq!(work.run("hello"), "disc\ncaught\n");
        check_form(&work.elf("hello"), form);
    }
}

#[test]
fn clang_links_c_and_cpp_programs_that_run() {
    let work = Work::new();
    let linker = format!("--ld-path={}", crate::support::work::linker_directory().join("ld").display());
    for (compiler, file, source, expected) in
        [("clang", "hello.c", HELLO_C, "hello 1 123\n"), ("clang++", "hello.cc", HELLO_CC, "disc\ncaught\n")]
    {
        let clang = need!(tools::clang(compiler));
        work.write(file, source);
        for form in &FORMS {
            let mut args = vec![linker.as_str(), "-O1", "-o", "hello", file];
            args.extend(form.compile);
            args.extend(form.link);
            work.linked(&clang, &args).ok();
            assert_eq!(work.run("hello"), expected);
            check_form(&work.elf("hello"), form);
        }
    }
}

fn debug_information_and_optimisation_survive(machine: &'static Machine) {
    let work = Work::on(machine);
    let object = work.cc("hello", HELLO_CC, &["-g", "-O2", "-ffunction-sections", "-fdata-sections"]);
    work.gxx(&["-o", "hello", &object, "-Wl,--gc-sections", "-Wl,-O1"]).quiet();
    assert_eq!(work.run("hello"), "disc\ncaught\n");
    let elf = work.elf("hello");
    for name in [".debug_info", ".debug_abbrev", ".debug_line", ".debug_str"] {
        assert!(elf.section(name).size > 0, "{name}");
    }
}

fn strip_options_remove_debug_sections_and_symbols(machine: &'static Machine) {
    let work = Work::on(machine);
    let object = work.c("hello", HELLO_C, &["-g"]);
    work.gcc(&["-o", "all", &object]).quiet();
    work.gcc(&["-o", "nodebug", &object, "-Wl,-S"]).quiet();
    work.gcc(&["-o", "none", &object, "-s"]).quiet();
    work.gcc(&["-o", "nolocals", &object, "-Wl,-x"]).quiet();
    assert!(work.elf("all").find(".debug_info").is_some());
    let nodebug = work.elf("nodebug");
    assert!(nodebug.find(".debug_info").is_none() && nodebug.find_symbol("compare").is_some());
    assert!(work.elf("none").find(".symtab").is_none());
    let nolocals = work.elf("nolocals");
    assert!(nolocals.find_symbol("compare").is_none() && nolocals.find_symbol("main").is_some());
    for program in ["all", "nodebug", "none", "nolocals"] {
        assert_eq!(work.run(program), "hello 1 123\n");
    }
}

on_every_machine!(
    c_programs_of_every_form_run,
    cpp_programs_of_every_form_run,
    debug_information_and_optimisation_survive,
    strip_options_remove_debug_sections_and_symbols,
);
