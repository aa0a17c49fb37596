//! Time and memory must be in proportion to the input. These tests use inputs with which a linker that has
//! one slow path would take hours, or more memory than exists.
//!
//! No test looks at a clock. Each link has a limit on its address space, which is a few hundred times what it
//! reads, and on its processor time, which is some hundred times what it takes. Only growth of another order
//! reaches these limits. One test checks a much lower factor, for ordinary inputs.

use crate::support::elf::PT_LOAD;
use crate::support::elf_write::{Link, RawSection, RawSymbol, object, words};
use crate::support::machine;
use crate::support::work::{Outcome, linker};
use crate::support::{Work, built};
use std::fmt::Write;

/// Links under limits: KiB of address space, of which 500 MB are for programs and threads, and seconds of
/// processor time.
pub fn within(work: &Work, arguments: &[&str]) -> Outcome {
    limited(work, 1_300_000, arguments)
}

/// Links with this number of KiB of address space, and a minute of processor time. A linker with a sanitizer
/// has neither limit, because its shadow memory takes terabytes; there, the sanitizer checks the link.
fn limited(work: &Work, memory: u64, arguments: &[&str]) -> Outcome {
    let script = "ulimit -c 0; ulimit -v $1; ulimit -t $2; shift 2; exec \"$@\"";
    let linker = linker().display().to_string();
    let (memory, seconds) = match std::env::var_os("SFRAME_TEST_SANITIZER") {
        None => (memory.to_string(), "60"),
        Some(_) => ("unlimited".to_owned(), "unlimited"),
    };
    let mut words = vec!["-c", script, "sh", &memory, seconds, &linker, "--threads=2", "-o", "out"];
    words.extend(arguments);
    work.command("sh", &words).no_crash()
}

/// How many bytes of memory a link may take for each byte of its input (docs/design/time-and-memory.md). In
/// addition, it may take the KiB that an empty link takes, which include stacks of threads and libraries.
const MEMORY_PER_BYTE: u64 = 24;
const MEMORY_OF_NOTHING: u64 = 200_000;

/// Twice as many symbols, relocations or sections take twice the memory, not more. Reserved address space
/// counts, whether it is touched or not.
#[test]
fn memory_for_each_byte_of_the_input() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: ret\n");
    let check = |object: &str, options: &[&str]| {
        let bytes = work.read(object).len() as u64;
        let memory = MEMORY_OF_NOTHING + bytes * MEMORY_PER_BYTE / 1024;
        limited(&work, memory, &[options, &[&start, object]].concat()).ok();
    };
    for times in [1, 2] {
        let names = (0..300_000 * times).map(|n| format!("s{n}")).collect::<Vec<_>>();
        let offsets =
            names.iter().scan(1, |at, name| Some(std::mem::replace(at, *at + name.len() as u32 + 1)));
        let strings = format!("\0{}\0", names.join("\0"));
        work.write("symbols", named(strings.as_bytes(), offsets, (0x12, 1), 1));
        let quads = format!(".data\n.rept {}\n.quad _start\n.endr\n", 400_000 * times);
        let relocations = work.s("relocations", &quads);
        work.write("sections", sections(200_000 * times, Tie::Group));
        for object in ["symbols", &relocations, "sections"] {
            check(object, &[]);
        }
        check("symbols", &["-shared"]);
        check(&relocations, &["-shared"]);
    }
}

/// This many lines, each made from its number.
pub fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, number| {
        let _ = writeln!(text, "{}", line(number));
        text
    })
}

/// Links a start and a script.
fn script(text: String) -> Outcome {
    script_in(&Work::new(), text)
}

fn script_in(work: &Work, text: String) -> Outcome {
    let start = work.s("start", ".globl _start\n_start: ret\n");
    work.write("script.ld", text);
    within(work, &["-T", "script.ld", &start])
}

#[test]
fn symbols_that_provide_each_other_in_a_circle() {
    let circle = lines(20_000, |n| format!("PROVIDE(a{n} = a{} + 1);", (n + 1) % 20_000));
    script(format!("{circle}SECTIONS {{ x = a0; }}")).fails().says(&["depends on"]);
    let circle = lines(20_000, |n| format!("a{n} = a{} + 1;", (n + 1) % 20_000));
    script(format!("SECTIONS {{ {circle} }}")).fails();
    // Everything is on one line, which every message shows.
    script(format!("SECTIONS {{ {} }}", circle.replace('\n', " "))).fails();
}

