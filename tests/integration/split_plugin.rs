//! `libsframe_split.so`: GNU ld, gold and this linker get inputs that the plugin splits.

use crate::need;
use crate::support::work::linker_directory;
use crate::support::{Work, tools};
use std::path::PathBuf;

const HEADER: &str =
    "__attribute__((noinline)) inline int shared(int x) { volatile int a[4] = {x}; return a[0] + 1; }";
const MAIN: &str = "#include <cstdio>\n#include \"inl.h\"\nint b(int);\nint main() { printf(\"%d %d\\n\", shared(2), b(3)); }";
const OTHER: &str =
    "#include \"inl.h\"\nint b(int x) { return shared(x) * 2; }\nint unused(int x) { return x * 3; }";
const SAYS: &str = "3 8\n";

/// The library; it is built with the tests.
fn plugin() -> String {
    let programs = PathBuf::from(env!("CARGO_BIN_EXE_sframe-ld"));
    programs.with_file_name("deps").join("libsframe_split.so").display().to_string()
}

fn work() -> Work {
    let mut work = Work::new();
    std::fs::create_dir(work.path("tmp")).unwrap();
    work.env("TMPDIR", &work.path("tmp").display().to_string());
    work.write("inl.h", HEADER);
    work
}

/// Compiles sources; each object has one `.sframe` for all its text.
fn build(work: &Work, sources: &[(&str, &str)]) {
    let assembler = tools::assembler(3).unwrap();
    for (name, text) in sources {
        let source = work.write(&format!("{name}.cc"), text);
        let (assembly, object) = (format!("{name}.s"), format!("{name}.o"));
        let flags = ["-S", "-O1", "-fPIC", "-ffunction-sections", "-o", &assembly, &source];
        work.command("g++", &flags).quiet();
        work.command(&assembler, &["--gsframe", "-o", &object, &assembly]).quiet();
        assert_eq!(work.elf_unchecked(&object).sections_named(".sframe").len(), 1);
    }
}

/// The linkers that can load the plugin, with the folder for `-B`.
fn linkers() -> Vec<(&'static str, String)> {
    let peers = ["bfd-2.47", "gold"].map(|family| (family, tools::peer_linker(family)));
    let found = peers.into_iter().filter_map(|(family, linker)| Some((family, linker.ok()?)));
    let folders = found.map(|(family, linker)| (family, linker.parent().unwrap().to_owned()));
    let all = folders.chain([("sframe", linker_directory().to_owned())]);
    all.map(|(family, folder)| (family, format!("-B{}", folder.display()))).collect()
}

/// Links with the plugin. Nothing may stay in the folder for temporary files.
#[track_caller]
fn link(work: &Work, driver: &str, folder: &str, args: &[&str]) -> crate::support::work::Outcome {
    let option = format!("-Wl,-plugin,{}", plugin());
    let outcome = work.command(driver, &[&[folder, "-o", "program", &option], args].concat());
    let left = std::fs::read_dir(work.path("tmp")).unwrap().flatten();
    let left: Vec<_> = left.map(|it| it.file_name()).collect();
    assert!(left.is_empty(), "{left:?} stays: {outcome}");
    outcome
}

