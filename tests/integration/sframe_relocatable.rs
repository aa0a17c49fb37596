//! `.sframe` with `-r`: each section stays by itself, with its group, link order, bytes and relocations.

use crate::need;
use crate::support::elf::*;
use crate::support::machine::X86_64;
use crate::support::sframe::{ASSEMBLED, output_blobs, per_text_function};
use crate::support::{Work, tools};

#[test]
fn every_input_section_stays_its_own() {
    let work = Work::new();
    let a = work.s(
        "a",
        &format!(
            ".globl _start\n_start: ret\n{}{}",
            per_text_function("f", "ret", true),
            per_text_function("g", "ret", false)
        ),
    );
    let b = work
        .s("b", &format!("{}{}", per_text_function("f", "ret", true), per_text_function("h", "ret", false)));
    work.ld(&["-r", "-o", "merged.o", &a, &b]).quiet();
    let elf = work.elf_unchecked("merged.o");
    let frames = elf.sections_named(".sframe");
    assert_eq!(frames.len(), 3);
    let mut targets: Vec<&str> = frames.iter().map(|s| elf.sections[s.link as usize].name.as_str()).collect();
    targets.sort_unstable();
    assert_eq!(targets, [".text.f", ".text.g", ".text.h"]);
    for section in &frames {
        assert_eq!(section.kind, SHT_GNU_SFRAME);
        assert!(section.flags & SHF_LINK_ORDER != 0 && section.flags & SHF_ALLOC != 0);
        assert_eq!(elf.relocations_for(section.index).len(), 1);
    }
    let group = elf.group("f");
    let mut names = elf.member_names(&group);
    names.sort_unstable();
    assert_eq!(names, [".rela.sframe", ".sframe", ".text.f"]);
    work.ld(&["-o", "direct", &a, &b]).quiet();
    work.ld(&["-o", "through", "merged.o"]).quiet();
    let bytes = |name: &str| work.elf(name).section(".sframe").data.clone();
    assert_eq!(bytes("direct"), bytes("through"));
    work.ld(&["-r", "-o", "twice.o", "merged.o"]).quiet();
    work.ld(&["-o", "through", "twice.o"]).quiet();
    assert_eq!(bytes("direct"), bytes("through"));
}

#[test]
fn bytes_and_relocations_stay_as_they_are() {
    for (version, machine) in ASSEMBLED {
        let work = Work::new();
        let a = work.fixture(&format!("{version}/demo.{machine}.o"));
        let b = work.fixture(&format!("{version}/main.{machine}.o"));
        work.ld(&["-r", "-o", "merged.o", &a, &b]).quiet();
        let merged = work.elf_unchecked("merged.o");
        let frames = merged.sections_named(".sframe");
        assert_eq!(frames.len(), 2, "{version}");
        for (section, name) in frames.iter().zip([&a, &b]) {
            let input = work.elf_unchecked(name);
            let original = input.section(".sframe");
            assert_eq!(section.data, original.data, "{version}");
            assert_eq!(section.kind, SHT_GNU_SFRAME, "{version}: the output type is always the same");
            let places = |elf: &Elf, index| {
                elf.relocations_for(index).iter().map(|r| (r.offset, r.kind)).collect::<Vec<_>>()
            };
            assert_eq!(places(&merged, section.index), places(&input, original.index), "{version}");
        }
        work.ld(&["-o", "program", "merged.o", "--defsym=puts=_start"]).quiet();
        let elf = work.elf("program");
        let all = output_blobs(&elf);
        for name in ["_start", "many", "elsewhere", "ext"] {
            let address = elf.symbol(name).value;
            assert!(all.iter().any(|b| b.row_at(address).is_some()), "{version}: {name}");
        }
    }
}

