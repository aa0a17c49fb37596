//! Tests `--debug-names`: the linker joins the name indexes of objects (DWARF 5, section 6.1.1) into one,
//! which is compared with lld's.

use crate::support::machine::Machine;
use crate::support::{Work, tools};
use crate::{need, on_every_machine};
use gimli::{EndianSlice, NameAttributeValue, NameTypeUnit, RunTimeEndian};
use std::collections::BTreeSet;

const FIRST: &str = "
namespace ns { struct S { int x; int grow(int); }; enum E { low, high }; inline int twice(int a) { return a + a; } }
int ns::S::grow(int by) { return by + x; }
static int own(int a) { return a * 3; }
int Größe = 1;
extern \"C\" int other(int);
extern \"C\" int main() { ns::S s{1}; return s.grow(ns::twice(Größe)) + own(other(2)) + ns::high; }
";

const SECOND: &str = "
namespace ns { struct S { int x; int grow(int); }; inline int twice(int a) { return a + a; } }
static int own(int a) { return a * 5; }
extern \"C\" int other(int a) { ns::S s{a}; return own(s.x) + ns::twice(a); }
";

/// An entry: its name, tag, unit, offset in the unit, what it says about its parent, and further attributes.
type Row = (String, u16, String, usize, String, Vec<(u16, u64)>);

/// The rows of the only index in a file. Each name must be found through its hash.
#[track_caller]
fn rows(work: &Work, file: &str) -> BTreeSet<Row> {
    let elf = work.elf_unchecked(file);
    let big = work.read(file)[5] == 2;
    let endian = if big { RunTimeEndian::Big } else { RunTimeEndian::Little };
    let strings = gimli::DebugStr::from(EndianSlice::new(&elf.section(".debug_str").data, endian));
    let section = gimli::DebugNames::new(&elf.section(".debug_names").data, endian);
    let mut headers = section.headers();
    let index = headers.next().unwrap().unwrap().index().unwrap();
    assert!(headers.next().unwrap().is_none(), "several indexes");
    let mut found = BTreeSet::new();
    for name in index.names() {
        let text = String::from_utf8(index.name_string(name, &strings).unwrap().to_vec()).unwrap();
        let hash = gimli_hash(&text);
        let same: Vec<_> = index.find_by_hash(hash).unwrap().collect::<Result<_, _>>().unwrap();
        assert!(same.contains(&name), "{text} is not found by its hash");
        for entry in index.name_entries(name).unwrap() {
            let entry = entry.unwrap();
            let unit = |entry: &gimli::NameEntry<_>| {
                let unit = entry.compile_unit(&index).unwrap().map(|offset| offset.0);
                match entry.type_unit(&index).unwrap() {
                    Some(NameTypeUnit::Local(offset)) => format!("type unit {:#x}, {unit:?}", offset.0),
                    Some(NameTypeUnit::Foreign(signature)) => format!("foreign {:#x}, {unit:?}", signature.0),
                    None => {
                        format!("unit {:?}", unit.or(index.default_compile_unit().unwrap().map(|it| it.0)))
                    }
                }
            };
            let offset = |entry: &gimli::NameEntry<_>| entry.die_offset().unwrap().unwrap().0;
            let parent = match entry.parent().unwrap() {
                None => "untold".to_owned(),
                Some(None) => "none".to_owned(),
                Some(Some(at)) => {
                    let parent = index.name_entry(at).unwrap();
                    format!("{} at {:#x}", unit(&parent), offset(&parent))
                }
            };
            let more = entry.attrs.iter().filter(|attribute| attribute.name().0 > gimli::DW_IDX_parent.0);
            let more = more.map(|attribute| match attribute.value() {
                NameAttributeValue::Unsigned(number) => (attribute.name().0, *number),
                _ => (attribute.name().0, 0),
            });
            let row = (text.clone(), entry.tag.0, unit(&entry), offset(&entry), parent, more.collect());
            assert!(found.insert(row.clone()), "twice: {row:?}");
        }
    }
    found
}

