//! `--unwind-table=replace`, and who finds frames in other ways than libgcc's: by program headers, by
//! registering them, or in a program that another linker made.

use crate::support::machine::X86_64;
use crate::support::{Machine, Work, unwind_runtime};
use crate::{need, on_every_machine};

on_every_machine![
    frames_are_found_by_program_headers,
    an_unwinder_of_a_library_that_knows_only_program_headers_throws,
    registered_frames_are_found,
    a_shared_library_looks_up_for_a_program_without_a_table,
];

const REPLACE: &str = "-Wl,--unwind-table=replace";

/// Looks functions up as libgcc did before version 12: by `PT_GNU_EH_FRAME`, in a sorted table.
const FINDER: &str = r#"
#define _GNU_SOURCE
#include <link.h>
#include <stdint.h>
#include <string.h>
struct question { uintptr_t pc; const char *fde; uintptr_t start; };
static int visit(struct dl_phdr_info *info, size_t size, void *data) {
    struct question *question = data;
    const ElfW(Phdr) *frames = 0;
    int is_there = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_LOAD && question->pc - start < header->p_memsz) is_there = 1;
        if (header->p_type == PT_GNU_EH_FRAME) frames = header;
    }
    if (!is_there || !frames) return 0;
    const char *head = (const char *)(info->dlpi_addr + frames->p_vaddr);
    if (head[0] != 1 || head[1] != 0x1b || head[2] != 3 || head[3] != 0x3b) return 1;
    int32_t count, *pairs = (int32_t *)(head + 12);
    memcpy(&count, head + 8, 4);
    for (int low = 0, high = count; low < high;) {
        int middle = (low + high) / 2;
        uintptr_t start = (uintptr_t)head + pairs[2 * middle];
        if (start > question->pc) { high = middle; continue; }
        low = middle + 1;
        question->start = start;
        question->fde = head + pairs[2 * middle + 1];
    }
    return 1;
}
"#;

/// Every FDE that is found begins where its pair says, and its code is long enough.
fn frames_are_found_by_program_headers(machine: &'static Machine) {
    let runtimes = need!(unwind_runtime::both(machine));
    let work = Work::on(machine);
    let main = r#"
#include <stdio.h>
__attribute__((noinline)) static int deep(int n) { int got = n ? deep(n - 1) + 1 : 0; __asm__("" : : : "memory"); return got; }
__attribute__((noinline)) static int finds(void *function) {
    struct question question = {(uintptr_t)function + 1, 0, 0};
    dl_iterate_phdr(visit, &question);
    if (!question.fde) return 0;
    uintptr_t start, size;
    memcpy(&start, question.fde + 8, 8);
    memcpy(&size, question.fde + 16, 8);
    return question.start == (uintptr_t)function && start == question.start && size > 1 && size < 9999;
}
int main(void) {
    struct question question = {(uintptr_t)&puts, 0, 0};
    dl_iterate_phdr(visit, &question);
    printf("%d %d %d %d\n", finds(deep), finds(finds), finds(main), question.fde != 0);
    return deep(3) - 3;
}
"#;
    let program = work.c("program", &format!("{FINDER}{main}"), &["-O2", "-fPIE"]);
    for form in ["-pie", "-no-pie", "-static", "-static-pie"].into_iter().filter(|form| machine.links(form)) {
        for runtime in &runtimes {
            work.gcc(&["-o", "program", &program, form, REPLACE, runtime]).quiet();
            assert_eq!(work.run("program"), "1 1 1 1\n", "{form} {runtime}");
        }
    }
    // A table beside `.eh_frame` needs no second one.
    work.gcc(&["-o", "program", &program, "-Wl,--unwind-table=add"]).quiet();
    assert_eq!(work.run("program"), "0 0 0 1\n", "these FDEs have other forms");
}

