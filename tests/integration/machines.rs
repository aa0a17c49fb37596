//! Links for other machines: `-m` or the first object chooses the machine, and inputs for yet another machine
//! are refused or skipped.

use crate::on_every_machine;
use crate::support::machine::{AARCH64, S390X, X86_64};
use crate::support::{Machine, Work};

on_every_machine![
    libraries_of_another_machine_are_passed_over_and_objects_refused,
    the_machine_follows_from_option_or_first_object,
    the_byte_order_must_be_the_machines,
];

const START: &str = "\t.globl _start\n_start:\t.long 0\n";

/// A machine that is not this one.
fn other(machine: &Machine) -> &'static Machine {
    if machine.name == X86_64.name { &AARCH64 } else { &X86_64 }
}

/// Emulation and `e_machine`.
fn names(machine: &Machine) -> (&'static str, u8) {
    match machine.name {
        name if name == AARCH64.name => ("aarch64linux", 183),
        name if name == S390X.name => ("elf64_s390", 22),
        _ => ("elf_x86_64", 62),
    }
}

fn libraries_of_another_machine_are_passed_over_and_objects_refused(machine: &'static Machine) {
    let work = Work::on(machine);
    let foreign = Work::on(other(machine));
    foreign.s("f", "\t.globl f\nf:\t.long 0\n");
    foreign.ar("libf.a", "", &["f.o"]);
    foreign.ld(&["-shared", "-o", "libg.so", "f.o"]).quiet();
    work.write("wrong/libf.a", foreign.read("libf.a"));
    work.write("wrong/libf.so", foreign.read("libg.so"));
    work.write("wrong.o", foreign.read("f.o"));
    work.c("f", "int f(void) { return 0; }", &[]);
    work.ar("libf.a", "", &["f.o"]);
    let main = work.c("main", "int f(void); int main(void) { return f(); }", &[]);
    work.gcc(&["-o", "program", &main, "-Lwrong", "-L.", "-lf"]).ok().says(&[
        "skipping incompatible wrong/libf.so when searching for -lf",
        "skipping incompatible wrong/libf.a when searching for -lf",
    ]);
    work.run("program");
    work.gcc(&["-o", "program", &main, "wrong.o"]).fails().says(&["wrong.o", "is incompatible with"]);
    work.gcc(&["-o", "program", &main, "wrong/libf.a"])
        .fails()
        .says(&["wrong/libf.a", "is incompatible with"]);
}

fn the_machine_follows_from_option_or_first_object(machine: &'static Machine) {
    let work = Work::on(machine);
    let object = work.s("a", START);
    let (emulation, number) = names(machine);
    work.ld(&["-o", "by-object", &object]).quiet();
    work.ld(&["-m", emulation, "-o", "by-option", &object]).quiet();
    work.ld(&["-r", "-o", "relocatable", &object]).quiet();
    for file in ["by-object", "by-option", "relocatable"] {
        let header = work.read(file);
        assert_eq!(header[18] | header[19], number, "{file}");
    }
    assert!(work.read("by-object") == work.read("by-option"), "the same link");
    let wrong = names(other(machine)).0;
    work.ld(&["-m", wrong, "-o", "wrong", &object]).fails().says(&["`a.o' is incompatible with"]);
    let foreign = Work::on(other(machine));
    foreign.s("b", "\t.globl b\nb:\t.long 0\n");
    work.write("b.o", foreign.read("b.o"));
    work.ld(&["-o", "mixed", &object, "b.o"]).fails().says(&["`b.o' is incompatible with"]);
    work.ld(&["-o", "mixed", "b.o", &object]).fails().says(&["`a.o' is incompatible with"]);
}

fn the_byte_order_must_be_the_machines(machine: &'static Machine) {
    let work = Work::on(machine);
    let object = work.s("a", START);
    let emulation = names(machine).0;
    let big = machine.name == S390X.name;
    let (right, wrong) = if big { ("-EB", "-EL") } else { ("-EL", "-EB") };
    let said = format!("{wrong}: {} is {}-endian", proper_name(machine), if big { "big" } else { "little" });
    for args in [&["-o", "a", &object][..], &["-m", emulation, "-o", "a", &object]] {
        work.ld(&[args, &[right]].concat()).quiet();
        work.ld(&[args, &[wrong]].concat()).fails().says(&[&said]);
    }
}

fn proper_name(machine: &Machine) -> &'static str {
    match names(machine).1 {
        183 => "AArch64",
        22 => "s390x",
        _ => "x86-64",
    }
}
