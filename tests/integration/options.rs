//! The command line: spelling, identity, information that build systems read, maps and traces.

use crate::need;
use crate::support::elf::*;
use crate::support::work::linker;
use crate::support::{Work, tools};

fn start(work: &Work) -> String {
    work.s("a", ".text\n.globl _start\n_start: ret\n.globl other\nother: ret\n")
}

#[test]
fn long_options_take_one_or_two_dashes() {
    let work = Work::new();
    let a = start(&work);
    for args in [
        &["-entry=other"][..],
        &["--entry=other"],
        &["-entry", "other"],
        &["--entry", "other"],
        &["-e", "other"],
        &["-eother"],
    ] {
        let mut all = vec!["-o", "program", a.as_str()];
        all.extend(args);
        work.ld(&all).quiet();
        let elf = work.elf("program");
        assert_eq!(elf.entry, elf.symbol("other").value, "{args:?}");
    }
    work.ld(&["-omagic.out", &a]).quiet();
    assert!(work.exists("magic.out"), "-omagic.out is -o magic.out");
    work.ld(&["--output=named", &a]).quiet();
    assert!(work.exists("named"));
}

#[test]
fn without_a_name_the_output_is_a_out() {
    let work = Work::new();
    let a = start(&work);
    work.ld(&[&a]).quiet();
    assert_eq!(work.elf("a.out").kind, ET_EXEC);
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(work.path("a.out")).unwrap().permissions().mode();
    assert_eq!(mode & 0o700, 0o700);
}

#[test]
fn unknown_options_are_errors_and_unknown_z_words_warnings() {
    let work = Work::new();
    let a = start(&work);
    work.ld(&["-o", "p", &a, "--no-such-option"]).fails().says(&["--no-such-option"]);
    assert!(!work.exists("p"));
    work.ld(&["-o", "p", &a, "-z", "nosuchword"]).ok().says(&["warning", "nosuchword"]);
    work.ld(&["-o", "p", &a, "-znosuchword", "--fatal-warnings"]).fails().says(&["nosuchword"]);
    work.ld(&["-o", "p", &a, "-z", "nosuchword", "--fatal-warnings", "--no-fatal-warnings"]).ok();
    work.ld(&["-o", "p", &a, "-z", "nosuchword", "-w"]).quiet();
    work.ld(&["-o"]).fails();
}

#[test]
fn a_misspelt_option_gets_a_suggestion() {
    need!(tools::own_linker());
    let work = Work::new();
    let a = start(&work);
    work.ld(&["-o", "p", &a, "--gc-sektions"]).fails().says(&["--gc-sektions", "--gc-sections"]);
}

#[test]
fn drivers_noise_is_accepted() {
    let work = Work::new();
    let a = start(&work);
    work.ld(&[
        "-plugin",
        "/nonexistent/liblto_plugin.so",
        "-plugin-opt=/x/lto-wrapper",
        "-plugin-opt=-fresolution=/tmp/x.res",
        "-plugin-opt=-pass-through=-lgcc",
        "--sysroot=/",
        "-m",
        "elf_x86_64",
        "--hash-style=gnu",
        "--as-needed",
        "-EL",
        "-G",
        "8",
        "-O1",
        "-g",
        "--no-keep-memory",
        "--no-copy-dt-needed-entries",
        "--no-add-needed",
        "-Qy",
        "--warn-common",
        "--no-warn-rwx-segments",
        "--no-ld-generated-unwind-info",
        "--sort-common",
        "--build-id=none",
        "-o",
        "program",
        &a,
    ])
    .ok();
    work.elf("program");
}

#[test]
fn version_and_help_are_as_build_systems_read_them() {
    let work = Work::new();
    assert!(work.ld(&["--version"]).ok().stderr.is_empty());
    let help = work.ld(&["--help"]).ok().stdout;
    assert!(help.contains(": supported targets: ") && help.contains("elf64-x86-64"));
    for word in
        ["supported emulations:", "--whole-archive", "--no-whole-archive", "--version-script", "-soname"]
    {
        assert!(help.contains(word), "{word}");
    }
    let a = start(&work);
    let both = work.ld(&["-v", "-o", "program", &a]).ok();
    assert!(both.stdout.contains("GNU") && work.exists("program"), "-v prints and goes on");
}

