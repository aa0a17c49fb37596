//! Notes: GNU properties, build identity, and the contents of note segments.

use crate::support::Work;
use crate::support::elf::*;
use crate::support::work::linker;

const START: &str = ".text\n.globl _start\n_start: ret\n";

fn property(entries: &[(u32, &[u32])]) -> String {
    let body: String = entries
        .iter()
        .map(|(kind, words)| {
            let data: String = words.iter().map(|w| format!(".long {w}\n")).collect();
            format!(".long {kind:#x},{}\n{data}.balign 8\n", words.len() * 4)
        })
        .collect();
    format!(
        ".section .note.gnu.property,\"a\",@note\n.balign 8\n.long 4,2f-1f,5\n.asciz \"GNU\"\n1:\n{body}2:\n{START}"
    )
}

/// The properties of an output: type and value, in order.
fn properties(elf: &Elf) -> Vec<(u32, u32)> {
    let Some(section) = elf.find(".note.gnu.property") else { return Vec::new() };
    assert_eq!((section.align, elf.segment(PT_GNU_PROPERTY).addr), (8, section.addr));
    let (owner, kind, data) = elf.notes(".note.gnu.property").remove(0);
    assert_eq!((owner.as_str(), kind), ("GNU", 5));
    data.chunks_exact(16).map(|c| (word(c, 0), word(c, 8))).collect()
}

const FEATURES: u32 = 0xc000_0002;
const NEEDED: u32 = 0xc000_8002;
const USED: u32 = 0xc001_0002;

#[test]
fn properties_are_merged_by_their_kind() {
    let work = Work::new();
    let a = work.s("a", &property(&[(FEATURES, &[3]), (NEEDED, &[1]), (USED, &[1])]));
    let b =
        work.s("b", &property(&[(FEATURES, &[1]), (NEEDED, &[2]), (USED, &[2])]).replace("_start", "other"));
    let plain = work.s("plain", ".globl plain\nplain: ret\n");
    work.ld(&["-o", "program", &a, &b]).quiet();
    assert_eq!(properties(&work.elf("program")), [(FEATURES, 1), (NEEDED, 3), (USED, 3)]);
    work.ld(&["-o", "program", &a, &plain]).quiet();
    let left = properties(&work.elf("program"));
    assert!(
        left.iter().all(|p| p.0 != FEATURES && p.0 != USED),
        "a file without the note says no: {left:x?}"
    );
    assert!(left.contains(&(NEEDED, 1)));
}

#[test]
fn features_can_be_forced_and_reported() {
    let work = Work::new();
    let plain = work.s("plain", START);
    work.ld(&["-o", "program", &plain, "-z", "ibt", "-z", "shstk"]).ok();
    assert_eq!(properties(&work.elf("program")), [(FEATURES, 3)]);
    work.ld(&["-o", "program", &plain, "-z", "cet-report=warning"]).ok().says(&["plain.o", "IBT", "SHSTK"]);
    work.ld(&["-o", "program", &plain, "-z", "cet-report=error"]).fails().says(&["plain.o"]);
}

#[test]
fn relocatable_output_has_one_property_note() {
    let work = Work::new();
    let a = work.s("a", &property(&[(FEATURES, &[3])]));
    let b = work.s("b", &property(&[(FEATURES, &[1])]).replace("_start", "other"));
    work.ld(&["-r", "-o", "merged.o", &a, &b]).quiet();
    let elf = work.elf("merged.o");
    let notes = elf.notes(".note.gnu.property");
    assert_eq!(notes.len(), 1);
    assert_eq!(word(&notes[0].2, 8), 1);
}

#[test]
fn a_damaged_property_note_is_reported() {
    let work = Work::new();
    let bad = work.s("bad", &format!(".section .note.gnu.property,\"a\",@note\n.balign 8\n.long 4,0x7ffffff0,5\n.asciz \"GNU\"\n.quad 1\n{START}"));
    let outcome = work.ld(&["-o", "program", &bad]).no_crash();
    assert!(outcome.stderr.contains("bad.o"), "{outcome}");
}

fn build_id(work: &Work, option: &str) -> Option<Vec<u8>> {
    let object = work.s("a", START);
    work.ld(&["-o", "program", &object, option]).quiet();
    let elf = work.elf("program");
    elf.find(".note.gnu.build-id")?;
    let (owner, kind, id) = elf.notes(".note.gnu.build-id").remove(0);
    assert_eq!((owner.as_str(), kind), ("GNU", 3));
    Some(id)
}

