//! `--unwind-table=replace`: programs throw exceptions by one table, and `.eh_frame` holds only what the
//! table cannot say. Every program is linked without the option, too, and must print the same.

use crate::support::elf::*;
use crate::support::{Machine, Work, built, eh_frame, tools, unwind_runtime};
use crate::{need, on_every_machine};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

on_every_machine![
    a_program_throws_in_every_form,
    a_table_beside_eh_frame_says_the_same,
    a_program_in_c_ends_threads,
    a_program_exports_only_what_others_ask_for,
    libraries_with_eh_frame_take_part,
    libraries_with_tables_come_and_go,
    commands_say_what_a_table_says,
    libsframe_unwind_walks_by_a_table,
];

/// `PT_SFRAME_UNWIND`.
const PT_SFRAME_UNWIND: u32 = 0x6553_4652;
const REPLACE: &str = "-Wl,--unwind-table=replace";

/// Throws through frames with destructors, rethrows, ends threads in every way, and walks its stack.
const PROGRAM: &str = r#"
#include <cstdio>
#include <execinfo.h>
#include <pthread.h>
#include <stdexcept>
struct Guard { const char *name; ~Guard() { std::printf("~%s ", name); } };
__attribute__((noinline)) int deep(int n, double x) {
    Guard guard{"deep"};
    if (n == 0) throw std::runtime_error("bottom");
    int got = deep(n - 1, x * 1.5);
    asm volatile("" ::: "memory");
    return got + (x > 3);
}
__attribute__((noinline)) int again(int n) {
    try { return deep(n, 1.25); }
    catch (const std::logic_error &) { return -1; }
    catch (...) { Guard guard{"again"}; throw; }
}
static void *exits(void *) { Guard guard{"exits"}; pthread_exit(reinterpret_cast<void *>(7)); }
static void *cancelled(void *) { Guard guard{"cancelled"}; for (;;) pthread_testcancel(); }
static void *throws(void *) {
    long caught = 0;
    for (int i = 0; i < 50; i++) try { throw i; } catch (int x) { caught += x; }
    return reinterpret_cast<void *>(caught);
}
int main() {
    try { again(5); } catch (const std::exception &e) { std::printf("caught %s\n", e.what()); }
    pthread_t thread[4];
    void *result;
    pthread_create(thread, nullptr, exits, nullptr);
    pthread_join(*thread, &result);
    std::printf("%ld\n", reinterpret_cast<long>(result));
    pthread_create(thread, nullptr, cancelled, nullptr);
    pthread_cancel(*thread);
    pthread_join(*thread, &result);
    std::printf("%d\n", result == PTHREAD_CANCELED);
    for (auto &one : thread) pthread_create(&one, nullptr, throws, nullptr);
    long sum = 0;
    for (auto &one : thread) { pthread_join(one, &result); sum += reinterpret_cast<long>(result); }
    void *frames[32];
    std::printf("%ld %d\n", sum, backtrace(frames, 32) > 1);
}
"#;

const PRINTED: &str =
    "~deep ~deep ~deep ~deep ~deep ~deep ~again caught bottom\n~exits 7\n~cancelled 1\n4900 1\n";

/// What `sframe unwind-table` says of a file: it must find no differences.
fn examined(work: &Work, file: &str) -> serde_json::Value {
    let path = work.path(file).display().to_string();
    let output =
        Command::new(built::sframe()).args(["unwind-table", "--json", &path]).output().expect("sframe");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let mut reports: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    reports[0].take()
}

/// The number of frames in `.eh_frame`.
fn frames(elf: &Elf) -> usize {
    if elf.find(".eh_frame_hdr").is_some() { eh_frame::check(elf).len() } else { 0 }
}

