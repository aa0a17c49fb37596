//! Thread-local storage: general dynamic, local dynamic, initial exec, local exec and TLS descriptors. Each
//! is kept or relaxed, as the output allows.

use crate::on_every_machine;
use crate::support::elf::*;
use crate::support::machine::Relocations;
use crate::support::{Machine, Work};

const LIBRARY: &str = "
__thread int shared_counter = 40;
static __thread int one = 1, two = 2;
static __thread char zeros[100];
int bump(void) { return ++shared_counter; }
int locals(void) { return one++ + two++ * 10 + zeros[99]; }
";

const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
extern __thread int shared_counter;
__thread int here = 5;
__thread int aligned_one __attribute__((aligned(64))) = 9;
static __thread int zeroed;
int bump(void);
int locals(void);
static void *work(void *result) {
    here++; zeroed++; bump();
    *(int *)result = here * 10000 + zeroed * 1000 + shared_counter;
    if ((unsigned long)&aligned_one % 64 != 0 || aligned_one != 9) *(int *)result = -1;
    if (locals() != 21 || locals() != 32) *(int *)result = -2;
    return 0;
}
int main(void) {
    pthread_t threads[4];
    int results[4];
    bump();
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, &results[i]);
    for (int i = 0; i < 4; i++) { pthread_join(threads[i], 0); printf("%d ", results[i]); }
    printf("%d %d %d\n", here, zeroed, shared_counter);
}
"#;
const EXPECTED: &str = "61041 61041 61041 61041 5 0 41\n";

fn every_model_gives_a_shared_library_its_relocations(machine: &'static Machine) {
    for (name, flags) in machine.tls_models {
        let work = Work::on(machine);
        let mut all = vec!["-fPIC"];
        all.extend(*flags);
        let library = work.c("library", LIBRARY, &all);
        work.gcc(&["-shared", "-o", "libcounter.so", &library]).quiet();
        let elf = work.elf("libcounter.so");
        let has = |kind| elf.dynamic_relocations().iter().any(|r| r.kind == kind);
        match *name {
            "gd" | "noplt" | "ld" => assert!(has(machine.relocations.dtpmod), "{name}"),
            "desc" => assert!(has(machine.relocations.tlsdesc), "{name}"),
            _ => {
                assert!(has(machine.relocations.tpoff), "{name}");
                assert!(elf.tags(DT_FLAGS)[0] & 0x10 != 0, "DF_STATIC_TLS");
            }
        }
        if *name == "gd" {
            assert!(has(machine.relocations.dtpoff), "a global in a shared library may be preempted");
        }
        for (compile, link) in [("-fPIE", "-pie"), ("-fno-PIE", "-no-pie")] {
            let program = work.c("program", PROGRAM, &[compile]);
            work.gcc(&[link, "-pthread", "-o", "program", &program, "-L.", "-lcounter"]).quiet();
            assert_eq!(work.run("program"), EXPECTED, "{name} {link}");
            work.elf("program");
        }
    }
}

fn every_model_relaxes_in_an_executable(machine: &'static Machine) {
    let Relocations { dtpmod, dtpoff, tpoff, tlsdesc, .. } = machine.relocations;
    let dynamic_tls = [dtpmod, dtpoff, tpoff, tlsdesc];
    for (name, flags) in machine.tls_models {
        for (compile, link) in
            [("-fPIC", "-pie"), ("-fPIC", "-no-pie"), ("-fPIC", "-static"), ("-fPIC", "-static-pie")]
                .into_iter()
                .filter(|(_, link)| machine.links(link))
        {
            let work = Work::on(machine);
            let mut all = vec![compile];
            all.extend(*flags);
            let library = work.c("library", LIBRARY, &all);
            let program = work.c("program", PROGRAM, &all);
            work.gcc(&[link, "-pthread", "-o", "program", &program, &library]).quiet();
            assert_eq!(work.run("program"), EXPECTED, "{name} {link}");
            let elf = work.elf("program");
            let left = elf.dynamic_relocations().iter().filter(|r| dynamic_tls.contains(&r.kind)).count();
            if link == "-pie" || link == "-no-pie" {
                assert_eq!(left, 0, "{name} {link}: all relaxed to local exec");
            }
        }
    }
}

