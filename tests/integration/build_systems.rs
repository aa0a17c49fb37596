//! Tests that build systems work with the linker. They run small tests to learn what their linker can do. If
//! they do not recognise it, they do without symbol control, symbol versions or dependency files. Here they
//! run themselves: libtool and gcc's macros in libffi's `configure`, CMake, Meson, Go, and the kernel's
//! script. Bazel is too large, so the tests ask Bazel's questions.

use crate::need;
use crate::support::elf::{DT_SONAME, STB_LOCAL};
use crate::support::{Work, tools, work};
use std::path::Path;

/// The version of GNU ld that build systems take this linker for.
const VERSION: &str = "2.44";

/// A scratch directory in which compilers link with the linker under test.
fn work_with_compilers() -> Work {
    let mut work = Work::new();
    let folder = work::linker_directory().display();
    work.env("CC", &format!("gcc -B{folder}"));
    work.env("CXX", &format!("g++ -B{folder}"));
    work
}

/// Puts a program's folder first on the `PATH` of commands.
fn put_on_path(work: &mut Work, program: &Path) {
    let path = std::env::var("PATH").unwrap_or_default();
    let folder = program.parent().expect("a program is in a folder").display();
    work.env("PATH", &format!("{folder}:{path}"));
}

/// The exports of a library, sorted: names, and the versions of those that have one.
fn exports(work: &Work, library: &str) -> Vec<(String, Option<String>)> {
    let symbols = work.elf(library).dynamic_symbols().into_iter();
    let defined = symbols.filter(|symbol| symbol.section != 0 && symbol.binding != STB_LOCAL);
    let mut exports: Vec<_> = defined.map(|symbol| (symbol.name, symbol.version)).collect();
    exports.sort();
    exports
}

/// Names that are exported without versions.
fn plain(names: &[&str]) -> Vec<(String, Option<String>)> {
    names.iter().map(|name| ((*name).to_owned(), None)).collect()
}

#[test]
fn libtool_and_the_macros_of_gcc_keep_control_of_symbols() {
    need!(tools::own_linker());
    let (make, configure) = (need!(tools::peer_program("make")), need!(tools::libffi_configure()));
    let mut work = work_with_compilers();
    put_on_path(&mut work, &make);
    let said =
        work.linked(configure, &["--disable-static", "--disable-docs", "--disable-dependency-tracking"]);
    let said = said.ok().output();
    let linker = work::linker_directory().join("ld").display().to_string();
    for (subject, answer) in [
        (format!("checking for ld used by gcc -B{}", work::linker_directory().display()), linker.as_str()),
        (format!("checking if the linker ({linker}"), "is GNU ld... yes"),
        ("configure: versioning on shared library symbols".into(), "is gnu"),
    ] {
        let line = said.lines().find(|line| line.starts_with(&subject));
        let line = line.unwrap_or_else(|| panic!("no {subject:?} in {said}"));
        assert!(line.contains(answer), "{line}");
    }
    libffi_has_the_versions_of_its_map(&work);
    libtool_exports_only_what_is_asked_for(&work);
}

/// The versioned names of a version script.
fn versioned_names(script: &str) -> Vec<(String, Option<String>)> {
    let words: Vec<&str> =
        script.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace).collect();
    let mut version = "";
    let mut names = Vec::new();
    for pair in words.windows(2) {
        if pair[1] == "{" {
            version = pair[0];
        }
        let name = pair[1].strip_suffix(';').filter(|_| pair[0] != "}");
        names.extend(name.map(|name| (name.to_owned(), Some(format!("@{version}")))));
    }
    names
}

