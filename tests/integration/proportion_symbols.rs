//! Symbols, members and records that a slow linker would search for among all others. Such a search would
//! exceed the limits of `proportion`.

use crate::proportion::{lines, named, within};
use crate::support::elf_write::{RawSection, RawSymbol, object};
use crate::support::{Work, machine};

/// Each member needs the one before it, so each pass over the archive takes one more.
#[test]
fn archives_in_the_worst_order() {
    let work = Work::new();
    let count = 30_000;
    let start = work.s("start", &format!(".globl _start\n_start: call s{}\n", count - 1));
    let names: Vec<&'static str> =
        (0..count).map(|n| &*Box::leak(format!("s{n}").into_boxed_str())).collect();
    let text = RawSection { name: ".text", kind: 1, flags: 6, data: vec![0xc3; 4], ..RawSection::default() };
    let member = |n: usize| {
        let symbol = |name, section| RawSymbol { name, info: 0x12, section, value: 0 };
        let before = (n > 0).then(|| RawSymbol { info: 0x10, ..symbol(names[n - 1], 0) });
        let symbols: Vec<RawSymbol> = [symbol(names[n], 1)].into_iter().chain(before).collect();
        let bytes = object(std::slice::from_ref(&text), &symbols);
        let header = format!("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", "m.o/", 0, 0, 0, 644, bytes.len());
        [header.into_bytes(), bytes].concat()
    };
    let members = |range: std::ops::Range<usize>| range.flat_map(member).collect::<Vec<u8>>();
    work.write("all.a", [&b"!<arch>\n"[..], &members(0..count)].concat());
    within(&work, &[&start, "all.a"]).ok();
    assert!(work.elf_unchecked("out").find_symbol("s0").is_some());
    // The same, alternating between the archives of a group.
    let (mut even, mut odd) = (b"!<arch>\n".to_vec(), b"!<arch>\n".to_vec());
    (0..count).for_each(|n| if n % 2 == 0 { even.extend(member(n)) } else { odd.extend(member(n)) });
    work.write("even.a", even);
    work.write("odd.a", odd);
    within(&work, &[&start, "--start-group", "odd.a", "even.a", "--end-group"]).ok();
    assert!(work.elf_unchecked("out").find_symbol("s0").is_some());
}

/// A call graph has a line for each pair of functions, and a local function may be in any number of files.
#[test]
fn calls_of_one_name() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: ret\n");
    let count = 100_000;
    work.write("locals", named(b"\0name\0", std::iter::repeat_n(1, count), (2, 1), count as u32 + 1));
    work.write("calls", "name name 1\n".repeat(20_000));
    within(&work, &[&start, "locals", "--call-graph-ordering-file=calls"]).ok();
}

#[test]
fn groups_among_versioned_symbols() {
    let work = Work::new();
    let count = 60_000;
    let groups = lines(count, |n| {
        format!(
            ".section .text.g{n},\"axG\",@progbits,g{n},comdat\n.globl g{n}\ng{n}: ret\n\
             .globl v{n}\nv{n}: ret\n.symver v{n}, v{n}@V{n}"
        )
    });
    let object = work.s("object", &format!(".globl _start\n_start: ret\n{groups}"));
    within(&work, &["-r", &object]).ok();
}

/// All symbols of an object that is named twice clash, and each message says that it is the same object.
#[test]
fn a_large_object_that_is_named_twice() {
    let work = Work::new();
    let symbols = lines(120_000, |n| format!(".globl s{n}\ns{n}: ret"));
    let object = work.s("object", &format!(".data\n.fill 6000000,8,7\n.text\n{symbols}"));
    let outcome = within(&work, &["-shared", &object, &object]).fails();
    outcome.says(&["object.o is among the inputs twice: name it once"]);
}

/// For each symbol, there is a text to show where it is first used.
#[test]
fn warnings_for_many_symbols() {
    let work = Work::new();
    let count = 5000;
    let warned = lines(count, |n| {
        format!(".globl w{n}\nw{n}: ret\n.section .gnu.warning.w{n},\"\",@progbits\n.asciz \"text\"\n.text")
    });
    let definitions = work.s("definitions", &warned);
    let uses = lines(count, |n| format!(".quad w{n}"));
    let text = format!(".globl _start\n_start: ret\n.data\n.rept 1000000\n.quad _start\n.endr\n{uses}");
    let object = work.s("object", &text);
    let outcome = within(&work, &[&object, &definitions]).ok();
    outcome.says(&["object.o:(.data+0x7a1200): text"]);
}