fn the_tls_segment_holds_data_then_zeros(machine: &'static Machine) {
    let work = Work::on(machine);
    let library = work.c("library", LIBRARY, &[]);
    let program = work.c("program", PROGRAM, &[]);
    work.gcc(&["-pthread", "-o", "program", &program, &library]).quiet();
    let elf = work.elf("program");
    let tls = elf.segment(PT_TLS);
    let (data, zeros) = (elf.section(".tdata"), elf.section(".tbss"));
    assert_eq!(tls.addr, data.addr);
    assert_eq!(tls.file_size, data.size);
    assert_eq!(tls.size, zeros.end() - data.addr);
    assert_eq!(tls.align, 64);
    assert!(elf.symbol("here").kind == 6 && elf.symbol("here").value < tls.size, "offset in the segment");
}

fn descriptor_and_general_dynamic_relax_to_initial_exec_for_shared_variables(machine: &'static Machine) {
    for (_, dialect) in machine.tls_models.iter().filter(|(name, _)| matches!(*name, "gd" | "desc")) {
        let work = Work::on(machine);
        work.shared("counter", LIBRARY, &[]);
        let program =
            work.c("program", PROGRAM, &[&["-fPIC", "-ftls-model=global-dynamic"], *dialect].concat());
        work.gcc(&["-pie", "-pthread", "-o", "program", &program, "-L.", "-lcounter"]).quiet();
        assert_eq!(work.run("program"), EXPECTED, "{dialect:?}");
        let elf = work.elf("program");
        let named = elf.dynamic_relocations_of(machine.relocations.tpoff);
        assert!(named.iter().any(|(_, name)| name == "shared_counter"), "{dialect:?}: {named:?}");
        assert!(elf.dynamic_relocations_of(machine.relocations.dtpmod).is_empty(), "{dialect:?}");
        assert!(elf.dynamic_relocations_of(machine.relocations.tlsdesc).is_empty(), "{dialect:?}");
    }
}

fn a_variable_that_nothing_defines_is_at_the_thread_pointer(machine: &'static Machine) {
    let text = r#"
#include <stdio.h>
__thread int here[100] = {1};
extern __thread char nowhere[] __attribute__((weak));
extern __thread char strong[];
int main(void) {
    char *pointer = __builtin_thread_pointer();
    printf("%d %ld %ld\n", here[0], (long)(nowhere - pointer), (long)(strong + 24 - pointer));
}
"#;
    for (name, flags) in machine.tls_models.iter().chain(&[("le", &["-fno-pic"][..])]) {
        let work = Work::on(machine);
        let mut all = vec!["-O1", "-fPIC"];
        all.extend(*flags);
        let program = work.c("program", text, &all);
        let link = ["-static", "-Wl,--unresolved-symbols=ignore-all", "-o", "program", &program];
        work.gcc(&link).quiet();
        assert_eq!(work.run("program"), "1 0 24\n", "{name}");
    }
}

fn local_exec_code_may_name_a_weak_variable_that_nothing_defines(machine: &'static Machine) {
    let text = r#"
extern char marker __attribute__((weak));
extern __thread int nowhere __attribute__((weak, tls_model("local-exec")));
__thread int here = 3;
int main(void) {
    if (&marker) nowhere = 1;
    return here - 3;
}
"#;
    for (flag, link) in [("-fPIE", "-pie"), ("-fno-pie", "-no-pie")] {
        let work = Work::on(machine);
        let program = work.c("program", text, &["-O1", flag]);
        work.gcc(&[link, "-o", "program", &program]).quiet();
        work.run("program");
        assert!(work.elf("program").dynamic_relocations_of(machine.relocations.tpoff).is_empty(), "{link}");
    }
}

#[test]
fn a_local_exec_relocation_in_a_shared_library_is_an_error() {
    let work = Work::new();
    let object = work
        .s("a", ".globl f\nf: mov %fs:x@tpoff,%eax\nret\n.section .tdata,\"awT\"\n.globl x\nx: .long 3\n");
    work.ld(&["-shared", "-o", "liba.so", &object]).fails().says(&["R_X86_64_TPOFF32", "a.o", "x"]);
}

fn a_name_with_and_without_tls_is_an_error(machine: &'static Machine) {
    let work = Work::on(machine);
    let a = work.c("a", "__thread int x = 1;", &[]);
    let b = work.c("b", "extern int x; int main(void) { return x; }", &[]);
    work.gcc(&["-o", "program", &b, &a]).fails().says(&["x", "a.o", "b.o"]);
}

on_every_machine!(
    every_model_gives_a_shared_library_its_relocations,
    every_model_relaxes_in_an_executable,
    the_tls_segment_holds_data_then_zeros,
    descriptor_and_general_dynamic_relax_to_initial_exec_for_shared_variables,
    a_variable_that_nothing_defines_is_at_the_thread_pointer,
    local_exec_code_may_name_a_weak_variable_that_nothing_defines,
    a_name_with_and_without_tls_is_an_error,
);
