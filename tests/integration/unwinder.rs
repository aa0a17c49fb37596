//! `--unwind-runtime=full`: an unwinder in libgcc's place. Every program is linked with libgcc, too, and must
//! print the same.

use crate::support::machine::{AARCH64, check};
use crate::support::{Machine, Work, unwind_runtime};
use crate::{need, on_every_machine};

on_every_machine![
    the_whole_interface_does_what_libgcc_does,
    registers_come_back_as_they_were,
    interrupted_functions_are_unwound,
    the_end_of_a_stack_is_shown,
    frames_that_only_clean_up_need_no_personality_routine,
    other_personality_routines_are_asked,
    own_personality_routines_of_static_programs_are_asked,
];

const REPLACE: &str = "-Wl,--unwind-table=replace";

/// Links a program with libgcc, and with the unwinder, in every form: all print the same.
fn print_the_same(work: &Work, machine: &'static Machine, objects: &[&str], full: &str) -> String {
    let mut printed = None;
    for form in ["-pie", "-static", "-static-pie"].into_iter().filter(|form| machine.links(form)) {
        for options in [&[][..], &[REPLACE, full]] {
            let words = [&["-o", "program", form][..], objects, &["-lpthread"], options].concat();
            work.gxx(&words).quiet();
            let now = work.run("program");
            assert_eq!(printed.get_or_insert_with(|| now.clone()), &now, "{form} {options:?}");
        }
    }
    printed.expect("every machine links one form")
}

/// Forced unwinding, foreign exceptions both ways, rethrowing, frames of C between, exceptions in
/// destructors, and what callbacks are told of frames.
const INTERFACE: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <unwind.h>
struct Guard { const char *name; ~Guard() { std::printf("~%s ", name); } };
extern "C" void through_c(void (*f)());

static _Unwind_Exception forced;
[[noreturn]] static void finished() { std::puts("the end"); std::exit(0); }
static _Unwind_Reason_Code stops(int, _Unwind_Action actions, _Unwind_Exception_Class, _Unwind_Exception *,
                                 _Unwind_Context *context, void *marker) {
    if (actions & _UA_END_OF_STACK || _Unwind_GetCFA(context) > (_Unwind_Ptr)marker) finished();
    return _URC_NO_REASON;
}
static void force_from_here(void *marker) {
    Guard guard{"forced"};
    std::memcpy(&forced.exception_class, "OTHER\0\0", 8);
    _Unwind_ForcedUnwind(&forced, stops, marker);
}
__attribute__((noinline)) static void forces(void *marker) {
    Guard guard{"outer"};
    try { force_from_here(marker); }
    catch (...) { std::printf("caught-forced "); throw; }
}

static int deleted;
static void cleanup(_Unwind_Reason_Code reason, _Unwind_Exception *) { deleted += reason; }
static void raise_foreign() {
    static _Unwind_Exception exception;
    std::memcpy(&exception.exception_class, "OTHER\0\0", 8);
    exception.exception_cleanup = cleanup;
    Guard guard{"foreign"};
    int reason = _Unwind_RaiseException(&exception);
    std::printf("not caught: %d\n", reason);
}
static void throw_seven() { Guard guard{"seven"}; throw 7; }
struct Throws {
    ~Throws() { try { throw 1L; } catch (long x) { std::printf("inner %ld ", x); } }
};
static void nested() { Throws first; Guard guard{"nested"}; throw "text"; }
static void rethrows() { try { through_c(throw_seven); } catch (int &x) { x++; throw; } }

static void stores() { try { throw 5; } catch (...) { throw std::current_exception(); } }

__attribute__((noinline)) static _Unwind_Reason_Code looks(_Unwind_Context *context, void *data) {
    int before = -1;
    _Unwind_Ptr at = _Unwind_GetIPInfo(context, &before), start = _Unwind_GetRegionStart(context);
    void *function = _Unwind_FindEnclosingFunction((void *)_Unwind_GetIP(context));
    auto *seen = (int *)data;
    ++seen[0];
    seen[1] += at == _Unwind_GetIP(context) && before == 0;
    seen[2] += function && (_Unwind_Ptr)function == start;
    return seen[0] == 6 ? _URC_END_OF_STACK : _URC_NO_REASON;
}
__attribute__((noinline)) static int walks(int n, int *seen) {
    int got = n ? walks(n - 1, seen) : _Unwind_Backtrace(looks, seen);
    asm volatile("" ::: "memory");
    return got;
}
static _Unwind_Reason_Code counts(_Unwind_Context *, void *count) { ++*(int *)count; return _URC_NO_REASON; }