/// The number of functions in the table of a program, whose `.eh_frame` holds at most `most` frames besides.
fn tabled(work: &Work, file: &str, most: usize) -> u64 {
    let elf = work.elf(file);
    let (section, segment) = (elf.section(".sframe_unwind"), elf.segment(PT_SFRAME_UNWIND));
    assert_eq!((segment.addr, segment.size), (section.addr, section.size));
    let kept = frames(&elf);
    assert!(kept <= most, "{file}: {kept} frames stay");
    let report = examined(work, file);
    assert_eq!(report["has_table"], true);
    assert_eq!(report["kept"].as_object().expect("reasons").values().next().expect("one"), kept);
    report["functions"].as_u64().expect("a number")
}

fn a_program_throws_in_every_form(machine: &'static Machine) {
    let runtimes = need!(unwind_runtime::both(machine));
    let work = Work::on(machine);
    let program = work.cc("program", PROGRAM, &["-O2", "-fPIE", "-ffunction-sections"]);
    let forms: [&[&str]; 5] = [
        &["-pie"],
        &["-no-pie", "-Wl,--gc-sections,--icf=all"],
        &["-static-libgcc", "-static-libstdc++"],
        &["-static"],
        &["-static-pie"],
    ];
    for form in forms.into_iter().filter(|form| machine.links(form[0])) {
        let link = |more: &[&str]| {
            let words = ["-o", "program", &program, "-lpthread", "-Wl,--eh-frame-hdr"];
            let words = [&words, form, more].concat();
            work.gxx(&words).quiet();
            work.run("program")
        };
        assert_eq!(link(&[]), PRINTED, "{form:?}");
        let before = frames(&work.elf("program"));
        for runtime in &runtimes {
            assert_eq!(link(&[REPLACE, runtime]), PRINTED, "{form:?} {runtime}");
            let functions = tabled(&work, "program", 12);
            // The look-ups themselves are functions, too.
            assert!(functions as usize + 12 >= before, "{functions} of {before}");
            assert!(work.elf("program").find(".debug_frame").is_some());
            assert_eq!(link(&[REPLACE, runtime, "-s"]), PRINTED, "{form:?} {runtime}, stripped");
            assert!(work.elf("program").find(".debug_frame").is_none());
        }
    }
}

/// To the names that a program exports, what is linked in adds those of libgcc and the C library, no others.
fn a_program_exports_only_what_others_ask_for(machine: &'static Machine) {
    const NAMES: [&str; 5] =
        ["_Unwind_", "__register_frame", "__deregister_frame", "_dl_find_object", "dl_iterate_phdr"];
    let runtimes = need!(unwind_runtime::both(machine));
    let work = Work::on(machine);
    let program = work.cc("program", PROGRAM, &["-O2", "-fPIE"]);
    let exports = |more: &[&str]| -> BTreeSet<String> {
        work.gxx(&[&["-o", "program", &program, "-lpthread", "-rdynamic"], more].concat()).quiet();
        let symbols = work.elf("program").dynamic_symbols();
        symbols.into_iter().filter(|symbol| symbol.section != 0).map(|symbol| symbol.name).collect()
    };
    let usual = exports(&[]);
    for runtime in &runtimes {
        let own = exports(&[REPLACE, runtime]);
        let others: Vec<_> = own
            .difference(&usual)
            .filter(|name| !NAMES.iter().any(|start| name.starts_with(start)))
            .collect();
        assert!(others.is_empty(), "{runtime}: {others:?}");
        assert!(usual.is_subset(&own) && own.contains("_Unwind_Find_FDE"), "{runtime}");
    }
}

