//! Tests the names of functions of files that have no symbol table.

mod common;

use common::Writer;
use common::unwound::{Unwound, fixture, unwind};
use stacks::files::Options;
use stacks::kernel::Kernel;
use stacks::nameless::{nameless, of_made_code, of_scripts};
use stacks::profile::{Name, Names};
use stacks::session::Settings;
use stacks::write::Format;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const STACK: u64 = 0x7ffe_0000_1000;
/// The build-id of `identified`.
const ID: &str = "00112233445566778899aabbccddeeff";
const ID_BYTES: [u8; 16] =
    [0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];

/// Samples of a program, one at each of some instructions.
fn samples(program: &str, places: &[u64]) -> Unwound {
    samples_of(&fixture(&format!("tests/fixtures/{program}")), places, Options::default())
}

fn samples_of(path: &str, places: &[u64], files: Options) -> Unwound {
    let mut writer = Writer::default();
    writer.mmap(7, (0x40_0000, 0x1000, 0), path, 2);
    for (time, &ip) in (10..).zip(places) {
        writer.sample(7, time, [STACK, 5, ip], &[], &[]);
    }
    unwind(writer.file(), Settings { files, ..Settings::default() })
}

/// The names of each sample's first frame, innermost first.
fn names(unwound: &Unwound, inlined: bool) -> Vec<Vec<Name>> {
    let names = Names::new(&unwound.profile, &unwound.files, &Kernel::default(), inlined);
    let first = |stack| unwound.profile.frames_of(stack).next().expect("a frame");
    unwound.profile.rows.iter().map(|row| names.of(first(row.stack)).to_vec()).collect()
}

/// Processes have a file at different addresses. They share its names, and each frame has its own address.
#[test]
fn processes_share_the_names_of_a_file() {
    let path = fixture("tests/fixtures/expressions");
    let mut writer = Writer::default();
    for (pid, address) in [(7, 0x40_0000), (8, 0x50_0000)] {
        writer.mmap(pid, (address, 0x1000, 0), &path, 2);
        writer.sample(pid, 10, [STACK, 5, address + 0xc8], &[], &[]);
        writer.sample(pid, 11, [STACK, 5, address + 0xc9], &[], &[]);
    }
    let unwound = unwind(writer.file(), Settings::default());
    let all = names(&unwound, false);
    assert!(all[0] == all[1] && all[2] == all[3] && all[0] != all[2]);
    let text = String::from_utf8(unwound.written(Format::Text)).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("expressions")).collect();
    let [of_first, of_other, ..] = lines[..] else { panic!("{text}") };
    assert_eq!(of_first.replace("4000c8 ", "5000c8 "), of_other);
    assert!(of_first.contains("4000c8 "), "{text}");
}

