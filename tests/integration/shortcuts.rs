//! `--branch-to-branch` in programs that run.

use crate::support::Work;

/// Functions that only jump to others, by calls, by pointers, and with an exception on the way.
const WRAPPERS: &str = r#"
#include <cstdio>
#include <stdexcept>
#define APART __attribute__((noipa))
APART int last(int x) { if (x > 5) throw std::runtime_error("too large"); return x + 1; }
APART int second(int x) { return last(x); }
APART int first(int x) { return second(x); }
int (*volatile pointers[])(int) = { first, second, last };
int main() {
    int sum = first(1) + second(2) + last(3);
    for (auto pointer : pointers) sum += pointer(4);
    bool differ = pointers[0] != pointers[1] && pointers[1] != pointers[2];
    try { first(6); } catch (std::runtime_error &error) { std::printf("%d %d %s\n", sum, differ, error.what()); }
    return 0;
}
"#;

#[test]
fn calls_past_wrappers_do_the_same() {
    let work = Work::new();
    work.write("wrappers.cc", WRAPPERS);
    for protection in ["none", "full"] {
        for pie in ["-pie", "-no-pie"] {
            let protection = format!("-fcf-protection={protection}");
            let code = if pie == "-pie" { "-fPIE" } else { "-fno-pie" };
            work.command(
                "g++",
                &["-O2", "-ffunction-sections", &protection, code, "-c", "wrappers.cc", "-o", "wrappers.o"],
            )
            .ok();
            for option in
                ["-Wl,--no-branch-to-branch", "-Wl,--branch-to-branch", "-Wl,--branch-to-branch,--icf=safe"]
            {
                work.gxx(&[pie, "-o", "program", "wrappers.o", option]).ok();
                assert_eq!(work.run("program"), "24 1 too large\n", "{protection} {pie} {option}");
                work.lint("program");
            }
        }
    }
}
