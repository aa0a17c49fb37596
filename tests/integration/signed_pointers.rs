//! Signed pointers of AArch64 (PAuth ABI Extension to ELF), functions that compute words of data,
//! instructions that a symbol replaces, and words of data that lead to thunks.
//!
//! The assembler of the tests does not know these relocations, so it gets others, whose types are then
//! changed in the object.

use crate::aarch64_relocations::retype;
use crate::support::machine::{self, AARCH64};
use crate::support::{Elf, Work};

/// Runs a test if there are compilers and an emulator.
fn on_aarch64(test: fn(Work)) {
    machine::check(&AARCH64, |machine| test(Work::on(machine)));
}

const AUTH_ABS64: u32 = 0x244;
const AUTH_RELATIVE: u32 = 0x411;
const AUTH_GLOB_DAT: u32 = 0x412;
const AUTH_TLSDESC: u32 = 0x413;
const IRELATIVE: u32 = 1032;

/// The types in the order of [`AUTH`]: `ABS64`, `ADR_GOT_PAGE`, `LD64_GOT_LO12_NC`, `ADD_ABS_LO12_NC`, and
/// the three of a TLS descriptor.
const PLAIN: [u32; 7] = [257, 311, 312, 277, 562, 563, 564];
const AUTH: [u32; 7] = [AUTH_ABS64, 590, 591, 593, 595, 596, 597];

/// The relocations of signed pointers instead of plain ones.
fn signed() -> Vec<(u32, u32)> {
    PLAIN.into_iter().zip(AUTH).collect()
}

/// Assembles to `NAME.o` and changes the types of relocations.
fn assemble(work: &Work, name: &str, source: &str, types: &[(u32, u32)]) -> String {
    let object = work.s(name, &format!(".arch armv8.3-a\n{source}"));
    retype(work, &object, types);
    object
}

/// The dynamic relocations of a type: address, name of the symbol, addend.
fn relocations(elf: &Elf, kind: u32) -> Vec<(u64, String, i64)> {
    elf.dynamic_relocations_of(kind).into_iter().map(|(r, name)| (r.offset, name, r.addend)).collect()
}

/// Key IA and discriminator 42 in the upper half of the place; key DA, address diversity and discriminator 1.
const POINTERS: &str = "
 .globl table, _start
 .hidden h, nothing
 .weak nothing
 .text
 .type _start, %function
_start:
 ret
 .type h, %function
h: ret
 .data
 .p2align 3
table:
 .reloc ., R_AARCH64_ABS64, h
 .word 0, 42
 .reloc ., R_AARCH64_ABS64, h + 4
 .word 0, 0xa0000001
 .reloc ., R_AARCH64_ABS64, elsewhere + 8
 .word 0, 3
 .reloc ., R_AARCH64_ABS64, nothing
 .word 0, 5
 .reloc ., R_AARCH64_ABS64, h + 0x100000000
 .word 0, 6
 .reloc ., R_AARCH64_ABS64, number
 .word 0, 7
 .byte 0
 .reloc ., R_AARCH64_ABS64, h
 .word 0, 8
 .set number, 0x1234
";