#[test]
fn provided_symbols_that_need_each_other_in_a_row() {
    let chain = lines(20_000, |n| {
        format!("PROVIDE(a{} = {});", n + 1, if n == 0 { "1".into() } else { format!("a{n} + 1") })
    });
    script(format!("{chain}SECTIONS {{ .text : {{ *(.text) }} x = a20000; }}")).ok();
}

#[test]
fn assignments_without_a_section_behind_them() {
    let many = "a = a + 1;\n".repeat(100_000);
    script(format!("SECTIONS {{ a = 0; .text : {{ *(.text) }} . = . + 1; {many} }}")).ok();
}

/// `e_phnum` can count 65,534 program headers. 65,535 is `PN_XNUM`, and a larger number would lose its high
/// bits.
#[test]
fn program_headers_without_number() {
    for count in [65_534, 65_535, 70_000] {
        let work = Work::new();
        let headers = lines(count, |n| format!("p{n} PT_LOAD;"));
        let uses = lines(count, |n| format!(":p{n}"));
        let text = format!("PHDRS {{ {headers} }} SECTIONS {{ .text : {{ *(.text) }} {uses} }}");
        let outcome = script_in(&work, text);
        if count == 65_534 {
            outcome.ok();
            assert_eq!(work.elf_unchecked("out").segments_of(PT_LOAD).len(), count);
        } else {
            let found = format!("out would have {count} program headers");
            outcome.fails().says(&[&found, "65534 at most", "help: let PHDRS declare fewer"]);
            assert!(!work.exists("out"));
        }
    }
}

/// The message names only a few of them.
#[test]
fn program_headers_without_declaration() {
    let headers = lines(20_000, |n| format!("p{n} PT_LOAD;"));
    let uses = lines(20_000, |n| format!(":q{n}"));
    let text = format!("PHDRS {{ {headers} }} SECTIONS {{ .text : {{ *(.text) }} {uses} }}");
    script(text).fails().says(&[
        "there is no program header `q0`",
        "PHDRS declares p0, p1",
        "p9 and 19990 more",
    ]);
}

#[test]
fn memory_regions_without_number() {
    let regions = lines(200_000, |n| format!("r{n} : ORIGIN = {n}, LENGTH = 1"));
    script(format!("MEMORY {{ {regions} }} SECTIONS {{ .text : {{ *(.text) }} > r7 }}")).ok();
}

#[test]
fn expressions_scripts_and_names_without_end() {
    for text in [
        format!("x = {}1{};", "(".repeat(200_000), ")".repeat(200_000)),
        format!("x = {}1;", "-".repeat(200_000)),
        format!("x = {}1;", "1 ? 2 : ".repeat(100_000)),
        format!("x = {}1{};", "MAX(1, ".repeat(100_000), ")".repeat(100_000)),
        format!("SECTIONS {{ {} }}", ".a : { ".repeat(100_000)),
        "INCLUDE script.ld".to_owned(),
        "INPUT(script.ld)".to_owned(),
        "SECTIONS { .data : { BYTE(1) . += 1 << 45; BYTE(1) } }".to_owned(),
    ] {
        script(text).fails();
    }
    script("SECTIONS { .text : { *(.text) } . = ALIGN(1 << 40); .data : { BYTE(1) } }".to_owned()).ok();
    script(format!("SECTIONS {{ .text : {{ *(.text {}) }} }}", "*a".repeat(1000) + "*b")).ok();
}

#[test]
fn patterns_that_could_match_in_many_ways() {
    let work = Work::new();
    let name = "a".repeat(300);
    let text = lines(1000, |n| format!(".globl {name}{n}\n.section .text.{name}{n},\"ax\"\n{name}{n}: ret"));
    let object = work.s("object", &text);
    let pattern = "*a".repeat(100) + "*b";
    work.write("script.ld", format!("SECTIONS {{ .text : {{ *(.text.{pattern}) *(.text*) }} }}"));
    work.write("versions", format!("V {{ global: {pattern}; local: *; }};"));
    within(&work, &["-T", "script.ld", &object]).ok();
    within(&work, &["-shared", "--version-script=versions", &object]).ok();
}

