//! Features that only AArch64 has: calls out of reach, branch protection, an erratum, rewriting of
//! instruction pairs.

use crate::need;
use crate::support::Work;
use crate::support::machine::{self, AARCH64};

/// Runs a test if there are compilers and an emulator.
fn on_aarch64(test: fn(Work)) {
    machine::check(&AARCH64, |machine| test(Work::on(machine)));
}

/// Three functions at opposite ends of the program that call one another and print.
const FAR: &str = r#"
#include <stdio.h>
#define IN(name) __attribute__((section(name), noipa))
static IN(".far.c") int helper(int x) { return x + 1; }
IN(".far.b") int twice(int x) { puts("far"); return 2 * helper(x); }
IN(".far.a") int main(void) { printf("%d\n", twice(20)); return 0; }
IN(".far.c") int unused(int x) { return twice(helper(x)); }
"#;

/// A function with frames that nothing calls.
const FRAMES: &str = ".globl framed\nframed: .cfi_startproc\nnop\nret\n.cfi_endproc\n.size framed,.-framed\n";

/// A script that puts each of the sections this many bytes after the previous one.
fn far_script(gap: &str) -> String {
    format!(
        "SECTIONS {{ .far : {{ *(.far.a) . = . + {gap}; *(.far.b) . = . + {gap}; *(.far.c) }} }} INSERT AFTER .text;"
    )
}

#[test]
fn far_calls_go_through_thunks_in_one_output_section() {
    on_aarch64(|work| {
        let object = work.c("far", FAR, &["-ffunction-sections"]);
        work.write("script", far_script("0x9000000"));
        for link in ["-pie", "-no-pie", "-static"] {
            work.gcc(&[link, "-o", "far", &object, "script", "-Wl,--build-id=none"]).ok();
            assert_eq!(work.run("far"), "far\n42\n", "{link}");
            let elf = work.elf_unchecked("far");
            assert!(elf.find_symbol("__puts_veneer").is_some(), "{link}");
        }
        work.gcc(&["-o", "again", &object, "script", "-static", "-Wl,--threads=1,--build-id=none"]).ok();
        assert!(work.read("far") == work.read("again"), "threads must not matter");
    });
}

#[test]
fn thunks_are_in_the_sframe_index() {
    on_aarch64(|work| {
        let object = work.c("far", FAR, &["-ffunction-sections"]);
        work.write("script", far_script("0x9000000"));
        let modes = ["--sframe-index", "--sframe=merge", "--sframe-index,--sframe-version=2"];
        for (mode, link) in modes.into_iter().zip(["-static", "-pie", "-no-pie"]) {
            let options = format!("-Wl,{mode},--sframe-from-eh-frame=missing");
            work.gcc(&[link, "-o", "far", &object, "script", &options]).ok();
            assert_eq!(work.run("far"), "far\n42\n", "{mode}");
            let said = work.sframe(&["verify", "far"]).ok().stdout;
            assert!(said.contains(" 0 errors") && said.contains(", 0 wrong"), "{mode}: {said}");
            check_thunks(&work, mode);
            let none = work.gcc(&[link, "-o", "far", &object, "script", &options, "-Wl,--no-sframe-plt"]);
            none.ok();
            let row = work.sframe(&["lookup", "far", "__puts_veneer"]).stdout;
            assert!(!row.contains("row +0: cfa=sp "), "{mode}: {row}");
        }
    });
}

/// Every thunk of [`FAR`] has a row.
fn check_thunks(work: &Work, mode: &str) {
    for name in ["__puts_veneer", "__twice_veneer"] {
        let row = work.sframe(&["lookup", "far", name]).ok().stdout;
        assert!(row.contains("row +0: cfa=sp "), "{mode} {name}: {row}");
    }
}

/// If inputs stay in `.sframe`, a blob beside them has the rows for thunks, even if the link has no PLT and
/// no other rows.
#[test]
fn thunks_are_described_beside_inputs_that_stay() {
    on_aarch64(|work| {
        let assembler = need!(AARCH64.sframe_assembler());
        let far = work.c("far", FAR, &["-ffunction-sections"]);
        work.command(assembler, &["--gsframe", "-o", "frames.o", &work.write("frames.s", FRAMES)]).ok();
        work.write("script", far_script("0x9000000"));
        for mode in ["--sframe-plt", "--sframe-index=overlay", "--sframe-index=overlay,--sframe-plt"] {
            for link in ["-static", "-pie"] {
                let options = format!("-Wl,{mode}");
                for objects in [&[&*far, "frames.o"][..], &[&far]] {
                    if objects.len() == 1 && mode == "--sframe-index=overlay" {
                        continue;
                    }
                    work.gcc(&[objects, &[link, "-o", "far", "script", &options]].concat()).ok();
                    assert_eq!(work.run("far"), "far\n42\n", "{mode}");
                    let said = work.sframe(&["verify", "far"]).ok().stdout;
                    assert!(said.contains(" 0 errors") && said.contains(", 0 wrong"), "{mode}: {said}");
                    check_thunks(&work, mode);
                }
                work.gcc(&[link, "-o", "far", &far, "frames.o", "script", &options, "-Wl,--no-sframe-plt"])
                    .ok();
                let row = work.sframe(&["lookup", "far", "__puts_veneer"]).stdout;
                assert!(!row.contains("row +0: cfa=sp "), "{mode}: {row}");
            }
        }
    });
}