fn libffi_has_the_versions_of_its_map(work: &Work) {
    work.linked("make", &["libffi.la"]).ok();
    let library = ".libs/libffi.so";
    assert!(work.made_here(library));
    let exports = exports(work, library);
    let allowed = versioned_names(&String::from_utf8(work.read("libffi.map")).unwrap());
    // Each version has its own symbol.
    let is_version = |(name, version): &(String, Option<String>)| {
        version.as_deref().is_some_and(|version| version.strip_prefix('@') == Some(name))
    };
    let others: Vec<_> =
        exports.iter().filter(|export| !allowed.contains(export) && !is_version(export)).collect();
    assert!(others.is_empty(), "exported against the map: {others:?}");
    let call = ("ffi_call".to_owned(), Some("@LIBFFI_BASE_8.0".to_owned()));
    assert!(exports.len() > 30 && exports.contains(&call), "{exports:?}");

    work.write("call.c", include_str!("build_systems/call.c"));
    work.gcc(&["-o", "call", "-Iinclude", "call.c", library, "-Wl,-rpath,$ORIGIN/.libs"]).ok();
    assert_eq!(work.run("call"), "42\n");
    let needed = work.elf("call").find_dynamic("ffi_call").and_then(|symbol| symbol.version);
    assert_eq!(needed.as_deref(), Some("@LIBFFI_BASE_8.0"));
}

/// Runs the `libtool` that `configure` made, in this mode.
fn libtool(work: &Work, mode: &str, arguments: &[&str]) {
    let prefix = format!("-B{}", work::linker_directory().display());
    let words = ["libtool", "--tag=CC", mode, "gcc", &prefix];
    let words = [&words, arguments].concat();
    match mode {
        "--mode=link" => work.linked("sh", &words).ok(),
        _ => work.command("sh", &words).ok(),
    };
}

fn libtool_exports_only_what_is_asked_for(work: &Work) {
    work.write(
        "api.c",
        "int api_one(void) { return 1; } int api_two(void) { return 2; } int inner(void) { return 3; }",
    );
    work.write("list", "api_two\n");
    work.write("user.c", "int api_two(void); int main(void) { return api_two() - 2; }");
    libtool(work, "--mode=compile", &["-c", "api.c"]);
    libtool(work, "--mode=compile", &["-c", "user.c"]);
    let cases: [(&str, &[&str], &[&str]); 3] = [
        ("pattern", &["-export-symbols-regex", "^api_"], &["api_one", "api_two"]),
        ("list", &["-export-symbols", "list"], &["api_two"]),
        ("all", &[], &["api_one", "api_two", "inner"]),
    ];
    for (name, options, expected) in cases {
        let library = format!("lib{name}.la");
        let words = ["-o", &library, "-rpath", "/nowhere", "-version-info", "3:2:1", "api.lo"];
        libtool(work, "--mode=link", &[&words, options].concat());
        let library_file = format!(".libs/lib{name}.so");
        assert!(work.made_here(&library_file));
        assert_eq!(exports(work, &library_file), plain(expected), "{name}");
        assert_eq!(work.elf_unchecked(&library_file).tag_strings(DT_SONAME), [format!("lib{name}.so.2")]);
        libtool(work, "--mode=link", &["-o", "user", "user.lo", &library]);
        work.run("user");
    }
}

/// Writes the program that CMake and Meson build, and the library that they do not know about.
fn write_project(work: &Work) {
    work.write("CMakeLists.txt", include_str!("build_systems/CMakeLists.txt"));
    work.write("meson.build", include_str!("build_systems/meson.build"));
    work.write("part.c", "int whole(void) { return 3; }");
    work.write("shared.c", "int shown(void) { return 1; } int hidden(void) { return 2; }");
    work.write("shared.map", "{ global: shown; local: *; };");
    work.write(
        "main.c",
        "#include <stdio.h>\nint shown(void); int extra(void);\nint main(void) { printf(\"%d %d\\n\", shown(), extra()); }",
    );
    write_extra(work, 1);
}

/// Makes the library `extra` again, with another result.
fn write_extra(work: &Work, result: u32) {
    let object = work.c("extra", &format!("int extra(void) {{ return {result}; }}"), &[]);
    work.ar("libextra.a", "", &[&object]);
}

