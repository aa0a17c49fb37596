//! The text is libiberty's. `names.tsv` has names of every kind with the text of `c++filt -i` of binutils
//! 2.47. For all names in the libraries of the installed compilers, the machine's own `c++filt` gives the
//! text.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

fn names() -> Vec<(&'static str, &'static str)> {
    include_str!("names.tsv").lines().filter_map(|line| line.split_once('\t')).collect()
}

/// The text of a name, or the name itself if it is not mangled.
fn text(name: &str) -> String {
    let text = demangle::demangle(name.as_bytes());
    text.map_or_else(|| name.to_owned(), |text| String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn names_of_every_kind_have_libibertys_text() {
    let names = names();
    assert!(names.len() > 300);
    let wrong: Vec<String> = names
        .iter()
        .filter(|(name, expected)| text(name) != *expected)
        .map(|(name, expected)| format!("{name}\n  has     {}\n  expects {expected}", text(name)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn broken_names_do_no_harm() {
    let names = names();
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for round in 0..200_000 {
        let mut name = names[round % names.len()].0.as_bytes().to_vec();
        for _ in 0..=random(3) {
            let other = names[random(names.len())].0.as_bytes();
            let at = random(name.len() + 1);
            match random(4) {
                0 => name.truncate(at.max(2)),
                1 => drop(name.splice(at..at, other[random(other.len())..].iter().copied())),
                2 if at < name.len() => name[at] = other[random(other.len())],
                _ if at < name.len() => drop(name.remove(at)),
                _ => {}
            }
        }
        drop(demangle::demangle(&name));
    }
}

/// Names that nest without end, or whose text would be endless, are rejected or truncated in a thread with
/// the usual stack.
#[test]
fn depth_and_length_are_bounded() {
    let many = |text: &str| text.repeat(100_000);
    for name in [
        format!("_Z1f{}i", many("P")),
        format!("_Z1f{}i{}", many("1AI"), many("E")),
        format!("_Z1f{}", many("F")),
        format!("_Z1fDT{}", many("ng")),
        format!("_Z1fDT{}", many("sr")),
        format!("_Z{}", many("Z")),
        format!("_Z{}1f", many("N")),
        format!("_Z1f{}", many("M")),
        format!("_ZN{}E", many("1A")),
        format!("_Z1f{}v", many("Ul")),
        format!("_ZZ1fvENKUl{}T_E_clEv", many("Tt")),
        format!("_Z1f{}i", many("A_")),
        format!("_Z1f{}i", many("K")),
        format!("_ZN{}1A1fEi", many("K")),
        format!("{}x", many("_GLOBAL__I_")),
        format!("{}_Z1fi", many("_GLOBAL__D_")),
        format!("_Z1f{}v{}", "PF".repeat(500), "vE".repeat(500)),
    ] {
        drop(demangle::demangle(name.as_bytes()));
    }
    // Every substitution contains the one before it twice.
    let digits = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let doubled: String = digits.iter().map(|&digit| format!("1AIS{0}_S{0}_E", char::from(digit))).collect();
    assert!(demangle::demangle(format!("_Z1f1AIiiE{doubled}").as_bytes()).is_none_or(|t| t.len() <= 2 << 20));
}

/// Templates that each have the one before as their arguments, twice. The first one is `1AIiiE`, after a
/// function's name.
fn doubled() -> String {
    let digits = ('0'..='9').chain('A'..='Z').step_by(2).take(14);
    digits.map(|digit| format!("1AIS{digit}_S{digit}_E")).collect()
}

/// A demangler that does not count would read or visit the parts of these names once for each other part.
#[test]
fn work_is_in_proportion_to_the_name() {
    const N: usize = 50_000;
    let many = |text: &str| text.repeat(N);
    // A template parameter far back in the list.
    let last = format!("T{}_", "2O9Z");
    let doubled = doubled();
    for name in [
        format!("_Z1fIJ{}EEvDpT_", many("i")),
        format!("_Z1fI{}Ev{}", many("i"), last.repeat(N / 4)),
        format!("_Z1fIiEv{}", many("RT_")),
        format!("_ZZ1fvENKUl{}T_E_clEv", many("Ty")),
        format!("_Z1fI1AIiiE{doubled}EvDpSS_"),
        format!("_ZN{}1AIiE1fEv{}", many("K"), many("M")),
        format!("_ZN1Acv{}{}", "T_I".repeat(60), many("S_")),
        format!("_ZN1Acv{}{}", "T_I".repeat(60), many("i")),
        // A constant with many zeros, and many references back to it.
        format!("_RIC1aKj{}_{}E", "0".repeat(N / 20), "KB4_".repeat(N / 20)),
    ] {
        let text = demangle::demangle(name.as_bytes());
        assert!(text.is_none_or(|text| text.len() < 256 * name.len()), "{}", &name[..20]);
    }
}

/// A file may have many names whose text is as long as that of any name may be. So the limit depends on the
/// name's length.
#[test]
fn short_names_have_no_endless_text() {
    let name = format!("_Z1f1AIiiE{}", doubled());
    assert!(demangle::demangle(name.as_bytes()).is_none());
}

#[test]
fn names_that_functions_are_keyed_to_do_not_nest() {
    assert_eq!(text("_GLOBAL__I__Z1fi"), "global constructors keyed to f(int)");
    assert_eq!(text("_GLOBAL__D_main"), "global destructors keyed to main");
    assert_eq!(text("_GLOBAL__I__GLOBAL__I_x"), "global constructors keyed to _GLOBAL__I_x");
    assert_eq!(text("_GLOBAL__I__Znot a name"), "_GLOBAL__I__Znot a name");
}

/// The names of a library's symbols, without their versions.
fn symbols(library: &PathBuf) -> Vec<String> {
    let mut found = Vec::new();
    for dynamic in [false, true] {
        let mut nm = Command::new("nm");
        nm.args(dynamic.then_some("-D")).arg(library);
        let output = nm.stderr(Stdio::null()).output().expect("nm comes with the compiler");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        found.extend(text.lines().filter_map(|line| {
            let name = line.rsplit(' ').next()?.split('@').next()?;
            (name.starts_with("_Z") || name.starts_with("_R")).then(|| name.to_owned())
        }));
    }
    found.sort();
    found.dedup();
    found
}

fn cxxfilt(names: &[String]) -> Vec<String> {
    let mut filter = Command::new("c++filt")
        .arg("-i")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("c++filt comes with the compiler");
    let mut input = filter.stdin.take().expect("stdin is piped");
    let text = names.join("\n") + "\n";
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = filter.wait_with_output().expect("c++filt runs");
    writer.join().expect("the writer runs").expect("c++filt reads everything");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// libiberty reads constants of more than 64 bits one byte too far (`0xfff_` for `0x7fff`).
fn has_wide_constant(name: &str, expected: &str) -> bool {
    let misread =
        |part: &str| part.trim_start_matches(|digit: char| digit.is_ascii_hexdigit()).starts_with('_');
    name.starts_with("_R") && expected.split("0x").skip(1).any(misread)
}

fn compare(libraries: &[PathBuf]) -> usize {
    let mut names: Vec<String> = libraries.iter().flat_map(symbols).collect();
    names.sort();
    names.dedup();
    let expected = cxxfilt(&names);
    assert_eq!(names.len(), expected.len());
    let wrong: Vec<String> = names
        .iter()
        .zip(&expected)
        .filter(|(name, expected)| text(name) != **expected && !has_wide_constant(name, expected))
        .map(|(name, expected)| format!("{name}\n  has     {}\n  expects {expected}", text(name)))
        .collect();
    let first = wrong.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {}:\n{first}", wrong.len(), names.len());
    names.len()
}

fn words(program: &str, arguments: &[&str]) -> PathBuf {
    let output = Command::new(program).args(arguments).output().expect("it comes with the toolchain");
    String::from_utf8_lossy(&output.stdout).trim().into()
}

#[test]
fn names_of_the_cpp_library_have_libibertys_text() {
    let libraries =
        ["libstdc++.so", "libstdc++.a"].map(|name| words("g++", &[&format!("-print-file-name={name}")]));
    assert!(compare(&libraries) > 5000);
}

#[test]
fn names_of_the_compiler_and_llvm_have_libibertys_text() {
    let folder = words("rustc", &["--print", "sysroot"]).join("lib");
    let libraries: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the toolchain has libraries")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            (name.starts_with("librustc_driver") || name.starts_with("libLLVM"))
                && std::fs::metadata(path).is_ok_and(|file| file.len() > 1 << 20)
        })
        .collect();
    assert!(!libraries.is_empty());
    assert!(compare(&libraries) > 100_000);
}
