//! Tests `--gdb-index`: units, addresses and names from debug information in all its forms. The index is
//! compared with those of lld and gold, and the debugger reads it.

use crate::need;
use crate::support::elf::*;
use crate::support::work::linker_directory;
use crate::support::{Work, tools};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

const SHAPES: &str = "
namespace ns {
struct S { int x; static int total; int grow(int); };
enum E { low, high };
inline int twice(int a) { return a + a; }
template<class T> T plus_two(T t) { return t + 2; }
namespace { int hidden = 3; int __attribute__((noinline)) secret() { return hidden++; } }
int S::total = 5;
int S::grow(int by) { return by + x + total; }
}
typedef unsigned long count_t;
int shared_value = 1;
static int own_value = 2;
static int __attribute__((noinline)) own_function(count_t a) { return a + own_value++; }
extern \"C\" int other(int);
int dead(int a) { return a; }
extern \"C\" int main() {
    ns::S s{1};
    ns::E e = ns::high;
    return s.grow(ns::twice(1)) + ns::plus_two(3) + own_function(2) + other(4) + ns::secret() + e;
}
";

const PLAIN: &str = "
struct pair { int a, b; };
enum kind { first, second };
static struct pair table;
int other(int a) { enum kind k = first; return a + table.a++ + k; }
int unused(int a) { return a * 2; }
";

/// An index as a reader sees it.
#[derive(Debug, PartialEq)]
struct Index {
    /// Offset and length of each unit.
    units: Vec<(u64, u64)>,
    /// Offset, offset of the type, and signature of each type unit.
    type_units: BTreeSet<(u64, u64, u64)>,
    /// Size and unit of each area.
    areas: Vec<(u64, u32)>,
    /// The units of each name, with the kind of the name.
    names: BTreeMap<String, BTreeSet<(u32, u8)>>,
    /// The language and the name of the main function, in version 9.
    main: Option<(u32, String)>,
}

impl Index {
    #[track_caller]
    fn of(work: &Work, file: &str) -> Self {
        let elf = work.elf_unchecked(file);
        let data = &elf.section(".gdb_index").data[..];
        let word = |at: usize| u32::from_le_bytes(data[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().unwrap());
        // Version 9 has one table more, before the pool.
        let tables = if word(0) == 9 { 6 } else { 5 };
        assert!(matches!(word(0), 7 | 9));
        let starts: Vec<usize> = (1..=tables).map(|row| word(4 * row) as usize).collect();
        let pool = starts[tables - 1];
        let main = (tables == 6 && word(starts[4]) != 0)
            .then(|| (word(starts[4]), text(data, pool as u32 + word(starts[4] + 4))));
        let rows = |row: usize, size: usize| (starts[row]..starts[row + 1]).step_by(size);
        let mut areas: Vec<(u64, u32)> =
            rows(2, 20).map(|at| (long(at + 8) - long(at), word(at + 16))).collect();
        areas.sort_unstable();
        let mut names = BTreeMap::new();
        for at in rows(3, 8) {
            let (name, list) = (pool + word(at) as usize, pool + word(at + 4) as usize);
            if name == list {
                continue;
            }
            let entries = (1..=word(list) as usize).map(|row| word(list + 4 * row));
            let entries = entries.map(|entry| (entry & 0xff_ffff, (entry >> 24) as u8)).collect();
            assert_eq!(names.insert(text(data, name as u32), entries), None);
        }
        Index {
            units: rows(0, 16).map(|at| (long(at), long(at + 8))).collect(),
            type_units: rows(1, 24).map(|at| (long(at), long(at + 8), long(at + 16))).collect(),
            areas,
            names,
            main,
        }
    }

    /// Names with only the numbers of their units.
    fn units_of_names(&self) -> BTreeMap<&str, BTreeSet<u32>> {
        let units = |entries: &BTreeSet<(u32, u8)>| entries.iter().map(|entry| entry.0).collect();
        self.names.iter().map(|(name, entries)| (&name[..], units(entries))).collect()
    }

    #[track_caller]
    fn entries(&self, name: &str) -> Vec<(u32, u8)> {
        self.names.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}")).iter().copied().collect()
    }
}

