//! Undefined and duplicate symbols: messages name every place, names are demangled, limits apply.

use crate::support::Work;

#[test]
fn undefined_symbols_name_every_reference() {
    let work = Work::new();
    let a = work.cc(
        "a",
        "int missing(int); int lost(); int f() { return missing(1); } int main() { return f() + lost(); }",
        &["-ffunction-sections"],
    );
    let b = work.cc("b", "int missing(int); int g() { return missing(2); }", &["-ffunction-sections"]);
    let outcome = work.gxx(&["-o", "program", &a, &b]).fails();
    let outcome = outcome.says(&[
        "undefined symbol",
        "missing(int)",
        "lost()",
        "a.o",
        "b.o",
        ".text._Z1fv+0x",
        ".text._Z1gv+0x",
    ]);
    assert!(!work.exists("program"));
    outcome.says_not(&["_Z7missingi"]);
}

#[test]
fn no_demangle_shows_names_as_they_are() {
    let work = Work::new();
    let a = work.cc("a", "int missing(int); int main() { return missing(1); }", &[]);
    work.gxx(&["-o", "program", &a, "-Wl,--no-demangle"]).fails().says(&["_Z7missingi"]);
}

#[test]
fn many_references_are_cut_off() {
    let work = Work::new();
    let calls: String = (0..40).map(|i| format!("int f{i}(void) {{ return missing(); }}\n")).collect();
    let a = work.c("a", &format!("int missing(void);\n{calls}int main(void) {{ return 0; }}"), &[]);
    let outcome = work.gcc(&["-o", "program", &a]).fails();
    let shown = outcome.stderr.matches("a.o:(.text+").count();
    assert!((1..=20).contains(&shown), "{outcome}");
}

#[test]
fn duplicate_symbols_name_every_place() {
    let work = Work::new();
    let a = work.cc("a", "int twice(int x) { return x; } int main() { return 0; }", &[]);
    let b = work.cc("b", "int twice(int x) { return x + 1; }", &[]);
    let c = work.cc("c", "int twice(int x) { return x + 2; }", &[]);
    work.gxx(&["-o", "program", &a, &b, &c]).fails().says(&[
        "multiple definition of",
        "twice(int)",
        "a.o",
        "b.o",
        "c.o",
    ]);
    for option in ["-Wl,--allow-multiple-definition", "-Wl,-z,muldefs"] {
        work.gxx(&["-o", "program", &a, &b, &c, option]).ok();
        work.run("program");
    }
}

#[test]
fn all_errors_of_a_pass_are_shown() {
    let work = Work::new();
    let a = work.c(
        "a",
        "int one(void); int two(void); int three(void); int main(void) { return one() + two() + three(); }",
        &[],
    );
    work.gcc(&["-o", "program", &a]).fails().says(&["one", "two", "three"]);
}

#[test]
fn error_limit_stops_the_list() {
    let work = Work::new();
    let names: Vec<String> = (0..50).map(|i| format!("missing_{i:02}")).collect();
    let declarations: String = names.iter().map(|n| format!("int {n}(void);\n")).collect();
    let calls: Vec<String> = names.iter().map(|n| format!("{n}()")).collect();
    let a = work.c("a", &format!("{declarations}int main(void) {{ return {}; }}", calls.join("+")), &[]);
    let shown = |limit: &str| {
        let outcome = work.gcc(&["-o", "program", &a, limit]).fails();
        names.iter().filter(|n| outcome.stderr.contains(n.as_str())).count()
    };
    assert!(shown("-Wl,--error-limit=3") <= 3);
    assert_eq!(shown("-Wl,--error-limit=0"), 50);
}

#[test]
fn unresolved_symbols_options_choose_the_outcome() {
    let work = Work::new();
    let a =
        work.c("a", "int missing(void); int main(void) { return 0; } int f(void) { return missing(); }", &[]);
    work.gcc(&["-o", "p", &a, "-Wl,--unresolved-symbols=ignore-all"]).quiet();
    work.gcc(&["-o", "p", &a, "-Wl,--warn-unresolved-symbols"]).ok().says(&["warning", "missing"]);
    work.gcc(&["-o", "p", &a, "-Wl,--noinhibit-exec"]).ok().says(&["missing"]);
    work.gcc(&["-o", "p", &a, "-Wl,--unresolved-symbols=ignore-in-object-files"]).quiet();
    work.gcc(&["-o", "p", &a, "-Wl,--unresolved-symbols=ignore-in-shared-libs"]).fails();
}

#[test]
fn shared_libraries_may_leave_symbols_open_unless_told() {
    let work = Work::new();
    let a = work.c("a", "int missing(void); int f(void) { return missing(); }", &["-fPIC"]);
    work.gcc(&["-shared", "-o", "liba.so", &a]).quiet();
    for option in ["-Wl,--no-undefined", "-Wl,-z,defs"] {
        work.gcc(&["-shared", "-o", "libb.so", &a, option]).fails().says(&["missing"]);
    }
    let main = work.c("main", "int f(void); int main(void) { return f(); }", &["-O0"]);
    work.gcc(&["-o", "p", &main, "-L.", "-la"]).fails().says(&["missing", "liba.so"]);
    work.gcc(&["-o", "p", &main, "-L.", "-la", "-Wl,--allow-shlib-undefined"]).quiet();
}

