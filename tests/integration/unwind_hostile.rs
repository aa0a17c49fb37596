//! `--unwind-table=replace` where exceptions are rare and awkward. Every program is linked with libgcc and
//! `.eh_frame`, too, and must print the same.

use crate::need;
use crate::support::machine::X86_64;
use crate::support::{Work, unwind_runtime};

const REPLACE: &str = "-Wl,--unwind-table=replace";

/// Links objects in this form with `.eh_frame`, and with a table and each runtime. All print the same.
fn print_the_same(work: &Work, runtimes: &[String; 2], words: &[&str]) -> String {
    let link = |more: &[&str]| {
        work.gxx(&[&["-o", "program"], words, more].concat()).quiet();
        work.run("program")
    };
    let expected = link(&[]);
    for runtime in runtimes {
        assert_eq!(link(&[REPLACE, runtime]), expected, "{words:?} {runtime}");
    }
    expected
}

/// Functions with prologues and epilogues of every kind.
const STEPS: &str = r#"
#include <alloca.h>
/* Saves every callee-saved register. */
int pushes(int n) {
    int a = n, b = n + 1, c = n + 2, d = n + 3, e = n + 4, f = n + 5;
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f) : : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9");
    return a ^ b ^ c ^ d ^ e ^ f;
}
/* A frame of variable size. */
int varies(int n) {
    volatile char *bytes = alloca(n);
    bytes[n - 1] = 1;
    return bytes[n - 1];
}
/* An aligned frame. */
int aligned(int n) {
    volatile int words[8] __attribute__((aligned(64)));
    words[n & 7] = n;
    __asm__ volatile("" : : "r"(words) : "rbx", "memory");
    return words[n & 7];
}
/* A large one, and a call. */
int calls(int n) {
    volatile char bytes[3000];
    bytes[n] = 1;
    return bytes[n] + pushes(n);
}
/* Most of the time without a frame. */
int returns_early(int n) { return n > 1000 ? calls(n) : n; }
"#;

/// A handler of single steps throws at every instruction of these functions, and in lazily bound PLT entries.
const THROWS_AT_EACH_STEP: &str = r#"
#include <csignal>
#include <cstdio>
#include <ucontext.h>
extern "C" {
int pushes(int), varies(int), aligned(int), calls(int), returns_early(int);
int lazy0(int), lazy1(int), lazy2(int), lazy3(int), lazy4(int), lazy5(int), lazy6(int), lazy7(int);
extern const char __executable_start, etext;
extern const char __start_steers, __stop_steers;
}
static int wanted, count;
static bool is_in(const char &start, const char &end, long at) { return at >= (long)&start && at < (long)&end; }
static void trapped(int number, siginfo_t *, void *context) {
    long at = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    bool leaves = is_in(__executable_start, etext, at) && !is_in(__start_steers, __stop_steers, at);
    if (!leaves || count++ < wanted) return;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
    throw count;
}
#define THROUGH_PLT(n) static int through##n(int x) { return lazy##n(x) + 1; }
THROUGH_PLT(0) THROUGH_PLT(1) THROUGH_PLT(2) THROUGH_PLT(3)
THROUGH_PLT(4) THROUGH_PLT(5) THROUGH_PLT(6) THROUGH_PLT(7)
struct Guard { int &ended; ~Guard() { ended++; } };
/* Calls with the trap flag set. False: an exception came. */
__attribute__((noinline, section("steers"))) static bool finishes(int (*function)(int), int &ended) {
    Guard guard{ended};
    try {
        asm volatile("pushf\n orl $256, (%%rsp)\n popf" : : : "memory", "cc");
        function(40);
        asm volatile("pushf\n andl $~256, (%%rsp)\n popf" : : : "memory", "cc");
    } catch (int) {
        return false;
    }
    return true;
}
int main() {
    struct sigaction action{};
    action.sa_sigaction = trapped;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &action, nullptr);
    int ended = 0;
    static int (*const plain[])(int) = {pushes, varies, aligned, calls, returns_early};
    for (auto function : plain) {
        wanted = 0;
        for (count = 0; !finishes(function, ended); count = 0) wanted++;
        std::printf("%d %d\n", wanted, ended);
    }
    wanted = 0;
    static int (*const lazy[])(int) = {through0, through1, through2, through3, through4, through5, through6, through7};
    for (auto function : lazy) {
        count = 0;
        std::printf("%d %d\n", finishes(function, ended), ended);
        wanted++;
    }
}
"#;