/// The text that CMake should write to `answers`.
fn expected_of_cmake() -> String {
    let mut answers = String::new();
    for language in ["C", "CXX"] {
        let facts = [
            ("COMPILER_LINKER_ID", "GNU"),
            ("COMPILER_LINKER_VERSION", VERSION),
            ("COMPILER_LINKER_FRONTEND_VARIANT", "GNU"),
            ("LINK_DEPENDS_USE_LINKER", "TRUE"),
        ];
        answers.extend(facts.map(|(name, value)| format!("{language} {name} {value}\n")));
    }
    answers + "--version-script works\n--gc-sections works\n--no-undefined works\n--no-such-option does not\n"
}

#[test]
fn cmake_knows_the_linker_and_takes_its_dependency_files() {
    need!(tools::own_linker());
    let cmake = need!(tools::peer_program("bin/cmake"));
    let generators = [
        ("Ninja", need!(tools::peer_program("ninja"))),
        ("Unix Makefiles", need!(tools::peer_program("make"))),
    ];
    for (generator, program) in generators {
        let work = work_with_compilers();
        write_project(&work);
        let program = format!("-DCMAKE_MAKE_PROGRAM={}", program.display());
        work.linked(&cmake, &["-G", generator, &program, "-S", ".", "-B", "built"]).ok();
        let answers = String::from_utf8(work.read("built/answers")).unwrap();
        assert_eq!(answers, expected_of_cmake(), "{generator}");
        let build = ["--build", "built", "--parallel", "2"];
        work.linked(&cmake, &build).ok();
        assert_eq!(work.run("built/program"), "1 1\n");
        assert!(work.made_here("built/program") && work.made_here("built/libshared.so"));
        assert_eq!(exports(&work, "built/libshared.so"), plain(&["shown"]));
        assert!(work.elf("built/program").find_symbol("whole").is_some(), "WHOLE_ARCHIVE");

        let linked_at =
            || std::fs::metadata(work.path("built/program")).and_then(|file| file.modified()).unwrap();
        let first = linked_at();
        work.command(&cmake, &build).ok();
        assert_eq!(linked_at(), first, "{generator}: nothing has changed");
        write_extra(&work, 2);
        work.linked(&cmake, &build).ok();
        assert_ne!(linked_at(), first, "{generator}: the linker has read another library");
        assert_eq!(work.run("built/program"), "1 2\n", "{generator}");
    }
}

#[test]
fn meson_knows_the_linker_and_its_options() {
    need!(tools::own_linker());
    let (meson, ninja) = (need!(tools::peer_program("meson")), need!(tools::peer_program("ninja")));
    let mut work = work_with_compilers();
    work.env("NINJA", ninja.to_str().unwrap());
    write_project(&work);
    let said = work.linked(meson, &["setup", "built"]).ok().stdout;
    for language in ["C", "C++"] {
        let subject = format!("{language} linker for the host machine: ");
        let line = said.lines().find_map(|line| line.strip_prefix(&subject)).unwrap_or_default();
        assert!(line.ends_with(&format!(" ld.bfd {VERSION}")), "{said}");
    }
    let flags = [
        "-Wl,--version-script true",
        "-Wl,--gc-sections true",
        "-Wl,-z,now true",
        "-Wl,--no-such-option false",
        "-Wl,-z,no-such-word false",
    ];
    let answers: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("Message: ")).collect();
    assert_eq!(answers, [&["c ld.bfd"], &flags[..], &["cpp ld.bfd"], &flags[..]].concat());
    work.linked(ninja, &["-C", "built"]).ok();
    assert_eq!(work.run("built/program"), "1 1\n");
    assert!(work.made_here("built/program") && work.made_here("built/libshared.so"));
    assert_eq!(exports(&work, "built/libshared.so"), plain(&["shown"]));
    assert!(work.elf("built/program").find_symbol("whole").is_some(), "link_whole");
}