#[test]
fn undefined_symbols_without_number() {
    let work = Work::new();
    let object = work
        .s("object", &format!(".globl _start\n_start: ret\n{}", lines(60_000, |n| format!(".quad u{n}"))));
    within(&work, &[&object]).fails().says(&["undefined symbol: u0", "more errors"]);
}

#[test]
fn relocations_to_one_string() {
    let work = Work::new();
    let one = work.s(
        "one",
        ".globl _start\n_start: ret\n.section .rodata.str1.1,\"aMS\",@progbits,1\n.string \"first\"\n\
         s: .string \"word\"\n.data\n.rept 1000000\n.quad s\n.endr\n",
    );
    for options in [&[][..], &["-pie"], &["--emit-relocs"], &["-r"]] {
        within(&work, &[options, &[&one]].concat()).ok();
        let elf = work.elf_unchecked("out");
        let (data, strings) = (elf.section(".data"), &elf.sections_named(".rodata")[..]);
        assert_eq!(data.data.len(), 8_000_000, "{options:?}");
        if options.is_empty() {
            let address = strings[0].addr + 6;
            assert!(data.quads().iter().all(|&quad| quad == address));
        }
    }
}

/// A million symbols of one object may share a name, which is in its string table once.
#[test]
fn symbols_of_one_name() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: ret\n");
    let count = 1_000_000;
    let (local, weak, common, undefined) = (0x02, 0x22, 0x11, 0x10);
    for (info, section, first, written) in
        [(local, 1, count as u32 + 1, count), (weak, 1, 1, 1), (common, 0xfff2, 1, 1), (undefined, 0, 1, 0)]
    {
        work.write("many", named(b"\0name\0", std::iter::repeat_n(1, count), (info, section), first));
        within(&work, &[&start, "many"]).ok();
        let symbols = work.elf_unchecked("out").section(".symtab").data.len() / 24;
        assert!((written..written + 20).contains(&symbols), "{symbols} of {info:#x}");
    }
    let common =
        work.s("common", ".comm huge, 0x1000000000000000, 8\n.comm other, 0x7000000000000000, 0x1000\n");
    within(&work, &[&start, &common]).no_crash();
}

/// The AArch64 assembler writes a symbol wherever data follows code or code follows data. All of these have
/// one of two names.
#[test]
fn mapping_symbols_without_number() {
    machine::check(&machine::AARCH64, |machine| {
        let work = Work::on(machine);
        let object = work.s("object", ".globl _start\n_start:\n.rept 200000\nnop\n.word 7\n.endr\n");
        within(&work, &[&object]).ok();
        assert!(work.elf_unchecked("out").section(".symtab").data.len() > 400_000 * 24);
    });
}

/// For each function, folding compares what it refers to.
#[test]
fn equal_functions_that_refer_to_one_long_string() {
    let work = Work::new();
    let functions = lines(20_000, |n| format!(".section .text.f{n},\"ax\"\nlea s(%rip), %rax\nret"));
    let object = work.s(
        "object",
        &format!(
            ".globl _start\n_start: ret\n{functions}.section .rodata.str1.1,\"aMS\",@progbits,1\n\
             .fill 2000000, 1, 'a'\ns: .string \"word\"\n"
        ),
    );
    let folded = within(&work, &[&object, "--icf=all", "--print-icf-sections"]).ok();
    assert_eq!(folded.stdout.matches("removing").count(), 19_999);
}

