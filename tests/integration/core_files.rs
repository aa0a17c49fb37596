//! `sframe unwind --core` of cores that emulators write of programs for other machines.

use crate::need;
use crate::support::Work;
use crate::support::machine::{S390X, check};

/// A handler of a fault ends the process. With an argument it asks for `siginfo`.
const PROGRAM: &str = r#"
#include <signal.h>
#include <stddef.h>
__attribute__((noinline)) static void faults(volatile int *p) { *p = 1; __asm__ volatile("" : : : "memory"); }
__attribute__((noinline)) static void deep(int n) {
    if (n) deep(n - 1); else faults(NULL);
    __asm__ volatile("" : : : "memory");
}
__attribute__((noinline)) static void ends(void) { raise(SIGABRT); __asm__ volatile("" : : : "memory"); }
static void plain(int number) { ends(); __asm__ volatile("" : : "r"(number) : "memory"); }
static void asks(int number, siginfo_t *info, void *context) {
    ends();
    __asm__ volatile("" : : "r"(number), "r"(info), "r"(context) : "memory");
}
int main(int count, char **words) {
    struct sigaction action = {0};
    if (count > 1) { action.sa_sigaction = asks; action.sa_flags = SA_SIGINFO; } else action.sa_handler = plain;
    sigaction(SIGSEGV, &action, NULL);
    deep(3);
    return words == NULL;
}
"#;

/// s390x has two signal frames. The kernel takes the shorter one for handlers that do not ask for `siginfo`.
#[test]
fn walks_go_on_through_both_signal_frames_of_s390x() {
    check(&S390X, |machine| {
        let emulator = need!(machine.emulator()).expect("programs of s390x need one");
        let work = Work::on(machine);
        let program = work.c("program", PROGRAM, &["-O2", "-fasynchronous-unwind-tables"]);
        work.gcc(&["-static", "-o", "program", &program]).quiet();
        for (argument, handler) in [("", "plain"), ("siginfo", "asks")] {
            // The emulator writes a core of the program, and then ends by the same signal.
            let script = format!(
                "ulimit -c 40000; mkdir core-{handler}; cd core-{handler}; \"$0\" ../program {argument}"
            );
            work.command("sh", &["-c", &script, &emulator.display().to_string()]);
            let folder = std::fs::read_dir(work.path(&format!("core-{handler}"))).expect("a folder");
            let mut files = folder.map(|file| file.expect("a file").path());
            let core = files.find(|file| file.extension().is_some_and(|extension| extension == "core"));
            let core = need!(core.ok_or("the emulator wrote no core".to_owned()));
            let said = work.sframe(&["unwind", "--core", &core.display().to_string(), "program@0"]).output();
            let frames = [handler, "faults", "deep", "deep", "deep", "deep", "main"];
            let mut lines = said.lines();
            for frame in frames {
                let name = format!(" {frame}");
                assert!(lines.any(|line| line.contains(&name)), "{frame} behind {handler}:\n{said}");
            }
        }
    });
}