#[test]
fn emitted_relocations_of_the_index_pass_thunks_by() {
    on_aarch64(|work| {
        let object = work.c("far", FAR, &["-ffunction-sections"]);
        work.write("script", far_script("0x9000000"));
        let options = "-Wl,--sframe-index,--sframe-from-eh-frame=missing,--emit-relocs";
        work.gcc(&["-static", "-o", "far", &object, "script", options]).ok();
        let elf = work.elf_unchecked("far");
        let (index, symbols) = (elf.section(".sframe_idx"), elf.symbols());
        let rows = u32::from_le_bytes(index.data[8..12].try_into().unwrap()) as usize;
        let relocations = elf.relocations_for(index.index);
        let count = |is: &dyn Fn(&str) -> bool| symbols.iter().filter(|symbol| is(&symbol.name)).count();
        let thunks = count(&|name| name.ends_with("_veneer"));
        let veneers = count(&|name| name.starts_with("__erratum_veneer"));
        let made = rows - relocations.len();
        // Code that is moved out of code without rows has no rows either.
        assert!(
            thunks > 0 && (thunks..=thunks + veneers).contains(&made),
            "{made} of {thunks} and {veneers}"
        );
        for relocation in relocations {
            let field = (relocation.offset - index.addr) as usize;
            let stored = i64::from_le_bytes(index.data[field..field + 8].try_into().unwrap());
            let target = symbols[relocation.symbol].value.wrapping_add_signed(relocation.addend);
            assert_eq!(relocation.offset.wrapping_add_signed(stored), target);
        }
    });
}

#[test]
fn far_calls_go_through_thunks_between_output_sections_in_any_order() {
    on_aarch64(|work| {
        let object = work.c("far", FAR, &["-ffunction-sections"]);
        for (a, b, c) in
            [("0x20000000", "0x40000000", "0x60000000"), ("0x60000000", "0x20000000", "0x40000000")]
        {
            let starts = [format!(".far.a={a}"), format!(".far.b={b}"), format!(".far.c={c}")]
                .map(|s| format!("-Wl,--section-start={s}"));
            work.gcc(&["-no-pie", "-o", "far", &object, &starts[0], &starts[1], &starts[2]]).ok();
            assert_eq!(work.run("far"), "far\n42\n", "{a} {b} {c}");
            let elf = work.elf_unchecked("far");
            assert!(elf.find_symbol("__twice_veneer").is_some());
        }
    });
}

/// A program without a C library; its exit status is `value`.
const BARE: &str = "
\t.text
\t.globl _start
_start:\tbti c
\tbl far
\tmov x8, #93
\tsvc #0
";

#[test]
fn calls_over_four_gib_compute_the_distance() {
    on_aarch64(|work| {
        let start = work.s("start", BARE);
        let far = work.s("far", "\t.section .far,\"ax\"\n\t.globl far\nfar:\tmov x0, #0\n\tret\n");
        for options in [&["-no-pie"][..], &["-pie", "--no-dynamic-linker"]] {
            let args = ["-o", "a", &start, &far, "--section-start=.far=0x900000000"];
            work.ld(&[&args[..], options].concat()).quiet();
            work.run("a");
            let elf = work.elf_unchecked("a");
            assert_eq!(elf.symbol("__far_veneer").size, 28);
            // Code that nobody can read may hold no data.
            assert!(elf.find_symbol("$d").is_none());
        }
    });
}