/// Functions may share rows. Readers that read all functions would follow 1,200 million rows in a megabyte.
#[test]
fn functions_that_share_rows() {
    let work = Work::new();
    let object = work.s(
        "object",
        ".globl _start\n_start: ret\n.skip 140000\n\
         .section .sframe,\"a\",@0x6ffffff4\n.balign 8\n.2byte 0xdee2\n.byte 3,4,3,0,0xf8,0\n\
         .4byte 20000,20000*60000,2f-1f,0,16*20000\n\
         .set function, 0\n.rept 20000\n.8byte _start+function*4-.\n.4byte 60000,0\n.set function, function+1\n.endr\n\
         1: .2byte 60000\n.byte 2,0,0\n\
         .set row, 0\n.rept 60000\n.4byte row\n.byte 3,16\n.set row, row+1\n.endr\n2:\n",
    );
    for options in [&[][..], &["--sframe-index"], &["--sframe=merge"], &["-r", "--sframe-index"]] {
        let words = [options, &[&object]].concat();
        within(&work, &words).ok().says(&["functions share FREs and claim more than 5440264"]);
    }
    within(&work, &[&object]).ok();
    for words in ["stat out", "index -o indexed out", "table -o table out"] {
        let tool = built::sframe();
        let limited = format!("ulimit -c 0; ulimit -t 60; ulimit -v 4000000; exec {tool} {words}");
        let outcome = work.command("sh", &["-c", &limited]);
        assert!(matches!(outcome.code, Some(0..=2)), "{outcome}");
    }
    let verdict = work.command(built::sframe(), &["verify", "out"]).no_crash();
    assert!(verdict.output().contains("functions share FREs"), "{verdict}");
}

#[test]
fn versions_in_a_row() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: ret\n");
    let parent = |n: usize| if n == 0 { String::new() } else { format!(" V{}", n - 1) };
    work.write("versions", lines(20_000, |n| format!("V{n} {{ global: f{n}; }}{};", parent(n))));
    within(&work, &["-shared", "--version-script=versions", &start]).ok();
    work.write("versions", lines(20_000, |n| format!("V{n} {{ global: f{n}; }} V{};", n + 1)));
    within(&work, &["-shared", "--version-script=versions", &start]).fails();
}

/// A version may have any number of parents. With two each, there are more paths to the first version than
/// can be followed. walked.
#[test]
fn versions_with_several_parents() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: ret\n");
    for (count, most) in [(20_000, 2), (1400, 1400)] {
        let parents = |n: usize| lines(n.min(most), |back| format!("V{}", n - 1 - back));
        work.write("versions", lines(count, |n| format!("V{n} {{ global: f{n}; }} {};", parents(n))));
        within(&work, &["-shared", "--version-script=versions", &start]).ok();
        // An entry for each version and for the library, a name for each, and a name for each parent.
        let edges: usize = (0..count).map(|n| n.min(most)).sum();
        let table = work.elf_unchecked("out").section(".gnu.version_d").data.len();
        assert_eq!(table, 20 * (count + 1) + 8 * (count + 1 + edges));
    }
}

/// A thin archive that names itself is read once. If it does so thousands of times, it is refused.
#[test]
fn an_archive_that_holds_itself() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: ret\n");
    let header =
        |name: &str, size: usize| format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 644);
    let thin = |times| format!("!<thin>\n{}a.a/\n\n{}", header("//", 6), header("/0", 100).repeat(times));
    let link = [&*start, "--whole-archive", "a.a"];
    work.write("a.a", thin(10));
    within(&work, &[&start, "a.a"]).ok();
    within(&work, &link).fails().says(&["a.a(a.a): the member is no object"]);
    work.write("a.a", thin(10_000));
    within(&work, &link).fails().says(&["a.a: a thin archive that names its files again and again"]);
    let mut nested = "!<arch>\n".to_owned();
    for _ in 0..1000 {
        nested = format!("!<arch>\n{}{nested}", header("a/", nested.len()));
    }
    work.write("nested.a", nested);
    within(&work, &[&start, "--whole-archive", "nested.a"]).no_crash();
}

/// Names of symbols may be ends of others. Written out in full, they would take the square of the table's
/// size.
#[test]
fn names_that_are_ends_of_one_another() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: ret\n");
    let count = 60_000;
    for (name, info, first) in [("globals", 0x12, 1), ("locals", 2, count as u32 + 1)] {
        work.write(name, overlapping(count, count, info, first));
        within(&work, &[&start, name]).fails().says(&["names of its symbols overlap"]);
    }
}

