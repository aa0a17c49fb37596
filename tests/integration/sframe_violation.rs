//! `.sframe` in a kept section refers to a group that lost.

use crate::support::elf::*;
use crate::support::sframe::{output_blobs, per_text_function, v3_source};
use crate::support::{Outcome, Work};

const VERSIONS: [&str; 4] = ["v1-gas2.40", "v2-gas2.44", "v2e1-gas2.45", "v3-gas2.47"];
const MAIN: &str = "
int ext(int x) { return x + 1; }
int use_a(int); int use_b(int);
int main() { return use_a(1) - use_b(1); }
";

/// Two files that define the same COMDAT groups and have one `.sframe` each for all their text.
struct Monolithic {
    work: Work,
    main: String,
    inl: String,
    inl2: String,
}

impl Monolithic {
    fn new(version: &str) -> Self {
        let work = Work::new();
        let main = work.cc("main", MAIN, &[]);
        let inl = work.fixture(&format!("{version}/inl.x86_64.o"));
        let inl2 = work.fixture(&format!("{version}/inl2.x86_64.o"));
        Monolithic { work, main, inl, inl2 }
    }

    fn link(&self, options: &[&str]) -> Outcome {
        let mut args = vec!["-o", "program", &self.main, &self.inl, &self.inl2];
        args.extend(options);
        self.work.gxx(&args)
    }
}

/// Checks that the lines of help only name options that exist.
fn check_help(work: &Work, message: &str) {
    let help = work.ld(&["--help"]).ok().stdout;
    let mut named = 0;
    for line in message.lines().filter(|l| l.contains("help:")) {
        for word in line.split([' ', '`', '\'', '"', ',', '(', ')']).filter(|w| w.starts_with("--")) {
            let option = word.split(['=', '[']).next().unwrap_or(word).trim_end_matches(['.', ';', ':']);
            assert!(help.contains(option), "{option} is not in --help: {line}");
            named += 1;
        }
    }
    assert!(named > 0 || message.contains("-z sframe-violation=warning"), "{message}");
}

#[test]
fn a_monolithic_section_is_a_violation() {
    for version in VERSIONS {
        let case = Monolithic::new(version);
        let outcome = case.link(&[]).fails().says(&[
            "discarded section",
            ".text._Z13shared_inlinei",
            &case.inl,
            &case.inl2,
            "shared_inline(int)",
            ".sframe+0x",
            "-z sframe-violation=warning",
            "--sframe-split splits",
            "discard",
        ]);
        assert!(!case.work.exists("program"));
        check_help(&case.work, &outcome.stderr);
        let count = outcome.stderr.matches(": error: ").count();
        let losers = ["shared_inline(int)", "Base::f(int)", ".text._ZN4BaseD0Ev", ".text._ZN4BaseD2Ev"];
        for loser in losers {
            assert!(outcome.stderr.contains(loser), "{version}: {loser} {outcome}");
        }
        assert!(count >= losers.len(), "{version}: one message per discarded section: {outcome}");
    }
}

#[test]
fn the_message_gives_the_place_of_the_relocation() {
    let case = Monolithic::new("v3-gas2.47");
    let elf = case.work.elf_unchecked(&case.inl2);
    let section = elf.section(".sframe");
    let symbols = elf.symbols();
    let target = elf.section(".text._Z13shared_inlinei").index;
    let relocation = elf
        .relocations_for(section.index)
        .into_iter()
        .find(|r| symbols[r.symbol].section as usize == target)
        .unwrap();
    let place = format!("{}:(.sframe+{:#x})", case.inl2, relocation.offset);
    case.link(&[]).fails().says(&[&place]);
}

#[test]
fn as_a_warning_the_rows_are_dead() {
    for version in VERSIONS {
        for option in ["-Wl,-z,sframe-violation=warning", "-Wl,--noinhibit-exec"] {
            let case = Monolithic::new(version);
            case.link(&[option]).ok().says(&[
                "warning",
                "discarded section",
                ".text._Z13shared_inlinei",
                &case.inl2,
            ]);
            case.work.run("program");
            let elf = case.work.elf("program");
            let section = elf.section(".sframe");
            let all = output_blobs(&elf);
            assert_eq!(all.len(), 2);
            assert!(all[0].rows.iter().all(|r| r.size != 0), "{version}: the prevailing file's rows live");
            let dead: Vec<_> = all[1].rows.iter().filter(|r| r.size == 0).collect();
            assert!(!dead.is_empty() && dead.len() < all[1].rows.len(), "{version}: {all:x?}");
            for row in dead {
                assert!(
                    (section.addr..section.end()).contains(&row.start),
                    "{version}: {row:x?} matches no code"
                );
            }
            let use_b = elf.symbol("_Z5use_bi");
            assert!(all[1].row_at(use_b.value).is_some(), "{version}: live rows stay");
            let shared = elf.symbol("_Z13shared_inlinei").value;
            let rows = all.iter().flat_map(|b| &b.rows).filter(|r| r.start == shared).count();
            assert_eq!(rows, 1, "{version}: the kept copy is described once");
        }
    }
}

