//! Link-time optimization with gcc's and LLVM's plugins. The programs must be the same as with GNU ld.
//! [`super::lto_plugins`] has a plugin of its own.

use crate::lto_plugins::{marked, plugin};
use crate::need;
use crate::support::elf::{STB_WEAK, Symbol};
use crate::support::{Work, tools};
use std::collections::BTreeSet;

const MAIN: &str = "#include <stdio.h>
int helper(int); int machine(int);
int back(int x) { return x * 3; }
int main(int argc, char **argv) { (void)argv; printf(\"%d %d\\n\", helper(argc), machine(argc)); return 0; }";
const HELPER: &str = "int helper(int x) { return x + 41; } int idle(int x) { return x - 1; }";
const MACHINE: &str = "int back(int); int machine(int x) { return back(x) + 1; }";
const OUTPUT: &str = "42 4\n";

const LTO: &[&str] = &["-O2", "-flto", "-fPIC"];
const PLAIN: &[&str] = &["-O2", "-fPIC"];

/// Intermediate code `main.o` and `helper.o`, and machine code `machine.o`, with references in both
/// directions.
fn objects(work: &Work) -> [String; 3] {
    [work.c("main", MAIN, LTO), work.c("helper", HELPER, LTO), work.c("machine", MACHINE, PLAIN)]
}

/// Links with this linker and with gcc's default linker: `NAME` and `NAME.gnu`.
#[track_caller]
fn both(work: &Work, name: &str, args: &[&str]) -> [String; 2] {
    let gnu = format!("{name}.gnu");
    let compiler = if args.iter().any(|arg| arg.ends_with("cc.o")) { "g++" } else { "gcc" };
    work.drive(work.tool(compiler), &[&["-o", name, "-O2", "-flto"], args].concat()).quiet();
    work.command(work.tool(compiler), &[&["-o", &gnu, "-O2", "-flto"], args].concat()).ok();
    assert!(work.made_here(name) && !work.made_here(&gnu));
    [name.to_owned(), gnu]
}

/// The names that a file exports; the numbers of their versions are removed.
fn exports(work: &Work, file: &str) -> BTreeSet<String> {
    let symbols = work.elf_unchecked(file).dynamic_symbols();
    // Each linker defines some symbols of its own.
    let of_linker =
        ["_init", "_fini", "__bss_start", "_edata", "_end", "_start", "__data_start", "data_start"];
    symbols
        .into_iter()
        .filter(|symbol| symbol.section != 0 && !of_linker.contains(&symbol.name.as_str()))
        .map(|symbol| symbol.name)
        .collect()
}

#[test]
fn intermediate_and_machine_code_refer_to_each_other() {
    let work = Work::new();
    let [main, helper, machine] = objects(&work);
    let orders: [&[&str]; 3] =
        [&[&main, &helper, &machine], &[&machine, &helper, &main], &[&helper, &main, "-static", &machine]];
    for order in orders {
        for program in both(&work, "program", order) {
            assert_eq!(work.run(&program), OUTPUT, "{order:?}");
            let elf = work.elf_unchecked(&program);
            assert!(elf.find_symbol("back").is_some() && elf.find_symbol("idle").is_none());
            if !order.contains(&"-static") {
                assert_eq!(elf.needed(), ["libc.so.6"]);
            }
        }
    }
    work.elf("program");
}

#[test]
fn exceptions_and_templates_pass_through() {
    let work = Work::new();
    let main = "#include <iostream>
        #include <stdexcept>
        #include <vector>
        template <class T> struct Bag { std::vector<T> all; T at(int i) { return all.at(i); } };
        int other(int);
        int main() { Bag<int> bag; bag.all.push_back(other(2));
            try { bag.at(5); } catch (std::out_of_range &) { std::cout << \"caught \" << bag.at(0) << \"\\n\"; } }";
    let other = "#include <vector>
        int other(int n) { std::vector<int> all; for (int i = 0; i < n; i++) all.push_back(i);
            return all.at(1) + int(all.size()); }";
    work.cc("main.cc", main, &["-O2", "-flto", "-g"]);
    work.cc("lto.cc", other, &["-O2", "-flto", "-g"]);
    work.cc("code.cc", other, &["-O1", "-g"]);
    for order in [["main.cc.o", "lto.cc.o"], ["main.cc.o", "code.cc.o"], ["code.cc.o", "main.cc.o"]] {
        for program in both(&work, "program", &order) {
            assert_eq!(work.run(&program), "caught 3\n", "{order:?}");
        }
        work.elf("program");
    }
}

#[test]
fn members_of_intermediate_code_are_taken_when_they_are_needed() {
    let mut work = Work::new();
    std::fs::create_dir(work.path("tmp")).unwrap();
    work.env("TMPDIR", &work.path("tmp").display().to_string());
    let [main, helper, machine] = objects(&work);
    // It would clash with the helper.
    let rival = work.c("rival", "int helper(int x) { return x; } int rival(void) { return 0; }", LTO);
    // GNU ld needs the index, which the compiler's own `ar` makes.
    for (flags, archive) in [("rcs", "liball.a"), ("rcsT", "libthin.a")] {
        work.command("gcc-ar", &[flags, archive, &helper, &rival, &machine]).ok();
    }
    let lib = ["-Wl,--start-lib", &helper, &rival, &machine, "-Wl,--end-lib"];
    for members in [&["liball.a"][..], &["libthin.a"]] {
        for program in both(&work, "program", &[&[main.as_str()], members].concat()) {
            assert_eq!(work.run(&program), OUTPUT, "{members:?}");
        }
    }
    // Older versions of GNU ld do not have the option.
    work.gcc(&[&["-O2", "-flto", "-o", "program", &main], &lib[..]].concat()).quiet();
    assert_eq!(work.run("program"), OUTPUT);
    let left: Vec<_> =
        std::fs::read_dir(work.path("tmp")).unwrap().flatten().map(|it| it.file_name()).collect();
    assert!(left.is_empty(), "temporary files stay: {left:?}");
}

#[test]
fn the_machine_code_brings_in_members() {
    let work = Work::new();
    // The division of these numbers is a call that no source names.
    let main = "volatile unsigned __int128 a = 1000, b = 10; int main(void) { return a / b == 100 ? 0 : 1; }";
    let main = work.c("main", main, LTO);
    let divide = "typedef unsigned __int128 wide; wide __udivti3(wide a, wide b)
        { (void)a; (void)b; return 100; }";
    for program in both(&work, "library", &[&main]) {
        work.run(&program);
    }
    work.c("divide", divide, PLAIN);
    work.c("fat", divide, &["-O2", "-flto", "-fPIC", "-ffat-lto-objects"]);
    work.c("slim", divide, LTO);
    for member in ["divide", "fat"] {
        let archive = work.ar(&format!("lib{member}.a"), "", &[&format!("{member}.o")]);
        work.gcc(&["-o", "program", "-flto", &main, &archive, "-Wl,--no-demangle"]).quiet();
        work.run("program");
        assert!(work.elf("program").find_symbol("__udivti3").is_some());
    }
    let archive = work.ar("libslim.a", "", &["slim.o"]);
    work.gcc(&["-o", "program", "-flto", "-nodefaultlibs", &main, &archive, "-lc"]).quiet();
    work.run("program");
    // Nobody knows beforehand that profiling asks for this symbol.
    let main = work.c("main", "int main(void) { return 0; }", &[LTO, &["-pg", "-mfentry"]].concat());
    work.c("entry", "void __fentry__(void) {}", LTO);
    let archive = work.ar("libentry.a", "", &["entry.o"]);
    let late = ["libentry.a(entry.o)", "__fentry__", "-fno-lto"];
    let fixed = ["-o", "program", "-flto", "-pg", "-mfentry", "-nostartfiles", "-Wl,-e,main"];
    work.gcc(&[&fixed[..], &[&main, &archive]].concat()).fails().says(&late);
}

/// A member that a call of the compiler's brings in shares variables and functions with intermediate code.
#[test]
fn late_members_use_what_was_compiled() {
    let work = Work::new();
    let bump = "inline int bump() { static int n; return ++n; }\n";
    let divide = format!(
        "{bump}int twice(int); extern \"C\" __int128 __divti3(__int128 a, __int128 b)
        {{ return twice((long long) a / (long long) b) + bump(); }}"
    );
    let main = format!(
        "{bump}int twice(int n) {{ return n * 2; }} volatile long long low = 21, by = 7;
        int main() {{ bump(); __int128 a = low, b = by; return a / b == 8 ? 0 : 1; }}"
    );
    let archive = work.ar("libdivide.a", "", &[&work.cc("divide", &divide, PLAIN)]);
    let main = work.cc("main", &main, LTO);
    // GNU ld reports both symbols as undefined.
    work.gcc(&["-o", "program", "-O2", "-flto", &main, &archive]).quiet();
    work.run("program");
}

/// gcc's plugin does not see what assembly defines, so a member is taken for it that the compiled code makes
/// superfluous. What the program wants of that member besides brings it back.
#[test]
fn a_member_goes_if_compiled_assembly_defines_its_symbol() {
    need!(tools::own_linker());
    let work = Work::new();
    let main =
        "__asm__(\".globl h\\n.data\\nh: .byte 5\\n.text\"); extern char h; int main(void) { return h - 5; }";
    let main = work.c("main", main, &["-O2", "-flto", "-fno-pie"]);
    let member = work.c("member", "char h = 7; int other = 1;", PLAIN);
    let user = work.c("user", "extern int other; int *user(void) { return &other; }", PLAIN);
    let archive = work.ar("libmember.a", "", &[&member]);
    for order in [[&main, &archive], [&archive, &main]] {
        work.gcc(&["-O2", "-flto", "-no-pie", "-o", "program", order[0], order[1]]).ok();
        work.run("program");
        assert!(work.elf("program").find_symbol("other").is_none());
    }
    let clash = work.gcc(&["-O2", "-flto", "-no-pie", "-o", "program", &main, &user, &archive]).fails();
    clash.says(&["multiple definition of `h'", "member.o"]);
}

#[test]
fn libraries_export_by_version_script_visibility_and_excluded_archives() {
    let work = Work::new();
    let source = "int inner(int x) { return x * 7; } int api(int x) { return inner(x) + 1; }
        __attribute__((visibility(\"hidden\"))) int quiet(int x) { return x + 2; } int more(int x) { return quiet(x); }";
    let library = work.c("library", source, LTO);
    let list = work.write("library.map", "V1 { global: api; local: *; };");
    let script = format!("-Wl,--version-script={list}");
    let [ours, gnu] = both(&work, "libscript.so", &["-shared", &library, &script]);
    assert_eq!(exports(&work, &ours), exports(&work, &gnu));
    assert!(work.elf(&ours).find_symbol("inner").is_none(), "the compiler may drop it");
    let [ours, gnu] = both(&work, "liball.so", &["-shared", &library]);
    assert_eq!(exports(&work, &ours), exports(&work, &gnu));
    assert!(exports(&work, &ours).contains("inner") && !exports(&work, &ours).contains("quiet"));

    let caller = work.c("caller", "int api(int); int outer(int x) { return api(x); }", PLAIN);
    let archive = work.ar("libexcluded.a", "", &[&library]);
    work.gcc(&["-shared", "-flto", "-o", "libouter.so", &caller, &archive, "-Wl,--exclude-libs,ALL"]).quiet();
    work.elf("libouter.so");
    assert_eq!(exports(&work, "libouter.so"), BTreeSet::from(["outer".to_owned()]));
}

#[test]
fn what_only_libraries_lists_and_options_name_is_kept() {
    let work = Work::new();
    work.shared("call", "int provided(int); int call(void) { return provided(4); }", &[]);
    let main = "int call(void); int provided(int x) { return x + 1; } int spare(int x) { return x * x; }
        int main(void) { return call() == 5 ? 0 : 1; }";
    let main = work.c("main", main, LTO);
    let list = work.write("list", "{ spare; };");
    let list = format!("-Wl,--dynamic-list={list}");
    for (extra, spare) in [
        (&[][..], false),
        (&[list.as_str()], true),
        (&["-rdynamic"], true),
        (&["-Wl,-u,spare"], true),
        (&["-Wl,--defsym=other=spare"], true),
        (&["-no-pie"], false),
    ] {
        let [ours, gnu] = both(&work, "program", &[&[main.as_str(), "-L.", "-lcall"], extra].concat());
        for program in [&ours, &gnu] {
            work.run(program);
            assert_eq!(work.elf_unchecked(program).find_symbol("spare").is_some(), spare, "{extra:?}");
        }
        assert_eq!(exports(&work, &ours), exports(&work, &gnu), "{extra:?}");
        assert!(exports(&work, &ours).contains("provided"));
    }
}

#[test]
fn wrapped_symbols_are_what_gnu_ld_makes_of_them() {
    let work = Work::new();
    let main = "#include <stdio.h>
        int foo(int); int __real_foo(int); int __wrap_foo(int x) { return __real_foo(x) + 100; }
        int main(void) { printf(\"%d\\n\", foo(1)); return 0; }";
    let foo = "int foo(int x) { return x + 1; }";
    for (name, flags) in [("lto", LTO), ("code", PLAIN)] {
        work.c(&format!("main-{name}"), main, flags);
        work.c(&format!("foo-{name}"), foo, flags);
    }
    for order in [["main-lto.o", "foo-code.o"], ["main-code.o", "foo-lto.o"], ["main-lto.o", "foo-lto.o"]] {
        let programs = both(&work, "program", &[&order[..], &["-Wl,--wrap=foo"]].concat());
        let [ours, gnu] = programs.map(|program| work.run(&program));
        assert_eq!(ours, gnu, "{order:?}");
        // If gcc sees both sides, it binds the reference before a linker can wrap it.
        assert!(ours == "102\n" || order == ["main-lto.o", "foo-lto.o"], "{ours}");
    }
}

#[test]
fn weak_and_common_definitions_give_way() {
    let work = Work::new();
    let [main, helper, machine] = objects(&work);
    let weak = work.c("weak", "__attribute__((weak)) int helper(int x) { return x - 2; }", LTO);
    let code = work.c("helper-code", HELPER, PLAIN);
    for helper in [&helper, &code] {
        let programs = both(&work, "program", &[&weak, &main, helper, &machine]);
        let [ours, gnu] = programs.map(|program| work.run(&program));
        assert_eq!(ours, gnu);
    }
    let user =
        "int block[100]; int get(void); int main(void) { block[9] = 5; block[99] = 1; return get() - 5; }";
    let flags = [LTO, &["-fcommon"]].concat();
    let user = work.c("user", user, &flags);
    let small = "int block[10]; int get(void) { return block[9]; }";
    work.c("small", small, &["-fcommon", "-fPIC"]);
    for program in both(&work, "common", &["small.o", &user]) {
        work.run(&program);
    }
}

#[test]
fn clashes_and_gaps_are_told_with_their_files() {
    let work = Work::new();
    let [main, helper, machine] = objects(&work);
    let code = work.c("rival", HELPER, PLAIN);
    let twice = work.gcc(&["-flto", "-o", "program", &main, &helper, &machine, &code]);
    twice.fails().says(&["multiple definition of `helper'", "helper.o", "rival.o"]);
    let gap =
        work.gcc(&["-flto", "-o", "program", &main, &machine]).fails().says(&["undefined symbol: helper"]);
    assert_eq!(gap.stderr.matches("undefined symbol").count(), 1, "{gap}");
}

#[test]
fn relocatable_outputs_hold_intermediate_or_machine_code() {
    let work = Work::new();
    let [main, helper, machine] = objects(&work);
    let has_intermediate = |file: &str| {
        work.elf_unchecked(file).section_names().iter().any(|name| name.starts_with(".gnu.lto_"))
    };
    work.gcc(&["-O2", "-flto", "-r", "-o", "slim.o", &main, &helper]).quiet();
    assert!(has_intermediate("slim.o"));
    work.gcc(&["-flto", "-O2", "-r", "-flinker-output=nolto-rel", "-o", "code.o", &main, &helper]).quiet();
    assert!(!has_intermediate("code.o"));
    // With machine code among the inputs, the result can only be machine code, and gcc says so.
    work.gcc(&["-flto", "-O2", "-r", "-o", "mixed.o", &main, &helper, &machine]).ok().says(&["nolto-rel"]);
    assert!(!has_intermediate("mixed.o"));
    for objects in [&["slim.o", &machine][..], &["code.o", &machine], &["mixed.o"]] {
        work.gcc(&[&["-flto", "-o", "program"], objects].concat()).quiet();
        assert_eq!(work.run("program"), OUTPUT, "{objects:?}");
    }
}

#[test]
fn fat_objects_are_compiled_anew_with_a_plugin_and_linked_without() {
    let work = Work::new();
    let [main, _, machine] = objects(&work);
    let fat = work.c("fat", HELPER, &["-O2", "-flto", "-fPIC", "-ffat-lto-objects"]);
    for (program, idle) in both(&work, "program", &[&main, &fat, &machine]).iter().zip([false, false]) {
        assert_eq!(work.run(program), OUTPUT);
        assert_eq!(work.elf_unchecked(program).find_symbol("idle").is_some(), idle);
    }
    let main = work.c("main-code", MAIN, PLAIN);
    work.gcc(&["-fno-lto", "-o", "code", &main, &fat, &machine]).quiet();
    assert_eq!(work.run("code"), OUTPUT);
    assert!(work.elf("code").find_symbol("idle").is_some());
}

#[test]
fn frames_of_compiled_code_are_indexed_and_verified() {
    let work = Work::new();
    let [main, helper, machine] = objects(&work);
    for mode in ["--sframe-index", "--sframe=merge"] {
        let mode = format!("-Wl,{mode},--sframe-from-eh-frame=missing");
        work.gcc(&["-O2", "-flto", "-o", "program", &main, &helper, &machine, &mode]).quiet();
        assert_eq!(work.run("program"), OUTPUT);
        let verified = work.verified("program");
        assert!(verified.contains(" 0 wrong") && verified.contains("0 errors, 0 warnings"), "{verified}");
    }
}

#[test]
fn frames_that_the_assembler_wrote_are_split_and_indexed() {
    let assembler = need!(tools::assembler(3));
    let work = Work::new();
    let [main, helper, machine] = objects(&work);
    // gcc also uses this assembler for the compiled code.
    std::fs::create_dir(work.path("tools")).unwrap();
    std::os::unix::fs::symlink(assembler, work.path("tools/as")).unwrap();
    let tools = format!("-B{}", work.path("tools").display());
    for mode in ["--sframe-index", "--sframe-split"] {
        let mode = format!("-Wl,{mode}");
        let gsframe = "-Wa,--gsframe";
        work.gcc(&[
            &tools,
            "-O2",
            "-flto",
            gsframe,
            "-ffunction-sections",
            "-o",
            "program",
            &main,
            &helper,
            &machine,
            &mode,
        ])
        .ok();
        assert_eq!(work.run("program"), OUTPUT);
        let verified = work.verified("program");
        assert!(verified.contains(" 0 wrong") && verified.contains("0 errors, 0 warnings"), "{verified}");
    }
}

#[test]
fn llvm_bitcode_is_compiled_by_its_plugin() {
    let clang = need!(tools::clang("clang"));
    need!(tools::llvm_plugin());
    let work = Work::new();
    for (name, source) in [("main", MAIN), ("helper", HELPER), ("machine", MACHINE)] {
        let file = work.write(&format!("{name}.c"), source);
        for (suffix, flags) in
            [("", &["-O2", "-flto"][..]), ("-thin", &["-O2", "-flto=thin"]), ("-code", &["-O2"])]
        {
            let object = format!("{name}{suffix}.o");
            work.command(&clang, &[flags, &["-fPIC", "-c", "-o", &object, &file]].concat()).quiet();
        }
    }
    let archive = work.ar("liball.a", "", &["helper.o", "machine.o"]);
    let thin = work.ar("libthin.a", "T", &["helper.o", "machine.o"]);
    for objects in [
        &["main.o", "helper.o", "machine-code.o"][..],
        &["main-code.o", "machine.o", "helper.o"],
        &["main-thin.o", "helper-thin.o", "machine-code.o"],
        &["main.o", &archive],
        &["main.o", &thin],
        &["-static", "main.o", "-Wl,--start-lib", "helper.o", "machine.o", "-Wl,--end-lib"],
    ] {
        work.drive(&clang, &[&["-O2", "-flto", "-o", "program"], objects].concat()).ok();
        assert_eq!(work.run("program"), OUTPUT, "{objects:?}");
        assert!(work.elf("program").find_symbol("idle").is_none(), "{objects:?}");
    }
    // `-mllvm` reaches LLVM, which knows its options.
    let objects = ["-O2", "-flto", "-o", "program", "main.o", "helper.o", "machine.o"];
    work.drive(&clang, &[&objects[..], &["-Wl,-mllvm,-inline-threshold=5"]].concat()).ok();
    assert_eq!(work.run("program"), OUTPUT);
    work.drive(&clang, &[&objects[..], &["-Wl,-mllvm,-no-such-option-of-llvm"]].concat()).fails();
    // If both have a weak function, one copy stays.
    let twice = "__attribute__((noinline)) inline int twice(int x) { static int n; return n += x * 2; }";
    for (name, code, flags) in [
        ("one", "int two(); int main() { return twice(2) + two() - 14; }", &["-O2", "-flto"][..]),
        ("two", "int two() { return twice(3); }", &["-O2"]),
    ] {
        let file = work.write(&format!("{name}.cc"), format!("{twice} {code}"));
        let object = format!("{name}.o");
        work.command(&clang, &[flags, &["-fPIC", "-c", "-o", &object, &file]].concat()).quiet();
    }
    work.drive(&clang, &["-O2", "-flto", "-o", "program", "one.o", "two.o"]).ok();
    work.run("program");
    assert_eq!(work.elf("program").symbols().iter().filter(|symbol| symbol.name == "_Z5twicei").count(), 1);
    work.drive(&clang, &["-flto", "-shared", "-o", "libhelper.so", "helper.o"]).ok();
    assert_eq!(exports(&work, "libhelper.so"), BTreeSet::from(["helper".into(), "idle".into()]));
    let gcc = work.gcc(&["-flto", "-o", "program", "main.o", "helper.o", "machine.o"]).fails();
    gcc.says(&["main.o", "LTO", "not taken by", "liblto_plugin.so"]);
}

#[test]
fn a_plugin_that_is_not_needed_is_not_loaded() {
    let work = Work::new();
    let code = work.c("code", "int main(void) { return 0; }", PLAIN);
    let plugin = ["-Wl,-plugin,/nonexistent/liblto_plugin.so", "-Wl,-plugin-opt=x"];
    work.gcc(&[&["-fno-lto", "-o", "program", &code], &plugin[..]].concat()).quiet();
    let slim = work.c("slim", "int main(void) { return 0; }", LTO);
    let failed = work.gcc(&[&["-fno-lto", "-o", "program", &slim], &plugin[..]].concat()).fails();
    failed.says(&["cannot load the LTO plugin /nonexistent/liblto_plugin.so"]);
    let library = work.shared("empty", "int empty;", &[]);
    let option = format!("-Wl,-plugin,./{library}");
    work.gcc(&["-fno-lto", "-o", "program", &slim, &option]).fails().says(&["onload"]);
    // A library that is not a compiler's plugin may come after machine code.
    work.gcc(&["-fno-lto", "-o", "program", &code, &option]).fails().says(&["onload"]);
    work.gcc(&["-fno-lto", "-o", "program", &slim]).fails().says(&["slim.o", "LTO", "-flto"]);
}

/// An inline variable and a virtual class in the main file and in another one.
const SHARED: &str = "#include <memory>
    inline int counter = 40;
    struct S { virtual ~S() {} virtual int f() { static int n = 1; return n += counter; } };";

/// If a group is in both intermediate and machine code, the first one prevails, and no other copy stays.
#[test]
fn groups_of_claimed_files_take_part_in_the_choice() {
    let work = Work::new();
    let main = format!(
        "{SHARED} int late(S *); std::shared_ptr<S> make();
        int main() {{ auto a = std::make_shared<S>(), b = make(); counter++;
            return a->f() + late(b.get()) == 42 + 83 ? 0 : 1; }}"
    );
    let late = format!(
        "{SHARED} int late(S *s) {{ return s->f(); }}
        std::shared_ptr<S> make() {{ return std::make_shared<S>(); }}"
    );
    for (level, unique) in [("-O0", "-fgnu-unique"), ("-O2", "-fgnu-unique"), ("-O2", "-fno-gnu-unique")] {
        work.cc("main.cc", &main, &[level, unique, "-flto", "-fPIC"]);
        work.cc("late.cc", &late, &[level, unique, "-fPIC"]);
        let archive = work.ar("liblate.a", "", &["late.cc.o"]);
        for order in [
            &["main.cc.o", "late.cc.o"][..],
            &["late.cc.o", "main.cc.o"],
            &["-static", "main.cc.o", &archive],
            &["-no-pie", "-Wl,--gc-sections", "main.cc.o", &archive],
            &["main.cc.o", "-Wl,--start-lib", "late.cc.o", "-Wl,--end-lib"],
        ] {
            work.gxx(&[&["-O2", "-flto", "-o", "program"], order].concat()).quiet();
            work.run("program");
            let symbols = work.elf_unchecked("program").symbols();
            for name in ["counter", "_ZN1S1fEv", "_ZZN1S1fEvE1n"] {
                let copies = symbols.iter().filter(|symbol| symbol.name == name).count();
                assert_eq!(copies, 1, "{name} with {level} {unique} {order:?}");
            }
        }
        work.gxx(&["-O2", "-flto", "-shared", "-o", "liball.so", "main.cc.o", "late.cc.o"]).quiet();
        assert!(work.made_here("liball.so"));
    }
}

/// A copy in machine code goes if the plugin's objects have everything that it defines. Otherwise it comes
/// back.
#[test]
fn copies_of_machine_code_go_or_come_back_with_what_the_plugin_made() {
    need!(tools::own_linker());
    let work = Work::new();
    plugin(&work);
    let marked = marked(&work, "marked");
    let main = work.s(
        "main",
        ".globl main\nmain: call shared_one\nsubl $7, %eax\nret
        .section .text.shared,\"axG\",@progbits,shared,comdat
        .weak shared_one, shared_two\nshared_one: movl $7, %eax\nret\nshared_two: ret\n.ascii \"machine copy\"\n",
    );
    let made = |name: &str, code: &str| work.s(name, &format!(".text\n.globl ir_main\nir_main: ret\n{code}"));
    let both =
        made("both", ".globl shared_one, shared_two\nshared_one: movl $7, %eax\nret\nshared_two: ret\n");
    let none = made("none", "");
    let local = made("local", "shared_one: ret\nshared_two: ret\n");
    for (result, copy_stays) in [(both, false), (none, true), (local, true)] {
        let file = format!("-Wl,-plugin-opt=file={result}");
        let plugin = ["-Wl,-plugin,./plugin.so", &file, "-Wl,-plugin-opt=group"];
        work.gcc(&[&["-fno-lto", "-no-pie", "-o", "program", &marked, &main], &plugin[..]].concat()).ok();
        work.run("program");
        let symbols = work.elf("program").symbols();
        let is_copy = |symbol: &Symbol| symbol.name == "shared_one" && symbol.binding == STB_WEAK;
        assert_eq!(symbols.iter().any(is_copy), copy_stays, "{result}");
        let bytes = work.read("program");
        assert_eq!(bytes.windows(12).any(|text| text == b"machine copy"), copy_stays, "{result}");
    }
}

/// A group in the plugin's object wins over the copy of a member that this object brought in, even if that
/// stands before it.
#[test]
fn a_compiled_group_wins_over_that_of_a_late_member() {
    need!(tools::own_linker());
    let work = Work::new();
    plugin(&work);
    let marked = marked(&work, "marked");
    let group =
        |code: &str| format!(".section .text.shared,\"axG\",@progbits,shared,comdat\n.weak shared\n{code}\n");
    let member = format!(".globl late\nlate: ret\n{}", group("shared: ret\n.ascii \"copy of the member\""));
    let archive = work.ar("liblate.a", "", &[&work.s("late", &member)]);
    let main = work.s("main", ".globl main\nmain: call ir_main\nxorl %eax, %eax\nret\n");
    let code = ".globl ir_main\nir_main: call late\ncall shared\ncall shared_part\nret\n";
    let parts = group("shared: ret\n.globl shared_part\n.hidden shared_part\nshared_part: ret");
    let made = work.s("made", &format!("{code}{parts}"));
    let file = format!("-Wl,-plugin-opt=file={made}");
    let plugin = ["-Wl,-plugin,./plugin.so", &file];
    work.gcc(&[&["-fno-lto", "-no-pie", "-o", "program", &main, &archive, &marked], &plugin[..]].concat())
        .ok();
    work.run("program");
    assert!(!work.read("program").windows(18).any(|text| text == b"copy of the member"));
}