int main(int, char **names) {
    try { through_c(throw_seven); } catch (long) {} catch (int x) { std::printf("%d\n", x); }
    try { rethrows(); } catch (int x) { std::printf("%d\n", x); }
    try { nested(); } catch (const char *text) { std::printf("%s\n", text); }
    try { stores(); } catch (std::exception_ptr &p) {
        try { std::rethrow_exception(p); } catch (int x) { std::printf("stored %d\n", x); }
    }
    try { through_c(raise_foreign); } catch (...) { std::printf("foreign caught "); }
    std::printf("%d\n", deleted);
    int seen[3] = {};
    std::printf("walked %d", walks(4, seen));
    std::printf(" %d %d %d\n", seen[0], seen[1], seen[2]);
    int count = 0;
    int reason = _Unwind_Backtrace(counts, &count);
    std::printf("all %d %d\n", reason, count > 1);
    forces(__builtin_frame_address(0));
}
"#;

/// It knows nothing of exceptions, but has frames.
const THROUGH_C: &str = "
    void through_c(void (*f)(void)) { f(); __asm__ volatile(\"\" ::: \"memory\"); }
";

fn the_whole_interface_does_what_libgcc_does(machine: &'static Machine) {
    let full = need!(unwind_runtime::full(machine));
    let work = Work::on(machine);
    let program = work.cc("program", INTERFACE, &["-O2", "-fPIE"]);
    let through = work.c("through", THROUGH_C, &["-O2", "-fPIE", "-funwind-tables"]);
    let printed = print_the_same(&work, machine, &[&program, &through], &full);
    for line in ["~seven 7\n", "~seven 8\n", "inner 1 text\n", "stored 5\n", "~foreign foreign caught 1\n"] {
        assert!(printed.contains(line), "{line:?} in {printed}");
    }
    assert!(printed.contains("walked 3 6 6 6\nall 5 1\n"), "{printed}");
    assert!(printed.ends_with("~forced caught-forced ~outer the end\n"), "{printed}");
}

/// One call for every answer of the routine: none, cleaning up, handlers of this and of another type, with
/// and without a destructor beside them, a specification of exceptions, and what must not throw. The second
/// round finds what the first one learnt.
fn frames_that_only_clean_up_need_no_personality_routine(machine: &'static Machine) {
    let full = need!(unwind_runtime::full(machine));
    let work = Work::on(machine);
    let source = r#"
#include <cstdio>
#include <cstdlib>
#include <exception>
struct Guard { const char *name; ~Guard() { std::printf("~%s ", name); } };
static volatile bool is_int;
__attribute__((noinline)) static void throws() { if (is_int) throw 7; throw 8L; }
__attribute__((noinline)) static void cleans() { Guard guard{"a"}; throws(); }
__attribute__((noinline)) static void cleans_twice() { Guard one{"b"}; cleans(); Guard two{"c"}; cleans(); }
__attribute__((noinline)) static void passes() { throws(); Guard never{"never"}; throws(); }
__attribute__((noinline)) static void tries() {
    Guard outer{"d"};
    try { Guard inner{"e"}; cleans_twice(); } catch (int x) { std::printf("int %d ", x); passes(); }
}
__attribute__((noinline)) static void again() {
    Guard outer{"f"};
    try { tries(); } catch (...) { Guard inner{"g"}; std::printf("again "); throw; }
}
__attribute__((noinline)) static void must_not() noexcept { Guard guard{"h"}; cleans(); }
int main() {
    std::set_terminate([] { std::puts("terminated"); std::exit(0); });
    for (int round = 0; round < 4; round++) {
        is_int = round % 2 == 0;
        try { again(); } catch (long x) { std::printf("long %ld\n", x); } catch (int x) { std::printf("int %d\n", x); }
    }
    must_not();
}
"#;
    let program = work.cc("program", source, &["-O2", "-fPIE"]);
    let printed = print_the_same(&work, machine, &[&program], &full);
    assert!(
        printed.starts_with("~a ~b ~e int 7 ~d again ~g ~f int 7\n~a ~b ~e ~d again ~g ~f long 8\n"),
        "{printed}"
    );
    assert!(printed.ends_with("terminated\n"), "{printed}");
}

/// Programs may wrap the routine, or define one that comes before the library's. Then it is asked as often
/// as by libgcc.
fn other_personality_routines_are_asked(machine: &'static Machine) {
    let full = need!(unwind_runtime::full(machine));
    let work = Work::on(machine);
    let source = r#"
#include <cstdio>
#include <dlfcn.h>
#include <unwind.h>
extern "C" {
typedef _Unwind_Reason_Code Routine(int, _Unwind_Action, _Unwind_Exception_Class, _Unwind_Exception *, _Unwind_Context *);
Routine REAL, OWN;
}
static int asked;
static Routine *real() { return FIND; }
extern "C" _Unwind_Reason_Code OWN(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                   _Unwind_Exception *exception, _Unwind_Context *context) {
    ++asked;
    return real()(version, actions, kind, exception, context);
}
struct Guard { ~Guard() { asked += 100; } };
struct Thrown { virtual ~Thrown() {} };
__attribute__((noinline)) static void deep(int n) { Guard guard; if (n == 0) throw Thrown(); deep(n - 1); }
int main() {
    for (int round = 0; round < 3; round++) try { deep(5); } catch (Thrown &) { std::printf("%d\n", asked); }
}
"#;
    let flags = [
        "-O2",
        "-fPIE",
        "-DREAL=__real___gxx_personality_v0",
        "-DOWN=__wrap___gxx_personality_v0",
        "-DFIND=REAL",
    ];
    let wraps = work.cc("wraps", source, &flags);
    let printed = print_the_same(&work, machine, &[&wraps, "-Wl,--wrap=__gxx_personality_v0"], &full);
    assert!(!printed.starts_with("600\n"), "{printed}");
    // Where code is not position-independent, the program has a copy of the table of virtual functions that
    // type information needs, and an entry for the routine that code outside of it calls.
    for [code, kind] in [["-fPIE", "-pie"], ["-fno-pie", "-no-pie"]] {
        let find = "-DFIND=(Routine *)dlsym(RTLD_NEXT, \"__gxx_personality_v0\")";
        let flags = ["-O2", code, "-DREAL=none", "-DOWN=__gxx_personality_v0", find];
        let own = work.cc("own", source, &flags);
        for options in [&[][..], &[REPLACE, &full]] {
            work.gxx(&[&["-o", "program", kind, &own][..], options].concat()).quiet();
            assert_eq!(work.run("program"), printed, "{kind} {options:?}");
        }
    }
}

/// Programs without a dynamic linker may have a routine of their own, too, and use the rest of the library.
fn own_personality_routines_of_static_programs_are_asked(machine: &'static Machine) {
    let full = need!(unwind_runtime::full(machine));
    let work = Work::on(machine);
    let source = r#"
#include <cstdio>
#include <unwind.h>
static int asked;
extern "C" _Unwind_Reason_Code __gxx_personality_v0(int, _Unwind_Action, _Unwind_Exception_Class, _Unwind_Exception *,
                                                    _Unwind_Context *) {
    ++asked;
    return _URC_CONTINUE_UNWIND;
}
struct Guard { virtual ~Guard() { asked += 100; } };
static _Unwind_Exception thrown;
__attribute__((noinline)) static void deep(int n) {
    Guard guard;
    if (n == 0) _Unwind_RaiseException(&thrown); else deep(n - 1);
}
int main() {
    try { deep(5); } catch (Guard &) {}
    std::printf("%d\n", asked);
}
"#;
    let program = work.cc("program", source, &["-O2", "-fPIE"]);
    let printed = print_the_same(&work, machine, &[&program], &full);
    assert_eq!(printed, "607\n");
}

/// libgcc shows a frame at address 0 behind the outermost one, and Rust's backtraces print it. In static
/// programs it lacks the FDE of `_start`, so it does not know that this is the outermost one.
fn the_end_of_a_stack_is_shown(machine: &'static Machine) {
    let full = need!(unwind_runtime::full(machine));
    let source = r#"
#include <stdio.h>
#include <unwind.h>
static _Unwind_Reason_Code counts(struct _Unwind_Context *context, void *data) {
    int *seen = data;
    ++seen[0];
    seen[1] = _Unwind_GetIP(context) == 0;
    return _URC_NO_REASON;
}
int main(void) {
    int seen[2] = {0, 0}, reason = _Unwind_Backtrace(counts, seen);
    printf("%d: %d, the last at 0: %d\n", reason, seen[0], seen[1]);
}
"#;
    let work = Work::on(machine);
    let program = work.c("program", source, &["-O2", "-fPIE", "-funwind-tables"]);
    let printed = [&[][..], &[REPLACE, &full]].map(|options| {
        work.gcc(&[&["-o", "program", "-pie", &program][..], options].concat()).quiet();
        work.run("program")
    });
    assert_eq!(printed[0], printed[1]);
}

/// Every callee-saved register has a value of its own while functions throw that use them all, floating point
/// registers among them.
fn registers_come_back_as_they_were(machine: &'static Machine) {
    let full = need!(unwind_runtime::full(machine));
    let work = Work::on(machine);
    let source = r#"
#include <cstdio>
extern "C" void through_c(void (*f)());
static volatile long seed = 3;
__attribute__((noinline)) static void thrower() {
    long a = seed, b = a * 3, c = b ^ 5, d = c * 7, e = d + a, f = e * b, g = f ^ c, h = g * d;
    double p = a, q = p * 1.5, r = q + b, s = r * p, t = s - q, u = t * r, v = u + s, w = v * t;
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h));
    asm volatile("" : : : "memory");
    if (seed) throw a + b + c + d + e + f + g + h + (p + q + r + s + t + u + v + w > 1e300);
}
int main() {
    for (int round = 0; round < 3; round++) {
        long a = seed + round, b = a + 1, c = a + 2, d = a + 3, e = a + 4, f = a + 5, g = a + 6, h = a + 7;
        double p = a * .5, q = p + 1, r = p + 2, s = p + 3, t = p + 4, u = p + 5, v = p + 6, w = p + 7;
        long x = 0;
        try { through_c(thrower); } catch (long thrown) { x = thrown; }
        std::printf("%ld %ld %ld %ld %ld %ld %ld %ld %ld\n", x, a, b, c, d, e, f, g, h);
        std::printf("%g %g %g %g %g %g %g %g\n", p, q, r, s, t, u, v, w);
    }
}
"#;
    let through = work.c("through", THROUGH_C, &["-O2", "-fPIE", "-funwind-tables"]);
    let program = work.cc("program", source, &["-O2", "-fPIE", "-fomit-frame-pointer"]);
    let printed = print_the_same(&work, machine, &[&program, &through], &full);
    assert!(printed.contains(" 3 4 5 6 7 8 9 10\n1.5 2.5 3.5 4.5 5.5 6.5 7.5 8.5\n"), "{printed}");
}

