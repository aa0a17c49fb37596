//! What only AArch64 has: fields inside instructions, calls that do not reach, branch protection,
//! an erratum, rewritings by pairs.

use crate::need;
use crate::support::Work;
use crate::support::machine::{self, AARCH64};

/// Runs a test if there are compilers and an emulator.
fn on_aarch64(test: fn(Work)) {
    machine::check(&AARCH64, |machine| test(Work::on(machine)));
}

/// What a value is computed from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `S + A`.
    Value,
    /// `S + A - P`.
    Distance,
    /// Pages of the same.
    Pages,
}

/// A relocation type, an instruction for it (`None`: data of so many bytes), the range of values.
struct Case(&'static str, Option<u32>, Kind, i64, i64);

const MOVZ: Option<u32> = Some(0xd280_0001);
const MOVK: Option<u32> = Some(0xf280_0001);
const LDR: Option<u32> = Some(0xf940_0001);
const ADD: Option<u32> = Some(0x9100_0021);
const ANY: (i64, i64) = (i64::MIN, i64::MAX);

/// Types whose field can overflow, and one of each that cannot. GNU ld agrees on all bytes.
const CASES: &[Case] = &[
    Case("R_AARCH64_ABS32", None, Kind::Value, -(1 << 31), (1 << 32) - 1),
    Case("R_AARCH64_ABS16", None, Kind::Value, -(1 << 15), (1 << 16) - 1),
    Case("R_AARCH64_PREL32", None, Kind::Distance, -(1 << 31), (1 << 31) - 1),
    Case("R_AARCH64_PREL16", None, Kind::Distance, -(1 << 15), (1 << 15) - 1),
    Case("R_AARCH64_MOVW_UABS_G0", MOVZ, Kind::Value, 0, (1 << 16) - 1),
    Case("R_AARCH64_MOVW_UABS_G1", MOVZ, Kind::Value, 0, (1 << 32) - 1),
    Case("R_AARCH64_MOVW_UABS_G2", MOVZ, Kind::Value, 0, (1 << 48) - 1),
    Case("R_AARCH64_MOVW_UABS_G0_NC", MOVK, Kind::Value, ANY.0, ANY.1),
    Case("R_AARCH64_MOVW_UABS_G1_NC", MOVK, Kind::Value, ANY.0, ANY.1),
    Case("R_AARCH64_MOVW_UABS_G2_NC", MOVK, Kind::Value, ANY.0, ANY.1),
    Case("R_AARCH64_MOVW_UABS_G3", MOVK, Kind::Value, ANY.0, ANY.1),
    Case("R_AARCH64_MOVW_SABS_G0", MOVZ, Kind::Value, -(1 << 16), (1 << 16) - 1),
    Case("R_AARCH64_MOVW_SABS_G1", MOVZ, Kind::Value, -(1 << 32), (1 << 32) - 1),
    Case("R_AARCH64_MOVW_SABS_G2", MOVZ, Kind::Value, -(1 << 48), (1 << 48) - 1),
    Case("R_AARCH64_MOVW_PREL_G0", MOVZ, Kind::Distance, -(1 << 16), (1 << 16) - 1),
    Case("R_AARCH64_MOVW_PREL_G1", MOVZ, Kind::Distance, -(1 << 32), (1 << 32) - 1),
    Case("R_AARCH64_MOVW_PREL_G2", MOVZ, Kind::Distance, -(1 << 48), (1 << 48) - 1),
    Case("R_AARCH64_LD_PREL_LO19", Some(0x5800_0001), Kind::Distance, -(1 << 20), (1 << 20) - 4),
    Case("R_AARCH64_ADR_PREL_LO21", Some(0x1000_0001), Kind::Distance, -(1 << 20), (1 << 20) - 1),
    Case("R_AARCH64_ADR_PREL_PG_HI21", Some(0x9000_0001), Kind::Pages, -(1 << 32), (1 << 32) - 0x1000),
    Case("R_AARCH64_TSTBR14", Some(0x3600_0001), Kind::Distance, -(1 << 15), (1 << 15) - 4),
    Case("R_AARCH64_CONDBR19", Some(0x5400_0001), Kind::Distance, -(1 << 20), (1 << 20) - 4),
    Case("R_AARCH64_JUMP26", Some(0x1400_0000), Kind::Distance, -(1 << 27), (1 << 27) - 4),
    Case("R_AARCH64_CALL26", Some(0x9400_0000), Kind::Distance, -(1 << 27), (1 << 27) - 4),
    Case("R_AARCH64_ADD_ABS_LO12_NC", ADD, Kind::Value, ANY.0, ANY.1),
    Case("R_AARCH64_LDST8_ABS_LO12_NC", LDR, Kind::Value, ANY.0, ANY.1),
    Case("R_AARCH64_LDST64_ABS_LO12_NC", LDR, Kind::Value, ANY.0, ANY.1 & !15),
    Case("R_AARCH64_LDST128_ABS_LO12_NC", LDR, Kind::Value, ANY.0, ANY.1 & !15),
];

/// Where the code is: far from both ends of the address space.
const TEXT: i64 = 1 << 52;

impl Case {
    /// The object's part at an offset.
    fn source(&self, symbol: &str, offset: usize) -> String {
        let content = self.1.unwrap_or(0);
        format!("\t.reloc {offset}, {}, {symbol}\n\t.inst {content:#x}\n\t.inst 0xd503201f\n", self.0)
    }

    /// The symbol that gives a value at an offset.
    fn symbol(&self, value: i64, offset: usize) -> u64 {
        let base = match self.2 {
            Kind::Value => 0,
            Kind::Distance => TEXT + offset as i64,
            Kind::Pages => (TEXT + offset as i64) & !0xfff,
        };
        base.wrapping_add(value) as u64
    }

    fn overflows(&self) -> bool {
        (self.3, self.4) != ANY && self.4 != ANY.1 & !15
    }

    /// The next value past each end that the field's scale allows.
    fn beyond(&self) -> [i64; 2] {
        let step = match self.0 {
            "R_AARCH64_ADR_PREL_PG_HI21" => 0x1000,
            name if name.contains("BR") || name.contains("LO19") => 4,
            _ => 1,
        };
        [self.3 - step, self.4 + step]
    }
}

#[test]
fn fields_hold_their_ends_as_gnu_ld_writes_them() {
    on_aarch64(|work| {
        let mut source = String::from("\t.globl _start\n_start:\n");
        let mut symbols = Vec::new();
        for (index, (case, value)) in CASES.iter().flat_map(|c| [(c, c.3), (c, c.4)]).enumerate() {
            source += &case.source(&format!("s{index}"), index * 8);
            symbols.push(format!("--defsym=s{index}={:#x}", case.symbol(value, index * 8)));
        }
        let object = work.s("a", &source);
        let text = format!("-Ttext={TEXT:#x}");
        let mut args = vec!["-o", "ours", &object, &text];
        args.extend(symbols.iter().map(String::as_str));
        work.ld(&args).quiet();
        let ours = work.elf_unchecked("ours").section(".text").data.clone();
        let word = |index: usize| u32::from_le_bytes(ours[index * 8..][..4].try_into().unwrap());
        assert_eq!(word(0), 1 << 31, "ABS32 at its lower end");
        let call = CASES.iter().position(|case| case.0 == "R_AARCH64_CALL26").unwrap();
        assert_eq!([word(call * 2), word(call * 2 + 1)], [0x9600_0000, 0x95ff_ffff]);
        let peer = need!(AARCH64.tool("ld.bfd"));
        args[1] = "theirs";
        // It takes ABS32 for unsigned, and complains, but writes what was asked for.
        args.push("--noinhibit-exec");
        work.command(peer, &args);
        let theirs = work.elf_unchecked("theirs").section(".text").data.clone();
        for (index, (case, value)) in CASES.iter().flat_map(|c| [(c, c.3), (c, c.4)]).enumerate() {
            let at = index * 8..index * 8 + 4;
            assert_eq!(ours[at.clone()], theirs[at], "{} with {value:#x}", case.0);
        }
    });
}

#[test]
fn one_past_the_end_is_an_error_with_place_and_value() {
    on_aarch64(|work| {
        let mut source = String::from("\t.globl _start\n_start: ret\n");
        let mut symbols = Vec::new();
        let mut expected = Vec::new();
        // Farther calls get thunks.
        let cases =
            CASES.iter().filter(|c| c.overflows() && !matches!(c.0, "R_AARCH64_JUMP26" | "R_AARCH64_CALL26"));
        for (index, (case, value)) in cases.flat_map(|c| c.beyond().map(|value| (c, value))).enumerate() {
            source += &format!(
                "\t.section .text.t{index},\"ax\"\n\t.balign 4096\n{}",
                case.source(&format!("s{index}"), 0)
            );
            let place = (index + 1) * 0x1000;
            symbols.push(format!("--defsym=s{index}={:#x}", case.symbol(value, place)));
            expected.push(format!(
                "a.o:(.text.t{index}+0x0): relocation {} out of range: {value} is not in",
                case.0
            ));
            expected.push(format!("references s{index}\n"));
        }
        let object = work.s("a", &source);
        work.write(
            "script",
            format!("SECTIONS {{ .text {TEXT:#x} : {{ *(.text) *(SORT_NONE(.text.*)) }} }}"),
        );
        let mut args = vec!["-o", "ours", &object, "-T", "script", "--error-limit=0"];
        args.extend(symbols.iter().map(String::as_str));
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        work.ld(&args).fails().says(&expected);
    });
}

#[test]
fn accesses_must_be_aligned_to_their_size() {
    on_aarch64(|work| {
        let object = work.s("a", "\t.globl _start\n_start: ldr x0, [x0, :lo12:value]\n");
        work.ld(&["-o", "a", &object, "--defsym=value=0x500004"]).fails().says(&[
            "a.o:(.text+0x0)",
            "R_AARCH64_LDST64_ABS_LO12_NC",
            "multiple of 8",
            "value",
        ]);
    });
}

/// Three functions that call one another from ends of the program, and print.
const FAR: &str = r#"
#include <stdio.h>
#define IN(name) __attribute__((section(name), noipa))
static IN(".far.c") int helper(int x) { return x + 1; }
IN(".far.b") int twice(int x) { puts("far"); return 2 * helper(x); }
IN(".far.a") int main(void) { printf("%d\n", twice(20)); return 0; }
IN(".far.c") int unused(int x) { return twice(helper(x)); }
"#;

/// Puts each of the sections so many bytes behind the one before.
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
            for name in ["__puts_veneer", "__twice_veneer"] {
                let row = work.sframe(&["lookup", "far", name]).ok().stdout;
                assert!(row.contains("row +0: cfa=sp "), "{mode} {name}: {row}");
            }
            let none = work.gcc(&[link, "-o", "far", &object, "script", &options, "-Wl,--no-sframe-plt"]);
            none.ok();
            let row = work.sframe(&["lookup", "far", "__puts_veneer"]).stdout;
            assert!(!row.contains("row +0: cfa=sp "), "{mode}: {row}");
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
        let is_thunk = |name: &str| name.ends_with("_veneer") && !name.starts_with("__erratum");
        let thunks = symbols.iter().filter(|symbol| is_thunk(&symbol.name)).count();
        assert!(thunks > 0 && relocations.len() + thunks == rows, "{rows} rows, {thunks} thunks");
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

/// A program without a C library: exit status is what `value` says.
const BARE: &str = "
\t.text
\t.globl _start
_start:\tbti c
\tbl far
\tmov x8, #93
\tsvc #0
";

#[test]
fn calls_over_four_gib_load_the_distance() {
    on_aarch64(|work| {
        let start = work.s("start", BARE);
        let far = work.s("far", "\t.section .far,\"ax\"\n\t.globl far\nfar:\tmov x0, #0\n\tret\n");
        for options in [&["-no-pie"][..], &["-pie", "--no-dynamic-linker"]] {
            let args = ["-o", "a", &start, &far, "--section-start=.far=0x900000000"];
            work.ld(&[&args[..], options].concat()).quiet();
            work.run("a");
            let elf = work.elf_unchecked("a");
            assert_eq!(elf.symbol("__far_veneer").size, 24);
            let data = elf.symbols().into_iter().find(|s| s.name == "$d").expect("the distance is marked");
            assert_eq!(data.value, elf.symbol("__far_veneer").value + 16);
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
fn libraries_of_another_machine_are_passed_over_and_objects_refused() {
    on_aarch64(|work| {
        let native = Work::new();
        native.c("f", "int f(void) { return 1; }", &[]);
        native.ar("libf.a", "", &["f.o"]);
        work.write("wrong/libf.a", native.read("libf.a"));
        work.write("wrong.o", native.read("f.o"));
        work.c("f", "int f(void) { return 0; }", &[]);
        work.ar("libf.a", "", &["f.o"]);
        let main = work.c("main", "int f(void); int main(void) { return f(); }", &[]);
        work.gcc(&["-o", "program", &main, "-Lwrong", "-L.", "-lf"])
            .ok()
            .says(&["skipping incompatible wrong/libf.a when searching for -lf"]);
        work.run("program");
        work.gcc(&["-o", "program", &main, "wrong.o"]).fails().says(&[
            "wrong.o",
            "incompatible",
            "aarch64linux",
        ]);
    });
}