/// Objects of both sources, compiled with these flags.
fn objects(work: &Work, flags: &[&str]) -> [String; 2] {
    let flags = [&["-g", "-ffunction-sections"], flags].concat();
    [work.cc("shapes", SHAPES, &flags), work.c("plain", PLAIN, &flags)]
}

const OPTIONS: [&str; 4] = ["--gdb-index", "--gc-sections", "-e", "main"];

/// Links with the linker under test.
#[track_caller]
fn link(work: &Work, objects: &[String], more: &[&str]) -> Index {
    let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
    work.ld(&[&OPTIONS[..], more, &["-o", "own"], &objects[..]].concat()).quiet();
    Index::of(work, "own")
}

#[track_caller]
fn link_by(work: &Work, peer: &PathBuf, objects: &[String]) -> Index {
    let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
    work.command(peer, &[&OPTIONS[..], &["-o", "peer"], &objects[..]].concat()).ok();
    Index::of(work, "peer")
}

#[test]
fn index_of_listed_names_is_that_of_lld() {
    let lld = need!(tools::peer_linker("lld"));
    for flags in [
        &["-gdwarf-2"][..],
        &["-gdwarf-3"],
        &["-gdwarf-4"],
        &["-gdwarf-5"],
        &["-gdwarf-5", "-gz"],
        &["-gdwarf-4", "-gsplit-dwarf"],
        &["-gdwarf-5", "-gsplit-dwarf"],
    ] {
        let work = Work::new();
        let objects = objects(&work, &[flags, &["-ggnu-pubnames"]].concat());
        let own = link(&work, &objects, &["--compress-debug-sections=zlib"]);
        assert_eq!(own, link_by(&work, &lld, &objects), "{flags:?}");
        assert!(!own.areas.is_empty() && own.names.len() > 20, "{flags:?}");
        // These sections were made for the index, and say nothing that it does not say.
        let elf = work.elf_unchecked("own");
        assert!(elf.find(".debug_gnu_pubnames").is_none() && elf.find(".debug_gnu_pubtypes").is_none());
    }
}

#[test]
fn index_without_lists_has_the_same_names_as_with_them() {
    let gold = need!(tools::peer_linker("gold"));
    for flags in [&["-gdwarf-4"][..], &["-gdwarf-5"], &["-gdwarf-5", "-gdwarf64"], &["-gdwarf-4", "-gz"]] {
        let work = Work::new();
        let listed = link(&work, &objects(&work, &[flags, &["-ggnu-pubnames"]].concat()), &[]);
        let objects = objects(&work, flags);
        let own = link(&work, &objects, &[]);
        assert_eq!(own.names, listed.names, "{flags:?}");
        let gold = link_by(&work, &gold, &objects);
        assert_eq!((&own.units, &own.areas), (&gold.units, &gold.areas), "{flags:?}");
        let (own, mut gold) = (own.units_of_names(), gold.units_of_names());
        // If a member is a variable, gold does not look for its declaration.
        gold.insert("ns::S::total", BTreeSet::from([0]));
        assert_eq!(own, gold, "{flags:?}");
    }
}

#[test]
fn names_of_entries_have_the_scopes_that_debuggers_look_in() {
    let work = Work::new();
    let source = "
        namespace { struct T { struct Inner { int i; void act(); } in; }; }
        enum class Level { top };
        namespace a::b { struct C { struct D; }; struct C::D { int run(); }; int C::D::run() { return 1; } }
        namespace short_name = a::b;
        Level level; T t; extern \"C\" int main() { a::b::C::D d; return d.run() + (int)level + t.in.i; }";
    let index = link(&work, &[work.cc("scopes", source, &["-g"])], &[]);
    assert_eq!(index.entries("Level::top"), [(0, 0x20)]);
    assert_eq!(index.entries("(anonymous namespace)::T::Inner"), [(0, 0x10)]);
    assert_eq!(index.entries("a::b::C::D"), [(0, 0x10)]);
    assert_eq!(index.entries("a::b::C::D::run"), [(0, 0x30)]);
    assert_eq!(index.entries("main"), [(0, 0x30)]);
    assert_eq!(index.entries("int"), [(0, 0x90)]);
}