#[test]
fn the_version_names_gnu_ld_the_product_and_its_version() {
    need!(tools::own_linker());
    let work = Work::new();
    let expected = "GNU ld (sframe-ld) 2.";
    let version = work.ld(&["--version"]).ok().stdout;
    assert!(version.starts_with(expected), "{version}");
    assert!(version.contains(concat!("\nsframe-ld ", env!("CARGO_PKG_VERSION"), "\n")), "{version}");
    assert!(work.ld(&["-v"]).ok().stdout.starts_with(expected));
}

#[test]
fn identity_makes_the_version_line_that_others_look_for() {
    need!(tools::own_linker());
    let first = |work: &Work, args: &[&str]| {
        let out = work.ld(args).ok().stdout;
        out.lines().next().unwrap_or("").to_owned()
    };
    let mut work = Work::new();
    let gnu = first(&work, &["--identity=gnu", "--version"]);
    assert!(
        gnu.starts_with("GNU ld ") && gnu.rsplit(' ').next().is_some_and(|v| v.starts_with("2.")),
        "{gnu}"
    );
    let lld = first(&work, &["--identity=lld", "--version"]);
    assert!(lld.split(' ').any(|w| w == "LLD") && lld.contains("compatible with GNU linkers"), "{lld}");
    work.env("SFRAME_LD_IDENTITY", "gnu");
    assert_eq!(first(&work, &["--version"]), gnu);
    assert_eq!(first(&work, &["--identity=lld", "--version"]), lld, "the option wins");
    work.ld(&["--identity=other", "--version"]).fails().says(&["other", "gnu", "lld"]);
}

#[test]
fn options_come_from_the_environment_first() {
    need!(tools::own_linker());
    let mut work = Work::new();
    let a = start(&work);
    work.env("SFRAME_LD_OPTIONS", "--entry=other '--defsym=with space=1' -o fromenv");
    work.ld(&[&a, "--no-such"]).fails();
    work.env("SFRAME_LD_OPTIONS", "--entry=other -o fromenv");
    work.ld(&[&a]).quiet();
    let elf = work.elf("fromenv");
    assert_eq!(elf.entry, elf.symbol("other").value);
    work.ld(&[&a, "-o", "own", "-e", "_start"]).quiet();
    let elf = work.elf("own");
    assert_eq!(elf.entry, elf.symbol("_start").value, "the command line comes after");
}

#[test]
fn the_map_lists_sections_files_and_symbols() {
    let work = Work::new();
    let a = start(&work);
    let b = work.s("b", ".text\n.globl in_b\nin_b: ret\n");
    work.ld(&["-o", "program", &a, &b, "-Map=out.map", "--cref"]).quiet();
    let map = String::from_utf8(work.read("out.map")).unwrap();
    let address = format!("{:x}", work.elf("program").symbol("in_b").value);
    for word in [".text", "a.o", "b.o", "in_b", &address, "_start"] {
        assert!(map.contains(word), "{word}: {map}");
    }
    let printed = work.ld(&["-o", "program", &a, &b, "-M"]).ok().stdout;
    assert!(printed.contains("in_b") && printed.contains("b.o"));
}

#[test]
fn traces_name_files_and_symbols() {
    let work = Work::new();
    let a = work.s("a", ".text\n.globl _start\n_start: call f\nret\n");
    let f = work.s("f", ".text\n.globl f\nf: ret\n");
    let spare = work.s("spare", ".globl spare\nspare: ret\n");
    work.ar("libf.a", "", &[&spare, &f]);
    for option in ["-t", "--trace"] {
        let output = work.ld(&["-o", "p", &a, "libf.a", option]).ok().output();
        assert!(
            output.contains("a.o") && output.contains("libf.a") && !output.contains("spare.o"),
            "{output}"
        );
    }
    let output = work.ld(&["-o", "p", &a, "libf.a", "-t", "-t"]).ok().output();
    assert!(output.contains("f.o") && !output.contains("spare.o"), "{output}");
    let output = work.ld(&["-o", "p", &a, "libf.a", "-y", "f"]).ok().output();
    let lines = |file: &str, what: &str| output.lines().any(|l| l.contains(file) && l.contains(what));
    assert!(lines("a.o", "reference") && lines("f.o", "definition"), "{output}");
}

#[test]
fn dependency_files_name_every_input() {
    let work = Work::new();
    let a = start(&work);
    let f = work.s("f", ".globl f\nf: ret\n");
    work.ar("libf.a", "", &[&f]);
    work.write("list", "{ f; };");
    work.ld(&["-o", "p", &a, "libf.a", "-u", "f", "--dynamic-list=list", "--dependency-file=p.d"]).ok();
    let text = String::from_utf8(work.read("p.d")).unwrap();
    assert!(text.starts_with("p:"), "{text}");
    for name in ["a.o", "libf.a", "list"] {
        assert!(text.contains(name), "{name}: {text}");
    }
}