/// `st_name` has 32 bits. In a larger `.strtab`, symbols would get the names of others.
#[test]
fn names_of_more_than_four_gigabytes() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: ret\n");
    let count = 64;
    work.write("locals", overlapping(count, (64 << 20) + 100, 2, count as u32 + 1));
    within(&work, &[&start, "locals"]).fails().says(&["`.strtab` cannot have more than 4294967295"]);
    within(&work, &[&start, "locals", "--discard-all"]).ok();
}

/// `.gnu.version` has 15 bits for the number of a version. An executable's definitions make versions without
/// a script.
#[test]
fn versions_without_number() {
    let work = Work::new();
    let definitions =
        lines(33_000, |n| format!(".globl f{n}\nf{n}: .symver f{n}, f@V{n}{}", if n > 0 { "" } else { "@" }));
    let object = work.s("object", &format!(".globl _start\n_start: ret\n{definitions}"));
    let library = work.shared("any", "int any;", &[]);
    let options = [&object[..], &library, "--export-dynamic"];
    within(&work, &options).fails().says(&["33000 symbol versions are more than", "32766"]);
}

/// A response file may contain any number of options. If each name were searched for in a list, that would
/// take the square of their number.
#[test]
fn names_that_options_give() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: ret\n");
    for option in ["--wrap=n", "--trace-symbol=n", "--exclude-libs=n", "--audit=n"] {
        work.write("options", lines(120_000, |n| format!("{option}{n}")));
        within(&work, &[&start, "@options"]).ok();
        work.write("options", lines(120_000, |_| option.to_owned()));
        within(&work, &[&start, "@options"]).ok();
    }
}

/// The lists in a version table are chains of offsets, which may lead through the same bytes any number of
/// times.
#[test]
fn version_tables_that_lead_in_circles() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: ret\n");
    let count = 40_000;
    let entry = |n: u32| [1 | 0xffff << 16, 1, 16 * (count - n), 16].map(u32::to_le_bytes).concat();
    let entries: Vec<u8> = (0..count).flat_map(entry).collect();
    for (kind, table) in [
        // Each library has the list of all others after it, or a list that stays at the same place.
        (VERNEED, [&entries[..], &[0, 2, 1, 16].map(u32::to_le_bytes).concat().repeat(70_000)].concat()),
        (VERNEED, [&entries[..], &[0, 2, 1, 0].map(u32::to_le_bytes).concat()].concat()),
        (VERDEF, 4u32.to_le_bytes().repeat(400_000)),
    ] {
        work.write("libx.so", library(b"\0name\0", vec![1], kind, table, |_| 1));
        within(&work, &[&start, "libx.so"]).ok();
    }
}

/// A reference may name any of a library's versions of the same name.
#[test]
fn versions_of_one_name() {
    let work = Work::new();
    let (count, before) = (32_000, 200_000);
    let references = lines(count, |n| format!(".symver r{n}, name@V{n}\ncall r{n}"));
    let start = work.s("start", &format!(".globl _start\n_start: ret\n{references}"));
    let (mut strings, mut table) = (b"\0name\0".to_vec(), Vec::new());
    for n in 0..count {
        let next = if n + 1 < count { 28 } else { 0 };
        table.extend([1, (2 + n as u32) | (1 << 16), 0, 20, next].map(u32::to_le_bytes).concat());
        table.extend([strings.len() as u32, 0].map(u32::to_le_bytes).concat());
        strings.extend(format!("V{n}\0").bytes());
    }
    let version = |row| if row <= before { 1 } else { (row - before + 1) as u16 | 0x8000 };
    let names = [vec![2; before], vec![1; count]].concat();
    work.write("libx.so", library(&strings, names, VERDEF, table, version));
    within(&work, &[&start, "libx.so"]).ok();
    within(&work, &["-shared", &start, "libx.so"]).ok();
}

/// Names in libraries overlap in the same way as in objects.
#[test]
fn names_of_a_library_that_are_ends_of_one_another() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: ret\n");
    let strings = [&[0][..], &vec![b'x'; 300_000], &[0]].concat();
    work.write("libx.so", library(&strings, (1..300_000).collect(), VERDEF, Vec::new(), |_| 1));
    within(&work, &[&start, "libx.so"]).fails().says(&["names of its symbols overlap"]);
}

const VERDEF: u32 = 0x6fff_fffd;
const VERNEED: u32 = 0x6fff_fffe;