#[test]
fn fatal_warnings_make_it_an_error_again() {
    let case = Monolithic::new("v3-gas2.47");
    case.link(&["-Wl,-z,sframe-violation=warning", "-Wl,--fatal-warnings"]).fails();
    case.link(&["-Wl,-z,sframe-violation=warning", "-Wl,-z,sframe-violation=error"]).fails();
    case.link(&["-Wl,-z,sframe-violation=perhaps"]).no_crash().says(&["perhaps"]);
}

#[test]
fn dropping_frames_drops_the_violation() {
    let case = Monolithic::new("v2-gas2.44");
    for option in ["-Wl,--sframe=discard", "-Wl,--discard-sframe"] {
        case.link(&[option]).quiet();
        case.work.run("program");
    }
}

#[test]
fn collection_does_not_hide_it() {
    let case = Monolithic::new("v3-gas2.47");
    case.link(&["-Wl,--gc-sections"]).fails().says(&["discarded section", ".sframe"]);
}

#[test]
fn frames_in_the_group_are_none() {
    let work = Work::new();
    let a = work.s("a", &format!(".globl _start\n_start: ret\n{}", per_text_function("f", "ret", true)));
    let b = work.s("b", &per_text_function("f", "ret", true));
    work.ld(&["-o", "program", &a, &b]).quiet();
    assert_eq!(output_blobs(&work.elf("program")).len(), 1);
}

#[test]
fn an_ungrouped_section_linked_to_a_loser_is_one() {
    let work = Work::new();
    let function = ".section .text.f,\"axG\",@progbits,f,comdat\n.weak f\nf:\n.Lf: ret\n";
    let linked =
        format!("{function}{}", v3_source(".section .sframe,\"ao\",@0x6ffffff4,.text.f", ".Lf", "1"));
    let plain = format!("{function}{}", v3_source(".section .sframe,\"a\",@0x6ffffff4", ".Lf", "1"));
    for (name, source) in [("linked", linked), ("plain", plain)] {
        let a = work.s("a", &format!(".globl _start\n_start: ret\n{source}"));
        let b = work.s("b", &source);
        let outcome = work.ld(&["-o", "program", &a, &b]).fails();
        let outcome = outcome.says(&["discarded section", ".text.f", "b.o", "a.o", ".sframe"]);
        assert!(!outcome.stderr.contains("a.o:(.sframe"), "{name}: the prevailing file is right: {outcome}");
        work.ld(&["-o", "program", &a, &b, "-z", "sframe-violation=warning"]).ok().says(&["warning", "b.o"]);
        let elf = work.elf("program");
        let live: Vec<_> =
            output_blobs(&elf).into_iter().flat_map(|b| b.rows).filter(|r| r.size != 0).collect();
        assert_eq!(live.len(), 1, "{name}");
        assert_eq!(live[0].start, elf.symbol("f").value, "{name}");
    }
}

#[test]
fn a_global_symbol_is_no_violation() {
    let work = Work::new();
    let source = format!(
        ".section .text.f,\"axG\",@progbits,f,comdat\n.weak f\nf: ret\n{}",
        v3_source(".section .sframe,\"a\",@0x6ffffff4", "f", "1")
    );
    let a = work.s("a", &format!(".globl _start\n_start: ret\n{source}"));
    let b = work.s("b", &source);
    work.ld(&["-o", "program", &a, &b]).quiet();
    let elf = work.elf("program");
    let rows: Vec<u64> = output_blobs(&elf).into_iter().flat_map(|b| b.rows).map(|r| r.start).collect();
    let f = elf.symbol("f").value;
    assert_eq!(rows, [f, f], "both describe the kept copy");
}

