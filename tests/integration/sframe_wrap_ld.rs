//! `sframe wrap-ld`: other linkers get split inputs and the same command line.

use crate::need;
use crate::support::work::linker_directory;
use crate::support::{Work, built, tools};
use std::os::unix::fs::symlink;
use std::path::Path;

const MAIN: &str = "#include <cstdio>\n#include \"inl.h\"\nint b(int);\nint main() { printf(\"%d %d\\n\", shared(2), b(3)); }";
const OTHER: &str =
    "#include \"inl.h\"\nint b(int x) { return shared(x) * 2; }\nint unused(int x) { return x * 3; }";
const HEADER: &str =
    "__attribute__((noinline)) inline int shared(int x) { volatile int a[4] = {x}; return a[0] + 1; }";
const SAYS: &str = "3 8\n";

/// A folder with the wrapper under the name of a linker, for this linker.
fn wrap(work: &mut Work, linker: &Path) -> String {
    let folder = work.path("wrapped");
    std::fs::create_dir_all(&folder).unwrap();
    let name = folder.join("ld");
    let _ = std::fs::remove_file(&name);
    symlink(built::sframe(), &name).unwrap();
    let cache = work.path("cache").display().to_string();
    work.env("SFRAME_WRAP_CACHE", &cache);
    work.env("SFRAME_REAL_LD", &linker.display().to_string());
    format!("-B{}", folder.display())
}

/// `main.o` and `other.o` with one `.sframe` each for all their text.
fn build(work: &Work) {
    let assembler = tools::assembler(3).unwrap();
    work.write("inl.h", HEADER);
    for (name, text) in [("main", MAIN), ("other", OTHER)] {
        let source = work.write(&format!("{name}.cc"), text);
        let (assembly, object) = (format!("{name}.s"), format!("{name}.o"));
        work.command("g++", &["-S", "-O1", "-fPIE", "-ffunction-sections", "-o", &assembly, &source]).quiet();
        work.command(&assembler, &["--gsframe", "-o", &object, &assembly]).quiet();
        assert_eq!(work.elf_unchecked(&object).sections_named(".sframe").len(), 1);
    }
}

fn linkers() -> Vec<(&'static str, std::path::PathBuf)> {
    let peers = ["bfd", "gold", "lld", "mold"].map(|family| (family, tools::peer_linker(family)));
    let found = peers.into_iter().filter_map(|(family, linker)| Some((family, linker.ok()?)));
    found.chain([("sframe", linker_directory().join("ld"))]).collect()
}

#[track_caller]
fn is_sound(work: &Work, file: &str, context: &str) {
    assert_eq!(work.run(file), SAYS, "{context}");
    let names = work.functions(file).concat();
    // If the frames are not split, gold silently drops those of the C++ program's groups.
    for name in ["main", "_Z1bi", "_Z6sharedi"] {
        assert!(names.contains(&format!("\"{name}\"")), "{context}: no rows for {name}");
    }
    // GNU ld's own row for `.plt.got` is wrong.
    if !context.starts_with("bfd") {
        let verified = work.verified(file);
        assert!(verified.contains(", 0 wrong"), "{context}: {verified}");
    }
}

#[test]
fn every_linker_links_split_copies_in_every_way_of_naming_inputs() {
    let mut work = Work::new();
    need!(tools::assembler(3));
    build(&work);
    let library = work.ar("libother.a", "", &["other.o"]);
    let thin = work.ar("libthin.a", "T", &["other.o"]);
    work.write("words", "main.o\nother.o\n");
    let inputs: [&[&str]; 6] = [
        &["main.o", "other.o"],
        &["main.o", &library],
        &["main.o", &thin],
        &["main.o", "-L.", "-lother"],
        &["-Wl,@words"],
        &["main.o", "-Wl,--start-lib", "other.o", "-Wl,--end-lib"],
    ];
    for (family, linker) in linkers() {
        let prefix = wrap(&mut work, &linker);
        for words in inputs {
            // Only these linkers have the option.
            if family == "bfd" && words.contains(&"-Wl,--start-lib") {
                continue;
            }
            let context = format!("{family} {words:?}");
            let args = [&[prefix.as_str(), "-pie", "-o", "program"], words].concat();
            let outcome = work.command("g++", &args).ok();
            assert!(!outcome.output().contains("sframe"), "{context}: {outcome}");
            is_sound(&work, "program", &context);
        }
        work.command(work.path("wrapped/ld"), &["-r", "-o", "all.o", "main.o", "other.o"]).ok();
        work.gxx(&["-pie", "-o", "program", "all.o"]).ok();
        is_sound(&work, "program", &format!("{family} -r"));
    }
    assert_eq!(work.elf_unchecked("main.o").sections_named(".sframe").len(), 1, "inputs stay as they are");
}