/// The library has a libgcc of its own, whose look-up goes to the program headers. Frames of the program are
/// between its throw and its handler.
fn an_unwinder_of_a_library_that_knows_only_program_headers_throws(machine: &'static Machine) {
    let runtimes = need!(unwind_runtime::both(machine));
    let work = Work::on(machine);
    let find = r#"
__attribute__((visibility("hidden"))) int _dl_find_object(void *pc, struct dl_find_object *found) {
    struct question question = {(uintptr_t)pc, 0, 0};
    dl_iterate_phdr(visit, &question);
    if (!question.fde) return -1;
    memset(found, 0, sizeof *found);
    /* A header that leads to this FDE alone. */
    static _Thread_local struct { unsigned char head[4]; const char *fde; } __attribute__((packed)) headers[64];
    static _Thread_local int number;
    __typeof__(&headers[0]) header = &headers[number++ % 64];
    memcpy(header->head, "\1\0\377\377", 4);
    header->fde = question.fde;
    found->dlfo_map_start = (void *)question.start;
    found->dlfo_map_end = (char *)question.start + 1;
    found->dlfo_eh_frame = header;
    return 0;
}
"#;
    let find =
        work.c("find", &format!("{FINDER}{find}"), &["-O2", "-fPIC", "-D_GNU_SOURCE", "-include", "dlfcn.h"]);
    let library = r#"
struct Guard { int *count; ~Guard() { ++*count; } };
static void throws() { throw 5; }
extern "C" int run(void (*through)(void (*)(void)), int *count) {
    try { Guard guard{count}; through(throws); } catch (int n) { return n; }
    return 0;
}
"#;
    let library = work.cc("library", library, &["-O2", "-fPIC"]);
    let own = ["-static-libgcc", "-static-libstdc++", "-Wl,--exclude-libs,ALL,-Bsymbolic"];
    work.gxx(&[&["-shared", "-o", "librun.so", &library, &find], &own[..]].concat()).quiet();
    let main = r#"
#include <stdio.h>
int run(void (*through)(void (*)(void)), int *count);
__attribute__((noinline)) static void calls(void (*f)(void)) { f(); __asm__("" : : : "memory"); }
__attribute__((noinline)) static void through(void (*f)(void)) { calls(f); __asm__("" : : : "memory"); }
int main(void) {
    int count = 0, sum = 0;
    for (int i = 0; i < 3; i++) sum += run(through, &count);
    printf("%d %d\n", sum, count);
}
"#;
    let main = work.c("main", main, &["-O2", "-fPIE", "-funwind-tables"]);
    for runtime in &runtimes {
        work.gcc(&["-o", "program", &main, "librun.so", "-pie", REPLACE, runtime]).quiet();
        assert_eq!(work.run("program"), "15 3\n", "{runtime}");
    }
}

/// Code that a program made: it calls what it was given.
const MADE_CODE: &str = r#"
#include <cstdio>
#include <cstring>
#include <sys/mman.h>
extern "C" void __register_frame(void *), __deregister_frame(void *);
extern "C" void __register_frame_info(void *, void *), *__deregister_frame_info(void *);
extern "C" const char made[], made_end[];
asm(".globl made, made_end");
#if defined __x86_64__
asm(".text\nmade: sub $8, %rsp\n call *%rdi\n add $8, %rsp\n ret\nmade_end:");
/* def_cfa rsp, 16; rip at CFA - 8. */
static const unsigned char rules[] = {16, 0, 12, 7, 16, 0x90, 1};
#elif defined __aarch64__
asm(".text\nmade: stp x29, x30, [sp, -16]!\n blr x0\n ldp x29, x30, [sp], 16\n ret\nmade_end:");
/* def_cfa sp, 16; x29 at CFA - 16, x30 at CFA - 8. */
static const unsigned char rules[] = {30, 0, 12, 31, 16, 0x9d, 2, 0x9e, 1};
#else
asm(".text\nmade: stmg %r14, %r15, 112(%r15)\n aghi %r15, -160\n basr %r14, %r2\n"
    " lmg %r14, %r15, 272(%r15)\n br %r14\nmade_end:");
/* def_cfa r15, 320; r14 at CFA - 48, r15 at CFA - 40. */
static const unsigned char rules[] = {14, 0, 12, 15, 0xc0, 2, 0x8e, 6, 0x8f, 5};
#endif
struct Frames { alignas(8) unsigned char bytes[80]; };
static void describe(Frames &frames, const char *code, unsigned long size) {
    std::memset(&frames, 0, sizeof frames);
    auto word = [&](int at, unsigned value) { std::memcpy(frames.bytes + at, &value, 4); };
    const unsigned char head[] = {1, 'z', 'R', 0, 1, 0x78};
    word(0, 28);
    std::memcpy(frames.bytes + 8, head, sizeof head);
    std::memcpy(frames.bytes + 14, rules, 1);
    frames.bytes[15] = 1;
    std::memcpy(frames.bytes + 16, rules + 1, sizeof rules - 1);
    word(32, 28);
    word(36, 36);
    std::memcpy(frames.bytes + 40, &code, 8);
    std::memcpy(frames.bytes + 48, &size, 8);
}
static void throws() { throw 42; }
struct Guard { int &count; ~Guard() { count++; } };
int main() {
    int count = 0, caught = 0;
    unsigned long size = made_end - made;
    static Frames all[40];
    static char object[96];
    auto *code = (char *)mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 40; i++) {
            char *own = code + 256 * i + 64 * round;
            std::memcpy(own, made, size);
            __builtin___clear_cache(own, own + size);
            describe(all[i], own, size);
            if (i == 7) __register_frame_info(&all[i], object);
            else __register_frame(&all[i]);
        }
        for (int i = 0; i < 40; i++) {
            char *own = code + 256 * i + 64 * round;
            try { Guard guard{count}; ((void (*)(void (*)()))own)(throws); } catch (int n) { caught += n == 42; }
        }
        for (int i = 0; i < 40; i++) {
            if (i == 7) count += __deregister_frame_info(&all[i]) == object;
            else __deregister_frame(&all[i]);
        }
    }
    std::printf("%d %d\n", count, caught);
}
"#;

