//! Tests that gcc, clang and cargo reach this linker; the output shows it.

use crate::need;
use crate::support::{Work, tools, work};
use std::io::{Read, Write};

/// How many threads a link had that gcc starts, as users do: without `--threads`.
fn threads_of_a_link(work: &Work, inputs: &[&str]) -> usize {
    threads_in(&work.gcc(&[&["-o", "p", "-Wl,--time-report"], inputs].concat()).ok().output())
}

/// The number of threads in a time report.
fn threads_in(report: &str) -> usize {
    let line = report.lines().find_map(|line| line.strip_suffix(" threads"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("no threads: {report}"))
}

/// A program of some size: 64 MiB of data keep as many threads busy as this machine may have.
fn large(work: &Work) -> [String; 2] {
    let main = work.c("main", "int main(void) { return 0; }\n", &[]);
    [main, work.s("data", ".data\n.fill 0x4000000, 1, 7\n")]
}

fn processors() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

#[test]
fn a_large_link_by_gcc_has_a_thread_for_each_processor() {
    need!(tools::own_linker());
    let work = Work::new();
    let [main, data] = large(&work);
    assert_eq!(threads_of_a_link(&work, &[&main, &data]), processors().min(16));
}

#[test]
fn a_small_link_by_gcc_has_one_thread() {
    need!(tools::own_linker());
    let work = Work::new();
    let main = work.c("main", "int main(void) { return 0; }\n", &[]);
    assert_eq!(threads_of_a_link(&work, &[&main]), 1);
    assert_eq!(threads_of_a_link(&work, &[&main, "-static"]), 1);
    assert_eq!(threads_of_a_link(&work, &[&main, "-Wl,--threads=3"]), 3, "what people ask for, they get");
}

/// The jobserver of make is a pipe with a byte for each further job that may run. A link takes such bytes for
/// its threads, and gives them back. No driver is in between: gcc 12 hides a pipe with a name, which only
/// newer versions of make use.
#[test]
fn a_link_takes_threads_from_the_jobserver_and_gives_them_back() {
    need!(tools::own_linker());
    let mut work = Work::new();
    let [main, data] = large(&work);
    work.command("mkfifo", &["jobs"]).quiet();
    let fifo = work.path("jobs");
    // Open for both, so that neither end waits for the other and the bytes stay.
    let mut jobs = std::fs::File::options().read(true).write(true).open(&fifo).unwrap();
    work.env("MAKEFLAGS", &format!(" -j --jobserver-auth=fifo:{}", fifo.display()));
    for tokens in [0, 1, 40] {
        jobs.write_all(&vec![b'+'; tokens]).unwrap();
        let report = work.ld(&["-o", "p", "-e", "main", "--time-report", &main, &data]).ok().output();
        assert_eq!(threads_in(&report), (1 + tokens).min(processors()).min(16));
        // A byte of another kind marks the end, since nobody may wait at an empty pipe.
        jobs.write_all(b".").unwrap();
        let mut left = vec![0; tokens + 1];
        jobs.read_exact(&mut left).unwrap();
        assert_eq!(left.iter().filter(|&&byte| byte == b'+').count(), tokens, "all tokens came back");
    }
}

#[test]
fn gcc_finds_it_by_every_name() {
    need!(tools::own_linker());
    let work = Work::new();
    let main = work.c("main", "int main(void) { return 0; }", &[]);
    for option in ["", "-fuse-ld=bfd", "-fuse-ld=gold", "-fuse-ld=lld", "-fuse-ld=mold"] {
        let mut args = vec!["-o", "program", main.as_str()];
        if !option.is_empty() {
            args.push(option);
        }
        work.gcc(&args).quiet();
        work.run("program");
        assert!(work.made_here("program"), "{option}");
    }
}

#[test]
fn clang_finds_it_by_path_and_by_name() {
    need!(tools::own_linker());
    let clang = need!(tools::clang("clang"));
    let work = Work::new();
    work.write("main.c", "int main(void) { return 0; }");
    let path = format!("--ld-path={}", work::linker().display());
    work.command(&clang, &[&path, "-o", "program", "main.c"]).ok();
    work.run("program");
    assert!(work.made_here("program"));
    std::os::unix::fs::symlink(work::linker(), work.path("ld.sframe")).unwrap();
    let prefix = format!("-B{}", work.path("").display());
    work.command(&clang, &[&prefix, "-fuse-ld=sframe", "-o", "program", "main.c"]).ok();
    assert!(work.made_here("program"));
}

/// A package with a program and a test.
fn cargo_package() -> Work {
    let mut work = Work::new();
    work.write(
        "Cargo.toml",
        "[package]\nname = \"hello\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    );
    work.write("src/main.rs", "fn main() { let r = std::panic::catch_unwind(|| panic!(\"x\")); println!(\"{}\", r.is_err()); }\n#[test] fn t() { assert_eq!(1 + 1, 2); }\n");
    work.env("CARGO_TARGET_DIR", &work.path("target").display().to_string());
    work
}

#[test]
fn cargo_builds_and_tests_through_it() {
    need!(tools::own_linker());
    let cargo = need!(tools::program("cargo"));
    let mut work = cargo_package();
    let directory = work::linker_directory().display().to_string();
    // Without the first flag, rustc puts a folder with its own linker before ours.
    work.env("RUSTFLAGS", &format!("-Clink-self-contained=-linker -Clink-arg=-B{directory}"));
    work.linked(&cargo, &["build", "--offline", "--quiet"]).ok();
    work.linked(&cargo, &["test", "--offline", "--quiet"]).ok();
    assert!(work.made_here("target/debug/hello"));
    assert_eq!(work.run("target/debug/hello"), "true\n");
}

#[test]
fn cargo_takes_it_from_its_configuration() {
    need!(tools::own_linker());
    let cargo = need!(tools::program("cargo"));
    let work = cargo_package();
    let directory = work::linker_directory().display();
    let flags = format!("rustflags = [\"-Clink-self-contained=-linker\", \"-Clink-arg=-B{directory}\"]\n");
    work.write(".cargo/config.toml", format!("[target.'cfg(all())']\n{flags}"));
    // Flags from the environment would replace those of the file.
    let shell = "unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS; exec \"$0\" \"$@\"";
    let cargo = cargo.display().to_string();
    work.linked("sh", &["-c", shell, &cargo, "build", "--offline", "--quiet"]).ok();
    assert!(work.made_here("target/debug/hello"));
    assert_eq!(work.run("target/debug/hello"), "true\n");
}

#[test]
fn rustc_names_lld_and_still_reaches_it() {
    need!(tools::own_linker());
    let rustc = need!(tools::program("rustc"));
    let work = Work::new();
    work.write("main.rs", "fn main() { println!(\"hello\"); }");
    let prefix = format!("-Clink-arg=-B{}", work::linker_directory().display());
    for extra in [
        &["-Clink-arg=-fuse-ld=lld"][..],
        &["-Copt-level=2", "-Cstrip=symbols"],
        &["-Cprefer-dynamic=no", "-Crelocation-model=static"],
    ] {
        let mut args = vec!["-o", "program", "main.rs", "-Clink-self-contained=-linker", prefix.as_str()];
        args.extend(extra);
        work.linked(&rustc, &args).ok();
        assert_eq!(work.run("program"), "hello\n");
        assert!(work.made_here("program"), "{extra:?}");
        work.elf("program");
    }
}

#[test]
fn a_link_by_another_linker_is_noticed() {
    let work = Work::new();
    let main = work.c("main", "int main(void) { return 0; }", &[]);
    work.write_program("gnu/ld", "#!/bin/sh\nexec ld \"$@\"\n");
    let [foreign, ours] =
        [work.path("gnu"), work::linker_directory().into()].map(|it| format!("-B{}", it.display()));
    let link = |folders: &[&str]| {
        let words = [folders, &["-o", "program", &main]].concat();
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work.linked("gcc", &words).ok()))
    };
    assert!(link(&[&ours, &foreign]).is_ok());
    for folders in [&[foreign.as_str(), &ours][..], &[]] {
        let complaint = link(folders).expect_err("GNU ld has linked");
        let text = complaint.downcast::<String>().unwrap();
        assert!(text.contains("linked by another linker"), "{text}");
        assert!(work.exists("program"), "the link itself is sound");
    }
}
