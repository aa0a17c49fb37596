//! SFrame from real compilers' objects, for every machine: the linker's output must describe the program in
//! the same way as `.eh_frame`.

use crate::on_every_machine;
use crate::support::machine::Machine;
use crate::support::{Work, tools};

/// Recursion through templates in section groups, and an exception that passes through all of it.
pub const PROGRAM: &str = r#"
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
    work.write_program("as/as", format!("#!/bin/sh\nexec '{}' --gsframe \"$@\"\n", assembler.display()));
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

/// For a machine: options for the link, and the answers of `sframe lookup` for offsets in its `.plt`.
fn plt_rows(machine: &Machine) -> &'static [(&'static str, &'static [(u64, &'static str)])] {
    const AARCH64: &[(u64, &str)] = &[
        (0, "cfa=sp fp=u ra=u"),
        (3, "cfa=sp fp=u ra=u"),
        (4, "cfa=sp+16 fp=u ra=*(cfa-8)"),
        (31, "cfa=sp+16 fp=u ra=*(cfa-8)"),
        (32, "cfa=sp fp=u ra=u"),
    ];
    const AARCH64_PAD: &[(u64, &str)] = &[
        (4, "cfa=sp fp=u ra=u"),
        (8, "cfa=sp+16 fp=u ra=*(cfa-8)"),
        (31, "cfa=sp+16 fp=u ra=*(cfa-8)"),
        (32, "cfa=sp fp=u ra=u"),
        (32 + 20, "cfa=sp fp=u ra=u"),
    ];
    match machine.name {
        "x86_64" => &[
            ("-z,lazy", &[(0, "cfa=rsp+16 "), (6, "cfa=rsp+24 "), (16, "cfa=rsp+8 "), (27, "cfa=rsp+16 ")]),
            ("-z,ibtplt", &[(0, "cfa=rsp+16 "), (6, "cfa=rsp+24 "), (16, "cfa=rsp+8 "), (25, "cfa=rsp+16 ")]),
        ],
        "aarch64" => &[
            ("-z,lazy", AARCH64),
            ("-z,force-bti", AARCH64_PAD),
            ("-z,pac-plt", AARCH64),
            ("-z,force-bti,-z,pac-plt", AARCH64_PAD),
        ],
        _ => &[("-z,lazy", &[(0, "cfa=r15+160 "), (6, "cfa=r15+160 "), (32, "ra=u"), (46, "cfa=r15+160 ")])],
    }
}

fn rows_of_the_plt_are_right_in_every_mode(machine: &'static Machine) {
    let work = Work::on(machine);
    let library = work.shared("lib", "int a(void) { return 1; } int b(void) { return 2; }", &["-fPIC"]);
    let source = "int a(void), b(void); int ext(int x) { return x; } void sink(void *p) {}
int main(void) { return a() + b() - 3; }";
    // A table is only made if some input has rows.
    let frames = work.fixture(&format!("v3-gas2.47/demo.{}.o", machine.name));
    let main = work.c("main", source, &["-fPIE", "-fplt"]);
    for mode in ["--sframe-index", "--sframe=merge", "--sframe=concat,--sframe-plt"] {
        for version in ["2", "3"] {
            for (options, rows) in plt_rows(machine) {
                let passed = format!("-Wl,{mode},--sframe-version={version},{options}");
                work.gcc(&["-pie", "-o", "program", &main, &frames, &library, &passed]).ok();
                // The start-up code has no landing pads here, and glibc's dynamic linker signs no slots. A
                // program that claims either does not run, whichever linker made it.
                if !options.contains("force-bti") && !options.contains("pac-plt") {
                    work.run("program");
                }
                let plt = work.elf_unchecked("program").section(".plt").addr;
                for (offset, rules) in *rows {
                    let found = work.sframe(&["lookup", "program", &format!("{:#x}", plt + offset)]).ok();
                    let at = format!("{passed} .plt+{offset}");
                    assert!(found.stdout.contains(rules), "{at}: {rules} in {found}");
                }
            }
        }
    }
}

on_every_machine!(frames_of_compiled_code_are_kept_or_dropped_whole, rows_of_the_plt_are_right_in_every_mode);