#[test]
fn libraries_that_the_program_does_not_load_may_lack_symbols() {
    let work = Work::new();
    let a = work.c("a", "int missing(void); int f(void) { return missing(); }", &["-fPIC"]);
    work.gcc(&["-shared", "-o", "liba.so", &a]).quiet();
    let main = work.c("main", "int main(void) { return 0; }", &[]);
    let link = |option: &str| work.gcc(&["-o", "p", &main, "-L.", option, "-la"]);
    link("-Wl,--as-needed").quiet();
    work.run("p");
    link("-Wl,--no-as-needed").fails().says(&["missing", "liba.so"]);
}

#[test]
fn libraries_find_no_definition_that_the_program_keeps_for_itself() {
    let work = Work::new();
    let a = work.c("a", "int secret(void); int f(void) { return secret(); }", &["-fPIC"]);
    work.gcc(&["-shared", "-o", "liba.so", &a]).quiet();
    let b = work.c("b", "int secret(void) { return 0; }", &["-fPIC"]);
    work.gcc(&["-shared", "-o", "libb.so", &b]).quiet();
    let text = "int f(void); int main(void) { return f(); }";
    let hidden = "__attribute__((visibility(\"hidden\"))) int secret(void) { return 0; }";
    let hidden = work.c("hidden", &format!("{hidden} {text}"), &["-O0"]);
    let open = work.c("open", &format!("int secret(void) {{ return 0; }} {text}"), &["-O0"]);
    work.write("local.ver", "{ local: secret; };");
    let link = |object: &str, flags: &[&str]| {
        work.gcc(&[&["-Wl,--no-as-needed", "-o", "p", object, "-L.", "-la"][..], flags].concat())
    };
    link(&open, &[]).quiet();
    work.run("p");
    link(&hidden, &[]).fails().says(&["hidden symbol secret", "hidden.o", "liba.so"]);
    link(&open, &["-Wl,--version-script,local.ver"]).fails().says(&[
        "local symbol secret",
        "open.o",
        "liba.so",
    ]);
    // Another library defines it for all of them, or the user allows it.
    link(&hidden, &["-lb"]).quiet();
    link(&hidden, &["-Wl,--allow-shlib-undefined"]).quiet();
    link(&hidden, &["-Wl,--ignore-unresolved-symbol=secret"]).quiet();
    link(&hidden, &["-shared"]).quiet();
}

#[test]
fn rpath_link_finds_what_libraries_need() {
    let mut work = Work::new();
    work.env("LD_LIBRARY_PATH", "");
    std::fs::create_dir(work.path("deep")).unwrap();
    let inner = work.c("inner", "int inner(void) { return 1; }", &["-fPIC"]);
    work.gcc(&["-shared", "-nostdlib", "-o", "deep/libinner.so", &inner]).quiet();
    let outer = "int inner(void), lost(void); int outer(void) { return inner() + lost(); }";
    let outer = work.c("outer", outer, &["-fPIC"]);
    let link_outer = |flags: &[&str]| {
        let args = ["-shared", "-nostdlib", "-o", "libouter.so", &outer, "-Ldeep", "-linner"];
        work.gcc(&[&args[..], flags].concat()).quiet();
    };
    link_outer(&[]);
    let main = work.c("main", "int outer(void); int main(void) { return outer() + 0; }", &["-O0"]);
    let link = |object: &str, flags: &[&str]| {
        work.gcc(&[&["-o", "p", object, "-L.", "-louter"][..], flags].concat())
    };
    // If a library's own libraries are not all there, it cannot be judged.
    link(&main, &[]).quiet();
    for option in ["-Wl,-rpath-link,deep", "-Wl,-rpath-link=nowhere:deep"] {
        link(&main, &[option]).fails().says(&["lost", "libouter.so"]).says_not(&["inner"]);
    }
    link(&main, &["-Wl,-rpath-link,nowhere"]).quiet();
    let lost = work.c("lost", "int lost(void) { return 2; }", &[]);
    link(&main, &[&lost, "-Wl,-rpath-link,deep"]).quiet();

    // A library's own library does not count as a library of the program, and the message names it.
    let direct = work.c("direct", "int inner(void); int main(void) { return inner(); }", &["-O0"]);
    link(&direct, &[&lost, "-Wl,-rpath-link,deep"]).fails().says(&[
        "undefined symbol: inner",
        "deep/libinner.so defines it",
        "name it on the command line",
    ]);

    // The run path of the library itself counts too, relative to the library.
    link_outer(&["-Wl,-rpath,$ORIGIN/deep"]);
    link(&main, &["-Wl,-rpath-link,nowhere"]).fails().says(&["lost"]);
}

