//! Which definition prevails: strong, weak, common and undefined weak symbols, visibility, and the options
//! that rename, add and hide symbols.

use crate::support::Work;
use crate::support::elf::*;

#[test]
fn strong_beats_weak_and_the_first_weak_beats_later_ones() {
    let work = Work::new();
    let main = work.c(
        "main",
        "#include <stdio.h>\nint a(void); int b(void);\nint main(void) { printf(\"%d %d\\n\", a(), b()); }",
        &[],
    );
    let weak1 = work.c(
        "weak1",
        "__attribute__((weak)) int a(void) { return 1; } __attribute__((weak)) int b(void) { return 1; }",
        &[],
    );
    let weak2 = work.c(
        "weak2",
        "__attribute__((weak)) int a(void) { return 2; } __attribute__((weak)) int b(void) { return 2; }",
        &[],
    );
    let strong = work.c("strong", "int b(void) { return 3; }", &[]);
    work.gcc(&["-o", "program", &main, &weak1, &weak2, &strong]).quiet();
    assert_eq!(work.run("program"), "1 3\n");
}

#[test]
fn commons_merge_to_the_largest_and_yield_to_definitions() {
    let work = Work::new();
    let main = work.c("main", "#include <stdio.h>\nint shared[2]; int defined; char big;\nint main(void) { printf(\"%d %d\\n\", shared[99], defined); }", &["-fcommon"]);
    let other = work.c(
        "other",
        "int shared[100]; int defined = 7; __attribute__((aligned(128))) char big;",
        &["-fcommon"],
    );
    work.gcc(&["-o", "program", &main, &other]).quiet();
    assert_eq!(work.run("program"), "0 7\n");
    let elf = work.elf("program");
    let shared = elf.symbol("shared");
    assert_eq!((shared.size, shared.kind), (400, STT_OBJECT));
    assert_eq!(elf.sections[shared.section as usize].name, ".bss");
    assert_eq!(elf.symbol("big").value % 128, 0);
}

#[test]
fn undefined_weak_symbols_are_null() {
    for (compile, link) in
        [("-fPIE", "-pie"), ("-fno-PIE", "-no-pie"), ("-fno-PIE", "-static"), ("-fPIE", "-static-pie")]
    {
        let work = Work::new();
        let main = work.c("main", "#include <stdio.h>\n__attribute__((weak)) extern int missing(void);\n__attribute__((weak)) extern int data;\nint main(void) { if (missing) missing(); printf(\"%d %d\\n\", missing == 0, &data == 0); }", &[compile]);
        work.gcc(&[link, "-o", "program", &main]).quiet();
        assert_eq!(work.run("program"), "1 1\n", "{link}");
    }
}

#[test]
fn an_undefined_weak_symbol_binds_to_a_library_at_run_time() {
    let work = Work::new();
    work.shared("late", "int unused(void) { return 0; }", &[]);
    work.shared(
        "user",
        "__attribute__((weak)) extern int maybe(void); int ask(void) { return maybe ? maybe() : -1; }",
        &[],
    );
    let elf = work.elf("libuser.so");
    let maybe = elf.dynamic("maybe");
    assert_eq!((maybe.binding, maybe.section), (STB_WEAK, SHN_UNDEF));
    let main = work.c("main", "#include <stdio.h>\nint ask(void); int maybe(void) { return 5; }\nint main(void) { printf(\"%d\\n\", ask()); }", &[]);
    work.gcc(&["-o", "program", &main, "-L.", "-luser"]).quiet();
    assert_eq!(work.run("program"), "5\n", "a symbol that a library references is exported");
    assert!(work.elf("program").find_dynamic("maybe").is_some());
}

