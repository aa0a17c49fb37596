//! The layout of outputs: symbols that the linker makes, segments, the large model, tombstones in debug
//! information, `.comment`.

use crate::need;
use crate::support::elf::*;
use crate::support::{Work, tools};

#[test]
fn linker_made_symbols_mark_the_layout() {
    let work = Work::new();
    let names = [
        "__executable_start",
        "__ehdr_start",
        "etext",
        "_etext",
        "edata",
        "_edata",
        "__bss_start",
        "end",
        "_end",
        "__init_array_start",
        "__init_array_end",
        "__fini_array_start",
        "__fini_array_end",
        "__preinit_array_start",
        "__preinit_array_end",
    ];
    let declarations: String = names.iter().map(|n| format!("extern char {n}[];\n")).collect();
    let entries = names.join(", ");
    let source = format!(
        "{declarations}static int bss[100]; int data = 3; static void init(void) {{ bss[0] = 1; }} __attribute__((constructor)) static void c(void) {{ init(); }}\nchar *const table[] = {{{entries}}};\nint main(void) {{ return table[0] == 0; }}"
    );
    for (compile, link) in [("-fno-PIE", "-no-pie"), ("-fPIE", "-pie")] {
        let main = work.c("main", &source, &[compile]);
        work.gcc(&[link, "-o", "program", &main]).quiet();
        work.run("program");
        let elf = work.elf("program");
        let at = |name: &str| elf.symbol(name).value;
        let first = elf.segments_of(PT_LOAD)[0].addr;
        assert_eq!((at("__executable_start"), at("__ehdr_start")), (first, first));
        let text = elf.section(".text");
        let code =
            elf.sections.iter().filter(|s| s.flags & SHF_EXECINSTR != 0).map(Section::end).max().unwrap();
        assert!(text.end() <= at("etext") && at("etext") <= code.max(text.end()));
        assert!(elf.section(".data").end() <= at("edata") && at("_edata") <= at("__bss_start"));
        let bss = elf.section(".bss");
        assert!(at("__bss_start") <= bss.addr && bss.end() <= at("end") && at("end") == at("_end"));
        let init = elf.section(".init_array");
        assert_eq!((at("__init_array_start"), at("__init_array_end")), (init.addr, init.end()));
        assert_eq!(at("__preinit_array_start"), at("__preinit_array_end"));
    }
}

#[test]
fn linker_made_symbols_yield_to_the_program() {
    let work = Work::new();
    let main = work.c("main", "#include <stdio.h>\nint end = 5; int etext(void) { return 6; }\nint main(void) { printf(\"%d %d\\n\", end, etext()); }", &[]);
    work.gcc(&["-o", "program", &main]).quiet();
    assert_eq!(work.run("program"), "5 6\n");
}

#[test]
fn segments_are_separate_by_permission() {
    let work = Work::new();
    let main = work.c("main", "#include <stdio.h>\nint data = 1; const int ro = 2; int bss[5000];\nint main(void) { printf(\"%d\\n\", data + ro + bss[9]); }", &[]);
    for option in ["-Wl,-z,separate-code", "-Wl,-z,noseparate-code", "-Wl,-z,separate-loadable-segments"] {
        work.gcc(&["-o", "program", &main, option]).quiet();
        assert_eq!(work.run("program"), "3\n", "{option}");
        let elf = work.elf("program");
        let loads = elf.segments_of(PT_LOAD);
        let pages = |s: &Segment| (s.offset / 4096, (s.offset + s.file_size).div_ceil(4096));
        if option.contains("no") {
            continue;
        }
        for code in loads.iter().filter(|s| s.flags & 1 != 0) {
            for other in loads.iter().filter(|s| s.flags & 1 == 0 && s.file_size > 0) {
                let ((a, b), (c, d)) = (pages(code), pages(other));
                assert!(b <= c || d <= a, "{option}: code shares no file page with data");
            }
        }
    }
}