/// The table is all that says how to unwind the library.
fn commands_say_what_a_table_says(machine: &'static Machine) {
    let work = Work::on(machine);
    let object = work.cc("library", PROGRAM, &["-O2", "-fPIC"]);
    let options = "-Wl,--unwind-table=replace,--unwind-runtime=program,--unwind-debug-frame=drop";
    work.gxx(&["-shared", "-o", "library.so", &object, "-lpthread", options]).quiet();
    let json = |words: &[&str]| -> serde_json::Value {
        serde_json::from_str(&work.sframe(words).quiet().stdout).expect("JSON")
    };
    let dump = json(&["dump", "--json", "library.so"]);
    let table = &dump[0]["tables"][0];
    assert_eq!((&table["name"], &table["header"]["version"]), (&".sframe_unwind".into(), &2.into()));
    assert_eq!(table["header"]["endian"], "little-endian");
    let address = work.elf("library.so").find_symbol("_Z5againi").expect("a function").value;
    let entries = table["entries"].as_array().expect("entries");
    let again = entries.iter().find(|entry| entry["address"] == format!("{address:#x}")).expect("an entry");
    assert!(again["personality"].is_string() && again["lsda"].is_string(), "{again}");
    // The function calls another one, so in some row it has saved the register that is used for `n`.
    let rows = again["rows"].as_array().expect("rows");
    let in_memory =
        |place: &serde_json::Value| place.as_str().is_some_and(|place| place.starts_with("*(cfa"));
    let saves = |row: &serde_json::Value| {
        let others = row["registers"].as_object().into_iter().flat_map(|registers| registers.values());
        others.chain([&row["fp"], &row["ra"]]).any(in_memory)
    };
    assert!(rows.iter().any(saves), "{again}");
    let all: Vec<_> = entries.iter().flat_map(|entry| entry["rows"].as_array().expect("rows")).collect();
    assert!(
        all.iter().any(|row| row["registers"].is_object()),
        "some function saves more than two registers"
    );
    let text = work.sframe(&["lookup", "library.so", "_Z5againi"]).ok().stdout;
    assert!(text.contains("compact table (V2)") && text.contains("handler: personality"), "{text}");
    work.sframe(&["verify", "library.so"]).quiet();
    let statistics = json(&["stat", "--json", "library.so"]);
    assert!(statistics.to_string().contains("\"compact_size\""), "{statistics}");
    // A file without section headers has the segment.
    let mut bytes = work.read("library.so");
    bytes[0x28..0x30].fill(0);
    bytes[0x3a..0x40].fill(0);
    work.write("bare.so", bytes);
    let bare = json(&["dump", "--json", "bare.so"]);
    assert_eq!(bare[0]["tables"][0]["name"], "PT_SFRAME_UNWIND");
    assert_eq!(bare[0]["tables"][0]["header"], table["header"]);
}

