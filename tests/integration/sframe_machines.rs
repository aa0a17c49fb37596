//! SFrame of real compilers' objects, for every machine: what the linker makes of it describes the
//! program as `.eh_frame` does.

use crate::on_every_machine;
use crate::support::machine::Machine;
use crate::support::{Work, tools};
use std::os::unix::fs::PermissionsExt;

const PROGRAM: &str = r#"
#include <cstdio>
#include <stdexcept>
#include <vector>
template <int N> __attribute__((noinline)) int deep(std::vector<int> &v) {
    v.push_back(N);
    if (v.size() > 20) throw std::runtime_error("deep");
    int here[N + 1] = {};
    here[N] = deep<(N + 1) % 7>(v);
    return here[N] + 1;
}
int main() {
    std::vector<int> v;
    try { return deep<0>(v); } catch (const std::exception &e) { std::printf("%s %zu\n", e.what(), v.size()); }
    return 0;
}
"#;

fn frames_of_compiled_code_are_kept_or_dropped_whole(machine: &'static Machine) {
    let assembler = match machine.sframe_assembler() {
        Ok(assembler) => assembler,
        Err(reason) => {
            return tools::skip(
                "sframe_machines::frames_of_compiled_code_are_kept_or_dropped_whole",
                &reason,
            );
        }
    };
    let work = Work::on(machine);
    work.write("as/as", format!("#!/bin/sh\nexec '{}' --gsframe \"$@\"\n", assembler.display()));
    std::fs::set_permissions(work.path("as/as"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let object = work.cc("program", PROGRAM, &["-Bas", "-ffunction-sections", "-fno-omit-frame-pointer"]);
    for form in ["-pie", "-static"] {
        for options in ["-Wl,--sframe=concat", "-Wl,--gc-sections", "-Wl,--discard-sframe"] {
            work.gxx(&[form, "-o", "program", &object, options]).quiet();
            assert_eq!(work.run("program"), "deep 21\n", "{form} {options}");
            let elf = work.elf_unchecked("program");
            let kept = elf.find(".sframe").is_some();
            assert_eq!(kept, !options.contains("discard"), "{form} {options}");
            if kept {
                let verified = work.sframe(&["verify", "program"]).ok();
                assert!(
                    verified.stdout.contains(" 0 errors") && verified.stdout.contains(" 0 wrong"),
                    "{verified}"
                );
            }
        }
    }
}

on_every_machine!(frames_of_compiled_code_are_kept_or_dropped_whole);