#[test]
fn build_ids_of_every_kind_have_their_length() {
    let work = Work::new();
    for (option, size) in
        [("--build-id", 20), ("--build-id=sha1", 20), ("--build-id=md5", 16), ("--build-id=uuid", 16)]
    {
        assert_eq!(build_id(&work, option).unwrap().len(), size, "{option}");
    }
    assert!(!build_id(&work, "--build-id=fast").unwrap().is_empty());
    assert_eq!(build_id(&work, "--build-id=0xDEADbeef-01").unwrap(), [0xde, 0xad, 0xbe, 0xef, 1]);
    assert!(build_id(&work, "--build-id=none").is_none());
    assert_eq!(build_id(&work, "--build-id=sha1"), build_id(&work, "--build-id=sha1"));
    assert_ne!(build_id(&work, "--build-id=uuid"), build_id(&work, "--build-id=uuid"));
}

#[test]
fn the_build_id_depends_on_the_content() {
    let work = Work::new();
    let a = work.s("a", START);
    let b = work.s("b", &format!("{START}.data\n.long 1\n"));
    for kind in ["--build-id=sha1", "--build-id=md5", "--build-id=fast"] {
        let id = |object: &str| {
            work.ld(&["-o", "program", object, kind]).quiet();
            work.elf("program").notes(".note.gnu.build-id").remove(0).2
        };
        assert_ne!(id(&a), id(&b), "{kind}");
    }
}

/// Threads hash what they write: in a buffer, in the mapped file, or in memory.
#[test]
fn the_build_id_does_not_depend_on_the_way_in_which_the_output_is_written() {
    let work = Work::new();
    let large = ".section .rodata.large,\"a\"\n.rept 700000\n.quad 0x0123456789abcdef\n.endr\n";
    let objects = [("start", START), ("large", large), ("data", ".data\n.byte 7\n")]
        .map(|(name, source)| work.s(name, source));
    for kind in ["--build-id=sha1", "--build-id=md5", "--build-id=fast"] {
        let words = [&[kind, "--emit-relocs"], &objects.each_ref().map(String::as_str)[..]].concat();
        work.ld(&[&["--threads=1", "-o", "first"], &words[..]].concat()).quiet();
        let first = std::fs::read(work.path("first")).unwrap();
        for threads in ["--threads=1", "--threads=4"] {
            let line = format!("{} {threads} -o - {} | cat > piped", linker().display(), words.join(" "));
            work.command("sh", &["-c", &line]).quiet();
            work.ld(&[&[threads, "-o", "second"], &words[..]].concat()).quiet();
            for again in ["second", "piped"] {
                assert!(std::fs::read(work.path(again)).unwrap() == first, "{kind} {threads} {again}");
            }
        }
    }
}

#[test]
fn allocated_notes_are_in_note_segments() {
    let work = Work::new();
    let main = work.c("main", "int main(void) { return 0; }", &[]);
    work.gcc(&["-o", "program", &main, "-Wl,--build-id"]).quiet();
    let elf = work.elf("program");
    let segments = elf.segments_of(4);
    for section in elf.sections.iter().filter(|s| s.kind == SHT_NOTE && s.flags & SHF_ALLOC != 0) {
        assert!(segments.iter().any(|s| s.covers(section)), "{}", section.name);
    }
}

#[test]
fn the_executable_stack_is_settled_by_notes_and_options() {
    let work = Work::new();
    let plain = work.c("main", "int main(void) { return 0; }", &[]);
    work.write("asks.s", ".section .note.GNU-stack,\"x\",@progbits\n");
    work.command("gcc", &["-c", "asks.s"]).ok();
    let stack = |args: &[&str]| {
        let mut all = vec!["-o", "program", plain.as_str()];
        all.extend(args);
        work.gcc(&all).ok();
        work.elf("program").segment(PT_GNU_STACK).clone()
    };
    assert_eq!(stack(&[]).flags, 6);
    assert_eq!(stack(&["-Wl,-z,execstack"]).flags, 7);
    assert_eq!(stack(&["asks.o", "-Wl,-z,noexecstack"]).flags, 6);
    assert_eq!(stack(&["-Wl,-z,stack-size=0x100000"]).size, 0x10_0000);
}

#[test]
fn an_isa_level_is_marked_as_gnu_ld_marks_it() {
    let work = Work::new();
    let object = work.s("a", START);
    for (option, bit) in [("x86-64-baseline", 1), ("x86-64-v2", 2), ("x86-64-v3", 4), ("x86-64-v4", 8)] {
        work.ld(&["-o", "program", &object, "-z", option]).quiet();
        let (_, _, properties) = work.elf("program").notes(".note.gnu.property").remove(0);
        let words: Vec<u32> =
            properties.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        let at = words.iter().position(|&word| word == 0xc000_8002).expect("GNU_PROPERTY_X86_ISA_1_NEEDED");
        assert_eq!(words[at + 2], bit, "{option}");
    }
}