#[test]
fn type_units_are_listed_and_have_names_of_their_own() {
    let gold = need!(tools::peer_linker("gold"));
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let work = Work::new();
        let objects = objects(&work, &[version, "-fdebug-types-section"]);
        let own = link(&work, &objects, &[]);
        assert!(own.type_units.len() > 3, "{version}: {own:?}");
        let [(unit, 0x10)] = own.entries("ns::S")[..] else { panic!("{version}: {own:?}") };
        assert!(unit >= own.units.len() as u32, "{version}: {own:?}");
        if version == "-gdwarf-4" {
            let gold = link_by(&work, &gold, &objects);
            assert_eq!((own.units, own.type_units), (gold.units, gold.type_units));
        }
    }
}

#[test]
fn names_of_split_units_come_from_their_files() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let work = Work::new();
        let objects = objects(&work, &[version, "-gsplit-dwarf", "-ggnu-pubnames"]);
        let listed = link(&work, &objects, &[]);
        for object in &objects {
            let lists = ["-R", ".debug_gnu_pubnames", "-R", ".debug_gnu_pubtypes"];
            work.command(work.tool("objcopy"), &[&lists[..], &[object]].concat()).ok();
        }
        let own = link(&work, &objects, &[]);
        assert_eq!(own, listed, "{version}");
        std::fs::remove_file(work.path("plain.dwo")).unwrap();
        let outcome = work.ld(&["--gdb-index", "-e", "main", "-o", "own", &objects[0], &objects[1]]).ok();
        outcome.says(&["plain.dwo", "-ggnu-pubnames"]).says_not(&["shapes.dwo"]);
        assert!(Index::of(&work, "own").names.contains_key("ns::S"));
    }
}

#[test]
fn units_are_numbered_as_a_script_orders_them() {
    let work = Work::new();
    let objects = objects(&work, &["-ggnu-pubnames"]);
    let script =
        "SECTIONS { .debug_info 0 : { plain.o(.debug_info) *(.debug_info) } } INSERT AFTER .comment;";
    let script = work.write("order.ld", script);
    let (straight, turned) = (link(&work, &objects, &[]), link(&work, &objects, &["-T", &script]));
    assert_eq!(straight.entries("pair"), [(1, 0x90)]);
    assert_eq!(turned.entries("pair"), [(0, 0x90)]);
    assert_eq!(turned.entries("int"), [(0, 0x90), (1, 0x90)]);
    assert!(turned.units.is_sorted() && turned.units[0].1 == straight.units[1].1, "{turned:?}");
}

#[test]
fn no_index_is_made_of_stripped_or_relocatable_output() {
    need!(tools::own_linker());
    let work = Work::new();
    let object = work.c("main", "int main(void) { return 0; }", &["-g"]);
    let index = ["--gdb-index", "-e", "main", &object, "-o", "out"];
    for option in ["-S", "--no-gdb-index"] {
        work.ld(&[&index[..], &[option]].concat()).quiet();
        assert!(work.elf_unchecked("out").find(".gdb_index").is_none(), "{option}");
    }
    work.ld(&[&index[..], &["-r"]].concat()).fails().says(&["--gdb-index"]);
}

/// Found by fuzzing: a script's pattern keeps an index although it has nothing to list.
#[test]
fn an_empty_index_that_a_script_names_is_written() {
    need!(tools::own_linker());
    let work = Work::new();
    let object = work.c("main", "int value = 1;", &["-g0"]);
    work.write("all.t", "SECTIONS { .all : { *(*) } }");
    work.ld(&["--gdb-index", "-T", "all.t", &object, "-o", "out"]).ok();
    assert!(work.elf_unchecked("out").find(".gdb_index").is_none());
}

/// Damage in debug sections is reported or changes some names. It never ends the linker.
#[test]
fn damaged_debug_information_is_survived() {
    need!(tools::own_linker());
    let work = Work::new();
    let [shapes, plain] = objects(&work, &["-ggnu-pubnames", "-gdwarf-5"]);
    let without = work.cc("without", SHAPES, &["-g", "-gdwarf-4"]);
    for object in [&shapes, &without] {
        let bytes = work.read(object);
        let elf = Elf::parse(bytes.clone()).unwrap();
        let is_debug = |name: &str| name.starts_with(".debug_") && !name.contains("line");
        for section in elf.sections.iter().filter(|section| is_debug(&section.name)) {
            for step in 0..4 {
                let mut damaged = bytes.clone();
                let start = section.offset as usize;
                let at = start + section.data.len() * step / 4;
                let end = (at + 3).min(start + section.data.len());
                damaged[at..end].fill(if step % 2 == 0 { 0xff } else { 0x81 });
                work.write("damaged.o", damaged);
                work.ld(&[&OPTIONS[..], &["-o", "out", "damaged.o", &plain]].concat()).no_crash();
            }
        }
    }
}

