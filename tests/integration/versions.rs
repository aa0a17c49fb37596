//! Symbol versions: scripts and `.symver` define them, libraries need them, and the dynamic linker binds
//! them.

use crate::on_every_machine;
use crate::support::elf::*;
use crate::support::{Machine, Work};

const SCRIPT: &str = "
V1 { global: greet; only_v1; local: *; };
V2 { global: greet; extern \"C++\" { \"shout(int)\"; loud::*; }; } V1;
";

const LIBRARY: &str = r#"
int greet_old(void) { return 1; }
int greet_new(void) { return 2; }
__asm__(".symver greet_old,greet@V1");
__asm__(".symver greet_new,greet@@V2");
int only_v1(void) { return 3; }
int internal(void) { return 4; }
"#;

fn versioned_library(work: &Work) {
    work.write("map", SCRIPT);
    let object = work.c("library", LIBRARY, &["-fPIC"]);
    work.gcc(&["-shared", "-o", "libgreet.so", &object, "-Wl,-soname,libgreet.so,--version-script=map"]).ok();
}

fn a_version_script_and_symver_define_versions(machine: &'static Machine) {
    let work = Work::on(machine);
    versioned_library(&work);
    let elf = work.elf("libgreet.so");
    let symbols = elf.dynamic_symbols();
    let versions = |name: &str| {
        let of = symbols.iter().filter(|s| s.name == name && s.section != 0);
        let mut all: Vec<String> = of.map(|s| s.version.clone().unwrap_or_default()).collect();
        all.sort();
        all
    };
    assert_eq!(versions("greet"), ["@V2", "V1"]);
    assert_eq!(versions("only_v1"), ["@V1"]);
    assert!(versions("internal").is_empty() && versions("greet_old").is_empty());
    let names: Vec<String> = elf.version_names().into_iter().map(|(_, n)| n).collect();
    assert!(names.contains(&"libgreet.so".into()), "the base version is the soname: {names:?}");
    assert!(names.contains(&"V1".into()) && names.contains(&"V2".into()));
    assert_eq!(elf.symbol("internal").binding, STB_LOCAL);
}

fn programs_bind_to_the_version_they_ask_for(machine: &'static Machine) {
    let work = Work::on(machine);
    versioned_library(&work);
    let source = r#"
#include <stdio.h>
int greet(void); int greet_v1(void); int only_v1(void);
__asm__(".symver greet_v1,greet@V1");
int main(void) { printf("%d %d %d\n", greet(), greet_v1(), only_v1()); }
"#;
    let program = work.c("program", source, &[]);
    work.gcc(&["-o", "program", &program, "-L.", "-lgreet"]).quiet();
    assert_eq!(work.run("program"), "2 1 3\n");
    let elf = work.elf("program");
    let mut greets: Vec<_> =
        elf.dynamic_symbols().into_iter().filter(|s| s.name == "greet").filter_map(|s| s.version).collect();
    greets.sort();
    assert_eq!(greets.iter().map(|v| v.trim_start_matches('@')).collect::<Vec<_>>(), ["V1", "V2"]);
    let needed = elf.section(".gnu.version_r");
    assert!(needed.info >= 2, "one record each for libgreet.so and libc.so.6");
}

#[test]
fn cpp_patterns_match_demangled_names() {
    let work = Work::new();
    work.write("map", SCRIPT);
    let object = work.cc(
        "library",
        "int shout(int x) { return x; }\nint shout(long x) { return 2; }\n\
         namespace loud { int one() { return 1; } }\nint quiet() { return 0; }\n\
         extern \"C\" int greet() { return 0; } extern \"C\" int only_v1() { return 0; }",
        &["-fPIC"],
    );
    work.gxx(&["-shared", "-o", "libshout.so", &object, "-Wl,--version-script=map"]).ok();
    let elf = work.elf("libshout.so");
    assert_eq!(elf.dynamic("_Z5shouti").version.as_deref(), Some("@V2"));
    assert_eq!(elf.dynamic("_ZN4loud3oneEv").version.as_deref(), Some("@V2"));
    assert!(elf.find_dynamic("_Z5shoutl").is_none() && elf.find_dynamic("_Z5quietv").is_none());
}

#[test]
fn an_anonymous_version_script_only_hides() {
    let work = Work::new();
    work.write("map", "{ global: keep*; local: *; };");
    work.shared(
        "a",
        "int keep_me(void) { return 1; } int hide_me(void) { return keep_me(); }",
        &["-Wl,--version-script,map"],
    );
    let elf = work.elf("liba.so");
    assert!(elf.find_dynamic("keep_me").is_some() && elf.find_dynamic("hide_me").is_none());
    assert!(elf.find(".gnu.version_d").is_none());
}

#[test]
fn exact_names_win_over_patterns_and_the_last_catch_all_comes_last() {
    let work = Work::new();
    work.write("map", "A { global: a*; }; B { global: abc; local: *; };");
    work.shared(
        "a",
        "int abc(void){return 1;} int abd(void){return 2;} int xyz(void){return 3;}",
        &["-Wl,--version-script=map"],
    );
    let elf = work.elf("liba.so");
    assert_eq!(elf.dynamic("abc").version.as_deref(), Some("@B"));
    assert_eq!(elf.dynamic("abd").version.as_deref(), Some("@A"));
    assert!(elf.find_dynamic("xyz").is_none());
}

#[test]
fn a_named_symbol_that_does_not_exist_is_an_error_on_request() {
    let work = Work::new();
    work.write("map", "V1 { global: missing_one; local: *; };");
    let object = work.c("a", "int here(void) { return 1; }", &["-fPIC"]);
    let args = ["-shared", "-o", "liba.so", &object, "--version-script=map"];
    work.ld(&[&args[..], &["--undefined-version"]].concat()).ok();
    work.ld(&[&args[..], &["--no-undefined-version"]].concat()).fails().says(&["missing_one", "V1"]);
}

#[test]
fn a_version_script_error_names_file_and_line() {
    let work = Work::new();
    work.write("map", "V1 {\n global: a;\n local *;\n};\n");
    let object = work.c("a", "int a;", &["-fPIC"]);
    work.ld(&["-shared", "-o", "liba.so", &object, "--version-script=map"]).fails().says(&["map:3"]);
}

#[test]
fn dynamic_lists_choose_what_is_exported_or_preemptible() {
    let work = Work::new();
    work.write("list", "{ chosen; };");
    let program = work.c(
        "program",
        "int chosen(void){return 1;} int other(void){return 2;} int main(void){return 0;}",
        &[],
    );
    work.gcc(&["-o", "program", &program, "-Wl,--dynamic-list=list"]).quiet();
    let elf = work.elf("program");
    assert!(elf.find_dynamic("chosen").is_some() && elf.find_dynamic("other").is_none());
    work.gcc(&["-o", "one", &program, "-Wl,--export-dynamic-symbol=oth*"]).quiet();
    let elf = work.elf("one");
    assert!(elf.find_dynamic("chosen").is_none() && elf.find_dynamic("other").is_some());
    let source =
        "int chosen(void){return 1;} int other(void){return 2;} int use(void){return chosen()+other();}";
    work.shared("list", source, &["-Wl,--dynamic-list=list"]);
    let elf = work.elf("liblist.so");
    assert!(elf.find_dynamic("other").is_some(), "a dynamic list hides nothing of a shared library");
    let slots: Vec<String> = elf.dynamic_relocations_of(7).into_iter().map(|(_, n)| n).collect();
    assert!(slots.contains(&"chosen".into()) && !slots.contains(&"other".into()), "{slots:?}");
}

#[test]
fn the_name_of_the_library_is_the_default_version() {
    let work = Work::new();
    let object = work.c("a", "int f(void) { return 1; }", &["-fpic"]);
    work.ld(&["-shared", "-o", "libf.so", &object, "-soname", "libf.so.4", "--default-symver"]).quiet();
    // The library and a version have the same name, and eu-elflint takes them for duplicates.
    let elf = work.elf_unchecked("libf.so");
    assert!(elf.version_names().contains(&(2, "libf.so.4".into())), "{:?}", elf.version_names());
}

#[test]
fn a_version_that_no_script_defines_is_an_error_in_libraries_only() {
    let work = Work::new();
    let source = "int old(void) { return 1; }\n__asm__(\".symver old,f@@V9\");";
    let object = work.c("a", source, &["-fpic"]);
    work.ld(&["-shared", "-o", "libf.so", &object]).fails().says(&["version node not found", "f@@V9", "a.o"]);
    let main = work.c("main", "int main(void) { return 0; }", &[]);
    work.gcc(&["-rdynamic", "-o", "program", &main, &object]).quiet();
    assert!(work.elf("program").version_names().iter().any(|(_, name)| name == "V9"));
}

#[test]
fn data_can_be_exported_as_a_whole() {
    let work = Work::new();
    let main =
        work.c("main", "int number = 3; int function(void) { return 1; } int main(void) { return 0; }", &[]);
    work.gcc(&["-o", "program", &main, "-Wl,--dynamic-list-data"]).quiet();
    let elf = work.elf("program");
    assert!(elf.find_dynamic("number").is_some() && elf.find_dynamic("function").is_none());
}

#[test]
fn versions_survive_a_relocatable_link() {
    let work = Work::new();
    let object = work.c("library", LIBRARY, &["-fPIC"]);
    work.ld(&["-r", "-o", "merged.o", &object]).quiet();
    work.write("map", SCRIPT);
    work.gcc(&["-shared", "-o", "libgreet.so", "merged.o", "-Wl,--version-script=map"]).ok();
    let symbols = work.elf("libgreet.so").dynamic_symbols();
    let versions = |name: &str| symbols.iter().filter(|s| s.name == name).count();
    assert_eq!(versions("greet"), 2, "{symbols:?}");
}

on_every_machine!(a_version_script_and_symver_define_versions, programs_bind_to_the_version_they_ask_for,);