/// A handler throws out of a function that another signal than one of a call stopped: on a stack of its own,
/// and from a leaf whose return address is in a register.
fn interrupted_functions_are_unwound(machine: &'static Machine) {
    let full = need!(unwind_runtime::full(machine));
    let work = Work::on(machine);
    let source = r#"
#include <csignal>
#include <cstdio>
#include <unwind.h>
struct Guard { int *count; ~Guard() { ++*count; } };
static int interrupted;
static _Unwind_Reason_Code looks(_Unwind_Context *context, void *) {
    int before = 0;
    _Unwind_GetIPInfo(context, &before);
    interrupted += before != 0;
    return _URC_NO_REASON;
}
static void handler(int number) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
    _Unwind_Backtrace(looks, nullptr);
    throw number;
}
__attribute__((noinline)) static int leaf(volatile int *p) { return *p; }
__attribute__((noinline)) static int calls(volatile int *p, int *count) { Guard guard{count}; return leaf(p) + 1; }
static char stack[1 << 16];
int main() {
    stack_t other{};
    other.ss_sp = stack;
    other.ss_size = sizeof stack;
    sigaltstack(&other, nullptr);
    int count = 0, caught = 0;
    for (int round = 0; round < 10; round++) {
        struct sigaction action{};
        action.sa_handler = handler;
        action.sa_flags = round % 2 ? SA_ONSTACK : 0;
        sigaction(SIGSEGV, &action, nullptr);
        try { calls(nullptr, &count); } catch (int number) { caught += number == SIGSEGV; }
        // The kernel thinks that the other stack is in use until the stack pointer has left it.
        sigaltstack(&other, nullptr);
    }
    std::printf("%d %d %d\n", count, caught, interrupted);
}
"#;
    let options = ["-O2", "-fPIE", "-fnon-call-exceptions", "-fasynchronous-unwind-tables"];
    let program = work.cc("program", source, &options);
    assert_eq!(print_the_same(&work, machine, &[&program], &full), "10 10 10\n");
}

