//! `sframe derive` and `sframe index`: frames from `.eh_frame`, and one table from many.

use crate::need;
use crate::support::sframe::{PCREL, SORTED, output_blobs};
use crate::support::{Work, tools};

const SOURCE: &str = "
#include <cstdio>
__attribute__((noinline)) inline int shared(int x) { volatile int a[4] = {x}; return a[0] + 1; }
__attribute__((noinline)) int f(int x) { volatile char big[3000]; big[x] = 1; return big[x] + shared(x); }
int main() { std::printf(\"%d\\n\", f(1)); }";

#[test]
fn objects_get_frames_with_relocations() {
    let work = Work::new();
    let object = work.cc("a", SOURCE, &["-ffunction-sections"]);
    for (version, kind) in [("3", 24), ("2", 2)] {
        work.sframe(&["derive", "--sframe-version", version, "-o", "derived.o", &object]).quiet();
        work.command(need!(tools::readelf()), &["-aW", "derived.o"]).quiet();
        assert!(work.verified("derived.o").contains(", 0 wrong"));
        let elf = work.elf_unchecked("derived.o");
        let frames = elf.sections_named(".sframe");
        assert_eq!(frames.len(), 3, "one for each text section");
        let relocations: Vec<_> = frames.iter().flat_map(|s| elf.relocations_for(s.index)).collect();
        assert!(relocations.len() == 3 && relocations.iter().all(|r| r.kind == kind), "{relocations:?}");
        work.gxx(&["-o", "program", "derived.o"]).quiet();
        assert_eq!(work.run("program"), "3\n");
        assert!(work.verified("program").contains(", 0 wrong"));
        // A second derivation replaces the earlier frames.
        let before = work.functions("derived.o");
        work.sframe(&["derive", "--sframe-version", version, "derived.o"]).quiet();
        assert_eq!(work.functions("derived.o"), before);
        work.gxx(&["-o", "program", "derived.o"]).quiet();
    }
}

#[test]
fn objects_of_other_machines_get_frames_and_lists_of_gaps() {
    let work = Work::new();
    for name in ["v3-gas2.47/inl.aarch64.o", "v3-gas2.47/inl.s390x.o", "v1-gas2.40/demo.aarch64.o"] {
        let object = work.fixture(name);
        work.sframe(&["derive", "-o", "derived.o", &object]).quiet();
        assert!(work.verified("derived.o").contains(", 0 wrong"), "{name}");
        work.command(need!(tools::readelf()), &["-aW", "derived.o"]).quiet();
    }
    let object = work.fixture("v3-gas2.47/special.x86_64.o");
    let outcome = work.sframe(&["derive", "--verbose", "-o", "derived.o", &object]).ok();
    outcome.says(&["2 functions left out", ".text+0x", "no CFA is defined", "frame pointer is lost"]);
}

#[test]
fn concatenated_blobs_become_one_table() {
    let work = Work::new();
    let (a, b) = (work.fixture("v3-gas2.47/inl.x86_64.o"), work.fixture("v2e1-gas2.45/demo.x86_64.o"));
    work.ld(&["-e", "0", "--unresolved-symbols=ignore-all", "-o", "many", &a, &b]).ok();
    let before: Vec<_> = output_blobs(&work.elf_unchecked("many"));
    assert!(before.len() > 1);
    work.sframe(&["index", "-o", "one", "many"]).quiet();
    let after = output_blobs(&work.elf_unchecked("one"));
    let [blob] = after.as_slice() else { panic!("{after:?}") };
    assert_eq!((blob.version, blob.flags), (3, SORTED | PCREL));
    assert!(blob.rows.is_sorted_by_key(|row| row.start));
    for row in before.iter().flat_map(|blob| &blob.rows) {
        assert_eq!(blob.row_at(row.start).map(|found| found.size), Some(row.size));
    }
    work.sframe(&["index", "--raw", "1000", "-o", "raw", "many"]).quiet();
    assert!(work.read("raw").starts_with(&[0xe2, 0xde, 3, 5]));
}

#[test]
fn linked_files_give_a_section() {
    let work = Work::new();
    let object = work.cc("a", SOURCE, &[]);
    work.gxx(&["-o", "program", &object]).quiet();
    work.sframe(&["derive", "program"]).says(&["name a file for the section"]);
    work.sframe(&["derive", "--address", "7000", "-o", "section", "program"]).quiet();
    work.sframe(&["attach", "--section", "section", "--address", "7000", "-o", "attached", "program"])
        .quiet();
    assert_eq!(work.run("attached"), "3\n");
    assert!(work.verified("attached").contains(", 0 wrong"));
    work.sframe(&["attach", "--section", "section", "--address", "99997000", "-o", "attached", "program"])
        .says(&["functions left out", "no function to describe"]);
}
