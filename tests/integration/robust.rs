//! The same bytes every time, no incomplete output, devices stay in place, and no bytes crash the linker.

use crate::need;
use crate::support::elf::*;
use crate::support::work::linker;
use crate::support::{Work, tools};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// A program that uses most passes: templates, strings, exceptions, TLS, common symbols, debug information.
fn mixed_objects(work: &Work) -> Vec<String> {
    let header = "#include <map>\n#include <string>\n#include <vector>\ntemplate <int N> struct T { static std::map<std::string, int> &table() { static std::map<std::string, int> t; t[\"key\" + std::to_string(N)] = N; return t; } };\nextern thread_local int tls;\n";
    let mut objects = Vec::new();
    for i in 0..6 {
        let source = format!(
            "{header}int f{i}() {{ tls += {i}; try {{ return (int)T<{0}>::table().size() + (int)T<{1}>::table().at(\"key{1}\"); }} catch (...) {{ return 0; }} }}",
            i,
            i % 3
        );
        objects.push(work.cc(&format!("f{i}"), &source, &["-g", "-ffunction-sections"]));
    }
    let calls: Vec<String> = (0..6).map(|i| format!("f{i}()")).collect();
    let declarations: String = (0..6).map(|i| format!("int f{i}();")).collect();
    let main = format!(
        "{header}#include <cstdio>\n{declarations}\nthread_local int tls;\nint main() {{ std::printf(\"%d %d\\n\", {}, tls); }}",
        calls.join("+")
    );
    objects.push(work.cc("main", &main, &["-g"]));
    objects
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let work = Work::new();
    let objects = mixed_objects(&work);
    let modes: [&[&str]; 4] = [
        &["-pie", "-Wl,--gc-sections", "-Wl,--build-id=sha1"],
        &["-static", "-Wl,--build-id=sha1"],
        &[
            "-pie",
            "-Wl,-O2",
            "-Wl,-z,pack-relative-relocs",
            "-Wl,--compress-debug-sections=zstd",
            "-Wl,-Map=out.map",
        ],
        &["-r"],
    ];
    for mode in modes {
        let mut expected: Option<(Vec<u8>, Vec<u8>)> = None;
        for threads in ["1", "2", "3", "8", "8", "32"] {
            let option = format!("-Wl,--threads={threads}");
            let mut args = vec!["-o", "program", &option];
            args.extend(mode);
            args.extend(objects.iter().map(String::as_str));
            work.gxx(&args).ok();
            let map = if work.exists("out.map") { work.read("out.map") } else { Vec::new() };
            let got = (work.read("program"), map);
            match &expected {
                None => expected = Some(got),
                Some(first) => {
                    assert!(first.0 == got.0, "{mode:?}: {threads} threads give other bytes");
                    assert!(first.1 == got.1, "{mode:?}: {threads} threads give another map");
                }
            }
        }
        if mode[0] != "-r" {
            work.run("program");
        }
    }
}

/// Tools that watch a program run it in an environment of their own; valgrind hides the kernel's page of
/// clocks.
#[test]
fn links_under_valgrind() {
    need!(tools::own_linker());
    let valgrind = need!(tools::valgrind());
    let work = Work::new();
    let object = work.c("main", "int main(void) { return 0; }", &["-g", "-ffunction-sections"]);
    let link = ["-e", "main", "--gc-sections", "--threads=2", &object, "-o"];
    work.ld(&[&link[..], &["alone"]].concat()).quiet();
    let linker = linker();
    let watched = ["--quiet", "--tool=none", linker.to_str().unwrap()];
    work.command(valgrind, &[&watched[..], &link, &["watched"]].concat()).quiet();
    assert!(work.read("alone") == work.read("watched"));
}

#[test]
fn diagnostics_are_the_same_for_any_number_of_threads() {
    let work = Work::new();
    let declarations: String = (0..30).map(|i| format!("int missing{i}(void);")).collect();
    let mut objects = Vec::new();
    for f in 0..8 {
        let calls: String = (0..30).map(|i| format!("+ missing{i}()")).collect();
        objects.push(work.c(
            &format!("o{f}"),
            &format!("{declarations} int f{f}(void) {{ return 0 {calls}; }}"),
            &[],
        ));
    }
    let text = |threads: &str| {
        let option = format!("--threads={threads}");
        let mut args = vec!["-o", "program", option.as_str()];
        args.extend(objects.iter().map(String::as_str));
        work.ld(&args).fails().stderr
    };
    let expected = text("1");
    for threads in ["2", "3", "8"] {
        assert_eq!(text(threads), expected, "{threads} threads");
    }
}