/// The emulator signs return addresses, and a wrong one would not lead anywhere. A frame between is in the
/// program, which has a table, or in a library, which has FDEs.
#[test]
fn signed_return_addresses_are_authenticated() {
    check(&AARCH64, |machine| {
        let full = need!(unwind_runtime::full(machine));
        let work = Work::on(machine);
        for key in ["-mbranch-protection=pac-ret", "-mbranch-protection=pac-ret+b-key"] {
            let program = work.cc("program", INTERFACE, &["-O2", key]);
            let through = work.c("through", THROUGH_C, &["-O2", "-fPIC", "-funwind-tables", key]);
            work.gxx(&["-shared", "-o", "libthrough.so", &through]).quiet();
            for form in [&["-static", &through][..], &["-pie", "libthrough.so"]] {
                let words = [&["-o", "program", &program], form, &[REPLACE, &full]].concat();
                work.gxx(&words).quiet();
                let printed = work.run("program");
                assert!(printed.ends_with("~forced caught-forced ~outer the end\n"), "{key} {printed}");
            }
        }
    });
}

/// Code with a shadow call stack keeps its pointer in x18, which belongs to the platform.
#[test]
fn the_register_of_the_platform_comes_back() {
    check(&AARCH64, |machine| {
        let full = need!(unwind_runtime::full(machine));
        let source = r#"
#include <cstdio>
register long platform asm("x18");
struct Guard { ~Guard() { asm volatile("" ::: "memory"); } };
__attribute__((noinline)) static void deep(int n) { Guard guard; if (n == 0) throw 7; deep(n - 1); }
int main() {
    long after = 0;
    platform = 0x1234;
    try { deep(3); } catch (int) { after = platform; }
    std::printf("%lx\n", after);
}
"#;
        let work = Work::on(machine);
        let program = work.cc("program", source, &["-O2", "-fPIE", "-ffixed-x18"]);
        assert_eq!(print_the_same(&work, machine, &[&program], &full), "1234\n");
    });
}