fn libsframe_unwind_walks_by_a_table(machine: &'static Machine) {
    let runtime = need!(unwind_runtime::hooks(machine));
    let library = match crate::unwind_c::library(machine) {
        Ok(library) => library.display().to_string(),
        Err(reason) => return tools::skip("libsframe_unwind_walks_by_a_table", &reason),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let work = Work::on(machine);
    work.write("main.c", std::fs::read(root.join("examples/unwind-c/main.c")).expect("the example"));
    let include = format!("-I{}", root.join("crates/sframe-unwind/include").display());
    let gcc = machine.tool("gcc").expect("a compiler");
    work.command(&gcc, &["-O2", &include, "-c", "-o", "main.o", "main.c"]).quiet();
    let libraries = ["-lgcc_s", "-lpthread", "-ldl", "-lm", "-Wl,--unwind-debug-frame=drop"];
    let words = [&["-o", "program", "main.o", &library], &libraries[..], &[REPLACE, &runtime]].concat();
    work.gcc(&words).ok();
    assert!(frames(&work.elf("program")) < 20);
    let output = work.run("program");
    assert!(output.ends_with("all the same\n"), "{output}");
    assert!(output.contains("end 1, those of libgcc"), "{output}");
}

fn a_table_beside_eh_frame_says_the_same(machine: &'static Machine) {
    let work = Work::on(machine);
    let program = work.cc("program", PROGRAM, &["-O2", "-fPIE"]);
    for form in ["-pie", "-static"] {
        let options = "-Wl,--eh-frame-hdr,--unwind-table=add";
        work.gxx(&["-o", "program", &program, "-lpthread", form, options]).quiet();
        assert_eq!(work.run("program"), PRINTED);
        let fdes = frames(&work.elf("program")) as u64;
        let report = examined(&work, "program");
        let number = |key: &str| report[key].as_u64().expect("a number");
        assert!(number("functions") + 12 >= fdes && number("handlers") > 3, "{report}");
        // `examined` saw no difference, and frames of `.eh_frame` name data and personality routines.
    }
}

/// The C library loads libgcc when a thread ends, and asks it for every frame.
fn a_program_in_c_ends_threads(machine: &'static Machine) {
    let runtimes = need!(unwind_runtime::both(machine));
    let source = r#"
#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
static void cleanup(int *p) { printf("cleanup %d\n", *p); }
static void *thread(void *argument) {
    __attribute__((cleanup(cleanup))) int x = 3;
    pthread_exit((char *)argument + 5);
}
int main(void) {
    void *frames[9], *result;
    pthread_t started;
    int count = backtrace(frames, 9);
    pthread_create(&started, 0, thread, 0);
    pthread_join(started, &result);
    printf("exit %ld, %d\n", (long)result, count > 1);
}
"#;
    let work = Work::on(machine);
    let program = work.c("program", source, &["-O2", "-fPIE", "-fexceptions"]);
    for runtime in &runtimes {
        work.gcc(&["-o", "program", &program, "-pie", "-lpthread", REPLACE, runtime]).quiet();
        assert_eq!(work.run("program"), "cleanup 3\nexit 5, 1\n", "{runtime}");
        tabled(&work, "program", 6);
    }
}

const LIBRARY: &str = r#"
struct Guard { int *count; ~Guard() { ++*count; } };
extern "C" int through(void (*f)(int), int code, int *count) {
    Guard guard{count};
    try { Guard inner{count}; f(code); } catch (int x) { if (x != code) return -1; throw x + 1; }
    return 0;
}
"#;

const LOADER: &str = r#"
#include <cstdio>
#include <dlfcn.h>
struct Guard { int *count; ~Guard() { ++*count; } };
static void thrower(int code) { int own = 0; Guard guard{&own}; throw code; }
int main(int, char **names) {
    int count = 0;
    for (int i = 0; i < 4; i++) {
        void *library = dlopen(names[1] ? names[1] : "./libthrough.so", RTLD_NOW);
        if (!library) { std::puts(dlerror()); return 1; }
        auto through = (int (*)(void (*)(int), int, int *))dlsym(library, "through");
        try { Guard guard{&count}; through(thrower, i, &count); } catch (int x) { count += 100 * (x == i + 1); }
        dlclose(library);
    }
    std::printf("%d\n", count);
}
"#;

/// Frames of the program and of a library alternate. The library may have a libgcc of its own, which does not
/// ask the program for frames.
fn libraries_with_eh_frame_take_part(machine: &'static Machine) {
    let runtimes = need!(unwind_runtime::both(machine));
    let work = Work::on(machine);
    let library = work.cc("library", LIBRARY, &["-O2", "-fPIC"]);
    let loader = work.cc("loader", LOADER, &["-O2", "-fPIE"]);
    for runtime in &runtimes {
        work.gxx(&["-o", "program", &loader, "-pie", "-ldl", REPLACE, runtime]).quiet();
        tabled(&work, "program", 6);
        for libgcc in [&[][..], &["-static-libgcc"]] {
            work.gxx(&[&["-shared", "-o", "libthrough.so", &library], libgcc].concat()).quiet();
            assert_eq!(work.run("program"), "412\n", "{libgcc:?} {runtime}");
        }
    }
}

/// A library with a table needs a program with the look-ups. Another one may be loaded at its address later.
fn libraries_with_tables_come_and_go(machine: &'static Machine) {
    let runtimes = need!(unwind_runtime::both(machine));
    let work = Work::on(machine);
    let library = work.cc("library", LIBRARY, &["-O2", "-fPIC"]);
    let loader = work.cc("loader", LOADER, &["-O2", "-fPIE"]);
    let shared = ["-shared", "-o", "libthrough.so", &library, REPLACE];
    work.gxx(&shared)
        .fails()
        .says(&["does not make shared libraries for any program", "--unwind-runtime=program"]);
    work.gxx(&[&shared[..], &["-Wl,--unwind-runtime=program"]].concat()).quiet();
    tabled(&work, "libthrough.so", 6);
    for runtime in &runtimes {
        work.gxx(&["-o", "program", &loader, "-pie", "-ldl", REPLACE, runtime]).quiet();
        assert_eq!(work.run("program"), "412\n", "{runtime}");
    }
}

/// Every runtime in a dynamic and in a static program.
fn in_two_forms(runtimes: &[String; 2]) -> impl Iterator<Item = (&'static str, &str)> {
    let of = |form| runtimes.iter().map(move |runtime| (form, &**runtime));
    ["-pie", "-static"].into_iter().flat_map(of)
}

/// A handler throws out of a function that read from nowhere, at any instruction.
#[test]
fn a_signal_handler_throws() {
    let machine = &crate::support::machine::X86_64;
    let runtimes = need!(unwind_runtime::both(machine));
    let source = r#"
#include <csignal>
#include <cstdio>
struct Guard { int *count; ~Guard() { ++*count; } };
static void handler(int) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
    throw 11;
}
__attribute__((noinline)) static int reads(volatile int *p, int *count) { Guard guard{count}; return *p + 1; }
int main() {
    std::signal(SIGSEGV, handler);
    int count = 0, caught = 0;
    for (int i = 0; i < 100; i++) try { reads(nullptr, &count); } catch (int x) { caught += x; }
    std::printf("%d %d\n", count, caught);
}
"#;
    let work = Work::new();
    let program = work.cc("program", source, &["-O2", "-fnon-call-exceptions", "-fPIE"]);
    for (form, runtime) in in_two_forms(&runtimes) {
        work.gxx(&["-o", "program", &program, form, REPLACE, runtime]).quiet();
        assert_eq!(work.run("program"), "100 1100\n", "{form} {runtime}");
    }
}

