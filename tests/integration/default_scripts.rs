//! Tests the scripts that GNU ld's `ld --verbose` prints, passed back with `-T`. The output must have the
//! sections that GNU ld makes, in its order, and programs must run.
//!
//! Linkers differ in the tables that they make themselves (forms of PLTs, dynamic relocations), so these are
//! only compared if both linkers have them.

use crate::on_every_machine;
use crate::support::tools::GnuLd;
use crate::support::{Elf, Machine, Work, tools};
use std::path::Path;

const HELLO: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
__thread int local = 4;
__thread int zero;
__attribute__((constructor)) static void start(void) { zero = 3; }
int main(int argc, char **argv) {
    int numbers[] = {3, 1, 2};
    qsort(numbers, 3, sizeof *numbers, compare);
    printf("hello %d %d%d%d %d\n", argc, numbers[0], numbers[1], numbers[2], local + zero);
    return 0;
}
"#;

/// Ends with status 42, and needs no library.
const BARE: &str = r#"
int value = 40;
static volatile int zeros[4];
const char text[] = "bare";
__attribute__((noreturn)) void _start(void) {
    long status = value + zeros[1] + (text[0] == 'b') * 2;
#if defined __x86_64__
    __asm__ volatile("syscall" : : "a"(60), "D"(status) : "memory");
#elif defined __aarch64__
    register long x0 __asm__("x0") = status, x8 __asm__("x8") = 93;
    __asm__ volatile("svc 0" : : "r"(x0), "r"(x8) : "memory");
#else
    register long r2 __asm__("r2") = status;
    __asm__ volatile("svc 1" : : "d"(r2) : "memory");
#endif
    __builtin_unreachable();
}
"#;

/// The kind of program, and options with which GNU ld uses another script.
const FORMS: &[(&str, &[&str])] = &[
    ("-no-pie", &[]),
    ("-no-pie", &["-z", "separate-code"]),
    ("-static", &[]),
    ("-pie", &[]),
    ("-pie", &["-z", "combreloc"]),
    ("-pie", &["-z", "nocombreloc"]),
    ("-pie", &["-z", "now"]),
    ("-pie", &["-z", "norelro"]),
    ("-pie", &["-z", "noseparate-code"]),
    ("-shared", &[]),
    ("-shared", &["-z", "now", "-z", "noseparate-code"]),
];

/// The script that `ld --verbose` prints between its rules.
fn printed_script(work: &Work, folder: &Path, options: &[&str]) -> String {
    let mut args = vec!["--verbose"];
    args.extend(options);
    let printed = work.command(folder.join("ld"), &args).ok().stdout;
    let rule = "=".repeat(50);
    printed.split(&rule).nth(1).expect("a script").to_owned()
}

/// The names of the sections that both have, in the order of each. All others must be tables that a linker
/// makes itself.
fn compare_sections(ours: &Elf, theirs: &Elf, what: &str) {
    let own_tables = [
        ".plt",
        ".plt.got",
        ".plt.sec",
        ".got.plt",
        ".iplt",
        ".rela.plt",
        ".rela.dyn",
        ".relr.dyn",
        ".rela.iplt",
        ".rela.got",
        ".rela.data",
        ".rela.init_array",
        ".rela.fini_array",
    ];
    let names = |elf: &Elf, other: &Elf| -> Vec<String> {
        let all = elf.section_names();
        let shared = all.iter().filter(|name| other.find(name).is_some()).map(|name| (*name).to_owned());
        for name in all.iter().filter(|name| other.find(name).is_none()) {
            assert!(own_tables.contains(name), "{what}: only one linker makes {name}");
        }
        shared.collect()
    };
    assert_eq!(names(ours, theirs), names(theirs, ours), "{what}");
}

/// Runs `test` with the oldest and the newest GNU ld that exist. It gets the linker, and a folder that
/// contains it as `ld`.
fn each_version(machine: &'static Machine, test: impl Fn(&Work, &GnuLd, &Path)) {
    let found = machine.gnu_lds();
    let ends = match &found[..] {
        [] => return tools::skip("default_scripts", &format!("no GNU ld for {}", machine.name)),
        [only] => vec![only],
        [oldest, .., newest] => vec![oldest, newest],
    };
    for ld in ends {
        let work = Work::on(machine);
        let folder = work.path("gnu");
        std::fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink(&ld.path, folder.join("ld")).unwrap();
        test(&work, ld, &folder);
    }
}