/// A shared library with a version table; its symbols have their names at these offsets in its strings.
fn library(
    strings: &[u8],
    names: Vec<u32>,
    kind: u32,
    table: Vec<u8>,
    version: impl Fn(usize) -> u16,
) -> Vec<u8> {
    let mut symbols = vec![0; 24];
    for name in &names {
        symbols.extend([*name, 0x12 | 5 << 16].map(u32::to_le_bytes).concat());
        symbols.extend([0x1000u64, 1].map(u64::to_le_bytes).concat());
    }
    let versions = (0..=names.len()).flat_map(|row| version(row).to_le_bytes()).collect();
    let section = |name, kind, link, entsize, data| {
        let link = Link::Index(link);
        RawSection { name, kind, flags: 2, link, align: 8, entsize, data, ..RawSection::default() }
    };
    let sections = [
        section(".dynsym", 11, 2, 24, symbols),
        section(".dynstr", 3, 0, 0, strings.to_vec()),
        section(".gnu.version", 0x6fff_ffff, 1, 2, versions),
        section(".gnu.version_x", kind, 2, 0, table),
        section(".text", 1, 0, 0, vec![0xc3; 16]),
    ];
    let mut file = object(&sections, &[]);
    file[16] = 3;
    file
}

/// The header of an x86-64 object: the offset of the section headers in bytes, their number, and the number
/// of the section with the names.
pub fn elf_header(headers: u64, count: u16, names: u16) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([1u16.to_le_bytes(), 62u16.to_le_bytes()].concat());
    file.extend(1u32.to_le_bytes());
    file.extend([0u64, 0, headers].map(u64::to_le_bytes).concat());
    file.extend(0u32.to_le_bytes());
    file.extend([64u16, 0, 0, 64, count, names].map(u16::to_le_bytes).concat());
    file
}

/// An object in which the names of symbols are the ends of one long name.
fn overlapping(count: usize, length: usize, info: u8, first_global: u32) -> Vec<u8> {
    let strings = [&[0][..], &vec![b'x'; length], &[0]].concat();
    named(&strings, 1..=count as u32, (info, 1), first_global)
}

/// An object whose symbols have their names at these offsets in its strings. All have the same `st_info` and
/// `st_shndx`.
pub fn named(
    strings: &[u8],
    offsets: impl Iterator<Item = u32>,
    (info, section): (u8, u16),
    first_global: u32,
) -> Vec<u8> {
    let names = [strings, b".symtab\0.strtab\0.text\0"].concat();
    let mut symbols = vec![0; 24];
    for offset in offsets {
        symbols.extend(offset.to_le_bytes());
        symbols.extend([info, 0]);
        symbols.extend(section.to_le_bytes());
        symbols.extend([0; 16]);
    }
    let at = strings.len() as u32;
    let (text, table) = (64u64, 72u64);
    let after = table + symbols.len() as u64;
    let headers = (after + names.len() as u64).next_multiple_of(8);
    let section =
        |name: u32, kind: u32, flags: u64, offset: u64, size: u64, link: u32, info: u32, entry: u64| {
            let mut header = [name.to_le_bytes(), kind.to_le_bytes()].concat();
            for word in [flags, 0, offset, size] {
                header.extend(word.to_le_bytes());
            }
            header.extend([link.to_le_bytes(), info.to_le_bytes()].concat());
            header.extend([1u64.to_le_bytes(), entry.to_le_bytes()].concat());
            header
        };
    let mut file = elf_header(headers, 4, 3);
    file.extend([0xc3; 8]);
    file.extend(symbols);
    file.extend(&names);
    file.resize(headers as usize, 0);
    file.extend([0; 64]);
    file.extend(section(at + 16, 1, 6, text, 8, 0, 0, 0));
    file.extend(section(at, 2, 0, table, after - table, 3, first_global, 24));
    file.extend(section(at + 8, 3, 0, after, names.len() as u64, 0, 0, 0));
    file
}