#[test]
fn exceptions_leave_every_instruction() {
    let runtimes = need!(unwind_runtime::both(&X86_64));
    let work = Work::new();
    let lazy: String = (0..8).map(|n| format!("int lazy{n}(int n) {{ return n; }}\n")).collect();
    let lazy = work.c("lazy", &lazy, &["-O2", "-fPIC"]);
    work.gcc(&["-shared", "-o", "liblazy.so", &lazy]).quiet();
    let steps = work.c("steps", STEPS, &["-O2", "-fPIE", "-fcf-protection=none"]);
    let program = work.cc("program", THROWS_AT_EACH_STEP, &["-O2", "-fPIE", "-fplt"]);
    for form in [&["-pie", "-Wl,-z,lazy", "liblazy.so"][..], &["-static", &lazy]] {
        let words = [&[&program[..], &steps][..], form].concat();
        let printed = print_the_same(&work, &runtimes, &words);
        // Functions of more than two instructions, and a destructor for each call.
        let counts = printed.lines().map(|line| line.split_once(' ').expect("two numbers"));
        let counts: Vec<(u32, u32)> =
            counts.map(|(steps, ended)| (steps.parse().unwrap(), ended.parse().unwrap())).collect();
        assert_eq!(counts.len(), 13, "{printed}");
        assert!(counts[..5].iter().all(|&(steps, _)| steps > 2), "{printed}");
        let calls: u32 = counts[..5].iter().map(|&(steps, _)| steps + 1).sum();
        assert_eq!(counts[4].1, calls, "{printed}");
        if form[0] == "-pie" {
            assert!(counts[5..].iter().all(|&(finished, _)| finished == 0), "{printed}");
        }
    }
}

/// Calls at the ends of functions, cold parts with landing pads, arguments on the stack, and five personality
/// routines.
const RARE: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <unwind.h>
struct Guard { const char *name; ~Guard() { std::printf("~%s ", name); } };
static volatile int zero;

/* The call is the last instruction of the function, or of its cold part. */
[[noreturn, gnu::noinline]] static void throws(int n) { throw n; }
__attribute__((noinline)) static int ends(int n) {
    Guard guard{"ends"};
    if (n > 5) throws(n);
    return n;
}
[[gnu::cold, gnu::noinline]] static int rare(int n) {
    if (n > 5) throw long(n);
    return n;
}
__attribute__((noinline)) static int has_cold_part(int n) {
    Guard guard{"warm"};
    try {
        if (__builtin_expect(n > 5, 0)) { Guard cold{"cold"}; return rare(n) + rare(n + 1); }
        return n;
    } catch (long x) { Guard again{"again"}; return int(x) + rare(int(x)); }
}

/* Arguments on the stack, which a landing pad removes. */
__attribute__((noinline)) static int many(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j) {
    if (zero == 0) throw a + b + c + d + e + f + g + h + i + j;
    return 0;
}
__attribute__((noinline)) static int passes(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        try { sum += many(i, 1, 2, 3, 4, 5, 6, 7, 8, 9) + many(i, i, i, i, i, i, i, i, i, i); }
        catch (int x) { sum += x; }
    }
    return sum;
}

/* Five personality routines. */
extern "C" void through_five(void (*)());
#define PERSONALITY(n) extern "C" _Unwind_Reason_Code personality##n(int, _Unwind_Action actions, \
        _Unwind_Exception_Class, _Unwind_Exception *, _Unwind_Context *context) { \
    std::printf("%d%s%s ", n, actions & _UA_SEARCH_PHASE ? "?" : "!", \
                *(const char *)_Unwind_GetLanguageSpecificData(context) == 'a' + n ? "" : " wrong"); \
    return _URC_CONTINUE_UNWIND; }
PERSONALITY(1) PERSONALITY(2) PERSONALITY(3) PERSONALITY(4) PERSONALITY(5)
asm(R"(
    .macro function number, next
    .text
    .type through\number, @function
through\number:
    .cfi_startproc
    .cfi_personality 0x1b, personality\number
    .cfi_lsda 0x1b, data\number
    push %rbx
    .cfi_def_cfa_offset 16
    .cfi_offset 3, -16
    mov %rdi, %rbx
    call \next
    pop %rbx
    .cfi_def_cfa_offset 8
    .cfi_restore 3
    ret
    .cfi_endproc
    .size through\number, . - through\number
    .section .rodata
data\number: .byte 'a' + \number
    .text
    .endm
    function 1, *%rdi
    function 2, through1
    function 3, through2
    function 4, through3
    function 5, through4
    .globl through_five
    .set through_five, through5
)");

int main() {
    try { ends(7); } catch (int n) { std::printf("%d\n", n); }
    try { has_cold_part(9); } catch (long n) { std::printf("%ld\n", n); }
    std::printf("%d\n", passes(20));
    try { through_five([] { throw 'x'; }); } catch (char c) { std::printf("%c\n", c); }
}
"#;

#[test]
fn rare_forms_of_functions_are_unwound() {
    let runtimes = need!(unwind_runtime::both(&X86_64));
    let work = Work::new();
    for options in [&["-O2"][..], &["-Os", "-mno-accumulate-outgoing-args", "-mpush-args"]] {
        let program = work.cc("program", RARE, &[options, &["-fPIE"]].concat());
        for form in ["-pie", "-static"] {
            let printed = print_the_same(&work, &runtimes, &[&program, form]);
            let five = "1? 2? 3? 4? 5? 1! 2! 3! 4! 5! x\n";
            assert_eq!(printed, format!("~ends 7\n~cold ~again ~warm 9\n1090\n{five}"), "{form}");
        }
    }
}