/// Version 9 adds the main function. The rest is as in version 7.
#[test]
fn version_9_says_how_the_program_begins() {
    need!(tools::own_linker());
    let work = Work::new();
    // DWARF 4 does not tell C++14 from C++, and the language of a split unit stands in the other file.
    let (c_plus_plus, c_plus_plus_14) = (Some(4), Some(0x21));
    for (flags, language) in [
        (&[][..], c_plus_plus_14),
        (&["-ggnu-pubnames"], c_plus_plus_14),
        (&["-gdwarf-4", "-fdebug-types-section"], c_plus_plus),
        (&["-gsplit-dwarf"], None),
    ] {
        let flags = [flags, &["-std=c++14"]].concat();
        let objects = [
            work.c("plain", PLAIN, &["-g", "-ffunction-sections"]),
            work.cc("shapes", SHAPES, &[&["-g", "-ffunction-sections"], &flags[..]].concat()),
        ];
        let seven = link(&work, &objects, &["--gdb-index=7"]);
        assert_eq!(seven.main, None);
        let nine = link(&work, &objects, &["--gdb-index=9"]);
        assert_eq!(nine.main, language.map(|language| (language, "main".into())), "{flags:?}");
        assert_eq!(Index { main: None, ..nine }, seven, "{flags:?}");
    }
    // Without a main function, and where another one says that it is the main function.
    let plain = work.c("plain", PLAIN, &["-g"]);
    work.ld(&["--gdb-index=9", "-e", "other", "-o", "own", &plain]).quiet();
    assert_eq!(Index::of(&work, "own").main, None);
    work.write("a.rs", "fn main() { println!(\"ten\"); }");
    let prefix = format!("-Clink-arg=-B{}", linker_directory().display());
    let flags = ["-g", "-Clink-self-contained=-linker", &prefix, "-Clink-arg=-Wl,--gdb-index=9", "a.rs"];
    work.linked("rustc", &flags).ok();
    assert_eq!(Index::of(&work, "a").main, Some((0x1c, "a::main".into())));
    work.ld(&["--gdb-index=8", "-e", "other", "-o", "own", &plain]).fails().says(&["8", "9"]);
}

#[test]
fn gdb_finds_functions_and_lines_by_the_index() {
    let gdb = need!(tools::gdb());
    for flags in
        [&["-ggnu-pubnames"][..], &[], &["-gdwarf-4", "-fdebug-types-section"], &["-fdebug-types-section"]]
    {
        let work = Work::new();
        let flags = [&["-g"][..], flags].concat();
        let objects = [
            work.c("main", "int main(void) { return 0; }", &flags),
            work.c(
                "wanted",
                "struct point { int x; };\nint wanted(struct point *p) { return p->x; }",
                &flags,
            ),
            work.c("left", "struct left_type { int x; } left_value;\nint left(int a) { return a; }", &flags),
        ];
        link(&work, &objects, &["--no-gc-sections"]);
        let commands = ["break wanted", "info line wanted", "maint info symtabs", "maint print objfiles"];
        let mut args = vec!["-nx", "-batch"];
        commands.iter().for_each(|command| args.extend(["-ex", command]));
        let read = work.command(&gdb, &[&args[..], &["own"]].concat()).ok().stdout;
        for text in ["file wanted.c, line 2", "Line 2 of \"wanted.c\"", ".gdb_index: version 7"] {
            assert!(read.contains(text), "{flags:?}: {text}: {read}");
        }
        assert!(!read.contains("symtab left.c"), "{flags:?}: all was read: {read}");
        // gdb also finds types, including those of type units.
        let read = work.command(&gdb, &["-nx", "-batch", "-ex", "ptype struct left_type", "own"]).ok().stdout;
        assert!(read.contains("int x;"), "{flags:?}: {read}");
    }
}