#[test]
fn places_keep_how_to_sign_in_their_upper_half() {
    on_aarch64(|work| {
        work.shared("lib", "int elsewhere;", &[]);
        let object = assemble(&work, "a", POINTERS, &signed());
        work.ld(&["-r", &object, "-o", "partial.o"]).quiet();
        for (input, form) in [(&object[..], "-no-pie"), ("partial.o", "-pie"), (&object[..], "-shared")] {
            for packs in [false, true] {
                let option = if packs { "pack-relative-relocs" } else { "nopack-relative-relocs" };
                work.ld(&[form, input, "liblib.so", "-z", option, "-o", "out"]).quiet();
                let elf = work.elf_unchecked("out");
                let (table, h) = (elf.symbol("table").value, elf.symbol("h").value);
                let halves =
                    |n: u64| (elf.quad_at(table + 8 * n) as u32, (elf.quad_at(table + 8 * n) >> 32) as u32);
                let target = |value: u64| if packs { value as u32 } else { 0 };
                assert_eq!(halves(0), (target(h), 42), "{form}");
                assert_eq!(halves(1), (target(h + 4), 0xa000_0001), "{form}");
                assert_eq!(halves(2), (0, 3), "{form}");
                assert_eq!(halves(3), (0, 0), "a null pointer is not signed");
                assert_eq!(halves(4), (0, 6), "the address does not fit");
                assert_eq!(halves(5), (0, 7), "{form}");
                let packed: &[u64] = if packs { &[table, table + 8] } else { &[] };
                assert_eq!(elf.packed_places(".relr.auth.dyn"), packed, "{form}");
                let h = h as i64;
                let mut relative =
                    vec![(table, h), (table + 8, h + 4), (table + 32, h + (1 << 32)), (table + 49, h)];
                relative.retain(|(place, _)| !packed.contains(place));
                let found: Vec<(u64, i64)> = relocations(&elf, AUTH_RELATIVE)
                    .into_iter()
                    .map(|(at, _, addend)| (at, addend))
                    .collect();
                assert_eq!(found, relative, "{form}");
                let mut symbolic = relocations(&elf, AUTH_ABS64);
                symbolic.sort();
                let expected = [(table + 16, "elsewhere".to_owned(), 8), (table + 40, String::new(), 0x1234)];
                assert_eq!(symbolic, expected, "{form}");
                let section = elf.find(".relr.auth.dyn");
                assert_eq!(section.map(|section| section.kind), packs.then_some(0x7000_0004));
                let tags = [0x7000_0012, 0x7000_0011, 0x7000_0013].map(|tag| elf.tags(tag));
                match section {
                    Some(section) => {
                        assert_eq!(tags, [vec![section.addr], vec![section.data.len() as u64], vec![8]]);
                    }
                    None => assert!(tags.iter().all(Vec::is_empty)),
                }
            }
        }
    });
}

/// If the only places do not fit the packed table at the addresses that the layout finds, they go into a
/// table that was not there before.
#[test]
fn far_targets_move_from_the_packed_table() {
    on_aarch64(|work| {
        let source =
            ".globl _start\n_start: ret\n.data\n.p2align 3\n.reloc ., R_AARCH64_ABS64, _start\n.word 0, 9\n";
        let object = assemble(&work, "a", source, &signed());
        work.write("script", "SECTIONS { . = 0x80000000; .data : { *(.data) } .text : { *(.text) } }");
        for (script, far) in [(None, false), (Some("-Tscript"), true)] {
            let mut args = vec!["-pie", &object, "-z", "pack-relative-relocs", "-o", "out"];
            args.extend(script);
            work.ld(&args).ok();
            let elf = work.elf_unchecked("out");
            let start = elf.symbol("_start").value;
            let entries = relocations(&elf, AUTH_RELATIVE);
            assert_eq!(
                entries.iter().map(|entry| entry.2).collect::<Vec<_>>(),
                vec![start as i64; far.into()]
            );
            assert_eq!(elf.packed_places(".relr.auth.dyn").len(), usize::from(!far));
            assert_eq!(elf.tags(7).len(), usize::from(far), "DT_RELA");
            assert_eq!(elf.tags(9).len(), usize::from(far), "DT_RELAENT");
        }
    });
}

#[test]
fn slots_say_how_to_sign_what_they_will_hold() {
    on_aarch64(|work| {
        let library = ".globl f, d, t\n.type f, %function\nf: ret\n.data\n.type d, %object\n.size d, 4\nd: .word 1\n\
            .section .tdata,\"awT\",%progbits\n.type t, %object\nt: .word 1\n";
        let library = work.s("lib", library);
        work.ld(&["-shared", &library, "-o", "lib.so"]).quiet();
        let load = |name: &str| {
            format!(
                " adrp x8, :got:{name}\n add x8, x8, :lo12:{name}\n adrp x8, :got:{name}\n ldr x0, [x8, :got_lo12:{name}]\n"
            )
        };
        let describe = |name: &str| {
            format!(
                " adrp x0, :tlsdesc:{name}\n ldr x16, [x0, :tlsdesc_lo12:{name}]\n add x0, x0, :tlsdesc_lo12:{name}\n"
            )
        };
        let source = format!(
            ".globl _start\n.type _start, %function\n.weak nothing\n.hidden nothing\n_start:\n{}{}{}{}{}{} ret\n\
             .section .tdata,\"awT\",%progbits\n.word 1\nown: .word 2\n",
            load("f"),
            load("d"),
            load("_start"),
            load("nothing"),
            describe("t"),
            describe("own"),
        );
        let object = assemble(&work, "a", &source, &signed());
        // A plain slot is another slot.
        let plain = work.s("plain", ".globl g\ng: adrp x8, :got:f\n ldr x0, [x8, :got_lo12:f]\n");
        work.ld(&["-pie", &object, &plain, "lib.so", "-o", "out"]).quiet();
        let elf = work.elf_unchecked("out");
        let (function, data) = (1u64 << 63, 5u64 << 61);
        let bound = relocations(&elf, AUTH_GLOB_DAT);
        let schemas: Vec<(&str, u64)> =
            bound.iter().map(|(at, name, _)| (&name[..], elf.quad_at(*at))).collect();
        assert!(schemas.len() == 2 && schemas.contains(&("f", function)) && schemas.contains(&("d", data)));
        let own = relocations(&elf, AUTH_RELATIVE);
        assert_eq!(own.len(), 1, "_start, and no null pointer: {own:?}");
        assert_eq!((elf.quad_at(own[0].0), own[0].2), (function, elf.symbol("_start").value as i64));
        let mut descriptors = relocations(&elf, AUTH_TLSDESC);
        descriptors.sort_by_key(|descriptor| descriptor.2);
        let described: Vec<(&str, i64)> = descriptors.iter().map(|(_, name, a)| (&name[..], *a)).collect();
        assert_eq!(described, [("t", 0), ("", 4)]);
        for (at, ..) in &descriptors {
            assert_eq!((elf.quad_at(*at), elf.quad_at(at + 8)), (function, data));
        }
        assert_eq!(elf.dynamic_relocations_of(1025).len(), 1, "R_AARCH64_GLOB_DAT of f");
    });
}