/// Bazel's toolchain configuration asks which linker works, and whether options lead to complaints. Its links
/// pass libraries as groups of objects, in parameter files.
#[test]
fn what_bazel_asks_is_answered_and_its_parameter_files_link() {
    need!(tools::own_linker());
    let work = Work::new();
    work.write("empty.cc", "int main() {}");
    for linker in ["-fuse-ld=lld", "-fuse-ld=gold"] {
        let said =
            work.gxx(&["empty.cc", "-o", "empty", "-Wl,--start-lib", "-Wl,--end-lib", linker, "-v"]).ok();
        assert!(said.stderr.contains(linker), "{said}");
    }
    for option in ["-Wl,-no-as-needed", "-Wl,-z,relro,-z,now", "-Wl,--gc-sections", "-Wl,--build-id=md5"] {
        work.gxx(&[option, "-o", "empty", "empty.cc"]).quiet();
    }
    let main = work.c("main", "int needed(void); int main(void) { return needed() - 1; }", &["-fPIC"]);
    let needed = work.c("needed", "int needed(void) { return 1; }", &["-fPIC"]);
    let other = work.c("other", "int absent(void); int other(void) { return absent(); }", &["-fPIC"]);
    let words = [
        "-o",
        "program",
        "-Wl,-S",
        "-pie",
        main.as_str(),
        "-Wl,--start-lib",
        &needed,
        &other,
        "-Wl,--end-lib",
        "-Wl,-no-as-needed",
        "-Wl,-z,relro,-z,now",
        "-pass-exit-codes",
        "-lstdc++",
        "-lm",
    ];
    work.write("program.params", words.join("\n"));
    work.gcc(&["-fuse-ld=gold", "@program.params"]).quiet();
    work.run("program");
    assert!(work.made_here("program") && work.elf("program").find_symbol("other").is_none());
    let clang = need!(tools::clang("clang"));
    let path = format!("--ld-path={}", work::linker_directory().join("ld").display());
    let words = words.iter().filter(|word| **word != "-pass-exit-codes").copied();
    work.write("program.params", words.collect::<Vec<_>>().join("\n"));
    work.linked(&clang, &[&path, "@program.params"]).quiet();
    work.run("program");
    assert!(work.made_here("program"));
}

#[test]
fn go_links_by_it_outside_of_itself() {
    need!(tools::own_linker());
    let go = need!(tools::peer_program("go"));
    let mut work = Work::new();
    for (name, value) in [("GOPROXY", "off"), ("GOTOOLCHAIN", "local"), ("CGO_ENABLED", "1"), ("GOFLAGS", "")]
    {
        work.env(name, value);
    }
    work.env("GOCACHE", &work.path("cache").display().to_string());
    work.write("go.mod", "module hello\n");
    work.write(
        "main.go",
        "package main\n\n// int twice(int n) { return n + n; }\nimport \"C\"\nimport \"fmt\"\n\n\
         func main() {\n\tdefer func() { fmt.Println(C.twice(21), recover() != nil) }()\n\tpanic(\"unwound\")\n}\n",
    );
    let external = format!("-linkmode=external -extldflags=-B{}", work::linker_directory().display());
    work.linked(&go, &["build", "-ldflags", &external, "-o", "program", "."]).ok();
    assert!(work.made_here("program"));
    assert_eq!(work.run("program"), "42 true\n");
}

#[test]
fn the_kernel_takes_the_linker_for_its_identity() {
    need!(tools::own_linker());
    let script = need!(tools::peer_program("ld-version.sh"));
    let work = Work::new();
    work.write("ld-version.sh", std::fs::read(script).unwrap());
    // The other script that it calls is not in the package. These versions are those of Linux 6.16.
    let least = "#!/bin/sh\ncase $1 in binutils) echo 2.30.0;; llvm) echo 13.0.1;; esac\n";
    work.write_program("min-tool-version.sh", least);
    let linker = work::linker().display().to_string();
    let ask = |options: &[&str]| work.command("sh", &[&["ld-version.sh", &linker], options].concat());
    assert_eq!(ask(&[]).quiet().stdout, "BFD 24400\n");
    assert_eq!(ask(&["--identity=lld"]).quiet().stdout, "LLD 220000\n");
    ask(&["--identity=sframe"]).fails().says(&["unknown linker"]);
}
