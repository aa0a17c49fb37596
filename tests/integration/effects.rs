//! Options that change the contents of the output, or where the linker searches.

use crate::need;
use crate::support::elf::*;
use crate::support::{Work, tools};

const START: &str = ".text\n.globl _start\n_start: ret\n";

#[test]
fn undefined_globs_take_members_and_keep_them() {
    need!(tools::own_linker());
    let work = Work::new();
    let start = work.s("start", START);
    let members: Vec<String> = ["plugin_a", "plugin_b", "other"]
        .map(|name| {
            work.s(name, &format!(".section .text.{name},\"ax\",@progbits\n.globl {name}\n{name}: ret\n"))
        })
        .to_vec();
    work.ar("libx.a", "", &members.iter().map(String::as_str).collect::<Vec<_>>());
    work.ld(&["-o", "p", &start, "libx.a", "--undefined-glob=plugin_*", "--gc-sections"]).quiet();
    let elf = work.elf("p");
    assert!(elf.find_symbol("plugin_a").is_some() && elf.find_symbol("plugin_b").is_some());
    assert!(elf.find_symbol("other").is_none());
}

#[test]
fn verbose_shows_the_script_and_the_files_tried() {
    let work = Work::new();
    let start = work.s("start", START);
    let f = work.s("f", ".globl f\nf: ret\n");
    std::fs::create_dir_all(work.path("one")).unwrap();
    std::fs::create_dir_all(work.path("two")).unwrap();
    work.ar("two/libf.a", "", &[&f]);
    let text = work.ld(&["--verbose", "-o", "p", &start, "-Lone", "-Ltwo", "-lf"]).ok().stdout;
    assert!(text.contains("SECTIONS") && text.contains("*(.text"), "{text}");
    for line in [
        "attempt to open start.o succeeded",
        "attempt to open one/libf.a failed",
        "attempt to open two/libf.a succeeded",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let script = work.ld(&["--verbose"]).quiet().stdout;
    assert!(script.contains("SECTIONS") && !work.exists("a.out"), "it only asks for the script");
    let script =
        script.split("==================================================").nth(1).unwrap().to_owned();
    work.write("default.ld", script);
    work.ld(&["-T", "default.ld", "-o", "q", &start]).quiet();
    assert_eq!(work.elf("q").entry, work.elf("p").entry, "the printed text is a script");
}

#[test]
fn memory_usage_is_printed_by_region() {
    let work = Work::new();
    let a = work.s("a", ".globl _start\n_start: .skip 100\n.data\n.skip 1024\n");
    work.write(
        "regions.ld",
        "MEMORY { ROM (rx) : ORIGIN = 0x100000, LENGTH = 1M  RAM (rw) : ORIGIN = 0x200000, LENGTH = 3000 }
         SECTIONS { .text : { *(.text*) } > ROM .data : { *(.data*) } > RAM }",
    );
    let text = work.ld(&["-T", "regions.ld", "--print-memory-usage", "-o", "p", &a]).ok().stdout;
    for line in [
        "Memory region         Used Size  Region Size  %age Used",
        "             ROM:         100 B         1 MB      0.01%",
        "             RAM:          1 KB       3000 B     34.13%",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn programs_without_pages_run() {
    let work = Work::new();
    let main =
        work.c("main", "#include <stdio.h>\nint x = 1; int main(void) { x++; printf(\"%d\\n\", x); }", &[]);
    for option in ["-n", "-N"] {
        let option = format!("-Wl,{option},--no-warn-rwx-segments");
        work.gcc(&["-static", "-o", "p", &main, &option]).quiet();
        assert_eq!(work.run("p"), "2\n", "the C library finds its headers: {option}");
    }
}

#[test]
fn programs_that_look_at_headers_must_have_them() {
    let work = Work::new();
    let a = work.s("a", ".globl _start\n_start: lea __ehdr_start(%rip),%rax\nret\n");
    work.ld(&["-o", "p", &a]).quiet();
    work.write("low.ld", "SECTIONS { . = 0x400000; .text : { *(.text*) } }");
    work.ld(&["-T", "low.ld", "-o", "q", &a]).fails().says(&["__ehdr_start"]);
}

#[test]
fn a_read_only_dynamic_section_has_no_place_for_debuggers() {
    need!(tools::own_linker());
    const DT_DEBUG: u64 = 21;
    let work = Work::new();
    let main = work.c("main", "#include <stdio.h>\nint main(void) { puts(\"runs\"); }", &[]);
    work.gcc(&["-o", "p", &main]).quiet();
    assert!(!work.elf("p").tags(DT_DEBUG).is_empty());
    work.gcc(&["-o", "p", &main, "-Wl,-z,rodynamic"]).quiet();
    let elf = work.elf("p");
    assert!(elf.tags(DT_DEBUG).is_empty() && elf.section(".dynamic").flags & SHF_WRITE == 0);
    assert_eq!(work.run("p"), "runs\n");
}

#[test]
fn a_library_given_by_path_is_needed_by_that_path() {
    let work = Work::new();
    let f = work.s("f", ".globl f\n.type f,@function\nf: ret\n");
    std::fs::create_dir_all(work.path("sub")).unwrap();
    work.ld(&["-shared", "-o", "sub/libf.so", &f]).quiet();
    let start = work.s("start", ".globl _start\n_start: call f\n");
    let needed = |args: &[&str]| {
        let mut all = vec!["-o", "p", start.as_str()];
        all.extend(args);
        work.ld(&all).quiet();
        work.elf("p").needed()
    };
    assert_eq!(needed(&["sub/libf.so"]), ["sub/libf.so"]);
    assert_eq!(needed(&["-Lsub", "-lf"]), ["libf.so"]);
    assert_eq!(needed(&["-Lsub", "-l:libf.so"]), ["libf.so"]);
    work.ld(&["-shared", "-soname", "first", "-soname", "last", "-o", "sub/libf.so", &f]).quiet();
    assert_eq!(needed(&["sub/libf.so"]), ["last"]);
}

#[test]
fn a_library_given_twice_is_needed_if_either_says_so() {
    let work = Work::new();
    let f = work.s("f", ".globl f\n.type f,@function\nf: ret\n");
    work.ld(&["-shared", "-soname", "libf.so", "-o", "libf.so", &f]).quiet();
    let start = work.s("start", START);
    for (args, expected) in [
        (&["--as-needed", "libf.so"][..], 0),
        (&["--as-needed", "libf.so", "--no-as-needed", "libf.so"], 1),
        (&["libf.so", "--as-needed", "libf.so"], 1),
    ] {
        let mut all = vec!["-o", "p", start.as_str()];
        all.extend(args);
        work.ld(&all).quiet();
        assert_eq!(work.elf("p").needed().len(), expected, "{args:?}");
    }
}

#[test]
fn an_archive_is_excluded_by_its_file_name() {
    let work = Work::new();
    let f = work.s("f", ".globl f\n.type f,@function\nf: ret\n");
    work.ar("libf.a", "", &[&f]);
    for (name, hidden) in [("libf.a", true), ("libf", true), ("ALL", true), ("x:libf.a", true), ("f", false)]
    {
        let option = format!("--exclude-libs={name}");
        work.ld(&["-shared", "-o", "p.so", "--whole-archive", "libf.a", &option]).quiet();
        assert_eq!(work.elf_unchecked("p.so").find_dynamic("f").is_none(), hidden, "{name}");
    }
    work.ld(&["-r", "-o", "p.o", "--whole-archive", "libf.a", "--exclude-libs=ALL"]).quiet();
    assert_eq!(work.elf("p.o").symbol("f").visibility, STV_HIDDEN, "the final link must not export it");
}

#[test]
fn expressions_know_symbols_of_merged_sections() {
    let work = Work::new();
    let a = work.s(
        "a",
        ".globl _start, hello\n_start: ret\n.section .rodata.str,\"aMS\",@progbits,1\n.asciz \"zero\"\nhello: .asciz \"hello\"\n",
    );
    let b = work.s("b", ".globl again\n.section .rodata.str,\"aMS\",@progbits,1\nagain: .asciz \"hello\"\n");
    work.ld(&["-o", "p", &a, &b, "--defsym=tail=again+2"]).quiet();
    let elf = work.elf("p");
    assert_eq!(elf.symbol("again").value, elf.symbol("hello").value, "merged");
    assert_eq!(elf.symbol("tail").value, elf.symbol("hello").value + 2);
    assert_eq!(elf.at(elf.symbol("tail").value, 4), b"llo\0");
    work.write(
        "quads.ld",
        "SECTIONS { . = 0x400000 + SIZEOF_HEADERS; .text : { *(.text*) } .rodata : { *(.rodata*) } .table : { QUAD(hello) QUAD(again + 1) } }",
    );
    work.ld(&["-T", "quads.ld", "-o", "q", &a, &b]).ok();
    let elf = work.elf("q");
    let hello = elf.symbol("hello").value;
    assert_eq!(elf.section(".table").quads(), [hello, hello + 1]);
}

#[test]
fn position_independent_code_may_not_measure_the_way_to_nothing() {
    let work = Work::new();
    let call = work.s("call", ".weak u\n.globl _start\n_start: call u@PLT\nmov u@GOTPCREL(%rip),%rax\n");
    let lea = work.s("lea", ".weak u\n.globl _start\n_start: lea u(%rip),%rax\n");
    work.ld(&["-o", "p", &lea]).quiet();
    work.ld(&["-pie", "-o", "p", &call]).quiet();
    work.ld(&["-pie", "-o", "q", &lea]).fails().says(&["lea.o:(.text+0x3)", "R_X86_64_PC32", "-fPIE"]);
    work.ld(&["-shared", "-o", "q", &lea]).fails().says(&["R_X86_64_PC32", "-fPIC"]);
}

#[test]
fn indirect_access_is_marked_and_enforced() {
    let work = Work::new();
    work.shared("data", "int value = 3;", &[]);
    let direct = work.c("direct", "extern int value; int main(void) { return value - 3; }", &["-fno-pie"]);
    let through_got = work.c("got", "extern int value; int main(void) { return value - 3; }", &["-fPIC"]);
    let link = |object: &str, extra: &[&str]| {
        let mut args = vec!["-no-pie", "-o", "p", object, "-L.", "-ldata"];
        args.extend(extra);
        work.gcc(&args)
    };
    link(&direct, &[]).quiet();
    link(&direct, &["-Wl,-z,indirect-extern-access"]).fails().says(&["copy relocation", "value"]);
    link(&through_got, &["-Wl,-z,indirect-extern-access"]).quiet();
    let (_, _, properties) = work.elf("p").notes(".note.gnu.property").remove(0);
    let words: Vec<u32> =
        properties.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    let at = words.iter().position(|&word| word == 0xb000_8000).expect("GNU_PROPERTY_1_NEEDED");
    assert_eq!(words[at + 2] & 1, 1, "GNU_PROPERTY_1_NEEDED_INDIRECT_EXTERN_ACCESS");
    work.run("p");
}

#[test]
fn large_commons_go_to_lbss() {
    let work = Work::new();
    let a = work.s("a", ".largecomm big,100000,32\n.comm small,4,4\n.globl _start\n_start: ret\n");
    work.ld(&["-o", "p", &a]).quiet();
    let elf = work.elf_unchecked("p");
    let (lbss, bss) = (elf.section(".lbss"), elf.section(".bss"));
    assert!(
        (lbss.addr..lbss.end()).contains(&elf.symbol("big").value)
            && elf.symbol("big").value.is_multiple_of(32)
    );
    assert!((bss.addr..bss.end()).contains(&elf.symbol("small").value));
    work.ld(&["-r", "-o", "r.o", &a]).quiet();
    let elf = work.elf_unchecked("r.o");
    assert_eq!(elf.symbol("big").section, 0xff02, "SHN_X86_64_LCOMMON");
    assert_eq!(elf.symbol("small").section, SHN_COMMON);
}

#[test]
fn output_sections_beyond_sixteen_bits_have_long_numbers() {
    const SECTIONS: usize = 65_400;
    let work = Work::new();
    let mut source =
        String::from(".globl _start\n_start: mov last(%rip),%edi\nsub $7,%edi\nmov $60,%eax\nsyscall\n");
    for number in 0..SECTIONS {
        source.push_str(&format!(".section .d{number},\"aw\",@progbits\n.byte 0\n"));
    }
    source.push_str(".globl last\n.section .last,\"aw\",@progbits\nlast: .long 7\n");
    let a = work.s("a", &source);
    work.ld(&["-o", "one", &a]).quiet();
    work.ld(&["-r", "-o", "r.o", &a]).quiet();
    work.ld(&["-o", "two", "r.o"]).quiet();
    for name in ["one", "two", "r.o"] {
        if name != "r.o" {
            work.run(name);
        }
        let symbols = work.command(work.tool("readelf"), &["-sW", name]).quiet().stdout;
        let line = symbols.lines().find(|line| line.ends_with(" last")).expect("last");
        let section: usize = line.split_whitespace().nth(6).unwrap().parse().expect("a section's number");
        assert!(section > SECTIONS, "{name}: {line}");
        let sections = work.command(work.tool("readelf"), &["-SW", name]).quiet().stdout;
        assert!(sections.contains(&format!("[{section}] .last ")), "{name}: {line}");
    }
}

#[test]
fn the_dynamic_linker_finds_nothing_to_complain_about() {
    let mut work = Work::new();
    work.shared("used", "int used(void) { return 1; }", &["-Wl,-soname,libused.so"]);
    work.shared("spare", "int spare(void) { return 1; }", &["-Wl,-soname,libspare.so"]);
    let main = work.c("main", "int used(void); int main(void) { return used() - 1; }", &[]);
    work.env("LD_BIND_NOW", "1");
    work.env("LD_DEBUG", "unused");
    for flags in [&["-no-pie"][..], &["-pie"], &["-pie", "-Wl,-z,now"], &["-Wl,-z,pack-relative-relocs"]] {
        let mut args = vec!["-o", "p", &main, "-L.", "-Wl,--as-needed", "-lused", "-lspare"];
        args.extend(flags);
        work.gcc(&args).quiet();
        let outcome = work.run_any("p").ok();
        assert!(!outcome.stderr.contains("nused direct"), "{outcome}");
    }
}