/// Any number of segments in a core file may have the same bytes, which are in the file once. Notes are read
/// once.
#[test]
fn segments_of_a_core_file_that_hold_the_same_bytes() {
    let work = Work::new();
    let count = 20_000;
    for (kind, says) in [(1, "no NT_PRSTATUS note"), (4, "note segments overlap")] {
        work.write("core", core_of_equal_segments(count, kind));
        let script = "ulimit -c 0; ulimit -v 1300000; ulimit -t 60; exec \"$@\"";
        let words = ["-c", script, "sh", built::sframe(), "unwind", "--core", "core"];
        let outcome = work.command("sh", &words);
        assert_eq!(outcome.code, Some(2), "{outcome}");
        outcome.says(&[says]);
    }
}

/// A core file whose segments all have the same kind, and all contain the registers of the same threads.
fn core_of_equal_segments(count: u16, kind: u32) -> Vec<u8> {
    let mut notes = Vec::new();
    for _ in 0..1000 {
        let registers = [0; 112 + 27 * 8];
        notes.extend([5, registers.len() as u32, 1].map(u32::to_le_bytes).concat());
        notes.extend(b"CORE\0\0\0\0");
        notes.extend(registers);
    }
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([4u16, 62].map(u16::to_le_bytes).concat());
    file.extend(1u32.to_le_bytes());
    file.extend([0u64, 64, 0].map(u64::to_le_bytes).concat());
    file.extend(0u32.to_le_bytes());
    file.extend([64u16, 56, count, 64, 0, 0].map(u16::to_le_bytes).concat());
    let (offset, size) = (64 + 56 * u64::from(count), notes.len() as u64);
    for number in 0..u64::from(count) {
        file.extend([kind, 4].map(u32::to_le_bytes).concat());
        file.extend([offset, number << 32, 0, size, size, 4].map(u64::to_le_bytes).concat());
    }
    file.extend(notes);
    file
}

/// Each section describes the next one (`SHF_LINK_ORDER`). When a script discards the last one, all go.
#[test]
fn sections_that_describe_each_other_in_a_row() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: ret\n");
    work.write("row", sections(60_000, Tie::Row));
    work.write("script.ld", "SECTIONS { /DISCARD/ : { *(.x0) } .text : { *(.text) } }");
    within(&work, &["-T", "script.ld", &start, "row"]).ok();
}

/// A group may have any number of members. With `-r` each becomes an output section.
#[test]
fn members_of_one_group() {
    let work = Work::new();
    work.write("group", sections(160_000, Tie::Group));
    within(&work, &["-r", "group"]).ok();
}

/// A section is in at most one group. Here each section is in all groups.
#[test]
fn groups_that_all_hold_all_sections() {
    let work = Work::new();
    let count = 1500;
    let member = RawSection { name: ".x", kind: 1, flags: 0x202, data: vec![0; 8], ..RawSection::default() };
    let data = words(&(0..=count).collect::<Vec<_>>());
    let group = RawSection { name: ".group", kind: 17, info: 1, entsize: 4, data, ..RawSection::default() };
    let all = [vec![member; count as usize], vec![group; count as usize]].concat();
    work.write("groups", object(&all, &[RawSymbol { name: "signature", info: 0x10, section: 0, value: 0 }]));
    for options in [&["groups"][..], &["-r", "groups"]] {
        let found = "section group [1502]: member 1 (.x) is already a member of group [1501]";
        within(&work, options).fails().says(&[found, "more errors"]);
    }
}

/// What connects the sections of an object.
#[derive(PartialEq)]
enum Tie {
    Row,
    Group,
}