#[test]
fn thunks_land_where_branch_protection_allows_it() {
    on_aarch64(|work| {
        let start = work.s("start", BARE);
        let far = "\t.section .far,\"ax\"\n\t.globl far\nfar:\tmov x0, #0\n\tret\n";
        let far = work.s("far", far);
        work.ld(&["-o", "a", &start, &far, "--section-start=.far=0x20000000", "-z", "force-bti"])
            .ok()
            .says(&["missing BTI property"]);
        work.run("a");
        let elf = work.elf_unchecked("a");
        assert!(elf.find_symbol("__far_landing_pad").is_some(), "far has no landing pad of its own");
        let note = &elf.section(".note.gnu.property").data;
        assert_eq!(note[16..28], [0, 0, 0, 0xc0, 4, 0, 0, 0, 1, 0, 0, 0]);
    });
}

#[test]
fn plt_forms_follow_options_and_properties() {
    on_aarch64(|work| {
        let object = work.c(
            "a",
            "int g(void); int f(void) { return g(); }",
            &["-fPIC", "-mbranch-protection=standard"],
        );
        let plain = work.c("b", "int g(void); int f(void) { return g(); }", &["-fPIC"]);
        const BTI: u32 = 0xd503_245f;
        const AUTIA1716: u32 = 0xd503_219f;
        for (object, options, size, tags) in [
            (&plain, &[][..], 32 + 16, [0, 0]),
            (&object, &[], 32 + 24, [1, 0]),
            (&plain, &["-z", "pac-plt"], 32 + 24, [0, 1]),
            (&plain, &["-z", "force-bti", "-z", "pac-plt"], 32 + 24, [1, 1]),
        ] {
            work.ld(&[&["-shared", "-o", "a.so", object][..], options].concat()).ok();
            let elf = work.elf_unchecked("a.so");
            let plt = elf.section(".plt");
            assert_eq!(plt.size, size, "{options:?}");
            let words = plt.words();
            let bti = usize::from(tags[0] == 1);
            assert_eq!((words[0] == BTI, words[8] == BTI), (bti == 1, bti == 1), "{options:?}");
            assert_eq!(words[8..].contains(&AUTIA1716), tags[1] == 1, "{options:?}");
            assert_eq!([0x7000_0001, 0x7000_0003].map(|tag| elf.tags(tag).len()), tags, "{options:?}");
            assert!(elf.symbols().iter().any(|s| s.name == "$x" && s.value == plt.addr));
        }
    });
}

#[test]
fn variant_calls_are_not_bound_lazily() {
    on_aarch64(|work| {
        let object = work.s("a", "\t.variant_pcs g\n\t.globl f\nf:\tb g\n");
        work.ld(&["-shared", "-o", "a.so", &object]).quiet();
        let elf = work.elf_unchecked("a.so");
        assert_eq!(elf.tags(0x7000_0005), [0], "DT_AARCH64_VARIANT_PCS");
        assert_eq!(elf.dynamic("g").other, 0x80);
    });
}

#[test]
fn pairs_are_rewritten_by_distance() {
    on_aarch64(|work| {
        let source = "
\t.text
\t.globl _start
_start:\tadrp x1, near
\tadd x1, x1, :lo12:near
\tadrp x2, :got:near
\tldr x2, [x2, :got_lo12:near]
\tadrp x3, :got:far
\tldr x3, [x3, :got_lo12:far]
\tsub x0, x1, x2
\tldr x3, [x3]
\tcmp x3, #42
\tcset x4, ne
\torr x0, x0, x4
\tmov x8, #93
\tsvc #0
\t.globl near
near:\tnop
\t.section .far,\"aw\"
\t.globl far
far:\t.quad 42
";
        let object = work.s("a", source);
        work.ld(&["-o", "a", &object, "--section-start=.far=0x20000000"]).quiet();
        work.run("a");
        let elf = work.elf("a");
        let words = elf.section(".text").words();
        assert_eq!(words[0], 0xd503_201f, "nop; adr");
        assert_eq!([words[1] & 0x9f00_001f, words[3] & 0x9f00_001f], [0x1000_0001, 0x1000_0002]);
        assert_eq!([words[4] & 0x9f00_001f, words[5] & 0xffc0_03ff], [0x9000_0003, 0x9100_0063], "adrp; add");
        assert!(elf.find(".got").is_none(), "no slot is needed");
        work.ld(&["-o", "b", &object, "--section-start=.far=0x20000000", "--no-relax"]).quiet();
        work.run("b");
        let elf = work.elf("b");
        assert_eq!(elf.section(".text").words()[3] & 0xffc0_0000, 0xf940_0000, "ldr");
        assert_eq!(elf.section(".got").size, 24, "two slots behind the reserved one");
    });
}