fn registered_frames_are_found(machine: &'static Machine) {
    let runtimes = need!(unwind_runtime::both(machine));
    let work = Work::on(machine);
    let program = work.cc("program", MADE_CODE, &["-O2", "-fPIE"]);
    let forms: [&[&str]; 4] =
        [&["-pie"], &["-static"], &["-static-pie"], &["-static-libgcc", "-static-libstdc++"]];
    for form in forms.into_iter().filter(|form| machine.links(form[0])) {
        for options in [&[][..], &[REPLACE, &runtimes[0]], &[REPLACE, &runtimes[1]]] {
            work.gxx(&[&["-o", "program", &program], form, options].concat()).quiet();
            assert_eq!(work.run("program"), "123 120\n", "{form:?} {options:?}");
        }
    }
}

/// The program has `.eh_frame` and no look-ups; a library that it throws through has a table.
fn a_shared_library_looks_up_for_a_program_without_a_table(machine: &'static Machine) {
    let shared = need!(unwind_runtime::shared(machine));
    let work = Work::on(machine);
    std::fs::copy(shared, work.path("liblookups.so")).expect("the library");
    let library = "
        struct Guard { int *count; ~Guard() { ++*count; } };
        extern \"C\" int through(void (*f)(int), int code, int *count) {
            Guard guard{count};
            try { Guard inner{count}; f(code); } catch (int x) { if (x != code) return -1; throw x + 1; }
            return 0;
        }
    ";
    let library = work.cc("library", library, &["-O2", "-fPIC"]);
    work.gxx(&["-shared", "-o", "libthrough.so", &library, REPLACE, "-Wl,--unwind-runtime=program"]).quiet();
    let source = r#"
#include <cstdio>
extern "C" int through(void (*)(int), int, int *);
static void throws(int code) { throw code; }
int main() {
    int count = 0;
    for (int i = 0; i < 4; i++) try { through(throws, i, &count); } catch (int x) { count += 100 * (x == i + 1); }
    std::printf("%d\n", count);
}
"#;
    let program = work.cc("program", source, &["-O2", "-fPIE"]);
    let path = "-Wl,-rpath,$ORIGIN,--no-as-needed";
    work.gxx(&["-o", "program", &program, "libthrough.so", path, "liblookups.so"]).quiet();
    assert_eq!(work.run("program"), "408\n");
    // libgcc_s comes first, and does not ask a library behind it.
    work.gxx(&["-o", "program", &program, "libthrough.so", path, "-lgcc_s", "liblookups.so"]).quiet();
    let outcome = work.run_any("program");
    assert_eq!(outcome.code, Some(127), "{outcome}");
    outcome.says(&["sframe unwind table: ", "does not look functions up in this library", "LD_PRELOAD"]);
}

/// A look-up of the program's own that does not know the table would end it without a word at its first
/// exception.
#[test]
fn another_definition_of_the_look_up_ends_the_program_at_its_start() {
    let runtime = need!(unwind_runtime::hooks(&X86_64));
    let work = Work::new();
    let source = "extern \"C\" void *_Unwind_Find_FDE(void *, void *) { return nullptr; }\n\
                  int main() { try { throw 1; } catch (int) {} }\n";
    let program = work.cc("program", source, &["-O2"]);
    for form in ["-pie", "-static"] {
        work.gxx(&["-o", "program", &program, form, REPLACE, &runtime]).quiet();
        let outcome = work.run_any("program");
        assert_eq!(outcome.code, Some(127), "{outcome}");
        outcome.says(&["sframe unwind table: ", "another definition of _Unwind_Find_FDE"]);
    }
}