/// The hash of a name after case folding. For the names here, that makes lower case.
fn gimli_hash(name: &str) -> u32 {
    name.to_lowercase().bytes().fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
}

#[test]
fn index_is_that_of_lld() {
    let lld = need!(tools::peer_linker("lld"));
    let clang = need!(tools::clang("clang++"));
    for flags in [&[][..], &["-O2"], &["-gz"], &["-gsplit-dwarf"]] {
        let work = Work::new();
        let objects = [("a", FIRST), ("b", SECOND)].map(|(name, source)| {
            let (source, object) = (work.write(&format!("{name}.cc"), source), format!("{name}.o"));
            let fixed = ["-g", "-gdwarf-5", "-gpubnames", "-c", "-o", &object, &source];
            work.command(&clang, &[flags, &fixed].concat()).ok();
            object
        });
        let [a, b] = &objects;
        let common = ["--debug-names", "-e", "main", a, b, "-o"];
        work.ld(&[&common[..], &["own"]].concat()).quiet();
        work.command(&lld, &[&common[..], &["peer"]].concat()).ok();
        let own = rows(&work, "own");
        assert!(own.len() > 10, "{flags:?}: {own:?}");
        assert_eq!(own, rows(&work, "peer"), "{flags:?}");
        // The same from an object with two indexes.
        work.ld(&["-r", a, b, "-o", "both.o"]).quiet();
        work.ld(&["--debug-names", "-e", "main", "both.o", "-o", "again"]).quiet();
        assert_eq!(rows(&work, "again"), own, "{flags:?}");
    }
}

/// An object with an index of its own unit, of a type unit that all objects have, and of a unit in another
/// file.
fn indexed(name: &str, long: bool) -> String {
    let (length, offset) = if long { (".4byte 0xffffffff\n .8byte", ".8byte") } else { (".4byte", ".4byte") };
    format!(
        "
 .section .debug_str,\"MS\",%progbits,1
.Lname: .asciz \"{name}\"
.Lshared: .asciz \"shared\"
.Linner: .asciz \"inner\"
 .section .debug_info,\"G\",%progbits,type,comdat
.Ltype: .8byte 1
 .section .debug_info,\"\",%progbits
.Lunit: .8byte 2, 3
 .section .debug_names,\"\",%progbits
 {length} .Lend - .Lstart
.Lstart:
 .2byte 5, 0
 .4byte 1, 1, 1, 0, 3, .Lpool - .Labbreviations, 4
 .ascii \"mine\"
 {offset} .Lunit
 {offset} .Ltype
 .8byte 0x1122334455667788
 {offset} .Lname, .Linner, .Lshared
 {offset} 0, .Lin - .Lpool, .Lout - .Lpool
.Labbreviations:
 .byte 1, 0x34, 3, 0x13, 4, 0x19, 5, 0x07, 0, 0
 .byte 2, 0x13, 2, 0x0b, 3, 0x13, 4, 0x19, 0, 0
 .byte 3, 0x13, 2, 0x0b, 3, 0x13, 4, 0x13, 0, 0
 .byte 4, 0x13, 1, 0x0b, 2, 0x0b, 3, 0x13, 0, 0, 0
.Lpool:
 .byte 1
 .4byte 0x10
 .8byte 0x99
 .byte 0
.Lin:
 .byte 3, 0
 .4byte 0x30, .Lout - .Lpool
 .byte 0
.Lout:
 .byte 2, 0
 .4byte 0x20
 .byte 4, 0, 1
 .4byte 0x40
 .byte 0
.Lend:
"
    )
}