#[test]
fn a_single_section_round_trips() {
    let work = Work::new();
    for mode in ["linkorder", "comdat", "comdatlo", "multi", "multiname", "share", "unsorted"] {
        let object = work.fixture(&format!("crafted-v3/{mode}.x86_64.o"));
        work.ld(&["-r", "-o", "merged.o", &object]).quiet();
        work.ld(&["-o", "direct", &object]).quiet();
        work.ld(&["-o", "through", "merged.o"]).quiet();
        let (direct, through) = (work.elf("direct"), work.elf("through"));
        let rows = |elf: &Elf| {
            let mut rows: Vec<_> =
                output_blobs(elf).into_iter().flat_map(|b| b.rows).map(|r| (r.start, r.size)).collect();
            rows.sort_unstable();
            rows
        };
        assert_eq!(rows(&direct), rows(&through), "{mode}");
    }
}

#[test]
fn frames_can_be_dropped_or_taken_out_of_memory() {
    let work = Work::new();
    let a = work.s("a", &per_text_function("f", "ret", true));
    work.ld(&["-r", "-o", "merged.o", &a, "--discard-sframe"]).quiet();
    let elf = work.elf("merged.o");
    assert!(elf.find(".sframe").is_none() && elf.find(".rela.sframe").is_none());
    assert_eq!(elf.member_names(&elf.group("f")), [".text.f"]);
    work.ld(&["-r", "-o", "merged.o", &a, "-z", "nosframe-alloc"]).quiet();
    assert_eq!(work.elf_unchecked("merged.o").section(".sframe").flags & SHF_ALLOC, 0);
}

#[test]
fn statistics_count_the_inputs_taken() {
    need!(tools::own_linker());
    let work = Work::new();
    let a = work.s(
        "a",
        &format!(
            ".globl _start\n_start: ret\n{}{}",
            per_text_function("f", "ret", true),
            per_text_function("g", "ret", false)
        ),
    );
    let b = work.s("b", &per_text_function("f", "ret", true));
    let json = work.ld(&["-o", "program", &a, &b, "--stats=json"]).ok().output();
    assert!(json.contains("\"sframe\""), "{json}");
    let report = work.ld(&["-o", "program", &a, &b, "--print-sframe"]).ok().output();
    assert!(report.contains("a.o") && report.contains(".text.g"), "{report}");
    assert!(report.contains("b.o"), "the dropped input is named too: {report}");
}

/// For shared rows, GNU ld reserves room once, but writes them once for each function.
#[test]
fn gnu_ld_links_outputs_of_merge_mode() {
    let newest = X86_64.gnu_lds().pop().filter(|ld| ld.version >= (2, 47));
    let Some(gnu) = newest else {
        return tools::skip("sframe_relocatable::gnu_ld_links_what_merge_mode_made", "no GNU ld 2.47");
    };
    let work = Work::new();
    let demo = work.fixture("v3-gas2.47/demo.x86_64.o");
    let main = work.fixture("v3-gas2.47/main.x86_64.o");
    let function = |n: u32| {
        let body = ".cfi_startproc\npush %rbx\n.cfi_def_cfa_offset 16\npop %rbx\n.cfi_def_cfa_offset 8\nret\n.cfi_endproc";
        format!(".globl f{n}\nf{n}:\n{body}\n")
    };
    let alike: String = (0..50).map(function).collect();
    let source = work.write("alike.s", format!("{alike}.globl puts\nputs: ret\n"));
    let assembler = need!(tools::assembler(3));
    work.command(assembler, &["--gsframe", "-o", "alike.o", &source]).ok();
    work.ld(&["-r", "--sframe=merge", "-o", "merged.o", &demo, &main, "alike.o"]).ok();
    let merged = work.elf_unchecked("merged.o");
    let rows = output_blobs(&merged)[0].rows.len();
    work.command(&gnu.path, &["-o", "program", "merged.o"]).quiet();
    let elf = work.elf_unchecked("program");
    assert_eq!(output_blobs(&elf)[0].rows.len(), rows);
    let section = elf.section(".sframe");
    let behind =
        elf.sections.iter().filter(|other| other.flags & SHF_ALLOC != 0 && other.addr > section.addr);
    assert!(behind.map(|other| other.addr).all(|start| start >= section.end()), "nothing overlaps it");
    let verified = work.sframe(&["verify", "program"]).ok();
    assert!(verified.stdout.contains(" 0 errors") && verified.stdout.contains(" 0 wrong"), "{verified}");
}