#[test]
fn a_failed_link_keeps_the_old_output() {
    let work = Work::new();
    let good = work.s("good", ".globl _start\n_start: ret\n");
    let bad = work.s("bad", ".globl _start\n_start: call missing\n");
    work.ld(&["-o", "program", &good]).quiet();
    let before = work.read("program");
    work.ld(&["-o", "program", &bad]).fails();
    assert!(work.exists("program"), "the old output stays");
    assert_eq!(work.read("program"), before);
    work.ld(&["-o", "fresh", &bad]).fails();
    assert!(!work.exists("fresh"));
    let leftovers: Vec<String> = std::fs::read_dir(work.path("."))
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|n| !["good.s", "good.o", "bad.s", "bad.o", "program"].contains(&n.as_str()))
        .collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
}

#[test]
fn a_running_program_can_be_linked_again() {
    let work = Work::new();
    let main = work.c("main", "#include <unistd.h>\nint main(void) { sleep(1); return 0; }", &[]);
    work.gcc(&["-o", "program", &main]).quiet();
    let mut child = std::process::Command::new(work.path("program")).spawn().unwrap();
    work.gcc(&["-o", "program", &main]).quiet();
    assert!(child.wait().unwrap().success());
    work.elf("program");
}

/// As with GNU ld, lld and mold, the name gets a new file, and the file that it led to keeps its bytes.
#[test]
fn an_output_that_is_a_link_becomes_a_file_of_its_own() {
    let work = Work::new();
    let a = work.s("a", ".globl _start\n_start: ret\n");
    work.write("target", "old");
    std::os::unix::fs::symlink("target", work.path("symbolic")).unwrap();
    std::fs::hard_link(work.path("target"), work.path("hard")).unwrap();
    for link in ["symbolic", "hard"] {
        work.ld(&["-o", link, &a]).quiet();
        work.elf(link);
        assert!(std::fs::symlink_metadata(work.path(link)).unwrap().is_file(), "{link}");
        assert_eq!(work.read("target"), b"old", "{link}");
    }
}

#[test]
fn a_pipe_is_written_to_and_stays_a_pipe() {
    let work = Work::new();
    let a = work.s("a", ".globl _start\n_start: ret\n");
    work.command("mkfifo", &["pipe"]).ok();
    let path = work.path("pipe");
    let reader = std::thread::spawn(move || std::fs::read(path).unwrap());
    work.ld(&["-o", "pipe", &a]).ok();
    assert!(std::fs::metadata(work.path("pipe")).unwrap().file_type().is_fifo());
    let bytes = reader.join().unwrap();
    work.ld(&["-o", "file", &a]).ok();
    assert!(bytes == work.read("file"), "the same bytes as in a file");
}

#[test]
fn a_device_is_written_to_and_stays_a_device() {
    let work = Work::new();
    let a = work.s("a", ".globl _start\n_start: ret\n");
    let made = work.command("mknod", &["-m", "666", "device", "c", "1", "3"]);
    if made.code != Some(0) {
        tools::skip("robust::a_device_is_written_to_and_stays_a_device", "mknod is not allowed here");
        return;
    }
    let before = std::fs::metadata(work.path("device")).unwrap();
    let outcome = work.ld(&["-o", "device", &a]).no_crash();
    let after = std::fs::metadata(work.path("device")).unwrap();
    assert!(after.file_type().is_char_device(), "the device node was replaced: {outcome}");
    assert_eq!((before.ino(), before.rdev(), before.mode()), (after.ino(), after.rdev(), after.mode()));
    outcome.ok();
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let work = Work::new();
    let a = work.s("a", ".globl _start\n_start: ret\n");
    work.ld(&["-o", "no/such/directory/out", &a]).fails().says(&["no/such/directory/out"]);
    std::fs::create_dir(work.path("dir")).unwrap();
    work.ld(&["-o", "dir", &a]).fails().says(&["dir"]);
}

#[test]
fn a_reproduce_archive_replays_the_link() {
    let tar = need!(tools::program("tar"));
    let work = Work::new();
    let main = work.c("main", "int f(void); int main(void) { return f(); }", &[]);
    let f = work.c("f", "int f(void) { return 0; }", &[]);
    work.ar("libf.a", "", &[&f]);
    work.write("map", "{ global: main; local: *; };");
    let args =
        ["-o", "program", &main, "-L.", "-lf", "-e", "main", "--version-script=map", "--build-id=sha1"];
    work.ld(&[&args[..], &["--reproduce=replay.tar"]].concat()).ok();
    let expected = work.read("program");
    work.command(tar, &["-xf", "replay.tar"]).ok();
    let root = work.path("replay");
    assert!(root.join("response.txt").is_file(), "replay/response.txt");
    for name in ["main.o", "libf.a", "map", "program"] {
        std::fs::remove_file(work.path(name)).unwrap();
    }
    let outcome = std::process::Command::new(crate::support::work::linker())
        .arg("@response.txt")
        .current_dir(&root)
        .output()
        .unwrap();
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
    assert!(std::fs::read(root.join("program")).unwrap() == expected);
}

/// A small random generator with a fixed seed, so that a failure can be repeated.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

