//! Orders for a quick start and for compression (`--bp-startup-sort`, `--bp-compression-sort`).

use crate::rel::code;
use crate::support::Work;
use crate::support::elf_write::{RawSection, RawSymbol, object};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::collections::BTreeSet;
use std::io::Write;

const PAGE: u64 = 0x1000;

/// Bytes without pattern that depend on a seed.
fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// The size of a program's `.text`, compressed by zlib.
fn compressed(work: &Work, program: &str) -> usize {
    let elf = work.elf(program);
    let text = elf.section(".text");
    let file = work.read(program);
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&file[text.offset as usize..][..text.size as usize]).unwrap();
    encoder.finish().unwrap().len()
}

#[test]
fn similar_sections_side_by_side_compress_better() {
    // 40 families of 10 functions, of which each differs in a fifth of its bytes. The next one of a family
    // lies 60 KiB away, which is too far for zlib.
    let function = |number: u64| {
        let bytes = [noise(number % 40 + 1, 1200), noise(1000 + number, 300)].concat();
        RawSection { data: bytes, ..code(".text.f") }
    };
    let sections: Vec<RawSection> = (0..400).map(function).collect();
    let symbols: Vec<RawSymbol> =
        (1..=400).map(|section| RawSymbol { name: "f", info: 2, section, value: 0 }).collect();
    let work = Work::new();
    work.write("families.o", object(&sections, &symbols));
    work.ld(&["-e0", "-o", "plain", "families.o"]).ok();
    for option in ["--bp-compression-sort=function", "--bp-compression-sort-section=.text.*"] {
        work.ld(&["-e0", "-o", "sorted", "families.o", option]).ok();
        let (plain, sorted) = (compressed(&work, "plain"), compressed(&work, "sorted"));
        assert!(sorted * 2 < plain, "{option}: {plain} bytes before, {sorted} after");
        work.ld(&["-e0", "-o", "again", "families.o", option, "--threads=1"]).ok();
        assert!(work.read("sorted") == work.read("again"), "{option}: threads make a difference");
    }
}

#[test]
fn a_start_touches_few_pages() {
    let mut source = String::from(".globl _start\n_start: nop\n");
    for number in 0..400 {
        source.push_str(&format!(".section .text.f{number},\"ax\"\nf{number}: .fill 1000, 1, 0x90\n"));
    }
    let work = Work::new();
    let object = work.s("functions", &source);
    // Two starts that call 20 functions each, 10 of them in both.
    let start = |first: usize| -> Vec<String> {
        (first..first + 20).map(|number| format!("f{}", number * 13 % 400)).collect()
    };
    let starts = [start(0), start(10)];
    let lines = starts.iter().map(|start| format!("1\n{}\n", start.join(",")));
    work.write("start", format!(":ir\n:temporal_prof_traces\n2\n2\n{}", lines.collect::<String>()));
    let pages = |options: &[&str]| -> Vec<usize> {
        work.ld(&[&["-o", "program", &object], options].concat()).quiet();
        let elf = work.elf("program");
        let touched = |name: &String| {
            let address = elf.symbol(name).value;
            [address / PAGE, (address + 999) / PAGE]
        };
        starts.iter().map(|start| start.iter().flat_map(touched).collect::<BTreeSet<_>>().len()).collect()
    };
    assert!(pages(&[]).iter().all(|&count| count >= 20));
    // 20 KiB are 5 pages, if the first one is not shared.
    let ordered = pages(&["--irpgo-profile=start", "--bp-startup-sort=function"]);
    assert!(ordered.iter().all(|&count| count <= 7), "{ordered:?}");
}

#[test]
fn ordered_programs_run() {
    let work = Work::new();
    let mut source = String::from("#include <stdio.h>\nstatic int seen;\n");
    for number in 0..60 {
        source.push_str(&format!(
            "int data{number} = {number};\nconst int fixed{number}[] = {{ {number}, {number} + 1 }};\n\
            __attribute__((noinline)) int f{number}(int x) {{ seen += data{number}; return x + fixed{number}[1]; }}\n"
        ));
    }
    source.push_str("int main(void) {\n int x = 0;\n");
    (0..60).for_each(|number| source.push_str(&format!(" x = f{number}(x);\n")));
    source.push_str(" printf(\"%d %d\\n\", x, seen);\n return 0;\n}\n");
    let object = work.c("main", &source, &["-O1", "-ffunction-sections", "-fdata-sections"]);
    work.write("start", ":ir\n:temporal_prof_traces\n1\n1\n1\nmain,f7,f3,f50,f21\n");
    let options = [
        "-Wl,--bp-compression-sort=both",
        "-Wl,--bp-compression-sort-section=*",
        "-Wl,--irpgo-profile=start,--bp-startup-sort=function,--bp-compression-sort-startup-functions",
    ];
    for option in options {
        work.gcc(&["-o", "program", &object, option]).ok();
        assert_eq!(work.run("program"), "1830 1770\n", "{option}");
        work.lint("program");
    }
}
