//! `--sframe-from-eh-frame`: functions without SFrame get rows that are derived from their `.eh_frame`.

use crate::support::sframe::{PCREL, SORTED, blobs, output_blobs};
use crate::support::{Elf, Machine, Work, eh_frame, tools};
use crate::{need, on_every_machine};

const SOURCE: &str = "
#include <cstdio>
#include <map>
#include <string>
#include <stdexcept>
inline int shared(std::map<std::string, int> &m) { return m.at(\"b\") + int(m.size()); }
int other(int x) { std::map<std::string, int> m; m[\"b\"] = x; return shared(m); }
int unused(int x) { std::map<std::string, int> m; m[\"c\"] = x; return shared(m) + 1; }
";
const MAIN: &str = "
int main() {
    std::map<std::string, int> m;
    try { shared(m); } catch (std::exception &e) { std::puts(e.what()); }
    std::printf(\"%d\\n\", outside(1));
}
";
const OUTPUT: &str = "map::at\n2\n";
const MODES: [&str; 3] = ["--sframe=concat", "--sframe=merge", "--sframe-index"];
const OUTPUTS: [&[&str]; 5] = [
    &["-no-pie"],
    &["-pie", "-Wl,--gc-sections"],
    &["-static"],
    &["-static-pie"],
    &["-static", "-Wl,--gc-sections"],
];

/// A program of two objects: `main.o` has its own frames, if an assembler can write them, and `outside.o` has
/// none.
fn program(work: &Work) -> Option<[String; 2]> {
    let assembler = tools::assembler(3).ok()?;
    work.write("main.cc", format!("{SOURCE}int outside(int);\n{MAIN}"));
    let words = ["-S", "-O1", "-fPIC", "-ffunction-sections", "-o", "main.s", "main.cc"];
    work.command("g++", &words).quiet();
    work.command(assembler, &["--gsframe", "-o", "main.o", "main.s"]).quiet();
    let text = SOURCE.replace("int other", "int outside").replace("int unused", "int idle");
    let outside = work.cc("outside", &text, &["-fPIC", "-ffunction-sections"]);
    Some(["main.o".to_owned(), outside])
}

/// A PLT is no input. Only `--sframe-index` describes it, and `.eh_frame` must not do so here.
const INPUTS_ONLY: &str = "--no-ld-generated-unwind-info";

/// Checks that no row is wrong, and that every row of `.eh_frame` that SFrame can express is there.
#[track_caller]
fn check_all_is_described(work: &Work, file: &str) {
    let verified = work.verified(file);
    assert!(verified.contains(" 0 wrong") && verified.contains("0 errors, 0 warnings"), "{verified}");
    let unexpected: Vec<&str> = verified
        .lines()
        .filter(|line| {
            line.contains("not covered: ") && !line.contains("stack pointer with a rule of its own")
        })
        .collect();
    assert!(unexpected.is_empty(), "{verified}");
}

/// The section with the linker's own blobs, and the blobs.
fn own_blobs(elf: &Elf, mode: &str) -> Vec<crate::support::sframe::Blob> {
    blobs(elf.section(if mode == "--sframe-index" { ".sframe_idx" } else { ".sframe" }))
}

#[test]
fn every_function_of_every_input_is_covered() {
    let work = Work::new();
    let objects = program(&work);
    let [main, outside] = need!(objects.ok_or("no assembler that emits SFrame V3"));
    for mode in MODES {
        for which in ["missing", "all"] {
            // `all` runs the same code as `missing`, so two kinds of output are enough.
            let outputs = if which == "all" { &OUTPUTS[1..3] } else { &OUTPUTS[..] };
            for options in outputs {
                let switches =
                    format!("-Wl,{mode},--sframe-split,--sframe-from-eh-frame={which},{INPUTS_ONLY}");
                let mut args = vec!["-o", "program", &switches, &main, &outside];
                args.extend(*options);
                work.gxx(&args).quiet();
                assert_eq!(work.run("program"), OUTPUT, "{mode} {which} {options:?}");
                check_all_is_described(&work, "program");
                let all = own_blobs(&work.elf("program"), mode);
                let single = mode != "--sframe=concat" || which == "all";
                assert_eq!(all.len() == 1, single, "{mode} {which} {options:?}");
                let derived = all.last().unwrap();
                assert_eq!(derived.flags & SORTED != 0, single);
                assert!(derived.rows.is_sorted_by_key(|row| row.start));
                assert!(derived.flags & PCREL != 0 && derived.version == 3);
                let mut starts: Vec<u64> = all.iter().flat_map(|b| &b.rows).map(|row| row.start).collect();
                starts.sort_unstable();
                assert!(starts.windows(2).all(|pair| pair[0] < pair[1]), "no function twice");
            }
        }
    }
}

#[test]
fn shared_libraries_get_rows_for_every_function() {
    let work = Work::new();
    let objects = program(&work);
    let [main, outside] = need!(objects.ok_or("no assembler that emits SFrame V3"));
    for mode in MODES {
        let switches = format!("-Wl,{mode},--sframe-split,--sframe-from-eh-frame=missing,{INPUTS_ONLY}");
        work.gxx(&["-shared", "-o", "liboutside.so", &switches, &outside]).quiet();
        work.gxx(&["-o", "program", &switches, &main, "liboutside.so"]).quiet();
        assert_eq!(work.run("program"), OUTPUT, "{mode}");
        for file in ["liboutside.so", "program"] {
            check_all_is_described(&work, file);
        }
    }
}

/// Derived rows must equal those that the assembler writes.
#[test]
fn derived_rows_are_the_assemblers_rows() {
    let work = Work::new();
    let objects = program(&work);
    let [main, _] = need!(objects.ok_or("no assembler that emits SFrame V3"));
    let link = |out: &str, more: &[&str]| {
        let mut args =
            vec!["-o", out, "-e", "main", "--unresolved-symbols=ignore-all", "--sframe-index", &main];
        args.extend(more);
        work.ld(&args).ok();
        work.functions(out)
    };
    assert_eq!(link("read", &[]), link("derived", &["--sframe-from-eh-frame=all"]));
    assert_eq!(link("both", &["--sframe-from-eh-frame=missing"]), link("read", &[]));
    assert!(work.read("both") == work.read("read"), "nothing was missing");
}

#[test]
fn relocatable_output_has_relocations() {
    let work = Work::new();
    let objects = program(&work);
    let [main, outside] = need!(objects.ok_or("no assembler that emits SFrame V3"));
    for mode in MODES {
        for which in ["missing", "all"] {
            let derive = format!("--sframe-from-eh-frame={which}");
            work.ld(&["-r", mode, &derive, "--sframe-split", "-o", "all.o", &main, &outside]).quiet();
            check_all_is_described(&work, "all.o");
            for later in MODES {
                // A blob with functions of several groups is one section for all of them.
                let switches = format!("-Wl,{later},--sframe-split");
                work.gxx(&["-o", "program", &switches, "all.o"]).quiet();
                assert_eq!(work.run("program"), OUTPUT, "{mode} {which} {later}");
                let again = format!("{switches},--sframe-from-eh-frame=missing,{INPUTS_ONLY}");
                work.gxx(&["-o", "again", &again, "all.o"]).quiet();
                check_all_is_described(&work, "again");
            }
        }
    }
}

/// Derived rows come after all inputs, including inputs that are linked to their text.
#[test]
fn the_derived_blob_comes_last() {
    let work = Work::new();
    let frames = crate::support::sframe::per_text_function("f", "ret", false);
    let cfi = |name: &str| format!(".globl {name}\n{name}: .cfi_startproc\nnop\nret\n.cfi_endproc\n");
    let first = work.s("first", &format!("{}{frames}", cfi("_start")));
    let second = work.s("second", &cfi("g"));
    work.ld(&["-o", "program", "--sframe-from-eh-frame=missing", &first, &second]).quiet();
    let elf = work.elf("program");
    let all = output_blobs(&elf);
    let starts: Vec<Vec<u64>> =
        all.iter().map(|blob| blob.rows.iter().map(|row| row.start).collect()).collect();
    let symbol = |name: &str| elf.symbol(name).value;
    assert_eq!(starts, [vec![symbol("f")], vec![symbol("_start"), symbol("g")]]);
    work.ld(&["-o", "program", "--sframe=discard", "--sframe-from-eh-frame=missing", &first, &second])
        .quiet();
    assert!(work.elf("program").find(".sframe").is_none());
    let emitted = ["-o", "program", "-q", "--sframe-from-eh-frame=missing", &first, &second];
    work.ld(&emitted).quiet();
    assert_eq!(work.elf("program").relocations_in(work.elf("program").section(".rela.sframe")).len(), 3);
    work.ld(&["-o", "none", "--sframe-from-eh-frame=all", &work.s("bare", ".globl _start\n_start: ret\n")])
        .quiet();
    assert!(work.elf("none").find(".sframe").is_none(), "no function, no section");
}

/// Rows that V2 cannot express, and rows that no version can express.
#[test]
fn functions_that_cannot_be_expressed_are_listed() {
    let work = Work::new();
    let source = ".globl _start\n_start: .cfi_startproc\n.cfi_undefined rip\nnop\nret\n.cfi_endproc\n\
        .globl odd\nodd: .cfi_startproc\nnop\n.cfi_escape 0x0f,1,0x57\nret\n.cfi_endproc\n";
    let object = work.s("a", source);
    // The first byte of `odd` has a row in both versions.
    for (version, rows) in [("3", 2), ("2", 1)] {
        let outcome = work
            .ld(&[
                "-o",
                "program",
                "--sframe-from-eh-frame=all",
                "--sframe-version",
                version,
                "--print-sframe",
                &object,
            ])
            .quiet();
        let elf = work.elf("program");
        let found: usize =
            elf.find(".sframe").map_or(0, |section| blobs(section).iter().map(|b| b.rows.len()).sum());
        assert_eq!(found, rows, "V{version}");
        assert!(outcome.stdout.contains("the CFA is an expression"), "{outcome}");
    }
}

/// If SFrame cannot express a row, only that row is lost, and one line names the function.
#[test]
fn code_around_rows_without_a_form_is_described() {
    let work = Work::new();
    let source = ".globl _start, lost\n.type _start, %function\n.type lost, %function\n\
        _start: .cfi_startproc\nnop\n.cfi_remember_state\n.cfi_escape 0x0f,2,0x30,0x30\nnop\n.cfi_restore_state\nnop\n\
        ret\n.cfi_endproc\n.size _start, .-_start\n\
        lost: .cfi_startproc\nnop\n.cfi_undefined rbp\nret\n.cfi_endproc\n.size lost, .-lost\n";
    let object = work.s("a", source);
    let line = "sframe: 2 functions without derived rows, wholly or in part: _start, lost (--print-sframe says why)\n";
    for mode in MODES {
        let outcome = work.ld(&["-o", "program", mode, "--sframe-from-eh-frame=all", &object]).quiet();
        assert_eq!(outcome.stdout, line, "{mode}");
        let elf = work.elf("program");
        let [start, lost] = ["_start", "lost"].map(|name| elf.symbol(name).value);
        let rows: Vec<(u64, u32)> = own_blobs(&elf, mode)
            .iter()
            .flat_map(|blob| &blob.rows)
            .map(|row| (row.start, row.size))
            .collect();
        assert_eq!(rows, [(start, 1), (start + 2, 2), (lost, 1)], "{mode}");
        let verified = work.verified("program");
        assert!(verified.contains(" 0 wrong") && !verified.contains("left out though"), "{verified}");
        let printed = work
            .ld(&["-o", "program", mode, "--sframe-from-eh-frame=all", "--print-sframe", &object])
            .quiet();
        assert!(!printed.stdout.contains(line), "{printed}");
    }
    // With -r, each part has its own relocation, and the next link reads the parts as they are.
    work.ld(&["-r", "-o", "r.o", "--sframe-index", "--sframe-from-eh-frame=all", &object]).ok();
    work.ld(&["-o", "program", "--sframe-index", "--sframe-from-eh-frame=missing", "r.o"]).ok();
    let elf = work.elf("program");
    assert_eq!(own_blobs(&elf, "--sframe-index").iter().map(|blob| blob.rows.len()).sum::<usize>(), 3);
    // The command does the same.
    work.sframe(&["derive", "-o", "derived.o", &object]).ok();
    work.ld(&["-o", "program", "--sframe-index", "derived.o"]).quiet();
    let again = work.elf("program");
    let starts = |elf: &Elf| -> Vec<u64> {
        own_blobs(elf, "--sframe-index").iter().flat_map(|blob| &blob.rows).map(|row| row.start).collect()
    };
    assert_eq!(starts(&again), starts(&elf));
}

/// With `-r`, the terminator of a start-up file comes after the records of all files, wherever that file
/// stands. Inside a section, it becomes part of the record before it. So every reader finds all records.
fn terminators_come_last_in_relocatable_output(machine: &'static Machine) {
    let work = Work::on(machine);
    let [first, second] =
        ["first", "second"].map(|name| work.c(name, &format!("int {name}(void) {{ return 1; }}"), &[]));
    let end = work.s("end", ".section .eh_frame,\"a\"\n.p2align 2\n.long 0\n");
    work.ld(&["-r", "-o", "ended.o", &first, &end]).quiet();
    let orders: [&[&str]; 5] = [
        &[&first, &end, &second],
        &[&end, &first, &end, &second],
        &["ended.o", &second],
        &["ended.o", &end, &second, &end],
        &[&second, "ended.o"],
    ];
    for order in orders {
        work.ld(&[&["-r", "-o", "all.o"], order].concat()).quiet();
        let object = work.elf_unchecked("all.o");
        let section = object.section(".eh_frame");
        let (_, fdes) = eh_frame::read(section);
        assert_eq!(fdes.len(), 2, "{order:?}: {:x?}", section.data);
        assert!(section.data.ends_with(&[0; 4]), "{order:?}");
        work.ld(&[
            "-shared",
            "--eh-frame-hdr",
            "-o",
            "all.so",
            "all.o",
            "--sframe-index",
            "--sframe-from-eh-frame=all",
        ])
        .quiet();
        let elf = work.elf_unchecked("all.so");
        assert_eq!(eh_frame::check(&elf).len(), 2, "{order:?}");
        assert!(elf.section(".eh_frame").data.ends_with(&[0; 4]), "{order:?}");
    }
}

/// Other linkers write objects with terminators between the records.
#[test]
fn functions_behind_a_terminator_are_derived() {
    let work = Work::new();
    let function = |name: &str| {
        format!(
            ".globl {name}\n{name}: .cfi_startproc\npush %rbx\n.cfi_adjust_cfa_offset 8\nret\n.cfi_endproc\n"
        )
    };
    // GNU as writes its records after the words in the source.
    let before = work.s("before", &function("before"));
    let behind = work.s("behind", &format!("{}.section .eh_frame\n.long 0, 0\n", function("behind")));
    work.ld(&["-shared", "-o", "all.so", "--sframe-index", "--sframe-from-eh-frame=all", &before, &behind])
        .quiet();
    let elf = work.elf("all.so");
    let rows = own_blobs(&elf, "--sframe-index");
    assert!(["before", "behind"].iter().all(|name| rows[0].row_at(elf.symbol(name).value).is_some()));
    check_all_is_described(&work, "all.so");
}

on_every_machine!(terminators_come_last_in_relocatable_output);

#[test]
fn threads_make_no_difference() {
    let work = Work::new();
    let header = SOURCE.replace("int other", "int otherN").replace("int unused", "int unusedN");
    let mut objects: Vec<String> = (0..8)
        .map(|n| work.cc(&format!("f{n}"), &header.replace('N', &n.to_string()), &["-ffunction-sections"]))
        .collect();
    objects.push(work.c("main", "int main(void) { return 0; }", &[]));
    for mode in MODES {
        let mut expected: Option<Vec<u8>> = None;
        for threads in ["1", "2", "7"] {
            let switches = format!("-Wl,{mode},--sframe-from-eh-frame=all,--threads={threads}");
            let mut args = vec!["-static", "-o", "program", &switches];
            args.extend(objects.iter().map(String::as_str));
            work.gxx(&args).quiet();
            let got = work.read("program");
            assert!(*expected.get_or_insert_with(|| got.clone()) == got, "{mode} {threads}");
        }
    }
}

/// Every byte of the call frame information is damaged in turn. Rows must be right or missing, and nothing
/// may crash.
#[test]
fn damaged_call_frame_information_gives_right_rows_or_none() {
    let work = Work::new();
    let object = work.fixture("v3-gas2.47/inl.x86_64.o");
    let elf = work.elf_unchecked(&object);
    let section = elf.section(".eh_frame");
    let (start, size) = (section.offset as usize, section.size as usize);
    for at in (start..start + size).step_by(3) {
        let mut bytes = work.read(&object);
        bytes[at] ^= 0xff;
        work.write("damaged.o", &bytes);
        let outcome =
            work.ld(&["-r", "--sframe-from-eh-frame=all", "--print-sframe", "-o", "out.o", "damaged.o"]);
        let outcome = outcome.no_crash();
        if outcome.code == Some(0) {
            let dump = work.sframe(&["dump", "out.o"]);
            let none = dump.stderr.contains("no SFrame section");
            let told = outcome.stderr.contains("eh_frame") || outcome.stdout.contains("not expressible");
            assert!(dump.code == Some(0) || (none && told), "{at}: {dump}{outcome}");
        }
    }
}