#[test]
fn dead_rows_of_an_unknown_version_are_counted() {
    let work = Work::new();
    let source = format!(
        ".section .text.f,\"axG\",@progbits,f,comdat\n.weak f\nf:\n.Lf: ret\n{}",
        v3_source(".section .sframe,\"a\",@0x6ffffff4", ".Lf", "1").replace(".byte 3,4,3", ".byte 9,4,3")
    );
    let a = work.s("a", &format!(".globl _start\n_start: ret\n{source}"));
    let b = work.s("b", &source);
    work.ld(&["-o", "program", &a, &b, "-z", "sframe-violation=warning"])
        .ok()
        .says(&["warning", "b.o", ".sframe"]);
    let elf = work.elf_unchecked("program");
    let data = &elf.section(".sframe").data;
    assert_eq!(quad(data, 56 + 28), 0, "the relocated field becomes 0");
    assert_ne!(quad(data, 28), 0);
}

#[test]
fn other_sections_stay_errors_when_sframe_only_warns() {
    let work = Work::new();
    let source = ".section .text.f,\"axG\",@progbits,f,comdat\n.weak f\nf:\n.Lf: ret\n.data\n.quad .Lf\n";
    let a = work.s("a", &format!(".globl _start\n_start: ret\n{source}"));
    let b = work.s("b", source);
    work.ld(&["-o", "program", &a, &b, "-z", "sframe-violation=warning"]).fails().says(&["b.o", ".data"]);
}

#[test]
fn relocatable_links_warn_and_remove_the_relocation() {
    for version in VERSIONS {
        let case = Monolithic::new(version);
        let outcome = case.work.ld(&["-r", "-o", "merged.o", &case.inl, &case.inl2]).ok();
        outcome.says(&["warning", "discarded section", &case.inl2]);
        let elf = case.work.elf_unchecked("merged.o");
        let frames = elf.sections_named(".sframe");
        assert_eq!(frames.len(), 2, "{version}: every input section stays its own");
        let kept = elf.relocations_for(frames[0].index).len();
        let blob = crate::support::sframe::blob_at(frames[1], 0).unwrap();
        let dead = blob.rows.iter().filter(|r| r.size == 0).count();
        assert_eq!(kept, blob.rows.len(), "{version}: both files have the same functions");
        assert!(dead > 0);
        let (relocations, symbols) = (elf.relocations_for(frames[1].index), elf.symbols());
        assert_eq!(relocations.len(), blob.rows.len(), "{version}: GNU ld counts them");
        for (relocation, row) in relocations.iter().zip(&blob.rows) {
            let own = usize::from(symbols[relocation.symbol].section) == frames[1].index;
            let gone = (relocation.kind == 0, own, row.frame_rows == 0);
            assert_eq!(gone, (row.size == 0, row.size == 0, row.size == 0), "{version}");
        }
        case.work.gxx(&["-o", "program", &case.main, "merged.o"]).ok().says_not(&["discarded section"]);
        case.work.run("program");
        let text = case.work.elf("program").symbol("_Z5use_bi").value;
        assert!(
            output_blobs(&case.work.elf("program")).iter().any(|b| b.row_at(text).is_some()),
            "{version}"
        );
    }
}

#[test]
fn the_whole_story_of_a_violation_is_told() {
    let case = Monolithic::new("v3-gas2.47");
    let outcome = case.link(&["-Wl,--explain-discarded"]).fails();
    for word in [
        "section group shared_inline(int):",
        &format!("{}, prevails: .text._Z13shared_inlinei (", case.inl),
        &format!("{}, discarded: .text._Z13shared_inlinei (", case.inl2),
        "R_X86_64_PC64 against .text._Z13shared_inlinei",
        "it is in no group",
        "--sframe-index",
        "-z sframe-violation=warning",
    ] {
        assert!(outcome.stdout.contains(word), "{word} is not in:\n{}", outcome.stdout);
    }
    case.link(&["-Wl,--explain-discarded=story.dot"]).fails();
    let graph = std::fs::read_to_string(case.work.path("story.dot")).unwrap();
    assert!(graph.starts_with("digraph discarded {") && graph.ends_with("}\n"), "{graph}");
    assert_eq!(graph.matches('{').count(), graph.matches('}').count());
    for word in ["color=darkgreen", "color=firebrick", "same signature", "--sframe=discard"] {
        assert!(graph.contains(word), "{word} is not in:\n{graph}");
    }
    case.link(&["-Wl,--sframe-index,--explain-discarded=story.txt"]).quiet();
    let text = std::fs::read_to_string(case.work.path("story.txt")).unwrap();
    assert_eq!(text, "no reference leads into a discarded section\n");
}