#[test]
fn what_needs_no_split_reaches_the_linker_as_it_is() {
    let mut work = Work::new();
    need!(tools::assembler(3));
    build(&work);
    // A linker that writes its arguments to a file.
    let linker = work.write_program("linker", "#!/bin/sh\nprintf '%s\\n' \"$@\" > words; exit 7\n");
    let linker = work.path(&linker);
    wrap(&mut work, &linker);
    work.c("plain", "int f(void) { return 1; }", &[]);
    work.sframe(&["split", "-o", "split.o", "main.o"]).quiet();
    std::fs::copy(work.path("main.o"), work.path("old")).unwrap();
    let mut lto = work.read("main.o");
    lto.extend_from_slice(b".gnu.lto_.x");
    work.write("lto.o", lto);
    let words = [
        "-o",
        "old",
        "plain.o",
        "split.o",
        "lto.o",
        "missing.o",
        "-R",
        "main.o",
        "-b",
        "binary",
        "main.o",
        "-b",
        "elf64-x86-64",
        "--version",
    ];
    let outcome = work.command(work.path("wrapped/ld"), &words);
    assert_eq!(outcome.code, Some(7), "the exit status is the linker's: {outcome}");
    let said = String::from_utf8(work.read("words")).unwrap();
    assert_eq!(said.lines().collect::<Vec<_>>(), words);
    // The split one is named by its base name, in the same place.
    work.command(work.path("wrapped/ld"), &["-o", "x", "plain.o", "main.o", "split.o"]);
    let said = String::from_utf8(work.read("words")).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((lines[2], lines[4]), ("plain.o", "split.o"));
    assert!(lines[3].contains("/cache/") && lines[3].ends_with("/main.o"), "{said}");
    let copy = work.read(lines[3]);
    work.sframe(&["split", "-o", "direct.o", "main.o"]).quiet();
    assert!(copy == work.read("direct.o"));
    // By its name, with options for the wrapper.
    let linker = work.path("linker").display().to_string();
    let outcome = work.sframe(&["wrap-ld", "--light", "-v", &linker, "main.o"]);
    assert!(outcome.code == Some(7) && outcome.stderr.contains("1 input split"), "{outcome}");
    let said = String::from_utf8(work.read("words")).unwrap();
    assert!(!work.elf_unchecked(said.trim()).sections_named(".sframe_light").is_empty());
}

/// Replaces the wrapper's linker by one that writes its arguments to a file, for [`words_for`].
fn writes_words(work: &mut Work) {
    let linker = work.write_program("linker", "#!/bin/sh\nprintf '%s\\n' \"$@\" > words\n");
    let linker = work.path(&linker);
    wrap(work, &linker);
}