#[test]
fn page_sizes_and_image_base_are_obeyed() {
    let work = Work::new();
    let main = work.c("main", "int data = 1; int main(void) { return data - 1; }", &["-fno-PIE"]);
    work.gcc(&["-no-pie", "-o", "program", &main, "-Wl,-z,max-page-size=0x10000"]).quiet();
    work.run("program");
    assert!(work.elf("program").segments_of(PT_LOAD).iter().all(|s| s.align == 0x10000));
    work.gcc(&["-no-pie", "-o", "program", &main, "-Wl,--image-base=0x10000000"]).quiet();
    work.run("program");
    assert_eq!(work.elf("program").segments_of(PT_LOAD)[0].addr, 0x1000_0000);
}

#[test]
fn zero_data_takes_no_file_space() {
    let work = Work::new();
    let main = work.c(
        "main",
        "static volatile char big[64 << 20]; int main(int n, char **v) { (void)v; return big[n]; }",
        &[],
    );
    work.gcc(&["-o", "program", &main]).quiet();
    work.run("program");
    let elf = work.elf("program");
    assert!(elf.bytes.len() < 1 << 20);
    assert!(elf.segments_of(PT_LOAD).iter().any(|s| s.size - s.file_size >= 64 << 20));
}

#[test]
fn large_model_sections_lie_outside_the_small_ones() {
    let work = Work::new();
    let source = "
.globl _start, small
.text
_start: movabs $big,%rax
movl (%rax),%edi
subl $7,%edi
movl small(%rip),%ecx
mov $60,%eax
syscall
.data
small: .long 1
.section .ldata,\"awl\",@progbits
big: .long 7
.section .lrodata,\"al\",@progbits
.long 9
.section .lbss,\"awl\",@nobits
.skip 0x1000
.section .ltext,\"axl\",@progbits
ret
";
    let a = work.s("a", source);
    work.ld(&["-no-pie", "-o", "program", &a]).quiet();
    work.run("program");
    let elf = work.elf("program");
    let large = 0x1000_0000u64;
    for name in [".ldata", ".lbss", ".lrodata"] {
        assert!(elf.section(name).flags & large != 0, "{name} keeps SHF_X86_64_LARGE");
    }
    let small: Vec<&Section> = elf
        .sections
        .iter()
        .filter(|s| s.flags & SHF_ALLOC != 0 && s.flags & large == 0 && s.size > 0)
        .collect();
    let (low, high) =
        (small.iter().map(|s| s.addr).min().unwrap(), small.iter().map(|s| s.end()).max().unwrap());
    for name in [".ldata", ".lbss"] {
        let section = elf.section(name);
        assert!(section.addr >= high || section.end() <= low, "{name} does not stand between small sections");
    }
}

#[test]
fn huge_large_data_leaves_small_code_in_reach() {
    let work = Work::new();
    let main = work.c("main", "#include <stdio.h>\nchar huge[0x90000000UL]; int small = 4;\nint main(void) { huge[0x8fffffffUL] = 1; printf(\"%d %d\\n\", huge[0x8fffffffUL], small); }", &["-mcmodel=medium", "-fno-PIE"]);
    work.gcc(&["-no-pie", "-o", "program", &main]).quiet();
    assert_eq!(work.run("program"), "1 4\n");
}

const INLINE: &str = "inline __attribute__((noinline)) int shared(int x) { volatile int a = x; return a; }\n";

#[test]
fn debug_sections_of_dead_code_get_tombstones() {
    let work = Work::new();
    for standard in ["-gdwarf-4", "-gdwarf-5"] {
        let a = work.cc(
            "a",
            &format!("{INLINE}int b(int); int main() {{ return shared(0) + b(0); }}"),
            &[standard, "-O2", "-ffunction-sections"],
        );
        let b = work.cc(
            "b",
            &format!("{INLINE}int dead(int x) {{ return x * 3; }} int b(int x) {{ return shared(x); }}"),
            &[standard, "-O2", "-ffunction-sections"],
        );
        work.gxx(&["-nostartfiles", "-e", "main", "-o", "program", &a, &b, "-Wl,--gc-sections"]).quiet();
        let elf = work.elf("program");
        assert!(elf.find_symbol("_Z4deadi").is_none());
        if standard == "-gdwarf-4" {
            let ranges = elf.section(".debug_ranges").quads();
            let dead = ranges.chunks_exact(2).filter(|p| p[0] == 1 && p[1] == 1).count();
            assert!(dead >= 2, "dead ranges are empty at 1, not the terminator: {ranges:x?}");
        }
        let code = elf.section(".text");
        let starts = arange_starts(&elf.section(".debug_aranges").data);
        assert!(starts.iter().any(|a| (code.addr..code.end()).contains(a)), "{starts:x?}");
        let stray = starts.iter().filter(|&&a| a > 1 && !(code.addr..code.end()).contains(&a)).count();
        assert_eq!(stray, 0, "dead code is at 0 or 1: {starts:x?}");
    }
}