#[test]
fn hidden_symbols_stay_inside_and_protected_ones_bind_inside() {
    let work = Work::new();
    let source = "
__attribute__((visibility(\"hidden\"))) int hidden(void) { return 1; }
__attribute__((visibility(\"protected\"))) int guarded(void) { return 2; }
int open(void) { return 3; }
int sum(void) { return hidden() + guarded() * 10 + open() * 100; }
";
    work.shared("vis", source, &[]);
    let elf = work.elf("libvis.so");
    assert!(elf.find_dynamic("hidden").is_none());
    assert_eq!(elf.dynamic("guarded").visibility, STV_PROTECTED);
    assert_eq!(elf.symbol("hidden").binding, STB_LOCAL);
    let main = work.c("main", "#include <stdio.h>\nint sum(void); int guarded(void) { return 7; } int open(void) { return 8; }\nint main(void) { printf(\"%d\\n\", sum()); }", &[]);
    work.gcc(&["-o", "program", &main, "-L.", "-lvis"]).quiet();
    assert_eq!(work.run("program"), "821\n");
}

#[test]
fn the_most_constraining_visibility_wins() {
    let work = Work::new();
    let a = work.c("a", "int f(void) { return 1; }", &["-fPIC"]);
    let b = work.c(
        "b",
        "__attribute__((visibility(\"hidden\"))) int f(void); int g(void) { return f(); }",
        &["-fPIC"],
    );
    work.gcc(&["-shared", "-o", "liba.so", &a, &b]).quiet();
    let elf = work.elf("liba.so");
    assert!(elf.find_dynamic("f").is_none(), "hidden by the reference in b.o");
    assert!(elf.find_dynamic("g").is_some());
}

#[test]
fn unique_symbols_keep_their_binding() {
    let work = Work::new();
    let source = "template <class T> struct S { static int value; };\ntemplate <class T> int S<T>::value = 3;\nint get() { return S<int>::value; }";
    let object = work.cc("unique", source, &["-fPIC"]);
    work.gxx(&["-shared", "-o", "libunique.so", &object]).quiet();
    let elf = work.elf("libunique.so");
    assert_eq!(elf.dynamic("_ZN1SIiE5valueE").binding, STB_GNU_UNIQUE);
    assert_eq!(elf.bytes[7], 3, "ELFOSABI_GNU");
}

#[test]
fn wrap_redirects_references() {
    let work = Work::new();
    let main = work.c("main", "#include <stdio.h>\n#include <stdlib.h>\nint work(void);\nvoid *__real_malloc(size_t n);\nstatic int calls;\nvoid *__wrap_malloc(size_t n) { calls++; return __real_malloc(n); }\nint __wrap_work(void) { return 5; }\nint main(void) { char *p = malloc(10); int n = work(); printf(\"%d %d\\n\", calls, n); free(p); }", &["-O0"]);
    let other = work.c("other", "int work(void) { return 1; }", &[]);
    work.gcc(&["-o", "program", &main, &other, "-Wl,--wrap=malloc", "-Wl,--wrap,work"]).quiet();
    assert_eq!(work.run("program"), "1 5\n");
    work.elf("program");
}

#[test]
fn defsym_defines_numbers_aliases_and_expressions() {
    let work = Work::new();
    let main = work.c("main", "#include <stdio.h>\nint original(int x) { return x + 1; }\nint alias(int);\nextern char number[], sum[];\nint main(void) { printf(\"%d %lx %lx\\n\", alias(1), (long)number, (long)sum); }", &["-fno-PIE"]);
    work.gcc(&[
        "-no-pie",
        "-o",
        "program",
        &main,
        "-Wl,--defsym=alias=original",
        "-Wl,--defsym,number=0x1234",
        "-Wl,--defsym=sum=number + 4 * (1 << 4)",
    ])
    .quiet();
    assert_eq!(work.run("program"), "2 1234 1274\n");
    let elf = work.elf("program");
    assert_eq!(elf.symbol("number").section, SHN_ABS);
    assert_eq!(elf.symbol("alias").value, elf.symbol("original").value);
}

#[test]
fn undefined_and_require_defined_pull_archive_members() {
    let work = Work::new();
    let extra = work.c("extra", "int extra(void) { return 1; }", &[]);
    let archive = work.ar("libextra.a", "", &[&extra]);
    let main = work.c("main", "int main(void) { return 0; }", &[]);
    work.gcc(&["-o", "without", &main, &archive]).quiet();
    work.gcc(&["-o", "with", &main, &archive, "-Wl,-u,extra"]).quiet();
    work.gcc(&["-o", "nowhere", &main, &archive, "-Wl,-u,nowhere"]).quiet();
    work.gcc(&["-o", "required", &main, &archive, "-Wl,--require-defined=extra"]).quiet();
    assert!(work.elf("without").find_symbol("extra").is_none());
    assert!(work.elf("with").find_symbol("extra").is_some());
    assert!(work.elf("required").find_symbol("extra").is_some());
    work.gcc(&["-o", "x", &main, "-Wl,--require-defined=nowhere"]).fails().says(&["nowhere"]);
}

#[test]
fn exclude_libs_hides_archive_symbols() {
    let work = Work::new();
    let inner = work.c("inner", "int inner(void) { return 1; }", &["-fPIC"]);
    let kept = work.c("kept", "int kept(void) { return 1; }", &["-fPIC"]);
    let user = work.c(
        "user",
        "int inner(void); int kept(void); int use(void) { return inner() + kept(); }",
        &["-fPIC"],
    );
    work.ar("libinner.a", "", &[&inner]);
    work.ar("libkept.a", "", &[&kept]);
    work.gcc(&["-shared", "-o", "one.so", &user, "libinner.a", "libkept.a", "-Wl,--exclude-libs,libinner.a"])
        .quiet();
    work.gcc(&["-shared", "-o", "all.so", &user, "libinner.a", "libkept.a", "-Wl,--exclude-libs=ALL"])
        .quiet();
    let one = work.elf("one.so");
    assert!(one.find_dynamic("inner").is_none() && one.find_dynamic("kept").is_some());
    let all = work.elf("all.so");
    assert!(all.find_dynamic("inner").is_none() && all.find_dynamic("kept").is_none());
    assert!(all.find_dynamic("use").is_some());
}

#[test]
fn bsymbolic_binds_inside() {
    let work = Work::new();
    let source = "int value = 1; int f(void) { return 1; } int use(void) { return f() + value * 10; }";
    let main = work.c("main", "#include <stdio.h>\nint use(void); int f(void) { return 2; } int value = 2;\nint main(void) { printf(\"%d\\n\", use()); }", &[]);
    for (flag, expected) in
        [("-Wl,-Bno-symbolic", "22\n"), ("-Wl,-Bsymbolic-functions", "21\n"), ("-Wl,-Bsymbolic", "11\n")]
    {
        work.shared("sym", source, &[flag]);
        work.gcc(&["-o", "program", &main, "-L.", "-lsym"]).quiet();
        assert_eq!(work.run("program"), expected, "{flag}");
        let elf = work.elf("libsym.so");
        assert_eq!(elf.tags(DT_SYMBOLIC).len(), usize::from(flag == "-Wl,-Bsymbolic"), "{flag}");
    }
}

#[test]
fn local_symbols_precede_global_ones_and_files_are_named() {
    let work = Work::new();
    let a = work.c("a", "static int one(void) { return 1; } int main(void) { return one() - 1; } ", &["-O0"]);
    let b = work.c("b", "static int two(void) { return 2; } int use(void) { return two(); }", &["-O0"]);
    work.gcc(&["-o", "program", &a, &b]).quiet();
    let elf = work.elf("program");
    let table = elf.section(".symtab");
    for symbol in elf.symbols() {
        assert_eq!(symbol.binding == STB_LOCAL, symbol.index < table.info as usize, "{symbol:?}");
    }
    let symbols = elf.symbols();
    let at = |name: &str| symbols.iter().position(|s| s.name == name).unwrap_or_else(|| panic!("no {name}"));
    assert!(at("a.c") < at("one") && at("one") < at("b.c") && at("b.c") < at("two"));
}

#[test]
fn retain_symbols_file_keeps_only_those() {
    let work = Work::new();
    let object = work.c(
        "a",
        "int first(void) { return 1; } int second(void) { return 2; } int main(void) { return 0; }",
        &[],
    );
    work.write("keep", "first\n");
    work.gcc(&["-o", "program", &object, "-Wl,--retain-symbols-file=keep"]).ok();
    let elf = work.elf("program");
    assert!(elf.find_symbol("first").is_some() && elf.find_symbol("second").is_none());
}