#[test]
fn panics_in_rust_unwind() {
    let machine = &crate::support::machine::X86_64;
    let runtimes = need!(unwind_runtime::both(machine));
    let source = r#"
struct Guard(&'static std::cell::Cell<i32>);
impl Drop for Guard { fn drop(&mut self) { self.0.set(self.0.get() + 1); } }
#[inline(never)]
fn deep(n: u32, count: &'static std::cell::Cell<i32>) -> u32 {
    let _guard = Guard(count);
    if n == 0 { panic!("bottom") }
    std::hint::black_box(deep(n - 1, count)) + 1
}
fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let count: &'static std::cell::Cell<i32> = Box::leak(Box::default());
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| deep(9, count))).is_err();
    let frames = std::backtrace::Backtrace::force_capture().to_string();
    println!("{caught} {} {}", count.get(), frames.contains("main"));
}
"#;
    let work = Work::new();
    work.write("program.rs", source);
    let folder = format!("link-arg=-B{}", crate::support::work::linker_directory().display());
    let words = [
        "-O",
        "program.rs",
        "-o",
        "program",
        "-C",
        "linker=gcc",
        "-C",
        "link-self-contained=-linker",
        "-C",
        &folder,
    ];
    for runtime in &runtimes {
        let options = [format!("link-arg={REPLACE}"), format!("link-arg={runtime}")];
        let words = [&words[..], &["-C", &options[0], "-C", &options[1]]].concat();
        work.command(Path::new("rustc"), &words).ok();
        assert_eq!(work.run("program"), "true 10 true\n", "{runtime}");
        assert!(tabled(&work, "program", 40) > 300);
    }
}

