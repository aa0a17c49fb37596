//! SFrame rows of functions that are not in the output: such functions get size 0 and no rows, in every
//! version and every kind of link. If a row starts after the end of its function, GNU's readers end with a
//! failed assertion.

use crate::on_every_machine;
use crate::support::machine::Machine;
use crate::support::sframe::blobs;
use crate::support::{Work, tools};
use std::path::PathBuf;

on_every_machine! {
    dead_functions_have_no_rows,
    other_linkers_take_what_r_made,
}

/// A function with a row at its start and a row after its start.
fn function(section: &str, name: &str) -> String {
    format!(
        ".section {section}\n.weak {name}\n.type {name}, %function\n{name}:\n.cfi_startproc\nnop\n\
         .cfi_def_cfa_offset 176\nnop\n.cfi_def_cfa_offset 192\nnop\n.cfi_endproc\n.size {name}, . - {name}\n"
    )
}

/// Assemblers for a machine, each with another version of SFrame.
fn assemblers(machine: &Machine) -> Vec<PathBuf> {
    if machine.native {
        [1, 2, 3].into_iter().filter_map(|version| tools::assembler(version).ok()).collect()
    } else {
        machine.sframe_assembler().into_iter().collect()
    }
}

/// Makes `a.o` and `b.o` with one `.sframe` each. Both define `shared`, nothing needs `dead`, and each file
/// has one more function.
fn assemble(work: &Work, assembler: &PathBuf) {
    let shared = function(".text.shared,\"axG\",%progbits,shared,comdat", "shared");
    let stack = ".section .note.GNU-stack,\"\",%progbits\n";
    let plain = |name: &str| function(&format!(".text.{name},\"ax\""), name);
    let first = [&plain("live"), &plain("dead"), &shared, stack].map(String::from).concat();
    let second = [&shared, &plain("other"), stack].map(String::from).concat();
    for (name, source) in [("a", first), ("b", second)] {
        let file = work.write(&format!("{name}.s"), source);
        work.command(assembler, &["--gsframe", "-o", &format!("{name}.o"), &file]).ok();
    }
    work.write(
        "discard.ld",
        "SECTIONS { .text : { *(.text.live .text.other .text.shared) } /DISCARD/ : { *(.text.dead) } }",
    );
}

fn dead_functions_have_no_rows(machine: &'static Machine) {
    let work = Work::on(machine);
    let assemblers = assemblers(machine);
    if assemblers.is_empty() {
        return tools::skip("sframe_dead::dead_functions_have_no_rows", "no assembler that emits SFrame");
    }
    let lenient = ["-e", "live", "-z", "sframe-violation=warning"];
    let links: [&[&str]; 10] = [
        &[],
        &["--gc-sections"],
        &["-T", "discard.ld"],
        &["--icf=all"],
        &["--emit-relocs", "--gc-sections"],
        &["--gc-sections", "-z", "nosframe-alloc"],
        &["-shared"],
        &["-r"],
        &["-r", "--gc-sections"],
        &["-r", "-T", "discard.ld"],
    ];
    for assembler in &assemblers {
        assemble(&work, assembler);
        for link in links {
            work.ld(&[link, &lenient, &["-o", "out", "a.o", "b.o"]].concat()).ok();
            let elf = work.elf_unchecked("out");
            let sections = elf.sections_named(".sframe");
            let all: Vec<_> = sections.iter().flat_map(|section| blobs(section)).collect();
            for blob in &all {
                let rows = blob.rows.iter().map(|row| row.frame_rows).sum::<u32>();
                assert_eq!(rows, blob.frame_rows, "{} {link:?}", assembler.display());
                for row in &blob.rows {
                    assert_eq!(
                        row.size == 0,
                        row.frame_rows == 0,
                        "{} {link:?}: {row:?}",
                        assembler.display()
                    );
                }
            }
            assert!(all.iter().flat_map(|blob| &blob.rows).any(|row| row.size == 0), "{link:?}");
            work.read_by_gnu("out");
            let said = work.sframe(&["verify", "out"]).ok().stdout;
            assert!(said.contains(" 0 errors") && !said.contains("warning:"), "{link:?}: {said}");
        }
        for mode in ["--sframe-index", "--sframe-index=overlay", "--sframe=merge", "--sframe-split"] {
            work.ld(&[
                mode,
                "--gc-sections",
                "-e",
                "live",
                "-z",
                "sframe-violation=warning",
                "-o",
                "out",
                "a.o",
                "b.o",
            ])
            .ok();
            work.read_by_gnu("out");
        }
    }
}

/// GNU ld needs one relocation for each function, and does not count an `R_*_NONE` without a symbol.
fn other_linkers_take_what_r_made(machine: &'static Machine) {
    let work = Work::on(machine);
    let mut linkers: Vec<PathBuf> = machine.gnu_lds().into_iter().map(|ld| ld.path).collect();
    if machine.native {
        linkers.extend(["gold", "lld", "mold"].into_iter().filter_map(|name| tools::peer_linker(name).ok()));
    }
    let assemblers = assemblers(machine);
    if linkers.is_empty() || assemblers.is_empty() {
        return tools::skip("sframe_dead::other_linkers_take_what_r_made", "no assembler or no linker");
    }
    let kinds = [&["-e", "live"][..], &["-r"], &["-shared"]];
    let mut linked = 0;
    for assembler in &assemblers {
        assemble(&work, assembler);
        for options in [&["-r"][..], &["-r", "--gc-sections", "-e", "live"], &["-r", "-T", "discard.ld"]] {
            work.ld(&[options, &["-o", "r.o", "a.o", "b.o"]].concat()).ok();
            work.ld(&["-r", "-o", "again.o", "r.o"]).ok();
            assert_eq!(work.functions("r.o"), work.functions("again.o"), "{options:?}");
            for (linker, link) in linkers.iter().flat_map(|linker| kinds.map(|kind| (linker, kind))) {
                // GNU ld refuses versions that it does not know.
                if work.command(linker, &[link, &["-o", "out", "a.o", "b.o"]].concat()).code != Some(0) {
                    continue;
                }
                for object in ["r.o", "again.o"] {
                    let outcome = work.command(linker, &[link, &["-o", "out", object]].concat()).ok();
                    outcome.says_not(&["assertion", "internal error"]);
                    work.read_by_gnu("out");
                }
                linked += 1;
            }
        }
    }
    assert!(linked > 0, "no linker takes the objects themselves");
}