/// What is said of code that a program made depends on the files that it has mapped.
#[test]
fn a_sentence_says_how_a_program_names_the_code_that_it_makes() {
    let sentences = |library: &str, places: &[u64]| {
        let mut writer = Writer::default();
        writer.mmap(7, (0x40_0000, 0x1000, 0), &fixture("tests/fixtures/expressions"), 2);
        writer.mmap(7, (0x7000_0000, 0x1000, 0), library, 3);
        writer.mmap(7, (0x7100_0000, 0x1000, 0), "//anon", 4);
        for (time, &ip) in (10..).zip(places) {
            writer.sample(7, time, [STACK, 5, ip], &[], &[]);
        }
        let unwound = unwind(writer.file(), Settings::default());
        let names = Names::new(&unwound.profile, &unwound.files, &Kernel::default(), false);
        of_made_code(&unwound.profile, &names, &unwound.files)
    };
    let made = [0x7100_0010, 0x7100_0020, 0x40_00c8, 0x40_00c8];
    let of_java = sentences("/opt/jdk/lib/server/libjvm.so", &made);
    assert!(of_java[0].starts_with("50 % of the samples") && of_java[0].contains("DumpPerfMapAtExit"));
    assert!(of_java[1].starts_with("50 % of the stacks") && of_java[1].contains("PreserveFramePointer"));
    let of_node = sentences("/usr/lib/libnode.so.108", &made);
    assert!(of_node[0].contains("--perf-basic-prof") && !of_node[1].contains("java"), "{of_node:?}");
    let of_php = sentences("/usr/bin/php8.2", &made);
    assert!(
        of_php.len() == 2 && of_php.iter().all(|text| text.contains("opcache.jit_debug=272")),
        "{of_php:?}"
    );
    assert!(sentences("/usr/bin/mono-sgen", &made)[0].contains("`mono --jitmap`"));
    assert!(sentences("/usr/lib/erlang/erts-13.1.5/bin/beam.smp", &made)[0].contains("+JPperf true"));
    let of_another = sentences("/usr/lib/libnodejs.so", &made);
    assert!(of_another[0].contains("/tmp/perf-PID.map or a jitdump"), "{of_another:?}");
    assert!(sentences("/opt/jdk/lib/server/libjvm.so", &[0x40_00c8]).is_empty());
    // The program's own code, called by code that it made.
    let mut writer = Writer::default();
    writer.mmap(7, (0x40_0000, 0x1000, 0), &fixture("tests/fixtures/expressions"), 2);
    writer.mmap(7, (0x7100_0000, 0x1000, 0), "//anon", 4);
    writer.sample_with(7, 10, 0x40_00c8, &[(-512i64) as u64, 0x40_00c8, 0x7100_0011], None);
    let unwound = unwind(writer.file(), Settings::default());
    let names = Names::new(&unwound.profile, &unwound.files, &Kernel::default(), false);
    let called = of_made_code(&unwound.profile, &names, &unwound.files);
    assert!(called[0].starts_with("100 % of the samples pass through functions without names"), "{called:?}");
}

/// Python gives functions frames of their own if it is asked to.
#[test]
fn a_sentence_says_how_functions_of_a_script_get_frames() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("tmp")).unwrap();
    let sentence = |path: &str, list: &str| {
        std::fs::write(root.path().join("tmp/perf-7.map"), list).unwrap();
        let mut writer = Writer::default();
        writer.mmap(7, (0x40_0000, 0x1000, 0), &fixture("tests/fixtures/expressions"), 2);
        writer.mmap(7, (0x7000_0000, 0x1000, 0), path, 3);
        writer.mmap(7, (0x7100_0000, 0x1000, 0), "//anon", 4);
        let chain = [(-512i64) as u64, 0x40_00c8, 0x7100_0011, 0x7000_0010];
        writer.sample_with(7, 10, 0x40_00c8, &chain, None);
        writer.sample_with(7, 11, 0x40_00c8, &chain[..2], None);
        let mut settings = Settings::default();
        settings.files.sysroot = Some(root.path().to_owned());
        let unwound = unwind(writer.file(), settings);
        let names = Names::new(&unwound.profile, &unwound.files, &Kernel::default(), false);
        of_scripts(&unwound.profile, &names, &unwound.files)
    };
    for python in ["/usr/bin/python3.11", "/opt/lib/libpython3.13.so.1.0"] {
        let found = sentence(python, "").unwrap();
        assert!(found.starts_with("50 % of the samples") && found.contains("python3 -X perf"), "{found}");
        assert_eq!(sentence(python, "71000000 20 py::main:/a.py\n"), None);
    }
    assert_eq!(sentence("/usr/lib/python3.11/lib-dynload/_json.so", ""), None);
    assert_eq!(sentence("/usr/bin/python3-config", ""), None);
}

#[test]
fn a_function_without_a_symbol_is_named_by_its_start() {
    let unwound = samples("expressions", &[0x40_00c8, 0x40_00d0, 0x40_00e2, 0x40_00dd]);
    let names = names(&unwound, false);
    let found: Vec<_> = names.iter().map(|names| (&*names[0].function, names[0].offset)).collect();
    // Between two functions, nothing says where code starts.
    let plus = "expressions+0x4000c0";
    let expected = [
        (plus, Some(8)),
        (plus, Some(16)),
        ("expressions+0x4000e0", Some(2)),
        ("expressions+0x4000dd", None),
    ];
    assert_eq!(found, expected);
    assert!(names.iter().all(|names| !names[0].known));
}