/// Start-up code that signs what the table says, as "Static Linking" of the ABI proposes, and calls
/// resolvers.
const START: &str = "
 .globl _start
_start:
 adrp x19, __rela_iplt_start
 add x19, x19, :lo12:__rela_iplt_start
 adrp x20, __rela_iplt_end
 add x20, x20, :lo12:__rela_iplt_end
next:
 cmp x19, x20
 b.hs use
 ldr x21, [x19], #8
 ldr w1, [x19], #8
 ldr x2, [x19], #8
 cmp w1, #1032
 b.ne sign
 blr x2
 str x0, [x21]
 b next
sign:
 ldr x3, [x21]
 ubfx x4, x3, #32, #16
 tbz x3, #63, plain
 bfi x21, x4, #48, #16
 mov x4, x21
 ubfx x21, x21, #0, #48
plain:
 tbnz x3, #61, data
 pacia x2, x4
 str x2, [x21]
 b next
data:
 pacda x2, x4
 str x2, [x21]
 b next
";

/// Code that authenticates pointers, and would crash with a wrong one: 7 by a pointer, 7 by a slot with the
/// address of a function, 20 by one with the address of data, and what a symbol makes of an instruction.
const USE: &str = "
 .globl use, f
use:
 adr x0, pointer
 ldr x0, [x0]
 mov x1, #42
 autia x0, x1
 blr x0
 mov x22, x0
 adrp x8, :got:f
 add x8, x8, :lo12:f
 ldr x0, [x8]
 autia x0, x8
 blr x0
 add x22, x22, x0
 adrp x8, :got:made
 add x8, x8, :lo12:made
 ldr x1, [x8]
 autda x1, x8
 ldr x0, [x1]
 add x22, x22, x0
 .weak instruction, nothing
 .hidden instruction, nothing
 .reloc ., R_AARCH64_ABS32, instruction
 b f
 .reloc ., R_AARCH64_ABS32, nothing
 add x0, x0, x22
 mov x8, #93
 svc #0
 .type f, %function
f: mov x0, #7
 ret
 .data
 .p2align 3
pointer:
 .reloc ., R_AARCH64_ABS64, f
 .word 0, 42
";

/// The type of relocations by which a symbol replaces an instruction, instead of `R_AARCH64_ABS32`.
const PATCH: (u32, u32) = (258, 316);
/// That of words that a function computes, instead of `R_AARCH64_ABS64`.
const INITIALIZER: (u32, u32) = (257, 317);

#[test]
fn a_static_program_signs_its_pointers_at_start() {
    on_aarch64(|work| {
        let start = work.s("start", &format!(".arch armv8.3-a\n{START}"));
        let types: Vec<(u32, u32)> = signed().into_iter().chain([PATCH]).collect();
        let used = assemble(&work, "use", USE, &types);
        let made = " .globl made\nmake: mov x0, #20\n ret\n .data\n .p2align 3\n .type made, %object\nmade: .xword make\n";
        let made = assemble(&work, "made", made, &[INITIALIZER]);
        // mov x0, #50
        let instruction = work.s("number", " .globl instruction\n .set instruction, 0xd2800640\n");
        work.ld(&["-static", &start, &used, &made, &instruction, "-o", "out"]).quiet();
        let elf = work.elf_unchecked("out");
        assert_eq!(relocations(&elf, AUTH_RELATIVE).len(), 3);
        assert_eq!(relocations(&elf, IRELATIVE).len(), 1);
        assert_eq!(work.run_any("out").code, Some(50 + 7 + 7 + 20));
    });
}