#[test]
fn objects_and_members_are_split_in_every_way_of_naming_them() {
    let work = work();
    need!(tools::assembler(3));
    build(&work, &[("main", MAIN), ("other", OTHER), ("idle", "int idle(int x) { return x + 7; }")]);
    for name in ["main", "other"] {
        work.sframe(&["split", "-o", &format!("{name}.split.o"), &format!("{name}.o")]).quiet();
    }
    let library = work.ar("libother.a", "", &["idle.o", "other.o"]);
    let thin = work.ar("libthin.a", "T", &["idle.o", "other.o"]);
    work.write("words", "main.o\nother.o\n");
    let inputs: [&[&str]; 5] = [
        &["main.o", "other.o"],
        &["main.o", &library],
        &["main.o", &thin],
        &["main.o", "-L.", "-lother"],
        &["-Wl,@words"],
    ];
    for (family, folder) in linkers() {
        work.command("g++", &[&folder, "-pie", "-o", "direct", "main.split.o", "other.split.o"]).ok();
        let rows = work.functions("direct");
        for words in inputs {
            let context = format!("{family} {words:?}");
            let outcome = link(&work, "g++", &folder, &[&["-pie"], words].concat()).ok();
            assert!(!outcome.output().contains("sframe"), "{context}: {outcome}");
            assert_eq!(work.run("program"), SAYS, "{context}");
            assert_eq!(work.functions("program"), rows, "{context}");
            let names = rows.concat();
            for name in ["main", "_Z1bi", "_Z6sharedi"] {
                assert!(names.contains(&format!("\"{name}\"")), "{context}: no rows for {name}");
            }
        }
        // Frames of collected text go with it. gold drops all of them, because nothing refers to them.
        link(&work, "g++", &folder, &["-pie", "main.o", "other.o", "-Wl,--gc-sections"]).ok();
        assert_eq!(work.run("program"), SAYS);
        if family != "gold" {
            let names = work.functions("program").concat();
            assert!(names.contains("_Z1bi") && !names.contains("unused"), "{family}: {names}");
        }
        // The output of `-r` must not refer to discarded text; this linker would refuse it.
        link(&work, "gcc", &folder, &["-r", "main.o", "other.o"]).ok();
        std::fs::rename(work.path("program"), work.path("all.o")).unwrap();
        work.gxx(&["-pie", "-o", "program", "all.o"]).quiet();
        assert_eq!(work.run("program"), SAYS, "{family} -r");
    }
    work.gxx(&["-pie", "-o", "program", "main.o", "other.o"]).fails().says(&["discarded"]);
    assert_eq!(work.elf_unchecked("main.o").sections_named(".sframe").len(), 1, "inputs stay as they are");
}