/// Addresses in `.eh_frame`, before records of functions that are not in the output.
#[test]
fn addresses_among_dead_frames() {
    let work = Work::new();
    let functions =
        lines(30_000, |n| format!(".section .text.f{n},\"ax\"\n.cfi_startproc\nret\n.cfi_endproc"));
    let text = format!(
        ".globl _start\n_start: lea .Laddresses(%rip), %rax\nret\n.section .eh_frame,\"a\",@unwind\n.Lframes:\n\
         {functions}\n.data\n.Laddresses:\n.rept 300000\n.quad .Lframes\n.endr\n"
    );
    let object = work.s("object", &text);
    within(&work, &[&object, "--gc-sections"]).ok();
    let elf = work.elf_unchecked("out");
    let frames = elf.find(".eh_frame").map_or(0, |section| section.addr);
    assert!(elf.section(".data").quads().iter().all(|&quad| quad.wrapping_sub(frames) < 0x1000));
}

#[test]
fn copies_of_many_variables() {
    let work = Work::new();
    let count = 80_000;
    let variables =
        lines(count, |n| format!(".globl v{n}\n.type v{n}, @object\n.size v{n}, 4\nv{n}: .long {n}"));
    let library = work.s("library", &format!(".data\n{variables}"));
    work.ld(&["-shared", "-o", "libv.so", &library]).ok();
    let uses = lines(count, |n| format!("mov v{n}, %eax"));
    let object = work.s("object", &format!(".globl _start\n_start:\n{uses}\nret\n"));
    within(&work, &[&object, "libv.so"]).ok();
    assert_eq!(work.elf_unchecked("out").dynamic_relocations_of(5).len(), count);
}

#[test]
fn traced_symbols_of_many() {
    let work = Work::new();
    let count = 100_000;
    let symbols = lines(count, |n| format!(".globl s{n}\ns{n}:"));
    let object = work.s("object", &format!(".globl _start\n_start: ret\n{symbols}"));
    work.write("options", lines(count, |n| format!("-y s{n}")));
    let outcome = within(&work, &[&object, "@options"]).ok();
    assert!(outcome.output().contains("object.o: definition of s99999\n"));
}

/// The header says how large a compressed section is, but only up to the size that its bytes can expand to.
#[test]
fn packed_sections_that_say_that_they_are_large() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: ret\n");
    for kind in [1, 2] {
        let header = [kind, 0].map(u32::to_le_bytes).concat();
        let data = [header, [1u64 << 40, 1].map(u64::to_le_bytes).concat(), vec![0; 1000]].concat();
        let packed =
            RawSection { name: ".debug_x", kind: 1, flags: 0x800, align: 8, data, ..RawSection::default() };
        work.write("packed", object(&vec![packed; 2000], &[]));
        within(&work, &[&start, "packed"]).fails().says(&["cannot unpack", "0x10000000000"]);
    }
}

/// Functions with landing pads in one section, and as many instructions that load addresses in it.
#[test]
fn landing_pads_among_loads_of_addresses() {
    let work = Work::new();
    let functions = lines(100_000, |n| format!("f{n}: endbr64\nlea f{}(%rip), %rax", n * 7 % 100_000));
    let object = work.s("object", &format!(".globl _start\n_start: ret\n{functions}"));
    within(&work, &["-z", "rewrite-endbr", &object]).ok();
}

/// Jumps to what follows, which have records of frames and rows of SFrame, with empty sections between them.
#[test]
fn jumps_to_the_sections_behind_them() {
    let work = Work::new();
    let section = |n: usize| format!(".section .text.f{n},\"ax\",@progbits,unique,{n}");
    let jump = |n: usize| {
        let code = format!(".cfi_startproc\nnop\n.cfi_adjust_cfa_offset 8\njmp f{}\n.cfi_endproc", n + 1);
        if n.is_multiple_of(2) {
            format!("{}\nf{n}: {code}", section(n))
        } else {
            format!("{}\nf{n}:", section(n))
        }
    };
    let end = format!("{}\n.globl _start\n_start: ret\n", section(30_000));
    let object = work.s("object", &format!("{}{end}f30000:", lines(30_000, jump)));
    for options in [&[][..], &["--sframe-index", "--sframe-from-eh-frame=all"], &["--unwind-table=add"]] {
        within(&work, &[&["--optimize-bb-jumps", &object], options].concat()).ok();
        assert_eq!(work.elf_unchecked("out").section(".text").size, 15_001, "{options:?}");
    }
}

/// Marks of variables that the dynamic linker tags, each of them twice.
#[test]
fn marks_of_tagged_variables() {
    machine::check(&machine::AARCH64, |machine| {
        let work = Work::on(machine);
        let marks = lines(100_000, |n| format!(".reloc 0, R_AARCH64_NONE, v{}", n % 50_000));
        let variables =
            lines(50_000, |n| format!(".globl v{n}\n.type v{n}, %object\n.size v{n}, 16\nv{n}: .zero 16"));
        let section = ".section .memtag.globals.static,\"\",%0x70000007";
        let text = format!("{section}\n.zero 1\n{marks}.data\n.balign 16\n{variables}");
        let object = work.s("object", &text);
        within(&work, &["-shared", "-z", "memtag-mode=sync", &object]).ok();
        let elf = work.elf_unchecked("out");
        assert!(elf.section(".memtag.globals.dynamic").data.len() >= 50_000);
    });
}