#[test]
fn what_cannot_be_patched_or_computed_is_an_error() {
    on_aarch64(|work| {
        let call =
            " .globl _start, f\n_start: ret\nf: ret\n .type i, %gnu_indirect_function\ni: ret\n .data\n";
        let word = |name: &str| format!("{call} .reloc ., R_AARCH64_ABS64, {name}\n .xword 1\n");
        let own = assemble(&work, "own", &word("f"), &[INITIALIZER]);
        let resolved = assemble(&work, "resolved", &word("i"), &[INITIALIZER]);
        let absent = format!("{} .weak nothing\n .hidden nothing\n", word("nothing"));
        let absent = assemble(&work, "absent", &absent, &[INITIALIZER]);
        work.ld(&["-pie", &own, "-o", "out"]).quiet();
        work.ld(&["-shared", &own, "-o", "out"])
            .fails()
            .says(&["own.o:(.data+0x0)", "cannot be used against f"]);
        work.ld(&["-pie", &resolved, "-o", "out"]).fails().says(&["cannot be used against i"]);
        work.ld(&["-pie", &absent, "-o", "out"]).quiet();
        let elf = work.elf_unchecked("out");
        assert_eq!(elf.section(".data").quads(), [0]);
        assert!(elf.dynamic_relocations().is_empty());
        let patched =
            |name: &str| format!(" .globl _start\n_start: .reloc ., R_AARCH64_ABS32, {name}\n ret\n");
        let code = assemble(&work, "code", &patched("_start"), &[PATCH]);
        work.ld(&[&code, "-o", "out"]).fails().says(&[
            "code.o:(.text+0x0)",
            "R_AARCH64_PATCHINST",
            "no number",
        ]);
        let weak = assemble(&work, "weak", &format!("{} .weak n\n", patched("n")), &[PATCH]);
        work.ld(&["-shared", &weak, "-o", "out"]).fails().says(&["R_AARCH64_PATCHINST"]);
        work.ld(&[&weak, "-o", "out"]).quiet();
        let elf = work.elf_unchecked("out");
        assert_eq!(elf.section(".text").words(), [0xd65f_03c0]);
    });
}

/// The distance to a function beyond 2 GiB is the distance to a thunk that indirect jumps may land on.
#[test]
fn words_of_data_lead_to_thunks() {
    on_aarch64(|work| {
        let source = " .section .low,\"ax\",%progbits\n .globl _start\n_start: ret\n .data\n .globl table\n\
            table: .word far - .\n .word far + 4 - .\n .word near - .\n\
            .section .high,\"ax\",%progbits\n .globl far\nfar: ret\n ret\n .text\n .globl near\nnear: ret\n";
        // R_AARCH64_PREL32 becomes R_AARCH64_PLT32.
        let object = assemble(&work, "a", source, &[(261, 314)]);
        work.write(
            "script",
            "SECTIONS { .low 0x10000 : { *(.low) } .text : { *(.text) } .data 0x20000 : { *(.data) } \
             .high 0x100000000 : { *(.high) } }",
        );
        work.ld(&[&object, "-Tscript", "-o", "out"]).quiet();
        let elf = work.elf_unchecked("out");
        let table = elf.symbol("table").value;
        let words = elf.section(".data").words();
        let target = |n: usize| (table + 4 * n as u64).wrapping_add_signed(i64::from(words[n] as i32));
        assert_eq!(target(2), elf.symbol("near").value);
        let text = elf.section(".text");
        for n in [0, 1] {
            assert!((text.addr..text.end()).contains(&target(n)), "word {n} leads to a thunk");
            assert_eq!(elf.at(target(n), 4), 0xd503_245f_u32.to_le_bytes(), "bti c");
        }
        assert_ne!(target(0), target(1));
        let names: Vec<String> = elf.symbols().into_iter().map(|symbol| symbol.name).collect();
        assert!(names.iter().any(|name| name == "__far_veneer"), "{names:?}");
    });
}