#[test]
fn statistics_are_text_or_json() {
    need!(tools::own_linker());
    let work = Work::new();
    let a = start(&work);
    let text = work.ld(&["-o", "p", &a, "--stats"]).ok().output();
    assert!(!text.trim().is_empty());
    let json = work.ld(&["-o", "p", &a, "--stats=json"]).ok().output();
    let json = json.trim();
    assert!(json.starts_with('{') && json.ends_with('}') && json.contains("\"sframe\""), "{json}");
    let report = work.ld(&["-o", "p", &a, "--time-report"]).ok().output();
    assert!(report.lines().count() > 5, "a line per pass: {report}");
}

#[test]
fn sysroot_applies_to_equals_paths_and_search() {
    let work = Work::new();
    let a = work.s("a", ".text\n.globl _start\n_start: call f\nret\n");
    let f = work.s("f", ".text\n.globl f\nf: ret\n");
    std::fs::create_dir_all(work.path("root/lib")).unwrap();
    work.ar("root/lib/libf.a", "", &[&f]);
    let root = format!("--sysroot={}", work.path("root").display());
    work.ld(&[&root, "-o", "p", &a, "-L=/lib", "-lf"]).quiet();
    work.ld(&[&root, "-o", "p", &a, "-L$SYSROOT/lib", "-lf"]).quiet();
    work.ld(&["-o", "p", &a, "-L=/lib-that-is-not", "-lf"]).fails().says(&["-lf"]);
}

#[test]
fn another_machines_emulation_is_a_clear_error() {
    let work = Work::new();
    let a = start(&work);
    work.ld(&["--no-fallback", "-m", "elf_i386", "-o", "p", &a]).fails().says(&["i386"]);
    work.ld(&["-m", "nosuchemulation", "-o", "p", &a]).fails().says(&["nosuchemulation"]);
}

#[test]
fn just_symbols_take_addresses_without_content() {
    let work = Work::new();
    let base = work.s("base", ".text\n.globl _start, service\n_start: ret\n.skip 64\nservice: ret\n");
    work.ld(&["-o", "base", &base]).quiet();
    let user =
        work.s("user", ".data\n.globl pointer\npointer: .quad service\n.text\n.globl begin\nbegin: ret\n");
    work.ld(&["-o", "user", &user, "-e", "begin", "--just-symbols=base"]).ok();
    let elf = work.elf_unchecked("user");
    let expected = work.elf("base").symbol("service").value;
    assert_eq!(elf.quad_at(elf.symbol("pointer").value), expected);
}

#[test]
fn omagic_and_nmagic_give_up_page_alignment() {
    let work = Work::new();
    let a = work.s("a", ".text\n.globl _start\n_start: incl x(%rip)\nmov $60,%eax\nxor %edi,%edi\nsyscall\n.data\nx: .long 1\n");
    work.ld(&["-N", "-o", "omagic", &a]).ok();
    let elf = work.elf_unchecked("omagic");
    assert!(elf.segments_of(PT_LOAD).iter().any(|s| s.flags & 3 == 3), "text is writable");
    work.ld(&["-n", "-o", "nmagic", &a]).ok();
    assert!(work.elf_unchecked("nmagic").segments_of(PT_LOAD).iter().all(|s| s.align < 4096));
}

/// As in GNU ld: compilers call every linker `ld`, and only the folder says which one it is.
#[test]
fn messages_begin_with_the_name_that_the_linker_was_called_by() {
    let work = Work::new();
    let a = start(&work);
    for name in ["ld", "another name", "ld.lld"] {
        std::os::unix::fs::symlink(linker(), work.path(name)).unwrap();
        let program = work.path(name).display().to_string();
        let outcome = work.command(&program, &["-o", "p", &a, "--no-such-option"]).fails();
        assert!(outcome.stderr.starts_with(&format!("{program}: error: ")), "{outcome}");
        let words = ["-c", "exec -a \"$1\" \"$2\" -o p none.o", "bash", name, &program];
        let outcome = work.command("bash", &words).fails();
        assert!(outcome.stderr.starts_with(&format!("{name}: error: ")), "{outcome}");
    }
}