#[test]
fn symbols_resolve_as_without_the_plugin() {
    let work = work();
    need!(tools::assembler(3));
    let versions = "asm(\".symver old_f,f@V1\\n.symver new_f,f@@V2\");
        extern \"C\" { int old_f() { return 1; } int new_f() { return 2; } int plain() { return 3; } }";
    let main = "#include <cstdio>
        #include <stdexcept>
        #include <vector>
        extern \"C\" { extern int block; int chosen(); int maybe() __attribute__((weak)); }
        __attribute__((weak)) int choice() { return 1; }
        extern thread_local int own; extern thread_local int zero;
        struct Base { virtual ~Base() {} virtual int area() { return 5; } };
        static std::vector<int> order; void note(int n) { order.push_back(n); }
        struct Made { Made() { note(1); } } made;
        inline int &counter() { static int n = 0; return n; }
        int thrown(int);
        int main() { int caught = 0; try { thrown(3); } catch (std::out_of_range &) { caught = 1; }
            counter()++; Base base;
            printf(\"%d %d %d %d %d %d %d %d\\n\", choice(), own + zero, block, chosen(), maybe ? maybe() : -1, caught,
                base.area(), counter()); }";
    let other = "#include <stdexcept>
        thread_local int own = 4; thread_local int zero; int choice() { return 2; }
        extern \"C\" { int block = 6; int chosen() __attribute__((alias(\"real\"))); int real() { return 7; } }
        inline int &counter() { static int n = 0; return n; }
        int thrown(int x) { counter()++; if (x > 2) throw std::out_of_range(\"x\"); return 0; }";
    // A later member that defines the same symbol is not taken.
    let rival = "extern \"C\" int chosen() { return 70; } int choice() { return 20; } int rival;";
    build(&work, &[("versions", versions), ("main", main), ("other", other), ("rival", rival)]);
    work.write("script", "V1 { global: f; local: *; }; V2 { global: f; plain; } V1;");
    let archive = work.ar("libboth.a", "", &["other.o", "rival.o"]);
    for (family, folder) in linkers() {
        link(&work, "g++", &folder, &["-pie", "main.o", &archive]).ok();
        assert_eq!(work.run("program"), "2 4 6 7 -1 1 5 2\n", "{family}");
        link(&work, "g++", &folder, &["-shared", "versions.o", "-Wl,--version-script=script"]).ok();
        let mut exported: Vec<String> = (work.elf_unchecked("program").dynamic_symbols().into_iter())
            .filter(|symbol| symbol.section != 0 && ["f", "plain"].contains(&symbol.name.as_str()))
            .map(|symbol| symbol.name)
            .collect();
        exported.sort();
        assert_eq!(exported, ["f", "f", "plain"], "{family}");
        let dump = work.command(tools::readelf().unwrap(), &["-W", "--dyn-syms", "program"]).ok().stdout;
        assert!(
            dump.contains(" f@V1") && dump.contains(" f@@V2") && dump.contains(" plain@@V2"),
            "{family}: {dump}"
        );
        link(&work, "g++", &folder, &["main.o", "other.o", "rival.o"]).fails().says(&["chosen"]);
    }
}

#[test]
fn code_for_link_time_optimization_keeps_all_that_split_objects_need() {
    let work = work();
    need!(tools::assembler(3));
    let lto = "extern \"C\" { int inside(int); int only(int x) { return x * 5; } int idle(int x) { return x * 6; } }
        int calls(int x) { return inside(x) + 1; }";
    let main = "#include <cstdio>
        extern \"C\" { int only(int); int inside(int x) { return x + 4; } } int calls(int);
        int main() { printf(\"%d %d\\n\", only(2), calls(3)); }";
    build(&work, &[("main", main)]);
    let lto = work.cc("lto", lto, &["-O2", "-flto", "-fPIC"]);
    for (family, folder) in linkers() {
        for order in [["main.o", &lto], [&lto, "main.o"]] {
            let outcome = link(&work, "g++", &folder, &[&["-flto", "-O2", "-pie"][..], &order].concat());
            if family == "gold" {
                outcome.fails().says(&["main.o refers to", "link-time optimization", "sframe wrap-ld"]);
                continue;
            }
            outcome.ok();
            assert_eq!(work.run("program"), "10 8\n", "{family} {order:?}");
            assert!(work.functions("program").concat().contains("\"main\""), "{family}");
        }
    }
}

#[test]
fn the_plugin_says_what_it_does_and_why_it_cannot() {
    let work = work();
    need!(tools::assembler(3));
    build(&work, &[("main", MAIN), ("other", OTHER), ("idle", "int idle(int x) { return x + 7; }")]);
    work.ar("libother.a", "", &["idle.o", "other.o"]);
    let broken = work.fixture("crafted-v3/padnz.x86_64.o");
    for (family, folder) in linkers() {
        let says =
            link(&work, "g++", &folder, &["-pie", "main.o", "libother.a", "-Wl,-plugin-opt=verbose"]).ok();
        let said = says.output();
        for text in
            ["main.o: 2 functions in 2 parts", "libother.a(other.o): 3 functions in 3 parts", "2 take part"]
        {
            assert!(said.contains(text), "{family}: {said}");
        }
        let says =
            link(&work, "g++", &folder, &["-pie", "main.o", "other.o", "-Wl,-plugin-opt=nonsense"]).ok();
        assert!(says.output().contains("-plugin-opt=nonsense is unknown"), "{family}: {says}");
        let says = link(&work, "gcc", &folder, &["-r", &broken]);
        assert!(says.output().contains("linked as it is"), "{family}: {says}");
        // A failed link must leave nothing behind either.
        link(&work, "g++", &folder, &["main.o"]).fails();
        link(&work, "g++", &folder, &["-r", "main.o", "-Wl,-plugin-opt=light"]).ok();
        assert!(!work.elf_unchecked("program").sections_named(".sframe_light").is_empty(), "{family}");
    }
    let mold = need!(tools::peer_linker("mold"));
    let lto = work.cc("lto", "int main() {}", &["-flto"]);
    let folder = format!("-B{}", mold.parent().unwrap().display());
    link(&work, "g++", &folder, &["-fno-lto", &lto])
        .fails()
        .says(&["mold offers plugins only", "sframe wrap-ld"]);
}