/// A damaged table would let the first exception end the program without a word.
#[test]
fn damaged_tables_end_programs_at_their_start() {
    let machine = &crate::support::machine::X86_64;
    let runtimes = need!(unwind_runtime::both(machine));
    let work = Work::new();
    let source = "int main() { try { throw 1; } catch (int) {} }\n";
    let program = work.cc("program", source, &["-O2", "-fPIE"]);
    for runtime in &runtimes {
        work.gxx(&["-o", "program", &program, "-pie", REPLACE, runtime]).quiet();
        let whole = work.read("program");
        let table = work.elf("program").section(".sframe_unwind").offset as usize;
        let number = |at: usize| u32::from_le_bytes(whole[table + at..][..4].try_into().unwrap()) as usize;
        let rules = table + 64 + number(12) * 16;
        // The magic number; the length; the kind of every rule, and the number of a long rule that does not
        // exist.
        let kinds = (0..number(16)).flat_map(|rule| [3, 7].map(|byte| rules + rule * 8 + byte)).collect();
        for places in [vec![table], vec![table + 8], kinds] {
            let mut damaged = whole.clone();
            places.iter().for_each(|&place| damaged[place] = 0x7f);
            work.write_program("damaged", damaged);
            let outcome = work.run_any("damaged");
            assert_eq!(outcome.code, Some(127), "{runtime} {outcome}");
            outcome.says(&["sframe unwind table: the program's table is damaged"]);
        }
    }
}