/// The functions at an address of a program, innermost first, and whether each is inlined.
fn functions(program: &str, address: u64) -> Vec<(String, bool)> {
    let names = names(&samples(program, &[address]), true);
    names[0].iter().map(|name| (name.function.to_string(), name.inlined)).collect()
}

#[test]
fn symbols_that_are_compressed_into_a_file_are_read() {
    for (address, function) in [(0x40_00c8, "plus"), (0x40_00e2, "branch"), (0x40_00b0, "_start")] {
        assert_eq!(functions("mini", address), [(function.to_owned(), false)]);
    }
}

/// dwz moves it to a file that is shared, split DWARF to a file for each object or to one for all.
#[test]
fn inlined_functions_are_found_wherever_their_description_is() {
    for program in ["inlined_dwz", "inlined_split", "inlined_package"] {
        let expected = [("inner".to_owned(), true), ("outer".to_owned(), false)];
        assert_eq!(functions(program, 0x40_00fa), expected, "{program}");
        assert_eq!(functions(program, 0x40_011b), expected[1..], "{program}");
    }
}

/// The file with a build-id and without symbols, and a file that has them.
fn identified() -> (Vec<u8>, Vec<u8>) {
    let [stripped, whole] = ["identified", "identified.debug"]
        .map(|name| fs::read(fixture(&format!("tests/fixtures/{name}"))).unwrap());
    (stripped, whole)
}

#[test]
fn debug_files_are_found_below_the_sysroot_or_fetched() {
    const PATH: &str = "/bin/identified";
    const WORK: u64 = 0x40_0150;
    let (stripped, whole) = identified();
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("bin")).unwrap();
    fs::write(root.path().join("bin/identified"), stripped).unwrap();
    let options = |fetcher| Options { sysroot: Some(root.path().to_owned()), fetcher, ..Options::default() };
    let named = |fetcher| {
        let unwound = samples_of(PATH, &[WORK], options(fetcher));
        let all = Names::new(&unwound.profile, &unwound.files, &Kernel::default(), false);
        (names(&unwound, false)[0][0].function.to_string(), nameless(&unwound.profile, &all, &unwound.files))
    };
    let (name, sentences) = named(None);
    assert!(name.starts_with("identified+0x"), "{name}");
    let [sentence] = &sentences[..] else { panic!("{sentences:?}") };
    assert!(
        sentence.starts_with("/bin/identified: 100 % of the samples") && sentence.contains(ID),
        "{sentence}"
    );

    // A program that does what debuginfod-find does.
    let (fetcher, kept) = (root.path().join("fetcher"), root.path().join("kept"));
    fs::write(&kept, &whole).unwrap();
    let script = format!("#!/bin/sh\n[ \"$1 $2\" = \"debuginfo {ID}\" ] && echo '{}'\n", kept.display());
    fs::write(&fetcher, script).unwrap();
    fs::set_permissions(&fetcher, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(named(Some(fetcher)), ("outer".to_owned(), Vec::new()));

    let folder = root.path().join("usr/lib/debug/.build-id").join(&ID[..2]);
    fs::create_dir_all(&folder).unwrap();
    let place = folder.join(format!("{}.debug", &ID[2..]));
    fs::write(&place, &whole).unwrap();
    assert_eq!(named(None), ("outer".to_owned(), Vec::new()));
    // A file of another build does not count.
    let at = whole.windows(ID_BYTES.len()).position(|window| window == ID_BYTES).unwrap();
    let mut other = whole;
    other[at] ^= 1;
    fs::write(&place, other).unwrap();
    assert_eq!(named(None).0, name);
}
