//! `--sframe-index=overlay`: a sorted index before blobs that stay as they are.

use crate::need;
use crate::on_every_machine;
use crate::support::elf::*;
use crate::support::machine::{Machine, X86_64};
use crate::support::{Work, tools};

const PROGRAM: &str = r#"
#include <cstdio>
#include <stdexcept>
template <int N> __attribute__((noinline)) int deep(int x) {
    volatile int here[N + 2] = {};
    here[N] = x ? deep<(N + 1) % 5>(x - 1) : throw std::runtime_error("deep");
    return here[N] + 1;
}
int main() {
    try { return deep<0>(20); } catch (const std::exception &e) { std::puts(e.what()); }
    return 0;
}
"#;

/// An object with a `.sframe` of V3.
fn object(work: &Work, machine: &Machine, test: &str) -> Option<String> {
    match machine.sframe_assembler() {
        Ok(assembler) => {
            work.write_program(
                "as/as",
                format!("#!/bin/sh\nexec '{}' --gsframe \"$@\"\n", assembler.display()),
            );
            Some(work.cc("program", PROGRAM, &["-Bas", "-ffunction-sections"]))
        }
        Err(reason) => {
            tools::skip(test, &reason);
            None
        }
    }
}

fn one_sorted_table_covers_untouched_blobs(machine: &'static Machine) {
    let work = Work::on(machine);
    let test = "sframe_overlay::one_sorted_table_covers_untouched_blobs";
    let Some(object) = object(&work, machine, test) else { return };
    for form in ["-pie", "-static", "-no-pie"] {
        let link = |options: &str, out: &str| {
            let options = format!("-Wl,--no-sframe-plt,{options}");
            work.gxx(&[form, "-o", out, &object, &options]).quiet();
        };
        link("--sframe-split", "concat");
        link("--sframe-split,--sframe-index=overlay", "program");
        assert_eq!(work.run("program"), "deep\n", "{form}");
        let elf = work.elf_unchecked("program");
        let section = elf.section(".sframe");
        let segment = elf.segment(PT_GNU_SFRAME);
        assert_eq!((segment.addr, segment.file_size), (section.addr, section.size), "{form}");
        let dump = work.sframe(&["dump", "--headers", "program"]).ok();
        assert!(dump.stdout.contains("flags: sorted, field-relative"), "{dump}");
        assert_eq!(dump.stdout.matches("blob at").count(), 1, "one table for readers of one: {dump}");
        // The blobs must be those of the link without an index, except for the starts of functions.
        let concat = work.elf_unchecked("concat").section(".sframe").data.clone();
        let room = section.data.len() - concat.len();
        let differing = concat.iter().zip(&section.data[room..]).filter(|(one, other)| one != other).count();
        assert!(differing <= 8 * work.functions("program").len(), "{form}: {differing} bytes differ");
        assert_eq!(work.functions("program").len(), work.functions("concat").len(), "{form}");
        let verified = work.sframe(&["verify", "program"]).ok();
        assert!(verified.stdout.contains(" 0 errors") && verified.stdout.contains(" 0 wrong"), "{verified}");
    }
}

on_every_machine![one_sorted_table_covers_untouched_blobs];

#[test]
fn readelf_and_objdump_read_all_functions() {
    let work = Work::new();
    let Some(object) = object(&work, &X86_64, "sframe_overlay::readelf_and_objdump_read_all_functions")
    else {
        return;
    };
    work.gxx(&["-o", "program", &object, "-Wl,--sframe-index=overlay"]).quiet();
    let functions = work.functions("program").len();
    let (readelf, objdump) = (need!(tools::sframe_readelf()), need!(tools::sframe_objdump()));
    let said = work.command(readelf, &["--sframe", "program"]).ok();
    assert_eq!(said.stdout.matches("func idx").count(), functions, "{said}");
    let second = work.command(objdump, &["--sframe", "program"]).ok();
    let own = work.sframe(&["dump", "--readelf", "program"]).ok();
    let rows = |text: &str| {
        let lines =
            text.lines().filter(|line| line.trim_start().starts_with("func idx") || line.contains("c-8"));
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(rows(&own.stdout), rows(&said.stdout), "readelf");
    assert_eq!(rows(&own.stdout), rows(&second.stdout), "objdump");
}

#[test]
fn other_versions_are_named_and_stand_behind() {
    let work = Work::new();
    let source = "int use_a(int); int main() { return use_a(0) ? 0 : 0; }\nint ext(int x) { return x; }\n\
                  extern \"C\" void sink(void *) {}\nint from_c(int x) asm(\"ext\");\nint from_c(int x) { return x; }\n\
                  int use_b(int);";
    let main = work.cc("main", source, &[]);
    let (old, new) = (work.fixture("v2-gas2.44/demo.x86_64.o"), work.fixture("v3-gas2.47/inl2.x86_64.o"));
    let first = work.fixture("v1-gas2.40/inl.x86_64.o");
    let linked = work
        .gxx(&["-o", "program", "-Wl,--sframe-index=overlay,--sframe-split", &main, &old, &first, &new])
        .ok();
    let said = linked.to_string();
    assert!(said.contains("an overlay does not index SFrame V2"), "{said}");
    assert!(said.contains("demo.x86_64.o"), "{said}");
    let dump = work.sframe(&["dump", "--headers", "program"]).ok();
    let versions: Vec<&str> =
        dump.stdout.lines().filter(|line| line.contains("blob at")).map(str::trim).collect();
    assert!(versions[0].contains("blob at 0x0: SFrame V3") && versions[0].contains("sorted"), "{dump}");
    assert!(versions.iter().any(|line| line.contains("SFrame V2")), "{dump}");
    let verified = work.sframe(&["verify", "program"]).ok();
    assert!(verified.stdout.contains(" 0 wrong"), "{verified}");
}

/// Without a PLT, the linker has no blob of its own to add.
#[test]
fn objects_alone_have_an_overlay() {
    let work = Work::new();
    let source = " .globl _start\n_start: .cfi_startproc\n nop\n .cfi_endproc\n .section .text.f,\"ax\"\n\
                  .globl f\nf: .cfi_startproc\n nop\n .cfi_endproc\n";
    work.write("a.s", source);
    work.command(need!(tools::assembler(3)), &["--gsframe", "-o", "a.o", "a.s"]).quiet();
    work.ld(&["--sframe-index=overlay", "-o", "program", "a.o"]).quiet();
    let found = work.sframe(&["lookup", "program", "_start", "f"]).ok();
    assert_eq!(found.stdout.matches("row +0: cfa=rsp+8").count(), 2, "{found}");
}

#[test]
fn links_without_addresses_or_frames_are_refused() {
    let work = Work::new();
    let object = work.cc("main", "int main() {}", &[]);
    for (option, word) in [("-r", "-r"), ("--sframe=discard", "--sframe=discard")] {
        let outcome = work.ld(&[option, "--sframe-index=overlay", &object, "-o", "out"]);
        let said = outcome.to_string();
        assert!(
            said.contains(&format!("--sframe-index=overlay and {word} may not be used together")),
            "{said}"
        );
    }
}