/// The start addresses in `.debug_aranges`, without terminators.
fn arange_starts(data: &[u8]) -> Vec<u64> {
    let (mut starts, mut at) = (Vec::new(), 0);
    while at + 16 <= data.len() {
        let end = at + 4 + word(data, at) as usize;
        for pair in data[at + 16..end].chunks_exact(16) {
            if quad(pair, 8) != 0 {
                starts.push(quad(pair, 0));
            }
        }
        at = end;
    }
    starts
}

#[test]
fn tombstones_can_be_chosen() {
    let work = Work::new();
    let a = work.s("a", ".section .text.dead,\"ax\"\n.globl dead\ndead: ret\n.text\n.globl _start\n_start: ret\n.section .debug_mine,\"\",@progbits\n.quad dead+5\n.section .debug_loc,\"\",@progbits\n.quad dead+5\n.section .debug_names,\"\",@progbits\n.quad dead+5\n");
    work.ld(&["-o", "program", &a, "--gc-sections"]).ok();
    let elf = work.elf_unchecked("program");
    assert_eq!(elf.section(".debug_mine").quads(), [0]);
    assert_eq!(elf.section(".debug_loc").quads(), [1]);
    assert_eq!(elf.section(".debug_names").quads(), [u64::MAX]);
    work.ld(&["-o", "program", &a, "--gc-sections", "-z", "dead-reloc-in-nonalloc=.debug_m*=0xdead"]).ok();
    assert_eq!(work.elf_unchecked("program").section(".debug_mine").quads(), [0xdead]);
}

#[test]
fn comment_strings_are_merged() {
    let work = Work::new();
    let a = work.c("a", "int a(void) { return 0; }", &[]);
    let b = work.c("b", "int a(void); int main(void) { return a(); }", &[]);
    work.gcc(&["-o", "program", &a, &b]).quiet();
    let strings = work.elf("program").section(".comment").strings();
    assert_eq!(strings.iter().filter(|s| s.starts_with("GCC:")).count(), 1, "{strings:?}");
}

#[test]
fn the_comment_names_the_linker() {
    need!(tools::own_linker());
    let work = Work::new();
    let a = work.s("a", ".globl _start\n_start: ret\n.ident \"a compiler\"\n");
    work.ld(&["-o", "p", &a]).quiet();
    let strings = work.elf("p").section(".comment").strings();
    assert!(strings.iter().any(|s| s.contains("sframe-ld")), "{strings:?}");
}

#[test]
fn excluded_sections_are_left_out_of_programs() {
    let work = Work::new();
    let a = work.s(
        "a",
        ".text\n.globl _start\n_start: ret\n.section .secret,\"e\",@progbits\n.ascii \"secret words\"\n",
    );
    work.ld(&["-o", "program", &a]).quiet();
    assert!(work.elf("program").find(".secret").is_none());
    work.ld(&["-r", "-o", "again.o", &a]).quiet();
    assert!(work.elf("again.o").find(".secret").is_some());
}

#[test]
fn alignment_of_sections_is_kept() {
    let work = Work::new();
    let a = work.s("a", ".text\n.globl _start\n_start: ret\n.section .data.x,\"aw\"\n.balign 4096\n.globl x\nx: .long 1\n.section .rodata.y,\"a\"\n.balign 256\n.globl y\ny: .long 2\n");
    let b = work.s("b", ".section .data.z,\"aw\"\n.byte 1\n.section .rodata.w,\"a\"\n.byte 2\n");
    work.ld(&["-o", "program", &b, &a]).quiet();
    let elf = work.elf("program");
    assert_eq!((elf.symbol("x").value % 4096, elf.symbol("y").value % 256), (0, 0));
    assert_eq!(elf.section(".data").align, 4096);
}