fn mutate(
    work: &Work,
    name: &str,
    original: &[u8],
    rounds: usize,
    link: impl Fn() -> [Vec<&'static str>; 2],
) {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15 ^ original.len() as u64);
    let headers = quad(original, 40) as usize;
    for round in 0..rounds {
        let mut bytes = original.to_vec();
        for _ in 0..=numbers.below(3) {
            let at = if numbers.below(2) == 0 && headers < bytes.len() {
                headers + numbers.below(bytes.len() - headers)
            } else {
                numbers.below(bytes.len())
            };
            bytes[at] = match numbers.below(4) {
                0 => 0xff,
                1 => 0,
                2 => bytes[at] ^ (1 << numbers.below(8)),
                _ => numbers.below(256) as u8,
            };
        }
        if numbers.below(10) == 0 {
            bytes.truncate(numbers.below(bytes.len()));
        }
        work.write(name, &bytes);
        for args in link() {
            let outcome = work.ld(&args);
            let fine = matches!(outcome.code, Some(0 | 1)) && !outcome.stderr.contains("panicked");
            if !fine || outcome.stderr.contains("internal error") {
                let kept =
                    std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("crash-{round}-{name}"));
                std::fs::write(&kept, &bytes).unwrap();
                panic!("round {round}, bytes kept as {}: {outcome}", kept.display());
            }
        }
    }
}

#[test]
fn damaged_objects_never_crash_the_link() {
    let work = Work::new();
    let inline = "inline __attribute__((noinline)) int twice(int x) { volatile int y = x; return y * 2; }\n";
    work.cc(
        "good",
        &format!("{inline}int use() {{ return twice(1); }}\nextern \"C\" void _start() {{}}"),
        &[],
    );
    let object = work.cc("subject", &format!("{inline}thread_local int t = 3; const char *s = \"words\"; int f() {{ try {{ return twice(t); }} catch (...) {{ return 1; }} }}"), &["-g", "-gz"]);
    let original = work.read(&object);
    mutate(&work, "subject.o", &original, 150, || {
        [
            vec!["-o", "out", "good.o", "subject.o", "--gc-sections", "--unresolved-symbols=ignore-all"],
            vec!["-r", "-o", "out.o", "good.o", "subject.o"],
        ]
    });
}

#[test]
fn damaged_shared_libraries_and_archives_never_crash_the_link() {
    let work = Work::new();
    work.s("good", ".globl _start\n_start: call f@PLT\nret\n");
    let f = work.c("f", "int f(void) { return 1; } int data = 2;", &["-fPIC"]);
    work.write("map", "V1 { global: f; data; local: *; };");
    work.gcc(&["-shared", "-nostdlib", "-o", "libf.so", &f, "-Wl,--version-script=map"]).ok();
    let library = work.read("libf.so");
    mutate(&work, "libf.so", &library, 100, || {
        [vec!["-o", "out", "good.o", "libf.so"], vec!["-shared", "-o", "out.so", "good.o", "libf.so"]]
    });
    work.ar("libf.a", "", &[&f]);
    let archive = work.read("libf.a");
    mutate(&work, "libf.a", &archive, 100, || {
        [vec!["-o", "out", "good.o", "libf.a"], vec!["-o", "out", "--whole-archive", "libf.a", "good.o"]]
    });
}

/// Fields that mean nothing, or something impossible, do not reach the output. A symbol table whose parts
/// contradict its header is refused, as by GNU ld and lld.
#[test]
fn fields_that_cannot_be_do_not_come_into_the_output() {
    let work = Work::new();
    work.s("object", ".globl _start\n_start: ret\nlocal: ret\n.data\n.globl word\nword: .quad local\n");
    let original = work.read("object.o");
    let elf = Elf::parse(original.clone()).unwrap();
    let header = |name: &str| quad(&original, 40) as usize + elf.section(name).index * 64;
    // sh_entsize, and SHF_INFO_LINK among sh_flags with an sh_info that is not the number of a section.
    for (at, value) in [(header(".data") + 56, u64::MAX), (header(".data") + 8, 3 | 0x40)] {
        let mut bytes = original.clone();
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        work.write("damaged.o", bytes);
        for mode in [&["-shared"][..], &["-r"], &[]] {
            work.ld(&[mode, &["-o", "out", "damaged.o"]].concat()).ok();
            let out = work.elf("out");
            let data = out.section(".data");
            assert!(data.entsize == 0 && data.flags & 0x40 == 0, "{mode:?}");
        }
    }
    let symbols = elf.section(".symtab").offset as usize;
    let globals = word(&original, header(".symtab") + 44) as usize;
    let mut bytes = original.clone();
    bytes[symbols + globals * 24 + 4] &= 0xf;
    work.write("damaged.o", bytes);
    let message =
        format!("symbol {globals} is local, but the symbol table says that globals begin at {globals}");
    work.ld(&["-o", "out", "damaged.o"]).fails().says(&[&message]);
}
