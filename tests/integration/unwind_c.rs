//! Tests the C interface of `crates/sframe-unwind`, on every machine. Its example samples itself, by a timer
//! and from a trap in a leaf, on an alternate signal stack; the frames must be those of libgcc. Another
//! program walks from every instruction of PLTs and thunks. `pkg-config` finds the installed library.

use crate::on_every_machine;
use crate::support::{Machine, Work, built, machine, tools};
use std::path::{Path, PathBuf};
use std::process::Command;

on_every_machine![
    a_program_in_c_walks_its_stacks_from_signal_handlers,
    every_instruction_of_plts_and_thunks_has_the_callers_of_eh_frame,
];

/// The library for a machine; if Rust has no standard library for it, the reason.
pub fn library(machine: &Machine) -> Result<PathBuf, String> {
    let triple = format!("{}-unknown-linux-gnu", machine.name);
    let libraries = Command::new("rustc").args(["--print", "target-libdir", "--target", &triple]).output();
    let libraries = libraries.map_err(|error| error.to_string())?;
    if !Path::new(String::from_utf8_lossy(&libraries.stdout).trim()).is_dir() {
        return Err(format!("no standard library of Rust for {triple}"));
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sframe-unwind");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command.args(["build", "--quiet", "--locked", "-p", "sframe-unwind", "--target", &triple]);
    command.arg("--target-dir").arg(&target);
    let variable = format!("CARGO_TARGET_{}_LINKER", triple.to_uppercase().replace('-', "_"));
    command.env(variable, machine.tool("gcc")?);
    let output = command.output().map_err(|error| error.to_string())?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(target.join(triple).join("debug/libsframe_unwind.a"))
}

fn a_program_in_c_walks_its_stacks_from_signal_handlers(machine: &'static Machine) {
    let library = match library(machine) {
        Ok(library) => library.display().to_string(),
        Err(reason) => return tools::skip("a_program_in_c_walks_its_stacks_from_signal_handlers", &reason),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let work = Work::on(machine);
    work.write("main.c", std::fs::read(root.join("examples/unwind-c/main.c")).expect("the example"));
    let include = format!("-I{}", root.join("crates/sframe-unwind/include").display());
    let gcc = machine.tool("gcc").expect("a compiler");
    work.command(&gcc, &["-O2", "-Wall", "-Werror", &include, "-S", "-o", "main.s", "main.c"]).quiet();
    // It has its own frames if an assembler writes them. All other files only have `.eh_frame`.
    match machine.sframe_assembler() {
        Ok(assembler) => work.command(&assembler, &["--gsframe", "-o", "main.o", "main.s"]).quiet(),
        Err(_) => work.command(&gcc, &["-c", "-o", "main.o", "main.s"]).quiet(),
    };
    for options in [&["-Wl,--sframe-index"][..], &["-Wl,--sframe-split", "-no-pie"]] {
        let mut words = vec!["-o", "program", "main.o", &library, "-lgcc_s", "-lpthread", "-ldl", "-lm"];
        words.extend(options);
        work.gcc(&words).ok();
        let output = work.run("program");
        assert!(output.ends_with("all the same\n"), "{options:?}: {output}");
        assert!(output.contains("end 1, those of libgcc"), "{output}");
    }
}

/// x86-64 has no thunks, and `examples/walk` steps through its PLT.
fn every_instruction_of_plts_and_thunks_has_the_callers_of_eh_frame(machine: &'static Machine) {
    const TEST: &str = "every_instruction_of_plts_and_thunks_has_the_callers_of_eh_frame";
    if machine.name == machine::X86_64.name {
        return;
    }
    let tools = library(machine).and_then(|library| Ok((library, machine.sframe_assembler()?)));
    let (library, assembler) = match tools {
        Ok((library, assembler)) => (library.display().to_string(), assembler),
        Err(reason) => return tools::skip(TEST, &reason),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let work = Work::on(machine);
    let include = format!("-I{}", root.join("crates/sframe-unwind/include").display());
    let gcc = machine.tool("gcc").expect("a compiler");
    for (name, kind) in [("steps", "-fno-pie"), ("steps_library", "-fPIC")] {
        let (source, assembly) = (format!("{name}.c"), format!("{name}.s"));
        work.write(
            &source,
            std::fs::read(root.join("examples/unwind-c").join(&source)).expect("the example"),
        );
        let words = ["-O2", "-Wall", "-Werror", kind, &include, "-S", "-o", &assembly, &source];
        work.command(&gcc, &words).quiet();
        work.command(&assembler, &["--gsframe", "-o", &format!("{name}.o"), &assembly]).quiet();
    }
    work.gcc(&["-shared", "-o", "libsteps.so", "steps_library.o", "-Wl,--sframe-index"]).ok();
    // `.far` lies out of reach of an AArch64 branch.
    let words = ["-no-pie", "-rdynamic", "-o", "program", "steps.o", "libsteps.so", &library, "-lgcc_s"];
    let options = ["-lpthread", "-ldl", "-lm", "-Wl,--sframe-index,-z,lazy,--section-start=.far=0x20000000"];
    work.gcc(&[&words[..], &options].concat()).ok();
    let output = work.run("program");
    assert!(output.ends_with("all the same\n"), "{output}");
    for line in output.lines().filter(|line| line.contains("instructions")) {
        let numbers: Vec<&str> = line.split(' ').filter(|word| word.parse::<u32>().is_ok()).collect();
        assert_eq!(numbers[0], numbers[1], "all by the linker's rows: {output}");
    }
    let thunk = output.contains("thunk: ");
    assert_eq!(thunk, machine.name == machine::AARCH64.name, "{output}");
}

#[test]
fn the_installed_library_is_found_by_pkg_config() {
    const TEST: &str = "the_installed_library_is_found_by_pkg_config";
    let library = match library(&machine::X86_64) {
        Ok(library) => library,
        Err(reason) => return tools::skip(TEST, &reason),
    };
    let pkg_config = match tools::pkg_config() {
        Ok(program) => program,
        Err(reason) => return tools::skip(TEST, &reason),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut work = Work::new();
    work.write("main.c", std::fs::read(root.join("examples/unwind-c/main.c")).expect("the example"));
    let prefix = work.path("prefix").display().to_string();
    let folder = library.parent().expect("a folder").display().to_string();
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let manifest = root.join("Cargo.toml").display().to_string();
    let linker = env!("CARGO_BIN_EXE_sframe-ld");
    // As the README says, but with programs that are already built. For `ld-compare`, any program will do.
    let words = ["run", "--quiet", "--locked", "--manifest-path", &manifest, "-p", "xtask", "--", "install"];
    let built = ["--linker", linker, "--sframe", built::sframe(), "--ld-compare", linker];
    let built = [&built[..], &["--wrapper", built::sframe_as(), "--unwind-library", &folder]].concat();
    work.command(&cargo, &[&words[..], &["--prefix", &prefix], &built].concat()).ok();
    work.env("PKG_CONFIG_PATH", &format!("{prefix}/lib/pkgconfig"));
    let version = work.command(&pkg_config, &["--modversion", "sframe-unwind"]).ok().stdout;
    assert_eq!(version.trim(), env!("CARGO_PKG_VERSION"));
    let flags = work.command(&pkg_config, &["--cflags", "--libs", "sframe-unwind"]).ok().stdout;
    let flags: Vec<&str> = flags.split_whitespace().collect();
    work.command("gcc", &[&["-O2", "-o", "program", "main.c"], &*flags].concat()).quiet();
    work.env("LD_LIBRARY_PATH", &format!("{prefix}/lib"));
    let output = work.run("program");
    assert!(output.ends_with("all the same\n"), "{output}");
}