#[test]
fn what_cannot_work_is_refused() {
    let work = Work::new();
    let object = work.s("object", ".globl _start\n_start:\n .cfi_startproc\n nop\n .cfi_endproc\n");
    let ld =
        |words: &[&str]| work.ld(&[&[&object[..], "-o", "out", "--unwind-table=replace"], words].concat());
    ld(&["--unwind-runtime=full", "-shared"]).fails().says(&["--unwind-runtime=program"]);
    ld(&["--emit-relocs"]).fails().says(&["--emit-relocs may not be used together", "BOLT"]);
    ld(&["-shared"]).fails().says(&["--unwind-runtime=program"]);
    ld(&["-r"]).ok().says(&["--unwind-table=replace has no effect with -r"]);
    ld(&["--unwind-runtime-archive=missing.a"]).fails().says(&["missing.a"]);
    // A table alone is made without look-ups. Nothing is left of `.eh_frame`.
    ld(&["--unwind-runtime=program"]).quiet();
    let elf = work.elf("out");
    assert!(elf.find(".eh_frame").is_none() && elf.find(".eh_frame_hdr").is_none());
    assert_eq!(elf.segment(PT_SFRAME_UNWIND).size, elf.section(".sframe_unwind").size);
}

/// Pascal's programs have frames and no C library.
#[test]
fn look_ups_without_a_c_library_are_explained() {
    let work = Work::new();
    let start = ".globl _start\n_start:\n .cfi_startproc\n nop\n .cfi_endproc\n";
    let program = work.s("program", start);
    let hooks = ["_Unwind_Find_FDE", "_dl_find_object", "dl_iterate_phdr"];
    let define = |name| format!(".globl {name}\n{name}: call bcmp\n");
    let look_ups = work.s("look-ups", &hooks.map(define).concat());
    work.ar("look-ups.a", "", &[&look_ups]);
    let words = ["-o", "out", "--unwind-table=replace", "--unwind-runtime-archive=look-ups.a", &program];
    work.ld(&words).fails().says(&["undefined symbol: bcmp", "needs a C library", "--unwind-table=none"]);
    // The program's own references have other reasons.
    let own = work.s("own", &format!("{start} call bcmp\n"));
    let words = ["-o", "out", "--unwind-table=replace", "--unwind-runtime=program", &own];
    work.ld(&words).fails().says(&["undefined symbol: bcmp"]).says_not(&["needs a C library"]);
}

/// A program that hides its look-ups from libgcc would end without a word at its first exception.
#[test]
fn look_ups_that_are_not_reached_end_the_program_at_its_start() {
    let machine = &crate::support::machine::X86_64;
    let runtimes = need!(unwind_runtime::both(machine));
    let work = Work::new();
    let source = "int main() { try { throw 1; } catch (int) {} }\n";
    let program = work.cc("program", source, &["-O2", "-fPIE"]);
    work.write("hide.map", "{ local: *; };\n");
    let reasons =
        ["the unwinder does not look functions up in this program", "do not find the program's unwinder"];
    for (runtime, reason) in runtimes.iter().zip(reasons) {
        let words = ["-o", "program", &program, "-pie", REPLACE, runtime, "-Wl,--version-script=hide.map"];
        work.gxx(&words).quiet();
        let outcome = work.run_any("program");
        assert_eq!(outcome.code, Some(127), "{outcome}");
        outcome.says(&["sframe unwind table: ", reason]);
    }
}

/// What a debugger reads: all frames that left `.eh_frame`.
#[test]
fn the_frames_that_left_are_kept_for_debuggers() {
    let work = Work::new();
    let program = work.cc("program", PROGRAM, &["-O2", "-fPIE"]);
    let machine = &crate::support::machine::X86_64;
    let runtime = need!(unwind_runtime::hooks(machine));
    let link = |what: &str| {
        let debug_frame = format!("-Wl,--unwind-debug-frame={what}");
        work.gxx(&["-o", "program", &program, "-lpthread", REPLACE, &runtime, &debug_frame]).quiet();
    };
    link("keep");
    let elf = work.elf("program");
    let section = elf.section(".debug_frame");
    assert_eq!(section.flags & SHF_ALLOC, 0);
    let report = examined(&work, "program");
    // Every function of the table was compared with it.
    assert!(report["functions"].as_u64().expect("a number") > 5, "{report}");
    link("drop");
    assert!(work.elf("program").find(".debug_frame").is_none());
}