/// An object with this many sections `.x`. In a chain, the last one is `.x0`, an ordinary section.
fn sections(count: u32, tie: Tie) -> Vec<u8> {
    const NAMES: &[u8] = b"\0.x\0.x0\0.group\0.symtab\0.strtab\0signature\0";
    let (symbols, strings_row) = (2 + count, 3 + count);
    let group: Vec<u8> =
        std::iter::once(1).chain((0..count).map(|row| row + 2)).flat_map(u32::to_le_bytes).collect();
    let (data, groups) = (64u64, 72u64);
    let table = groups + (group.len() as u64).next_multiple_of(8);
    let strings = table + 48;
    let headers = (strings + NAMES.len() as u64).next_multiple_of(8);
    let header =
        |name: u32, kind: u32, flags: u64, offset: u64, size: u64, link: u32, info: u32, entry: u64| {
            let mut bytes = [name.to_le_bytes(), kind.to_le_bytes()].concat();
            bytes.extend([flags, 0, offset, size].map(u64::to_le_bytes).concat());
            bytes.extend([link.to_le_bytes(), info.to_le_bytes()].concat());
            bytes.extend([1u64.to_le_bytes(), entry.to_le_bytes()].concat());
            bytes
        };
    let mut file = elf_header(headers, 0, 0xffff);
    file.extend([0xc3; 8]);
    file.extend(group);
    file.resize(table as usize, 0);
    file.extend([0; 24]);
    file.extend(31u32.to_le_bytes());
    file.extend([0x10, 0]);
    file.extend([0; 18]);
    file.extend(NAMES);
    file.resize(headers as usize, 0);
    file.extend(header(0, 0, 0, 0, u64::from(strings_row + 1), strings_row, 0, 0));
    let group_size = 4 * u64::from(count) + 4;
    let in_groups = tie == Tie::Group;
    let (kind, size) = if in_groups { (17, group_size) } else { (1, 8) };
    file.extend(header(8, kind, 0, groups, size, symbols, 1, 4));
    for row in 0..count {
        let last = row + 1 == count;
        let (flags, link) = match tie {
            Tie::Group => (0x202, 0),
            Tie::Row if last => (2, 0),
            Tie::Row => (0x82, row + 3),
        };
        let name = if last && tie == Tie::Row { 4 } else { 1 };
        file.extend(header(name, 1, flags, data, 8, link, 0, 0));
    }
    file.extend(header(15, 2, 0, table, 48, strings_row, 1, 24));
    file.extend(header(23, 3, 0, strings, NAMES.len() as u64, 0, 0, 0));
    file
}

/// Two objects with this many equal functions, each in its own group, and a function that keeps the `.sframe`
/// that all of them share.
fn equal_functions(work: &Work, count: usize) -> [String; 2] {
    let text = lines(count, |n| {
        format!(".section .text.f{n},\"axG\",@progbits,f{n},comdat\n.weak f{n}\nf{n}:\n.Lf{n}: ret")
    });
    let all = count + 1;
    let entries = lines(all, |n| format!(".8byte .Lf{n}-.\n.4byte 1,{}", n * 7));
    let rows = lines(all, |_| ".2byte 1\n.byte 0,0,0,0,0".to_owned());
    let source = format!(
        "{text}.section .text.own,\"ax\"\n.Lf{count}: ret\n.section .sframe,\"a\",@0x6ffffff4\n.balign 8\n\
         .2byte 0xdee2\n.byte 3,4,3,0,0xf8,0\n.4byte {all},{all},{},0,{}\n{entries}{rows}",
        all * 7,
        all * 16
    );
    ["first", "second"].map(|name| work.s(name, &source))
}

#[test]
fn references_to_discarded_sections_without_number() {
    let work = Work::new();
    let [first, second] = equal_functions(&work, 16_000);
    let objects = ["-e", "0", &first, &second];
    let link = |options: &[&str]| within(&work, &[options, &objects].concat());
    let lines = |outcome: &Outcome| outcome.stderr.lines().count();
    let warned =
        link(&["-r"]).ok().says(&["discarded section: .text.f0\n", "15980 more warnings", "--sframe-index"]);
    assert!(lines(&warned) < 250, "{} lines", lines(&warned));
    let failed =
        link(&[]).fails().says(&["discarded section: .text.f0\n", "15980 more errors", "--sframe-split"]);
    assert!(lines(&failed) < 250, "{} lines", lines(&failed));
    let warned = link(&["-z", "sframe-violation=warning"]).ok().says(&["15980 more warnings"]);
    assert!(lines(&warned) < 250, "{} lines", lines(&warned));
    link(&["-r", "-w"]).quiet();
    let all = link(&["-r", "--error-limit=0"]).ok();
    assert_eq!(all.stderr.matches("discarded section: ").count(), 16_000);
    let told = link(&["-r", "--explain-discarded"]).ok();
    assert_eq!(told.stdout.matches("prevails: .text.f").count(), 16_000);
}