/// Debian 12's libm2pim.so calls sinl and does not name libm.so.6, which libstdc++ beside it brings.
#[test]
fn a_library_may_lack_what_another_one_brings_from_outside() {
    let work = Work::new();
    for (name, source, needs) in [
        ("deep", "int deep(void) { return 5; }", &[][..]),
        ("brings", "int deep(void); int brings(void) { return deep(); }", &["-L.", "-ldeep"]),
        ("lacks", "int deep(void); int brings(void); int lacks(void) { return deep() + brings(); }", &[]),
    ] {
        let object = work.c(name, source, &["-fPIC"]);
        let output = format!("lib{name}.so");
        let rest = [&["-shared", "-o", &output, &object][..], needs, &["-Wl,-rpath,$ORIGIN"]].concat();
        work.gcc(&rest).quiet();
    }
    let main = work.c("main", "int lacks(void); int main(void) { return lacks() != 10; }", &[]);
    let link = |libraries: &[&str]| {
        let rest = [&["-o", "program", &main, "-L.", "-llacks"][..], libraries, &["-Wl,-rpath,$ORIGIN"]];
        work.gcc(&rest.concat())
    };
    link(&["-lbrings"]).quiet();
    work.run("program");
    link(&["-Wl,--as-needed", "-lbrings"]).quiet();
    work.run("program");
    // Without it, the library's needs are none, and it lacks both.
    link(&[]).fails().says(&["undefined reference: deep", "undefined reference: brings", "liblacks.so"]);
    // What a library that the program does not load would bring counts for nothing.
    let other = work.c("other", "int other(void) { return 1; }", &["-fPIC"]);
    let rest = ["-shared", "-o", "libother.so", &other, "-Wl,--no-as-needed", "-L.", "-ldeep"];
    work.gcc(&[&rest[..], &["-Wl,-rpath,$ORIGIN"]].concat()).quiet();
    link(&["-Wl,--as-needed", "-lother"]).fails().says(&["undefined reference: deep"]);
}

#[test]
fn missing_libraries_and_files_are_named() {
    let work = Work::new();
    let a = work.c("a", "int main(void) { return 0; }", &[]);
    work.gcc(&["-o", "p", &a, "-lnosuchlibrary", "-lneither"]).fails().says(&["nosuchlibrary", "neither"]);
    work.ld(&["-o", "p", "nosuchfile.o"]).fails().says(&["nosuchfile.o"]);
    work.ld(&["-o", "p"]).fails().says(&["no input files"]);
}

#[test]
fn a_relocation_that_overflows_names_place_and_symbol() {
    let work = Work::new();
    let a = work.s("a", ".globl _start\n_start: movl $far, %eax\n.globl far\n.set far, 0x123456789\n");
    work.ld(&["-o", "p", &a]).fails().says(&["R_X86_64_32", "a.o:(.text+0x1)", "far"]);
}

#[test]
fn absolute_relocations_in_shared_code_get_advice() {
    let work = Work::new();
    let a = work.s("a", ".globl f\nf: movl $value, %eax\nret\n.data\n.globl value\nvalue: .long 1\n");
    work.ld(&["-shared", "-o", "liba.so", &a]).fails().says(&[
        "R_X86_64_32",
        "value",
        "a.o:(.text+0x1)",
        "-fPIC",
    ]);
}

/// What a message shows for a reference and for a definition, with line information in every form.
const WITH_LINES: &[&[&str]] = &[
    &["-g", "-gdwarf-4"],
    &["-g", "-gdwarf-5"],
    &["-gdwarf-5", "-gz"],
    &["-gdwarf-4", "-gz=zlib", "-ffunction-sections"],
];

#[test]
fn undefined_symbols_name_the_line_and_the_function() {
    let source = "int missing(int);\nint caller(int x) {\n  return missing(x);\n}\nextern int lost;\nint *kept = &lost;\n\
                  int main() { return caller(1) + *kept; }\n";
    for flags in WITH_LINES {
        let work = Work::new();
        let u = work.cc("u", source, flags);
        let whole = format!("{}:3)", work.path("u.cc").display());
        work.gxx(&["-o", "program", &u]).fails().says(&[
            ">>> referenced by u.cc:3 (",
            &whole,
            ">>> u.o:(",
            " in function caller(int)\n",
            ">>> referenced by u.cc:6 (",
        ]);
    }
    let work = Work::new();
    let u = work.cc("u", source, &["-g0"]);
    let outcome = work.gxx(&["-o", "program", &u]).fails();
    outcome.says(&[">>> referenced by u.o:(", " in function caller(int)\n"]).says_not(&["u.cc"]);
}

#[test]
fn duplicate_symbols_name_the_line() {
    for flags in WITH_LINES {
        let work = Work::new();
        let a =
            work.cc("a", "int twice(int x) { return x; }\nint both = 1;\nint main() { return 0; }\n", flags);
        let b = work.cc("b", "\nint twice(int x) {\n  return x + 1; }\nint both = 2;\n", flags);
        work.gxx(&["-o", "program", &a, &b]).fails().says(&[
            ">>> defined at a.cc:1 (",
            ">>> defined at b.cc:2 (",
            ">>> defined at a.cc:2 (",
            ">>> defined at b.cc:4 (",
            " in function twice(int)",
        ]);
    }
}