#[test]
fn cortex_a53_gets_no_access_that_it_does_wrong() {
    on_aarch64(|work| {
        let source = "
\t.text
\t.globl _start
\t.balign 4096
\t.space 0xff8
_start:\tadrp x1, value
\tstr x2, [sp, #-16]
\tldr x3, [x1, :lo12:value]
\tcmp x3, #42
\tcset x0, ne
\tb two
\t.balign 4096
\t.space 0xffc
two:\tadrp x4, value
\tldr x2, [sp, #-16]
\tadd x5, x5, #1
\tldr x3, [x4, :lo12:value]
\tcmp x3, #42
\tcset x1, ne
\torr x0, x0, x1
\tmov x8, #93
\tsvc #0
\t.balign 4096
\t.space 0xff8
\t.word 0x90000001, 0xf81f03e2, 0xf9400023
\t.data
\t.balign 8
value:\t.quad 42
";
        let object = work.s("a", source);
        work.ld(&["-o", "plain", &object]).quiet();
        work.run("plain");
        work.ld(&["-o", "fixed", &object, "--fix-cortex-a53-843419"]).quiet();
        work.run("fixed");
        let (plain, fixed) = (work.elf("plain"), work.elf("fixed"));
        let veneers = fixed.symbols().iter().filter(|s| s.name.starts_with("__erratum_veneer")).count();
        assert_eq!(veneers, 2, "data that looks alike is left alone");
        let (before, after) = (plain.section(".text").words(), fixed.section(".text").words());
        for at in [0x1000, 0x3008] {
            assert_eq!((before[at / 4] >> 22, after[at / 4] >> 26), (0x3e5, 5), "ldr becomes b at {at:#x}");
        }
        assert_eq!(before[before.len() - 3..], after[before.len() - 3..][..3]);
    });
}

#[test]
fn moved_instructions_have_the_rows_of_their_places() {
    on_aarch64(|work| {
        let assembler = need!(AARCH64.sframe_assembler());
        let source = "
\t.cfi_sections .sframe, .eh_frame
\t.text
\t.balign 4096
\t.space 0xff0
\t.globl _start
_start:\t.cfi_startproc
\tstp x29, x30, [sp, #-32]!
\t.cfi_def_cfa_offset 32
\t.cfi_offset 29, -32
\t.cfi_offset 30, -24
\tnop
\tadrp x1, value
\tstr x2, [sp, #16]
\tldr x3, [x1, :lo12:value]
\tldp x29, x30, [sp], #32
\t.cfi_def_cfa_offset 0
\t.cfi_restore 29
\t.cfi_restore 30
\tsub x0, x3, #42
\tmov x8, #93
\tsvc #0
\t.cfi_endproc
\t.data
\t.balign 8
value:\t.quad 42
";
        let file = work.write("a.s", source);
        work.command(assembler, &["-o", "a.o", &file]).ok();
        for mode in [
            "--sframe-index",
            "--sframe=merge",
            "--sframe-index --sframe-from-eh-frame=all",
            "--sframe-index=compact",
            "--sframe-index=overlay",
            "--sframe-plt",
            "--sframe-plt --sframe-split",
            "--sframe-plt --sframe-from-eh-frame=all",
            "--sframe-plt --sframe-from-eh-frame=missing",
        ] {
            let mut args = vec!["-o", "a", "a.o", "--fix-cortex-a53-843419", "--stats"];
            args.extend(mode.split(' '));
            let report = work.ld(&args).ok().stdout;
            assert!(report.contains("(1 erratum veneer among them)"), "{mode}: {report}");
            work.run("a");
            let row = |symbol: &str| {
                let said = work.sframe(&["lookup", "a", symbol]).ok().stdout;
                let line = said.lines().find_map(|line| line.split_once("row +"));
                line.map(|(_, row)| row.split_once(' ').unwrap().1.to_owned())
            };
            let elf = work.elf_unchecked("a");
            let (start, veneer) = (elf.symbol("_start").value, elf.symbol("__erratum_veneer_0").value);
            let moved = row(&format!("{veneer:#x}"));
            assert_eq!(moved, row(&format!("{:#x}", start + 16)), "{mode}");
            assert!(moved.is_some_and(|row| row.contains("cfa=sp+32")), "{mode}");
            // The load after it restores the registers, so it has another row in its own place.
            assert_ne!(row(&format!("{:#x}", veneer + 4)), row(&format!("{:#x}", start + 24)), "{mode}");
            let said = work.sframe(&["verify", "a"]).ok().stdout;
            assert!(said.contains(" 0 errors") && said.contains("0 wrong"), "{mode}: {said}");
            let report = work.ld(&[&args[..], &["--no-sframe-plt"]].concat()).ok().stdout;
            assert!(!report.contains("veneer among"), "{mode}: {report}");
        }
    });
}