fn scripts_of_gnu_ld_give_its_sections_and_running_programs(machine: &'static Machine) {
    each_version(machine, |work, ld, folder| {
        let pic = work.c("pic", HELLO, &["-fPIC"]);
        let fixed = work.c("fixed", HELLO, &["-fno-PIE"]);
        for (kind, options) in FORMS {
            let what = format!("{ld:?} for {}, {kind} {options:?}", machine.name);
            let mode: Vec<&str> = match *kind {
                "-pie" | "-shared" => [&[*kind], *options].concat(),
                _ => options.to_vec(),
            };
            work.write("default.ld", printed_script(work, folder, &mode));
            let object = if matches!(*kind, "-pie" | "-shared") { &pic } else { &fixed };
            let passed: Vec<String> = options.iter().map(|option| format!("-Wl,{option}")).collect();
            let common: Vec<&str> =
                [&[*kind, object.as_str()], &passed.iter().map(String::as_str).collect::<Vec<_>>()[..]]
                    .concat();
            work.gcc(&[&common[..], &["-Wl,-T,default.ld", "-o", "ours"]].concat()).quiet();
            let theirs = format!("-B{}", folder.display());
            work.command(
                machine.tool("gcc").expect("gcc"),
                &[&[theirs.as_str()], &common[..], &["-o", "theirs"]].concat(),
            )
            .ok();
            compare_sections(&work.elf("ours"), &work.elf_unchecked("theirs"), &what);
            if *kind != "-shared" {
                assert_eq!(work.run("ours"), "hello 1 123 7\n", "{what}");
            }
        }
    });
}

fn scripts_of_gnu_ld_give_programs_without_pages(machine: &'static Machine) {
    each_version(machine, |work, ld, folder| {
        let bare = work.c("bare", BARE, &["-O1", "-fno-PIE", "-ffreestanding", "-fno-stack-protector"]);
        for option in ["-N", "-n"] {
            work.write("default.ld", printed_script(work, folder, &[option]));
            work.ld(&[option, "-T", "default.ld", &bare, "-o", "ours"]).ok();
            work.command(folder.join("ld"), &[option, &bare, "-o", "theirs"]).ok();
            let what = format!("{ld:?} for {}, {option}", machine.name);
            compare_sections(&work.elf_unchecked("ours"), &work.elf_unchecked("theirs"), &what);
            assert_eq!(work.run_any("ours").code, Some(42), "{what}");
        }
    });
}

fn the_relocatable_script_of_gnu_ld_gives_its_sections(machine: &'static Machine) {
    each_version(machine, |work, ld, folder| {
        let hello = work.c("hello", HELLO, &["-fPIC", "-ffunction-sections"]);
        let other = work.c("other", "int other[4]; int more = 3; const char *name = \"n\";", &["-fPIC"]);
        work.write("default.ld", printed_script(work, folder, &["-r"]));
        work.ld(&["-r", "-T", "default.ld", &hello, &other, "-o", "ours.o"]).quiet();
        work.command(folder.join("ld"), &["-r", &hello, &other, "-o", "theirs.o"]).ok();
        let contents = |elf: &Elf| -> Vec<String> {
            let names = elf.section_names().into_iter().map(str::to_owned);
            names.filter(|name| !name.starts_with(".rela") && !name.starts_with(".sframe")).collect()
        };
        let (ours, theirs) = (work.elf_unchecked("ours.o"), work.elf_unchecked("theirs.o"));
        let (mut ours, mut theirs) = (contents(&ours), contents(&theirs));
        // In 2.40, sections that the script does not name stood beside similar ones. In 2.47, they come after
        // all others, in input order, as here.
        if ld.version < (2, 47) {
            ours.sort();
            theirs.sort();
        }
        assert_eq!(ours, theirs, "{ld:?} for {}, -r", machine.name);
        work.gcc(&["-pie", "ours.o", "-o", "program"]).quiet();
        assert_eq!(work.run("program"), "hello 1 123 7\n");
    });
}

on_every_machine![
    scripts_of_gnu_ld_give_its_sections_and_running_programs,
    scripts_of_gnu_ld_give_programs_without_pages,
    the_relocatable_script_of_gnu_ld_gives_its_sections
];
