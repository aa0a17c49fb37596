//! A program that walks its own stack by SFrame (`examples/walk`), linked in every mode. The frames must
//! always be those of `.eh_frame`, and each says which rows found it.

use crate::need;
use crate::support::{Work, tools};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the walker, which is a Rust library. `cargo test --workspace` has built it with the features of all
/// members; with other features, cargo would build what the walker needs again.
fn walker() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target directory");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args([
        "build",
        "--quiet",
        "--locked",
        "--workspace",
        "--example",
        "walk",
    ]);
    command.arg("--target-dir").arg(target);
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    if profile == "release" {
        command.arg("--release");
    }
    let output = command.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join(profile).join("examples/libwalk.so")
}

/// Compiles the program and the library of the example, with frames from this assembler.
fn compile(work: &Work, assembler: &Path) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/walk");
    for name in ["main", "library"] {
        let (source, assembly) = (sources.join(format!("{name}.c")), format!("{name}.s"));
        let words =
            ["-S", "-O2", "-fPIC", "-ffunction-sections", "-o", &assembly, &source.display().to_string()];
        work.command("gcc", &words).quiet();
        work.command(assembler, &["--gsframe", "-o", &format!("{name}.o"), &assembly]).quiet();
    }
}

/// What the program printed.
struct Walks(String);

impl Walks {
    fn of(work: &Work, walker: &str, options: &[&str]) -> Self {
        let mut shared = vec!["-shared", "-o", "liblibrary.so", "library.o"];
        shared.extend(options.iter().filter(|option| option.starts_with("-Wl,")));
        work.gxx(&shared).quiet();
        let mut program =
            vec!["-rdynamic", "-Wl,-z,lazy", "-o", "program", "main.o", "liblibrary.so", walker];
        program.extend(options);
        work.gxx(&program).quiet();
        let output = work.run("program");
        assert!(output.ends_with("all the same\n"), "{options:?}\n{output}");
        Walks(output)
    }

    /// Where the rows of these frames came from, each source once.
    fn sources(&self, function: &str, file: &str) -> Vec<&str> {
        let wanted = format!("{function} in {file}: ");
        let mut sources: Vec<&str> =
            self.0.lines().filter_map(|line| Some(line.split_once(&wanted)?.1)).collect();
        sources.sort_unstable();
        sources.dedup();
        sources
    }

    /// A number in the line about single steps, by the words after it.
    fn steps(&self, what: &str) -> u32 {
        let line = self.0.lines().find(|line| line.starts_with("single steps")).expect("single steps");
        let before = line[..line.find(what).expect(what)].trim_end();
        before.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
    }
}

const SPLIT: &str = "-Wl,--sframe-split";
const DERIVED: &str = "derived from .eh_frame";

#[test]
fn stacks_are_the_same_in_every_mode() {
    let work = Work::new();
    let assembler = need!(tools::assembler(3));
    compile(&work, &assembler);
    let walker = walker();
    let walker = work.write("libwalk.so", std::fs::read(walker).expect("the walker"));
    for (options, program, start) in [
        (&[SPLIT][..], ".sframe", DERIVED),
        (&[SPLIT, "-no-pie", "-Wl,--gc-sections"], ".sframe", DERIVED),
        (&[SPLIT, "-Wl,--sframe-from-eh-frame=missing"], ".sframe", ".sframe"),
        (&["-Wl,--sframe-from-eh-frame=all"], ".sframe (1 blob)", ".sframe (1 blob)"),
        (&["-Wl,--sframe=merge"], ".sframe (1 blob)", DERIVED),
        (&["-Wl,--sframe-index"], ".sframe_idx (1 blob)", DERIVED),
        (&["-Wl,--sframe-index", "-no-pie", "-Wl,--gc-sections"], ".sframe_idx (1 blob)", DERIVED),
        (
            &["-Wl,--sframe-index,--sframe-from-eh-frame=missing"],
            ".sframe_idx (1 blob)",
            ".sframe_idx (1 blob)",
        ),
    ] {
        // `.eh_frame` has no rows of the linker's own here, so PLTs show the difference between modes.
        let options = &[options, &["-Wl,--no-ld-generated-unwind-info"]].concat()[..];
        let walks = Walks::of(&work, &walker, options);
        let expect = |function: &str, file: &str, source: &str| {
            let sources = walks.sources(function, file);
            assert!(
                sources.len() == 1 && sources[0].starts_with(source),
                "{options:?} {function}: {sources:?}"
            );
        };
        for function in ["main", "even", "odd", "deep_leaf", "called_back", "trap_leaf"] {
            expect(function, "program", program);
        }
        expect("library_call", "liblibrary.so", program.split(' ').next().unwrap());
        expect("_start", "program", start);
        expect("__libc_start_main", "libc.so.6", DERIVED);
        expect("walk", "libwalk.so", DERIVED);
        // If the linker makes rows for PLTs, every step through them is known.
        let single = program.ends_with("(1 blob)") && !options[0].ends_with("=all");
        assert_eq!(walks.steps("without rows") == 0, single, "{options:?}\n{}", walks.0);
        assert_eq!(walks.steps("where that says nothing") > 0, single, "{options:?}\n{}", walks.0);
        assert!(walks.steps("as by .eh_frame") > 50 && walks.steps("different") == 0);
    }
    // With these rows, `.eh_frame` knows every step that the index knows, and both agree.
    let walks = Walks::of(&work, &walker, &["-Wl,--sframe-index"]);
    assert_eq!((walks.steps("without rows"), walks.steps("different")), (0, 0), "{}", walks.0);
}

/// Frames from older assemblers, alone and mixed.
#[test]
fn stacks_are_the_same_with_mixed_versions() {
    let work = Work::new();
    let (old, new) = (need!(tools::assembler(1)), need!(tools::assembler(3)));
    let walker = work.write("libwalk.so", std::fs::read(walker()).expect("the walker"));
    compile(&work, &new);
    work.command("cp", &["library.o", "kept.o"]).quiet();
    compile(&work, &old);
    work.command("mv", &["kept.o", "library.o"]).quiet();
    for mode in [SPLIT, "-Wl,--sframe=merge", "-Wl,--sframe-index"] {
        let walks = Walks::of(&work, &walker, &[mode]);
        assert!(walks.sources("even", "program")[0].starts_with(".sframe"), "{}", walks.0);
    }
}