/// The arguments that the linker gets for these arguments.
fn words_for(work: &Work, words: &[&str]) -> Vec<String> {
    work.command(work.path("wrapped/ld"), words).ok();
    String::from_utf8(work.read("words")).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn values_of_options_are_no_inputs() {
    let mut work = Work::new();
    need!(tools::assembler(3));
    build(&work);
    writes_words(&mut work);
    for option in ["-soname", "-h", "-e", "--entry", "-Map", "-u", "--version-script", "--just-sym", "-o"] {
        let words = [option, "main.o", "x.o"];
        assert_eq!(words_for(&work, &words), words);
    }
    // Options without a value, or with a value in the same word.
    for option in ["--gc-sections", "-omain.o", "-hmain.o", "--build-id"] {
        let words = words_for(&work, &[option, "main.o"]);
        assert!(words[0] == option && words[1].contains("/cache/"), "{words:?}");
    }
    // Scripts are inputs.
    work.write("s.ld", "INPUT(main.o)");
    for script in [&["-T", "s.ld"][..], &["-Ts.ld"], &["--script=s.ld"], &["-dT", "s.ld"]] {
        let words = words_for(&work, script);
        assert!(words.len() == script.len() && words.concat().contains("/cache/"), "{words:?}");
    }
}

#[test]
fn libraries_are_split_however_they_are_named() {
    let mut work = Work::new();
    need!(tools::assembler(3));
    build(&work);
    std::fs::create_dir(work.path("folder")).unwrap();
    work.ar("folder/libother.a", "", &["other.o"]);
    writes_words(&mut work);
    for library in [&["-lother"][..], &["-l", "other"], &["--library=other"], &["--library", "other"]] {
        for folder in [&["-Lfolder"][..], &["--library-path", "folder"], &["--library-pa=folder"]] {
            let words = words_for(&work, &[folder, library].concat());
            let last = words.last().unwrap();
            assert!(words.len() == folder.len() + 1 && last.contains("/cache/"), "{words:?}");
        }
    }
}

#[test]
fn archives_are_split_where_no_shared_library_is_looked_for() {
    let mut work = Work::new();
    need!(tools::assembler(3));
    build(&work);
    work.ar("libother.a", "", &["other.o"]);
    work.write("libother.so", "\x7fELF");
    work.write("script", "INPUT(-lother)");
    writes_words(&mut work);
    for library in ["-lother", "script"] {
        for option in ["-r", "-i", "--relocatable", "-n", "--nmagic", "-N", "--omagic", "-Bstatic", "-static"]
        {
            let words = words_for(&work, &["-L.", option, library]);
            assert!(words[2].contains("/cache/"), "{words:?}");
        }
        let shared: [&[&str]; 3] = [&[], &["-r", "-Bdynamic"], &["--push-state", "-Bstatic", "--pop-state"]];
        for options in shared {
            let words = [&["-L."], options, &[library]].concat();
            assert_eq!(words_for(&work, &words), words);
        }
    }
}

#[test]
fn inputs_that_scripts_name_are_split() {
    let mut work = Work::new();
    need!(tools::assembler(3));
    build(&work);
    work.ar("libother.a", "", &["other.o"]);
    work.write("files", "/* other.o */ INPUT(other.o)");
    work.write("group", "GROUP ( AS_NEEDED ( \"libother.a\" ) )");
    work.write("library", "INPUT(-lother)");
    work.write("nested", "INPUT(group)");
    work.write("loop", "INPUT(loop)");
    work.env("SFRAME_WRAP_VERBOSE", "1");
    for (family, linker) in linkers() {
        let prefix = wrap(&mut work, &linker);
        // gold does not accept scripts that name scripts.
        for script in
            ["files", "group", "library", "nested"].iter().filter(|it| family != "gold" || **it != "nested")
        {
            let outcome =
                work.command("g++", &[&prefix, "-pie", "-o", "program", "main.o", script, "-L."]).ok();
            outcome.says(&["2 inputs split"]);
            is_sound(&work, "program", &format!("{family} {script}"));
        }
    }
    work.command(work.path("wrapped/ld"), &["-r", "-o", "x.o", "main.o", "loop"]).no_crash();
}

#[test]
fn scripts_find_what_stands_beside_them_first() {
    let mut work = Work::new();
    need!(tools::assembler(3));
    build(&work);
    work.c("plain", "int plain(void) { return 1; }", &[]);
    std::fs::create_dir_all(work.path("folder/inner")).unwrap();
    for name in ["other.o", "plain.o"] {
        std::fs::rename(work.path(name), work.path("folder").join(name)).unwrap();
    }
    // It would define main a second time.
    std::fs::copy(work.path("main.o"), work.path("other.o")).unwrap();
    work.write("folder/files", "INPUT(other.o plain.o)");
    work.write("folder/nested", "INPUT(plain.o inner/files)");
    std::fs::copy(work.path("folder/other.o"), work.path("folder/inner/named.o")).unwrap();
    work.write("folder/inner/files", "INPUT(named.o)");
    work.env("SFRAME_WRAP_VERBOSE", "1");
    for (family, linker) in linkers() {
        let prefix = wrap(&mut work, &linker);
        // gold does not accept scripts that name scripts.
        for script in
            ["folder/files", "folder/nested"].iter().filter(|it| family != "gold" || **it == "folder/files")
        {
            let outcome = work.command("g++", &[&prefix, "-pie", "-o", "program", "main.o", script]).ok();
            outcome.says(&["2 inputs split"]);
            is_sound(&work, "program", &format!("{family} {script}"));
        }
    }
    // Here GNU ld takes ./other.o, and lld the file beside the script. If both exist, gold takes the one of
    // -L.
    writes_words(&mut work);
    work.write("here", "INPUT(other.o)");
    for words in [&["-T", "folder/files"][..], &["-Lfolder", "here"]] {
        assert_eq!(words_for(&work, words), words);
    }
    assert!(words_for(&work, &["-T", "here"])[1].contains("/cache/"));
}

#[test]
fn scripts_below_the_sysroot_keep_their_names_there() {
    let mut work = Work::new();
    need!(tools::assembler(3));
    let linker = need!(tools::peer_linker("bfd-2.47"));
    build(&work);
    work.c("plain", "int plain(void) { return 1; }", &[]);
    let folder = "root/only-in-this-sysroot";
    std::fs::create_dir_all(work.path(folder)).unwrap();
    for name in ["other.o", "plain.o"] {
        std::fs::rename(work.path(name), work.path(folder).join(name)).unwrap();
    }
    work.write("root/script", "INPUT(only-in-this-sysroot/other.o /only-in-this-sysroot/plain.o)");
    wrap(&mut work, &linker);
    work.env("SFRAME_WRAP_VERBOSE", "1");
    let sysroot = format!("--sysroot={}", work.path("root").display());
    let words = [&sysroot, "-r", "-o", "all.o", "main.o", "root/script"];
    work.command(work.path("wrapped/ld"), &words).ok().says(&["2 inputs split"]);
}

#[test]
fn libraries_in_folders_that_scripts_name_are_split() {
    let mut work = Work::new();
    need!(tools::assembler(3));
    build(&work);
    std::fs::create_dir(work.path("folder")).unwrap();
    work.ar("folder/libother.a", "", &["other.o"]);
    std::fs::copy(work.path("other.o"), work.path("folder/only-there.o")).unwrap();
    work.write("searches", "SEARCH_DIR(folder) INPUT(-lother)");
    work.write("plain-name", "SEARCH_DIR(folder) INPUT(only-there.o)");
    work.env("SFRAME_WRAP_VERBOSE", "1");
    // The other linkers ignore SEARCH_DIR in inputs.
    for (family, linker) in linkers().into_iter().filter(|it| ["bfd", "lld"].contains(&it.0)) {
        let prefix = wrap(&mut work, &linker);
        for script in ["searches", "plain-name"] {
            let outcome = work.command("g++", &[&prefix, "-pie", "-o", "program", "main.o", script]).ok();
            outcome.says(&["2 inputs split"]);
            is_sound(&work, "program", family);
        }
    }
}

#[test]
fn libraries_in_the_linker_s_own_folders_are_split() {
    let mut work = Work::new();
    need!(tools::assembler(3));
    let linker = need!(tools::peer_linker("bfd-2.47"));
    build(&work);
    std::fs::create_dir_all(work.path("root/usr/lib")).unwrap();
    work.ar("root/usr/lib/libother.a", "", &["other.o"]);
    wrap(&mut work, &linker);
    work.env("SFRAME_WRAP_VERBOSE", "1");
    let sysroot = format!("--sysroot={}", work.path("root").display());
    let words = [&sysroot, "-r", "-o", "all.o", "main.o", "-lother"];
    work.command(work.path("wrapped/ld"), &words)
        .ok()
        .says(&["root/usr/lib/libother.a is split", "2 inputs split"]);
    work.gxx(&["-pie", "-o", "program", "all.o"]).quiet();
    is_sound(&work, "program", "from a folder of the linker's own");
    // None, if the linker is told not to use any.
    let words = [&words[..], &["-nostdlib"]].concat();
    work.command(work.path("wrapped/ld"), &words).says(&["1 input split"]);
}

#[test]
fn broken_inputs_are_told_of_and_linked_as_they_are() {
    let mut work = Work::new();
    let linker = work.write_program("linker", "#!/bin/sh\nprintf '%s\\n' \"$@\" > words\n");
    let linker = work.path(&linker);
    wrap(&mut work, &linker);
    let broken = work.fixture("crafted-v3/padnz.x86_64.o");
    work.write("short.a", "!<arch>\n.sframe");
    let outcome = work.command(work.path("wrapped/ld"), &[&broken, "short.a"]).ok();
    outcome.says(&["warning", "no SFrame blob that can be split", "malformed archive at byte 0x8"]);
    assert_eq!(String::from_utf8(work.read("words")).unwrap(), format!("{broken}\nshort.a\n"));
    work.env("SFRAME_REAL_LD", "no-such-linker");
    work.command(work.path("wrapped/ld"), &["x.o"]).fails().says(&["no program no-such-linker on PATH"]);
}

/// If nobody writes to a pipe, a linker would wait for ever.
#[test]
fn inputs_that_name_a_pipe_end_the_link() {
    let mut work = Work::new();
    let linker = work.write_program("linker", "#!/bin/sh\ntouch linked\n");
    let linker = work.path(&linker);
    wrap(&mut work, &linker);
    work.command("mkfifo", &["fifo"]).ok();
    let header =
        |name: &str, size: usize| format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 644);
    work.write("thin.a", format!("!<thin>\n{}fifo/\n{}", header("//", 6), header("/0", 100)));
    work.write("script", "INPUT(fifo)");
    for input in ["thin.a", "script"] {
        let outcome = work.command(work.path("wrapped/ld"), &[input]).fails();
        outcome.says(&["fifo", "not a regular file", "wait for it for ever"]);
        assert!(!work.path("linked").exists(), "{input}");
    }
}

