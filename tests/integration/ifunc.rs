//! Indirect functions: called, address taken, across libraries, in static programs.

use crate::on_every_machine;
use crate::support::elf::*;
use crate::support::{Machine, Work};

const IFUNC: &str = "
static int fast(int x) { return x + 1; }
static int slow(int x) { return x - 1; }
static int (*choose(void))(int) { return fast; }
int pick(int) __attribute__((ifunc(\"choose\")));
static int local_pick(int) __attribute__((ifunc(\"choose\")));
int through_local(int x) { return local_pick(x); }
int (*table[])(int) = {pick, slow};
";

const PROGRAM: &str = r#"
#include <stdio.h>
int pick(int);
int through_local(int);
extern int (*table[])(int);
int (*volatile pointer)(int) = pick;
int main(void) {
    printf("%d %d %d %d %d\n", pick(1), through_local(2), table[0](3), pointer(4), pointer == table[0]);
}
"#;

fn ifuncs_of_every_form_are_resolved(machine: &'static Machine) {
    for (compile, link) in [
        ("-fPIE", "-pie"),
        ("-fno-PIE", "-no-pie"),
        ("-fno-PIE", "-static"),
        ("-fPIE", "-static-pie"),
        ("-fPIC", "-pie"),
    ]
    .into_iter()
    .filter(|(_, link)| machine.links(link))
    {
        let work = Work::on(machine);
        let pick = work.c("pick", IFUNC, &[compile]);
        let program = work.c("program", PROGRAM, &[compile]);
        work.gcc(&[link, "-o", "program", &program, &pick]).quiet();
        assert_eq!(work.run("program"), "2 3 4 5 1\n", "{compile} {link}");
        let elf = work.elf("program");
        assert!(elf.dynamic_relocations().iter().any(|r| r.kind == machine.relocations.irelative), "{link}");
    }
}

fn static_programs_bracket_their_irelative_relocations(machine: &'static Machine) {
    let work = Work::on(machine);
    let pick = work.c("pick", IFUNC, &["-fno-PIE"]);
    let program = work.c("program", PROGRAM, &["-fno-PIE"]);
    work.gcc(&["-static", "-o", "program", &program, &pick]).quiet();
    let elf = work.elf("program");
    let (start, end) = (elf.symbol("__rela_iplt_start").value, elf.symbol("__rela_iplt_end").value);
    let relocations = elf.dynamic_relocations();
    assert_eq!((end - start) / 24, relocations.len() as u64);
    assert!(!relocations.is_empty() && relocations.iter().all(|r| r.kind == machine.relocations.irelative));
}

fn a_shared_library_exports_an_ifunc(machine: &'static Machine) {
    let work = Work::on(machine);
    work.shared("pick", IFUNC, &[]);
    let elf = work.elf("libpick.so");
    assert_eq!(elf.dynamic("pick").kind, STT_GNU_IFUNC);
    for (compile, link) in [("-fPIE", "-pie"), ("-fno-PIE", "-no-pie")] {
        let program = work.c("program", PROGRAM, &[compile]);
        work.gcc(&[link, "-o", "program", &program, "-L.", "-lpick"]).quiet();
        assert_eq!(work.run("program"), "2 3 4 5 1\n", "{link}");
    }
}

fn an_ifunc_whose_address_is_taken_in_a_fixed_executable_becomes_a_plt_entry(machine: &'static Machine) {
    let work = Work::on(machine);
    let pick = work.c("pick", IFUNC, &["-fno-PIE"]);
    let program = work.c("program", PROGRAM, &["-fno-PIE"]);
    work.gcc(&["-no-pie", "-o", "program", &program, &pick, "-Wl,--export-dynamic"]).quiet();
    assert_eq!(work.run("program"), "2 3 4 5 1\n");
    let elf = work.elf("program");
    let pick = elf.dynamic("pick");
    assert_eq!(pick.kind, STT_FUNC, "others must see the one address, not the resolver");
    assert!(elf.sections[pick.section as usize].name.starts_with(".plt"), "{pick:?}");
}

/// The program loads the address from its GOT, as code does that is compiled for libraries.
fn libraries_find_a_resolved_function_of_a_fixed_program(machine: &'static Machine) {
    let work = Work::on(machine);
    let library = "extern int f(void); int (*from_library(void))(void) { return f; }";
    work.shared("taker", library, &[]);
    let program = r#"
        #include <stdio.h>
        static int implementation(void) { return 42; }
        static void *resolve(void) { return implementation; }
        int f(void) __attribute__((ifunc("resolve")));
        extern int (*from_library(void))(void);
        int main(void) {
            int (*own)(void) = f;
            __asm__("" : "+r"(own));
            printf("%d %d %d\n", own == from_library(), own(), from_library()());
            return 0;
        }
    "#;
    let program = work.c("program", program, &["-O1", "-fPIC"]);
    for binding in ["-Wl,-z,now", "-Wl,-z,lazy"] {
        work.gcc(&["-no-pie", binding, "-o", "program", &program, "-L.", "-ltaker"]).quiet();
        assert_eq!(work.run("program"), "1 42 42\n", "{binding}");
        assert_eq!(work.elf("program").dynamic("f").kind, STT_FUNC);
    }
}

on_every_machine!(
    libraries_find_a_resolved_function_of_a_fixed_program,
    ifuncs_of_every_form_are_resolved,
    static_programs_bracket_their_irelative_relocations,
    a_shared_library_exports_an_ifunc,
    an_ifunc_whose_address_is_taken_in_a_fixed_executable_becomes_a_plt_entry,
);