fn units_and_parents_get_their_numbers_in_the_output(machine: &'static Machine) {
    let work = &Work::on(machine);
    for long in [false, true] {
        let objects = [work.s("a", &indexed("one", false)), work.s("b", &indexed("two", long))];
        work.ld(&["--debug-names", "-e", "0", "-o", "out", &objects[0], &objects[1]]).quiet();
        let row = |name: &str, tag, unit: &str, offset, parent: &str, more: &[(u16, u64)]| {
            (name.to_owned(), tag, unit.to_owned(), offset, parent.to_owned(), more.to_vec())
        };
        // `.debug_info`: the type unit of the first object is at 0, its other unit at 8, the second object's
        // unit at 24.
        let expected = [
            row("one", 0x34, "unit Some(8)", 0x10, "none", &[(5, 0x99)]),
            row("two", 0x34, "unit Some(24)", 0x10, "none", &[(5, 0x99)]),
            row("inner", 0x13, "type unit 0x0, None", 0x30, "type unit 0x0, None at 0x20", &[]),
            row("shared", 0x13, "type unit 0x0, None", 0x20, "none", &[]),
            row("shared", 0x13, "foreign 0x1122334455667788, Some(8)", 0x40, "untold", &[]),
            row("shared", 0x13, "foreign 0x1122334455667788, Some(24)", 0x40, "untold", &[]),
        ];
        assert_eq!(rows(work, "out"), BTreeSet::from(expected), "{long}");
    }
}

/// Names up to the first bad one stay. If the parent of an entry would come after the bad name, the entry
/// says nothing about its parent. It says nothing either if the name of its parent breaks off after the
/// parent.
fn names_before_a_bad_one_have_the_right_parents(machine: &'static Machine) {
    let work = &Work::on(machine);
    for (number, (good, bad)) in [
        (".Lname, .Linner, .Lshared", ".Lname, .Linner, 0x7ffffff0"),
        (" .byte 2, 0\n .4byte 0x20", " .byte 9, 0\n .4byte 0x20"),
        (" .byte 4, 0, 1\n .4byte 0x40", " .byte 9, 0, 1\n .4byte 0x40"),
        (" .byte 4, 0, 1\n .4byte 0x40", " .byte 1\n .4byte 0x40\n .8byte 0x77\n .byte 9"),
    ]
    .into_iter()
    .enumerate()
    {
        let text = indexed("one", number == 1);
        assert!(text.contains(good));
        let object = work.s("object", &text.replace(good, bad));
        let outcome = work.ld(&["--debug-names", "-e", "0", "-o", "out", &object]).ok();
        outcome.says(&["cannot read the name index", "object.o"]);
        let found: Vec<_> = rows(work, "out").into_iter().map(|row| (row.0, row.3, row.4)).collect();
        let row = |name: &str, offset, parent: &str| (name.to_owned(), offset, parent.to_owned());
        assert_eq!(found, [row("inner", 0x30, "untold"), row("one", 0x10, "none")], "{bad}");
    }
}

on_every_machine!(
    units_and_parents_get_their_numbers_in_the_output,
    names_before_a_bad_one_have_the_right_parents,
);

#[test]
fn damaged_indexes_are_told_and_left_out() {
    let work = Work::new();
    let good = work.s("good", &indexed("good", false));
    let name = indexed("bad", false).replace(".byte 2, 0\n .4byte 0x20", ".byte 9, 0\n .4byte 0x20");
    let bad = work.s("bad", &name);
    let cut = work.s("cut", &indexed("cut", false).replace(" .4byte .Lend - .Lstart", " .4byte 0x1000"));
    let outcome = work.ld(&["--debug-names", "-e", "0", "-o", "out", &good, &bad, &cut]).ok();
    outcome.says(&["cannot read the name index", "bad.o", "cut.o"]);
    assert!(rows(&work, "out").iter().any(|row| row.0 == "good"));
    // Nothing to join, and a link that has no offsets yet.
    let none = work.s("none", " .data\n .quad 1\n");
    work.ld(&["--debug-names", "-e", "0", "-o", "out", &none]).quiet();
    work.ld(&["--debug-names", "-r", "-o", "out", &good])
        .fails()
        .says(&["--debug-names may not be used together"]);
}