/// PATH has copies of a wrapper, and scripts that start it, before the real program.
#[test]
fn wrappers_do_not_start_each_other_for_ever() {
    let wrappers = [("ld", built::sframe(), "SFRAME_REAL_LD"), ("as", built::sframe_as(), "SFRAME_REAL_AS")];
    for (name, wrapper, variable) in wrappers {
        let mut work = Work::new();
        for folder in ["one", "two", "real", "script"] {
            std::fs::create_dir(work.path(folder)).unwrap();
        }
        symlink(wrapper, work.path(&format!("one/{name}"))).unwrap();
        std::fs::copy(wrapper, work.path(&format!("two/{name}"))).unwrap();
        work.write_program(&format!("real/{name}"), "#!/bin/sh\necho the real one\n");
        let start = format!("#!/bin/sh\nexec {} \"$@\"\n", work.path(&format!("one/{name}")).display());
        work.write_program(&format!("script/{name}"), start);
        let cache = work.path("cache").display().to_string();
        work.env("SFRAME_WRAP_CACHE", &cache);
        let folder = |name: &str| work.path(name).display().to_string();
        let path = |folders: &[&str]| folders.iter().copied().map(folder).collect::<Vec<_>>().join(":");
        let (copies, scripts) = (path(&["one", "two", "real"]), path(&["one", "script", "real"]));
        let program = work.path(&format!("one/{name}"));
        let run = |work: &Work, path: &str| {
            let script = "PATH=$1:/usr/bin:/bin exec timeout 60 \"$2\" --version";
            work.command("sh", &["-c", script, "sh", path, &program.display().to_string()])
        };
        assert_eq!(run(&work, &copies).ok().stdout, "the real one\n");
        run(&work, &scripts).fails().says(&["wrappers start each other", variable]);
        // An empty entry in PATH means the current folder.
        work.write_program(name, "#!/bin/sh\necho the one here\n");
        assert_eq!(run(&work, "").ok().stdout, "the one here\n");
    }
}