/// A destructor that runs while an exception flies raises a signal, whose handler walks the stack, and throws
/// and catches another exception; in several threads at the same time.
#[test]
fn handlers_unwind_while_their_thread_unwinds() {
    let machine = &crate::support::machine::X86_64;
    let runtimes = need!(unwind_runtime::both(machine));
    let source = r#"
#include <atomic>
#include <csignal>
#include <cstdio>
#include <execinfo.h>
#include <pthread.h>
static std::atomic<int> handled, shallow, wrong;
struct Plain { int *count; ~Plain() { ++*count; } };
__attribute__((noinline)) static int inner(int n, int *count) {
    Plain plain{count};
    if (n == 0) throw 7L;
    int got = inner(n - 1, count);
    asm volatile("" ::: "memory");
    return got + 1;
}
static void handler(int) {
    void *frames[64];
    if (backtrace(frames, 64) < 5) shallow++;
    int count = 0;
    try { inner(3, &count); } catch (long x) { wrong += x != 7; }
    wrong += count != 4;
    handled++;
}
struct Guard { int *count; ~Guard() { ++*count; std::raise(SIGUSR1); } };
__attribute__((noinline)) static int deep(int n, int *count) {
    Guard guard{count};
    if (n == 0) throw 42;
    int got = deep(n - 1, count);
    asm volatile("" ::: "memory");
    return got + 1;
}
static void *thrower(void *) {
    for (int i = 0; i < 200; i++) {
        int count = 0;
        try { deep(i % 10, &count); } catch (int x) { wrong += x != 42; }
        wrong += count != i % 10 + 1;
    }
    return nullptr;
}
int main() {
    std::signal(SIGUSR1, handler);
    pthread_t threads[3];
    for (auto &thread : threads) pthread_create(&thread, nullptr, thrower, nullptr);
    for (auto &thread : threads) pthread_join(thread, nullptr);
    std::printf("%d %d %d\n", int(handled), int(shallow), int(wrong));
}
"#;
    let work = Work::new();
    let program = work.cc("program", source, &["-O2", "-fPIE"]);
    for (form, runtime) in in_two_forms(&runtimes) {
        work.gxx(&["-o", "program", &program, form, "-lpthread", REPLACE, runtime]).quiet();
        assert_eq!(work.run("program"), "3300 0 0\n", "{form} {runtime}");
    }
}

#[test]
fn frames_that_stay_are_reported_with_the_reason() {
    let work = Work::new();
    let source = "
        .globl _start
        _start: .cfi_startproc
         nop
         .cfi_endproc
        # DW_CFA_def_cfa_expression: the word at rsp + 8.
        f: .cfi_startproc
         .cfi_escape 0x0f, 3, 0x77, 8, 6
         nop
         .cfi_endproc
        last: .cfi_startproc
         .cfi_undefined rip
         nop
         .cfi_endproc
    ";
    let object = work.s("object", source);
    let options = ["--unwind-table=replace", "--unwind-runtime=program"];
    let link = |report: &str| work.ld(&[&[&object[..], "-o", "out", report], &options[..]].concat()).quiet();
    let said = link("--print-sframe").stdout;
    for line in [
        "unwind table: 1 function, ",
        "; 2 FDEs are only in .eh_frame\n",
        "unwind table: 1 FDE: a CFA is an expression, or undefined; first in object.o\n",
        "unwind table: 1 FDE: the return address is undefined; first in object.o\n",
    ] {
        assert!(said.contains(line), "{line:?} in {said}");
    }
    let stats: serde_json::Value = serde_json::from_str(&link("--stats=json").stdout).expect("JSON");
    assert_eq!((&stats["unwind_table_functions"], &stats["unwind_table_fdes_kept"]), (&1.into(), &2.into()));
}
