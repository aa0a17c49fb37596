//! Inputs in which a few bytes stand for very many: scripts that name each other, and sections that claim to
//! be large. The limits are those of `proportion`.

use crate::proportion::within;
use crate::support::Work;
use crate::support::elf::SHT_NOBITS;
use crate::support::work::Outcome;

/// A scratch directory with a start, and an object without symbols, which a link may name any number of
/// times.
fn work() -> Work {
    let work = Work::new();
    work.s("start", ".globl _start\n_start: ret\n");
    work.s("a", ".data\n.byte 1\n");
    work
}

/// A script that names this file as an input, `count` times.
fn inputs(name: &str, count: usize) -> String {
    format!("INPUT({})", format!("{name} ").repeat(count))
}

/// Links the start and the script `0`, which leads to `depth` more scripts. Each names the next one `count`
/// times, and the last one is `leaf`.
fn row(depth: usize, count: usize, leaf: &str) -> Outcome {
    let work = work();
    for number in 0..depth {
        work.write(&number.to_string(), inputs(&(number + 1).to_string(), count));
    }
    work.write(&depth.to_string(), leaf);
    within(&work, &["start.o", "0"])
}

#[test]
fn scripts_that_name_each_other_often() {
    let says = "that scripts name, but at most 4096 are allowed; does one name another more than once?";
    row(3, 100, "").fails().says(&["file 4097", says]);
    row(3, 100, "SEARCH_DIR(x)").fails().says(&["file 4097", says]);
    row(19, 2, "INPUT(a.o)").fails().says(&["file 4097", says]);
    row(2, 10, "INPUT(a.o)").ok();
}

/// Scripts of `-T` also name inputs.
#[test]
fn scripts_that_options_give_name_others_often() {
    let work = work();
    work.write("script.ld", format!("{} SECTIONS {{ .text : {{ *(.text) }} }}", inputs("leaf", 5000)));
    work.write("leaf", "INPUT(a.o)");
    within(&work, &["-T", "script.ld", "start.o"]).fails().says(&["`leaf` is file 4097 that scripts name"]);
}

/// A limit on the number of scripts is not enough: each may name any number of objects, or have any number of
/// statements.
#[test]
fn texts_that_come_again() {
    let work = work();
    work.write("again", inputs("leaf", 4000));
    work.write("leaf", inputs("a.o", 4000));
    let outcome = within(&work, &["start.o", "again"]);
    outcome
        .fails()
        .says(&["scripts that are opened more than once name 36000 files", "at most 32768 may be"]);
    work.write("leaf", "a = 1;".repeat(3000));
    let outcome = within(&work, &["start.o", "again"]);
    outcome.fails().says(&["files that scripts name more than once have", "at most 2097152 are allowed"]);
    // The same text at another path counts as the same.
    work.write("again", inputs("leaf ./leaf .//leaf", 1000));
    within(&work, &["start.o", "again"]).fails().says(&["files that scripts name more than once have"]);
    work.write("script.ld", "INCLUDE leaf\n".repeat(4000));
    let outcome = within(&work, &["-T", "script.ld", "start.o"]);
    outcome.fails().says(&["files that scripts include more than once have", "at most 2097152 are allowed"]);
}

/// The command line may name a script as often as it wants, as drivers do with `-lc`.
#[test]
fn libraries_that_are_scripts() {
    let work = work();
    work.shared("deep", "int deep;", &[]);
    work.write("libouter.so", "/* GNU ld script */ GROUP ( libinner.so AS_NEEDED ( libdeep.so ) )");
    work.write("libinner.so", "INPUT ( libdeep.so )");
    work.write("options", format!("start.o -L. {} {}", "-louter ".repeat(1000), "-linner ".repeat(5000)));
    work.ld(&["@options", "-o", "out"]).ok();
}

/// A section of zeros that no segment loads takes no room in the file, as with other linkers, and cannot be
/// compressed.
#[test]
fn debug_sections_of_zeros() {
    let work = work();
    work.s("zeros", ".section .debug_x,\"\",@nobits\n.zero 0x7000000000\n");
    for options in
        [&[][..], &["--compress-debug-sections=zlib"], &["--compress-debug-sections=zstd"], &["-r"]]
    {
        within(&work, &[options, &["start.o", "zeros.o"]].concat()).ok();
        assert!(work.read("out").len() < 100_000, "{options:?}");
        let elf = work.elf_unchecked("out");
        let section = elf.section(".debug_x");
        assert_eq!((section.kind, section.size), (SHT_NOBITS, 0x70_0000_0000), "{options:?}");
    }
}

/// Beside other contents, such zeros are contents too, and may be more than memory can hold.
#[test]
fn debug_sections_of_zeros_and_contents() {
    let work = work();
    work.s("contents", ".section .debug_x,\"\",@progbits\n.byte 1\n");
    work.write("script.ld", "SECTIONS { .text : { *(.text) } .debug_x 0 : { *(.debug_x) } }");
    let options = ["-T", "script.ld", "start.o", "contents.o", "zeros.o", "--compress-debug-sections=zstd"];
    work.s("zeros", ".section .debug_x,\"\",@nobits\n.zero 0x8000000\n");
    work.ld(&[&options[..], &["-o", "out"]].concat()).ok();
    assert!(work.read("out").len() < 1_000_000);
    work.s("zeros", ".section .debug_x,\"\",@nobits\n.zero 0x7000000000\n");
    within(&work, &options).fails().says(&["no memory for section '.debug_x' of 481036337153 bytes"]);
}
